//! kind's command line: commands, flags, help, and mistakes in the words of the library that kind reads them with.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Nothing: it is a switch.
    Nothing,
    /// A text.
    Text,
    /// A duration of Go, such as `1m30s`.
    Duration,
    /// A whole number.
    Number,
}

/// A flag.
#[derive(Debug)]
pub struct Flag {
    long: &'static str,
    short: Option<char>,
    takes: Takes,
    about: &'static str,
}

const fn flag(long: &'static str, short: Option<char>, takes: Takes, about: &'static str) -> Flag {
    Flag { long, short, takes, about }
}

/// How many arguments a command takes beside its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arguments {
    None,
    AtMostOne,
    Any,
}

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the commands' own words")]
pub enum Act {
    CreateCluster,
    DeleteCluster,
    DeleteClusters,
    GetClusters,
    GetNodes,
    GetKubeconfig,
    ExportKubeconfig,
    ExportLogs,
    LoadDockerImage,
    LoadImageArchive,
    Version,
    /// What klab does not do, with the reason.
    Refused(&'static str),
}

/// A command.
#[derive(Debug)]
struct Command {
    words: &'static [&'static str],
    about: &'static str,
    arguments: Arguments,
    flags: &'static [Flag],
    act: Act,
}

const NAME: Flag = flag("name", Some('n'), Takes::Text, "the cluster name (default \"kind\")");
const KUBECONFIG: Flag =
    flag("kubeconfig", None, Takes::Text, "sets kubeconfig path instead of $KUBECONFIG or $HOME/.kube/config");
const INTERNAL: Flag = flag("internal", None, Takes::Nothing, "use internal address instead of external");
const NODES: Flag = flag("nodes", None, Takes::Text, "comma separated list of nodes to load images into");
const PERSISTENT: &[Flag] = &[
    flag("help", Some('h'), Takes::Nothing, "help for the command"),
    flag("quiet", Some('q'), Takes::Nothing, "silence all stderr output"),
    flag("verbosity", Some('v'), Takes::Number, "info log verbosity, higher value produces more output"),
    flag("version", None, Takes::Nothing, "version for kind"),
];

const NO_IMAGES: &str = "klab's nodes run no container images, so it builds none";
const NO_COMPLETION: &str = "klab completes its own commands: see `klab completions --help`";

const COMMANDS: &[Command] = &[
    Command {
        words: &["build", "node-image"],
        about: "Build the node image (klab refuses it)",
        arguments: Arguments::Any,
        flags: &[],
        act: Act::Refused(NO_IMAGES),
    },
    Command {
        words: &["completion"],
        about: "Output shell completion code (klab refuses it)",
        arguments: Arguments::Any,
        flags: &[],
        act: Act::Refused(NO_COMPLETION),
    },
    Command {
        words: &["create", "cluster"],
        about: "Creates a local Kubernetes cluster",
        arguments: Arguments::None,
        flags: &[
            flag("config", None, Takes::Text, "path to a kind config file"),
            flag("image", None, Takes::Text, "node docker image to use for booting the cluster"),
            KUBECONFIG,
            NAME,
            flag("retain", None, Takes::Nothing, "retain nodes for debugging when cluster creation fails"),
            flag("wait", None, Takes::Duration, "wait for control plane node to be ready (default 0s)"),
        ],
        act: Act::CreateCluster,
    },
    Command {
        words: &["delete", "cluster"],
        about: "Deletes a cluster",
        arguments: Arguments::None,
        flags: &[KUBECONFIG, NAME],
        act: Act::DeleteCluster,
    },
    Command {
        words: &["delete", "clusters"],
        about: "Deletes one or more clusters",
        arguments: Arguments::Any,
        flags: &[flag("all", Some('A'), Takes::Nothing, "delete all clusters"), KUBECONFIG],
        act: Act::DeleteClusters,
    },
    Command {
        words: &["export", "kubeconfig"],
        about: "Exports cluster kubeconfig",
        arguments: Arguments::None,
        flags: &[INTERNAL, KUBECONFIG, NAME],
        act: Act::ExportKubeconfig,
    },
    Command {
        words: &["export", "logs"],
        about: "Exports logs to a tempdir or [output-dir] if specified",
        arguments: Arguments::AtMostOne,
        flags: &[NAME],
        act: Act::ExportLogs,
    },
    Command {
        words: &["get", "clusters"],
        about: "Lists existing kind clusters by their name",
        arguments: Arguments::None,
        flags: &[],
        act: Act::GetClusters,
    },
    Command {
        words: &["get", "kubeconfig"],
        about: "Prints cluster kubeconfig",
        arguments: Arguments::None,
        flags: &[INTERNAL, NAME],
        act: Act::GetKubeconfig,
    },
    Command {
        words: &["get", "nodes"],
        about: "Lists existing kind nodes by their name",
        arguments: Arguments::None,
        flags: &[flag("all-clusters", Some('A'), Takes::Nothing, "list all nodes of all clusters"), NAME],
        act: Act::GetNodes,
    },
    Command {
        words: &["load", "docker-image"],
        about: "Loads docker images from host into nodes",
        arguments: Arguments::Any,
        flags: &[NAME, NODES],
        act: Act::LoadDockerImage,
    },
    Command {
        words: &["load", "image-archive"],
        about: "Loads docker image from archive into nodes",
        arguments: Arguments::Any,
        flags: &[NAME, NODES],
        act: Act::LoadImageArchive,
    },
    Command {
        words: &["version"],
        about: "Prints the kind CLI version",
        arguments: Arguments::Any,
        flags: &[],
        act: Act::Version,
    },
];

