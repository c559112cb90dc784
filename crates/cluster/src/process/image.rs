//! What is known of images that everybody means by their name: their shell, as whom they run, what they have.

/// The shell of an image and the tools beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Shell {
    #[default]
    Unknown,
    /// The image `busybox`.
    Busybox,
    /// Busybox in an image with more than that.
    Alpine,
    /// dash and the GNU tools.
    Debian,
    /// bash and the GNU tools.
    Bash,
    /// There is none, nor anything else.
    Nothing,
}

/// The programs for the network in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tools {
    pub(crate) curl: bool,
    /// Those of busybox: `wget`, `nc`, `nslookup`.
    pub(crate) busybox: bool,
    /// OpenBSD's `nc` and BIND's `nslookup` instead of them.
    pub(crate) others: bool,
}

/// What is known of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Image {
    pub(crate) shell: Shell,
    /// Whether it is nothing but a shell and its tools: root's, with no variables but `PATH`, at `/`, with nothing in `/tmp`.
    pub(crate) bare: bool,
    pub(crate) tools: Tools,
    /// Files that it certainly has, whatever is in them.
    pub(crate) files: &'static [&'static str],
    /// The directory that its web server shows, in which there are no other files.
    pub(crate) pages: Option<&'static str>,
}

/// Images that are a shell and a few tools: without a command they end at once, as nobody types anything.
pub(super) const SHELLS: [&str; 9] =
    ["busybox", "alpine", "ubuntu", "debian", "fedora", "centos", "amazonlinux", "bash", "python"];

/// Files of Kubernetes' image for tests.
// upstream: test/images/agnhost/Dockerfile (v1.36)
const AGNHOST: [&str; 3] = ["/agnhost", "/localhost.crt", "/localhost.key"];

/// The pages of the images of web servers.
const NGINX: (&str, &[&str]) =
    ("/usr/share/nginx/html", &["/usr/share/nginx/html/50x.html", "/usr/share/nginx/html/index.html"]);
const HTTPD: (&str, &[&str]) = ("/usr/local/apache2/htdocs", &["/usr/local/apache2/htdocs/index.html"]);

/// The directories at the top of the image `busybox`.
const BUSYBOX_TOP: [&str; 12] =
    ["bin", "dev", "etc", "home", "lib", "lib64", "proc", "root", "sys", "tmp", "usr", "var"];

const BARE: [(&str, Shell); 10] = [
    ("busybox", Shell::Busybox),
    ("alpine", Shell::Alpine),
    ("bash", Shell::Alpine),
    ("debian", Shell::Debian),
    ("ubuntu", Shell::Debian),
    ("fedora", Shell::Bash),
    ("centos", Shell::Bash),
    ("amazonlinux", Shell::Bash),
    ("rockylinux", Shell::Bash),
    ("agnhost", Shell::Alpine),
];
/// Images of servers and languages upon Debian, or upon Alpine where their tag says so.
const UPON: [&str; 21] = [
    "nginx",
    "httpd",
    "redis",
    "postgres",
    "mysql",
    "mariadb",
    "mongo",
    "memcached",
    "rabbitmq",
    "python",
    "node",
    "golang",
    "ruby",
    "php",
    "openjdk",
    "eclipse-temurin",
    "wordpress",
    "haproxy",
    "perl",
    "tomcat",
    "buildpack-deps",
];

