//! A lab: its file, its rules, what it needs, and what it says about a cluster. Pure: no process, no network, no cluster.
//!
//! ```text
//! lab file ─ spec (read, checked) ─▶ plan (what is to be made) ─▶ …the binary makes it… ─▶ verify (snapshot → verdicts) ─▶ report
//! ```
//!
//! Only [`spec`] reads files, and only those of the lab.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "what lab files say may be any number"))]

pub mod cost;
pub mod expression;
pub mod names;
pub mod nodes;
pub mod plan;
pub mod printable;
pub mod report;
pub mod spec;
pub mod verify;
pub mod words;

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
