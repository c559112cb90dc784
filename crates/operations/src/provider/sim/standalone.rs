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

/// A cluster as klab itself reaches it, also while its API server is stopped.
#[derive(Debug)]
pub struct Inside {
    /// The kubeconfig of its clients.
    pub kubeconfig: PathBuf,
    access: Access,
    name: String,
}

impl Inside {
    /// A client that is answered as the cluster's administrator.
    ///
    /// # Errors
    /// When the server's certificate cannot be read.
    pub async fn connect(&self) -> Result<Client> {
        let url = format!("https://{}/klab/v1/inside/{}", self.access.address, self.name);
        let trust = Trust::Authority(&self.access.certificate);
        bearer::client(&url, trust, Some(&self.access.token), Duration::MAX).await
    }

    /// Stops its API server, or lets it run again.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn stop_api(&self, stopped: bool) -> Result<()> {
        server::Client::new(&self.access).await?.stop_api(&self.name, stopped).await
    }
}

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

    /// A cluster as klab itself reaches it, whose server then runs.
    ///
    /// # Errors
    /// As [`Sim::standalone_kubeconfig`].
    pub fn inside(&self, name: &str) -> Result<Inside> {
        let kubeconfig = self.standalone_kubeconfig(name)?;
        Ok(Inside { kubeconfig, access: self.server(name)?, name: name.to_owned() })
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