/// Programs that busybox has, beside those that are followed here.
const APPLETS: [&str; 92] = [
    "adduser",
    "addgroup",
    "arch",
    "arp",
    "arping",
    "awk",
    "base64",
    "bc",
    "cal",
    "chgrp",
    "chroot",
    "cksum",
    "cmp",
    "comm",
    "crond",
    "crontab",
    "dc",
    "deluser",
    "df",
    "diff",
    "dmesg",
    "du",
    "egrep",
    "factor",
    "fgrep",
    "find",
    "fold",
    "free",
    "ftpget",
    "getopt",
    "gunzip",
    "gzip",
    "hexdump",
    "httpd",
    "id",
    "ifconfig",
    "install",
    "ip",
    "ipcalc",
    "kill",
    "killall",
    "less",
    "link",
    "ln",
    "logger",
    "login",
    "logname",
    "lsof",
    "md5sum",
    "mkfifo",
    "mknod",
    "mktemp",
    "more",
    "nc",
    "netstat",
    "nice",
    "nl",
    "nohup",
    "nproc",
    "nslookup",
    "od",
    "passwd",
    "paste",
    "patch",
    "pgrep",
    "pidof",
    "ping",
    "pkill",
    "ps",
    "readlink",
    "realpath",
    "sed",
    "sha1sum",
    "sha256sum",
    "split",
    "strings",
    "su",
    "tar",
    "telnet",
    "time",
    "top",
    "traceroute",
    "tty",
    "uname",
    "unzip",
    "uptime",
    "vi",
    "watch",
    "wget",
    "which",
    "xargs",
    "xxd",
];
/// Programs that busybox certainly does not have.
const STRANGERS: [&str; 12] =
    ["curl", "bash", "zsh", "python", "python3", "node", "java", "git", "apt", "apt-get", "yum", "jq"];

impl Shell {
    /// Whether its `sh` is dash, beside the GNU tools.
    pub(super) fn is_dash(self) -> bool {
        matches!(self, Self::Debian | Self::Bash)
    }

    /// Whether its `sh` and its tools are busybox's.
    pub(super) fn is_busybox(self) -> bool {
        matches!(self, Self::Busybox | Self::Alpine)
    }

    pub(crate) fn is_known(self) -> bool {
        self != Self::Unknown
    }

    /// Whether a program is certainly not there.
    pub(crate) fn lacks(self, name: &str) -> bool {
        match self {
            Self::Busybox => STRANGERS.contains(&name) || is_no_program(name),
            Self::Alpine | Self::Debian | Self::Bash => is_no_program(name),
            Self::Nothing => true,
            Self::Unknown => false,
        }
    }

    /// The groups that root is in beside its own.
    pub(super) fn root_groups(self) -> Option<&'static [(u32, &'static str)]> {
        match self {
            Self::Busybox => Some(&[(10, "wheel")]),
            Self::Alpine => Some(&[
                (1, "bin"),
                (2, "daemon"),
                (3, "sys"),
                (4, "adm"),
                (6, "disk"),
                (10, "wheel"),
                (11, "floppy"),
                (20, "dialout"),
                (26, "tape"),
                (27, "video"),
            ]),
            Self::Debian | Self::Bash => Some(&[]),
            Self::Nothing | Self::Unknown => None,
        }
    }

    /// The directories at its top, where there are no others.
    pub(super) fn top(self) -> Option<&'static [&'static str]> {
        (self == Self::Busybox).then_some(&BUSYBOX_TOP)
    }
}

/// Whether a program is one that every image with a shell has.
pub(crate) fn is_of_every_shell(name: &str) -> bool {
    [
        "sh", "cat", "echo", "ls", "env", "printenv", "hostname", "id", "pwd", "date", "true", "false", "test", "[",
        "sleep", "touch", "rm", "mkdir", "head", "tail", "grep", "printf", "wc", "sort", "cp", "mv", "cut", "tr",
        "seq", "basename", "dirname",
    ]
    .contains(&name)
}

/// Whether a name says that it is none: people try what happens.
fn is_no_program(name: &str) -> bool {
    let known = APPLETS.contains(&name);
    !known
        && ["does-not-exist", "doesnotexist", "nonexistent", "no-such-", "not-a-"]
            .iter()
            .any(|part| name.contains(part))
}

/// The name of an image without registry, path, tag and digest.
pub(super) fn base_name(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    name.split(':').next().unwrap_or_default()
}

