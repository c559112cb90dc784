//! People who sign in at an identity provider, in place of code, name and PIN.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::identity::{Browser, By, CLIENT, Mood, Provider, SECRET, Shown};
use super::running::Running;
use crate::environment::Environment;

/// A class whose people sign in at a provider, and the folder of its secret.
pub(super) fn class(provider: &Provider, more: &[&str]) -> (Running, tempfile::TempDir) {
    class_at(&provider.url, more)
}

fn class_at(issuer: &str, more: &[&str]) -> (Running, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    let arguments = ["scheduling", "--oidc-issuer", issuer, "--oidc-client-id", CLIENT, "--oidc-client-secret-file"];
    (Running::start(&[&arguments[..], &[secret.to_str().unwrap()], more].concat()), folder)
}

/// How a provider goes wrong.
type Change = Box<dyn FnOnce(&mut Mood)>;

/// Follows the link of the entrance.
async fn sign_in(host: &Running, browser: &mut Browser) -> Shown {
    browser.go(&format!("{}/oidc/begin", host.url)).await
}

/// The seat that the page of a learner shows.
fn seat(shown: &Shown) -> String {
    assert_eq!((shown.status, shown.url.ends_with("/learn/scheduling/")), (200, true), "{shown:?}");
    let (_, rest) = shown.text.split_once("Seat ").unwrap();
    rest.split([',', '<']).next().unwrap().to_owned()
}

