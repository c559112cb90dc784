//! What containers do that do not run: how long, how they end, what their probes answer, what they print, and what a few
//! commands that are executed in them come to.
//!
//! Nothing is run. Shell scripts are followed as far as their outcome follows from the script, the pod and its volumes. What is
//! not certain is refused with the reason.
//!
//! ```text
//! value, objects ─▶ image ─▶ pod ─▶ shell ─▶ kept ─▶ program ─▶ network ─▶ simulated
//!                                     └──── log ─▶ story ────────────────────┘
//! ```

mod image;
mod kept;
mod log;
mod network;
mod objects;
mod pod;
mod program;
mod shell;
mod simulated;
mod story;
mod value;

pub use self::kept::{Instance, stays};
pub use self::log::{Line, LogOptions, lines};
pub use self::objects::{Kind, Objects};
pub use self::pod::obstacles::{obstacle, unfilled};
pub use self::program::{Container, Listens, Program};
pub use self::shell::output::{Doubt, Piece, Stream};
pub use self::shell::world::{Course, End};
pub use self::simulated::{Containers, ELSEWHERE, Executed, Log, Refusal, Simulated};
pub use self::story::{Ran, instance};
pub use self::value::status_of;
