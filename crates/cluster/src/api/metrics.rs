//! metrics.k8s.io: synthetic figures for `kubectl top`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use http::Response;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{NODES, PODS, Resource, ResourceId};
use klab_api_machinery::status::Status;
use klab_api_machinery::table;
use klab_api_machinery::views::Pod;
use serde_json::{Value, json};

use super::answer::{self, method_not_allowed, no_such_resource, page_not_found};
use super::call::{Call, Shared};
use super::negotiate::Form;
use super::path::ResourcePath;
use super::usage::{Metrics, Use, container_use, node_use};
use crate::body::Body;
use crate::load;
use klab_api_machinery::selector::Selector;

/// Group of the metrics API.
pub(super) const GROUP: &str = "metrics.k8s.io";

impl Shared {
    pub(super) fn metrics(&self) -> Metrics {
        *self.metrics.read().unwrap_or_else(PoisonError::into_inner)
    }
}

const VERBS: &[&str] = &["get", "list"];
const ROWS: &[Resource] = &[row("nodes", "NodeMetrics", false), row("pods", "PodMetrics", true)];

const fn row(plural: &'static str, kind: &'static str, namespaced: bool) -> Resource {
    Resource {
        group: GROUP,
        version: "v1beta1",
        kind,
        plural,
        namespaced,
        short_names: &[],
        categories: &[],
        verbs: VERBS,
        subresources: &[],
        stored_as: None,
        custom: false,
        family: None,
    }
}

/// What discovery lists.
pub(super) fn rows(metrics: &Metrics) -> &'static [Resource] {
    if *metrics == Metrics::Absent { &[] } else { ROWS }
}

impl Call<'_> {
    pub(super) fn metrics(&self, path: &ResourcePath) -> Result<Response<Body>, Status> {
        let metrics = self.api.metrics();
        if metrics == Metrics::Absent || path.version != "v1beta1" {
            return Ok(page_not_found());
        }
        if !matches!(self.parts.method, http::Method::GET) {
            return Err(method_not_allowed());
        }
        let namespace = path.namespace.as_deref();
        match (path.plural.as_str(), path.name.as_deref()) {
            ("nodes", name) if namespace.is_none() => self.node_metrics(metrics, name),
            ("pods", name) if namespace.is_some() || name.is_none() => self.pod_metrics(metrics, namespace, name),
            _ => Err(no_such_resource()),
        }
    }

    fn selected(
        &self,
        resource: ResourceId,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<Vec<std::sync::Arc<Object>>, Status> {
        let selector = Selector::parse(resource, self.query.get("labelSelector"), self.query.get("fieldSelector"))?;
        let mut objects = self.cluster().list(resource, namespace).0;
        objects.retain(|object| selector.matches(object) && name.is_none_or(|name| object.name.as_ref() == name));
        Ok(objects)
    }

    fn node_metrics(&self, metrics: Metrics, name: Option<&str>) -> Result<Response<Body>, Status> {
        let all = self.cluster().list(NODES, None).0;
        let places: HashMap<&str, i64> = all.iter().zip(0..).map(|(node, at)| (node.name.as_ref(), at)).collect();
        let mut pods: HashMap<String, Vec<Arc<Object>>> = HashMap::new();
        let mut loads = HashMap::new();
        if matches!(metrics, Metrics::Share(_)) {
            loads = load::shares(self.cluster(), None);
            for pod in self.cluster().list(PODS, None).0 {
                let node = Pod(&pod.value()).spec().node_name().to_owned();
                pods.entry(node).or_default().push(pod);
            }
        }
        let items = self.selected(NODES, None, name)?.into_iter().map(|node| {
            let used = if let Metrics::Share(share) = metrics {
                node_use(&node.value(), pods.get(node.name.as_ref()).map_or(&[], Vec::as_slice), share, &loads)
            } else {
                let at = places.get(node.name.as_ref()).copied().unwrap_or_default();
                Use { nanocores: (150 + 10 * at) * 1_000_000, bytes: (1024 + at) << 20 }
            };
            (String::new(), node.name.to_string(), self.item(&node, "10.0s", ("usage", used.to_value())))
        });
        let items: Vec<_> = items.collect();
        self.answer_metrics("NodeMetrics", "nodemetrics", name, items)
    }

    fn pod_metrics(
        &self,
        metrics: Metrics,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<Response<Body>, Status> {
        let (mut items, loads) = (Vec::new(), load::shares(self.cluster(), namespace));
        for pod in self.selected(PODS, namespace, name)? {
            let value = pod.value();
            if Pod(&value).status().phase() != "Running" {
                continue;
            }
            let load = loads.get(&pod.uid).copied();
            let containers = Pod(&value).spec().containers().map(|container| {
                json!({ "name": container.name(), "usage": container_use(container, metrics, load).to_value() })
            });
            let containers: Vec<Value> = containers.collect();
            items.push((
                pod.namespace.to_string(),
                pod.name.to_string(),
                self.item(&pod, "15.0s", ("containers", Value::Array(containers))),
            ));
        }
        let asked = name.map(|name| format!("{}/{name}", namespace.unwrap_or_default()));
        self.answer_metrics("PodMetrics", "podmetrics", asked.as_deref(), items)
    }

    /// One item as JSON text, in the order of fields the metrics server uses.
    fn item(&self, object: &Object, window: &str, (field, used): (&str, Value)) -> String {
        let now = self.cluster().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let labels: serde_json::Map<String, Value> =
            object.labels.iter().map(|(key, value)| (key.to_string(), json!(value))).collect();
        let namespace = if object.namespace.is_empty() {
            String::new()
        } else {
            format!(",\"namespace\":{}", json!(object.namespace))
        };
        let labels = if labels.is_empty() { String::new() } else { format!(",\"labels\":{}", Value::Object(labels)) };
        let used = if field == "containers" {
            let texts: Vec<String> = used
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| format!("{{\"name\":{},\"usage\":{}}}", one["name"], one["usage"]))
                .collect();
            format!("[{}]", texts.join(","))
        } else {
            used.to_string()
        };
        format!(
            "{{\"metadata\":{{\"name\":{}{namespace},\"creationTimestamp\":\"{now}\"{labels}}},\"timestamp\":\"{now}\",\"window\":\"{window}\",\"{field}\":{used}}}",
            json!(object.name)
        )
    }

    fn answer_metrics(
        &self,
        kind: &str,
        resource: &str,
        asked: Option<&str>,
        items: Vec<(String, String, String)>,
    ) -> Result<Response<Body>, Status> {
        let form = self.form()?;
        if let Some(asked) = asked {
            let Some((_, _, item)) = items.into_iter().next() else {
                return Err(Status::new(404, "NotFound", format!("{resource}.{GROUP} \"{asked}\" not found")));
            };
            let fields = item.trim_start_matches('{');
            return Ok(answer::json_text(
                200,
                format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{GROUP}/v1beta1\",{fields}"),
            ));
        }
        if matches!(form, Form::Table(_)) {
            return Ok(answer::json_text(200, table::metrics(&items, self.cluster().now())));
        }
        let texts: Vec<String> = items.into_iter().map(|(_, _, item)| item).collect();
        Ok(answer::json_text(
            200,
            format!(
                "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{GROUP}/v1beta1\",\"metadata\":{{}},\"items\":[{}]}}",
                texts.join(",")
            ),
        ))
    }
}
