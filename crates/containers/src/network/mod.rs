//! The network as a pod finds it: what a name means, where a connection leads, and whether a container there listens. What
//! would be answered is not followed.

mod names;
mod routes;

use std::net::SocketAddr;
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;

use self::names::{Lookup, look_up};
use self::routes::{Destination, route};
use crate::objects::{Kind, Objects};
use crate::program::{Container, Listens, program};
use crate::shell::resolver::{Connection, Name, Resolver};
use crate::value::status_of;
use klab_api_machinery::value::{items, text};

/// The network for a container that has found nothing until some time after it started.
pub(crate) struct Network {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) pod: Arc<Value>,
    pub(crate) news: SignedDuration,
}

impl Resolver for Network {
    fn look_up(&self, at: SignedDuration, host: &str) -> Name {
        if at < self.news {
            return Name::Missing;
        }
        match look_up(&*self.objects, &self.pod, host) {
            Lookup::Found(_) => Name::Known,
            Lookup::Missing => Name::Missing,
            Lookup::Unknown => Name::Unknown,
        }
    }

    fn connect(&self, at: SignedDuration, host: &str, port: u16) -> Connection {
        if at < self.news {
            return Connection::Refused;
        }
        let address = match look_up(&*self.objects, &self.pod, host) {
            Lookup::Found(addresses) => addresses.first().copied(),
            Lookup::Missing => None,
            Lookup::Unknown => return Connection::Unknown,
        };
        let Some(address) = address else { return Connection::NoSuchName };
        match route(&*self.objects, &self.pod, SocketAddr::new(address, port)) {
            Ok(landed) => self.taken(&landed),
            Err(connection) => connection,
        }
    }

    fn news(&self) -> SignedDuration {
        self.news
    }
}

impl Network {
    /// Whether a running container takes the connection.
    fn taken(&self, landed: &Destination) -> Connection {
        if !self.is_there(&landed.pod) {
            return Connection::Silence;
        }
        let all = ["initContainers", "containers"].iter().flat_map(|list| items(&landed.pod["spec"][*list]));
        let mut connection = Connection::Refused;
        for container in all.filter(|one| status_of(&landed.pod, one)["state"]["running"].is_object()) {
            match program(Container { objects: None, pod: &landed.pod, container }, None, None, None).listens {
                Listens::At(ports) if ports.contains(&landed.port) => return Connection::Taken,
                Listens::Anywhere => connection = Connection::Unknown,
                Listens::At(_) | Listens::Nowhere => {}
            }
        }
        connection
    }

    /// Whether the node of a pod is heard of.
    fn is_there(&self, pod: &Value) -> bool {
        let Some(node) = self.objects.get(Kind::Node, "", text(pod, &["spec", "nodeName"])) else { return false };
        let conditions = items(&node["status"]["conditions"]);
        conditions.iter().all(|condition| condition["type"] != "Ready" || condition["status"] != "Unknown")
    }
}
