//! What containers print whose scripts are followed: logs, messages of those that have ended, what is not known.

use serde_json::{Value, json};

use super::ground::Ground;

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUSYBOX: &str = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1";
const AGNHOST: &str = "registry.k8s.io/e2e-test-images/agnhost:2.59";

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
        assert_eq!(log(name).refused(501), format!("the embedded cluster runs no containers: {why}"));
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
    let mut container = script("env");
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
    // What is changed afterwards the container has not seen.
    ground.pass(5);
    ground
        .merge(
            "/api/v1/namespaces/default/configmaps/config?fieldManager=kubectl-edit",
            &json!({ "data": { "data-1": "new" } }),
        )
        .good();
    assert_eq!(ground.log("env", ""), log);
}

// upstream test: [sig-node] Variable Expansion should allow substituting values in a container's command [NodeConformance] [Conformance]
// upstream test: [sig-node] Variable Expansion should allow substituting values in a container's args [NodeConformance] [Conformance]
// upstream test: [sig-node] Containers should be able to override the image's default arguments (container cmd) [NodeConformance] [Conformance]
// upstream test: [sig-node] Containers should be able to override the image's default command (container entrypoint) [NodeConformance] [Conformance]
// upstream test: [sig-node] Containers should be able to override the image's default command and arguments [NodeConformance] [Conformance]
#[test]
fn words_of_commands_are_filled_in() {
    let ground = Ground::with_nodes(1);
    let env = json!([{ "name": "TEST_VAR", "value": "test-value" }]);
    let mut container = json!({ "name": "main", "image": BUSYBOX, "command": ["sh", "-c"], "env": env });
    container["args"] = json!(["TEST_VAR=wrong echo \"$(TEST_VAR) $TEST_VAR\""]);
    ground.run("args", container, json!({}));
    assert!(ground.log("args", "").starts_with("test-value "), "{}", ground.log("args", ""));
    for (name, command, expected) in [
        ("arguments", json!([]), "[/agnhost entrypoint-tester override arguments]\n"),
        ("command", json!(["/agnhost-2"]), "[/agnhost-2 entrypoint-tester override arguments]\n"),
    ] {
        let args = ["entrypoint-tester", "override", "arguments"];
        ground.run(name, json!({ "name": "main", "image": AGNHOST, "command": command, "args": args }), json!({}));
        assert_eq!(ground.log(name, ""), expected);
        assert_eq!(ground.state(name)["terminated"]["exitCode"], 0);
    }
}

