//! `klab plan`.

/// What can be typed after `klab plan`.
#[derive(Debug, clap::Args)]
pub struct Arguments {}

/// Plans.
pub fn run(_: &super::Context, _: &Arguments) -> crate::error::Result<()> {
    Ok(())
}
