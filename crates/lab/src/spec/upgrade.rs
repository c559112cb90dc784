//! How the nodes of a pool are upgraded: AKS's upgrade settings of an agent pool.

use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The newest node image of the embedded cluster, which is no image in particular: AKS numbers images by their date.
pub const NODE_IMAGE: &str = "202608.14.0";

/// How a pool is upgraded; what is not said is as AKS does it by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpgradeSettings {
    /// In which order nodes come and go.
    pub strategy: Option<UpgradeStrategy>,
    /// Nodes that are added for the time of the upgrade.
    pub max_surge: Option<Share>,
    /// Nodes that may be cordoned and drained at the same time where none is added.
    pub max_unavailable: Option<Share>,
    /// How long the drain of a node may take, in whole minutes.
    pub drain_timeout: Option<SignedDuration>,
    /// How long a drained node is left alone before it is reimaged, in whole minutes.
    pub node_soak: Option<SignedDuration>,
    /// What becomes of nodes that cannot be drained.
    pub undrainable_node_behavior: Option<UndrainableNodeBehavior>,
    /// Blue-green: nodes that are drained at the same time.
    pub drain_batch_size: Option<Share>,
    /// Blue-green: the pause between batches, in whole minutes.
    pub batch_soak: Option<SignedDuration>,
    /// Blue-green: how long drained nodes stay in the end, in whole minutes.
    pub final_soak: Option<SignedDuration>,
}

/// In which order nodes come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UpgradeStrategy {
    /// Surge nodes come, and old nodes are drained and reimaged in sets.
    Rolling,
    /// Each node gets a new one beside it; old nodes are drained in batches and go in the end.
    BlueGreen,
}

impl UpgradeStrategy {
    /// The name as the lab file has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rolling => "rolling",
            Self::BlueGreen => "blue-green",
        }
    }
}

/// What an upgrade of a pool brings it to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpgradeKind {
    /// A newer Kubernetes version, with its node image.
    #[default]
    Kubernetes,
    /// The latest node image, at the same Kubernetes version.
    NodeImage,
    /// Machines of another size, or in other zones.
    Machines,
    /// The versions that it had before its last upgrade.
    Rollback,
}

impl UpgradeKind {
    /// Whether it is what most upgrades are.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// A number of nodes, or a share of the pool's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// That many nodes.
    Count(u32),
    /// Percent of the nodes that the pool has when the upgrade begins; part of a node counts as a whole one.
    Percent(u32),
}

/// What becomes of a node that cannot be drained in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UndrainableNodeBehavior {
    /// It takes pods again, and the upgrade ends.
    Schedule,
    /// It stays cordoned, and the upgrade goes on.
    Cordon,
}

impl UndrainableNodeBehavior {
    /// The name as az has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "Schedule",
            Self::Cordon => "Cordon",
        }
    }
}

impl Share {
    /// How many nodes of `all` it is.
    pub fn of(self, all: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                let part = u64::from(percent).saturating_mul(u64::from(all)).div_ceil(100);
                u32::try_from(part).unwrap_or(u32::MAX)
            }
        }
    }

    /// Whether it is no node, however many there are.
    pub fn is_none(self) -> bool {
        matches!(self, Self::Count(0) | Self::Percent(0))
    }
}

impl FromStr for Share {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.strip_suffix('%') {
            Some(percent) => percent.parse().ok().filter(|percent| *percent <= 100).map(Self::Percent).ok_or(()),
            None => text.parse().ok().filter(|count| *count <= 1000).map(Self::Count).ok_or(()),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(formatter, "{count}"),
            Self::Percent(percent) => write!(formatter, "{percent}%"),
        }
    }
}

impl UpgradeSettings {
    /// The bounds of `drain_timeout` and of `node_soak`, in minutes.
    pub const DRAIN_TIMEOUT: std::ops::RangeInclusive<i64> = 5..=24 * 60;
    /// See [`UpgradeSettings::DRAIN_TIMEOUT`].
    pub const NODE_SOAK: std::ops::RangeInclusive<i64> = 0..=30;
    /// The bounds of `drain_timeout` in a blue-green upgrade, in minutes.
    pub const BATCH_DRAIN_TIMEOUT: std::ops::RangeInclusive<i64> = 1..=24 * 60;
    /// The bounds of `batch_soak`, in minutes.
    pub const BATCH_SOAK: std::ops::RangeInclusive<i64> = 0..=24 * 60;
    /// The bounds of `final_soak`, in minutes.
    pub const FINAL_SOAK: std::ops::RangeInclusive<i64> = 0..=7 * 24 * 60;

