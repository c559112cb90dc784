//! Recorded flows, as the files hold them.

use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// A recorded session.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) name: String,
    /// Minor version of the kubectl that recorded it.
    pub(crate) kubectl: String,
    /// File of the nodes, below the folder.
    pub(crate) nodes: String,
    pub(crate) steps: Vec<Step>,
    /// Request lists by line of the file, for references between steps.
    pub(crate) requests: Vec<Vec<Request>>,
}

#[derive(Debug, Deserialize)]
struct Header {
    flow: String,
    kubectl: String,
    nodes: String,
}

/// How a step is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Comparison {
    #[default]
    Exact,
    Unordered,
    Loose,
    Shape,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Step {
    pub(crate) argv: Option<Vec<String>>,
    pub(crate) stdin: Option<String>,
    pub(crate) env: std::collections::BTreeMap<String, String>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: Option<i32>,
    pub(crate) requests: Vec<Request>,
    pub(crate) interrupted: Option<String>,
    pub(crate) during: Vec<Step>,
    pub(crate) settle: Option<Vec<String>>,
    pub(crate) until: String,
    pub(crate) timeout_s: Option<f64>,
    pub(crate) sleep_ms: Option<u64>,
    pub(crate) fixture: Option<String>,
    pub(crate) http: Option<String>,
    pub(crate) note: Option<String>,
    pub(crate) compare: Comparison,
    pub(crate) stable_lines: Vec<String>,
    pub(crate) stderr_contains: Vec<String>,
    pub(crate) exit_varies: bool,
    pub(crate) node_any: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) headers: std::collections::BTreeMap<String, String>,
    pub(crate) body: Value,
    pub(crate) status: u16,
    pub(crate) response_content_type: Option<String>,
    pub(crate) response_body: Value,
}

impl Flow {
    /// About how long it takes.
    pub(crate) fn cost(&self) -> usize {
        let waiting: f64 = self
            .steps
            .iter()
            .map(|step| step.interrupted.as_ref().map_or(0.0, |_| 3.0) + step.settle.as_ref().map_or(0.0, |_| 1.0))
            .sum();
        self.steps.len() + waiting as usize
    }
}

/// All flows of a folder.
pub(crate) fn read_all(folder: &Path) -> Vec<Flow> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".jsonl") || path.to_string_lossy().ends_with(".jsonl.gz"))
        .collect();
    paths.sort();
    paths.iter().filter_map(|path| read(path)).collect()
}

/// A file as text; unpacked if its name ends in `.gz`.
pub(crate) fn read_text(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    text
}

/// A flow; `None` for files that hold something else.
fn read(path: &Path) -> Option<Flow> {
    let text = read_text(path);
    let mut lines = text.lines();
    let header: Header = serde_json::from_str(lines.next()?).ok()?;
    let steps: Vec<Step> = lines
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}: {line}", path.display())))
        .collect();
    let requests = std::iter::once(Vec::new()).chain(steps.iter().map(|step| step.requests.clone())).collect();
    Some(Flow { name: header.flow, kubectl: header.kubectl, nodes: header.nodes, steps, requests })
}
