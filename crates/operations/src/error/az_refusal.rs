//! An error of klab as az shows it.

use super::{Error, Kind};
use klab_az::refusal::{Code, Refusal};

impl From<Error> for Refusal {
    /// An error of klab. What breaks a rule of pools is what Azure would call a bad request.
    fn from(error: Error) -> Self {
        let words = format!("{error:#}");
        let of_azure = |code: Code| Some(Self::azure(code, words.strip_prefix(&format!("({code}) "))?));
        let refusal = match error.kind() {
            Kind::Usage => Self::azure(Code::BadRequest, &words),
            _ if error.code == klab_lab::code::Code::PoolUpgrade => of_azure(Code::UpgradeFailed)
                .or_else(|| of_azure(Code::UnsatisfiablePDB))
                .or_else(|| of_azure(Code::OperationNotAllowed))
                .unwrap_or_else(|| Self::new(words.clone())),
            _ => Self::new(words),
        };
        let left = error.left_behind.into_iter().map(|left| format!("Left behind: {left}"));
        let refusal = left.fold(refusal, Self::advise);
        // What is to be written into a lab file is nothing that helps here.
        let hints = error.hints.into_iter().filter(|hint| !hint.contains(" = "));
        hints.fold(refusal, Self::advise)
    }
}
