//! A lab: its file, its rules, what it needs, and what it says about a cluster. Pure: no process, no network, no cluster.
//!
//! ```text
//! lab file ─ spec (read, checked) ─▶ plan (what is to be made) ─▶ …the binary makes it… ─▶ verify (snapshot → verdicts) ─▶ report
//! ```
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use klab_lab::plan::{Observed, plan};
//! use klab_lab::spec::{LoadOptions, parse};
//! use klab_lab::verify::{Context, Snapshot, evaluate};
//! use serde_json::{from_value, json};
//!
//! let text = r#"
//! lab = "demo"
//!
//! [pool.main]
//! mode = "system"
//! nodes = 2
//!
//! [[check]]
//! nodes = "pool:main"
//! ready = true
//! "#;
//! // `spec::load` reads a file, and the files that it names.
//! let lab = parse("demo.toml", text, &LoadOptions::default()).map_err(|problems| problems.to_string())?;
//!
//! let actions: Vec<String> = plan(&lab, &Observed::default()).iter().map(ToString::to_string).collect();
//! assert_eq!(actions[0], "create the cluster");
//! assert!(actions[1].starts_with("add pool main (2 × "));
//!
//! let node = |name: &str, ready: &str| {
//!     from_value(json!({
//!         "metadata": { "name": name, "labels": { "agentpool": "main" } },
//!         "status": { "conditions": [{ "type": "Ready", "status": ready }] },
//!     }))
//!     .map(Arc::new)
//! };
//! let mut snapshot = Snapshot { nodes: vec![node("a", "True")?, node("b", "False")?], ..Snapshot::default() };
//! assert!(!evaluate(&lab.checks, &snapshot, &Context::of(&lab)).ok());
//! snapshot.nodes[1] = node("b", "True")?;
//! assert!(evaluate(&lab.checks, &snapshot, &Context::of(&lab)).ok());
//! # Ok(())
//! # }
//! ```
//!
//! [`spec`] reads a lab and shows the place of each mistake, [`plan`] says what is to be done to a cluster, [`verify`] judges a
//! [`verify::Snapshot`] and explains it, [`report`] writes that as text, JSON, JUnit or Markdown, [`board`] shows it as a
//! picture. Only [`spec`] reads files,
//! and only those of the lab.
//!
//! **Experimental:** the whole interface. It follows klab's needs; the lab file itself is documented and kept.

#![deny(missing_docs)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "what lab files say may be any number"))]

pub mod board;
pub mod code;
pub mod cost;
mod expression;
pub mod names;
pub mod nodes;
pub mod plan;
pub mod pool_upgrade;
pub mod printable;
pub mod report;
pub mod spec;
pub mod verify;
pub mod words;

pub use spec::membership;

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
