//! What answers at a port of a pod: the servers that are known, word for word; of others, that nobody knows.

// upstream: test/images/agnhost/{netexec/netexec.go,serve-hostname/serve_hostname.go,porter/porter.go} (v1.36)

use std::net::{IpAddr, SocketAddr};

use klab_scheduler::hash::fnv64;
use serde_json::{Value, json};

use super::reviews::review;
use super::routes::{Landed, Origin, route};
use super::{conversion, names};
use crate::process::{
    Heard, Listens, Lookup, Porter, Protocol, Request, Response, Sent, Server, host_of, program, status_of,
};
use crate::resource::NODES;
use crate::store::Store;
use crate::value::{condition, items, text};

const PLAIN: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
/// What Go's HTTP server answers to what is no request.
const BAD_REQUEST: &str =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request";
/// How nginx greets.
const WELCOME: &str = include_str!("nginx.html");
/// So often one request has others made.
const MAX_TRIES: usize = 100;

/// A question to a port, and what is known of who asks.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) store: &'a Store,
    /// The address of who asks.
    pub(crate) client: Option<IpAddr>,
    /// Distinguishes one connection from the next.
    pub(crate) chance: u64,
    /// Whether a server asks because it was asked.
    pub(crate) is_passed_on: bool,
}

/// What a pod hears that sends this there.
pub(super) fn heard(
    store: &Store,
    pod: &Value,
    chance: u64,
    to: SocketAddr,
    protocol: Protocol,
    sent: Sent<'_>,
) -> Heard {
    let client = text(pod, &["status", "podIP"]).parse().ok();
    match route(store, Origin { pod, chance }, to, protocol) {
        Ok(landed) => answer(Asked { store, client, chance, is_passed_on: false }, &landed, protocol, sent),
        Err(missed) => missed.into(),
    }
}

/// What comes back.
pub(crate) fn answer(asked: Asked<'_>, landed: &Landed, protocol: Protocol, sent: Sent<'_>) -> Heard {
    if !is_there(asked.store, &landed.pod) {
        return Heard::Silence;
    }
    let all = ["initContainers", "containers"].iter().flat_map(|list| items(&landed.pod["spec"][*list]));
    let running = all.filter(|one| status_of(&landed.pod, one)["state"]["running"].is_object());
    let mut unknown = None;
    for container in running {
        match Server::of(container) {
            Some(server) if server.ports().contains(&(landed.port, protocol)) => {
                return Serving { asked, landed, server }.answer(protocol, sent);
            }
            Some(_) => {}
            None if program(None, &landed.pod, container, None, None, None).listens == Listens::Nowhere => {}
            None => unknown = Some(text(container, &["image"])),
        }
    }
    match unknown {
        Some(image) => Heard::Unknown(format!(
            "whether the program of the image `{image}` listens at port {} is not known",
            landed.port
        )),
        None => Heard::Refused,
    }
}

/// Whether the node of a pod is heard of.
fn is_there(store: &Store, pod: &Value) -> bool {
    let Some(node) = store.get(NODES, "", text(pod, &["spec", "nodeName"])) else { return false };
    condition(&node.value()["status"]["conditions"], "Ready").is_none_or(|ready| ready["status"] != "Unknown")
}

/// A server that is asked something.
struct Serving<'a> {
    asked: Asked<'a>,
    landed: &'a Landed,
    server: Server,
}