/// A command line that is understood.
#[derive(Debug)]
pub struct Typed {
    /// What to do.
    pub act: Act,
    /// Arguments beside the flags.
    pub arguments: Vec<String>,
    values: BTreeMap<&'static str, String>,
}

/// What a command line asks for.
#[derive(Debug)]
pub enum Asked {
    /// A command.
    Command(Typed),
    /// A text on stdout, and then an error where there is one.
    Help(String, Option<String>),
}

impl Typed {
    /// Whether a switch is on.
    pub fn has(&self, flag: &str) -> bool {
        self.values.get(flag).is_some_and(|value| value != "false")
    }

    /// The value of a flag that was typed.
    pub fn word(&self, flag: &str) -> Option<&str> {
        self.values.get(flag).map(String::as_str)
    }

    /// How long `--wait` waits; nothing where it was not typed.
    pub fn wait(&self) -> Duration {
        self.word("wait").and_then(|text| duration(text).ok()).unwrap_or_default()
    }
}

/// Whether nothing is to be written to stderr: errors in the flags themselves count as well.
pub fn is_quiet(words: &[String]) -> bool {
    let words = words.iter().take_while(|word| *word != "--");
    words.into_iter().any(|word| matches!(word.as_str(), "-q" | "--quiet" | "--quiet=true"))
}

/// Reads a command line, without the program's own name.
///
/// # Errors
/// In kind's words.
pub fn read(words: &[String]) -> Result<Asked, String> {
    let mut path: Vec<&str> = Vec::new();
    let mut values = BTreeMap::new();
    let mut arguments = Vec::new();
    let mut only_arguments = false;
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        let command = COMMANDS.iter().find(|command| command.words == path);
        // Of a shell that klab does not complete for, any word is good.
        if let Some(Command { act: Act::Refused(why), .. }) = command {
            return Err((*why).to_owned());
        }
        if !only_arguments && word == "--" {
            only_arguments = true;
        } else if !only_arguments && word.len() > 1 && word.starts_with('-') {
            let own = command.map_or(&[][..], |command| command.flags);
            read_flag(word, &mut rest, own, &mut values)?;
        } else if command.is_some() {
            arguments.push(word.to_owned());
        } else {
            let depth = path.len();
            path.push(word);
            let is_known = |command: &Command| command.words.starts_with(&path);
            if !COMMANDS.iter().any(is_known) {
                if depth == 0 {
                    return Err(format!("unknown command \"{word}\" for \"kind\""));
                }
                path.pop();
                return Ok(Asked::Help(help(&path), Some("Subcommand is required".to_owned())));
            }
        }
    }
    if values.contains_key("version") && path.is_empty() {
        return Ok(Asked::Help(format!("kind version {VERSION}\n"), None));
    }
    let Some(command) = COMMANDS.iter().find(|command| command.words == path) else {
        let error = (!path.is_empty() && !values.contains_key("help")).then(|| "Subcommand is required".to_owned());
        return Ok(Asked::Help(help(&path), error));
    };
    if values.contains_key("help") {
        return Ok(Asked::Help(help(&path), None));
    }
    if let Act::Refused(why) = command.act {
        return Err(why.to_owned());
    }
    let name = path.join(" ");
    match (command.arguments, arguments.as_slice()) {
        (Arguments::None, [first, ..]) => return Err(format!("unknown command \"{first}\" for \"kind {name}\"")),
        (Arguments::AtMostOne, [_, _, ..]) => {
            return Err(format!("accepts at most 1 arg(s), received {}", arguments.len()));
        }
        _ => {}
    }
    match (command.act, arguments.is_empty()) {
        (Act::LoadDockerImage, true) => return Err("a list of image names is required".to_owned()),
        (Act::LoadImageArchive, true) => return Err("a list of image archives is required".to_owned()),
        (Act::DeleteClusters, true) if !values.contains_key("all") => {
            return Err("no cluster names provided".to_owned());
        }
        _ => {}
    }
    Ok(Asked::Command(Typed { act: command.act, arguments, values }))
}

