//! The environment variables that klab reads, each with what it does; `docs/look-up/environment.md` is made from them.

use std::ffi::OsString;
use std::path::PathBuf;

/// One variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it does, in Markdown.
    pub meaning: &'static str,
    /// Whom it is for.
    pub audience: Audience,
}

/// Whom a variable is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Those who use klab.
    Users,
    /// Those who test klab.
    Tests,
    /// Other programs; klab reads it as they do.
    Others,
}

macro_rules! variables {
    ($($constant:ident $audience:ident $meaning:literal;)*) => {
        $(
            #[doc = $meaning]
            pub const $constant: Variable =
                Variable { name: stringify!($constant), meaning: $meaning, audience: Audience::$audience };
        )*
        /// All of them.
        pub const ALL: &[Variable] = &[$($constant),*];
    };
}

variables! {
    KLAB_HOME Users "klab's state: records, journals, kubeconfigs, embedded clusters; `$XDG_STATE_HOME/klab` by default";
    KLAB_PROVIDER Users "who makes the cluster: `sim`, `kind` or `aks`, or `existing` for one that is there; `--provider` overrides it, and it overrides the lab file";
    KLAB_SIM_PORT Users "the port of the embedded cluster's server; the last one if it is free, else any, by default";
    KLAB_LISTEN Users "where `klab host` listens, such as `0.0.0.0:8443`; `--listen` overrides it, and klab's image sets it";
    KLAB_SEAT Users "on kind, a name for one of several people on a machine: `KLAB_SEAT=s07` makes the cluster `klab-LAB-s07`";
    KLAB_KIND_SIZES Users "on kind, how machines get the size of a VM: `shrink` mounts no generated files, `full` mounts them on untested container runtimes as well";
    KLAB_KIND_READY Users "on kind, how many seconds nodes have to become Ready; 180 by default";
    KLAB_PIN Users "your PIN, for `klab join` without a terminal";
    KLAB_AZ Users "the az to use, in place of the one on PATH; klab then reads no login itself unless `AZURE_CONFIG_DIR` says where it is";
    KLAB_AKS_POLL Users "least time between two looks at Azure, such as `2s`; 250 ms by default, growing to 10 s the longer something takes";
    KLAB_FAULT Tests "kills klab `before:N` or `after:N`, the N-th entry of its journal";
    KLAB_KIND_LATE Tests "how many milliseconds klab waits for containers that appear after a failure of kind";
    KLAB_CLOCK_TIMES Tests "how many times as fast as the machine's the clock of embedded clusters goes; 1 by default";
    KLAB_COMPLETE Others "set by a shell whose completions ask klab, to the shell's name; what to type is then the answer";
    KUBECONFIG Others "which lab is meant where none is named: the one whose kubeconfig it is; and your own kubeconfig, as kubectl reads it, for clusters that klab did not make";
    SHELL Others "the shell that `klab shell` opens";
    ZDOTDIR Others "where zsh reads its files in `klab shell`";
    PATH Others "where programs are found; `klab shell` puts klab's `az` before them where the lab is not on AKS, and klab's `kind` and `docker` where it is embedded";
    HOME Others "where klab's state and az's login are by default";
    USER Others "your name in a class, where `klab join` has none";
    XDG_STATE_HOME Others "where klab's state is by default";
    COLUMNS Others "how many columns results may take; those of the terminal by default";
    COLORTERM Others "`truecolor` or `24bit` where the terminal of `klab watch` shows all colours";
    TERM Others "what the terminal of `klab watch` is: how many colours it has";
    NO_COLOR Others "whatever it says, nothing is coloured";
    NO_PROXY Others "hosts that are reached without a proxy, as kubectl reads it; `no_proxy` works too";
    DOCKER_HOST Others "where the container runtime is";
    KIND_EXPERIMENTAL_PROVIDER Others "the container runtime that kind uses: docker, podman or nerdctl";
    KIND_CLUSTER_NAME Others "the cluster that `klab kind` means where `--name` is not given";
    AZURE_CONFIG_DIR Others "az's folder";
    MIMALLOC_PURGE_DELAY Others "after how many milliseconds the allocator gives memory back; klab's servers and hosts set it to 0";
    MIMALLOC_ALLOW_THP Others "whether the allocator takes memory in pieces of 2 MiB; klab's servers and hosts set it to 0";
}

impl Variable {
    /// Its value, where it has one that is not empty.
    pub fn value(self) -> Option<OsString> {
        std::env::var_os(self.name).filter(|value| !value.is_empty())
    }

    /// Its value as text, where it is some.
    pub fn text(self) -> Option<String> {
        self.value()?.into_string().ok()
    }

    /// Its value as a path.
    pub fn path(self) -> Option<PathBuf> {
        self.value().map(PathBuf::from)
    }

    /// Its value as a number, a duration or the like, where it is one.
    pub fn parsed<T: std::str::FromStr>(self) -> Option<T> {
        self.text()?.parse().ok()
    }

    /// As [`Self::text`], also in lower case, as programs from Unix write it.
    pub fn text_in_either_case(self) -> Option<String> {
        let lower = || std::env::var(self.name.to_lowercase()).ok().filter(|text| !text.is_empty());
        self.text().or_else(lower)
    }
}
