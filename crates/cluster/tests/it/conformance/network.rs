//! Who answers whom: names, Services, and the servers that are known, asked by commands in pods and through the API.

use klab_cluster::cluster::DeleteOptions;
use serde_json::{Value, json};

use super::ground::Ground;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const PODS: &str = "/api/v1/namespaces/default/pods";
const AGNHOST: &str = "registry.k8s.io/e2e-test-images/agnhost:2.63.0";

fn agnhost(args: &[&str], ports: &[Value]) -> Value {
    json!({ "containers": [{ "name": "main", "image": AGNHOST, "args": args, "ports": ports }] })
}

impl Ground {
    /// A pod with the label `app`.
    fn labelled(&self, name: &str, app: &str, spec: Value) {
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": app } },
            "spec": spec });
        self.post(PODS, &pod).good();
        self.pass(3);
    }

    fn service(&self, name: &str, spec: Value) -> Value {
        let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name }, "spec": spec });
        let made = self.post(SERVICES, &service).good();
        self.pass(2);
        made
    }

    /// A cluster with a server `web` of two pods, and a client.
    fn with_web() -> Self {
        let ground = Self::with_nodes(2);
        for name in ["one", "two"] {
            ground.labelled(name, "web", agnhost(&["netexec"], &[json!({ "name": "http", "containerPort": 8080 })]));
        }
        ground.service(
            "web",
            json!({ "type": "NodePort", "selector": { "app": "web" },
                "ports": [{ "port": 80, "targetPort": "http", "nodePort": 30080 }] }),
        );
        ground.start("client", agnhost(&["pause"], &[]));
        ground
    }

    /// Runs a script in the client; time passes once it has printed something.
    fn shell_in_time(&self, script: &str, seen: impl Fn()) -> super::exec::Executed {
        let path = super::exec::path("client", &["sh", "-c", script], "");
        let (api, printed) = (self.api(), std::cell::Cell::new(false));
        self.wait_for(async {
            let asked = super::exec::executed_seeing(&api, &path, "v5.channel.k8s.io", &[], || {
                printed.set(true);
                seen();
            });
            tokio::pin!(asked);
            for _ in 0..10_000 {
                match tokio::time::timeout(std::time::Duration::from_millis(5), &mut asked).await {
                    Ok(executed) => return executed.unwrap(),
                    Err(_) if printed.get() => self.cluster.advance(std::time::Duration::from_secs(1)),
                    Err(_) => {}
                }
            }
            panic!("`{script}` does not end");
        })
    }

    fn shell(&self, script: &str) -> (String, String, i64) {
        let executed = self.execute("client", &["sh", "-c", script]);
        let code = executed.code();
        (executed.out, executed.err, code)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

// upstream test: [sig-network] Services should serve a basic endpoint from pods [Conformance]
// upstream test: [sig-network] Services should serve multiport endpoints from pods [Conformance]
#[test]
fn a_service_leads_to_one_of_its_pods() {
    let ground = Ground::with_web();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let (out, err, code) = ground.shell("curl -q -s http://web/hostname");
        assert_eq!((err.as_str(), code), ("", 0));
        seen.insert(out);
        ground.pass(1);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["one", "two"]);
    let address = text(&ground.get(&format!("{SERVICES}/web")).good()["spec"]["clusterIP"]);
    ground.labelled("third", "web", agnhost(&["serve-hostname", "--http=false", "--tcp", "--udp"], &[]));
    let third = text(&ground.get(&format!("{PODS}/third")).good()["status"]["podIP"]);
    for flag in ["-t", "-u"] {
        assert_eq!(ground.shell(&format!("echo hostName | nc -v {flag} -w 2 {third} 9376")).0, "third");
    }
    ground.delete(&format!("{PODS}/third")).good();
    ground.pass(40);
    for (script, wanted) in [
        ("echo hostName | nc -v -t -w 2 web 80".to_owned(), "400 Bad Request"),
        (format!("curl -s http://{address}/echo?msg=hello"), "hello"),
        ("curl -s web.default.svc.cluster.local/serverport".to_owned(), "8080"),
        ("curl -s -o /dev/null -w '%{http_code}' http://web/echo?code=503".to_owned(), "503"),
        ("wget -qO- http://web/echo?msg=x".to_owned(), "x"),
    ] {
        let (out, _, code) = ground.shell(&script);
        assert!(out.contains(wanted) && code == 0, "{script}: {out} {code}");
    }
}

