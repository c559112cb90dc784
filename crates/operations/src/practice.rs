//! Practice: which tasks are drawn for a learner, what came of them, and which topics come back because they went wrong.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::bundled_lessons::ShippedLesson;
use crate::error::Result;
use crate::state::Home;
use crate::state::home::{read_document, state_error};
use klab_lab::spec::{Topic, Track};
use klab_server::files::{create_private_folder, write_private};

/// What the file of a learner's practice holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Practice {
    /// Version of this form: `klab.practice/1`.
    pub schema: String,
    /// The practice that is under way.
    pub session: Option<Session>,
    /// Everything that was submitted, oldest first.
    pub history: Vec<Attempt>,
}

/// A practice that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// The track whose tasks are drawn; none: all of them.
    pub track: Option<Track>,
    /// How long it takes.
    pub minutes: u16,
    /// When it began.
    pub began: Timestamp,
    /// The tasks that are left, by the names of their labs; the first one is open.
    pub tasks: Vec<String>,
    /// When the first one was opened; none: its cluster is not made yet.
    pub opened: Option<Timestamp>,
    /// How many of the last entries of the history are of this practice.
    pub submitted: usize,
}

impl Session {
    /// How many tasks were drawn.
    pub fn drawn(&self) -> usize {
        self.submitted.saturating_add(self.tasks.len())
    }

    /// How much of its time is left.
    pub fn left(&self, now: Timestamp) -> Duration {
        let whole = Duration::from_secs(u64::from(self.minutes).saturating_mul(60));
        whole.saturating_sub(now.duration_since(self.began).try_into().unwrap_or_default())
    }
}

/// A task that was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// The name of its lab.
    pub task: String,
    /// What it practises.
    pub topics: Vec<Topic>,
    /// When it was submitted.
    pub at: Timestamp,
    /// How long the learner had it open.
    pub seconds: u64,
    /// How many checks held.
    pub held: usize,
    /// Of how many.
    pub checks: usize,
}

impl Attempt {
    /// Whether every check held.
    pub fn is_solved(&self) -> bool {
        self.held == self.checks
    }
}

const SCHEMA: &str = "klab.practice/1";
/// Minutes of a task that does not say how many it takes.
const MINUTES: u16 = 5;
/// How many attempts at a topic say whether it goes well.
const LATEST: usize = 5;

impl Default for Practice {
    /// Of who has not practised yet.
    fn default() -> Self {
        Self { schema: SCHEMA.to_owned(), session: None, history: Vec::new() }
    }
}

impl Practice {
    /// The folder of the practice.
    pub fn folder(home: &Home) -> PathBuf {
        home.root().join("practice")
    }

    /// Where the kubeconfig of the open task is, as long as a practice is under way.
    pub fn kubeconfig(home: &Home) -> PathBuf {
        Self::folder(home).join("kubeconfig")
    }

    /// What is known of the practice in this home.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn read(home: &Home) -> Result<Self> {
        Ok(read_document(&Self::folder(home).join("practice.json"))?.unwrap_or_default())
    }

    /// Writes it down.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, home: &Home) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other);
        let path = Self::folder(home).join("practice.json");
        text.and_then(|text| put(&path, &text)).map_err(|error| state_error(error, "write", &path))
    }

    /// Puts the kubeconfig of the open task where shells look for it.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write_kubeconfig(home: &Home, of: &Path) -> Result<PathBuf> {
        let path = Self::kubeconfig(home);
        let copied = std::fs::read(of).and_then(|text| put(&path, &text));
        copied.map(|()| path.clone()).map_err(|error| state_error(error, "write", &path))
    }

    /// What was submitted in the practice that is under way.
    pub fn submitted(&self) -> &[Attempt] {
        let count = self.session.as_ref().map_or(0, |session| session.submitted);
        self.history.get(self.history.len().saturating_sub(count)..).unwrap_or_default()
    }

    /// For each topic that was practised: how many of the latest attempts solved their task, and of how many.
    pub fn topics(&self) -> BTreeMap<Topic, (usize, usize)> {
        let mut topics: BTreeMap<Topic, (usize, usize)> = BTreeMap::new();
        for attempt in self.history.iter().rev() {
            for topic in &attempt.topics {
                let (solved, tried) = topics.entry(*topic).or_default();
                if *tried < LATEST {
                    *tried = tried.saturating_add(1);
                    *solved = solved.saturating_add(usize::from(attempt.is_solved()));
                }
            }
        }
        topics
    }

    /// Draws the tasks of a practice, in order: of a track, of as many minutes together, at least one. What went wrong comes
    /// more often, what was solved last time less. The same dice and history give the same tasks.
    pub fn draw<'t>(
        &self,
        tasks: &'t [ShippedLesson],
        track: Option<Track>,
        minutes: u16,
        dice: u64,
    ) -> Vec<&'t ShippedLesson> {
        let is_meant = |task: &&ShippedLesson| track.is_none_or(|track| task.catalogue.tracks.contains(&track));
        let topics = self.topics();
        let mut left: Vec<(u64, &ShippedLesson)> =
            tasks.iter().filter(is_meant).map(|task| (self.weight(task, &topics), task)).collect();
        let (mut drawn, mut free) = (Vec::new(), minutes);
        while !left.is_empty() {
            let total: u64 = left.iter().map(|(weight, _)| weight).sum();
            let mut hasher = DefaultHasher::new();
            (dice, left.len()).hash(&mut hasher);
            let mut ticket = hasher.finish().checked_rem(total).unwrap_or_default();
            let place = left.iter().position(|(weight, _)| {
                let is_drawn = ticket < *weight;
                ticket = ticket.saturating_sub(*weight);
                is_drawn
            });
            let (_, task) = left.swap_remove(place.unwrap_or_default());
            let needed = task.catalogue.minutes.unwrap_or(MINUTES);
            if drawn.is_empty() || needed <= free {
                free = free.saturating_sub(needed);
                drawn.push(task);
            }
        }
        drawn
    }

    /// How likely a task is drawn, compared with others.
    fn weight(&self, task: &ShippedLesson, topics: &BTreeMap<Topic, (usize, usize)>) -> u64 {
        let name = lab_name(task);
        let of_task = match self.history.iter().rev().find(|attempt| attempt.task == name) {
            Some(last) if last.is_solved() => 1,
            Some(_) => 12,
            None => 6,
        };
        let missed =
            |topic| topics.get(topic).map_or(0, |(solved, tried): &(usize, usize)| tried.saturating_sub(*solved));
        let worst = task.catalogue.topics.iter().map(missed).max().unwrap_or_default();
        u64::try_from(worst).unwrap_or_default().saturating_add(1).saturating_mul(of_task)
    }
}

