//! Busybox's `wget`.

// upstream: busybox 1.36 networking/wget.c, libbb/progress.c

use std::net::SocketAddr;

use http::StatusCode;
use jiff::SignedDuration;

use super::amounts::duration;
use super::clients::{Failure, Fetched, Url};
use super::run::{Flow, Run};

/// What its words ask for.
#[derive(Debug, Default)]
struct Options<'a> {
    urls: Vec<&'a str>,
    output: Option<&'a str>,
    quiet: bool,
    /// Whether it only looks whether something is there.
    looks: bool,
    limit: Option<SignedDuration>,
}

impl<'a> Options<'a> {
    /// Reads its words; the one that is not followed where there is one.
    fn read(words: &[&'a str]) -> Result<Self, &'a str> {
        let mut options = Self::default();
        let mut rest = words.iter().copied();
        while let Some(word) = rest.next() {
            match word {
                "--spider" => options.looks = true,
                "--no-check-certificate" | "--no-verbose" => {}
                "--timeout" => options.limit = rest.next().and_then(duration),
                "--tries" | "-t" => {
                    rest.next();
                }
                word if word.starts_with("--tries=") => {}
                word if word.starts_with("--timeout=") => {
                    options.limit = word.split_once('=').and_then(|(_, said)| duration(said));
                }
                word if word.starts_with("--") => return Err(word),
                word if word.len() > 1 && word.starts_with('-') => options.letters(word, &mut rest)?,
                word => options.urls.push(word),
            }
        }
        Ok(options)
    }

    fn letters(&mut self, word: &'a str, rest: &mut impl Iterator<Item = &'a str>) -> Result<(), &'a str> {
        for (at, letter) in word.char_indices().skip(1) {
            match letter {
                'q' => self.quiet = true,
                'O' | 'T' => {
                    let glued = word.get(at + 1..).filter(|text| !text.is_empty());
                    let value = glued.or_else(|| rest.next()).unwrap_or_default();
                    if letter == 'O' {
                        self.output = Some(value);
                    } else {
                        self.limit = duration(value);
                    }
                    return Ok(());
                }
                _ => return Err(word),
            }
        }
        Ok(())
    }
}

impl Run {
    pub(super) fn wget(&mut self, words: &[&str]) -> Flow {
        let options = match Options::read(words) {
            Ok(options) => options,
            Err(word) => return self.unknown(|| format!("what comes of `wget {word}` is not known")),
        };
        let [text] = options.urls[..] else {
            return self.unknown(|| "what comes of several URLs is not known".to_owned());
        };
        let Some(url) = Url::read(text).filter(|url| !url.secure) else {
            return self.unknown(|| format!("what comes of `wget {text}` is not known"));
        };
        match self.fetched(&url, "GET", b"") {
            Ok(fetched) => self.got(&options, &url, &fetched),
            Err(failure) => self.got_nothing(&options, &url, &failure),
        }
    }

    fn got(&mut self, options: &Options<'_>, url: &Url, fetched: &Fetched) -> Flow {
        self.connecting(options, url, fetched.address);
        let code = fetched.response.code;
        if code >= 400 {
            let reason = StatusCode::from_u16(code).ok().and_then(|code| code.canonical_reason()).unwrap_or_default();
            return self.fail(1, &format!("wget: server returned error: HTTP/1.1 {code} {reason}"));
        }
        if options.looks {
            if !options.quiet {
                self.fail(0, "remote file exists");
            }
            return self.done(0);
        }
        let name = url.target.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        let path = options.output.unwrap_or(if name.is_empty() { "index.html" } else { name });
        let body = fetched.response.body.as_deref();
        if !options.quiet {
            self.progress(path, body.map(<[u8]>::len));
        }
        self.write_out(Some(path), body, "what the server's page says is not known");
        if !options.quiet {
            let said = if path == "-" { "written to stdout".to_owned() } else { format!("'{path}' saved") };
            self.fail(0, &said);
        }
        self.done(0)
    }

    fn got_nothing(&mut self, options: &Options<'_>, url: &Url, failure: &Failure) -> Flow {
        match failure {
            Failure::Told(flow) => *flow,
            Failure::NoSuchName => self.fail(1, &format!("wget: bad address '{}'", url.host)),
            Failure::Refused(to) => {
                self.connecting(options, url, *to);
                self.fail(1, &format!("wget: can't connect to remote host ({}): Connection refused", to.ip()))
            }
            Failure::Silence(to) => {
                self.connecting(options, url, *to);
                let (_, flow) = self.in_vain(options.limit);
                if flow != Flow::Next {
                    return flow;
                }
                if options.limit.is_some() {
                    self.fail(1, "wget: download timed out")
                } else {
                    self.fail(1, &format!("wget: can't connect to remote host ({}): Operation timed out", to.ip()))
                }
            }
        }
    }

    fn connecting(&mut self, options: &Options<'_>, url: &Url, to: SocketAddr) {
        if !options.quiet {
            let host = if url.port == 80 { url.host.clone() } else { format!("{}:{}", url.host, url.port) };
            self.fail(0, &format!("Connecting to {host} ({to})"));
        }
    }

    /// As it is shown where nobody sees it grow.
    fn progress(&mut self, path: &str, size: Option<usize>) {
        let said = if path == "-" { "writing to stdout".to_owned() } else { format!("saving to '{path}'") };
        self.fail(0, &said);
        match size {
            Some(size) => {
                let shown: String = path.rsplit('/').next().unwrap_or(path).chars().take(20).collect();
                self.fail(0, &format!("{shown:<20} 100% |{}| {size:>5}  0:00:00 ETA", "*".repeat(32)));
            }
            None => self.transcript.doubt(self.at, || "how long the server's page is, is not known".to_owned()),
        }
    }
}
