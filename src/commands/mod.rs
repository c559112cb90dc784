//! The commands, one file each, and the options that several take.

use std::time::Duration;

use klab_lab::spec::{self, LoadOptions, Reach};
use klab_operations::context::{Context, absolute, invalid};
use klab_operations::environment;

pub mod az;
pub mod board;
pub mod capture;
pub mod check;
pub mod completions;
mod copied;
pub mod diff;
pub mod doctor;
pub mod down;
mod elsewhere;
pub mod env;
pub mod explain;
pub mod explain_code;
pub mod fit;
pub mod gc;
pub mod guide;
pub mod handout;
pub mod host;
pub mod import;
pub mod init;
pub mod join;
mod joined;
pub mod kind;
pub mod kubeconfig;
mod lesson;
pub mod lessons;
pub mod list;
pub mod man;
pub mod on_kubernetes;
mod one;
pub mod operate;
pub mod pause;
pub mod plan;
pub mod pool;
pub mod practice;
pub mod render;
pub mod reset;
pub mod resume;
mod running_lab;
pub mod sandbox;
pub mod schema;
mod seats;
pub mod serve;
pub mod shell;
pub mod shrink;
pub mod status;
pub mod step;
pub mod survive;
pub mod test;
pub mod up;
pub mod verify;
mod verify_watch;
pub mod watch;
pub mod whatif;

/// Options that say how a lab file is read.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct LabOptions {
    /// The provider: sim (the embedded cluster, also `embedded`), kind, aks, or existing for a cluster that you have; the lab file's own
    /// choice by default.
    #[arg(long, env = environment::KLAB_PROVIDER.name, value_name = "PROVIDER")]
    pub provider: Option<spec::Provider>,
    /// Set a variable of the lab's templates.
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    pub vars: Vec<(String, String)>,
    /// How the embedded cluster's scheduler breaks ties; the lab file's `[sim] seed`, else 0, by default.
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Let the lab read files outside the folder of its file.
    #[arg(long)]
    pub allow_outside: bool,
}

impl LabOptions {
    /// As the spec takes them, for what is only looked at: no value of an environment variable is read.
    pub fn load_options(&self) -> LoadOptions {
        let reach = Reach { outside: self.allow_outside, environment: false };
        LoadOptions { provider: self.provider, vars: self.vars.clone(), seed: self.seed, reach }
    }

    /// As the spec takes them, for what is made.
    pub(crate) fn load_options_to_make(&self) -> LoadOptions {
        let options = self.load_options();
        LoadOptions { reach: Reach { environment: true, ..options.reach }, ..options }
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// A duration on the command line: `90s`, `2m`, `1h 30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let signed: jiff::SignedDuration =
        text.parse().map_err(|_| "expected a duration such as 90s, 2m or 1h".to_owned())?;
    Duration::try_from(signed).map_err(|_| "a duration cannot be negative".to_owned())
}
