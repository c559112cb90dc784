//! Which files of a crate import from which, as their syntax says, and the circles among them and among the rooms.
//!
//! A room is a file or a folder at the top of a crate. An import counts for the file that defines the name: re-exports are
//! seen through. Methods are not imported, so they make no arrow among the files of a room; but an `impl X` outside of the
//! room of `X` makes each of the two rooms depend on the other. Tests are left out, and so is `main.rs`, which is a crate of
//! its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// A module by the names that lead to it from the root of the crate; the root itself has none.
type Module = Vec<String>;
/// What a path leads to: a module and a name in it, or the module itself.
type Target = (Module, Option<String>);
/// By the file or room that depends on others: those, with the names that it uses of them.
type Arrows = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

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

/// What depends on what: the files of a crate, or its rooms.
pub(super) struct Graph {
    arrows: Arrows,
}

impl Graph {
    /// Reads the files of a crate, given by their path below its `src`: the graph of its files, and that of its rooms.
    pub(super) fn of(sources: &BTreeMap<String, String>) -> (Self, Self) {
        let mut modules: BTreeMap<Module, File> = BTreeMap::new();
        let mut tests: Vec<Module> = Vec::new();
        for (path, text) in sources.iter().filter(|(path, _)| *path != "main.rs") {
            let module = module_of(path);
            let syntax = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
            let mut file = File { path: path.clone(), ..File::default() };
            file.visit_file(&syntax);
            tests.extend(file.tests.drain(..).map(|name| [module.clone(), vec![name]].concat()));
            modules.insert(module, file);
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
        let (mut files, mut rooms) = (Arrows::new(), Arrows::new());
        for (module, file) in &modules {
            let own = files.entry(file.path.clone()).or_default();
            for (target, name) in file.targets(module, &names).into_iter().filter(|(target, _)| target != module) {
                let name = name.unwrap_or_else(|| "self".to_owned());
                own.entry(modules[&target].path.clone()).or_default().insert(name);
            }
        }
        for (from, to) in &files {
            rooms.entry(room_of(from).to_owned()).or_default();
            for (to, names) in to.iter().filter(|(to, _)| room_of(from) != room_of(to)) {
                let names = names.iter().map(|name| format!("{name} for {from}"));
                rooms
                    .entry(room_of(from).to_owned())
                    .or_default()
                    .entry(room_of(to).to_owned())
                    .or_default()
                    .extend(names);
            }
        }
        for (module, file) in &modules {
            for (home, name) in file.foreign_types(module, &names) {
                let (here, home) = (room_of(&file.path).to_owned(), room_of(&modules[&home].path).to_owned());
                for (from, to) in [(&here, &home), (&home, &here)].into_iter().filter(|_| here != home) {
                    let arrow = rooms.entry(from.clone()).or_default().entry(to.clone()).or_default();
                    arrow.insert(format!("impl {name} in {}", file.path));
                }
            }
        }
        (Self { arrows: files }, Self { arrows: rooms })
    }

    /// The groups that all depend on each other, by whatever way.
    pub(super) fn circles(&self) -> BTreeSet<BTreeSet<String>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.arrows.keys().map(|from| (from.as_str(), self.reached_from(from))).collect();
        let circle = |from: &str| -> BTreeSet<String> {
            reached[from].iter().filter(|other| reached[*other].contains(from)).map(|&other| other.to_owned()).collect()
        };
        reached.keys().map(|from| circle(from)).filter(|circle| !circle.is_empty()).collect()
    }

    fn reached_from(&self, from: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut ahead = vec![from];
        while let Some(next) = ahead.pop() {
            for to in self.arrows[next].keys() {
                if reached.insert(to.as_str()) {
                    ahead.push(to);
                }
            }
        }
        reached
    }

    /// The arrows inside a circle, one line for each of its members and what it depends on.
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

/// The file or folder at the top of the crate that a file is, or is in.
fn room_of(path: &str) -> &str {
    path.split_once('/').map_or(path, |(folder, _)| folder).trim_end_matches(".rs")
}

fn module_of(path: &str) -> Module {
    let mut names: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|last| last == "mod") || names == ["lib"] {
        names.pop();
    }
    names
}

/// A path of a `use`, and the name it has from then on.
#[derive(Debug, PartialEq)]
struct Import {
    path: Vec<String>,
    name: String,
}

