//! Keeps secrets out of everything klab shows or writes of other programs: command lines, output, transcripts.

/// What stands where a secret was.
const REDACTED: &str = "<redacted>";

/// Names whose value is a secret, compared without case, `-` and `_`; a longer name that ends in one counts too.
const SECRET_NAMES: &[&str] = &[
    "password",
    "passwd",
    "secret",
    "clientkeydata",
    "accesstoken",
    "refreshtoken",
    "idtoken",
    "token",
    "apikey",
    "accountkey",
];

/// A text without its secrets: values of secret names (`"accessToken": "…"`, `password=…`) and JSON web tokens.
pub fn redact(text: &str) -> String {
    text.split_inclusive('\n').map(redact_line).collect()
}

/// Arguments without their secrets: the value of `--…-password` and the like.
pub(super) fn redact_arguments(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut secret_follows = false;
    arguments
        .map(|argument| {
            let hide = std::mem::replace(&mut secret_follows, false);
            if hide && !argument.starts_with("--") {
                return REDACTED.to_owned();
            }
            match argument.split_once('=') {
                Some((name, _)) if name.starts_with("--") && is_secret_name(name) => format!("{name}={REDACTED}"),
                _ => {
                    secret_follows = argument.starts_with("--") && is_secret_name(&argument);
                    redact(&argument)
                }
            }
        })
        .collect()
}

fn is_secret_name(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
    SECRET_NAMES.iter().any(|secret| plain.ends_with(secret))
}

fn redact_line(line: &str) -> String {
    let mut result = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find([':', '=']) {
        let (before, after) = rest.split_at(at + 1);
        let name: String = before[..at]
            .trim_end()
            .trim_end_matches(['"', '\''])
            .chars()
            .rev()
            .take_while(|letter| letter.is_ascii_alphanumeric() || "-_".contains(*letter))
            .collect();
        let name: String = name.chars().rev().collect();
        result.push_str(&redact_tokens(before));
        rest = after;
        if !is_secret_name(&name) {
            continue;
        }
        let padding = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let (space, value) = rest.split_at(padding);
        let quote = value.chars().next().filter(|letter| "\"'".contains(*letter));
        let length = match quote {
            Some(quote) => value[1..].find(quote).map_or(value.len(), |end| end + 2),
            None => value.find(|letter: char| letter.is_whitespace() || ",;&}".contains(letter)).unwrap_or(value.len()),
        };
        if length > 0 && !value[..length].starts_with("null") {
            result.push_str(space);
            result.push_str(REDACTED);
            rest = &value[length..];
        }
    }
    result.push_str(&redact_tokens(rest));
    result
}

/// JSON web tokens, wherever they stand: three parts of base64, the first of which is that of `{"`.
fn redact_tokens(text: &str) -> String {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("eyJ") {
        let (before, from) = rest.split_at(at);
        let length = from.find(|letter| !is_part(letter)).unwrap_or(from.len());
        let token = &from[..length];
        result.push_str(before);
        result.push_str(if token.len() >= 20 { REDACTED } else { token });
        rest = &from[length..];
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_and_everything_else_stays() {
        for (text, expected) in [
            (
                r#"{"accessToken": "abc.def", "expiresOn": "2026"}"#,
                r#"{"accessToken": <redacted>, "expiresOn": "2026"}"#,
            ),
            ("client_secret=s3cr3t&grant_type=x", "client_secret=<redacted>&grant_type=x"),
            ("    client-key-data: TFMwdExTMU==\n    name: x\n", "    client-key-data: <redacted>\n    name: x\n"),
            ("Authorization: Bearer eyJ0eXAiOiJKV1QiLCJhbGci.eyJhdWQ.c2ln end", "Authorization: Bearer <redacted> end"),
            ("AADSTS7000215: Invalid client secret provided.", "AADSTS7000215: Invalid client secret provided."),
            (r#"{"password": null}"#, r#"{"password": null}"#),
            ("ERROR: (Code) Message: a=b", "ERROR: (Code) Message: a=b"),
            ("token:", "token:"),
            ("größe: ü, password: ä", "größe: ü, password: <redacted>"),
        ] {
            assert_eq!(redact(text), expected);
        }
    }

    #[test]
    fn values_of_secret_arguments_go() {
        let arguments =
            ["aks", "create", "--windows-admin-password", "P4ss", "--client-secret=x", "--no-ssh-key", "-n", "c"];
        let redacted = redact_arguments(arguments.iter().map(|argument| (*argument).to_owned()));
        assert_eq!(
            redacted,
            [
                "aks",
                "create",
                "--windows-admin-password",
                "<redacted>",
                "--client-secret=<redacted>",
                "--no-ssh-key",
                "-n",
                "c"
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_redacted(text in ".{0,200}") {
            redact(&text);
        }
    }
}
