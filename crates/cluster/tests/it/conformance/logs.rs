//! What containers print whose scripts are followed: logs, messages of those that have ended, what is not known.

use serde_json::{Value, json};

use super::ground::Ground;

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUSYBOX: &str = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1";

fn script(text: &str) -> Value {
    json!({ "name": "main", "image": BUSYBOX, "command": ["sh", "-c", text] })
}

impl Ground {
    /// Runs one container in a pod that is not restarted.
    fn run(&self, name: &str, container: Value, more: Value) {
        let mut spec = json!({ "restartPolicy": "Never", "containers": [container] });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        let labels = json!({ "app": "x" });
        let pod =
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": labels }, "spec": spec });
        self.post(PODS, &pod).good();
        self.pass(5);
    }

    fn log(&self, name: &str, query: &str) -> String {
        let answer = self.get(&format!("{PODS}/{name}/log?{query}"));
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.bytes));
        String::from_utf8(answer.bytes.to_vec()).unwrap()
    }

    fn config(&self, kind: &str, plural: &str, name: &str, data: Value) {
        let field = if kind == "Secret" { "stringData" } else { "data" };
        let object = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name }, field: data });
        self.post(&format!("/api/v1/namespaces/default/{plural}"), &object).good();
    }

    fn state(&self, name: &str) -> Value {
        self.get(&format!("{PODS}/{name}")).good()["status"]["containerStatuses"][0]["state"].clone()
    }
}

// upstream test: [sig-node] Kubelet when scheduling a busybox command in a pod should print the output to logs [NodeConformance] [Conformance]
// upstream test: [sig-node] Pods should support retrieving logs from the container over websockets [NodeConformance] [Conformance]
#[test]
fn a_script_prints_to_its_log() {
    let ground = Ground::with_nodes(1);
    ground.run("hello", script("echo 'Hello World' ; sleep 240"), json!({}));
    assert_eq!(ground.log("hello", ""), "Hello World\n");
    ground.run("half", script("printf half; sleep 240"), json!({}));
    assert_eq!(ground.log("half", ""), "", "a line that has not ended yet");
    ground.run("done", script("printf half; exit 3"), json!({}));
    assert_eq!(ground.log("done", ""), "half");
}

#[test]
fn a_log_grows_with_the_clock_and_is_shown_as_asked() {
    let ground = Ground::with_nodes(1);
    ground.run("ticks", script("i=0; while true; do echo \"$i $(date +%S)\"; i=$((i+1)); sleep 5; done"), json!({}));
    let first = ground.log("ticks", "");
    ground.pass(20);
    let later = ground.log("ticks", "");
    assert!(later.starts_with(&first) && later.lines().count() == first.lines().count() + 4, "{first}{later}");
    let last: Vec<&str> = later.lines().rev().take(2).collect();
    assert_eq!(ground.log("ticks", "tailLines=2").lines().rev().collect::<Vec<_>>(), last);
    assert_eq!(ground.log("ticks", "tailLines=0"), "");
    assert_eq!(ground.log("ticks", "limitBytes=3").len(), 3);
    assert!((2..=3).contains(&ground.log("ticks", "sinceSeconds=11").lines().count()));
    let timed = ground.log("ticks", "timestamps=true&tailLines=1");
    let (time, rest) = timed.split_once(' ').unwrap();
    assert_eq!((time.len(), &time[19..], rest.trim_end()), (30, ".000000000Z", last[0]));
    assert_eq!(&time[17..19], &rest.trim_end()[rest.trim_end().len() - 2..], "the time that `date` says");
    // A loop that goes on for days.
    ground.run("days", script("while true; do date; sleep 1; done"), json!({}));
    ground.pass(7 * 86_400);
    assert!(ground.log("days", "tailLines=3").lines().count() == 3);
    for (query, message) in [
        (
            "tailLines=-1",
            "PodLogOptions \"ticks\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
        ),
        ("limitBytes=0", "PodLogOptions \"ticks\" is invalid: limitBytes: Invalid value: 0: must be greater than 0"),
    ] {
        assert_eq!(ground.get(&format!("{PODS}/ticks/log?{query}")).refused(422), message);
    }
}

