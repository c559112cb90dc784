//! Pure: what a page shows, part by part, with the number of the change that brought each; and what it showed before.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use klab_lab::board::Move;

/// The number of a change, from 1.
pub type Number = u64;

/// Most bytes of parts that are kept of the past.
const PAST: usize = 32 << 20;
/// Most changes whose moves are kept: who comes back later sees no pods slide.
const MOVES: usize = 64;

/// A part as it was made by a change; none: it was taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    number: Number,
    html: Option<Arc<str>>,
}

/// A change, and when it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Moment {
    /// The number of the change.
    pub number: Number,
    /// Milliseconds since 1970.
    pub at: i64,
}

/// What a page shows now and showed at every moment that is still remembered.
#[derive(Debug, Default)]
pub struct Scene {
    /// The versions of each part, the oldest first.
    parts: BTreeMap<String, Vec<Version>>,
    moments: VecDeque<Moment>,
    moves: VecDeque<(Number, Arc<[Move]>)>,
    last: Number,
    bytes: usize,
    /// Most bytes of parts that are kept of the past, where that is said.
    past: Option<usize>,
}

/// What changed since somebody looked.
#[derive(Debug, Default, serde::Serialize)]
pub struct Changes {
    /// The number of the newest change.
    pub number: Number,
    /// When that was, in milliseconds since 1970.
    pub at: i64,
    /// The parts that are new or otherwise.
    pub parts: BTreeMap<String, Arc<str>>,
    /// The parts that are gone.
    pub gone: Vec<String>,
    /// Which pods moved.
    pub moves: Vec<Move>,
}

impl Scene {
    /// One that keeps no more bytes than this of its past, and numbers its changes from after this.
    pub fn keeping(past: usize, last: Number) -> Self {
        Self { past: Some(past), last, ..Self::default() }
    }

    /// Shows these parts, and no others, from now on; says whether any is otherwise than before.
    pub fn show(&mut self, parts: Vec<(String, String)>, moves: &[Move], at: i64) -> bool {
        let number = self.last.saturating_add(1);
        let mut changed = false;
        let mut there = std::collections::BTreeSet::new();
        for (name, html) in parts {
            changed |= self.put(&name, html);
            there.insert(name);
        }
        for (name, versions) in &mut self.parts {
            if !there.contains(name) && versions.last().is_some_and(|last| last.html.is_some()) {
                versions.push(Version { number, html: None });
                changed = true;
            }
        }
        if !changed {
            return false;
        }
        self.moment(at);
        if !moves.is_empty() {
            self.moves.push_back((number, moves.into()));
            if self.moves.len() > MOVES {
                self.moves.pop_front();
            }
        }
        self.forget();
        true
    }

    /// Shows one part otherwise; the others stay.
    pub fn show_part(&mut self, name: &str, html: String, at: i64) {
        if self.put(name, html) {
            self.moment(at);
            self.forget();
        }
    }

    /// Takes a part in, as of the next moment; says whether it is otherwise than before.
    fn put(&mut self, name: &str, html: String) -> bool {
        let number = self.last.saturating_add(1);
        let versions = self.parts.entry(name.to_owned()).or_default();
        if versions.last().is_some_and(|last| last.html.as_deref() == Some(html.as_str())) {
            return false;
        }
        self.bytes = self.bytes.saturating_add(html.len());
        versions.push(Version { number, html: Some(html.into()) });
        true
    }

    /// What was taken in is shown.
    fn moment(&mut self, at: i64) {
        self.last = self.last.saturating_add(1);
        self.moments.push_back(Moment { number: self.last, at });
    }

    /// Forgets the oldest moments until the past is small enough.
    fn forget(&mut self) {
        while self.bytes > self.past.unwrap_or(PAST) && self.moments.len() > 1 {
            // Many at once: each time all parts are gone through.
            let many = (self.moments.len() / 4).max(1);
            self.moments.drain(..many);
            let Some(first) = self.moments.front().map(|moment| moment.number) else { return };
            for versions in self.parts.values_mut() {
                let keep = versions.iter().rposition(|version| version.number <= first).unwrap_or(0);
                for version in versions.drain(..keep) {
                    self.bytes = self.bytes.saturating_sub(version.html.map_or(0, |html| html.len()));
                }
            }
            self.parts.retain(|_, versions| versions.iter().any(|version| version.html.is_some()));
        }
    }

    /// The number of the newest change.
    pub fn last(&self) -> Number {
        self.last
    }

