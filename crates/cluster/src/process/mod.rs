//! What the image and the command of a container say about how it runs: how long, how it ends, what it does on SIGTERM,
//! what it prints.
//!
//! Nothing is run. Shell scripts are followed as far as their outcome can be told from the script, the environment and
//! the volumes of the pod, and the files that containers left there; the end of other programs is unknown.
//!
//! ```text
//! tokens ─▶ script ─▶ run ─ expand, programs, printing, reading, filing, clients, agnhost ─▶ world::Course | Performance
//! environment, mounts, given, image ─▶ place ─▶ world        story: what the containers of a pod have done until now
//! environment, image ─▶ obstacles: why a container cannot be created, and a volume not filled
//! kept (what executed commands did to files, from the store) ─▶ world        beside: what commands of probes come to
//! ```

#![cfg_attr(
    not(feature = "server"),
    allow(dead_code, unused_imports, reason = "who asks for logs and commands comes by the server")
)]

mod agnhost;
mod amounts;
mod arithmetic;
mod beside;
mod clients;
mod curl;
mod dump;
mod environment;
mod expand;
mod fields;
mod file;
mod files;
mod filing;
mod given;
mod glob;
mod health;
mod history;
mod image;
mod kept;
mod log;
mod mode;
mod mounts;
mod netcat;
mod obstacles;
mod output;
mod place;
mod plumbing;
mod printing;
mod program;
mod programs;
mod reach;
mod reading;
mod run;
mod script;
mod servers;
mod session;
mod story;
#[cfg(test)]
mod tests;
mod tokens;
mod trace;
mod wget;
mod world;

pub(crate) use self::beside::outcomes;
pub(crate) use self::clients::is_client;
pub(crate) use self::files::{Changed, Made};
pub(crate) use self::given::host_of;
pub(crate) use self::image::{Image, is_of_every_shell};
pub(crate) use self::kept::{Instance, keep, keep_end, keep_given};
pub(crate) use self::log::{Line, LogOptions, lines};
pub(crate) use self::obstacles::{obstacle, unfilled};
pub(crate) use self::output::{Given, Piece, Stream};
pub(crate) use self::program::{Listens, Program, program};
pub(crate) use self::reach::{Heard, Lookup, Moment, Protocol, Reach, Request, Response, Sent};
pub(crate) use self::run::{follow, perform};
pub(crate) use self::servers::{Porter, Server};
pub(crate) use self::session::{Answered, Session, is_prompt, is_shell};
pub(crate) use self::story::{Ran, awaited_command, instance, last_message, past, present, reader, status_of};
pub(crate) use self::world::{End, Performance, World};
