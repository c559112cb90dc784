//! `klab resume`: start the machines that `klab pause` stopped.

use super::Context;
pub use super::pause::Arguments;
use klab_operations::error::Result;
use klab_operations::provider::machines_of;

/// Starts the lab's machines.
///
/// # Errors
/// When its provider has none, or they could not be started.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    super::pause::switch(context, arguments, "resume", |provider, lab, work| {
        machines_of(provider, lab)?.resume(lab, work)
    })
}
