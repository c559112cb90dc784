//! What containers do that do not run: how long, how they end, what their probes answer, what they print, and what a few
//! commands that are executed in them come to.
//!
//! Nothing is run. Shell scripts are followed as far as their outcome follows from the script, the pod and its volumes. What is
//! not certain is refused with the reason.
//!
//! ```text
//! value, objects ─▶ image ─▶ pod ─▶ shell ─▶ file_changes ─▶ program ─▶ network ─▶ simulated
//!                                     └──── log ──────────────▶ history ───────────┘
//! ```

mod file_changes;
mod history;
mod image;
mod kube_scheduler;
mod log;
mod network;
mod objects;
mod pod;
mod program;
mod shell;
mod simulated;
mod value;

pub use self::file_changes::{Instance, stays};
pub use self::history::{Ran, instance};
pub use self::log::{Line, LogOptions, lines};
pub use self::objects::{Kind, Objects};
pub use self::pod::create_errors::{create_error, mount_error};
pub use self::program::{Container, Listens, Program, scheduler_configuration};
pub use self::shell::execution::{End, Execution};
pub use self::shell::output::{Piece, Stream, Unknown};
pub use self::simulated::{Containers, Executed, Log, REAL_CONTAINERS, Refusal, Simulated};
pub use self::value::status_of;
