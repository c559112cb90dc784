//! Lines that learners type, run by the real kubectl against an embedded cluster.

use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;
use klab_host::console::{Console, Files, Piece, Refusal, Request, Run, Settings, Unconfined};

use crate::environment::{Environment, has_kubectl};

/// A lab that is up, and its console.
struct Class {
    environment: Environment,
    console: Console,
    kubeconfig: String,
    runtime: tokio::runtime::Runtime,
}

/// What came of a line: exit code, stdout, stderr, note.
#[derive(Debug)]
struct Said {
    code: i32,
    output: String,
    talk: String,
    note: Option<String>,
}

impl Class {
    fn new(lab: &str, settings: impl FnOnce(&mut Settings)) -> Self {
        let environment = Environment::new();
        environment.succeeds(&["up", lab]);
        let path = environment.succeeds(&["kubeconfig", "--path"]);
        let kubeconfig = std::fs::read_to_string(path.trim()).unwrap();
        // Where the kernel lacks a wall, the lines are tried all the same.
        let mut wanted = Settings { unconfined: Unconfined::All, ..Settings::new(env!("CARGO_BIN_EXE_klab").into()) };
        settings(&mut wanted);
        let console = Console::new(wanted).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { environment, console, kubeconfig, runtime }
    }

    fn request(&self, line: &str, files: &Files) -> Request {
        Request { seat: "0-1".into(), kubeconfig: self.kubeconfig.clone(), line: line.into(), files: files.clone() }
    }

    fn types(&self, line: &str, files: &Files) -> Said {
        self.runtime.block_on(async {
            let klab = |words: Vec<String>| -> BoxFuture<'_, Result<Run, Refusal>> {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let output = String::from_utf8(self.environment.run(&words).stdout).unwrap();
                Box::pin(async { Ok(Run::said(output)) })
            };
            let run = self.console.run(self.request(line, files), klab).await;
            let mut run = run.unwrap_or_else(|refusal| panic!("{line}: {refusal}"));
            let mut said = Said { code: -1, output: String::new(), talk: String::new(), note: None };
            while let Some(piece) = run.next().await {
                match piece {
                    Piece::Output(text) => said.output.push_str(&text),
                    Piece::Talk(text) => said.talk.push_str(&text),
                    Piece::End { code, note } => (said.code, said.note) = (code, note),
                }
            }
            said
        })
    }
}

/// A klab that does nothing.
fn refuses(_: Vec<String>) -> BoxFuture<'static, Result<Run, Refusal>> {
    Box::pin(async { Err(Refusal("there is no klab here".to_owned())) })
}

fn lab() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/labs/scheduling.toml").to_owned()
}

#[test]
fn a_lesson_is_typed_from_its_first_line_to_its_last() {
    if !has_kubectl() {
        return;
    }
    let class = Class::new(&lab(), |_| {});
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: own}\nspec: {containers: [{name: a, image: nginx}]}\n";
    let files = Files::from([("pods/own.yaml".to_owned(), pod.to_owned())]);
    for (line, shows) in [
        ("kubectl get nodes -o wide", "aks-extra"),
        ("k get pods -A", "coredns"),
        ("kubectl describe node -l agentpool=extra", "Allocated resources"),
        ("kubectl get nodes --show-labels", "workload=extra"),
        ("kubectl get node -l agentpool=extra -o jsonpath='{.items[*].metadata.name}'", "aks-extra"),
        ("kubectl explain pod.spec.tolerations", "FIELDS"),
        ("kubectl top nodes", "CPU"),
        ("kubectl apply -f pods/own.yaml", "pod/own created"),
        ("kubectl wait --for=condition=Ready pod/own --timeout=20s", "condition met"),
        (
            "kubectl apply -f - <<'YAML'\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: typed}\nYAML",
            "configmap/typed created",
        ),
        ("klab render scheduling --workload nanomon-api | kubectl apply -f -", "deployment.apps/nanomon-api"),
        ("kubectl get pods -A | grep coredns | head -n 1", "coredns"),
        ("klab explain nanomon-api | wc -l", "\n"),
        ("kubectl taint nodes -l agentpool=extra dedicated=special:NoSchedule", "tainted"),
        ("kubectl scale deployment nanomon-api --replicas 6", "scaled"),
        ("kubectl patch deployment nanomon-api -p '{\"spec\":{\"replicas\":2}}'", "patched"),
        ("kubectl rollout status deployment nanomon-api --timeout=1s", "rolled out"),
        ("kubectl taint nodes -l agentpool=extra dedicated=special:NoSchedule-", "untainted"),
        ("kubectl cordon -l agentpool=extra", "cordoned"),
        ("kubectl drain -l agentpool=extra --ignore-daemonsets --force", "drained"),
        ("kubectl uncordon -l agentpool=extra", "uncordoned"),
        ("kubectl create quota q --hard pods=30 -n default", "created"),
        ("kubectl run again --image=nginx --restart=Never -- sleep 60", "pod/again created"),
        ("kubectl set resources deploy nanomon-api --requests cpu=10m", "updated"),
        ("kubectl auth can-i get pods --as=system:serviceaccount:default:default", "no"),
        ("kubectl get nodes -v6", "/api/v1/nodes"),
        ("kubectl get --raw /version", "gitVersion"),
        ("kubectl api-resources --api-group=apps", "daemonsets"),
        ("kubectl version", "Server Version"),
        ("kubectl delete pod again --now", "deleted"),
    ] {
        let said = class.types(line, &files);
        let text = format!("{}{}", said.output, said.talk);
        assert!(text.contains(shows), "{line}: {said:?}");
        assert!(said.code == 0 || shows == "no", "{line}: {said:?}");
    }
    // kubectl's own refusals and exit codes come through.
    let said = class.types("kubectl get pod nobody", &files);
    assert!(said.code == 1 && said.talk.contains("not found") && said.output.is_empty(), "{said:?}");
    class.environment.succeeds(&["down"]);
}

