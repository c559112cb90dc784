//! Configurations as kube-scheduler v1.36.2 judges them: klab takes those that it takes, and refuses the others in its words.
//!
//! `KLAB_GOLDEN_CONFIGURATIONS=<file>` reads lines of the same form from another file.

#![expect(clippy::unwrap_used, reason = "a recording that cannot be read is a failed test")]

use std::io::Read as _;
use std::path::Path;

use klab_scheduler::Profiles;
use serde_json::Value;

/// Files of this form that are not packed may be read instead.
fn recorded() -> String {
    if let Some(other) = std::env::var_os("KLAB_GOLDEN_CONFIGURATIONS") {
        return std::fs::read_to_string(other).unwrap();
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/configurations/judged.jsonl.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// A problem without the way to the arguments of a plugin, which kube-scheduler gives for some plugins only.
fn without_place(problem: &str) -> String {
    const ARGUMENTS: &str = "profiles[0].pluginConfig[0].args.";
    let problem = problem.strip_prefix("profiles[0]: ").unwrap_or(problem);
    let problem = problem.rsplit_once("strict decoding error: ").map_or(problem, |(_, cause)| cause);
    let plugin = problem.strip_prefix("initializing plugin ").and_then(|rest| Some(rest.split_once("\": ")?.1));
    plugin.unwrap_or(problem).replace(ARGUMENTS, "").replace("[0].preference.", "[0].")
}

/// Whether klab says the same, or says it in its own words: of a value's type and of the API's version, it says what it reads;
/// of two profiles with one name, which ones these are.
fn same(recorded: &str, own: &str) -> bool {
    let causes = ["json: cannot unmarshal", "time: invalid duration"];
    let of_version = || recorded.split_once(" in scheme ").is_some_and(|(known, _)| own.starts_with(known));
    let of_names = || recorded.strip_suffix("{}").is_some_and(|known| own.starts_with(known));
    let of_type = || causes.iter().any(|cause| recorded.contains(cause)) && own.contains(": ");
    recorded == own || of_version() || of_names() || of_type()
}

#[test]
fn configurations_are_refused_in_upstreams_words() {
    let (mut refused, mut all) = (0, 0);
    for line in recorded().lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let recorded = case["problems"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut recorded: Vec<_> = recorded.map(without_place).collect();
        let own = Profiles::from_configuration(&case["configuration"]).err().map(|error| error.problems);
        let mut own: Vec<_> = own.unwrap_or_default().iter().map(|problem| without_place(problem)).collect();
        recorded.sort();
        own.sort();
        let agree = recorded.len() == own.len() && recorded.iter().zip(&own).all(|(one, other)| same(one, other));
        assert!(agree, "{}: kube-scheduler says {recorded:#?}, klab {own:#?}", case["id"]);
        refused += usize::from(!recorded.is_empty());
        all += 1;
    }
    assert!(refused >= 100 && all > refused, "{refused} of {all}");
}
