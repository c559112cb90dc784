//! Taints and tolerations.

// upstream: staging/src/k8s.io/api/core/v1/toleration.go ToleratesTaint (v1.36)
// upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go FindMatchingUntoleratedTaint (v1.36)

use std::fmt;

use k8s_openapi::api::core::v1::{Taint as ApiTaint, Toleration as ApiToleration};

/// Taint effect that keeps new pods away.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Key of the taint that a cordoned node gets.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";
/// Taint effect that scores against a node.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
/// Taint effect that keeps new pods away and evicts running ones.
pub const NO_EXECUTE: &str = "NoExecute";

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value; empty if none.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

impl From<&ApiTaint> for Taint {
    fn from(taint: &ApiTaint) -> Self {
        Self { key: taint.key.clone(), value: taint.value.clone().unwrap_or_default(), effect: taint.effect.clone() }
    }
}

impl Taint {
    /// As the API has it.
    pub fn to_api(&self) -> ApiTaint {
        ApiTaint {
            key: self.key.clone(),
            value: Some(self.value.clone()).filter(|value| !value.is_empty()),
            effect: self.effect.clone(),
            time_added: None,
        }
    }
}

impl fmt::Display for Taint {
    /// `key=value:Effect`, as `kubectl taint` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        write!(f, ":{}", self.effect)
    }
}

/// A toleration of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// The taint key; empty matches every key.
    pub key: String,
    /// The taint value, for the operator `Equal`.
    pub value: String,
    /// `Equal` (also when empty) or `Exists`; with the feature gate `TaintTolerationComparisonOperators`, `Lt` and `Gt`, too.
    pub operator: String,
    /// The taint effect; empty matches every effect.
    pub effect: String,
}

impl From<&ApiToleration> for Toleration {
    fn from(toleration: &ApiToleration) -> Self {
        Self {
            key: toleration.key.clone().unwrap_or_default(),
            value: toleration.value.clone().unwrap_or_default(),
            operator: toleration.operator.clone().unwrap_or_default(),
            effect: toleration.effect.clone().unwrap_or_default(),
        }
    }
}

impl Toleration {
    /// Whether a pod with this toleration puts up with the taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator.as_str() {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                "Lt" => number(&taint.value).zip(number(&self.value)).is_some_and(|(taint, own)| taint < own),
                "Gt" => number(&taint.value).zip(number(&self.value)).is_some_and(|(taint, own)| taint > own),
                _ => false,
            }
    }

    /// Whether it compares numbers, which takes the feature gate `TaintTolerationComparisonOperators`.
    pub(crate) fn compares(&self) -> bool {
        matches!(self.operator.as_str(), "Lt" | "Gt")
    }
}

/// A whole number without a plus, and without zeros in front.
// upstream: staging/src/k8s.io/apimachinery/pkg/api/validate/content/decimal_int.go IsDecimalInteger (v1.36)
fn number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}

/// Whether any of the tolerations covers the taint.
pub fn tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| toleration.tolerates(taint))
}

/// The taints that keep a pod with these tolerations off a node.
pub fn untolerated<'a>(taints: &'a [Taint], tolerations: &'a [Toleration]) -> impl Iterator<Item = &'a Taint> {
    taints
        .iter()
        .filter(|taint| matches!(taint.effect.as_str(), NO_SCHEDULE | NO_EXECUTE))
        .filter(|taint| !tolerated(tolerations, taint))
}
