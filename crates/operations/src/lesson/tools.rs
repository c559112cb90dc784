//! Pure: what a learner types with.

use crate::provider::AzureNames;

/// What a learner types with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tools {
    /// klab, kubectl and the lab's files, on one machine; the names are those of the lab in Azure.
    Here(AzureNames),
    /// kubectl, and the commands of klab that the host of a class performs. The lab's files are on the host's machine alone.
    Seat,
}

impl Default for Tools {
    fn default() -> Self {
        Self::Here(AzureNames::default())
    }
}