#[test]
fn what_a_guide_shows_can_be_typed() {
    if !has_kubectl() {
        return;
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/labs");
    let (mut run, mut left) = (0, Vec::<String>::new());
    for lab in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if lab.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let lab = klab_lab::spec::load(&lab, &klab_lab::spec::LoadOptions::default()).unwrap();
        let files = klab_host::console::lesson::files_of(&lab);
        for step in 0..lab.steps.len() {
            let lines = klab_operations::lesson::command::of_step(&lab, step, &klab_operations::lesson::Tools::Seat);
            // What the texts have a learner type and look at; an ellipsis stands for flags that are left out.
            let step = &lab.steps[step];
            let text = step.text.iter().chain(&step.hint).flat_map(|text| text.lines());
            let programs = ["kubectl ", "klab "];
            let looks = text
                .filter_map(|line| line.strip_prefix("    "))
                .filter(|line| programs.iter().any(|program| line.starts_with(program)) && !line.ends_with('…'));
            let commands = lines.iter().flat_map(klab_operations::lesson::command::Line::commands);
            for line in commands.map(String::as_str).chain(looks) {
                match klab_host::console::policy::read(line, &files) {
                    Ok(_) => run += 1,
                    Err(refusal) => left.push(format!("{line}: {refusal}")),
                }
            }
        }
    }
    assert!(run > 150, "{run}");
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn watches_end_when_nobody_looks_and_when_their_time_is_over() {
    if !has_kubectl() {
        return;
    }
    let class = Class::new(&lab(), |settings| settings.time = Duration::from_secs(5));
    let said = class.types("kubectl get nodes -w", &Files::new());
    assert!(
        said.code == 137 && said.output.contains("aks-extra") && said.note.unwrap().contains("5 s"),
        "{}",
        said.output
    );
    class.environment.succeeds(&["down"]);
    let class = Class::new(&lab(), |settings| settings.at_a_time = 2);
    class.runtime.block_on(async {
        let watch = || class.console.run(class.request("kubectl get nodes -w", &Files::new()), refuses);
        let mut first = watch().await.unwrap();
        assert!(matches!(first.next().await, Some(Piece::Output(_))));
        // Half of the places are for watches.
        let refusal = watch().await.unwrap_err().to_string();
        assert!(refusal.contains("too many watches"), "{refusal}");
        drop(first);
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while watch().await.is_err() {
            assert!(std::time::Instant::now() < until, "its place is not given back");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    class.environment.succeeds(&["down"]);
}

#[test]
fn output_has_an_end_and_refusals_start_nothing() {
    if !has_kubectl() {
        return;
    }
    let class = Class::new(&lab(), |settings| settings.output = 2000);
    let said = class.types("kubectl get pods -A -o yaml", &Files::new());
    assert!(said.output.len() == 2000 && said.note.unwrap().contains("choose less"), "{}", said.output);
    class.runtime.block_on(async {
        for line in [
            "kubectl get pods --kubeconfig=/x",
            "kubectl apply -f /etc/passwd",
            "klab render scheduling --workload nobody | kubectl apply -f -",
        ] {
            assert!(class.console.run(class.request(line, &Files::new()), refuses).await.is_err(), "{line}");
        }
    });
    class.environment.succeeds(&["down"]);
}

#[test]
fn a_console_without_kubectl_or_with_a_script_for_it_is_refused() {
    let environment = Environment::new();
    let script = environment.write("kubectl", "#!/bin/sh\nexec kubectl \"$@\"\n");
    for (kubectl, says) in [
        (script, "starts it"),
        (PathBuf::from("/nowhere/kubectl"), "could not use"),
        ("/bin/bash".into(), "could not run"),
    ] {
        let settings = Settings {
            kubectl: Some(kubectl),
            unconfined: Unconfined::All,
            ..Settings::new(env!("CARGO_BIN_EXE_klab").into())
        };
        let error = Console::new(settings).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
