//! Every step of every lesson that ships, typed exactly as the guide shows it: at a joined seat, in the page's console, and with
//! kubectl alone. After each step its checks hold.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::running::Running;
use crate::environment::has_kubectl;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const JSON: (&str, &str) = ("content-type", "application/json");

/// How a learner types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hands {
    /// With klab and kubectl, in a shell.
    Joined,
    /// In the console of the page.
    Page,
    /// With kubectl in a shell, where a line of the class makes `klab` of it.
    Kubectl,
}

/// A learner at a seat.
struct Learner<'h> {
    host: &'h Running,
    lab: &'h str,
    hands: Hands,
    seat: Value,
    cookie: String,
    folder: tempfile::TempDir,
}

impl<'h> Learner<'h> {
    async fn joins(host: &'h Running, lab: &'h str, hands: Hands) -> Self {
        let name = format!("{hands:?}");
        let body = json!({ "code": host.code, "name": name, "pin": "2468", "lab": lab }).to_string().into_bytes();
        let (status, _, text) = host.ask("POST", "/api/join", &[JSON, ("accept", "application/json")], body).await;
        assert_eq!(status, 200, "{text}");
        let seat = serde_json::from_str(&text).unwrap();
        let form = format!("code={}&name={name}&pin=2468&lab={lab}", host.code).into_bytes();
        let (_, headers, _) = host.ask("POST", "/join", &[FORM, ("origin", &host.url)], form.clone()).await;
        let cookie = headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let learner = Self { host, lab, hands, seat, cookie, folder: tempfile::tempdir().unwrap() };
        match hands {
            Hands::Page => {}
            Hands::Joined => {
                let join = host.document["join"].as_str().unwrap();
                let joins = format!("klab join '{join}' {} --name {name} --lab {lab}", host.code);
                learner.shell(&joins).await.unwrap_or_else(|said| panic!("{said}"));
            }
            Hands::Kubectl => {
                let (_, _, yaml) = host.ask("POST", "/api/join", &[FORM], form).await;
                std::fs::write(learner.kubeconfig(), yaml).unwrap();
            }
        }
        learner
    }

    fn kubeconfig(&self) -> PathBuf {
        match self.hands {
            Hands::Joined => self.folder.path().join(format!("labs/{}/kubeconfig", self.lab)),
            _ => self.folder.path().join("klab.yaml"),
        }
    }

    /// What a shell prints, where the line ends well.
    async fn shell(&self, line: &str) -> Result<String, String> {
        let klab = PathBuf::from(env!("CARGO_BIN_EXE_klab"));
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("bash");
        shell.args(["-o", "pipefail", "-c"]).env("HOME", self.folder.path()).env("KUBECONFIG", self.kubeconfig());
        shell.env("KLAB_PIN", "2468").current_dir(self.folder.path()).stdin(Stdio::null());
        if self.hands == Hands::Kubectl {
            let yaml = std::fs::read_to_string(self.kubeconfig()).unwrap();
            let function = yaml.lines().find_map(|line| line.strip_prefix("# The lesson, without klab: ")).unwrap();
            shell.arg(format!("{}\n{line}", function.strip_suffix(" then: klab guide").unwrap()));
        } else {
            shell.arg(line).env("KLAB_HOME", self.folder.path());
            shell.env("PATH", format!("{}:{path}", klab.parent().unwrap().display()));
        }
        let output = tokio::task::spawn_blocking(move || shell.output().unwrap()).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (results, talk) = (text(&output.stdout), text(&output.stderr));
        if output.status.success() { Ok(results) } else { Err(format!("{line}\n{results}{talk}")) }
    }

    /// What the page answers to its learner.
    async fn page(&self, method: &str, what: &str, body: Vec<u8>) -> String {
        let headers = [JSON, ("origin", self.host.url.as_str()), ("cookie", &self.cookie)];
        let (status, _, text) = self.host.ask(method, &format!("/learn/{}/{what}", self.lab), &headers, body).await;
        assert!(status < 300, "{what}: {status} {text}");
        text
    }

