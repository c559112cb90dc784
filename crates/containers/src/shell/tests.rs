//! Scripts and commands that are followed, from their start to their end.

use jiff::SignedDuration;

use super::execution::{End, Execution, World};
use super::interpreter::{execute, simulate};
use crate::image::{Image, Shell};
use crate::pod::file::File;
use crate::pod::files::{Files, Ground, Made};
use crate::pod::place::{Identity, Inside};
use crate::pod::volumes::Mount;

fn with_volume(path: &str) -> Files {
    Files::new(Ground { mounts: vec![Mount::empty(path)], ..Ground::default() }, None)
}

fn after(seconds: i64, code: i64) -> End {
    End::After(SignedDuration::from_secs(seconds), code)
}

fn course(script: &str, world: &World) -> Execution {
    simulate(&["sh", "-c", script], world)
}

fn end(script: &str) -> End {
    course(script, &World::default()).end
}

#[test]
fn commands_end_when_and_as_they_say() {
    for (arguments, expected) in [
        (&["/bin/true"][..], after(0, 0)),
        (&["/bin/false"], after(0, 1)),
        (&["sleep", "90"], after(90, 0)),
        (&["sleep", "1m", "5"], after(65, 0)),
        (&["sleep", "infinity"], End::Never),
        (&["tail", "-f", "/dev/null"], End::Never),
        (&["busybox", "sleep", "3"], after(3, 0)),
        (&["sh"], after(0, 0)),
        (&["python", "serve.py"], End::Unknown(SignedDuration::ZERO, 0)),
    ] {
        assert_eq!(simulate(arguments, &World::default()).end, expected, "{arguments:?}");
    }
}

#[test]
fn scripts_are_followed() {
    for (script, expected) in [
        ("echo hi && exit 3", after(0, 3)),
        ("sleep 2; exit 1", after(2, 1)),
        ("sleep 2 && false || exit 7", after(2, 7)),
        ("set -e; false; sleep 9", after(0, 1)),
        ("false; sleep 1; exit $?", after(1, 0)),
        ("exit 256", after(0, 0)),
        ("for i in 1 2 3; do sleep $i; done", after(6, 0)),
        ("for i in $(seq 1 3); do sleep 1; done", after(3, 0)),
        ("i=0; while [ $i -lt 5 ]; do sleep 1; i=$((i+1)); done; exit $i", after(5, 5)),
        ("while true; do echo .; sleep 5; done", End::Never),
        ("while true; do sleep 5; break; done; exit 2", after(5, 2)),
        ("until nslookup db; do sleep 2; done; echo up", after(0, 0)),
        ("sleep 5 & sleep 1; wait", after(5, 0)),
        ("sleep 5 & sleep 1", after(1, 0)),
        ("timeout 3 sleep 60", after(3, 124)),
        ("if false; then sleep 1; else sleep 2; exit 5; fi", after(2, 5)),
        ("(sleep 1; exit 4); sleep 1", after(2, 0)),
        ("f() { sleep 2; return 3; }; f; exit $?", after(2, 3)),
        ("run-tests; exit 1", after(0, 1)),
        ("sleep 1; exec nginx", End::Unknown(SignedDuration::from_secs(1), 0)),
        ("sleep $DELAY; exit 2", after(0, 2)),
        ("sleep ${DELAY:-4}; exit 2", after(4, 2)),
        ("touch /tmp/a; while [ -f /tmp/a ]; do sleep 1; rm /tmp/a; done", after(1, 0)),
        ("sleep 9999999999999999999", End::After(SignedDuration::MAX, 0)),
    ] {
        assert_eq!(end(script), expected, "{script}");
    }
}

#[test]
fn environment_and_volumes_decide() {
    let odd = "if [ $(expr ${JOB_COMPLETION_INDEX} % 2) -ne 0 ]; then\n exit 1\nelse\n exit 0\nfi";
    let once = "if [[ -r /data/foo-$JOB_COMPLETION_INDEX ]]\nthen\n exit 0\nelse\n touch /data/foo-$JOB_COMPLETION_INDEX\n exit 42\nfi";
    let inside = Inside { files: with_volume("/data"), ..Inside::default() };
    let mut world = World { inside, ..World::default() };
    for (index, code) in [("0", 0), ("1", 1), ("3", 1)] {
        world.inside.variables = vec![("JOB_COMPLETION_INDEX".to_owned(), index.to_owned())];
        assert_eq!(course(odd, &world).end, after(0, code), "{index}");
    }
    assert_eq!(course(once, &world).end, after(0, 42));
    let file = Made::File(File { text: None, mode: 0o644, owner: None });
    world.inside.files.take_over(&[("/data/foo-3".to_owned(), Some(file))]);
    assert_eq!(course(once, &world).end, after(0, 0));
}

#[test]
fn files_come_and_go() {
    let course = course("touch /tmp/healthy; sleep 30; rm -f /tmp/healthy; sleep 600", &World::default());
    let seconds = SignedDuration::from_secs;
    let file = "/tmp/healthy".to_owned();
    assert_eq!(course.files, [(seconds(0), file.clone(), true), (seconds(30), file, false)]);
    let written = simulate(&["sh", "-c", "sleep 10; dd if=/dev/zero of=file bs=1M count=10"], &World::default()).writes;
    assert_eq!(written, [(SignedDuration::from_secs(10), 10 << 20)]);
}

