//! Requests of all sorts, good, odd and broken, against the API in process: no panic, no hang, nothing that was
//! acknowledged is lost.
//!
//! Requests come in batches. Each batch has a cluster of its own that is kept in a file, and ends with opening that file
//! again. `KLAB_FUZZ=1000000 cargo test --test it fuzz` sends that many requests instead of a few thousand.

mod comparison;
pub(crate) mod corpus;
mod fields;
mod forms;
mod needs;
mod place;
mod requests;
mod rules;
mod samples;
mod values;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use http::Request;
use http_body_util::{BodyExt, Full};
use klab_cluster::api::{Api, Body};
use klab_cluster::clock::SteppedClock;
use klab_cluster::cluster::Cluster;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseResult, TestRunner};
use serde_json::Value;

use self::requests::{Corpus, Fuzzed};

/// Requests of a batch, at most.
const BATCH: usize = 200;
/// A request that takes this long hangs.
const HANG: Duration = Duration::from_secs(30);

/// The objects of a cluster by kind, namespace and name.
type State = BTreeMap<(String, String, String), Bytes>;

fn open(path: &std::path::Path) -> Cluster {
    let clock = Arc::new(SteppedClock::new("2026-06-01T08:00:00Z".parse().unwrap()));
    let (cluster, recovery) = Cluster::open(path, clock, 7).unwrap();
    assert_eq!(recovery.notes, Vec::<String>::new());
    cluster
}

fn state(cluster: &Cluster) -> State {
    let mut state = State::new();
    for resource in cluster.kinds() {
        for object in cluster.list(resource, None).0 {
            let key = (resource.row().qualified(), object.namespace.to_string(), object.name.to_string());
            state.insert(key, object.served());
        }
    }
    state
}

/// What the answers promised.
#[derive(Default)]
struct Promises {
    /// Objects that were written, by uid: the version that was acknowledged, and to what request.
    kept: BTreeMap<String, (u64, String)>,
    /// Objects that were deleted, or are about to be.
    deleted: BTreeSet<String>,
}

impl Promises {
    fn note(&mut self, request: &Fuzzed, status: u16, answer: &Value) {
        if !(200..300).contains(&status) || request.method == "GET" || request.uri.contains("dryRun") {
            return;
        }
        // Some objects go with what was asked to go, without being named in the answer.
        for (asked, gone) in [("/eviction", "/pods"), ("/customresourcedefinitions", "/labs.example/")] {
            if request.uri.contains(asked) && (request.method == "DELETE" || asked == "/eviction") {
                self.kept.retain(|_, (_, request)| !request.contains(gone));
            }
        }
        let items = [&answer["items"], &answer["rows"]].into_iter().find_map(Value::as_array);
        for object in items.map_or(std::slice::from_ref(answer), Vec::as_slice) {
            let object = object.get("object").unwrap_or(object);
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let Some(uid) = text(&object["metadata"]["uid"]).or_else(|| text(&answer["details"]["uid"])) else {
                continue;
            };
            if request.method == "DELETE" || !object["metadata"]["deletionTimestamp"].is_null() {
                self.kept.remove(&uid);
                self.deleted.insert(uid);
            } else if let Some(version) = object["metadata"]["resourceVersion"].as_str() {
                self.kept.insert(uid, (version.parse().unwrap(), request.to_string()));
            }
        }
    }

    fn check(&self, state: &State) -> TestCaseResult {
        let mut found = BTreeMap::new();
        for json in state.values() {
            let object: Value = serde_json::from_slice(json).unwrap();
            let version = object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
            let leaving = !object["metadata"]["deletionTimestamp"].is_null();
            found.insert(object["metadata"]["uid"].as_str().unwrap_or_default().to_owned(), (version, leaving));
        }
        for (uid, (version, request)) in &self.kept {
            let held = found.get(uid).copied();
            let holds = held.is_some_and(|(held, _)| held >= *version);
            prop_assert!(holds, "{uid} at {version} was acknowledged and is {held:?}: {request}");
        }
        for uid in &self.deleted {
            let leaving = found.get(uid).is_none_or(|(_, leaving)| *leaving);
            prop_assert!(leaving, "the deletion of {uid} was acknowledged");
        }
        Ok(())
    }
}

/// What is being asked now, for the watchdog.
static ASKED: Mutex<Option<(Instant, String)>> = Mutex::new(None);

/// Ends the process when a request hangs: nothing else could.
fn watchdog(done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(200));
        if let Some((since, request)) = ASKED.lock().unwrap().as_ref()
            && since.elapsed() > HANG
        {
            let line = format!("no answer after {HANG:?}: {request}\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
            std::process::exit(101);
        }
    }
}

