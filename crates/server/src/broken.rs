//! A cluster that is kept and cannot be served: the answer that its clients get.

use std::path::Path;

use klab_api_machinery::status::Status;

use super::credentials::{Digest, Token};

/// A cluster whose folder was damaged.
pub(super) struct Broken {
    /// What is wrong, and where.
    pub(super) reason: String,
    /// Its token, where that could be read.
    token: Option<Token>,
}

impl Broken {
    pub(super) fn new(name: &str, folder: &Path, problem: &str) -> Self {
        let reason = format!("cluster `{name}` cannot be served: {problem}; it is kept in `{}`", folder.display());
        Self { reason, token: Token::read(&folder.join("token")) }
    }

    /// Whether somebody shows the cluster's credentials.
    pub(super) fn is_known(&self, presented: Option<&Digest>) -> bool {
        self.token.as_ref().zip(presented).is_some_and(|(token, presented)| token.is(presented))
    }

    /// The answer to every request: not 503, which clients take for something that passes, and repeat.
    pub(super) fn status(&self) -> Status {
        Status::new(500, "InternalError", self.reason.clone())
    }
}