impl Serving<'_> {
    fn answer(&self, protocol: Protocol, sent: Sent<'_>) -> Heard {
        let is_datagram = protocol == Protocol::Udp;
        let raw = |text: &[u8]| String::from_utf8_lossy(text).trim().to_owned();
        match (&self.server, sent) {
            (Server::ServeHostname { http: false, .. }, Sent::Nothing | Sent::Text(_)) => {
                Heard::Text(self.host_name().into_bytes())
            }
            (Server::ServeHostname { .. }, Sent::Text(_)) if is_datagram => Heard::Text(self.host_name().into_bytes()),
            (Server::Netexec { .. }, Sent::Text(text)) if is_datagram => self.datagram(&raw(text)),
            (Server::Porter { ports, .. }, Sent::Text(_)) if self.porter(ports, Porter::Udp).is_some() => {
                Heard::Text(self.porter(ports, Porter::Udp).unwrap_or_default().into_bytes())
            }
            (_, Sent::Nothing) => Heard::Text(Vec::new()),
            (Server::Nginx { .. } | Server::Httpd, Sent::Text(_)) => not_known("a request that is typed by hand"),
            (_, Sent::Text(text)) if raw(text).contains(" HTTP/") => not_known("a request that is typed by hand"),
            (_, Sent::Text(_)) => Heard::Text(BAD_REQUEST.into()),
            (_, Sent::Http(request)) => self.respond(request),
        }
    }

    fn host_name(&self) -> String {
        host_of(&self.landed.pod)
    }

    /// Who asks, as the server sees it.
    fn client(&self) -> String {
        let port = 32_768 + self.asked.chance % 28_000;
        let address = self.asked.client.map(|address| address.to_string()).unwrap_or_default();
        if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
    }

    fn datagram(&self, command: &str) -> Heard {
        let lower = command.to_lowercase();
        Heard::Text(match &*lower {
            "hostname" => self.host_name().into_bytes(),
            "clientip" => self.client().into_bytes(),
            "serverport" => self.landed.port.to_string().into_bytes(),
            _ => match lower.split_once(' ') {
                Some(("echo", text)) => text.as_bytes().to_vec(),
                _ => return Heard::Silence,
            },
        })
    }

    fn porter(&self, ports: &[(u16, Porter, String)], how: Porter) -> Option<String> {
        let own = ports.iter().find(|(port, own, _)| *port == self.landed.port && *own == how);
        own.map(|(.., text)| text.clone())
    }

    fn respond(&self, request: &Request) -> Heard {
        let secure = match &self.server {
            Server::Webhook { .. } | Server::ConversionWebhook(_) => true,
            Server::Porter { ports, .. } => self.porter(ports, Porter::Https).is_some(),
            _ => false,
        };
        match (secure, request.secure) {
            (true, false) => return plain(400, "Client sent an HTTP request to an HTTPS server.\n"),
            (false, true) => return not_known("a TLS handshake with a server that does not speak it"),
            _ => {}
        }
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let query: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let of = |name: &str| query.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value);
        match &self.server {
            Server::Nginx { .. } | Server::Httpd => self.page(path),
            Server::Netexec { .. } => self.netexec(request, path, of),
            Server::TestWebserver(_) if path == "/" => page(200, None),
            Server::TestWebserver(_) => not_known("a file of the container"),
            Server::ServeHostname { .. } => plain(200, self.host_name()),
            Server::Porter { ports, json } => {
                let how = if secure { Porter::Https } else { Porter::Http };
                let text = self.porter(ports, how).unwrap_or_default();
                if *json {
                    return json_of(json!({ "Method": request.method, "Body": text }));
                }
                // Go looks at a text to tell what it is.
                let kind = if text.to_ascii_lowercase().starts_with("<a ") { HTML } else { PLAIN };
                Heard::Http(Response { code: 200, content_type: kind, location: None, body: Some(text.into()) })
            }
            Server::Webhook { .. } | Server::ConversionWebhook(_) if path == "/readyz" => plain(200, "ok"),
            Server::Webhook { sidecar, .. } => match review(path, &request.body, sidecar) {
                Some(answer) => json_of(answer.value),
                None => plain(404, "404 page not found\n"),
            },
            Server::ConversionWebhook(_) if path == "/crdconvert" => match conversion::convert(&request.body) {
                Some(answer) => json_of(answer),
                None => not_known("what is no ConversionReview"),
            },
            Server::ConversionWebhook(_) => plain(404, "404 page not found\n"),
        }
    }

    /// What an image of a web server has to show.
    fn page(&self, path: &str) -> Heard {
        match (&self.server, path) {
            (Server::Httpd, "/" | "/index.html") => {
                page(200, Some("<html><body><h1>It works!</h1></body></html>\n".to_owned()))
            }
            (Server::Nginx { known: true }, "/" | "/index.html") => page(200, Some(WELCOME.to_owned())),
            (_, "/" | "/index.html") | (Server::Nginx { .. }, "/50x.html") => page(200, None),
            _ => page(404, None),
        }
    }

    fn netexec<'q>(&self, request: &Request, path: &str, of: impl Fn(&str) -> &'q str) -> Heard {
        if !matches!(&*request.method, "GET" | "HEAD") && !matches!(path, "/hostname" | "/hostName") {
            return not_known("such a request");
        }
        let has_udp = matches!(self.server, Server::Netexec { udp: Some(_), .. });
        match path {
            "/hostname" | "/hostName" => plain(200, self.host_name()),
            "/clientip" => plain(200, self.client()),
            "/serverport" => plain(200, self.landed.port.to_string()),
            "/echo" => match (of("code"), of("code").parse::<u16>()) {
                ("", _) => plain(200, of("msg")),
                (_, Ok(code @ 200..=599)) => plain(code, of("msg")),
                (code, Err(_)) => plain(200, format!("argument 'code' must be an integer or empty, got {code:?}\n")),
                (_, Ok(_)) => not_known("an answer with such a code"),
            },
            "/healthz" => plain(if has_udp { 200 } else { 412 }, ""),
            "/readyz" => plain(if has_udp { 200 } else { 412 }, if has_udp { "ok" } else { "" }),
            "/redirect" => {
                let code = if of("code").is_empty() { Ok(302) } else { of("code").parse() };
                match code {
                    Ok(code @ 300..=399) => Heard::Http(Response {
                        code,
                        content_type: HTML,
                        location: Some(of("location").to_owned()),
                        body: None,
                    }),
                    _ => not_known("such a redirection"),
                }
            }
            "/dial" => self.dial(of),
            "/header" | "/exit" | "/shutdown" | "/shell" | "/upload" => {
                not_known(&format!("a request for `{path}`, which only a container that runs could answer"))
            }
            _ => Heard::Http(Response { code: 200, content_type: PLAIN, location: None, body: None }),
        }
    }

    /// Asks others, and says what they answered.
    fn dial<'q>(&self, of: impl Fn(&str) -> &'q str) -> Heard {
        let tries = if of("tries").is_empty() { Ok(1) } else { of("tries").parse::<usize>() };
        let (Ok(tries @ 1..=MAX_TRIES), Ok(port), wanted) = (tries, of("port").parse::<u16>(), of("request")) else {
            return not_known("such a request to dial");
        };
        if wanted.is_empty() || self.asked.is_passed_on {
            return not_known("such a request to dial");
        }
        let address = match names::look_up(self.asked.store, &self.landed.pod, of("host")) {
            Lookup::Found(_, addresses) => addresses.first().copied(),
            Lookup::Unknown(why) => return Heard::Unknown(why),
            Lookup::Nobody | Lookup::Later => None,
        };
        let Some(address) = address else { return not_known("a request to dial a name that nobody has") };
        let (protocol, request) = match of("protocol").to_lowercase().as_str() {
            "" | "http" => {
                let target = format!("/{wanted}");
                let request = Request { secure: false, method: "GET".to_owned(), target, body: Vec::new() };
                (Protocol::Tcp, Some(request))
            }
            "udp" => (Protocol::Udp, None),
            _ => return not_known("such a protocol"),
        };
        let to = SocketAddr::new(address, port);
        let (mut responses, mut errors) = (Vec::new(), Vec::new());
        for attempt in 0..tries {
            let chance = fnv64(&[&self.asked.chance.to_be_bytes(), &attempt.to_be_bytes()]);
            let client = text(&self.landed.pod, &["status", "podIP"]).parse().ok();
            let asked = Asked { chance, client, is_passed_on: true, ..self.asked };
            let from = Origin { pod: &self.landed.pod, chance };
            let heard = match route(asked.store, from, to, protocol) {
                Ok(landed) => {
                    let sent = request.as_ref().map_or(Sent::Text(wanted.as_bytes()), Sent::Http);
                    answer(asked, &landed, protocol, sent)
                }
                Err(missed) => missed.into(),
            };
            match heard {
                Heard::Text(text) => responses.push(String::from_utf8_lossy(&text).into_owned()),
                Heard::Http(Response { body: Some(body), .. }) => {
                    responses.push(String::from_utf8_lossy(&body).into_owned());
                }
                Heard::Refused if protocol == Protocol::Tcp => {
                    errors.push(format!("Get \"http://{to}/{wanted}\": dial tcp {to}: connect: connection refused"));
                }
                Heard::Refused | Heard::Silence if protocol == Protocol::Udp => {
                    errors.push("reading from udp connection failed. err:'i/o timeout'".to_owned());
                }
                Heard::Refused | Heard::Silence => {
                    errors.push(format!("Get \"http://{to}/{wanted}\": dial tcp {to}: i/o timeout"));
                }
                Heard::Unknown(why) => return Heard::Unknown(why),
                Heard::Http(_) | Heard::Later => return not_known("what the other one says"),
            }
        }
        let mut out = serde_json::Map::new();
        if !errors.is_empty() {
            out.insert("errors".to_owned(), json!(errors));
        }
        if !responses.is_empty() {
            out.insert("responses".to_owned(), json!(responses));
        }
        plain(200, Value::Object(out).to_string())
    }
}

fn not_known(what: &str) -> Heard {
    Heard::Unknown(format!("what comes of {what} is not known"))
}

fn plain(code: u16, text: impl Into<Vec<u8>>) -> Heard {
    Heard::Http(Response { code, content_type: PLAIN, location: None, body: Some(text.into()) })
}

fn page(code: u16, text: Option<String>) -> Heard {
    Heard::Http(Response { code, content_type: HTML, location: None, body: text.map(String::into_bytes) })
}

fn json_of(value: Value) -> Heard {
    let body = Some(value.to_string().into_bytes());
    Heard::Http(Response { code: 200, content_type: "application/json", location: None, body })
}
