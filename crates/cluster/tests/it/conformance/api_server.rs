//! The API server's own ends: timeouts, metrics, flows of requests, ranges of addresses.

use serde_json::json;

use super::ground::Ground;

const FLOWS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

// upstream test: [sig-api-machinery] Server request timeout should return HTTP status code 400 if the user specifies an invalid timeout in the request URL
#[test]
fn a_timeout_must_be_a_duration() {
    let ground = Ground::with_nodes(0);
    let message = ground.get("/api/v1/namespaces?timeout=invalid").refused(400);
    assert_eq!(message, "invalid timeout specified in the request URL - time: invalid duration \"invalid\"");
    ground.get("/api/v1/namespaces?timeout=32s").good();
    ground.get("/api/v1/namespaces?timeout=-1s").good();
    assert!(!ground.events("/api/v1/namespaces?watch=1&timeout=invalid", &[]).is_empty(), "watches have no timeout");
}

// upstream test: [sig-instrumentation] MetricsGrabber should grab all metrics from API server.
// upstream test: [sig-instrumentation] MetricsGrabber should grab all metrics slis from API server.
#[test]
fn an_api_server_tells_of_itself() {
    let ground = Ground::with_nodes(3);
    let metrics = ground.get("/metrics");
    let text = String::from_utf8(metrics.bytes.to_vec()).unwrap();
    assert_eq!(metrics.status, 200);
    assert!(text.contains("apiserver_storage_objects{resource=\"nodes\"} 3\n"), "{text}");
    assert!(text.contains("kubernetes_build_info{git_version=\"v1.36.2\",major=\"1\",minor=\"36\"} 1\n"), "{text}");
    let slis = ground.get("/metrics/slis");
    let text = String::from_utf8(slis.bytes.to_vec()).unwrap();
    assert!(text.contains("kubernetes_healthcheck{name=\"ping\",type=\"readyz\"} 1\n"), "{text}");
    assert_eq!(ground.get("/metrics/other").status, 404);
}

// upstream test: [sig-api-machinery] API priority and fairness should ensure that requests can be classified by adding FlowSchema and PriorityLevelConfiguration
#[test]
fn requests_belong_to_flows() {
    let ground = Ground::with_nodes(0);
    let level = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
        "metadata": { "name": "testing" },
        "spec": { "type": "Limited", "limited": { "nominalConcurrencyShares": 1, "limitResponse": { "type": "Reject" } } },
    });
    let flow = |name: &str, level: &str| {
        json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": { "name": name },
            "spec": {
                "matchingPrecedence": 1000, "priorityLevelConfiguration": { "name": level },
                "distinguisherMethod": { "type": "ByUser" },
                "rules": [{
                    "subjects": [{ "kind": "User", "user": { "name": "jane" } }],
                    "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
                }],
            },
        })
    };
    let level = ground.post(&format!("{FLOWS}/prioritylevelconfigurations"), &level).good();
    let metrics = ground.get("/metrics").bytes;
    let metrics = String::from_utf8_lossy(&metrics);
    for line in
        ["{priority_level=\"testing\"} 3", "{priority_level=\"workload-low\"} 244", "{priority_level=\"exempt\"} 0"]
    {
        let line = format!("apiserver_flowcontrol_nominal_limit_seats{line}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    let own = ground.post(&format!("{FLOWS}/flowschemas"), &flow("testing", "testing")).good();
    let condition = &own["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Dangling"), &json!("False")));
    let lost = ground.post(&format!("{FLOWS}/flowschemas"), &flow("lost", "nowhere")).good();
    assert_eq!(lost["status"]["conditions"][0]["status"], "True");
    let class = |headers: &[(&str, &str)]| {
        let answer = ground.send("GET", "/version", headers, "");
        let header = |name: &str| answer.headers[name].to_str().unwrap().to_owned();
        (header("x-kubernetes-pf-flowschema-uid"), header("x-kubernetes-pf-prioritylevel-uid"))
    };
    let uid = |value: &serde_json::Value| value["metadata"]["uid"].as_str().unwrap().to_owned();
    // A schema of the same precedence comes first by its name.
    ground.delete(&format!("{FLOWS}/flowschemas/lost")).good();
    assert_eq!(class(&[("impersonate-user", "jane")]), (uid(&own), uid(&level)));
    let built_in = |kind: &str, name: &str| uid(&ground.get(&format!("{FLOWS}/{kind}/{name}")).good());
    let default =
        (built_in("flowschemas", "global-default"), built_in("prioritylevelconfigurations", "global-default"));
    assert_eq!(class(&[("impersonate-user", "joe")]), default);
    assert_eq!(class(&[]), (built_in("flowschemas", "exempt"), built_in("prioritylevelconfigurations", "exempt")));
}

