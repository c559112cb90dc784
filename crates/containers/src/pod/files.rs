//! The files of a container, as far as they are known: those of its volumes, and those that its commands have made and
//! removed. What its image has is unknown, but for an empty `/tmp`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::file::{File, Found};
use super::volumes::Mount;

/// A file that has more than that is not known any longer.
const MAX_FILE: usize = 1024 * 1024;
/// All that commands write.
const MAX_WRITTEN: usize = 8 * 1024 * 1024;

/// Something that a command has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Made {
    File(File),
    Directory,
}

/// A path, and what is there now; none where it was removed.
pub(crate) type Changed = (String, Option<Made>);

/// What lies below all that commands do.
#[derive(Debug, Default)]
pub(crate) struct Ground {
    pub(crate) mounts: Vec<Mount>,
    /// The file for a container's last message, which is there and empty.
    pub(crate) message: String,
    /// Whether the image has nothing in `/tmp`.
    pub(crate) has_empty_tmp: bool,
    pub(crate) read_only: bool,
    /// Whether a program that is not followed may have written anywhere.
    pub(crate) untrusted: bool,
}

/// The files of a container.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files {
    ground: Arc<Ground>,
    made: BTreeMap<String, Option<Made>>,
    written: usize,
    /// Counts what commands do to files.
    pub(crate) version: u64,
    /// Who makes them.
    owner: Option<(u32, u32)>,
}

/// Why a file cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    ReadOnly,
    IsDirectory,
    NoDirectory,
    NotDirectory,
}

impl Refused {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::ReadOnly => "Read-only file system",
            Self::IsDirectory => "Is a directory",
            Self::NoDirectory => "No such file or directory",
            Self::NotDirectory => "Not a directory",
        }
    }
}

impl Files {
    pub(crate) fn new(ground: Ground, owner: Option<(u32, u32)>) -> Self {
        Self { ground: Arc::new(ground), owner, ..Self::default() }
    }

