//! What the server itself answers where no cluster can.

use std::time::Duration;

use http::Response;
use klab_api_machinery::status::Status;
use serde_json::json;

use klab_cluster::api::{Body, status_response};

/// A connection beyond what one cluster may have.
pub(super) fn too_many_connections() -> Response<Body> {
    let what = "too many connections to this cluster: it has all that one cluster of this server may have";
    too_many_requests(what, Duration::from_secs(1))
}

/// What is too much now, and may be tried again.
pub(super) fn too_many_requests(what: &str, again_in: Duration) -> Response<Body> {
    let seconds = again_in.as_secs_f64().ceil().max(1.0) as u64;
    let status = Status::new(429, "TooManyRequests", what);
    status_response(&Status { details: json!({ "retryAfterSeconds": seconds }), ..status })
}

/// A request at which the embedded cluster panicked.
pub(super) fn panicked() -> Status {
    let what =
        "this request met a fault of the embedded cluster, which is in the server's log; nothing else is affected";
    Status::new(500, "InternalError", what)
}

/// No credentials, or none that are good for what is asked.
pub(super) fn unauthorised() -> Response<Body> {
    status_response(&Status::new(401, "Unauthorized", "Unauthorized"))
}
