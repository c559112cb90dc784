//! The files of a container, as far as they are known: those of its volumes, those that the kubelet writes, those that
//! its commands have made and removed. What its image has is unknown, but for a few directories of well-known images.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::file::{File, Found};
use super::mounts::{Mount, Mounted};

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
    /// What the kubelet writes into every container: `/etc/hosts` and the like.
    pub(crate) given: BTreeMap<String, File>,
    /// Whether the image has nothing in `/tmp`.
    pub(crate) has_empty_tmp: bool,
    /// A directory of the image with its files, whatever is in them: all that there are.
    pub(crate) pages: Option<(&'static str, &'static [&'static str])>,
    pub(crate) read_only: bool,
    /// Below these, programs that are not followed may have written.
    pub(crate) untrusted: &'static [&'static str],
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

    /// A file that was there before.
    pub(crate) fn put(&mut self, path: &str, file: File) {
        let path = self.canonical(path).into_owned();
        self.made.insert(path, Some(Made::File(file)));
    }

    /// What others have made and removed in volumes that are mounted here, too.
    pub(crate) fn take_over<'a>(&mut self, changes: impl IntoIterator<Item = &'a Changed>) {
        for (path, made) in changes {
            self.version += 1;
            let path = self.canonical(path).into_owned();
            self.made.insert(path, made.clone());
        }
    }

    /// All that commands have made and removed.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&str, &Option<Made>)> {
        self.made.iter().map(|(path, made)| (path.as_str(), made))
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

    /// Which of the files that commands have made and removed are there.
    pub(crate) fn presence(&self) -> BTreeMap<String, bool> {
        self.made.iter().map(|(path, made)| (path.clone(), made.is_some())).collect()
    }

    /// Everything that commands have made, if it is little enough to be compared.
    pub(crate) fn small_state(&self) -> Option<BTreeMap<String, Option<Made>>> {
        (self.written < 64 * 1024).then(|| self.made.clone())
    }

    fn mount(&self, path: &str) -> Option<(&Mount, String)> {
        let inside = |mount: &Mount| {
            let rest = path.strip_prefix(mount.path.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/').to_owned())
        };
        let found = self.ground.mounts.iter().filter_map(|mount| inside(mount).map(|rest| (mount, rest)));
        found.max_by_key(|(mount, _)| mount.path.len())
    }

    /// A path as it is kept: a file that a container has at several, as it mounts a volume and parts of it, is kept at one of them.
    fn canonical<'p>(&self, path: &'p str) -> Cow<'p, str> {
        let Some(shared) = self.shared(path) else { return Cow::Borrowed(path) };
        let part = |mount: &Mount| mount.shared.as_ref().map_or(usize::MAX, String::len);
        let whole =
            self.ground.mounts.iter().filter(|mount| mount.below(&shared).is_some()).min_by_key(|mount| part(mount));
        let Some((whole, rest)) = whole.and_then(|whole| Some((whole, whole.below(&shared)?))) else {
            return Cow::Borrowed(path);
        };
        let kept = joined(&whole.path, rest);
        // Something else may be mounted there.
        let is_there = self.mount(&kept).is_some_and(|(mount, _)| mount.path == whole.path);
        if is_there { Cow::Owned(kept) } else { Cow::Borrowed(path) }
    }

    /// What is at a path.
    pub(crate) fn find(&self, path: &str) -> Found {
        let path = if path == "/" { path } else { path.trim_end_matches('/') };
        let path = &*self.canonical(path);
        match self.made.get(path) {
            Some(Some(Made::File(file))) => return Found::File(file.clone()),
            Some(None) => return Found::Absent,
            _ => {}
        }
        // Below a file there is nothing, and programs have other words for that.
        if matches!(self.made.get(parent(path)), Some(Some(Made::File(_)))) {
            return Found::Unknown;
        }
        let below = self.ground_below(path);
        let prefix = format!("{}/", path.trim_end_matches('/'));
        let own = self.made.range(prefix.clone()..).take_while(|(made, _)| made.starts_with(&prefix));
        let (mut added, mut removed) = (BTreeSet::new(), BTreeSet::new());
        for (made, what) in own {
            let rest = &made[prefix.len()..];
            match (rest.split_once('/'), what) {
                (None, None) => {
                    removed.insert(rest.to_owned());
                }
                (None, Some(_)) | (Some(_), None | Some(_)) if what.is_some() => {
                    added.insert(rest.split('/').next().unwrap_or(rest).to_owned());
                }
                _ => {}
            }
        }
        let is_made = matches!(self.made.get(path), Some(Some(Made::Directory)));
        match below {
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

    /// Whether a path is in a volume, or what the kubelet gives every container.
    pub(crate) fn is_of_the_pod(&self, path: &str) -> bool {
        self.mount(path).is_some() || self.ground.given.contains_key(path)
    }

    /// Whether the folder of a path is certainly there: at the top of an image are folders.
    pub(crate) fn has_folder(&self, path: &str) -> bool {
        let folder = parent(path);
        matches!(self.find(folder), Found::Directory { .. }) || (folder.len() > 1 && folder.matches('/').count() == 1)
    }

    /// A path as other containers of the pod have it that share the volume.
    pub(crate) fn shared(&self, path: &str) -> Option<String> {
        let (mount, rest) = self.mount(path)?;
        Some(joined(mount.shared.as_ref()?, &rest))
    }

    /// The paths of a shared one here.
    pub(crate) fn own<'a>(&'a self, shared: &'a str) -> impl Iterator<Item = String> + 'a {
        self.ground.mounts.iter().filter_map(move |mount| Some(joined(&mount.path, mount.below(shared)?)))
    }

    /// What was there before commands did anything.
    fn ground_below(&self, path: &str) -> Found {
        if let Some(file) = self.ground.given.get(path) {
            return Found::File(file.clone());
        }
        if let Some((mount, rest)) = self.mount(path) {
            return match mount.find(&rest) {
                Mounted::Found(Found::Absent) if mount.shared.is_some() && self.is_untrusted(path) => Found::Unknown,
                Mounted::Found(Found::Directory { mode, owner, .. })
                    if mount.shared.is_some() && self.is_untrusted(path) =>
                {
                    Found::Directory { names: None, mode, owner }
                }
                Mounted::Found(found) => found,
                Mounted::Unknown => Found::Unknown,
            };
        }
        if let Some((pages, files)) = self.ground.pages
            && let Some(rest) = path.strip_prefix(pages).filter(|rest| rest.is_empty() || rest.starts_with('/'))
        {
            if files.contains(&path) {
                return Found::File(File { text: None, mode: 0o644, owner: Some((0, 0)) });
            }
            let names = files.iter().filter_map(|file| Some(file.rsplit_once('/')?.1.to_owned()));
            let directory = Found::Directory { names: Some(names.collect()), mode: 0o755, owner: Some((0, 0)) };
            return if rest.is_empty() { directory } else { Found::Absent };
        }
        let leads = |to: &str| path == "/" || to.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        let leads_to_mount = self.ground.mounts.iter().any(|mount| leads(&mount.path));
        let is_empty = self.ground.has_empty_tmp && !leads_to_mount && !self.is_untrusted(path);
        match path {
            "/tmp" if is_empty => Found::Directory { names: Some(BTreeSet::new()), mode: 0o1777, owner: Some((0, 0)) },
            _ if is_empty && path.starts_with("/tmp/") => Found::Absent,
            _ if path == "/" || leads_to_mount => Found::Directory { names: None, mode: 0o755, owner: Some((0, 0)) },
            _ => Found::Unknown,
        }
    }

    /// Whether programs that are not followed may have written at a path.
    fn is_untrusted(&self, path: &str) -> bool {
        let holds = |folder: &str| folder == "/" || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        self.ground.untrusted.iter().any(|folder| *folder == path || holds(folder))
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
            None => self.ground.read_only && !self.ground.given.contains_key(path),
        };
        read_only.then_some(Refused::ReadOnly)
    }

    /// Makes a file empty, or leaves it as it is.
    pub(crate) fn open(&mut self, path: &str, truncate: bool) {
        let path = &*self.canonical(path).into_owned();
        let old = match self.find(path) {
            Found::File(file) => Some(file),
            _ => None,
        };
        let file = match old {
            Some(file) if !truncate => file,
            Some(file) => File { text: Some(Arc::default()), ..file },
            // Whether there was something in it is not known.
            None if !truncate && self.find(path) == Found::Unknown => {
                File { text: None, mode: 0o644, owner: self.owner }
            }
            None => File { text: Some(Arc::default()), mode: 0o644, owner: self.owner },
        };
        self.version += 1;
        self.made.insert(path.to_owned(), Some(Made::File(file)));
    }

    /// Writes at the end of a file that is open; what is not known makes all of it unknown.
    pub(crate) fn append(&mut self, path: &str, text: Option<&[u8]>) {
        let path = self.canonical(path).into_owned();
        let Some(Some(Made::File(file))) = self.made.get_mut(&path) else { return };
        self.version += 1;
        let (Some(all), Some(text)) = (&mut file.text, text) else {
            file.text = None;
            return;
        };
        self.written += text.len();
        if all.len() + text.len() > MAX_FILE || self.written > MAX_WRITTEN {
            file.text = None;
            return;
        }
        Arc::make_mut(all).extend_from_slice(text);
    }

    pub(crate) fn make_directory(&mut self, path: &str) {
        self.version += 1;
        let path = self.canonical(path.trim_end_matches('/')).into_owned();
        self.made.insert(path, Some(Made::Directory));
    }

    /// Removes a file, or a directory with all that is in it.
    pub(crate) fn remove(&mut self, path: &str) {
        let path = &*self.canonical(path.trim_end_matches('/')).into_owned();
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

/// A path below another one, or that itself.
fn joined(folder: &str, rest: &str) -> String {
    if rest.is_empty() { folder.to_owned() } else { format!("{folder}/{rest}") }
}