// upstream test: [sig-storage] ConfigMap should be consumable from pods in volume with mappings [NodeConformance] [Conformance]
// upstream test: [sig-storage] ConfigMap should be consumable from pods in volume with defaultMode set [LinuxOnly] [NodeConformance] [Conformance]
// upstream test: [sig-storage] Secrets should be consumable from pods in volume as non-root with defaultMode and fsGroup set [LinuxOnly] [NodeConformance] [Conformance]
// upstream test: [sig-storage] Downward API volume should provide podname only [NodeConformance] [Conformance]
// upstream test: [sig-storage] EmptyDir volumes should support (non-root,0666,tmpfs) [LinuxOnly] [NodeConformance] [Conformance]
#[test]
fn volumes_hold_what_the_kubelet_writes() {
    let ground = Ground::with_nodes(1);
    ground.config("ConfigMap", "configmaps", "config", json!({ "data-1": "value-1", "data-2": "value-2" }));
    ground.config("Secret", "secrets", "secret", json!({ "data-1": "hush" }));
    let tester = |path: &str, arguments: &[&str]| {
        let args: Vec<String> =
            ["mounttest".to_owned()].into_iter().chain(arguments.iter().map(|flag| format!("{flag}={path}"))).collect();
        json!({ "name": "main", "image": AGNHOST, "args": args, "volumeMounts": [{ "name": "v", "mountPath": "/v" }] })
    };
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = json!("v");
        json!({ "volumes": [volume] })
    };
    let mapped = json!({ "configMap": { "name": "config", "defaultMode": 0o400, "items": [{ "key": "data-2", "path": "path/to/data-2" }] } });
    ground.run("config", tester("/v/path/to/data-2", &["--file_content", "--file_mode"]), volume(mapped));
    let expected = "mode of file \"/v/path/to/data-2\": -r--------\ncontent of file \"/v/path/to/data-2\": value-2\n";
    assert_eq!(ground.log("config", ""), expected);
    let mut grouped = volume(json!({ "secret": { "secretName": "secret", "defaultMode": 0o440 } }));
    grouped["securityContext"] = json!({ "runAsUser": 1000, "fsGroup": 1001 });
    ground.run("secret", tester("/v/data-1", &["--file_content", "--file_mode", "--file_owner"]), grouped);
    let log = ground.log("secret", "");
    assert!(
        log.contains("-r--r-----\n") && log.contains("owner GID of \"/v/data-1\": 1001\n") && log.ends_with(": hush\n"),
        "{log}"
    );
    let downward = json!({ "downwardAPI": { "items": [
        { "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }, { "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } },
    ]}});
    ground.run("downward", tester("/v/labels", &["--file_content"]), volume(downward));
    assert_eq!(ground.log("downward", ""), "content of file \"/v/labels\": app=\"x\"\n");
    let mut own = volume(json!({ "emptyDir": { "medium": "Memory" } }));
    own["securityContext"] = json!({ "runAsUser": 1001 });
    let mut container = tester("/v/test-file", &["--new_file_0666", "--file_perm"]);
    container["args"].as_array_mut().unwrap().push(json!("--fs_type=/v"));
    ground.run("empty", container, own);
    assert_eq!(
        ground.log("empty", ""),
        "mount type of \"/v\": tmpfs\ncontent of file \"/v/test-file\": mount-tester new file\n\nperms of file \"/v/test-file\": -rw-rw-rw-\n"
    );
    let projected = json!({ "projected": { "sources": [{ "configMap": { "name": "config" } }, { "secret": { "name": "secret", "items": [{ "key": "data-1", "path": "s" }] } }] } });
    let mut container = script("cat /v/s /v/data-2; ls /v; cat /v/none");
    container["volumeMounts"] = json!([{ "name": "v", "mountPath": "/v" }]);
    ground.run("projected", container, volume(projected));
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

