//! What a kubelet sets up before it makes anything of a pod: volumes that are filled from ConfigMaps and Secrets. While one of those is
//! not there the pod waits, and the kubelet tries again.

// upstream: pkg/kubelet/volumemanager/volume_manager.go WaitForAttachAndMount (v1.36)
// upstream: pkg/volume/projected/projected.go collectData (v1.36)

use std::collections::BTreeSet;

use klab_api_machinery::value::{items, text};
use klab_containers::{Kind, Objects, mount_error};
use serde_json::Value;

use super::container::Container;
use super::life::Look;
use super::memory::{Mounting, TRIES};

/// The volume that admission gives to every pod, whose ConfigMap every namespace has.
const CREDENTIALS: &str = "kube-api-access-";

impl Look<'_, '_> {
    /// Whether the pod has its volumes; where they are missing, a try to set them up is made if one is due.
    pub(super) fn has_volumes(&mut self) -> bool {
        if self.hollow.as_recorded || self.containers.iter().any(Container::has_started) {
            return true;
        }
        let now = self.now;
        let begun = self.memory.mounting;
        let is_due = begun.is_none_or(|mounting| mounting.due() <= now);
        let faults = if is_due || begun.is_some_and(|mounting| mounting.over() <= now) {
            faults(&*self.objects, self.value)
        } else {
            Vec::new()
        };
        if is_due && faults.is_empty() {
            self.memory.mounting = None;
            return true;
        }
        let mut mounting = begun.unwrap_or(Mounting { since: now, last: now, tries: 0, told: 0 });
        if is_due {
            mounting = Mounting { last: now, tries: mounting.tries.saturating_add(1), ..mounting };
            let failed = faults
                .iter()
                .map(|(volume, fault)| format!("MountVolume.SetUp failed for volume \"{volume}\" : {fault}"));
            self.said_of_pod.extend(failed.map(|message| ("FailedMount", message)));
        }
        if mounting.over() <= now {
            mounting.told = mounting.rounds(now);
            let volumes: BTreeSet<&str> = faults.iter().map(|(volume, _)| *volume).collect();
            let volumes = volumes.into_iter().collect::<Vec<_>>().join(" ");
            let message = format!(
                "Unable to attach or mount volumes: unmounted volumes=[{volumes}], unattached volumes=[], failed to process \
                 volumes=[]: context deadline exceeded"
            );
            if !volumes.is_empty() {
                self.said_of_pod.push(("FailedMount", message));
            }
        }
        self.memory.mounting = Some(mounting);
        self.lacks = true;
        if mounting.tries < TRIES {
            self.wake(mounting.due().min(mounting.over()));
        } else if !is_due {
            self.wake(mounting.due());
        }
        false
    }
}

/// The volumes that containers of a pod mount and that cannot be set up, and why.
fn faults<'p>(objects: &dyn Objects, pod: &'p Value) -> Vec<(&'p str, String)> {
    let spec = &pod["spec"];
    let containers =
        ["initContainers", "containers", "ephemeralContainers"].iter().flat_map(|list| items(&spec[*list]));
    let mounted: BTreeSet<&str> = containers
        .flat_map(|container| items(&container["volumeMounts"]))
        .map(|mount| text(mount, &["name"]))
        .collect();
    let namespace = text(pod, &["metadata", "namespace"]);
    let volumes = items(&spec["volumes"]).iter().map(|volume| (text(volume, &["name"]), volume));
    volumes
        .filter(|(name, _)| mounted.contains(name) && !name.starts_with(CREDENTIALS))
        .filter_map(|(name, volume)| Some((name, fault(objects, namespace, volume)?)))
        .collect()
}

fn fault(objects: &dyn Objects, namespace: &str, volume: &Value) -> Option<String> {
    let of = |source: &Value, key: &str| {
        if source["configMap"].is_object() {
            let map = &source["configMap"];
            return mount_error(objects, namespace, Kind::ConfigMap, text(map, &["name"]), map);
        }
        let secret = source.get("secret").filter(|secret| secret.is_object())?;
        mount_error(objects, namespace, Kind::Secret, text(secret, &[key]), secret)
    };
    let Some(sources) = volume["projected"]["sources"].as_array() else { return of(volume, "secretName") };
    let mut all: Vec<String> = Vec::new();
    for fault in sources.iter().filter_map(|source| of(source, "name")) {
        if !all.contains(&fault) {
            all.push(fault);
        }
    }
    match all.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