/// The version of kind whose commands these are.
pub const VERSION: &str = "0.33.0";

fn read_flag<'w>(
    word: &'w str,
    rest: &mut impl Iterator<Item = &'w str>,
    own: &'static [Flag],
    values: &mut BTreeMap<&'static str, String>,
) -> Result<(), String> {
    let all = || own.iter().chain(PERSISTENT);
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let flag = all().find(|flag| flag.long == name).ok_or_else(|| format!("unknown flag: --{name}"))?;
        let value = match (flag.takes, value) {
            (Takes::Nothing, None) => "true",
            (_, Some(value)) => value,
            (_, None) => rest.next().ok_or_else(|| format!("flag needs an argument: --{name}"))?,
        };
        return keep(flag, value, values);
    }
    let letters = word.strip_prefix('-').unwrap_or(word);
    for (at, letter) in letters.char_indices() {
        let flag = all().find(|flag| flag.short == Some(letter));
        let flag = flag.ok_or_else(|| format!("unknown shorthand flag: '{letter}' in {word}"))?;
        if flag.takes == Takes::Nothing {
            keep(flag, "true", values)?;
            continue;
        }
        let behind = letters.get(at.saturating_add(letter.len_utf8())..).unwrap_or_default();
        let value = match behind.strip_prefix('=').unwrap_or(behind) {
            "" => rest.next().ok_or_else(|| format!("flag needs an argument: '{letter}' in {word}"))?,
            value => value,
        };
        return keep(flag, value, values);
    }
    Ok(())
}

fn keep(flag: &'static Flag, value: &str, values: &mut BTreeMap<&'static str, String>) -> Result<(), String> {
    let name = flag.short.map_or_else(|| format!("--{}", flag.long), |short| format!("-{short}, --{}", flag.long));
    let wrong = |why: String| format!("invalid argument \"{value}\" for \"{name}\" flag: {why}");
    match flag.takes {
        Takes::Duration => drop(duration(value).map_err(wrong)?),
        Takes::Number if value.parse::<i32>().is_err() => {
            return Err(wrong(format!("strconv.ParseInt: parsing \"{value}\": invalid syntax")));
        }
        Takes::Nothing if !["true", "false", "1", "0", "t", "f"].contains(&value) => {
            return Err(wrong(format!("strconv.ParseBool: parsing \"{value}\": invalid syntax")));
        }
        _ => {}
    }
    let is_off = flag.takes == Takes::Nothing && ["false", "0", "f"].contains(&value);
    if is_off {
        values.remove(flag.long);
    } else {
        values.insert(flag.long, value.to_owned());
    }
    Ok(())
}

