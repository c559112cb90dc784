//! `nc`, busybox's and OpenBSD's, and what else only asks whether somebody is there: `nslookup`, agnhost's `connect`.

// upstream: busybox 1.36 networking/nc_bloaty.c; OpenBSD usr.bin/nc/netcat.c; test/images/agnhost/connect/connect.go (v1.36)

use std::net::IpAddr;

use super::amounts::duration;
use super::clients::{Failure, host_and_port};
use super::reach::{Heard, Protocol, Sent};
use super::run::{Flow, Run};

impl Run {
    pub(super) fn netcat(&mut self, words: &[&str]) -> Flow {
        let (mut verbose, mut looks, mut udp, mut limit, mut places) = (false, false, false, None, Vec::new());
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if !word.starts_with('-') || word.len() < 2 {
                places.push(*word);
                continue;
            }
            for (at, letter) in word.char_indices().skip(1) {
                match letter {
                    'v' => verbose = true,
                    'z' => looks = true,
                    'u' => udp = true,
                    'n' | 't' | 'N' | '4' => {}
                    'w' | 'q' => {
                        let glued = word.get(at + 1..).filter(|text| !text.is_empty());
                        let said = glued.or_else(|| rest.next().copied()).and_then(duration);
                        if letter == 'w' {
                            limit = said;
                        }
                        break;
                    }
                    _ => return self.unknown(|| format!("what comes of `nc {word}` is not known")),
                }
            }
        }
        let (host, port) = match places[..] {
            [host, port] => (host, port.parse::<u16>()),
            _ => return self.unknown(|| "whom `nc` asks is not known".to_owned()),
        };
        let Ok(port) = port else { return self.unknown(|| "at which port `nc` asks is not known".to_owned()) };
        let input = if looks { Some(Vec::new()) } else { self.read_rest() };
        let Some(input) = input else { return self.unknown(|| "what `nc` sends is not known".to_owned()) };
        let sent = if looks || input.is_empty() { Sent::Nothing } else { Sent::Text(&input) };
        let protocol = if udp { Protocol::Udp } else { Protocol::Tcp };
        let (kind, openbsd) = (if udp { "udp" } else { "tcp" }, self.world.tools.others);
        match self.sent(host, port, protocol, sent) {
            Ok((Heard::Text(text), to)) => {
                if verbose && openbsd {
                    let by_name = to.ip().to_string() != host;
                    let host = if by_name { format!("{host} ({})", to.ip()) } else { host.to_owned() };
                    let service = service_name(port, udp);
                    self.fail(0, &format!("Connection to {host} {port} port [{kind}/{service}] succeeded!"));
                } else if verbose {
                    self.fail(0, &format!("{host} ({to}) open"));
                }
                self.say(text);
                self.done(0)
            }
            Ok(_) => self.unknown(|| "what `nc` is answered is not known".to_owned()),
            Err(Failure::Told(flow)) => flow,
            Err(Failure::NoSuchName) if openbsd => {
                self.fail(1, &format!("nc: getaddrinfo for host \"{host}\" port {port}: Name does not resolve"))
            }
            Err(Failure::NoSuchName) => self.fail(1, &format!("nc: bad address '{host}'")),
            // To nobody, datagrams are sent like to somebody.
            Err(Failure::Refused(_)) if udp && looks => self.done(1),
            Err(Failure::Refused(to)) => match (openbsd, verbose) {
                (true, true) => {
                    self.fail(1, &format!("nc: connect to {host} port {port} ({kind}) failed: Connection refused"))
                }
                (false, true) => self.fail(1, &format!("nc: {host} ({to}): Connection refused")),
                (_, false) => self.done(1),
            },
            Err(Failure::Silence(to)) => {
                let (_, flow) = self.in_vain(limit);
                if flow != Flow::Next {
                    return flow;
                }
                match (openbsd, verbose) {
                    _ if udp => self.done(0),
                    (true, true) => self.fail(
                        1,
                        &format!("nc: connect to {host} port {port} ({kind}) timed out: Operation in progress"),
                    ),
                    (true, false) => self.done(1),
                    (false, _) if limit.is_some() => self.fail(1, "nc: timed out"),
                    (false, _) => self.fail(1, &format!("nc: {host} ({to}): Operation timed out")),
                }
            }
        }
    }

    /// BIND's.
    pub(super) fn nslookup(&mut self, words: &[&str]) -> Flow {
        let [host] = words[..] else {
            return self.unknown(|| "what comes of such an `nslookup` is not known".to_owned());
        };
        if host.starts_with('-') || host.parse::<IpAddr>().is_ok() {
            return self.unknown(|| "what comes of such an `nslookup` is not known".to_owned());
        }
        let server = self.world.network.clone().and_then(|network| network.name_server());
        if server.is_none() && self.looks_on() {
            return self.unknown(|| "whom `nslookup` asks is not known".to_owned());
        }
        let asked = server.map(|server| format!("Server:\t\t{server}\nAddress:\t{server}#53\n\n")).unwrap_or_default();
        match self.resolved(host) {
            Ok((name, addresses)) => {
                self.say(asked);
                for address in addresses {
                    self.say(format!("Name:\t{name}\nAddress: {address}\n"));
                }
                self.say("\n");
                self.done(0)
            }
            Err(Failure::Told(flow)) => flow,
            Err(_) => {
                self.say(format!("{asked}** server can't find {host}: NXDOMAIN\n\n"));
                self.done(1)
            }
        }
    }

    /// agnhost's.
    pub(super) fn connect(&mut self, words: &[String]) -> Flow {
        let (mut place, mut limit, mut udp) = (None, None, false);
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let Some(flag) = word.strip_prefix("--") else {
                place = Some(word.as_str());
                continue;
            };
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, value),
                None => (flag, rest.next().map(String::as_str).unwrap_or_default()),
            };
            match name {
                "timeout" => limit = duration(value),
                "protocol" => udp = value == "udp",
                _ => return self.unknown(|| format!("what comes of `connect --{name}` is not known")),
            }
        }
        let Some((host, port)) = place.and_then(host_and_port) else {
            return self.unknown(|| "whom `connect` asks is not known".to_owned());
        };
        let (protocol, sent) =
            if udp { (Protocol::Udp, Sent::Text(b"hostname\n")) } else { (Protocol::Tcp, Sent::Nothing) };
        match self.sent(host.trim_matches(['[', ']']), port, protocol, sent) {
            Ok(_) => self.done(0),
            Err(Failure::Told(flow)) => flow,
            Err(Failure::NoSuchName) => {
                let server = self.world.network.clone().and_then(|network| network.name_server());
                let at = server.map(|server| format!(" on {server}:53")).unwrap_or_default();
                self.fail(1, &format!("DNS: lookup {host}{at}: no such host"))
            }
            Err(Failure::Refused(_)) => self.fail(1, "REFUSED"),
            Err(Failure::Silence(_)) => {
                let (_, flow) = self.in_vain(limit);
                if flow == Flow::Next { self.fail(1, "TIMEOUT") } else { flow }
            }
        }
    }
}

/// What a port is called.
fn service_name(port: u16, udp: bool) -> &'static str {
    match (port, udp) {
        (53, _) => "domain",
        (80, false) => "http",
        (443, _) => "https",
        (8080, false) => "http-alt",
        _ => "*",
    }
}
