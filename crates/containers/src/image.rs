//! What is known of images that everybody means by their name: their shell, as whom they run, what they have.

/// The shell of an image and the tools beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Shell {
    #[default]
    Unknown,
    /// Busybox's.
    Busybox,
    /// dash and the GNU tools.
    Dash,
    /// bash and the GNU tools.
    Bash,
    /// There is none, nor anything else.
    Nothing,
}

/// Groups with their names.
type Groups = &'static [(u32, &'static str)];

/// What is known of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Image {
    pub(crate) shell: Shell,
    /// Whether it is nothing but a shell and its tools: root's, with no variables but `PATH`, at `/`.
    pub(crate) bare: bool,
    /// The groups that root is in beside its own, where that is known.
    pub(crate) root_groups: Option<Groups>,
    /// The paths at which its web server answers: all that there are.
    pub(crate) pages: Option<&'static [&'static str]>,
}

/// Images that are a shell and its tools, with the groups of root.
const BARE: [(&str, Shell, Option<Groups>); 9] = [
    ("busybox", Shell::Busybox, Some(&[(10, "wheel")])),
    ("alpine", Shell::Busybox, None),
    ("bash", Shell::Busybox, None),
    ("debian", Shell::Dash, Some(&[])),
    ("ubuntu", Shell::Dash, Some(&[])),
    ("fedora", Shell::Bash, Some(&[])),
    ("centos", Shell::Bash, Some(&[])),
    ("amazonlinux", Shell::Bash, Some(&[])),
    ("rockylinux", Shell::Bash, Some(&[])),
];
/// Images of servers and languages upon Debian, or upon Alpine where their tag says so.
const UPON: &str = "nginx httpd redis postgres mysql mariadb mongo memcached rabbitmq python node golang ruby php openjdk \
                    eclipse-temurin wordpress haproxy perl tomcat buildpack-deps";

/// The name of an image without registry, path, tag and digest.
pub(crate) fn base_name(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    name.split(':').next().unwrap_or_default()
}

/// Whether the image is the one that everybody means by that name: others of the name may be anything.
fn is_official(image: &str) -> bool {
    let (image, name) = (image.split('@').next().unwrap_or_default(), base_name(image));
    let home = image.rfind(name).and_then(|at| image.get(..at)).unwrap_or_default();
    let home = home.strip_prefix("docker.io/").unwrap_or(home);
    matches!(
        home,
        "" | "library/" | "registry.k8s.io/e2e-test-images/" | "registry.k8s.io/" | "gcr.io/google_containers/"
    )
}

/// Whether an image is a shell: without a command it ends at once, as it has no terminal.
pub(crate) fn ends_alone(image: &str) -> bool {
    let name = base_name(image);
    name == "python" || BARE.iter().any(|(own, ..)| *own == name)
}

impl Image {
    /// What is known of an image by its name.
    pub(crate) fn named(image: &str) -> Self {
        if is_of_curl(image) {
            return Self { shell: Shell::Busybox, ..Self::default() };
        }
        if !is_official(image) {
            return Self::default();
        }
        let name = base_name(image);
        if name == "pause" {
            return Self { shell: Shell::Nothing, bare: true, ..Self::default() };
        }
        if let Some((_, shell, groups)) = BARE.iter().find(|(own, ..)| *own == name) {
            return Self { shell: *shell, bare: true, root_groups: *groups, pages: None };
        }
        if !is_upon(name) {
            return Self::default();
        }
        let is_alpine = image.split('@').next().unwrap_or_default().contains("alpine");
        let pages = match name {
            "nginx" => Some(&["/", "/index.html", "/50x.html"][..]),
            "httpd" => Some(&["/", "/index.html"][..]),
            _ => None,
        };
        Self { shell: if is_alpine { Shell::Busybox } else { Shell::Dash }, pages, ..Self::default() }
    }
}

/// The user of an image's programs, where the pod says none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    /// Somebody whose number only the image knows.
    Named(&'static str),
}

/// Whom an image is run as, if that is root or somebody whose number it does not say; others are not root, or not known.
pub(crate) fn user(image: &str) -> Option<User> {
    if is_of_curl(image) {
        return Some(User::Named("curl_user"));
    }
    match base_name(image) {
        _ if !is_official(image) => None,
        "memcached" => Some(User::Named("memcache")),
        // Whose it is depends on its version.
        "haproxy" => None,
        name => (BARE.iter().any(|(own, ..)| *own == name) || is_upon(name)).then_some(User::Root),
    }
}

fn is_upon(name: &str) -> bool {
    UPON.split_ascii_whitespace().any(|own| own == name)
}

/// Whether an image is that of curl's own people.
fn is_of_curl(image: &str) -> bool {
    let image = image.split('@').next().unwrap_or_default();
    let home = image.strip_prefix("docker.io/").or(image.strip_prefix("quay.io/")).unwrap_or(image);
    home == "curlimages/curl" || home.starts_with("curlimages/curl:") || home.starts_with("curl/curl")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_by_their_names() {
        for (image, shell, bare) in [
            ("busybox:1.36", Shell::Busybox, true),
            ("docker.io/library/ubuntu@sha256:1", Shell::Dash, true),
            ("nginx:1.27", Shell::Dash, false),
            ("nginx:1.27-alpine", Shell::Busybox, false),
            ("registry.k8s.io/pause:3.10", Shell::Nothing, true),
            ("acme/busybox", Shell::Unknown, false),
            ("acme/web:1", Shell::Unknown, false),
        ] {
            let known = Image::named(image);
            assert_eq!((known.shell, known.bare), (shell, bare), "{image}");
        }
    }
}