#[test]
fn handlers_of_signals_are_followed_too() {
    let on_term = |script: &str| course(script, &World::default()).on_term;
    let seconds = SignedDuration::from_secs;
    assert_eq!(on_term("sleep 100"), None);
    assert_eq!(on_term("trap 'exit 0' TERM; sleep 100 & wait"), Some((seconds(0), 0)));
    assert_eq!(on_term("trap 'echo no' TERM; sleep 100"), None);
    let slow = "_term(){\n sleep 5\n exit 143\n}\ntrap _term SIGTERM\nwhile true; do\n sleep 1\ndone";
    assert_eq!(on_term(slow), Some((seconds(5), 143)));
}

#[test]
fn nothing_is_followed_for_ever() {
    for script in [
        "while [ ! -f /a ]; do touch /b; rm /b; touch /a; rm /a; done",
        "f() { f; f; }; f",
        "i=0; while true; do i=$((i+1)); done",
        &"(".repeat(9000),
    ] {
        assert!(matches!(end(script), End::Unknown(..) | End::Never), "{script}");
    }
}

/// What a script prints in a container whose shell is known, or why that is not certain.
fn printed(shell: Shell, script: &str) -> Result<(String, i64), String> {
    let files = Files::new(Ground { mounts: vec![Mount::empty("/data")], ..Ground::default() }, Some((0, 0)));
    let image = Image { shell, bare: true, ..Image::default() };
    let inside = Inside {
        files,
        image,
        has_all_variables: true,
        identity: Some(Identity::default()),
        directory: Some("/data".to_owned()),
        ..Inside::default()
    };
    let world = World { inside, start: Some(jiff::Timestamp::UNIX_EPOCH), ..World::default() };
    let performance = execute(&["sh", "-c", script], &world, SignedDuration::from_mins(1));
    if let Some(unknown) = performance.unknown {
        return Err(unknown.why);
    }
    let End::After(_, code) = performance.end else { return Err("it goes on".to_owned()) };
    let text: Vec<u8> = performance.pieces.iter().flat_map(|piece| piece.text.clone()).collect();
    Ok((String::from_utf8(text).unwrap(), code))
}

#[test]
fn what_is_certain_is_printed() {
    for (script, expected, code) in [
        ("for i in 1 2 3; do echo turn $i; done", "turn 1\nturn 2\nturn 3\n", 0),
        ("set -e; false || true; f() { false; echo in f; }; f && echo yes; (exit 3); echo no", "in f\nyes\n", 3),
        ("echo a > f; cat f f; rm f; [ -e f ] || echo gone", "a\na\ngone\n", 0),
        ("x=$(echo one; echo two); echo $x \"$x\"", "one two one\ntwo\n", 0),
        ("i=0; until [ $i -ge 2 ]; do i=$((i + 1)); done; echo i=$i; printf 'a\\nb'", "i=2\na\nb", 0),
        ("A=b echo one > /data/f; cat /data/f 2>&1; ls /data; exit 5", "one\nf\n", 5),
        ("while true; do false; break; done; echo $?", "0\n", 0),
        ("for i in 1; do false; done; echo $?", "1\n", 0),
    ] {
        assert_eq!(printed(Shell::Busybox, script), Ok((expected.to_owned(), code)), "{script}");
        assert_eq!(printed(Shell::Dash, script), Ok((expected.to_owned(), code)), "{script}");
    }
    let missing = |words: &str| Ok((format!("{words}: No such file or directory\n"), 1));
    assert_eq!(printed(Shell::Dash, "cat /data/x"), missing("cat: /data/x"));
    assert_eq!(printed(Shell::Busybox, "cat /data/x"), missing("cat: can't open '/data/x'"));
}

#[test]
fn what_is_not_certain_is_refused() {
    for script in [
        "set -e; echo a; set +e; false; echo x",
        "set -u; echo a",
        "set -o pipefail; false | true",
        "set -- a b; echo $1",
        "for i in 1; do for j in 1; do break 2; done; done; echo a",
        "for i in 1; do continue 2; done; echo a",
        "f() { shift 2; echo $1; }; f a b c",
        "case a in a) echo a;; esac",
        "cat <<EOF\na\nEOF",
        "echo a | cat",
        "echo /data/*; ls",
        "echo 'a\\tb'",
        "echo {1..3}",
        "cd /data; read x < f; echo $x",
        "x=abc; echo ${x%c} ${#x}",
        "export A=b; env",
        "[[ a == a ]] && echo a",
        "echo a &> /data/f; cat /data/f",
        "printf '10 a\\n9 b\\n' | sort -n",
        "echo a | grep -e a -e b",
        "echo a | cut -s -d: -f1",
        "echo a | rev -x",
        "server --port 80; echo a",
        "echo a & echo b; wait",
        "trap 'echo end' EXIT; echo a",
        "cp /data/a /data/b; ls",
        "echo {a,b}; echo $((010))",
        "echo $((1 << 2))",
        "ls -l /data",
        "unset HOME; echo ${HOME:-x}",
        "echo $RANDOM",
        "IFS=:; echo a",
        "env",
    ] {
        assert!(printed(Shell::Dash, script).is_err(), "{script}: {:?}", printed(Shell::Dash, script));
    }
}
