//! What an instructor sees and does, and what not.

use http_body_util::BodyExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::map;
use super::running::{PATIENCE, Running, client_of};
use crate::environment::Environment;
use crate::skipped::is_there;
use crate::watch::Terminal;

#[tokio::test]
async fn the_link_is_given_for_a_cookie_and_stands_in_no_address() {
    let host = Running::start(&["scheduling"]);
    let link = host.document["instructor"].as_str().unwrap();
    assert!(link.contains("/teach/#open="), "what stands behind # is sent to nobody: {link}");
    assert_eq!(host.ask("GET", "/teach/class.json", &[], Vec::new()).await.0, 401);
    assert_eq!(host.ask("POST", "/teach/open", &[], b"wrong".to_vec()).await.0, 403);
    let origin = [("origin", host.url.as_str())];
    let (status, headers, _) = host.ask("POST", "/teach/open", &origin, host.word().into_bytes()).await;
    assert_eq!(status, 204);
    let cookie = headers["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    let (status, _, text) = host.ask("GET", "/teach/class.json", &[("cookie", pair)], Vec::new()).await;
    assert_eq!(status, 200, "{text}");
    assert_eq!(host.ask("POST", "/teach/close", &[("cookie", pair)], Vec::new()).await.0, 403, "without an origin");
}

#[tokio::test]
async fn the_class_is_watched_in_the_terminal_of_its_machine_until_its_host_ends() {
    if !is_there("script") {
        return;
    }
    let (mut host, environment) = (Running::start(&["scheduling"]), Environment::new());
    host.join(&host.code, "Ann", "2468").await.unwrap();
    let mut terminal = Terminal::at(&environment, host.home(), "klab watch scheduling");
    for text in ["class scheduling", "1 seat", "Ann", "set-up"] {
        terminal.shows(text);
    }
    host.join(&host.code, "Bob", "2468").await.unwrap();
    terminal.shows("Bob");
    host.kill();
    terminal.shows("class `scheduling` is not hosted at the moment");
    terminal.shows("status 3");
}

#[tokio::test]
async fn the_class_is_seen_and_a_seat_is_brought_to_a_step() {
    let host = Running::start(&["scheduling"]);
    let ann = host.join(&host.code, "=Ann", "2468").await.unwrap();
    let class = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let seen = class(host.instruct("GET", "/teach/class.json").await.unwrap());
    assert_eq!(seen["class"]["phase"], json!("open"));
    assert_eq!((&seen["seats"][0]["seat"], &seen["seats"][0]["done"]), (&json!("0-1"), &json!(0)));
    host.instruct("POST", "/teach/seats/0-1/steps?done=2").await.unwrap();
    let status = host.of_seat(&ann, "GET", "").await.unwrap();
    assert_eq!(status["done"], json!(2));
    let sheet = host.instruct("GET", "/teach/class.csv").await.unwrap();
    assert!(sheet.lines().nth(1).unwrap().starts_with("0-1,'=Ann,scheduling,2,"), "{sheet}");
    let sheet = host.instruct("GET", "/teach/class.csv?nameless=true").await.unwrap();
    assert!(!sheet.contains("Ann"), "{sheet}");
    host.instruct("POST", "/teach/seats/0-1/reset").await.unwrap();
    assert_eq!(host.of_seat(&ann, "GET", "").await.unwrap()["done"], json!(0));
    assert!(host.instruct("POST", "/teach/seats/0-9/reset").await.unwrap_err().starts_with("404"));
    // The token is the same after all that.
    assert!(Api::<Node>::all(client_of(&ann["kubeconfig"]).await).list(&ListParams::default()).await.is_ok());
}

#[tokio::test]
async fn a_look_changes_nothing_until_the_learner_agrees() {
    let host = Running::start(&["scheduling"]);
    host.join(&host.code, "Ann", "2468").await.unwrap();
    let kubeconfig = Value::String(host.instruct("GET", "/teach/seats/0-1/kubeconfig").await.unwrap());
    let client = client_of(&kubeconfig).await;
    assert_eq!(Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap().items.len(), 3);
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let refused = maps.create(&PostParams::default(), &map("meddling")).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
    let form = format!("code={}&name=Ann&pin=2468", host.code);
    let own = [("content-type", "application/x-www-form-urlencoded"), ("origin", host.url.as_str())];
    let (_, headers, _) = host.ask("POST", "/join", &own, form.into_bytes()).await;
    let pair = headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let own = [("cookie", pair.as_str()), ("origin", host.url.as_str())];
    assert_eq!(host.ask("POST", "/learn/scheduling/agree?writes=true", &own, Vec::new()).await.0, 204);
    maps.create(&PostParams::default(), &map("helping")).await.unwrap();
    assert_eq!(host.ask("POST", "/learn/scheduling/agree?writes=false", &own, Vec::new()).await.0, 204);
    assert!(maps.create(&PostParams::default(), &map("again")).await.is_err());
}

/// The status of a request to a cluster.
async fn status(client: &kube::Client, method: &str, path: &str) -> u16 {
    let request = http::Request::builder().method(method).uri(path).body(kube::client::Body::empty()).unwrap();
    client.send(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn who_only_reads_executes_nothing_whatever_the_method() {
    let pod = "/api/v1/namespaces/default/pods/none";
    let host = Running::start(&["scheduling"]);
    let ann = host.join(&host.code, "Ann", "2468").await.unwrap();
    let kubeconfig = Value::String(host.instruct("GET", "/teach/seats/0-1/kubeconfig").await.unwrap());
    let (look, own) = (client_of(&kubeconfig).await, client_of(&ann["kubeconfig"]).await);
    let reads = [("GET", "/api/v1/nodes"), ("GET", "/version")];
    let review = ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    let executes = ["GET", "POST"].map(|method| {
        let parts = ["exec?command=true", "attach", "portforward", "proxy/", "%65xec?command=true"];
        parts.map(|part| (method, format!("{pod}/{part}")))
    });
    let executes: Vec<(&str, String)> = executes.into_iter().flatten().collect();
    let others = [("DELETE", pod), ("POST", "/api/v1/namespaces/default/pods"), ("PATCH", pod)];
    let refused_to = async |client: &kube::Client| {
        for (method, path) in reads {
            assert_eq!(status(client, method, path).await, 200, "{method} {path}");
        }
        assert_ne!(status(client, review.0, review.1).await, 403);
        let executes = executes.iter().map(|(method, path)| (*method, path.as_str()));
        for (method, path) in executes.chain(others) {
            assert_eq!(status(client, method, path).await, 403, "{method} {path}");
        }
    };
    refused_to(&look).await;
    // To the learner there is no such pod.
    for (method, path) in &executes {
        assert_eq!(status(&own, method, path).await, 404, "{method} {path}");
    }
    host.instruct("POST", "/teach/close").await.unwrap();
    refused_to(&own).await;
    refused_to(&look).await;
}

#[tokio::test]
async fn what_an_instructor_says_is_said_to_those_it_is_for() {
    let host = Running::start(&["scheduling"]);
    let ann = host.join(&host.code, "Ann", "").await.unwrap();
    let bob = host.join(&host.code, "Bob", "").await.unwrap();
    let bearer = format!("Bearer {}", host.word());
    let headers = [("authorization", bearer.as_str())];
    for (path, text) in [("/teach/hint", "look at the taints"), ("/teach/seats/0-2/hint", "well <done>")] {
        assert_eq!(host.ask("POST", path, &headers, text.as_bytes().to_vec()).await.0, 204);
    }
    for (seat, wanted) in [(&ann, json!(["look at the taints"])), (&bob, json!(["look at the taints", "well <done>"]))]
    {
        assert_eq!(host.of_seat(seat, "GET", "").await.unwrap()["hints"], wanted);
    }
    let (status, _, page) = host.ask("GET", "/teach/seats/0-2/", &headers, Vec::new()).await;
    assert_eq!(status, 200);
    assert!(page.contains("well &lt;done&gt;") && !page.contains("<done>"), "{page}");
    assert!(
        page.contains("data-part=\"lesson\"") && !page.contains("data-next"),
        "the instructor does not go on for the learner"
    );
    assert!(!host.of_seat(&ann, "GET", "/guide").await.unwrap().to_string().contains("Bob"));
}

/// The first seat of the class when it is so.
async fn seat_when(host: &Running, is: impl Fn(&Value) -> bool) -> Value {
    let look = async {
        loop {
            let class = host.instruct("GET", "/teach/class.json").await.unwrap();
            let seat = serde_json::from_str::<Value>(&class).unwrap()["seats"][0].clone();
            if is(&seat) {
                return seat;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("the instructor does not see it")
}

#[tokio::test]
async fn a_small_board_is_shown_to_the_instructor_alone_and_changes_nothing() {
    let host = Running::start(&["scheduling", "--max-seats", "24"]);
    let names: Vec<String> = (1..=24).map(|number| format!("L{number}")).collect();
    let joined = futures::future::join_all(names.iter().map(|name| host.join(&host.code, name, "2468"))).await;
    let ann = joined.into_iter().next().unwrap().unwrap();
    let own = format!("/teach/seats/{}/picture", ann["seat"].as_str().unwrap());
    let pods: Api<Pod> = Api::all(client_of(&ann["kubeconfig"]).await);
    let seen = async || (host.of_seat(&ann, "GET", "").await, pods.list(&ListParams::default()).await.unwrap().items);
    // Also a learner's cookie and token are not the instructor's.
    let form = format!("code={}&name=L1&pin=2468", host.code);
    let typed = [("content-type", "application/x-www-form-urlencoded"), ("origin", host.url.as_str())];
    let (_, headers, _) = host.ask("POST", "/join", &typed, form.into_bytes()).await;
    let cookie = headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let bearer = format!("Bearer {}", ann["token"].as_str().unwrap());
    for asker in [None, Some(("cookie", cookie.as_str())), Some(("authorization", bearer.as_str()))] {
        let status = host.ask("GET", &own, asker.as_slice(), Vec::new()).await.0;
        assert!([401, 403].contains(&status), "{asker:?}: {status}");
    }
    let of_learner = host.ask("GET", "/learn/scheduling/picture", &[("cookie", &cookie)], Vec::new()).await;
    assert_eq!(of_learner.0, 404, "{}", of_learner.2);
    let before = seen().await;
    let picture = host.instruct("GET", &own).await.unwrap();
    assert_eq!(picture.matches("class=\"node-box\"").count(), 3, "{picture}");
    assert!(picture.contains("g class=\"pod\"") && !picture.contains("data-part=\"lesson\""), "{picture}");
    assert_eq!(seen().await, before);
    assert!(host.instruct("GET", "/teach/seats/0-99/picture").await.unwrap_err().starts_with("404"));
    // Somebody who asks for all at once is given some, and the others after a moment.
    let paths: Vec<String> = (1..=24).map(|seat| format!("/teach/seats/0-{seat}/picture")).collect();
    let all = futures::future::join_all(paths.iter().map(|path| host.instruct("GET", path))).await;
    let refused: Vec<&String> = all.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!((1..=8).contains(&refused.len()) && refused.iter().all(|text| text.starts_with("429")), "{refused:?}");
    let later = async { while host.instruct("GET", &paths[23]).await.is_err() {} };
    tokio::time::timeout(PATIENCE, later).await.expect("the last seat is never shown");
}

#[tokio::test]
async fn a_learner_who_types_kubectl_alone_is_seen_to_go_on() {
    let host = Running::start(&["scheduling"]);
    let ann = host.join(&host.code, "Ann", "2468").await.unwrap();
    let client = client_of(&ann["kubeconfig"]).await;
    let scale = async |name: &str, replicas: u32| {
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        Api::<Deployment>::default_namespaced(client.clone())
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    };
    // No step asks for this.
    scale("plain", 4).await;
    assert_eq!(seat_when(&host, |seat| seat["held"] != json!(null)).await["done"], json!(0));
    // Three steps that only look come before the one that scales.
    scale("nanomon-api", 3).await;
    let seat = seat_when(&host, |seat| seat["done"] != json!(0)).await;
    assert_eq!((&seat["done"], &seat["step_name"]), (&json!(4), &json!("selector")));
    // What klab says to a learner who begins with it goes on from there.
    let status = host.of_seat(&ann, "GET", "").await.unwrap();
    assert_eq!(status["done"], json!(4));
    scale("nanomon-api", 2).await;
    let seat = seat_when(&host, |seat| seat["failing"] != json!("")).await;
    assert_eq!(seat["done"], json!(4), "{seat}");
}

#[tokio::test]
async fn the_page_says_what_was_changed_and_not_asked_for() {
    let host = Running::start(&["scheduling"]);
    let ann = host.join(&host.code, "Ann", "2468").await.unwrap();
    let nodes = Api::<Node>::all(client_of(&ann["kubeconfig"]).await);
    let taint =
        Patch::Merge(json!({ "spec": { "taints": [{ "key": "oops", "value": "yes", "effect": "NoExecute" }] } }));
    for node in nodes.list(&ListParams::default()).await.unwrap().items {
        nodes.patch(node.metadata.name.as_deref().unwrap(), &PatchParams::default(), &taint).await.unwrap();
    }
    let bearer = format!("Bearer {}", host.word());
    let events = http::Request::get("/teach/seats/0-1/events").header("authorization", bearer);
    let browser = klab_operations::client::bearer::client(
        &host.url,
        klab_operations::client::bearer::Trust::Anybody,
        None,
        PATIENCE,
    );
    let mut events = browser.await.unwrap().send(events.body(kube::client::Body::empty()).unwrap()).await.unwrap();
    let mut shown = String::new();
    let read = async {
        while !shown.contains("oops=yes:NoExecute is not in the lab") {
            let frame = events.body_mut().frame().await.expect("the page ends").unwrap();
            shown.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap()));
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("the page does not say it");
    assert!(shown.contains("Also changed, not asked for") && shown.contains("oops=yes:NoExecute-"), "{shown}");
}
