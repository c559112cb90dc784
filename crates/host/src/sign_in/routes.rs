//! Where signing in is, among the paths of a class.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use super::{back, begin, shard_routing};
use crate::state::Host;

/// The paths.
pub(crate) fn routes() -> Router<Arc<Host>> {
    Router::new()
        .route("/oidc/begin", get(begin::by_link).post(begin::by_form))
        .route("/oidc/callback", get(back::callback))
        .route("/api/sign-in", get(begin::description))
        .route(shard_routing::PATH, post(shard_routing::room))
}
