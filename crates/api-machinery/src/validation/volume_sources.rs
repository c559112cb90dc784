//! Where volumes come from, of pods and of PersistentVolumes alike.

// upstream: pkg/apis/core/validation/validation.go validateHostPathVolumeSource and the functions beside it (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{entries, supported, text};
use super::{Errors, file_paths};
use crate::schema::Path;

const HOST_PATHS: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const MANAGED_DISK: &str =
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
const BLOB_DISK: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
const MAX_ISCSI_LENGTH: usize = 64;

/// A kind of source.
pub(super) struct Source {
    /// Its field.
    pub field: &'static str,
    /// What upstream calls the field of a second source.
    pub second: &'static str,
    /// What upstream calls the field in what is wrong with it.
    place: &'static str,
    /// Fields that are needed.
    needed: &'static [&'static str],
    /// What else is looked at.
    check: Option<fn(&Value, &Path<'_>, &mut Errors)>,
}

const fn plain(field: &'static str, needed: &'static [&'static str]) -> Source {
    Source { field, second: field, place: field, needed, check: None }
}

const fn checked(
    field: &'static str,
    needed: &'static [&'static str],
    check: fn(&Value, &Path<'_>, &mut Errors),
) -> Source {
    Source { field, second: field, place: field, needed, check: Some(check) }
}

/// The kinds that pods and PersistentVolumes have in common.
pub(super) static SOURCES: [Source; 20] = [
    checked("hostPath", &[], host_path),
    Source { place: "persistentDisk", ..checked("gcePersistentDisk", &["pdName"], partition) },
    Source { place: "persistentDisk", ..checked("awsElasticBlockStore", &["volumeID"], partition) },
    checked("nfs", &["server", "path"], nfs),
    checked("iscsi", &["targetPortal", "iqn"], iscsi),
    plain("glusterfs", &["endpoints", "path"]),
    checked("flocker", &[], flocker),
    plain("rbd", &["monitors", "image"]),
    checked("cinder", &["volumeID"], secret_name),
    Source { second: "cephFS", ..plain("cephfs", &["monitors"]) },
    plain("quobyte", &["registry", "volume"]),
    checked("fc", &[], fibre),
    checked("flexVolume", &["driver"], flex),
    plain("azureFile", &["secretName", "shareName"]),
    plain("vsphereVolume", &["volumePath"]),
    plain("photonPersistentDisk", &["pdID"]),
    plain("portworxVolume", &["volumeID"]),
    checked("azureDisk", &["diskName", "diskURI"], azure_disk),
    checked("storageos", &["volumeName"], secret_name),
    plain("scaleIO", &["gateway", "system", "volumeName"]),
];

/// The kind of a field of a volume.
pub(super) fn named(field: &str) -> Option<&'static Source> {
    SOURCES.iter().find(|source| source.field == field)
}

impl Source {
    /// What is wrong with one, in a volume whose place is `path`.
    pub(super) fn check(&self, source: &Value, path: &Path<'_>, errors: &mut Errors) {
        let path = path.field(self.place);
        for field in self.needed {
            let given = &source[*field];
            if given.as_str().is_none_or(str::is_empty) && given.as_array().is_none_or(Vec::is_empty) {
                errors.required(path.field(field), "");
            }
        }
        if let Some(check) = self.check {
            check(source, &path, errors);
        }
    }
}

fn host_path(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let place = path.field("path");
    if text(source, "path").is_empty() {
        return errors.required(place, "");
    }
    file_paths::without_steps_back(&source["path"], &place, errors);
    supported(&source["type"], &path.field("type"), &HOST_PATHS, errors);
}

fn partition(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    if source["partition"].as_i64().is_some_and(|number| !(0..=255).contains(&number)) {
        errors.invalid(path.field("partition"), &source["partition"], "must be between 1 and 255, inclusive");
    }
}

fn nfs(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !text(source, "path").starts_with('/') {
        errors.invalid(path.field("path"), &json!(text(source, "path")), "must be an absolute path");
    }
}

fn iscsi(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    initiator(source, "iqn", "iqn", path, errors);
    if source["lun"].as_i64().is_some_and(|number| !(0..=255).contains(&number)) {
        errors.invalid(path.field("lun"), &source["lun"], "must be between 0 and 255, inclusive");
    }
    let secured = source["chapAuthDiscovery"] == true || source["chapAuthSession"] == true;
    if secured && source["secretRef"].is_null() {
        errors.required(path.field("secretRef"), "");
    }
    initiator(source, "initiatorName", "initiatorname", path, errors);
}

