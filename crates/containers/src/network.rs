//! The network as a pod finds it: what a name means, where a connection leads, and whether a container there listens. What
//! would be answered is not followed.

// upstream: https://github.com/kubernetes/dns/blob/master/docs/specification.md (schema version 1.1.0)
// upstream: pkg/proxy/iptables/proxier.go syncProxyRules (v1.36)

use std::net::IpAddr;
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;

use crate::objects::{Kind, Objects};
use crate::program::{Container, Listens, program};
use crate::shell::execution::{Answer, Resolver};
use crate::value::status_of;
use klab_api_machinery::value::{integer, items, text};

/// The domain of clusters.
const DOMAIN: &str = "cluster.local";
/// The label of a slice that names its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The network for a container that has found nothing until some time after it started.
pub(crate) struct Network {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) pod: Arc<Value>,
    pub(crate) news: SignedDuration,
}

/// What a host is.
enum Host {
    Service(Arc<Value>),
    /// A headless Service, or one of its pods.
    Endpoints(Vec<Endpoint>),
}

/// A ready endpoint of a Service.
struct Endpoint {
    host: String,
    /// Its name, its protocol and its number.
    ports: Vec<(String, u16)>,
    pod: Option<Arc<Value>>,
}

impl Resolver for Network {
    fn ask(&self, at: SignedDuration, host: &str, port: Option<u16>) -> Answer {
        if at < self.news {
            return if port.is_some() { Answer::Refused } else { Answer::NoSuchName };
        }
        let found = match host.parse::<IpAddr>() {
            Ok(address) => self.at_address(&address.to_string()),
            Err(_) => self.named(host),
        };
        match (found, port) {
            (Err(answer), _) => answer,
            (Ok(_), None) => Answer::Yes,
            (Ok(host), Some(port)) => self.connect(&host, port),
        }
    }

    fn news(&self) -> SignedDuration {
        self.news
    }
}

impl Network {
    /// What a name means to this pod, by the cluster's DNS.
    fn named(&self, host: &str) -> Result<Host, Answer> {
        let spec = &self.pod["spec"];
        let asks_cluster = match text(spec, &["dnsPolicy"]) {
            "" | "ClusterFirst" => spec["hostNetwork"] != true,
            policy => policy == "ClusterFirstWithHostNet",
        };
        let is_own =
            items(&spec["hostAliases"]).iter().any(|alias| items(&alias["hostnames"]).iter().any(|own| own == host))
                || host == "localhost"
                || spec["hostname"].as_str().unwrap_or_else(|| text(&self.pod, &["metadata", "name"])) == host;
        if !asks_cluster || is_own {
            return Err(Answer::Unknown);
        }
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let namespace = text(&self.pod, &["metadata", "namespace"]);
        let domains =
            [format!(".{namespace}.svc.{DOMAIN}"), format!(".svc.{DOMAIN}"), format!(".{DOMAIN}"), String::new()];
        for domain in domains {
            match self.whole(&format!("{host}{domain}")) {
                Err(Answer::NoSuchName) => {}
                found => return found,
            }
        }
        // Someone who writes `store.shop` means the namespace that there is, and not a domain of the world.
        match host.rsplit_once('.') {
            None | Some((_, "svc" | "local")) => Err(Answer::NoSuchName),
            Some((_, last)) if self.objects.get(Kind::Namespace, "", last).is_some() => Err(Answer::NoSuchName),
            Some(_) => Err(Answer::Unknown),
        }
    }

    /// What a whole name means.
    fn whole(&self, name: &str) -> Result<Host, Answer> {
        let Some(own) = name.strip_suffix(&format!(".svc.{DOMAIN}")) else {
            return Err(if name.ends_with(&format!(".pod.{DOMAIN}")) { Answer::Unknown } else { Answer::NoSuchName });
        };
        match own.split('.').collect::<Vec<_>>()[..] {
            [service, namespace] => {
                let service = self.objects.get(Kind::Service, namespace, service).ok_or(Answer::NoSuchName)?;
                match (text(&service, &["spec", "type"]), text(&service, &["spec", "clusterIP"])) {
                    ("ExternalName", _) => Err(Answer::Unknown),
                    (_, "None") => some(self.endpoints(&service)),
                    (_, "") => Err(Answer::NoSuchName),
                    _ => Ok(Host::Service(service)),
                }
            }
            [host, service, namespace] => {
                let service = self.objects.get(Kind::Service, namespace, service).ok_or(Answer::NoSuchName)?;
                some(self.endpoints(&service).into_iter().filter(|one| one.host == host).collect())
            }
            _ => Err(Answer::NoSuchName),
        }
    }

