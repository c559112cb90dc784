//! Which images can be pulled. None is; those that are said to be missing fail as missing ones do.

/// Parts of a name or a tag that say that there is no such image.
const ABSENT: [&str; 6] =
    ["does-not-exist", "doesnt-exist", "do-not-exist", "non-existent", "nonexistent", "no-such-image"];

/// What comes of pulling an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pull {
    Present,
    /// There is no such image.
    Missing,
    /// Its name is none; why.
    Invalid(&'static str),
}

/// A reference to an image in its parts.
#[derive(Debug, PartialEq, Eq)]
struct Reference<'a> {
    registry: &'a str,
    /// Without the `library/` of Docker Hub.
    repository: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> Reference<'a> {
    fn of(image: &'a str) -> Self {
        let (name, digest) = match image.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (image, None),
        };
        let (path, tag) = match name.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
            _ => (name, None),
        };
        let (registry, repository) = match path.split_once('/') {
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host, rest),
            _ => ("docker.io", path),
        };
        let library = registry == "docker.io" || registry == "index.docker.io";
        let repository = if library { repository.strip_prefix("library/").unwrap_or(repository) } else { repository };
        let registry = if library { "docker.io" } else { registry };
        Self { registry, repository, tag, digest }
    }

    /// Whether `self`, as a list of missing images has it, means the other one: without a tag it means every tag, with a
    /// `*` at its end all repositories that begin like it.
    fn means(&self, other: &Self) -> bool {
        let name = match self.repository.strip_suffix('*') {
            Some(prefix) => other.repository.starts_with(prefix),
            None => self.repository == other.repository,
        };
        let tag = self.digest.is_some()
            || self.tag.is_none_or(|tag| tag == other.tag.unwrap_or("latest") && other.digest.is_none());
        name && self.registry == other.registry && tag && self.digest.is_none_or(|digest| other.digest == Some(digest))
    }

    /// Why this is no name of an image, if it is none.
    fn fault(&self) -> Option<&'static str> {
        let valid = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "._-/".contains(letter);
        if self.repository.chars().any(|letter| letter.is_ascii_uppercase()) {
            return Some("repository name must be lowercase");
        }
        let repository = !self.repository.is_empty()
            && self.repository.chars().all(valid)
            && self.repository.split('/').all(|part| part.starts_with(|letter: char| letter.is_ascii_alphanumeric()));
        let tag = self.tag.is_none_or(|tag| {
            (1..=128).contains(&tag.len())
                && tag.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter))
                && !tag.starts_with(['.', '-'])
        });
        (!repository || !tag).then_some("invalid reference format")
    }
}

/// What comes of pulling an image, with a list of those that are missing.
pub(super) fn pull(image: &str, missing: &[String]) -> Pull {
    let reference = Reference::of(image);
    if let Some(fault) = reference.fault() {
        return Pull::Invalid(fault);
    }
    let named = |part: &str| ABSENT.iter().any(|absent| part.contains(absent));
    let nowhere = reference.registry.ends_with(".invalid")
        || reference.registry.starts_with("invalid.")
        || reference.registry == "localhost";
    let absent = named(reference.repository) || reference.tag.is_some_and(|tag| named(tag) || tag == "404");
    if nowhere || absent || missing.iter().any(|entry| Reference::of(entry).means(&reference)) {
        return Pull::Missing;
    }
    Pull::Present
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing() {
        let missing =
            ["acme/web:2.0".to_owned(), "ghcr.io/acme/*".to_owned(), "redis".to_owned(), "a@sha256:1".to_owned()];
        for (image, expected) in [
            ("nginx:1.27", Pull::Present),
            ("nginx:does-not-exist", Pull::Missing),
            ("foo:non-existent", Pull::Missing),
            ("webserver:404", Pull::Missing),
            ("localhost/some-image", Pull::Missing),
            ("localhost:5001/app:1", Pull::Present),
            ("registry.invalid/app", Pull::Missing),
            ("acme/web", Pull::Present),
            ("docker.io/acme/web:2.0", Pull::Missing),
            ("acme/web:2.0@sha256:0", Pull::Present),
            ("ghcr.io/acme/api:1", Pull::Missing),
            ("docker.io/library/redis:7", Pull::Missing),
            ("redis@sha256:3", Pull::Missing),
            ("a@sha256:1", Pull::Missing),
            ("a@sha256:2", Pull::Present),
            ("Nginx:1", Pull::Invalid("repository name must be lowercase")),
            ("nginx:", Pull::Invalid("invalid reference format")),
            ("", Pull::Invalid("invalid reference format")),
        ] {
            assert_eq!(pull(image, &missing), expected, "{image}");
        }
    }
}
