//! What a lab's embedded cluster begins with, before it has pools.

use serde_json::Value;

use klab_cluster::system;
use klab_lab::spec::{Addon, Lab, SimLike};
use klab_server::{Flavour, Seed};

/// What a lab's embedded cluster begins with; `seed` breaks ties.
pub(super) fn seed(lab: &Lab, seed: u64) -> Seed {
    let missing_images = lab.sim.missing_images.clone();
    let mut objects = addons(lab);
    let mut scheduler = lab.scheduler.as_ref().map(|scheduler| scheduler.value.configuration.clone());
    if lab.configures_scheduler_by_object() {
        objects.push(system::scheduler_configurations());
        scheduler = None;
    }
    let features = lab.features();
    Seed { flavour: flavour(lab), seed, objects, missing_images, scheduler, features, ..Seed::default() }
}

/// The objects of the lab's add-ons, where the cluster does not have them by itself.
pub fn addons(lab: &Lab) -> Vec<Value> {
    let objects = lab.addons.iter().map(|addon| match addon {
        Addon::MetricsServer => system::metrics_server(flavour(lab)),
    });
    objects.flatten().collect()
}

/// What a lab's embedded cluster holds beside the lab's own objects.
pub fn flavour(lab: &Lab) -> Flavour {
    match lab.sim.like {
        SimLike::Aks => Flavour::Aks,
        SimLike::Kind => Flavour::Kind,
    }
}