/// The lines of the audit log.
fn audit(host: &Running) -> Vec<Value> {
    let text = std::fs::read_to_string(host.home().join("hosts/scheduling/audit.log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn last_why(host: &Running) -> String {
    audit(host).last().unwrap()["why"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_person_gets_the_same_seat_from_any_machine() {
    let provider = Provider::start().await;
    let (mut host, _folder) = class(&provider, &["--oidc-allow", "groups=platform"]);
    assert_eq!(
        host.document["sign_in"],
        json!({ "issuer": provider.url, "redirect": format!("{}/oidc/callback", host.url) })
    );
    let entrance = host.text("/").await;
    assert!(
        entrance.contains(&format!("{}/oidc/begin", host.url)) && entrance.contains("Sign in at 127.0.0.1"),
        "{entrance}"
    );
    let (mut laptop, mut tablet) = (Browser::default(), Browser::default());
    let first = sign_in(&host, &mut laptop).await;
    assert_eq!(seat(&first), "0-1");
    // Led to the provider, back, and to the seat; the browser has forgotten that it signed in.
    assert_eq!(first.way.len(), 4, "{:?}", first.way);
    assert_eq!((laptop.cookie("__Host-klab-sign-in"), laptop.cookie("klab-learner").is_some()), (None, true));
    assert_eq!(seat(&sign_in(&host, &mut tablet).await), "0-1");
    // Somebody of the same name is another person, by sign-in or by PIN.
    provider.well("other-ann", "Ann");
    assert_eq!(seat(&sign_in(&host, &mut Browser::default()).await), "0-2");
    assert_eq!(host.join(&host.code, "Ann", "2468").await.unwrap()["seat"], "0-3");
    let seats: Value = serde_json::from_str(&host.instruct("GET", "/teach/class.json").await.unwrap()).unwrap();
    let names: Vec<&Value> = seats["seats"].as_array().unwrap().iter().map(|seat| &seat["name"]).collect();
    assert_eq!(names, ["Ann", "Ann", "Ann"]);

    host.kill();
    host.begin_again_resumed();
    provider.well("ann", "Ann of another name");
    assert_eq!(seat(&sign_in(&host, &mut Browser::default()).await), "0-1");
    // Whoever has a seat needs no provider.
    let shown = laptop.go(&format!("{}/learn/scheduling/", host.url)).await;
    assert!(shown.status == 200 || shown.url.contains("/learn/"), "{shown:?}");

    let folder = host.home().join("hosts/scheduling");
    let written: String =
        ["audit.log", "journal"].map(|name| std::fs::read_to_string(folder.join(name)).unwrap()).concat();
    let said = std::fs::read_to_string(host.home().join("host.err")).unwrap();
    let mut secrets = provider.secrets();
    secrets.extend([SECRET.to_owned(), "other-ann".to_owned()]);
    for secret in secrets {
        assert!(!written.contains(&secret) && !said.contains(&secret), "{secret}");
    }
    assert!(audit(&host).iter().any(|line| line["what"] == "join" && line["by"] == "sign-in" && line["seat"] == "0-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_is_of_one_browser_and_good_once() {
    let provider = Provider::start().await;
    let (host, _folder) = class(&provider, &["--oidc-allow", "anybody"]);
    let mut ann = Browser::default();
    let begun = format!("{}/oidc/begin", host.url);
    let (status, to, _) = ann.ask("GET", &begun, "").await;
    let to = to.unwrap();
    assert_eq!(status, 303);
    let cookie = ann.cookie("__Host-klab-sign-in").unwrap();
    assert!(cookie.ends_with("; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
    let (_, back, _) = ann.ask("GET", &to, "").await;
    let back = back.unwrap();
    // Another browser that is led to Ann's way back gets nothing of it; a state that is changed is nobody's.
    let mut eve = Browser::default();
    for (browser, url) in [
        (&mut eve.clone(), back.clone()),
        (&mut ann.clone(), back.replace("state=0.", "state=0.1")),
        (&mut ann.clone(), back.replace(".seat.", ".teach.")),
        (&mut ann.clone(), format!("{begun}/../callback?code=x").replace("/begin/..", "")),
        (&mut ann.clone(), format!("{back}&code=y")),
    ] {
        let shown = browser.go(&url).await;
        assert_eq!((shown.status, shown.text.contains("begin again")), (400, true), "{url}: {shown:?}");
        assert!(browser.cookie("klab-learner").is_none());
    }
    eve.go(&begun).await;
    assert_eq!(eve.go(&back).await.status, 400, "a browser with a sign-in of its own");
    let before = ann.clone();
    assert_eq!(seat(&ann.go(&back).await), "0-1");
    let shown = before.clone().go(&back).await;
    assert_eq!(shown.status, 400, "{shown:?}");
    assert!(last_why(&host).contains("used before"));
    // A code of the provider's that was used, with a state that was not.
    let mut again = before;
    let (_, to, _) = again.ask("GET", &begun, "").await;
    let state = to.unwrap().split_once("state=").unwrap().1.split('&').next().unwrap().to_owned();
    let code = back.split_once("code=").unwrap().1.split('&').next().unwrap().to_owned();
    let shown = again.go(&format!("{}/oidc/callback?code={code}&state={state}", host.url)).await;
    assert_eq!(shown.status, 400, "{shown:?}");
    assert!(last_why(&host).contains("invalid_grant"), "{}", last_why(&host));
    // Two windows of one browser do not end each other's sign-in.
    let mut windows = Browser::default();
    let mut ways = Vec::new();
    for _ in 0..2 {
        let (_, to, _) = windows.ask("GET", &begun, "").await;
        ways.push(windows.ask("GET", &to.unwrap(), "").await.1.unwrap());
    }
    assert_eq!(seat(&windows.clone().go(&ways[0]).await), seat(&windows.go(&ways[1]).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_believed_signs_nobody_in_and_the_audit_log_says_why() {
    let provider = Provider::start().await;
    let (host, _folder) = class(&provider, &["--oidc-allow", "groups=platform"]);
    let now = jiff::Timestamp::now().as_second();
    let claims = |claims: Value| move |mood: &mut Mood| mood.claims = claims;
    let wrong: Vec<(Change, u16, &str)> = vec![
        (Box::new(claims(json!({ "nonce": "of another" }))), 502, "nonce"),
        (Box::new(claims(json!({ "iss": "https://evil.net" }))), 502, "iss"),
        (Box::new(claims(json!({ "aud": "another" }))), 502, "aud"),
        (Box::new(claims(json!({ "azp": "another" }))), 502, "azp"),
        (Box::new(claims(json!({ "exp": now - 300 }))), 502, "exp"),
        (Box::new(claims(json!({ "sub": null }))), 502, "sub"),
        (Box::new(|mood| mood.by = By::Nobody), 502, "a way that klab does not take"),
        (Box::new(|mood| mood.by = By::Public), 502, "HS256"),
        (Box::new(|mood| mood.by = By::Foreigner), 502, "not signed by a key"),
        (Box::new(|mood| mood.head = Some(json!({ "alg": "ES256", "kid": "99" }))), 502, "no key"),
        (Box::new(|mood| mood.answer = Some((200, "{}".into()))), 502, "no ID token"),
        (Box::new(|mood| mood.answer = Some((200, "x".repeat(300_000)))), 502, "more than"),
        (Box::new(|mood| mood.answer = Some((400, r#"{"error":"invalid_client"}"#.into()))), 502, "--oidc-client-id"),
        (Box::new(|mood| mood.answer = Some((307, String::new()))), 502, "does not follow"),
        (Box::new(|mood| mood.answer = Some((503, String::new()))), 503, "503"),
        (Box::new(|mood| mood.refuses = Some("access_denied".into())), 403, "access_denied"),
        (
            Box::new(|mood| mood.person = json!({ "sub": "1", "name": "Eve", "groups": ["others"] })),
            403,
            "no --oidc-allow holds",
        ),
        (
            Box::new(|mood| {
                mood.person = json!({ "sub": "1", "name": "Eve" });
                mood.more = json!({ "sub": "2", "groups": ["platform"] });
            }),
            502,
            "another user",
        ),
        (Box::new(|mood| mood.person = json!({ "sub": "1", "name": "Eve" })), 403, "nothing of `groups`"),
    ];
    for (change, status, word) in wrong {
        provider.well("ann", "Ann");
        provider.feels(change);
        let mut browser = Browser::default();
        let shown = sign_in(&host, &mut browser).await;
        let why = last_why(&host);
        assert_eq!((shown.status, why.contains(word)), (status, true), "{word}: {why}: {}", shown.text);
        assert!(browser.cookie("klab-learner").is_none() && !shown.text.contains("<b>"), "{word}");
    }
    // It is well again, and nobody has to do anything.
    provider.well("ann", "Ann");
    assert_eq!(seat(&sign_in(&host, &mut Browser::default()).await), "0-1");
    assert_eq!(audit(&host).iter().filter(|line| line["what"] == "join").count(), 1);
    let metrics = host.text("/metrics").await;
    assert!(metrics.contains("klab_host_sign_in_failed_total{class=\"scheduling\"} 19\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_not_what_it_should_be_or_away_is_in_nobody_elses_way() {
    // A port that was free a moment ago may be another test's by now; at this one nobody listens.
    let nobody = "http://127.0.0.1:1".to_owned();
    let mut hosts = Vec::new();
    let [other, leading, huge, silent] =
        [Provider::start().await, Provider::start().await, Provider::start().await, Provider::start().await];
    other.feels(|mood| mood.itself = json!({ "issuer": "https://evil.net" }));
    leading.feels(|mood| mood.leads = Some("http://127.0.0.1:1/".into()));
    huge.feels(|mood| mood.itself = json!({ "x": "x".repeat(300_000) }));
    silent.feels(|mood| mood.is_silent = true);
    for (issuer, status, word) in [
        (other.url.as_str(), 502, "letter for letter"),
        (&leading.url, 502, "does not follow"),
        (&huge.url, 502, "more than"),
        (&silent.url, 503, "did not answer"),
        (&nobody, 503, "not reached"),
    ] {
        hosts.push((class_at(issuer, &["--oidc-allow", "anybody"]), status, word));
    }
    for ((host, _folder), status, word) in &hosts {
        let ann = host.join(&host.code, "Ann", "2468").await.unwrap();
        let shown = sign_in(host, &mut Browser::default()).await;
        assert_eq!((shown.status, last_why(host).contains(word)), (*status, true), "{word}: {}", last_why(host));
        assert!(shown.text.contains("code"), "{}", shown.text);
        assert_eq!(host.join(&host.code, "Ann", "2468").await.unwrap()["seat"], ann["seat"]);
        // Whoever runs the class is told at once.
        let said = std::fs::read_to_string(host.home().join("host.err")).unwrap();
        assert!(said.contains("sign-in is unavailable") && said.contains(word), "{word}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn new_keys_of_the_provider_are_asked_for_when_they_are_needed_and_not_by_whoever_likes() {
    let provider = Provider::start().await;
    let (host, _folder) = class(&provider, &["--oidc-allow", "anybody"]);
    let mut asked = Vec::new();
    for _ in 0..3 {
        assert_eq!(seat(&sign_in(&host, &mut Browser::default()).await), "0-1");
        assert_eq!(seat(&sign_in(&host, &mut Browser::default()).await), "0-1");
        asked.push(provider.keys_asked());
        provider.rotate();
    }
    assert_eq!(asked, [1, 2, 3]);
    provider.feels(|mood| mood.by = By::Foreigner);
    for _ in 0..12 {
        assert_eq!(sign_in(&host, &mut Browser::default()).await.status, 502);
    }
    assert_eq!(provider.keys_asked(), 1 + 6, "six times a minute out of turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_says_who_may_come_the_code_is_needed_once() {
    let provider = Provider::start().await;
    let (host, _folder) = class(&provider, &[]);
    let shown = sign_in(&host, &mut Browser::default()).await;
    assert_eq!((shown.status, shown.text.contains("type it at the entrance")), (403, true), "{shown:?}");
    let mut browser = Browser::default();
    let begin = format!("{}/oidc/begin", host.url);
    let (status, _, text) = browser.ask("POST", &begin, "code=0000-0000").await;
    assert_eq!((status, text.contains("this code is not valid")), (403, true), "{text}");
    // A browser follows no form to another site: a page leads on.
    let (status, to, text) = browser.ask("POST", &begin, &format!("code={}", host.code)).await;
    assert_eq!((status, to), (200, None));
    let to = text.split_once("<a class=\"button next primary\" href=\"").unwrap().1.split('"').next().unwrap();
    let to = to.replace("&amp;", "&").replace("&#x2F;", "/").replace("&#x3D;", "=");
    assert!(!to.contains(&host.code), "{to}");
    assert_eq!(seat(&browser.go(&to).await), "0-1");
    assert_eq!(seat(&sign_in(&host, &mut Browser::default()).await), "0-1", "who was here needs none");
    provider.well("bob", "Bob");
    assert_eq!(sign_in(&host, &mut Browser::default()).await.status, 403);
    // A code in an address is no code.
    let shown = Browser::default().go(&format!("{begin}?code={}", host.code)).await;
    assert_eq!(shown.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_from_the_page_opens_the_same_seat_in_a_terminal_once() {
    let provider = Provider::start().await;
    let (host, _folder) = class(&provider, &["--oidc-allow", "anybody"]);
    let told: Value = serde_json::from_str(&host.text("/api/sign-in").await).unwrap();
    let terminal = told["terminal"].as_str().unwrap().to_owned();
    let environment = Environment::new();
    let refused = environment.run(&["join", host.document["join"].as_str().unwrap(), "--name", "Ann"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains(&terminal), "{said}");

    let shown = Browser::default().go(&terminal).await;
    assert_eq!((shown.status, shown.url.ends_with("/learn/scheduling/lines")), (200, true), "{shown:?}");
    let text = shown.text.replace("&#x27;", "'").replace("&#x2F;", "/").replace("&#x3D;", "=").replace("&#39;", "'");
    let line = text.split_once("<pre><code>klab join ").unwrap().1.split('<').next().unwrap().to_owned();
    let words: Vec<&str> = line.split(' ').map(|word| word.trim_matches('\'')).collect();
    let joined = environment.run(&[&["join"], &words[..]].concat());
    let said = String::from_utf8(joined.stderr).unwrap();
    assert!(joined.status.success() && said.contains("seat 0-1") && !said.contains("PIN"), "{said}");
    let status = environment.succeeds(&["status"]);
    assert!(status.contains("scheduling"), "{status}");
    let again = host.join(words[1], "Ann", "").await.unwrap_err();
    assert!(again.starts_with("403") && again.contains("this code is not valid"), "{again}");
    // Whoever has a PIN has no use for such a code.
    let ann = host.join(&host.code, "Ann", "2468").await.unwrap();
    assert_eq!((&ann["seat"], &ann["has_pin"]), (&json!("0-2"), &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn instructors_sign_in_where_a_rule_says_who_they_are() {
    let provider = Provider::start().await;
    let (host, _folder) = class(
        &provider,
        &["--oidc-allow", "anybody", "--oidc-instructors", "groups=teachers", "--oidc-instructors", "email=t@x.org"],
    );
    let teach = format!("{}/teach/", host.url);
    let page = host.text("/teach/").await;
    assert!(page.contains("/oidc/begin?then=teach"), "{page}");
    let sign_in = format!("{}/oidc/begin?then=teach", host.url);
    let mut ann = Browser::default();
    assert_eq!(ann.go(&sign_in).await.status, 403);
    assert_eq!(ann.ask("GET", &format!("{teach}class.json"), "").await.0, 401);
    // What the ID token does not say is asked for.
    provider.feels(|mood| mood.more = json!({ "sub": "ann", "email": "T@x.org", "email_verified": true }));
    let shown = ann.go(&sign_in).await;
    assert_eq!((shown.status, shown.url.as_str()), (200, teach.as_str()), "{shown:?}");
    assert!(shown.text.contains("data-known=\"true\""), "{}", shown.text);
    assert_eq!(ann.ask("GET", &format!("{teach}class.json"), "").await.0, 200);
    let cookie = ann.cookie("klab-teaching").unwrap();
    assert!(cookie.contains("Max-Age=43200; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
    // The day's end is part of what is proved.
    let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
    let later = format!("{name}=9{value}");
    assert_eq!(host.ask("GET", "/teach/class.json", &[("cookie", &later)], Vec::new()).await.0, 401);
    let seen: BTreeSet<String> = audit(&host).iter().map(|line| line["what"].to_string()).collect();
    assert_eq!(seen, ["\"instructor\"", "\"refused\""].map(str::to_owned).into(), "nobody got a seat by it");
    let (plain, _folder) = class(&provider, &["--oidc-allow", "anybody"]);
    assert_eq!(Browser::default().go(&format!("{}/oidc/begin?then=teach", plain.url)).await.status, 404);
}

#[test]
fn options_that_do_not_go_together_are_refused_with_what_to_type() {
    let environment = Environment::new();
    let code = environment.write("code", "abcd-1234");
    let empty = environment.write("empty", "\n");
    let shared = environment.write("shared", "what-all-shards-of-this-class-have-and-no-learner");
    let shared = shared.to_str().unwrap();
    let (code, empty) = (code.to_str().unwrap(), empty.to_str().unwrap());
    let base = ["host", "scheduling", "--oidc-issuer", "https://login.example.org"];
    for (arguments, word) in [
        (&base[..], "--oidc-client-id"),
        (&["host", "scheduling", "--oidc-issuer", "http://login.example.org", "--oidc-client-id", "x"], "https://"),
        (&["host", "scheduling", "--oidc-allow", "anybody"], "--oidc-issuer"),
        (&[&base[..], &["--oidc-client-id", "x", "--oidc-allow", "everybody"]].concat(), "groups=platform"),
        (&[&base[..], &["--oidc-client-id", "x", "--oidc-client-secret-file", empty]].concat(), "no secret in it"),
        (&[&base[..], &["--oidc-client-id", "x", "--oidc-client-secret-file", "/nowhere"]].concat(), "/nowhere"),
        (
            &[
                &base[..],
                &["--oidc-client-id", "x", "--shards", "2", "--shard-address", "http://h{}", "--join-code-file", code],
                &["--shard-secret-file", shared],
            ]
            .concat(),
            "--oidc-allow",
        ),
    ] {
        let output = environment.run(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(word), "{arguments:?}: {said}");
    }
}
