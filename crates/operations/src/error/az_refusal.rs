//! An error of klab as az shows it.

use super::{Error, Kind};
use klab_az::refusal::{Code, Refusal};

impl From<Error> for Refusal {
    /// An error of klab. What breaks a rule of pools is what Azure would call a bad request.
    fn from(error: Error) -> Self {
        let words = format!("{error:#}");
        let refusal =
            if error.kind() == Kind::Usage { Self::azure(Code::BadRequest, &words) } else { Self::new(words) };
        let left = error.left_behind.into_iter().map(|left| format!("Left behind: {left}"));
        let refusal = left.fold(refusal, Self::advise);
        // What is to be written into a lab file is nothing that helps here.
        let hints = error.hints.into_iter().filter(|hint| !hint.contains(" = "));
        hints.fold(refusal, Self::advise)
    }
}
