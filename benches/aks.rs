//! How long a lab takes on AKS beyond what Azure takes: the real az (where there is one) against the stand-in.
//!
//! `KLAB_TIMELINE=1` shows every call of az with its beginning and its time.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints its figures and stops where it fails")]

#[path = "../tests/azure/mod.rs"]
mod azure;

use std::path::Path;
use std::time::{Duration, Instant};

use azure::api::{Latency, Model};
use azure::fake::Fake;
use azure::real::{self, Login};
use azure::server::Server;
use klab_lab::plan::plan;
use klab_lab::spec::{self, LoadOptions};
use klab_operations::event::Events;
use klab_operations::provider::aks::Aks;
use klab_operations::provider::aks::az::Pace;
use klab_operations::provider::{Options, Provider, Work};
use klab_operations::state::{Home, Journal};

const CREATE: Duration = Duration::from_secs(6);
const POOL: Duration = Duration::from_secs(4);

fn main() {
    let latency = Latency { create: CREATE, pool: POOL, delete: Duration::from_secs(1) };
    let limit = CREATE + 2 * POOL + Duration::from_secs(3);
    println!(
        "lab with 5 extra pools, create {CREATE:?}, pool {POOL:?}; limit of the total {limit:?}, of klab's own share 300ms"
    );
    {
        let folder = tempfile::tempdir().unwrap();
        let fake = Fake::start(Model::new(latency));
        measure("fake az", &fake.program(folder.path()), folder.path(), None);
    }
    match real::find() {
        Err(reason) => println!("real az: not measured, {reason}"),
        Ok(az) => {
            let folder = tempfile::tempdir().unwrap();
            let server = Server::start(Model::new(latency));
            let login = Login::new(&az, &server, folder.path());
            let program = wrapped(&login, folder.path());
            // az was used before klab is: at its first start it reads all its parts.
            login.run(&["group", "exists", "-n", "nothing"]);
            println!("real az: {}", starts(&login));
            measure("real az", &program, folder.path(), Some(&login.folder));
        }
    }
}

/// What of the time is az alone: starts that ask nobody, nothing else running.
fn starts(login: &Login) -> String {
    let of = |arguments: &[&str]| {
        let mut times: Vec<Duration> = (0..5)
            .map(|_| {
                let began = Instant::now();
                login.run(arguments);
                began.elapsed()
            })
            .collect();
        times.sort();
        format!("`az {}` takes {} ms", arguments.join(" "), times[times.len() / 2].as_millis())
    };
    format!("{}, {}", of(&["version"]), of(&["aks", "nodepool", "add", "--help"]))
}

/// The real az with its environment, as one program.
fn wrapped(login: &Login, folder: &Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let variables: Vec<String> = login
        .environment
        .iter()
        .map(|(name, value)| format!("export {}='{}'\n", name.to_string_lossy(), value.to_string_lossy()))
        .collect();
    let program = folder.join("az");
    let script = format!("#!/bin/sh\n{}exec '{}' \"$@\"\n", variables.concat(), login.az.display());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

fn measure(name: &str, az: &Path, folder: &Path, login: Option<&Path>) {
    let pools: Vec<String> = (1..=5).map(|number| format!("[pool.p{number}]\nsize = \"Standard_B2ms\"\n")).collect();
    let pools = pools.concat();
    let path = folder.join("bench.toml");
    std::fs::write(&path, format!("lab = \"bench\"\nprovider = \"aks\"\n[pool.system]\nmode = \"system\"\n{pools}"))
        .unwrap();
    let lab = spec::load(&path, &LoadOptions::default()).unwrap();
    let home = Home::new(folder.join("home"));
    for run in ["first up", "unchanged up"] {
        let aks = Aks::with(&home, az, Pace::default());
        let aks = match login {
            Some(folder) => aks.logged_in_at(folder),
            None => aks,
        };
        let (events, state) = (Events::nowhere(), home.lab("bench"));
        std::fs::create_dir_all(&state).unwrap();
        // Every run has a transcript of its own.
        let transcript = state.join("az.log");
        let _ = std::fs::remove_file(&transcript);
        let began = jiff::Timestamp::now();
        let started = Instant::now();
        let mut journal = Journal::open(&state, "up").unwrap();
        if let Some(problem) = aks.preflight(&lab).into_iter().next() {
            panic!("{problem}");
        }
        let actions = plan(&lab, &aks.observe(&lab.name.value, Some(&lab)).unwrap());
        let mut work = Work { journal: &mut journal, events: &events };
        aks.perform_all(&lab, &actions, &Options::default(), &mut work).unwrap();
        aks.kubeconfig("bench").unwrap();
        let total = started.elapsed();
        let ledger = aks.ledger();
        let own = total.saturating_sub(ledger.outside());
        println!(
            "{name}, {run}: total {:.2} s, klab's own share {:.0} ms, {} calls of az",
            total.as_secs_f64(),
            own.as_secs_f64() * 1e3,
            ledger.calls()
        );
        if std::env::var_os("KLAB_TIMELINE").is_some() {
            timeline(&std::fs::read_to_string(&transcript).unwrap_or_default(), began);
        }
    }
}

/// Every call of az with its beginning and its time, as the transcript has them.
fn timeline(transcript: &str, began: jiff::Timestamp) {
    let mut calls: Vec<(i64, String)> = Vec::new();
    for line in transcript.lines() {
        if let Some((time, command)) = line.split_once(" $ ") {
            let Ok(time) = time.parse::<jiff::Timestamp>() else { continue };
            let words: String = command.split(' ').skip(1).collect::<Vec<_>>().join(" ").chars().take(150).collect();
            calls.push(((time.as_millisecond() - began.as_millisecond()), words));
        } else if let (Some(ended), Some((_, words))) = (line.strip_prefix("= "), calls.last_mut()) {
            let took = ended.rsplit(" after ").next().unwrap_or_default();
            *words = format!("{took:>7}  {words}");
        }
    }
    calls.sort();
    for (began, words) in calls {
        println!("    {:6.2} s {words}", Duration::from_millis(began.unsigned_abs()).as_secs_f64());
    }
}
