//! A class at everybody's own computer: people join over the network, each gets a seat that is a cluster of its own, and the
//! lesson lives with it.
//!
//! ```text
//! request ─ /seats/S/N/… ─▶ the cluster, for the owner of its token
//!         └ all else ─ ClassServer ─▶ join page | learner | instructor | operators ─▶ Host ─▶ Register + journal
//! ```

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "what clients send may be any number"))]

pub mod address;
pub mod admission;
mod aggregate;
pub mod answer;
pub mod api;
mod asset;
pub mod audit;
mod azure;
mod barring;
mod begin;
pub mod board_cache;
pub mod board_view;
pub mod boards;
pub mod code;
pub mod codes;
pub mod console;
mod console_routes;
pub mod cookie;
pub mod course;
pub mod event_stream;
pub mod fingerprint;
mod forwarding;
pub mod grading;
pub mod instructor;
pub mod join_page;
mod joining;
pub mod journal;
pub mod learner;
pub mod limit;
pub mod metrics;
pub mod observer;
pub mod oidc;
pub mod on_kubernetes;
pub mod owner;
mod practice;
mod queries;
pub mod refusal;
pub mod register;
pub mod renderer;
mod replicated_state;
pub mod replication;
pub mod router;
pub mod seat;
pub mod seat_locks;
pub mod secret;
pub mod service_address;
mod shard_routing;
pub mod shards;
mod sign_in;
pub mod standing;
pub mod standings;
pub mod state;
pub mod steps;
mod teacher;
pub mod template;
pub mod templates;
pub mod timers;
mod typed;
pub mod webhook;
