//! Copies of a server's cluster: what they hold, on what they are kept, and that each goes its own way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use klab_api_machinery::resource::CONFIG_MAPS;
use klab_cluster::cluster::{Cluster, DeleteOptions, WriteOptions};
use klab_server::{Flavour, NewCopy, Renaming, Seed, Server, ServerOptions};
use serde_json::{Value, json};

async fn start(folder: &Path) -> Server {
    start_with(ServerOptions { park_after: None, ..ServerOptions::at(folder.join("state")) }).await
}

async fn start_with(options: ServerOptions) -> Server {
    Server::start(options).await.unwrap_or_else(|error| panic!("{error:?}"))
}

/// Starts a server that parks whatever nobody uses.
async fn start_parking(folder: &Path) -> Server {
    start_with(ServerOptions { park_after: Some(Duration::ZERO), ..ServerOptions::at(folder.join("state")) }).await
}

/// Waits until something is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What a server leaves that is killed in this moment: the kernel has all that was written.
fn killed(folder: &Path) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let to = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                copy(&entry.path(), &to);
            } else {
                let _bytes = std::fs::copy(entry.path(), to).unwrap();
            }
        }
    }
    let left = tempfile::tempdir().unwrap();
    copy(&folder.join("state"), &left.path().join("state"));
    left
}

fn templates(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("state/templates"));
    entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

fn is_awake(server: &Server, name: &str) -> bool {
    server.state(name).unwrap().active
}

