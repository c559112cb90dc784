//! What a container finds in its volumes.

// upstream: pkg/volume/{configmap,secret,projected,downwardapi,emptydir}, pkg/volume/volume_linux.go changeFilePermission (v1.36)

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde_json::Value;

use super::environment::{Environment, expanded, values};
use super::fields::{amount, field};
use super::file::{File, Found};
use crate::objects::{Kind, Objects};
use crate::value::{security_setting, words};
use klab_api_machinery::value::{integer, items, text, time_of};

/// Says of a volume who made it on demand.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Where credentials are mounted into every container.
const CREDENTIALS: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A folder that some file systems begin with.
const LOST_AND_FOUND: &str = "lost+found";

/// A volume in a container.
pub(crate) struct Mount {
    pub(super) path: String,
    pub(super) read_only: bool,
    /// The volume and where in it, for others that have it, too.
    pub(super) shared: Option<String>,
    content: Content,
}

enum Content {
    /// Nothing before a container writes into it, beside the folders that the kubelet makes for parts of it that are mounted
    /// elsewhere.
    Empty {
        mode: u32,
        group: Option<u32>,
        folders: Vec<String>,
    },
    /// Files that the kubelet writes.
    Written(Source, OnceLock<Option<Tree>>),
    /// A disk, which may have been made for this pod.
    Disk(Disk),
    Unknown,
}

impl fmt::Debug for Mount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Mount").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Files by their path in the volume.
type Tree = BTreeMap<String, File>;

/// A disk, by the claim that is bound to it.
struct Disk {
    objects: Arc<dyn Objects>,
    pod: Arc<Value>,
    volume: Value,
    is_new: OnceLock<bool>,
}

/// What a volume is filled from.
struct Source {
    objects: Arc<dyn Objects>,
    pod: Arc<Value>,
    container: String,
    volume: Value,
    sub_path: String,
    /// It is about what the container has read since then: what may have changed since is not known.
    since: Option<Timestamp>,
}

/// What is at a path in a mount.
pub(super) enum Mounted {
    Found(Found),
    Unknown,
}

impl Mount {
    /// What is at a path.
    pub(super) fn find(&self, path: &str) -> Mounted {
        match &self.content {
            Content::Disk(disk) if path.split('/').next() != Some(LOST_AND_FOUND) && disk.is_new() => {
                // What the file system of a new disk begins with is not known in full.
                let top = Found::Directory { names: None, mode: 0o777, owner: None };
                Mounted::Found(if path.is_empty() { top } else { Found::Absent })
            }
            Content::Disk(_) | Content::Unknown => Mounted::Unknown,
            Content::Empty { mode, group, folders } => {
                let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
                let below = folders.iter().filter_map(|folder| folder.strip_prefix(&prefix));
                let names: BTreeSet<String> =
                    below.filter_map(|rest| rest.split('/').next().map(str::to_owned)).collect();
                if !path.is_empty() && names.is_empty() && folders.iter().all(|folder| folder != path) {
                    return Mounted::Found(Found::Absent);
                }
                let mode = if path.is_empty() { *mode } else { 0o750 };
                Mounted::Found(Found::Directory {
                    names: Some(names),
                    mode,
                    owner: Some((0, group.unwrap_or_default())),
                })
            }
            Content::Written(source, tree) => match tree.get_or_init(|| source.tree()) {
                Some(tree) => Mounted::Found(source.find(tree, path)),
                None => Mounted::Unknown,
            },
        }
    }

    /// A volume without any writes.
    #[cfg(test)]
    pub(crate) fn empty(path: &str) -> Self {
        let content = Content::Empty { mode: 0o777, group: None, folders: Vec::new() };
        Self { path: path.to_owned(), read_only: false, shared: Some("own/".to_owned()), content }
    }

    /// Where a path of its volume is in it, if it is.
    pub(super) fn below<'p>(&self, shared: &'p str) -> Option<&'p str> {
        let rest = shared.strip_prefix(self.shared.as_ref()?.as_str())?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
    }

    /// Whether the kubelet writes the files: links, beside names of its own.
    pub(super) fn is_written(&self) -> bool {
        matches!(self.content, Content::Written(..))
    }
}

