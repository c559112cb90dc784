//! What was read of a cluster, as a file: one line of JSON about the whole, then one for each object.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::captured::Captured;
use crate::kinds::{AUTOSCALER_STATUS, KINDS, Kind};
use crate::sanitise::sanitised;

/// The name of the file in the folder of a captured lab.
pub const FILE: &str = "capture.jsonl";
/// The version of the format.
const SCHEMA: &str = "klab.capture/1";

/// What was read of a cluster. Equal clusters give equal captures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Capture {
    /// The cluster's Kubernetes version, such as `v1.36.2`, where its API server says it.
    pub version: Option<String>,
    /// The objects, sorted by kind in the order of [`KINDS`], namespace and name.
    pub objects: Vec<Captured>,
    /// What could not be read.
    pub gaps: Vec<Gap>,
}

/// A kind of objects that could not be read, or not of all namespaces, or that changed meanwhile.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gap {
    /// The kind, by its plural.
    pub kind: String,
    /// The only namespace that was read; none where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What of it moved while the cluster was read, in words; none where it may not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<String>,
}

/// The only namespace that was read, if any was, and what that leaves open.
type Extent<'a> = (Option<&'a str>, &'a str);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Header {
    schema: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kubernetes: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<Gap>,
}

/// Why a text is no capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It does not begin as one.
    #[error("the first line is not that of a capture of this version of klab (`{SCHEMA}`): {0}")]
    Header(String),
    /// A line is not an object that a capture holds.
    #[error("line {line}: {problem}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
}

