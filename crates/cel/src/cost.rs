//! Ranges of costs and sizes, which do not overflow.
//!
//! // upstream: cel-go checker/cost.go SizeEstimate, CostEstimate

/// From least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

impl Range {
    pub(crate) const NOTHING: Self = Self { min: 0, max: 0 };
    pub(crate) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(crate) const fn fixed(of: u64) -> Self {
        Self { min: of, max: of }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(crate) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Times a factor, rounded up.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        let one = |value: u64| {
            let product = (value as f64 * factor).ceil();
            if product >= 18_446_744_073_709_551_615.0 { u64::MAX } else { product as u64 }
        };
        Self { min: one(self.min), max: one(self.max) }
    }
}
