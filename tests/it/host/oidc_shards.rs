//! Signing in to a class behind a proxy: of two shards, and below a path. These tests are the proxy, and ask the hosts as one does.

use std::net::TcpListener;
use std::path::Path;

use super::identity::{Browser, CLIENT, Provider, SECRET};
use super::running::{Running, free_port};

const CLASS: &str = "https://labs.example.org";

/// Two ports that differ in their last digit, above those of [`free_port`] and below those that the system gives.
fn ports() -> (String, [u16; 2]) {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = 3100 + u16::try_from(std::process::id() % 100).unwrap();
    let base = (first..first + 70).find(|base| is_free(base * 10) && is_free(base * 10 + 1)).unwrap();
    (base.to_string(), [base * 10, base * 10 + 1])
}

fn shard(folder: &Path, provider: &Provider, (base, ports): (&str, [u16; 2]), number: usize) -> Running {
    let (code, secret, shared) = (folder.join("code"), folder.join("secret"), folder.join("shared"));
    std::fs::write(&code, "abcd-1234\n").unwrap();
    std::fs::write(&secret, SECRET).unwrap();
    std::fs::write(&shared, "what-all-shards-of-this-class-have-and-no-learner").unwrap();
    let (listen, url) = (format!("127.0.0.1:{}", ports[number]), format!("{CLASS}/shards/{number}"));
    Running::start(&[
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
        "--shard",
        &number.to_string(),
        "--shards",
        "2",
        "--shard-address",
        &format!("http://127.0.0.1:{base}{{}}"),
        "--max-seats",
        "2",
        "--join-code-file",
        code.to_str().unwrap(),
        "--shard-secret-file",
        shared.to_str().unwrap(),
        "--oidc-issuer",
        &provider.url,
        "--oidc-client-id",
        CLIENT,
        "--oidc-client-secret-file",
        secret.to_str().unwrap(),
        "--oidc-allow",
        "anybody",
    ])
}

/// A browser for which the class's own paths are answered by one of the shards, and each shard's by itself.
fn browser(ports: [u16; 2], any: usize) -> Browser {
    let at = |number: usize| format!("http://127.0.0.1:{}", ports[number]);
    let ways = vec![
        (format!("{CLASS}/shards/0/"), at(0)),
        (format!("{CLASS}/shards/1/"), at(1)),
        (format!("{CLASS}/"), at(any)),
    ];
    Browser::behind(ways)
}

/// Where somebody's page is, who begins at one shard and is led back to another.
async fn seat(browser: &mut Browser, begins: usize) -> String {
    let shown = browser.go(&format!("{CLASS}/shards/{begins}/oidc/begin")).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    let (_, rest) = shown.text.split_once("Seat ").unwrap_or_else(|| panic!("{shown:?}"));
    let seat = rest.split([',', '<']).next().unwrap().to_owned();
    assert!(shown.url.starts_with(&format!("{CLASS}/shards/{}/learn/", &seat[..1])), "{}", shown.url);
    seat
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_signs_in_comes_to_their_shard_wherever_they_begin_and_are_led_back() {
    let provider = Provider::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (base, ports) = ports();
    let mut first = shard(folder.path(), &provider, (&base, ports), 0);
    let second = shard(folder.path(), &provider, (&base, ports), 1);
    for host in [&first, &second] {
        assert_eq!(host.document["sign_in"]["redirect"], format!("{CLASS}/oidc/callback"));
    }
    let mut seats = Vec::new();
    for name in ["ann", "bob", "cyd"] {
        provider.well(name, name);
        seats.push(seat(&mut browser(ports, 1), 0).await);
    }
    assert_eq!(seats, ["0-1", "1-1", "0-2"]);
    for (name, wanted) in ["ann", "bob", "cyd"].iter().zip(&seats) {
        provider.well(name, name);
        for (begins, any) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            assert_eq!(&seat(&mut browser(ports, any), begins).await, wanted, "{name} {begins} {any}");
        }
        // Whoever says that they were led gets no second seat by it.
        let other = usize::from(wanted.starts_with('0'));
        let shown = browser(ports, 0).go(&format!("{CLASS}/shards/{other}/oidc/begin?led=1")).await;
        assert!(shown.text.contains(&format!("Seat {wanted}")), "{name}: {shown:?}");
    }
    // A code for the terminal is good at the shard that gave it, and typed in its address.
    provider.well("bob", "bob");
    let shown = browser(ports, 0).go(&format!("{CLASS}/shards/1/oidc/begin?then=terminal")).await;
    assert!(shown.url.ends_with("/shards/1/learn/scheduling/lines"), "{shown:?}");
    let pass = shown.text.split_once("-d code=").or_else(|| shown.text.split_once("-d code&#x3D;")).unwrap().1[..14]
        .to_owned();
    let mut curl = browser(ports, 0);
    let (status, to, text) = curl.ask("POST", &format!("{CLASS}/shards/1/api/join"), &format!("code={pass}")).await;
    assert_eq!((status, to, text.contains("/seats/1/1")), (200, None, true), "{text}");

    // While a shard is away nobody gets a second seat, and who is known elsewhere comes in.
    first.kill();
    provider.well("ann", "ann");
    let shown = browser(ports, 1).go(&format!("{CLASS}/shards/1/oidc/begin")).await;
    assert_eq!((shown.status, shown.text.contains("just starting")), (503, true), "{shown:?}");
    provider.well("bob", "bob");
    assert_eq!(seat(&mut browser(ports, 1), 1).await, "1-1");
    // Nobody outside is told who is in the class.
    let (status, ..) = curl.ask("POST", &format!("{CLASS}/shards/1/internal/identity"), "{}").await;
    assert_eq!(status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_below_a_path_is_led_back_to_below_it() {
    let provider = Provider::start().await;
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, SECRET).unwrap();
    let port = free_port();
    let (listen, url) = (format!("127.0.0.1:{port}"), format!("{CLASS}/kubernetes"));
    let host = Running::start(&[
        "scheduling",
        "--listen",
        &listen,
        "--url",
        &url,
        "--behind-proxy",
        "127.0.0.0/8",
        "--oidc-issuer",
        &provider.url,
        "--oidc-client-id",
        CLIENT,
        "--oidc-client-secret-file",
        secret.to_str().unwrap(),
        "--oidc-allow",
        "anybody",
    ]);
    assert_eq!(host.document["sign_in"]["redirect"], format!("{url}/oidc/callback"));
    let mut browser = Browser::behind(vec![(format!("{url}/"), format!("http://{listen}"))]);
    let (_, to, _) = browser.ask("GET", &format!("{url}/oidc/begin"), "").await;
    let cookie = browser.cookie("__Host-klab-sign-in").unwrap();
    assert!(cookie.contains("; Path=/;") && cookie.ends_with("; Secure"), "{cookie}");
    let shown = browser.go(&to.unwrap()).await;
    assert_eq!((shown.status, shown.url.as_str()), (200, &*format!("{url}/learn/scheduling/")), "{shown:?}");
}
