#!/usr/bin/env python3
"""Writes crates/api-machinery/src/schema/types.txt from Kubernetes' published Go types.

usage: tools/kubernetes-types.py <clone of kubernetes/api> <of apimachinery> <of apiextensions-apiserver> <of kube-aggregator> <git ref> > crates/api-machinery/src/schema/types.txt

Only facts are taken: names, protobuf numbers, types, and the markers that say how lists and maps merge.
The format is explained at the top of the file it writes.
"""
import re
import subprocess
import sys

API, MACHINERY, EXTENSIONS, AGGREGATOR, REF = sys.argv[1:6]

# (prefix of the type's id, repository, file)
FILES = [
    ("", MACHINERY, "pkg/apis/meta/v1/types.go"),
    ("", API, "core/v1/types.go"),
    ("apps.", API, "apps/v1/types.go"),
    ("batch.", API, "batch/v1/types.go"),
    ("autoscaling1.", API, "autoscaling/v1/types.go"),
    ("autoscaling2.", API, "autoscaling/v2/types.go"),
    ("policy.", API, "policy/v1/types.go"),
    ("scheduling.", API, "scheduling/v1/types.go"),
    ("storage.", API, "storage/v1/types.go"),
    ("rbac.", API, "rbac/v1/types.go"),
    ("coordination.", API, "coordination/v1/types.go"),
    ("discovery.", API, "discovery/v1/types.go"),
    ("networking.", API, "networking/v1/types.go"),
    ("node.", API, "node/v1/types.go"),
    ("events.", API, "events/v1/types.go"),
    ("authentication.", API, "authentication/v1/types.go"),
    ("authorization.", API, "authorization/v1/types.go"),
    ("certificates.", API, "certificates/v1/types.go"),
    ("resource.", API, "resource/v1/types.go"),
    ("flowcontrol.", API, "flowcontrol/v1/types.go"),
    ("admissionregistration.", API, "admissionregistration/v1/types.go"),
    ("apiextensions.", EXTENSIONS, "pkg/apis/apiextensions/v1/types.go"),
    ("apiextensions.", EXTENSIONS, "pkg/apis/apiextensions/v1/types_jsonschema.go"),
    ("apiregistration.", AGGREGATOR, "pkg/apis/apiregistration/v1/types.go"),
]
# import name in Go -> prefix of ids
IMPORTS = {"metav1": "", "v1": "", "apiv1": "", "corev1": "", "core": ""}
# apiVersion, kind, id of its type
ROOTS = [
    *(("v1", kind, kind) for kind in (
        "Namespace Node Pod Service Endpoints ConfigMap Secret ServiceAccount Event LimitRange ResourceQuota "
        "PersistentVolume PersistentVolumeClaim ReplicationController PodTemplate Binding").split()),
    *(("apps/v1", kind, "apps." + kind) for kind in "Deployment ReplicaSet DaemonSet StatefulSet ControllerRevision".split()),
    *(("batch/v1", kind, "batch." + kind) for kind in "Job CronJob".split()),
    *(("autoscaling/v1", kind, "autoscaling1." + kind) for kind in "HorizontalPodAutoscaler Scale".split()),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "autoscaling2.HorizontalPodAutoscaler"),
    *(("policy/v1", kind, "policy." + kind) for kind in "PodDisruptionBudget Eviction".split()),
    ("scheduling.k8s.io/v1", "PriorityClass", "scheduling.PriorityClass"),
    *(("storage.k8s.io/v1", kind, "storage." + kind) for kind in (
        "StorageClass CSINode CSIDriver CSIStorageCapacity VolumeAttachment VolumeAttributesClass").split()),
    *(("rbac.authorization.k8s.io/v1", kind, "rbac." + kind) for kind in "Role RoleBinding ClusterRole ClusterRoleBinding".split()),
    ("coordination.k8s.io/v1", "Lease", "coordination.Lease"),
    ("discovery.k8s.io/v1", "EndpointSlice", "discovery.EndpointSlice"),
    *(("networking.k8s.io/v1", kind, "networking." + kind) for kind in "Ingress IngressClass NetworkPolicy IPAddress ServiceCIDR".split()),
    ("node.k8s.io/v1", "RuntimeClass", "node.RuntimeClass"),
    ("events.k8s.io/v1", "Event", "events.Event"),
    *(("authentication.k8s.io/v1", kind, "authentication." + kind) for kind in "TokenRequest TokenReview SelfSubjectReview".split()),
    *(("authorization.k8s.io/v1", kind, "authorization." + kind) for kind in (
        "SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview LocalSubjectAccessReview").split()),
    ("certificates.k8s.io/v1", "CertificateSigningRequest", "certificates.CertificateSigningRequest"),
    *(("resource.k8s.io/v1", kind, "resource." + kind) for kind in (
        "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice").split()),
    *(("flowcontrol.apiserver.k8s.io/v1", kind, "flowcontrol." + kind) for kind in "FlowSchema PriorityLevelConfiguration".split()),
    *(("admissionregistration.k8s.io/v1", kind, "admissionregistration." + kind) for kind in (
        "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration ValidatingAdmissionPolicy "
        "ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration").split()),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "apiextensions.CustomResourceDefinition"),
    ("apiregistration.k8s.io/v1", "APIService", "apiregistration.APIService"),
    ("v1", "DeleteOptions", "DeleteOptions"),
]
SCALARS = {
    "string": "string", "bool": "bool", "int32": "int32", "int64": "int64", "uint32": "uint32", "int": "int64",
    "float64": "float64", "[]byte": "bytes",
    "resource.Quantity": "quantity", "intstr.IntOrString": "intorstring", "runtime.RawExtension": "any",
    "metav1.Time": "time", "Time": "time", "metav1.MicroTime": "microtime", "MicroTime": "microtime",
    "metav1.Duration": "duration", "Duration": "duration", "FieldsV1": "any", "types.UID": "string",
    "metav1.FieldsV1": "any", "JSON": "any", "*JSON": "any",
    "*JSONSchemaPropsOrBool": "*schema", "JSONSchemaPropsOrBool": "schema", "*JSONSchemaPropsOrArray": "*schema",
    "JSONSchemaPropsOrStringArray": "schema",
}

