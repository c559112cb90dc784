//! The table of subcommands: for each the group in which help lists it, the formats it writes, and examples.

use std::fmt::Write as _;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command, ValueEnum};

use klab_operations::ui::Format;

/// For whom a subcommand is; help lists the groups in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// What everybody types.
    Heart,
    /// Those who go through a lesson.
    Learner,
    /// Those who write lab files.
    Author,
    /// Those who give labs to others, and look after machines.
    Instructor,
}

impl Group {
    const ALL: [Self; 4] = [Self::Heart, Self::Learner, Self::Author, Self::Instructor];

    /// The heading in help.
    const fn heading(self) -> &'static str {
        match self {
            Self::Heart => "Make a lab, check it, remove it",
            Self::Learner => "For learners",
            Self::Author => "For authors of labs",
            Self::Instructor => "For instructors and platforms (`klab up LAB --seats 30` makes a class)",
        }
    }
}

/// One subcommand.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) group: Group,
    /// What `--format` takes besides `human`.
    pub(super) formats: &'static [Format],
    examples: &'static [&'static str],
}

const NONE: &[Format] = &[];
const JSON: &[Format] = &[Format::Json];

const fn row(name: &'static str, group: Group, formats: &'static [Format], examples: &'static [&'static str]) -> Row {
    Row { name, group, formats, examples }
}

