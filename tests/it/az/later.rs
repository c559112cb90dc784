//! `--no-wait`: az answers, and the work goes on, whatever happens to who does it.

use std::process::Command;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use klab_operations::state::Lock;

use super::{Environment, OF_LAB, az, document, session, up};

/// Somebody else works on the lab: what is left for later waits for its turn.
fn busy(environment: &Environment) -> Lock {
    Lock::take(&environment.home().join("labs/small"), "small", "up").unwrap()
}

/// The processes that do operations of this home.
fn workers(environment: &Environment) -> Vec<String> {
    let list = Command::new("ps").args(["-A", "-o", "pid=", "-o", "args="]).output().unwrap();
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let folder = environment.home().join("labs").display().to_string();
    let is_one = |line: &&str| line.contains(" operate ") && line.contains(&folder);
    list.lines().filter(is_one).map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
#[expect(clippy::too_many_lines, reason = "what az says to each line")]
fn az_answers_at_once_and_shows_what_goes_on_until_it_is_done() {
    let environment = up();
    let lock = busy(&environment);
    let of = |line: &str| format!("aks nodepool {line} {OF_LAB}");
    let shown = session(
        &environment,
        &[
            &of("add -n extra -c 2 --tags a=b --no-wait"),
            &of("list --query [].[name,count,provisioningState] -o tsv"),
            &of("wait -n extra --created --interval 1 --timeout 1"),
            &of("add -n extra"),
            &of("scale -n extra -c 3"),
            &of("delete -n nodepool1 --no-wait"),
            &of("add -n bad --node-taints x --no-wait"),
            &of("scale -n nodepool1 -c 3 --no-wait"),
            &of("update -n nodepool1 --labels a=b"),
            "aks upgrade -g klab-small -n klab-small -k 1.36 --yes",
            "aks show -g klab-small -n klab-small --query [provisioningState,agentPoolProfiles[].provisioningState] -o json",
        ],
    );
    assert_snapshot!(shown, @r#"
    $ az aks nodepool add -n extra -c 2 --tags a=b --no-wait -g klab-small --cluster-name klab-small
    --- status 0
    $ az aks nodepool list --query [].[name,count,provisioningState] -o tsv -g klab-small --cluster-name klab-small
    --- stdout
    nodepool1	2	Succeeded
    extra	2	Creating
    --- status 0
    $ az aks nodepool wait -n extra --created --interval 1 --timeout 1 -g klab-small --cluster-name klab-small
    --- stdout
    {}
    --- status 0
    $ az aks nodepool add -n extra -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: Node pool extra already exists, please try a different name, use 'aks nodepool list' to get current list of node pool
    --- status 1
    $ az aks nodepool scale -n extra -c 3 -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (OperationNotAllowed) Operation is not allowed: Another agentpool operation (extra - Creating) is in progress, please wait for it to finish before starting a new operation. See https://aka.ms/aks-pending-operation for more details.
    Code: OperationNotAllowed
    Message: Operation is not allowed: Another agentpool operation (extra - Creating) is in progress, please wait for it to finish before starting a new operation. See https://aka.ms/aks-pending-operation for more details.
    az aks nodepool wait … -n extra --updated waits for it.
    --- status 1
    $ az aks nodepool delete -n nodepool1 --no-wait -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (BadRequest) There has to be at least one system agent pool.
    Code: BadRequest
    Message: There has to be at least one system agent pool.
    Add another one first: az aks nodepool add … --mode System
    --- status 1
    $ az aks nodepool add -n bad --node-taints x --no-wait -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: Invalid node taint: x
    A taint of az is KEY=VALUE:EFFECT; the effects are NoSchedule, PreferNoSchedule and NoExecute.
    --- status 1
    $ az aks nodepool scale -n nodepool1 -c 3 --no-wait -g klab-small --cluster-name klab-small
    --- status 0
    $ az aks nodepool update -n nodepool1 --labels a=b -g klab-small --cluster-name klab-small
    --- stderr
    ERROR: (OperationNotAllowed) Operation is not allowed: Another agentpool operation (nodepool1 - Scaling) is in progress, please wait for it to finish before starting a new operation. See https://aka.ms/aks-pending-operation for more details.
    Code: OperationNotAllowed
    Message: Operation is not allowed: Another agentpool operation (nodepool1 - Scaling) is in progress, please wait for it to finish before starting a new operation. See https://aka.ms/aks-pending-operation for more details.
    az aks nodepool wait … -n nodepool1 --updated waits for it.
    --- status 1
    $ az aks upgrade -g klab-small -n klab-small -k 1.36 --yes
    --- stderr
    ERROR: (OperationNotAllowed) Managed Cluster operation is not allowed: Another operation (Creating) is in progress on agent pool (extra). See https://aka.ms/aks-pending-operation for more details.
    Code: OperationNotAllowed
    Message: Managed Cluster operation is not allowed: Another operation (Creating) is in progress on agent pool (extra). See https://aka.ms/aks-pending-operation for more details.
    --- status 1
    $ az aks show -g klab-small -n klab-small --query [provisioningState,agentPoolProfiles[].provisioningState] -o json
    --- stdout
    [
      "Succeeded",
      [
        "Scaling",
        "Creating"
      ]
    ]
    --- status 0
    "#);
    // The lab's own pool list shows what is there, and nothing is there yet.
    assert_eq!(environment.json(&["pool", "list", "--format", "json"])["pools"].as_array().unwrap().len(), 1);
    drop(lock);
    let done = session(
        &environment,
        &[
            &of("wait -n extra --created"),
            &of("wait -n nodepool1 --updated"),
            &of("list --query [].[name,count,provisioningState,tags.a] -o tsv"),
            &of("delete -n extra --no-wait"),
            &of("delete -n extra"),
            &of("list --query [].[name,count,provisioningState] -o tsv"),
        ],
    );
    assert_snapshot!(done, @r"
    $ az aks nodepool wait -n extra --created -g klab-small --cluster-name klab-small
    --- status 0
    $ az aks nodepool wait -n nodepool1 --updated -g klab-small --cluster-name klab-small
    --- status 0
    $ az aks nodepool list --query [].[name,count,provisioningState,tags.a] -o tsv -g klab-small --cluster-name klab-small
    --- stdout
    nodepool1	3	Succeeded	None
    extra	2	Succeeded	b
    --- status 0
    $ az aks nodepool delete -n extra --no-wait -g klab-small --cluster-name klab-small
    --- status 0
    $ az aks nodepool delete -n extra -g klab-small --cluster-name klab-small
    --- status 0
    $ az aks nodepool list --query [].[name,count,provisioningState] -o tsv -g klab-small --cluster-name klab-small
    --- stdout
    nodepool1	3	Succeeded
    --- status 0
    ");
    assert!(!environment.home().join("labs/small/operations").exists(), "nothing stays of what is done");
}

#[test]
fn deletion_that_was_issued_allows_nothing_else() {
    let environment = up();
    document(&environment, &format!("aks nodepool add {OF_LAB} -n extra -c 1"));
    let lock = busy(&environment);
    let of = |line: &str| format!("aks nodepool {line} {OF_LAB} -n extra");
    let shown = session(
        &environment,
        &[
            &of("delete --no-wait"),
            &of("show --query [count,provisioningState] -o tsv"),
            &of("scale -c 2"),
            &of("delete --no-wait"),
        ],
    );
    assert_snapshot!(shown, @r"
    $ az aks nodepool delete --no-wait -g klab-small --cluster-name klab-small -n extra
    --- status 0
    $ az aks nodepool show --query [count,provisioningState] -o tsv -g klab-small --cluster-name klab-small -n extra
    --- stdout
    1
    Deleting
    --- status 0
    $ az aks nodepool scale -c 2 -g klab-small --cluster-name klab-small -n extra
    --- stderr
    ERROR: (OperationNotAllowed) Unable to perform 'Scaling' operation on 'extra' since deletion was issued on 'extra'. The only allowed operation is deletion once deletion has started.
    Code: OperationNotAllowed
    Message: Unable to perform 'Scaling' operation on 'extra' since deletion was issued on 'extra'. The only allowed operation is deletion once deletion has started.
    --- status 1
    $ az aks nodepool delete --no-wait -g klab-small --cluster-name klab-small -n extra
    --- status 0
    ");
    drop(lock);
    assert_eq!(az(&environment, &of("wait --deleted")), "--- status 0\n");
}

#[test]
fn what_was_left_to_a_process_that_was_killed_is_done_by_another() {
    let environment = up();
    let lock = busy(&environment);
    az(&environment, &format!("aks nodepool add {OF_LAB} -n extra -c 2 --no-wait"));
    az(&environment, &format!("aks nodepool add {OF_LAB} -n more -c 1 --no-wait"));
    let killed = workers(&environment);
    assert_eq!(killed.len(), 2);
    for pid in &killed {
        assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
    }
    let begun = Instant::now();
    while !workers(&environment).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
    drop(lock);
    // Whatever is asked of the lab next brings it about; what changes the lab sees it done.
    environment.succeeds(&["pool", "scale", "nodepool1", "--nodes", "1"]);
    let pools = environment.json(&["pool", "list", "--format", "json"]);
    let nodes: Vec<(&str, i64)> = pools["pools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pool| (pool["name"].as_str().unwrap(), pool["nodes"].as_i64().unwrap()))
        .collect();
    assert_eq!(nodes, [("nodepool1", 1), ("extra", 2), ("more", 1)]);
}

#[test]
fn clusters_are_made_upgraded_and_deleted_while_az_has_answered() {
    let environment = Environment::fast();
    az(&environment, "group create -n rg -l westeurope");
    let shown = session(
        &environment,
        &[
            "aks create -g rg -n c -k 1.35 --no-wait",
            "aks wait -g rg -n c --created",
            "aks show -g rg -n c --query [provisioningState,currentKubernetesVersion] -o tsv",
            "aks upgrade -g rg -n c -k 1.36 --yes --no-wait",
            "aks wait -g rg -n c --updated",
            "aks nodepool list -g rg --cluster-name c --query [].[currentOrchestratorVersion,provisioningState] -o tsv",
            "aks update -g rg -n c --nodepool-labels a=b --no-wait",
            "aks wait -g rg -n c --updated",
            "aks nodepool show -g rg --cluster-name c -n nodepool1 --query nodeLabels.a -o tsv",
            "group delete -n rg --yes --no-wait",
            "group wait -n rg --deleted",
            "group exists -n rg",
            "aks list",
        ],
    );
    assert_snapshot!(shown, @r"
    $ az aks create -g rg -n c -k 1.35 --no-wait
    --- status 0
    $ az aks wait -g rg -n c --created
    --- status 0
    $ az aks show -g rg -n c --query [provisioningState,currentKubernetesVersion] -o tsv
    --- stdout
    Succeeded
    1.35.0
    --- status 0
    $ az aks upgrade -g rg -n c -k 1.36 --yes --no-wait
    --- status 0
    $ az aks wait -g rg -n c --updated
    --- status 0
    $ az aks nodepool list -g rg --cluster-name c --query [].[currentOrchestratorVersion,provisioningState] -o tsv
    --- stdout
    1.36.2	Succeeded
    --- status 0
    $ az aks update -g rg -n c --nodepool-labels a=b --no-wait
    --- status 0
    $ az aks wait -g rg -n c --updated
    --- status 0
    $ az aks nodepool show -g rg --cluster-name c -n nodepool1 --query nodeLabels.a -o tsv
    --- stdout
    b
    --- status 0
    $ az group delete -n rg --yes --no-wait
    --- status 0
    $ az group wait -n rg --deleted
    --- status 0
    $ az group exists -n rg
    --- stdout
    false
    --- status 0
    $ az aks list
    --- stdout
    []
    --- status 0
    ");
    environment.nothing_is_left();
}

/// A lab that goes takes what was left for later with it.
#[test]
fn lab_goes_with_what_was_still_to_be_done() {
    let environment = up();
    let lock = busy(&environment);
    az(&environment, &format!("aks nodepool add {OF_LAB} -n extra -c 2 --no-wait"));
    let killed = workers(&environment);
    assert!(Command::new("kill").arg("-9").args(&killed).status().unwrap().success());
    drop(lock);
    environment.succeeds(&["down", "small"]);
    environment.nothing_is_left();
}
