//! What a container finds in its volumes.

// upstream: pkg/volume/{configmap,secret,projected,downwardapi,emptydir}, pkg/volume/volume_linux.go changeFilePermission (v1.36)

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jiff::Timestamp;
use serde_json::Value;

use super::environment::{Environment, expanded, values};
use super::fields::{amount, field};
use super::file::{File, Found};
use super::history::{Name, as_of, changes_after, last_as_of};
use crate::cluster::Cluster;
use crate::pod_token::{file_user, pod_token};
use crate::resource::{CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, SECRETS};
use crate::value::{integer, items, text, time_of};

/// Says of a volume who made it on demand.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Where credentials are mounted into every container.
const CREDENTIALS: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A volume in a container.
pub(crate) struct Mount {
    pub(super) path: String,
    pub(super) read_only: bool,
    /// The volume and where in it, for others that have it, too.
    pub(crate) shared: Option<String>,
    pub(crate) in_memory: bool,
    kind: Kind,
}

enum Kind {
    /// It was empty before anybody wrote into it.
    /// Beside the folders that the kubelet makes for parts of it that are mounted elsewhere.
    Empty {
        mode: u32,
        group: Option<u32>,
        folders: Vec<String>,
    },
    /// What is in it is written by the kubelet.
    Written(Source, Mutex<Kept>),
    /// A disk, which may have been made for this pod.
    Disk(Disk),
    Unknown,
}

/// What some file systems begin with.
const LOST_AND_FOUND: &str = "lost+found";

impl fmt::Debug for Mount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Mount").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Files by their path in the volume.
type Tree = BTreeMap<String, File>;

/// What a volume held from each of these instants on, as far as somebody has asked.
#[derive(Default)]
struct Kept {
    /// When it was changed since the container started, once somebody has asked.
    changes: Option<Vec<Timestamp>>,
    trees: BTreeMap<Option<Timestamp>, Option<Arc<Tree>>>,
}

/// A disk, by the claim that is bound to it.
struct Disk {
    cluster: Arc<Cluster>,
    pod: Arc<Value>,
    volume: Value,
    is_new: OnceLock<bool>,
}

/// What a volume is filled from.
#[derive(Clone)]
struct Source {
    cluster: Arc<Cluster>,
    pod: Arc<Value>,
    container: String,
    volume: Value,
    sub_path: String,
    /// It is about what was read since then, and not about what is read now.
    started: Option<Timestamp>,
    /// A part of a volume stays as it was when the container started.
    fixed: bool,
}

/// What is at a path in a mount.
pub(super) enum Mounted {
    Found(Found),
    Unknown,
}

impl Mount {
    /// What is at a path at an instant.
    pub(super) fn find(&self, path: &str, now: Option<Timestamp>) -> Mounted {
        match &self.kind {
            Kind::Disk(disk) if path.split('/').next() != Some(LOST_AND_FOUND) && disk.is_new() => {
                // What the file system of a new disk begins with is not known in full.
                let top = Found::Directory { names: None, mode: 0o777, owner: None };
                Mounted::Found(if path.is_empty() { top } else { Found::Absent })
            }
            Kind::Disk(_) | Kind::Unknown => Mounted::Unknown,
            Kind::Empty { mode, group, folders } => {
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
            Kind::Written(source, kept) => {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                match source.at(&mut kept, now) {
                    Some(tree) => Mounted::Found(source.find(&tree, path)),
                    None => Mounted::Unknown,
                }
            }
        }
    }

    /// A volume that nobody has written into.
    #[cfg(test)]
    pub(super) fn empty(path: &str) -> Self {
        let kind = Kind::Empty { mode: 0o777, group: None, folders: Vec::new() };
        Self { path: path.to_owned(), read_only: false, shared: Some("own/".to_owned()), in_memory: false, kind }
    }

    /// Where a path of its volume is in it, if it is.
    pub(super) fn below<'p>(&self, shared: &'p str) -> Option<&'p str> {
        let rest = shared.strip_prefix(self.shared.as_ref()?.as_str())?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
    }

    /// Whether the kubelet keeps names beside those of the files.
    pub(super) fn has_hidden(&self) -> bool {
        matches!(self.kind, Kind::Written(..))
    }
}

/// Who mounts.
pub(super) struct Mounting<'a> {
    pub(super) cluster: Option<&'a Arc<Cluster>>,
    pub(super) pod: &'a Value,
    pub(super) container: &'a Value,
    pub(super) environment: &'a Environment,
    pub(super) started: Option<Timestamp>,
    /// Whether it is about what was read since the start, and not about what is read now.
    pub(super) looks_back: bool,
    /// Whether all is wanted that can be known, though few ask for it.
    pub(super) thorough: bool,
}

