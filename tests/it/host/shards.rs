//! A class of several shards behind nginx, which routes as the Ingress of `deploy/ingress` does: who is led where, and what an instructor
//! of all of them sees and does.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use klab_operations::client::bearer::{self, Trust};
use kube::api::{Api, PostParams};
use kube::client::Body;
use serde_json::{Value, json};

use super::joined::klab;
use super::map;
use super::proxy::{Proxy, has_nginx, is_free};
use super::running::{PATIENCE, Running, client_of};

/// Ports that differ in their last digit; tests that run at the same time get others.
fn ports<const MANY: usize>() -> (String, [u16; MANY]) {
    static TESTS: AtomicU16 = AtomicU16::new(0);
    let test = TESTS.fetch_add(1, Ordering::Relaxed) % 3;
    let first = 2000 + test * 1000 + u16::try_from(std::process::id() % 1200).unwrap();
    let of = |base: u16| std::array::from_fn(|digit| base * 10 + u16::try_from(digit).unwrap());
    let are_free = |base: &u16| of(*base).into_iter().all(is_free);
    let base = (first..first + 1000).find(are_free).unwrap();
    (base.to_string(), of(base))
}

/// A proxy that routes as the Ingress does.
struct Routes(Proxy);

impl Routes {
    fn start(ports: &[u16]) -> Self {
        let shards = ports.iter().enumerate();
        let routes: String = shards
            .map(|(number, port)| format!("location /shards/{number}/ {{ proxy_pass http://127.0.0.1:{port}; }}\n"))
            .collect();
        let servers: String = ports.iter().map(|port| format!("server 127.0.0.1:{port}; ")).collect();
        let any = format!("upstream any {{ {servers}}}\n");
        let inside = format!(
            "proxy_http_version 1.1;\nproxy_buffering off;\nproxy_read_timeout 3600s;\nproxy_set_header Host $http_host;\n\
             proxy_set_header X-Forwarded-For $remote_addr;\n{routes}location / {{ proxy_pass http://any; }}\n",
        );
        Self(Proxy::start(&any, &inside))
    }

    async fn post(&self, url: &str, body: String) -> (u16, Option<String>, String) {
        let (_, path) = url.split_at(self.0.url.len());
        let headers = [("content-type", "application/json"), ("accept", "application/json")];
        let (status, headers, text) = self.ask("POST", path, &headers, body).await;
        (status, headers.get("location").map(|to| to.to_str().unwrap().to_owned()), text)
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: String) -> http::Response<Body> {
        let client = bearer::client(&self.0.url, Trust::Anybody, None, PATIENCE).await.unwrap();
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        client.send(request.body(Body::from(body.into_bytes())).unwrap()).await.unwrap()
    }

    async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> (u16, http::HeaderMap, String) {
        let (parts, body) = self.send(method, path, headers, body).await.into_parts();
        let text = String::from_utf8_lossy(&body.collect().await.unwrap().to_bytes()).into_owned();
        (parts.status.as_u16(), parts.headers, text)
    }

    /// What the instructor is answered who has the cookie of the class.
    async fn instruct(&self, method: &str, path: &str, cookie: &str, body: &str) -> (u16, String) {
        let headers = [("cookie", cookie), ("origin", self.0.url.as_str())];
        let (status, _, text) = self.ask(method, path, &headers, body.to_owned()).await;
        (status, text)
    }

