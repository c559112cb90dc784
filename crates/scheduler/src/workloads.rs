//! Services and controllers whose selectors give pods their default topology spreading.

// upstream: pkg/scheduler/framework/plugins/helper/spread.go DefaultSelector (v1.36)

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ReplicationController, Service};

use super::error::ObjectError;
use super::pod_info::Controller;
use super::selector::{Labels, Selector};

type Key = (String, String);

fn key(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Key {
    let namespace = meta.namespace.clone().unwrap_or_else(|| "default".to_owned());
    (namespace, meta.name.clone().unwrap_or_default())
}

/// Selectors by namespace and name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workloads {
    services: BTreeMap<Key, Labels>,
    replica_sets: BTreeMap<Key, Selector>,
    stateful_sets: BTreeMap<Key, Selector>,
    replication_controllers: BTreeMap<Key, Labels>,
    generation: u64,
}

impl Workloads {
    /// Changes whenever a selector does.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn set_service(&mut self, service: &Service) {
        self.generation += 1;
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone());
        match selector {
            Some(selector) => self.services.insert(key(&service.metadata), selector),
            None => self.services.remove(&key(&service.metadata)),
        };
    }

    pub(crate) fn set_replica_set(&mut self, set: &ReplicaSet) -> Result<(), ObjectError> {
        self.generation += 1;
        let selector = Selector::from_api(set.spec.as_ref().map(|spec| &spec.selector))
            .map_err(ObjectError::selector("spec.selector"))?;
        self.replica_sets.insert(key(&set.metadata), selector);
        Ok(())
    }

    pub(crate) fn set_stateful_set(&mut self, set: &StatefulSet) -> Result<(), ObjectError> {
        self.generation += 1;
        let selector = Selector::from_api(set.spec.as_ref().map(|spec| &spec.selector))
            .map_err(ObjectError::selector("spec.selector"))?;
        self.stateful_sets.insert(key(&set.metadata), selector);
        Ok(())
    }

    pub(crate) fn set_replication_controller(&mut self, controller: &ReplicationController) {
        self.generation += 1;
        let selector = controller.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
        self.replication_controllers.insert(key(&controller.metadata), selector);
    }

    pub(crate) fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        self.generation += 1;
        let key = (namespace.to_owned(), name.to_owned());
        match kind {
            "Service" => drop(self.services.remove(&key)),
            "ReplicaSet" => drop(self.replica_sets.remove(&key)),
            "StatefulSet" => drop(self.stateful_sets.remove(&key)),
            "ReplicationController" => drop(self.replication_controllers.remove(&key)),
            _ => {}
        }
    }

    /// The selector by which a pod without constraints of its own is spread: the selectors of all Services that select
    /// it and of its controller, joined; `None` if there are none.
    pub(crate) fn default_selector(
        &self,
        namespace: &str,
        labels: &Labels,
        controller: Option<&Controller>,
    ) -> Option<Selector> {
        let start = (namespace.to_owned(), String::new());
        let mut joined = Labels::new();
        let services = self.services.range(start..).take_while(|((owner, _), _)| owner == namespace);
        for (_, selector) in services {
            if selector.iter().all(|(key, value)| labels.get(key) == Some(value)) {
                joined.extend(selector.clone());
            }
        }
        let find = |controller: &Controller| (namespace.to_owned(), controller.name.clone());
        let mut of_controller = None;
        if let Some(controller) = controller {
            match (controller.api_version.as_str(), controller.kind.as_str()) {
                ("v1", "ReplicationController") => {
                    joined.extend(self.replication_controllers.get(&find(controller)).cloned().unwrap_or_default());
                }
                ("apps/v1", "ReplicaSet") => of_controller = self.replica_sets.get(&find(controller)),
                ("apps/v1", "StatefulSet") => of_controller = self.stateful_sets.get(&find(controller)),
                _ => {}
            }
        }
        let Selector::All(mut requirements) = Selector::from_map(&joined) else { return None };
        requirements.extend(of_controller.into_iter().flat_map(Selector::requirements).cloned());
        (!requirements.is_empty()).then_some(Selector::All(requirements))
    }
}
