//! The providers that there are: what makes each, by its name in the lab file.

use std::sync::Arc;

use super::{Provider, aks, existing, kind, sim};
use crate::error::Result;
use crate::state::Home;
use klab_lab::spec::{Diagnostics, Lab, Provider as Name};

/// What providers remember of the machine while klab runs, each time one is made.
#[derive(Clone, Default)]
pub struct Memory {
    kind: Arc<kind::docker::Memory>,
}

/// The provider of that name.
///
/// # Errors
/// When this klab does not have it.
pub fn provider(name: Name, home: &Home, memory: &Memory) -> Result<Box<dyn Provider>> {
    match name {
        Name::Sim => Ok(Box::new(sim::Sim::new(home)?)),
        Name::Kind => Ok(Box::new(kind::KindProvider::new(home, Arc::clone(&memory.kind)))),
        Name::Aks => Ok(Box::new(aks::Aks::new(home))),
        Name::Existing => Ok(Box::new(existing::Existing::new(home)?)),
    }
}

/// What the lab's provider cannot make, whatever the machine; it would be refused before anything is made.
pub fn refused_anywhere(lab: &Lab) -> Diagnostics {
    match lab.provider {
        Name::Kind => kind::rules::of_any_machine(lab),
        Name::Sim | Name::Aks | Name::Existing => Diagnostics::default(),
    }
}
