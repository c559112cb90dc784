//! Files that containers leave in volumes of their node, for those that come after them.

use std::collections::{BTreeMap, BTreeSet};

use klab_api_machinery::views::{Container, Pod};

/// Most files that are remembered; what is written beyond that is not found again.
const MAX_FILES: usize = 10_000;

/// Files by volume. Lost at a restart, as if the volumes were empty.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    files: BTreeMap<String, BTreeSet<String>>,
    count: usize,
}

/// Where a container mounts volumes that are empty at first: the volume's key, the directory.
fn mounts<'a>(pod: Pod<'a>, container: Container<'a>) -> impl Iterator<Item = (String, &'a str)> {
    container.volume_mounts().filter_map(move |mount| {
        let volume = pod.spec().volumes().named(mount.name())?;
        let key = if volume.empty_dir().is_set() {
            format!("{}/{}", pod.metadata().uid(), volume.name())
        } else if volume.host_path().is_set() {
            format!("{}:{}", pod.spec().node_name(), volume.host_path().path())
        } else {
            return None;
        };
        Some((format!("{key}/{}", mount.sub_path()), mount.mount_path().trim_end_matches('/')))
    })
}

impl Volumes {
    /// The files a container finds.
    pub(super) fn seen(&self, pod: Pod<'_>, container: Container<'_>) -> BTreeSet<String> {
        if self.files.is_empty() {
            return BTreeSet::new();
        }
        mounts(pod, container)
            .flat_map(|(key, path)| {
                self.files.get(&key).into_iter().flatten().map(move |file| format!("{path}/{file}"))
            })
            .collect()
    }

    /// A container has made or removed a file.
    pub(super) fn note(&mut self, pod: Pod<'_>, container: Container<'_>, file: &str, there: bool) {
        for (key, path) in mounts(pod, container) {
            let Some(rest) = file.strip_prefix(path).and_then(|rest| rest.strip_prefix('/')) else { continue };
            if there && self.count < MAX_FILES {
                self.count += usize::from(self.files.entry(key).or_default().insert(rest.to_owned()));
            } else if !there && let Some(files) = self.files.get_mut(&key) {
                self.count -= usize::from(files.remove(rest));
            }
        }
    }

    /// A pod is gone, and its own volumes with it.
    pub(super) fn forget(&mut self, uid: &str) {
        if self.files.is_empty() {
            return;
        }
        let own = format!("{uid}/");
        self.files.retain(|key, files| {
            let stays = !key.starts_with(&own);
            self.count -= if stays { 0 } else { files.len() };
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_stay_as_long_as_their_volumes() {
        let pod = |uid: &str| {
            json!({
                "metadata": { "uid": uid },
                "spec": { "nodeName": "a", "volumes": [
                    { "name": "own", "emptyDir": {} }, { "name": "host", "hostPath": { "path": "/tmp" } },
                    { "name": "claimed", "persistentVolumeClaim": {} },
                ]},
            })
        };
        let container = json!({ "volumeMounts": [
            { "name": "own", "mountPath": "/own/" }, { "name": "host", "mountPath": "/host" },
            { "name": "claimed", "mountPath": "/claimed" },
        ]});
        let (one, other) = (pod("1"), pod("2"));
        let (one, other, container) = (Pod(&one), Pod(&other), Container(&container));
        let mut volumes = Volumes::default();
        for file in ["/own/a", "/host/b", "/claimed/c", "/elsewhere"] {
            volumes.note(one, container, file, true);
        }
        assert_eq!(volumes.seen(one, container), BTreeSet::from(["/own/a".to_owned(), "/host/b".to_owned()]));
        assert_eq!(volumes.seen(other, container), BTreeSet::from(["/host/b".to_owned()]));
        volumes.forget("1");
        assert_eq!(volumes.seen(one, container), BTreeSet::from(["/host/b".to_owned()]));
        volumes.note(other, container, "/host/b", false);
        assert!(volumes.seen(other, container).is_empty());
    }
}