// upstream test: [sig-storage] ConfigMap optional updates should be reflected in volume [NodeConformance] [Conformance]
// upstream test: [sig-storage] Secrets optional updates should be reflected in volume [NodeConformance] [Conformance]
// upstream test: [sig-storage] Projected configMap optional updates should be reflected in volume [NodeConformance] [Conformance]
// upstream test: [sig-storage] Projected secret optional updates should be reflected in volume [NodeConformance] [Conformance]
#[test]
fn a_log_shows_what_came_and_went_in_volumes() {
    let ground = Ground::with_nodes(1);
    for (kind, plural) in [("ConfigMap", "configmaps"), ("Secret", "secrets")] {
        for is_projected in [false, true] {
            let source = |name: &str, optional: bool| {
                let field = if kind == "Secret" { "secret" } else { "configMap" };
                let own = if kind == "Secret" && !is_projected { "secretName" } else { "name" };
                let source = json!({ field: { own: name, "optional": optional } });
                if is_projected { json!({ "projected": { "sources": [source] } }) } else { source }
            };
            let objects = [("goes", true), ("changes", true), ("comes", true), ("needed", false)];
            let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
            for (name, optional) in objects {
                let mut volume = source(name, optional);
                volume["name"] = json!(name);
                volumes.push(volume);
                mounts.push(json!({ "name": name, "mountPath": format!("/{name}") }));
                if name != "comes" {
                    ground.config(kind, plural, name, json!({ "k": format!("{name} 1\n") }));
                }
            }
            let mut container =
                script("while sleep 20; do cat /changes/k /comes/k /goes/k /needed/k 2>/dev/null; date +%S; done");
            container["volumeMounts"] = json!(mounts);
            let pod = format!("{plural}-{is_projected}");
            ground.run(&pod, container, json!({ "volumes": volumes }));
            ground.pass(20);
            let path = format!("/api/v1/namespaces/default/{plural}");
            let field = if kind == "Secret" { "stringData" } else { "data" };
            ground.merge(&format!("{path}/changes"), &json!({ field: { "k": "changes 2\n" } })).good();
            ground.config(kind, plural, "comes", json!({ "k": "comes 1\n" }));
            for name in ["goes", "needed"] {
                ground.delete(&format!("{path}/{name}")).good();
            }
            ground.pass(20);
            ground.config(kind, plural, "goes", json!({ "k": "goes 2\n" }));
            ground.pass(20);
            let log = ground.log(&pod, "");
            let turns: Vec<Vec<&str>> =
                log.lines().collect::<Vec<_>>().split(|line| line.len() == 2).map(<[&str]>::to_vec).collect();
            let expected = [
                vec!["changes 1", "goes 1", "needed 1"],
                vec!["changes 2", "comes 1", "needed 1"],
                vec!["changes 2", "comes 1", "goes 2", "needed 1"],
                vec![],
            ];
            assert_eq!(turns, expected, "{pod}");
            let shown = ground.get(&format!("{PODS}/{pod}")).good();
            assert_eq!(shown["status"]["phase"], "Running");
            for (name, _) in objects {
                ground.delete(&format!("{path}/{name}"));
            }
        }
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

// upstream test: [sig-node] Sysctls [LinuxOnly] [NodeConformance] should support sysctls [Environment:NotInUserNS] [Conformance]
// upstream test: [sig-node] Sysctls [LinuxOnly] [NodeConformance] should support sysctls with slashes as separator [Environment:NotInUserNS]
// upstream test: [sig-storage] ConfigMap binary data should be reflected in volume [NodeConformance] [Conformance]
#[test]
fn what_the_pod_sets_of_the_kernel_and_binary_data_are_shown() {
    let ground = Ground::with_nodes(1);
    let container = json!({ "name": "main", "image": BUSYBOX, "command": ["/bin/sysctl", "kernel.shm_rmid_forced"] });
    let sysctls = json!([{ "name": "kernel.shm_rmid_forced", "value": "1" }]);
    let context = json!({ "securityContext": { "sysctls": sysctls } });
    ground.run("sysctl", container, context.clone());
    assert_eq!(ground.log("sysctl", ""), "kernel.shm_rmid_forced = 1\n");
    assert_eq!(ground.state("sysctl")["terminated"]["exitCode"], 0);
    let text = "cat /proc/sys/kernel/shm_rmid_forced; sysctl -n kernel.shm_rmid_forced; sysctl kernel/shm_rmid_forced";
    ground.run("file", script(text), context.clone());
    assert_eq!(ground.log("file", ""), "1\n1\nkernel.shm_rmid_forced = 1\n");
    ground.run("other", script("sysctl vm.swappiness"), context);
    let refusal = ground.get(&format!("{PODS}/other/log")).refused(501);
    assert!(refusal.ends_with("the node's setting `vm.swappiness` is not known"), "{refusal}");

    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "binary" }, "data": { "data": "value" },
        "binaryData": { "dump.bin": "3sr+utD+/w==" },
    });
    ground.post("/api/v1/namespaces/default/configmaps", &object).good();
    let mut container = json!({ "name": "main", "image": BUSYBOX, "command": ["hexdump", "-C", "/binary/dump.bin"] });
    container["volumeMounts"] = json!([{ "name": "binary", "mountPath": "/binary" }]);
    let volumes = json!([{ "name": "binary", "configMap": { "name": "binary" } }]);
    ground.run("hexdump", container, json!({ "volumes": volumes }));
    let line = "00000000  de ca fe ba d0 fe ff                              |.......|";
    assert_eq!(ground.log("hexdump", ""), format!("{line}\n00000007\n"));
    assert_eq!(ground.state("hexdump")["terminated"]["exitCode"], 0);
}

