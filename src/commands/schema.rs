//! `klab schema`: the JSON Schema of lab files.

use super::Context;
use klab_operations::error::Result;

/// Prints the schema.
///
/// # Errors
/// None.
pub fn run(context: &Context) -> Result<()> {
    context.ui.result(&klab_lab::spec::schema());
    Ok(())
}
