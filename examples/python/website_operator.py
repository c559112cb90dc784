"""A small operator: a Website is run by a Deployment, and its status says how many pods are ready."""

import urllib3
from kubernetes import client, watch

GROUP, VERSION, PLURAL = "example.com", "v1", "websites"

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "Website", "plural": PLURAL},
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["image", "replicas"],
                                "properties": {"image": {"type": "string"}, "replicas": {"type": "integer"}},
                            },
                            "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
                        },
                    }
                },
            }
        ],
    },
}


def run(api):
    """Brings about what each Website wants, until the cluster is gone."""
    websites = client.CustomObjectsApi(api)
    try:
        for event in watch.Watch().stream(websites.list_cluster_custom_object, GROUP, VERSION, PLURAL):
            if event["type"] in ("ADDED", "MODIFIED"):
                reconcile(api, event["object"])
    except urllib3.exceptions.HTTPError:
        return


def reconcile(api, website):
    name, namespace = website["metadata"]["name"], website["metadata"]["namespace"]
    made = client.AppsV1Api(api).patch_namespaced_deployment(
        name,
        namespace,
        deployment(website),
        field_manager="website-operator",
        _content_type="application/apply-patch+yaml",
    )
    status = {"status": {"ready": made.status.ready_replicas or 0}}
    if website.get("status") != status["status"]:
        client.CustomObjectsApi(api).patch_namespaced_custom_object_status(
            GROUP, VERSION, namespace, PLURAL, name, status, _content_type="application/merge-patch+json"
        )


def deployment(website):
    name, labels = website["metadata"]["name"], {"website": website["metadata"]["name"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "ownerReferences": [
                {
                    "apiVersion": website["apiVersion"],
                    "kind": website["kind"],
                    "name": name,
                    "uid": website["metadata"]["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {
            "replicas": website["spec"]["replicas"],
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": website["spec"]["image"]}]},
            },
        },
    }