/// Who mounts.
pub(super) struct Mounting<'a> {
    pub(super) objects: Option<&'a Arc<dyn Objects>>,
    pub(super) pod: &'a Value,
    pub(super) container: &'a Value,
    pub(super) environment: &'a Environment,
    /// When the container started.
    pub(super) started: Option<Timestamp>,
    /// Whether it is about what was read since the start, and not about what is read now.
    pub(super) looks_back: bool,
    /// Whether all is wanted that can be known, though few ask for it.
    pub(super) thorough: bool,
}

/// The volumes of a container.
pub(super) fn mounts(mounting: &Mounting<'_>) -> Vec<Mount> {
    let (pod, container) = (mounting.pod, mounting.container);
    let group = integer(pod, &["spec", "securityContext", "fsGroup"]).and_then(|group| u32::try_from(group).ok());
    let mut copy = None;
    let mount = |mount: &Value| {
        let name = text(mount, &["name"]);
        let volume = items(&pod["spec"]["volumes"]).iter().find(|volume| volume["name"] == name)?;
        let path = text(mount, &["mountPath"]).trim_end_matches('/').to_owned();
        let sub_path = match mount["subPathExpr"].as_str() {
            Some(expression) => expanded(expression, mounting.environment),
            None => text(mount, &["subPath"]).to_owned(),
        };
        let sub_path = sub_path.trim_matches('/').to_owned();
        let written = ["configMap", "secret", "projected", "downwardAPI"].iter().any(|kind| volume[*kind].is_object());
        let mode = if group.is_some() { 0o2777 } else { 0o777 };
        let mut shared = None;
        let is_disk = volume["persistentVolumeClaim"].is_object() || volume["ephemeral"].is_object();
        if is_disk || volume["emptyDir"].is_object() {
            shared = Some(if sub_path.is_empty() { name.to_owned() } else { format!("{name}/{sub_path}") });
        }
        let content = if let Some(objects) = mounting.objects.filter(|_| is_disk) {
            let pod = Arc::clone(copy.get_or_insert_with(|| Arc::new(pod.clone())));
            let (objects, volume) = (Arc::clone(objects), volume.clone());
            Content::Disk(Disk { objects, pod, volume, is_new: OnceLock::new() })
        } else if volume["emptyDir"].is_object() {
            let mode = if sub_path.is_empty() { mode } else { mode & 0o2777 };
            let folders =
                if sub_path.is_empty() { parts_of(container, name, mounting.environment) } else { Vec::new() };
            Content::Empty { mode, group, folders }
        } else if volume["hostPath"].is_object() && !mounting.thorough {
            Content::Empty { mode: 0o755, group: None, folders: Vec::new() }
        } else if let Some(objects) = mounting.objects.filter(|_| {
            written && (mounting.thorough || path != CREDENTIALS || words(container).any(|word| word.contains(&path)))
        }) {
            let pod = copy.get_or_insert_with(|| Arc::new(pod.clone()));
            let source = Source {
                objects: Arc::clone(objects),
                pod: Arc::clone(pod),
                container: text(container, &["name"]).to_owned(),
                volume: volume.clone(),
                // A part of a volume stays as it was when the container started.
                since: mounting.started.filter(|_| mounting.looks_back || !sub_path.is_empty()),
                sub_path,
            };
            Content::Written(source, OnceLock::new())
        } else {
            Content::Unknown
        };
        Some(Mount { path, read_only: mount["readOnly"] == true || written, shared, content })
    };
    items(&container["volumeMounts"]).iter().filter_map(mount).collect()
}

impl Disk {
    /// Whether only the containers of this pod can have written onto it: it was made on demand after the pod, for a claim that
    /// no other pod names.
    fn is_new(&self) -> bool {
        *self.is_new.get_or_init(|| self.looks_new().unwrap_or(false))
    }

    fn looks_new(&self) -> Option<bool> {
        let (metadata, volume) = (&self.pod["metadata"], &self.volume);
        let namespace = text(metadata, &["namespace"]);
        let claim = match volume["persistentVolumeClaim"]["claimName"].as_str() {
            Some(claim) => claim.to_owned(),
            None => format!("{}-{}", text(metadata, &["name"]), text(volume, &["name"])),
        };
        let bound = self.objects.get(Kind::PersistentVolumeClaim, namespace, &claim)?;
        let disk = self.objects.get(Kind::PersistentVolume, "", text(&bound, &["spec", "volumeName"]))?;
        let made = |object: &Value| time_of(&object["metadata"]["creationTimestamp"]);
        if text(&disk, &["metadata", "annotations", PROVISIONED_BY]).is_empty() || made(&disk)? < made(&self.pod)? {
            return Some(false);
        }
        let names = |other: &Value| {
            let mut volumes = items(&other["spec"]["volumes"]).iter();
            volumes.any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim.as_str())
        };
        let pods = self.objects.list(Kind::Pod, Some(namespace));
        Some(pods.iter().all(|other| other["metadata"]["uid"] == metadata["uid"] || !names(other)))
    }
}

