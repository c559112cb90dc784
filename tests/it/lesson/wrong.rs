//! Plausible wrong solutions of the lessons, which their checks must reject at that very step.

use std::fs;
use std::path::Path;
use std::time::Duration;

use klab_lab::spec::{LoadOptions, load};
use klab_operations::lesson_test::{EmbeddedTestCluster, Failure, Moment, Patience, run};

#[test]
fn plausible_wrong_solutions_are_rejected_at_their_step() {
    let wrongs = wrongs("tests/lessons/wrong.toml");
    std::thread::scope(|scope| {
        for wrong in &wrongs {
            scope.spawn(|| rejects(wrong));
        }
    });
    let labs =
        ["devices", "drain", "hpa", "noexecute", "pending", "placeholders", "priority", "share", "spread", "volumes"];
    for lab in labs {
        let of_lab = wrongs.iter().filter(|wrong| wrong["lesson"].as_str() == Some(lab)).count();
        assert!(of_lab >= 2, "{lab} has {of_lab} wrong solutions");
    }
}

/// The wrong solutions of a file.
pub(crate) fn wrongs(file: &str) -> Vec<toml::Value> {
    let all: toml::Table = fs::read_to_string(file).unwrap().parse().unwrap();
    all["wrong"].as_array().unwrap().clone()
}

/// Goes through a lesson in which a step is done in the wrong way.
fn rejects(wrong: &toml::Value) {
    let text = |key: &str| wrong[key].as_str().unwrap();
    let (name, step) = (text("lesson"), text("step"));
    let folder = tempfile::tempdir().unwrap();
    let lab = fs::read_to_string(format!("labs/{name}.toml")).unwrap();
    let file = folder.path().join(format!("{name}.toml"));
    fs::write(&file, done_otherwise(&lab, step, &wrong["do"])).unwrap();
    let files = Path::new("labs").join(name);
    if files.is_dir() {
        fs::create_dir(folder.path().join(name)).unwrap();
        for file in fs::read_dir(files).unwrap().map(|entry| entry.unwrap().path()) {
            fs::copy(&file, folder.path().join(name).join(file.file_name().unwrap())).unwrap();
        }
    }
    let lab = load(&file, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{name}, {step}\n{problems}"));
    let (seed, patience) = (1, Patience { set_up: Duration::from_mins(10), step: Duration::from_mins(10) });
    let trial = run(&EmbeddedTestCluster::new(seed).unwrap(), &lab, seed, patience, false);
    let why = text("why");
    assert!(matches!(trial.failure, Some(Failure::Checks)), "{name}, {step} ({why}): {:?}", trial.failure);
    let at = trial.phases.last().map(|phase| phase.moment.clone());
    assert_eq!(at, Some(Moment::Step(step.to_owned())), "{why}");
}

/// A lab file in which a step does something else. The rest stays as it is written, with its order.
pub(crate) fn done_otherwise(lab: &str, step: &str, wrong: &toml::Value) -> String {
    let block = lab.find(&format!("[[step]]\nname  = \"{step}\"\n")).unwrap_or_else(|| panic!("no step {step}"));
    let begins = block + lab[block..].find("\ndo ").unwrap() + 1;
    let (mut depth, mut quoted) = (0, false);
    let ends = lab[begins..].char_indices().find(|(_, letter)| {
        match letter {
            '"' => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth -= 1,
            _ => return false,
        }
        depth == 0 && *letter == ']'
    });
    let ends = begins + ends.unwrap().0 + 1;
    format!("{}do = {wrong}{}", &lab[..begins], &lab[ends..])
}
