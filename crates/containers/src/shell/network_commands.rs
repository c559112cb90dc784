//! Programs that ask the network, as conditions: whether a name is known, whether a port takes a connection. What they print
//! is not followed.

use jiff::SignedDuration;

use super::interpreter::{Flow, Run};
use super::numbers::duration;
use super::resolver::{Connection, Name};

/// How long it takes until a system gives up connecting.
const PATIENCE: SignedDuration = SignedDuration::from_secs(127);

/// Flags of `nc`, `wget` and `curl` that are followed by a word of their own.
const WITH_WORD: [&str; 17] = [
    "-w",
    "-O",
    "-T",
    "-t",
    "-o",
    "-m",
    "-H",
    "-X",
    "-d",
    "-A",
    "-u",
    "--max-time",
    "--connect-timeout",
    "--output",
    "--header",
    "--retry",
    "--write-out",
];
/// Of these, those that say how long it waits.
const PATIENT: [&str; 5] = ["-w", "-T", "-m", "--max-time", "--connect-timeout"];

/// Whether a command, or the script that it runs, asks the network.
pub(crate) fn is_network_command<'a>(command: impl IntoIterator<Item = &'a str>) -> bool {
    let words = command
        .into_iter()
        .flat_map(|word| word.split(|letter: char| letter.is_whitespace() || ";&|()".contains(letter)));
    words.into_iter().any(|word| Run::is_network_command(word.rsplit('/').next().unwrap_or_default()))
}

impl Run {
    pub(super) fn is_network_command(name: &str) -> bool {
        matches!(name, "curl" | "wget" | "nc" | "netcat" | "nslookup")
    }

    pub(super) fn network_command(&mut self, name: &str, arguments: &[Option<String>]) -> Flow {
        let Some(words) = arguments.iter().cloned().collect::<Option<Vec<String>>>() else {
            return self.unknown(|| format!("whom `{name}` asks is not known"));
        };
        let Some((host, port, limit)) = asked(name, &words) else {
            return self.unknown(|| format!("whom `{name} {}` asks is not followed", words.join(" ")));
        };
        let Some(network) = self.world.network.clone() else {
            return self.unknown(|| format!("what `{name}` is answered is not known"));
        };
        (self.asks, self.asked_time) = (true, true);
        self.uncertain(|| format!("what `{name}` prints is not known"));
        let is_curl = name == "curl";
        if name == "nslookup" {
            return match network.look_up(self.at, &host) {
                Name::Known => self.unknown_effects(0, String::new),
                Name::Missing => self.unknown_effects(1, String::new),
                Name::Unknown => self.unknown(|| format!("what `{host}` means is not known")),
            };
        }
        match network.connect(self.at, &host, port) {
            Connection::Taken => self.unknown_effects(0, String::new),
            Connection::NoSuchName => self.unknown_effects(if is_curl { 6 } else { 1 }, String::new),
            Connection::Refused => self.unknown_effects(if is_curl { 7 } else { 1 }, String::new),
            Connection::Silence => {
                let flow = self.pass(limit.unwrap_or(PATIENCE));
                self.code = if is_curl { 28 } else { 1 };
                flow
            }
            Connection::Unknown => self.unknown(|| format!("what listens at port {port} of `{host}` is not known")),
        }
    }
}

/// The host and the port that are asked, and for how long; none where that is not followed.
fn asked(name: &str, words: &[String]) -> Option<(String, u16, Option<SignedDuration>)> {
    let (mut plain, mut limit) = (Vec::new(), None);
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        if word == "-p" || (name == "nc" && word == "-u") {
            return None;
        }
        let (flag, joined) = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(value)),
            _ => (word, None),
        };
        if WITH_WORD.contains(&flag) {
            let value = joined.or_else(|| rest.next());
            limit = value.filter(|_| PATIENT.contains(&flag)).and_then(duration).or(limit);
        } else if let Some(seconds) = PATIENT.iter().find_map(|flag| word.strip_prefix(flag)).and_then(duration) {
            limit = Some(seconds);
        } else if !word.starts_with('-') {
            plain.push(word);
        }
    }
    match (name, plain.as_slice()) {
        ("nslookup", [host, ..]) => Some(((*host).to_owned(), 0, limit)),
        ("nc" | "netcat", [host, port]) => Some(((*host).to_owned(), port.parse().ok()?, limit)),
        ("wget" | "curl", [url]) => {
            let (host, port) = host_and_port(url)?;
            Some((host, port, limit))
        }
        _ => None,
    }
}

/// The host and the port of a URL.
fn host_and_port(url: &str) -> Option<(String, u16)> {
    let (otherwise, rest) = match url.split_once("://") {
        Some(("http", rest)) => (80, rest),
        Some(("https", rest)) => (443, rest),
        Some(_) => return None,
        None => (80, url),
    };
    let authority = rest.split(['/', '?', '#']).next()?.rsplit('@').next()?;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, otherwise),
    };
    let host = host.trim_matches(['[', ']']);
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_who_is_asked() {
        for (line, expected) in [
            ("nslookup store", Some(("store", 0, None))),
            ("nc -z -w 2 store 80", Some(("store", 80, Some(2)))),
            ("nc -zvw5 10.0.0.1 5432", Some(("10.0.0.1", 5432, None))),
            ("nc store", None),
            ("nc -u store 53", None),
            ("wget -qO- -T 3 http://store:8080/x?a=b", Some(("store", 8080, Some(3)))),
            ("wget --spider -q store", Some(("store", 80, None))),
            ("curl -sf --max-time=5 https://store.shop/", Some(("store.shop", 443, Some(5)))),
            ("curl -s http://[fd00::1]:80/x", Some(("fd00::1", 80, None))),
            ("curl ftp://x", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let found = asked(&words[0], &words[1..]);
            let found =
                found.as_ref().map(|(host, port, limit)| (host.as_str(), *port, limit.map(|limit| limit.as_secs())));
            assert_eq!(found, expected, "{line}");
        }
    }
}
