//! Writes `views.rs` from `src/schema/types.txt`: a view of each type below [`KINDS`], with a method per field; and `places.rs`,
//! with the same methods of views that know their paths.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// The types that have views, with all that is below them.
const KINDS: [&str; 58] = [
    "Binding",
    "ConfigMap",
    "Endpoints",
    "Event",
    "LimitRange",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodTemplate",
    "ReplicationController",
    "ResourceQuota",
    "Secret",
    "Service",
    "ServiceAccount",
    "admissionregistration.MutatingAdmissionPolicy",
    "admissionregistration.MutatingAdmissionPolicyBinding",
    "admissionregistration.MutatingWebhookConfiguration",
    "admissionregistration.ValidatingAdmissionPolicy",
    "admissionregistration.ValidatingAdmissionPolicyBinding",
    "apiregistration.APIService",
    "apps.ControllerRevision",
    "apps.DaemonSet",
    "apps.Deployment",
    "apps.ReplicaSet",
    "apps.StatefulSet",
    "authentication.TokenRequest",
    "autoscaling1.Scale",
    "autoscaling2.HorizontalPodAutoscaler",
    "batch.CronJob",
    "batch.Job",
    "certificates.CertificateSigningRequest",
    "coordination.Lease",
    "discovery.EndpointSlice",
    "flowcontrol.FlowSchema",
    "flowcontrol.PriorityLevelConfiguration",
    "networking.IPAddress",
    "networking.Ingress",
    "networking.IngressClass",
    "networking.NetworkPolicy",
    "networking.ServiceCIDR",
    "node.RuntimeClass",
    "policy.Eviction",
    "policy.PodDisruptionBudget",
    "rbac.ClusterRole",
    "rbac.RoleBinding",
    "resource.DeviceClass",
    "resource.ResourceClaim",
    "resource.ResourceClaimTemplate",
    "resource.ResourceSlice",
    "scheduling.PriorityClass",
    "storage.CSIDriver",
    "storage.CSINode",
    "storage.CSIStorageCapacity",
    "storage.StorageClass",
    "storage.VolumeAttachment",
    "storage.VolumeAttributesClass",
];

/// The name and the type of each field, by the type that has it.
type Types<'a> = BTreeMap<&'a str, Vec<(&'a str, &'a str)>>;