    async fn types(&self, line: &str) -> Result<String, String> {
        if self.hands != Hands::Page {
            return self.shell(line).await;
        }
        let text = self.page("POST", "console/run", json!({ "line": line }).to_string().into_bytes()).await;
        let pieces: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let said =
            pieces.iter().flat_map(|piece| [&piece["output"], &piece["talk"]]).filter_map(Value::as_str).collect();
        let end = pieces.last().unwrap();
        if end["code"] == 0 { Ok(said) } else { Err(format!("{line}\n{said}{end}")) }
    }

    /// The lines that the guide shows for a step, and the guide.
    async fn reads(&self, number: usize, name: &str) -> (Vec<String>, String) {
        let document = self.host.of_seat(&self.seat, "GET", "/guide").await.unwrap()["document"].clone();
        assert_eq!(document["shown"], name, "{:?} of {}", self.hands, self.lab);
        let commands = document["steps"][number]["commands"].as_array().unwrap().iter();
        let commands: Vec<String> = commands.filter_map(|one| one["command"].as_str()).map(str::to_owned).collect();
        let shown = match self.hands {
            Hands::Page => self.page("GET", &format!("step?number={number}"), Vec::new()).await,
            _ => self.types(&format!("klab guide --step {name}")).await.unwrap(),
        };
        if self.hands != Hands::Page {
            return (commands, shown);
        }
        let copies = shown.split("data-copy=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let plain = |text: &str| {
            let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
            text.replace("&#39;", "'").replace("&#x27;", "'").replace("&#x2F;", "/").replace("&amp;", "&")
        };
        let is_line = |line: &String| line.starts_with("klab ") || line.starts_with("kubectl ");
        let lines: Vec<String> =
            copies.map(plain).filter(is_line).filter(|line| !line.starts_with("kubectl edit ")).collect();
        assert_eq!(lines, commands, "the page shows what the API says");
        (lines, shown)
    }

    async fn goes_through(&self, steps: &[String]) {
        let verify = "/verify?timeout=120";
        let end = self.host.of_seat(&self.seat, "POST", verify).await.unwrap();
        assert_eq!(end["end"]["ok"], true, "{end}");
        for (number, name) in steps.iter().enumerate() {
            let (lines, shown) = self.reads(number, name).await;
            assert!(!shown.contains("/labs/") && !shown.contains(&*self.host.home().to_string_lossy()), "{shown}");
            let mut refused = Vec::new();
            for line in &lines {
                if let Err(said) = self.types(line).await {
                    refused.push(said);
                }
            }
            let end = self.host.of_seat(&self.seat, "POST", verify).await.unwrap();
            assert_eq!(end["end"]["ok"], true, "{:?} of {}, step {name}: {end}\n{refused:?}", self.hands, self.lab);
        }
    }
}

/// Goes through a lesson in all ways at once.
async fn is_typed(lab: &str) {
    if !has_kubectl() {
        return;
    }
    let host = Running::start(&[lab, "--console", "--console-unconfined"]);
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("labs/{lab}.toml"));
    let loaded = klab_lab::spec::load(&file, &klab_lab::spec::LoadOptions::default()).unwrap();
    let steps: Vec<String> = loaded.steps.iter().map(|step| step.name.value.clone()).collect();
    assert!(!steps.is_empty());
    let learners = [Hands::Joined, Hands::Page, Hands::Kubectl].map(|hands| Learner::joins(&host, lab, hands));
    let learners = futures::future::join_all(learners).await;
    futures::future::join_all(learners.iter().map(|learner| learner.goes_through(&steps))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduling_is_typed_as_its_guide_shows_it() {
    is_typed("scheduling").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn affinity_is_typed_as_its_guide_shows_it() {
    is_typed("affinity").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduler_is_typed_as_its_guide_shows_it() {
    is_typed("scheduler").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn anatomy_is_typed_as_its_guide_shows_it() {
    is_typed("anatomy").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodepools_is_typed_as_its_guide_shows_it() {
    is_typed("nodepools").await;
}

/// A lesson that is added is typed, too.
#[test]
fn every_lesson_with_steps_is_typed() {
    let own = include_str!("guided.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/labs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml")
            && std::fs::read_to_string(&path).unwrap().contains("\n[[step]]\n")
        {
            let lab = path.file_stem().unwrap().to_str().unwrap();
            assert!(own.contains(&format!("is_typed(\"{lab}\")")), "{lab}");
        }
    }
}
