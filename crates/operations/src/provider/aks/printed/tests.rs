//! Answers, errors and warnings of az among what others print.

use serde_json::{Value, json};

use super::*;

/// What others write to one of the streams.
pub(in super::super) const NOISE: [&str; 8] = [
    "/usr/lib/python3/dist-packages/requests/__init__.py:87: RequestsDependencyWarning: urllib3 (2.0.7) or chardet (5.1.0) doesn't match a supported version!\n  warnings.warn(\n",
    "WARNING: You have 2 update(s) available. Consider updating your CLI installation with 'az upgrade'\n",
    "\n\n",
    "\u{feff}",
    "mesg: ttyname failed: Inappropriate ioctl for device\n",
    "[notice] A new release of pip is available: 23.0 -> 26.1\n",
    "{\"level\":\"info\",\"message\":\"telemetry is off\"}\n",
    "sys:1: ResourceWarning: unclosed <socket.socket fd=3>\n",
];

#[test]
fn answer_is_found_among_whatever_others_print() {
    let answers = [
        json!({ "id": "/subscriptions/s", "name": "n", "tags": null, "properties": { "provisioningState": "Succeeded" } }),
        json!({ "value": [{ "name": "a{b" }, { "name": "c]" }], "nextLink": null, "note": "more than one line of text" }),
        json!([{ "name": "one", "value": "a list of something that is long enough" }, { "name": "two", "more": {} }]),
    ];
    for expected in &answers {
        for printed in [expected.to_string(), serde_json::to_string_pretty(expected).unwrap()] {
            for noise in NOISE {
                for text in [
                    format!("{printed}\n"),
                    format!("{noise}{printed}"),
                    format!("{printed}\n{noise}"),
                    format!("{noise}{noise}{printed}\n{noise}"),
                ] {
                    for text in [text.replace('\n', "\r\n"), text] {
                        assert_eq!(answer::<Value>(&text).as_ref(), Ok(expected), "{text:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_no_answer_is_shown_as_it_was_printed() {
    for (text, beginning) in [
        ("", "az ended well and printed nothing"),
        ("\u{feff}\r\n", "az ended well and printed nothing"),
        ("<html>proxy</html>", "az printed no answer:\n<html>proxy</html>"),
        // Half an answer has whole ones in it.
        ("{\n  \"value\": [\n    {}\n", "az printed no answer:\n{"),
        ("{\"value\": [{\"name\": \"a\"}, {\"name\"", "az printed no answer:\n{"),
        ("{} and more", "az printed no answer:\n{} and more"),
    ] {
        let error = answer::<Value>(text).unwrap_err();
        assert!(error.starts_with(beginning), "{error}");
    }
    let error = answer::<Vec<String>>("{\"a\": 1}").unwrap_err();
    assert!(error.starts_with("az printed another answer than was asked for (invalid type"), "{error}");
    assert!(answer::<Value>(&"x".repeat(100_000)).unwrap_err().len() < 500);
}

#[test]
fn error_is_the_last_one_of_az_wherever_it_stands() {
    for line in ["ERROR: Not Found({\"error\": {}})", "ERROR: (Code) Message\nCode: Code\nMessage: Message"] {
        for noise in NOISE {
            let noise = if noise.ends_with('\n') { noise.to_owned() } else { format!("{noise}\n") };
            for text in [
                line.to_owned(),
                format!("{noise}{line}\n"),
                format!("ERROR: an earlier one\n{noise}{line}"),
                line.replace('\n', "\r\n"),
            ] {
                assert_eq!(error(&text), line, "{text:?}");
            }
            assert!(error(&format!("{line}\n{noise}")).starts_with(line));
        }
        // What is known to be a warning goes wherever it stands.
        for noise in [NOISE[0], NOISE[1], NOISE[7]] {
            assert_eq!(error(&format!("{}\n", line.replace('\n', &format!("\n{noise}")))), line);
            assert_eq!(error(&format!("{line}\n{noise}")), line);
        }
    }
}

#[test]
fn thousands_of_lines_are_cut() {
    let warnings = NOISE[0].repeat(1500);
    assert_eq!(error(&format!("{warnings}ERROR: No.\n{warnings}")), "ERROR: No.");
    assert_eq!(error(&warnings), "");
    let lines = |count: usize| (0..count).map(|line| format!("line {line}\n")).collect::<String>();
    assert_eq!(error(&lines(3000)).lines().count(), OTHERS_LINES);
    assert!(error(&format!("ERROR: No.\n{}", lines(3000))).lines().count() <= LINES + OTHERS_LINES);
}

#[test]
fn warning_is_found_by_its_words() {
    let stderr = format!("{}WARNING: one\nWARNING: a role assignment failed\n", NOISE[0]);
    assert_eq!(warning(&stderr, "role assignment"), Some("a role assignment failed"));
    assert_eq!(warning("no WARNING: a role assignment\n", "role assignment"), None);
}
