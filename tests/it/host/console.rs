//! The console of a learner's page: kubectl of the host's machine, typed in a browser.

use serde_json::{Value, json};

use super::running::{Running, free_port, status_of};
use crate::environment::has_kubectl;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const JSON: (&str, &str) = ("content-type", "application/json");
const RUN: &str = "/learn/scheduling/console/run";

/// The cookie of somebody who joins by the page.
async fn cookie(host: &Running, name: &str) -> String {
    let form = format!("code={}&name={name}&pin=2468", host.code);
    let (status, headers, text) = host.ask("POST", "/join", &[FORM, ("origin", &host.url)], form.into_bytes()).await;
    assert_eq!(status, 303, "{text}");
    headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned()
}

/// What came of a line: what it printed, and the last piece.
async fn typed(host: &Running, cookie: &str, line: &str, files: Value) -> (String, Value) {
    let body = json!({ "line": line, "files": files }).to_string().into_bytes();
    let headers = [JSON, ("origin", host.url.as_str()), ("cookie", cookie)];
    let (status, headers, text) = host.ask("POST", RUN, &headers, body).await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (200, "application/x-ndjson"), "{text}");
    let pieces: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = pieces.iter().flat_map(|piece| [&piece["output"], &piece["talk"]]).filter_map(Value::as_str).collect();
    (said, pieces.last().cloned().unwrap())
}

/// What buttons of a page of a class have, that ask the class to change something.
const CHANGES: [&str; 2] = ["data-next", "data-post"];

#[tokio::test]
async fn the_page_of_a_class_that_is_closed_has_no_button_that_is_refused() {
    let host = Running::start(&["scheduling"]);
    let ann = cookie(&host, "Ann").await;
    for (decided, is_open) in [("extend?minutes=5", true), ("close", false)] {
        host.instruct("POST", &format!("/teach/{decided}")).await.unwrap();
        for part in ["", "step?number=0"] {
            let path = format!("/learn/scheduling/{part}");
            let (_, _, page) = host.ask("GET", &path, &[("cookie", &ann)], Vec::new()).await;
            let has = CHANGES.map(|button| page.contains(button));
            assert_eq!(has.contains(&true), is_open && part.is_empty(), "{path} {is_open}: {page}");
            assert_eq!(page.contains("The class is closed"), !is_open && part.is_empty(), "{path}");
        }
    }
}

#[tokio::test]
async fn a_learner_types_in_the_page_and_works_on_their_own_cluster() {
    if !has_kubectl() {
        return;
    }
    // Where the kernel lacks a wall, the console is tried all the same.
    let host = Running::start(&["scheduling", "--console", "--console-unconfined"]);
    let (ann, bob) = (cookie(&host, "Ann").await, cookie(&host, "Bob").await);
    let (_, _, page) = host.ask("GET", "/learn/scheduling/", &[("cookie", &ann)], Vec::new()).await;
    assert!(page.contains("id=\"console\"") && page.contains("/console.js"), "{page}");
    let (said, end) = typed(&host, &ann, "kubectl get nodes", json!({})).await;
    assert!(said.contains("aks-extra") && end == json!({ "code": 0, "note": null }), "{said} {end}");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: own}\nspec: {containers: [{name: a, image: nginx}]}\n";
    let (said, _) = typed(&host, &ann, "kubectl apply -f my/pod.yaml", json!({ "my/pod.yaml": pod })).await;
    assert_eq!(said, "pod/own created\n");
    let line = "klab render scheduling --workload nanomon-api | kubectl apply -f -";
    let (said, _) = typed(&host, &ann, line, json!({})).await;
    assert!(said.contains("deployment.apps/nanomon-api"), "{said}");
    // A raw path is one of the seat, and of nothing else on the host.
    for (path, says) in [
        ("/api/v1/namespaces/default/pods/own", "\"kind\":\"Pod\""),
        ("/version", "\"gitVersion\""),
        ("/healthz", "ok"),
        ("/apis/apps/v1", "deployments"),
        ("/metrics", "apiserver_"),
    ] {
        let (said, end) = typed(&host, &ann, &format!("kubectl get --raw {path}"), json!({})).await;
        assert!(said.replace(": ", ":").contains(says) && end["code"] == 0, "{path}: {said} {end}");
        assert!(!said.contains("klab_host_"), "{path}: {said}");
    }
    // Another learner has another cluster.
    let (said, end) = typed(&host, &bob, "kubectl get pod own", json!({})).await;
    assert!(said.contains("not found") && end["code"] == 1, "{said} {end}");
    // What is not run says why in the page.
    let (said, end) = typed(&host, &ann, "kubectl get pods --kubeconfig=/root/.kube/config", json!({})).await;
    assert!(said.is_empty() && end["refused"].as_str().unwrap().contains("one cluster"), "{end}");
    let (_, end) = typed(&host, &ann, "kubectl apply -f /etc/passwd", json!({ "/etc/passwd": "x" })).await;
    assert!(end.get("refused").is_none(), "what is called so is the editor's own file: {end}");
    let words: Value = serde_json::from_str(
        &host.ask("GET", "/learn/scheduling/console/words", &[("cookie", &ann)], Vec::new()).await.2,
    )
    .unwrap();
    assert!(words["verbs"]["get"].is_array());
}