#[test]
fn what_is_not_known_is_refused_with_the_reason() {
    let ground = Ground::with_nodes(1);
    let log = |name: &str| ground.get(&format!("{PODS}/{name}/log"));
    for (name, container, why) in [
        (
            "nginx",
            json!({ "name": "main", "image": "nginx:1.27" }),
            "what the program of the image `nginx:1.27` prints is not known",
        ),
        ("server", script("echo starting; exec my-server --port 80"), "what `my-server` does is not known"),
        ("wget", script("wget -q -O- http://web; sleep 60"), "what `wget` does is not known"),
        ("busy", script("while true; do echo x; done"), "a loop goes round as fast as it can"),
        (
            "var",
            json!({ "name": "main", "image": "acme/app", "command": ["sh", "-c", "echo $PORT"] }),
            "the value of the variable `PORT` is not known",
        ),
    ] {
        ground.run(name, container, json!({ "restartPolicy": "Always" }));
        let refused = log(name).refused(501);
        assert!(
            refused.starts_with(&format!("the embedded cluster runs no containers: {why}; kind runs")),
            "{refused}"
        );
    }
    ground.run("pause", json!({ "name": "main", "image": "registry.k8s.io/pause:3.10" }), json!({}));
    assert_eq!(ground.log("pause", ""), "");
    ground.run("slow", script("echo one; sleep 60; my-server --version"), json!({}));
    assert_eq!(ground.log("slow", ""), "one\n", "up to then all is known");
    ground.pass(60);
    assert_eq!(log("slow").status, 501);
}

#[test]
fn logs_are_refused_in_the_kubelets_words() {
    let ground = Ground::with_nodes(1);
    let containers = json!([{ "name": "a", "image": "nginx:does-not-exist" }, { "name": "b", "image": "pause" }]);
    ground.run("two", Value::Null, json!({ "containers": containers }));
    let log = |query: &str| ground.get(&format!("{PODS}/two/log?{query}"));
    assert_eq!(log("").refused(400), "a container name must be specified for pod two, choose one of: [a b]");
    assert_eq!(log("container=c").refused(400), "container c is not valid for pod two");
    let waiting = log("container=a").refused(400);
    assert!(waiting.starts_with("container \"a\" in pod \"two\" is waiting to start: "), "{waiting}");
    assert_eq!(
        log("container=b&previous=true").refused(400),
        "previous terminated container \"b\" in pod \"two\" not found"
    );
    ground.run("again", script("echo once; sleep 2; exit 1"), json!({ "restartPolicy": "Always" }));
    ground.pass(3);
    assert_eq!(ground.log("again", "previous=true"), "once\n");
}

