//! Durations, counts and tables as people write them.

use std::fmt::Write as _;
use std::time::Duration;

/// A duration as people say it: `38 ms`, `2.1 s`, `4m 11s`, `2h 14m`; and as they write it, where it is whole: `5 s`, `2m`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let whole = |unit: u64| duration.subsec_nanos() == 0 && seconds.is_multiple_of(unit);
    match seconds {
        1..60 if whole(1) => format!("{seconds} s"),
        60..3600 if whole(60) => format!("{}m", seconds / 60),
        3600.. if whole(3600) => format!("{}h", seconds / 3600),
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `1 pool`, `2 pools`.
pub fn plural(count: usize, one: &str) -> String {
    match one.strip_suffix('y') {
        _ if count == 1 => format!("1 {one}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{count} {stem}ies"),
        _ => format!("{count} {one}s"),
    }
}

/// `the only step`, `all 2 steps`.
pub fn all(count: usize, one: &str) -> String {
    if count == 1 { format!("the only {one}") } else { format!("all {}", plural(count, one)) }
}

/// `1 pod is starting`, `2 pods are starting`.
pub(crate) fn counted(count: usize, noun: &str, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {noun} {one}") } else { format!("{count} {noun}s {many}") }
}

/// `a, b and c`, and `a, b and 3 more` where they are many.
pub fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [one, two] => format!("{one} and {two}"),
        [one, two, three] => format!("{one}, {two} and {three}"),
        [one, two, rest @ ..] => format!("{one}, {two} and {} more", rest.len()),
    }
}

/// `a`, `b` and `c`, in backticks.
pub(crate) fn quoted(words: &[&str]) -> String {
    joined(words, "and")
}

/// `a`, `b` or `c`, in backticks: one of them is chosen.
pub(crate) fn quoted_choice(words: &[&str]) -> String {
    joined(words, "or")
}

fn joined(words: &[&str], before_last: &str) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => "none".to_owned(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} {before_last} {last}", rest.join(", ")),
    }
}

/// `a, b, c`, or the first of them: `a, b and 3 more`.
pub fn first_of(names: &[impl AsRef<str>], most: usize) -> String {
    let shown = names.iter().take(most).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Columns padded to their widest cell, two blanks apart, no trailing blanks.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Nodes of a size, as a plan has it: `3 × Standard_D4s_v5`. Several sizes say themselves how many there are of each.
pub fn nodes_of_size(nodes: u32, size: &str) -> String {
    if size.contains(" × ") { size.to_owned() } else { format!("{nodes} × {size}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_say_them() {
        for (milliseconds, text) in [
            (0, "0 ms"),
            (38, "38 ms"),
            (2_140, "2.1 s"),
            (5_000, "5 s"),
            (120_000, "2m"),
            (120_400, "2m 00s"),
            (251_000, "4m 11s"),
            (7_200_000, "2h"),
            (8_040_000, "2h 14m"),
        ] {
            assert_eq!(duration(Duration::from_millis(milliseconds)), text);
        }
    }

    #[test]
    fn plurals() {
        for (count, one, text) in
            [(1, "pool", "1 pool"), (0, "pool", "0 pools"), (2, "entry", "2 entries"), (3, "key", "3 keys")]
        {
            assert_eq!(plural(count, one), text);
        }
        assert_eq!([1, 2].map(|count| all(count, "step")), ["the only step", "all 2 steps"]);
    }

    #[test]
    fn many_are_counted() {
        assert_eq!(
            [&["a"][..], &["a", "b", "c"], &["a", "b", "c", "d"]].map(listed),
            ["a", "a, b and c", "a, b and 2 more"]
        );
        assert_eq!(first_of(&[""; 0], 2), "");
        assert_eq!(first_of(&["a", "b"], 2), "a, b");
        assert_eq!(first_of(&["a", "b", "c"], 2), "a, b and 1 more");
    }

    #[test]
    fn table_aligns_and_trims() {
        let rows = [["POOL", "NODES"], ["nodepool1", "2"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "POOL       NODES\nnodepool1  2\n");
    }
}
