//! Whose clusters a cluster is like.

use serde::{Deserialize, Serialize};

/// Whose look a cluster takes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavour {
    /// Azure Kubernetes Service.
    Aks,
    /// Kubernetes in containers: a control-plane node that is to be seen.
    Kind,
    /// Nothing beyond what every API server makes itself.
    #[default]
    Bare,
}
