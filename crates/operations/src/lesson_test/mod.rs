//! Lessons tried out for authors and pipelines: set-up, every step, every check, removal.
//!
//! [`run`] tries one lesson in a [`TestCluster`], which is a cluster inside this process or the real thing; [`sweep`] tries many
//! side by side, each with several seeds. What came of it is data ([`outcome`]) that [`report`] writes for people,
//! programs and pipelines, [`page`] and [`summary`] with pictures, [`annotations`] at lines of the lab files. [`objects`] tries
//! the set-up's objects alone.

pub mod annotations;
mod embedded;
pub mod files;
mod look;
pub mod objects;
pub mod outcome;
pub mod page;
pub mod report;
mod run;
mod seat;
pub mod summary;
mod sweep;
#[cfg(test)]
mod tests;

pub use embedded::EmbeddedTestCluster;
pub use outcome::{Failure, LabTrial, Moment, Phase, Picture, Trial};
pub use run::{Patience, TestCluster, run, shows};
pub use seat::as_seat;
pub use sweep::{MakeTestCluster, Plan, sweep};
