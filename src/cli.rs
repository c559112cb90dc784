//! The command line: what can be typed, and which command it reaches.

mod subcommands;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::commands;
use klab_operations::context::Context;
use klab_operations::error::{Code, Error, Result};
use klab_operations::invocation::Invocation;
use klab_operations::ui::{self, Format};

/// Kubernetes scheduling labs from one TOML file: build the cluster, verify every pod's place, explain it, tear it down.
#[derive(Debug, Parser)]
#[command(
    name = "klab",
    version,
    max_term_width = 100,
    after_help = "`klab SUBCOMMAND --help` has examples.\n\n\
                  Exit codes: 0 done, 1 the lab does not hold, 2 usage or invalid lab, 3 something outside klab is missing, \
                  4 a step of the work failed (also: the result could not be written) or something is left behind, \
                  5 deadline passed, 130 interrupted, 141 stdout was closed"
)]
pub struct Cli {
    /// The format of results, where the subcommand has a choice.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
    /// Print only results and errors.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Print the requests to the cluster and the calls of other tools; twice for more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    #[command(subcommand)]
    command: Command,
    /// The subcommand's name.
    #[arg(skip)]
    name: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the lab: its cluster, its objects; wait until every check holds.
    Up(commands::up::Arguments),
    /// Check that every pod is where the lesson wants it, and explain each one that is not.
    Verify(commands::verify::Arguments),
    /// Test lessons: set-up, every step, every check, removal; many labs at a time, in this process.
    Test(commands::test::Arguments),
    /// Show the lesson: the next step, and what to type for it.
    Guide(commands::guide::Arguments),
    /// Perform the next step of the lesson, or undo the last one.
    Step(commands::step::Arguments),
    /// Remove everything the lab made, and check that nothing is left.
    Down(commands::down::Arguments),
    /// Stop a lab's machines so that they cost nothing (aks); everything in the cluster is kept.
    Pause(commands::pause::Arguments),
    /// Start the machines that `pause` stopped.
    Resume(commands::resume::Arguments),
    /// List labs in Azure whose `ttl` is over, and remove them.
    Gc(commands::gc::Arguments),
    /// Show what `up` would do: cluster, objects, predicted placement.
    Plan(commands::plan::Arguments),
    /// Show a lab's nodes and where its pods are.
    Status(commands::status::Arguments),
    /// Show the lab in a browser, live: nodes, pods, why pods are Pending, the lesson.
    Board(commands::board::Arguments),
    /// Watch the lab in the terminal: its board as it changes, the lesson, why pods are where they are.
    Watch(commands::watch::Arguments),
    /// Add, change and remove pools of a lab that is up.
    Pool(commands::pool::Arguments),
    /// Answer az's commands for labs that are not in Azure.
    Az(commands::az::Arguments),
    /// Answer kind's commands with embedded clusters, without Docker.
    Kind(commands::kind::Arguments),
    /// List the labs that are up.
    List(commands::list::Arguments),
    /// Explain why a pod is where it is, or why it has no node.
    Explain(commands::explain::Arguments),
    /// Explain the code of a message (K0103): its cause, an example, and the fix.
    ExplainCode(commands::explain_code::Arguments),
    /// Try changes on a copy of a cluster: which pods move, wait or are lost, which budgets block, what the nodes cost.
    Whatif(commands::whatif::Arguments),
    /// Count how many more pods like those of a file fit into a cluster, and say what there is too little of then.
    Fit(commands::fit::Arguments),
    /// Find which node, pool or zone of a cluster can fail, and which budgets block a drain.
    Survive(commands::survive::Arguments),
    /// Find the nodes of a cluster that can go, so that every pod has a place even after one more node is lost.
    Shrink(commands::shrink::Arguments),
    /// Read a cluster, without its secrets, into a folder that `whatif` takes.
    Capture(commands::capture::Arguments),
    /// Practise: tasks against the clock, drawn from those that come with klab.
    Practice(commands::practice::Arguments),
    /// Practice: leave the open task for later, and open the next one.
    Next,
    /// Practice: grade the open task, and open the next one.
    Submit,
    /// Print the manifests of a lab as YAML.
    Render(commands::render::Arguments),
    /// Check lab files without making anything.
    Check(commands::check::Arguments),
    /// List the lessons that come with klab, or write them out.
    Lessons(commands::lessons::Arguments),
    /// Write a commented lab file to begin with.
    Init(commands::init::Arguments),
    /// Write a lab file to begin with from a folder that was made for kind.
    Import(commands::import::Arguments),
    /// Show what differs between the cluster and the lab.
    Diff(commands::diff::Arguments),
    /// Bring the lab back to its set-up or to a step, and remove everything you added.
    Reset(commands::reset::Arguments),
    /// Open a shell in which kubectl is the lab's.
    Shell(commands::shell::Arguments),
    /// Print a lab's variables for a shell: `eval "$(klab env)"`.
    Env(commands::env::Arguments),
    /// Print a lab's kubeconfig, or where it is.
    Kubeconfig(commands::kubeconfig::Arguments),
    /// Host a class: people join over the network, and each gets a cluster of their own.
    Host(Box<commands::host::Arguments>),
    /// Join a class over the network: your seat is then a lab on this machine.
    Join(commands::join::Arguments),
    /// Write a page for each learner: where the cluster is, and the steps.
    Handout(commands::handout::Arguments),
    /// Check what this machine offers for labs.
    Doctor(commands::doctor::Arguments),
    /// Print the JSON Schema of lab files, for editors.
    Schema,
    /// Print completions for a shell.
    Completions(commands::completions::Arguments),
    /// Write the manual pages, for packages.
    #[command(hide = true)]
    Man(commands::man::Arguments),
    /// Serve a cluster to the tests of a program, in any language, while they run (`--ephemeral`).
    Serve(commands::serve::Arguments),
    /// Finish what `az … --no-wait` left open; az starts it.
    #[command(hide = true)]
    Operate(commands::operate::Arguments),
    /// The sandbox of the console that learners have at `klab host`.
    #[command(hide = true)]
    Sandbox(commands::sandbox::Arguments),
}

