//! What the server itself answers where no cluster can.

use http::Response;

use crate::api::{Body, status_response};
use crate::status::Status;

/// A connection beyond what one cluster may have.
pub(super) fn too_many_connections() -> Response<Body> {
    let what = "too many connections to this cluster: it has all that one cluster of this server may have";
    let mut response = status_response(&Status::new(429, "TooManyRequests", what));
    response.headers_mut().insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    response
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
