//! Explanations without a lab: by the user's kubeconfig and rights, also as `kubectl klab`.

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use insta::assert_snapshot;

use super::Somebodys;
use crate::environment::{Environment, has_kubectl};

#[test]
fn a_cluster_that_klab_did_not_make_is_explained_with_commands() {
    let cluster = Somebodys::new();
    assert_snapshot!(cluster.klab(&["explain", "web", "--context", "klab-theirs"]), @r#"
    --- stdout
    web-POD  Pending for AGE (K0503)
      fits on none of 2 nodes:
        extra-0   taint dedicated=special:NoSchedule is not tolerated
        system-0  no label workload, nodeSelector asks for workload=extra
      fix: add a toleration of the taint dedicated=special:NoSchedule to `deployment/web`:
           kubectl --context klab-theirs patch deployment/web -p '{"spec":{"template":{"spec":{"tolerations":[{"effect":"NoSchedule","key":"dedicated","operator":"Equal","value":"special"}]}}}}'
       or: remove the taint dedicated=special:NoSchedule from pool extra:
           kubectl --context klab-theirs taint nodes -l agentpool=extra dedicated=special:NoSchedule-
       or: label pool system `workload=extra`:
           kubectl --context klab-theirs label nodes -l agentpool=system workload=extra
    --- status 0
    "#);
    assert_snapshot!(cluster.klab(&["explain", "deployment.apps/away", "--context", "klab-theirs"]), @"
    --- stderr
    error[K0905]: there is no pod or workload `deployment.apps/away` in namespace default
    hint: there is one in namespace team: `-n team`
    --- status 2
    ");
    assert_snapshot!(cluster.klab(&["explain", "deployment/away", "--context", "klab-theirs", "-n", "team", "-q"]), @"
    --- stdout
    team/away-POD  running on extra-0 (pool extra)
      extra-0 is the only node that takes it
      not elsewhere:
        system-0  no label workload, nodeSelector asks for workload=extra
    --- status 0
    ");
    assert_snapshot!(cluster.klab(&["explain", "wbe", "--context", "klab-theirs"]), @"
    --- stderr
    error[K0905]: there is no pod or workload `wbe` in namespace default
    hint: this shows the pods:
            kubectl --context klab-theirs get pods -n default
    --- status 2
    ");
    assert_snapshot!(cluster.klab(&["explain", "web"]), @"
    --- stderr
    error[K0801]: no lab is up
    hint: this makes one:
            klab up scheduling
        this lists more:
            klab lessons
    hint: `klab explain POD --context NAME` explains on a cluster that klab did not make
    --- status 2
    ");
    // As kubectl does, a list of files is read with those that are there.
    let mut command = cluster.own.command(&["explain", "web", "--context", "klab-theirs", "-q"]);
    let output = command.env("KUBECONFIG", "missing:.kube/config").output().unwrap();
    assert!(output.status.success(), "{}", cluster.shown(&output));
    assert!(cluster.own.leftovers().is_empty());
}

#[test]
fn what_a_user_may_not_read_is_said_and_left_out() {
    let cluster = Somebodys::new();
    cluster.kubeconfig_of("observer", "default");
    cluster.kubeconfig_of("learner", "default");
    cluster.kubeconfig_of("stranger", "team");
    assert_snapshot!(cluster.klab(&["explain", "web", "--kubeconfig", "observer.kubeconfig"]), @r#"
    --- stdout
    web-POD  Pending for AGE (K0503)
      fits on none of 2 nodes:
        extra-0   taint dedicated=special:NoSchedule is not tolerated
        system-0  no label workload, nodeSelector asks for workload=extra
      fix: add a toleration of the taint dedicated=special:NoSchedule to `deployment/web`:
           kubectl --kubeconfig observer.kubeconfig patch deployment/web -p '{"spec":{"template":{"spec":{"tolerations":[{"effect":"NoSchedule","key":"dedicated","operator":"Equal","value":"special"}]}}}}'
       or: remove the taint dedicated=special:NoSchedule from pool extra:
           kubectl --kubeconfig observer.kubeconfig taint nodes -l agentpool=extra dedicated=special:NoSchedule-
       or: label pool system `workload=extra`:
           kubectl --kubeconfig observer.kubeconfig label nodes -l agentpool=system workload=extra
    --- stderr
    warning[K0416]: you may read these in namespace default only, so what pods of others take of the nodes is not counted: pods, deployments, replicasets
    warning[K0416]: you may not read these, and they are left out: replicationcontrollers, daemonsets, statefulsets, jobs, namespaces, services, poddisruptionbudgets, priorityclasses, persistentvolumeclaims, persistentvolumes, storageclasses, csinodes
    --- status 0
    "#);
    assert_snapshot!(cluster.klab(&["explain", "web", "--kubeconfig", "learner.kubeconfig"]), @r#"
    --- stderr
    error[K0401]: could not explain `web`: you may not list the nodes of the cluster
    caused by: nodes is forbidden: User "learner" cannot list resource "nodes" in API group "" at the cluster scope
    hint: the scheduler says of default/web-POD: 0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.
    hint: this says whether you may:
            kubectl --kubeconfig learner.kubeconfig auth can-i list nodes
    hint: who administers the cluster can let you:
            kubectl create clusterrole node-reader --verb=get,list,watch --resource=nodes
        then `kubectl create clusterrolebinding NAME --clusterrole=node-reader --user=USER`
    --- status 3
    "#);
    assert_snapshot!(cluster.klab(&["explain", "away", "--kubeconfig", "stranger.kubeconfig"]), @r#"
    --- stderr
    error[K0401]: could not explain `away`: you may not list the nodes of the cluster
    caused by: nodes is forbidden: User "stranger" cannot list resource "nodes" in API group "" at the cluster scope
    hint: this says whether you may:
            kubectl --kubeconfig stranger.kubeconfig auth can-i list nodes
    hint: who administers the cluster can let you:
            kubectl create clusterrole node-reader --verb=get,list,watch --resource=nodes
        then `kubectl create clusterrolebinding NAME --clusterrole=node-reader --user=USER`
    --- status 3
    "#);
    let document = cluster.own.json(&["explain", "web", "--kubeconfig", "observer.kubeconfig"]);
    assert_eq!(document["schema"], "klab.explain/1");
    assert_eq!(document["unread"]["other_namespaces"], serde_json::json!(["pods", "deployments", "replicasets"]));
}

#[test]
fn kubeconfigs_that_lead_nowhere_are_named() {
    let own = Environment::new();
    assert_snapshot!(own.klab(&["explain", "web", "--context", "there"]), @"
    --- stderr
    error[K0310]: there is no kubeconfig: `[FOLDER]/.kube/config` is not there
    hint: `--kubeconfig FILE` or KUBECONFIG names one
    --- status 3
    ");
    assert_snapshot!(own.klab(&["explain", "web", "--kubeconfig", "missing"]), @"
    --- stderr
    error[K0310]: could not use the kubeconfig `missing`
    caused by: No such file or directory (os error 2)
    --- status 3
    ");
    own.write("empty", "");
    assert_snapshot!(own.klab(&["explain", "web", "--kubeconfig", "empty"]), @"
    --- stderr
    error[K0311]: the kubeconfig has no current context
    hint: it has no context at all; this shows those that kubectl sees:
            kubectl config get-contexts
    --- status 2
    ");
    own.write("broken", "clusters: {");
    let shown = own.klab(&["explain", "web", "--kubeconfig", "broken"]);
    assert!(shown.contains("could not use the kubeconfig `broken`") && shown.ends_with("--- status 3\n"), "{shown}");
    own.write("half", "contexts: [{ name: a, context: { cluster: none, user: me } }]");
    assert_snapshot!(own.klab(&["explain", "web", "--kubeconfig", "half", "--context", "a"]), @"
    --- stderr
    error[K0310]: context `a` names cluster `none`, which the kubeconfig does not have
    --- status 3
    ");
    assert_snapshot!(own.klab(&["explain", "web", "--kubeconfig", "half", "--context", "b"]), @"
    --- stderr
    error[K0311]: the kubeconfig has no context `b`
    hint: it has a
    --- status 2
    ");
    assert_snapshot!(own.klab(&["explain", "web", "--kubeconfig", "/dev/zero"]), @"
    --- stderr
    error[K0310]: could not use the kubeconfig `/dev/zero`
    caused by: it is not a file
    --- status 3
    ");
}

/// A kubeconfig of a server that takes connections and never answers, or of none at all.
#[test]
fn a_cluster_that_does_not_answer_is_given_up() {
    let own = Environment::new();
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let server = format!("http://{}", silent.local_addr().unwrap());
    let kubeconfig = |server: &str| {
        format!(
            "{{ clusters: [{{ name: c, cluster: {{ server: '{server}' }} }}], users: [{{ name: u, user: {{ token: t }} }}], \
             contexts: [{{ name: x, context: {{ cluster: c, user: u }} }}], current-context: x }}"
        )
    };
    own.write("silent", kubeconfig(&server));
    let shown = own.klab(&["explain", "web", "--kubeconfig", "silent", "--request-timeout", "200ms"]);
    assert!(shown.contains("has not answered for 200 ms"), "{shown}");
    assert!(shown.contains("this should answer:\n        kubectl --kubeconfig silent get nodes"), "{shown}");
    drop(silent);
    own.write("gone", kubeconfig(&server));
    let shown = own.klab(&["explain", "web", "--kubeconfig", "gone"]);
    assert!(shown.contains("Connection refused") && shown.ends_with("--- status 3\n"), "{shown}");
}

#[test]
fn kubectl_has_it_as_a_plugin() {
    let cluster = Somebodys::new();
    let bin = cluster.own.folder().join("bin");
    std::fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_klab"), bin.join("kubectl-klab")).unwrap();
    let plugin = |arguments: &[&str]| {
        let mut command = Command::new(bin.join("kubectl-klab"));
        command.args(arguments).current_dir(cluster.own.folder()).env_clear().stdin(Stdio::null());
        command.env("HOME", cluster.own.folder()).env("KLAB_HOME", cluster.own.home()).env("COLUMNS", "100");
        cluster.shown(&command.output().unwrap())
    };
    // The context that is kubectl's own is meant.
    let shown = plugin(&["explain", "web"]);
    assert!(shown.contains("kubectl patch deployment/web"), "{shown}");
    assert_snapshot!(plugin(&["explain"]), @"
    --- stderr
    error[K0900]: the following required arguments were not provided:
      <POD|WORKLOAD>

    Usage: kubectl klab explain <POD|WORKLOAD>

    For more information, try '--help'.
    --- status 2
    ");
    assert_snapshot!(plugin(&["verify"]), @"
    --- stderr
    error[K0801]: no lab is up
    hint: this makes one:
            kubectl klab up scheduling
        this lists more:
            kubectl klab lessons
    --- status 2
    ");
    assert_snapshot!(plugin(&["explain", "wbe"]), @"
    --- stderr
    error[K0905]: there is no pod or workload `wbe` in namespace default
    hint: this shows the pods:
            kubectl get pods -n default
    --- status 2
    ");
    // Without kubectl, klab was called as kubectl calls it.
    if !has_kubectl() {
        return;
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut kubectl = Command::new("kubectl");
    kubectl.args(["klab", "explain", "away", "-n", "team", "--context", "klab-theirs"]).env_clear().env("PATH", path);
    kubectl.env("HOME", cluster.own.folder()).env("KLAB_HOME", cluster.own.home());
    let shown = cluster.shown(&kubectl.output().unwrap());
    assert!(shown.contains("away-POD  running on extra-"), "{shown}");
}
