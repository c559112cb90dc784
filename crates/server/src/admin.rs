//! klab's own face of the server: clusters come and go.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use klab_api_machinery::status::Status;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::hosted::Hosted;
use super::shared::{NewCopy, Shared};
use klab_cluster::api::{Body, status_response};
use klab_cluster::cluster::ControlFault;
use klab_cluster::seed::{Figures, Seed};

/// Largest seed: thousands of nodes.
const MAX_SEED: usize = 64 * 1024 * 1024;

/// How a server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Process id.
    pub pid: u32,
    /// klab's version.
    pub version: String,
    /// Names of the clusters it serves.
    pub clusters: Vec<String>,
    /// What controllers of its clusters go on without, after a fault of klab's own.
    #[serde(default)]
    pub faults: Vec<String>,
}

/// Those of a cluster that is parked are none: one that has any is not parked.
fn faults(hosted: &Hosted) -> Vec<String> {
    let faults = hosted.faults();
    let answers =
        |fault: ControlFault| format!("lab {}: continues without {}: {}", hosted.name(), fault.about, fault.message);
    faults.into_iter().map(answers).collect()
}

/// One cluster of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterAccess {
    /// Its name.
    pub name: String,
    /// Whether this request made it.
    pub created: bool,
    /// Its kubeconfig.
    pub kubeconfig: String,
    /// Where the same text is kept.
    pub kubeconfig_path: std::path::PathBuf,
}

impl ClusterAccess {
    fn of(hosted: &Hosted, created: bool) -> Self {
        Self {
            name: hosted.name().to_owned(),
            created,
            kubeconfig: hosted.kubeconfig(),
            kubeconfig_path: hosted.kubeconfig_path(),
        }
    }
}

/// What became of a copy that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// Its name.
    pub name: String,
    /// Whether this request made it; a cluster of that name stays as it is.
    pub created: bool,
    /// Why it could not be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What became of a cluster that was to be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Its name.
    pub name: String,
    /// Whether there was one.
    pub removed: bool,
    /// Why something of it is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn json<T: Serialize>(code: u16, value: &T) -> Response<Body> {
    let text = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(Body::whole(text));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Answers a request to `/klab/v1<path>` by somebody who has the server's token.
pub(super) async fn answer(shared: &Arc<Shared>, path: &str, request: Request<Incoming>) -> Response<Body> {
    let method = request.method().clone();
    let body = match Limited::new(request.into_body(), MAX_SEED).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return status_response(&Status::bad_request(format!("the body could not be read: {error}"))),
    };
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let answered = match (&method, parts.as_slice()) {
        (&Method::GET, ["health"]) => Ok(json(
            200,
            &Health {
                pid: std::process::id(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                clusters: shared.all().iter().map(|hosted| hosted.name().to_owned()).collect(),
                faults: shared.active().iter().flat_map(|hosted| faults(hosted)).collect(),
            },
        )),
        (&Method::GET, ["clusters"]) => {
            let all: Vec<_> = shared.all().iter().map(|hosted| ClusterAccess::of(hosted, false)).collect();
            Ok(json(200, &all))
        }
        (&Method::GET, ["clusters", name]) => {
            found(shared, name).map(|hosted| json(200, &ClusterAccess::of(&hosted, false)))
        }
        (&Method::PUT, ["clusters", name]) => add(shared, name, &body).await,
        (&Method::PUT, ["clusters", name, "metrics"]) => {
            let figures = serde_json::from_slice::<Figures>(&body)
                .map_err(|error| Status::bad_request(format!("not figures: {error}")));
            found(shared, name).and_then(|hosted| {
                hosted.set_figures(figures?);
                Ok(json(200, &json!({})))
            })
        }
        (&Method::POST, ["clusters", name, "objects"]) => {
            let name = (*name).to_owned();
            let made = waiting(shared, move |shared| found(shared, &name)?.add_objects(&body)).await;
            made.map(|()| json(200, &json!({})))
        }
        (&Method::POST, ["clusters", name, "copies"]) => copy(shared, name, &body).await,
        (&Method::PUT, ["clusters", name, "system"]) => {
            let name = (*name).to_owned();
            let made = waiting(shared, move |shared| found(shared, &name)?.restore()).await;
            made.map(|made| json(200, &json!({ "made": made })))
        }
        (&Method::POST, ["clusters", name, "reset"]) => {
            let name = (*name).to_owned();
            let done = waiting(shared, move |shared| found(shared, &name)?.reset()).await;
            done.map(|()| json(200, &json!({})))
        }
        (&Method::PUT, ["clusters", name, "stopped"]) => {
            let (name, stopped) = ((*name).to_owned(), serde_json::from_slice::<bool>(&body));
            let stopped = stopped.map_err(|error| Status::bad_request(format!("neither true nor false: {error}")));
            let done = waiting(shared, move |shared| found(shared, &name)?.stop_api(stopped?)).await;
            done.map(|()| json(200, &json!({})))
        }
        (&Method::GET, ["clusters", name, "state"]) => {
            let name = (*name).to_owned();
            let state = waiting(shared, move |shared| Ok(shared.state(&name))).await;
            state.and_then(|state| state.map(|state| json(200, &state)).ok_or_else(|| not_found(parts[1])))
        }
        (&Method::DELETE, ["clusters", name]) => {
            let name = (*name).to_owned();
            let removed = waiting(shared, move |shared| shared.remove(&name)).await;
            removed.map(|removed| json(200, &json!({ "removed": removed })))
        }
        (&Method::POST, ["remove"]) => remove_all(shared, &body).await,
        (&Method::POST, ["stop"]) => {
            shared.stop.send_replace(true);
            Ok(json(200, &json!({})))
        }
        _ => Err(Status::new(404, "NotFound", "there is nothing at this path")),
    };
    answered.unwrap_or_else(|status| status_response(&status))
}

