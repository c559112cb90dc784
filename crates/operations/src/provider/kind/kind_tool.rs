//! The `kind` command: typed calls, and its words turned into klab's errors.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::failure;
use super::tool::Tool;
use super::version::KindVersion;
use crate::behind_klab;
use crate::environment;
use crate::error::{Code, Error, Result};
use crate::exec;

const QUESTION: Duration = Duration::from_mins(1);
/// The longest a cluster may take: a big one on a slow machine, or one whose nodes fail after four minutes each.
const CREATE: Duration = Duration::from_mins(20);
const DELETE: Duration = Duration::from_mins(5);
const LOAD: Duration = Duration::from_mins(15);

/// The command, called for one container runtime.
#[derive(Debug, Clone)]
pub struct KindTool {
    tool: Tool,
}

/// The arguments that make a cluster. klab waits for the nodes itself: kind's own `--wait` looks at control planes only.
pub fn create_arguments(cluster: &str, config: &Path, kubeconfig: &Path) -> Vec<String> {
    let mut arguments: Vec<String> = ["create", "cluster", "--name", cluster, "--config"].map(str::to_owned).into();
    arguments.push(config.display().to_string());
    // Failed nodes are kept until klab has read their journals.
    arguments.extend(["--retain", "--kubeconfig"].map(str::to_owned));
    arguments.push(kubeconfig.display().to_string());
    arguments
}

/// The arguments that delete a cluster.
pub fn delete_arguments(cluster: &str, kubeconfig: &Path) -> Vec<String> {
    let mut arguments: Vec<String> = ["delete", "cluster", "--name", cluster, "--kubeconfig"].map(str::to_owned).into();
    arguments.push(kubeconfig.display().to_string());
    arguments
}

impl KindTool {
    /// kind, with the runtime that klab uses.
    pub fn new(runtime: &str) -> Self {
        // Where klab's own is the only one, there is none: a name that no program has says so.
        let program = behind_klab::program("kind").unwrap_or_else(|| "kind (klab's own is no other)".into());
        let tool = Tool::new(program.to_string_lossy());
        Self { tool: tool.env(environment::KIND_EXPERIMENTAL_PROVIDER.name, runtime) }
    }

    /// Writes down what it says from now on.
    pub fn transcribed(&self, file: PathBuf) -> Self {
        Self { tool: self.tool.clone().transcribed(file) }
    }

    /// A command line, for people to read.
    pub fn shown(&self, arguments: &[String]) -> String {
        self.tool.shown(arguments)
    }

    /// Its version.
    ///
    /// # Errors
    /// When it is not there, or too old, or says nothing klab understands.
    pub fn version(&self) -> Result<KindVersion> {
        let text = self.tool.run(&["version"], QUESTION).map_err(failure::of_kind)?;
        let version = KindVersion::parse(&text).ok_or_else(|| {
            let message = format!("could not understand the version of kind: `{}`", text.trim());
            Error::message(Code::ToolAnswer, message)
                .hint("look at `kind version`; klab works with kind 0.27 and newer")
        })?;
        if version < KindVersion::OLDEST {
            let message = format!("kind {version} is too old: klab works with {} and newer", KindVersion::OLDEST);
            return Err(Error::message(Code::ToolTooOld, message).hint(failure::INSTALL_KIND));
        }
        Ok(version)
    }

    /// Makes a cluster. That it says it did does not mean that all nodes are there.
    ///
    /// # Errors
    /// In kind's words.
    pub fn create(&self, cluster: &str, config: &Path, kubeconfig: &Path) -> Result<(), exec::Error> {
        self.tool.run(&create_arguments(cluster, config, kubeconfig), CREATE).map(|_| ())
    }

    /// Deletes a cluster; one that is not there is no error.
    ///
    /// # Errors
    /// In kind's words.
    pub fn delete(&self, cluster: &str, kubeconfig: &Path) -> Result<()> {
        self.tool.run(&delete_arguments(cluster, kubeconfig), DELETE).map(|_| ()).map_err(failure::of_kind)
    }

    /// The kubeconfig of a running cluster, for this machine. It is a secret.
    ///
    /// # Errors
    /// In kind's words.
    pub fn kubeconfig(&self, cluster: &str) -> Result<String> {
        self.tool.run(&["get", "kubeconfig", "--name", cluster], QUESTION).map_err(failure::of_kind)
    }

    /// Loads an archive of images into nodes.
    ///
    /// # Errors
    /// In kind's words.
    pub fn load_archive(&self, cluster: &str, file: &Path, nodes: &[String]) -> Result<()> {
        let file = file.to_string_lossy();
        let arguments = ["load", "image-archive", &*file, "--name", cluster, "--nodes", &nodes.join(",")];
        self.tool.run(&arguments, LOAD).map(|_| ()).map_err(failure::of_kind)
    }
}
