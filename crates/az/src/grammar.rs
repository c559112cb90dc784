//! A command line of az read as az reads it: flags in any order, abbreviated, with their values joined or apart.

use std::collections::BTreeMap;

use crate::flag::{Command, Flag, Takes};
use crate::refusal::Refusal;

/// How like a known word a mistyped one must be to be offered.
const ALIKE: f64 = 0.75;

/// What was typed after the words of a command, by the first name of each flag.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments {
    values: BTreeMap<&'static str, Vec<String>>,
    /// Words without a flag.
    pub operands: Vec<String>,
    /// What the person should know about it, in sentences.
    pub warnings: Vec<String>,
}

impl Arguments {
    /// Whether the flag was typed, or has a default.
    pub fn has(&self, flag: &str) -> bool {
        self.values.contains_key(flag)
    }

    /// The word of a flag.
    pub fn word(&self, flag: &str) -> Option<&str> {
        self.values.get(flag)?.first().map(String::as_str)
    }

    /// The word of a flag that the command needs.
    pub fn needed(&self, flag: &str) -> &str {
        self.word(flag).unwrap_or_default()
    }

    /// The number of a flag.
    pub fn number(&self, flag: &str) -> Option<i64> {
        self.word(flag)?.parse().ok()
    }

    /// The words of a flag.
    pub fn words(&self, flag: &str) -> Option<&[String]> {
        self.values.get(flag).map(Vec::as_slice)
    }

    /// Only these flags, and others that are laid over them.
    pub fn only(&self, flags: &[&'static str], others: &[(&'static str, &str)]) -> Self {
        let kept = flags.iter().filter_map(|flag| Some((*flag, self.values.get(flag)?.clone())));
        let laid = others.iter().map(|(flag, word)| (*flag, vec![(*word).to_owned()]));
        Self { values: kept.chain(laid).collect(), ..Self::default() }
    }

    /// Whether nothing was typed of all these.
    pub fn has_none_of(&self, flags: &[&str]) -> bool {
        !flags.iter().any(|flag| self.has(flag))
    }
}

/// Reads what was typed after the words of a command. `configured` gives what the user made the default of a key.
///
/// # Errors
/// In az's words, where az cannot read it.
pub fn read(
    command: &Command,
    words: &[String],
    configured: impl Fn(&str) -> Option<String>,
) -> Result<Arguments, Refusal> {
    let flags = command.all_flags();
    let mut given = Arguments::default();
    let mut unknown: Vec<&str> = Vec::new();
    let typed: Vec<String> = words.iter().map(|word| plain_dashes(word, &mut given.warnings)).collect();
    let mut rest = typed.iter().map(String::as_str).peekable();
    while let Some(word) = rest.next() {
        if !is_flag(word) {
            if command.operands.is_empty() {
                unknown.push(word);
            } else {
                given.operands.push(word.to_owned());
            }
            continue;
        }
        let Some((flag, joined)) = find(&flags, word)? else {
            unknown.push(word);
            // Its value, which no other flag takes.
            while let Some(value) = rest.next_if(|word| !is_flag(word)) {
                unknown.push(value);
            }
            continue;
        };
        let values = match flag.takes {
            Takes::Nothing if joined.is_some() => {
                let value = joined.unwrap_or_default();
                return Err(Refusal::usage(format!(
                    "argument {}: ignored explicit argument '{value}'",
                    flag.all_names()
                )));
            }
            Takes::Nothing => Vec::new(),
            Takes::Word | Takes::Number => {
                let value = joined.or_else(|| rest.next_if(|word| !is_flag(word)).map(str::to_owned));
                vec![value.ok_or_else(|| expected(flag, "one argument"))?]
            }
            Takes::Words | Takes::AnyWords => {
                let mut values: Vec<String> = joined.into_iter().collect();
                while let Some(value) = rest.next_if(|word| !is_flag(word)) {
                    values.push(value.to_owned());
                }
                if values.is_empty() && flag.takes == Takes::Words {
                    return Err(expected(flag, "at least one argument"));
                }
                values
            }
        };
        let values = values.into_iter().map(|value| checked(command, flag, value)).collect::<Result<_, _>>()?;
        if flag.is_moot {
            given.warnings.push(format!(
                "{} says nothing about a lab that is not in Azure; nothing was done about it.",
                flag.name()
            ));
        }
        given.values.insert(flag.name(), values);
    }
    if !given.has("--help") {
        complete(&flags, &mut given, configured)?;
        if !unknown.is_empty() {
            return Err(unrecognized(command, &flags, &unknown));
        }
    }
    Ok(given)
}

