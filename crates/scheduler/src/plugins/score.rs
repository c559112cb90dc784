//! What a score is: where raw scores come from and how they become 0–100.

use crate::cycle::Cycle;
use crate::ids::NodeId;
use crate::node_info::NodeInfo;

/// The greatest normalised score.
pub(crate) const MAX_SCORE: i64 = 100;

/// Raw scores of feasible nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawScores {
    pub(crate) values: Vec<i64>,
    /// Nodes that normalisation leaves out at 0; empty if none.
    pub(crate) ignored: Vec<bool>,
}

/// How raw scores become 0–100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Normalize {
    /// They are already.
    None,
    /// The greatest becomes 100.
    Greatest,
    /// The greatest becomes 0; all 100 if it is 0.
    GreatestReversed,
    /// The least gets 100·min/max less than …: 100·(max + min − raw)/max.
    Spread,
    /// From the least (0) to the greatest (100), in floating point.
    Range,
}

impl Normalize {
    /// Normalises in place.
    pub(crate) fn apply(self, scores: &mut RawScores) {
        let ignored = std::mem::take(&mut scores.ignored);
        let counted = |index: usize| !ignored.get(index).copied().unwrap_or(false);
        let values = &mut scores.values;
        let considered = || values.iter().enumerate().filter(|(index, _)| counted(*index)).map(|(_, value)| *value);
        let greatest = considered().max().unwrap_or(0);
        let least = considered().min().unwrap_or(0);
        for (index, value) in values.iter_mut().enumerate() {
            *value = if counted(index) { self.one(*value, least, greatest) } else { 0 };
        }
        scores.ignored = ignored;
    }

    /// One normalised score, given the least and the greatest raw score.
    pub(crate) fn one(self, value: i64, least: i64, greatest: i64) -> i64 {
        match self {
            Self::None => value,
            Self::Greatest if greatest == 0 => value,
            Self::Greatest => MAX_SCORE * value / greatest,
            Self::GreatestReversed | Self::Spread if greatest == 0 => MAX_SCORE,
            Self::GreatestReversed => MAX_SCORE - MAX_SCORE * value / greatest,
            Self::Spread => MAX_SCORE * (greatest + least - value) / greatest,
            Self::Range if greatest == least => 0,
            Self::Range => (MAX_SCORE as f64 * ((value - least) as f64 / (greatest - least) as f64)) as i64,
        }
    }
}

/// Where raw scores come from.
pub(crate) enum Raw {
    /// From the node and the pods on it only.
    Local {
        /// Whether the plugin scores this pod at all.
        active: fn(&Cycle<'_>) -> bool,
        /// The raw score.
        score: fn(&Cycle<'_>, &NodeInfo) -> i64,
    },
    /// From pods elsewhere too; `None` if the plugin does not score this pod.
    Topology(fn(&Cycle<'_>, &[NodeId]) -> Option<RawScores>),
}

/// A score.
pub(crate) struct Score {
    pub(crate) normalize: Normalize,
    pub(crate) raw: Raw,
}
