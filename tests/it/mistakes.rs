//! Mistakes that learners make, and the way back: what klab prints is typed as it stands, and the lesson goes on.

use std::collections::BTreeSet;

use crate::environment::{Environment, has_kubectl};

/// A lesson that is up, and a learner with a shell.
struct Learner {
    environment: Environment,
    kubeconfig: String,
}

/// What a command printed, on both streams, and its status.
struct Seen {
    text: String,
    status: i32,
}

impl Learner {
    fn of(lesson: &str) -> Option<Self> {
        if !has_kubectl() {
            return None;
        }
        let environment = Environment::new();
        environment.succeeds(&["up", lesson]);
        let kubeconfig = environment.succeeds(&["kubeconfig", "--path"]).trim().to_owned();
        Some(Self { environment, kubeconfig })
    }

    /// What a line comes to in a shell that has klab and kubectl; an editor makes the change that is asked for.
    fn types(&self, line: &str, editor: &str) -> Seen {
        let mut shell = self.environment.shell("sh", line);
        let output = shell.env("KUBECONFIG", &self.kubeconfig).env("KUBE_EDITOR", editor).output().unwrap();
        let text = [output.stdout, output.stderr].map(|stream| String::from_utf8_lossy(&stream).into_owned()).concat();
        Seen { text, status: output.status.code().unwrap_or(-1) }
    }

    fn does(&self, line: &str) {
        let seen = self.types(line, "true");
        assert_eq!(seen.status, 0, "{line}\n{}", seen.text);
    }

    fn verifies(&self) -> Seen {
        self.types("klab verify --timeout 20s", "true")
    }

    /// Brings the lesson to where a step is done, and opens the next one.
    fn comes_to(&self, step: &str) {
        self.does(&format!("klab step --to {step}"));
        self.does("klab guide");
    }

    /// Types what klab prints until the step holds and nothing is there that no step asks for. Whoever has made a mistake types
    /// commands, not the lesson's solution.
    fn is_led_back(&self, mistake: &str) {
        let mut told = String::new();
        for _ in 0..4 {
            let seen = self.verifies();
            told = format!("{told}{}\n", seen.text);
            if seen.status == 0 && !seen.text.contains("also changed") {
                return;
            }
            let advice = Advice::of(&seen.text);
            assert!(!advice.commands.is_empty(), "{mistake}: nothing to type\n{told}");
            for command in &advice.commands {
                let typed = self.types(command, &advice.editor);
                told = format!("{told}$ {command}\n{}", typed.text);
                assert_eq!(typed.status, 0, "{mistake}: the advice fails\n{told}");
            }
        }
        panic!("{mistake}: not led back\n{told}");
    }
}

/// The commands of a report in the order in which they stand: those that undo first, then the first fix of each check, then what
/// is left to do; the way back where there is nothing else.
struct Advice {
    commands: Vec<String>,
    /// What an editor is to do: `write A for B`.
    editor: String,
}

impl Advice {
    fn of(report: &str) -> Self {
        let quoted = |line: &str, at: usize| line.rsplit('`').nth(at).map(str::to_owned);
        let of = |lead: &str| -> Vec<String> {
            let lines = report.lines().map(str::trim).filter(|line| line.starts_with(lead));
            lines.filter_map(|line| quoted(line, 1)).collect()
        };
        let fixes = of("fix:").into_iter().filter(|fix| fix.starts_with("kubectl") || fix.starts_with("klab"));
        let mut commands: Vec<String> = of("to undo:").into_iter().chain(fixes).chain(of("to do:")).collect();
        if commands.is_empty() {
            let hints = report.lines().filter(|line| line.starts_with("hint:"));
            commands = hints.filter_map(|line| line.split('`').nth(1)).map(str::to_owned).collect();
            commands.retain(|command| command.starts_with("klab reset"));
            commands = commands.iter().map(|command| format!("{command} --yes")).collect();
        }
        let mut seen = BTreeSet::new();
        commands.retain(|command| seen.insert(command.clone()));
        let change = report.lines().find(|line| line.contains("kubectl edit"));
        let words: Vec<&str> = change.map(|line| line.split('`').collect()).unwrap_or_default();
        let editor = match words.as_slice() {
            [_, to, _, from, ..] => format!("sed -i s/{from}/{to}/"),
            _ => "true".to_owned(),
        };
        Self { commands, editor }
    }
}