    async fn class(&self, shard: u32, cookie: &str) -> Value {
        let (status, text) = self.instruct("GET", &format!("/shards/{shard}/teach/class.json"), cookie, "").await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// What the owner of a seat is told of it.
    async fn of_seat(&self, seat: &Value) -> Value {
        let name = seat["seat"].as_str().unwrap();
        let shard = name.split('-').next().unwrap();
        let bearer = format!("Bearer {}", seat["token"].as_str().unwrap());
        let path = format!("/shards/{shard}/api/seats/{name}");
        serde_json::from_str(&self.ask("GET", &path, &[("authorization", &bearer)], String::new()).await.2).unwrap()
    }

    /// Joins at the class's own address, and goes where one is led.
    async fn join(&self, code: &str, name: &str, pin: &str) -> Result<Value, String> {
        self.join_at("", code, name, pin).await
    }

    /// As [`Routes::join`], at one of the shards.
    async fn join_at(&self, shard: &str, code: &str, name: &str, pin: &str) -> Result<Value, String> {
        let body = json!({ "code": code, "name": name, "pin": pin }).to_string();
        let mut url = format!("{}{shard}/api/join", self.0.url);
        for _ in 0..3 {
            let (status, to, text) = self.post(&url, body.clone()).await;
            match (status, to) {
                (307, Some(to)) => url = to,
                (200 | 201, _) => return Ok(serde_json::from_str(&text).unwrap()),
                _ => return Err(format!("{status} {text}")),
            }
        }
        Err("led in a circle".to_owned())
    }
}

fn shard(folder: &Path, proxy: &Routes, at: (&str, &[u16]), number: usize) -> Running {
    shard_with(folder, proxy, at, number, &[])
}

/// A shard with further options.
fn shard_with(
    folder: &Path,
    proxy: &Routes,
    (base, ports): (&str, &[u16]),
    number: usize,
    options: &[&str],
) -> Running {
    let (code, secret, authority) = (folder.join("code"), folder.join("secret"), folder.join("ca.pem"));
    std::fs::write(&secret, "what all shards know and no learner does\n").unwrap();
    std::fs::write(&code, "abcd-1234\n").unwrap();
    std::fs::write(&authority, &proxy.0.authority).unwrap();
    let (listen, url) = (format!("127.0.0.1:{}", ports[number]), format!("{}/shards/{number}", proxy.0.url));
    let address = format!("http://127.0.0.1:{base}{{}}");
    let arguments = [
        "scheduling",
        "--resume",
        "--name",
        "class",
        "--listen",
        &listen,
        "--url",
        &url,
        "--behind-proxy",
        "127.0.0.0/8",
        "--tls-ca",
        authority.to_str().unwrap(),
        "--shard",
        &number.to_string(),
        "--shards",
        &ports.len().to_string(),
        "--shard-address",
        &address,
        "--max-seats",
        "2",
        "--join-code-file",
        code.to_str().unwrap(),
        "--shard-secret-file",
        secret.to_str().unwrap(),
    ];
    Running::start(&[&arguments[..], options].concat())
}

#[tokio::test]
async fn people_are_led_to_the_emptiest_shard_and_back_to_their_own() {
    if !has_nginx() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (base, ports) = ports::<2>();
    let proxy = Routes::start(&ports);
    let mut first = shard(folder.path(), &proxy, (&base, &ports), 0);
    let second = shard(folder.path(), &proxy, (&base, &ports), 1);
    assert_eq!((first.code.as_str(), second.code.as_str()), ("abcd-1234", "abcd-1234"));
    let mut seats = BTreeMap::new();
    for name in ["Ann", "Bob", "Cyd", "Dan"] {
        seats.insert(name, proxy.join("abcd-1234", name, "2468").await.unwrap());
    }
    let numbers: Vec<&str> = seats.values().map(|seat| seat["seat"].as_str().unwrap()).collect();
    assert_eq!(numbers, ["0-1", "1-1", "0-2", "1-2"]);
    let refusal = proxy.join("abcd-1234", "Eve", "").await.unwrap_err();
    assert!(refusal.starts_with("503") && refusal.contains("taken"), "{refusal}");
    assert!(proxy.join("wrong-code", "Bob", "2468").await.unwrap_err().starts_with("403"));
    // Everybody comes back to their seat, wherever they are let in, and their cluster is below their shard's path.
    for _ in 0..2 {
        for (name, seat) in &seats {
            assert_eq!(&proxy.join("abcd-1234", name, "2468").await.unwrap()["seat"], &seat["seat"], "{name}");
        }
    }
    let kubeconfig = seats["Ann"]["kubeconfig"].as_str().unwrap();
    assert!(kubeconfig.contains(&format!("{}/shards/0/seats/0/1", proxy.0.url)), "{kubeconfig}");
    let maps: Api<ConfigMap> = Api::default_namespaced(client_of(&seats["Ann"]["kubeconfig"]).await);
    maps.create(&PostParams::default(), &map("written")).await.unwrap();
    // The word between shards is no secret of the proxy's, so nobody outside is told who is in the class.
    let (status, ..) =
        proxy.post(&format!("{}/shards/0/internal/room", proxy.0.url), json!({ "name": "Ann" }).to_string()).await;
    assert_eq!(status, 404);

    first.kill();
    // While a shard is away, who comes back waits: their seat may be there. Its learners are told by the proxy.
    let refusal = proxy.join("abcd-1234", "Ann", "2468").await.unwrap_err();
    assert!(refusal.starts_with("503") && refusal.contains("starting"), "{refusal}");
    assert_eq!(proxy.join("abcd-1234", "Bob", "2468").await.unwrap()["seat"], "1-1");
    first.begin_again();
    assert!(
        maps.get("written").await.is_ok(),
        "a shard that restarts keeps its seats, and nobody needs a new kubeconfig"
    );
    assert_eq!(proxy.join("abcd-1234", "Ann", "2468").await.unwrap()["token"], seats["Ann"]["token"]);
}

/// The cookie that the class gives for the instructor's word, by the class's own address.
async fn cookie_of(proxy: &Routes, shard: &Running) -> String {
    let (status, _, page) = proxy.ask("GET", "/teach/", &[], String::new()).await;
    assert_eq!(status, 200);
    let base = page.split("data-base=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(base.starts_with("/shards/"), "the page goes on at the shard that gave it: {base}");
    let origin = [("origin", proxy.0.url.as_str())];
    let (status, headers, text) = proxy.ask("POST", &format!("{base}/teach/open"), &origin, shard.word()).await;
    assert_eq!(status, 204, "{text}");
    let cookie = headers["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("Path=/shards/;"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

fn seats(class: &Value) -> Vec<&str> {
    class["seats"].as_array().unwrap().iter().map(|seat| seat["seat"].as_str().unwrap()).collect()
}

/// The events of an instructor's page.
struct Events {
    stream: Body,
    /// What came and was not asked for yet: a proxy may hand on several events as one piece.
    come: Vec<u8>,
}

impl Events {
    /// The next one. What only says that the stream is there is none, and nobody waits for longer because of it.
    async fn next(&mut self) -> Value {
        let next = tokio::time::timeout(Duration::from_secs(120), self.whole());
        let event = next.await.expect("the page hears of it");
        serde_json::from_str(event.split_once("data: ").expect("an event has data").1.trim_end()).unwrap()
    }

    async fn whole(&mut self) -> String {
        loop {
            while let Some(end) = self.come.windows(2).position(|two| two == b"\n\n") {
                let event = String::from_utf8(self.come.drain(..end + 2).collect()).unwrap();
                if !event.starts_with(':') {
                    return event;
                }
            }
            let frame = self.stream.frame().await.expect("the stream goes on").unwrap();
            self.come.extend(frame.into_data().unwrap_or_default());
        }
    }
}

#[tokio::test]
async fn one_page_shows_all_shards_and_acts_on_all_of_them() {
    if !has_nginx() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (base, ports) = ports::<2>();
    let proxy = Routes::start(&ports);
    let first = shard(folder.path(), &proxy, (&base, &ports), 0);
    let mut second = shard(folder.path(), &proxy, (&base, &ports), 1);
    assert_eq!(first.word(), second.word(), "one link is the instructor's at all shards");
    let ann = proxy.join("abcd-1234", "Ann", "2468").await.unwrap();
    let bob = proxy.join("abcd-1234", "Bob", "2468").await.unwrap();
    assert_eq!((&ann["seat"], &bob["seat"]), (&json!("0-1"), &json!("1-1")));
    let cookie = cookie_of(&proxy, &first).await;
    for shard in [0, 1] {
        let class = proxy.class(shard, &cookie).await;
        assert_eq!(seats(&class), ["0-1", "1-1"], "at shard {shard}");
        let facts = &class["class"];
        assert_eq!((&facts["people"], &facts["most"], &facts["shards"]), (&json!(2), &json!(4), &json!(2)));
        assert_eq!((&facts["away"], &facts["codes"][0]["used"]), (&json!([]), &json!(2)));
        assert_eq!(class["histogram"]["scheduling"].as_array().unwrap()[0], json!(2));
        let sheet = proxy.instruct("GET", &format!("/shards/{shard}/teach/class.csv"), &cookie, "").await.1;
        assert!(sheet.contains("0-1,Ann,") && sheet.contains("1-1,Bob,"), "{sheet}");
    }
    let own = proxy.instruct("GET", "/shards/1/teach/class.json?own=true", &cookie, "").await.1;
    assert_eq!(seats(&serde_json::from_str(&own).unwrap()), ["1-1"]);

    // What is done to a seat is done where it is; a look is led there.
    let (status, text) = proxy.instruct("POST", "/shards/0/teach/seats/1-1/steps?done=2", &cookie, "").await;
    assert_eq!(status, 204, "{text}");
    assert_eq!(proxy.of_seat(&bob).await["done"], json!(2));
    assert_eq!(proxy.instruct("POST", "/shards/0/teach/seats/1-9/reset", &cookie, "").await.0, 404);
    assert_eq!(proxy.instruct("POST", "/shards/0/teach/seats/7-1/reset", &cookie, "").await.0, 404);
    let headers = [("cookie", cookie.as_str())];
    let (status, led, _) = proxy.ask("GET", "/shards/0/teach/seats/1-1/", &headers, String::new()).await;
    assert_eq!(
        (status, led["location"].to_str().unwrap()),
        (307, &*format!("{}/shards/1/teach/seats/1-1/", proxy.0.url))
    );
    let (status, page) = proxy.instruct("GET", "/shards/1/teach/seats/1-1/", &cookie, "").await;
    assert!(status == 200 && page.contains("data-part=\"lesson\""), "{page}");
    for (path, words) in [("hint", "to all"), ("seats/1-1/hint", "to Bob")] {
        assert_eq!(proxy.instruct("POST", &format!("/shards/0/teach/{path}"), &cookie, words).await.0, 204);
    }
    assert_eq!(proxy.of_seat(&ann).await["hints"], json!(["to all"]));
    assert_eq!(proxy.of_seat(&bob).await["hints"], json!(["to all", "to Bob"]));
    assert_eq!(proxy.instruct("POST", "/shards/1/teach/open-next", &cookie, "").await.0, 204);
    assert_eq!(proxy.of_seat(&ann).await["opened"], json!(true), "the next step is open at the other shard, too");
    assert_eq!(proxy.instruct("POST", "/shards/0/teach/close", &cookie, "").await.0, 204);
    assert_eq!(proxy.of_seat(&bob).await["open"], json!(false));
    assert_eq!(proxy.instruct("POST", "/shards/1/teach/extend?minutes=5", &cookie, "").await.0, 204);
    let (ann_closes, bob_closes) =
        (proxy.of_seat(&ann).await["closes"].take(), proxy.of_seat(&bob).await["closes"].take());
    assert!(ann_closes == bob_closes && ann_closes.is_string(), "{ann_closes} {bob_closes}");

    // A shard that goes away is shown as away, and comes back with what was decided meanwhile.
    let stream = proxy.send("GET", "/shards/0/teach/events", &headers, String::new()).await.into_body();
    let mut page = Events { stream, come: Vec::new() };
    let mut shown = [page.next().await, page.next().await];
    shown.sort_by_key(|news| news["shard"].as_u64());
    for (number, news) in shown.iter().enumerate() {
        assert_eq!((&news["shard"], &news["all"]), (&json!(number), &json!(true)));
        assert_eq!(news["rows"][0]["seat"], json!(format!("{number}-1")));
    }
    second.kill();
    let news = page.next().await;
    assert_eq!((&news["shard"], &news["class"]["away"]), (&json!(1), &json!([1])));
    assert!(news["class"]["codes"].is_null(), "codes are said when they change");
    let class = proxy.class(0, &cookie).await;
    assert_eq!((seats(&class), &class["class"]["away"]), (vec!["0-1"], &json!([1])));
    let (status, text) = proxy.instruct("POST", "/shards/0/teach/seats/1-1/reset", &cookie, "").await;
    assert!(status == 503 && text.contains("shard 1 is away"), "{text}");
    let (status, text) = proxy.instruct("POST", "/shards/0/teach/hint", &cookie, "said meanwhile").await;
    assert!(status == 202 && text.contains("shard 1 is away"), "{text}");
    second.begin_again();
    loop {
        let news = page.next().await;
        if news["class"]["away"] == json!([]) && news["shard"] == json!(1) {
            assert_eq!((&news["all"], &news["rows"][0]["name"]), (&json!(true), &json!("Bob")));
            break;
        }
    }
    assert_eq!(proxy.of_seat(&bob).await["hints"], json!(["said meanwhile", "to Bob"]));
}

#[tokio::test]
async fn a_code_for_a_seat_is_one_seat_of_the_whole_class() {
    if !has_nginx() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (base, ports) = ports::<2>();
    let proxy = Routes::start(&ports);
    let mut first = shard(folder.path(), &proxy, (&base, &ports), 0);
    let mut second = shard(folder.path(), &proxy, (&base, &ports), 1);
    let cookie = cookie_of(&proxy, &second).await;
    let (status, text) = proxy.instruct("POST", "/shards/0/teach/codes?seats=3", &cookie, "").await;
    assert_eq!(status, 200, "{text}");
    let codes: Vec<&str> = text.lines().collect();
    // Typed at both shards at once, and again: one seat.
    let shards = ["/shards/0", "/shards/1", "", "/shards/0", "/shards/1", ""];
    let tries = shards.map(|shard| proxy.join_at(shard, codes[0], "Eve", ""));
    let seats: std::collections::BTreeSet<String> =
        futures::future::join_all(tries).await.into_iter().map(|seat| seat.unwrap()["seat"].to_string()).collect();
    assert_eq!(seats.len(), 1, "{seats:?}");
    // Who says that they were led already is led all the same.
    let body = json!({ "code": codes[0], "name": "Mallory" }).to_string();
    let mut led = Vec::new();
    for shard in [0, 1] {
        led.push(proxy.post(&format!("{}/shards/{shard}/api/join?led=1", proxy.0.url), body.clone()).await.0);
    }
    led.sort_unstable();
    assert_eq!(led, [200, 307]);
    // One that was taken back at a shard opens nothing at the other, nor at one that did not hear of it.
    let numbers = |class: &Value| -> Vec<u64> {
        let codes = class["class"]["codes"].as_array().unwrap().iter();
        codes.filter(|code| code["of"] == "seat").map(|code| code["number"].as_u64().unwrap()).collect()
    };
    let known = numbers(&proxy.class(1, &cookie).await);
    assert_eq!(known.len(), 3, "the other shard knows them");
    assert_eq!(proxy.instruct("POST", &format!("/shards/1/teach/revoke?code={}", known[1]), &cookie, "").await.0, 204);
    for shard in ["", "/shards/0", "/shards/1"] {
        let refusal = proxy.join_at(shard, codes[1], "Zoe", "").await.unwrap_err();
        assert!(refusal.contains("taken this code back"), "{refusal}");
    }
    second.kill();
    let (status, text) =
        proxy.instruct("POST", &format!("/shards/0/teach/revoke?code={}", known[2]), &cookie, "").await;
    assert!(status == 202 && text.contains("away"), "{text}");
    let (status, late) = proxy.instruct("POST", "/shards/0/teach/codes?seats=2", &cookie, "").await;
    assert_eq!(status, 200);
    // One of these is good at the shard that is away, and its turn comes when it is back; the other one hinders nobody.
    let both = futures::future::join_all(late.lines().map(|code| proxy.join(code, "Late", ""))).await;
    assert_eq!(both.iter().filter(|seat| seat.is_ok()).count(), 1, "{both:?}");
    assert!(both.iter().any(|seat| seat.as_ref().is_err_and(|refusal| refusal.contains("just starting"))), "{both:?}");
    second.begin_again();
    let refusal = proxy.join_at("/shards/1", codes[2], "Zoe", "").await.unwrap_err();
    assert!(refusal.contains("taken this code back"), "{refusal}");
    // The code is good also while the shard that made it is away.
    first.kill();
    let waiting = late.lines().zip(&both).find(|(_, seat)| seat.is_err()).unwrap().0;
    assert_eq!(proxy.join_at("/shards/1", waiting, "Late", "").await.unwrap()["seat"].as_str().unwrap()[..2], *"1-");
    first.begin_again();
    // What a learner knows opens nothing of the instructor's, and nothing between shards.
    let word = second.word();
    for (path, bearer) in [
        ("/shards/1/internal/class", word.as_str()),
        ("/shards/1/internal/decisions", "abcd-1234"),
        ("/shards/1/internal/class", codes[0]),
    ] {
        let bearer = format!("Bearer {bearer}");
        assert_eq!(proxy.ask("GET", path, &[("authorization", &bearer)], String::new()).await.0, 404, "{path}");
    }
    assert_eq!(proxy.ask("GET", "/shards/1/teach/class.json", &[], String::new()).await.0, 401);
}

#[tokio::test]
async fn a_code_of_so_many_uses_has_them_at_all_shards_together() {
    if !has_nginx() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (base, ports) = ports::<2>();
    let proxy = Routes::start(&ports);
    let bound = ["--code-uses", "3"];
    let _first = shard_with(folder.path(), &proxy, (&base, &ports), 0, &bound);
    let mut second = shard_with(folder.path(), &proxy, (&base, &ports), 1, &bound);
    for name in ["Ann", "Bob"] {
        proxy.join("abcd-1234", name, "2468").await.unwrap();
    }
    second.kill();
    let refusal = proxy.join_at("/shards/0", "abcd-1234", "Cyd", "2468").await.unwrap_err();
    assert!(refusal.starts_with("503") && refusal.contains("starting"), "{refusal}");
    second.begin_again();
    proxy.join("abcd-1234", "Cyd", "2468").await.unwrap();
    // There are seats, and each shard by itself has let in fewer.
    for shard in ["", "/shards/0", "/shards/1"] {
        let refusal = proxy.join_at(shard, "abcd-1234", "Dan", "2468").await.unwrap_err();
        assert!(refusal.contains("as many people have come"), "{refusal}");
    }
    // Nor by saying that one was led already.
    let body = json!({ "code": "abcd-1234", "name": "Mallory", "pin": "2468" }).to_string();
    for shard in [0, 1] {
        let (status, _, text) =
            proxy.post(&format!("{}/shards/{shard}/api/join?led=1", proxy.0.url), body.clone()).await;
        assert!(status != 200 && text.contains("as many people have come"), "{status} {text}");
    }
    assert!(proxy.join("abcd-1234", "Ann", "2468").await.is_ok(), "who has come comes back");
}

#[tokio::test(flavor = "multi_thread")]
async fn klab_joins_at_the_address_of_the_class_and_works_at_the_shard_of_the_seat() {
    if !has_nginx() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (base, ports) = ports::<3>();
    let proxy = Routes::start(&ports);
    let _shards = [0, 1, 2].map(|number| shard(folder.path(), &proxy, (&base, &ports), number));
    let mut seats = Vec::new();
    for name in ["Ann", "Bob", "Cyd", "Dan"] {
        let learner = folder.path().join(name);
        let join = ["join", &proxy.0.url, "abcd-1234", "--name", name, "--trust-on-first-use", "--format", "json"];
        let (code, joined, said) = klab(&learner, &join);
        assert_eq!(code, 0, "{name}: {said}");
        let joined: Value = serde_json::from_str(joined.lines().last().unwrap()).unwrap();
        seats.push(joined["seat"].as_str().unwrap().to_owned());
        for command in [&["guide"][..], &["verify"], &["step"], &["status"], &["explain", "plain"]] {
            let (code, output, said) = klab(&learner, command);
            assert_eq!(code, 0, "{name}, {command:?}: {output}{said}");
        }
    }
    assert_eq!(seats, ["0-1", "1-1", "2-1", "0-2"]);
    // A seat saved with only the address of its class is found as well.
    let kept = folder.path().join("Dan/labs/scheduling/seat.json");
    let mut seat: Value = serde_json::from_slice(&std::fs::read(&kept).unwrap()).unwrap();
    assert_eq!(seat["url"], json!(format!("{}/shards/0", proxy.0.url)));
    seat["url"] = json!(proxy.0.url);
    std::fs::write(&kept, seat.to_string()).unwrap();
    for _ in 0..3 {
        let (code, output, said) = klab(&folder.path().join("Dan"), &["verify"]);
        assert_eq!(code, 0, "{output}{said}");
    }
}
