//! Sets of completion indexes, as the status of an Indexed Job writes them: `1,3-5`.

// upstream: pkg/controller/job/indexed_job_utils.go orderedIntervals, parseIndexesFromString (v1.36)

use std::fmt;

/// A set of numbers from 0 on, kept as runs: a Job may have 100,000 indexes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Indexes {
    /// First and last of each run, in order, with a gap between any two.
    runs: Vec<(i64, i64)>,
}

impl Indexes {
    /// Reads what [`fmt::Display`] writes, up to `end`; what cannot be read is left out.
    pub(super) fn parse(text: &str, end: i64) -> Self {
        let mut runs = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.trim().parse::<i64>(), last.trim().parse::<i64>())
                && (0..end).contains(&first)
            {
                runs.push((first, last.clamp(first, end - 1)));
            }
        }
        Self::of_runs(runs)
    }

    fn of_runs(mut runs: Vec<(i64, i64)>) -> Self {
        runs.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::with_capacity(runs.len());
        for (first, last) in runs {
            match merged.last_mut() {
                Some((_, end)) if first <= *end + 1 => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self { runs: merged }
    }

    /// This set and some numbers more.
    pub(super) fn with(&self, more: impl IntoIterator<Item = i64>) -> Self {
        let mut runs = self.runs.clone();
        runs.extend(more.into_iter().map(|index| (index, index)));
        Self::of_runs(runs)
    }

    /// What is in either set.
    pub(super) fn union(&self, other: &Self) -> Self {
        Self::of_runs([self.runs.as_slice(), other.runs.as_slice()].concat())
    }

    /// Whether a number is in the set.
    pub(super) fn contains(&self, index: i64) -> bool {
        let after = self.runs.partition_point(|(first, _)| *first <= index);
        after > 0 && self.runs[after - 1].1 >= index
    }

    /// How many numbers are in the set.
    pub(super) fn len(&self) -> i64 {
        self.runs.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// How many numbers both sets have.
    pub(super) fn in_common(&self, other: &Self) -> i64 {
        let (mut mine, mut others) = (self.runs.iter().peekable(), other.runs.iter().peekable());
        let mut common = 0;
        while let (Some(&&(first, last)), Some(&&(other_first, other_last))) = (mine.peek(), others.peek()) {
            common += (last.min(other_last) - first.max(other_first) + 1).max(0);
            if last <= other_last {
                mine.next();
            } else {
                others.next();
            }
        }
        common
    }

    /// The first numbers below `end` that are not in the set.
    pub(super) fn absent(&self, end: i64, count: usize) -> Vec<i64> {
        let mut next: i64 = 0;
        let mut absent = Vec::new();
        for (first, last) in self.runs.iter().copied().chain([(end, end)]) {
            let room = i64::try_from(count - absent.len()).unwrap_or(i64::MAX);
            absent.extend(next..first.min(end).min(next.saturating_add(room)));
            next = last + 1;
        }
        absent
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.runs.iter().enumerate() {
            if at > 0 {
                formatter.write_str(",")?;
            }
            match last - first {
                0 => write!(formatter, "{first}")?,
                1 => write!(formatter, "{first},{last}")?,
                _ => write!(formatter, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn indexes_are_written_as_runs() {
        for (given, wanted) in [("1,3-5,7,8", "1,3-5,7,8"), ("", ""), ("7,8,9,1", "1,7-9"), ("2-30,x,40", "2-9")] {
            assert_eq!(Indexes::parse(given, 10).to_string(), wanted, "{given}");
        }
    }

    proptest! {
        #[test]
        fn they_are_sets(left in prop::collection::btree_set(0_i64..40, 0..20), right in prop::collection::btree_set(0_i64..40, 0..20)) {
            let of = |set: &BTreeSet<i64>| Indexes::default().with(set.iter().copied());
            let (one, other) = (of(&left), of(&right));
            prop_assert_eq!(Indexes::parse(&one.to_string(), 40), one.clone());
            prop_assert_eq!(one.len(), left.len() as i64);
            prop_assert_eq!(one.in_common(&other), left.intersection(&right).count() as i64);
            prop_assert_eq!(one.union(&other), of(&(&left | &right)));
            prop_assert!((0..40).all(|index| one.contains(index) == left.contains(&index)));
            let absent: Vec<i64> = (0..40).filter(|index| !left.contains(index)).take(5).collect();
            prop_assert_eq!(one.absent(40, 5), absent);
        }
    }
}
