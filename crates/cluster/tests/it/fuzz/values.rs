//! What fields hold that are sent: values that checks let pass, and what has to stand beside them.

use klab_api_machinery::schema::{Scalar, Shape};
use serde_json::{Value, json};

use super::needs;

/// The share of a device.
const SHARE: &str = "0c2e2d6e-7a51-4a52-9a0d-2f2f2f2f2f2f";

/// The key of a map's entry.
pub(super) fn key(inner: &Shape, field: &str) -> &'static str {
    match (inner, field) {
        (_, "capacity") => "storage",
        (Shape::Scalar(Scalar::Quantity), _) => "cpu",
        _ => "a",
    }
}

/// A number that is another one for each tag.
fn number(tag: &str) -> u32 {
    tag.bytes().fold(7, |sum, byte| (sum * 31 + u32::from(byte)) % 9973)
}

/// A name that is another one for each tag, and short enough for a port.
fn name(tag: &str) -> String {
    let tag: String = tag.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    format!("n{}{}", tag.to_lowercase(), number(&tag))
}

/// The value of a field.
pub(super) fn scalar(scalar: Scalar, of: &str, field: &str, tag: &str) -> Value {
    match scalar {
        Scalar::String => text(of, field, tag),
        Scalar::Bool => json!(field != "storage"),
        Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 => integer(of, field, tag),
        Scalar::IntOrString => json!(1),
        Scalar::Float64 => json!(1.5),
        Scalar::Bytes if field == "request" => json!(needs::REQUEST),
        Scalar::Bytes if field == "caBundle" => json!(needs::AUTHORITY),
        Scalar::Bytes => json!("YQ=="),
        Scalar::Quantity => json!("1"),
        Scalar::Time => json!("2026-06-01T08:00:00Z"),
        Scalar::MicroTime => json!("2026-06-01T08:00:00.000000Z"),
        Scalar::Duration => json!("1s"),
        Scalar::Any => json!({ "a": [{ "b": 1 }] }),
    }
}

fn integer(of: &str, field: &str, tag: &str) -> Value {
    let of = of.rsplit('.').next().unwrap_or(of);
    json!(match (of, field) {
        (_, "containerPort" | "hostPort") => 1000 + number(tag),
        (_, "port") if tag != "0" => 1000 + number(tag),
        (_, "nodePort") => 30000 + number(tag) % 2000,
        (_, "progressDeadlineSeconds" | "expirationSeconds") => 1000,
        (_, "nodeAllocatableUpdatePeriodSeconds") => 10,
        ("EventSeries", "count") | (_, "matchingPrecedence") => 5,
        (_, "endPort") => 65000,
        _ => 1,
    })
}

