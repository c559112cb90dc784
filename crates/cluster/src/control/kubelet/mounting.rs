//! What a kubelet sets up before it makes anything of a pod: volumes that are filled from ConfigMaps and Secrets. While one of those is
//! not there the pod waits, and the kubelet tries again.

// upstream: pkg/kubelet/volumemanager/volume_manager.go WaitForAttachAndMount (v1.36)
// upstream: pkg/volume/projected/projected.go collectData (v1.36)

use std::collections::BTreeSet;

use klab_api_machinery::views::{self, Pod, Volume, VolumeMount};
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
        let mut mounting = begun.unwrap_or(Mounting { since: now, last: now, tries: 0, reported: 0 });
        if is_due {
            mounting = Mounting { last: now, tries: mounting.tries.saturating_add(1), ..mounting };
            let failed = faults
                .iter()
                .map(|(volume, fault)| format!("MountVolume.SetUp failed for volume \"{volume}\" : {fault}"));
            self.said_of_pod.extend(failed.map(|message| ("FailedMount", message)));
        }
        if mounting.over() <= now {
            mounting.reported = mounting.rounds(now);
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
fn faults<'p>(objects: &dyn Objects, pod: Pod<'p>) -> Vec<(&'p str, String)> {
    let mounts = pod.spec().all_containers().flat_map(views::Container::volume_mounts);
    let mounted: BTreeSet<&str> = mounts.map(VolumeMount::name).collect();
    pod.spec()
        .volumes()
        .filter(|volume| mounted.contains(volume.name()) && !volume.name().starts_with(CREDENTIALS))
        .filter_map(|volume| Some((volume.name(), fault(objects, pod.metadata().namespace(), volume)?)))
        .collect()
}

fn fault(objects: &dyn Objects, namespace: &str, volume: Volume<'_>) -> Option<String> {
    let of = |map: (bool, &str, &Value), secret: (bool, &str, &Value)| {
        let kinds = [(Kind::ConfigMap, map), (Kind::Secret, secret)];
        let (kind, (_, name, source)) = kinds.into_iter().find(|(_, (is_set, ..))| *is_set)?;
        mount_error(objects, namespace, kind, name, source)
    };
    if !volume.projected().is_set() {
        let (map, secret) = (volume.config_map(), volume.secret());
        return of((map.is_set(), map.name(), map.0), (secret.is_set(), secret.secret_name(), secret.0));
    }
    let mut all: Vec<String> = Vec::new();
    let projected = volume.projected().sources().filter_map(|source| {
        let (map, secret) = (source.config_map(), source.secret());
        of((map.is_set(), map.name(), map.0), (secret.is_set(), secret.name(), secret.0))
    });
    for fault in projected {
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
