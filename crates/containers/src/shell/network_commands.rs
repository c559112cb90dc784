//! Programs that ask the network, as conditions: whether a name is known, whether a port takes a connection. What they print
//! is not followed.

use jiff::SignedDuration;

use super::commands::duration;
use super::execution::Answer;
use super::interpreter::{Flow, Run};

/// How long it takes until a system gives up connecting.
const PATIENCE: SignedDuration = SignedDuration::from_secs(127);

/// Flags of `nc`, `wget` and `curl` that are followed by a word of their own.
const WITH_WORD: [&str; 12] =
    ["-w", "-O", "-T", "-t", "-o", "-m", "-H", "-X", "-d", "-u", "--max-time", "--connect-timeout"];
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

    pub(super) fn network_command(&mut self, name: &str, words: &[&str]) -> Flow {
        let Some((host, port, limit)) = asked(name, words) else {
            return self.unknown(|| format!("whom `{name} {}` asks is not followed", words.join(" ")));
        };
        let Some(network) = self.world.network.clone() else {
            return self.unknown(|| format!("what `{name}` is answered is not known"));
        };
        (self.asks, self.asked_time) = (true, true);
        let code = |of_curl: i64| if name == "curl" { of_curl } else { 1 };
        let said = || format!("what `{name}` prints is not known");
        match network.ask(self.at, host, port) {
            Answer::Yes => self.unknown_effects(0, said),
            Answer::NoSuchName => self.unknown_effects(code(6), said),
            Answer::Refused => self.unknown_effects(code(7), said),
            Answer::Silence => {
                let flow = self.pass(limit.unwrap_or(PATIENCE));
                self.code = code(28);
                flow
            }
            Answer::Unknown => self.unknown(|| format!("what `{host}` means, or what listens there, is not known")),
        }
    }
}

/// The host and the port that are asked, and for how long; none where that is not followed. `nslookup` asks at no port.
fn asked<'a>(name: &str, words: &[&'a str]) -> Option<(&'a str, Option<u16>, Option<SignedDuration>)> {
    let (mut plain, mut limit) = (Vec::new(), None);
    let mut rest = words.iter().copied();
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
    let (host, port) = match (name, plain.as_slice()) {
        ("nslookup", [host, ..]) => (*host, None),
        ("nc" | "netcat", [host, port]) => (*host, Some(port.parse().ok()?)),
        ("wget" | "curl", [url]) => host_and_port(url).map(|(host, port)| (host, Some(port)))?,
        _ => return None,
    };
    Some((host, port, limit))
}

/// The host and the port of a URL.
fn host_and_port(url: &str) -> Option<(&str, u16)> {
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
    (!host.is_empty()).then_some((host, port))
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
            let words: Vec<&str> = line.split(' ').collect();
            let found = asked(words[0], &words[1..]);
            let found = found.map(|(host, port, limit)| (host, port.unwrap_or(0), limit.map(|limit| limit.as_secs())));
            assert_eq!(found, expected, "{line}");
        }
    }
}
