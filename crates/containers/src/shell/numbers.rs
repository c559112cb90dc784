//! Times, sizes and ranges as the words of commands have them.

use jiff::SignedDuration;

/// Most words that one word expands to.
const MAX_WORDS: i64 = 4096;

/// `30`, `0.5`, `5m`, `2h`, `1d`.
pub(super) fn duration(text: &str) -> Option<SignedDuration> {
    let factor = match text.as_bytes().last()? {
        b'm' => 60.0,
        b'h' => 3600.0,
        b'd' => 86400.0,
        _ => 1.0,
    };
    let seconds = text.trim_end_matches(['s', 'm', 'h', 'd']).parse::<f64>().ok().filter(|number| *number >= 0.0)?;
    Some(SignedDuration::try_from_secs_f64(seconds * factor).unwrap_or(SignedDuration::MAX))
}

/// `10`, `1M`, `4k`.
pub(super) fn bytes(text: &str) -> Option<i64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(1 << shift)
}

/// `{1..5}`.
pub(super) fn range(word: &str) -> Option<(i64, i64)> {
    let (from, to) = word.strip_prefix('{')?.strip_suffix('}')?.split_once("..")?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

/// The numbers from one to another, either way; no more than anybody counts.
pub(super) fn counted(from: i64, to: i64) -> Vec<String> {
    let step = if from <= to { 1 } else { -1 };
    let mut numbers = vec![from.to_string()];
    let mut at = from;
    while at != to && (numbers.len() as i64) < MAX_WORDS {
        at += step;
        numbers.push(at.to_string());
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_amounts() {
        let seconds = |text| duration(text).map(|duration| duration.as_secs_f64());
        assert_eq!(
            [seconds("1.5"), seconds("2m"), seconds("1h"), seconds("x"), seconds("-1")],
            [Some(1.5), Some(120.0), Some(3600.0), None, None]
        );
        assert_eq!([bytes("512"), bytes("4k"), bytes("1M"), bytes("1X")], [Some(512), Some(4096), Some(1 << 20), None]);
        assert_eq!(
            range("{3..1}").map(|(from, to)| counted(from, to)),
            Some(vec!["3".to_owned(), "2".to_owned(), "1".to_owned()])
        );
        assert_eq!(counted(0, i64::MAX).len(), 4096);
    }
}
