//! The integration tests: one binary, one module per subject.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop, and says where")]

mod aks;
mod aks_binary;
mod aks_hosted;
mod aks_real_az;
mod aks_troubles;
mod az;
#[path = "../azure/mod.rs"]
mod azure;
mod board;
mod classes;
mod cli;
mod codes;
mod conformance;
mod console;
mod docs;
mod documents;
mod english;
mod environment;
mod ephemeral;
mod existing;
mod explained;
mod faults;
mod features;
mod followed;
mod host;
mod hostile;
mod house;
mod imported;
mod kills;
mod kind;
mod kind_commands;
mod labs;
mod lesson;
mod lesson_tests;
mod mistakes;
mod no_difference;
mod on_kubernetes;
mod picture;
mod pool;
mod practice;
mod render;
mod server;
mod shell_lines;
#[path = "../skipped/mod.rs"]
mod skipped;
mod spec;
mod typed;
mod watch;
mod whatif;
mod written;