/// A control plane has nothing to do in it: what it holds is what was put there.
fn seed() -> Seed {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "of-a-01", "labels": { "x": "a-01" } } });
    let kind = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "toys.copies.dev" },
        "spec": {
            "group": "copies.dev", "scope": "Namespaced", "names": { "kind": "Toy", "plural": "toys" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    let toy = json!({ "apiVersion": "copies.dev/v1", "kind": "Toy", "metadata": { "name": "a-01-toy", "namespace": "default" } });
    Seed { objects: vec![namespace, kind, toy], flavour: Flavour::Bare, ..Seed::default() }
}

fn copy(name: &str) -> NewCopy {
    let words = vec![("a-01".to_owned(), name.to_owned())];
    NewCopy::renamed(name, Renaming::new(words, Vec::new()))
}

fn cluster(server: &Server, name: &str) -> std::sync::Arc<Cluster> {
    server.api(name).unwrap().cluster().clone()
}

/// Every object's text, by kind, namespace and name.
fn objects(server: &Server, name: &str) -> BTreeMap<String, Value> {
    let cluster = cluster(server, name);
    let all = cluster.kinds().into_iter().flat_map(|kind| cluster.list(kind, None).0);
    let key = |kind: &str, namespace: &str, name: &str| format!("{kind} {namespace}/{name}");
    all.map(|object| (key(object.resource.row().kind, &object.namespace, &object.name), object.to_value())).collect()
}

fn write(server: &Server, name: &str, map: &str) {
    let value = json!({ "metadata": { "name": map } });
    cluster(server, name).create(CONFIG_MAPS, "default", value, &WriteOptions::client("test")).unwrap();
}

fn has(server: &Server, name: &str, map: &str) -> bool {
    cluster(server, name).get(CONFIG_MAPS, "default", map).is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_go_their_own_ways_and_outlive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    server.add("a-01", seed()).unwrap();
    write(&server, "a-01", "common");
    let made = server.copy("a-01", &[copy("a-02"), copy("a-03"), copy("No name")]).unwrap();
    assert_eq!(made.iter().map(|made| made.clone().ok()).collect::<Vec<_>>(), [Some(true), Some(true), None]);

    let renamed = |name: &str| {
        let text = serde_json::to_string(&objects(&server, "a-01")).unwrap().replace("a-01", name);
        serde_json::from_str::<BTreeMap<String, Value>>(&text).unwrap()
    };
    for name in ["a-02", "a-03"] {
        assert_eq!(objects(&server, name), renamed(name), "{name}");
        assert!(objects(&server, name).contains_key(&format!("Toy default/{name}-toy")));
    }
    // What has no name in it is one object for all of them.
    let shared = |name: &str| cluster(&server, name).get(CONFIG_MAPS, "default", "common").unwrap();
    assert!(std::sync::Arc::ptr_eq(&shared("a-01"), &shared("a-02")));
    // Credentials are of each one's own.
    let kubeconfigs: std::collections::BTreeSet<_> =
        ["a-01", "a-02", "a-03"].iter().map(|name| server.kubeconfig(name).unwrap()).collect();
    assert_eq!(kubeconfigs.len(), 3);
    assert!(kubeconfigs.iter().any(|text| text.contains("/clusters/a-02\n") && text.contains("klab-a-02")));

    // A write to one is in no other, whoever makes it.
    for name in ["a-01", "a-02"] {
        write(&server, name, &format!("of-{name}"));
    }
    cluster(&server, "a-02").delete(CONFIG_MAPS, "default", "common", &DeleteOptions::default()).unwrap();
    assert!(has(&server, "a-01", "of-a-01") && !has(&server, "a-01", "of-a-02") && has(&server, "a-01", "common"));
    assert!(has(&server, "a-02", "of-a-02") && !has(&server, "a-02", "of-a-01") && !has(&server, "a-02", "common"));
    assert!(!has(&server, "a-03", "of-a-02") && has(&server, "a-03", "common"));
    // A cluster of that name stays as it is.
    let again = server.copy("a-01", &[copy("a-02")]).unwrap();
    assert!(matches!(again.as_slice(), [Ok(false)]) && has(&server, "a-02", "of-a-02"));
    assert_eq!(server.copy("b-01", &[copy("b-02")]).unwrap_err().code, 404);

    // The original may go; the others are there after a restart, with what was written and under their credentials.
    let before = ["a-02", "a-03"].map(|name| (objects(&server, name), server.kubeconfig(name)));
    server.stop();
    server.run_until_stopped().await;
    std::fs::remove_dir_all(folder.path().join("state/clusters/a-01")).unwrap();
    let server = start(folder.path()).await;
    assert!(["a-02", "a-03"].map(|name| (objects(&server, name), server.kubeconfig(name))) == before);
    write(&server, "a-03", "later");
    assert!(has(&server, "a-03", "later") && !has(&server, "a-02", "later"));
    server.stop();
    server.run_until_stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_parked_until_it_is_asked_for_and_again_when_nobody_asks() {
    let folder = tempfile::tempdir().unwrap();
    let server = start_parking(folder.path()).await;
    server.add("a-01", seed()).unwrap();
    server.copy("a-01", &[copy("a-02"), copy("a-03")]).unwrap();
    let state = server.state("a-02").unwrap();
    assert!(!state.active && state.objects > 20 && state.bytes > 5_000 && state.used.is_none(), "{state:?}");
    let log = folder.path().join("state/clusters/a-02/objects.log");
    let before = objects(&server, "a-02");
    assert_eq!(before.len(), state.objects);
    // Whoever holds it keeps it awake.
    let held = cluster(&server, "a-02");
    until("a-01 and a-03 are parked", || !is_awake(&server, "a-01") && !is_awake(&server, "a-03")).await;
    assert!(is_awake(&server, "a-02"));
    drop(held);
    until("nobody holds it", || !is_awake(&server, "a-02")).await;
    assert!(!log.exists(), "to be looked at changes nothing");
    assert!(server.state("a-02").unwrap().used.is_some());
    // What is written to it is there whenever it is woken, and in a server that comes after one that was killed.
    for round in 0..3 {
        write(&server, "a-02", &format!("of-round-{round}"));
        until("it is parked", || !is_awake(&server, "a-02")).await;
    }
    let before = objects(&server, "a-02");
    write(&server, "a-03", "while-awake");
    let left = killed(folder.path());
    let again = start(left.path()).await;
    assert!((0..3).all(|round| has(&again, "a-02", &format!("of-round-{round}"))));
    assert_eq!(objects(&again, "a-02"), before);
    assert!(has(&again, "a-03", "while-awake"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seed_of_its_own_gives_a_copy_names_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    server.add("a-01", seed()).unwrap();
    let seeded = |name: &str, seed| NewCopy { seed, ..copy(name) };
    let copies = [seeded("a-02", None), seeded("a-03", None), seeded("a-04", Some(9)), seeded("a-05", Some(9))];
    server.copy("a-01", &copies).unwrap();
    let next = |server: &Server, name: &str| {
        let value = json!({ "metadata": { "generateName": "some-" } });
        let made = cluster(server, name).create(CONFIG_MAPS, "default", value, &WriteOptions::client("test")).unwrap();
        (made.name.to_string(), made.uid.to_string())
    };
    let names = ["a-02", "a-03", "a-04", "a-05"];
    let first = names.map(|name| next(&server, name));
    assert_eq!((&first[0], &first[2]), (&first[1], &first[3]), "equal requests, equal copies");
    assert_ne!(first[0], first[2]);
    let left = killed(folder.path());
    let again = start(left.path()).await;
    for name in names {
        assert_eq!(next(&again, name), next(&server, name), "{name} goes on as if nothing had been");
        assert_eq!(objects(&again, name).len(), objects(&server, name).len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_copy_is_as_it_was_made_and_its_watches_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    server.add("a-01", seed()).unwrap();
    server.copy("a-01", &[copy("a-02"), copy("a-03")]).unwrap();
    let (made, kubeconfig) = (objects(&server, "a-02"), server.kubeconfig("a-02"));
    write(&server, "a-02", "mine");
    cluster(&server, "a-02")
        .delete(CONFIG_MAPS, "kube-system", "extension-apiserver-authentication", &DeleteOptions::default())
        .unwrap();
    let version = cluster(&server, "a-02").version();
    server.reset("a-02").unwrap();
    assert_eq!((objects(&server, "a-02"), server.kubeconfig("a-02")), (made.clone(), kubeconfig));
    assert!(cluster(&server, "a-02").since(version).is_err(), "a watch has to list again");
    assert!(cluster(&server, "a-02").version() > version);
    write(&server, "a-02", "after");
    let left = killed(folder.path());
    let again = start(left.path()).await;
    assert!(has(&again, "a-02", "after") && !has(&again, "a-02", "mine"));
    assert!(cluster(&again, "a-02").version() > version, "versions go on after a restart, too");
    again.reset("a-02").unwrap();
    assert_eq!(objects(&again, "a-02"), made);
    again.reset("a-03").unwrap();
    assert_eq!(again.reset("a-01").unwrap_err().code, 409, "it is no copy");
    assert_eq!(again.reset("a-09").unwrap_err().code, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn templates_go_with_the_last_copy_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    server.add("a-01", seed()).unwrap();
    server.copy("a-01", &[NewCopy::named("b-1")]).unwrap();
    server.copy("a-01", &[NewCopy::named("b-2")]).unwrap();
    assert!(server.remove("a-01").unwrap());
    assert_eq!(templates(folder.path()).len(), 1, "the same content is the same template");
    write(&server, "b-1", "mine");
    assert_eq!(server.remove_all(&["b-1", "b-9"]), [Ok(true), Ok(false)]);
    assert!(objects(&server, "b-2").contains_key("Namespace /of-a-01"), "nothing is called otherwise");
    assert_eq!(templates(folder.path()).len(), 1);
    assert!(!folder.path().join("state/clusters/b-1").exists());
    let left = killed(folder.path());
    {
        let again = start(left.path()).await;
        assert!(again.state("b-1").is_none() && again.api("b-2").is_some());
        assert!(again.remove("b-2").unwrap());
        assert_eq!(templates(left.path()), Vec::<PathBuf>::new());
    }
    klab_server::remove_saved(&folder.path().join("state"), &["b-2"]).unwrap();
    assert_eq!(templates(folder.path()), Vec::<PathBuf>::new(), "without a server, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_killed_anywhere_begins_with_whole_clusters() {
    let folder = tempfile::tempdir().unwrap();
    let register = || std::fs::read(folder.path().join("state/register.log")).unwrap();
    let begun = {
        let server = start(folder.path()).await;
        let begun = register();
        server.add("a-01", seed()).unwrap();
        server.copy("a-01", &[copy("a-02"), copy("a-03"), copy("a-04")]).unwrap();
        write(&server, "a-02", "mine");
        server.reset("a-02").unwrap();
        write(&server, "a-02", "again");
        begun
    };
    let state = |left: &tempfile::TempDir| left.path().join("state");
    // Behind what the server wrote at once when it began, the register ends anywhere: whatever it says to its end is true.
    // A kill of the machine leaves the mark where it was before the disk had more.
    let register = [&begun[..], &register()[begun.len()..]].concat();
    let begun = begun.len();
    let mut seen = std::collections::BTreeSet::new();
    for cut in (begun..register.len()).rev().step_by(61) {
        let left = killed(folder.path());
        std::fs::write(state(&left).join("register.log"), &register[..cut]).unwrap();
        let server = start(left.path()).await;
        let known: Vec<&str> =
            ["a-02", "a-03", "a-04"].into_iter().filter(|name| server.state(name).is_some()).collect();
        for name in &known {
            assert!(objects(&server, name).contains_key(&format!("Toy default/{name}-toy")), "{cut}: {name}");
            assert!(server.kubeconfig(name).is_some_and(|text| text.contains("token")));
        }
        for name in ["a-02", "a-03", "a-04"].iter().filter(|name| !known.contains(name)) {
            assert!(!state(&left).join("clusters").join(name).exists(), "{cut}: {name} was never told of");
        }
        assert_eq!(templates(left.path()).len(), usize::from(!known.is_empty()), "{cut}");
        seen.insert(known.len());
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    // No kill cuts it off before, so such a register is refused, and forgets no cluster.
    for cut in (1..begun).step_by(7) {
        let left = killed(folder.path());
        std::fs::write(state(&left).join("register.log"), &register[..cut]).unwrap();
        let options = ServerOptions { park_after: None, ..ServerOptions::at(state(&left)) };
        let refused = Server::start(options).await.err().map(|error| format!("{error:?}")).unwrap_or_default();
        assert!(refused.contains(" at byte "), "{cut}: {refused}");
    }
    // Each file that is made before or after another one is missing, empty, or still there under the name it was made by.
    let moments: [(&str, Damage); 6] = [
        ("no kubeconfig yet", |state| std::fs::remove_file(state.join("clusters/a-03/kubeconfig"))),
        ("no folder yet", |state| std::fs::remove_dir_all(state.join("clusters/a-03"))),
        ("an empty kubeconfig", |state| std::fs::write(state.join("clusters/a-03/kubeconfig"), "")),
        ("a log that was made and not written", |state| std::fs::write(state.join("clusters/a-03/objects.log"), "")),
        ("half a new log", |state| std::fs::write(state.join("clusters/a-02/objects.log.new"), "KREC")),
        ("a template that nobody has heard of", |state| std::fs::write(state.join("templates/0123.log"), "KREC")),
    ];
    for (moment, damage) in moments {
        let left = killed(folder.path());
        damage(&state(&left)).unwrap();
        let server = start(left.path()).await;
        assert!(has(&server, "a-02", "again") && !has(&server, "a-02", "mine"), "{moment}");
        write(&server, "a-03", "works");
        let kubeconfig = std::fs::read_to_string(state(&left).join("clusters/a-03/kubeconfig")).unwrap();
        assert_eq!(Some(kubeconfig), server.kubeconfig("a-03"), "{moment}");
        assert_eq!(templates(left.path()).len(), 1, "{moment}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_template_or_log_keeps_its_copies_from_being_served_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    {
        let server = start(folder.path()).await;
        server.add("a-01", seed()).unwrap();
        server.copy("a-01", &[copy("a-02"), copy("a-03")]).unwrap();
        write(&server, "a-03", "mine");
        server.stop();
        server.run_until_stopped().await;
    }
    let left = killed(folder.path());
    std::fs::remove_file(left.path().join("state/clusters/a-03/objects.log")).unwrap();
    let server = start(left.path()).await;
    assert!(server.api("a-03").is_none() && server.api("a-02").is_some());
    let told = server.state("a-03").unwrap().broken.unwrap();
    assert!(told.contains("`objects.log` is missing") && told.contains("clusters/a-03"), "{told}");
    assert!(server.remove("a-03").unwrap());

    let left = killed(folder.path());
    let template = templates(left.path()).remove(0);
    let mut text = std::fs::read(&template).unwrap();
    let middle = text.len() / 2;
    text[middle] ^= 1;
    std::fs::write(&template, text).unwrap();
    let server = start(left.path()).await;
    assert!(server.api("a-02").is_none() && server.api("a-01").is_some());
    let told = server.state("a-02").unwrap().broken.unwrap();
    assert!(told.contains("its template") && told.contains("damaged"), "{told}");
    assert_eq!(server.remove_all(&["a-02", "a-03"]), [Ok(true), Ok(true)]);
    std::fs::remove_dir_all(folder.path().join("state/templates")).unwrap();
    let server = start(folder.path()).await;
    assert!(server.access().broken.contains_key("a-02") && server.api("a-01").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_file_of_records_ends_early_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    {
        let server = start(folder.path()).await;
        server.add("a-01", seed()).unwrap();
        server.copy("a-01", &[copy("a-02")]).unwrap();
        for name in ["a-01", "a-02"] {
            write(&server, name, "first");
            write(&server, name, "second");
        }
        server.stop();
        server.run_until_stopped().await;
    }
    let mut tried = Vec::new();
    for place in ["", "templates", "clusters/a-01", "clusters/a-02"] {
        let files = std::fs::read_dir(folder.path().join("state").join(place)).unwrap().map(|entry| entry.unwrap());
        for file in files.filter(|file| file.file_type().unwrap().is_file()) {
            let text = std::fs::read(file.path()).unwrap();
            let Some(last) = text.windows(4).rposition(|bytes| bytes == b"KREC") else { continue };
            let left = killed(folder.path());
            let state = left.path().join("state");
            std::fs::write(state.join(place).join(file.file_name()), &text[..last]).unwrap();
            let options = ServerOptions { park_after: None, ..ServerOptions::at(state) };
            let is_missed = Server::start(options).await.map_or(true, |server| {
                let broken = ["a-01", "a-02"].map(|name| server.api(name).is_none());
                broken == [place.ends_with("a-01"), !place.ends_with("a-01")]
            });
            assert!(is_missed, "{place}/{:?}", file.file_name());
            tried.push(place);
        }
    }
    assert_eq!(tried, ["", "templates", "clusters/a-01", "clusters/a-02"]);
}

/// Something done to the folder of a server that does not run.
type Damage = fn(&Path) -> std::io::Result<()>;