/// Defaults, and what is still missing.
fn complete(flags: &[Flag], given: &mut Arguments, configured: impl Fn(&str) -> Option<String>) -> Result<(), Refusal> {
    let mut missing = Vec::new();
    for flag in flags.iter().filter(|flag| !flag.is_moot) {
        if given.has(flag.name()) {
            continue;
        }
        let default = flag.configured.and_then(&configured).or_else(|| flag.default.map(str::to_owned));
        match default {
            Some(value) => drop(given.values.insert(flag.name(), vec![value])),
            None if flag.is_required => missing.push(flag.all_names()),
            None => {}
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Refusal::usage(format!("the following arguments are required: {}", missing.join(", "))))
}

/// A word with the dashes that a keyboard has: word processors and web pages make others of them.
fn plain_dashes(word: &str, warnings: &mut Vec<String>) -> String {
    let Some(name) = word.strip_prefix(['–', '—', '‒', '−']).map(|rest| rest.trim_start_matches(['-', '–', '—']))
    else {
        return word.to_owned();
    };
    if name.is_empty() || !name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        return word.to_owned();
    }
    let dashes = if name.split('=').next().is_some_and(|name| name.chars().count() == 1) { "-" } else { "--" };
    let plain = format!("{dashes}{name}");
    warnings.push(format!("'{word}' begins with a dash that no keyboard has; it was read as '{plain}'."));
    plain
}

/// Whether a word is a flag. A negative number is none.
fn is_flag(word: &str) -> bool {
    let Some(rest) = word.strip_prefix('-') else { return false };
    !rest.is_empty() && rest.parse::<f64>().is_err() && !word.contains(' ')
}

/// The flag that a word is, whole or abbreviated, and the value that is joined to it.
fn find<'f>(flags: &'f [Flag], word: &str) -> Result<Option<(&'f Flag, Option<String>)>, Refusal> {
    let (name, joined) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value.to_owned())));
    let named = |name: &str| flags.iter().find(|flag| flag.each().any(|known| known == name));
    if let Some(flag) = named(name) {
        return Ok(Some((flag, joined)));
    }
    if !name.starts_with("--") {
        let split = word.char_indices().nth(2).map(|(at, _)| word.split_at(at));
        let short = split.and_then(|(short, value)| Some((named(short)?, Some(value.to_owned()))));
        return Ok(short);
    }
    let all = flags.iter().flat_map(|flag| flag.each().map(move |known| (known, flag)));
    let matching: Vec<(&str, &Flag)> = all.filter(|(known, _)| known.starts_with(name)).collect();
    match matching.as_slice() {
        [] => Ok(None),
        [(_, flag)] => Ok(Some((flag, joined))),
        several => {
            let names: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
            Err(Refusal::usage(format!("ambiguous option: {name} could match {}", names.join(", "))))
        }
    }
}

fn expected(flag: &Flag, what: &str) -> Refusal {
    Refusal::usage(format!("argument {}: expected {what}", flag.all_names()))
}

/// A value as the flag takes it: a choice in the letters of the table, a number that is one.
fn checked(command: &Command, flag: &Flag, value: String) -> Result<String, Refusal> {
    if flag.takes == Takes::Number && value.parse::<i64>().is_err() {
        return Err(Refusal::usage(format!("argument {}: invalid int value: '{value}'", flag.all_names())));
    }
    if flag.choices.is_empty() {
        return Ok(value);
    }
    if let Some(choice) = flag.choices.iter().find(|choice| choice.eq_ignore_ascii_case(&value)) {
        return Ok((*choice).to_owned());
    }
    let refusal = Refusal::usage(format!(
        "az {}: '{value}' is not a valid value for '{}'. Allowed values: {}.",
        command.words,
        flag.name(),
        flag.choices.join(", ")
    ));
    Err(offer(refusal, &value, flag.choices.iter().copied()))
}

fn unrecognized(command: &Command, flags: &[Flag], unknown: &[&str]) -> Refusal {
    let refusal = Refusal::usage(format!("unrecognized arguments: {}", unknown.join(" ")));
    let names = flags.iter().flat_map(Flag::each).filter(|name| name.starts_with("--"));
    let refusal = match unknown.iter().find(|word| is_flag(word)) {
        Some(word) => offer(refusal, word, names),
        None => refusal,
    };
    refusal.advise(format!("'az {} --help' lists what klab's az knows of this command.", command.words))
}

