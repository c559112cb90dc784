//! Pure: which seat: the shard that holds it, and its number there.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A seat of a hosted class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SeatId {
    /// The shard.
    pub shard: u32,
    /// From 1.
    pub number: u32,
}

impl fmt::Display for SeatId {
    /// `0-17`: what its cluster is called on the server.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.shard, self.number)
    }
}

impl FromStr for SeatId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seat = || {
            let (shard, number) = text.split_once('-')?;
            Some(Self { shard: shard.parse().ok()?, number: number.parse().ok()? })
        };
        // Only as it is written: no signs, no zeros in front.
        seat().filter(|seat| seat.to_string() == text).ok_or_else(|| format!("`{text}` is no seat"))
    }
}

impl From<SeatId> for String {
    fn from(seat: SeatId) -> Self {
        seat.to_string()
    }
}

impl TryFrom<String> for SeatId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_read_as_it_is_written_and_not_otherwise() {
        assert_eq!("0-17".parse(), Ok(SeatId { shard: 0, number: 17 }));
        for text in ["", "-", "17", "0-", "-1-2", "00-1", "0-01", "+0-1", "0-1-2", "0-99999999999", "template-a"] {
            assert!(text.parse::<SeatId>().is_err(), "{text}");
        }
    }
}