// upstream test: [sig-network] ServiceCIDR and IPAddress API should support ServiceCIDR API operations [Conformance]
#[test]
fn the_range_of_services_can_be_read() {
    let ground = Ground::with_nodes(0);
    let path = "/apis/networking.k8s.io/v1/servicecidrs";
    let range = ground.get(&format!("{path}/kubernetes")).good();
    assert_eq!(range["spec"]["cidrs"], json!(["10.0.0.0/16"]));
    let status = ground.get(&format!("{path}/kubernetes/status")).good();
    assert_eq!((&status["kind"], &status["metadata"]["uid"]), (&json!("ServiceCIDR"), &range["metadata"]["uid"]));
    assert!(range["metadata"]["uid"].as_str().is_some_and(|uid| uid.len() == 36), "{range}");
    assert_eq!(ground.get(path).good()["items"].as_array().unwrap().len(), 1);
}

// upstream test: [sig-network] ServiceCIDR and IPAddress API should support IPAddress API operations [Conformance]
#[test]
fn addresses_are_objects_called_after_themselves() {
    let ground = Ground::with_nodes(0);
    let path = "/apis/networking.k8s.io/v1/ipaddresses";
    let address = |name: &str, kind: &str| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": { "name": name, "labels": { "type": kind } },
            "spec": { "parentRef": { "group": "mygroup", "resource": "myresources", "namespace": "foo", "name": "bar" } },
        })
    };
    ground.post(path, &address("255.255.255.255", "broadcast")).good();
    ground.post(path, &address("fe80::42:1dff:fe84:f9e2", "link-local")).good();
    ground.post(path, &address("fe80:0::1", "long")).refused(422);
    ground.post(path, &address("here", "none")).refused(422);
    let own = format!("{path}/255.255.255.255");
    let patched = ground.merge(&own, &json!({ "metadata": { "annotations": { "patched": "true" } } })).good();
    ground.put(&own, &patched).good();
    assert_eq!(
        ground.get(&format!("{path}?labelSelector=type%3Dbroadcast")).good()["items"].as_array().unwrap().len(),
        1
    );
    ground.delete(&own).good();
    ground.delete(&format!("{path}?labelSelector=type%3Dlink-local")).good();
    let list = ground.get(path).good();
    let left: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["spec"]["parentRef"]["resource"] != "services")
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn services_have_their_addresses_as_objects() {
    let ground = Ground::with_nodes(0);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "ports": [{ "port": 80 }], "clusterIP": "10.0.7.7" },
    });
    ground.post("/api/v1/namespaces/default/services", &service).good();
    let own = "/apis/networking.k8s.io/v1/ipaddresses/10.0.7.7";
    let address = ground.get(own).good();
    assert_eq!(
        address["spec"]["parentRef"],
        json!({ "group": "", "resource": "services", "namespace": "default", "name": "web" })
    );
    let managed = "ipaddress.kubernetes.io/managed-by%3Dipallocator.k8s.io";
    let list = ground.get(&format!("/apis/networking.k8s.io/v1/ipaddresses?labelSelector={managed}")).good();
    assert!(list["items"].as_array().unwrap().iter().any(|one| one["metadata"]["name"] == "10.0.7.7"));
    ground.delete("/api/v1/namespaces/default/services/web").good();
    ground.get(own).refused(404);
}

