//! The files of a node: those that kubeadm and kind leave, and what was written over them.

use std::collections::{BTreeMap, BTreeSet};

/// Most bytes that are written on one node.
const MAX_WRITTEN: usize = 256 * 1024;

/// What was written and removed on a node, by path; a folder that was made ends in `/`.
pub type Changes = BTreeMap<String, Option<String>>;

/// The files of a node.
#[derive(Debug)]
pub(super) struct Files {
    ground: BTreeMap<String, String>,
    pub(super) changes: Changes,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found<'f> {
    File(&'f str),
    Folder,
    Nothing,
}

impl Files {
    pub(super) fn new(ground: BTreeMap<String, String>) -> Self {
        Self { ground, changes: Changes::new() }
    }

    fn get(&self, path: &str) -> Option<&str> {
        match self.changes.get(path) {
            Some(changed) => changed.as_deref(),
            None => self.ground.get(path).map(String::as_str),
        }
    }

    /// All paths there are; folders that were made end in `/`.
    fn paths(&self) -> impl Iterator<Item = &str> {
        let ground = self.ground.keys().filter(|path| !self.changes.contains_key(*path));
        let changed = self.changes.iter().filter(|(_, text)| text.is_some()).map(|(path, _)| path);
        ground.chain(changed).map(String::as_str)
    }

    pub(super) fn find(&self, path: &str) -> Found<'_> {
        if let Some(text) = self.get(path) {
            return Found::File(text);
        }
        let folder = format!("{}/", path.trim_end_matches('/'));
        // What the image has is not known, but its first folders are.
        let is_known = ["/", "/etc/", "/opt/", "/root/", "/tmp/", "/usr/", "/var/"].contains(&folder.as_str());
        if is_known || self.paths().any(|one| one.starts_with(&folder)) { Found::Folder } else { Found::Nothing }
    }

    /// The names in a folder.
    pub(super) fn names(&self, folder: &str) -> BTreeSet<&str> {
        let folder = format!("{}/", folder.trim_end_matches('/'));
        let below = self.paths().filter_map(|path| path.strip_prefix(folder.as_str()));
        below.filter_map(|rest| rest.split('/').next()).filter(|name| !name.is_empty()).collect()
    }

    /// The files below a folder, with their texts.
    pub(super) fn below(&self, folder: &str) -> Vec<(String, String)> {
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        let paths = self.paths().filter(|path| path.starts_with(&prefix) && !path.ends_with('/'));
        paths.filter_map(|path| Some((path.to_owned(), self.get(path)?.to_owned()))).collect()
    }

    /// Writes a file, or at its end.
    ///
    /// # Errors
    /// In the words of programs, where its folder is missing or it is too much; nothing is written then.
    pub(super) fn write(&mut self, path: &str, text: &str, appends: bool) -> Result<(), String> {
        if self.find(path) == Found::Folder {
            return Err("Is a directory".to_owned());
        }
        if self.find(parent(path)) != Found::Folder {
            return Err("No such file or directory".to_owned());
        }
        let text = if appends { self.get(path).unwrap_or_default().to_owned() + text } else { text.to_owned() };
        let others = self.changes.iter().filter(|(other, _)| *other != path);
        let written: usize = others.filter_map(|(_, text)| text.as_ref()).map(String::len).sum();
        if written.saturating_add(text.len()) > MAX_WRITTEN {
            return Err("No space left on device".to_owned());
        }
        // The folder stays when its last file goes.
        self.make_folder(parent(path));
        self.changes.insert(path.to_owned(), Some(text));
        Ok(())
    }

    /// Makes a folder, and those above it.
    pub(super) fn make_folder(&mut self, path: &str) {
        self.changes.insert(format!("{}/", path.trim_end_matches('/')), Some(String::new()));
    }

    /// Removes a file, or a folder with all that is in it.
    pub(super) fn remove(&mut self, path: &str) {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let gone: Vec<String> =
            self.paths().filter(|one| *one == path || one.starts_with(&folder)).map(str::to_owned).collect();
        if !gone.is_empty() {
            // Its folder stays.
            self.make_folder(parent(path));
        }
        self.changes.extend(gone.into_iter().map(|path| (path, None)));
    }
}

/// The folder of a path.
pub(super) fn parent(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// A path from the root, without `.`, `..` and double slashes.
pub(super) fn full(folder: &str, path: &str) -> String {
    let path = if path.starts_with('/') { path.to_owned() } else { format!("{folder}/{path}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}
