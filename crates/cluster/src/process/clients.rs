//! Programs that ask the network: `curl`, `wget`, `nc`, `nslookup`, agnhost's `connect`. What they are answered is what the
//! cluster says at that time; how they say it is theirs.

use std::net::{IpAddr, SocketAddr};

use jiff::SignedDuration;

use super::reach::{Heard, Lookup, Moment, Protocol, Request, Response, Sent};
use super::run::{Flow, Run};

/// How long it takes until a system gives up connecting.
const PATIENCE: SignedDuration = SignedDuration::from_secs(127);

/// Why there is nothing to say.
pub(super) enum Failure {
    NoSuchName,
    Refused(SocketAddr),
    Silence(SocketAddr),
    /// It was said already that it is not known.
    Told(Flow),
}

/// Where something is.
#[derive(Debug, Clone)]
pub(super) struct Url {
    pub(super) secure: bool,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) target: String,
}

impl Url {
    pub(super) fn read(text: &str) -> Option<Self> {
        let (secure, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return None,
            None => (false, text),
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let authority = authority.rsplit('@').next().unwrap_or_default();
        let (host, port) = host_and_port(authority).unwrap_or((authority, if secure { 443 } else { 80 }));
        let slash = if target.starts_with('/') { "" } else { "/" };
        let host = host.trim_matches(['[', ']']).to_owned();
        (!host.is_empty()).then(|| Self { secure, host, port, target: format!("{slash}{target}") })
    }
}

/// `host:80`, `[::1]:80`.
pub(super) fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    if host.contains(':') && !host.ends_with(']') {
        return None;
    }
    Some((host, port.parse().ok()?))
}

/// What a request came to.
pub(super) struct Fetched {
    pub(super) response: Response,
    pub(super) address: SocketAddr,
}

/// Whether a command, or the script that it runs, asks the network.
pub(crate) fn is_client(command: &[String]) -> bool {
    let words =
        command.iter().flat_map(|word| word.split(|letter: char| letter.is_whitespace() || ";&|()".contains(letter)));
    words.into_iter().any(|word| Run::is_client(word.rsplit('/').next().unwrap_or_default()))
}

impl Run {
    pub(super) fn is_client(name: &str) -> bool {
        matches!(name, "curl" | "wget" | "nc" | "netcat" | "nslookup")
    }

    pub(super) fn client(&mut self, name: &str, arguments: &[Option<String>]) -> Flow {
        let Some(words) = arguments.iter().cloned().collect::<Option<Vec<String>>>() else {
            return self.unknown(|| format!("whom `{name}` asks is not known"));
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let tools = self.world.tools;
        // How it ends does not depend on whose program it is.
        let ends = !self.looks_on();
        match name {
            "curl" if tools.curl || ends => self.curl(&words),
            "wget" if tools.busybox || ends => self.wget(&words),
            "nc" | "netcat" if tools.others || tools.busybox || ends => self.netcat(&words),
            "nslookup" if tools.others || ends => self.nslookup(&words),
            _ => self.unknown(|| format!("what `{name}` prints is not known")),
        }
    }

    fn moment(&mut self) -> Moment {
        let question = self.questions;
        self.questions += 1;
        // The next turn of a loop may be answered otherwise.
        self.asked_time = true;
        Moment { question, at: self.at }
    }

    /// It is not known yet: whoever follows this comes again.
    fn wait_for_it(&mut self) -> Failure {
        self.waits = self.transcript.doubt.is_none();
        self.transcript.doubt(self.at, || "what is answered then is not known".to_owned());
        Failure::Told(Flow::Forever)
    }

    fn unheard(&mut self, why: String) -> Failure {
        Failure::Told(self.unknown(|| why))
    }

    pub(super) fn resolved(&mut self, host: &str) -> Result<(String, Vec<IpAddr>), Failure> {
        let moment = self.moment();
        let network = self.world.network.clone();
        match network.map_or(Lookup::Nobody, |network| network.look_up(moment, host)) {
            Lookup::Found(name, addresses) => Ok((name, addresses)),
            Lookup::Nobody => Err(Failure::NoSuchName),
            Lookup::Unknown(why) => Err(self.unheard(why)),
            Lookup::Later => Err(self.wait_for_it()),
        }
    }

    /// What comes back from the first address of a host.
    pub(super) fn sent(
        &mut self,
        host: &str,
        port: u16,
        protocol: Protocol,
        sent: Sent<'_>,
    ) -> Result<(Heard, SocketAddr), Failure> {
        let (_, addresses) = self.resolved(host)?;
        let address = addresses.first().copied().ok_or(Failure::NoSuchName)?;
        let to = SocketAddr::new(address, port);
        let moment = self.moment();
        let network = self.world.network.clone();
        match network.map_or(Heard::Silence, |network| network.send(moment, to, protocol, sent)) {
            Heard::Refused => Err(Failure::Refused(to)),
            Heard::Silence => Err(Failure::Silence(to)),
            Heard::Unknown(why) => Err(self.unheard(why)),
            Heard::Later => Err(self.wait_for_it()),
            heard => Ok((heard, to)),
        }
    }

    pub(super) fn fetched(&mut self, url: &Url, method: &str, body: &[u8]) -> Result<Fetched, Failure> {
        let request =
            Request { secure: url.secure, method: method.to_owned(), target: url.target.clone(), body: body.to_vec() };
        match self.sent(&url.host, url.port, Protocol::Tcp, Sent::Http(&request))? {
            (Heard::Http(response), address) => Ok(Fetched { response, address }),
            _ => Err(self.unheard("what answers is no HTTP server".to_owned())),
        }
    }

    /// Waits for an answer that does not come, for so long.
    pub(super) fn in_vain(&mut self, limit: Option<SignedDuration>) -> (SignedDuration, Flow) {
        let limit = limit.unwrap_or(PATIENCE);
        let flow = self.pass(limit);
        (limit, flow)
    }

    pub(super) fn write_out(&mut self, to: Option<&str>, text: Option<&[u8]>, why: &str) {
        let Some(path) = to.filter(|path| *path != "-") else {
            match text {
                Some(text) => self.say(text),
                None => {
                    self.mute(0, || why.to_owned());
                }
            }
            return;
        };
        if path != "/dev/null" {
            let full = self.full(path);
            self.files.open(&full, false);
            self.files.append(&full, text);
            self.note(&full, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        for (text, host, port, target, secure) in [
            ("web", "web", 80, "/", false),
            ("http://web:8080", "web", 8080, "/", false),
            ("10.0.0.1:81/hostname", "10.0.0.1", 81, "/hostname", false),
            ("https://web.shop?a=b", "web.shop", 443, "/?a=b", true),
            ("http://[fd00::1]:80/x", "fd00::1", 80, "/x", false),
        ] {
            let url = Url::read(text).map(|url| (url.host, url.port, url.target, url.secure));
            assert_eq!(url, Some((host.to_owned(), port, target.to_owned(), secure)), "{text}");
        }
        for text in ["ftp://x", "http://", ""] {
            assert!(Url::read(text).is_none(), "{text}");
        }
    }
}