/// Whether a volume of a pod was empty when the pod came.
pub(crate) fn began_empty(objects: &Arc<dyn Objects>, pod: &Value, volume: &Value) -> bool {
    let disk = || Disk {
        objects: Arc::clone(objects),
        pod: Arc::new(pod.clone()),
        volume: volume.clone(),
        is_new: OnceLock::new(),
    };
    let is_disk = volume["persistentVolumeClaim"].is_object() || volume["ephemeral"].is_object();
    volume["emptyDir"].is_object() || (is_disk && disk().is_new())
}

/// The parts of a volume that a container mounts by themselves.
fn parts_of(container: &Value, volume: &str, environment: &Environment) -> Vec<String> {
    let part = |mount: &Value| match mount["subPathExpr"].as_str() {
        Some(expression) => expanded(expression, environment),
        None => text(mount, &["subPath"]).to_owned(),
    };
    let mounts = items(&container["volumeMounts"]).iter().filter(|mount| mount["name"] == volume);
    mounts.map(part).map(|part| part.trim_matches('/').to_owned()).filter(|part| !part.is_empty()).collect()
}

impl Source {
    fn group(&self) -> Option<u32> {
        integer(&self.pod, &["spec", "securityContext", "fsGroup"]).and_then(|group| u32::try_from(group).ok())
    }

    fn find(&self, tree: &Tree, path: &str) -> Found {
        let path = match (self.sub_path.is_empty(), path.is_empty()) {
            (true, _) => path.to_owned(),
            (false, true) => self.sub_path.clone(),
            (false, false) => format!("{}/{path}", self.sub_path),
        };
        if let Some(file) = tree.get(&path) {
            return Found::File(file.clone());
        }
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let names: BTreeSet<String> =
            tree.keys().filter_map(|key| key.strip_prefix(&prefix)?.split('/').next().map(str::to_owned)).collect();
        if names.is_empty() && !path.is_empty() {
            return Found::Absent;
        }
        let mode = if self.group().is_some() { 0o2777 } else { 0o777 };
        Found::Directory { names: Some(names), mode, owner: Some((0, self.group().unwrap_or_default())) }
    }

    /// The files; none where something is missing, so that the container could not have started, or was changed since.
    fn tree(&self) -> Option<Tree> {
        let mut tree = Tree::new();
        let volume = &self.volume;
        let mode = |source: &Value| integer(source, &["defaultMode"]).and_then(|mode| u32::try_from(mode).ok());
        if volume["configMap"].is_object() {
            let source = &volume["configMap"];
            self.object(&mut tree, (Kind::ConfigMap, text(source, &["name"])), source, mode(source))?;
        } else if volume["secret"].is_object() {
            let source = &volume["secret"];
            self.object(&mut tree, (Kind::Secret, text(source, &["secretName"])), source, mode(source))?;
        } else if volume["downwardAPI"].is_object() {
            self.pod_itself(&mut tree, &volume["downwardAPI"], mode(&volume["downwardAPI"]))?;
        } else {
            let mode = mode(&volume["projected"]);
            for source in items(&volume["projected"]["sources"]) {
                if let Some(source) = source.get("configMap").filter(|source| source.is_object()) {
                    self.object(&mut tree, (Kind::ConfigMap, text(source, &["name"])), source, mode)?;
                } else if let Some(source) = source.get("secret").filter(|source| source.is_object()) {
                    self.object(&mut tree, (Kind::Secret, text(source, &["name"])), source, mode)?;
                } else if source["downwardAPI"].is_object() {
                    self.pod_itself(&mut tree, &source["downwardAPI"], mode)?;
                } else if source["serviceAccountToken"].is_object() {
                    self.token(&mut tree, &source["serviceAccountToken"], mode);
                } else {
                    return None;
                }
            }
        }
        Some(tree)
    }

