//! Scripts and commands that are followed, from their start to their end.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use jiff::SignedDuration;

use super::files::{Files, Ground};
use super::image::Tools;
use super::mounts::Mount;
use super::reach::{Heard, Lookup, Moment, Protocol, Reach, Sent};
use super::run::{follow, perform};
use super::world::{Course, End, World};

/// A network that answers everybody, and knows when it was asked.
#[derive(Default)]
struct Listener(Mutex<Vec<SignedDuration>>);

impl Reach for Listener {
    fn look_up(&self, _: Moment, host: &str) -> Lookup {
        host.parse().map_or(Lookup::Nobody, |address| Lookup::Found(host.to_owned(), vec![address]))
    }

    fn send(&self, moment: Moment, _: SocketAddr, _: Protocol, _: Sent<'_>) -> Heard {
        self.0.lock().unwrap().push(moment.at);
        Heard::Text(Vec::new())
    }

    fn name_server(&self) -> Option<IpAddr> {
        None
    }
}

#[test]
fn every_turn_of_a_loop_asks_the_network() {
    let listener = Arc::new(Listener::default());
    let network: Arc<dyn Reach> = Arc::clone(&listener) as _;
    let tools = Tools { busybox: true, ..Tools::default() };
    let world = World { network: Some(network), tools, ..World::default() };
    let script = "while true; do nc -z 10.0.0.1 80; sleep 0.1; done";
    perform(&["sh", "-c", script], &world, SignedDuration::from_mins(10));
    let asked = listener.0.lock().unwrap();
    assert_eq!(asked.len(), 6001);
    assert!(asked.windows(2).all(|turns| turns[1] - turns[0] == SignedDuration::from_millis(100)));
}

fn with_volume(path: &str) -> Files {
    Files::new(Ground { mounts: vec![Mount::empty(path)], ..Ground::default() }, None)
}

fn after(seconds: i64, code: i64) -> End {
    End::After(SignedDuration::from_secs(seconds), code)
}

fn course(script: &str, world: &World) -> Course {
    follow(&["sh", "-c", script], world)
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
        assert_eq!(follow(arguments, &World::default()).end, expected, "{arguments:?}");
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
        ("for i in {1..10}; do echo $i; sleep 1; done; exit 42", after(10, 42)),
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
    let mut world = World { files: with_volume("/data"), ..World::default() };
    for (index, code) in [("0", 0), ("1", 1), ("3", 1)] {
        world.variables = vec![("JOB_COMPLETION_INDEX".to_owned(), index.to_owned())];
        assert_eq!(course(odd, &world).end, after(0, code), "{index}");
    }
    assert_eq!(course(once, &world).end, after(0, 42));
    let world = world.with_file("/data/foo-3");
    assert_eq!(course(once, &world).end, after(0, 0));
}

#[test]
fn files_come_and_go() {
    let course = course("touch /tmp/healthy; sleep 30; rm -f /tmp/healthy; sleep 600", &World::default());
    let there = |second| course.has_file("/tmp/healthy", SignedDuration::from_secs(second));
    assert_eq!([there(0), there(29), there(30), there(500)], [Some(true), Some(true), Some(false), Some(false)]);
    assert_eq!(course.has_file("/etc/hosts", SignedDuration::ZERO), None);
    let written = follow(&["sh", "-c", "sleep 10; dd if=/dev/zero of=file bs=1M count=10"], &World::default()).writes;
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
        "for i in {1..9000000000000000000}; do true; done",
        "while [ ! -f /a ]; do touch /b; rm /b; touch /a; rm /a; done",
        "f() { f; f; }; f",
        "i=0; while true; do i=$((i+1)); done",
        &"eval ".repeat(9000),
    ] {
        assert!(matches!(end(script), End::Unknown(..) | End::Never), "{script}");
    }
}