/// A refusal with the known word that a mistyped one is most like.
pub fn offer<'w>(refusal: Refusal, mistyped: &str, known: impl Iterator<Item = &'w str>) -> Refusal {
    let mistyped = mistyped.to_lowercase();
    let likeness = |word: &str| strsim::jaro_winkler(&mistyped, &word.to_lowercase());
    let nearest = known.map(|word| (likeness(word), word)).filter(|(likeness, _)| *likeness >= ALIKE);
    match nearest.max_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((_, word)) => refusal.advise(format!("Did you mean '{word}' ?")),
        None => refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flag::Moot;

    const COMMAND: Command = Command {
        words: "aks nodepool add",
        about: "",
        flags: &[&[
            Flag::word("--cluster-name").required(),
            Flag::word("--nodepool-name --name -n").required(),
            Flag::word("--resource-group -g").required().configured("group"),
            Flag::number("--node-count -c").or("3"),
            Flag::word("--node-taints"),
            Flag::word("--mode").one_of(&["System", "User"]).or("User"),
            Flag::words("--zones -z"),
            Flag::any_words("--labels"),
            Flag::word("--spot-max-price"),
            Flag::switch("--no-wait"),
        ]],
        moot: Moot { words: "--vnet-subnet-id", switches: "--enable-ultra-ssd", lists: "" },
        operands: "",
    };

    fn line(text: &str) -> Vec<String> {
        text.split_whitespace().map(|word| word.replace("''", "")).collect()
    }

    fn given(text: &str) -> Arguments {
        read(&COMMAND, &line(text), |_| None).unwrap_or_else(|refusal| panic!("{text}: {}", refusal.message))
    }

    const NEEDED: &str = "-g rg --cluster-name c -n p";

    #[test]
    fn flags_are_read_as_az_reads_them() {
        for (text, flag, expected) in [
            ("", "--node-count", "3"),
            ("", "--mode", "User"),
            ("-c5", "--node-count", "5"),
            ("--node-count=5", "--node-count", "5"),
            ("-c=5", "--node-count", "5"),
            ("--node-c 5", "--node-count", "5"),
            ("-c 5 -c 6", "--node-count", "6"),
            ("--mode system", "--mode", "System"),
            ("--zones 1 2 3", "--zones", "1|2|3"),
            ("--zones 1, 2, 3", "--zones", "1,|2,|3"),
            ("--labels a=b c=d --no-wait", "--labels", "a=b|c=d"),
            ("--labels", "--labels", ""),
            ("--node-taints ''", "--node-taints", ""),
            ("--spot-max-price -1", "--spot-max-price", "-1"),
            ("–name q", "--nodepool-name", "q"),
            ("—n q", "--nodepool-name", "q"),
        ] {
            let given = given(&format!("{NEEDED} {text}"));
            assert_eq!(given.words(flag).map(|words| words.join("|")).as_deref(), Some(expected), "{text}");
        }
        assert!(given(&format!("{NEEDED} --no-wait")).has("--no-wait"));
        assert!(!given(NEEDED).has("--no-wait"));
        assert_eq!(read(&COMMAND, &line("--help"), |_| None).map(|given| given.has("--help")), Ok(true));
    }

    #[test]
    fn what_the_user_configured_stands_in_where_nothing_is_typed() {
        let configured = |key: &str| (key == "group").then(|| "mine".to_owned());
        let of = |text: &str| read(&COMMAND, &line(text), configured).unwrap().needed("--resource-group").to_owned();
        assert_eq!(of("--cluster-name c -n p"), "mine");
        assert_eq!(of(NEEDED), "rg");
    }

    #[test]
    fn what_az_cannot_read_is_refused_in_its_words() {
        for (text, message, advice) in [
            ("-g rg", "the following arguments are required: --cluster-name, --nodepool-name/--name/-n", None),
            ("-g rg --cluster-name", "argument --cluster-name: expected one argument", None),
            ("-g rg --cluster-name c -n p --zones", "argument --zones/-z: expected at least one argument", None),
            ("-g rg -c two", "argument --node-count/-c: invalid int value: 'two'", None),
            (
                "-g rg --n x",
                "ambiguous option: --n could match --nodepool-name, --name, --node-count, --node-taints, --no-wait",
                None,
            ),
            (
                "-g rg --mode sistem",
                "az aks nodepool add: 'sistem' is not a valid value for '--mode'. Allowed values: System, User.",
                Some("Did you mean 'System' ?"),
            ),
            ("-g rg --cluster-name c -n p --foo bar baz", "unrecognized arguments: --foo bar baz", None),
            (
                "-g rg --cluster-name c -n p --lables a=b",
                "unrecognized arguments: --lables a=b",
                Some("Did you mean '--labels' ?"),
            ),
            ("-g rg --cluster-name c -n p extra", "unrecognized arguments: extra", None),
        ] {
            let refusal = read(&COMMAND, &line(text), |_| None).unwrap_err();
            assert_eq!((refusal.message.as_str(), refusal.exit_code), (message, 2), "{text}");
            if let Some(advice) = advice {
                assert_eq!(refusal.advice.first().map(String::as_str), Some(advice), "{text}");
            }
        }
    }

    #[test]
    fn flags_without_a_meaning_for_a_lab_are_taken_and_told() {
        let given = given(&format!("{NEEDED} --vnet-subnet-id x --enable-ultra-ssd –c 4"));
        assert_eq!(given.warnings.len(), 3, "{:?}", given.warnings);
        assert_eq!(given.number("--node-count"), Some(4));
    }
}
