//! Servers that are known: by the image and the words of a container, and at which ports they listen.

// upstream: test/images/agnhost/{netexec,test-webserver,serve-hostname,porter,webhook,crd-conversion-webhook} (v1.36)

use serde_json::Value;

use super::image::{base_name, is_official};
use super::reach::Protocol;
use crate::value::{items, text};

/// A server whose behaviour is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Server {
    /// nginx as its image comes; whether it is of a version whose first page is known.
    Nginx { known: bool },
    /// Apache as its image comes.
    Httpd,
    /// agnhost's server that says who it is, and whatever it is asked to say.
    Netexec { http: u16, udp: Option<u16> },
    /// agnhost's server of files.
    TestWebserver(u16),
    /// agnhost's server that says nothing but its name.
    ServeHostname { port: u16, http: bool, tcp: bool, udp: bool },
    /// agnhost's server that says what its environment says: by port, and whether in TLS.
    Porter { ports: Vec<(u16, Porter, String)>, json: bool },
    /// agnhost's admission webhooks.
    Webhook { port: u16, sidecar: String },
    /// agnhost's conversion webhook.
    ConversionWebhook(u16),
}

/// How a port of agnhost's `porter` is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Porter {
    Http,
    Https,
    Udp,
}

impl Server {
    /// The server that runs in a container, where its image and words alone say so.
    pub(crate) fn of(container: &Value) -> Option<Self> {
        if let Some(words) = agnhost(container) {
            return Self::of_agnhost(&words, container);
        }
        let image = text(container, &["image"]);
        match base_name(image) {
            // A configuration in a volume may have it listen elsewhere.
            name @ ("nginx" | "httpd")
                if words(container).next().is_none() && is_official(image) && !is_configured(container) =>
            {
                Some(if name == "nginx" { Self::Nginx { known: has_known_page(image) } } else { Self::Httpd })
            }
            _ => None,
        }
    }

    /// Whether a server runs in a container that writes into its own directories only.
    pub(super) fn keeps_to_itself(container: &Value) -> bool {
        let image = text(container, &["image"]);
        let mounts = items(&container["volumeMounts"]).iter().map(|mount| text(mount, &["mountPath"]));
        let as_it_comes = matches!(base_name(image), "nginx" | "httpd")
            && words(container).next().is_none()
            && is_official(image)
            && mounts.into_iter().all(|path| !path.starts_with("/etc") && !path.starts_with("/usr"));
        as_it_comes || Self::of(container).is_some()
    }

    /// The server of a container, if it listens there.
    pub(crate) fn at(container: &Value, port: u16, protocol: Protocol) -> Option<Self> {
        Self::of(container).filter(|server| server.ports().contains(&(port, protocol)))
    }

    fn of_agnhost(words: &[&str], container: &Value) -> Option<Self> {
        let (program, flags) = words.split_first()?;
        // What has it answer otherwise is not followed.
        if flags.iter().any(|flag| flag.contains("http-override") || (flag.contains("tls-") && *program == "netexec")) {
            return None;
        }
        let port =
            |name: &str, otherwise: u16| number(flags, name).map_or(Some(otherwise), |port| u16::try_from(port).ok());
        Some(match *program {
            "netexec" => Self::Netexec { http: port("http-port", 8080)?, udp: port("udp-port", 8081) },
            "test-webserver" => Self::TestWebserver(port("port", 80)?),
            "serve-hostname" => {
                let has = |name: &str| {
                    flags.iter().any(|flag| flag.trim_start_matches('-').trim_end_matches("=true") == name)
                };
                let (tcp, udp) = (has("tcp"), has("udp"));
                Self::ServeHostname { port: port("port", 9376)?, http: !has("http=false"), tcp, udp }
            }
            "porter" => Self::Porter { ports: ported(container), json: flags.contains(&"--json-response") },
            "webhook" => Self::Webhook {
                port: port("port", 443)?,
                sidecar: option(flags, "sidecar-image").unwrap_or_default().to_owned(),
            },
            "crd-conversion-webhook" => Self::ConversionWebhook(port("port", 443)?),
            _ => return None,
        })
    }

    /// Where it listens.
    pub(crate) fn ports(&self) -> Vec<(u16, Protocol)> {
        match self {
            Self::Nginx { .. } | Self::Httpd => vec![(80, Protocol::Tcp)],
            Self::Netexec { http, udp } => {
                let udp = udp.map(|port| (port, Protocol::Udp));
                [(*http, Protocol::Tcp)].into_iter().chain(udp).collect()
            }
            Self::TestWebserver(port) | Self::Webhook { port, .. } | Self::ConversionWebhook(port) => {
                vec![(*port, Protocol::Tcp)]
            }
            Self::ServeHostname { port, http, tcp, udp } => {
                let tcp = (*http || *tcp).then_some((*port, Protocol::Tcp));
                tcp.into_iter().chain(udp.then_some((*port, Protocol::Udp))).collect()
            }
            Self::Porter { ports, .. } => {
                let protocol = |how: Porter| if how == Porter::Udp { Protocol::Udp } else { Protocol::Tcp };
                ports.iter().map(|(port, how, _)| (*port, protocol(*how))).collect()
            }
        }
    }
}

/// A container's command and its arguments.
fn words(container: &Value) -> impl Iterator<Item = &str> {
    ["command", "args"].into_iter().flat_map(|field| items(&container[field])).filter_map(Value::as_str)
}

