//! `curl`, as far as what it prints is known.

// upstream: curl 8, docs/cmdline-opts; 7.88 in Debian 12

use jiff::SignedDuration;

use super::amounts::duration;
use super::clients::{Failure, Fetched, Url};
use super::run::{Flow, Run};

/// So many times somebody is sent elsewhere.
const MAX_REDIRECTIONS: usize = 10;

/// What its words ask for.
#[derive(Debug, Default)]
struct Options<'a> {
    urls: Vec<&'a str>,
    output: Option<&'a str>,
    format: Option<&'a str>,
    method: Option<&'a str>,
    body: &'a [u8],
    limit: Option<SignedDuration>,
    fails: bool,
    silent: bool,
    shows: bool,
    follows: bool,
}

impl<'a> Options<'a> {
    /// Reads its words; the one that is not followed where there is one.
    fn read(words: &[&'a str]) -> Result<Self, &'a str> {
        let mut options = Self::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let mut value = || rest.next().copied().unwrap_or_default();
            match *word {
                "-o" | "--output" => options.output = Some(value()),
                "-w" | "--write-out" => options.format = Some(value()),
                "-X" | "--request" => options.method = Some(value()),
                "-d" | "--data" | "--data-raw" => options.body = value().as_bytes(),
                "-m" | "--max-time" | "--connect-timeout" => {
                    let said = duration(value());
                    options.limit = match (options.limit, said) {
                        (Some(one), Some(other)) => Some(std::cmp::min(one, other)),
                        (one, other) => one.or(other),
                    };
                }
                "-H" | "--header" | "-A" | "--user-agent" | "--interface" => {
                    value();
                }
                "--silent" | "--no-progress-meter" => options.silent = true,
                "--show-error" => options.shows = true,
                "--fail" => options.fails = true,
                "--location" => options.follows = true,
                "--insecure" | "--globoff" | "--ipv4" => {}
                word if word.len() > 1 && word.starts_with('-') => options.letters(word)?,
                word => options.urls.push(word),
            }
        }
        Ok(options)
    }

    fn letters(&mut self, word: &'a str) -> Result<(), &'a str> {
        for letter in word.chars().skip(1) {
            match letter {
                's' => self.silent = true,
                'S' => self.shows = true,
                'f' => self.fails = true,
                'L' => self.follows = true,
                'k' | 'q' | 'g' | '4' | 'N' => {}
                _ => return Err(word),
            }
        }
        Ok(())
    }
}

impl Run {
    pub(super) fn curl(&mut self, words: &[&str]) -> Flow {
        let options = match Options::read(words) {
            Ok(options) => options,
            Err(word) => return self.unknown(|| format!("what comes of `curl {word}` is not known")),
        };
        let [url] = options.urls[..] else {
            return self.unknown(|| "what comes of several URLs is not known".to_owned());
        };
        let Some(url) = Url::read(url) else {
            return self.fail(3, "curl: (3) URL rejected: Malformed input to a URL function");
        };
        let fetched = match self.transferred(url, &options) {
            Ok(fetched) => fetched,
            Err(flow) => return flow,
        };
        let code = fetched.response.code;
        if options.fails && code >= 400 {
            return self.given_up(
                &options,
                &code.to_string(),
                22,
                &format!("The requested URL returned error: {code}"),
            );
        }
        if !options.silent && options.output.is_some() {
            self.transcript.doubt(self.at, || "how fast it was is not known (`curl -s` does not say)".to_owned());
        }
        let body = fetched.response.body.as_deref();
        self.write_out(options.output, body, "what the server's page says is not known");
        if let Some(format) = options.format {
            self.say(formatted(format, &code.to_string()));
        }
        self.done(0)
    }

    /// The answer at the end of all redirections.
    fn transferred(&mut self, mut url: Url, options: &Options<'_>) -> Result<Fetched, Flow> {
        let method = options.method.unwrap_or(if options.body.is_empty() { "GET" } else { "POST" });
        let mut turns = 0;
        loop {
            let fetched = self.fetched(&url, method, options.body);
            let fetched = fetched.map_err(|failure| self.failed(&url, options, &failure))?;
            let next = fetched.response.location.as_deref().filter(|_| options.follows && turns < MAX_REDIRECTIONS);
            match next {
                Some(path) if path.starts_with('/') => path.clone_into(&mut url.target),
                Some(other) => match Url::read(other) {
                    Some(next) => url = next,
                    None => return Ok(fetched),
                },
                None => return Ok(fetched),
            }
            turns += 1;
        }
    }

    fn failed(&mut self, url: &Url, options: &Options<'_>, failure: &Failure) -> Flow {
        let (host, port) = (&url.host, url.port);
        let (code, said) = match failure {
            Failure::Told(flow) => return *flow,
            Failure::NoSuchName => (6, format!("Could not resolve host: {host}")),
            Failure::Silence(_) => {
                let (limit, flow) = self.in_vain(options.limit);
                if flow != Flow::Next {
                    return flow;
                }
                (28, format!("Connection timed out after {} milliseconds", limit.as_millis()))
            }
            Failure::Refused(_) => {
                // Debian's is older.
                let could_not = if self.world.shell.is_dash() { "Couldn't" } else { "Could not" };
                (7, format!("Failed to connect to {host} port {port} after 0 ms: {could_not} connect to server"))
            }
        };
        self.given_up(options, "000", code, &said)
    }

    fn given_up(&mut self, options: &Options<'_>, answered: &str, code: i64, said: &str) -> Flow {
        if let Some(format) = options.format {
            self.say(formatted(format, answered));
        }
        let told = !options.silent || options.shows;
        if told { self.fail(code, &format!("curl: ({code}) {said}")) } else { self.done(code) }
    }
}

/// What curl prints when it is done; of its variables only the code is known.
fn formatted(format: &str, code: &str) -> String {
    let format = format.replace("%{http_code}", code).replace("%{response_code}", code);
    format.replace("\\n", "\n").replace("\\t", "\t")
}
