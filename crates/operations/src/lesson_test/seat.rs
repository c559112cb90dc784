//! A lesson as a seat of a class has it, on an embedded cluster that names nodes as the lesson's provider does.

use crate::state::class::seat_name;
use klab_lab::spec::Lab;

/// The lab, read for whichever provider, under a seat's name and for a cluster of this process. Steps and variables stay
/// those of the provider.
pub fn as_seat(mut lab: Lab) -> Lab {
    lab.name.value = seat_name(&lab.name.value, 1);
    lab.embedded()
}
