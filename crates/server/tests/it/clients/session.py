"""A session with the embedded cluster through the Python client of Kubernetes: one line for each step that went well.

Usage: python session.py KUBECONFIG
"""

import json
import sys
import tempfile
import time

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException

NAMESPACE = "python"
IMAGE = "nginx:1.27"


def step(function):
    STEPS.append(function)
    return function


STEPS = []


def expect(wanted, actual, what="value"):
    if wanted != actual:
        raise AssertionError(f"{what}: wanted {wanted!r}, found {actual!r}")


def refused(code, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except ApiException as error:
        expect(code, error.status, "status")
        return error.body
    raise AssertionError(f"not refused: {function.__name__}")


def eventually(condition, what):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"never happened: {what}")


def container(**more):
    return client.V1Container(name="main", image=IMAGE, **more)


def pod(name, labels=None, **spec):
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels=labels or {}),
        spec=client.V1PodSpec(containers=[container()], **spec),
    )


def deployment(name, replicas):
    labels = {"app": name}
    return client.V1Deployment(
        metadata=client.V1ObjectMeta(name=name),
        spec=client.V1DeploymentSpec(
            replicas=replicas,
            selector=client.V1LabelSelector(match_labels=labels),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels=labels),
                spec=client.V1PodSpec(
                    containers=[container(resources=client.V1ResourceRequirements(requests={"cpu": "100m"}))]
                ),
            ),
        ),
    )


@step
def discovery(api):
    expect("v1.36.2", client.VersionApi(api).get_code().git_version)
    groups = [group.name for group in client.ApisApi(api).get_api_versions().groups]
    for wanted in ("apps", "batch", "policy", "scheduling.k8s.io", "metrics.k8s.io"):
        assert wanted in groups, f"{wanted} is not in {groups}"
    nodes = client.CoreV1Api(api).list_node(label_selector="pool=a").items
    expect(["a"], [node.metadata.name for node in nodes])
    expect("2", nodes[0].status.allocatable["cpu"])


@step
def create(api):
    core = client.CoreV1Api(api)
    made = core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    expect("Active", made.status.phase)
    eventually(lambda: core.list_namespaced_service_account(NAMESPACE).items, "the namespace's service account")
    core.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata={"name": "settings"}, data={"a": "1"}))
    text = refused(409, core.create_namespaced_config_map, NAMESPACE, {"metadata": {"name": "settings"}})
    assert 'configmaps \\"settings\\" already exists' in text, text
    text = refused(422, core.create_namespaced_pod, NAMESPACE, pod("Not_a_Name"))
    assert "Invalid value" in text, text
    tried = core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "dry"}}, dry_run="All")
    expect(None, tried.metadata.resource_version)
    refused(404, core.read_namespaced_config_map, "dry", NAMESPACE)


@step
def watch_pods(api):
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    before = core.list_namespaced_pod(NAMESPACE)
    apps.create_namespaced_deployment(NAMESPACE, deployment("web", 3))
    running, kinds, last = set(), [], int(before.metadata.resource_version)
    watcher = watch.Watch()
    stream = watcher.stream(
        core.list_namespaced_pod,
        NAMESPACE,
        label_selector="app=web",
        resource_version=before.metadata.resource_version,
        timeout_seconds=20,
    )
    for event in stream:
        version = int(event["object"].metadata.resource_version)
        assert version > last, f"version {version} after {last}"
        last = version
        kinds.append(event["type"])
        if event["object"].status.phase == "Running":
            running.add(event["object"].metadata.name)
        if len(running) == 3:
            watcher.stop()
    expect(3, kinds.count("ADDED"), "pods added")
    expect(3, len(running), "pods running")


@step
def update(api):
    core = client.CoreV1Api(api)
    settings = core.read_namespaced_config_map("settings", NAMESPACE)
    stale = settings.metadata.resource_version
    settings.data["b"] = "2"
    changed = core.replace_namespaced_config_map("settings", NAMESPACE, settings)
    assert changed.metadata.resource_version != stale
    settings.metadata.resource_version = stale
    settings.data["c"] = "3"
    text = refused(409, core.replace_namespaced_config_map, "settings", NAMESPACE, settings)
    assert "the object has been modified" in text, text