/// A lesson from its set-up to its end: where a step begins, something is done wrong.
#[test]
fn every_mistake_leads_back() {
    let Some(learner) = Learner::of("scheduling") else { return };
    let extra = "-l agentpool=extra";
    let render = "klab render scheduling --workload";
    for (after, mistake, typed) in [
        (
            "",
            "the node selector is taken out",
            format!("{render} nanomon-api | sed '/nodeSelector/,+1d' | kubectl apply -f -"),
        ),
        ("explore", "a workload is deleted", "kubectl delete deployment nanomon-api".to_owned()),
        (
            "explore",
            "a slip in a node selector",
            "kubectl patch deployment nanomon-api --type merge -p \
            '{\"spec\":{\"template\":{\"spec\":{\"nodeSelector\":{\"workload\":\"exta\"}}}}}'"
                .to_owned(),
        ),
        (
            "explore",
            "a node that does not exist",
            "kubectl patch deployment plain -p \
            '{\"spec\":{\"template\":{\"spec\":{\"nodeName\":\"node01\"}}}}'"
                .to_owned(),
        ),
        ("explore", "a node is deleted", format!("kubectl delete node {extra}")),
        ("agentpool", "another workload is scaled", "kubectl scale deployment nanomon-web --replicas=3".to_owned()),
        (
            "selector",
            "a slip in a manifest",
            format!(
                "{render} prefers-ssd | kubectl apply -f -; {render} requires-ssd | \
            sed 's/- ssd$/- sdd/' | kubectl apply -f -"
            ),
        ),
        ("wish", "a label on the wrong pool", "kubectl label nodes -l agentpool=nodepool1 disk=ssd".to_owned()),
        (
            "label",
            "a slip in a taint",
            format!(
                "kubectl taint nodes {extra} dedicatd=special:NoSchedule && \
            kubectl scale deployment nanomon-api --replicas=6"
            ),
        ),
        (
            "taint",
            "a slip in a toleration",
            "kubectl patch deployment nanomon-api --type merge -p \
            '{\"spec\":{\"template\":{\"spec\":{\"tolerations\":[{\"key\":\"dedicate\",\"value\":\"special\",\
            \"effect\":\"NoSchedule\"}]}}}}'"
                .to_owned(),
        ),
        ("tolerate", "a workload of the learner's own", "kubectl create deployment tolerant --image=nginx".to_owned()),
        (
            "no-magnet",
            "the taint on the wrong pool, and not taken off",
            "kubectl taint nodes -l agentpool=nodepool1 dedicated=special:NoSchedule".to_owned(),
        ),
        (
            "top",
            "a node too many is cordoned",
            format!(
                "kubectl cordon {extra} && kubectl cordon -l agentpool=nodepool1 && \
            kubectl scale deployment nanomon-api --replicas=4"
            ),
        ),
        ("drain", "the uncordon is forgotten", "true".to_owned()),
        ("daemonset", "the pool is not scaled back", "true".to_owned()),
        ("compute", "the pool is not there yet", format!("{render} batch | kubectl apply -f -")),
    ] {
        if !after.is_empty() {
            learner.comes_to(after);
        }
        learner.does(&typed);
        learner.is_led_back(mistake);
    }
}

/// What was done in another order than the step says differs in nothing but where the pods are.
#[test]
fn the_way_back_is_named_where_nothing_else_helps() {
    let Some(learner) = Learner::of("scheduling") else { return };
    learner.comes_to("top");
    learner.does("kubectl scale deployment nanomon-api --replicas=4 && kubectl rollout status deployment nanomon-api");
    learner.does("kubectl cordon -l agentpool=extra");
    let seen = learner.verifies();
    assert!(seen.text.contains("klab reset scheduling --to top"), "{}", seen.text);
}
