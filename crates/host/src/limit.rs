//! Pure: how often somebody may guess: by the address they come from, by the name they claim, and in all.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// How many guesses at once, and how long it takes until one of them is forgotten.
type Limit = (u32, Duration);

/// Guesses of one address at once, and how long it takes until one of them is forgotten: a room full of people behind one
/// address mistype a few times; a machine that guesses comes to six a minute.
const OF_ADDRESS: Limit = (40, Duration::from_secs(10));
/// Guesses at the PIN of one name.
const OF_NAME: Limit = (8, Duration::from_mins(2));
/// Guesses in all: at this rate a code of 40 bits is safe for longer than any class.
const IN_ALL: Limit = (400, Duration::from_millis(250));
/// Guesses of one address that are judged though all together are too many: who mistypes, while others guess, is let in.
const FEW: u32 = 4;
/// Most addresses, browsers and names that are remembered of each.
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

/// Who guesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guesser {
    /// People at an address.
    Address(IpAddr),
    /// A browser in which the person has joined. Guesses of others do not count against it.
    Browser(u32),
}

/// Whose guesses make a person wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Their own, and those of others at their address.
    Own,
    /// Those at the PIN of a name.
    Name,
    /// Those of everybody.
    All,
}

/// How long a person has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// In seconds.
    pub seconds: u64,
    /// For what.
    pub whose: Whose,
}

/// A guess that was counted before it is judged.
#[derive(Debug)]
pub struct Claim {
    guesser: Guesser,
    name: Option<String>,
}

/// Who has guessed how often.
#[derive(Debug, Default)]
pub struct Limits {
    addresses: HashMap<IpAddr, Bucket>,
    browsers: HashMap<u32, Bucket>,
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
    /// Counts a guess, at the PIN of a name or at a code alone; it is given back where it was right.
    ///
    /// # Errors
    /// When there were too many: nothing is counted.
    pub fn claim(&mut self, guesser: Guesser, name: Option<&str>, now: Instant) -> Result<Claim, Wait> {
        self.forget(now);
        let name = name.filter(|_| matches!(guesser, Guesser::Address(_)));
        let mut buckets = self.buckets(guesser, name, now);
        let own = buckets.first().map_or(0, |(bucket, ..)| bucket.guesses);
        let waits = buckets.iter().filter(|(.., whose)| *whose != Whose::All || own >= FEW);
        let waits = waits.filter_map(|(bucket, limit, whose)| Some((bucket.wait(*limit, now)?, *whose)));
        if let Some((wait, whose)) = waits.max_by_key(|(wait, _)| *wait) {
            return Err(Wait { seconds: wait.as_secs().saturating_add(1), whose });
        }
        for (bucket, (most, _), _) in &mut buckets {
            bucket.guesses = bucket.guesses.saturating_add(1).min(*most);
        }
        Ok(Claim { guesser, name: name.map(str::to_owned) })
    }

    /// Takes a guess back that was none.
    pub fn refund(&mut self, claim: &Claim, now: Instant) {
        for (bucket, ..) in &mut self.buckets(claim.guesser, claim.name.as_deref(), now) {
            bucket.guesses = bucket.guesses.saturating_sub(1);
        }
    }

    /// The buckets of a guess, the own one first.
    fn buckets(&mut self, guesser: Guesser, name: Option<&str>, now: Instant) -> Vec<(&mut Bucket, Limit, Whose)> {
        let new = || Bucket::new(now);
        let mut buckets = match guesser {
            Guesser::Browser(person) => {
                vec![(self.browsers.entry(person).or_insert_with(new), OF_NAME, Whose::Own)]
            }
            Guesser::Address(address) => vec![
                (self.addresses.entry(place(address)).or_insert_with(new), OF_ADDRESS, Whose::Own),
                (self.all.get_or_insert_with(new), IN_ALL, Whose::All),
            ],
        };
        if let Some(name) = name {
            buckets.push((self.names.entry(name.to_owned()).or_insert_with(new), OF_NAME, Whose::Name));
        }
        for (bucket, limit, _) in &mut buckets {
            bucket.leak(limit.1, now);
        }
        buckets
    }

    /// Forgets who has been quiet, where many are remembered.
    fn forget(&mut self, now: Instant) {
        forget(&mut self.addresses, OF_ADDRESS.1, now);
        forget(&mut self.browsers, OF_NAME.1, now);
        forget(&mut self.names, OF_NAME.1, now);
    }
}

