//! What az takes and answers, for labs that are not in Azure: its flags, its checks, its documents, its formats and its words.
//!
//! Nothing here reaches a cluster or the disk; `src/commands/az/` does what was typed. Facts about az are those of
//! azure-cli 2.91.0, and of ARM as its documentation and az's own source tell them.

pub mod checks;
pub mod cluster;
pub mod flag;
pub mod format;
pub mod grammar;
pub mod kubeconfig;
pub mod names;
pub mod pool;
pub mod query;
pub mod refusal;
pub mod tables;
pub mod versions;
pub mod words;
