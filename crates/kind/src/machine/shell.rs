//! A shell on a node: lists, pipes, words and redirections of what is typed there.

use std::collections::BTreeMap;

use super::files::{Files, Found, full};
use super::script::{Command, Part, Pipeline, Redirect, When, Word, parse};
use super::surroundings::{Output, Outside, Place};

/// Most commands of a script, how deep scripts may be in each other, and most bytes that one prints.
const MAX_COMMANDS: usize = 1000;
const MAX_DEPTH: usize = 24;
const MAX_OUTPUT: usize = 4 << 20;

/// How it goes on after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Exit(u8),
}

/// A shell at work.
pub(super) struct Shell<'a> {
    pub(super) place: Place<'a>,
    pub(super) files: Files,
    pub(super) folder: String,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) kubelet_is_stopped: bool,
    pub(super) exits_on_failure: bool,
    pub(super) outside: &'a mut dyn Outside,
    program: Program,
    commands: usize,
    depth: usize,
}

/// What runs a program with its input.
pub(super) type Program = fn(&mut Shell<'_>, &[String], &str, &mut Output) -> Result<Flow, String>;

impl<'a> Shell<'a> {
    pub(super) fn new(
        place: Place<'a>,
        files: Files,
        kubelet_is_stopped: bool,
        outside: &'a mut dyn Outside,
        program: Program,
    ) -> Self {
        let variables = [("HOME", "/root"), ("HOSTNAME", place.node), ("USER", "root")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let folder = place.folder.to_owned();
        Self {
            place,
            files,
            folder,
            variables,
            kubelet_is_stopped,
            exits_on_failure: false,
            outside,
            program,
            commands: 0,
            depth: 0,
        }
    }

    pub(super) fn full(&self, path: &str) -> String {
        full(&self.folder, path)
    }

    /// Runs a script; its last command's code is in `output`.
    ///
    /// # Errors
    /// What of it is not certain.
    pub(super) fn script(&mut self, text: &str, input: &str, output: &mut Output) -> Result<Flow, String> {
        if self.depth >= MAX_DEPTH {
            return Err(format!("scripts that are {MAX_DEPTH} deep in each other are not followed on a node"));
        }
        self.depth = self.depth.saturating_add(1);
        let flow = self.pipelines(text, input, output);
        self.depth = self.depth.saturating_sub(1);
        flow
    }

    fn pipelines(&mut self, text: &str, input: &str, output: &mut Output) -> Result<Flow, String> {
        for pipeline in parse(text)? {
            let succeeded = output.code == 0;
            let runs = match pipeline.when {
                When::Always => true,
                When::And => succeeded,
                When::Or => !succeeded,
            };
            if !runs {
                continue;
            }
            if let Flow::Exit(code) = self.pipeline(&pipeline, input, output)? {
                output.code = code;
                return Ok(Flow::Exit(code));
            }
            if output.code != 0 && self.exits_on_failure && !pipeline.negated {
                return Ok(Flow::Exit(output.code));
            }
        }
        Ok(Flow::Next)
    }

    fn pipeline(&mut self, pipeline: &Pipeline, input: &str, output: &mut Output) -> Result<Flow, String> {
        let mut text = input.to_owned();
        let mut flow = Flow::Next;
        let last = pipeline.commands.len().saturating_sub(1);
        for (at, command) in pipeline.commands.iter().enumerate() {
            let mut own = Output { code: output.code, ..Output::default() };
            flow = self.command(command, &text, &mut own)?;
            output.err.push_str(&own.err);
            output.code = own.code;
            if at == last {
                output.out.push_str(&own.out);
            }
            text = own.out;
        }
        if pipeline.negated {
            output.code = u8::from(output.code == 0);
        }
        if output.out.len() > MAX_OUTPUT {
            return Err("it prints more than klab keeps".to_owned());
        }
        // What a part of a pipe ends is itself.
        Ok(if last == 0 { flow } else { Flow::Next })
    }

    fn command(&mut self, command: &Command, input: &str, output: &mut Output) -> Result<Flow, String> {
        self.commands = self.commands.saturating_add(1);
        if self.commands > MAX_COMMANDS {
            return Err(format!("a script of more than {MAX_COMMANDS} commands is not followed on a node"));
        }
        let mut words = Vec::new();
        for word in &command.words {
            words.extend(self.words(word, output)?);
        }
        let mut given = match &command.input {
            Some(text) => self.text(text, output)?,
            None => input.to_owned(),
        };
        // Everything is known before anything is written.
        let mut assigned = Vec::new();
        for (name, value) in &command.assigned {
            assigned.push((name.clone(), self.text(value, output)?));
        }
        let mut targets = Vec::new();
        for redirect in &command.redirects {
            match redirect {
                Redirect::Read(path) => {
                    let path = self.text(path, output)?;
                    match self.files.find(&self.full(&path)) {
                        Found::File(text) => text.clone_into(&mut given),
                        _ => return Ok(failed(output, 1, &format!("bash: {path}: No such file or directory"))),
                    }
                }
                Redirect::Write { to, .. } => targets.push(self.text(to, output)?),
                _ => {}
            }
        }
        let mut own = Output::default();
        let mut before = Vec::new();
        for (name, value) in assigned {
            before.push((name.clone(), self.variables.insert(name, value)));
        }
        let mut flow = Flow::Next;
        if !words.is_empty() {
            own.code = output.code;
            flow = (self.program)(self, &words, &given, &mut own)?;
            // What stands before a command is its own.
            for (name, value) in before.into_iter().rev() {
                match value {
                    Some(value) => drop(self.variables.insert(name, value)),
                    None => drop(self.variables.remove(&name)),
                }
            }
        }
        self.redirect(command, targets, &mut own);
        output.out.push_str(&own.out);
        output.err.push_str(&own.err);
        output.code = own.code;
        Ok(flow)
    }

    /// Writes what a command printed to where it leads.
    fn redirect(&mut self, command: &Command, targets: Vec<String>, own: &mut Output) {
        let mut targets = targets.into_iter();
        for redirect in &command.redirects {
            match redirect {
                Redirect::Write { out, err, appends, .. } => {
                    let path = targets.next().unwrap_or_default();
                    let mut text = String::new();
                    if *out {
                        text.push_str(&std::mem::take(&mut own.out));
                    }
                    if *err {
                        text.push_str(&std::mem::take(&mut own.err));
                    }
                    if path == "/dev/null" {
                        continue;
                    }
                    if let Err(why) = self.files.write(&self.full(&path), &text, *appends) {
                        failed(own, 1, &format!("bash: {path}: {why}"));
                    }
                }
                Redirect::ErrToOut => own.out.push_str(&std::mem::take(&mut own.err)),
                Redirect::OutToErr => own.err.push_str(&std::mem::take(&mut own.out)),
                Redirect::Read(_) => {}
            }
        }
    }

    /// A word as one text.
    fn text(&mut self, word: &Word, output: &mut Output) -> Result<String, String> {
        let mut text = String::new();
        for part in word {
            text.push_str(&self.part(part, output)?);
        }
        Ok(text)
    }

    fn part(&mut self, part: &Part, output: &mut Output) -> Result<String, String> {
        match part {
            Part::Text(text, _) => Ok(text.clone()),
            Part::Variable(name, _) if name == "?" => Ok(output.code.to_string()),
            Part::Variable(name, _) if name == "PWD" => Ok(self.folder.clone()),
            Part::Variable(name, _) => Ok(self.variables.get(name).cloned().unwrap_or_default()),
            Part::Output(script, _) => {
                let mut own = Output::default();
                self.script(script, "", &mut own)?;
                output.err.push_str(&own.err);
                output.code = own.code;
                Ok(own.out.trim_end_matches('\n').to_owned())
            }
        }
    }

    /// The words that a word becomes.
    fn words(&mut self, word: &Word, output: &mut Output) -> Result<Vec<String>, String> {
        let mut words: Vec<String> = Vec::new();
        let (mut under_way, mut has_pattern) = (None::<String>, false);
        for part in word {
            let text = self.part(part, output)?;
            let is_split = matches!(part, Part::Variable(_, false) | Part::Output(_, false));
            has_pattern |= matches!(part, Part::Text(text, false) if text.contains(['*', '?']));
            if !is_split {
                under_way.get_or_insert_default().push_str(&text);
                continue;
            }
            let mut pieces = text.split_whitespace().peekable();
            while let Some(piece) = pieces.next() {
                under_way.get_or_insert_default().push_str(piece);
                if pieces.peek().is_some() {
                    words.extend(under_way.take());
                }
            }
        }
        words.extend(under_way);
        if !has_pattern {
            return Ok(words);
        }
        let mut found = Vec::new();
        for word in words {
            let names = self.matching(&word)?;
            if names.is_empty() { found.push(word) } else { found.extend(names) }
        }
        Ok(found)
    }

    /// The paths that a pattern means.
    fn matching(&self, pattern: &str) -> Result<Vec<String>, String> {
        let (folder, name) = pattern.rsplit_once('/').map_or(("", pattern), |(folder, name)| (folder, name));
        if folder.contains(['*', '?']) || pattern.contains('[') {
            return Err(format!("the pattern `{pattern}` is not followed on a node"));
        }
        let expression = regex::escape(name).replace(r"\*", ".*").replace(r"\?", ".");
        let expression = regex::Regex::new(&format!("^{expression}$")).map_err(|error| error.to_string())?;
        let within = self.full(if pattern.starts_with('/') && folder.is_empty() { "/" } else { folder });
        let names = self.files.names(&within);
        let names = names.into_iter().filter(|one| expression.is_match(one) && !one.starts_with('.'));
        Ok(names.map(|one| if pattern.contains('/') { format!("{folder}/{one}") } else { one.to_owned() }).collect())
    }
}

/// Notes that a command has failed.
pub(super) fn failed(output: &mut Output, code: u8, message: &str) -> Flow {
    output.err.push_str(message);
    output.err.push('\n');
    output.code = code;
    Flow::Next
}