impl Cli {
    /// What was typed after `az`, where that is the command.
    pub fn az(&self) -> Option<&[std::ffi::OsString]> {
        match &self.command {
            Command::Az(arguments) => Some(&arguments.words),
            _ => None,
        }
    }

    /// What was typed after `kind`, where that is the command.
    pub fn kind(&self) -> Option<&[std::ffi::OsString]> {
        match &self.command {
            Command::Kind(arguments) => Some(&arguments.words),
            _ => None,
        }
    }

    /// What was typed after `sandbox`, where that is the command.
    pub fn sandbox(&self) -> Option<&commands::sandbox::Arguments> {
        match &self.command {
            Command::Sandbox(arguments) => Some(arguments),
            _ => None,
        }
    }

    /// What was typed after `serve --ephemeral`, where that is the command.
    pub fn ephemeral(&self) -> Option<&commands::serve::Arguments> {
        match &self.command {
            Command::Serve(arguments) if arguments.is_ephemeral() => Some(arguments),
            _ => None,
        }
    }

    /// The names of klab's commands.
    pub fn commands() -> impl Iterator<Item = &'static str> {
        subcommands::ROWS.iter().map(|row| row.name)
    }

    /// The groups in which help lists the commands: the heading of each, and the names.
    pub fn groups() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
        subcommands::groups()
    }

    /// The command line as it is: with groups, formats and examples.
    pub fn whole() -> clap::Command {
        subcommands::furnished(Self::command(), ui::columns())
    }

    /// The command line as manual pages have it: clap lists the subcommands, which help does by group.
    pub fn manual() -> clap::Command {
        subcommands::with_examples(Self::command())
    }

    /// Reads what was typed.
    ///
    /// # Errors
    /// What cannot be understood, or the help that was asked for.
    pub fn read(
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
        invocation: &Invocation,
    ) -> Result<Self, clap::Error> {
        let mut klab = Self::whole();
        if invocation.is_plugin() {
            klab = klab.bin_name(invocation.name());
        }
        let matches = klab.try_get_matches_from_mut(arguments)?;
        let mut cli = Self::from_arg_matches(&matches).map_err(|problem| problem.format(&mut klab))?;
        matches.subcommand_name().unwrap_or_default().clone_into(&mut cli.name);
        Ok(cli)
    }

    /// Refuses a format that the subcommand does not write.
    fn has_format(&self) -> Result<()> {
        let written = subcommands::row_of(&self.name).map_or(&[][..], |row| row.formats);
        let format = self.format.to_possible_value();
        let format = format.as_ref().map_or("", |value| value.get_name());
        if self.format != Format::Human && !written.contains(&self.format) {
            let message = format!("`klab {}` does not write `--format {format}`", self.name);
            let mut names: Vec<_> = written.iter().filter_map(ValueEnum::to_possible_value).collect();
            names.retain(|name| name.get_name() != "csv");
            let error = Error::message(Code::Format, message);
            return Err(match names.as_slice() {
                [] => error.hint("leave out `--format`: what it prints is for a shell or for other programs already"),
                [one] => error.hint(format!("`--format {}` works", one.get_name())),
                [rest @ .., last] => {
                    let rest: Vec<String> = rest.iter().map(|one| format!("`--format {}`", one.get_name())).collect();
                    error.hint(format!("{} and `--format {}` work", rest.join(", "), last.get_name()))
                }
            });
        }
        let of_class = matches!(&self.command, Command::Verify(arguments) if arguments.is_of_class());
        if self.format == Format::Csv && !of_class {
            return Err(Error::message(
                Code::Format,
                "CSV has a line for each seat of a class: only `klab verify --seats` writes it",
            )
            .hint("`--format json` and `--format junit` work for one lab"));
        }
        Ok(())
    }

    /// Runs the command.
    ///
    /// # Errors
    /// What the person who typed it must know.
    pub fn run(self, context: &mut Context) -> Result<()> {
        self.has_format()?;
        match self.command {
            Command::Up(arguments) => commands::up::run(context, arguments),
            Command::Verify(arguments) => commands::verify::run(context, &arguments),
            Command::Test(arguments) => commands::test::run(context, &arguments),
            Command::Guide(arguments) => commands::guide::run(context, &arguments),
            Command::Step(arguments) => commands::step::run(context, &arguments),
            Command::Down(arguments) => commands::down::run(context, &arguments),
            Command::Pause(arguments) => commands::pause::run(context, &arguments),
            Command::Resume(arguments) => commands::resume::run(context, &arguments),
            Command::Gc(arguments) => commands::gc::run(context, &arguments),
            Command::Plan(arguments) => commands::plan::run(context, arguments),
            Command::Status(arguments) => commands::status::run(context, &arguments),
            Command::Board(arguments) => commands::board::run(context, &arguments),
            Command::Watch(arguments) => commands::watch::run(context, &arguments),
            Command::Pool(arguments) => commands::pool::run(context, &arguments),
            // The caller asks [`Cli::az`] and [`Cli::sandbox`] first: the one has exit codes of az's own, the other no thread
            // beside it.
            Command::Az(_) | Command::Kind(_) | Command::Sandbox(_) => Ok(()),
            Command::List(arguments) => commands::list::run(context, &arguments),
            Command::Explain(arguments) => commands::explain::run(context, &arguments),
            Command::ExplainCode(arguments) => commands::explain_code::run(context, &arguments),
            Command::Whatif(arguments) => commands::whatif::run(context, &arguments),
            Command::Fit(arguments) => commands::fit::run(context, &arguments),
            Command::Survive(arguments) => commands::survive::run(context, &arguments),
            Command::Shrink(arguments) => commands::shrink::run(context, &arguments),
            Command::Capture(arguments) => commands::capture::run(context, &arguments),
            Command::Practice(arguments) => commands::practice::run(context, &arguments),
            Command::Next => commands::practice::next(context),
            Command::Submit => commands::practice::submit(context),
            Command::Render(arguments) => commands::render::run(context, &arguments),
            Command::Check(arguments) => commands::check::run(context, &arguments),
            Command::Lessons(arguments) => commands::lessons::run(context, &arguments),
            Command::Init(arguments) => commands::init::run(context, &arguments),
            Command::Import(arguments) => commands::import::run(context, &arguments),
            Command::Diff(arguments) => commands::diff::run(context, &arguments),
            Command::Reset(arguments) => commands::reset::run(context, &arguments),
            Command::Shell(arguments) => commands::shell::run(context, &arguments),
            Command::Env(arguments) => commands::env::run(context, &arguments),
            Command::Kubeconfig(arguments) => commands::kubeconfig::run(context, &arguments),
            Command::Host(arguments) => commands::host::run(context, &arguments),
            Command::Join(arguments) => commands::join::run(context, &arguments),
            Command::Handout(arguments) => commands::handout::run(context, &arguments),
            Command::Doctor(arguments) => commands::doctor::run(context, &arguments),
            Command::Schema => commands::schema::run(context),
            Command::Completions(arguments) => commands::completions::run(context, &arguments),
            Command::Man(arguments) => commands::man::run(&arguments, Self::manual()),
            Command::Serve(arguments) => commands::serve::run(&arguments),
            Command::Operate(arguments) => commands::operate::run(context, &arguments),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::error::ErrorKind;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::whole().debug_assert();
    }

    /// Every text for users that may show a command, but those that are made of the commands themselves.
    fn texts() -> Vec<PathBuf> {
        let mut texts = vec![PathBuf::from("README.md"), PathBuf::from("templates/handout.md.tera")];
        let mut folders = vec![PathBuf::from("docs"), PathBuf::from("labs")];
        while let Some(folder) = folders.pop() {
            for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                let is_text = path.extension().is_some_and(|ending| ending == "md" || ending == "toml");
                match path.is_dir() {
                    true if path.ends_with("look-up/commands") => {}
                    true => folders.push(path),
                    // Its example is a slip.
                    false if path.ends_with("codes/K0900.md") => {}
                    false if is_text => texts.push(path),
                    false => {}
                }
            }
        }
        texts
    }

    /// The command lines of klab in a text: in a line of a block, in back quotes, in `$(…)`; several of a line stand apart
    /// by two blanks.
    fn commands(text: &str) -> Vec<(usize, bool, String)> {
        let at = regex::Regex::new(r"(^ *|`|\$\(|&& |\| |  )(KLAB_[A-Z]+=\S+ )?klab [a-z][^`]*").unwrap();
        let end = regex::Regex::new(r"`|\)|  | [|#>&;]|;|, |\.( |$)|\\$").unwrap();
        let mut found = Vec::new();
        let mut fenced = false;
        for (number, line) in text.lines().enumerate() {
            fenced ^= line.starts_with("```");
            let is_block = fenced || line.starts_with("    ");
            let mut rest = line;
            while let Some(start) = at.find(rest) {
                let opening = &start.as_str()[..start.as_str().find("klab ").unwrap()];
                let begin = start.start() + opening.len();
                let after = &rest[begin..];
                let length = end.find(after).map_or(after.len(), |end| end.start());
                let command = after[..length].trim();
                let is_typed = is_block || opening.contains(['`', '(']);
                if is_typed && !command.contains(['…', '<', '[', '{']) {
                    found.push((number + 1, is_block, command.to_owned()));
                }
                rest = &after[length..];
            }
        }
        found
    }

    #[test]
    fn every_documented_command_can_be_typed() {
        let (mut count, mut wrong) = (0, Vec::new());
        for path in texts() {
            let text = std::fs::read_to_string(&path).unwrap();
            for (line, is_block, command) in commands(&text) {
                // Placeholders of numbers.
                let words =
                    command.split_whitespace().map(|word| if word == "N" { "3" } else { word.trim_matches('"') });
                count += 1;
                let Err(problem) = Cli::read(words, &Invocation::default()) else { continue };
                // In a sentence, a command may be named without what it is about.
                let incomplete =
                    [ErrorKind::MissingRequiredArgument, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand];
                let named = !is_block && incomplete.contains(&problem.kind());
                if problem.use_stderr() && !named {
                    wrong.push(format!("{}:{line}: `{command}`: {problem}", path.display()));
                }
            }
            for (at, _) in text.match_indices("$(klab kubeconfig") {
                let inside = text[at..].split(')').next().unwrap();
                assert!(inside.contains("--path"), "{}: `{inside})` gives a text for a path", path.display());
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(count > 100, "only {count} commands were found");
    }
}
