//! `proxy` of nodes, pods and Services: a kubelet lists its pods, and nothing else answers.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/proxy/{upgradeaware,transport}.go (v1.36)

use http::header::LOCATION;
use http::{HeaderValue, Method, Response, StatusCode};
use klab_api_machinery::resource::{NODES, PODS};
use klab_api_machinery::status::Status;
use klab_api_machinery::views::Pod;
use serde_json::{Value, json};

use super::answer;
use super::call::{Call, Target};
use super::streams::not_known;
use crate::body::Body;

impl Call<'_> {
    /// The pods that a node's kubelet has, as it lists them itself.
    fn pods_of_kubelet(&self, node: &str) -> Response<Body> {
        let (pods, _) = self.cluster().list(PODS, None);
        let pods: Vec<Value> =
            pods.iter().map(|pod| pod.to_value()).filter(|pod| Pod(pod).spec().node_name() == node).collect();
        answer::json_value(200, &json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}))
    }

    /// `proxy` of a node, pod or Service.
    pub(super) fn proxy(&self, target: &Target, rest: &str) -> Result<Response<Body>, Status> {
        let name = name_of(target.name());
        if self.cluster().get(target.resource, target.namespace(), name).is_none() {
            return Err(Status::not_found(target.resource.row(), name));
        }
        self.connect(target, name, "proxy")?;
        if target.resource == NODES {
            return if matches!(rest.trim_matches('/'), "pods" | "runningpods") {
                Ok(self.pods_of_kubelet(name))
            } else {
                // As a kubelet says it, in plain words: clients that want figures look for no Status.
                let refused = not_known(&format!("no kubelet answers at /{rest}"));
                Ok(answer::text(501, format!("{}: {}", refused.reason, refused.message)))
            };
        }
        let method = &self.parts.method;
        let own = self.parts.uri.path();
        let query = self.parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        if rest.is_empty() && !own.ends_with('/') && matches!(*method, Method::GET | Method::HEAD) {
            return Ok(elsewhere(301, &format!("{own}/{query}")));
        }
        Err(not_known(&format!("nothing answers at /{rest}")))
    }
}

/// The name in `https:web:443`, `web:http`, `web`.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/net/port_split.go SplitSchemeNamePort (v1.36)
fn name_of(id: &str) -> &str {
    let parts: Vec<&str> = id.split(':').collect();
    match parts[..] {
        [_, name, _] | [name, _] => name,
        _ => id,
    }
}

fn elsewhere(code: u16, to: &str) -> Response<Body> {
    let mut response = answer::text(code, "");
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::MOVED_PERMANENTLY);
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_between_scheme_and_port() {
        for id in ["web", "web:80", "https:web:", "http:web:www"] {
            assert_eq!(name_of(id), "web", "{id}");
        }
    }
}
