//! logs, exec, attach, port-forward: nothing runs in the embedded cluster. What is known of it all the same is
//! answered, and of the rest the answers say so.

// upstream: pkg/registry/core/pod/strategy.go LogLocation, streamLocation, validateContainer (v1.36)

use http::{Method, Response};
use klab_api_machinery::resource::{NODES, ResourceId, SERVICES};
use klab_api_machinery::status::Status;
use klab_api_machinery::views::{Container, Node, NodeAddress, Pod};
use klab_containers::REAL_CONTAINERS;
use serde_json::{Value, json};

use super::super::cluster::Cluster;
use super::super::control::{HEARTBEAT_ANNOTATION, STOPPED};
use super::answer;
use super::call::{Call, Target};
use crate::body::Body;

/// The refusal of every request that needs a running container.
const NO_CONTAINERS: &str = "the embedded cluster runs no containers";

/// The refusal of what is not known, why it is not, and where it can be tried.
pub(super) fn not_known(what: &str) -> Status {
    Status {
        details: json!({"causes": [{"message": NO_CONTAINERS}]}),
        ..Status::new(501, "NotImplemented", format!("{NO_CONTAINERS}: {what}; {REAL_CONTAINERS}"))
    }
}

/// Refuses where the kubelet of a pod's node does not answer.
pub(super) fn reachable(cluster: &Cluster, pod: &Value, path: &str) -> Result<(), Status> {
    let name = Pod(pod).spec().node_name();
    let node = cluster.get(NODES, "", name).ok_or_else(|| Status::not_found(NODES.row(), name))?.value();
    let (metadata, status) = (Node(&node).metadata(), Node(&node).status());
    let silent = metadata.annotations().get(HEARTBEAT_ANNOTATION) == Some(STOPPED)
        || status.conditions().of_type("Ready").is_some_and(|ready| ready.status() == "Unknown");
    if !silent {
        return Ok(());
    }
    let address = status.addresses().of_type("InternalIP").map(NodeAddress::address);
    let at = format!("{}:10250", address.unwrap_or(name));
    let message = format!("Get \"https://{at}/{path}\": dial tcp {at}: i/o timeout");
    Err(Status::new(500, "InternalError", message))
}

/// The kind of the options of a connection.
fn kind_of_options(resource: ResourceId, part: &str) -> &'static str {
    match part {
        "exec" => "PodExecOptions",
        "attach" => "PodAttachOptions",
        "portforward" => "PodPortForwardOptions",
        _ if resource == NODES => "NodeProxyOptions",
        _ if resource == SERVICES => "ServiceProxyOptions",
        _ => "PodProxyOptions",
    }
}

impl Call<'_> {
    /// `log`, `exec`, `attach`, `portforward` of a pod.
    pub(super) fn stream(&self, target: &Target, name: &str) -> Result<Response<Body>, Status> {
        if name == "log" && self.parts.method != Method::GET {
            return Err(answer::method_not_allowed());
        }
        let pod = self.cluster().get(target.resource, target.namespace(), target.name());
        let pod = pod.ok_or_else(|| Status::not_found(target.resource.row(), target.name()))?.value();
        let assigned = !Pod(&pod).spec().node_name().is_empty();
        let container = if name == "portforward" { &Value::Null } else { self.container(target, &pod)? };
        if name != "log" {
            self.connect(target, target.name(), name)?;
        }
        match (name, assigned) {
            // A container that has not started has written nothing.
            ("log", false) => Ok(answer::text(200, "")),
            ("log", true) => {
                let upgrade = self.parts.extensions.get().cloned();
                let answered = self.logs(target, &pod, container)?;
                Ok(super::log_socket::as_asked(answered, &self.parts.headers, upgrade))
            }
            (_, false) => Err(Status::bad_request(format!("pod {} does not have a host assigned", target.name()))),
            ("portforward", true) => Err(not_known("there is nothing to forward to")),
            ("attach", true) => Err(not_known(
                "there is nothing to attach to (`kubectl logs -f` shows what is printed, where that is known)",
            )),
            (_, true) => self.exec(target, &pod, container),
        }
    }

    /// Asks webhooks and policies whether somebody may connect to this part of an object.
    pub(super) fn connect(&self, target: &Target, name: &str, part: &str) -> Result<(), Status> {
        let mut asked = json!({ "kind": kind_of_options(target.resource, part), "apiVersion": "v1" });
        for flag in ["stdin", "stdout", "stderr", "tty"] {
            if matches!(part, "exec" | "attach") && self.query.flag(flag) {
                asked[flag] = json!(true);
            }
        }
        if let Some(container) = self.query.get("container") {
            asked["container"] = json!(container);
        }
        let command: Vec<&str> = self.query.all("command").collect();
        if part == "exec" && !command.is_empty() {
            asked["command"] = json!(command);
        }
        let ports: Vec<i64> = self.query.all("ports").filter_map(|port| port.parse().ok()).collect();
        if part == "portforward" && !ports.is_empty() {
            asked["ports"] = json!(ports);
        }
        self.cluster().connect(target.resource, (target.namespace(), name), part, &asked, &self.deletes())
    }

    /// The container that is meant.
    fn container<'a>(&self, target: &Target, pod: &'a Value) -> Result<&'a Value, Status> {
        let spec = Pod(pod).spec();
        let found = match self.query.get("container").filter(|name| !name.is_empty()) {
            Some(wanted) => spec
                .all_containers()
                .find(|container| container.name() == wanted)
                .ok_or_else(|| format!("container {wanted} is not valid for pod {}", target.name())),
            None => spec.containers().next().filter(|_| spec.containers().len() == 1).ok_or_else(|| {
                let names: Vec<&str> = spec.all_containers().map(Container::name).collect();
                format!(
                    "a container name must be specified for pod {}, choose one of: [{}]",
                    target.name(),
                    names.join(" ")
                )
            }),
        };
        found.map(|container| container.0).map_err(Status::bad_request)
    }
}
