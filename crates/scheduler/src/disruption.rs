//! Pod disruption budgets, as preemption sees them.

// upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go filterPodsWithPDBViolation (v1.36)

use std::collections::BTreeMap;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::error::ObjectError;
use super::selector::{Labels, Selector};

/// A budget: which pods it protects and how many of them may go now.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    pub(crate) selector: Selector,
    pub(crate) allowed: i64,
    /// Pods whose eviction is already counted.
    pub(crate) disrupted: Vec<String>,
}

impl Budget {
    /// Whether the budget protects a pod; a selector without requirements protects none here.
    pub(crate) fn protects(&self, labels: &Labels) -> bool {
        !labels.is_empty() && !self.selector.is_empty() && self.selector.matches(labels)
    }
}

/// Budgets by namespace and name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budgets(BTreeMap<(String, String), Budget>);

impl Budgets {
    pub(crate) fn set(&mut self, budget: &PodDisruptionBudget) -> Result<(), ObjectError> {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let status = budget.status.as_ref();
        let namespace = budget.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let entry = Budget {
            selector: Selector::from_api(selector).map_err(ObjectError::selector("spec.selector"))?,
            allowed: status.map_or(0, |status| i64::from(status.disruptions_allowed.unwrap_or(0))),
            disrupted: status
                .and_then(|status| status.disrupted_pods.as_ref())
                .into_iter()
                .flat_map(|pods| pods.keys().cloned())
                .collect(),
        };
        self.0.insert((namespace, budget.metadata.name.clone().unwrap_or_default()), entry);
        Ok(())
    }

    pub(crate) fn remove(&mut self, namespace: &str, name: &str) {
        self.0.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// All budgets with their namespaces.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Budget)> {
        self.0.iter().map(|((namespace, _), budget)| (namespace.as_str(), budget))
    }
}
