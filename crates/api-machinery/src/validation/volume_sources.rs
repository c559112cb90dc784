//! Where volumes come from, of pods and of PersistentVolumes alike.

// upstream: pkg/apis/core/validation/validation.go validateHostPathVolumeSource and the functions beside it (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::{Errors, Place, file_paths};
use crate::views::{
    AzureDiskVolumeSource, CinderVolumeSource, FCVolumeSource, FlexVolumeSource, FlockerVolumeSource,
    GCEPersistentDiskVolumeSource, HostPathVolumeSource, ISCSIVolumeSource, NFSVolumeSource,
};

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
    check: Option<fn(&Place<'_, &Value>, &mut Errors)>,
}

const fn plain(field: &'static str, needed: &'static [&'static str]) -> Source {
    Source { field, second: field, place: field, needed, check: None }
}

const fn checked(
    field: &'static str,
    needed: &'static [&'static str],
    check: fn(&Place<'_, &Value>, &mut Errors),
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
    /// What is wrong with one, in this volume.
    pub(super) fn check<T>(&self, volume: &Place<'_, T>, errors: &mut Errors) {
        let source = volume.field(self.field).called(volume.path.field(self.place));
        for given in self.needed.iter().map(|field| source.field(field)) {
            if given.text().is_empty() && given.as_array().is_none_or(Vec::is_empty) {
                errors.required(given, "");
            }
        }
        if let Some(check) = self.check {
            check(&source, errors);
        }
    }
}

fn host_path(source: &Place<'_, &Value>, errors: &mut Errors) {
    let source = source.cast::<HostPathVolumeSource<'_>>();
    source.path().needed(errors);
    if !source.path().is_empty() {
        file_paths::without_steps_back(&source.path(), errors);
        source.type_().supported(&HOST_PATHS, errors);
    }
}

fn partition(source: &Place<'_, &Value>, errors: &mut Errors) {
    let source = source.cast::<GCEPersistentDiskVolumeSource<'_>>();
    source.partition().within(0..=255, "must be between 1 and 255, inclusive", errors);
}

fn nfs(source: &Place<'_, &Value>, errors: &mut Errors) {
    let source = source.cast::<NFSVolumeSource<'_>>();
    if !source.path().starts_with('/') {
        errors.invalid_text(&source.path(), "must be an absolute path");
    }
}

fn iscsi(source: &Place<'_, &Value>, errors: &mut Errors) {
    let source = source.cast::<ISCSIVolumeSource<'_>>();
    initiator(&source.iqn(), errors);
    source.lun().within(0..=255, "must be between 0 and 255, inclusive", errors);
    if (*source.chap_auth_discovery() || *source.chap_auth_session()) && !source.secret_ref().is_set() {
        errors.required(source.secret_ref(), "");
    }
    initiator(&source.initiator_name().called(source.path.field("initiatorname")), errors);
}

/// A name of an initiator or a target.
fn initiator<T>(place: &Place<'_, T>, errors: &mut Errors) {
    let name = place.text();
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
    errors.invalid_at(place, fault);
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
pub(super) fn iscsi_name(source: ISCSIVolumeSource<'_>, volume: &str) -> Option<&'static str> {
    let length = volume.len() + 1 + source.target_portal().len();
    (source.initiator_name().is_some() && length > MAX_ISCSI_LENGTH).then_some(
        "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.",
    )
}

fn flocker(source: &Place<'_, &Value>, errors: &mut Errors) {
    let source = source.cast::<FlockerVolumeSource<'_>>();
    let name = source.dataset_name();
    match (name.is_empty(), source.dataset_uuid().is_empty()) {
        (true, true) => errors.required(source, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            let fault = "datasetName and datasetUUID can not be specified simultaneously";
            errors.invalid(source, &json!("resource"), fault);
        }
        _ => {}
    }
    if name.contains('/') {
        errors.invalid_at(&name, "must not contain '/'");
    }
}

fn secret_name(source: &Place<'_, &Value>, errors: &mut Errors) {
    let source = source.cast::<CinderVolumeSource<'_>>();
    if source.secret_ref().is_set() {
        source.secret_ref().name().needed(errors);
    }
}

fn fibre(source: &Place<'_, &Value>, errors: &mut Errors) {
    let source = source.cast::<FCVolumeSource<'_>>();
    let (names, number) = (source.target_wwns(), source.lun());
    match (names.is_empty(), source.wwids().is_empty()) {
        (true, true) => errors.required(&names, "must specify either targetWWNs or wwids, but not both"),
        (false, false) => errors.invalid_at(&names, "targetWWNs and wwids can not be specified simultaneously"),
        _ => {}
    }
    if !names.is_empty() {
        match *number {
            None => errors.required(number, "lun is required if targetWWNs is specified"),
            Some(0..=255) => {}
            Some(_) => errors.invalid_at(&number, "must be between 0 and 255, inclusive"),
        }
    }
}

fn flex(source: &Place<'_, &Value>, errors: &mut Errors) {
    for (name, option) in source.cast::<FlexVolumeSource<'_>>().options().each() {
        let space = format!(".{}", name.split('/').next().unwrap_or_default().to_lowercase());
        if space.ends_with(".kubernetes.io") || space.ends_with(".k8s.io") {
            errors.invalid(option, &json!(name), "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

fn azure_disk(source: &Place<'_, &Value>, errors: &mut Errors) {
    let source = source.cast::<AzureDiskVolumeSource<'_>>();
    source.caching_mode().supported(&["None", "ReadOnly", "ReadWrite"], errors);
    source.kind().supported(&["Dedicated", "Managed", "Shared"], errors);
    let Some(kind) = *source.kind() else { return };
    let (start, shown) = if kind == "Managed" { ("/subscriptions/", MANAGED_DISK) } else { ("https://", BLOB_DISK) };
    let disk = source.disk_uri();
    if !disk.starts_with(start) {
        errors.unsupported(disk, &json!(*disk), &[shown]);
    }
}

/// A name of a CSI driver.
pub(super) fn driver(driver: &Place<'_, &str>, errors: &mut Errors) {
    if driver.is_empty() {
        return errors.required(driver, "");
    }
    driver.no_longer_than(63, errors);
    driver.check(|name| names::subdomain(&name.to_lowercase()), errors);
}