impl Capture {
    /// Takes in the objects of a kind, as its list has them. What placement does not depend on is left out.
    pub fn add<'a>(&mut self, kind: &'static Kind, items: impl IntoIterator<Item = &'a Value>) {
        let kept = items.into_iter().filter_map(|item| sanitised(kind, item));
        self.objects.extend(kept.map(|item| Captured::of(kind, &item)));
    }

    /// Puts the objects into their order, after the last was added, each once.
    pub fn finish(&mut self) {
        self.objects.sort_by(|one, other| one.place().cmp(&other.place()));
        self.objects.dedup_by(|one, other| one.place() == other.place());
    }

    /// What could not be read, and what that leaves open, in sentences: kinds that leave the same open are together.
    pub fn gap_words(&self) -> Vec<String> {
        let mut groups: Vec<(Extent<'_>, Vec<&str>)> = Vec::new();
        for gap in self.gaps.iter().filter(|gap| gap.moved.is_none()) {
            let kind = KINDS.iter().find(|kind| kind.plural == gap.kind);
            let open = match kind {
                Some(kind) => kind.leaves_open,
                None if gap.kind == AUTOSCALER_STATUS => "klab does not know which pools grow by themselves",
                None => "klab does not know what that changes",
            };
            match groups.iter_mut().find(|(group, _)| *group == (gap.namespace.as_deref(), open)) {
                Some((_, kinds)) => kinds.push(&gap.kind),
                None => groups.push(((gap.namespace.as_deref(), open), vec![&gap.kind])),
            }
        }
        let words = |((namespace, open), kinds): (Extent<'_>, Vec<&str>)| {
            let kinds = kinds.join(", ");
            match namespace {
                Some(namespace) => {
                    format!("you may read {kinds} in namespace {namespace} alone; without the others {open}")
                }
                None => format!("you may not read {kinds}; without them {open}"),
            }
        };
        let moved = self.gaps.iter().filter_map(|gap| gap.moved.as_ref());
        let moved = moved.map(|moved| format!("the cluster changed while klab read it: {moved}"));
        groups.into_iter().map(words).chain(moved).collect()
    }

    /// The objects of a kind, by its `kind`.
    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Captured> {
        self.objects.iter().filter(move |object| object.kind.kind == kind)
    }

    /// The trees of the objects of a kind.
    pub fn values<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = Value> {
        self.of(kind).map(Captured::value)
    }

    /// The objects without pods that were bound to nodes which were not there when nodes were read: the cluster changed in between.
    pub(crate) fn untorn(&self) -> impl Iterator<Item = &Captured> {
        let nodes: BTreeSet<&str> = self.of("Node").map(|node| &*node.name).collect();
        let is_there = move |object: &&Captured| object.node.as_ref().is_none_or(|node| nodes.contains(&**node));
        self.objects.iter().filter(is_there)
    }

    /// The latest moment that the objects speak of: what the copy's clock shows.
    pub fn moment(&self) -> Option<Timestamp> {
        self.objects.iter().filter_map(|object| object.moment).max()
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let header = Header { schema: SCHEMA.to_owned(), kubernetes: self.version.clone(), gaps: self.gaps.clone() };
        let header = serde_json::to_string(&header).unwrap_or_default();
        let objects = self.objects.iter().map(|object| &*object.text);
        let lines: Vec<&str> = std::iter::once(&*header).chain(objects).chain([""]).collect();
        lines.join("\n")
    }

    /// Reads the text of a file. Fields that a capture does not keep are left out.
    ///
    /// # Errors
    /// [`CaptureError`] where it is another text.
    pub fn read(text: &str) -> Result<Self, CaptureError> {
        let mut lines = text.lines().enumerate();
        let first = lines.next().map_or("", |(_, line)| line);
        let header: Header = serde_json::from_str(first).map_err(|error| CaptureError::Header(error.to_string()))?;
        if header.schema != SCHEMA {
            return Err(CaptureError::Header(format!("it says `{}`", header.schema)));
        }
        let mut capture = Self { version: header.kubernetes, gaps: header.gaps, ..Self::default() };
        for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |problem: String| CaptureError::Line { line: number + 1, problem };
            let object: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            let kind = Kind::of(&object)
                .ok_or_else(|| wrong(format!("a capture holds no {} of {}", object["kind"], object["apiVersion"])))?;
            capture.add(kind, [&object]);
        }
        capture.finish();
        Ok(capture)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn capture() -> Capture {
        let mut capture = Capture {
            version: Some("v1.36.2".to_owned()),
            gaps: vec![Gap { kind: "services".to_owned(), namespace: Some("team".to_owned()), moved: None }],
            ..Capture::default()
        };
        let kind = |plural: &str| KINDS.iter().find(|kind| kind.plural == plural).unwrap();
        let pod = |name: &str, node: &str| {
            json!({
                "metadata": { "name": name, "namespace": "team", "creationTimestamp": "2026-06-01T08:00:00Z" },
                "spec": { "nodeName": node }, "status": { "startTime": "2026-06-01T08:00:05Z" },
            })
        };
        capture.add(kind("nodes"), &[json!({ "metadata": { "name": "n" } })]);
        capture.add(kind("pods"), &[pod("b", "n"), pod("a", "gone"), pod("b", "n")]);
        capture.finish();
        capture
    }

    #[test]
    fn a_text_gives_the_capture_it_was_made_of() {
        let capture = capture();
        assert_eq!(capture.objects.len(), 3, "each object once");
        assert_eq!(Capture::read(&capture.text()).unwrap(), capture);
        assert_eq!(capture.untorn().map(Captured::path).collect::<Vec<_>>(), ["team/b", "n"]);
        assert_eq!(capture.moment().unwrap().to_string(), "2026-06-01T08:00:05Z");
        let gap = |kind: &str| Gap { kind: kind.to_owned(), ..Gap::default() };
        let mut partly = capture.clone();
        partly.gaps.extend([gap("persistentvolumes"), gap("storageclasses")]);
        assert_eq!(
            partly.gap_words(),
            [
                "you may read services in namespace team alone; without the others pods spread by default over other nodes",
                "you may not read persistentvolumes, storageclasses; without them pods with volumes may go to other zones and nodes",
            ]
        );
    }

    #[test]
    fn other_texts_are_refused_with_their_line() {
        for (text, problem) in [
            ("", "the first line is not that of a capture"),
            ("{\"schema\":\"klab.capture/9\"}", "it says `klab.capture/9`"),
            ("{\"schema\":\"klab.capture/1\"}\n{", "line 2: EOF while parsing"),
            (
                "{\"schema\":\"klab.capture/1\"}\n\n{\"kind\":\"Secret\",\"apiVersion\":\"v1\"}",
                "line 3: a capture holds no \"Secret\" of \"v1\"",
            ),
        ] {
            let error = Capture::read(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