#[expect(clippy::match_same_arms, clippy::too_many_lines, reason = "a table")]
fn text(of: &str, field: &str, tag: &str) -> Value {
    // The type's own name, without its group.
    let of = of.rsplit('.').next().unwrap_or(of);
    json!(match (of, field) {
        ("VolumeMount", "name") => "first".to_owned(),
        ("VolumeDevice", "name") => "block".to_owned(),
        ("ResourceClaim", "name") => if tag == "request" { "second" } else { "claim" }.to_owned(),
        ("ResourceHealth", "resourceID") => name(tag),
        ("MetricSpec" | "MetricStatus", "type") => "Resource".to_owned(),
        ("ValidationRule", "rule") if tag == "optionalOldSelf" => "!oldSelf.hasValue()".to_owned(),
        ("ValidationRule", "rule") => format!("'{}' != ''", name(tag)),
        (_, "qosClass") => "BestEffort".to_owned(),
        ("PodOS", "name") => "linux".to_owned(),
        ("MutatingWebhook" | "ValidatingWebhook", "name") => format!("{}.a.example.com", name(tag)),
        (
            "ResourceMetricSource"
            | "ContainerResourceMetricSource"
            | "ResourceMetricStatus"
            | "ContainerResourceMetricStatus",
            "name",
        ) => {
            "cpu".to_owned()
        }
        (_, "name") => name(tag),
        (_, "image") => "nginx:1.27".to_owned(),
        (_, "namespace" | "serviceAccountName" | "serviceAccount") => "default".to_owned(),
        (_, "schedule") => "*/5 * * * *".to_owned(),
        (_, "timeZone") => "Europe/London".to_owned(),
        ("CrossVersionObjectReference", "apiVersion") => "apps/v1".to_owned(),
        (_, "apiVersion" | "admissionReviewVersions" | "conversionReviewVersions") => "v1".to_owned(),
        (
            _,
            "priorityClassName"
            | "runtimeClassName"
            | "volumeName"
            | "targetContainerName"
            | "containerName"
            | "requests"
            | "request",
        ) => "first".to_owned(),
        (_, "mountPath" | "devicePath") => format!("/{}", name(tag)),
        (_, "topologyKey") => name(tag),
        (_, "ip" | "hostIP" | "podIP") => format!("10.1.{}.{}", number(tag) % 200, number(tag) / 200),
        (_, "nameservers" | "externalIPs" | "loadBalancerIP") => "10.1.2.3".to_owned(),
        (_, "clusterIP" | "clusterIPs") => "None".to_owned(),
        (_, "loadBalancerSourceRanges" | "cidr") => "10.0.0.0/8".to_owned(),
        (_, "cidrs") => "10.97.0.0/24".to_owned(),
        (_, "except") => "10.1.0.0/16".to_owned(),
        ("ObjectFieldSelector", "fieldPath") => "metadata.name".to_owned(),
        ("ResourceFieldSelector", "resource") => "limits.cpu".to_owned(),
        ("NodeSelectorRequirement", "key") => "metadata.name".to_owned(),
        ("Toleration" | "DeviceToleration", "operator") => "Equal".to_owned(),
        (_, "operator") => "In".to_owned(),
        (_, "effect") => "NoExecute".to_owned(),
        (_, "finalizers" | "signerName" | "controller" | "managedBy") => "example.com/a".to_owned(),
        (_, "group") => "example.com".to_owned(),
        (_, "podManagementPolicy") => "Parallel".to_owned(),
        (_, "preemptionPolicy") => "PreemptLowerPriority".to_owned(),
        (_, "mountPropagation") => "None".to_owned(),
        (_, "recursiveReadOnly") => "Disabled".to_owned(),
        ("ContainerResizePolicy", "resourceName") => "cpu".to_owned(),
        ("ContainerResizePolicy", "restartPolicy") => "NotRequired".to_owned(),
        (_, "stopSignal") => "SIGTERM".to_owned(),
        (_, "iqn" | "initiatorName") => "iqn.2001-04.com.example:a".to_owned(),
        (_, "succeededIndexes" | "completedIndexes" | "failedIndexes") => "0".to_owned(),
        (_, "scopeName") => "PriorityClass".to_owned(),
        (_, "scopes") => "NotTerminating".to_owned(),
        (_, "uid") => format!("u{}", name(tag)),
        (_, "type") if of.ends_with("Condition") || of == "NodeAddress" => name(tag),
        ("StatefulSetUpdateStrategy", "type") => "RollingUpdate".to_owned(),
        ("LeaseSpec", "strategy") => "OldestEmulationVersion".to_owned(),
        (_, "version" | "versions") if of == "DeviceAttribute" => "1.0.0".to_owned(),
        ("NetworkDeviceData", "ips") => "10.1.2.3/8".to_owned(),
        ("LimitRangeItem", "type") => "Container".to_owned(),
        ("MetricTarget", "type") => "AverageValue".to_owned(),
        ("Event", "type") => "Normal".to_owned(),
        (_, "extendedResourceName" | "matchAttribute" | "distinctAttribute") => "example.com/a".to_owned(),
        (_, "shareID") => SHARE.to_owned(),
        ("NonResourcePolicyRule", "nonResourceURLs") => "/a".to_owned(),
        ("ApplyConfiguration", "expression") => "Object{}".to_owned(),
        ("JSONPatch", "expression") => "[JSONPatch{op: \"test\", path: \"/a\", value: 1}]".to_owned(),
        (_, "messageExpression" | "valueExpression") => "'a'".to_owned(),
        (_, "expression") => "true".to_owned(),
        (_, "url") => "https://a.example.com".to_owned(),
        (_, "sideEffects") => "None".to_owned(),
        ("JSONSchemaProps", "type") => "object".to_owned(),
        (_, "jsonPath" | "specReplicasPath" | "statusReplicasPath" | "labelSelectorPath") => ".spec.a".to_owned(),
        ("HTTPIngressPath" | "HTTPGetAction" | "NFSVolumeSource" | "ServiceReference", "path") => "/a".to_owned(),
        _ => "a".to_owned(),
    })
}

