//! Which files of a crate import from which, as their text says, and the circles among them.
//!
//! An import counts for the file that defines the name: re-exports are seen through. Methods are not imported, so they make
//! no arrow. Tests are left out, and so is `main.rs`, which is a crate of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A module by the names that lead to it from the root of the crate; the root itself has none.
type Module = Vec<String>;
/// What a path leads to: a module and a name in it, or the module itself.
type Target = (Module, Option<String>);

/// The `.rs` files of a folder and those below it, by their path from there.
pub(super) fn sources(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.insert(name, std::fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

/// The files of a crate and who imports from whom.
pub(super) struct Graph {
    /// By importing file: the files that it imports from, with the names.
    arrows: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Graph {
    /// Reads the files of a crate, given by their path below its `src`.
    pub(super) fn of(sources: &BTreeMap<String, String>) -> Self {
        let mut modules: BTreeMap<Module, File> = BTreeMap::new();
        let mut tests: Vec<Module> = Vec::new();
        for (path, text) in sources.iter().filter(|(path, _)| *path != "main.rs") {
            let module = module_of(path);
            let (text, own_tests) = without_tests(&without_literals(text));
            tests.extend(own_tests.into_iter().map(|name| [module.clone(), vec![name]].concat()));
            modules.insert(module, File::of(path, &text));
        }
        modules.retain(|module, _| !tests.iter().any(|tests| module.starts_with(tests)));
        let mut names = Names { modules: modules.keys().cloned().collect(), reexports: BTreeMap::new() };
        // A re-export of a re-export is known one round later.
        for _ in 0..4 {
            for (module, file) in &modules {
                for Import { path, name } in &file.reexports {
                    if let Some(target) = names.resolve(module, path).filter(|target| target.0 != *module) {
                        names.reexports.insert((module.clone(), name.clone()), target);
                    }
                }
            }
        }
        let mut arrows: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (module, file) in &modules {
            let own = arrows.entry(file.path.clone()).or_default();
            for (target, name) in file.targets(module, &names).into_iter().filter(|(target, _)| target != module) {
                let name = name.unwrap_or_else(|| "self".to_owned());
                own.entry(modules[&target].path.clone()).or_default().insert(name);
            }
        }
        Self { arrows }
    }

    /// The groups of files that all import from each other, by whatever way.
    pub(super) fn circles(&self) -> BTreeSet<BTreeSet<String>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.arrows.keys().map(|file| (file.as_str(), self.reached_from(file))).collect();
        let circle = |file: &str| -> BTreeSet<String> {
            reached[file].iter().filter(|other| reached[*other].contains(file)).map(|&other| other.to_owned()).collect()
        };
        reached.keys().map(|file| circle(file)).filter(|circle| !circle.is_empty()).collect()
    }

    fn reached_from(&self, file: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut ahead = vec![file];
        while let Some(next) = ahead.pop() {
            for to in self.arrows[next].keys() {
                if reached.insert(to.as_str()) {
                    ahead.push(to);
                }
            }
        }
        reached
    }

    /// The arrows inside a circle, one line for each file and file it imports from.
    pub(super) fn arrows_in(&self, circle: &BTreeSet<String>) -> String {
        let mut text = String::new();
        for from in circle {
            for (to, names) in self.arrows[from].iter().filter(|(to, _)| circle.contains(*to)) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                text.push_str(&format!("    {from} -> {to} {{{}}}\n", names.join(", ")));
            }
        }
        text
    }
}

fn module_of(path: &str) -> Module {
    let mut names: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|last| last == "mod") || names == ["lib"] {
        names.pop();
    }
    names
}

/// The text with its comments and what is in its quotes taken out.
fn without_literals(text: &str) -> String {
    static LITERAL: LazyLock<Regex> = LazyLock::new(|| {
        let comments = r"//[^\n]*|/\*.*?\*/";
        let texts = r##"b?r"[^"]*"|b?r#".*?"#|b?"(?:\\.|[^"\\])*""##;
        let letters = r"b?'(?:\\x..|\\u\{[^}]*\}|\\.|[^'\\\n])'";
        Regex::new(&format!("(?s){comments}|{texts}|{letters}")).unwrap()
    });
    let stand_in = |found: &Captures<'_>| if found[0].starts_with('/') { " " } else { "\"\"" };
    LITERAL.replace_all(text, stand_in).into_owned()
}

