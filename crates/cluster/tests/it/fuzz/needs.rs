//! What objects of each kind need before an API server takes them.

use serde_json::{Value, json};

/// What objects of a kind need, its status aside.
pub(super) fn of(api_version: &str, kind: &str) -> Value {
    let template = |policy: &str| json!({ "metadata": { "labels": { "a": "a" } }, "spec": pod(policy) });
    let (once, lasting) = (template("Never"), template("Always"));
    let workload = json!({ "spec": { "selector": { "matchLabels": { "a": "a" } }, "template": lasting } });
    let rules = json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "*",
    }]);
    let constraints = json!({ "resourceRules": rules });
    let devices = json!({ "devices": { "requests": [{ "name": "first", "exactly": { "deviceClassName": "a" } }] } });
    let group = "rbac.authorization.k8s.io";
    match (kind, api_version) {
        ("Namespace", _) => json!({ "spec": { "finalizers": ["example.com/a"] } }),
        ("PersistentVolume", _) => {
            json!({ "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
            "csi": { "driver": "a.example.com", "volumeHandle": "a" } } })
        }
        ("PersistentVolumeClaim", _) => json!({ "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }),
        ("Pod", _) => json!({ "spec": pod("Always") }),
        ("PodTemplate", _) => json!({ "template": lasting }),
        ("ReplicationController", _) => json!({ "spec": { "selector": { "a": "a" }, "template": lasting } }),
        ("DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet", _) => workload,
        ("Job", _) => json!({ "spec": { "template": once } }),
        ("CronJob", _) => {
            json!({ "spec": { "schedule": "*/5 * * * *", "jobTemplate": { "spec": { "template": once } } } })
        }
        ("HorizontalPodAutoscaler", _) => json!({ "spec": { "maxReplicas": 5,
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "a" } } }),
        ("Event", "v1") => json!({ "involvedObject": { "kind": "Pod", "namespace": "default", "name": "a" } }),
        ("Event", _) => json!({ "type": "Normal", "reason": "a", "action": "a",
            "reportingController": "example.com/a", "reportingInstance": "a", "eventTime": "2026-06-01T08:00:00.000000Z",
            "regarding": { "kind": "Pod", "namespace": "default", "name": "a" } }),
        ("IngressClass", _) => json!({ "spec": { "controller": "example.com/a" } }),
        ("Ingress", _) => {
            json!({ "spec": { "defaultBackend": { "service": { "name": "a", "port": { "number": 80 } } } } })
        }
        ("IPAddress", _) => {
            json!({ "spec": { "parentRef": { "resource": "services", "name": "a", "namespace": "default" } } })
        }
        ("ServiceCIDR", _) => json!({ "spec": { "cidrs": ["10.97.0.0/24"] } }),
        ("ClusterRoleBinding", _) => json!({ "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "a" } }),
        ("RoleBinding", _) => json!({ "roleRef": { "apiGroup": group, "kind": "Role", "name": "a" } }),
        ("CSIStorageCapacity", _) => json!({ "storageClassName": "a" }),
        ("VolumeAttachment", _) => json!({ "spec": {
            "attacher": "a.example.com", "nodeName": "a", "source": { "persistentVolumeName": "a" } } }),
        ("MutatingAdmissionPolicy", _) => json!({ "spec": {
            "matchConstraints": constraints, "reinvocationPolicy": "Never", "failurePolicy": "Fail",
            "mutations": [{ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": "Object{}" } }] } }),
        ("ValidatingAdmissionPolicy", _) => json!({ "spec": {
            "matchConstraints": constraints, "validations": [{ "expression": "true" }] } }),
        ("MutatingAdmissionPolicyBinding", _) => json!({ "spec": { "policyName": "a" } }),
        ("ValidatingAdmissionPolicyBinding", _) => {
            json!({ "spec": { "policyName": "a", "validationActions": ["Deny"] } })
        }
        ("ResourceClaim", _) => json!({ "spec": devices }),
        ("ResourceClaimTemplate", _) => json!({ "spec": { "spec": devices } }),
        ("ResourceSlice", _) => {
            json!({ "spec": { "driver": "a.example.com", "nodeName": "a", "devices": [{ "name": "first" }],
            "pool": { "name": "a", "generation": 1, "resourceSliceCount": 1 } } })
        }
        ("FlowSchema", _) => {
            json!({ "spec": { "priorityLevelConfiguration": { "name": "a" }, "matchingPrecedence": 5 } })
        }
        ("PriorityLevelConfiguration", _) => {
            json!({ "spec": { "type": "Limited", "limited": { "limitResponse": { "type": "Reject" } } } })
        }
        ("CustomResourceDefinition", _) => json!({ "spec": { "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "a", "kind": "A" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } } }] } }),
        ("CertificateSigningRequest", _) => {
            json!({ "spec": { "signerName": "example.com/a", "usages": ["client auth"], "request": REQUEST } })
        }
        _ => json!({}),
    }
}

/// A pod that has what fields of containers refer to.
fn pod(policy: &str) -> Value {
    json!({
        "restartPolicy": policy,
        "containers": [{ "name": "first", "image": "nginx:1.27" }],
        "volumes": [{ "name": "first", "emptyDir": {} }, { "name": "block", "persistentVolumeClaim": { "claimName": "a" } }],
        "resourceClaims": [{ "name": "claim", "resourceClaimName": "a" }, { "name": "second", "resourceClaimName": "a" }],
    })
}

/// A request for a certificate.
pub(super) const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIR01HNENBUUF3RERFS01BZ0dBMVVFQXd3QllUQlpNQk1HQnlxR1NNNDlBZ0VHQ0NxR1NNNDlBd0VIQTBJQQpCQ2tpNjNXN29ranVmYnk3S2w5YjZBS2E1T1NSZVZlQTQ0Z2I4OWNFVVN5TkFaNmRicVFBQkFFN0FDN0tlR1RMCm44WGdTR1ZrTE1DdXE2WlMvMmg1SGIrZ0FEQUtCZ2dxaGtqT1BRUURBZ05JQURCRkFpQWdxaEdRSVRNN240c2wKZEhOanUrR1pKQUZ1cDBWZHlWZXNzRnJ0SUNYbHVBSWhBTnlBbFIyYjA5MTNWSmpmamphM1NwWDdoOXRIQ3hzeQp0RVNnS0YySzdkak4KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

/// Fields of which an object has one, by kind: the first is what the least object has.
const ONE_OF: &[(&str, &str, &[&str])] = &[
    (
        "PersistentVolume",
        "spec",
        &[
            "csi",
            "awsElasticBlockStore",
            "azureDisk",
            "azureFile",
            "cephfs",
            "cinder",
            "fc",
            "flexVolume",
            "flocker",
            "gcePersistentDisk",
            "glusterfs",
            "hostPath",
            "iscsi",
            "local",
            "nfs",
            "photonPersistentDisk",
            "portworxVolume",
            "quobyte",
            "rbd",
            "scaleIO",
            "storageos",
            "vsphereVolume",
        ],
    ),
    ("VolumeAttachment", "spec.source", &["persistentVolumeName", "inlineVolumeSpec"]),
    ("ResourceSlice", "spec", &["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"]),
    ("ResourceSlice", "spec", &["devices", "sharedCounters"]),
    ("PriorityLevelConfiguration", "spec.limited.limitResponse", &["type", "queuing"]),
    ("Ingress", "spec.defaultBackend", &["service", "resource"]),
    ("Ingress", "spec.defaultBackend.service.port", &["number", "name"]),
];

/// The field of which an object has this one or another.
pub(super) fn room_of<'a>(kind: &str, path: &'a str) -> Option<&'a str> {
    let (_, parent, others) = ONE_OF.iter().find(|(of, parent, others)| {
        *of == kind && others[1..].iter().any(|other| is_below(path, &format!("{parent}.{other}")))
    })?;
    let other = others.iter().find(|other| is_below(path, &format!("{parent}.{other}")))?;
    path.get(..parent.len() + 1 + other.len())
}

fn is_below(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '{']))
}

/// Takes out of the least object what excludes a field.
pub(super) fn make_room(least: &mut Value, kind: &str, path: &str) {
    for (of, parent, others) in ONE_OF {
        if *of == kind && others[1..].iter().any(|other| is_below(path, &format!("{parent}.{other}"))) {
            let place = least.pointer_mut(&format!("/{}", parent.replace('.', "/")));
            place.and_then(Value::as_object_mut).map(|map| map.remove(others[0]));
        }
    }
}

/// The certificate of an authority.
pub(super) const AUTHORITY: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJiekNDQVJXZ0F3SUJBZ0lVTko3NzFtbnJBOFZEMFBkZE5XTWdpT0ZpZXJrd0NnWUlLb1pJemowRUF3SXcKRERFS01BZ0dBMVVFQXd3QllUQWdGdzB5TmpFeE1qWXhNekUxTVRSYUdBOHlNVEkyTVRFd01qRXpNVFV4TkZvdwpEREVLTUFnR0ExVUVBd3dCWVRCWk1CTUdCeXFHU000OUFnRUdDQ3FHU000OUF3RUhBMElBQkdaRzRsdWpRakxQClpYRGJRQXllTUNGdWtJZ1hMQ0NlblN5L2pFc1gxMWJQTHVhQ0RtYTd6ZzZvS1VLZVJOdFNVQ3FXay9QUnRnam8KL2ZaaEtWbVBxMEdqVXpCUk1CMEdBMVVkRGdRV0JCUXJFL2VXMlA5cTVnbmd3clA5b0cveWF5VHhsVEFmQmdOVgpIU01FR0RBV2dCUXJFL2VXMlA5cTVnbmd3clA5b0cveWF5VHhsVEFQQmdOVkhSTUJBZjhFQlRBREFRSC9NQW9HCkNDcUdTTTQ5QkFNQ0EwZ0FNRVVDSURFRXQ3aTVRNWZ3THhmaWlMenNFb2owanhCeVc0eGpIWVRhZkwwQlMrUmEKQWlFQWdCclZ5T0VENWpPZWw5QzZWWDRDc09SSVdwSDMvYXFHZk1xbm9ndkFWQjA9Ci0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K";
