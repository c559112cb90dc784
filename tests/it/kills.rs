//! klab and its server killed at random moments: `up` converges, `down` leaves nothing: no process, no folder, no lie.
//!
//! Twenty-four kills by default; `KLAB_KILLS=1000 cargo test --test it kills` does this many. Command, victim and moment of each
//! follow from `KLAB_KILLS_SEED` and its number; how far the command has come by then is the machine's.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::environment::Environment;

const LAB: &str = r#"
lab = "kills"

[pool.main]
mode = "system"
nodes = 2

[workload.web]
replicas = 2

[[check]]
workload = "web"
running = 2

[[step]]
name = "scale"
do = [{ scale = "web", replicas = 4 }]
[[step.check]]
workload = "web"
running = 4
"#;

/// What is killed while it works.
struct Victim {
    name: &'static str,
    /// What is typed before.
    before: &'static [&'static [&'static str]],
    arguments: &'static [&'static str],
}

const UP: &[&str] = &["up", "kills.toml"];
const STEP: &[&str] = &["step", "kills"];
const VICTIMS: [Victim; 8] = [
    Victim { name: "up", before: &[], arguments: UP },
    Victim { name: "up of a class", before: &[], arguments: &["up", "kills.toml", "--seats", "4", "-j", "3"] },
    Victim { name: "up again", before: &[UP], arguments: UP },
    Victim { name: "step", before: &[UP], arguments: STEP },
    Victim { name: "step back", before: &[UP, STEP], arguments: &["step", "kills", "--back"] },
    Victim { name: "reset", before: &[UP, STEP], arguments: &["reset", "kills", "--yes"] },
    Victim { name: "reset to a step", before: &[UP, STEP], arguments: &["reset", "kills", "--yes", "--to", "scale"] },
    Victim { name: "down", before: &[UP], arguments: &["down", "kills"] },
];

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Klab,
    Server,
    Both,
}

/// One kill, as its number and the seed decide it.
#[derive(Debug, Clone, Copy)]
struct Kill {
    victim: usize,
    who: Who,
    /// When, in thousandths of the time that the command takes.
    at: u64,
    /// Whether `up` is tried before `down`.
    up_again: bool,
}

impl Kill {
    fn of(seed: u64, number: u64) -> Self {
        // splitmix64
        let mut state = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut next = |below: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % below
        };
        // Commands take turns, so that a few kills meet all of them.
        let victim = usize::try_from(number).unwrap() % VICTIMS.len();
        let who = [Who::Klab, Who::Klab, Who::Server, Who::Both][usize::try_from(next(4)).unwrap()];
        Self { victim, who, at: next(1100), up_again: next(3) == 0 }
    }
}

fn environment(victim: usize) -> Environment {
    let environment = Environment::new();
    environment.write("kills.toml", LAB);
    for before in VICTIMS[victim].before {
        environment.succeeds(before);
    }
    environment
}

/// How long each command takes here when nobody is killed.
fn durations() -> Vec<Duration> {
    let timed = |victim: usize| {
        let environment = environment(victim);
        let started = Instant::now();
        environment.succeeds(VICTIMS[victim].arguments);
        let took = started.elapsed();
        environment.succeeds(&["down", "kills"]);
        took
    };
    (0..VICTIMS.len()).map(timed).collect()
}

/// Processes that were started with a word about this environment's home.
fn processes(environment: &Environment) -> Vec<(u32, String)> {
    let home = environment.home().display().to_string();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        words.contains(&home).then_some((pid, words))
    })
    .collect()
}

/// An end that is no crash of klab's own.
fn is_decent(output: &Output, killed: bool) -> bool {
    let talk = String::from_utf8_lossy(&output.stderr);
    let end = match output.status.code() {
        None => killed && output.status.signal() == Some(9),
        Some(code) => matches!(code, 0 | 3 | 4),
    };
    end && !talk.contains("panicked")
}

/// Does one kill; gives what is wrong afterwards.
fn try_one(kill: Kill, duration: Duration) -> Result<(), String> {
    let environment = environment(kill.victim);
    let mut command = environment.command(VICTIMS[kill.victim].arguments);
    let mut klab = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(duration * u32::try_from(kill.at).unwrap() / 1000);
    if kill.who != Who::Server {
        klab.kill().unwrap();
    }
    if kill.who != Who::Klab {
        for (pid, words) in processes(&environment).into_iter().filter(|(_, words)| words.contains(" serve ")) {
            assert!(words.contains("--state-directory"), "{words}");
            Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status().unwrap();
        }
    }
    let output = klab.wait_with_output().unwrap();
    let mut wrong = Vec::new();
    if !is_decent(&output, kill.who != Who::Server) {
        wrong.push(format!("the command's end:\n{}", environment.shown(&output)));
    }
    let mut succeeds = |arguments: &[&str]| {
        let output = environment.run(arguments);
        if output.status.code() != Some(0) {
            wrong.push(format!("klab {arguments:?} afterwards:\n{}", environment.shown(&output)));
        }
    };
    if kill.up_again {
        let of_class = ["up", "kills.toml", "--seats", "4"];
        succeeds(if VICTIMS[kill.victim].name == "up of a class" { &of_class } else { UP });
    }
    succeeds(&["down", "kills"]);
    let left = environment.leftovers();
    if !left.is_empty() {
        wrong.push(format!("files are left: {left:?}"));
    }
    // A server that was killed, or told to end, is gone from the list of processes a moment later.
    let until = Instant::now() + Duration::from_secs(60);
    while !processes(&environment).is_empty() {
        if Instant::now() > until {
            let left = processes(&environment);
            for (pid, _) in &left {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
            wrong.push(format!("processes are left: {left:?}"));
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

#[test]
fn nothing_is_left_of_what_was_killed_at_any_moment() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
    };
    let (kills, seed, first) = (number("KLAB_KILLS", 24), number("KLAB_KILLS_SEED", 1), number("KLAB_KILLS_FIRST", 0));
    let durations = durations();
    let (next, failures) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= first + kills {
                        return;
                    }
                    let kill = Kill::of(seed, number);
                    if let Err(wrong) = try_one(kill, durations[kill.victim]) {
                        let name = VICTIMS[kill.victim].name;
                        failures.lock().unwrap().push(format!("kill {number}, {name}, {kill:?}:\n{wrong}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    let count = failures.len();
    println!("{kills} kills with seed {seed} from number {first}: {count} that lost or left something");
    assert_eq!(count, 0, "{count} of {kills} kills with seed {seed}:\n{}", failures.join("\n\n"));
}
