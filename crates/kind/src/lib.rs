//! kind without Docker: its command line, its configuration, the nodes and objects that follow from it, and kubeconfigs.
//!
//! Everything here is a function of its arguments; klab's commands perform what these functions give.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "a configuration may have any number"))]

pub mod command_line;
pub mod configuration;
pub mod import;
pub mod kubeadm;
pub mod kubeconfig;
pub mod machine;
pub mod nodes;
pub mod scheduler;
pub mod system;
pub mod validation;