/// Sends one request; the body of an endless answer is read as far as it is there.
async fn answer(api: &Api, request: &Fuzzed) -> Option<(u16, Bytes)> {
    let uri: http::Uri = request.uri.parse().ok()?;
    let sent = Request::builder()
        .method(request.method)
        .uri(uri)
        .header("content-type", request.content_type)
        .header("accept", request.accept)
        .header("user-agent", "fuzz/1")
        .body(Full::new(Bytes::from(request.body.clone())))
        .ok()?;
    let response = api.answer(sent).await;
    let status = response.status().as_u16();
    let mut body: Body = response.into_body();
    let mut text = Vec::new();
    while let Some(Some(frame)) = body.frame().now_or_never() {
        text.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    Some((status, text.into()))
}

/// How often what was answered to which method.
type Answers = BTreeMap<(&'static str, u16), usize>;

fn batch(
    runtime: &tokio::runtime::Runtime,
    corpus: &Corpus,
    seeds: &[u64],
    answers: &RefCell<Answers>,
) -> TestCaseResult {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects.log");
    let cluster = Arc::new(open(&path));
    let api = Api::new(Arc::clone(&cluster));
    let mut promises = Promises::default();
    for request in corpus.beginning().chain(seeds.iter().map(|seed| corpus.request(*seed))) {
        *ASKED.lock().unwrap() = Some((Instant::now(), request.to_string()));
        let Some((status, text)) = runtime.block_on(answer(&api, &request)) else { continue };
        prop_assert!((200..600).contains(&status), "{status} for {request}");
        *answers.borrow_mut().entry((request.method, status)).or_default() += 1;
        let value: Value = match request.accept {
            "application/yaml" => serde_saphyr::from_slice(&text).unwrap_or_default(),
            _ => serde_json::from_slice(&text).unwrap_or_default(),
        };
        // 500 is for what cannot happen; real API servers answer it to applies that do not fit the kind.
        let typed =
            value["message"].as_str().is_some_and(|text| text.starts_with("failed to create typed patch object"));
        prop_assert!(status != 500 || typed, "{value} for {request}");
        if status >= 400 && value.is_object() {
            let said = (&value["kind"], &value["status"], &value["code"]);
            prop_assert_eq!(said, (&"Status".into(), &"Failure".into(), &status.into()), "{}", request);
        }
        promises.note(&request, status, &value);
    }
    *ASKED.lock().unwrap() = None;
    let before = state(&cluster);
    drop((api, cluster));
    let after = state(&open(&path));
    prop_assert!(before == after, "the file holds another cluster: {:?}", differing(&before, &after));
    promises.check(&after)
}

/// Names of the objects that two states do not share.
fn differing<'a>(before: &'a State, after: &'a State) -> Vec<&'a (String, String, String)> {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    keys.into_iter().filter(|key| before.get(*key) != after.get(*key)).collect()
}

#[test]
fn nothing_breaks_hangs_or_is_lost() {
    let wanted = std::env::var("KLAB_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(4000_u32);
    let corpus = Corpus::read();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let cases = wanted.div_ceil(BATCH as u32 * 3 / 4);
    // `cargo test` asks the same every time; a long run asks again.
    let rng_seed = if std::env::var_os("KLAB_FUZZ").is_some() { RngSeed::Random } else { RngSeed::Fixed(1) };
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 100, rng_seed, ..Config::default() };
    let (done, answers) = (AtomicBool::new(false), RefCell::default());
    let done = &done;
    std::thread::scope(|scope| {
        scope.spawn(move || watchdog(done));
        let batches = prop::collection::vec(any::<u64>(), BATCH / 2..=BATCH);
        let result = TestRunner::new(config).run(&batches, |seeds| batch(&runtime, &corpus, &seeds, &answers));
        done.store(true, Ordering::Relaxed);
        if let Err(error) = result {
            if let proptest::test_runner::TestError::Fail(_, seeds) = &error {
                for seed in seeds {
                    eprintln!("{}", corpus.request(*seed));
                }
            }
            panic!("{error}");
        }
    });
    // Requests that are all refused at the door would test nothing.
    let answers = answers.into_inner();
    let total: usize = answers.values().sum();
    println!("{total} requests: {answers:?}");
    for (method, status, least) in [("POST", 201, 15), ("PATCH", 200, 50), ("PUT", 200, 100), ("DELETE", 200, 100)] {
        let found = answers.get(&(method, status)).copied().unwrap_or_default();
        assert!(found * least >= total, "only {found} of {total} requests were a {method} that was accepted");
    }
}