/// All subcommands, each once, in the order of help.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("up", Group::Heart, JSON, &[
        "klab up scheduling", "klab up lab.toml --provider kind", "klab up scheduling --seats 30",
    ]),
    row("verify", Group::Heart, &[Format::Json, Format::Junit, Format::Csv], &[
        "klab verify", "klab verify --watch", "klab verify scheduling --step taint", "klab verify --format junit",
        "klab verify scheduling --seats --format csv",
    ]),
    row("down", Group::Heart, JSON, &["klab down", "klab down scheduling", "klab down lab.toml --no-wait"]),

    row("guide", Group::Learner, JSON, &["klab guide", "klab guide --step taint", "klab guide scheduling --format json"]),
    row("step", Group::Learner, JSON, &["klab step", "klab step --to taint", "klab step --all", "klab step --back"]),
    row("explain", Group::Learner, JSON, &["klab explain web", "klab explain web-5d8c7-x2x4z -n default --lab scheduling"]),
    row("explain-code", Group::Learner, JSON, &["klab explain-code K0103", "klab explain-code"]),
    row("join", Group::Learner, JSON, &["klab join https://10.0.0.7:8443/#ca=0123 abcd-1234", "klab join labs.example.org abcd-1234 --name Ann"]),
    row("diff", Group::Learner, JSON, &["klab diff", "klab diff scheduling --step taint"]),
    row("reset", Group::Learner, JSON, &["klab reset", "klab reset --to taint", "klab reset scheduling --yes"]),
    row("shell", Group::Learner, NONE, &["klab shell", "klab shell scheduling --seat 7"]),
    row("env", Group::Learner, NONE, &["eval \"$(klab env)\"", "klab env scheduling --seat 7"]),
    row("pool", Group::Learner, JSON, &[
        "klab pool add extra --nodes 1 --size Standard_B2ms --labels workload=extra", "klab pool scale extra --nodes 3",
        "klab pool update extra --taints dedicated=special:NoSchedule", "klab pool delete extra", "klab pool list",
    ]),
    row("az", Group::Learner, NONE, &["klab az aks nodepool list --output table", "klab az aks nodepool add --name extra --node-count 1"]),
    row("kind", Group::Learner, NONE, &["klab kind create cluster --name demo --config kind.yaml", "klab kind delete cluster --name demo"]),
    row("status", Group::Learner, JSON, &["klab status", "klab status scheduling --format json"]),
    row("board", Group::Learner, &[Format::Json, Format::Svg, Format::Mermaid], &[
        "klab board", "klab board scheduling --save board.html", "klab board --format svg > board.svg",
    ]),
    row("watch", Group::Learner, NONE, &["klab watch", "klab watch scheduling"]),

    row("practice", Group::Learner, JSON, &["klab practice --track cka --minutes 20", "klab practice", "klab practice --end"]),
    row("next", Group::Learner, JSON, &["klab next"]),
    row("submit", Group::Learner, JSON, &["klab submit"]),

    row("lessons", Group::Author, JSON, &["klab lessons", "klab lessons --copy my-lessons"]),
    row("init", Group::Author, NONE, &["klab init", "klab init labs/taints.toml"]),
    row("import", Group::Author, NONE, &["klab import cka-lab-7", "klab import course/storage -o course/storage/storage.toml"]),
    row("check", Group::Author, JSON, &["klab check lab.toml", "klab check labs --provider aks", "klab check lab.toml --format json"]),
    row("plan", Group::Author, JSON, &["klab plan scheduling", "klab plan lab.toml --provider aks", "klab plan lab.toml --var seat=7"]),
    row("render", Group::Author, JSON, &[
        "klab render lab.toml", "klab render scheduling --workload web", "klab render lab.toml --step taint | kubectl apply -f -",
    ]),
    row("test", Group::Author, &[Format::Json, Format::Junit], &[
        "klab test lab.toml", "klab test labs --seeds 20", "klab test lab.toml --provider kind", "klab test labs --format junit > report.xml",
    ]),
    row("serve", Group::Author, NONE, &[
        "klab serve --ephemeral --nodes 3", "klab serve --ephemeral --kubeconfig kubeconfig --crds config/crd/bases --clock stepped",
        "klab serve --state-directory /var/lib/klab/server --port 6443",
    ]),
    row("schema", Group::Author, JSON, &["klab schema > lab.schema.json"]),

    row("host", Group::Instructor, JSON, &[
        "klab host scheduling", "klab host scheduling --listen 0.0.0.0:8443 --closes 4h", "klab host --resume",
    ]),
    row("capture", Group::Instructor, JSON, &["klab capture --context production -o production", "klab capture scheduling --check"]),
    row("whatif", Group::Instructor, &[Format::Json, Format::Junit, Format::Markdown], &[
        "klab whatif production --drain general", "klab whatif --context production --pool general=3 --scale deployment/web=30",
        "klab whatif production --apply manifests --format markdown",
    ]),
    row("fit", Group::Instructor, JSON, &["klab fit web.yaml --context production", "klab fit web.yaml production"]),
    row("survive", Group::Instructor, JSON, &["klab survive --context production", "klab survive production --format json"]),
    row("shrink", Group::Instructor, JSON, &["klab shrink --context production", "klab shrink production --cheapest"]),
    row("handout", Group::Instructor, JSON, &["klab handout scheduling --output pages", "klab handout scheduling --seat 7"]),
    row("kubeconfig", Group::Instructor, NONE, &[
        "klab kubeconfig scheduling --seat 7 > learner-07.yaml", "export KUBECONFIG=\"$(klab kubeconfig --path)\"",
    ]),
    row("list", Group::Instructor, JSON, &["klab list", "klab list --format json"]),
    row("pause", Group::Instructor, JSON, &["klab pause scheduling"]),
    row("resume", Group::Instructor, JSON, &["klab resume scheduling"]),
    row("gc", Group::Instructor, JSON, &["klab gc", "klab gc --all", "klab gc --yes"]),
    row("doctor", Group::Instructor, JSON, &["klab doctor", "klab doctor --format json"]),
    row("man", Group::Instructor, NONE, &["klab man /usr/local/share/man/man1"]),
    row("operate", Group::Instructor, NONE, &["klab operate scheduling operation.json"]),
    row("sandbox", Group::Instructor, NONE, &["klab sandbox --folder /tmp/console --port 6443 --report"]),
    row("completions", Group::Instructor, NONE, &[
        "source <(klab completions bash)", "source <(klab completions zsh)", "klab completions fish | source",
    ]),
];

/// The row of a subcommand.
pub(super) fn row_of(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// The headings of the groups, each with the names of its subcommands.
pub(super) fn groups() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let names = |group| ROWS.iter().filter(move |row| row.group == group).map(|row| row.name).collect();
    Group::ALL.into_iter().map(move |group| (group.heading(), names(group)))
}

/// The command line with what the table says of each subcommand: its group in the list, its formats, its examples.
pub(super) fn furnished(klab: Command, columns: usize) -> Command {
    let klab = with_examples(klab);
    let list = list(&klab, columns);
    klab.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}{{after-help}}"
    ))
}

