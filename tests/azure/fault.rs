//! What can go wrong on purpose.

use super::api::Request;

/// A fault that fires a number of times, on requests that fit.
#[derive(Debug, Clone)]
pub struct Fault {
    pub method: &'static str,
    /// The path contains this, whatever its case.
    pub path: String,
    pub times: u32,
    /// Whether the text may stand anywhere, not only at the end.
    pub within: bool,
    pub trouble: Trouble,
}

#[derive(Debug, Clone)]
pub enum Trouble {
    /// The request is refused.
    Refuse { status: u16, code: String, message: String, retry_after: Option<u32> },
    /// The connection is cut before anything is done.
    Cut,
    /// Everything is done, and the connection is cut in place of the answer.
    LoseAnswer,
    /// The request is taken, and fails in the end.
    FailLater { code: String, message: String },
}

impl Fault {
    pub fn refuse(method: &'static str, path: &str, times: u32, status: u16, code: &str, message: &str) -> Self {
        let trouble = Trouble::Refuse { status, code: code.to_owned(), message: message.to_owned(), retry_after: None };
        Self { method, path: path.to_lowercase(), times, within: false, trouble }
    }

    pub fn throttle(method: &'static str, path: &str, times: u32) -> Self {
        let message =
            "The PutAgentPoolHandler.PUT request limit has been exceeded, please retry again in 1 seconds.".to_owned();
        let trouble =
            Trouble::Refuse { status: 429, code: "TooManyRequests".to_owned(), message, retry_after: Some(1) };
        Self { method, path: path.to_lowercase(), times, within: false, trouble }
    }

    pub fn new(method: &'static str, path: &str, times: u32, trouble: Trouble) -> Self {
        Self { method, path: path.to_lowercase(), times, within: false, trouble }
    }

    pub fn fail_later(path: &str, times: u32, code: &str, message: &str) -> Self {
        Self::new("PUT", path, times, Trouble::FailLater { code: code.to_owned(), message: message.to_owned() })
    }

    /// Something whose path contains this is to be removed, and is not in the end.
    pub fn stays(path: &str, times: u32, code: &str, message: &str) -> Self {
        let trouble = Trouble::FailLater { code: code.to_owned(), message: message.to_owned() };
        Self { within: true, ..Self::new("DELETE", path, times, trouble) }
    }

    pub fn hits(&self, request: &Request) -> bool {
        let path = request.path.to_lowercase();
        self.method == request.method
            && if self.within { path.contains(&self.path) } else { path.ends_with(&self.path) }
    }
}
