//! A learner: types lines in a shell, and then what klab prints.

use std::collections::BTreeSet;

use crate::environment::{Environment, has_kubectl};

/// A lesson that is up, and a learner with a shell.
pub(super) struct Learner {
    pub(super) environment: Environment,
    kubeconfig: String,
}

/// What a command printed, on both streams, and its status.
pub(super) struct Seen {
    pub(super) text: String,
    pub(super) status: i32,
}

impl Learner {
    pub(super) fn of(lesson: &str) -> Option<Self> {
        if !has_kubectl() {
            return None;
        }
        let environment = Environment::fast();
        environment.succeeds(&["up", lesson]);
        let kubeconfig = environment.succeeds(&["kubeconfig", "--path"]).trim().to_owned();
        Some(Self { environment, kubeconfig })
    }

    /// At the step after this one, which the guide has opened.
    pub(super) fn at(lesson: &str, done: &str) -> Option<Self> {
        let learner = Self::of(lesson)?;
        learner.comes_to(done);
        Some(learner)
    }

    /// What a line comes to in a shell that has klab and kubectl; an editor makes the change that is asked for.
    pub(super) fn types(&self, line: &str, editor: &str) -> Seen {
        let mut shell = self.environment.shell("sh", line);
        let output = shell.env("KUBECONFIG", &self.kubeconfig).env("KUBE_EDITOR", editor).output().unwrap();
        let text = [output.stdout, output.stderr].map(|stream| String::from_utf8_lossy(&stream).into_owned()).concat();
        Seen { text, status: output.status.code().unwrap_or(-1) }
    }

    pub(super) fn does(&self, line: &str) {
        let seen = self.types(line, "true");
        assert_eq!(seen.status, 0, "{line}\n{}", seen.text);
    }

    /// What `klab verify` says where nobody waits for longer than this.
    pub(super) fn verifies(&self, patience: &str) -> Seen {
        self.types(&format!("klab verify --timeout {patience}"), "true")
    }

    /// Brings the lesson to where a step is done, and opens the next one.
    pub(super) fn comes_to(&self, step: &str) {
        self.does(&format!("klab step --to {step}"));
        self.does("klab guide");
    }

    /// Where each step is done, types something wrong, and is led back.
    pub(super) fn errs(&self, mistakes: &[(&str, &str, String)]) {
        for (done, mistake, typed) in mistakes {
            self.comes_to(done);
            self.does(typed);
            self.is_led_back(mistake);
        }
    }

    /// Types what klab prints until the step holds and nothing is there that no step asks for. Whoever has made a mistake types
    /// commands, not the lesson's solution.
    pub(super) fn is_led_back(&self, mistake: &str) {
        self.is_led_back_soon(mistake, PATIENCE);
    }

    /// As [`Self::is_led_back`], by one who does not wait for what takes its time.
    pub(super) fn is_led_back_soon(&self, mistake: &str, patience: &str) {
        let mut patience = patience;
        let mut told = String::new();
        for round in 0..6 {
            let seen = self.verifies(patience);
            told = format!("{told}{}\n", seen.text);
            if seen.status == 0 && !seen.text.contains("also changed") {
                assert!(round > 0, "{mistake}: not noticed\n{told}");
                return;
            }
            let advice = Advice::of(&seen.text);
            if advice.commands.is_empty() && patience != PATIENCE && seen.text.contains("waits longer") {
                patience = PATIENCE;
                continue;
            }
            assert!(!advice.commands.is_empty(), "{mistake}: nothing to type\n{told}");
            for command in &advice.commands {
                let typed = self.types(command, &advice.editor);
                told = format!("{told}$ {command}\n{}", typed.text);
                assert_eq!(typed.status, 0, "{mistake}: the advice fails\n{told}");
            }
        }
        panic!("{mistake}: not led back\n{told}");
    }

    /// What looks like a mistake and is none: the step holds, and klab has nothing to say.
    pub(super) fn has_done_no_harm(&self, what: &str) {
        let seen = self.verifies(PATIENCE);
        assert!(seen.status == 0 && !seen.text.contains("also changed"), "{what}\n{}", seen.text);
    }
}

/// Longer than anything takes that is waited for.
const PATIENCE: &str = "60s";

/// The commands of a report in the order in which they stand: those that undo first, then the first fix of each check, then what
/// is left to do; the way back where there is nothing else.
pub(super) struct Advice {
    pub(super) commands: Vec<String>,
    /// What an editor is to do: `write A for B`.
    editor: String,
}

impl Advice {
    pub(super) fn of(report: &str) -> Self {
        let lines: Vec<&str> = report.lines().map(str::trim).collect();
        // A command stands on the line below what it is for.
        let of = |lead: &str| -> Vec<String> {
            let pairs = lines.windows(2).filter(|pair| pair[0].starts_with(lead) && pair[0].ends_with(':'));
            pairs.map(|pair| pair[1].to_owned()).collect()
        };
        let mut commands: Vec<String> = [of("to undo:"), of("fix:"), of("to do:")].concat();
        if commands.is_empty() {
            let back = lines.iter().filter(|line| line.starts_with("klab reset"));
            commands = back.map(|command| format!("{command} --yes")).collect();
        }
        let mut seen = BTreeSet::new();
        commands.retain(|command| seen.insert(command.clone()));
        let change = lines.windows(2).find(|pair| pair[1].contains("kubectl edit"));
        let words: Vec<&str> = change.map(|pair| pair[0].split('`').collect()).unwrap_or_default();
        let editor = match words.as_slice() {
            [_, to, _, from, ..] => format!("sed -i s/{from}/{to}/"),
            _ => "true".to_owned(),
        };
        Self { commands, editor }
    }
}
