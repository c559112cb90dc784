//! Practice: its tasks hold, reject what is not done or done wrongly, and are drawn, graded and removed through the binary.

use std::path::Path;
use std::time::Duration;

use klab_lab::spec::{Lab, LoadOptions, load};
use klab_operations::lesson_test::{EmbeddedTestCluster, Failure, Moment, Patience, run};
use serde_json::Value;

use crate::environment::Environment;
use crate::lesson::wrong::{done_otherwise, wrongs};

const FOLDER: &str = "labs/practice";

/// The names of the tasks.
fn tasks() -> Vec<String> {
    let files = std::fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn text_of(task: &str) -> String {
    std::fs::read_to_string(Path::new(FOLDER).join(task).with_extension("toml")).unwrap()
}

/// A task whose file says `text`.
fn lab(task: &str, text: &str) -> Lab {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("task.toml");
    std::fs::write(&file, text).unwrap();
    load(&file, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{task}: {problems}"))
}

/// Does what a task's file says; the moment that fails: its checks do not hold, or a drain comes to no end.
fn fails(lab: &Lab) -> Option<Moment> {
    let (seed, patience) = (1, Patience { set_up: Duration::from_mins(2), step: Duration::from_mins(2) });
    let trial = run(&EmbeddedTestCluster::new(seed).unwrap(), lab, seed, patience, false);
    match trial.failure {
        None => None,
        Some(Failure::Checks) => trial.phases.last().map(|phase| phase.moment.clone()),
        Some(Failure::Error { moment, .. }) => Some(moment),
    }
}

/// Calls `each` for all tasks, on two threads.
fn for_all(each: impl Fn(&str) + Sync) {
    let tasks = tasks();
    let (some, others) = tasks.split_at(tasks.len() / 2);
    std::thread::scope(|scope| {
        for part in [some, others] {
            scope.spawn(|| part.iter().for_each(|task| each(task)));
        }
    });
}

#[test]
fn tasks_say_what_they_are_about() {
    let tasks = tasks();
    assert!(tasks.len() >= 60, "{}", tasks.len());
    for task in tasks {
        let lab = lab(&task, &text_of(&task));
        assert_eq!(lab.name.value, task);
        let catalogue = &lab.catalogue;
        assert!(!catalogue.tracks.is_empty() && !catalogue.topics.is_empty() && catalogue.minutes.is_some(), "{task}");
        let [step] = &lab.steps[..] else { panic!("{task} has {} steps", lab.steps.len()) };
        assert!(step.text.is_some() && step.hint.is_some() && !step.checks.is_empty(), "{task}");
    }
}

#[test]
fn tasks_hold_once_they_are_done_and_not_before() {
    for_all(|task| {
        let mut lab = lab(task, &text_of(task));
        assert_eq!(fails(&lab), None, "{task}");
        lab.steps[0].actions.clear();
        assert_eq!(fails(&lab), Some(Moment::Step("task".to_owned())), "{task}: nothing was done");
    });
}

#[test]
fn plausible_wrong_solutions_of_tasks_are_rejected() {
    let wrongs = wrongs("tests/lessons/practice.toml");
    for_all(|task| {
        let mut tried = 0;
        for wrong in wrongs.iter().filter(|wrong| wrong["lesson"].as_str() == Some(task)) {
            let (text, why) = (done_otherwise(&text_of(task), "task", &wrong["do"]), wrong["why"].as_str().unwrap());
            assert_eq!(fails(&lab(task, &text)), Some(Moment::Step("task".to_owned())), "{task}: {why}");
            tried += 1;
        }
        assert!(tried > 0, "{task} has no wrong solution");
    });
}

/// The events that a command prints.
fn events(environment: &Environment, arguments: &[&str]) -> Vec<Value> {
    let shown = environment.run(&[arguments, &["--format", "json"]].concat());
    assert!(shown.status.success(), "{}", environment.shown(&shown));
    String::from_utf8(shown.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn only_the_history_is_left(environment: &Environment) {
    let mut left = environment.leftovers();
    left.retain(|file| !file.starts_with("lessons"));
    assert_eq!(left, ["practice", "practice/practice.json"]);
    assert_eq!(environment.server_pid(), None);
}

#[test]
fn a_learner_practises_and_nothing_is_left() {
    let environment = Environment::new();
    let first = events(&environment, &["practice", "--track", "cka", "--minutes", "15", "--draw", "1"]).remove(0);
    let name = |event: &Value| event["open"].as_str().unwrap().to_owned();
    let drawn = first["of"].as_u64().unwrap();
    assert!(first["number"] == 1 && drawn >= 2 && first["seconds_left"].as_u64().unwrap() > 840, "{first}");
    // The kubeconfig stays where it is, and leads to the open task.
    let server = || std::fs::read_to_string(first["kubeconfig"].as_str().unwrap()).unwrap();
    let before = server();
    assert_eq!(events(&environment, &["practice"])[0]["open"], first["open"]);
    let second = events(&environment, &["next"]).remove(0);
    assert_ne!(second["open"], first["open"]);
    assert_ne!(server(), before);
    // What is left undone and what is done.
    let [graded, third] = &events(&environment, &["submit"])[..] else { panic!("two events") };
    assert!(graded["task"]["held"].as_u64() < graded["task"]["checks"].as_u64(), "{graded}");
    assert_eq!(graded["report"]["checks"].as_array().unwrap().len() as u64, graded["task"]["checks"].as_u64().unwrap());
    // What holds counts, also beside what does not.
    for check in graded["report"]["checks"].as_array().unwrap() {
        let holds = check["conditions"].as_array().unwrap().iter().all(|condition| condition["holds"] == true);
        assert_eq!(check["verdict"] == "held", holds, "{check}");
    }
    environment.succeeds(&["step", &name(third)]);
    let graded = events(&environment, &["submit"]).remove(0);
    assert_eq!(graded["task"]["held"], graded["task"]["checks"], "{graded}");
    let end = events(&environment, &["practice", "--end"]).remove(0);
    assert_eq!((&end["ended"], &end["drawn"], &end["solved"]), (&true.into(), &drawn.into(), &1.into()), "{end}");
    assert_eq!(events(&environment, &["practice", "--history"])[0]["history"].as_array().unwrap().len(), 2);
    only_the_history_is_left(&environment);
}

#[test]
fn without_a_practice_there_is_nothing_to_grade_and_a_gone_cluster_is_made_again() {
    let environment = Environment::new();
    for command in [&["submit"][..], &["next"], &["practice", "--end"]] {
        let shown = environment.klab(command);
        assert!(shown.contains("no practice is under way") && shown.contains("--- status 2"), "{shown}");
    }
    let open = events(&environment, &["practice", "--minutes", "5"]).remove(0);
    let name = open["open"].as_str().unwrap();
    environment.succeeds(&["down", name]);
    let shown = environment.klab(&["submit"]);
    assert!(shown.contains("klab practice") && shown.contains("--- status"), "{shown}");
    assert_eq!(events(&environment, &["practice"])[0]["open"], name);
    environment.succeeds(&["status", name]);
    events(&environment, &["practice", "--end"]);
    only_the_history_is_left(&environment);
}
