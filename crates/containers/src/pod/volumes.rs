//! What a container finds in its volumes.

// upstream: pkg/volume/{configmap,secret,projected,downwardapi,emptydir}, pkg/volume/volume_linux.go changeFilePermission (v1.36)

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde_json::Value;

use super::environment::{Environment, Sources, expanded, values};
use super::fields::{amount, field};
use super::file::{File, Found};
use crate::objects::{Kind, Objects};
use crate::value::{security_setting, words};
use klab_api_machinery::value::{integer, items, text};

/// Where credentials are mounted into every container.
const CREDENTIALS: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The kinds of volumes that the kubelet writes.
const WRITTEN: [&str; 4] = ["configMap", "secret", "projected", "downwardAPI"];

/// A volume in a container.
pub(crate) struct Mount {
    pub(super) path: String,
    pub(super) read_only: bool,
    /// Its name, where all containers of the pod find the same in it.
    pub(super) shared: Option<String>,
    content: Content,
}

enum Content {
    /// Nothing before a container writes into it.
    Empty { group: Option<u32> },
    /// Files that the kubelet writes.
    Written(Box<Source>, OnceLock<Option<Tree>>),
    /// What is in it is not followed, beside these folders that the kubelet makes.
    Opaque { folders: Vec<String> },
}

impl fmt::Debug for Mount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Mount").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Files by their path in the volume.
type Tree = BTreeMap<String, File>;

/// What a volume is filled from.
struct Source {
    objects: Arc<dyn Objects>,
    pod: Arc<Value>,
    container: String,
    volume: Value,
    sub_path: String,
    /// It is about what the container has read since then: what may have changed since is not known.
    since: Option<Timestamp>,
    /// The group of the pod's volumes.
    group: Option<u32>,
}

/// A folder of a volume that all may write.
fn open_folder(names: BTreeSet<String>, group: Option<u32>) -> Found {
    let mode = if group.is_some() { 0o2777 } else { 0o777 };
    Found::Directory { names: Some(names), mode, owner: Some((0, group.unwrap_or_default())) }
}

impl Mount {
    /// What is at a path in it.
    pub(super) fn find(&self, path: &str) -> Found {
        match &self.content {
            Content::Opaque { folders } if folders.iter().any(|folder| folder == path) => {
                Found::Directory { names: None, mode: 0o750, owner: None }
            }
            Content::Opaque { .. } => Found::Unknown,
            Content::Empty { group } if path.is_empty() => open_folder(BTreeSet::new(), *group),
            Content::Empty { .. } => Found::Absent,
            Content::Written(source, tree) => match tree.get_or_init(|| source.tree()) {
                Some(tree) => source.find(tree, path),
                None => Found::Unknown,
            },
        }
    }

    /// A volume without any writes.
    #[cfg(test)]
    pub(crate) fn empty(path: &str) -> Self {
        let content = Content::Empty { group: None };
        Self { path: path.to_owned(), read_only: false, shared: Some("own".to_owned()), content }
    }

    /// Whether the kubelet writes the files: links, beside names of its own.
    pub(super) fn is_written(&self) -> bool {
        matches!(self.content, Content::Written(..))
    }

    /// Whether what is written there is not followed, as others may change it.
    pub(super) fn is_opaque(&self) -> bool {
        matches!(self.content, Content::Opaque { .. })
    }
}

/// The volumes of a container. `looks_back`: it is about what was read since the start, and not about what is read now.
/// `thorough`: nothing is assumed of what is not known.
pub(super) fn mounts(sources: &Sources<'_>, environment: &Environment, looks_back: bool, thorough: bool) -> Vec<Mount> {
    let (pod, container) = (sources.pod, sources.container);
    let group = integer(pod, &["spec", "securityContext", "fsGroup"]).and_then(|group| u32::try_from(group).ok());
    let mut copy = None;
    let mount = |mount: &Value| {
        let name = text(mount, &["name"]);
        let volume = items(&pod["spec"]["volumes"]).iter().find(|volume| volume["name"] == name)?;
        let path = text(mount, &["mountPath"]).trim_end_matches('/').to_owned();
        let sub_path = part(mount, environment);
        let written = WRITTEN.iter().any(|kind| volume[*kind].is_object());
        let is_read = thorough || path != CREDENTIALS || words(container).any(|word| word.contains(&path));
        let mut shared = None;
        let content = if let Some(objects) = sources.objects.filter(|_| written && is_read) {
            let pod = copy.get_or_insert_with(|| Arc::new(pod.clone()));
            let source = Source {
                objects: Arc::clone(objects),
                pod: Arc::clone(pod),
                container: text(container, &["name"]).to_owned(),
                volume: volume.clone(),
                // A part of a volume stays as it was when the container started.
                since: sources.started.filter(|_| looks_back || !sub_path.is_empty()),
                sub_path,
                group,
            };
            Content::Written(Box::new(source), OnceLock::new())
        } else if volume["emptyDir"].is_object() && !has_parts(pod, name) {
            shared = Some(name.to_owned());
            Content::Empty { group }
        } else if written || thorough {
            let own = items(&container["volumeMounts"]).iter().filter(|mount| mount["name"] == name);
            let folders =
                if sub_path.is_empty() { own.map(|mount| part(mount, environment)).collect() } else { Vec::new() };
            Content::Opaque { folders }
        } else {
            Content::Empty { group }
        };
        Some(Mount { path, read_only: mount["readOnly"] == true || written, shared, content })
    };
    items(&container["volumeMounts"]).iter().filter_map(mount).collect()
}

/// The part of a volume that is mounted; empty for all of it.
fn part(mount: &Value, environment: &Environment) -> String {
    let part = match mount["subPathExpr"].as_str() {
        Some(expression) => expanded(expression, environment),
        None => text(mount, &["subPath"]).to_owned(),
    };
    part.trim_matches('/').to_owned()
}