#[test]
fn a_range_that_services_need_stays_until_they_do_not() {
    let ground = Ground::with_nodes(0);
    let ranges = "/apis/networking.k8s.io/v1/servicecidrs";
    let range = |name: &str, cidr: &str| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": { "name": name },
            "spec": { "cidrs": [cidr] },
        })
    };
    let own = format!("{ranges}/more");
    ground.post(ranges, &range("more", "10.9.0.0/24")).good();
    let ready = |path: &str| ground.get(path).good()["status"]["conditions"][0].clone();
    let condition = ready(&own);
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Ready"), &json!("True")));
    assert_eq!(condition["message"], "Kubernetes Service CIDR is ready");
    let finalizers = ground.get(&own).good()["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["networking.k8s.io/service-cidr-finalizer"]));
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "ports": [{ "port": 80 }], "clusterIP": "10.9.0.7" },
    });
    ground.post("/api/v1/namespaces/default/services", &service).good();
    for (address, because) in [
        ("10.8.0.7", "the provided network does not match the current range"),
        ("10.9.0.0", "the provided IP (10.9.0.0) is not in the valid range. The range of valid IPs is 10.9.0.0/24"),
        ("10.9.0.7", "provided IP is already allocated"),
    ] {
        let mut other = service.clone();
        other["metadata"]["name"] = json!("other");
        other["spec"]["clusterIP"] = json!(address);
        let message = ground.post("/api/v1/namespaces/default/services", &other).refused(422);
        let fault = format!("failed to allocate IP {address}: {because}");
        let shown = format!("Service \"other\" is invalid: spec.clusterIPs: Invalid value: [\"{address}\"]: {fault}");
        assert_eq!(message, shown);
    }
    // Services that name no address have one of any range, of this one not the first sixteen.
    let given = |number: usize| {
        let name = format!("any-{number}");
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] },
        });
        let made = ground.post("/api/v1/namespaces/default/services", &service).good();
        ground.delete(&format!("/api/v1/namespaces/default/services/{name}")).good();
        made["spec"]["clusterIP"].as_str().unwrap().to_owned()
    };
    let all: Vec<String> = (0..20).map(given).collect();
    assert!(all.iter().any(|address| address.starts_with("10.0.")), "{all:?}");
    let added = all.iter().filter_map(|address| address.strip_prefix("10.9.0.")?.parse::<u8>().ok());
    assert!(added.clone().count() > 0 && added.clone().all(|last| (17..=254).contains(&last)), "{all:?}");
    ground.delete(&own).good();
    ground.pass(20);
    let condition = ready(&own);
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("Terminating")));
    ground.delete("/api/v1/namespaces/default/services/web").good();
    ground.get(&own).refused(404);
    // One that is part of another is of no use.
    ground.post(ranges, &range("part", "10.0.3.0/24")).good();
    ground.delete(&format!("{ranges}/part")).good();
    ground.pass(11);
    ground.get(&format!("{ranges}/part")).refused(404);
}