// upstream test: [sig-node] Override hostname of Pod [NodeConformance] [FeatureGate:HostnameOverride] [Beta] a pod with only hostnameOverride field will have hostnameOverride as hostname
// upstream test: [sig-node] Override hostname of Pod [NodeConformance] [FeatureGate:HostnameOverride] [Beta] a pod with subdomain and hostnameOverride fields will have hostnameOverride as hostname
// upstream test: [sig-node] Override hostname of Pod [NodeConformance] [FeatureGate:HostnameOverride] [Beta] a pod with hostname and hostnameOverride fields will have hostnameOverride as hostname
#[test]
fn a_host_has_a_name_and_a_full_name() {
    let ground = Ground::with_nodes(1);
    for (name, spec, out) in [
        ("plain", json!({}), "plain;plain;\n"),
        ("named", json!({ "hostname": "web", "subdomain": "sub" }), "web;web.sub.default.svc.cluster.local;\n"),
        ("other", json!({ "hostnameOverride": "override" }), "override;override;\n"),
        (
            "both",
            json!({ "hostnameOverride": "override", "hostname": "web", "subdomain": "sub" }),
            "override;override;\n",
        ),
    ] {
        ground.run(name, script("echo $(hostname)';'$(hostname -f)';'"), spec);
        assert_eq!(ground.log(name, ""), out, "{name}");
    }
}

// upstream test: [sig-node] Security Context When creating a pod with privileged should run the container as unprivileged when false [LinuxOnly] [NodeConformance] [Conformance]
// upstream test: [sig-node] Security Context when creating containers with AllowPrivilegeEscalation should not allow privilege escalation when false [LinuxOnly] [NodeConformance] [Conformance]
// upstream test: [sig-node] Security Context when creating containers with AllowPrivilegeEscalation should allow privilege escalation when true [LinuxOnly] [NodeConformance]
// upstream test: [sig-node] Security Context when creating containers with AllowPrivilegeEscalation should allow privilege escalation when not explicitly set and uid != 0 [LinuxOnly] [NodeConformance]
#[test]
fn privileges_are_those_that_the_container_has() {
    let ground = Ground::with_nodes(1);
    for (name, context, user) in [
        ("unset", json!({ "runAsUser": 1000 }), 0),
        ("allowed", json!({ "runAsUser": 1000, "allowPrivilegeEscalation": true }), 0),
        ("refused", json!({ "runAsUser": 1000, "allowPrivilegeEscalation": false }), 1000),
    ] {
        let image = "registry.k8s.io/e2e-test-images/nonewprivs:1.3";
        ground.run(name, json!({ "name": "main", "image": image, "securityContext": context }), json!({}));
        assert_eq!(ground.log(name, ""), format!("Effective uid: {user}\n"));
        assert_eq!(ground.state(name)["terminated"]["exitCode"], 0, "{name}");
    }
    let refused = "ip: RTNETLINK answers: Operation not permitted\n";
    for (name, context, out) in [
        ("plain", json!({ "privileged": false }), Some(refused)),
        ("privileged", json!({ "privileged": true }), None),
        ("capable", json!({ "capabilities": { "add": ["NET_ADMIN"] } }), None),
    ] {
        let mut container = script("ip link add dummy0 type dummy || true");
        container["securityContext"] = context;
        ground.run(name, container, json!({}));
        let log = ground.get(&format!("{PODS}/{name}/log"));
        match out {
            Some(out) => assert_eq!(String::from_utf8_lossy(&log.bytes), out),
            None => assert_eq!(log.status, 501, "{name}"),
        }
    }
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
