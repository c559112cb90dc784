//! Comparing what came out with what was recorded.

use std::fmt::Write;

use serde_json::Value;

use super::flow::{Comparison, Step};
use super::known::Freedom;

/// What a command did, normalised.
pub(crate) struct Actual {
    pub(crate) exit: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// How the step differs from the recording; `None` when it does not.
pub(crate) fn command(step: &Step, actual: &Actual, freedom: Option<Freedom>) -> Option<String> {
    let mut difference = String::new();
    if step.exit.is_some() && !step.exit_varies && step.exit != actual.exit {
        let _ = writeln!(difference, "exit: recorded {:?}, now {:?}", step.exit, actual.exit);
    }
    match step.compare {
        Comparison::Exact | Comparison::Shape if freedom == Some(Freedom::Blanks) => {
            lines(&mut difference, "stdout", &without_blanks(&step.stdout), &without_blanks(&actual.stdout));
            lines(&mut difference, "stderr", &step.stderr, &actual.stderr);
        }
        Comparison::Exact | Comparison::Shape if freedom.is_none() => {
            lines(&mut difference, "stdout", &step.stdout, &actual.stdout);
            lines(&mut difference, "stderr", &step.stderr, &actual.stderr);
        }
        Comparison::Unordered | Comparison::Exact | Comparison::Shape => {
            lines(&mut difference, "stdout", &sorted(&step.stdout), &sorted(&actual.stdout));
            lines(&mut difference, "stderr", &sorted(&step.stderr), &sorted(&actual.stderr));
        }
        Comparison::Loose => {
            let have: Vec<&str> = actual.stdout.lines().collect();
            for line in step.stable_lines.iter().filter(|line| !have.contains(&line.as_str())) {
                let _ = writeln!(difference, "stdout lacks: {line}");
            }
            for text in step.stderr_contains.iter().filter(|text| !actual.stderr.contains(text.as_str())) {
                let _ = writeln!(difference, "stderr lacks: {text}");
            }
        }
    }
    if difference.is_empty() {
        return None;
    }
    if step.compare == Comparison::Loose {
        let _ = writeln!(difference, "stdout was:\n{}stderr was:\n{}", actual.stdout, actual.stderr);
    }
    Some(difference)
}

/// JSON as this program writes it; what is no JSON stays as it is.
fn without_blanks(text: &str) -> String {
    serde_json::from_str::<Value>(text).map_or_else(|_| text.to_owned(), |value| value.to_string())
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> =
        text.lines().flat_map(|line| line.strip_prefix("Warning: ").unwrap_or(line).split("; ")).collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Lines that only one side has, in their order.
fn lines(difference: &mut String, what: &str, recorded: &str, actual: &str) {
    if recorded == actual {
        return;
    }
    let _ = writeln!(difference, "{what}:");
    let (recorded, actual): (Vec<&str>, Vec<&str>) = (recorded.lines().collect(), actual.lines().collect());
    // Longest common subsequence; outputs are short.
    let mut table = vec![vec![0_usize; actual.len() + 1]; recorded.len() + 1];
    for (i, one) in recorded.iter().enumerate().rev() {
        for (j, other) in actual.iter().enumerate().rev() {
            table[i][j] = if one == other { table[i + 1][j + 1] + 1 } else { table[i + 1][j].max(table[i][j + 1]) };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < recorded.len() || j < actual.len() {
        if i < recorded.len() && j < actual.len() && recorded[i] == actual[j] {
            (i, j) = (i + 1, j + 1);
        } else if j >= actual.len() || (i < recorded.len() && table[i + 1][j] >= table[i][j + 1]) {
            let _ = writeln!(difference, "- {}", recorded[i]);
            i += 1;
        } else {
            let _ = writeln!(difference, "+ {}", actual[j]);
            j += 1;
        }
    }
    if recorded == actual {
        difference.push_str("  (only the end of the last line differs)\n");
    }
}

/// How the structure of a body differs: keys, and values that are not placeholders.
pub(crate) fn shape(difference: &mut String, path: &str, recorded: &Value, actual: &Value) {
    match (recorded, actual) {
        (Value::Object(one), Value::Object(other)) => {
            if let Some(Value::Object(cut)) = one.get("$truncated") {
                return truncated(difference, path, cut, actual);
            }
            for (key, value) in one {
                match other.get(key) {
                    Some(found) => shape(difference, &format!("{path}.{key}"), value, found),
                    None => {
                        let _ = writeln!(difference, "- {path}.{key} = {value}");
                    }
                }
            }
            // Descriptions of columns were left out of the recordings.
            let left_out = |key: &str| key == "description" && path.contains("columnDefinitions");
            for (key, value) in other.iter().filter(|(key, _)| !one.contains_key(*key) && !left_out(key)) {
                let _ = writeln!(difference, "+ {path}.{key} = {value}");
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            if one.len() != other.len() {
                let _ = writeln!(difference, "  {path}: recorded {} entries, now {}", one.len(), other.len());
            }
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                shape(difference, &format!("{path}[{at}]"), one, other);
            }
        }
        (Value::String(one), _) if one == "<MANAGED_FIELDS>" => {}
        (Value::String(one), Value::String(other)) if same_text(one, other) => {}
        (one, other) if one == other => {}
        (one, other) => {
            let _ = writeln!(difference, "  {path}: recorded {one}, now {other}");
        }
    }
}

/// Equal, or equal but for numbers that no rule replaces: ages in cells, versions in messages.
fn same_text(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let is_age = |text: &str| {
        !text.is_empty()
            && text.len() < 8
            && text.starts_with(|character: char| character.is_ascii_digit())
            && text.chars().all(|character| character.is_ascii_digit() || "smhdy".contains(character))
    };
    if is_age(one) && is_age(other) {
        return true;
    }
    let without_numbers = |text: &str| text.chars().filter(|character| !character.is_ascii_digit()).collect::<String>();
    one.to_ascii_lowercase().contains("resource") && without_numbers(one) == without_numbers(other)
}

/// Lists of which only the first two entries were kept.
fn truncated(difference: &mut String, path: &str, recorded: &serde_json::Map<String, Value>, actual: &Value) {
    for (key, value) in recorded {
        let Value::Array(kept) = value else {
            shape(difference, &format!("{path}.{key}"), value, &actual[key]);
            continue;
        };
        let marker =
            kept.last().and_then(Value::as_str).filter(|text| text.starts_with('<') && text.ends_with("more>"));
        let kept = if marker.is_some() { &kept[..kept.len() - 1] } else { kept.as_slice() };
        for (at, value) in kept.iter().enumerate() {
            shape(difference, &format!("{path}.{key}[{at}]"), value, &actual[key][at]);
        }
    }
}