#[test]
fn a_pod_that_is_not_ready_is_asked_nothing() {
    let ground = Ground::with_web();
    ground.merge(&format!("{SERVICES}/web"), &json!({ "spec": { "selector": { "app": "none" } } })).good();
    ground.pass(2);
    let (_, err, code) = ground.shell("curl -s -S http://web/");
    assert_eq!(code, 7, "{err}");
    assert!(err.starts_with("curl: (7) Failed to connect to web port 80 after 0 ms"), "{err}");
    assert_eq!(ground.shell("nc -vz -w 2 web 80").2, 1);
    assert_eq!(ground.shell("curl -s http://nobody/").2, 6);
    let dropped = ground.shell_in_time("echo; curl -s http://web:81/ --max-time 2", || {});
    assert_eq!(dropped.code(), 28, "no such port: what is sent there is dropped");
}

// upstream test: [sig-network] Services should be able to create a functioning NodePort service [Conformance]
// upstream test: [sig-network] HostPort validates that there is no conflict between pods with same hostPort but different hostIP and protocol [LinuxOnly] [Conformance]
#[test]
fn ports_of_nodes_lead_to_pods() {
    let ground = Ground::with_web();
    let mut spec = agnhost(&["netexec"], &[json!({ "containerPort": 8080, "hostPort": 54323 })]);
    let node = text(&ground.get(&format!("{PODS}/one")).good()["spec"]["nodeName"]);
    spec["nodeName"] = json!(node);
    ground.start("outer", spec);
    let address = text(&ground.get(&format!("{PODS}/outer")).good()["status"]["hostIP"]);
    let asked = |port: u16| ground.shell(&format!("curl -s http://{address}:{port}/hostname")).0;
    assert!(["one", "two"].contains(&asked(30080).as_str()));
    assert_eq!(asked(54323), "outer");
    let mut spec = agnhost(&["netexec"], &[json!({ "containerPort": 8080, "hostPort": 54324, "hostIP": "127.0.0.1" })]);
    spec["nodeName"] = json!(node);
    ground.start("inner", spec);
    let mut spec = agnhost(&["pause"], &[]);
    (spec["nodeName"], spec["hostNetwork"]) = (json!(node), json!(true));
    ground.start("host", spec);
    let url = format!("http://127.0.0.1:{}/hostname", 54324);
    let inner = ground.execute("host", &["curl", "-s", "-g", "--interface", &address, &url]);
    assert_eq!((inner.out.as_str(), inner.code()), ("inner", 0));
}