/// The text without its modules of tests, and the names of those that are files of their own.
fn without_tests(text: &str) -> (String, Vec<String>) {
    static TESTS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*([;{])").unwrap());
    let mut kept = String::new();
    let mut files = Vec::new();
    let mut rest = text;
    while let Some(found) = TESTS.captures(rest) {
        let whole = found.get(0).unwrap();
        kept.push_str(&rest[..whole.start()]);
        rest = &rest[whole.end()..];
        if &found[2] == ";" {
            files.push(found[1].to_owned());
        } else {
            rest = &rest[end_of_block(rest)..];
        }
    }
    kept.push_str(rest);
    (kept, files)
}

/// Where a block ends whose opening brace is just before the text.
fn end_of_block(text: &str) -> usize {
    let mut depth = 1;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// A path of a `use`, and the name it has from then on.
#[derive(Debug, PartialEq)]
struct Import {
    path: Vec<String>,
    name: String,
}

/// The imports of a tree such as `super::{a, b::{self, C as D}}`.
fn imports(tree: &str) -> Vec<Import> {
    let tree = tree.trim();
    if let Some((prefix, inner)) = tree.split_once('{') {
        let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
        return at_commas(inner).into_iter().flat_map(|part| imports(&format!("{prefix}{part}"))).collect();
    }
    let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias.trim())));
    let mut path: Vec<String> = path.split("::").map(|name| name.trim().to_owned()).collect();
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let Some(last) = path.last().filter(|last| !last.is_empty()) else { return Vec::new() };
    let name = alias.unwrap_or(last).to_owned();
    vec![Import { path, name }]
}

/// The parts of a list, whose own lists stay whole.
fn at_commas(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[start..].trim());
    parts.into_iter().filter(|part| !part.is_empty()).collect()
}

/// What a file says of others.
struct File {
    path: String,
    uses: Vec<Import>,
    reexports: Vec<Import>,
    /// Paths in the code beside `use`.
    paths: Vec<Vec<String>>,
}

impl File {
    fn of(path: &str, text: &str) -> Self {
        static USE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);").unwrap());
        static PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?:^|[^\w:])(\w+(?:::\w+)+)").unwrap());
        let (mut uses, mut reexports) = (Vec::new(), Vec::new());
        for found in USE.captures_iter(text) {
            let list = if found.get(1).is_some() { &mut reexports } else { &mut uses };
            list.extend(imports(&found[2]));
        }
        let code = USE.replace_all(text, " ");
        let paths = PATH.captures_iter(&code).map(|found| found[1].split("::").map(str::to_owned).collect()).collect();
        Self { path: path.to_owned(), uses, reexports, paths }
    }

    /// Everything of the crate that the file names.
    fn targets(&self, module: &Module, names: &Names) -> Vec<Target> {
        let mut targets = Vec::new();
        let mut local: BTreeMap<&str, Module> = BTreeMap::new();
        for import in &self.uses {
            if let Some(target) = names.resolve(module, &import.path) {
                if target.1.is_none() {
                    local.insert(&import.name, target.0.clone());
                }
                targets.push(target);
            }
        }
        for path in &self.paths {
            match local.get(path[0].as_str()) {
                Some(imported) => targets.push(names.below(imported.clone(), &path[1..])),
                None => targets.extend(names.resolve(module, path)),
            }
        }
        targets
    }
}

/// The modules of a crate, and which of their names are defined elsewhere.
struct Names {
    modules: BTreeSet<Module>,
    reexports: BTreeMap<(Module, String), Target>,
}

impl Names {
    /// What a path in a module leads to; none if out of the crate.
    fn resolve(&self, module: &Module, path: &[String]) -> Option<Target> {
        let child = |name: &str| self.modules.contains(&[module.clone(), vec![name.to_owned()]].concat());
        match path[0].as_str() {
            "crate" => Some(self.below(Vec::new(), &path[1..])),
            "self" => Some(self.below(module.clone(), &path[1..])),
            "super" => {
                let up = path.iter().take_while(|name| *name == "super").count();
                Some(self.below(module[..module.len().saturating_sub(up)].to_vec(), &path[up..]))
            }
            name if child(name) => Some(self.below(module.clone(), path)),
            _ => None,
        }
    }

    /// What the rest of a path leads to, from a module on.
    fn below(&self, mut module: Module, path: &[String]) -> Target {
        let mut rest = path;
        while let Some((name, further)) = rest.split_first() {
            let child = [module.clone(), vec![name.clone()]].concat();
            if self.modules.contains(&child) {
                module = child;
            } else {
                match self.reexports.get(&(module.clone(), name.clone())) {
                    Some((defined, None)) => module.clone_from(defined),
                    Some(target) => return target.clone(),
                    None => return (module, Some(name.clone())),
                }
            }
            rest = further;
        }
        (module, None)
    }
}
