//! Recorded flows, as the files hold them.

use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// A recorded session.
#[derive(Debug)]
pub struct Flow {
    pub name: String,
    /// Minor version of the kubectl that recorded it.
    pub kubectl: String,
    /// File of the nodes, below the folder.
    pub nodes: String,
    pub steps: Vec<Step>,
    /// Request lists by line of the file, for references between steps.
    pub requests: Vec<Vec<Request>>,
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
pub enum Comparison {
    #[default]
    Exact,
    Unordered,
    Loose,
    Shape,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Step {
    pub argv: Option<Vec<String>>,
    pub stdin: Option<String>,
    pub env: std::collections::BTreeMap<String, String>,
    pub stdout: String,
    pub stderr: String,
    pub exit: Option<i32>,
    pub requests: Vec<Request>,
    pub interrupted: Option<String>,
    pub during: Vec<Step>,
    pub settle: Option<Vec<String>>,
    pub until: String,
    pub timeout_s: Option<f64>,
    pub sleep_ms: Option<u64>,
    pub fixture: Option<String>,
    pub http: Option<String>,
    pub note: Option<String>,
    pub compare: Comparison,
    pub stable_lines: Vec<String>,
    pub stderr_contains: Vec<String>,
    pub exit_varies: bool,
    pub node_any: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: Option<String>,
    pub headers: std::collections::BTreeMap<String, String>,
    pub body: Value,
    pub status: u16,
    pub response_content_type: Option<String>,
    pub response_body: Value,
}

impl Flow {
    /// About how long it takes.
    pub fn cost(&self) -> usize {
        let waiting: f64 = self
            .steps
            .iter()
            .map(|step| step.interrupted.as_ref().map_or(0.0, |_| 3.0) + step.settle.as_ref().map_or(0.0, |_| 1.0))
            .sum();
        self.steps.len() + waiting as usize
    }
}

/// All flows of a folder.
pub fn read_all(folder: &Path) -> Vec<Flow> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".jsonl") || path.to_string_lossy().ends_with(".jsonl.gz"))
        .collect();
    paths.sort();
    paths.iter().filter_map(|path| read(path)).collect()
}

/// A file as text; unpacked if its name ends in `.gz`.
pub fn read_text(path: &Path) -> String {
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
