//! A learner's console: kubectl for those who have none, typed in a page and run on the host.
//!
//! No shell is started. [`policy`] understands a line and refuses whatever is not on its lists; [`Console`] has the words run by
//! the real kubectl, a few commands at a time, each in a folder of its own with the seat's kubeconfig. Between the two stands
//! [`sandbox`], in which kubectl reads no other file, connects to no other port and starts no process.

pub mod lesson;
pub mod policy;
mod program;
mod run;
pub mod sandbox;
mod settings;
mod text;
mod workdir;

pub use self::policy::{Files, Refusal};
pub use self::run::{Console, Piece, Request, Run};
pub use self::settings::{Arguments, Settings, Unconfined};