/// A name of an initiator or a target.
fn initiator(source: &Value, field: &str, place: &str, path: &Path<'_>, errors: &mut Errors) {
    let name = text(source, field);
    if name.is_empty() {
        return;
    }
    let digits =
        |length: usize| name.len() == length + 4 && name.chars().skip(4).all(|one| one.is_ascii_alphanumeric());
    let fault = if !["iqn", "eui", "naa"].iter().any(|start| name.starts_with(start)) {
        "must be valid format starting with iqn, eui, or naa"
    } else if (name.starts_with("iqn") && !is_qualified_name(name))
        || (name.starts_with("eui") && !digits(16))
        || (name.starts_with("naa") && !digits(32))
    {
        "must be valid format"
    } else {
        return;
    };
    errors.invalid(path.field(place), &source[field], fault);
}

/// `iqn.2001-04.com.example:storage.disk1`.
fn is_qualified_name(name: &str) -> bool {
    let Some((head, unique)) = name.strip_prefix("iqn.").and_then(|rest| rest.split_once(':')) else { return false };
    let Some((date, authority)) = head.split_at_checked(8) else { return false };
    let date = date.bytes().enumerate().all(|(at, byte)| match at {
        4 => byte == b'-',
        7 => byte == b'.',
        _ => byte.is_ascii_digit(),
    });
    let part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    date && !authority.is_empty()
        && authority.bytes().all(part)
        && !unique.is_empty()
        && !unique.contains([',', ';', '*', '&', '$', '|'])
        && !unique.contains(|one: char| one.is_ascii_whitespace())
}

/// Names of a volume and a portal that become one name.
pub(super) fn iscsi_name(source: &Value, volume: &str) -> Option<&'static str> {
    let length = volume.len() + 1 + text(source, "targetPortal").len();
    (source["initiatorName"].is_string() && length > MAX_ISCSI_LENGTH).then_some(
        "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.",
    )
}

fn flocker(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let shown = json!("resource");
    match (text(source, "datasetName").is_empty(), text(source, "datasetUUID").is_empty()) {
        (true, true) => errors.required(path, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            errors.invalid(path, &shown, "datasetName and datasetUUID can not be specified simultaneously");
        }
        _ => {}
    }
    if text(source, "datasetName").contains('/') {
        errors.invalid(path.field("datasetName"), &source["datasetName"], "must not contain '/'");
    }
}

fn secret_name(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let secret = &source["secretRef"];
    if secret.is_object() && text(secret, "name").is_empty() {
        errors.required(path.field("secretRef").field("name"), "");
    }
}

fn fibre(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let is_empty = |field: &str| entries(source, field).next().is_none();
    let place = path.field("targetWWNs");
    match (is_empty("targetWWNs"), is_empty("wwids")) {
        (true, true) => errors.required(place, "must specify either targetWWNs or wwids, but not both"),
        (false, false) => {
            errors.invalid(place, &source["targetWWNs"], "targetWWNs and wwids can not be specified simultaneously");
        }
        _ => {}
    }
    if !is_empty("targetWWNs") {
        match source["lun"].as_i64() {
            None => errors.required(path.field("lun"), "lun is required if targetWWNs is specified"),
            Some(number) if !(0..=255).contains(&number) => {
                errors.invalid(path.field("lun"), &source["lun"], "must be between 0 and 255, inclusive");
            }
            Some(_) => {}
        }
    }
}

fn flex(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    for name in source["options"].as_object().into_iter().flatten().map(|(name, _)| name) {
        let space = format!(".{}", name.split('/').next().unwrap_or_default().to_lowercase());
        if space.ends_with(".kubernetes.io") || space.ends_with(".k8s.io") {
            let fault = "kubernetes.io and k8s.io namespaces are reserved";
            errors.invalid(path.field("options").key(name), &json!(name), fault);
        }
    }
}

fn azure_disk(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    supported(&source["cachingMode"], &path.field("cachingMode"), &["None", "ReadOnly", "ReadWrite"], errors);
    supported(&source["kind"], &path.field("kind"), &["Dedicated", "Managed", "Shared"], errors);
    let Some(kind) = source["kind"].as_str() else { return };
    let (start, shown) = if kind == "Managed" { ("/subscriptions/", MANAGED_DISK) } else { ("https://", BLOB_DISK) };
    if !text(source, "diskURI").starts_with(start) {
        errors.unsupported(path.field("diskURI"), &json!(text(source, "diskURI")), &[shown]);
    }
}

/// A name of a CSI driver.
pub(super) fn driver(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = value.as_str().unwrap_or_default();
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > 63 {
        errors.too_long(path, 63, "bytes");
    }
    for fault in names::subdomain(&name.to_lowercase()) {
        errors.invalid(path, value, fault);
    }
}