#[tokio::test]
async fn az_changes_the_pools_of_its_learner_and_of_no_other() {
    if !has_kubectl() {
        return;
    }
    let host = Running::start(&["scheduling", "--console", "--console-unconfined"]);
    let (ann, bob) = (cookie(&host, "Ann").await, cookie(&host, "Bob").await);
    for (line, says, code) in [
        ("az aks list -o table | grep -c klab-scheduling", "1\n", 0),
        ("az aks nodepool list --cluster-name klab-scheduling --query '[].name' -o tsv", "nodepool1\nextra\n", 0),
        (
            "az aks nodepool add --cluster-name klab-scheduling -n more -c 2 -s Standard_B2ms --labels kind=more",
            "\"Succeeded\"",
            0,
        ),
        ("kubectl get nodes -l kind=more -o name | wc -l", "2\n", 0),
        ("az aks nodepool add --cluster-name klab-scheduling -n more", "Node pool more already exists", 1),
        (
            "az aks nodepool update --cluster-name klab-scheduling -n more --labels kind=new --tags a=b",
            "\"a\": \"b\"",
            0,
        ),
        ("kubectl get nodes -l kind=new -o name | wc -l", "2\n", 0),
        ("az aks nodepool stop --cluster-name klab-scheduling -n more --no-wait", "", 0),
        ("az aks nodepool show --cluster-name klab-scheduling -n more --query powerState.code", "\"Stopped\"\n", 0),
        ("az aks nodepool start --cluster-name klab-scheduling -n more --query count", "2\n", 0),
        ("az aks nodepool scale --cluster-name klab-scheduling -n more -c 1 --query count", "1\n", 0),
        (
            "az aks nodepool delete --cluster-name klab-scheduling -n nodepool1",
            "There has to be at least one system agent pool",
            1,
        ),
        (
            "az aks nodepool list -g other --cluster-name klab-scheduling",
            "Your cluster is klab-scheduling in resource group klab-scheduling.",
            3,
        ),
        ("az aks nodepool lst", "Did you mean 'list' ?", 2),
        ("az group list", "klab's az, for labs that are not in Azure, knows: aks get-upgrades, aks list", 2),
    ] {
        let (said, end) = typed(&host, &ann, line, json!({})).await;
        assert!(said.contains(says) && end["code"] == code, "{line}: {said} {end}");
    }
    let (said, _) = typed(&host, &bob, "az aks nodepool list --cluster-name klab-scheduling -o table", json!({})).await;
    assert!(said.contains("extra") && !said.contains("more"), "{said}");
    // Nothing is remembered of what was taken back.
    let (said, _) = typed(&host, &ann, "klab reset --yes", json!({})).await;
    assert!(said.contains("to its set-up"), "{said}");
    let (said, _) = typed(&host, &ann, "az aks nodepool list --cluster-name klab-scheduling", json!({})).await;
    assert!(said.contains("extra") && !said.contains("more") && !said.contains("Stopped"), "{said}");
    host.instruct("POST", "/teach/close").await.unwrap();
    let (said, end) =
        typed(&host, &ann, "az aks nodepool delete --cluster-name klab-scheduling -n extra", json!({})).await;
    assert!(said.contains("class is closed") && end["code"] == 1, "{said} {end}");
    let (said, end) =
        typed(&host, &ann, "az aks nodepool show --cluster-name klab-scheduling -n extra", json!({})).await;
    assert!(said.contains("\"extra\"") && end["code"] == 0, "{said} {end}");
}

