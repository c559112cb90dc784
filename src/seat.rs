//! How a learner's klab talks to the host of a class: joining, and what the host does with the seat.

use std::time::Duration;

use http::{Method, Request, Uri, header};
use http_body_util::BodyExt;
use kube::Client;
use serde_json::{Value, json};

use klab_operations::client::bearer::{self, Trust};
use klab_operations::client::cause;
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::state::Joined;

/// How long a host may take to begin an answer.
const ANSWER: Duration = Duration::from_secs(30);
/// How long it may be silent while it answers: it says every few seconds that it is there.
const SILENCE: Duration = Duration::from_secs(45);
/// Longest line and largest document that are read.
const MAX_DOCUMENT: usize = 32 << 20;
/// Most redirects in a row: a class leads a learner to the shard of their seat.
const REDIRECTS: usize = 4;

/// A host.
pub struct Host {
    /// Of the scheme, name and port alone: the path of the class stands before each request's own.
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
        Ok(Self { client: bearer::client(origin(url), trust, token, ANSWER).await?, url: url.to_owned() })
    }

    /// The host of a seat.
    ///
    /// # Errors
    /// When what is known of it is damaged.
    pub async fn of(joined: &Joined) -> Result<Self> {
        let trust = joined.authority.as_deref().map_or(Trust::Machine, Trust::Authority);
        Self::new(&joined.url, trust, Some(&joined.token)).await
    }

    /// The answer to a request, from where the class leads to.
    async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> Result<http::Response<kube::client::Body>> {
        let mut path = format!("{}{path}", &self.url[origin(&self.url).len()..]);
        for _ in 0..=REDIRECTS {
            let request = Request::builder()
                .method(method.clone())
                .uri(&path)
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "application/json")
                .body(kube::client::Body::from(body.clone()))
                .code(Code::KlabFault, || format!("`{path}` is no path"))?;
            let answer = self.client.send(request).await;
            let answer = answer
                .map_err(|error| cause(&error))
                .code(Code::ClassUnreachable, || format!("could not reach the class at {}", self.url))?;
            if !matches!(answer.status().as_u16(), 307 | 308) {
                return Ok(answer);
            }
            let to = answer.headers().get(header::LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
            path = self.led(to)?;
        }
        Err(Error::message(Code::ClassUnreachable, format!("the class at {} redirects without end", self.url)))
    }

    /// The path to which this host redirects. Another host gets neither the code nor the token.
    fn led(&self, to: &str) -> Result<String> {
        let uri: Option<Uri> = to.parse().ok();
        let path = uri.as_ref().and_then(Uri::path_and_query).filter(|path| path.as_str().starts_with('/'));
        let is_own = uri.as_ref().is_some_and(|uri| uri.authority().is_none() || is_same_origin(uri, &self.url));
        if let Some(path) = path.filter(|_| is_own) {
            return Ok(path.to_string());
        }
        let message =
            format!("the class at {} redirects to `{to}`, which is another host; nothing was sent there", self.url);
        Err(Error::message(Code::ClassUnreachable, message)
            .hint("if that is the address of your class, join there: `klab join` with it and the code"))
    }

    async fn whole(&self, answer: http::Response<kube::client::Body>) -> Result<Vec<u8>> {
        let code = answer.status();
        let limited = http_body_util::Limited::new(answer.into_body(), MAX_DOCUMENT).collect();
        let body = tokio::time::timeout(ANSWER, limited).await;
        let silent = || format!("the class at {} did not answer to the end", self.url);
        let body = body
            .code(Code::ClassUnreachable, silent)?
            .map_err(|error| anyhow::anyhow!(error))
            .code(Code::ClassUnreachable, silent)?;
        let body = body.to_bytes().to_vec();
        if code.is_success() { Ok(body) } else { Err(refused(code, &body)) }
    }

    /// A document.
    ///
    /// # Errors
    /// When the host refuses, or does not answer.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let body = self.text(path).await?;
        serde_json::from_str(&body).code(Code::ClassUnreachable, || format!("{} answers with no document", self.url))
    }

    /// A text.
    ///
    /// # Errors
    /// As [`Host::get`].
    pub async fn text(&self, path: &str) -> Result<String> {
        let answer = self.send(Method::GET, path, Vec::new()).await?;
        Ok(String::from_utf8_lossy(&self.whole(answer).await?).into_owned())
    }

    /// The page on which learners sign in to the class to get a code for their terminal; none, where the class has no sign-in.
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
        serde_json::from_slice(&body).code(Code::ClassUnreachable, || format!("{} answers with no document", self.url))
    }

    /// Has the host do something with the seat, and shows what it says.
    ///
    /// # Errors
    /// What came of it, as the host says.
    pub async fn follow(&self, path: &str, body: Vec<u8>, mut shows: impl FnMut(Line)) -> Result<()> {
        let answer = self.send(Method::POST, path, body).await?;
        if !answer.status().is_success() {
            return self.whole(answer).await.map(drop);
        }
        let cut_off =
            || Error::message(Code::ClassUnreachable, format!("the class at {} broke off: ask again", self.url));
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
            if text.len() > MAX_DOCUMENT {
                return Err(cut_off());
            }
        }
    }
}