/// Adds the imports of a tree such as `super::{a, b::{self, C as D}}`.
fn imports(tree: &syn::UseTree, before: &[String], found: &mut Vec<Import>) {
    let below = |name: &syn::Ident| [before, &[name.to_string()]].concat();
    match tree {
        syn::UseTree::Path(path) => imports(&path.tree, &below(&path.ident), found),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| imports(tree, before, found)),
        syn::UseTree::Glob(_) => {
            found.push(Import { path: [before, &["*".to_owned()]].concat(), name: "*".to_owned() });
        }
        syn::UseTree::Name(name) if name.ident == "self" => {
            found.extend(before.last().map(|name| Import { path: before.to_vec(), name: name.clone() }));
        }
        syn::UseTree::Name(name) => found.push(Import { path: below(&name.ident), name: name.ident.to_string() }),
        syn::UseTree::Rename(rename) if rename.ident == "self" => {
            found.push(Import { path: before.to_vec(), name: rename.rename.to_string() });
        }
        syn::UseTree::Rename(rename) => {
            found.push(Import { path: below(&rename.ident), name: rename.rename.to_string() });
        }
    }
}

/// What a file says of others.
#[derive(Default)]
struct File {
    path: String,
    uses: Vec<Import>,
    reexports: Vec<Import>,
    /// Paths in the code beside `use`.
    paths: Vec<Vec<String>>,
    /// The types that it gives methods to.
    types: BTreeSet<Vec<String>>,
    /// Its modules of tests that are files of their own.
    tests: Vec<String>,
}

impl<'syntax> Visit<'syntax> for File {
    fn visit_item_mod(&mut self, module: &'syntax syn::ItemMod) {
        let is_test = |attribute: &syn::Attribute| {
            attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok_and(|what| what == "test")
        };
        if !module.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, module);
        } else if module.content.is_none() {
            self.tests.push(module.ident.to_string());
        }
    }

    fn visit_item_use(&mut self, item: &'syntax syn::ItemUse) {
        let is_private = matches!(item.vis, syn::Visibility::Inherited);
        imports(&item.tree, &[], if is_private { &mut self.uses } else { &mut self.reexports });
    }

    fn visit_item_impl(&mut self, item: &'syntax syn::ItemImpl) {
        if let (None, syn::Type::Path(of)) = (&item.trait_, &*item.self_ty) {
            self.types.insert(names_of(&of.path));
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_path(&mut self, path: &'syntax syn::Path) {
        if path.segments.len() > 1 {
            self.paths.push(names_of(path));
        }
        visit::visit_path(self, path);
    }

    /// What a macro makes of its tokens is not known; the paths among them are.
    fn visit_macro(&mut self, call: &'syntax syn::Macro) {
        self.visit_path(&call.path);
        self.read_tokens(call.tokens.clone());
    }

    fn visit_visibility(&mut self, _: &'syntax syn::Visibility) {}
}

fn names_of(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

impl File {
    /// Notes the paths among tokens.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) if colons == 2 => path.push(name.to_string()),
                TokenTree::Ident(name) => self
                    .paths
                    .extend(Some(std::mem::replace(&mut path, vec![name.to_string()])).filter(|path| path.len() > 1)),
                TokenTree::Punct(mark) if mark.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => self.read_tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            colons = 0;
        }
        self.paths.extend(Some(path).filter(|path| path.len() > 1));
    }

    /// Everything of the crate that the file names.
    fn targets(&self, module: &Module, names: &Names) -> Vec<Target> {
        let mut targets: Vec<Target> =
            self.uses.iter().filter_map(|import| names.resolve(module, &import.path)).collect();
        targets.extend(self.paths.iter().filter_map(|path| self.target(module, path, names)));
        targets
    }

    /// What a path in the code leads to.
    fn target(&self, module: &Module, path: &[String], names: &Names) -> Option<Target> {
        let import = self.uses.iter().find(|import| import.name == path[0]);
        match import.and_then(|import| names.resolve(module, &import.path)) {
            Some((imported, None)) => Some(names.below(imported, &path[1..])),
            Some(imported) => Some(imported),
            None => names.resolve(module, path),
        }
    }

    /// The types of the crate that the file gives methods to and does not define, and where they are.
    fn foreign_types(&self, module: &Module, names: &Names) -> Vec<(Module, String)> {
        let targets = self.types.iter().filter_map(|path| self.target(module, path, names));
        targets.filter_map(|(home, name)| Some((home, name?))).filter(|(home, _)| home != module).collect()
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