// upstream test: [sig-network] Networking Granular Checks: Pods should function for intra-pod communication: http [NodeConformance] [Conformance]
// upstream test: [sig-network] Networking Granular Checks: Pods should function for intra-pod communication: udp [NodeConformance] [Conformance]
#[test]
fn pods_reach_each_other() {
    let ground = Ground::with_web();
    let of = |pod: &str| text(&ground.get(&format!("{PODS}/{pod}")).good()["status"]["podIP"]);
    let (one, two) = (of("one"), of("two"));
    for (protocol, port) in [("http", 8080), ("udp", 8081)] {
        let url = format!("http://{one}:8080/dial?request=hostname&protocol={protocol}&host={two}&port={port}&tries=1");
        let (out, ..) = ground.shell(&format!("curl -g -q -s '{url}'"));
        assert_eq!(out, r#"{"responses":["two"]}"#, "{protocol}");
    }
    assert_eq!(ground.shell(&format!("echo hostname | nc -w 1 -u {two} 8081")).0, "two");
    assert_eq!(ground.execute("client", &["/agnhost", "connect", "--timeout=3s", &format!("{two}:8080")]).code(), 0);
    let refused = ground.execute("client", &["/agnhost", "connect", "--timeout=3s", &format!("{two}:9")]);
    assert_eq!((refused.err.as_str(), refused.code()), ("REFUSED\n", 1));
}

// upstream test: [sig-network] EndpointSliceMirroring should mirror a custom Endpoint with multiple subsets and same IP address
#[test]
fn endpoints_that_are_kept_by_hand_lead_to_their_ports() {
    let ground = Ground::with_web();
    let both = json!({ "containers": [
        { "name": "a", "image": AGNHOST, "args": ["netexec", "--http-port", "8090", "--udp-port", "-1"] },
        { "name": "b", "image": AGNHOST, "args": ["netexec", "--http-port", "9090", "--udp-port", "-1"] },
    ] });
    ground.start("both", both);
    let address = text(&ground.get(&format!("{PODS}/both")).good()["status"]["podIP"]);
    let service = ground.service(
        "custom",
        json!({ "ports": [
        { "name": "port80", "port": 80, "protocol": "TCP" }, { "name": "port81", "port": 81, "protocol": "TCP" },
    ] }),
    );
    let subset =
        |name: &str, port: u16| json!({ "ports": [{ "name": name, "port": port }], "addresses": [{ "ip": address }] });
    let endpoints = json!({ "apiVersion": "v1", "kind": "Endpoints", "metadata": { "name": "custom" },
        "subsets": [subset("port80", 8090), subset("port81", 9090)] });
    ground.post("/api/v1/namespaces/default/endpoints", &endpoints).good();
    ground.pass(2);
    let cluster_ip = text(&service["spec"]["clusterIP"]);
    for (port, own) in [(80, "8090"), (81, "9090")] {
        let (out, ..) = ground.shell(&format!("curl -q -s --max-time 30 {cluster_ip}:{port}/hostname"));
        assert_eq!(out, "both");
        assert_eq!(ground.shell(&format!("curl -s {cluster_ip}:{port}/serverport")).0, own);
    }
}

#[test]
fn names_mean_what_the_clusters_dns_says() {
    let ground = Ground::with_web();
    ground.service("heads", json!({ "clusterIP": "None", "selector": { "app": "web" }, "ports": [{ "port": 8080 }] }));
    ground.service("alias", json!({ "type": "ExternalName", "externalName": "web.default.svc.cluster.local" }));
    ground.service("outside", json!({ "type": "ExternalName", "externalName": "example.com" }));
    let address = text(&ground.get(&format!("{SERVICES}/web")).good()["spec"]["clusterIP"]);
    let asked = ground.execute("client", &["nslookup", "web"]);
    assert!(asked.message().ends_with("whom `nslookup` asks is not known"), "a cluster may have no DNS to be seen");
    let dns = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "kube-dns" },
        "spec": { "ports": [{ "port": 53, "protocol": "UDP" }] } });
    let dns = ground.post("/api/v1/namespaces/kube-system/services", &dns).good();
    let dns = text(&dns["spec"]["clusterIP"]);
    let (out, ..) = ground.shell("nslookup web");
    assert_eq!(
        out,
        format!("Server:\t\t{dns}\nAddress:\t{dns}#53\n\nName:\tweb.default.svc.cluster.local\nAddress: {address}\n\n")
    );
    assert_eq!(ground.shell("nslookup heads").0.matches("Address: ").count(), 2);
    assert!(["one", "two"].contains(&ground.shell("curl -s http://heads:8080/hostname").0.as_str()));
    assert!(["one", "two"].contains(&ground.shell("curl -s http://alias/hostname").0.as_str()));
    let (out, _, code) = ground.shell("nslookup web.kube-system");
    assert!(out.ends_with("** server can't find web.kube-system: NXDOMAIN\n\n") && code == 1, "{out}");
    let outside = ground.execute("client", &["curl", "-s", "http://outside/"]);
    assert!(outside.message().ends_with("what `example.com` means outside of the cluster is not known"));
}

#[test]
fn web_servers_have_the_pages_of_their_images() {
    let ground = Ground::with_web();
    for (name, image) in [("known", "nginx:1.27"), ("newest", "nginx"), ("httpd", "httpd:2.4")] {
        ground.start(name, json!({ "containers": [{ "name": "main", "image": image }] }));
    }
    let of = |pod: &str| text(&ground.get(&format!("{PODS}/{pod}")).good()["status"]["podIP"]);
    let (out, err, _) = ground.shell(&format!("wget -O- http://{}/", of("known")));
    assert!(out.contains("<h1>Welcome to nginx!</h1>") && out.len() == 615, "{out}");
    assert!(err.contains("-                    100% |********************************|   615  0:00:00 ETA\n"), "{err}");
    assert_eq!(ground.shell(&format!("curl -s {}", of("httpd"))).0, "<html><body><h1>It works!</h1></body></html>\n");
    let looked =
        ground.shell(&format!("curl -s -o /dev/null -w '%{{http_code}}' {0}; curl -s -f {0}/none", of("newest")));
    assert_eq!((looked.0.as_str(), looked.2), ("200", 22), "whatever its pages say");
    let page = ground.execute("client", &["curl", "-s", &of("newest")]);
    assert!(page.message().ends_with("what the server's page says is not known"));
}

