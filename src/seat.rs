//! How a learner's klab talks to the host of a class: joining, and what the host does with the seat.

use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use serde_json::{Value, json};

use crate::client::bearer::{self, Trust};
use crate::client::cause;
use crate::error::{Context as _, Error, Kind, Result};
use crate::state::Joined;

/// How long a host may take to begin an answer.
const ANSWER: Duration = Duration::from_secs(30);
/// How long it may be silent while it answers: it says every few seconds that it is there.
const SILENCE: Duration = Duration::from_secs(45);
/// Longest line and largest document that are read.
const LARGEST: usize = 32 << 20;

/// A host.
pub struct Host {
    client: Client,
    url: String,
}

/// What a host says while it works.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// A command that does the same.
    Command(String),
    /// Something was done: its code, and the sentence.
    Done(String, String),
    /// Something to know.
    Warning(String),
    /// A report, in all its forms.
    Report(Value),
}

impl Host {
    /// The host at a URL, whom `trust` vouches for; `token` is what opens a seat there.
    ///
    /// # Errors
    /// When the URL is none.
    pub async fn new(url: &str, trust: Trust<'_>, token: Option<&str>) -> Result<Self> {
        Ok(Self { client: bearer::client(url, trust, token, ANSWER).await?, url: url.to_owned() })
    }

    /// The host of a seat.
    ///
    /// # Errors
    /// When what is known of it is damaged.
    pub async fn of(joined: &Joined) -> Result<Self> {
        let trust = joined.authority.as_deref().map_or(Trust::Machine, Trust::Authority);
        Self::new(&joined.url, trust, Some(&joined.token)).await
    }

    async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> Result<http::Response<kube::client::Body>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::ACCEPT, "application/json")
            .body(kube::client::Body::from(body))
            .kind(Kind::Failed, || format!("`{path}` is no path"))?;
        let answer = self.client.send(request).await;
        answer
            .map_err(|error| cause(&error))
            .kind(Kind::Outside, || format!("could not reach the class at {}", self.url))
    }

    async fn whole(&self, answer: http::Response<kube::client::Body>) -> Result<Vec<u8>> {
        let code = answer.status();
        let limited = http_body_util::Limited::new(answer.into_body(), LARGEST).collect();
        let body = tokio::time::timeout(ANSWER, limited).await;
        let silent = || format!("the class at {} did not answer to the end", self.url);
        let body =
            body.kind(Kind::Outside, silent)?.map_err(|error| anyhow::anyhow!(error)).kind(Kind::Outside, silent)?;
        let body = body.to_bytes().to_vec();
        if code.is_success() { Ok(body) } else { Err(refused(code, &body)) }
    }

    /// A document.
    ///
    /// # Errors
    /// When the host refuses, or does not answer.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let body = self.text(path).await?;
        serde_json::from_str(&body).kind(Kind::Outside, || format!("{} answers with no document", self.url))
    }

    /// A text.
    ///
    /// # Errors
    /// As [`Host::get`].
    pub async fn text(&self, path: &str) -> Result<String> {
        let answer = self.send(Method::GET, path, Vec::new()).await?;
        Ok(String::from_utf8_lossy(&self.whole(answer).await?).into_owned())
    }

    /// Where somebody signs in to the class to get a code for their terminal; none, where nobody does.
    pub async fn sign_in(&self) -> Option<String> {
        let document = self.get("/api/sign-in").await.ok()?;
        let page =
            document["terminal"].as_str().filter(|page| page.starts_with("https://") || page.starts_with(&self.url))?;
        Some(page.to_owned())
    }

    /// Asks to be let in.
    ///
    /// # Errors
    /// Why the host refuses.
    pub async fn join(&self, code: &str, name: &str, pin: &str, lab: Option<&str>) -> Result<Value> {
        let body = json!({ "code": code, "name": name, "pin": pin, "lab": lab.unwrap_or_default() });
        let answer = self.send(Method::POST, "/api/join", body.to_string().into_bytes()).await?;
        let body = self.whole(answer).await?;
        serde_json::from_slice(&body).kind(Kind::Outside, || format!("{} answers with no document", self.url))
    }

    /// Has the host do something with the seat, and shows what it says.
    ///
    /// # Errors
    /// What came of it, as the host says.
    pub async fn follow(&self, path: &str, mut shows: impl FnMut(Line)) -> Result<()> {
        let answer = self.send(Method::POST, path, Vec::new()).await?;
        if !answer.status().is_success() {
            return self.whole(answer).await.map(drop);
        }
        let cut_off = || Error::message(Kind::Outside, format!("the class at {} broke off: ask again", self.url));
        let (mut body, mut text) = (answer.into_body(), Vec::new());
        loop {
            let frame = tokio::time::timeout(SILENCE, body.frame()).await.map_err(|_| cut_off())?;
            let data = frame.ok_or_else(cut_off)?.map_err(|_| cut_off())?.into_data().unwrap_or_default();
            text.extend_from_slice(&data);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let rest = text.split_off(end.saturating_add(1));
                let line: Value = serde_json::from_slice(&std::mem::replace(&mut text, rest)).unwrap_or_default();
                if line["end"].is_object() {
                    return ended(&line["end"]);
                }
                if let Some(line) = read(line) {
                    shows(line);
                }
            }
            if text.len() > LARGEST {
                return Err(cut_off());
            }
        }
    }
}

