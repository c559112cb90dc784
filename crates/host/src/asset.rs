//! Scripts and styles of the pages, compressed where the browser takes that.

use std::io::Read;
use std::sync::OnceLock;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use flate2::Compression;
use flate2::read::GzEncoder;
use klab_operations::board::page;

use super::answer::typed;

/// What the learner's page does besides the board.
pub(super) static LEARN: Asset = Asset::script(&[include_str!("../templates/host/learn.js")]);
/// What the instructor's page does.
pub(super) static TEACH: Asset = Asset::script(&[include_str!("../templates/host/teach.js")]);
/// What the console does.
pub(super) static CONSOLE: Asset = Asset::script(&[include_str!("../templates/host/console.js")]);
/// What the board does.
pub(super) static BOARD: Asset = Asset::script(&[page::SCRIPT]);
/// What the board looks like.
pub(super) static BOARD_STYLE: Asset = Asset::style(&[page::STYLE]);
/// What the pages look like: as the board does, and what only they have.
pub(super) static STYLE: Asset = Asset::style(&[
    page::STYLE,
    include_str!("../templates/host/host.css"),
    include_str!("../templates/host/console.css"),
]);

/// A script or a style. It is the same for everyone, so that its length gives nothing away.
#[derive(Debug)]
pub(super) struct Asset {
    kind: &'static str,
    parts: &'static [&'static str],
    compressed: OnceLock<Bytes>,
}

impl Asset {
    const fn script(parts: &'static [&'static str]) -> Self {
        Self { kind: "text/javascript; charset=utf-8", parts, compressed: OnceLock::new() }
    }

    const fn style(parts: &'static [&'static str]) -> Self {
        Self { kind: "text/css; charset=utf-8", parts, compressed: OnceLock::new() }
    }

    /// It, for a browser that asks with these headers.
    pub(super) fn answer(&self, asked: &HeaderMap) -> Response {
        let takes = asked.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
        if !takes.is_some_and(|all| all.split(',').any(|one| one.trim() == "gzip")) {
            return typed(self.kind, self.parts.concat());
        }
        let mut answer = typed(self.kind, self.compressed.get_or_init(|| compressed(&self.parts.concat())).clone());
        answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        answer
    }
}

fn compressed(text: &str) -> Bytes {
    let mut all = Vec::new();
    // Memory takes all that is written.
    let _ = GzEncoder::new(text.as_bytes(), Compression::best()).read_to_end(&mut all);
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;

    #[tokio::test]
    async fn a_browser_gets_what_it_takes() {
        for (takes, is_compressed) in [("gzip, deflate, br", true), ("br", false), ("gzip;q=0", false)] {
            let asked = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(takes))]);
            let answer = BOARD.answer(&asked);
            assert_eq!(answer.headers().contains_key(header::CONTENT_ENCODING), is_compressed, "{takes}");
            let bytes = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            let mut text = String::new();
            if is_compressed {
                assert!(bytes.len() < page::SCRIPT.len() / 2, "{}", bytes.len());
                GzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
            } else {
                text = String::from_utf8(bytes.to_vec()).unwrap();
            }
            assert_eq!(text, page::SCRIPT, "{takes}");
        }
    }
}
