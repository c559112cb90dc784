//! Generated scripts, run by real shells and followed by klab: what klab answers is what they print and how they end.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop, and says where")]

mod script;
#[path = "../../../tests/skipped/mod.rs"]
mod skipped;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_containers::{Container, Containers, End, Kind, Objects, Ran, Simulated, Stream};
use serde_json::{Value, json};

use self::script::Script;

/// So many scripts are tried in each shell; `KLAB_SHELLS` says otherwise.
const SCRIPTS: u64 = 200;

/// A cluster without objects.
struct Nothing;

impl Objects for Nothing {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn get(&self, _: Kind, _: &str, _: &str) -> Option<Arc<Value>> {
        None
    }

    fn changed(&self, _: Kind, _: &str, _: &str) -> Option<Timestamp> {
        None
    }

    fn list(&self, _: Kind, _: Option<&str>) -> Vec<Arc<Value>> {
        Vec::new()
    }

    fn token(&self, _: &Value, _: &Value) -> Option<String> {
        None
    }

    fn kept(&self, _: &Value) -> Vec<Value> {
        Vec::new()
    }
}

/// What a script prints to both streams, and its exit code.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    out: String,
    err: String,
    code: i64,
}

/// What klab answers, or why it refuses.
fn followed(image: &str, script: &str) -> Result<Outcome, String> {
    let objects: Arc<dyn Objects> = Arc::new(Nothing);
    let container = json!({
        "name": "main", "image": image, "command": ["sh", "-c", script], "workingDir": "/work",
        "volumeMounts": [{ "name": "work", "mountPath": "/work" }],
    });
    let pod = json!({
        "metadata": { "name": "p", "namespace": "default" },
        "spec": { "containers": [container], "volumes": [{ "name": "work", "emptyDir": {} }] },
    });
    let of = Container { objects: Some(&objects), pod: &pod, container: &container };
    let until = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
    let log = Simulated.log(of, Ran { since: Timestamp::UNIX_EPOCH, ended: None }, until)?;
    if let Some(unknown) = log.unknown {
        return Err(unknown.why);
    }
    let End::After(_, code) = Simulated.program(of, None, None, None).course.end else {
        return Err("its end is not known".to_owned());
    };
    let of = |stream: Stream| {
        let text = log.pieces.iter().filter(|piece| piece.stream == stream).flat_map(|piece| piece.text.clone());
        String::from_utf8(text.collect()).unwrap()
    };
    Ok(Outcome { out: of(Stream::Out), err: of(Stream::Err), code })
}

/// What a real shell makes of it, in a folder that is empty.
fn real(shell: &str, programs: &Path, script: &str) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(shell)
        .args(["-c", script])
        .env_clear()
        .env("PATH", programs)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let code = output.status.code().map_or(-1, i64::from);
    Outcome { out: text(output.stdout), err: text(output.stderr), code }
}

fn compare(image: &str, shell: &str, programs: &Path) {
    let count = std::env::var("KLAB_SHELLS").ok().and_then(|count| count.parse().ok()).unwrap_or(SCRIPTS);
    let (mut refused, mut wrong) = (Vec::new(), Vec::new());
    for seed in 0..count {
        let script = Script::generated(seed);
        match followed(image, &script) {
            Err(why) => refused.push(why),
            Ok(answered) => {
                let expected = real(shell, programs, &script);
                if answered != expected {
                    wrong.push(format!("seed {seed}:\n{script}\nklab: {answered:?}\n{shell}: {expected:?}\n"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} scripts differ\n{}", wrong.len(), wrong.join("\n"));
    assert!(
        refused.len() * 2 <= usize::try_from(count).unwrap(),
        "{} of {count} are refused: {refused:?}",
        refused.len()
    );
}

#[test]
fn busybox_prints_what_klab_answers() {
    if !skipped::is_there("busybox") {
        return;
    }
    let programs = tempfile::tempdir().unwrap();
    let installed = Command::new("busybox").args(["--install", "-s"]).arg(programs.path()).status().unwrap();
    assert!(installed.success());
    compare("busybox:1.37", programs.path().join("sh").to_str().unwrap(), programs.path());
}

#[test]
fn dash_prints_what_klab_answers() {
    if skipped::is_there("dash") {
        compare("debian:13", "dash", Path::new("/usr/bin:/bin"));
    }
}

#[test]
fn what_is_known_to_differ_is_refused() {
    for script in [
        "set -e; echo a; set +e; false; echo x",
        "for i in 1 2; do for j in 1 2; do break 2; done; done; echo $i$j",
        "set -- a b c; shift 2; echo $1",
        "printf '10 a\\n9 b\\n' | sort -n",
        "printf 'b\\nA\\n' | sort -f",
        "printf 'a\\nb\\n' | grep -e a -e b",
        "printf 'a:b\\nc\\n' | cut -s -d : -f 1",
        "echo abc | rev -x; echo $?",
        "my-program; echo after",
    ] {
        for image in ["busybox:1.37", "debian:13"] {
            assert!(followed(image, script).is_err(), "{image}: {script}");
        }
    }
}
