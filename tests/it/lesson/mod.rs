//! Lessons: stages, what is typed, and steps performed and undone on a cluster in process.

mod binary;
mod perform;
mod pure;
mod upgrades;
mod virtual_machines;
pub(crate) mod wrong;

use std::path::{Path, PathBuf};
use std::time::Duration;

use klab_lab::plan::plan;
use klab_lab::spec::{self, Lab, LoadOptions};
use klab_lab::verify::{self, Report};
use klab_operations::apply::Applier;
use klab_operations::error::Result;
use klab_operations::event::Events;
use klab_operations::lesson::{Performer, Run, stage};
use klab_operations::observe;
use klab_operations::provider::sim::in_process::InProcess;
use klab_operations::provider::{Options, Provider, Work};
use klab_operations::render::render;
use klab_operations::state::Journal;

/// A lab whose cluster is in this process.
struct Bench {
    lab: Lab,
    provider: InProcess,
    client: kube::Client,
    allow_run: Option<(PathBuf, PathBuf)>,
}

impl Bench {
    /// The set-up of a lab file's text.
    fn new(text: &str) -> Self {
        Self::of(parse(text))
    }

    /// The set-up of a lab.
    fn of(lab: Lab) -> Self {
        let provider = InProcess::new(7).unwrap();
        with_work(|work| {
            let actions = plan(&lab, &provider.observe(&lab.name.value, Some(&lab))?);
            provider.perform_all(&lab, &actions, &Options::default(), work)
        })
        .unwrap();
        let client = provider.client().unwrap();
        let manifests = render(&lab).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        let mut applier = Applier::new(client.clone(), &lab.name.value);
        provider.block_on(applier.apply(&manifests, &std::collections::BTreeSet::new(), false)).unwrap();
        let bench = Self { lab, provider, client, allow_run: None };
        bench.holds(0);
        bench
    }

    fn with<T>(&self, act: impl FnOnce(&Performer<'_>, &mut Work<'_>) -> Result<T>) -> Result<T> {
        let run = self.allow_run.as_ref().map(|(kubeconfig, folder)| Run { kubeconfig, folder });
        let performer = Performer {
            runtime: self.provider.runtime(),
            client: &self.client,
            provider: &self.provider,
            time: &self.provider,
            run,
        };
        with_work(|work| act(&performer, work))
    }

    fn try_perform(&self, step: usize) -> Result<()> {
        self.with(|performer, work| performer.perform(&self.lab, step, work))
    }

    fn perform(&self, step: usize) {
        self.try_perform(step).unwrap_or_else(|error| panic!("step {step}: {error} {:?}", error.left_behind));
    }

    /// Undoes a step; gives what could not be undone.
    fn undo(&self, step: usize) -> Vec<String> {
        let undo = |action| {
            self.with(|performer, work| performer.undo_action(&self.lab, step, action, work))
                .unwrap_or_else(|error| panic!("step {step}: {error}"))
        };
        (0..self.lab.steps[step].actions.len()).rev().filter_map(undo).collect()
    }

    fn report(&self, lab: &Lab) -> Report {
        let snapshot = self.provider.block_on(async {
            let mut snapshot = observe::look(&self.client).await?;
            for check in &lab.checks {
                if let spec::Subject::Object(reference) = &check.subject.value {
                    let object = observe::object(&self.client, reference).await?.map(std::sync::Arc::new);
                    snapshot.objects.push(verify::FetchedObject { reference: reference.clone(), object });
                }
            }
            Ok(snapshot)
        });
        verify::evaluate(&lab.checks, &snapshot.unwrap(), &verify::Context::of(lab))
    }

    /// The checks after this many steps come to hold within some minutes of the cluster's time.
    fn holds(&self, steps: usize) {
        let mut staged = stage(&self.lab, steps);
        for check in &mut staged.checks {
            // Steps are done and undone here in any order: what was before is noted by the commands.
            check.conditions.retain(|condition| !matches!(condition.value, spec::Condition::SamePods { .. }));
        }
        let mut report = self.report(&staged);
        for _ in 0..600 {
            if report.ok() {
                return;
            }
            self.provider.pass(Duration::from_secs(1));
            report = self.report(&staged);
        }
        panic!(
            "after {steps} steps of {}:\n{}",
            self.lab.name,
            klab_lab::report::human(&report, klab_lab::report::Styles::plain())
        );
    }

    /// Has all pods that a controller makes recreated: where they are must not follow from where they were.
    fn restart(&self) {
        let pods = self.provider.block_on(observe::look(&self.client)).unwrap().pods;
        for pod in pods.iter().filter(|pod| pod.metadata.owner_references.is_some()) {
            let metadata = &pod.metadata;
            let (Some(name), Some(namespace)) = (&metadata.name, &metadata.namespace) else { continue };
            if namespace.starts_with("kube-") {
                continue;
            }
            let api: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::namespaced(self.client.clone(), namespace);
            let parameters = kube::api::DeleteParams::default().grace_period(0);
            // One that is gone already need not go.
            let _gone = self.provider.runtime().block_on(api.delete(name, &parameters));
        }
    }

    /// One object as JSON; null where there is none.
    fn get(&self, kind: &str, name: &str) -> serde_json::Value {
        let reference =
            spec::ObjectRef { kind: kind.into(), group: None, name: name.into(), namespace: "default".into() };
        self.provider.block_on(observe::object(&self.client, &reference)).unwrap().unwrap_or_default()
    }

    /// The nodes of a pool, by name.
    fn nodes(&self, pool: &str) -> Vec<serde_json::Value> {
        let snapshot = self.provider.block_on(observe::look(&self.client)).unwrap();
        let nodes = snapshot.nodes.iter().map(|node| serde_json::to_value(&**node).unwrap());
        nodes.filter(|node| node["metadata"]["labels"]["agentpool"] == pool).collect()
    }
}

fn with_work<T>(act: impl FnOnce(&mut Work<'_>) -> Result<T>) -> Result<T> {
    let (mut journal, events) = (Journal::nowhere(), Events::nowhere());
    act(&mut Work { journal: &mut journal, events: &events })
}

fn parse(text: &str) -> Lab {
    spec::parse("lab.toml", text, &LoadOptions::default())
        .unwrap_or_else(|problems| panic!("{}", problems.render(false)))
}

fn load(path: &str, provider: Option<spec::Provider>) -> Lab {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let options = LoadOptions { provider, ..LoadOptions::default() };
    spec::load(&path, &options).unwrap_or_else(|problems| panic!("{}", problems.render(false)))
}

/// The lessons that come with klab, and the small one for tests.
const LESSONS: [&str; 6] = [
    "tests/labs/lesson/lesson.toml",
    "labs/scheduling.toml",
    "labs/nodepools.toml",
    "labs/scheduler.toml",
    "labs/affinity.toml",
    "labs/anatomy.toml",
];
