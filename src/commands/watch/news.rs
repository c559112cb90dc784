//! What happens while something is on the screen. What comes from a feeder bears its number.

use ratatui::crossterm::event::Event;

use crate::watch::grid::SeatResult;
use klab_operations::board::Frame;
use klab_operations::error::Error;

pub(super) enum News {
    /// Something was typed or clicked; none: the terminal is gone.
    Input(Option<Event>),
    /// The lab as it is now.
    Frame(u64, Box<Frame>),
    /// The seats of the class as they are now.
    Seats(u64, Vec<SeatResult>),
    /// The cluster does not answer, or something like that, and is asked again.
    Trouble(u64, String),
    /// The lab was brought up again, perhaps from another file: it must be read again.
    Again(u64),
    /// The lab is not up any more.
    Gone(u64, Error),
}
