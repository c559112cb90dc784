//! What stays the same while a lab is shown.

use super::palette::Palette;
use klab_operations::invocation::Invocation;
use klab_operations::state::Progress;

/// The guide for a learner at this point, in a number of columns.
pub type Script = Box<dyn Fn(&Progress, usize) -> String>;

/// What stays the same while a lab is shown.
pub struct Setting {
    /// The colours there are.
    pub palette: Palette,
    /// What time it is.
    pub now: Box<dyn Fn() -> jiff::Timestamp>,
    /// The time zone of clocks.
    pub zone: jiff::tz::TimeZone,
    /// How klab's commands are typed.
    pub invocation: Invocation,
    /// What the guide says.
    pub script: Script,
    /// Whether the lab is a seat of a class, to which Esc leads back.
    pub is_seat: bool,
}
