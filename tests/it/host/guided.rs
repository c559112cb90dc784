//! Lessons typed exactly as their guides show them: at a joined seat, in the page's console, and with kubectl alone.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use futures::future::join_all;
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
    /// Who has joined with this name before comes back to the same seat.
    async fn joins(host: &'h Running, lab: &'h str, hands: Hands, name: &str) -> Self {
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

    /// How a shell ends with a line, and what it prints.
    async fn ends(&self, line: &str) -> (i32, String, String) {
        let klab = PathBuf::from(env!("CARGO_BIN_EXE_klab"));
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("bash");
        shell.args(["-o", "pipefail", "-c"]).env("HOME", self.folder.path()).env("KUBECONFIG", self.kubeconfig());
        shell.env("KLAB_PIN", "2468").current_dir(self.folder.path()).stdin(Stdio::null());
        if self.hands == Hands::Kubectl {
            let yaml = std::fs::read_to_string(self.kubeconfig()).unwrap();
            let function = yaml
                .lines()
                .find_map(|line| line.strip_prefix("# ").filter(|line| line.starts_with("klab() {")))
                .unwrap();
            shell.arg(format!("{function}\n{line}"));
        } else {
            shell.arg(line).env("KLAB_HOME", self.folder.path());
            shell.env("PATH", format!("{}:{path}", klab.parent().unwrap().display()));
        }
        let output = tokio::task::spawn_blocking(move || shell.output().unwrap()).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    async fn shell(&self, line: &str) -> Result<String, String> {
        let (code, results, talk) = self.ends(line).await;
        if code == 0 { Ok(results) } else { Err(format!("{line}\n{results}{talk}")) }
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

    /// Types what the guide shows for a step; its checks hold then.
    async fn does(&self, number: usize, name: &str) {
        let (lines, shown) = self.reads(number, name).await;
        assert!(!shown.contains("/labs/") && !shown.contains(&*self.host.home().to_string_lossy()), "{shown}");
        let mut refused = Vec::new();
        for line in &lines {
            // Some steps are about what the cluster refuses.
            if let Err(said) = self.types(line).await {
                refused.push(said);
            }
        }
        let end = self.host.of_seat(&self.seat, "POST", "/verify?timeout=120").await.unwrap();
        assert_eq!(end["end"]["ok"], true, "{:?} of {}, step {name}: {end}\n{refused:?}", self.hands, self.lab);
    }
}

const HANDS: [Hands; 3] = [Hands::Joined, Hands::Page, Hands::Kubectl];

/// A lesson that ships.
fn lesson(lab: &str) -> klab_lab::spec::Lab {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("labs/{lab}.toml"));
    klab_lab::spec::load(&file, &klab_lab::spec::LoadOptions::default()).unwrap()
}

/// A lesson from its first step to its last, at one seat: a step in a shell with klab, the next in the page, the next with kubectl alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_lesson_is_typed_as_its_guide_shows_it() {
    if !has_kubectl() {
        return;
    }
    let host = Running::start(&["scheduling", "--console", "--console-unconfined"]);
    let learners = join_all(HANDS.map(|hands| Learner::joins(&host, "scheduling", hands, "Ann"))).await;
    assert!(learners.iter().all(|learner| learner.seat["seat"] == "0-1"));
    let end = host.of_seat(&learners[0].seat, "POST", "/verify").await.unwrap();
    assert_eq!(end["end"]["ok"], true, "{end}");
    for (number, step) in lesson("scheduling").steps.iter().enumerate() {
        learners[number % learners.len()].does(number, &step.name).await;
    }
    // What the learner keeps of it is one file that loads and runs nothing.
    let summary = learners[1].page("GET", "summary", Vec::new()).await;
    assert!(summary.contains("Ann, seat 0-1") && summary.contains("A taint repels"), "{summary}");
    for loads in ["<script", "src=", "href=\"http", "@import"] {
        assert!(!summary.contains(loads), "{loads}");
    }
}

/// Of every lesson, the lines that need the host's answer, each in all ways: klab's own, and the lab's files. That the others can be
/// typed into the page is seen without a host.
#[tokio::test(flavor = "multi_thread")]
async fn what_only_the_host_can_answer_is_answered_in_every_lesson() {
    if !has_kubectl() {
        return;
    }
    let labs = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/labs")).unwrap();
    let labs = labs.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|one| one == "toml"));
    let labs: Vec<String> = labs.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let labs: Vec<&str> = labs.iter().map(String::as_str).filter(|lab| !lesson(lab).steps.is_empty()).collect();
    assert!(labs.len() >= 5, "{labs:?}");
    let host = Running::start(&[&labs, &["--console", "--console-unconfined"][..]].concat());
    let mut typed = 0;
    for lab in labs {
        let learners =
            join_all(HANDS.map(async |hands| Learner::joins(&host, lab, hands, &format!("{hands:?}")).await)).await;
        let document = host.of_seat(&learners[0].seat, "GET", "/guide").await.unwrap()["document"].clone();
        let commands =
            document["steps"].as_array().unwrap().iter().flat_map(|step| step["commands"].as_array().unwrap());
        let lines = commands.filter_map(|one| one["command"].as_str());
        let lines: Vec<&str> = lines.filter(|line| line.starts_with("klab ") || line.contains("<<")).collect();
        typed += lines.len();
        join_all(learners.iter().map(async |learner| {
            for line in &lines {
                let said = learner.types(line).await;
                said.unwrap_or_else(|said| panic!("{:?} of {lab}: {said}", learner.hands));
            }
        }))
        .await;
    }
    assert!(typed > 30, "{typed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_function_ends_as_klab_would() {
    if !has_kubectl() {
        return;
    }
    let host = Running::start(&["scheduling"]);
    let learner = Learner::joins(&host, "scheduling", Hands::Kubectl, "Ann").await;
    for (line, code, results, talk) in [
        ("klab verify", 0, "held", "Passed the set-up"),
        ("klab verify --step taint --timeout 0", 5, "", "error[K0621]: "),
        ("klab render scheduling --workload nobody", 2, "", "error[K0906]: lab `scheduling` has no workload `nobody`"),
        ("klab up", 2, "", "error[K0709]: unrecognized subcommand 'up'"),
        ("klab pool delete nodepool1 || false", 1, "", "error["),
        ("klab status", 0, "lesson: 0 of 21 steps done", ""),
        ("KUBECONFIG=/dev/null klab guide", 1, "", ""),
    ] {
        let (ended, found, said) = learner.ends(line).await;
        assert_eq!(ended, code, "{line}: {found}{said}");
        assert!(found.contains(results) && said.contains(talk) && !found.contains("error["), "{line}: {found}\n{said}");
    }
}
