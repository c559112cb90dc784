//! The network as a container finds it that holds up the start of its pod: what it asks is answered as it is now.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;

use super::answers::heard;
use super::names;
use crate::cluster::Cluster;
use crate::process::{Heard, Lookup, Moment, Protocol, Reach, Sent};

/// The network for a container that has found nothing until some time after it started.
pub(crate) struct Awaited {
    cluster: Arc<Cluster>,
    pod: Arc<Value>,
    news: SignedDuration,
}

impl Awaited {
    pub(crate) fn new(cluster: &Arc<Cluster>, pod: &Value, news: SignedDuration) -> Self {
        Self { cluster: Arc::clone(cluster), pod: Arc::new(pod.clone()), news }
    }
}

impl Reach for Awaited {
    fn look_up(&self, moment: Moment, host: &str) -> Lookup {
        if moment.at < self.news {
            return Lookup::Nobody;
        }
        self.cluster.read(|store| names::look_up(store, &self.pod, host))
    }

    fn send(&self, moment: Moment, to: SocketAddr, protocol: Protocol, sent: Sent<'_>) -> Heard {
        if moment.at < self.news {
            return Heard::Refused;
        }
        self.cluster.read(|store| heard(store, &self.pod, moment.question as u64, to, protocol, sent))
    }

    fn name_server(&self) -> Option<IpAddr> {
        None
    }

    fn news(&self) -> Option<SignedDuration> {
        Some(self.news)
    }
}