/// Whether a path is in the words of a container.
fn speaks_of(container: &Value, path: &str) -> bool {
    let words = ["command", "args"].iter().flat_map(|field| items(&container[*field])).filter_map(Value::as_str);
    words.into_iter().any(|word| word.contains(path))
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
        let kind = if let Some(cluster) = mounting.cluster.filter(|_| is_disk) {
            let pod = Arc::clone(copy.get_or_insert_with(|| Arc::new(pod.clone())));
            let (cluster, volume) = (Arc::clone(cluster), volume.clone());
            Kind::Disk(Disk { cluster, pod, volume, is_new: OnceLock::new() })
        } else if volume["emptyDir"].is_object() {
            let mode = if sub_path.is_empty() { mode } else { mode & 0o2777 };
            let folders =
                if sub_path.is_empty() { parts_of(container, name, mounting.environment) } else { Vec::new() };
            Kind::Empty { mode, group, folders }
        } else if volume["hostPath"].is_object() && !mounting.thorough {
            Kind::Empty { mode: 0o755, group: None, folders: Vec::new() }
        } else if let Some(cluster) = mounting
            .cluster
            .filter(|_| written && (mounting.thorough || path != CREDENTIALS || speaks_of(container, &path)))
        {
            let pod = copy.get_or_insert_with(|| Arc::new(pod.clone()));
            let source = Source {
                cluster: Arc::clone(cluster),
                pod: Arc::clone(pod),
                container: text(container, &["name"]).to_owned(),
                volume: volume.clone(),
                started: mounting.started.filter(|_| mounting.looks_back || !sub_path.is_empty()),
                fixed: !sub_path.is_empty(),
                sub_path,
            };
            Kind::Written(source, Mutex::default())
        } else {
            Kind::Unknown
        };
        Some(Mount {
            path,
            read_only: mount["readOnly"] == true || written,
            shared,
            in_memory: volume["emptyDir"]["medium"] == "Memory" || written,
            kind,
        })
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
        let bound = self.cluster.get(PERSISTENT_VOLUME_CLAIMS, namespace, &claim)?.value();
        let disk = self.cluster.get(PERSISTENT_VOLUMES, "", text(&bound, &["spec", "volumeName"]))?.value();
        let made = |object: &Value| time_of(&object["metadata"]["creationTimestamp"]);
        if text(&disk, &["metadata", "annotations", PROVISIONED_BY]).is_empty() || made(&disk)? < made(&self.pod)? {
            return Some(false);
        }
        let names = |other: &Value| {
            let mut volumes = items(&other["spec"]["volumes"]).iter();
            volumes.any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim.as_str())
        };
        let pods = self.cluster.list(PODS, Some(namespace)).0;
        Some(
            pods.iter()
                .map(|other| other.value())
                .all(|other| other["metadata"]["uid"] == metadata["uid"] || !names(&other)),
        )
    }
}

