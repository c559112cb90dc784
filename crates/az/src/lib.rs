//! az for clusters that are not in Azure: its flags, checks, documents, output formats and messages.
//!
//! Nothing here reaches a cluster or the disk: [`commands::answer`] reads a command line and asks a
//! [`commands::Executor`] to perform it. Facts about az are those of azure-cli 2.91.0, and of ARM as its documentation
//! and az's own source have them.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "what users type may be any number"))]

pub mod account;
pub mod checks;
pub mod cluster;
pub mod commands;
pub mod flag;
pub mod format;
pub mod grammar;
pub mod group;
pub mod kubeconfig;
pub mod messages;
pub mod names;
pub mod notes;
pub mod pool;
pub mod query;
pub mod refusal;
pub mod rows;
pub mod tables;
pub mod versions;
pub mod wait;

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
