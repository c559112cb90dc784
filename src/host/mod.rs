//! A class at everybody's own computer: people join over the network, each gets a seat that is a cluster of its own, and the
//! lesson lives with it.
//!
//! ```text
//! request ─ /seats/S/N/… ─▶ the cluster, to whoever has its token
//!         └ all else ─ Door ─▶ entrance | learner | instructor | operators ─▶ Host ─▶ Register + journal
//! ```

pub mod address;
pub mod agreeing;
pub mod answer;
pub mod api;
mod asked;
pub mod audit;
mod barring;
mod begin;
pub mod boards;
pub mod code;
mod codes;
mod console;
pub mod cookie;
mod decisions;
pub mod drawing;
pub mod entrance;
pub mod fingerprint;
mod forwarding;
pub mod front;
pub mod grading;
pub mod instructor;
mod joining;
pub mod journal;
mod leading;
pub mod learner;
pub mod limit;
pub mod metrics;
pub mod observer;
pub mod oidc;
pub mod owner;
pub mod performing;
pub mod refusal;
pub mod register;
pub mod seat;
pub mod secret;
pub mod service_address;
pub mod shards;
pub mod stage;
pub mod standing;
pub mod standings;
pub mod state;
pub mod talk;
mod teacher;
pub mod template;
pub mod templates;
pub mod timers;
pub mod turns;
mod typed;
pub mod viewing;
pub mod webhook;
mod whole;