fn read(line: Value) -> Option<Line> {
    let word = |key: &str| line[key].as_str().map(str::to_owned);
    if line["report"].is_object() {
        return Some(Line::Report(line["report"].clone()));
    }
    match (word("command"), word("warning"), word("done")) {
        (Some(command), ..) => Some(Line::Command(command)),
        (_, Some(warning), _) => Some(Line::Warning(warning)),
        (_, _, Some(done)) => Some(Line::Done(word("action").unwrap_or_default(), done)),
        _ => None,
    }
}

/// What came of something that the host did.
fn ended(end: &Value) -> Result<()> {
    if end["ok"] == true {
        return Ok(());
    }
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let mut causes = texts(&end["causes"]).into_iter().rev();
    let first = causes.next().unwrap_or_else(|| "the host failed".to_owned());
    let source = causes.fold(anyhow::Error::msg(first), anyhow::Error::context);
    let error = Error::new(Kind::of_exit_code(end["exit_code"].as_u64().unwrap_or_default()), source);
    Err(texts(&end["hints"]).into_iter().fold(error, Error::hint))
}

/// A refusal of the host, in its words.
fn refused(code: http::StatusCode, body: &[u8]) -> Error {
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = document["message"].as_str().map_or_else(|| format!("the host answers with {code}"), str::to_owned);
    let kind = match code.as_u16() {
        400 | 403 | 404 | 409 => Kind::Usage,
        _ => Kind::Outside,
    };
    let error = Error::message(kind, message);
    if code.as_u16() == 401 {
        error.hint("`klab join` with the address and the code comes back to the seat")
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_says_is_read_and_its_end_is_an_error_like_klabs_own() {
        assert_eq!(read(json!({ "command": "kubectl" })), Some(Line::Command("kubectl".to_owned())));
        assert_eq!(read(json!({ "done": "d", "action": "a" })), Some(Line::Done("a".to_owned(), "d".to_owned())));
        assert_eq!(read(json!({ "unknown": 1 })), None);
        assert_eq!(read(Value::Null), None);
        assert!(ended(&json!({ "ok": true })).is_ok());
        let error = ended(&json!({ "exit_code": 1, "causes": ["outer", "inner"], "hints": ["do"] })).unwrap_err();
        assert_eq!(
            (error.kind, error.to_string(), error.hints),
            (Kind::NotHeld, "outer: inner".to_owned(), vec!["do".to_owned()])
        );
        assert_eq!(refused(http::StatusCode::FORBIDDEN, br#"{"message":"no"}"#).to_string(), "no");
    }
}
