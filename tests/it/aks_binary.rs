//! `klab … --provider aks` as people type it, through the fake az, with Kubernetes behind it; killed at every call.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use crate::azure::api::{Latency, Model};
use crate::azure::fake::{Fake, Moment};
use crate::azure::kubernetes;
use crate::environment::Environment;

const SMALL: &str = r#"
lab = "small"
provider = "aks"

[pool.system]
mode = "system"
size = "Standard_B2ms"

[pool.extra]
size = "Standard_B2ms"
labels = { workload = "extra" }

[workload.web]
image = "nginx:1.27"
node_selector = { workload = "extra" }

[[check]]
workload = "web"
on = "pool:extra"
running = 1
"#;

struct Setup {
    environment: Environment,
    fake: Fake,
}

impl Setup {
    fn new(latency: Latency) -> Self {
        let environment = Environment::new();
        let fake = Fake::start(Model::new(latency));
        kubernetes::attach(&fake.model, environment.folder());
        environment.write("small.toml", SMALL);
        Self { environment, fake }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.environment.command(arguments);
        command.env("KLAB_AZ", self.fake.program(self.environment.folder())).env("KLAB_AKS_POLL", "2ms");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let shown = self.environment.shown(&output);
        assert!(output.status.success(), "klab {arguments:?}\n{shown}");
        shown
    }

    fn everything(&self) -> Vec<String> {
        self.fake.model().everything()
    }
}

#[test]
fn scheduling_lab_goes_up_changes_and_leaves_nothing() {
    let setup = Setup::new(Latency::NONE);
    let text = std::fs::read_to_string("labs/scheduling.toml").unwrap();
    setup.environment.write("scheduling.toml", &text);
    setup.succeeds(&["up", "scheduling.toml", "--provider", "aks"]);
    setup.succeeds(&["verify", "scheduling"]);
    let changed = text.replace(
        "nodes  = 1\nsize   = \"Standard_B2ms\"\nlabels = { workload = \"extra\" }",
        "nodes  = 2\nsize   = \"Standard_B2ms\"\nlabels = { workload = \"extra\", team = \"a\" }",
    );
    assert_ne!(changed, text);
    let changed = changed.replace("exist   = 1", "exist   = 2").replace("running      = 3", "running      = 4");
    setup.environment.write("scheduling.toml", changed);
    setup.succeeds(&["up", "scheduling.toml", "--provider", "aks"]);
    let verified = setup.succeeds(&["verify", "scheduling"]);
    assert!(verified.contains("5 of 5"), "{verified}");
    setup.succeeds(&["down", "scheduling"]);
    assert_eq!((setup.everything(), setup.environment.leftovers()), (Vec::new(), Vec::new()));
}

/// Runs `arguments` killed at each call of az in turn; gives the number of calls.
fn killed_at_every_call(moment: Moment, prepare: impl Fn(&Setup), arguments: &[&str], after: impl Fn(&Setup)) -> usize {
    let latency = Latency {
        create: std::time::Duration::from_millis(25),
        pool: std::time::Duration::from_millis(25),
        delete: std::time::Duration::from_millis(10),
    };
    for call in 1.. {
        let setup = Setup::new(latency);
        prepare(&setup);
        setup.fake.kill_at(call, moment);
        let output = setup.run(arguments);
        if !setup.fake.stop_killing() {
            assert!(output.status.success(), "{}", setup.environment.shown(&output));
            return call - 1;
        }
        assert_eq!(output.status.signal(), Some(9), "call {call}: {}", setup.environment.shown(&output));
        after(&setup);
    }
    unreachable!("the loop ends with the first run that is not killed")
}

fn converges_and_goes(setup: &Setup) {
    setup.succeeds(&["up", "small.toml"]);
    let everything = setup.everything();
    assert_eq!(everything.len(), 5, "group, group of machines, cluster, two pools: {everything:?}");
    setup.succeeds(&["down", "small"]);
    assert_eq!((setup.everything(), setup.environment.leftovers()), (Vec::new(), Vec::new()));
}

fn goes(setup: &Setup) {
    setup.succeeds(&["down", "small"]);
    assert_eq!((setup.everything(), setup.environment.leftovers()), (Vec::new(), Vec::new()));
}

#[test]
fn up_killed_before_any_call_of_az_converges() {
    let calls = killed_at_every_call(Moment::Before, |_| {}, &["up", "small.toml"], converges_and_goes);
    assert!(calls >= 10, "{calls}");
}

#[test]
fn up_killed_after_any_call_of_az_converges() {
    let calls = killed_at_every_call(Moment::After, |_| {}, &["up", "small.toml"], converges_and_goes);
    assert!(calls >= 10, "{calls}");
}

#[test]
fn up_killed_at_any_call_of_az_goes_down_without_a_rest() {
    killed_at_every_call(Moment::After, |_| {}, &["up", "small.toml"], goes);
}

#[test]
fn down_killed_at_any_call_of_az_is_finished_by_another() {
    let up = |setup: &Setup| drop(setup.succeeds(&["up", "small.toml"]));
    let calls = killed_at_every_call(Moment::After, up, &["down", "small"], goes);
    assert!(calls >= 4, "{calls}");
}
