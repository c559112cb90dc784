//! Lessons typed exactly as their guides show them, from the first step to the last: at a joined seat, with kubectl alone, and in a
//! browser.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use futures::StreamExt;
use klab_operations::lesson::Tools;
use klab_operations::lesson::command;
use serde_json::{Value, json};

use super::browser::play;
use super::running::{Connections, Running};
use crate::board::browser::is_driven;
use crate::environment::{FAST, has_kubectl};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const JSON: (&str, &str) = ("content-type", "application/json");

/// How many lessons are gone through at a time.
const AT_A_TIME: usize = 10;

/// How a learner types in a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hands {
    /// With klab and kubectl.
    Joined,
    /// With kubectl, where a line of the class makes `klab` of it; curl asked for the seat.
    Kubectl,
}

/// A learner at a seat.
struct Learner<'h> {
    host: &'h Running,
    lab: &'h str,
    hands: Hands,
    seat: Value,
    folder: tempfile::TempDir,
    connections: Connections,
}

impl<'h> Learner<'h> {
    async fn joins(host: &'h Running, lab: &'h str, hands: Hands) -> Self {
        let body = json!({ "code": host.code, "name": "Ann", "pin": "2468", "lab": lab }).to_string().into_bytes();
        let (status, _, text) = host.ask("POST", "/api/join", &[JSON, ("accept", "application/json")], body).await;
        assert_eq!(status, 200, "{text}");
        let seat = serde_json::from_str(&text).unwrap();
        let (folder, connections) = (tempfile::tempdir().unwrap(), Connections::default());
        let learner = Self { host, lab, hands, seat, folder, connections };
        match hands {
            Hands::Joined => {
                let join = host.document["join"].as_str().unwrap();
                let joins = format!("klab join '{join}' {} --name Ann --lab {lab}", host.code);
                learner.shell(&joins).await.unwrap_or_else(|said| panic!("{said}"));
            }
            Hands::Kubectl => {
                let form = format!("code={}&name=Ann&pin=2468&lab={lab}", host.code).into_bytes();
                let (_, _, yaml) = host.ask("POST", "/api/join", &[FORM], form).await;
                std::fs::write(learner.kubeconfig(), yaml).unwrap();
            }
        }
        learner
    }

    fn kubeconfig(&self) -> PathBuf {
        match self.hands {
            Hands::Joined => self.folder.path().join(format!("labs/{}/kubeconfig", self.lab)),
            Hands::Kubectl => self.folder.path().join("klab.yaml"),
        }
    }

    /// How a shell ends with a line, and what it prints.
    async fn ends(&self, line: &str) -> (i32, String, String) {
        let klab = PathBuf::from(env!("CARGO_BIN_EXE_klab"));
        let path = std::env::var("PATH").unwrap();
        // A kubectl that waits for what does not come would do so for ever.
        let mut shell = Command::new("timeout");
        shell
            .args(["180", "bash", "-o", "pipefail", "-c"])
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", self.kubeconfig());
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

    /// Types what the guide shows for each step, which passes then.
    async fn goes_through(&self) {
        let mut shown = self.shell("klab verify --timeout 120s").await.unwrap_or_else(|said| panic!("{said}"));
        let differs = self.shell("klab diff").await;
        differs.unwrap_or_else(|said| panic!("a seat of {} is not as the lab says: {said}", self.lab));
        for step in lesson(self.lab).steps {
            let at = format!("{:?} of {}, step {}", self.hands, self.lab, step.name);
            let guide = self.host.of_seat_through(&self.connections, &self.seat, "GET", "/guide").await;
            let guide = guide.unwrap()["document"].clone();
            assert_eq!(guide["shown"], *step.name, "{at}: {shown}");
            shown = self.shell("klab guide").await.unwrap();
            assert!(!shown.contains("/labs/") && !shown.contains(&*self.host.home().to_string_lossy()), "{shown}");
            let steps = guide["steps"].as_array().unwrap();
            let here = steps.iter().find(|one| one["name"] == *step.name).unwrap();
            let mut refused = Vec::new();
            for line in here["commands"].as_array().unwrap().iter().filter_map(|one| one["command"].as_str()) {
                // A patch is what the guide has done in an editor.
                let is_shown = line.lines().all(|part| shown.contains(part)) || line.starts_with("kubectl patch ");
                assert!(is_shown, "{at}: {line}\n{shown}");
                // Some steps are about what the cluster refuses.
                refused.extend(self.shell(line).await.err());
            }
            let graded = self.shell("klab verify --timeout 120s").await;
            shown = graded.unwrap_or_else(|said| panic!("{at}: {said}\n{}", refused.join("\n")));
        }
        let status = self.shell("klab status").await.unwrap();
        assert!(status.contains(&format!("{0} of {0} steps done", lesson(self.lab).steps.len())), "{status}");
    }
}

/// A lesson that ships.
fn lesson(lab: &str) -> klab_lab::spec::Lab {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("labs/{lab}.toml"));
    klab_lab::spec::load(&file, &klab_lab::spec::LoadOptions::default()).unwrap()
}

/// The lessons that ship and have steps.
fn lessons() -> Vec<String> {
    let labs = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/labs")).unwrap();
    let labs = labs.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|one| one == "toml"));
    let labs = labs.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    let mut labs: Vec<String> = labs.filter(|lab| !lesson(lab).steps.is_empty()).collect();
    assert!(labs.len() >= 5, "{labs:?}");
    // It takes longest, so it begins first: HorizontalPodAutoscalers look every 15 seconds of the cluster's clock.
    labs.sort_by_key(|lab| lab != "hpa");
    labs
}

