//! Clusters that klab did not make, as they are named on the command line and reached: by the user's own kubeconfig and rights.

use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use kube::config::Kubeconfig;

use super::duration;
use klab_operations::client::{client_within, configuration};
use klab_operations::error::{Code, Context as _, Result};
use klab_operations::exec::quoted;
use klab_operations::kubeconfig;

/// The cluster that kubectl's options select.
#[derive(Debug, clap::Args)]
pub(super) struct Elsewhere {
    /// A cluster that klab did not make: that of this context of your kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Your kubeconfig; KUBECONFIG, else ~/.kube/config, by default.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// How long the cluster may take for any answer.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    request_timeout: Duration,
}

impl Elsewhere {
    /// Whether the command line says that no lab is meant.
    pub(super) fn is_meant(&self) -> bool {
        self.context.is_some() || self.kubeconfig.is_some()
    }

    /// The options of kubectl that select it, with a blank before each.
    pub(super) fn options(&self) -> String {
        let file = self.kubeconfig.as_ref().map(|file| file.display().to_string());
        [("kubeconfig", file.as_deref()), ("context", self.context.as_deref())]
            .into_iter()
            .filter_map(|(option, value)| Some(format!(" --{option} {}", quoted(value?))))
            .collect()
    }

    /// The context that is meant, with its cluster and its user.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub(super) fn connect(&self) -> Result<Connection> {
        let kubeconfig =
            kubeconfig::of_context(kubeconfig::read(self.kubeconfig.as_deref())?, self.context.as_deref())?;
        let name = kubeconfig.current_context.clone().unwrap_or_default();
        Ok(Connection { name, kubeconfig, request_timeout: self.request_timeout })
    }
}

/// How a cluster of others is reached.
pub(super) struct Connection {
    /// The context.
    pub(super) name: String,
    kubeconfig: Kubeconfig,
    request_timeout: Duration,
}

impl Connection {
    /// A client, and the namespace that kubectl would mean.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub(super) async fn client(self) -> Result<(Client, String)> {
        let unusable = || format!("could not use context `{}` of the kubeconfig", self.name);
        let config = configuration(self.kubeconfig).await.code(Code::Kubeconfig, unusable)?;
        let default = config.default_namespace.clone();
        let client = client_within(config, self.request_timeout).code(Code::Kubeconfig, unusable)?;
        Ok((client, default))
    }
}