    /// These settings, and where they say nothing, `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            strategy: self.strategy.or(others.strategy),
            max_surge: self.max_surge.or(others.max_surge),
            max_unavailable: self.max_unavailable.or(others.max_unavailable),
            drain_timeout: self.drain_timeout.or(others.drain_timeout),
            node_soak: self.node_soak.or(others.node_soak),
            undrainable_node_behavior: self.undrainable_node_behavior.or(others.undrainable_node_behavior),
            drain_batch_size: self.drain_batch_size.or(others.drain_batch_size),
            batch_soak: self.batch_soak.or(others.batch_soak),
            final_soak: self.final_soak.or(others.final_soak),
        }
    }

    /// Whether every node gets a new one beside it.
    pub fn is_blue_green(&self) -> bool {
        self.strategy == Some(UpgradeStrategy::BlueGreen)
    }

    /// The surge, which is 10% unless it is said: AKS's default.
    pub fn surge(&self) -> Share {
        self.max_surge.unwrap_or(Share::Percent(10))
    }

    /// The nodes that a blue-green upgrade drains at the same time; AKS's default is 10%.
    pub fn batch(&self) -> Share {
        self.drain_batch_size.unwrap_or(Share::Percent(10))
    }

    /// The nodes that may be unavailable: none unless it is said.
    pub fn unavailable(&self) -> Share {
        self.max_unavailable.unwrap_or(Share::Count(0))
    }

    /// The settings that are given, by the names that the lab file, klab's flags and az have for them (with `_` or `-`), as az writes
    /// their values.
    pub fn given(&self) -> Vec<(&'static str, String)> {
        let minutes = |time: Option<SignedDuration>| time.map(|time| time.as_mins().to_string());
        let all = [
            ("strategy", self.strategy.map(|strategy| strategy.as_str().to_owned())),
            ("max_surge", self.max_surge.map(|share| share.to_string())),
            ("max_unavailable", self.max_unavailable.map(|share| share.to_string())),
            ("drain_timeout", minutes(self.drain_timeout)),
            ("node_soak", minutes(self.node_soak)),
            ("undrainable_node_behavior", self.undrainable_node_behavior.map(|what| what.as_str().to_owned())),
            ("drain_batch_size", self.drain_batch_size.map(|share| share.to_string())),
            ("batch_soak", minutes(self.batch_soak)),
            ("final_soak", minutes(self.final_soak)),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    /// Why AKS takes these settings for no pool of this kind; `is_system`: its own pods may be there.
    // See https://learn.microsoft.com/azure/aks/blue-green-node-pool-upgrade ("limitations and considerations", "Allowed values")
    pub fn refusal(&self, is_system: bool) -> Option<&'static str> {
        let is_batched = self.drain_batch_size.is_some() || self.batch_soak.is_some() || self.final_soak.is_some();
        if self.is_blue_green() {
            if !self.unavailable().is_none() || self.undrainable_node_behavior.is_some() {
                return Some("blue-green upgrades have no `max_unavailable` and no `undrainable_node_behavior`");
            }
            if self.drain_batch_size.is_some_and(Share::is_none) {
                return Some("`drain_batch_size` must be 1 node or more");
            }
            return None;
        }
        if is_batched {
            return Some("`drain_batch_size`, `batch_soak` and `final_soak` need `strategy = \"blue-green\"`");
        }
        if self.drain_timeout.is_some_and(|time| !Self::DRAIN_TIMEOUT.contains(&time.as_mins())) {
            return Some("`drain_timeout` must be from 5m to 24h");
        }
        if self.surge().is_none() && self.unavailable().is_none() {
            return Some("without surge nodes, `max_unavailable` must be 1 or more");
        }
        if is_system && !self.unavailable().is_none() {
            return Some("`max_unavailable` is for user pools: the cluster's own pods need their nodes");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// See <https://learn.microsoft.com/azure/aks/upgrade-aks-node-pools-rolling>: a percentage is rounded up to the nearest node count.
    #[test]
    fn shares_of_a_pool_are_rounded_up() {
        for (text, all, wanted) in
            [("5", 3, 5), ("33%", 10, 4), ("10%", 3, 1), ("50%", 5, 3), ("100%", 7, 7), ("0%", 9, 0)]
        {
            assert_eq!(text.parse::<Share>().unwrap().of(all), wanted, "{text} of {all}");
            assert_eq!(text.parse::<Share>().unwrap().to_string(), text);
        }
        for text in ["", "-1", "101%", "1.5", "1001", "%", "a"] {
            assert_eq!(text.parse::<Share>(), Err(()), "{text}");
        }
    }
}
