//! What the command of a container says about how long it runs and how it ends.

use jiff::SignedDuration;
use serde_json::Value;

use super::super::value::{at, items};

/// All words of a container's command and arguments.
fn command(container: &Value) -> String {
    ["command", "args"]
        .iter()
        .flat_map(|field| items(at(container, &[field])))
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(" ")
}

/// How long a container runs: as long as it sleeps (`sleep 30`, `sleep 5m`), else `otherwise`; `None`: for ever.
pub(super) fn run_time(container: &Value, otherwise: SignedDuration) -> Option<SignedDuration> {
    let command = command(container);
    let mut words =
        command.split(|letter: char| letter.is_whitespace() || matches!(letter, ';' | '&' | '|' | '"' | '\''));
    let mut slept = SignedDuration::ZERO;
    while let Some(word) = words.next() {
        if word != "sleep" {
            continue;
        }
        let amount = words.next().unwrap_or_default();
        if amount == "infinity" || amount == "inf" {
            return None;
        }
        let (number, factor) = match amount.as_bytes().last() {
            Some(b'm') => (&amount[..amount.len() - 1], 60.0),
            Some(b'h') => (&amount[..amount.len() - 1], 3600.0),
            Some(b'd') => (&amount[..amount.len() - 1], 86400.0),
            Some(b's') => (&amount[..amount.len() - 1], 1.0),
            _ => (amount, 1.0),
        };
        let seconds = number.parse::<f64>().ok().filter(|number| *number >= 0.0).unwrap_or_default();
        slept =
            slept.saturating_add(SignedDuration::try_from_secs_f64(seconds * factor).unwrap_or(SignedDuration::MAX));
    }
    Some(if slept.is_zero() { otherwise } else { slept })
}

/// What a container ends with: the number after `exit`, 1 for `false`, else 0.
pub(super) fn exit_code(container: &Value) -> i64 {
    let command = command(container);
    let words: Vec<&str> = command
        .split(|letter: char| letter.is_whitespace() || matches!(letter, ';' | '&' | '|' | '"' | '\''))
        .collect();
    let exit = words.iter().position(|word| *word == "exit");
    match exit {
        Some(at) => words.get(at + 1).and_then(|code| code.parse().ok()).unwrap_or_default(),
        None => i64::from(words == ["false"]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(command: &[&str]) -> Value {
        json!({ "name": "c", "command": command })
    }

    #[test]
    fn commands_tell_how_long_and_how_they_end() {
        let job = SignedDuration::from_secs(1);
        let run = |words: &[&str]| run_time(&container(words), job);
        assert_eq!(run(&["sh", "-c", "echo done"]), Some(job));
        assert_eq!(run(&["sleep", "30"]), Some(SignedDuration::from_secs(30)));
        assert_eq!(run(&["sh", "-c", "sleep 2m; sleep 5"]), Some(SignedDuration::from_secs(125)));
        assert_eq!(run(&["sleep", "infinity"]), None);
        assert_eq!(exit_code(&container(&["sh", "-c", "exit 3"])), 3);
        assert_eq!(exit_code(&container(&["sh", "-c", "echo hi && exit 0"])), 0);
        assert_eq!(exit_code(&container(&["false"])), 1);
    }
}