pub(super) fn found(shared: &Shared, name: &str) -> Result<Arc<Hosted>, Status> {
    shared.cluster(name).ok_or_else(|| not_found(name))
}

fn not_found(name: &str) -> Status {
    Status::new(404, "NotFound", format!("cluster {name:?} not found"))
}

async fn add(shared: &Arc<Shared>, name: &str, body: &[u8]) -> Result<Response<Body>, Status> {
    let seed: Seed =
        serde_json::from_slice(body).map_err(|error| Status::bad_request(format!("not a seed: {error}")))?;
    let made = name.to_owned();
    let created = waiting(shared, move |shared| shared.add(&made, seed)).await?;
    let hosted = found(shared, name)?;
    Ok(json(if created { 201 } else { 200 }, &ClusterAccess::of(&hosted, created)))
}

/// Makes copies of a cluster; what goes wrong with one keeps no other from being made.
async fn copy(shared: &Arc<Shared>, name: &str, body: &[u8]) -> Result<Response<Body>, Status> {
    let copies: Vec<NewCopy> =
        serde_json::from_slice(body).map_err(|error| Status::bad_request(format!("not a list of copies: {error}")))?;
    let of = found(shared, name)?;
    let made = waiting(shared, move |shared| {
        let outcomes = shared.copy(shared.template(&of)?.id(), &copies)?;
        let answers = copies.into_iter().zip(outcomes).map(|(copy, outcome)| Copied {
            name: copy.name,
            created: matches!(outcome, Ok(true)),
            error: outcome.err().map(|status| status.message),
        });
        Ok(answers.collect::<Vec<_>>())
    });
    Ok(json(200, &made.await?))
}

/// Removes clusters; says of each whether there was one, or why it could not be removed.
async fn remove_all(shared: &Arc<Shared>, body: &[u8]) -> Result<Response<Body>, Status> {
    let names: Vec<String> =
        serde_json::from_slice(body).map_err(|error| Status::bad_request(format!("not a list of names: {error}")))?;
    let removed = waiting(shared, move |shared| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let answers = names.iter().zip(shared.remove_all(&names)).map(|(name, outcome)| Removed {
            name: (*name).to_owned(),
            removed: matches!(outcome, Ok(true)),
            error: outcome.err().map(|status| status.message),
        });
        Ok(answers.collect::<Vec<_>>())
    });
    Ok(json(200, &removed.await?))
}

/// Does what waits for the disk on a thread that no other request needs.
async fn waiting<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    let shared = Arc::clone(shared);
    let done = tokio::task::spawn_blocking(move || work(&shared)).await;
    done.map_err(|error| Status::new(500, "InternalError", error.to_string()))?
}