/// What tasks are drawn by: this number, or one by chance.
pub fn dice(number: Option<u64>) -> u64 {
    number.unwrap_or_else(|| RandomState::new().build_hasher().finish())
}

/// The name of a task's lab.
pub fn lab_name(task: &ShippedLesson) -> &'static str {
    task.name.rsplit('/').next().unwrap_or(task.name)
}

/// Writes a file of the practice.
fn put(path: &Path, text: &[u8]) -> io::Result<()> {
    create_private_folder(path.parent().unwrap_or(Path::new(".")))?;
    write_private(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::Catalogue;

    fn task(name: &'static str, track: Track, topic: Topic, minutes: u16) -> ShippedLesson {
        let catalogue = Catalogue { tracks: vec![track], topics: vec![topic], minutes: Some(minutes) };
        ShippedLesson { name, title: name.to_owned(), steps: 1, catalogue }
    }

    fn tasks() -> Vec<ShippedLesson> {
        vec![
            task("practice/a", Track::Cka, Topic::Taints, 4),
            task("practice/b", Track::Cka, Topic::Spread, 4),
            task("practice/c", Track::Cka, Topic::Drain, 4),
            task("practice/d", Track::Aks, Topic::Pools, 4),
            task("practice/e", Track::Cka, Topic::Quotas, 30),
        ]
    }

    fn practice(history: &[(&str, Topic, usize)]) -> Practice {
        let attempt = |(task, topic, held): &(&str, Topic, usize)| Attempt {
            task: (*task).to_owned(),
            topics: vec![*topic],
            at: Timestamp::UNIX_EPOCH,
            seconds: 60,
            held: *held,
            checks: 2,
        };
        Practice { history: history.iter().map(attempt).collect(), ..Practice::default() }
    }

    fn names(practice: &Practice, track: Option<Track>, minutes: u16, dice: u64) -> Vec<&'static str> {
        practice.draw(&tasks(), track, minutes, dice).into_iter().map(lab_name).collect()
    }

    #[test]
    fn tasks_are_of_the_track_and_fit_into_the_time() {
        let fresh = practice(&[]);
        for dice in 0..50 {
            let drawn = names(&fresh, Some(Track::Cka), 8, dice);
            let long = drawn == ["e"];
            assert!(long || drawn.len() == 2 && drawn.iter().all(|name| ["a", "b", "c"].contains(name)), "{drawn:?}");
            assert_eq!(names(&fresh, Some(Track::Aks), 60, dice), ["d"]);
            assert_eq!(names(&fresh, None, 60, dice).len(), 5);
            assert_eq!(names(&fresh, None, 1, dice).len(), 1);
            assert_eq!(names(&fresh, None, 20, dice), names(&fresh, None, 20, dice));
        }
        assert!(
            (0..50).map(|dice| names(&fresh, None, 60, dice)).collect::<std::collections::BTreeSet<_>>().len() > 20
        );
    }

    #[test]
    fn what_went_wrong_comes_back_and_what_was_solved_comes_less() {
        let learnt = practice(&[("a", Topic::Taints, 0), ("b", Topic::Spread, 2), ("c", Topic::Drain, 2)]);
        let first = |name: &str| (0..600).filter(|dice| names(&learnt, Some(Track::Cka), 4, *dice)[0] == name).count();
        assert!(
            first("a") > 4 * first("b") && first("a") > 4 * first("c"),
            "{} {} {}",
            first("a"),
            first("b"),
            first("c")
        );
        assert_eq!(learnt.topics()[&Topic::Taints], (0, 1));
        // Of a topic, the latest attempts count.
        let mut better = vec![("a", Topic::Taints, 0); 3];
        better.extend([("a", Topic::Taints, 2); 5]);
        assert_eq!(practice(&better).topics()[&Topic::Taints], (5, 5));
    }
}
