//! Captures of a cluster that klab did not make, with the rights that the user has.

use insta::assert_snapshot;

use super::Somebodys;

#[test]
fn what_a_user_may_not_read_is_open_and_without_nodes_there_is_no_answer() {
    let cluster = Somebodys::new();
    cluster.kubeconfig_of("observer", "default");
    cluster.kubeconfig_of("learner", "default");
    assert_snapshot!(cluster.klab(&["capture", "--kubeconfig", "observer.kubeconfig", "-o", "observed"]), @"
    --- stderr
    warning[K0416]: you may read pods in namespace default alone; without the others klab does not know all that runs
    warning[K0416]: you may not read namespaces; without them affinity that selects namespaces by labels finds none
    warning[K0416]: you may not read priorityclasses; without them new pods have no priority and preempt none
    warning[K0416]: you may not read runtimeclasses; without them new pods have no overhead and no nodes of their class
    warning[K0416]: you may read deployments, replicasets in namespace default alone; without the others pods that go away are not made again
    warning[K0416]: you may not read statefulsets, jobs, replicationcontrollers; without them pods that go away are not made again
    warning[K0416]: you may not read daemonsets; without them new nodes do not get their pods
    warning[K0416]: you may not read controllerrevisions; without them pods of StatefulSets and DaemonSets seem outdated
    warning[K0416]: you may not read poddisruptionbudgets; without them drains that the cluster blocks go through
    warning[K0416]: you may not read services; without them pods spread by default over other nodes
    warning[K0416]: you may not read limitranges; without them new pods have other requests
    warning[K0416]: you may not read resourcequotas; without them klab may run pods that the cluster refuses
    warning[K0416]: you may not read horizontalpodautoscalers; without them klab does not know which counts change by themselves
    warning[K0416]: you may not read persistentvolumeclaims, persistentvolumes, storageclasses; without them pods with volumes may go to other zones and nodes
    warning[K0416]: you may not read csinodes; without them nodes take any number of volumes
    warning[K0416]: you may not read deviceclasses, resourceslices, resourceclaims, resourceclaimtemplates; without them pods that claim devices may go elsewhere, or wait
    warning[K0416]: you may not read cluster-autoscaler-status; without them klab does not know which pools grow by themselves
           Wrote observed; `klab whatif observed --drain POOL` tries a change, this makes a twin:
                     klab up observed/lab.toml
    --- status 0
    ");
    let text = cluster.own.read("observed/capture.jsonl");
    assert!(text.contains("\"name\":\"web-") && !text.contains("\"name\":\"away-"), "{text}");
    assert_snapshot!(cluster.klab(&["whatif", "observed", "--taint", "extra:dedicated-"]), @"
    --- stdout
    What if extra loses the taint dedicated

    POOL    NODES  PODS   CPU REQUESTED    MEMORY REQUESTED
    extra   1      0 → 1  ░░░░░░░░░░   0%  ░░░░░░░░░░   0%
    system  1      0      ░░░░░░░░░░   0%  ░░░░░░░░░░   0%
    The nodes cost $0.19 an hour, as before.

    Everything that runs today still runs.

    Pods that come or go:
      deployment default/web: 1 more on extra

    What is open:
      you may read pods in namespace default alone; without the others klab does not know all that runs
      you may not read namespaces; without them affinity that selects namespaces by labels finds none
      you may not read priorityclasses; without them new pods have no priority and preempt none
      you may not read runtimeclasses; without them new pods have no overhead and no nodes of their class
      you may read deployments, replicasets in namespace default alone; without the others pods that go away are not made again
      you may not read statefulsets, jobs, replicationcontrollers; without them pods that go away are not made again
      you may not read daemonsets; without them new nodes do not get their pods
      you may not read controllerrevisions; without them pods of StatefulSets and DaemonSets seem outdated
      you may not read poddisruptionbudgets; without them drains that the cluster blocks go through
      you may not read services; without them pods spread by default over other nodes
      you may not read limitranges; without them new pods have other requests
      you may not read resourcequotas; without them klab may run pods that the cluster refuses
      you may not read horizontalpodautoscalers; without them klab does not know which counts change by themselves
      you may not read persistentvolumeclaims, persistentvolumes, storageclasses; without them pods with volumes may go to other zones and nodes
      you may not read csinodes; without them nodes take any number of volumes
      you may not read deviceclasses, resourceslices, resourceclaims, resourceclaimtemplates; without them pods that claim devices may go elsewhere, or wait
      you may not read cluster-autoscaler-status; without them klab does not know which pools grow by themselves
    --- status 0
    ");
    assert_snapshot!(cluster.klab(&["whatif", "--kubeconfig", "learner.kubeconfig", "--drain", "extra"]), @"
    --- stderr
    error[K0902]: the capture has no nodes, and without nodes no pod can run; klab needs the right to list them
    --- status 2
    ");
}
