//! Commands of az that show and change pools, wherever the clusters are: at home, or at a seat of a class.

mod cluster;
mod clusters;
mod known;
mod manual_scale;
mod nodepool;
mod pool_arguments;
mod upgrades;

use klab_az::commands::Answer;
use klab_az::grammar::Arguments;

pub use cluster::{show as show_cluster, shown_document};
pub use clusters::{Clusters, PoolChanges, is_later, look};
pub use known::{Known, Pools, shown, version};
pub use nodepool::{scale_pool, show as show_pool, update as update_pool};
pub use pool_arguments::{NewPool, labels_and_taints};

/// How a command is performed.
pub type Act = fn(&dyn Clusters, &Arguments) -> Answer;

/// What performs the command of these words.
pub fn act(command: &str) -> Option<Act> {
    Some(match command {
        "aks get-upgrades" => cluster::get_upgrades,
        "aks list" => cluster::list,
        "aks nodepool add" => nodepool::add,
        "aks nodepool delete" => nodepool::delete,
        "aks nodepool get-rollback-versions" => upgrades::get_rollback_versions,
        "aks nodepool get-upgrades" => upgrades::get_upgrades,
        "aks nodepool list" => nodepool::list,
        "aks nodepool manual-scale add" => manual_scale::add,
        "aks nodepool manual-scale delete" => manual_scale::delete,
        "aks nodepool manual-scale update" => manual_scale::update,
        "aks nodepool operation-abort" => upgrades::operation_abort,
        "aks nodepool rollback" => upgrades::rollback,
        "aks nodepool scale" => nodepool::scale,
        "aks nodepool show" => nodepool::show,
        "aks nodepool start" => nodepool::start,
        "aks nodepool stop" => nodepool::stop,
        "aks nodepool update" => nodepool::update,
        "aks nodepool upgrade" => upgrades::upgrade,
        "aks show" => cluster::show,
        _ => return None,
    })
}
