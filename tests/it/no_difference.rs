//! Right after `klab up` nothing differs from the lab: of no shipped lesson, of no kind of object, on no provider.

use klab_lab::spec::{Lab, LoadOptions, Provider, load};
use klab_operations::changes::{Baseline, Objects, Twin};

use crate::aks_binary::Setup;
use crate::azure::api::Latency;
use crate::environment::Environment;
use crate::kind::Stage;

/// A lab with an object of every kind that labs are made of.
const EVERY_KIND: &str = include_str!("../labs/valid/every-kind.toml");

/// What differs between two clusters that were made from a lab apart from each other.
fn differences(one: &Objects, other: &Objects, lab: &Lab) -> Vec<String> {
    let changes = Baseline::default().differences(one, other, lab);
    changes.iter().map(|change| format!("{}: {}", change.object().label(), change.words())).collect()
}

fn with_seed(lab: &Lab, seed: u64) -> Lab {
    let mut lab = lab.clone();
    lab.sim.seed = Some(seed);
    lab
}

#[test]
fn of_two_clusters_of_one_lab_made_apart_at_every_step() {
    let shipped = std::fs::read_dir("labs").unwrap().map(|entry| entry.unwrap().path());
    let files = shipped.filter(|path| path.is_file()).chain(["tests/labs/valid/every-kind.toml".into()]);
    for path in files {
        let lab = load(&path, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        // Seeds decide uids and the names that are made by chance.
        let twins = [1, 2].map(|seed| Twin::of(&with_seed(&lab, seed)));
        // The last step first: on the way there, the twins note how it is after all others.
        for steps in (0..=lab.steps.len()).rev() {
            let [one, other] = twins.each_ref().map(|twin| twin.after(steps).unwrap());
            for provider in [Provider::Sim, Provider::Kind] {
                let found = differences(&one, &other, &Lab { provider, ..lab.clone() });
                assert_eq!(found, [""; 0], "{} after {steps} steps on {provider}", path.display());
            }
        }
    }
}

const NOTHING: &str = "nothing differs from lab `every-kind` at its set-up";

#[test]
fn on_the_embedded_cluster() {
    let environment = Environment::new();
    environment.write("every-kind.toml", EVERY_KIND);
    environment.succeeds(&["up", "every-kind.toml"]);
    let said = environment.klab(&["diff", "every-kind"]);
    assert!(said.contains(NOTHING), "{said}");
}

#[test]
fn on_kind() {
    let stage = Stage::new(EVERY_KIND);
    stage.up();
    let said = stage.succeeds(&["diff", "every-kind"]);
    assert!(said.contains(NOTHING), "{said}");
}

#[test]
fn on_aks() {
    let setup = Setup::new(Latency::NONE);
    setup.environment.write("every-kind.toml", EVERY_KIND);
    setup.succeeds(&["up", "every-kind.toml", "--provider", "aks"]);
    let said = setup.succeeds(&["diff", "every-kind"]);
    assert!(said.contains(NOTHING), "{said}");
}
