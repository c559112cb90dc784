//! logs, exec, attach, port-forward, proxy: nothing runs in the embedded cluster, and the answers say so.

use http::Response;
use serde_json::{Value, json};

use super::super::resource::{NODES, PODS};
use super::super::status::Status;
use super::answer;
use super::body::Body;
use super::call::{Call, Target};

/// What every request that needs a running container is told.
const NO_CONTAINERS: &str = "the embedded cluster runs no containers";

fn unavailable(what: &str) -> Status {
    Status {
        details: json!({"causes": [{"message": NO_CONTAINERS}]}),
        ..Status::new(501, "NotImplemented", format!("{NO_CONTAINERS}: {what}"))
    }
}

impl Call<'_> {
    /// `log`, `exec`, `attach`, `portforward` of a pod.
    pub(super) fn stream(&self, target: &Target, name: &str) -> Result<Response<Body>, Status> {
        let pod = self.cluster().get(target.resource, target.namespace(), target.name());
        let pod = pod.ok_or_else(|| Status::not_found(target.resource.row(), target.name()))?.value();
        let assigned = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        if name != "portforward" {
            self.check_container(target, &pod)?;
        }
        match (name, assigned) {
            // A container that has not started has written nothing.
            ("log", false) => Ok(answer::text(200, "")),
            ("log", true) => Err(unavailable("there are no logs")),
            (_, false) => Err(Status::bad_request(format!("pod {} does not have a host assigned", target.name()))),
            ("portforward", true) => Err(unavailable("there is nothing to forward to")),
            ("attach", true) => Err(unavailable("there is nothing to attach to")),
            (_, true) => Err(unavailable("no command can be executed")),
        }
    }

    fn check_container(&self, target: &Target, pod: &Value) -> Result<(), Status> {
        let names: Vec<&str> = ["containers", "initContainers", "ephemeralContainers"]
            .iter()
            .flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten())
            .filter_map(|container| container["name"].as_str())
            .collect();
        match self.query.get("container") {
            Some(wanted) if !names.contains(&wanted) => {
                Err(Status::bad_request(format!("container {wanted} is not valid for pod {}", target.name())))
            }
            _ => Ok(()),
        }
    }

    /// The pods that a node's kubelet has, as it lists them itself.
    fn pods_of_kubelet(&self, node: &str) -> Response<Body> {
        let (pods, _) = self.cluster().list(PODS, None);
        let pods: Vec<Value> =
            pods.iter().map(|pod| pod.to_value()).filter(|pod| pod["spec"]["nodeName"] == node).collect();
        answer::json_value(200, &json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}))
    }

    /// `proxy` of a node, pod or service.
    pub(super) fn proxy(&self, target: &Target, rest: &str) -> Result<Response<Body>, Status> {
        let name = target.name().split(':').next().unwrap_or_default();
        if self.cluster().get(target.resource, target.namespace(), name).is_none() {
            return Err(Status::not_found(target.resource.row(), name));
        }
        if target.resource == NODES && matches!(rest.trim_matches('/'), "pods" | "runningpods") {
            return Ok(self.pods_of_kubelet(name));
        }
        let what = if target.resource == NODES { "no kubelet answers" } else { "nothing listens" };
        Err(unavailable(&format!("{what} at /{rest}")))
    }
}