@step
def patches(api):
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    patch = core.patch_namespaced_config_map
    replaced = patch("settings", NAMESPACE, [{"op": "replace", "path": "/data/a", "value": "json"}])
    expect("json", replaced.data["a"])
    text = refused(422, patch, "settings", NAMESPACE, [{"op": "test", "path": "/data/a", "value": "other"}])
    assert "Invalid" in text, text
    merged = patch("settings", NAMESPACE, {"data": {"b": None}}, _content_type="application/merge-patch+json")
    expect({"a": "json"}, merged.data)
    more = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "busybox:1.36"}]}}}}
    kind = "application/strategic-merge-patch+json"
    both = apps.patch_namespaced_deployment("web", NAMESPACE, more, _content_type=kind)
    expect(["side", "main"], [one.name for one in both.spec.template.spec.containers])
    less = {"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}}
    one = apps.patch_namespaced_deployment("web", NAMESPACE, less, _content_type=kind)
    expect(["main"], [one.name for one in one.spec.template.spec.containers])
    paused = apps.patch_namespaced_deployment("web", NAMESPACE, {"spec": {"paused": True}})
    expect(True, paused.spec.paused)
    apps.patch_namespaced_deployment("web", NAMESPACE, {"spec": {"paused": None}})


@step
def apply(api):
    with tempfile.TemporaryDirectory() as folder:
        dynamics = dynamic.DynamicClient(api, cache_file=f"{folder}/discovery")
        maps = dynamics.resources.get(api_version="v1", kind="ConfigMap")

        def applied(manager, value, **more):
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "applied"},
                "data": {"a": value},
            }
            return maps.server_side_apply(
                body=body, name="applied", namespace=NAMESPACE, field_manager=manager, **more
            )

        expect("1", applied("one", "1").data.a)
        try:
            applied("two", "2")
            raise AssertionError("no conflict")
        except dynamic.exceptions.ConflictError as error:
            assert 'conflict with \\"one\\"' in error.body, error.body
        forced = applied("two", "2", force_conflicts=True)
        expect("2", forced.data.a)
        owners = [entry.manager for entry in forced.metadata.managedFields]
        expect(["two"], owners, "managers")
        deployments = dynamics.resources.get(api_version="apps/v1", kind="Deployment")
        expect(["web"], [found.metadata.name for found in deployments.get(namespace=NAMESPACE).items])


@step
def scale(api):
    apps = client.AppsV1Api(api)
    apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 2}})
    found = eventually(
        lambda: [scale for scale in [apps.read_namespaced_deployment_scale("web", NAMESPACE)] if scale.status.replicas == 2],
        "two replicas",
    )
    expect("app=web", found[0].status.selector)
    eventually(
        lambda: apps.read_namespaced_deployment_status("web", NAMESPACE).status.updated_replicas == 2
        and apps.read_namespaced_deployment_status("web", NAMESPACE).status.available_replicas == 2,
        "two available replicas",
    )


@step
def own_scheduler(api):
    """Binding pods by hand: what courses about scheduling write in Python."""
    core = client.CoreV1Api(api)
    core.create_namespaced_pod(NAMESPACE, pod("mine", scheduler_name="mine"))
    waiting = core.list_pod_for_all_namespaces(field_selector="spec.schedulerName=mine,status.phase=Pending,spec.nodeName=")
    expect(["mine"], [found.metadata.name for found in waiting.items])
    binding = client.V1Binding(
        metadata=client.V1ObjectMeta(name="mine"),
        target=client.V1ObjectReference(api_version="v1", kind="Node", name="b"),
    )
    # The answer is a Status, which the client's type of answer does not foresee.
    core.create_namespaced_pod_binding("mine", NAMESPACE, binding, _preload_content=False)
    bound = eventually(
        lambda: [found for found in [core.read_namespaced_pod("mine", NAMESPACE)] if found.status.phase == "Running"],
        "the bound pod runs",
    )
    expect("b", bound[0].spec.node_name)
    text = refused(409, core.create_namespaced_pod_binding, "mine", NAMESPACE, binding)
    assert "already assigned to node" in text, text