/// Whether the image is the one that everybody means by that name: others of the name may be anything.
pub(super) fn is_official(image: &str) -> bool {
    let (image, name) = (image.split('@').next().unwrap_or_default(), base_name(image));
    let home = image.rfind(name).and_then(|at| image.get(..at)).unwrap_or_default();
    let home = home.strip_prefix("docker.io/").unwrap_or(home);
    matches!(
        home,
        "" | "library/" | "registry.k8s.io/e2e-test-images/" | "registry.k8s.io/" | "gcr.io/google_containers/"
    )
}

impl Image {
    /// What is known of an image by its name.
    pub(crate) fn named(image: &str) -> Self {
        if is_of_curl(image) {
            let tools = Tools { curl: true, busybox: true, others: false };
            return Self { shell: Shell::Alpine, tools, ..Self::default() };
        }
        if !is_official(image) {
            return Self::default();
        }
        let name = base_name(image);
        if name == "pause" {
            return Self { shell: Shell::Nothing, bare: true, ..Self::default() };
        }
        if let Some((_, shell)) = BARE.iter().find(|(own, _)| *own == name) {
            let others = name == "agnhost";
            let busybox = shell.is_busybox();
            let files: &[&str] = if others { &AGNHOST } else { &[] };
            return Self {
                shell: *shell,
                bare: true,
                tools: Tools { curl: others, busybox, others },
                files,
                pages: None,
            };
        }
        if !UPON.contains(&name) {
            return Self::default();
        }
        let alpine = image.split('@').next().unwrap_or_default().contains("alpine");
        let tools = Tools { curl: name == "nginx", busybox: alpine, others: false };
        let shell = if alpine { Shell::Alpine } else { Shell::Debian };
        let (pages, files) = match name {
            "nginx" => (Some(NGINX.0), NGINX.1),
            "httpd" => (Some(HTTPD.0), HTTPD.1),
            _ => (None, &[][..]),
        };
        Self { shell, tools, files, pages, ..Self::default() }
    }
}

/// Whom the programs of an image are run as, where nobody says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    Root,
    /// Somebody whose number only the image knows.
    Named(&'static str),
}

/// Whom an image is run as, if that is root or somebody whose number it does not say; others are not root, or not known.
pub(super) fn user(image: &str) -> Option<User> {
    if is_of_curl(image) {
        return Some(User::Named("curl_user"));
    }
    let name = base_name(image);
    match name {
        _ if !is_official(image) => None,
        "memcached" => Some(User::Named("memcache")),
        // Whose it is depends on its version.
        "haproxy" => None,
        _ => (BARE.iter().any(|(own, _)| *own == name) || UPON.contains(&name)).then_some(User::Root),
    }
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
            ("docker.io/library/ubuntu@sha256:1", Shell::Debian, true),
            ("registry.k8s.io/e2e-test-images/agnhost:2.56", Shell::Alpine, true),
            ("nginx:1.27", Shell::Debian, false),
            ("nginx:1.27-alpine", Shell::Alpine, false),
            ("registry.k8s.io/pause:3.10", Shell::Nothing, true),
            ("acme/busybox", Shell::Unknown, false),
            ("acme/web:1", Shell::Unknown, false),
        ] {
            let known = Image::named(image);
            assert_eq!((known.shell, known.bare), (shell, bare), "{image}");
        }
        for (image, curl, busybox) in [
            ("busybox", false, true),
            ("curlimages/curl:8.10.1", true, true),
            ("nginx:1.27", true, false),
            ("debian", false, false),
            ("acme/curl", false, false),
        ] {
            let tools = Image::named(image).tools;
            assert_eq!((tools.curl, tools.busybox), (curl, busybox), "{image}");
        }
        assert!(Shell::Busybox.lacks("curl") && !Shell::Busybox.lacks("wget") && !Shell::Debian.lacks("curl"));
    }
}