/// A few lessons in which every kind of line is typed that all of them have: `kubectl scale`, `klab render` and so on. What a lesson
/// asks for is the same however it is typed, so all are typed in one way; `KLAB_TYPED=all` types all in each way.
fn lessons_of_each_kind_of_line() -> Vec<String> {
    let all = lessons();
    if std::env::var("KLAB_TYPED").is_ok_and(|typed| typed == "all") {
        return all;
    }
    let kinds = |lab: &String| {
        let lab = lesson(lab);
        let lines = (0..lab.steps.len()).flat_map(|step| command::of_step(&lab, step, &Tools::Seat));
        let commands: Vec<String> =
            lines.flat_map(|line| line.commands().iter().map(|line| kind(line)).collect::<Vec<_>>()).collect();
        BTreeSet::from_iter(commands)
    };
    let mut left: Vec<(String, BTreeSet<String>)> = all.into_iter().map(|lab| (lab.clone(), kinds(&lab))).collect();
    let mut chosen = Vec::new();
    while let Some((lab, kinds)) =
        left.iter().max_by_key(|(_, kinds)| kinds.len()).filter(|(_, kinds)| !kinds.is_empty()).cloned()
    {
        for (_, others) in &mut left {
            others.retain(|kind| !kinds.contains(kind));
        }
        chosen.push(lab);
    }
    chosen
}

/// The program of a line and what it is to do, without names and values.
fn kind(line: &str) -> String {
    let words = line.split_whitespace().take_while(|word| !word.starts_with('-'));
    words.take(if line.starts_with("klab az") { 4 } else { 2 }).collect::<Vec<_>>().join(" ")
}

/// A class of all lessons, with a console.
fn class(labs: &[String]) -> Running {
    // An API server that is silent for half a minute teaches a test nothing.
    let folder = tempfile::tempdir().unwrap();
    let anatomy = folder.path().join("anatomy.toml");
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/labs/anatomy.toml")).unwrap();
    assert!(text.contains("fail_api = \"30s\""));
    std::fs::write(&anatomy, text.replace("fail_api = \"30s\"", "fail_api = \"5s\"")).unwrap();
    let file = |lab| if lab == "anatomy" { anatomy.to_str().unwrap() } else { lab };
    let mut arguments: Vec<&str> = labs.iter().map(|lab| file(lab.as_str())).collect();
    arguments.extend(["--console", "--console-unconfined"]);
    let times = format!("KLAB_CLOCK_TIMES={FAST}");
    Running::start_within(&["env", &times], &arguments)
}

/// Every step of lessons, at a seat each.
async fn are_typed(labs: &[String], hands: Hands) {
    if !has_kubectl() {
        return;
    }
    let host = class(labs);
    // A few at a time: learners who all wait for one processor outlast the deadlines of what they type.
    let learners = labs.iter().map(async |lab| Learner::joins(&host, lab, hands).await.goes_through().await);
    futures::stream::iter(learners).buffer_unordered(AT_A_TIME).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_of_every_lesson_is_typed_at_a_joined_seat() {
    are_typed(&lessons(), Hands::Joined).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_line_is_typed_with_curl_and_kubectl_alone() {
    are_typed(&lessons_of_each_kind_of_line(), Hands::Kubectl).await;
}

/// What the page shows is put into the console and run, a click each.
#[test]
fn every_kind_of_line_is_put_into_the_console_of_a_browser() {
    if is_driven() && has_kubectl() {
        let labs = lessons_of_each_kind_of_line();
        let steps = labs.iter().map(|lab| format!("{lab}={}", lesson(lab).steps.len()));
        let arguments: Vec<String> = std::iter::once(AT_A_TIME.to_string()).chain(steps).collect();
        play(&class(&labs), "lessons", &arguments);
    }
}

/// kubectl asks the cluster for its version first, on the same connection.
#[tokio::test(flavor = "multi_thread")]
async fn what_klab_says_is_heard_to_its_end_while_the_cluster_is_silent() {
    if !has_kubectl() {
        return;
    }
    let host = class(&["anatomy".to_owned()]);
    let learner = Learner::joins(&host, "anatomy", Hands::Kubectl).await;
    let (ended, found, said) = learner.ends("klab step --to api-silent").await;
    assert!(ended == 0 && said.contains("it answers again") && found.contains("✓ held"), "{ended}: {found}\n{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_function_ends_as_klab_would() {
    if !has_kubectl() {
        return;
    }
    let host = Running::start(&["scheduling"]);
    let learner = Learner::joins(&host, "scheduling", Hands::Kubectl).await;
    for (line, code, results, talk) in [
        ("klab verify", 0, "held", "Passed the set-up"),
        ("klab verify --step taint --timeout 0", 5, "", "error[K0621]: "),
        ("klab render scheduling --workload nobody", 2, "", "error[K0906]: lab `scheduling` has no workload `nobody`"),
        ("klab up", 2, "", "error[K0709]: unrecognized subcommand 'up'"),
        ("klab pool delete nodepool1 || false", 1, "", "error["),
        ("klab az aks nodepool list --cluster-name klab-scheduling -o table", 0, "extra", ""),
        ("klab az aks nodepool show --cluster-name klab-scheduling -n no", 3, "", "ERROR: (NotFound)"),
        ("klab status", 0, "lesson: 0 of 21 steps done", ""),
        ("KUBECONFIG=/dev/null klab guide", 1, "", ""),
    ] {
        let (ended, found, said) = learner.ends(line).await;
        assert_eq!(ended, code, "{line}: {found}{said}");
        assert!(found.contains(results) && said.contains(talk) && !found.contains("error["), "{line}: {found}\n{said}");
    }
}
