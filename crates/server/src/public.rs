//! How a server is reached from other machines: where it listens, by which name, how it shows that it is the one, what
//! stands before its clusters.

use std::net::SocketAddr;
use std::sync::Arc;

use super::front::Front;

/// How connections of a public server are secured.
#[derive(Clone)]
pub enum Certificate {
    /// By a certificate of the server's own authority, for these names and addresses; made again when they change.
    Own(Vec<String>),
    /// By this certificate (a chain, PEM) and its key.
    Given {
        /// The certificate, and those that vouch for it.
        chain: String,
        /// Its key.
        key: String,
        /// The authority that clients are to trust, where it is none that they trust anyway.
        authority: Option<String>,
    },
    /// Not at all: a proxy before the server does that.
    Proxied {
        /// As for a given certificate, of the proxy's.
        authority: Option<String>,
    },
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A key is not among what is printed.
        formatter.write_str(match self {
            Self::Own(_) => "Own",
            Self::Given { .. } => "Given",
            Self::Proxied { .. } => "Proxied",
        })
    }
}

/// A server that other machines reach. Its own face and its clusters' client certificates are not to be had there: who asks
/// for a cluster names it in the path and shows a bearer token.
#[derive(Clone)]
pub struct Public {
    /// Where to listen; port 0 for the last one, if it is free, else any.
    pub listen: SocketAddr,
    /// How connections are secured.
    pub certificate: Certificate,
    /// What clients call it, without a slash at the end: `https://labs.example.org/kubernetes`. Without one it is the address.
    pub url: Option<String>,
    /// The part of the path before the name of a cluster: `seats`.
    pub folder: String,
    /// What answers all other requests.
    pub front: Arc<dyn Front>,
}

impl std::fmt::Debug for Public {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let public = &mut formatter.debug_struct("Public");
        public.field("listen", &self.listen).field("url", &self.url).finish_non_exhaustive()
    }
}

/// The path of a URL, without a slash at the end: `/kubernetes`, or nothing.
pub(super) fn path_of(url: &str) -> &str {
    let after = url.split_once("://").map_or(url, |(_, after)| after);
    after.find('/').map_or("", |at| &after[at..]).trim_end_matches('/')
}

/// A path below the server's own, whether a proxy before it takes that away or not.
pub(super) fn without<'p>(path: &'p str, base: &str) -> &'p str {
    match path.strip_prefix(base) {
        Some("") => "/",
        Some(rest) if rest.starts_with('/') => rest,
        _ => path,
    }
}

/// A part of the path without its first folder: `seats` and `/seats/0-1/api` make `0-1/api`.
pub(super) fn inside<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    path.strip_prefix('/')?.strip_prefix(folder)?.strip_prefix('/')
}

/// The name of a cluster that a path inside the folder begins with, and the rest of the path: the part of the name before its
/// first hyphen, such as the number of a shard, is an element of its own, by which routers tell shards apart.
pub(super) fn named(inner: &str) -> (String, &str) {
    let (group, rest) = inner.split_once('/').unwrap_or((inner, ""));
    let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
    (format!("{group}-{name}"), rest)
}

/// The path of a cluster inside the folder.
pub(super) fn path_to(name: &str) -> String {
    name.replacen('-', "/", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_two_elements_of_the_path() {
        assert_eq!(path_to("0-17"), "0/17");
        for (inner, name, rest) in [
            ("0/17/api/v1", "0-17", "api/v1"),
            ("0/17", "0-17", ""),
            ("0/17/", "0-17", ""),
            ("0", "0-", ""),
            ("", "-", ""),
            ("0//api", "0-", "api"),
            ("0/17%2f..%2f18/api", "0-17%2f..%2f18", "api"),
        ] {
            assert_eq!(named(inner), (name.to_owned(), rest), "{inner}");
        }
    }

    #[test]
    fn a_prefix_is_taken_away_once_and_only_where_it_stands() {
        for (url, path, rest) in [
            ("https://h", "/seats/0-1/api", "/seats/0-1/api"),
            ("https://h:8443/", "/", "/"),
            ("https://h/labs", "/labs", "/"),
            ("https://h/labs/", "/labs/join", "/join"),
            ("https://h/labs", "/join", "/join"),
            ("https://h/labs", "/labsx/join", "/labsx/join"),
            ("https://h/a/b", "/a/b/c", "/c"),
        ] {
            assert_eq!(without(path, path_of(url)), rest, "{url} {path}");
        }
    }

    #[test]
    fn only_what_lies_in_the_folder_is_inside() {
        for (path, inner) in [
            ("/seats/0-1/api", Some("0-1/api")),
            ("/seats/", Some("")),
            ("/seats", None),
            ("//seats/0-1", None),
            ("/Seats/0-1", None),
            ("/%73eats/0-1", None),
            ("/seatsx/0-1", None),
        ] {
            assert_eq!(inside(path, "seats"), inner, "{path}");
        }
    }
}
