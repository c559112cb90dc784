//! The shipped labs: silent on every provider, and every step and check of them holds on the embedded cluster, as in the lab
//! that `klab init` writes.

use std::path::PathBuf;

use crate::environment::Environment;
use klab_lab::spec::{LoadOptions, Provider, load};
use klab_operations::render::render;

fn shipped() -> Vec<PathBuf> {
    let labs = std::fs::read_dir("labs").unwrap().map(|entry| entry.unwrap().path());
    let mut labs: Vec<_> = labs.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
    labs.sort();
    assert!(labs.len() >= 6, "{labs:?}");
    labs
}

#[test]
fn shipped_labs_are_silent_on_every_provider() {
    for path in shipped() {
        for provider in [Provider::Sim, Provider::Kind, Provider::Aks] {
            let options = LoadOptions { provider: Some(provider), ..LoadOptions::default() };
            let lab = load(&path, &options).unwrap_or_else(|problems| panic!("{provider}\n{problems}"));
            // Devices are those of drivers there, which the lab file cannot bring.
            let is_warned = path.ends_with("devices.toml") && provider != Provider::Sim;
            assert!(lab.warnings.is_empty() != is_warned, "{provider}\n{}", lab.warnings);
            render(&lab).unwrap_or_else(|problems| panic!("{provider}\n{problems}"));
            for step in &lab.steps {
                let told = [&step.title, &step.text, &step.hint].map(Option::is_some);
                assert_eq!(told, [true; 3], "{}: step `{}` tells a learner too little", path.display(), step.name);
                assert!(!step.checks.is_empty(), "{}: step `{}` checks nothing", path.display(), step.name);
            }
        }
    }
}

#[test]
fn only_what_a_provider_cannot_do_is_left_out() {
    let left_out = |name: &str, provider| {
        let options = LoadOptions { provider: Some(provider), ..LoadOptions::default() };
        let lab = load(&PathBuf::from("labs").join(name), &options).unwrap();
        lab.skipped_steps.iter().map(|skipped| skipped.step.name.value.clone()).collect::<Vec<_>>()
    };
    for path in shipped() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(left_out(&name, Provider::Sim), [""; 0], "{name}");
        let not_on_kind: &[&str] = match name.as_str() {
            "nodepools.toml" => &["grow", "maximum", "no-help", "shrink", "control-plane", "windows", "gpu"],
            "drain.toml" => &["upgrade"],
            "hpa.toml" => &["raise-the-pool"],
            "placeholders.toml" => &["cold", "refill", "maximum", "calm", "shrink"],
            "volumes.toml" => &["same-zone", "allowed", "allowed-one"],
            "devices.toml" => &[
                "claim",
                "pod",
                "cel",
                "class",
                "template",
                "full",
                "share",
                "back",
                "nic",
                "taint",
                "untolerated",
                "repair",
            ],
            _ => &[],
        };
        assert_eq!(left_out(&name, Provider::Kind), not_on_kind, "{name} on kind");
    }
    assert_eq!(left_out("scheduler.toml", Provider::Aks), [""; 0]);
    assert_eq!(left_out("nodepools.toml", Provider::Aks), ["gpu"]);
    let stopped = ["control-plane", "tolerate", "api-silent", "node-stops", "node-returns"];
    assert_eq!(left_out("anatomy.toml", Provider::Aks), stopped);
}

/// As `klab up --seats` makes them, with the variables, steps and node names of every provider.
#[test]
fn every_step_and_check_holds_as_a_seat_on_every_provider() {
    let environment = Environment::new();
    let folder = std::env::current_dir().unwrap();
    let labs: Vec<String> = shipped().iter().map(|lab| folder.join(lab).display().to_string()).collect();
    environment.succeeds(&["init", "first.toml"]);
    let mut arguments = vec!["test", "first.toml", "--as-seat"];
    arguments.extend(labs.iter().map(String::as_str));
    let said = environment.klab(&arguments);
    assert!(said.ends_with("--- status 0\n"), "{said}");
    assert_eq!(said.matches("✓ passed").count(), 3 * (shipped().len() + 1), "{said}");
    for how in ["scheduler-01 as on sim ", "scheduler-01 as on kind ", "scheduler-01 as on aks "] {
        assert!(said.contains(how), "{said}");
    }
}

#[test]
fn files_of_steps_are_found_beside_the_lab_from_anywhere() {
    let environment = Environment::new();
    let lab = r#"
        lab = "files"
        [pool.system]
        [[step]]
        name = "apply"
        do   = [{ apply = "own.yaml" }]
        [[step.check]]
        object = "configmap/own"
        exist  = 1
    "#;
    environment.write("course/files.toml", lab);
    let own = environment.write("course/own.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: own }\n");
    environment.succeeds(&["up", "course/files.toml"]);
    environment.succeeds(&["verify"]);
    let guide = environment.klab(&["guide"]);
    assert!(guide.contains("kubectl apply -f [FOLDER]/course/own.yaml"), "{guide}");
    std::fs::rename(&own, own.with_extension("old")).unwrap();
    let step = environment.klab(&["step"]);
    assert!(step.contains("there is nothing to apply for own.yaml") && step.ends_with("--- status 3\n"), "{step}");
    std::fs::rename(own.with_extension("old"), &own).unwrap();
    let step = environment.klab(&["step"]);
    assert!(step.contains("Applied own.yaml: 1 created") && step.ends_with("--- status 0\n"), "{step}");
    environment.succeeds(&["down"]);
}

/// The lessons are in the binary: no clone, no file is needed.
#[test]
fn shipped_lessons_are_named_listed_and_written_out() {
    let environment = Environment::new();
    let listed = environment.succeeds(&["lessons"]);
    for lesson in ["affinity", "anatomy", "nodepools", "scheduler", "scheduling", "taints"] {
        assert!(listed.lines().any(|line| line.starts_with(lesson)), "{listed}");
    }
    assert_eq!(environment.json(&["lessons"])["lessons"][0]["name"], "affinity");
    let written = environment.json(&["lessons", "--copy", "course"]);
    assert!(written["written"].as_array().unwrap().contains(&"course/affinity/quota.yaml".into()), "{written}");
    environment.succeeds(&["check", "course", "taints"]);
    assert!(environment.succeeds(&["render", "taints"]).contains("kind: Deployment"));
    environment.write("affinity/own.yaml", "");
    environment.succeeds(&["plan", "affinity"]);
    environment.succeeds(&["render", "affinity"]);
    environment.succeeds(&["up", "taints"]);
    environment.succeeds(&["verify", "taints"]);
    environment.succeeds(&["up", "taints"]);
    environment.succeeds(&["down"]);
    let unknown = environment.klab(&["up", "taint"]);
    assert!(unknown.contains("there is no file `taint`\nhint: did you mean `taints`, a lesson"), "{unknown}");
}