/// The scheme, name and port of a URL.
pub fn origin(url: &str) -> &str {
    let name = url.find("://").map_or(0, |at| at.saturating_add(3));
    url[name..].find('/').map_or(url, |path| &url[..name.saturating_add(path)])
}

/// Whether a URI is at the scheme, name and port of a URL.
fn is_same_origin(uri: &Uri, url: &str) -> bool {
    let parts = |uri: &Uri| {
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let usual = if scheme == "https" { 443 } else { 80 };
        Some((uri.host()?.to_ascii_lowercase(), uri.port_u16().unwrap_or(usual), scheme))
    };
    let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    !has_user && parts(uri).is_some() && url.parse().ok().and_then(|url: Uri| parts(&url)) == parts(uri)
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
    let code = end["case"].as_str().and_then(Code::of_name).unwrap_or(Code::ClassFault);
    let error = Error::new(code, source);
    Err(texts(&end["hints"]).into_iter().fold(error, Error::hint))
}

/// A refusal of the host, in its words.
fn refused(code: http::StatusCode, body: &[u8]) -> Error {
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = document["message"].as_str().map_or_else(|| format!("the host answers with {code}"), str::to_owned);
    let found = match code.as_u16() {
        400 | 403 | 404 | 409 => Code::ClassRefuses,
        _ => Code::ClassUnreachable,
    };
    let error = Error::message(found, message);
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
    fn a_class_leads_to_its_own_addresses_and_no_others() {
        let runtime = klab_operations::client::runtime().unwrap();
        for (url, to, path) in [
            ("https://h", "https://h/shards/1/api/join?led=1", Some("/shards/1/api/join?led=1")),
            ("https://h/labs", "https://H:443/labs/shards/1", Some("/labs/shards/1")),
            ("https://h:8443", "https://h:8443/x", Some("/x")),
            ("http://127.0.0.1:9", "/x", Some("/x")),
            ("https://h", "//evil.example/x", Some("//evil.example/x")),
            ("https://h", "https://h:8443/x", None),
            ("https://h:8443", "https://h/x", None),
            ("https://h", "http://h/x", None),
            ("https://h", "https://h.evil.example/x", None),
            ("https://h", "https://me@h/x", None),
            ("https://h", "https://h@evil.example/x", None),
            ("https://h", "x", None),
            ("https://h", "", None),
            ("https://h", "file:///etc/passwd", None),
        ] {
            let host = runtime.block_on(Host::new(url, Trust::Machine, None)).unwrap();
            assert_eq!(host.led(to).ok().as_deref(), path, "{url} to {to}");
        }
        for (url, wanted) in [("https://h", "https://h"), ("https://h:1/a/b", "https://h:1"), ("h/a", "h")] {
            assert_eq!(origin(url), wanted);
        }
    }

    #[test]
    fn what_a_host_says_is_read_and_its_end_is_an_error_like_klabs_own() {
        assert_eq!(read(json!({ "command": "kubectl" })), Some(Line::Command("kubectl".to_owned())));
        assert_eq!(read(json!({ "done": "d", "action": "a" })), Some(Line::Done("a".to_owned(), "d".to_owned())));
        assert_eq!(read(json!({ "unknown": 1 })), None);
        assert_eq!(read(Value::Null), None);
        assert!(ended(&json!({ "ok": true })).is_ok());
        let error =
            ended(&json!({ "case": "does-not-hold", "causes": ["outer", "inner"], "hints": ["do"] })).unwrap_err();
        assert_eq!(
            (error.code, error.to_string(), error.hints),
            (Code::DoesNotHold, "outer: inner".to_owned(), vec!["do".to_owned()])
        );
        assert_eq!(refused(http::StatusCode::FORBIDDEN, br#"{"message":"no"}"#).to_string(), "no");
    }
}
