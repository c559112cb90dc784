//! A lab reads regular files in its own folder, and nothing else of the machine unless its user says so.

use std::os::unix::fs::symlink;
use std::path::Path;

use klab_lab::spec::{Diagnostics, LoadOptions, Reach, load};

use crate::environment::Environment;

const LAB: &str = "lab = \"a\"\n[pool.system]\n";

fn fifo(path: &Path) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RUSR).unwrap();
}

/// Everything klab says about a lab with one manifest, `outside` allowed or not.
fn said(folder: &Path, pattern: &str, outside: bool) -> Option<String> {
    let path = folder.join("lab.toml");
    std::fs::write(&path, format!("{LAB}[[manifest]]\npath = \"{pattern}\"\n")).unwrap();
    let options = LoadOptions { reach: Reach { outside, environment: false }, ..LoadOptions::default() };
    let problems: Result<_, Diagnostics> = load(&path, &options).and_then(|lab| klab_operations::render::render(&lab));
    problems.err().map(|problems| problems.to_string())
}

#[test]
fn only_regular_files_in_the_folder_of_the_lab_are_read() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("lab");
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    for name in ["lab/own/a.yaml", "lab/loop/b.yaml", "beside/a.yaml"] {
        std::fs::create_dir_all(place.path().join(name).parent().unwrap()).unwrap();
        std::fs::write(place.path().join(name), object).unwrap();
    }
    std::fs::write(place.path().join("beside/secret.yaml"), "root:x:0:0: sesame\n").unwrap();
    symlink(folder.join("own"), folder.join("within")).unwrap();
    symlink(place.path().join("beside"), folder.join("out")).unwrap();
    symlink(place.path().join("beside/a.yaml"), folder.join("out.yaml")).unwrap();
    symlink("/dev/zero", folder.join("zero.yaml")).unwrap();
    symlink("again.yaml", folder.join("again.yaml")).unwrap();
    fifo(&folder.join("pipe.yaml"));
    let beside = place.path().join("beside/a.yaml").display().to_string();
    for (pattern, says) in [
        ("own/a.yaml", None),
        ("own/../own/*.yaml", None),
        ("within/a.yaml", None),
        ("../beside/a.yaml", Some("this leads out of it")),
        ("own/../../beside/*.yaml", Some("this leads out of it")),
        (&beside, Some("this leads out of it")),
        ("/proc/self/environ", Some("this leads out of it")),
        ("/*/*", Some("this leads out of it")),
        ("out/a.yaml", Some("out/a.yaml is a link that leads out of it")),
        ("o*/*.yaml", Some("is a link that leads out of it")),
        ("out.yaml", Some("out.yaml is a link that leads out of it")),
        ("zero.yaml", Some("zero.yaml is a link that leads out of it")),
        ("pipe.yaml", Some("pipe.yaml: it is a pipe, not a file")),
        ("again.yaml", Some("Too many levels of symbolic links")),
        ("own", Some("own is a directory")),
    ] {
        match (said(&folder, pattern, false), says) {
            (None, None) => {}
            (Some(said), Some(says)) => {
                assert!(said.contains(says) && !said.contains("sesame"), "{pattern}: {said}");
                assert_eq!(said.contains("--allow-outside"), says.contains("leads out"), "{pattern}: {said}");
            }
            (said, _) => panic!("{pattern}: {said:?}"),
        }
    }
    // Where the user allows it, other files are read, and still no devices.
    assert_eq!(said(&folder, "out/a.yaml", true), None);
    assert_eq!(said(&folder, &beside, true), None);
    assert!(said(&folder, "zero.yaml", true).unwrap().contains("it is a device, not a file"));
    assert!(said(&folder, "/dev/zero", true).unwrap().contains("it is a device, not a file"));
}

#[test]
fn files_that_are_none_of_the_labs_are_not_quoted() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("lab");
    std::fs::create_dir(&folder).unwrap();
    for (name, text) in [
        ("a.yaml", "root: [sesame\n"),
        ("b.yaml", "root:x:0:0:sesame:/root:/bin/sh\n"),
        ("c.yaml.tera", "{{ sesame }}\n"),
        ("d.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: Sesame}\n"),
    ] {
        std::fs::write(place.path().join(name), text).unwrap();
        let said = said(&folder, &format!("../{name}"), true).unwrap().to_lowercase();
        assert!(said.contains("cannot be used") && !said.contains("sesame"), "{name}: {said}");
    }
}

#[test]
fn lab_files_themselves_are_files() {
    let environment = Environment::new();
    environment.write("labs/a.toml", LAB);
    fifo(&environment.folder().join("labs/pipe.toml"));
    for arguments in [["check", "labs/pipe.toml"], ["plan", "labs/pipe.toml"], ["verify", "labs/pipe.toml"]] {
        let said = environment.klab(&arguments);
        assert!(said.contains("it is a pipe, not a file") && said.ends_with("--- status 2\n"), "{said}");
    }
    let said = environment.klab(&["check", "/dev/zero"]);
    assert!(said.contains("it is a device, not a file") && said.ends_with("--- status 2\n"), "{said}");
    let said = environment.klab(&["test", "labs"]);
    assert!(said.contains("Tested 1 lab") && said.ends_with("--- status 0\n"), "{said}");
}

#[test]
fn what_a_lab_takes_of_the_machine_is_planned_and_variables_are_read_only_to_make_it() {
    let environment = Environment::new();
    environment.write("settings.txt", "blue");
    let lab = "[config.page]\nfiles = [\"settings.txt\"]\nenv = [\"SESAME\"]\n[secret.door]\nenv = [\"SESAME\"]\n";
    environment.write("lab.toml", format!("{LAB}{lab}"));
    let klab =
        |arguments: &[&str]| environment.shown(&environment.command(arguments).env("SESAME", "open").output().unwrap());
    let plan = klab(&["plan", "lab.toml"]);
    for line in ["file settings.txt → ConfigMap page", "variable $SESAME → Secret door"] {
        assert!(plan.contains(line), "{plan}");
    }
    let rendered = klab(&["render", "lab.toml"]);
    assert!(rendered.contains("SESAME: (value of $SESAME)") && rendered.contains("blue"), "{rendered}");
    assert!(klab(&["up", "lab.toml"]).ends_with("--- status 0\n"));
    let plan = klab(&["plan", "lab.toml"]);
    assert!(plan.contains("objects\n  as the lab file says"), "what `up` has sent is what it would send: {plan}");
    environment.succeeds(&["down"]);
}

#[test]
fn permission_to_read_outside_is_remembered_while_the_lab_is_up() {
    let environment = Environment::new();
    environment.write("beside.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: beside}\n");
    let step = "[[step]]\nname = \"s\"\ndo = [{ apply = \"../beside.yaml\" }]\n\
                check = [{ object = \"configmap/beside\", exist = 1 }]\n";
    environment.write("labs/a.toml", format!("{LAB}{step}"));
    let refused = environment.klab(&["up", "labs/a.toml"]);
    assert!(refused.contains("error[K0111]") && refused.ends_with("--- status 2\n"), "{refused}");
    environment.succeeds(&["up", "labs/a.toml", "--allow-outside"]);
    environment.succeeds(&["step"]);
    environment.succeeds(&["down"]);
    environment.succeeds(&["test", "labs/a.toml", "--allow-outside"]);
}
