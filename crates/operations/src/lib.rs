//! What klab does to a lab, on any provider.
//!
//! ```text
//! lab ─ provider ▶ cluster ─ render, apply ▶ workloads ─ observe ▶ snapshot ─ grade ▶ report
//!       lesson, pool, changes: what is done to a lab that is up        board: what people look at
//! ```
//!
//! Outside actions stand in the journal ([`state`]) before they are done; only [`exec`] starts processes, and only [`ui`] writes to
//! a terminal.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "what clients send may be any number"))]

pub mod allocator;
pub mod apply;
pub mod az;
pub mod background;
pub mod behind_klab;
pub mod board;
pub mod bundled_lessons;
pub mod capture;
pub mod changes;
pub mod client;
pub mod context;
pub mod drain;
pub mod environment;
pub mod error;
pub mod event;
pub mod exec;
pub mod forecast;
pub mod grade;
pub mod guard;
pub mod interruption;
pub mod invocation;
pub mod kubeconfig;
pub mod lesson;
pub mod lesson_test;
pub mod locked_lab;
pub mod observe;
pub mod parallel;
pub mod pool;
pub mod practice;
pub mod provider;
pub mod rbac_snapshot;
pub mod render;
pub mod running_lab;
pub mod stage;
pub mod state;
pub mod ui;
pub mod until_decided;
