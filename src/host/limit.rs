//! Pure: how often somebody may guess: by the address they come from, by the name they claim, and in all.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Guesses of one address at once, and how long it takes until one of them is forgotten: a room full of people behind one
/// address mistype a few times; a machine that guesses comes to six a minute.
const OF_ADDRESS: (u32, Duration) = (40, Duration::from_secs(10));
/// Guesses at the PIN of one name.
const OF_NAME: (u32, Duration) = (8, Duration::from_mins(2));
/// Guesses in all: at this rate a code of 40 bits is safe for longer than any class.
const IN_ALL: (u32, Duration) = (400, Duration::from_millis(250));
/// Most addresses and names that are remembered.
const REMEMBERED: usize = 20_000;

/// A bucket that fills with guesses and leaks.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    guesses: u32,
    since: Instant,
}

impl Bucket {
    fn new(now: Instant) -> Self {
        Self { guesses: 0, since: now }
    }

    /// Forgets what is old.
    fn leak(&mut self, each: Duration, now: Instant) {
        let passed = now.saturating_duration_since(self.since);
        let forgotten = u32::try_from(passed.as_nanos().checked_div(each.as_nanos()).unwrap_or(0)).unwrap_or(u32::MAX);
        if forgotten > 0 {
            self.guesses = self.guesses.saturating_sub(forgotten);
            self.since = if self.guesses == 0 {
                now
            } else {
                klab_cluster::deadline::after(self.since, each.saturating_mul(forgotten))
            };
        }
    }

    /// How long to wait until one more may be made.
    fn wait(&self, (most, each): (u32, Duration), now: Instant) -> Option<Duration> {
        (self.guesses >= most).then(|| each.saturating_sub(now.saturating_duration_since(self.since)))
    }
}

/// Who has guessed how often.
#[derive(Debug, Default)]
pub struct Limits {
    addresses: HashMap<IpAddr, Bucket>,
    names: HashMap<String, Bucket>,
    all: Option<Bucket>,
}

/// What counts as one address: of IPv6, the network that one household or one phone has.
fn place(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => match six.to_ipv4_mapped() {
            Some(four) => IpAddr::V4(four),
            None => IpAddr::V6(Ipv6Addr::from(u128::from(six) & !u128::from(u64::MAX))),
        },
        four @ IpAddr::V4(_) => four,
    }
}

impl Limits {
    /// How many seconds somebody has to wait before they may try; none: they may.
    pub fn wait(&mut self, from: IpAddr, name: &str, now: Instant) -> Option<u64> {
        let buckets = [
            (self.addresses.get_mut(&place(from)), OF_ADDRESS),
            (self.names.get_mut(name), OF_NAME),
            (self.all.as_mut(), IN_ALL),
        ];
        let mut longest: Option<Duration> = None;
        for (bucket, limit) in buckets {
            if let Some(bucket) = bucket {
                bucket.leak(limit.1, now);
                longest = longest.max(bucket.wait(limit, now));
            }
        }
        longest.map(|wait| wait.as_secs().saturating_add(1))
    }

    /// Counts a guess that was wrong.
    pub fn guessed(&mut self, from: IpAddr, name: Option<&str>, now: Instant) {
        self.forget(now);
        let count = |bucket: &mut Bucket| bucket.guesses = bucket.guesses.saturating_add(1);
        count(self.addresses.entry(place(from)).or_insert_with(|| Bucket::new(now)));
        if let Some(name) = name {
            count(self.names.entry(name.to_owned()).or_insert_with(|| Bucket::new(now)));
        }
        count(self.all.get_or_insert_with(|| Bucket::new(now)));
    }

    /// Forgets who has been quiet, where many are remembered.
    fn forget(&mut self, now: Instant) {
        if self.addresses.len() >= REMEMBERED {
            self.addresses.retain(|_, bucket| {
                bucket.leak(OF_ADDRESS.1, now);
                bucket.guesses > 0
            });
        }
        if self.names.len() >= REMEMBERED {
            self.names.retain(|_, bucket| {
                bucket.leak(OF_NAME.1, now);
                bucket.guesses > 0
            });
        }
        // Whoever has more addresses than that is held up by the limit of all.
        if self.addresses.len() >= REMEMBERED {
            self.addresses.clear();
        }
        if self.names.len() >= REMEMBERED {
            self.names.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn four(last: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
    }

    #[test]
    fn who_guesses_waits_and_others_do_not() {
        let (mut limits, mut now) = (Limits::default(), Instant::now());
        for _ in 0..OF_ADDRESS.0 {
            assert_eq!(limits.wait(four(1), "", now), None);
            limits.guessed(four(1), None, now);
        }
        assert_eq!(limits.wait(four(1), "", now), Some(11));
        assert_eq!(limits.wait(four(2), "", now), None);
        now += OF_ADDRESS.1;
        assert_eq!(limits.wait(four(1), "", now), None);
        limits.guessed(four(1), None, now);
        assert!(limits.wait(four(1), "", now).is_some());
    }

    #[test]
    fn a_pin_is_not_guessed_from_many_addresses() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        for last in 0..8 {
            limits.guessed(four(last), Some("ann"), now);
        }
        assert!(limits.wait(four(99), "ann", now).is_some());
        assert_eq!(limits.wait(four(99), "bob", now), None);
    }

    #[test]
    fn all_addresses_together_have_a_limit_and_a_network_is_one() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        for number in 0..IN_ALL.0 {
            limits.guessed(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number)), None, now);
        }
        assert!(limits.wait(four(255), "", now).is_some());
        let mut limits = Limits::default();
        for number in 0..OF_ADDRESS.0 {
            limits.guessed(format!("2001:db8::{number:x}").parse().unwrap(), None, now);
        }
        assert!(limits.wait("2001:db8::ffff".parse().unwrap(), "", now).is_some());
        assert_eq!(limits.wait("2001:db8:0:1::1".parse().unwrap(), "", now), None);
    }
}
