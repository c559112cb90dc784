//! Where a command runs: the container's environment, files and identity, from what the pod and the cluster say.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::environment::{Environment, Sources, environment, expanded};
use super::files::{Files, Ground};
use super::given::{given, host_name};
use super::image::{Image, SHELLS, base_name, is_official};
use super::mounts::{Mounting, mounts};
use super::output::Given;
use super::servers::Server;
use super::world::{Identity, Privileges, World};
use crate::cluster::Cluster;
use crate::value::{integer, items, security_setting, text};

/// What is wanted of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// When and how it ends.
    Life,
    /// What the container has printed since it started.
    Log,
    /// What it would print now.
    Exec,
}

/// A container, and what is wanted of it.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) cluster: Option<&'a Arc<Cluster>>,
    pub(crate) pod: &'a Value,
    pub(crate) container: &'a Value,
    /// Its status; `Null` where that does not matter.
    pub(crate) status: &'a Value,
    /// When it started.
    pub(crate) started: Option<Timestamp>,
    pub(crate) purpose: Purpose,
}

impl Place<'_> {
    /// What a command finds here.
    pub(super) fn world(&self) -> (World, Environment) {
        self.world_with(false)
    }

    /// [`Place::world`], where a program that is not followed may have written: one that is known only where servers do.
    pub(super) fn world_with(&self, untrusted: bool) -> (World, Environment) {
        let thorough = self.purpose != Purpose::Life;
        let image = Image::named(text(self.container, &["image"]));
        let environment = environment(&Sources {
            cluster: self.cluster.map(|cluster| &**cluster),
            pod: self.pod,
            container: self.container,
            started: self.started,
            services: thorough || self.speaks_of_services(),
        });
        let mounts = mounts(&Mounting {
            cluster: self.cluster,
            pod: self.pod,
            container: self.container,
            environment: &environment,
            started: self.started,
            looks_back: self.purpose == Purpose::Log,
            thorough,
        });
        let identity = self.identity(image);
        let host = host_name(self.pod).0;
        let ground = Ground {
            mounts,
            given: if thorough {
                given(self.cluster.map(|cluster| &**cluster), self.pod, self.container, self.status)
            } else {
                BTreeMap::default()
            },
            top: image.shell.top(),
            image: image.files,
            pages: image.pages,
            read_only: self.container["securityContext"]["readOnlyRootFilesystem"] == true,
            untrusted: match Server::keeps_to_itself(self.container) {
                _ if !untrusted => &[],
                true => &["/etc", "/run", "/tmp", "/usr", "/var"],
                false => &["/"],
            },
        };
        let owner = identity.as_ref().map(|identity| (identity.user, identity.group));
        let mut variables = environment.known.clone();
        if thorough && image.bare {
            let mut first = |name: &str, value: &str, at: usize| {
                if variables.iter().all(|(own, _)| own != name) {
                    variables.insert(at, (name.to_owned(), value.to_owned()));
                }
            };
            first("HOSTNAME", &host, 0);
            first("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 0);
            let home = if identity.as_ref().is_some_and(|identity| identity.user == 0) { "/root" } else { "/" };
            if variables.iter().all(|(own, _)| own != "HOME") {
                variables.push(("HOME".to_owned(), home.to_owned()));
            }
        }
        let directory = self.container["workingDir"].as_str().filter(|path| !path.is_empty()).map(str::to_owned);
        let world = World {
            variables,
            unknown_variables: environment.unknown.clone(),
            all_variables: image.bare && environment.more.is_none(),
            files: Files::new(ground, owner),
            interventions: Arc::default(),
            start: if thorough { self.started } else { None },
            shell: image.shell,
            tools: image.tools,
            network: None,
            has_unknown_company: false,
            identity,
            privileges: self.privileges(),
            host_name: (!host.is_empty()).then_some(host),
            directory: directory.or_else(|| image.bare.then(|| "/".to_owned())),
            given: Given::default(),
        };
        (world, environment)
    }

    /// Whether its words may be about variables of Services.
    fn speaks_of_services(&self) -> bool {
        let words =
            ["command", "args"].iter().flat_map(|field| items(&self.container[*field])).filter_map(Value::as_str);
        words.into_iter().any(|word| word.contains("_SERVICE_") || word.contains("_PORT"))
    }

    fn identity(&self, image: Image) -> Option<Identity> {
        let of = |field: &str| {
            security_setting(self.pod, self.container, field).as_i64().and_then(|id| u32::try_from(id).ok())
        };
        let user = match of("runAsUser") {
            Some(user) => user,
            None if image.bare => 0,
            None => return None,
        };
        let further =
            items(&self.pod["spec"]["securityContext"]["supplementalGroups"]).iter().filter_map(Value::as_i64);
        let fs_group = integer(self.pod, &["spec", "securityContext", "fsGroup"]);
        let groups = further.chain(fs_group).filter_map(|group| u32::try_from(group).ok()).collect();
        Some(Identity { user, group: of("runAsGroup").unwrap_or_default(), groups })
    }

    // upstream: pkg/securitycontext/util.go AddNoNewPrivileges (v1.36)
    fn privileges(&self) -> Privileges {
        let context = &self.container["securityContext"];
        let is_privileged = context["privileged"] == true;
        let has = |capability: &str| {
            items(&context["capabilities"]["add"]).iter().any(|added| *added == capability || *added == "ALL")
        };
        Privileges {
            gains: context["allowPrivilegeEscalation"] != false,
            network: is_privileged || has("NET_ADMIN") || has("CAP_NET_ADMIN"),
        }
    }

    /// The program of the container and its arguments; none where they are the image's.
    pub(super) fn words(&self, environment: &Environment) -> Option<Vec<String>> {
        let words = |field: &str| {
            let all = items(&self.container[field]).iter().filter_map(Value::as_str);
            all.map(|word| expanded(word, environment)).collect::<Vec<_>>()
        };
        let (command, args) = (words("command"), words("args"));
        let image = text(self.container, &["image"]);
        let (name, known) = (base_name(image), Image::named(image));
        if command.is_empty() {
            match name {
                "pause" => return Some(vec!["/pause".to_owned()]),
                "nonewprivs" if is_official(image) => return Some(vec!["/nnp".to_owned()]),
                "agnhost" if args.is_empty() => return Some(vec!["/agnhost".to_owned(), "pause".to_owned()]),
                "agnhost" => return Some([vec!["/agnhost".to_owned()], args].concat()),
                _ if SHELLS.contains(&name) && args.is_empty() => return Some(vec!["sh".to_owned()]),
                // Whether the image has a program of its own, for which these are, nobody knows.
                _ if self.purpose != Purpose::Life && !known.shell.is_known() => return None,
                _ => {}
            }
        }
        let all = [command, args].concat();
        (!all.is_empty()).then_some(all)
    }
}
