//! Commands that a kubelet runs beside a container's own, to see how it is: what comes of them as time goes by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;

use super::file::File;
use super::files::Made;
use super::output::Given;
use super::program::Program;
use super::run::follow;
use super::world::{End, World};

/// At so many times files may change before it is only looked whether the file is there that a command is about.
const MOST_TIMES: usize = 128;

/// Whether a command succeeds within its time, each outcome with the time from which it holds; the first holds from the
/// start. It finds the container's files as its program and executed commands have left them.
pub(crate) fn outcomes(command: &[&str], program: &Program, timeout: SignedDuration) -> Vec<(SignedDuration, bool)> {
    let (changes, made) = changes(program);
    let named = named(command, program);
    let mut there = named.filter(|path| made.contains(path)).map(|_| false);
    let mut world = program.world.clone();
    world.interventions = Arc::default();
    world.given = Given::default();
    // What the program is to make is not there before, wherever that is.
    let absent = made.into_iter().filter(|path| !world.files.is_known(path));
    let absent: Vec<_> = absent.map(|path| (path.to_owned(), None)).collect();
    world.files.take_over(&absent);
    let many = changes.len() > MOST_TIMES;
    let mut outcomes: Vec<(SignedDuration, bool)> = Vec::new();
    for (at, changes) in changes {
        there = changes.iter().rfind(|(path, _)| Some(*path) == named).map_or(there, |(_, made)| Some(made.is_some()));
        let succeeds = if many && at > SignedDuration::ZERO {
            there.unwrap_or(outcomes.last().is_some_and(|(_, last)| *last))
        } else {
            let changes: Vec<_> = changes.into_iter().map(|(path, made)| (path.to_owned(), made)).collect();
            world.files.take_over(&changes);
            succeeds(command, &world, timeout, there)
        };
        if outcomes.last().is_none_or(|(_, last)| *last != succeeds) {
            outcomes.push((at, succeeds));
        }
    }
    outcomes
}

/// What happens to files, by time.
type Changes<'a> = BTreeMap<SignedDuration, Vec<(&'a str, Option<Made>)>>;

/// What happens to files, from the start on, and those that the program is the first to make. What executed commands have
/// made is known whole; what the program makes, only that it is there.
fn changes(program: &Program) -> (Changes<'_>, BTreeSet<&str>) {
    let mut known: BTreeMap<(SignedDuration, &str), &Option<Made>> = BTreeMap::new();
    for intervention in &*program.world.interventions {
        known.extend(intervention.changes.iter().map(|(path, made)| ((intervention.at, path.as_str()), made)));
    }
    let mut changes = Changes::from([(SignedDuration::ZERO, Vec::new())]);
    let (mut seen, mut first) = (BTreeSet::new(), BTreeSet::new());
    for (at, path, there) in &program.course.files {
        let made = known.get(&(*at, path.as_str())).map(|made| (*made).clone());
        if seen.insert(path.as_str()) && made.is_none() {
            first.insert(path.as_str());
        }
        let file = || Some(Made::File(File { text: None, mode: 0o644, owner: None }));
        let made = made.unwrap_or_else(|| there.then(file).flatten());
        changes.entry(*at).or_default().push((path.as_str(), made));
    }
    (changes, first)
}

/// A file of the container's that the command is about.
fn named<'a>(command: &[&'a str], program: &Program) -> Option<&'a str> {
    let words =
        command.iter().flat_map(|word| word.split(|letter: char| letter.is_whitespace() || "[];&|".contains(letter)));
    words.into_iter().find(|word| program.course.has_file(word, SignedDuration::ZERO).is_some())
}

fn succeeds(command: &[&str], world: &World, timeout: SignedDuration, there: Option<bool>) -> bool {
    match follow(command, world).end {
        End::After(took, code) => code == 0 && took < timeout,
        End::Unknown(took, _) => took < timeout && there != Some(false),
        End::Never => false,
    }
}
