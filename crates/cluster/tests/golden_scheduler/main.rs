//! The scheduler and its surroundings against scenarios recorded from a real Kubernetes v1.36.2 control plane.
//!
//! `KLAB_GOLDEN_SCENARIOS=<dir>` reads `*.jsonl` and `*.jsonl.gz` files of the same format from another directory, and
//! `KLAB_SCENARIO=<id>` replays one scenario.

#![expect(clippy::unwrap_used, reason = "a scenario that cannot be read is a failed test")]

mod matrix;
mod picture;
mod scenario;
mod world;

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn folder() -> PathBuf {
    std::env::var_os("KLAB_GOLDEN_SCENARIOS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/scheduler"), PathBuf::from)
}

/// The lines of a file, unpacked if its name ends in `.gz`.
fn lines(path: &Path) -> Vec<Value> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}
