//! Address ranges of the nodes' pods: which are taken, and the first that is free.

// upstream: pkg/controller/nodeipam/ipam/cidrset/cidr_set.go AllocateNext (v1.36)

use std::collections::{BTreeMap, BTreeSet};

/// Ranges `10.244.N.0/24` (`10.244.0.0/16` is what AKS and kind use), then on into the following networks, by number.
#[derive(Debug, Default)]
pub(super) struct PodRanges {
    /// How many nodes have it: people may give two the same.
    taken: BTreeMap<u16, u32>,
    /// Those below `beyond` that are free.
    gaps: BTreeSet<u16>,
    /// Above all that were ever taken.
    beyond: u16,
}

impl PodRanges {
    /// Notes that a node has a range; one of another form is no other node's either.
    pub(super) fn take(&mut self, range: &str) {
        let Some(number) = number(range) else { return };
        *self.taken.entry(number).or_default() += 1;
        self.gaps.remove(&number);
        while self.beyond <= number {
            if self.beyond < number {
                self.gaps.insert(self.beyond);
            }
            self.beyond = self.beyond.saturating_add(1);
            if self.beyond == u16::MAX {
                break;
            }
        }
    }

    /// Notes that a node has a range no more.
    pub(super) fn give_back(&mut self, range: &str) {
        let Some(number) = number(range) else { return };
        let Some(count) = self.taken.get_mut(&number) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.taken.remove(&number);
            self.gaps.insert(number);
        }
    }

    /// The first range that no node has; the very first where all are taken.
    pub(super) fn first_free(&self) -> String {
        let number = self.gaps.first().copied().unwrap_or(self.beyond);
        text(if number == u16::MAX { 0 } else { number })
    }
}

fn text(number: u16) -> String {
    format!("10.{}.{}.0/24", 244u16.wrapping_add(number / 256) % 256, number % 256)
}

fn number(range: &str) -> Option<u16> {
    let mut parts = range.strip_prefix("10.")?.strip_suffix(".0/24")?.split('.');
    let (network, third) = (parts.next()?.parse::<u8>().ok()?, parts.next()?.parse::<u8>().ok()?);
    let number = u16::from_be_bytes([network.wrapping_sub(244), third]);
    (text(number) == range).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_free_is_given_again() {
        let mut ranges = PodRanges::default();
        for number in 0..600 {
            assert_eq!(ranges.first_free(), text(number));
            ranges.take(&ranges.first_free());
        }
        assert_eq!(ranges.first_free(), "10.246.88.0/24");
        ranges.give_back("10.245.3.0/24");
        ranges.give_back("10.244.7.0/24");
        ranges.give_back("10.244.7.0/24");
        assert_eq!(ranges.first_free(), "10.244.7.0/24");
        ranges.take("10.244.7.0/24");
        ranges.take("10.244.7.0/24");
        ranges.give_back("10.244.7.0/24");
        assert_eq!(ranges.first_free(), "10.245.3.0/24", "somebody has the other still");
    }

    #[test]
    fn ranges_of_people_are_no_numbers_and_the_last_one_is_no_end() {
        let mut ranges = PodRanges::default();
        for range in ["", "192.168.0.0/24", "10.244.0.0/16", "10.244.1.2.0/24", "10.244.01.0/24", "10.244.x.0/24"] {
            ranges.take(range);
            ranges.give_back(range);
        }
        assert_eq!(ranges.first_free(), "10.244.0.0/24");
        ranges.take("10.243.255.0/24");
        assert_eq!(ranges.first_free(), "10.244.0.0/24");
        for _ in 0..u16::MAX {
            ranges.take(&ranges.first_free());
        }
        assert_eq!(ranges.first_free(), "10.244.0.0/24", "all are taken");
    }
}