#[tokio::test]
async fn kubectl_believes_a_certificate_that_was_given_and_no_other() {
    if !has_kubectl() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(path("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(path("tls.key"), made.signing_key.serialize_pem()).unwrap();
    let port = free_port();
    let (listen, url) = (format!("127.0.0.1:{port}"), format!("https://localhost:{port}"));
    let (certificate, key) = (path("tls.crt"), path("tls.key"));
    let mut arguments = vec!["scheduling", "--console", "--console-unconfined", "--listen", &listen, "--url", &url];
    arguments.extend(["--tls-cert", &certificate, "--tls-key", &key, "--tls-ca", &certificate]);
    let host = Running::start(&arguments);
    let ann = cookie(&host, "Ann").await;
    let (said, end) = typed(&host, &ann, "kubectl get nodes -o name", json!({})).await;
    assert!(said.contains("node/aks-") && end["code"] == 0, "{said} {end}");
}

#[tokio::test]
async fn only_the_page_of_a_learner_may_ask() {
    if !has_kubectl() {
        return;
    }
    let host = Running::start(&["scheduling", "--console", "--console-unconfined"]);
    let ann = cookie(&host, "Ann").await;
    let body = || br#"{"line":"kubectl get nodes"}"#.to_vec();
    let own = ("origin", host.url.as_str());
    for (headers, wanted) in [
        (vec![JSON, own], 401),
        (vec![JSON, ("cookie", ann.as_str())], 403),
        (vec![JSON, ("cookie", ann.as_str()), ("origin", "https://evil.example")], 403),
        (vec![FORM, ("cookie", ann.as_str()), own], 415),
    ] {
        let (status, _, text) = host.ask("POST", RUN, &headers, body()).await;
        assert_eq!(status, wanted, "{headers:?}: {text}");
    }
    let headers = [JSON, ("cookie", ann.as_str()), own];
    assert_eq!(host.ask("POST", "/learn/other/console/run", &headers, body()).await.0, 401);
    assert_eq!(host.ask("POST", RUN, &headers, vec![b' '; 3 << 20]).await.0, 413);
}

#[tokio::test]
async fn a_class_has_no_console_unless_it_is_asked_for() {
    let host = Running::start(&["scheduling"]);
    let ann = cookie(&host, "Ann").await;
    let (_, _, page) = host.ask("GET", "/learn/scheduling/", &[("cookie", &ann)], Vec::new()).await;
    assert!(!page.contains("id=\"console\""));
    let headers = [JSON, ("cookie", ann.as_str()), ("origin", host.url.as_str())];
    let (status, _, text) = host.ask("POST", RUN, &headers, br#"{"line":"kubectl get nodes"}"#.to_vec()).await;
    assert!(status == 404 && text.contains("no console"), "{status} {text}");
    assert_eq!(status_of(&host, "GET", "/nowhere", &[]).await, 404);
}
