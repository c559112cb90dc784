//! "Why are there no pods?": questions that people ask in public, put to `explain`; what it offers first is done, and more pods run.

mod aks;
mod cases;
mod further;
mod kubectl;
mod placement;

use std::collections::BTreeSet;
use std::time::Duration;

use klab_cluster::{Cluster, Flavour};
use klab_lab::report::{Styles, explanation_text};
use klab_lab::verify::{Context, Explained, PodState, Snapshot, Suggestion, Why, explain};
use klab_operations::client::runtime;
use klab_operations::observe;
use serde_json::Value;

use self::kubectl::Kubectl;

/// A question with its answer.
pub(super) struct Case {
    name: &'static str,
    flavour: Flavour,
    nodes: Vec<Value>,
    objects: Vec<Value>,
    /// What is done after that, line by line.
    then: Vec<String>,
    target: &'static str,
    /// What the answer says.
    cause: &'static str,
    /// What the first fix says; empty where a person has to act outside the cluster.
    fix: &'static str,
    /// Whether the fix brings a pod more at once.
    proven: bool,
}

impl Case {
    pub(super) fn of(name: &'static str, nodes: Vec<Value>, objects: Vec<Value>, target: &'static str) -> Self {
        let (cause, fix) = ("", "");
        let flavour = Flavour::Bare;
        Self { name, flavour, nodes, objects, then: Vec::new(), target, cause, fix, proven: true }
    }

    pub(super) fn then(mut self, line: impl Into<String>) -> Self {
        self.then.push(line.into());
        self
    }

    pub(super) fn says(mut self, cause: &'static str, fix: &'static str) -> Self {
        (self.cause, self.fix) = (cause, fix);
        self
    }

    /// Nothing more runs by the first fix alone: a person acts, or time passes.
    pub(super) fn unproven(mut self) -> Self {
        self.proven = false;
        self
    }
}

/// A cluster in which a question is asked.
struct World {
    cluster: Cluster,
    runtime: tokio::runtime::Runtime,
}

impl World {
    fn of(case: &Case) -> Self {
        let built =
            Cluster::builder().flavour(case.flavour).objects(case.nodes.clone()).objects(case.objects.clone()).build();
        let cluster = built.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let world = Self { cluster, runtime: runtime().unwrap() };
        world.pass();
        for line in &case.then {
            world.does(line);
        }
        world
    }

    fn does(&self, line: &str) {
        self.runtime.block_on(Kubectl(&self.cluster).run(line)).unwrap_or_else(|error| panic!("{line}\n{error}"));
        self.pass();
    }

    fn pass(&self) {
        self.cluster.settle();
        self.cluster.advance(Duration::from_secs(30));
        self.cluster.settle();
    }

    fn snapshot(&self) -> Snapshot {
        let seen = self.runtime.block_on(async { observe::look_at_all(&self.cluster.client()).await }).unwrap();
        Snapshot { taken_at: Some(self.cluster.now()), ..seen }
    }
}

fn running(snapshot: &Snapshot) -> BTreeSet<String> {
    let runs = |pod: &&std::sync::Arc<k8s_openapi::api::core::v1::Pod>| {
        matches!(PodState::of(pod), PodState::Running { ready: true, .. } | PodState::Succeeded)
    };
    snapshot.pods.iter().filter(runs).filter_map(|pod| pod.metadata.name.clone()).collect()
}

/// Everything that is offered, the first of the workload or of the pods that wait before the others.
fn offered(explained: &Explained) -> Vec<&Suggestion> {
    let of_workload = explained.hindrances.iter().flat_map(|hindrance| &hindrance.suggestions);
    let pending = explained.pods.iter().filter_map(|explanation| match &explanation.why {
        Why::Pending(pending) => Some(&pending.suggestions),
        _ => None,
    });
    let others = explained.pods.iter().flat_map(|explanation| &explanation.hindrances);
    of_workload.chain(pending.flatten()).chain(others.flat_map(|hindrance| &hindrance.suggestions)).collect()
}

/// What is wrong with the answer to a question; none where it is right.
fn fault(case: &Case) -> Option<String> {
    let world = World::of(case);
    let before = world.snapshot();
    let explained = match explain(&before, &Context::default(), case.target, None) {
        Ok(explained) => explained,
        Err(nothing) => return Some(nothing.to_string()),
    };
    let text = explanation_text(&explained, Styles::plain());
    if !text.contains(case.cause) {
        return Some(format!("the cause `{}` is not in\n{text}", case.cause));
    }
    if case.fix.is_empty() {
        return None;
    }
    let offered = offered(&explained);
    let Some(first) = offered.first() else { return Some(format!("no fix is offered\n{text}")) };
    let whole = format!("{}: {}", first.text, first.command.as_deref().unwrap_or_default());
    if !whole.contains(case.fix) {
        return Some(format!("the first fix is not `{}`\n{text}", case.fix));
    }
    let ran = running(&before);
    // An editor is a person's, and looking changes nothing.
    let by_hand = |command: &&String| {
        [" edit ", " describe ", " get valid", " logs ", " drain "].iter().any(|verb| command.contains(verb))
    };
    // To want fewer pods brings none.
    let brings = |fix: &&&Suggestion| case.proven && !fix.text.contains(" down to ");
    let each = offered.iter().filter(brings).filter_map(|fix| fix.command.as_ref());
    let each = each.filter(|command| !by_hand(command));
    for command in each {
        let world = World::of(case);
        world.does(command);
        // A rollout replaces pod after pod.
        (0..4).for_each(|_| world.pass());
        let now = running(&world.snapshot());
        if now.len() <= ran.len() && now.difference(&ran).count() == 0 {
            return Some(format!("nothing more runs after\n{command}\n{text}\n{now:?}"));
        }
        if now.len() < ran.len() {
            return Some(format!("fewer pods run after\n{command}\n{text}"));
        }
    }
    None
}

#[test]
fn questions_get_their_cause_and_fixes_that_work() {
    let cases: Vec<Case> = cases::all().into_iter().chain(further::all()).collect();
    let faults: Vec<String> =
        cases.iter().filter_map(|case| fault(case).map(|fault| format!("### {}\n{fault}", case.name))).collect();
    let right = cases.len() - faults.len();
    assert!(faults.is_empty(), "{right} of {} are right\n{}", cases.len(), faults.join("\n"));
}