#[test]
fn the_range_that_a_cluster_begins_with_is_protected_and_put_back() {
    let ground = Ground::with_nodes(0);
    let own = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";
    let service = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] },
        })
    };
    let services = "/api/v1/namespaces/default/services";
    let made = ground.get(own).good();
    assert_eq!(made["metadata"]["finalizers"], json!(["networking.k8s.io/service-cidr-finalizer"]));
    let ready = &made["status"]["conditions"][0];
    assert_eq!(ready["message"], "Kubernetes Service CIDR is ready");
    assert_eq!(ready["lastTransitionTime"], made["metadata"]["creationTimestamp"]);
    // The API server's own Service needs it.
    ground.delete(own).good();
    ground.pass(20);
    assert_eq!(ground.get(own).good()["status"]["conditions"][0]["reason"], "Terminating");
    let message = ground.post(services, &service("late")).refused(500);
    let full = "Internal error occurred: failed to allocate a serviceIP for Service \"late\": range is full";
    assert_eq!(message, full);
    let mut asking = service("asking");
    asking["spec"]["clusterIP"] = json!("10.0.7.7");
    let message = ground.post(services, &asking).refused(422);
    assert!(message.ends_with("the provided network does not match the current range"), "{message}");
    ground.merge(own, &json!({ "metadata": { "finalizers": null } })).good();
    let again = ground.get(own).good();
    assert_ne!(again["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!((&again["spec"], &again["status"]["conditions"][0]["status"]), (&made["spec"], &json!("True")));
    assert_eq!(again["metadata"]["finalizers"], made["metadata"]["finalizers"]);
    ground.post(services, &service("late")).good();
}

#[test]
fn fields_that_a_scale_does_not_have_are_named() {
    let ground = Ground::with_nodes(0);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "nginx:1.27" }] },
            },
        },
    });
    ground.post("/apis/apps/v1/namespaces/default/deployments", &deployment).good();
    let scale = "/apis/apps/v1/namespaces/default/deployments/web/scale";
    let strict = format!("{scale}?fieldValidation=Strict");
    let odd = json!({ "spec": { "replicas": 2, "replica": 3 } });
    let told = "strict decoding error: unknown field \"spec.replica\"";
    let refusal = ground.merge(&strict, &odd).refused(422);
    assert!(refusal.starts_with(" \"\" is invalid: patch: Invalid value: ") && refusal.ends_with(told), "{refusal}");
    let twice = r#"{"spec":{"replicas":2,"replicas":3}}"#;
    let merge = [("content-type", "application/merge-patch+json")];
    let refusal = ground.send("PATCH", &strict, &merge, twice).refused(422);
    assert!(refusal.ends_with("strict decoding error: duplicate field \"spec.replicas\""), "{refusal}");
    let mut whole = ground.get(scale).good();
    assert_eq!(whole["spec"]["replicas"], 1);
    whole["spec"] = odd["spec"].clone();
    let refusal = ground.put(&strict, &whole).refused(400);
    assert_eq!(refusal, format!("Scale in version \"v1\" cannot be handled as a Scale: {told}"));
    let warned = ground.put(&format!("{scale}?fieldValidation=Warn"), &whole);
    assert_eq!(warned.warnings(), ["299 - \"unknown field \\\"spec.replica\\\"\""]);
    assert_eq!(warned.good()["spec"], json!({ "replicas": 2 }));
    let ignored = ground.merge(&format!("{scale}?fieldValidation=Ignore"), &json!({ "spec": { "replica": 3 } }));
    assert_eq!((ignored.warnings(), &ignored.good()["spec"]), (Vec::new(), &json!({ "replicas": 2 })));
    ground.merge(scale, &json!({ "spec": { "replicas": "many" } })).refused(422);
    assert_eq!(ground.get(scale).good()["spec"]["replicas"], 2);
}

#[test]
fn an_aggregated_api_says_what_it_lacks() {
    let ground = Ground::with_nodes(0);
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    let api = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": { "name": "v1.extra.example.com" },
        "spec": {
            "group": "extra.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
            "service": { "namespace": "default", "name": "extra", "port": 443 }, "insecureSkipTLSVerify": true,
        },
    });
    ground.post(path, &api).good();
    let says = || {
        let condition = ground.get(&format!("{path}/v1.extra.example.com")).good()["status"]["conditions"][0].clone();
        assert_eq!((&condition["type"], &condition["status"]), (&json!("Available"), &json!("False")));
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        (text("reason"), text("message"))
    };
    let (reason, message) = says();
    assert_eq!((&*reason, &*message), ("ServiceNotFound", "service/extra in \"default\" is not present"));
    let services = "/api/v1/namespaces/default/services";
    let service = |port: u16| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "extra" },
            "spec": { "ports": [{ "name": "https", "port": port }] },
        })
    };
    ground.post(services, &service(80)).good();
    let (reason, message) = says();
    assert_eq!(
        (&*reason, &*message),
        ("ServicePortError", "service/extra in \"default\" is not listening on port 443")
    );
    ground
        .merge(&format!("{services}/extra"), &json!({ "spec": { "ports": [{ "name": "https", "port": 443 }] } }))
        .good();
    let (reason, message) = says();
    let none = "cannot find endpointslices for service/extra in \"default\"";
    assert_eq!((&*reason, &*message), ("EndpointsNotFound", none));
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "name": "extra", "labels": { "kubernetes.io/service-name": "extra" } },
        "endpoints": [{ "addresses": ["127.0.0.1"] }], "ports": [{ "name": "https", "port": 8443 }],
    });
    ground.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).good();
    let (reason, message) = says();
    assert_eq!(reason, "FailedDiscoveryCheck");
    assert!(message.contains("does not forward requests to aggregated API servers"), "{message}");
}
