//! A host that is killed while people join and write: what it acknowledged is there when it comes back, and nobody needs a new
//! kubeconfig.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use serde_json::Value;

use super::map;
use super::running::{Running, client_of};

const WRITERS: usize = 100;
/// Those who join while the others write.
const JOINERS: usize = 4;
/// What is acknowledged before the host is killed.
const WRITTEN: usize = 400;
const JOINED: usize = 12;
/// Longest wait for one answer, or for something that is to come.
const PATIENCE: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(300);

/// What was acknowledged.
#[derive(Default)]
struct Acknowledged {
    writes: Mutex<Vec<(usize, String)>>,
    joins: Mutex<BTreeMap<String, Value>>,
    count: AtomicUsize,
}

/// Writes into a seat until nobody answers any more.
async fn write(number: usize, client: kube::Client, acknowledged: &Acknowledged) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    for written in 0_usize.. {
        let name = format!("w-{written}");
        let answered = tokio::time::timeout(PATIENCE, maps.create(&PostParams::default(), &map(&name))).await;
        let Ok(Ok(_)) = answered else { return };
        acknowledged.writes.lock().unwrap().push((number, name));
        acknowledged.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Joins under one name after the other until nobody answers any more.
async fn join(number: usize, host: &Running, acknowledged: &Acknowledged) {
    for joined in 0_usize.. {
        let name = format!("J{number}-{joined}");
        let answered = tokio::time::timeout(PATIENCE, host.try_join(&host.code, &name, "2468")).await;
        let Ok(Some(seat)) = answered else { return };
        acknowledged.joins.lock().unwrap().insert(name, seat);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_before_a_kill_is_there_after_it() {
    let mut host = Running::start(&["scheduling"]);
    let names: Vec<String> = (0..WRITERS).map(|number| format!("W{number}")).collect();
    let joining = names.iter().map(|name| host.join(&host.code, name, "1357"));
    let seats = tokio::time::timeout(LONGEST, futures::future::join_all(joining)).await.unwrap();
    let seats: Vec<Value> = seats.into_iter().map(Result::unwrap).collect();
    let mut clients = Vec::new();
    for seat in &seats {
        clients.push(client_of(&seat["kubeconfig"]).await);
    }

    let acknowledged = Acknowledged::default();
    let writers = clients.iter().enumerate().map(|(number, client)| write(number, client.clone(), &acknowledged));
    let joiners = (0..JOINERS).map(|number| join(number, &host, &acknowledged));
    let killer = async {
        while acknowledged.count.load(Ordering::Relaxed) < WRITTEN || acknowledged.joins.lock().unwrap().len() < JOINED
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        host.strike();
    };
    let all = async { futures::join!(futures::future::join_all(writers), futures::future::join_all(joiners), killer) };
    tokio::time::timeout(LONGEST, all).await.expect("the host is not killed");
    let Acknowledged { writes, joins, .. } = acknowledged;
    let (writes, joins) = (writes.into_inner().unwrap(), joins.into_inner().unwrap());
    assert!(writes.len() >= WRITTEN && joins.len() >= JOINED);

    host.kill();
    host.resume();
    // With the clients that they had.
    let there = async |number: usize| {
        let maps: Api<ConfigMap> = Api::default_namespaced(clients[number].clone());
        // A connection of before is found to be gone with the first request, perhaps.
        while let Err(error) = maps.create(&PostParams::default(), &map("after")).await {
            match error {
                kube::Error::Api(status) if status.code == 409 => break,
                kube::Error::Api(status) => panic!("{status:?}"),
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        let list = maps.list(&ListParams::default()).await.unwrap();
        list.items.into_iter().filter_map(|one| one.metadata.name).collect::<Vec<_>>()
    };
    let all = tokio::time::timeout(LONGEST, futures::future::join_all((0..WRITERS).map(there))).await.unwrap();
    for (number, name) in &writes {
        assert!(all[*number].contains(name), "{name} of {} was acknowledged", names[*number]);
    }
    for (name, seat) in &joins {
        let again = tokio::time::timeout(PATIENCE, host.join(&host.code, name, "2468")).await.unwrap().unwrap();
        for key in ["seat", "token", "kubeconfig"] {
            assert_eq!(again[key], seat[key], "{key} of {name}");
        }
    }
}

/// What the host acknowledged before it was killed.
#[derive(Default)]
struct Told {
    joined: BTreeMap<String, Value>,
    revoked: BTreeMap<String, bool>,
    /// Seats for which the outcome of the last change is not known.
    unsure: Option<String>,
}

impl Told {
    /// Joins, sends away and lets in again until the server stops answering.
    async fn work(&mut self, host: &Running, round: u64) {
        let bearer = format!("Bearer {}", host.word());
        for number in 0_u64.. {
            let name = format!("L{round}-{number}");
            let Some(seat) = host.try_join(&host.code, &name, "2468").await else { return };
            let path = seat["seat"].as_str().unwrap().to_owned();
            self.joined.insert(name.clone(), seat);
            for (what, revoked) in [("revoke", true), ("readmit", false)].into_iter().take((number % 3) as usize) {
                self.unsure = Some(name.clone());
                let path = format!("/teach/seats/{path}/{what}");
                if host.try_ask("POST", &path, &[("authorization", &bearer)]).await != Some(204) {
                    return;
                }
                self.revoked.insert(name.clone(), revoked);
                self.unsure = None;
            }
        }
    }

    async fn is_true(&self, host: &Running) {
        for (name, seat) in self.joined.iter().filter(|(name, _)| self.unsure.as_ref() != Some(name)) {
            let again = host.join(&host.code, name, "2468").await;
            match self.revoked.get(name) {
                Some(true) => assert!(again.unwrap_err().contains("ended your seat"), "{name}"),
                Some(false) => {
                    let again = again.unwrap();
                    assert_eq!((&again["seat"], again["token"] == seat["token"]), (&seat["seat"], false), "{name}");
                }
                None => {
                    let again = again.unwrap();
                    let told = ["seat", "token", "kubeconfig"].map(|key| again[key] == seat[key]);
                    assert_eq!(told, [true; 3], "{name}");
                }
            }
        }
    }
}

/// Four kills by default; `KLAB_KILLS=1000 cargo test --test it host::killed` does this many. Moments follow from the number of each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_killed_at_any_moment_keeps_what_was_said() {
    let kills: u64 = std::env::var("KLAB_KILLS").map_or(4, |text| text.parse().unwrap());
    let first: u64 = std::env::var("KLAB_KILLS_FIRST").map_or(0, |text| text.parse().unwrap());
    let mut lost = 0;
    // A class of many seats takes longer to look at each time: a new one begins after some kills.
    for begun in (first..first + kills).step_by(20) {
        let mut host = Running::start(&["scheduling", "--max-seats", "2000"]);
        host.join(&host.code, "first", "2468").await.unwrap();
        let mut told = Told::default();
        for round in begun..(begun + 20).min(first + kills) {
            let moment = Duration::from_micros(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 400_000);
            let strike = async {
                tokio::time::sleep(moment).await;
                host.strike();
            };
            futures::join!(told.work(&host, round), strike);
            host.kill();
            host.resume();
            told.is_true(&host).await;
            lost += usize::from(told.unsure.take().is_some_and(|name| told.joined.remove(&name).is_some()));
        }
    }
    println!("{kills} kills, {lost} of them during a change that was not answered");
}
