"""The operator, tested on a cluster of its own, which klab serves for as long as the test runs.

    pip install kubernetes pytest
    pytest examples/python
"""

import json
import os
import subprocess
import threading
import time

import pytest
import website_operator
from kubernetes import client, config

KLAB = os.environ.get("KLAB", "klab")


@pytest.fixture
def api():
    command = [KLAB, "serve", "--ephemeral", "--nodes", "3", "--clock", "stepped"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as klab:
        # The line comes when the cluster is ready; without a cluster it is empty.
        kubeconfig = json.loads(klab.stdout.readline())
        yield config.new_client_from_config_dict(kubeconfig)
        klab.terminate()


def advance(api, duration):
    """Moves the cluster's clock: what takes it five minutes is done when this returns."""
    request = api.param_serialize(
        "POST",
        "/klab/v1/clock",
        header_params={"Content-Type": "application/json"},
        body={"advance": duration},
        auth_settings=["BearerToken"],
    )
    assert api.call_api(*request).status == 200


def wait_for(what, condition, seconds=30):
    """The operator works at its own pace."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(0.02)
    return found


def test_a_website_is_rolled_out_and_survives_a_node(api):
    client.ApiextensionsV1Api(api).create_custom_resource_definition(website_operator.DEFINITION)
    threading.Thread(target=website_operator.run, args=[api], daemon=True).start()
    websites = client.CustomObjectsApi(api)
    here = (website_operator.GROUP, website_operator.VERSION, "default", website_operator.PLURAL)

    def pods(image):
        """The nodes of its pods that run this image and are not about to end."""
        running = client.CoreV1Api(api).list_namespaced_pod("default", label_selector="website=shop").items
        return [
            pod.spec.node_name
            for pod in running
            if pod.spec.containers[0].image == image
            and pod.status.phase == "Running"
            and not pod.metadata.deletion_timestamp
        ]

    website = {
        "apiVersion": "example.com/v1",
        "kind": "Website",
        "metadata": {"name": "shop"},
        "spec": {"image": "shop:1", "replicas": 3},
    }
    websites.create_namespaced_custom_object(*here, website)
    wait_for("three pods", lambda: len(pods("shop:1")) == 3)

    websites.patch_namespaced_custom_object(
        *here, "shop", {"spec": {"image": "shop:2"}}, _content_type="application/merge-patch+json"
    )
    wait_for("the rollout", lambda: len(pods("shop:2")) == 3)
    assert pods("shop:1") == []

    # A node falls silent; after five minutes its pods are evicted and made anew elsewhere.
    failed = pods("shop:2")[0]
    client.CoreV1Api(api).patch_node(failed, {"metadata": {"annotations": {"klab.dev/heartbeat": "stopped"}}})
    advance(api, "1m")
    ready = {one.type: one.status for one in client.CoreV1Api(api).read_node_status(failed).status.conditions}["Ready"]
    assert ready == "Unknown"
    assert failed in pods("shop:2")
    advance(api, "5m")
    assert len(pods("shop:2")) == 3
    assert failed not in pods("shop:2")
