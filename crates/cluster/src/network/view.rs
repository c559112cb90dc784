//! The network as one pod finds it, for commands that are executed in it.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use klab_scheduler::hash::fnv64;
use serde_json::Value;

use super::answers::heard;
use super::names;
use crate::clock::later;
use crate::cluster::Cluster;
use crate::process::{Heard, Lookup, Moment, Protocol, Reach, Sent};
use crate::value::text;

/// So many questions of one command are answered.
const MAX_QUESTIONS: usize = 2000;

/// What was answered.
#[derive(Debug, Clone)]
enum Told {
    Name(Lookup),
    Sent(Heard),
}

/// The network as a command in a pod finds it that began at a time.
pub(crate) struct FromPod {
    cluster: Arc<Cluster>,
    pod: Arc<Value>,
    begun: Timestamp,
    told: Mutex<Vec<Told>>,
}

impl FromPod {
    pub(crate) fn new(cluster: &Arc<Cluster>, pod: &Arc<Value>, begun: Timestamp) -> Self {
        Self { cluster: Arc::clone(cluster), pod: Arc::clone(pod), begun, told: Mutex::default() }
    }

    /// What was told at this moment, or is told now; none where the moment has not come.
    fn told(&self, moment: Moment, ask: impl FnOnce() -> Told) -> Option<Told> {
        let mut all = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(told) = all.get(moment.question) {
            return Some(told.clone());
        }
        if later(self.begun, moment.at) > self.cluster.now() {
            return None;
        }
        let told = ask();
        if all.len() == moment.question {
            all.push(told.clone());
        }
        Some(told)
    }
}

impl Reach for FromPod {
    fn look_up(&self, moment: Moment, host: &str) -> Lookup {
        if moment.question >= MAX_QUESTIONS {
            return Lookup::Unknown(too_many());
        }
        let ask = || Told::Name(self.cluster.read(|store| names::look_up(store, &self.pod, host)));
        match self.told(moment, ask) {
            Some(Told::Name(found)) => found,
            Some(Told::Sent(_)) => Lookup::Unknown("the command went another way than before".to_owned()),
            None => Lookup::Later,
        }
    }

    fn send(&self, moment: Moment, to: SocketAddr, protocol: Protocol, sent: Sent<'_>) -> Heard {
        if moment.question >= MAX_QUESTIONS {
            return Heard::Unknown(too_many());
        }
        let ask = || {
            let now = self.cluster.now();
            let client = text(&self.pod, &["status", "podIP"]);
            let chance = fnv64(&[
                client.as_bytes(),
                &now.as_nanosecond().to_be_bytes(),
                &moment.question.to_be_bytes(),
                to.to_string().as_bytes(),
            ]);
            Told::Sent(self.cluster.read(|store| heard(store, &self.pod, chance, to, protocol, sent)))
        };
        match self.told(moment, ask) {
            Some(Told::Sent(heard)) => heard,
            Some(Told::Name(_)) => Heard::Unknown("the command went another way than before".to_owned()),
            None => Heard::Later,
        }
    }

    fn name_server(&self) -> Option<IpAddr> {
        self.cluster.read(|store| names::name_server(store, &self.pod))
    }
}

fn too_many() -> String {
    format!("a command is answered {MAX_QUESTIONS} questions, and this one asks more")
}