    /// The moments that are remembered, the oldest first.
    pub fn moments(&self) -> impl Iterator<Item = Moment> + '_ {
        self.moments.iter().copied()
    }

    /// All parts as they were at a moment; the oldest that is remembered in place of one that is not.
    pub fn at(&self, number: Number) -> BTreeMap<&str, &Arc<str>> {
        let first = self.moments.front().map_or(0, |moment| moment.number);
        let number = number.max(first);
        let of = |versions: &'_ [Version]| versions.iter().rposition(|version| version.number <= number);
        self.parts
            .iter()
            .filter_map(|(name, versions)| Some((name.as_str(), versions[of(versions)?].html.as_ref()?)))
            .collect()
    }

    /// All parts as they were at a moment, as if nothing had been seen before; with what moved at it.
    pub fn whole_at(&self, number: Number) -> Changes {
        let moment = self.moments.iter().rev().find(|moment| moment.number <= number).or(self.moments.front());
        let number = moment.map_or(0, |moment| moment.number);
        let parts = self.at(number).into_iter().map(|(name, html)| (name.to_owned(), Arc::clone(html))).collect();
        let moves = self.moves.iter().filter(|(of, _)| *of == number).flat_map(|(_, moves)| moves.to_vec()).collect();
        Changes { number, at: moment.map_or(0, |moment| moment.at), parts, gone: Vec::new(), moves }
    }

    /// What changed after a change.
    pub fn since(&self, number: Number) -> Changes {
        let newest = self.parts.iter().filter_map(|(name, versions)| Some((name, versions.last()?)));
        let mut changes = Changes {
            number: self.last,
            at: self.moments.back().map_or(0, |moment| moment.at),
            moves: self.moves.iter().filter(|(of, _)| *of > number).flat_map(|(_, moves)| moves.to_vec()).collect(),
            ..Changes::default()
        };
        for (name, version) in newest.filter(|(_, version)| version.number > number) {
            match &version.html {
                Some(html) => {
                    changes.parts.insert(name.clone(), Arc::clone(html));
                }
                None => changes.gone.push(name.clone()),
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(parts: &[(&str, &str)]) -> Vec<(String, String)> {
        parts.iter().map(|(name, html)| ((*name).to_owned(), (*html).to_owned())).collect()
    }

    fn shown(scene: &Scene, number: Number) -> Vec<String> {
        scene.at(number).into_iter().map(|(name, html)| format!("{name}={html}")).collect()
    }

    #[test]
    fn every_moment_can_be_shown_again_and_who_was_away_gets_what_changed() {
        let mut scene = Scene::default();
        assert!(scene.show(parts(&[("a", "1"), ("b", "1")]), &[], 10));
        assert!(!scene.show(parts(&[("a", "1"), ("b", "1")]), &[], 20));
        assert!(scene.show(parts(&[("a", "2"), ("b", "1"), ("c", "1")]), &[], 30));
        assert!(scene.show(parts(&[("a", "2"), ("c", "1")]), &[], 40));
        assert!(scene.show(parts(&[("a", "2"), ("b", "3"), ("c", "1")]), &[], 50));
        assert_eq!(
            [1, 2, 3, 4].map(|number| shown(&scene, number).join(" ")),
            ["a=1 b=1", "a=2 b=1 c=1", "a=2 c=1", "a=2 b=3 c=1"]
        );
        let moments: Vec<(Number, i64)> = scene.moments().map(|moment| (moment.number, moment.at)).collect();
        assert_eq!(moments, [(1, 10), (2, 30), (3, 40), (4, 50)]);
        let since = |number| {
            let changes = scene.since(number);
            (
                changes.parts.into_keys().collect::<Vec<_>>().join(" "),
                changes.gone.join(" "),
                changes.number,
                changes.at,
            )
        };
        assert_eq!(since(0), ("a b c".to_owned(), String::new(), 4, 50));
        assert_eq!(since(2), ("b".to_owned(), String::new(), 4, 50));
        assert_eq!(since(4), (String::new(), String::new(), 4, 50));
    }

    #[test]
    fn one_part_changes_alone() {
        let mut scene = Scene::default();
        scene.show(parts(&[("a", "1"), ("silence", "")]), &[], 10);
        for _ in 0..2 {
            scene.show_part("silence", "nobody answers".to_owned(), 20);
        }
        assert_eq!((scene.last(), shown(&scene, 2).join(" ")), (2, "a=1 silence=nobody answers".to_owned()));
        assert_eq!(scene.since(1).parts.into_keys().collect::<Vec<_>>(), ["silence"]);
        assert_eq!(scene.moments().map(|moment| moment.at).collect::<Vec<_>>(), [10, 20]);
    }

    #[test]
    fn a_moment_is_shown_whole() {
        let mut scene = Scene::default();
        scene.show(parts(&[("a", "1")]), &[], 10);
        scene.show(parts(&[("a", "1"), ("b", "2")]), &[], 20);
        let whole = |number| {
            let changes = scene.whole_at(number);
            (changes.number, changes.at, changes.parts.into_keys().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(whole(1), (1, 10, "a".to_owned()));
        assert_eq!(whole(9), (2, 20, "a b".to_owned()));
        assert_eq!(whole(0), (1, 10, "a".to_owned()));
    }

    #[test]
    fn parts_that_went_are_told_and_moves_too() {
        let mut scene = Scene::default();
        let gone = Move {
            workload: "default/web".to_owned(),
            left: "default/web-1".to_owned(),
            from: Some("one".to_owned()),
            came: "default/web-2".to_owned(),
            to: None,
        };
        scene.show(parts(&[("a", "1"), ("b", "1")]), &[], 10);
        scene.show(parts(&[("a", "1")]), std::slice::from_ref(&gone), 20);
        let changes = scene.since(1);
        assert_eq!((changes.gone, changes.moves), (vec!["b".to_owned()], vec![gone]));
        assert!(scene.since(2).moves.is_empty());
    }

    #[test]
    fn the_past_has_a_bound_and_the_present_is_whole() {
        let mut scene = Scene::default();
        let large = "x".repeat(PAST / 8);
        for number in 0..40 {
            scene.show(parts(&[("still", "here"), ("large", &format!("{number}{large}"))]), &[], number);
        }
        assert!(scene.bytes <= PAST, "{}", scene.bytes);
        let first = scene.moments().next().unwrap();
        assert!(first.number > 30);
        // What is forgotten is shown as the oldest moment that is not.
        assert_eq!(scene.at(1)["large"], scene.at(first.number)["large"]);
        assert_eq!(&**scene.at(40)["still"], "here");
        assert!(scene.at(40)["large"].starts_with("39"));
    }
}
