//! How far to go in a lesson, as it is typed behind `klab step`.

/// On by a step, to one, to the end, or back.
#[derive(Debug, Clone, Default, clap::Args, serde::Deserialize)]
#[serde(default)]
pub struct GoalArguments {
    /// Go on until this step, by name or number, is done; back to it, where later ones are.
    #[arg(long, value_name = "STEP", conflicts_with_all = ["all", "back"])]
    pub to: Option<String>,
    /// Perform all steps that are left.
    #[arg(long, conflicts_with = "back")]
    pub all: bool,
    /// Undo the last step that was done.
    #[arg(long)]
    pub back: bool,
}
