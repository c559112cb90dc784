//! A `kube::Client` whose requests never leave this process.

use std::convert::Infallible;

use futures::future::FutureExt;
use http::{Request, Response};

use super::{Api, Body};

impl Api {
    /// A client of it. Must be called in the runtime that will drive the client.
    pub fn client(&self) -> kube::Client {
        let api = self.clone();
        client(move |request| {
            let api = api.clone();
            async move { api.answer(request).await }
        })
    }
}

/// A client whose requests never leave this process.
pub(crate) fn client<F>(mut answer: impl FnMut(Request<kube::client::Body>) -> F + Send + 'static) -> kube::Client
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    kube::Client::new(tower::service_fn(move |request| answer(request).map(Ok::<_, Infallible>)), "default")
}