/// What a type asks for beside one of its fields.
#[expect(clippy::match_same_arms, clippy::too_many_lines, reason = "a table")]
pub(super) fn beside(of: &str, field: &str, tag: &str) -> Value {
    let of = of.rsplit('.').next().unwrap_or(of);
    match (of, field) {
        ("NodeSelectorRequirement", _) => json!({ "key": "metadata.name", "operator": "In", "values": { "[0": "a" } }),
        ("LabelSelectorRequirement", _) => json!({ "key": "a", "operator": "In", "values": { "[0": "a" } }),
        ("ScopedResourceSelectorRequirement", _) => json!({ "operator": "In", "values": { "[0": "a" } }),
        ("Toleration", _) => json!({ "key": "a", "operator": "Equal", "effect": "NoExecute" }),
        ("Taint", _) => json!({ "key": "a", "effect": "NoExecute" }),
        ("PodAffinityTerm", _) => json!({ "topologyKey": "a", "labelSelector": { "matchLabels": { "a": "b" } } }),
        ("TopologySpreadConstraint", _) => json!({
            "topologyKey": name(tag), "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1,
            "labelSelector": { "matchLabels": { "a": "b" } },
        }),
        ("Container" | "EphemeralContainer", _) => json!({ "name": name(tag), "image": "nginx:1.27" }),
        ("Probe", field) if !matches!(field, "exec" | "httpGet" | "grpc" | "tcpSocket") => {
            json!({ "exec": { "command": { "[0": "a" } } })
        }
        ("EnvFromSource", "prefix") => json!({ "configMapRef": { "name": "first" } }),
        ("ConfigMapKeySelector" | "SecretKeySelector", _) => json!({ "name": "first" }),
        ("DownwardAPIVolumeFile", field) if !matches!(field, "fieldRef" | "resourceFieldRef") => {
            json!({ "fieldRef": { "fieldPath": "metadata.name" } })
        }
        ("PodDNSConfigOption", _) => json!({ "name": "first" }),
        ("PodResourceClaim", "name") => json!({ "resourceClaimName": "a" }),
        ("PersistentVolumeClaimSpec", _) => {
            json!({ "accessModes": { "[0": "ReadWriteOnce" }, "resources": { "requests": { "storage": "1" } } })
        }
        ("PersistentVolumeClaim", _) => json!({ "metadata": { "name": name(tag) }, "spec": {
            "accessModes": { "[0": "ReadWriteOnce" }, "resources": { "requests": { "storage": "1" } } } }),
        ("PersistentVolumeSpec", _) => json!({ "accessModes": { "[0": "ReadWriteOnce" } }),
        ("PodSpec", "priority" | "preemptionPolicy") => json!({ "priorityClassName": "first" }),
        ("PodSpec", "overhead") => json!({ "runtimeClassName": "first" }),
        ("ServiceSpec", "nodePort" | "externalTrafficPolicy") => json!({ "type": "NodePort" }),
        ("ServicePort", "nodePort") => json!({ "port": 1000 + number(tag) }),
        (
            "ServiceSpec",
            "loadBalancerIP" | "loadBalancerSourceRanges" | "loadBalancerClass" | "allocateLoadBalancerNodePorts",
        ) => {
            json!({ "type": "LoadBalancer" })
        }
        ("ServiceSpec", "healthCheckNodePort") => json!({ "type": "LoadBalancer", "externalTrafficPolicy": "Local" }),
        ("ServiceSpec", "sessionAffinityConfig") => json!({ "sessionAffinity": "ClientIP" }),
        ("MutatingWebhook" | "ValidatingWebhook", _) => json!({
            "name": format!("{}.a.example.com", name(tag)), "sideEffects": "None", "admissionReviewVersions": { "[0": "v1" },
            "clientConfig": if field == "clientConfig" { json!({}) } else { json!({ "url": "https://a.example.com" }) },
        }),
        ("WebhookClientConfig", "caBundle") => json!({ "url": "https://a.example.com" }),
        ("Rule" | "RuleWithOperations" | "NamedRuleWithOperations", _) => json!({
            "apiGroups": { "[0": "a" }, "apiVersions": { "[0": "a" }, "operations": { "[0": "CREATE" }, "resources": { "[0": "a" },
        }),
        ("MatchCondition" | "Variable" | "Validation", _) => json!({ "expression": "true" }),
        ("AuditAnnotation", _) => json!({ "valueExpression": "'a'" }),
        ("Mutation", "jsonPatch") => json!({ "patchType": "JSONPatch" }),
        ("Mutation", _) => {
            json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": "Object{}" } })
        }
        ("ParamRef", field) if field != "selector" => json!({ "name": "first", "parameterNotFoundAction": "Deny" }),
        ("ParamRef", _) => json!({ "parameterNotFoundAction": "Deny" }),
        ("MetricSpec" | "MetricStatus", field) => match field {
            "resource" | "pods" | "object" | "external" | "containerResource" => {
                json!({ "type": format!("{}{}", field[..1].to_uppercase(), &field[1..]) })
            }
            _ if of == "MetricStatus" => json!({ "type": "Resource", "resource": { "name": "cpu", "current": {} } }),
            _ => {
                json!({ "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 1 } } })
            }
        },
        ("ResourceMetricSource" | "ContainerResourceMetricSource", field) if field != "target" => {
            json!({ "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 1 } })
        }
        ("PodsMetricSource", field) if field != "target" => {
            json!({ "target": { "type": "AverageValue", "averageValue": "1" } })
        }
        ("ExternalMetricSource" | "ObjectMetricSource", field) if field != "target" => {
            json!({ "target": { "type": "Value", "value": "1" } })
        }
        ("MetricTarget", "averageUtilization") => json!({ "type": "Utilization" }),
        ("MetricTarget", "averageValue") => json!({ "type": "AverageValue" }),
        ("MetricTarget", "value") => json!({ "type": "Value" }),
        ("MetricTarget", "type") => json!({ "type": "AverageValue", "averageValue": "1" }),
        ("NetworkPolicyPort", "endPort") => json!({ "port": 1 }),
        ("IPBlock", _) => json!({ "cidr": "10.0.0.0/8" }),
        ("IngressServiceBackend", field) if field != "port" => json!({ "port": { "number": 80 } }),
        ("HTTPIngressPath", field) => {
            let backend = json!({ "service": { "name": "a", "port": { "number": 80 } } });
            json!({ "path": "/a", "pathType": "Prefix", "backend": if field == "backend" { json!({}) } else { backend } })
        }
        ("IngressClassParametersReference", "namespace") => json!({ "scope": "Namespace" }),
        ("EndpointSubset", "ports") => json!({ "addresses": { "[0": { "ip": "10.1.1.1" } } }),
        ("EventSeries", _) => json!({ "count": 5 }),
        ("LeaseSpec", "preferredHolder") => json!({ "strategy": "OldestEmulationVersion" }),
        ("DeviceRequest", field) if !matches!(field, "exactly" | "firstAvailable") => {
            json!({ "exactly": { "deviceClassName": "a" } })
        }
        ("DeviceConstraint", field) if !matches!(field, "matchAttribute" | "distinctAttribute") => {
            json!({ "matchAttribute": "example.com/a" })
        }
        ("Device" | "DeviceRequestAllocationResult", "bindingConditions") => {
            json!({ "bindingFailureConditions": { "[0": "b" } })
        }
        ("Device" | "DeviceRequestAllocationResult", "bindingFailureConditions") => {
            json!({ "bindingConditions": { "[0": "b" } })
        }
        ("Device", "capacity") => json!({ "allowMultipleAllocations": true }),
        ("ResourceClaimStatus", field) if field != "allocation" => {
            json!({ "allocation": { "devices": { "results": { "[0": {
            "request": "first", "driver": "a", "pool": "a", "device": "a", "shareID": SHARE } } } } })
        }
        ("ResourceFieldSelector", _) => json!({ "containerName": "first" }),
        ("RollingUpdateDaemonSet", "maxSurge") => json!({ "maxUnavailable": 0 }),
        ("CustomResourceDefinitionVersion", field) => json!({
            "served": true, "storage": false,
            "schema": if field == "schema" { json!({}) } else { json!({ "openAPIV3Schema": { "type": "object" } }) },
        }),
        ("JSONSchemaProps", _) => json!({ "type": "object" }),
        ("CustomResourceConversion", "webhook") => json!({ "strategy": "Webhook" }),
        ("WebhookConversion", field) => json!({
            "conversionReviewVersions": { "[0": "v1" },
            "clientConfig": if field == "clientConfig" { json!({}) } else { json!({ "url": "https://a.example.com" }) },
        }),
        ("LimitResponse", "queuing") => json!({ "type": "Queue" }),
        ("PolicyRulesWithSubjects", field) if !field.ends_with("Rules") => json!({ "resourceRules": { "[0": {
            "verbs": { "[0": "*" }, "apiGroups": { "[0": "*" }, "resources": { "[0": "*" }, "clusterScope": true } } }),
        ("Subject", "group") => json!({ "kind": "Group" }),
        ("Subject", "user") => json!({ "kind": "User" }),
        ("Subject", "serviceAccount") => json!({ "kind": "ServiceAccount" }),
        ("PodFailurePolicyRule", "action") => json!({ "onExitCodes": { "operator": "In", "values": { "[0": 1 } } }),
        ("JobSpec", "successPolicy") => json!({ "completionMode": "Indexed", "completions": 1 }),
        _ => json!({}),
    }
}

/// What an object above a field has to have: the path of that object, and what it has.
pub(super) fn above(path: &str) -> Option<(String, Value)> {
    let pod = |inner: &str| path.find(inner).map(|at| path[..at].trim_end_matches('.').to_owned());
    if path.contains("windowsOptions.hostProcess") {
        let of = ["containers[]", "initContainers[]", "securityContext"]
            .iter()
            .filter_map(|part| pod(&format!(".{part}")))
            .min_by_key(String::len)?;
        return Some((
            of,
            json!({ "hostNetwork": true, "securityContext": { "windowsOptions": { "hostProcess": true } } }),
        ));
    }
    if path.ends_with("lifecycle.stopSignal") {
        let of = pod(".initContainers[]").or_else(|| pod(".containers[]"))?;
        return Some((of, json!({ "os": { "name": "linux" } })));
    }
    let (before, after) = path.split_once("initContainers[].")?;
    let lasting = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
    lasting
        .iter()
        .any(|name| after.starts_with(name))
        .then(|| (format!("{before}initContainers[]"), json!({ "restartPolicy": "Always" })))
}