structs, aliases = {}, {}   # id -> (atomic, [field]); id -> Go type


def read(repository, path):
    return subprocess.run(["git", "-C", repository, "show", f"{REF}:{path}"], check=True, capture_output=True, text=True).stdout


def parse(prefix, text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    markers, lines, at = [], text.split("\n"), 0
    while at < len(lines):
        line = lines[at]
        stripped = line.strip()
        if stripped.startswith("//"):
            markers.append(stripped[2:].strip())
        elif match := re.match(r"type (\w+) struct \{$", line):
            fields, at = parse_struct(lines, at + 1)
            structs[prefix + match[1]] = ("+structType=atomic" in markers, fields)
            markers = []
        elif match := re.match(r"type (\w+) struct ?\{\}$", line):
            structs[prefix + match[1]] = (False, [])
            markers = []
        elif match := re.match(r"type (\w+) (.+)$", line):
            aliases[prefix + match[1]] = match[2].strip()
            markers = []
        elif stripped:
            markers = []
        at += 1


def parse_struct(lines, at):
    fields, markers = [], []
    while lines[at] != "}":
        stripped = lines[at].strip()
        if stripped.startswith("//"):
            markers.append(stripped[2:].strip())
        elif match := re.match(r"(?:(\w+)\s+)?([\w.*\[\]{}]+)\s+`(.*)`", stripped):
            fields.append((match[1], match[2], match[3], markers))
            markers = []
        elif stripped:
            raise SystemExit(f"not understood: {lines[at]}")
        at += 1
    return fields, at


def tag(tags, key):
    match = re.search(rf'{key}:"([^"]*)"', tags)
    return match[1] if match else None


def resolve(prefix, go):
    """Go type -> type expression of the table."""
    if go in SCALARS:
        return SCALARS[go]
    if go.startswith("*"):
        inner = resolve(prefix, go[1:])
        return inner if inner.startswith(("map:", "[]")) else "*" + inner
    if go.startswith("[]"):
        return "[]" + resolve(prefix, go[2:])
    if match := re.match(r"map\[[\w.]+\](.+)$", go):
        return "map:" + resolve(prefix, match[1])
    if "." in go:
        package, name = go.split(".")
        if package == "types":
            return "string"
        prefix, go = IMPORTS[package], name
    for id in (prefix + go, go):
        if id in structs:
            return id
        if id in aliases:
            home = id[: id.index(".") + 1] if "." in id else ""
            return resolve(home, aliases[id])
    raise SystemExit(f"unknown type {prefix}{go}")


def rows(id, path=""):
    """The fields of a struct, embedded ones included, as (json name, numbers, type, flags)."""
    prefix = id[: id.index(".") + 1] if "." in id else ""
    for name, go, tags, markers in structs[id][1]:
        json_name, *options = (tag(tags, "json") or "").split(",")
        if json_name == "-":
            continue
        protobuf = tag(tags, "protobuf")
        number = path + protobuf.split(",")[1] if protobuf else "0"
        if name is None or "inline" in options:
            if go.endswith("TypeMeta"):
                continue
            embedded = resolve(prefix, go)
            if not json_name:
                yield from rows(embedded.lstrip("*"), number + "/")
                continue
        json_name = json_name or name
        flags = []
        if "omitempty" not in options and "omitzero" not in options:
            flags.append("keep")
        if "omitzero" in options:
            flags.append("omitzero")
        marks = dict(mark[1:].split("=", 1) for mark in markers if mark.startswith("+") and "=" in mark)
        kind = marks.get("listType") or marks.get("mapType")
        if kind == "map":
            keys = [mark.split("=", 1)[1] for mark in markers if mark.startswith("+listMapKey=")]
            flags.append("keys=" + ",".join(keys))
        elif kind in ("atomic", "set"):
            flags.append(kind)
        if marks.get("structType") == "atomic":
            flags.append("atomic")
        strategy = (tag(tags, "patchStrategy") or "").split(",")
        if "merge" in strategy:
            key = tag(tags, "patchMergeKey")
            flags.append(f"merge={key}" if key else "merge")
        if "retainKeys" in strategy:
            flags.append("retain")
        if (default := marks.get("default")) and default.startswith('"') and resolve(prefix, go) in ("string", "*string"):
            flags.append("default=" + default.strip('"'))
        yield json_name, number, resolve(prefix, go), flags


for prefix, repository, path in FILES:
    parse(prefix, read(repository, path))

print(f"""# The fields of every kind the embedded cluster reads, from Kubernetes' Go types ({REF}).
# Written by tools/kubernetes-types.py; do not edit.
#
# @kind <apiVersion> <kind> <type>
# @type <id> [atomic]
# <json name> <protobuf number, outer/inner when embedded> <type> [flags]
#   types: Go's scalars, quantity, time, microtime, duration, intorstring, bytes (base64), any, another type's id; schema: a JSON schema,
#          a boolean, or a list of schemas or strings;
#          prefixed by * (pointer), [] (list), map: (string keys)
#   keep: written even when empty; omitzero: left out when zero even if a struct; atomic, set, keys=…: how server-side
#   apply owns it; merge[=key], retain: how strategic merge patches merge it; default=…: value a missing list key has""")
wanted, done = [id for _, _, id in ROOTS], set()
for root in ROOTS:
    print("@kind", *root)
while wanted:
    id = wanted.pop(0)
    if id in done:
        continue
    done.add(id)
    print("@type", id + (" atomic" if structs[id][0] else ""))
    for json_name, number, kind, flags in rows(id):
        print(json_name, number, kind, *flags)
        inner = re.sub(r"^(\*|\[\]|map:)+", "", kind)
        if inner in structs:
            wanted.append(inner)
