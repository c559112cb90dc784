//! Clusters of the server that belong to no lab, such as those of `klab kind`.

use std::path::PathBuf;
use std::time::Duration;

use kube::Client;

use super::{Sim, once_more, pools, server};
use crate::client::bearer::{self, Trust};
use crate::client::connect;
use crate::error::{Code, Error, Result};
use crate::event::Events;
use klab_lab::nodes::{VERSION, full_version};
use klab_lab::spec::KubernetesVersion;
use klab_server::{Access, Seed};

impl Sim {
    /// Makes a cluster of this name, whose API server answers as this version; gives its kubeconfig.
    ///
    /// # Errors
    /// When the server cannot be started, or refuses the seed.
    pub fn add_standalone(&self, name: &str, seed: &Seed, version: Option<KubernetesVersion>) -> Result<PathBuf> {
        let cluster = once_more(|| {
            let access = self.server(name)?;
            self.block_on(async { server::Client::new(&access).await?.add(name, seed).await })
        })?;
        if let Some(version) = version.filter(|version| full_version(*version) != VERSION) {
            let answer = async || pools::answer_as(&connect(&cluster.kubeconfig_path).await?, Some(version)).await;
            once_more(|| self.block_on(answer()))?;
        }
        Ok(cluster.kubeconfig_path)
    }

    /// The kubeconfig of a cluster, whose server then runs.
    ///
    /// # Errors
    /// When there is no such cluster, or it cannot be served.
    pub fn standalone_kubeconfig(&self, name: &str) -> Result<PathBuf> {
        if !self.exists(name) {
            return Err(Error::message(Code::ClusterGone, format!("the embedded cluster `{name}` is gone")));
        }
        self.server(name)?;
        Ok(self.saved(name).join("kubeconfig"))
    }

    /// The server of a cluster, for [`Sim::connect_inside`].
    ///
    /// # Errors
    /// As [`Sim::standalone_kubeconfig`].
    pub fn standalone_access(&self, name: &str) -> Result<Access> {
        self.standalone_kubeconfig(name).and_then(|_| self.server(name))
    }

    /// A client of a cluster that is answered as its administrator, also while its API server is stopped.
    ///
    /// # Errors
    /// When the server's certificate cannot be read.
    pub async fn connect_inside(access: &Access, name: &str) -> Result<Client> {
        let url = format!("https://{}/clusters/{name}", access.address);
        bearer::client(&url, Trust::Authority(&access.certificate), Some(&access.token), Duration::MAX).await
    }

    /// Stops the API server of a cluster, or lets it run again.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn stop_api(access: &Access, name: &str, stopped: bool) -> Result<()> {
        server::Client::new(access).await?.stop_api(name, stopped).await
    }

    /// Removes a cluster, and the server where it holds no other.
    ///
    /// # Errors
    /// When something could not be removed.
    pub fn remove_standalone(&self, name: &str, events: &Events) -> Result<()> {
        self.remove_cluster(name, events)?;
        super::Provider::retire(self)
    }
}
