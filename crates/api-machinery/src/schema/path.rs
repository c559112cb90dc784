//! Where in an object something is, without allocating until someone asks for the text.

use std::fmt;

/// A place in a JSON tree, as a chain of steps that live on the stack of the walk.
#[derive(Debug, Clone, Copy)]
pub enum Path<'a> {
    /// The object itself.
    Root,
    /// A field of what is at the parent.
    Field(&'a Path<'a>, &'a str),
    /// An entry of the list at the parent.
    Index(&'a Path<'a>, usize),
    /// An entry of the map at the parent.
    Key(&'a Path<'a>, &'a str),
}

impl<'a> Path<'a> {
    /// A field below this place.
    pub fn field(&'a self, name: &'a str) -> Path<'a> {
        Path::Field(self, name)
    }

    /// A list entry below this place.
    pub fn index(&'a self, at: usize) -> Path<'a> {
        Path::Index(self, at)
    }

    /// A map entry below this place.
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    /// The path without indices, as Go's decoder names fields.
    pub fn names(&self) -> String {
        match self {
            Path::Root => String::new(),
            Path::Index(parent, _) => parent.names(),
            Path::Field(parent, name) | Path::Key(parent, name) => {
                let parent = parent.names();
                if parent.is_empty() { (*name).to_owned() } else { format!("{parent}.{name}") }
            }
        }
    }
}

/// `spec.containers[0].resources.limits[cpu]`.
impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => formatter.write_str(name),
            Path::Field(parent, name) => write!(formatter, "{parent}.{name}"),
            Path::Index(parent, at) => write!(formatter, "{parent}[{at}]"),
            Path::Key(parent, key) => write!(formatter, "{parent}[{key}]"),
        }
    }
}