/// A duration as Go reads it.
fn duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration \"{text}\"");
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut seconds = 0.0_f64;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (number, behind) = rest.split_at(end);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let end = behind.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let unit = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            "" => return Err(format!("time: missing unit in duration \"{text}\"")),
            other => return Err(format!("time: unknown unit \"{other}\" in duration \"{text}\"")),
        };
        seconds = f64::mul_add(number, unit, seconds);
        rest = behind;
    }
    let is_negative = text.starts_with('-');
    Duration::try_from_secs_f64(if is_negative { 0.0 } else { seconds }).map_err(|_| invalid())
}

/// The help of a command, or of those below these words.
fn help(path: &[&str]) -> String {
    let command = COMMANDS.iter().find(|command| command.words == path);
    let mut text = match command {
        Some(command) => format!("{}\n\nUsage:\n  kind {} [flags]\n", command.about, path.join(" ")),
        None if path.is_empty() => {
            "klab answers kind's commands with embedded clusters, without Docker\n\nUsage:\n  kind [command]\n"
                .to_owned()
        }
        None => format!("Usage:\n  kind {} [command]\n", path.join(" ")),
    };
    if command.is_none() {
        text.push_str("\nAvailable Commands:\n");
        for command in COMMANDS.iter().filter(|command| command.words.starts_with(path)) {
            let words = command.words.get(path.len()..).unwrap_or_default().join(" ");
            let _ = writeln!(text, "  {words:<20} {}", command.about);
        }
    }
    text.push_str("\nFlags:\n");
    for flag in command.map_or(&[][..], |command| command.flags).iter().chain(PERSISTENT) {
        let short = flag.short.map_or("   ".to_owned(), |short| format!("-{short},"));
        let _ = writeln!(text, "  {short} --{:<14} {}", flag.long, flag.about);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn typed(line: &str) -> Typed {
        match read(&words(line)).unwrap() {
            Asked::Command(typed) => typed,
            Asked::Help(text, _) => panic!("{text}"),
        }
    }

    #[test]
    fn flags_are_read_in_all_their_forms() {
        for line in [
            "create cluster --name a --wait 1m30s",
            "-q create cluster -na --wait=90s -v 1",
            "create -q cluster -n=a --wait 1.5m",
        ] {
            let typed = typed(line);
            assert_eq!(
                (typed.act, typed.word("name"), typed.wait().as_secs()),
                (Act::CreateCluster, Some("a"), 90),
                "{line}"
            );
        }
        let typed = typed("delete clusters -A x --kubeconfig k y");
        assert_eq!((typed.has("all"), typed.arguments), (true, vec!["x".to_owned(), "y".to_owned()]));
    }

    #[test]
    fn mistakes_are_worded_as_kind_words_them() {
        for (line, words_of_kind) in [
            ("create cluster --foo", "unknown flag: --foo"),
            ("create cluster -x", "unknown shorthand flag: 'x' in -x"),
            ("create cluster --name", "flag needs an argument: --name"),
            ("create cluster a", "unknown command \"a\" for \"kind create cluster\""),
            ("frobnicate", "unknown command \"frobnicate\" for \"kind\""),
            (
                "create cluster --wait 5",
                "invalid argument \"5\" for \"--wait\" flag: time: missing unit in duration \"5\"",
            ),
            ("create cluster --wait x", "invalid argument \"x\" for \"--wait\" flag: time: invalid duration \"x\""),
            ("delete clusters", "no cluster names provided"),
            ("load docker-image", "a list of image names is required"),
            ("export logs a b", "accepts at most 1 arg(s), received 2"),
            ("completion bash", NO_COMPLETION),
            ("build node-image .", NO_IMAGES),
        ] {
            assert_eq!(read(&words(line)).unwrap_err(), words_of_kind, "{line}");
        }
    }

    #[test]
    fn a_command_that_is_not_whole_is_helped() {
        for (line, error) in [
            ("", None),
            ("get", Some("Subcommand is required")),
            ("get pods", Some("Subcommand is required")),
            ("get nodes --help", None),
        ] {
            let Asked::Help(text, found) = read(&words(line)).unwrap() else { panic!("{line}") };
            assert!(text.contains("Usage:"), "{text}");
            assert_eq!(found.as_deref(), error, "{line}");
        }
    }

    #[test]
    fn quiet_is_known_before_the_rest_is() {
        assert!(is_quiet(&words("create cluster --foo -q")) && !is_quiet(&words("get clusters -- -q")));
    }
}
