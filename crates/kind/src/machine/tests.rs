//! Commands on a node, from what is typed to what follows.

use std::time::Duration;

use super::*;

/// A node's surroundings.
#[derive(Default)]
struct Known(Vec<Container>);

impl Outside for Known {
    fn kubectl(&mut self, arguments: &[String], _: &str) -> Result<Output, String> {
        Ok(Output { out: format!("kubectl {}\n", arguments.join(" ")), ..Output::default() })
    }

    fn containers(&mut self) -> Result<Vec<Container>, String> {
        Ok(self.0.clone())
    }

    fn log(&mut self, container: &Container) -> Result<String, String> {
        Ok(format!("log of {}\n", container.name))
    }

    fn kill(&mut self, container: &Container, removes: bool) -> Result<(), String> {
        if removes && container.pod == "once" { Err("it is not certain".to_owned()) } else { Ok(()) }
    }

    fn pause(&mut self, _: Duration) {}
}

fn place() -> Place<'static> {
    Place {
        cluster: "demo",
        node: "demo-control-plane",
        uid: "u1",
        address: "172.18.0.2",
        is_control_plane: true,
        has_peers: false,
        version: "1.36.2",
        folder: "/",
        administrator: "kind: Config\n",
        created: "2026-11-07T09:05:03Z".parse().unwrap(),
        now: "2026-11-07T09:15:03Z".parse().unwrap(),
    }
}

fn does(state: &mut State, words: &[&str]) -> Result<(Output, Vec<Effect>), String> {
    let since = Some("2026-11-07T09:14:03Z".parse().unwrap());
    let container = Container {
        id: "0123456789abcdef".into(),
        name: "web".into(),
        image: "nginx:1".into(),
        full_image: "docker.io/library/nginx:1".into(),
        since,
        pod: "web-1".into(),
        namespace: "default".into(),
        uid: "u2".into(),
        previous: Some("fedcba".into()),
        attempt: 0,
    };
    let server = Container {
        id: "aaaa".into(),
        name: "etcd".into(),
        namespace: "kube-system".into(),
        since,
        ..Container::default()
    };
    let ended = Container { id: "bbbb".into(), name: "ended".into(), ..Container::default() };
    let once = Container { id: "cccc".into(), pod: "once".into(), since, ..Container::default() };
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let ran = run(&place(), state, &words, "", &mut Known(vec![container, server, ended, once]))?;
    *state = ran.state;
    Ok((ran.output, ran.effects))
}

fn bash(state: &mut State, script: &str) -> Result<(Output, Vec<Effect>), String> {
    does(state, &["bash", "-c", script])
}

const SCHEDULER: &str = "/etc/kubernetes/manifests/kube-scheduler.yaml";