fn forget<K: std::hash::Hash + Eq>(buckets: &mut HashMap<K, Bucket>, each: Duration, now: Instant) {
    if buckets.len() >= REMEMBERED {
        buckets.retain(|_, bucket| {
            bucket.leak(each, now);
            bucket.guesses > 0
        });
    }
    // The limit of all holds up those with more addresses than that.
    if buckets.len() >= REMEMBERED {
        buckets.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn four(last: u8) -> Guesser {
        Guesser::Address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)))
    }

    fn number(number: u32) -> Guesser {
        Guesser::Address(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number)))
    }

    fn whose(outcome: &Result<Claim, Wait>) -> Option<Whose> {
        outcome.as_ref().err().map(|wait| wait.whose)
    }

    #[test]
    fn who_guesses_waits_and_others_do_not() {
        let (mut limits, mut now) = (Limits::default(), Instant::now());
        for _ in 0..OF_ADDRESS.0 {
            assert!(limits.claim(four(1), None, now).is_ok());
        }
        assert_eq!(limits.claim(four(1), None, now).unwrap_err(), Wait { seconds: 11, whose: Whose::Own });
        assert!(limits.claim(four(2), None, now).is_ok());
        now += OF_ADDRESS.1;
        assert!(limits.claim(four(1), None, now).is_ok());
        assert!(limits.claim(four(1), None, now).is_err());
    }

    #[test]
    fn guesses_that_come_at_once_are_counted_before_one_of_them_is_judged_and_no_flood_is_remembered() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        let claims: Vec<_> = (0..9500).map(|_| limits.claim(four(1), Some("ann"), now)).collect();
        assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), OF_NAME.0 as usize);
        assert_eq!(whose(&claims[9499]), Some(Whose::Name));
        // Its owner comes in at the next minutes, not after hours.
        let wait = limits.claim(four(2), Some("ann"), now).unwrap_err();
        assert!(wait.seconds <= OF_NAME.1.as_secs() + 1, "{wait:?}");
        assert!(limits.claim(four(2), Some("ann"), now + OF_NAME.1).is_ok());
        // Right ones are given back.
        let (mut limits, mut right) = (Limits::default(), 0);
        for _ in 0..1000 {
            let claim = limits.claim(four(1), Some("ann"), now).unwrap();
            limits.refund(&claim, now);
            right += 1;
        }
        assert_eq!(right, 1000);
    }

    #[test]
    fn a_pin_is_not_guessed_from_many_addresses_but_its_own_browser_is_let_in() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        for last in 0..8 {
            limits.claim(four(last), Some("ann"), now).unwrap();
        }
        assert_eq!(whose(&limits.claim(four(99), Some("ann"), now)), Some(Whose::Name));
        assert!(limits.claim(four(99), Some("bob"), now).is_ok());
        let browser = Guesser::Browser(7);
        for _ in 0..OF_NAME.0 {
            limits.claim(browser, Some("ann"), now).unwrap();
        }
        assert_eq!(whose(&limits.claim(browser, Some("ann"), now)), Some(Whose::Own));
        assert!(limits.claim(Guesser::Browser(8), Some("ann"), now).is_ok());
    }

    #[test]
    fn guesses_from_many_addresses_are_limited_together_and_newcomers_are_let_in() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        let many = 60;
        let judged = (0..many * 40).filter(|at| limits.claim(number(at % many), None, now).is_ok()).count();
        assert!((IN_ALL.0 as usize..=IN_ALL.0 as usize + (many * FEW) as usize).contains(&judged), "{judged}");
        assert_eq!(whose(&limits.claim(number(0), None, now)), Some(Whose::All));
        for newcomer in 1000..1100 {
            assert!(limits.claim(number(newcomer), None, now).is_ok(), "{newcomer}");
        }
        let mut limits = Limits::default();
        let six = |text: &str| Guesser::Address(text.parse().unwrap());
        for number in 0..OF_ADDRESS.0 {
            limits.claim(six(&format!("2001:db8::{number:x}")), None, now).unwrap();
        }
        assert!(limits.claim(six("2001:db8::ffff"), None, now).is_err());
        assert!(limits.claim(six("2001:db8:0:1::1"), None, now).is_ok());
    }
}
