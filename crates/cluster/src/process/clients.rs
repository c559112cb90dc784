//! Programs that ask the network: `curl`, `wget`, `nc`, `nslookup`, agnhost's `connect`. What they are answered is what the
//! cluster says at that time; how they say it is theirs.

// upstream: curl 8 (docs/libcurl/opts), busybox 1.36 networking/{wget,nc,nslookup}.c, OpenBSD nc.c,
// test/images/agnhost/connect/connect.go (v1.36)

use std::net::{IpAddr, SocketAddr};

use jiff::SignedDuration;

use super::amounts::duration;
use super::reach::{Heard, Lookup, Moment, Protocol, Request, Response, Sent};
use super::run::{Flow, Run};

/// How long it takes until a system gives up connecting.
const PATIENCE: SignedDuration = SignedDuration::from_secs(127);
/// So many times somebody is sent elsewhere.
const MAX_REDIRECTIONS: usize = 10;

/// Why there is nothing to say.
enum Failure {
    NoSuchName,
    Refused(SocketAddr),
    Silence(SocketAddr),
    /// It was said already that it is not known.
    Told(Flow),
}

/// Where something is.
#[derive(Debug, Clone)]
struct Url {
    secure: bool,
    host: String,
    port: u16,
    target: String,
}

impl Url {
    fn read(text: &str) -> Option<Self> {
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
fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    if host.contains(':') && !host.ends_with(']') {
        return None;
    }
    Some((host, port.parse().ok()?))
}

/// What a request came to.
struct Fetched {
    response: Response,
    address: SocketAddr,
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
        match name {
            "curl" if tools.curl => self.curl(&words),
            "wget" if tools.busybox => self.wget(&words),
            "nc" | "netcat" if tools.others || tools.busybox => self.netcat(&words),
            "nslookup" if tools.others => self.nslookup(&words),
            _ => self.unknown(|| format!("what `{name}` prints is not known")),
        }
    }

