//! `proxy` of nodes, pods and Services: what a server that is known answers, and of all others that nobody knows.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/proxy/{upgradeaware,transport}.go (v1.36)

use std::sync::LazyLock;

use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Method, Response, StatusCode};
use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::super::network::proxied;
use super::super::process::{Heard, Request};
use super::super::resource::{NODES, PODS};
use super::super::status::Status;
use super::answer;
use super::call::{Call, Target};
use super::streams::not_known;
use crate::body::Body;

/// Attributes whose paths are those of the server behind, so that they are given those of the proxy.
static LINKS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?i)\b(href|src|action|cite|background|longdesc|data)="(/[^"]*)""#).ok());

impl Call<'_> {
    /// The pods that a node's kubelet has, as it lists them itself.
    fn pods_of_kubelet(&self, node: &str) -> Response<Body> {
        let (pods, _) = self.cluster().list(PODS, None);
        let pods: Vec<Value> =
            pods.iter().map(|pod| pod.to_value()).filter(|pod| pod["spec"]["nodeName"] == node).collect();
        answer::json_value(200, &json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}))
    }

    /// `proxy` of a node, pod or Service.
    pub(super) fn proxy(&self, target: &Target, rest: &str) -> Result<Response<Body>, Status> {
        let (scheme, name, port) = parts_of(target.name());
        let Some(object) = self.cluster().get(target.resource, target.namespace(), name) else {
            return Err(Status::not_found(target.resource.row(), name));
        };
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
        let request = Request {
            secure: scheme == "https",
            method: method.to_string(),
            target: format!("/{rest}{query}"),
            body: self.body.to_vec(),
        };
        let (object, now) = (object.value(), self.cluster().now());
        let heard = self.cluster().read(|store| proxied(store, now, &object, port, &request));
        let (heard, at) = heard.map_err(|because| Status::new(503, "ServiceUnavailable", because))?;
        let unreachable = |because: &str| {
            let message = format!("error trying to reach service: dial tcp {at}: {because}");
            Err(Status::new(503, "ServiceUnavailable", message))
        };
        let response = match heard {
            Heard::Http(response) => response,
            Heard::Refused => return unreachable("connect: connection refused"),
            Heard::Silence => return unreachable("i/o timeout"),
            Heard::Unknown(why) => return Err(not_known(&why)),
            Heard::Text(_) | Heard::Later => return Err(not_known(&format!("nothing is known to answer at /{rest}"))),
        };
        let Some(body) = response.body else {
            return match response.location {
                Some(to) => Ok(elsewhere(response.code, &to)),
                None => Err(not_known("what the server's page says is not known")),
            };
        };
        let body = match std::str::from_utf8(&body) {
            Ok(text) if response.content_type.starts_with("text/html") => {
                let base = own.strip_suffix(rest).unwrap_or(own).trim_end_matches('/');
                relinked(text, base).into_bytes()
            }
            _ => body,
        };
        let body = if *method == Method::HEAD { Vec::new() } else { body };
        let mut answered = answer::text(response.code, body);
        answered.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(response.content_type));
        Ok(answered)
    }
}

/// `https:web:443`, `web:http`, `web`: scheme, name and port.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/net/port_split.go SplitSchemeNamePort (v1.36)
fn parts_of(id: &str) -> (&str, &str, &str) {
    let parts: Vec<&str> = id.split(':').collect();
    match parts[..] {
        [scheme, name, port] => (scheme, name, port),
        [name, port] => ("", name, port),
        _ => ("", id, ""),
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

/// A page whose links lead through the proxy.
fn relinked(page: &str, base: &str) -> String {
    let Some(links) = LINKS.as_ref() else { return page.to_owned() };
    links.replace_all(page, |found: &Captures<'_>| format!("{}=\"{base}{}\"", &found[1], &found[2])).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_scheme_and_port() {
        for (id, wanted) in [
            ("web", ("", "web", "")),
            ("web:80", ("", "web", "80")),
            ("https:web:", ("https", "web", "")),
            ("http:web:www", ("http", "web", "www")),
        ] {
            assert_eq!(parts_of(id), wanted, "{id}");
        }
    }

    #[test]
    fn links_lead_through_the_proxy() {
        let page = r#"<a href="/a">b</a> <img src="c"> <a HREF="http://x/">"#;
        assert_eq!(relinked(page, "/p"), r#"<a href="/p/a">b</a> <img src="c"> <a HREF="http://x/">"#);
    }
}
