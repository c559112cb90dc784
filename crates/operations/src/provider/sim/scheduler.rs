//! The configuration of a running embedded cluster: its scheduler's brought to what the lab file says now, its features read.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, Patch, PostParams};
use serde_json::{Value, json};

use super::pools::failure;
use crate::apply::patch_parameters;
use crate::error::{Code, Context, Result};
use crate::event::{About, Events, Verb};
use klab_cluster::control::SCHEDULER_CONFIGURATION_ANNOTATION;
use klab_cluster::seed::FEATURES_ANNOTATION;
use klab_cluster::system;
use klab_lab::spec::{Lab, SimLike};

/// The namespace whose annotation it is.
const NAMESPACE: &str = "kube-system";

/// Brings the scheduler of a cluster that is there to the lab file; on one like AKS it defines the resource of the object that does
/// so.
///
/// # Errors
/// When the cluster refuses.
pub(super) async fn configure(client: &Client, lab: &Lab, events: &Events) -> Result<()> {
    if lab.sim.like == SimLike::Aks {
        return if lab.scheduler.is_some() { define(client).await } else { Ok(()) };
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let live = namespaces.get_metadata(NAMESPACE).await.map_err(|error| failure("read", NAMESPACE, &error))?;
    let annotations = live.metadata.annotations.unwrap_or_default();
    let written = annotations.get(SCHEDULER_CONFIGURATION_ANNOTATION);
    let wanted = lab.scheduler.as_ref().map(|scheduler| scheduler.value.configuration.to_string());
    // A cluster that was made with a configuration has it unless another one is written.
    let wanted = wanted.or_else(|| written.map(|_| default_configuration().to_string()));
    if wanted.as_ref() == written {
        return Ok(());
    }
    let patch = json!({ "metadata": { "annotations": { SCHEDULER_CONFIGURATION_ANNOTATION: wanted } } });
    let patched = namespaces.patch_metadata(NAMESPACE, &patch_parameters(), &Patch::Merge(&patch)).await;
    patched.map_err(|error| failure("change", NAMESPACE, &error))?;
    if written.is_some() {
        events.about(About::Cluster, &lab.name.value).note(Verb::ConfigureScheduler, "the scheduler".to_owned());
    }
    Ok(())
}

/// What differs between the features of a running cluster and those of the lab file.
///
/// # Errors
/// When the cluster does not say.
pub(super) async fn other_features(client: &Client, lab: &Lab) -> Result<Option<String>> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let live = namespaces.get_metadata(NAMESPACE).await.map_err(|error| failure("read", NAMESPACE, &error))?;
    let have = live.metadata.annotations.unwrap_or_default().remove(FEATURES_ANNOTATION).unwrap_or_default();
    let wanted = lab.sim.features.to_string();
    let shown = |text: &str| if text.is_empty() { "those of Kubernetes".to_owned() } else { text.to_owned() };
    Ok((have != wanted).then(|| format!("features {} become {}", shown(&have), shown(&wanted))))
}

fn default_configuration() -> Value {
    json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration" })
}

async fn define(client: &Client) -> Result<()> {
    let definition: CustomResourceDefinition = serde_json::from_value(system::scheduler_configurations())
        .code(Code::KlabFault, || "could not read klab's own definition".to_owned())?;
    let made = Api::all(client.clone()).create(&PostParams::default(), &definition).await;
    match made {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => made.map(drop).map_err(|error| failure("define", system::SCHEDULER_CONFIGURATIONS, &error)),
    }
}
