//! `az aks show`, `list` and `get-upgrades`: clusters as they are.

use klab_az::cluster::{document, upgrades_document};
use klab_az::commands::Answer;
use klab_az::grammar::Arguments;
use klab_az::messages;

use super::clusters::Clusters;
use super::known::{Known, Pools, shown};

const NAME: &str = "--name";

/// A cluster's document.
pub fn shown_document(on: &dyn Clusters, known: &Known) -> Answer {
    let live = on.displayed(known)?;
    let (site, pools) = (known.site(&live), Pools::of(&live));
    Ok(document(&shown(&site, known, &live, &pools)))
}

/// `show`.
pub fn show(on: &dyn Clusters, given: &Arguments) -> Answer {
    shown_document(on, &on.cluster(given, NAME)?)
}

/// `list`.
pub(super) fn list(on: &dyn Clusters, given: &Arguments) -> Answer {
    let mut clusters = on.clusters()?;
    if let Some(group) = given.word("--resource-group") {
        clusters.retain(|known| known.is_in(group));
        if clusters.is_empty() && !on.has_made(group)? {
            return Err(messages::no_group(group));
        }
    }
    let shown = clusters.iter().filter_map(|known| match shown_document(on, known) {
        Ok(document) => Some(document),
        Err(refusal) => {
            on.warn(&format!("Cluster '{}' is left out: {}", known.cluster, refusal.message));
            None
        }
    });
    Ok(shown.collect())
}

/// `get-upgrades`.
pub(super) fn get_upgrades(on: &dyn Clusters, given: &Arguments) -> Answer {
    let known = on.cluster(given, NAME)?;
    let live = on.look_even_stopped(&known)?;
    let (site, pools) = (known.site(&live), Pools::of(&live));
    Ok(upgrades_document(&shown(&site, &known, &live, &pools)))
}
