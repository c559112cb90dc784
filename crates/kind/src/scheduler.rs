//! The file with the scheduler's configuration that a cluster's configuration names: kubeadm's argument, its volume, kind's mount.

use serde_json::Value;

use crate::configuration::Cluster;
use crate::kubeadm::arguments;

/// Where the scheduler's `KubeSchedulerConfiguration` is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerFile {
    /// On the machine, as kind's configuration writes it.
    pub path: String,
    /// In the container of kube-scheduler: what follows `--config`.
    pub flag: String,
}

/// The file that `scheduler.extraArgs` of kubeadm's ClusterConfiguration name by `config`; `None` where they name none.
///
/// # Errors
/// Where no volume and no mount bring it into the container, so that kube-scheduler would not start.
pub fn file(cluster: &Cluster) -> Result<Option<SchedulerFile>, String> {
    let Some(node) = cluster.nodes.iter().find(|node| node.role == "control-plane") else { return Ok(None) };
    let (mut flag, mut volumes) = (None, Vec::new());
    for patch in cluster.kubeadm_config_patches.iter().chain(&node.kubeadm_config_patches) {
        // What is not YAML is reported with the nodes.
        let Ok(patch) = serde_saphyr::from_str::<Value>(patch) else { continue };
        if patch["kind"] == "ClusterConfiguration" {
            let scheduler = &patch["scheduler"];
            flag = arguments(&scheduler["extraArgs"])?.remove("config").or(flag);
            volumes.extend(scheduler["extraVolumes"].as_array().into_iter().flatten().cloned());
        }
    }
    let Some(flag) = flag else { return Ok(None) };
    let on_node =
        volumes.iter().find_map(|volume| moved(&flag, volume["mountPath"].as_str()?, volume["hostPath"].as_str()?));
    let mounts =
        |path: String| node.extra_mounts.iter().find_map(|mount| moved(&path, &mount.container_path, &mount.host_path));
    match on_node.and_then(mounts) {
        Some(path) => Ok(Some(SchedulerFile { path, flag })),
        None => Err(format!("kube-scheduler finds no file {flag}: extraVolumes and extraMounts do not bring it there")),
    }
}

/// A path below one folder, or that very path, as it is below another.
pub(crate) fn moved(path: &str, from: &str, to: &str) -> Option<String> {
    let rest = path.strip_prefix(from.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then(|| format!("{}{rest}", to.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_found_through_volume_and_mount() {
        let of = |patch: &str, mounts: &str| {
            let text = format!(
                "kubeadmConfigPatches:\n- |\n  kind: ClusterConfiguration\n  {patch}\nnodes: [{{ role: control-plane, extraMounts: [{mounts}] }}]"
            );
            file(&Cluster::parse(&format!("kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n{text}")).unwrap())
        };
        let found =
            |path: &str| Ok(Some(SchedulerFile { path: path.to_owned(), flag: "/etc/sched/config.yaml".to_owned() }));
        let volume = "extraVolumes: [{ name: s, hostPath: /files/s, mountPath: /etc/sched }]";
        let map = format!("scheduler: {{ extraArgs: {{ config: /etc/sched/config.yaml }}, {volume} }}");
        let list = format!("scheduler: {{ extraArgs: [{{ name: config, value: /etc/sched/config.yaml }}], {volume} }}");
        for patch in [&map, &list] {
            assert_eq!(of(patch, "{ hostPath: ./s, containerPath: /files/s }"), found("./s/config.yaml"));
            assert_eq!(of(patch, "{ hostPath: own.yaml, containerPath: /files/s/config.yaml }"), found("own.yaml"));
            assert!(
                of(patch, "{ hostPath: ./s, containerPath: /files/other }")
                    .unwrap_err()
                    .contains("/etc/sched/config.yaml")
            );
        }
        assert_eq!(of("scheduler: { extraArgs: { v: '4' } }", ""), Ok(None));
    }
}