/// What agnhost is to do, with what flags, in a container of its image: of any registry, for mirrors of it are common.
pub(super) fn agnhost(container: &Value) -> Option<Vec<&str>> {
    if base_name(text(container, &["image"])) != "agnhost" {
        return None;
    }
    let mut words = words(container).peekable();
    words.next_if(|first| ["/agnhost", "agnhost"].contains(first));
    Some(words.collect())
}

/// What `SERVE_PORT_80` and the like say, where they say it themselves.
fn ported(container: &Value) -> Vec<(u16, Porter, String)> {
    let of = |variable: &Value| {
        let name = text(variable, &["name"]).strip_prefix("SERVE_")?;
        let known = [
            ("PORT_", Porter::Http),
            ("TCP_PORT_", Porter::Http),
            ("TLS_PORT_", Porter::Https),
            ("UDP_PORT_", Porter::Udp),
        ];
        let (port, how) = known.into_iter().find_map(|(prefix, how)| Some((name.strip_prefix(prefix)?, how)))?;
        Some((port.parse().ok()?, how, text(variable, &["value"]).to_owned()))
    };
    items(&container["env"]).iter().filter_map(of).collect()
}

/// Whether nginx is of one of the versions, 1.22 to 1.28, that greet in the same words.
fn has_known_page(image: &str) -> bool {
    let tag = image.split('@').next().unwrap_or_default().rsplit('/').next().unwrap_or_default().split(':').nth(1);
    let version = tag.and_then(|tag| tag.strip_prefix("1.")).unwrap_or_default();
    let minor: String = version.chars().take_while(char::is_ascii_digit).collect();
    minor.parse::<u32>().is_ok_and(|minor| (22..=28).contains(&minor))
}

/// Whether there are files of the pod's, beside the credentials that every container has.
fn is_configured(container: &Value) -> bool {
    let own = |mount: &Value| !text(mount, &["mountPath"]).starts_with("/var/run/secrets/");
    items(&container["volumeMounts"]).iter().any(own)
}

/// What `--name=80` or `--name 80` says.
fn option<'a>(flags: &[&'a str], name: &str) -> Option<&'a str> {
    let mut rest = flags.iter();
    while let Some(flag) = rest.next() {
        let Some(said) = flag.trim_start_matches('-').strip_prefix(name).filter(|_| flag.starts_with('-')) else {
            continue;
        };
        match said.strip_prefix('=') {
            Some(value) => return Some(value),
            None if said.is_empty() => return rest.next().copied(),
            None => {}
        }
    }
    None
}

pub(super) fn number(flags: &[&str], name: &str) -> Option<i64> {
    option(flags, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_say_which_server_runs() {
        let agnhost = |args: &[&str]| Server::of(&json!({ "image": "k8s/agnhost:2", "args": args }));
        for (args, wanted) in [
            (&["netexec"][..], Some(Server::Netexec { http: 8080, udp: Some(8081) })),
            (&["netexec", "--http-port=81", "--udp-port", "-1"], Some(Server::Netexec { http: 81, udp: None })),
            (&["test-webserver", "-port", "82"], Some(Server::TestWebserver(82))),
            (
                &["serve-hostname", "--tcp", "--http=false"],
                Some(Server::ServeHostname { port: 9376, http: false, tcp: true, udp: false }),
            ),
            (&["webhook", "--port=8444"], Some(Server::Webhook { port: 8444, sidecar: String::new() })),
            (&["crd-conversion-webhook", "--port=9"], Some(Server::ConversionWebhook(9))),
            (&["pause"], None),
            (&["nettest"], None),
            (&[], None),
        ] {
            assert_eq!(agnhost(args), wanted, "{args:?}");
        }
        let command = json!({ "image": "agnhost", "command": ["/agnhost", "netexec"], "args": ["--http-port=1"] });
        assert_eq!(Server::of(&command), Some(Server::Netexec { http: 1, udp: Some(8081) }));
        let porter = json!({ "image": "agnhost", "args": ["porter"],
            "env": [{ "name": "SERVE_PORT_80", "value": "foo" }, { "name": "SERVE_TLS_PORT_443", "value": "bar" },
                { "name": "SERVE_PORT_x", "value": "no" }, { "name": "PATH", "value": "/" }] });
        let ports = vec![(80, Porter::Http, "foo".to_owned()), (443, Porter::Https, "bar".to_owned())];
        assert_eq!(Server::of(&porter), Some(Server::Porter { ports, json: false }));
    }

    #[test]
    fn only_images_as_they_come_are_known() {
        for (image, server) in [
            ("nginx", Some(Server::Nginx { known: false })),
            ("nginx:1.27-alpine", Some(Server::Nginx { known: true })),
            ("docker.io/library/httpd:2.4", Some(Server::Httpd)),
            ("registry.k8s.io/e2e-test-images/nginx:1.15-4@sha256:1", Some(Server::Nginx { known: false })),
            ("bitnami/nginx:1.27", None),
            ("localhost:5000/nginx", None),
        ] {
            assert_eq!(Server::of(&json!({ "image": image })), server, "{image}");
        }
        let configured = json!({ "image": "nginx", "volumeMounts": [{ "name": "conf", "mountPath": "/etc/nginx" }] });
        assert_eq!(Server::of(&configured), None);
    }
}