// upstream test: [sig-node] Downward API should provide pod name, namespace and IP address as env vars [NodeConformance] [Conformance]
// upstream test: [sig-node] Downward API should provide container's limits.cpu/memory and requests.cpu/memory as env vars [NodeConformance] [Conformance]
// upstream test: [sig-node] ConfigMap should be consumable via environment variable [NodeConformance] [Conformance]
// upstream test: [sig-node] ConfigMap should be consumable via the environment [NodeConformance] [Conformance]
// upstream test: [sig-node] Secrets should be consumable from pods in env vars [NodeConformance] [Conformance]
// upstream test: [sig-node] Secrets should be consumable via the environment [NodeConformance] [Conformance]
// upstream test: [sig-node] Variable Expansion should allow composing env vars into new env vars [NodeConformance] [Conformance]
// upstream test: [sig-node] Pods should contain environment variables for services [NodeConformance] [Conformance]
#[test]
fn the_environment_is_what_the_pod_says() {
    let ground = Ground::with_nodes(1);
    ground.config("ConfigMap", "configmaps", "config", json!({ "data-1": "value-1", "data_2": "value-2" }));
    ground.config("Secret", "secrets", "secret", json!({ "key": "hush" }));
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "foo-service" },
        "spec": { "ports": [{ "port": 8765 }], "clusterIP": "10.0.0.77" } });
    ground.post("/api/v1/namespaces/default/services", &service).good();
    let mut container = json!({ "name": "main", "image": BUSYBOX, "command": ["env"] });
    container["resources"] =
        json!({ "requests": { "cpu": "250m", "memory": "32Mi" }, "limits": { "cpu": "1250m", "memory": "64Mi" } });
    container["envFrom"] = json!([{ "configMapRef": { "name": "config" }, "prefix": "p_" }, { "secretRef": { "name": "none", "optional": true } }]);
    container["env"] = json!([
        { "name": "POD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
        { "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
        { "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } },
        { "name": "CONFIG", "valueFrom": { "configMapKeyRef": { "name": "config", "key": "data-1" } } },
        { "name": "SECRET", "valueFrom": { "secretKeyRef": { "name": "secret", "key": "key" } } },
        { "name": "BOTH", "value": "$(CONFIG);;$(SECRET)" },
    ]);
    ground.run("env", container.clone(), json!({}));
    let log = ground.log("env", "");
    let ip = ground.get(&format!("{PODS}/env")).good()["status"]["podIP"].as_str().unwrap().to_owned();
    for line in [
        "POD=env",
        &format!("IP={ip}"),
        "CPU=2",
        "CONFIG=value-1",
        "SECRET=hush",
        "BOTH=value-1;;hush",
        "p_data_2=value-2",
        "HOSTNAME=env",
        "FOO_SERVICE_SERVICE_HOST=10.0.0.77",
        "FOO_SERVICE_PORT_8765_TCP_PORT=8765",
    ] {
        assert!(log.lines().any(|own| own == line), "{line} in\n{log}");
    }
    // What the container has found before a change is not kept.
    ground.pass(5);
    ground
        .merge(
            "/api/v1/namespaces/default/configmaps/config?fieldManager=kubectl-edit",
            &json!({ "data": { "data-1": "new" } }),
        )
        .good();
    let refused = ground.get(&format!("{PODS}/env/log")).refused(501);
    assert!(refused.contains("ConfigMap `config` was changed after the container had started"), "{refused}");
}

// upstream test: [sig-node] Variable Expansion should allow substituting values in a container's command [NodeConformance] [Conformance]
// upstream test: [sig-node] Variable Expansion should allow substituting values in a container's args [NodeConformance] [Conformance]
#[test]
fn words_of_commands_are_filled_in() {
    let ground = Ground::with_nodes(1);
    let env = json!([{ "name": "TEST_VAR", "value": "test-value" }]);
    let mut container = json!({ "name": "main", "image": BUSYBOX, "command": ["sh", "-c"], "env": env });
    container["args"] = json!(["TEST_VAR=wrong echo \"$(TEST_VAR) $TEST_VAR\""]);
    ground.run("args", container, json!({}));
    assert!(ground.log("args", "").starts_with("test-value "), "{}", ground.log("args", ""));
}

#[test]
fn volumes_hold_what_the_kubelet_writes() {
    let ground = Ground::with_nodes(1);
    ground.config("ConfigMap", "configmaps", "config", json!({ "data-1": "value-1", "data-2": "value-2" }));
    ground.config("Secret", "secrets", "secret", json!({ "data-1": "hush" }));
    let run = |name: &str, text: &str, source: Value, context: Value| {
        let mut container = script(text);
        container["volumeMounts"] = json!([{ "name": "v", "mountPath": "/v" }]);
        let mut volume = source;
        volume["name"] = json!("v");
        ground.run(name, container, json!({ "volumes": [volume], "securityContext": context }));
    };
    let mapped = json!({ "configMap": { "name": "config", "defaultMode": 0o400, "items": [{ "key": "data-2", "path": "path/to/data-2" }] } });
    run("config", "stat -L -c %a:%u /v/path/to/data-2; cat /v/path/to/data-2", mapped, json!({}));
    assert_eq!(ground.log("config", ""), "400:0\nvalue-2");
    let secret = json!({ "secret": { "secretName": "secret", "defaultMode": 0o440 } });
    let context = json!({ "runAsUser": 1000, "fsGroup": 1001 });
    run("secret", "stat -L -c %a:%g /v/data-1", secret, context);
    assert_eq!(ground.log("secret", ""), "440:1001\n");
    let empty = || json!({ "emptyDir": {} });
    let context = json!({ "runAsUser": 1000, "fsGroup": 1001 });
    run("made", "echo x > /v/made; stat -c %u:%g /v/made", empty(), context);
    assert_eq!(ground.log("made", ""), "1000:1001\n");
    let downward = json!({ "downwardAPI": { "items": [
        { "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }, { "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } },
    ]}});
    run("downward", "cat /v/name", downward.clone(), json!({}));
    assert_eq!(ground.log("downward", ""), "downward");
    // Labels change while a container runs.
    run("labels", "cat /v/labels", downward, json!({}));
    assert_eq!(ground.get(&format!("{PODS}/labels/log")).status, 501);
    let projected = json!({ "projected": { "sources": [{ "configMap": { "name": "config" } }, { "secret": { "name": "secret", "items": [{ "key": "data-1", "path": "s" }] } }] } });
    run("projected", "cat /v/s /v/data-2; ls /v; cat /v/none", projected, json!({}));
    assert_eq!(
        ground.log("projected", ""),
        "hushvalue-2data-1\ndata-2\ns\ncat: can't open '/v/none': No such file or directory\n"
    );
    assert_eq!(ground.state("projected")["terminated"]["exitCode"], 1, "as its log says");
}

// upstream test: [sig-node] Container Runtime blackbox test on terminated container should report termination message if TerminationMessagePath is set as non-root user and at a non-default path [NodeConformance] [Conformance]
// upstream test: [sig-node] Container Runtime blackbox test on terminated container should report termination message from log output if TerminationMessagePolicy FallbackToLogsOnError is set [NodeConformance] [Conformance]
// upstream test: [sig-node] Container Runtime blackbox test on terminated container should report termination message from file when pod succeeds and TerminationMessagePolicy FallbackToLogsOnError is set [NodeConformance] [Conformance]
#[test]
fn containers_that_have_ended_leave_a_message() {
    let ground = Ground::with_nodes(1);
    for (name, text, path, policy, message) in [
        (
            "custom",
            "/bin/echo -n DONE > /dev/termination-custom-log",
            "/dev/termination-custom-log",
            "File",
            Some("DONE"),
        ),
        ("log", "/bin/echo -n DONE; /bin/false", "/dev/termination-log", "FallbackToLogsOnError", Some("DONE")),
        ("empty", "/bin/echo -n DONE; /bin/true", "/dev/termination-log", "FallbackToLogsOnError", None),
        (
            "file",
            "/bin/echo -n OK > /dev/termination-log; /bin/echo DONE; /bin/true",
            "/dev/termination-log",
            "FallbackToLogsOnError",
            Some("OK"),
        ),
    ] {
        let mut container = script(text);
        container["terminationMessagePath"] = json!(path);
        container["terminationMessagePolicy"] = json!(policy);
        ground.run(name, container, json!({}));
        assert_eq!(ground.state(name)["terminated"]["message"].as_str(), message, "{name}: {}", ground.state(name));
    }
}

#[test]
fn containers_find_what_others_have_left() {
    let ground = Ground::with_nodes(1);
    let mount = json!([{ "name": "work", "mountPath": "/work" }]);
    let mut init = script("echo 'made by init' > /work/index.html; echo init done");
    init["name"] = json!("init");
    init["volumeMounts"] = mount;
    let mut container = script("cat /www/index.html; ls /www; while sleep 10; do :; done");
    container["volumeMounts"] = json!([{ "name": "work", "mountPath": "/www" }]);
    let volumes = json!([{ "name": "work", "emptyDir": {} }]);
    ground.run("two", container, json!({ "initContainers": [init], "volumes": volumes }));
    assert_eq!(ground.log("two", "container=init"), "init done\n");
    assert_eq!(ground.log("two", "container=main"), "made by init\nindex.html\n");
}

#[test]
fn hostile_scripts_cost_little() {
    let ground = Ground::with_nodes(1);
    for (index, text) in [
        "i=aa; while true; do i=$i$i; done",
        "while true; do i=$((i+1)); echo $i >> /tmp/$i; done",
        "f() { f; f; }; f",
        "x=$(yes | head -c 1000000000); echo ${x%%*}",
        "seq 1 9000000000000",
        "for i in $(seq 1 50000); do seq 1 50000; done",
        "while sleep 0.0000001; do echo x; done",
        "printf '%4000000000s' x",
        "echo ${x%%*a*a*a*a*a*a*a*a*b}",
        "cat <<EOF\n$(cat <<EOF\n$(echo)\nEOF\n)\nEOF",
    ]
    .iter()
    .enumerate()
    {
        let name = format!("hostile-{index}");
        ground.run(&name, script(text), json!({}));
        ground.pass(3600);
        let answer = ground.get(&format!("{PODS}/{name}/log?tailLines=1"));
        assert!(matches!(answer.status, 200 | 501), "{text}: {}", answer.status);
    }
}
