//! How other klab processes talk to a server.

use std::path::Path;
use std::time::Duration;

use http::{Method, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::bearer::{self, Trust};
use crate::error::{Code, Error, Result};
use klab_cluster::seed::Seed;
use klab_server::{ACCESS_FILE, Access, ClusterAccess, ClusterState, Copied, Health, NewCopy, Removed};

/// How many objects are sent in one request: some MiB of nodes.
const AT_ONCE: usize = 1000;

/// Reads what a server wrote about itself; `None` when none is running, or none was stopped properly.
pub fn access(state_directory: &Path) -> Option<Access> {
    serde_json::from_slice(&std::fs::read(state_directory.join(ACCESS_FILE)).ok()?).ok()
}

/// A server, as other processes see it.
#[derive(Clone)]
pub struct Client {
    client: kube::Client,
}

fn failed(error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) => Error::message(Code::Server, status.message.clone()),
        other => crate::client::unreached(other),
    }
}

impl Client {
    /// A client for the server; nothing is sent yet.
    ///
    /// # Errors
    /// When the certificate cannot be read.
    pub async fn new(access: &Access) -> Result<Self> {
        Self::new_within(access, Duration::MAX).await
    }

    /// As [`Client::new`], for a caller who waits no longer than `patience` for any answer.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub async fn new_within(access: &Access, patience: Duration) -> Result<Self> {
        let url = format!("https://{}/klab/v1", access.address);
        let trust = Trust::Authority(&access.certificate);
        let client = bearer::client(&url, trust, Some(&access.token), patience).await?;
        Ok(Self { client })
    }

    async fn send<T: DeserializeOwned>(&self, method: Method, path: &str, body: &impl Serialize) -> Result<T> {
        let body = serde_json::to_vec(body).map_err(|error| Error::new(Code::Server, error))?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| Error::new(Code::Server, error))?;
        self.client.request(request).await.map_err(failed)
    }

    /// Whether the server answers, and who it is.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn health(&self) -> Result<Health> {
        self.send(Method::GET, "/health", &()).await
    }

    /// Makes a cluster; one of that name stays as it is.
    ///
    /// # Errors
    /// When the server refuses or does not answer.
    pub async fn add(&self, name: &str, seed: &Seed) -> Result<ClusterAccess> {
        self.send(Method::PUT, &format!("/clusters/{name}"), seed).await
    }

    /// Makes objects in a cluster, in this order; those that are there already stay as they are.
    ///
    /// # Errors
    /// When there is no such cluster, an object is refused, or the server does not answer.
    pub async fn add_objects(&self, name: &str, objects: &[serde_json::Value]) -> Result<()> {
        let path = format!("/clusters/{name}/objects");
        for some in objects.chunks(AT_ONCE) {
            let _: serde_json::Value = self.send(Method::POST, &path, &some).await?;
        }
        Ok(())
    }

    /// Makes copies of a cluster; what became of each, in their order. A cluster of such a name stays as it is.
    ///
    /// # Errors
    /// When there is no cluster `of`, or the server does not answer.
    pub async fn copy(&self, of: &str, copies: &[NewCopy]) -> Result<Vec<Copied>> {
        self.send(Method::POST, &format!("/clusters/{of}/copies"), &copies).await
    }

    /// Makes again what a cluster began with and has no more, such as the workloads of kube-system; gives what that was.
    ///
    /// # Errors
    /// When there is no such cluster, or the server does not answer.
    pub async fn restore(&self, name: &str) -> Result<Vec<String>> {
        let answer: serde_json::Value = self.send(Method::PUT, &format!("/clusters/{name}/system"), &()).await?;
        let made = answer["made"].as_array().into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned));
        Ok(made.collect())
    }

    /// All clusters.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn clusters(&self) -> Result<Vec<ClusterAccess>> {
        self.send(Method::GET, "/clusters", &()).await
    }

    /// Removes a cluster and all it kept; says whether there was one.
    ///
    /// # Errors
    /// When the server does not answer, or something could not be removed.
    pub async fn remove(&self, name: &str) -> Result<bool> {
        let answer: serde_json::Value = self.send(Method::DELETE, &format!("/clusters/{name}"), &()).await?;
        Ok(answer["removed"] == true)
    }

    /// Removes clusters and all they kept; what became of each.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn remove_all(&self, names: &[String]) -> Result<Vec<Removed>> {
        self.send(Method::POST, "/remove", &names).await
    }

    /// Stops the API server of a cluster, or lets it run again.
    ///
    /// # Errors
    /// When there is no such cluster, or the server does not answer.
    pub async fn stop_api(&self, name: &str, stopped: bool) -> Result<()> {
        let _: serde_json::Value = self.send(Method::PUT, &format!("/clusters/{name}/stopped"), &stopped).await?;
        Ok(())
    }

    /// Puts what its template holds in the place of all that a copy holds.
    ///
    /// # Errors
    /// When there is no such cluster, it is no copy, or the server does not answer.
    pub async fn reset(&self, name: &str) -> Result<()> {
        let _: serde_json::Value = self.send(Method::POST, &format!("/clusters/{name}/reset"), &()).await?;
        Ok(())
    }

    /// How a cluster is; it is not woken for it.
    ///
    /// # Errors
    /// When there is no such cluster, or the server does not answer.
    pub async fn state(&self, name: &str) -> Result<ClusterState> {
        self.send(Method::GET, &format!("/clusters/{name}/state"), &()).await
    }

    /// Asks the server to stop; it ends its connections and exits.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn stop(&self) -> Result<()> {
        let _: serde_json::Value = self.send(Method::POST, "/stop", &()).await?;
        Ok(())
    }
}