#[test]
fn what_nobody_knows_is_not_made_up() {
    let ground = Ground::with_web();
    ground.start("stranger", json!({ "containers": [{ "name": "main", "image": "acme/web:1" }] }));
    let address = text(&ground.get(&format!("{PODS}/stranger")).good()["status"]["podIP"]);
    let said = |command: &[&str]| ground.execute("client", command).message().to_owned();
    assert!(
        said(&["curl", "-s", &address])
            .ends_with("whether the program of the image `acme/web:1` listens at port 80 is not known")
    );
    assert!(said(&["curl", "-s", "http://192.0.2.1/"]).ends_with("nobody knows what is at 192.0.2.1"));
    assert!(said(&["curl", "-s", "http://web/shutdown"]).contains("only a container that runs could answer"));
    let policy = json!({ "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": { "name": "none" },
        "spec": { "podSelector": { "matchLabels": { "app": "web" } }, "policyTypes": ["Ingress"] } });
    ground.post("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", &policy).good();
    assert!(said(&["curl", "-s", "http://web/"]).ends_with("whether NetworkPolicies let it through is not known"));
}

#[test]
fn a_loop_is_answered_what_is_true_at_each_turn() {
    let ground = Ground::with_web();
    let script = "for i in 1 2; do curl -s http://web/hostname || echo none; echo; sleep 10; done";
    let out = ground.shell_in_time(script, || {
        for pod in ["one", "two"] {
            let now = DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() };
            let _gone = ground.cluster.inner().delete(klab_cluster::resource::PODS, "default", pod, &now);
        }
    });
    let lines: Vec<&str> = out.out.lines().collect();
    assert!(matches!(lines[..], ["one" | "two", "none", ..]), "{out:?}");
}

// upstream test: [sig-network] Proxy version v1 should proxy through a service and a pod [Conformance]
// upstream test: [sig-network] Proxy version v1 A set of valid responses are returned for both pod and service ProxyWithPath [Conformance]
// upstream test: [sig-network] Proxy version v1 A set of valid responses are returned for both pod and service Proxy [Conformance]
#[test]
fn the_api_passes_requests_on() {
    let ground = Ground::with_nodes(1);
    let mut spec =
        agnhost(&["porter"], &[json!({ "containerPort": 80 }), json!({ "name": "dest", "containerPort": 160 })]);
    spec["containers"][0]["env"] = json!([
        { "name": "SERVE_PORT_80", "value": "<a href=\"/rewriteme\">test</a>" },
        { "name": "SERVE_PORT_160", "value": "foo" },
        { "name": "SERVE_TLS_PORT_443", "value": "tls" },
    ]);
    ground.labelled("porter", "porter", spec);
    ground.service(
        "porter",
        json!({ "selector": { "app": "porter" }, "ports": [
        { "name": "first", "port": 80, "targetPort": "dest" }, { "name": "tls", "port": 443, "targetPort": 443 },
    ] }),
    );
    let body = |path: &str| String::from_utf8(ground.get(path).bytes.to_vec()).unwrap();
    for (path, wanted) in [
        ("pods/porter:160/proxy/", "foo".to_owned()),
        ("services/porter:first/proxy/", "foo".to_owned()),
        ("services/http:porter:80/proxy/some/path", "foo".to_owned()),
        ("services/https:porter:tls/proxy/", "tls".to_owned()),
        ("pods/porter/proxy/", format!("<a href=\"{PODS}/porter/proxy/rewriteme\">test</a>")),
    ] {
        assert_eq!(body(&format!("/api/v1/namespaces/default/{path}")), wanted, "{path}");
    }
    let turned = ground.get(&format!("{PODS}/porter/proxy?a=b"));
    assert_eq!(
        (turned.status, turned.headers["location"].to_str().unwrap()),
        (301, &*format!("{PODS}/porter/proxy/?a=b"))
    );
    let refused = ground.get(&format!("{PODS}/porter:9/proxy/"));
    assert!(refused.refused(503).ends_with(":9: connect: connection refused"));
    let none = ground.get(&format!("{SERVICES}/porter:81/proxy/"));
    assert_eq!(none.refused(503), "no service port \"81\" found for service \"porter\"");
    let mut spec = agnhost(&["porter", "--json-response"], &[]);
    spec["containers"][0]["env"] = json!([{ "name": "SERVE_PORT_80", "value": "foo" }]);
    ground.start("json", spec);
    for method in ["DELETE", "OPTIONS", "PATCH", "POST", "PUT"] {
        let answer = ground.send(method, &format!("{PODS}/json/proxy/some/path"), &[], "");
        assert_eq!(answer.good(), json!({ "Method": method, "Body": "foo" }));
    }
}