    /// What others have made and removed.
    pub(crate) fn take_over<'a>(&mut self, changes: impl IntoIterator<Item = &'a Changed>) {
        for (path, made) in changes {
            self.version += 1;
            self.made.insert(path.clone(), made.clone());
        }
    }

    /// All that commands have made and removed.
    pub(crate) fn made(&self) -> &BTreeMap<String, Option<Made>> {
        &self.made
    }

    /// What is not as it was before.
    pub(crate) fn changed_since(&self, before: &Self) -> Vec<Changed> {
        let is_news = |path: &str, made: &Option<Made>| match (made, before.find(path)) {
            (Some(Made::File(file)), Found::File(old)) => *file != old,
            (Some(Made::Directory), Found::Directory { .. }) | (None, Found::Absent) => false,
            _ => true,
        };
        let changes =
            self.made.iter().filter(|(path, made)| before.made.get(*path) != Some(made) && is_news(path, made));
        changes.map(|(path, made)| (path.clone(), made.clone())).collect()
    }

    /// The volume that a path is in, and where in it.
    fn mount<'p>(&self, path: &'p str) -> Option<(&Mount, &'p str)> {
        let found = self.ground.mounts.iter().filter_map(|mount| Some((mount, below(path, &mount.path)?)));
        found.max_by_key(|(mount, _)| mount.path.len())
    }

    /// What is at a path.
    pub(crate) fn find(&self, path: &str) -> Found {
        let path = if path == "/" { path } else { path.trim_end_matches('/') };
        if let Some((mount, rest)) = self.mount(path).filter(|(mount, _)| mount.is_opaque()) {
            return mount.find(rest);
        }
        match self.made.get(path) {
            Some(Some(Made::File(file))) => return Found::File(file.clone()),
            Some(None) => return Found::Absent,
            _ => {}
        }
        // Below a file there is nothing, and programs have other words for that.
        if matches!(self.made.get(parent(path)), Some(Some(Made::File(_)))) {
            return Found::Unknown;
        }
        let prefix = format!("{}/", path.trim_end_matches('/'));
        let own = self.made.range(prefix.clone()..).take_while(|(made, _)| made.starts_with(&prefix));
        let (mut added, mut removed) = (BTreeSet::new(), BTreeSet::new());
        for (made, what) in own {
            let rest = &made[prefix.len()..];
            let name = rest.split('/').next().unwrap_or(rest).to_owned();
            match what {
                Some(_) => added.insert(name),
                None => !rest.contains('/') && removed.insert(name),
            };
        }
        let is_made = matches!(self.made.get(path), Some(Some(Made::Directory)));
        match self.ground_at(path) {
            Found::Directory { names, mode, owner } => {
                let names = names.map(|names| names.difference(&removed).cloned().chain(added).collect());
                Found::Directory { names, mode, owner }
            }
            _ if is_made => Found::Directory { names: Some(added), mode: 0o755, owner: self.owner },
            // Another container has made the folder of what it has left here.
            Found::Absent if !added.is_empty() => Found::Directory { names: Some(added), mode: 0o755, owner: None },
            Found::Unknown if !added.is_empty() => Found::Directory { names: None, mode: 0o755, owner: None },
            found => found,
        }
    }

    /// Whether the kubelet writes what is at a path: files that are links to others.
    pub(crate) fn is_written(&self, path: &str) -> bool {
        self.mount(path).is_some_and(|(mount, _)| mount.is_written())
    }

    /// Whether a path is in a volume, or the file for the last message.
    pub(crate) fn is_of_the_pod(&self, path: &str) -> bool {
        self.mount(path).is_some() || self.ground.message == path
    }

    /// Whether the folder of a path is certainly there: at the top of an image are folders.
    pub(crate) fn has_folder(&self, path: &str) -> bool {
        let folder = parent(path);
        let is_opaque = self.mount(path).is_some_and(|(mount, _)| mount.is_opaque());
        let is_at_top = folder.len() > 1 && folder.matches('/').count() == 1;
        !is_opaque && (is_at_top || matches!(self.find(folder), Found::Directory { .. }))
    }

    /// A path as other containers of the pod have it that share the volume.
    pub(crate) fn shared(&self, path: &str) -> Option<String> {
        let (mount, rest) = self.mount(path)?;
        Some(format!("{}/{rest}", mount.shared.as_ref()?))
    }

    /// The paths of a shared one here.
    pub(crate) fn own<'a>(&'a self, shared: &'a str) -> impl Iterator<Item = String> + 'a {
        self.ground.mounts.iter().filter_map(move |mount| {
            let rest = below(shared, mount.shared.as_ref()?)?;
            Some(format!("{}/{rest}", mount.path).trim_end_matches('/').to_owned())
        })
    }

    /// What was there before commands did anything.
    fn ground_at(&self, path: &str) -> Found {
        if let Some((mount, rest)) = self.mount(path) {
            return match mount.find(rest) {
                Found::Absent if self.is_untrusted(mount) => Found::Unknown,
                Found::Directory { mode, owner, .. } if self.is_untrusted(mount) => {
                    Found::Directory { names: None, mode, owner }
                }
                found => found,
            };
        }
        if path == self.ground.message {
            return Found::File(File { text: Some(Arc::default()), mode: 0o666, owner: Some((0, 0)) });
        }
        let leads_to_mount = self.ground.mounts.iter().any(|mount| below(&mount.path, path).is_some());
        let is_empty = self.ground.has_empty_tmp && !leads_to_mount && !self.ground.untrusted;
        let root = Some((0, 0));
        match path {
            "/tmp" if is_empty => Found::Directory { names: Some(BTreeSet::new()), mode: 0o1777, owner: root },
            _ if is_empty && path.starts_with("/tmp/") => Found::Absent,
            _ if path == "/" || leads_to_mount => Found::Directory { names: None, mode: 0o755, owner: root },
            _ => Found::Unknown,
        }
    }

    fn is_untrusted(&self, mount: &Mount) -> bool {
        self.ground.untrusted && !mount.is_written()
    }

    /// Whether something is there, where that is known.
    pub(crate) fn is_there(&self, path: &str) -> Option<bool> {
        match self.find(path) {
            Found::Absent => Some(false),
            Found::Unknown => None,
            _ => Some(true),
        }
    }

    /// Why nothing can be written there.
    pub(crate) fn refusal(&self, path: &str) -> Option<Refused> {
        if matches!(self.find(path), Found::Directory { .. }) {
            return Some(Refused::IsDirectory);
        }
        match self.find(parent(path)) {
            Found::Absent => return Some(Refused::NoDirectory),
            Found::File(_) => return Some(Refused::NotDirectory),
            _ => {}
        }
        let read_only = match self.mount(path) {
            Some((mount, _)) => mount.read_only,
            None => self.ground.read_only && self.ground.message != path,
        };
        read_only.then_some(Refused::ReadOnly)
    }

    /// Makes a file empty, or leaves it as it is.
    pub(crate) fn open(&mut self, path: &str, truncate: bool) {
        let folder = path.rsplit_once('/').map_or("/", |(folder, _)| if folder.is_empty() { "/" } else { folder });
        // What is made in a folder with the bit for it, as that of a volume of a pod with fsGroup, has the folder's group.
        let group = match self.find(folder) {
            Found::Directory { mode, owner: Some((_, group)), .. } if mode & 0o2000 != 0 => Some(group),
            _ => None,
        };
        let owner = self.owner.map(|(user, own)| (user, group.unwrap_or(own)));
        let empty = || File { text: Some(Arc::default()), mode: 0o644, owner };
        let file = match self.find(path) {
            Found::File(file) if !truncate => file,
            Found::File(file) => File { text: Some(Arc::default()), ..file },
            // Whether there was something in it is not known.
            Found::Unknown if !truncate => File { text: None, ..empty() },
            _ => empty(),
        };
        self.version += 1;
        self.made.insert(path.to_owned(), Some(Made::File(file)));
    }

    /// Writes at the end of a file that is open; what is not known makes all of it unknown.
    pub(crate) fn append(&mut self, path: &str, text: Option<&[u8]>) {
        let Some(Some(Made::File(file))) = self.made.get_mut(path) else { return };
        self.version += 1;
        self.written += text.map_or(0, <[u8]>::len);
        match (&mut file.text, text) {
            (Some(all), Some(text)) if all.len() + text.len() <= MAX_FILE && self.written <= MAX_WRITTEN => {
                Arc::make_mut(all).extend_from_slice(text);
            }
            (all, _) => *all = None,
        }
    }

    pub(crate) fn make_directory(&mut self, path: &str) {
        self.version += 1;
        self.made.insert(path.to_owned(), Some(Made::Directory));
    }

    /// Removes a file, or a directory with all that is in it.
    pub(crate) fn remove(&mut self, path: &str) {
        self.version += 1;
        if let Found::Directory { names: Some(names), .. } = self.find(path) {
            for name in names {
                self.remove(&format!("{path}/{name}"));
            }
        }
        self.made.insert(path.to_owned(), None);
    }
}

/// The folder of a path.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("/", |(folder, _)| if folder.is_empty() { "/" } else { folder })
}

/// Where a path is below a folder, if it is there, or is that folder.
fn below<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(folder)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}
