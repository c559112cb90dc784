//! Where a command runs: the container's environment, files and identity, from what the pod and the cluster say.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::environment::{Environment, Sources, environment, expanded};
use super::files::{Files, Ground};
use super::volumes::mounts;
use crate::image::{Image, Shell, User, base_name, ends_alone, user};
use crate::objects::Objects;
use crate::value::{security_setting, words};
use klab_api_machinery::value::{integer, items, text};

/// Who runs a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Further groups.
    pub(crate) groups: Vec<u32>,
}

/// What a command finds in a container.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inside {
    /// The environment, as far as the pod says it, in its order.
    pub(crate) variables: Vec<(String, String)>,
    /// Variables that are there, though their value is not known: why.
    pub(crate) unknown_variables: BTreeMap<String, String>,
    /// Whether there are no others.
    pub(crate) has_all_variables: bool,
    pub(crate) files: Files,
    pub(crate) image: Image,
    pub(crate) identity: Option<Identity>,
    pub(crate) host_name: Option<String>,
    pub(crate) directory: Option<String>,
    /// The program of the container and its arguments; none where they are the image's.
    pub(crate) words: Option<Vec<String>>,
}

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
    pub(crate) objects: Option<&'a Arc<dyn Objects>>,
    pub(crate) pod: &'a Value,
    pub(crate) container: &'a Value,
    /// When it started.
    pub(crate) started: Option<Timestamp>,
    pub(crate) purpose: Purpose,
}

/// The domain of clusters.
const DOMAIN: &str = "cluster.local";

/// The name of a pod's host.
// upstream: pkg/kubelet/kubelet_pods.go GeneratePodHostNameAndDomain (v1.36)
fn host_name(pod: &Value) -> String {
    let spec = &pod["spec"];
    if spec["hostNetwork"] == true {
        return text(spec, &["nodeName"]).to_owned();
    }
    if let Some(name) = spec["hostnameOverride"].as_str() {
        return name.to_owned();
    }
    let name = spec["hostname"].as_str().unwrap_or_else(|| text(pod, &["metadata", "name"]));
    let name: String = name.chars().take(63).collect();
    let name = name.trim_end_matches(['-', '.']).to_owned();
    match spec["subdomain"].as_str().filter(|_| spec["setHostnameAsFQDN"] == true) {
        Some(subdomain) => format!("{name}.{subdomain}.{}.svc.{DOMAIN}", text(pod, &["metadata", "namespace"])),
        None => name,
    }
}

impl Place<'_> {
    /// What a command finds here; where `untrusted`, a program that is not followed may have written.
    pub(crate) fn inside(&self, untrusted: bool) -> Inside {
        let thorough = self.purpose != Purpose::Life;
        let image = Image::named(text(self.container, &["image"]));
        // Few scripts speak of variables of Services.
        let speaks_of_services =
            || words(self.container).any(|word| word.contains("_SERVICE_") || word.contains("_PORT"));
        let sources = Sources {
            objects: self.objects,
            pod: self.pod,
            container: self.container,
            started: self.started,
            services: thorough || speaks_of_services(),
        };
        let environment = environment(&sources);
        let identity = self.identity(image);
        let host = host_name(self.pod);
        let message = text(self.container, &["terminationMessagePath"]);
        let ground = Ground {
            mounts: mounts(&sources, &environment, self.purpose == Purpose::Log, thorough),
            message: if message.is_empty() { "/dev/termination-log" } else { message }.to_owned(),
            has_empty_tmp: image.bare && matches!(image.shell, Shell::Busybox | Shell::Dash),
            read_only: self.container["securityContext"]["readOnlyRootFilesystem"] == true,
            untrusted,
        };
        let owner = identity.as_ref().map(|identity| (identity.user, identity.group));
        let mut variables = environment.known.clone();
        if thorough && image.bare {
            let mut first = |name: &str, value: &str| {
                if variables.iter().all(|(own, _)| own != name) {
                    variables.insert(0, (name.to_owned(), value.to_owned()));
                }
            };
            first("HOSTNAME", &host);
            first("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
            let home = if identity.as_ref().is_some_and(|identity| identity.user == 0) { "/root" } else { "/" };
            if variables.iter().all(|(own, _)| own != "HOME") {
                variables.push(("HOME".to_owned(), home.to_owned()));
            }
        }
        let directory = self.container["workingDir"].as_str().filter(|path| !path.is_empty()).map(str::to_owned);
        Inside {
            variables,
            unknown_variables: environment.unknown.clone(),
            has_all_variables: image.bare && environment.more.is_none(),
            files: Files::new(ground, owner),
            image,
            identity,
            host_name: (!host.is_empty()).then_some(host),
            directory: directory.or_else(|| image.bare.then(|| "/".to_owned())),
            words: self.words(&environment),
        }
    }

    fn identity(&self, image: Image) -> Option<Identity> {
        let of = |field: &str| {
            security_setting(self.pod, self.container, field).as_i64().and_then(|id| u32::try_from(id).ok())
        };
        let user = match of("runAsUser") {
            Some(user) => user,
            None if user(text(self.container, &["image"])) == Some(User::Root) => 0,
            None if image.bare => 0,
            None => return None,
        };
        let further =
            items(&self.pod["spec"]["securityContext"]["supplementalGroups"]).iter().filter_map(Value::as_i64);
        let fs_group = integer(self.pod, &["spec", "securityContext", "fsGroup"]);
        let groups = further.chain(fs_group).filter_map(|group| u32::try_from(group).ok()).collect();
        Some(Identity { user, group: of("runAsGroup").unwrap_or_default(), groups })
    }

    fn words(&self, environment: &Environment) -> Option<Vec<String>> {
        let words = |field: &str| {
            let all = items(&self.container[field]).iter().filter_map(Value::as_str);
            all.map(|word| expanded(word, environment)).collect::<Vec<_>>()
        };
        let (command, args) = (words("command"), words("args"));
        let image = text(self.container, &["image"]);
        let known = Image::named(image);
        if command.is_empty() {
            match base_name(image) {
                "pause" => return Some(vec!["/pause".to_owned()]),
                _ if ends_alone(image) && args.is_empty() => return Some(vec!["sh".to_owned()]),
                // Whether the image has a program of its own, for which these are, is not known.
                _ if self.purpose != Purpose::Life && known.shell == Shell::Unknown => return None,
                _ => {}
            }
        }
        let all = [command, args].concat();
        (!all.is_empty()).then_some(all)
    }
}
