//! A learner whom the instructor sends away, and lets in again.

use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use super::running::{PATIENCE, Running, client_of};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// The status of a request to the cluster of a kubeconfig.
async fn status(client: &kube::Client, path: &str) -> u16 {
    // A connection that was ended is found to be gone with the first request.
    for _ in 0..3 {
        if let Ok(answer) = client.send(http::Request::get(path).body(Body::empty()).unwrap()).await {
            return answer.status().as_u16();
        }
    }
    panic!("{path} is not answered");
}

/// The cookie of a learner's browser.
async fn cookie(host: &Running, fields: &str) -> String {
    let (_, headers, text) = host.ask("POST", "/join", &[FORM, ("origin", &host.url)], fields.into()).await;
    let cookie = headers.get("set-cookie").unwrap_or_else(|| panic!("{text}"));
    cookie.to_str().unwrap().split(';').next().unwrap().to_owned()
}

/// Reads an answer that goes on until it ends.
async fn to_its_end(answer: http::Response<Body>) {
    let ended = tokio::time::timeout(PATIENCE, answer.into_body().collect());
    // Whether it ends well or is cut off is all the same.
    let _ = ended.await.expect("it goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learner_who_is_sent_away_has_nothing_and_is_let_in_again_with_another_token() {
    let mut host = Running::start(&["scheduling", "--seat-codes", "1"]);
    let seat_code = host.document["seat_codes"][0].as_str().unwrap().to_owned();
    let ways = [(host.code.clone(), "Ann", "2468"), (seat_code, "Bob", "")];
    let mut before = Vec::new();
    for (number, (code, name, pin)) in ways.iter().enumerate() {
        let seat = host.join(code, name, pin).await.unwrap();
        let cookie = cookie(&host, &format!("code={code}&name={name}&pin={pin}")).await;
        let client = client_of(&seat["kubeconfig"]).await;
        // A watch and a page that are open.
        let watch = http::Request::get("/api/v1/nodes?watch=true").body(Body::empty()).unwrap();
        let watch = client.send(watch).await.unwrap();
        let page = client_of(&seat["kubeconfig"]).await;
        assert_eq!((watch.status(), status(&page, "/api/v1/nodes").await), (http::StatusCode::OK, 200));
        let mut events = http::Request::get("/learn/scheduling/events").header("cookie", &cookie);
        events.headers_mut().unwrap().insert("accept", http::HeaderValue::from_static("text/event-stream"));
        let browser = klab_operations::client::bearer::client(
            &host.url,
            klab_operations::client::bearer::Trust::Anybody,
            None,
            PATIENCE,
        );
        let events = browser.await.unwrap().send(events.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(events.status(), http::StatusCode::OK);
        host.instruct("POST", &format!("/teach/seats/0-{}/revoke", number + 1)).await.unwrap();
        to_its_end(watch).await;
        to_its_end(events).await;
        before.push((seat, cookie, client));
    }
    // Also when the host begins again.
    for round in 0..2 {
        for ((code, name, pin), (seat, cookie, client)) in ways.iter().zip(&before) {
            assert!([401, 403].contains(&status(client, "/api/v1/nodes").await), "{name}, {round}");
            assert!(host.of_seat(seat, "GET", "").await.unwrap_err().starts_with("401"), "{name}");
            assert!(host.join(code, name, pin).await.unwrap_err().contains("ended your seat"), "{name}");
            let own = [("cookie", cookie.as_str()), ("origin", host.url.as_str())];
            assert_eq!(host.ask("GET", "/learn/scheduling/", &own, Vec::new()).await.0, 303, "{name}");
            for path in ["kubeconfig", "lines", "events", "step"] {
                let path = format!("/learn/scheduling/{path}");
                assert_eq!(host.ask("GET", &path, &own, Vec::new()).await.0, 401, "{name} {path}");
            }
            assert_eq!(host.ask("POST", "/learn/scheduling/reset", &own, Vec::new()).await.0, 401, "{name}");
        }
        let class: Value = serde_json::from_str(&host.instruct("GET", "/teach/class.json").await.unwrap()).unwrap();
        assert_eq!(class["seats"][0]["revoked"], json!(true));
        // What was done stays for the instructor.
        let look = Value::String(host.instruct("GET", "/teach/seats/0-1/kubeconfig").await.unwrap());
        assert_eq!(status(&client_of(&look).await, "/api/v1/nodes").await, 200);
        if round == 0 {
            host.kill();
            host.resume();
        }
    }
    for (number, ((code, name, pin), (seat, cookie, client))) in ways.iter().zip(&before).enumerate() {
        host.instruct("POST", &format!("/teach/seats/0-{}/readmit", number + 1)).await.unwrap();
        let again = host.join(code, name, pin).await.unwrap();
        assert_eq!(again["seat"], seat["seat"]);
        assert_ne!(again["token"], seat["token"], "who has seen the old one has nothing");
        assert_eq!(status(client, "/api/v1/nodes").await, 401);
        assert_eq!(status(&client_of(&again["kubeconfig"]).await, "/api/v1/nodes").await, 200);
        let own = [("cookie", cookie.as_str())];
        assert_eq!(host.ask("GET", "/learn/scheduling/", &own, Vec::new()).await.0, 303, "nor with the old cookie");
    }
}

/// A step that takes longer than any test waits.
const LONG: &str = r#"lab = "long"

[pool.nodepool1]
mode  = "system"
nodes = 1
size  = "Standard_B2ms"

[[step]]
name = "wait"
do   = [{ wait = "30m" }]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_while_a_step_is_done_ends_with_the_seat() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("long.toml");
    std::fs::write(&file, LONG).unwrap();
    let host = Running::start(&[file.to_str().unwrap()]);
    // To programs, and to who has kubectl alone.
    for (number, (path, body)) in [("step", ""), ("klab", "step\n")].into_iter().enumerate() {
        let seat = host.join(&host.code, &format!("Ann {number}"), "2468").await.unwrap();
        let client = client_of(&seat["kubeconfig"]).await;
        let verified = host.of_seat(&seat, "POST", "/verify").await.unwrap();
        assert_eq!(verified["end"]["ok"], true, "{verified}");
        let path = format!("/api/seats/{}/{path}", seat["seat"].as_str().unwrap());
        let bearer = format!("Bearer {}", seat["token"].as_str().unwrap());
        let own = klab_operations::client::bearer::client(
            &host.url,
            klab_operations::client::bearer::Trust::Anybody,
            None,
            PATIENCE,
        )
        .await;
        let step =
            http::Request::post(&path).header("authorization", bearer).body(Body::from(body.as_bytes().to_vec()));
        let step = own.unwrap().send(step.unwrap()).await.unwrap();
        assert_eq!(step.status(), http::StatusCode::OK);
        assert_eq!(status(&client, "/api/v1/nodes").await, 200);
        let seat = format!("/teach/seats/0-{}", number + 1);
        let under_way = host.instruct("POST", &format!("{seat}/reset")).await.unwrap_err();
        assert!(under_way.starts_with("409"), "{under_way}");
        host.instruct("POST", &format!("{seat}/revoke")).await.unwrap();
        to_its_end(step).await;
        // The step itself ends as well, so that the instructor can go on with the seat.
        let free = async { while host.instruct("POST", &format!("{seat}/reset")).await.is_err() {} };
        tokio::time::timeout(PATIENCE, free).await.expect("the step goes on");
    }
}