@step
def evict(api):
    core, policy = client.CoreV1Api(api), client.PolicyV1Api(api)
    budget = client.V1PodDisruptionBudget(
        metadata=client.V1ObjectMeta(name="web"),
        spec=client.V1PodDisruptionBudgetSpec(
            min_available=2, selector=client.V1LabelSelector(match_labels={"app": "web"})
        ),
    )
    policy.create_namespaced_pod_disruption_budget(NAMESPACE, budget)
    eventually(
        lambda: policy.read_namespaced_pod_disruption_budget_status("web", NAMESPACE).status.current_healthy == 2,
        "the budget counts two pods",
    )
    name = core.list_namespaced_pod(NAMESPACE, label_selector="app=web").items[0].metadata.name
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name=name, namespace=NAMESPACE))
    text = refused(429, core.create_namespaced_pod_eviction, name, NAMESPACE, eviction)
    assert "disruption budget" in text, text
    policy.patch_namespaced_pod_disruption_budget("web", NAMESPACE, {"spec": {"minAvailable": 1}})
    eventually(
        lambda: policy.read_namespaced_pod_disruption_budget_status("web", NAMESPACE).status.disruptions_allowed == 1,
        "the budget allows one",
    )
    core.create_namespaced_pod_eviction(name, NAMESPACE, eviction)

    def gone():
        try:
            return core.read_namespaced_pod(name, NAMESPACE).metadata.deletion_timestamp is not None
        except ApiException as error:
            return error.status == 404

    eventually(gone, "the evicted pod goes")


@step
def job(api):
    batch = client.BatchV1Api(api)
    body = client.V1Job(
        metadata=client.V1ObjectMeta(name="count"),
        spec=client.V1JobSpec(
            completions=2,
            template=client.V1PodTemplateSpec(
                spec=client.V1PodSpec(containers=[container()], restart_policy="Never")
            ),
        ),
    )
    batch.create_namespaced_job(NAMESPACE, body)
    done = eventually(
        lambda: [found for found in [batch.read_namespaced_job_status("count", NAMESPACE)] if found.status.succeeded == 2],
        "the job ends",
    )
    assert any(found.type == "Complete" for found in done[0].status.conditions)


@step
def from_yaml(api):
    documents = [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000},
    ]
    utils.create_from_yaml(api, yaml_objects=documents, namespace=NAMESPACE)
    service = client.CoreV1Api(api).read_namespaced_service("web", NAMESPACE)
    assert service.spec.cluster_ip, "the service has an address"
    expect(1000, client.SchedulingV1Api(api).read_priority_class("high").value)


@step
def events_and_figures(api):
    core = client.CoreV1Api(api)
    found = core.list_namespaced_event(NAMESPACE, field_selector="reason=Scheduled").items
    assert found and all(event.involved_object.kind == "Pod" for event in found), found
    # Events of the older kind have no eventTime, in a real cluster too, which the client's type of answer does not foresee.
    answer = client.EventsV1Api(api).list_namespaced_event(NAMESPACE, _preload_content=False)
    assert json.loads(answer.data)["items"]
    figures = client.CustomObjectsApi(api).list_cluster_custom_object("metrics.k8s.io", "v1beta1", "nodes")
    expect(["a", "b"], [node["metadata"]["name"] for node in figures["items"]])


@step
def no_containers(api):
    text = refused(501, client.CoreV1Api(api).read_namespaced_pod_log, "mine", NAMESPACE)
    assert "the embedded cluster runs no containers" in text, text


@step
def pages(api):
    core = client.CoreV1Api(api)
    for number in range(7):
        core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": f"page-{number}", "labels": {"p": "1"}}})
    names, more = [], None
    while True:
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="p", limit=3, _continue=more)
        names += [item.metadata.name for item in page.items]
        more = page.metadata._continue
        if not more:
            break
    expect([f"page-{number}" for number in range(7)], names)


@step
def delete(api):
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    status = core.delete_namespaced_config_map("settings", NAMESPACE)
    expect("Success", status["status"])
    refused(404, core.delete_namespaced_config_map, "settings", NAMESPACE)
    wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="00000000-0000-4000-8000-000000000000"))
    refused(409, core.delete_namespaced_config_map, "page-0", NAMESPACE, body=wrong)
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="p=1")
    expect([], core.list_namespaced_config_map(NAMESPACE, label_selector="p").items)
    core.delete_namespaced_pod("mine", NAMESPACE, grace_period_seconds=0)
    apps.delete_namespaced_deployment("web", NAMESPACE, propagation_policy="Foreground")
    watcher = watch.Watch()
    for event in watcher.stream(core.list_namespace, timeout_seconds=20):
        if event["object"].metadata.name != NAMESPACE:
            continue
        if event["type"] == "ADDED":
            core.delete_namespace(NAMESPACE)
        if event["type"] == "DELETED":
            watcher.stop()
    refused(404, core.read_namespace, NAMESPACE)


def main():
    config.load_kube_config(sys.argv[1])
    api = client.ApiClient()
    for function in STEPS:
        function(api)
        print(function.__name__, flush=True)


main()