/// The command line with what the table says of each subcommand, and clap's own list of them.
pub(super) fn with_examples(mut klab: Command) -> Command {
    for row in ROWS {
        klab = klab.mut_subcommand(row.name, |command| {
            command.arg(format_of(row)).after_help(format!("Examples:\n  {}", row.examples.join("\n  ")))
        });
    }
    klab
}

/// `--format` of one subcommand, which stands before the one of all: it names only what the subcommand writes.
fn format_of(row: &Row) -> Arg {
    let values = [Format::Human].iter().chain(row.formats).filter_map(Format::to_possible_value);
    // What a subcommand without a choice is asked for is refused later, in words.
    let all = Format::value_variants().iter().filter_map(Format::to_possible_value);
    let values: Vec<_> = if row.formats.is_empty() { all.collect() } else { values.collect() };
    Arg::new("format")
        .long("format")
        .global(true)
        .value_name("FORMAT")
        .default_value("human")
        .hide(row.formats.is_empty())
        .help("How results are written")
        .value_parser(PossibleValuesParser::new(values).try_map(|value| Format::from_str(&value, false)))
}

/// The subcommands under the headings of their groups, in lines of at most `columns`.
fn list(klab: &Command, columns: usize) -> String {
    let widest = ROWS.iter().map(|row| row.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for group in Group::ALL {
        let _ = writeln!(text, "{}:", group.heading());
        for row in ROWS.iter().filter(|row| row.group == group) {
            let Some(command) = klab.find_subcommand(row.name).filter(|command| !command.is_hide_set()) else {
                continue;
            };
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let indent = widest + 4;
            let mut lines = filled(&about, columns.saturating_sub(indent).max(20)).into_iter();
            let _ = writeln!(text, "  {:widest$}  {}", row.name, lines.next().unwrap_or_default());
            for line in lines {
                let _ = writeln!(text, "{:indent$}{line}", "");
            }
        }
        text.push('\n');
    }
    text
}

/// A text in lines of at most `columns`; a longer word has a line of its own.
fn filled(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;
    use klab_operations::invocation::Invocation;

    #[test]
    fn every_subcommand_is_in_exactly_one_group() {
        let klab = <Cli as CommandFactory>::command();
        let typed: BTreeSet<&str> = klab.get_subcommands().map(Command::get_name).collect();
        let rows: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(rows.iter().copied().collect::<BTreeSet<_>>(), typed);
        assert_eq!(rows.len(), typed.len(), "a subcommand has two rows");
    }

    #[test]
    fn every_example_can_be_typed() {
        let end = regex::Regex::new(r#"\)"?$| [|>] .*$"#).unwrap();
        for row in ROWS {
            assert!(!row.examples.is_empty(), "{} has no example", row.name);
            for example in row.examples {
                let start = example.find("klab ").unwrap_or_else(|| panic!("{example}"));
                let line = end.replace(&example[start..], "").into_owned();
                let words = line.split_whitespace();
                assert_eq!(words.clone().nth(1), Some(row.name), "{example}");
                if let Err(problem) = Cli::read(words, &Invocation::default()) {
                    panic!("{example}: {problem}");
                }
            }
        }
    }

    #[test]
    fn help_fits_into_the_terminal_and_lists_what_can_be_typed() {
        for columns in [40, 80, 100] {
            let klab = <Cli as CommandFactory>::command();
            let text = list(&klab, columns);
            for line in text.lines().filter(|line| line.starts_with(' ')) {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
            for command in klab.get_subcommands().filter(|command| !command.is_hide_set()) {
                assert!(text.lines().any(|line| line.split_whitespace().next() == Some(command.get_name())));
            }
        }
    }

    #[test]
    fn formats_are_offered_where_they_are_written() {
        for row in ROWS {
            let mut klab = Cli::whole();
            let help = klab.find_subcommand_mut(row.name).unwrap().render_long_help().to_string();
            for format in Format::value_variants().iter().filter(|format| **format != Format::Human) {
                let name = format.to_possible_value().unwrap().get_name().to_owned();
                let options = help.split("Examples:").next().unwrap();
                let offered = options.contains(&format!("- {name}:"));
                assert_eq!(offered, row.formats.contains(format), "{} {name}\n{help}", row.name);
            }
        }
    }
}
