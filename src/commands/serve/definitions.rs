//! The CustomResourceDefinitions that an ephemeral cluster begins with: read from files, with the place of every mistake.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use klab_operations::render::yaml::documents;

/// Most files of a folder, and most bytes of a file.
const MAX: (usize, u64) = (1000, 16 << 20);
/// Endings of the files that are read.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// A definition, and where it stands.
pub(super) struct Definition {
    /// File and line.
    pub(super) place: String,
    pub(super) object: Value,
}

/// What was read, and what is wrong with the rest, a line for each mistake.
#[derive(Default)]
pub(super) struct Definitions {
    pub(super) found: Vec<Definition>,
    pub(super) mistakes: Vec<String>,
    /// Where each of a name stands.
    places: BTreeMap<String, String>,
}

impl Definitions {
    /// Those of folders and files, in the order of their names.
    pub(super) fn read(places: &[PathBuf]) -> Self {
        let mut read = Self::default();
        for place in places {
            match files(place) {
                Ok(files) if files.is_empty() => {
                    read.wrong(&shown(place), "has no file that ends in .yaml, .yml or .json");
                }
                Ok(files) => {
                    let before = read.found.len() + read.mistakes.len();
                    for file in &files {
                        read.file(file);
                    }
                    if read.found.len() + read.mistakes.len() == before {
                        read.wrong(&shown(place), "has no CustomResourceDefinition");
                    }
                }
                Err(why) => read.wrong(&shown(place), &why),
            }
        }
        read
    }

    /// Notes a mistake.
    pub(super) fn wrong(&mut self, place: &str, why: &str) {
        self.mistakes.push(format!("{place}: {why}"));
    }

    fn file(&mut self, path: &Path) {
        let name = shown(path);
        let text = match text(path) {
            Ok(text) => text,
            Err(why) => return self.wrong(&name, &why),
        };
        for document in documents(text.strip_prefix('\u{feff}').unwrap_or(&text)) {
            let place = format!("{name}:{}", document.line);
            match document.parse() {
                Ok(object) => self.object(place, object),
                Err(problem) => self.wrong(&format!("{name}:{}", problem.line), &problem.message),
            }
        }
    }

    fn object(&mut self, place: String, mut object: Value) {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if kind.ends_with("List")
            && let Value::Array(items) = object["items"].take()
        {
            return items.into_iter().for_each(|item| self.object(place.clone(), item));
        }
        match kind.as_str() {
            "CustomResourceDefinition" => {}
            // Kustomize keeps its own file beside them.
            "Kustomization" => return,
            "" => return self.wrong(&place, "is no object: it has no `kind`"),
            other => return self.wrong(&place, &format!("is a {other}, not a CustomResourceDefinition")),
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if let Some(first) = self.places.get(&name) {
            let why = format!("`{name}` is defined in {first}, too");
            return self.wrong(&place, &why);
        }
        self.places.insert(name, place.clone());
        self.found.push(Definition { place, object });
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// A file, or those of a folder.
fn files(place: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    if !std::fs::metadata(place).map_err(failed)?.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(place).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        if !ENDINGS.contains(&ending) || !path.is_file() {
            continue;
        }
        files.push(path);
        if files.len() > MAX.0 {
            return Err(format!("has more than {} files", MAX.0));
        }
    }
    files.sort();
    Ok(files)
}

fn text(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    if !path.is_file() {
        return Err("is no file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX.1 + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > MAX.1 {
        return Err(format!("is larger than {} MiB", MAX.1 >> 20));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRD: &str = "kind: CustomResourceDefinition\nmetadata: { name: a.example.com }\n";

    #[test]
    fn every_mistake_is_told_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
        write("a.yaml", format!("# two\n---\n{CRD}---\n{}", CRD.replace("a.example", "b.example")).as_bytes());
        write("b.json", br#"{"kind":"List","items":[{"kind":"CustomResourceDefinition","metadata":{"name":"c"}},{}]}"#);
        write("c.yml", CRD.as_bytes());
        write("d.yaml", b"kind: Deployment\n---\nkind: [\n");
        write("e.yaml", b"\xff\xfe");
        write("kustomization.yaml", b"kind: Kustomization\nresources: [a.yaml]\n");
        write("README.md", b"# not read");
        std::fs::create_dir(folder.path().join("empty")).unwrap();
        let places = ["", "empty", "none"].map(|name| folder.path().join(name));
        let read = Definitions::read(&places);
        let own = |text: &str| text.replace(&format!("{}/", folder.path().display()), "");
        let found: Vec<String> = read.found.iter().map(|one| own(&one.place)).collect();
        assert_eq!(found, ["a.yaml:3", "a.yaml:6", "b.json:1"]);
        let mistakes: Vec<String> = read.mistakes.iter().map(|mistake| own(mistake)).collect();
        let wanted = [
            "b.json:1: is no object: it has no `kind`",
            "c.yml:1: `a.example.com` is defined in a.yaml:3, too",
            "d.yaml:1: is a Deployment, not a CustomResourceDefinition",
            "d.yaml:3: ",
            "e.yaml: is not UTF-8 text",
            "empty: has no file that ends in .yaml, .yml or .json",
            "none: cannot be read: No such file or directory",
        ];
        assert_eq!(mistakes.len(), wanted.len(), "{mistakes:#?}");
        for (mistake, wanted) in mistakes.iter().zip(wanted) {
            assert!(mistake.starts_with(wanted), "{mistake}");
        }
    }
}