    /// The token of the pod's ServiceAccount. Which one a container found before is not known.
    fn token(&self, tree: &mut Tree, source: &Value, mode: Option<u32>) {
        let path = text(source, &["path"]);
        let token = if self.since.is_some() { None } else { self.objects.token(&self.pod, source) };
        let user = file_user(&self.pod).and_then(|user| u32::try_from(user).ok());
        let mode = if user.is_some() || self.group().is_some() { Some(0o600) } else { mode };
        self.put(tree, path, token.map(String::into_bytes), mode);
        if let Some((user, file)) = user.zip(tree.get_mut(path)) {
            file.owner = file.owner.map(|(_, group)| (user, group));
        }
    }

    fn put(&self, tree: &mut Tree, path: &str, text: Option<Vec<u8>>, mode: Option<u32>) {
        let mode = mode.unwrap_or(0o644);
        // What the kubelet writes may be read by the pod's group.
        let mode = if self.group().is_some() { mode | 0o440 } else { mode };
        let owner = Some((0, self.group().unwrap_or_default()));
        tree.insert(path.to_owned(), File { text: text.map(Arc::new), mode, owner });
    }

    fn object(&self, tree: &mut Tree, (kind, name): (Kind, &str), source: &Value, mode: Option<u32>) -> Option<()> {
        let is_optional = source["optional"] == true;
        let namespace = text(&self.pod, &["metadata", "namespace"]);
        let changed = self.objects.changed(kind, namespace, name);
        if let Some((since, changed)) = self.since.zip(changed)
            && changed.as_second() > since.as_second()
        {
            return None;
        }
        let Some(object) = self.objects.get(kind, namespace, name) else { return is_optional.then_some(()) };
        let values = values(&object);
        if items(&source["items"]).is_empty() {
            for (key, value) in values {
                self.put(tree, &key, Some(value), mode);
            }
            return Some(());
        }
        for item in items(&source["items"]) {
            let value = values.iter().find(|(key, _)| key == text(item, &["key"]));
            let own = integer(item, &["mode"]).and_then(|mode| u32::try_from(mode).ok());
            match value {
                Some((_, value)) => self.put(tree, text(item, &["path"]), Some(value.clone()), own.or(mode)),
                None if is_optional => {}
                None => return None,
            }
        }
        Some(())
    }

    fn pod_itself(&self, tree: &mut Tree, source: &Value, mode: Option<u32>) -> Option<()> {
        let pod = &*self.pod;
        let containers = ["containers", "initContainers"].iter().flat_map(|list| items(&pod["spec"][*list]));
        let own = containers.into_iter().find(|container| container["name"] == self.container.as_str());
        for item in items(&source["items"]) {
            let path = item["fieldRef"]["fieldPath"].as_str();
            let value = match path {
                Some(path) => field(pod, path)?,
                None => amount(Some(&*self.objects), pod, own.unwrap_or(&Value::Null), &item["resourceFieldRef"])?,
            };
            // Labels and annotations change while a container runs.
            let may_change = |path: &str| path.contains("labels") || path.contains("annotations");
            let is_known = self.since.is_none() || !path.is_some_and(may_change);
            let own_mode = integer(item, &["mode"]).and_then(|mode| u32::try_from(mode).ok());
            self.put(tree, text(item, &["path"]), is_known.then(|| value.into_bytes()), own_mode.or(mode));
        }
        Some(())
    }
}

/// Whose the files of tokens are, where all containers of a pod run as one user whom it names.
// upstream: pkg/volume/util/util.go FsUserFrom (v1.36)
fn file_user(pod: &Value) -> Option<i64> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let mut users = lists
        .iter()
        .flat_map(|list| items(&pod["spec"][*list]))
        .map(|container| security_setting(pod, container, "runAsUser").as_i64());
    let first = users.next()??;
    users.all(|user| user == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_are_whose_containers_all_are() {
        let user = |pod: Option<i64>, containers: &[Option<i64>]| {
            let context = |user: Option<i64>| json!({ "runAsUser": user });
            let containers: Vec<Value> =
                containers.iter().map(|user| json!({ "securityContext": context(*user) })).collect();
            file_user(&json!({ "spec": { "securityContext": context(pod), "containers": containers } }))
        };
        assert_eq!(user(None, &[None]), None);
        assert_eq!(user(Some(1000), &[None, Some(1000)]), Some(1000));
        assert_eq!(user(Some(1000), &[None, Some(2000)]), None);
        assert_eq!(user(None, &[Some(7), Some(7)]), Some(7));
    }
}
