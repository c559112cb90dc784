//! `klab host` and `klab join`: a class that people join over the network.

mod addresses;
mod browser;
mod console;
mod container;
mod guesses;
mod guided;
mod hostile;
mod identity;
mod instructor;
mod joined;
mod kept;
mod killed;
mod kubectls;
mod networks;
mod oidc;
mod oidc_shards;
mod practice;
mod proxied;
mod proxy;
mod revoked;
mod running;
mod shards;
mod slow;
mod webhook;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;

use self::running::{Running, client_of, status_of};

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

#[tokio::test]
async fn a_host_that_is_killed_comes_back_with_its_codes_seats_and_what_was_written() {
    let mut host = Running::start(&["scheduling", "--seat-codes", "1"]);
    let (url, code, link) = (host.url.clone(), host.code.clone(), host.document["instructor"].clone());
    let ann = host.join(&code, "Ann", "2468").await.unwrap();
    let seat_code = host.document["seat_codes"][0].as_str().unwrap().to_owned();
    let bob = host.join(&seat_code, "Bob", "").await.unwrap();
    assert_ne!(ann["seat"], bob["seat"]);
    let client = client_of(&ann["kubeconfig"]).await;
    assert_eq!(Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap().items.len(), 3);
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    maps.create(&PostParams::default(), &map("written")).await.unwrap();
    let status = host.of_seat(&ann, "GET", "").await.unwrap();
    assert_eq!((&status["done"], &status["name"]), (&json!(0), &json!("Ann")));

    host.kill();
    host.resume();
    assert_eq!((&host.url, &host.code, &host.document["instructor"]), (&url, &code, &link));
    for (one, code, name, pin) in [(&ann, &code, "ann", "2468"), (&bob, &seat_code, "", "")] {
        let again = host.join(code, name, pin).await.unwrap();
        for key in ["seat", "token", "kubeconfig"] {
            assert_eq!(again[key], one[key], "{key} of {name}");
        }
    }
    // Nobody needs a new kubeconfig.
    let maps: Api<ConfigMap> = Api::default_namespaced(client_of(&ann["kubeconfig"]).await);
    assert!(maps.get("written").await.is_ok());
}

#[tokio::test]
async fn those_who_join_at_once_get_a_seat_each_and_one_code_for_a_seat_is_one_seat() {
    let host = Running::start(&["scheduling", "--seat-codes", "1", "--max-seats", "12"]);
    let seat_code = host.document["seat_codes"][0].as_str().unwrap().to_owned();
    let same = futures::future::join_all((0..5).map(|_| host.join(&seat_code, "Eve", ""))).await;
    let seats: BTreeSet<String> = same.into_iter().map(|one| one.unwrap()["seat"].to_string()).collect();
    assert_eq!(seats.len(), 1, "{seats:?}");
    let names: Vec<String> = (0..11).map(|number| format!("L{number}")).collect();
    let all = futures::future::join_all(names.iter().map(|name| host.join(&host.code, name, "1111"))).await;
    let seats: BTreeSet<String> = all.iter().map(|one| one.as_ref().unwrap()["seat"].to_string()).collect();
    assert_eq!(seats.len(), 11);
    let refusal = host.join(&host.code, "one too many", "").await.unwrap_err();
    assert!(refusal.contains("12 seats"), "{refusal}");
}

#[tokio::test]
async fn a_class_that_is_closed_can_be_looked_at() {
    let host = Running::start(&["scheduling"]);
    let ann = host.join(&host.code, "Ann", "2468").await.unwrap();
    host.instruct("POST", "/teach/close").await.unwrap();
    let refusal = host.join(&host.code, "Bob", "").await.unwrap_err();
    assert!(refusal.contains("closed"), "{refusal}");
    let client = client_of(&ann["kubeconfig"]).await;
    assert!(Api::<Node>::all(client.clone()).list(&ListParams::default()).await.is_ok());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let refused = maps.create(&PostParams::default(), &map("late")).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
    for what in ["", "/guide", "/explain?target=nanomon-api", "/board"] {
        host.of_seat(&ann, "GET", what).await.unwrap();
    }
    let end = host.of_seat(&ann, "POST", "/verify").await.unwrap();
    assert_eq!(end["end"]["ok"], true, "grading only looks: {end}");
    assert_eq!(host.of_seat(&ann, "GET", "").await.unwrap()["opened"], false, "and nobody is moved on");
    for what in ["/step", "/reset"] {
        assert!(host.of_seat(&ann, "POST", what).await.unwrap_err().contains("closed"), "{what}");
    }
    // It opens again by one click.
    host.instruct("POST", "/teach/extend?minutes=5").await.unwrap();
    maps.create(&PostParams::default(), &map("in-time")).await.unwrap();
}

#[tokio::test]
async fn operators_see_numbers_of_the_class_and_no_secret() {
    let host = Running::start(&["scheduling"]);
    // Four digits are found by chance in times and checksums.
    let pin = "a-pin-of-ann";
    let ann = host.join(&host.code, "Ann", pin).await.unwrap();
    assert!(host.join("0000-0000", "Eve", "").await.is_err());
    for path in ["/healthz", "/readyz"] {
        assert_eq!(status_of(&host, "GET", path, &[]).await, 200, "{path}");
    }
    let metrics = host.text("/metrics").await;
    for line in ["klab_host_joins_total{class=\"scheduling\"} 1", "klab_host_guesses_total{class=\"scheduling\"} 1"] {
        assert!(metrics.lines().any(|one| one == line), "{line}\n{metrics}");
    }
    let folder = host.home().join("hosts/scheduling");
    let audit = std::fs::read_to_string(folder.join("audit.log")).unwrap();
    let what: Vec<serde_json::Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&what[0]["what"], &what[0]["seat"], &what[1]["what"]),
        (&json!("join"), &json!("0-1"), &json!("refused"))
    );
    assert!(what.iter().all(|line| line["checksum"].as_str().is_some_and(|sum| sum.len() == 16)), "{audit}");
    let journal = std::fs::read_to_string(folder.join("journal")).unwrap();
    let word = host.word();
    for secret in [ann["token"].as_str().unwrap(), host.code.as_str(), pin, word.as_str()] {
        for (name, text) in [("audit", &audit), ("journal", &journal), ("metrics", &metrics)] {
            assert!(!text.contains(secret), "{secret} stands in the {name}");
        }
    }
}