    fn moment(&mut self) -> Moment {
        let question = self.questions;
        self.questions += 1;
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

    fn resolved(&mut self, host: &str) -> Result<(String, Vec<IpAddr>), Failure> {
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
    fn sent(
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

    fn fetched(&mut self, url: &Url, method: &str, body: &[u8]) -> Result<Fetched, Failure> {
        let request =
            Request { secure: url.secure, method: method.to_owned(), target: url.target.clone(), body: body.to_vec() };
        match self.sent(&url.host, url.port, Protocol::Tcp, Sent::Http(&request))? {
            (Heard::Http(response), address) => Ok(Fetched { response, address }),
            _ => Err(self.unheard("what answers is no HTTP server".to_owned())),
        }
    }

    /// Waits for an answer that does not come, for so long.
    fn in_vain(&mut self, limit: Option<SignedDuration>) -> (SignedDuration, Flow) {
        let limit = limit.unwrap_or(PATIENCE);
        let flow = self.pass(limit);
        (limit, flow)
    }

    fn write_out(&mut self, to: Option<&str>, text: Option<&[u8]>, why: &str) {
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

    fn curl(&mut self, words: &[&str]) -> Flow {
        let (mut urls, mut output, mut format, mut method) = (Vec::new(), None, None, None);
        let (mut limit, mut fails, mut silent, mut shows, mut follows) = (None, false, false, false, false);
        let mut body = Vec::new();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let mut value = || rest.next().copied().unwrap_or_default();
            match *word {
                "-o" | "--output" => output = Some(value()),
                "-w" | "--write-out" => format = Some(value()),
                "-X" | "--request" => method = Some(value()),
                "-d" | "--data" | "--data-raw" => body = value().as_bytes().to_vec(),
                "-m" | "--max-time" | "--connect-timeout" => {
                    let said = duration(value());
                    limit = match (limit, said) {
                        (Some(one), Some(other)) => Some(std::cmp::min::<SignedDuration>(one, other)),
                        (one, other) => one.or(other),
                    };
                }
                "-H" | "--header" | "-A" | "--user-agent" | "--retry" | "--retry-delay" | "--resolve" => {
                    if matches!(*word, "--retry" | "--resolve") {
                        return self.unknown(|| format!("what comes of `curl {word}` is not known"));
                    }
                    value();
                }
                "--silent" => silent = true,
                "--show-error" => shows = true,
                "--fail" => fails = true,
                "--location" => follows = true,
                "--insecure" | "--globoff" | "--ipv4" | "--no-progress-meter" => silent |= word.starts_with("--no"),
                "--head" => method = Some("HEAD"),
                word if word.starts_with("--") => {
                    return self.unknown(|| format!("what comes of `curl {word}` is not known"));
                }
                word if word.len() > 1 && word.starts_with('-') => {
                    for letter in word.chars().skip(1) {
                        match letter {
                            's' => silent = true,
                            'S' => shows = true,
                            'f' => fails = true,
                            'L' => follows = true,
                            'k' | 'q' | 'g' | '4' | 'N' => {}
                            _ => return self.unknown(|| format!("what comes of `curl {word}` is not known")),
                        }
                    }
                }
                word => urls.push(word),
            }
        }
        let method = method.unwrap_or(if body.is_empty() { "GET" } else { "POST" });
        let [url] = urls[..] else { return self.unknown(|| "what comes of several URLs is not known".to_owned()) };
        let Some(mut url) = Url::read(url) else { return self.fail(3, "curl: (3) URL rejected") };
        if method == "HEAD" {
            return self.unknown(|| "what heads an answer is not known".to_owned());
        }
        let told = !silent || shows;
        let mut turns = 0;
        let fetched = loop {
            match self.fetched(&url, method, &body) {
                Ok(fetched) => match (&fetched.response.location, follows && turns < MAX_REDIRECTIONS) {
                    (Some(to), true) => {
                        turns += 1;
                        if to.starts_with('/') {
                            url.target.clone_from(to);
                        } else if let Some(next) = Url::read(to) {
                            url = next;
                        } else {
                            break fetched;
                        }
                    }
                    _ => break fetched,
                },
                Err(Failure::Told(flow)) => return flow,
                Err(failure) => {
                    let (host, port) = (&url.host, url.port);
                    // Debian's is older.
                    let could_not = if self.world.shell.is_dash() { "Couldn't" } else { "Could not" };
                    let (code, said) = match failure {
                        Failure::NoSuchName => (6, format!("Could not resolve host: {host}")),
                        Failure::Silence(_) => {
                            let (limit, flow) = self.in_vain(limit);
                            if flow != Flow::Next {
                                return flow;
                            }
                            (28, format!("Connection timed out after {} milliseconds", limit.as_millis()))
                        }
                        _ => (
                            7,
                            format!("Failed to connect to {host} port {port} after 0 ms: Could not connect to server"),
                        ),
                    };
                    if let Some(format) = format {
                        self.say(formatted(format, "000"));
                    }
                    return if told { self.fail(code, &format!("curl: ({code}) {said}")) } else { self.done(code) };
                }
            }
        };
        let code = fetched.response.code;
        if fails && code >= 400 {
            if let Some(format) = format {
                self.say(formatted(format, &code.to_string()));
            }
            let text = format!("curl: (22) The requested URL returned error: {code}");
            return if told { self.fail(22, &text) } else { self.done(22) };
        }
        if !silent && output.is_some() {
            self.transcript.doubt(self.at, || "how fast it was is not known (`curl -s` does not say)".to_owned());
        }
        self.write_out(output, fetched.response.body.as_deref(), "what the server's page says is not known");
        if let Some(format) = format {
            self.say(formatted(format, &code.to_string()));
        }
        self.done(0)
    }

    /// Busybox's.
    fn wget(&mut self, words: &[&str]) -> Flow {
        let (mut urls, mut output, mut quiet, mut looks, mut limit) = (Vec::new(), None, false, false, None);
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match *word {
                "--spider" => looks = true,
                "--no-check-certificate" | "--no-verbose" | "-c" => {}
                word if word.starts_with("--timeout=") => {
                    limit = word.split_once('=').and_then(|(_, said)| duration(said))
                }
                "--timeout" => limit = rest.next().and_then(|said| duration(said)),
                "--tries" | "-t" => {
                    rest.next();
                }
                word if word.starts_with("--tries=") => {}
                word if word.starts_with("--") => {
                    return self.unknown(|| format!("what comes of `wget {word}` is not known"));
                }
                word if word.len() > 1 && word.starts_with('-') => {
                    let mut letters = word.char_indices().skip(1);
                    while let Some((at, letter)) = letters.next() {
                        let glued = word.get(at + 1..).filter(|text| !text.is_empty());
                        let mut value = || glued.or_else(|| rest.next().copied()).unwrap_or_default();
                        match letter {
                            'q' => quiet = true,
                            'S' => return self.unknown(|| "what heads an answer is not known".to_owned()),
                            'O' => output = Some(value()),
                            'T' => limit = duration(value()),
                            _ => return self.unknown(|| format!("what comes of `wget {word}` is not known")),
                        }
                        if matches!(letter, 'O' | 'T') {
                            break;
                        }
                    }
                }
                word => urls.push(word),
            }
        }
        let [text] = urls[..] else { return self.unknown(|| "what comes of several URLs is not known".to_owned()) };
        let Some(url) = Url::read(text).filter(|url| !url.secure) else {
            return self.unknown(|| format!("what comes of `wget {text}` is not known"));
        };
        let host = url.host.clone();
        let fetched = match self.fetched(&url, "GET", b"") {
            Ok(fetched) => fetched,
            Err(Failure::Told(flow)) => return flow,
            Err(Failure::NoSuchName) => return self.fail(1, &format!("wget: bad address '{host}'")),
            Err(Failure::Refused(to)) => {
                self.connecting(quiet, &url, to);
                return self.fail(1, &format!("wget: can't connect to remote host ({}): Connection refused", to.ip()));
            }
            Err(Failure::Silence(to)) => {
                self.connecting(quiet, &url, to);
                let (_, flow) = self.in_vain(limit);
                if flow != Flow::Next {
                    return flow;
                }
                let text = if limit.is_some() {
                    "wget: download timed out".to_owned()
                } else {
                    format!("wget: can't connect to remote host ({}): Operation timed out", to.ip())
                };
                return self.fail(1, &text);
            }
        };
        self.connecting(quiet, &url, fetched.address);
        let code = fetched.response.code;
        if code >= 400 {
            let reason =
                http::StatusCode::from_u16(code).ok().and_then(|code| code.canonical_reason()).unwrap_or_default();
            return self.fail(1, &format!("wget: server returned error: HTTP/1.1 {code} {reason}"));
        }
        if looks {
            if !quiet {
                self.fail(0, "remote file exists");
            }
            return self.done(0);
        }
        let name = url.target.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        let name = if name.is_empty() { "index.html" } else { name };
        let path = output.unwrap_or(name);
        let size = fetched.response.body.as_ref().map(Vec::len);
        if !quiet {
            self.progress(path, size);
        }
        self.write_out(Some(path), fetched.response.body.as_deref(), "what the server's page says is not known");
        if !quiet {
            let said = if path == "-" { "written to stdout".to_owned() } else { format!("'{path}' saved") };
            self.fail(0, &said);
        }
        self.done(0)
    }

    fn connecting(&mut self, quiet: bool, url: &Url, to: SocketAddr) {
        if !quiet {
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

    fn netcat(&mut self, words: &[&str]) -> Flow {
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
        let input = if looks { Some(Vec::new()) } else { self.input.rest() };
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
                (true, false) => self.done(1),
                (false, true) => self.fail(1, &format!("nc: {host} ({to}): Connection refused")),
                (false, false) => self.done(1),
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
    fn nslookup(&mut self, words: &[&str]) -> Flow {
        let [host] = words[..] else {
            return self.unknown(|| "what comes of such an `nslookup` is not known".to_owned());
        };
        if host.starts_with('-') || host.parse::<IpAddr>().is_ok() {
            return self.unknown(|| "what comes of such an `nslookup` is not known".to_owned());
        }
        let server = self.world.network.clone().and_then(|network| network.name_server());
        let Some(server) = server else { return self.unknown(|| "whom `nslookup` asks is not known".to_owned()) };
        let asked = format!("Server:\t\t{server}\nAddress:\t{server}#53\n\n");
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

/// What curl prints when it is done; of its variables only the code is known.
fn formatted(format: &str, code: &str) -> String {
    let format = format.replace("%{http_code}", code).replace("%{response_code}", code);
    format.replace("\\n", "\n").replace("\\t", "\t")
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