fn main() {
    // A change of the table has this program built again, and a new program runs.
    println!("cargo::rerun-if-changed=Cargo.toml");
    let mut types = Types::new();
    let mut of = "";
    for line in include_str!("src/schema/types.txt").lines().filter(|line| !line.starts_with('#')) {
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["@type", id, ..] => of = id,
            ["@kind", ..] => {}
            [name, _, shape, ..] => types.entry(of).or_default().push((name, shape)),
            other => panic!("{other:?}"),
        }
    }
    let mut seen = BTreeSet::new();
    let mut ahead = KINDS.to_vec();
    while let Some(id) = ahead.pop() {
        let below = types[id].iter().map(|(_, shape)| bare(shape));
        if seen.insert(id) {
            ahead.extend(below.filter(|below| types.contains_key(below)));
        }
    }
    let out = env::var("OUT_DIR").expect("cargo says where");
    for (file, one) in [("views.rs", view as fn(&str, &Types<'_>, &BTreeSet<&str>) -> String), ("places.rs", place)] {
        let written = seen.iter().map(|id| one(id, &types, &seen)).collect::<String>();
        fs::write(Path::new(&out).join(file), written).expect("cargo's folder can be written to");
    }
}

/// The type below lists, maps and pointers.
fn bare(shape: &str) -> &str {
    shape.trim_start_matches(['*', '[', ']']).trim_start_matches("map:").trim_start_matches(['*', '[', ']'])
}

fn view(id: &str, types: &Types<'_>, seen: &BTreeSet<&str>) -> String {
    let name = type_name(id, seen);
    let (methods, lifetime) = methods(id, types, seen, |field, method, read| {
        format!("pub fn {method}(self) -> {read} {{ View::of(&self.0[\"{field}\"]) }}")
    });
    format!(
        "/// A view of a `{id}`.\n#[derive(Debug, Clone, Copy, PartialEq)]\npub struct {name}<'a>(pub &'a Value);\n\
         impl<'a> View<'a> for {name}<'a> {{ #[inline] fn of(value: &'a Value) -> Self {{ Self(value) }} }}\n\
         impl{} {name}<{}> {{\n/// Whether it is there.\n#[inline]\npub fn is_set(self) -> bool {{ !self.0.is_null() }}\n\
         {methods}}}\n",
        lifetime.0, lifetime.1
    )
}

fn place(id: &str, types: &Types<'_>, seen: &BTreeSet<&str>) -> String {
    let (methods, lifetime) = methods(id, types, seen, |field, method, read| {
        let path = format!("self.path.field(\"{field}\")");
        format!("pub fn {method}(&self) -> Place<'_, {read}> {{ Place::new({path}, &self.read.0[\"{field}\"]) }}")
    });
    format!("impl{} Place<'_, {}<{}>> {{\n{methods}}}\n", lifetime.0, type_name(id, seen), lifetime.1)
}

/// A method per field, and the lifetimes of what they are of.
fn methods(
    id: &str,
    types: &Types<'_>,
    seen: &BTreeSet<&str>,
    one: impl Fn(&str, &str, &str) -> String,
) -> (String, (&'static str, &'static str)) {
    let mut methods = String::new();
    for (field, shape) in &types[id] {
        let one = one(field, &method_name(field), &type_of(shape, types, seen));
        let _ = writeln!(methods, "/// `{field}`.\n#[inline]\n{one}");
    }
    let lifetime = if methods.contains("'a") { ("<'a>", "'a") } else { ("", "'_") };
    (methods, lifetime)
}

/// Go's name; where a core type and another one share it, the core type says so, and where two others do, both.
fn type_name(id: &str, seen: &BTreeSet<&str>) -> String {
    let (package, name) = id.split_once('.').unwrap_or(("core", id));
    let is_named = |other: &&&str| **other != id && other.split_once('.').is_some_and(|(_, other)| other == name);
    let package = if seen.iter().any(|other| is_named(&other)) { package } else { "" };
    package
        .chars()
        .take(1)
        .map(|first| first.to_ascii_uppercase())
        .chain(package.chars().skip(1))
        .chain(name.chars())
        .collect()
}

/// The type that a field is read as: optional where Go has a pointer to a scalar, or where zero is nothing, as in times.
fn type_of(shape: &str, types: &Types<'_>, seen: &BTreeSet<&str>) -> String {
    let (is_pointer, shape) = shape.strip_prefix('*').map_or((false, shape), |shape| (true, shape));
    if let Some(one) = shape.strip_prefix("[]") {
        return format!("Views<'a, {}>", type_of(one, types, seen));
    }
    if let Some(one) = shape.strip_prefix("map:") {
        return format!("Entries<'a, {}>", type_of(one, types, seen));
    }
    let scalar = match shape {
        "string" | "bytes" => "&'a str",
        "bool" => "bool",
        "int32" | "int64" | "uint32" => "i64",
        "time" | "microtime" => return "Option<Timestamp>".to_owned(),
        _ if types.contains_key(shape) => return format!("{}<'a>", type_name(shape, seen)),
        _ => return "&'a Value".to_owned(),
    };
    if is_pointer { format!("Option<{scalar}>") } else { scalar.to_owned() }
}

/// `podCIDRs` as `pod_cidrs`.
fn method_name(field: &str) -> String {
    let letters: Vec<char> = field.trim_end_matches('s').chars().collect();
    let mut name = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let is_upper = |at: usize| letters.get(at).is_some_and(char::is_ascii_uppercase);
        let begins =
            at > 0 && is_upper(at) && (!is_upper(at - 1) || letters.get(at + 1).is_some_and(char::is_ascii_lowercase));
        name.extend(begins.then_some('_'));
        name.push(letter.to_ascii_lowercase());
    }
    name.push_str(&field[letters.len()..]);
    if name == "type" { "type_".to_owned() } else { name }
}