    /// The Service that has this address.
    fn at_address(&self, address: &str) -> Result<Host, Answer> {
        let has = |service: &Arc<Value>| items(&service["spec"]["clusterIPs"]).iter().any(|own| own == address);
        self.objects.list(Kind::Service, None).into_iter().find(has).map(Host::Service).ok_or(Answer::Unknown)
    }

    /// The endpoints of a Service that are ready.
    fn endpoints(&self, service: &Value) -> Vec<Endpoint> {
        let (namespace, name) = (text(service, &["metadata", "namespace"]), text(service, &["metadata", "name"]));
        let mut found = Vec::new();
        for slice in self.objects.list(Kind::EndpointSlice, Some(namespace)) {
            if slice["metadata"]["labels"][SERVICE_LABEL] != name {
                continue;
            }
            let ports = items(&slice["ports"]).iter().filter(|port| is_tcp(port));
            let ports = ports.filter_map(|port| Some((text(port, &["name"]).to_owned(), number(port, "port")?)));
            let ports: Vec<(String, u16)> = ports.collect();
            for one in items(&slice["endpoints"]).iter().filter(|one| one["conditions"]["ready"] != false) {
                let target = &one["targetRef"];
                let pod = self.objects.get(Kind::Pod, namespace, text(target, &["name"]));
                let host = text(one, &["hostname"]).to_owned();
                found.push(Endpoint { host, ports: ports.clone(), pod: pod.filter(|_| target["kind"] == "Pod") });
            }
        }
        found
    }

    fn connect(&self, host: &Host, port: u16) -> Answer {
        let (endpoints, entry) = match host {
            Host::Endpoints(endpoints) => return self.landed(endpoints.first(), Some(port)),
            Host::Service(service) => {
                let spec = &service["spec"];
                let of = |one: &&Value| number(one, "port") == Some(port) && is_tcp(one);
                let Some(entry) = items(&spec["ports"]).iter().find(of) else { return Answer::Silence };
                if spec["internalTrafficPolicy"] == "Local" {
                    return Answer::Unknown;
                }
                (self.endpoints(service), text(entry, &["name"]).to_owned())
            }
        };
        let of = |one: &Endpoint| one.ports.iter().find(|(name, _)| *name == entry).map(|(_, port)| *port);
        match endpoints.iter().find(|one| of(one).is_some()) {
            None => Answer::Refused,
            one => self.landed(one, one.and_then(of)),
        }
    }

    /// Whether a running container at an endpoint takes the connection.
    fn landed(&self, endpoint: Option<&Endpoint>, port: Option<u16>) -> Answer {
        let Some((pod, port)) = endpoint.and_then(|one| one.pod.as_ref()).zip(port) else { return Answer::Unknown };
        // A policy may be in the way.
        let is_policed = [&self.pod, pod]
            .iter()
            .any(|one| !self.objects.list(Kind::NetworkPolicy, Some(text(one, &["metadata", "namespace"]))).is_empty());
        if is_policed {
            return Answer::Unknown;
        }
        let all = ["initContainers", "containers"].iter().flat_map(|list| items(&pod["spec"][*list]));
        let mut answer = Answer::Refused;
        for container in all.filter(|one| status_of(pod, one)["state"]["running"].is_object()) {
            match program(Container { objects: None, pod, container }, None, None, None).listens {
                Listens::At(ports) if ports.contains(&port) => return Answer::Yes,
                Listens::Anywhere => answer = Answer::Unknown,
                Listens::At(_) | Listens::Nowhere => {}
            }
        }
        answer
    }
}

fn some(endpoints: Vec<Endpoint>) -> Result<Host, Answer> {
    if endpoints.is_empty() { Err(Answer::NoSuchName) } else { Ok(Host::Endpoints(endpoints)) }
}

fn is_tcp(port: &Value) -> bool {
    port["protocol"].as_str().is_none_or(|protocol| protocol == "TCP")
}

fn number(of: &Value, field: &str) -> Option<u16> {
    integer(of, &[field]).and_then(|number| u16::try_from(number).ok())
}