/// Whether a container of a pod mounts a part of a volume, so that a file of it has several paths.
fn has_parts(pod: &Value, volume: &str) -> bool {
    let all =
        ["initContainers", "containers", "ephemeralContainers"].iter().flat_map(|list| items(&pod["spec"][*list]));
    let mut mounts = all.flat_map(|container| items(&container["volumeMounts"]));
    mounts.any(|mount| mount["name"] == volume && (mount["subPath"].is_string() || mount["subPathExpr"].is_string()))
}

impl Source {
    fn find(&self, tree: &Tree, path: &str) -> Found {
        let path =
            [self.sub_path.as_str(), path].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        if let Some(file) = tree.get(&path) {
            return Found::File(file.clone());
        }
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let names: BTreeSet<String> =
            tree.keys().filter_map(|key| key.strip_prefix(&prefix)?.split('/').next().map(str::to_owned)).collect();
        if names.is_empty() && !path.is_empty() { Found::Absent } else { open_folder(names, self.group) }
    }

    /// The files; none where something is missing, so that the container could not have started, or was changed since.
    fn tree(&self) -> Option<Tree> {
        let mut tree = Tree::new();
        let volume = &self.volume;
        let mode = WRITTEN.iter().find_map(|kind| unsigned(&volume[*kind]["defaultMode"]));
        let single = [volume.clone()];
        let projected = &volume["projected"];
        for source in if projected.is_object() { items(&projected["sources"]) } else { &single } {
            // A volume names its Secret otherwise than a part of a projected one does.
            let name = |source: &Value| source["secretName"].as_str().unwrap_or(text(source, &["name"])).to_owned();
            if source["configMap"].is_object() {
                self.object(&mut tree, Kind::ConfigMap, &name(&source["configMap"]), &source["configMap"], mode)?;
            } else if source["secret"].is_object() {
                self.object(&mut tree, Kind::Secret, &name(&source["secret"]), &source["secret"], mode)?;
            } else if source["downwardAPI"].is_object() {
                self.pod_itself(&mut tree, &source["downwardAPI"], mode)?;
            } else if source["serviceAccountToken"].is_object() {
                self.token(&mut tree, &source["serviceAccountToken"], mode);
            } else {
                return None;
            }
        }
        Some(tree)
    }

    /// The token of the pod's ServiceAccount. Which one a container found before is not known.
    fn token(&self, tree: &mut Tree, source: &Value, mode: Option<u32>) {
        let path = text(source, &["path"]);
        let token = if self.since.is_some() { None } else { self.objects.token(&self.pod, source) };
        let user = file_user(&self.pod);
        let mode = if user.is_some() || self.group.is_some() { Some(0o600) } else { mode };
        self.put(tree, path, token.map(String::into_bytes), mode);
        if let Some((user, file)) = user.zip(tree.get_mut(path)) {
            file.owner = file.owner.map(|(_, group)| (user, group));
        }
    }

    fn put(&self, tree: &mut Tree, path: &str, text: Option<Vec<u8>>, mode: Option<u32>) {
        // What the kubelet writes may be read by the pod's group.
        let mode = mode.unwrap_or(0o644) | if self.group.is_some() { 0o440 } else { 0 };
        let owner = Some((0, self.group.unwrap_or_default()));
        tree.insert(path.to_owned(), File { text: text.map(Arc::new), mode, owner });
    }

    fn object(&self, tree: &mut Tree, kind: Kind, name: &str, source: &Value, mode: Option<u32>) -> Option<()> {
        let is_optional = source["optional"] == true;
        let namespace = text(&self.pod, &["metadata", "namespace"]);
        let changed = self.objects.changed(kind, namespace, name);
        if self.since.zip(changed).is_some_and(|(since, changed)| changed.as_second() > since.as_second()) {
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
            match values.iter().find(|(key, _)| key == text(item, &["key"])) {
                Some((_, value)) => {
                    self.put(tree, text(item, &["path"]), Some(value.clone()), unsigned(&item["mode"]).or(mode));
                }
                None if is_optional => {}
                None => return None,
            }
        }
        Some(())
    }

    fn pod_itself(&self, tree: &mut Tree, source: &Value, mode: Option<u32>) -> Option<()> {
        let pod = &*self.pod;
        let mut containers = ["containers", "initContainers"].iter().flat_map(|list| items(&pod["spec"][*list]));
        let own = containers.find(|container| container["name"] == self.container.as_str());
        for item in items(&source["items"]) {
            let path = item["fieldRef"]["fieldPath"].as_str();
            let value = match path {
                Some(path) => field(pod, path)?,
                None => amount(Some(&*self.objects), pod, own.unwrap_or(&Value::Null), &item["resourceFieldRef"])?,
            };
            // Labels and annotations change while a container runs.
            let may_change = |path: &str| path.contains("labels") || path.contains("annotations");
            let is_known = self.since.is_none() || !path.is_some_and(may_change);
            let mode = unsigned(&item["mode"]).or(mode);
            self.put(tree, text(item, &["path"]), is_known.then(|| value.into_bytes()), mode);
        }
        Some(())
    }
}

fn unsigned(number: &Value) -> Option<u32> {
    number.as_u64().and_then(|number| u32::try_from(number).ok())
}

/// Whose the files of tokens are, where all containers of a pod run as one user whom it names.
// upstream: pkg/volume/util/util.go FsUserFrom (v1.36)
fn file_user(pod: &Value) -> Option<u32> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let mut users = lists
        .iter()
        .flat_map(|list| items(&pod["spec"][*list]))
        .map(|container| unsigned(security_setting(pod, container, "runAsUser")));
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
