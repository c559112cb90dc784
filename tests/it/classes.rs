//! Classes: seats of one lab, made, looked at, repaired, removed; what goes wrong with one touches no other.

use std::os::unix::process::ExitStatusExt;

use crate::environment::Environment;

const LAB: &str = r#"
lab = "class"
title = "A class"

[pool.main]
mode = "system"
nodes = 1
size = "Standard_B2ms"

[workload.web]
replicas = 1
image = "nginx:1.27"
requests = { cpu = "50m", memory = "64Mi" }

[[check]]
workload = "web"
running = 1

[[step]]
name = "scale"
title = "More pods"
text = "Scale `web` to three."
hint = "a secret of the author"
do = [{ scale = "web", replicas = 3 }]

[[step.check]]
workload = "web"
running = 3
"#;

fn environment() -> Environment {
    let environment = Environment::new();
    environment.write("class.toml", LAB);
    environment
}

#[test]
fn a_class_from_up_to_down() {
    let environment = environment();
    let up = environment.json(&["up", "class.toml", "--seats", "3"]);
    assert_eq!((&up["made"], &up["kept"], &up["failed"]), (&3.into(), &0.into(), &serde_json::json!([])));
    let kubeconfigs: Vec<String> = (1..=3)
        .map(|seat| {
            let path = environment.succeeds(&["kubeconfig", "class", "--seat", &seat.to_string(), "--path"]);
            std::fs::read_to_string(path.trim()).unwrap()
        })
        .collect();
    assert!(kubeconfigs[0] != kubeconfigs[1] && kubeconfigs[1] != kubeconfigs[2]);
    let linked = environment.home().join("labs/class/kubeconfigs/class-02");
    assert_eq!(std::fs::read_to_string(linked).unwrap(), kubeconfigs[1]);

    // One learner does the step; an instructor looks, and brings up one more seat and fewer: nobody loses anything.
    environment.succeeds(&["verify", "class-02"]);
    environment.succeeds(&["step", "class-02"]);
    let csv = environment.succeeds(&["verify", "--seats", "--format", "csv"]);
    insta::assert_snapshot!(csv, @"
    seat,lab,step,step_name,steps,held,total,ok,first_failing
    1,class-01,0,,1,1,1,true,
    2,class-02,1,scale,1,1,1,true,
    3,class-03,0,,1,1,1,true,
    ");
    let more = environment.json(&["up", "class.toml", "--seats", "4"]);
    assert_eq!((&more["made"], &more["kept"]), (&1.into(), &3.into()));
    let fewer = environment.json(&["up", "class.toml", "--seats", "2"]);
    assert_eq!((&fewer["kept"], &fewer["removed"]), (&2.into(), &2.into()));
    let status = environment.json(&["status"]);
    assert_eq!(status["seats"].as_array().unwrap().len(), 2);
    assert_eq!((&status["seats"][0]["running"], &status["seats"][1]["running"]), (&1.into(), &3.into()));
    let list = environment.json(&["list"]);
    assert_eq!((list["labs"].as_array().unwrap().len(), &list["labs"][0]["seats"]), (1, &2.into()));

    environment.succeeds(&["handout", "--output", "pages"]);
    let page = std::fs::read_to_string(environment.folder().join("pages/class-02.md")).unwrap();
    assert!(page.contains("# A class") && page.contains("Scale `web` to three."), "{page}");
    assert!(page.contains("labs/class-02/kubeconfig"), "{page}");
    assert!(!page.contains("token") && !page.contains("secret"), "{page}");

    environment.succeeds(&["down"]);
    environment.nothing_is_left();
}

#[test]
fn a_seat_that_fails_stops_no_other_and_is_taken_up_again_alone() {
    let environment = environment();
    // Something is in the way of the second seat.
    let obstacle = environment.write("home/labs/class-02", "not a folder");
    let output = environment.run(&["up", "class.toml", "--seats", "3"]);
    assert_eq!(output.status.code(), Some(4), "{}", environment.shown(&output));
    let words = environment.shown(&output);
    assert!(words.contains("1 seat of lab `class` could not be made: 2"), "{words}");
    assert!(
        words.contains(
            "this continues with them and leaves the others as they are:\n        klab up class.toml --seats 3"
        ),
        "{words}"
    );
    environment.succeeds(&["verify", "class-01"]);
    environment.succeeds(&["verify", "class-03"]);
    let look = environment.run(&["verify", "class", "--seats"]);
    assert_eq!(look.status.code(), Some(3), "{}", environment.shown(&look));

    std::fs::remove_file(obstacle).unwrap();
    let again = environment.json(&["up", "class.toml", "--seats", "3"]);
    assert_eq!((&again["made"], &again["kept"]), (&1.into(), &2.into()));
    // The others open the step, and do not do it.
    environment.succeeds(&["guide", "class-01"]);
    environment.succeeds(&["guide", "class-03"]);
    let look = environment.klab(&["verify", "--seats"]);
    assert!(look.contains("2 of 3 seats do not hold: 1, 3") && look.ends_with("--- status 1\n"), "{look}");
    environment.succeeds(&["down", "class"]);
    environment.nothing_is_left();
}

#[test]
fn a_class_is_no_lab_and_a_lab_no_class() {
    let environment = environment();
    environment.succeeds(&["up", "class.toml"]);
    let refused = environment.klab(&["up", "class.toml", "--seats", "2"]);
    assert!(refused.contains("lab `class` is up on `sim`, without seats") && refused.contains("status 2"), "{refused}");
    assert!(environment.klab(&["verify", "--seats"]).contains("lab `class` has no seats"));
    environment.succeeds(&["down"]);
    environment.succeeds(&["up", "class.toml", "--seats", "1"]);
    for arguments in [&["up", "class.toml"][..], &["verify"], &["step"], &["kubeconfig"], &["explain", "web"]] {
        let refused = environment.klab(arguments);
        assert!(refused.contains("lab `class` is a class with 1 seat") && refused.contains("`class-01`"), "{refused}");
    }
    assert!(environment.klab(&["kubeconfig", "--seat", "2"]).contains("has no seat 2"));
    assert!(environment.klab(&["list", "--format", "csv"]).contains("invalid value 'csv' for '--format <FORMAT>'"));
    environment.succeeds(&["down"]);
    environment.nothing_is_left();
}

#[test]
fn killed_at_any_entry_a_class_converges_or_goes() {
    for entry in 1.. {
        let environment = environment();
        let mut command = environment.command(&["up", "class.toml", "--seats", "2", "-j", "2"]);
        let output = command.env("KLAB_FAULT", format!("after:{entry}")).output().unwrap();
        if output.status.success() {
            assert!(entry > 4, "{entry}");
            environment.succeeds(&["down"]);
            break;
        }
        assert_eq!(output.status.signal(), Some(9), "{}", environment.shown(&output));
        if entry % 2 == 0 {
            environment.succeeds(&["up", "class.toml", "--seats", "2"]);
            environment.succeeds(&["verify", "--seats"]);
        }
        environment.succeeds(&["down", "class"]);
        environment.nothing_is_left();
    }
}

#[test]
fn what_a_seat_renders_is_for_that_seat() {
    let environment = Environment::new();
    let pinned = "[workload.pinned]\ndeferred = true\nkind = \"pod\"\nnode_name = \"pool:main\"\n[[check]]";
    let lab =
        LAB.replacen("[[check]]", pinned, 1).replace("{ scale = \"web\", replicas = 3 }", "{ deploy = \"pinned\" }");
    environment
        .write("class.toml", lab.replace("workload = \"web\"\nrunning = 3", "workload = \"pinned\"\nrunning = 1"));
    environment.succeeds(&["up", "class.toml", "--seats", "2"]);
    environment.succeeds(&["guide", "class-02"]);
    let guide = environment.succeeds(&["guide", "class-02", "--step", "scale"]);
    assert!(guide.contains("klab render class-02 --workload pinned | kubectl apply -f -"), "{guide}");
    let rendered = environment.succeeds(&["render", "class-02", "--workload", "pinned"]);
    let of_seat = environment.json(&["status", "class-02"])["nodes"].to_string();
    let node = rendered.lines().find_map(|line| line.trim().strip_prefix("nodeName: ")).unwrap();
    assert!(of_seat.contains(node), "{node}: {of_seat}");
    assert!(rendered.contains("klab.dev/lab: class-02"), "{rendered}");
    environment.succeeds(&["step", "class-02"]);
    environment.succeeds(&["down"]);
}

/// What klab was about to do for a lab, by its journal.
fn actions(environment: &Environment, lab: &str) -> Vec<String> {
    let path = environment.home().join("labs").join(lab).join("journal.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let entries = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    entries.map(|entry| entry["action"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn further_seats_are_copies_with_names_of_their_own() {
    let environment = environment();
    environment.succeeds(&["up", "class.toml", "--seats", "3"]);
    assert!(actions(&environment, "class-01").contains(&"apply".to_owned()));
    let nodes = |seat: &str| environment.json(&["status", seat])["nodes"].to_string();
    for seat in ["class-02", "class-03"] {
        assert_eq!(actions(&environment, seat), ["add-cluster"]);
        environment.succeeds(&["verify", seat]);
    }
    let names = ["class-01", "class-02", "class-03"].map(nodes);
    assert!(names[0] != names[1] && names[1] != names[2], "{names:?}");
    // What a learner does is in no other seat.
    environment.succeeds(&["guide", "class-02"]);
    environment.succeeds(&["step", "class-02"]);
    let status = environment.json(&["status", "class"]);
    let running: Vec<_> = status["seats"].as_array().unwrap().iter().map(|seat| seat["running"].clone()).collect();
    assert_eq!(running, [1, 3, 1]);
    environment.succeeds(&["down", "class"]);
    environment.nothing_is_left();
}

#[test]
fn seats_that_differ_in_more_than_names_are_made_one_by_one() {
    let environment = Environment::new();
    let pinned = "[workload.pinned]\nkind = \"pod\"\nnode_name = \"pool:main\"\nimage = \"nginx\"\n[[check]]";
    environment.write("class.toml", LAB.replacen("[[check]]", pinned, 1));
    environment.succeeds(&["up", "class.toml", "--seats", "2"]);
    assert!(actions(&environment, "class-02").contains(&"apply".to_owned()));
    environment.succeeds(&["down"]);
    // Nothing was found to hold that could be copied.
    environment.write("class.toml", LAB);
    environment.succeeds(&["up", "class.toml", "--seats", "2", "--no-wait"]);
    assert!(actions(&environment, "class-02").contains(&"apply".to_owned()));
    environment.succeeds(&["down"]);
    environment.nothing_is_left();
}
