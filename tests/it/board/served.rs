//! What the page's server answers, byte by byte.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::Page;
use crate::environment::{Environment, has_kubectl};

const LAB: &str = r#"lab = "small"
title = "A small lab"

[pool.main]
mode = "system"
nodes = 1
size = "Standard_B2ms"

[workload.web]
image = "nginx:1.27"
replicas = 2

[[check]]
workload = "web"
running = 2

[[step]]
name = "more"
title = "More of it"
text = "Make it *three*."
do = [{ scale = "web", replicas = 3 }]

[[step.check]]
workload = "web"
running = 3
"#;

fn up() -> Environment {
    let environment = Environment::new();
    environment.write("small.toml", LAB);
    environment.succeeds(&["up", "small.toml"]);
    environment
}

/// Sends a request and reads the whole answer; of a stream, until it holds `until`.
fn ask(host: &str, request: &str, until: Option<&str>) -> String {
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let (mut text, mut bytes) = (String::new(), vec![0; 65536]);
    let began = std::time::Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(60), "{until:?} did not come: {text}");
        let read = stream.read(&mut bytes).unwrap();
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        if read == 0 || until.is_some_and(|until| text.contains(until)) {
            return text;
        }
    }
}

fn get(host: &str, path: &str, headers: &str) -> String {
    ask(host, &format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{headers}connection: close\r\n\r\n"), None)
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

/// The header with the cookie that the link gives.
fn come_in(page: &Page) -> String {
    let (host, word) = page.parts();
    let answer = get(host, &format!("/?open={word}"), "");
    assert_eq!(status(&answer), "303", "{answer}");
    let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    format!("cookie: {}\r\n", cookie.split(';').next().unwrap())
}

#[test]
fn only_the_browser_with_the_link_sees_the_page() {
    let environment = up();
    let page = Page::of(&environment);
    let (host, word) = page.parts();
    assert_eq!(status(&get(host, "/", "")), "403");
    assert_eq!(status(&get(host, "/?open=0", "")), "403");
    let cookie = come_in(&page);
    // The link is good once.
    assert_eq!(status(&get(host, &format!("/?open={word}"), "")), "403");
    let whole = get(host, "/", &cookie);
    assert_eq!(status(&whole), "200");
    assert!(
        whole.contains("content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'"),
        "{whole}"
    );
    assert!(whole.contains("<h1>A small lab</h1>") && whole.contains("data-name=\"default/web-"), "{whole}");
    // Every other door is shut, too.
    for path in ["/events", "/moments", "/at?moment=1", "/pod?name=a", "/node?name=a", "/step?number=0", "/board.js"] {
        assert_eq!(status(&get(host, path, "")), "403", "{path}");
    }
    // A page of another name that leads here, and a form of another page.
    let elsewhere = format!("GET / HTTP/1.1\r\nhost: evil.example\r\n{cookie}connection: close\r\n\r\n");
    assert_eq!(status(&ask(host, &elsewhere, None)), "421");
    for origin in ["", "origin: http://evil.example\r\n", "origin: null\r\n"] {
        let form = format!("POST /next HTTP/1.1\r\nhost: {host}\r\n{cookie}{origin}connection: close\r\n\r\n");
        assert_eq!(status(&ask(host, &form, None)), "403", "{origin}");
    }
}

#[test]
fn who_comes_back_gets_what_changed_since() {
    let environment = up();
    let page = Page::of(&environment);
    let cookie = come_in(&page);
    let (host, _) = page.parts();
    let stream = |path: &str, more: &str, until: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{cookie}{more}\r\n");
        ask(host, &request, Some(until))
    };
    let first = stream("/events?since=0", "", "data: ");
    assert!(first.contains("event: change\nid: ") && first.contains("\"pools\""), "{first}");
    let id = first.split("id: ").nth(1).unwrap().lines().next().unwrap();
    environment.succeeds(&["step"]);
    // Only what is otherwise: the frames of the pools are not.
    let next = stream("/events", &format!("last-event-id: {id}\r\n"), "All steps done");
    let data: Vec<&str> = next.lines().filter(|line| line.starts_with("data: ")).collect();
    assert!(data.iter().any(|line| line.contains("\"head\"")) && data.iter().all(|line| !line.contains("\"pools\"")));
    let moments = get(host, "/moments", &cookie);
    assert!(moments.contains("{\"number\":1,\"at\":"), "{moments}");
    assert!(get(host, "/at?moment=1", &cookie).contains("\"number\":1,"));
    assert!(get(host, "/step?number=0", &cookie).contains("Make it <em>three</em>."));
    assert_eq!(status(&get(host, "/pod?name=default/none", &cookie)), "404");
    let node = get(host, "/node?name=aks-main-10187842-vmss000000", &cookie);
    assert!(node.contains("Who may come") || status(&node) == "404", "{node}");
}

#[test]
fn the_learner_goes_on_from_the_page_where_the_checks_hold() {
    let environment = up();
    let page = Page::of(&environment);
    let cookie = come_in(&page);
    let (host, _) = page.parts();
    let next = || {
        let origin = format!("origin: http://{host}\r\n");
        ask(host, &format!("POST /next HTTP/1.1\r\nhost: {host}\r\n{cookie}{origin}connection: close\r\n\r\n"), None)
    };
    let done = || environment.json(&["guide"])["lesson"].clone();
    assert_eq!(status(&next()), "204");
    assert_eq!((done()["done"].as_u64(), done()["opened"].as_bool()), (Some(0), Some(true)));
    // The page has seen that the step is open, and its check does not hold.
    let stream = format!("GET /events?since=0 HTTP/1.1\r\nhost: {host}\r\n{cookie}\r\n");
    ask(host, &stream, Some("Step 1 of 1: More of it"));
    let refused = next();
    assert_eq!(status(&refused), "409");
    assert!(refused.contains("not yet: the check does not hold"), "{refused}");
    environment.succeeds(&["step"]);
    ask(host, &stream, Some("All steps done"));
    let over = next();
    assert!(status(&over) == "409" && over.contains("all steps are done"), "{over}");
}

#[test]
fn what_the_lesson_did_not_ask_for_is_on_the_page_with_what_undoes_it() {
    if !has_kubectl() {
        return;
    }
    let environment = up();
    environment.succeeds(&["guide"]);
    let page = Page::of(&environment);
    let cookie = come_in(&page);
    let (host, _) = page.parts();
    let line = "KUBECONFIG=$(klab kubeconfig --path) kubectl taint nodes --all oops=yes:NoExecute";
    assert!(environment.shell("bash", line).status().unwrap().success());
    let stream = format!("GET /events?since=0 HTTP/1.1\r\nhost: {host}\r\n{cookie}\r\n");
    let title = "Also changed, not asked for";
    ask(host, &stream, Some(title));
    environment.succeeds(&["board", "--save", "board.html"]);
    let saved = environment.read("board.html");
    let (_, aside) = saved.split_once(title).unwrap();
    assert!(aside.contains("kubectl taint node aks-") && aside.contains(" oops=yes:NoExecute-"), "{aside}");
}

#[test]
fn a_saved_page_needs_nothing_and_carries_its_board() {
    let environment = up();
    let said = environment.klab(&["board", "--save", "board.html"]);
    insta::assert_snapshot!(said, @r"
    --- stderr
           Wrote board.html
    --- status 0
    ");
    let html = std::fs::read_to_string(environment.folder().join("board.html")).unwrap();
    let (_, document) = html.split_once("<script type=\"application/json\" id=\"board\">").unwrap();
    let document: serde_json::Value = serde_json::from_str(document.split_once("</script>").unwrap().0).unwrap();
    assert_eq!((document["schema"].as_str(), document["lab"].as_str()), (Some("klab.board/1"), Some("small")));
    assert!(html.contains("<h1>A small lab</h1>") && !html.contains("<button") && !html.contains("src="), "{html}");
    // The same for what was graded, and for lessons that were tried.
    environment.succeeds(&["verify", "--report", "verify.html"]);
    environment.succeeds(&["step", "--report", "step.html"]);
    environment.succeeds(&["test", "small.toml", "--seeds", "2", "--report", "test.html"]);
    for (file, wanted) in
        [("verify.html", "the check holds"), ("step.html", "All steps done"), ("test.html", "step <code>more</code>")]
    {
        let html = std::fs::read_to_string(environment.folder().join(file)).unwrap();
        assert!(html.contains(wanted), "{file}: {html}");
    }
    // What failed comes first, and leads to its moment.
    let grown = "[[step]]\nname = 'grow'\ndo = [{ scale = 'web', replicas = 2 }]\n[[step.check]]\nworkload = 'web'\npending = 1\n";
    let failing = format!(
        "lab = 'failing'\n[pool.p]\nnodes = 1\n[workload.web]\nimage = 'nginx'\nreplicas = 1\nnode_selector = {{ agentpool = 'p' }}\n{grown}"
    );
    environment.write("failing.toml", &failing);
    environment.klab(&["test", "failing.toml", "--step-timeout", "0s", "--report", "failing.html"]);
    let html = std::fs::read_to_string(environment.folder().join("failing.html")).unwrap();
    let first = html.split_once("What failed").unwrap().1.split_once("</ul>").unwrap().0;
    assert!(first.contains("<a href=\"#") && first.contains("step <code>grow</code>"), "{first}");
}

#[test]
fn a_cluster_of_somebody_else_has_a_board_without_a_lesson() {
    let environment = up();
    let kubeconfig = environment.home().join("labs/small/kubeconfig");
    let kubeconfig = kubeconfig.to_str().unwrap();
    let board = environment.json(&["board", "--kubeconfig", kubeconfig]);
    assert_eq!((&board["lab"], &board["title"]), (&serde_json::Value::Null, &serde_json::json!("klab-small")));
    assert_eq!(board["nodes"].as_array().unwrap().len(), 1);
    assert!(board["pods"].as_array().unwrap().iter().any(|pod| pod["workload"] == "default/deployment/web"), "{board}");
    let page = Page::with(&environment, &["--kubeconfig", kubeconfig]);
    let cookie = come_in(&page);
    let (host, _) = page.parts();
    let whole = get(host, "/", &cookie);
    assert!(whole.contains("<h1>klab-small</h1>") && whole.contains("data-name=\"default/web-"), "{whole}");
    assert_eq!(status(&get(host, "/step?number=0", &cookie)), "404");
    insta::assert_snapshot!(environment.klab(&["board", "small", "--kubeconfig", kubeconfig]), @"
    --- stderr
    error[K0902]: `small` is a lab, and `--context` means a cluster that klab did not make
    hint: leave out one of them
    --- status 2
    ");
}

#[test]
fn what_cannot_be_saved_or_served_is_said() {
    let environment = Environment::new();
    insta::assert_snapshot!(environment.klab(&["board"]), @"
    --- stderr
    error[K0801]: no lab is up
    hint: this makes one:
            klab up scheduling
        this lists more:
            klab lessons
    --- status 2
    ");
    let environment = up();
    insta::assert_snapshot!(environment.klab(&["board", "--save", "none/board.html"]), @"
    --- stderr
    error[K0314]: could not write `none/board.html`
    caused by: No such file or directory (os error 2)
    --- status 4
    ");
    insta::assert_snapshot!(environment.klab(&["board", "--save", "board.html", "--format", "svg"]), @"
    --- stderr
    error[K0902]: a saved page is HTML
    hint: leave out `--format`, or write standard output into the file
    --- status 2
    ");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = environment.klab(&["board", "--no-open", "--port", &port]).replace(&port, "PORT");
    insta::assert_snapshot!(said, @"
    --- stderr
    error[K0307]: could not listen on 127.0.0.1:PORT
    caused by: Address already in use (os error 98)
    --- status 3
    ");
}