/// Whether a volume of a pod was empty when the pod came.
pub(super) fn began_empty(cluster: &Arc<Cluster>, pod: &Value, volume: &Value) -> bool {
    let disk = || Disk {
        cluster: Arc::clone(cluster),
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

    /// The files at an instant; none where they are not known.
    fn at(&self, kept: &mut Kept, now: Option<Timestamp>) -> Option<Arc<Tree>> {
        let moment = match self.started {
            None => None,
            Some(started) if self.fixed => Some(started),
            Some(started) => {
                let changes = kept.changes.get_or_insert_with(|| self.changes(started));
                Some(changes.iter().copied().rfind(|at| now.is_none_or(|now| *at <= now)).unwrap_or(started))
            }
        };
        kept.trees.entry(moment).or_insert_with(|| self.tree(moment).map(Arc::new)).clone()
    }

    /// When something in it was changed since the container started.
    fn changes(&self, started: Timestamp) -> Vec<Timestamp> {
        let namespace = text(&self.pod, &["metadata", "namespace"]);
        let volume = &self.volume;
        let single = [volume];
        let sources: Vec<&Value> = match volume["projected"]["sources"].as_array() {
            Some(sources) => sources.iter().collect(),
            None => single.to_vec(),
        };
        let mut all = Vec::new();
        for source in sources {
            let (resource, name) = if source["configMap"].is_object() {
                (CONFIG_MAPS, text(source, &["configMap", "name"]))
            } else if source["secret"].is_object() {
                let name = source["secret"]["secretName"].as_str().or_else(|| source["secret"]["name"].as_str());
                (SECRETS, name.unwrap_or_default())
            } else if source["downwardAPI"].is_object() {
                (PODS, text(&self.pod, &["metadata", "name"]))
            } else {
                continue;
            };
            all.extend(changes_after(&self.cluster, Name { resource, namespace, name }, started));
        }
        all.sort_unstable();
        all
    }

    /// The files; none where something is missing, so that the container could not have started.
    fn tree(&self, moment: Option<Timestamp>) -> Option<Tree> {
        let mut tree = Tree::new();
        let namespace = text(&self.pod, &["metadata", "namespace"]);
        let volume = &self.volume;
        let mode = |source: &Value| integer(source, &["defaultMode"]).and_then(|mode| u32::try_from(mode).ok());
        if volume["configMap"].is_object() {
            let source = &volume["configMap"];
            self.object(
                &mut tree,
                Name { resource: CONFIG_MAPS, namespace, name: text(source, &["name"]) },
                source,
                (mode(source), moment),
            )?;
        } else if volume["secret"].is_object() {
            let source = &volume["secret"];
            self.object(
                &mut tree,
                Name { resource: SECRETS, namespace, name: text(source, &["secretName"]) },
                source,
                (mode(source), moment),
            )?;
        } else if volume["downwardAPI"].is_object() {
            self.pod_itself(&mut tree, &volume["downwardAPI"], mode(&volume["downwardAPI"]), moment)?;
        } else {
            let mode = mode(&volume["projected"]);
            for source in items(&volume["projected"]["sources"]) {
                if source["configMap"].is_object() {
                    let source = &source["configMap"];
                    self.object(
                        &mut tree,
                        Name { resource: CONFIG_MAPS, namespace, name: text(source, &["name"]) },
                        source,
                        (mode, moment),
                    )?;
                } else if source["secret"].is_object() {
                    let source = &source["secret"];
                    self.object(
                        &mut tree,
                        Name { resource: SECRETS, namespace, name: text(source, &["name"]) },
                        source,
                        (mode, moment),
                    )?;
                } else if source["downwardAPI"].is_object() {
                    self.pod_itself(&mut tree, &source["downwardAPI"], mode, moment)?;
                } else if let Some(path) = source["serviceAccountToken"]["path"].as_str() {
                    let now = moment.unwrap_or_else(|| self.cluster.now());
                    let token = pod_token(&self.cluster, &self.pod, &source["serviceAccountToken"], now);
                    let user = file_user(&self.pod).and_then(|user| u32::try_from(user).ok());
                    let mode = if user.is_some() || self.group().is_some() { Some(0o600) } else { mode };
                    self.put(&mut tree, path, token.map(String::into_bytes), mode);
                    if let Some((user, file)) = user.zip(tree.get_mut(path)) {
                        file.owner = file.owner.map(|(_, group)| (user, group));
                    }
                } else {
                    return None;
                }
            }
        }
        Some(tree)
    }

    fn put(&self, tree: &mut Tree, path: &str, text: Option<Vec<u8>>, mode: Option<u32>) {
        let mode = mode.unwrap_or(0o644);
        // What the kubelet writes may be read by the pod's group.
        let mode = if self.group().is_some() { mode | 0o440 } else { mode };
        let owner = Some((0, self.group().unwrap_or_default()));
        tree.insert(path.to_owned(), File { text: text.map(Arc::new), mode, owner });
    }

    fn object(
        &self,
        tree: &mut Tree,
        name: Name<'_>,
        source: &Value,
        how: (Option<u32>, Option<Timestamp>),
    ) -> Option<()> {
        let (mode, moment) = how;
        let optional = source["optional"] == true;
        let object = match moment {
            // A kubelet that finds no more what must be there leaves what it has written.
            Some(moment) if !optional => last_as_of(&self.cluster, name, moment),
            Some(moment) => as_of(&self.cluster, name, moment),
            None => self.cluster.get(name.resource, name.namespace, name.name).map(|object| object.value()),
        };
        let object = object.or_else(|| last_as_of(&self.cluster, name, self.cluster.now()).filter(|_| !optional));
        let Some(object) = object else { return optional.then_some(()) };
        let values = values(&object);
        if source["items"].as_array().is_none_or(Vec::is_empty) {
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
                None if optional => {}
                None => return None,
            }
        }
        Some(())
    }

    fn pod_itself(&self, tree: &mut Tree, source: &Value, mode: Option<u32>, moment: Option<Timestamp>) -> Option<()> {
        let (namespace, name) = (text(&self.pod, &["metadata", "namespace"]), text(&self.pod, &["metadata", "name"]));
        let then = moment.map(|moment| as_of(&self.cluster, Name { resource: PODS, namespace, name }, moment));
        let mut seen = (*self.pod).clone();
        if let Some(then) = then {
            // What is written into its status is the same before and after.
            seen["metadata"] = then?["metadata"].clone();
        }
        let pod = &seen;
        let containers = ["containers", "initContainers"].iter().flat_map(|list| items(&pod["spec"][*list]));
        let own = containers.into_iter().find(|container| container["name"] == self.container.as_str());
        for item in items(&source["items"]) {
            let value = match item["fieldRef"]["fieldPath"].as_str() {
                Some(path) => field(pod, path)?,
                None => amount(Some(&self.cluster), pod, own.unwrap_or(&Value::Null), &item["resourceFieldRef"])?,
            };
            let own_mode = integer(item, &["mode"]).and_then(|mode| u32::try_from(mode).ok());
            self.put(tree, text(item, &["path"]), Some(value.into_bytes()), own_mode.or(mode));
        }
        Some(())
    }
}