#[test]
fn the_scheduler_stops_when_its_file_goes_and_starts_when_it_is_back() {
    let mut state = State::default();
    let (output, effects) = does(&mut state, &["mv", SCHEDULER, "/etc/kubernetes/"]).unwrap();
    let component = |runs| Effect::Component { component: "kube-scheduler".into(), runs };
    let name = "kube-scheduler-demo-control-plane".to_owned();
    assert_eq!(output, Output::default());
    assert_eq!(effects, [component(false), Effect::Remove { namespace: "kube-system".into(), name }]);
    let (_, again) = bash(&mut state, "ls /etc/kubernetes/manifests").unwrap();
    assert!(again.is_empty(), "what is known is not done twice: {again:?}");
    let (_, effects) = does(&mut state, &["mv", "/etc/kubernetes/kube-scheduler.yaml", SCHEDULER]).unwrap();
    let [Effect::Scheduler(None), one, Effect::Add(_)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(*one, component(true));
    assert_eq!(state.seen, None);
}

#[test]
fn the_scheduler_takes_the_configuration_that_its_manifest_names() {
    let write = |text: &str| format!("cat > /etc/kubernetes/sched/config.yaml <<'EOF'\n{text}\nEOF");
    let packing = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: packing";
    let flag = format!(
        "sed -i 's|    - --leader-elect=true|    - --leader-elect=true\\n    - --config=/sched/config.yaml|' {SCHEDULER}"
    );
    let volumes = format!(
        "sed -i 's|    name: kube-scheduler|    name: kube-scheduler\\n    volumeMounts:\\n    - {{name: sched, mountPath: /sched}}|; \
         s|  hostNetwork: true|  hostNetwork: true\\n  volumes:\\n  - {{name: sched, hostPath: {{path: /etc/kubernetes/sched}}}}|' {SCHEDULER}"
    );
    let all = |text: &str| format!("mkdir -p /etc/kubernetes/sched; {}\n{flag}; {volumes}", write(text));
    let mut state = State::default();
    let (_, effects) = bash(&mut state, &all(packing)).unwrap();
    let [Effect::Remove { .. }, Effect::Scheduler(Some(read)), Effect::Component { runs: true, .. }, Effect::Add(_)] =
        effects.as_slice()
    else {
        panic!("{effects:?}")
    };
    assert_eq!(read["profiles"][0]["schedulerName"], "packing");
    for (script, why) in [
        (all("kind: Other"), "kube-scheduler would end: Object"),
        (all(": ["), "kube-scheduler cannot read /sched/config.yaml"),
        (flag.clone(), "no hostPath volume is there"),
        (format!("{flag}; {volumes}"), "kube-scheduler finds no file /sched/config.yaml"),
        (flag.replace("--config=/sched/config.yaml", "--v=4"), "has kubeadm's arguments, and `--config` beside them"),
    ] {
        let refused = bash(&mut State::default(), &script).unwrap_err();
        assert!(refused.contains(why), "{script}\n{refused}");
    }
}

#[test]
fn the_api_server_stops_with_its_file_where_it_is_alone() {
    let mut state = State::default();
    let words: Vec<String> = ["rm", "/etc/kubernetes/manifests/etcd.yaml"].map(str::to_owned).to_vec();
    let alone = run(&place(), &state, &words, "", &mut Known::default()).unwrap().effects;
    assert_eq!(alone.first(), Some(&Effect::Component { component: "etcd".into(), runs: false }));
    let refused = run(&Place { has_peers: true, ..place() }, &state, &words, "", &mut Known::default());
    assert!(refused.unwrap_err().contains("the other control planes"));
    let (_, effects) =
        bash(&mut state, "cd /etc/kubernetes/manifests; mv kube-apiserver.yaml kube-scheduler.yaml /tmp").unwrap();
    let stops = |name: &str| effects.contains(&Effect::Component { component: name.into(), runs: false });
    assert!(stops("kube-apiserver") && stops("kube-scheduler") && !stops("etcd"), "{effects:?}");
}

#[test]
fn a_file_in_the_kubelets_folder_becomes_a_pod_once_the_kubelet_runs() {
    let mut state = State::default();
    does(&mut state, &["systemctl", "stop", "kubelet"]).unwrap();
    let manifest = "cat > /etc/kubernetes/manifests/own.yaml <<'EOF'\napiVersion: v1\nkind: Pod\nmetadata:\n  name: own\nspec:\n  \
                    containers:\n  - {name: own, image: nginx}\nEOF";
    let (_, effects) = bash(&mut state, manifest).unwrap();
    assert!(effects.is_empty(), "{effects:?}");
    let (_, effects) = bash(&mut state, "systemctl start kubelet").unwrap();
    let [Effect::Kubelet(true), Effect::Add(pod)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(
        (&pod["metadata"]["name"], &pod["metadata"]["namespace"]),
        (&"own-demo-control-plane".into(), &"default".into())
    );
    assert_eq!(
        (&pod["spec"]["nodeName"], &pod["metadata"]["ownerReferences"][0]["uid"]),
        (&"demo-control-plane".into(), &"u1".into())
    );
    let (output, effects) = bash(&mut state, "echo 'kind: [' > /etc/kubernetes/manifests/own.yaml").unwrap();
    assert!(output.err.starts_with("klab: the kubelet takes no pod from"), "{output:?}");
    assert!(matches!(effects.as_slice(), [Effect::Remove { .. }]), "{effects:?}");
}

#[test]
fn a_kubelet_whose_unit_names_another_program_does_not_start() {
    let mut state = State::default();
    let unit = "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf";
    let edit = |from: &str, to: &str| {
        format!("sed -i 's|ExecStart={from}|ExecStart={to}|' \\\n  {unit}\nsystemctl daemon-reload\n")
    };
    let broken = edit("/usr/bin/kubelet", "/usr/local/bin/kubelet") + "systemctl restart kubelet";
    assert_eq!(bash(&mut state, &broken).unwrap().1, [Effect::Kubelet(false)]);
    let (output, _) = bash(&mut state, "systemctl is-active kubelet || echo no").unwrap();
    assert_eq!((output.out.as_str(), output.code), ("inactive\nno\n", 0));
    let mended = edit("/usr/local/bin/kubelet", "/usr/bin/kubelet") + "systemctl restart kubelet";
    assert_eq!(bash(&mut state, &mended).unwrap().1, [Effect::Kubelet(true)]);
}

#[test]
fn scripts_read_as_in_bash() {
    let mut state = State::default();
    for (script, out) in [
        ("echo one > /opt/x; cat /opt/x && echo two >> /opt/x; wc -l < /opt/x", "one\n2\n"),
        ("A=$(hostname); echo \"$A\" '$A' $A-x", "demo-control-plane $A demo-control-plane-x\n"),
        ("mkdir -p /opt/a/b && touch /opt/a/b/c && ls /opt/a/b | grep -c c", "1\n"),
        ("test -f /opt/nothing || echo none", "none\n"),
        ("grep -- '--client-cert-auth=' /etc/kubernetes/manifests/etcd.yaml | head -1 | cut -d= -f2", "true\n"),
        ("cat <<EOF | tee /opt/y\nhost $HOSTNAME\nEOF\n", "host demo-control-plane\n"),
        (
            "cd /opt/a; pwd; ls /etc/kubernetes/manifests/kube-sch*",
            "/opt/a\n/etc/kubernetes/manifests/kube-scheduler.yaml\n",
        ),
        ("! false && printf '%s-%s\\n' a b # said", "a-b\n"),
        ("kubectl get cm coredns -o yaml > /opt/z; cat /opt/z", "kubectl get cm coredns -o yaml\n"),
        ("openssl x509 -noout -enddate -in /etc/kubernetes/pki/apiserver.crt", "notAfter=Nov  7 09:05:03 2027 GMT\n"),
        (
            "crictl ps --name web -q; crictl inspect 0123 --template '{{.info.runtimeType}}'; crictl logs 0123456",
            "0123456789abcdef\nio.containerd.runc.v2\nlog of web\n",
        ),
        ("crictl stop 0123; crictl rm -f 0123; crictl rm fedc; crictl stop bbbb", "0123\n0123\n0123\nfedc\nbbbb\n"),
        (
            "crictl ps --name web | tail -1",
            "0123456789abc   nginx:1   About a minute ago   Running   web    0         web-1   default\n",
        ),
        ("set -e; false; echo no", ""),
        ("crictl images | tail -1", "docker.io/library/nginx   1\n"),
        ("cd /opt; mkdir d; cd d; echo $PWD", "/opt/d\n"),
        ("cat /etc/hostname | grep -A 2 demo", "demo-control-plane\n"),
        ("echo x > /opt/m; mv /opt/m /no/where; cat /opt/m", "x\n"),
    ] {
        let (output, effects) = bash(&mut state, script).unwrap_or_else(|why| panic!("{script}: {why}"));
        assert_eq!(output.out, out, "{script}: {}", output.err);
        assert!(effects.is_empty(), "{script}: {effects:?}");
    }
}

#[test]
fn what_is_not_certain_is_refused_and_leaves_nothing() {
    let deep = "echo $(".repeat(10_000) + &")".repeat(10_000);
    for script in [
        "touch /opt/x; apt-get update",
        deep.as_str(),
        "for i in 1 2; do echo $i; done",
        "echo `hostname`",
        "sleep 1 &",
        "ls -l /etc/kubernetes",
        "sed -i 's/10.96.0.0/11.96.0.0/' /etc/kubernetes/manifests/kube-apiserver.yaml",
        "sed -i 's/leader-elect=true/leader-elect=false/' /etc/kubernetes/manifests/kube-scheduler.yaml",
        "echo 'x",
        "cat <<EOF\nno end",
        "sed -n p /etc/hostname",
        "systemctl stop containerd",
        "crictl rm -f aaaa",
        "crictl rm bbbb",
        "crictl rm -f cccc",
        "crictl rm --all",
        "systemctl stop kubelet; crictl stop 0123",
        "echo ${A:-b}",
        "ls /etc",
        "echo $((1+1))",
        "(echo a)",
        "awk 1",
        "| x",
        "echo >",
    ] {
        let mut state = State::default();
        let refused = bash(&mut state, script);
        assert!(refused.is_err(), "{script}: {refused:?}");
        assert_eq!(state, State::default(), "{script}");
    }
    assert!(
        does(&mut State::default(), &["etcdctl", "version"]).unwrap_err().contains("`etcdctl version` is not followed")
    );
}

#[test]
fn what_is_written_has_a_bound_and_leaves_what_was_there() {
    let mut state = State::default();
    bash(&mut state, "echo first > /opt/x").unwrap();
    let (output, _) = bash(&mut state, &format!("echo {} > /opt/x", "x".repeat(300_000))).unwrap();
    assert_eq!((output.code, output.err.as_str()), (1, "bash: /opt/x: No space left on device\n"));
    assert_eq!(bash(&mut state, "cat /opt/x").unwrap().0.out, "first\n");
}

#[test]
fn failures_are_those_of_the_programs() {
    for (script, code, err) in [
        ("cat /nothing", 1, "cat: /nothing: No such file or directory\n"),
        ("ls /opt/nothing", 2, "ls: cannot access '/opt/nothing': No such file or directory\n"),
        ("mv /nothing /tmp/", 1, "mv: cannot stat '/nothing': No such file or directory\n"),
        ("echo x > /opt/no/where", 1, "bash: /opt/no/where: No such file or directory\n"),
        ("grep x /nothing", 2, "grep: /nothing: No such file or directory\n"),
        ("grep nothing /etc/hostname", 1, ""),
        ("crictl rm 0123", 1, "E: container \"0123\" is running, please stop it first\n"),
        ("crictl rm -f ''", 1, "E: container \"\": not found\n"),
        ("exit 7", 7, ""),
        ("false; exit", 1, ""),
        ("sed s/a/b/ /nothing", 2, "sed: can't read /nothing: No such file or directory\n"),
    ] {
        let (output, _) = bash(&mut State::default(), script).unwrap();
        assert_eq!((output.code, output.err.as_str()), (code, err), "{script}");
    }
}

proptest::proptest! {
    #[test]
    fn nothing_that_is_typed_panics(script in "[ -~\n]{0,60}") {
        let _ = bash(&mut State::default(), &script);
    }
}
