//! Command lines of az, one function each: pure, and the whole of what klab ever asks of Azure.

use std::collections::BTreeMap;

use super::answer::AgentPool;
use super::azure_site::AzureSite;
use klab_lab::plan::taint_text;
use klab_lab::spec::{AksNetwork, Lab, Os, Pool, PoolMode, UpgradeSettings};

/// Arguments of one call, without subscription and output format.
pub(super) type Arguments = Vec<String>;

/// The option for settings of the cluster autoscaler.
const PROFILE: &str = "--cluster-autoscaler-profile";

/// The option by which users may configure the scheduler.
const SCHEDULER: &str = "--enable-upstream-kubescheduler-user-configuration";

/// Collects arguments.
#[derive(Default)]
struct Line(Arguments);

impl Line {
    fn new(words: &str) -> Self {
        Self(words.split(' ').map(str::to_owned).collect())
    }

    fn flag(mut self, name: &str) -> Self {
        self.0.push(name.to_owned());
        self
    }

    fn option(mut self, name: &str, value: impl ToString) -> Self {
        self.0.push(name.to_owned());
        self.0.push(value.to_string());
        self
    }

    /// An option with as many values as there are; left out when there are none.
    fn list(mut self, name: &str, values: impl IntoIterator<Item = String>) -> Self {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.0.push(name.to_owned());
            self.0.extend(values);
        }
        self
    }

    fn optional(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.option(name, value),
            None => self,
        }
    }

    fn extend(mut self, arguments: &[String]) -> Self {
        self.0.extend_from_slice(arguments);
        self
    }
}

/// `key=value`, in order of the keys.
fn pairs(map: &BTreeMap<String, String>) -> Vec<String> {
    map.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

pub(super) fn tool_version() -> Arguments {
    Line::new("version").0
}

pub(super) fn account_show() -> Arguments {
    Line::new("account show").0
}

/// A question to Azure itself: a path, or the address of a list's next page.
pub(super) fn get(url: &str) -> Arguments {
    Line::new("rest --method get").option("--url", url).0
}

pub(super) fn group_create(place: &AzureSite, tags: &BTreeMap<String, String>) -> Arguments {
    Line::new("group create").option("-n", &place.group).option("-l", &place.location).list("--tags", pairs(tags)).0
}

pub(super) fn group_delete(place: &AzureSite) -> Arguments {
    Line::new("group delete").option("-n", &place.group).flag("--yes").flag("--no-wait").0
}

/// Groups that carry a tag of this name.
pub(super) fn group_list(tag: &str) -> Arguments {
    Line::new("group list").option("--tag", tag).0
}

/// Adds tags to what is there already, and keeps its other tags.
pub(super) fn tag_update(id: &str, tags: &BTreeMap<String, String>) -> Arguments {
    Line::new("tag update").option("--resource-id", id).option("--operation", "Merge").list("--tags", pairs(tags)).0
}

fn cluster(words: &str, place: &AzureSite) -> Line {
    Line::new(words).option("-g", &place.group).option("-n", &place.cluster)
}

fn pool(words: &str, place: &AzureSite, name: &str) -> Line {
    Line::new(words).option("-g", &place.group).option("--cluster-name", &place.cluster).option("-n", name)
}

/// All clusters of the subscription.
pub(super) fn cluster_list() -> Arguments {
    Line::new("aks list").0
}

pub(super) fn cluster_delete(place: &AzureSite) -> Arguments {
    cluster("aks delete", place).flag("--yes").flag("--no-wait").0
}

pub(super) fn cluster_stop(place: &AzureSite) -> Arguments {
    cluster("aks stop", place).flag("--no-wait").0
}

pub(super) fn cluster_start(place: &AzureSite) -> Arguments {
    cluster("aks start", place).flag("--no-wait").0
}

pub(super) fn cluster_upgrade(place: &AzureSite, version: &str) -> Arguments {
    cluster("aks upgrade", place).option("-k", version).flag("--control-plane-only").flag("--yes").flag("--no-wait").0
}

/// The right to pull from a registry, and all tags of the cluster. az does not do this without waiting for it.
pub(super) fn registry_attach(place: &AzureSite, registry: &str, tags: &BTreeMap<String, String>) -> Arguments {
    cluster("aks update", place).option("--attach-acr", registry).list("--tags", pairs(tags)).0
}

/// Lets users configure the scheduler.
pub(super) fn cluster_scheduler(place: &AzureSite) -> Arguments {
    cluster("aks update", place).flag(SCHEDULER).flag("--no-wait").0
}

/// The settings of the cluster autoscaler; those that are not named stay as they are.
pub(super) fn cluster_autoscaler(place: &AzureSite, settings: &BTreeMap<String, String>) -> Arguments {
    cluster("aks update", place).list(PROFILE, pairs(settings)).flag("--no-wait").0
}

pub(super) fn credentials(place: &AzureSite, file: &str) -> Arguments {
    cluster("aks get-credentials", place).option("--file", file).flag("--overwrite-existing").0
}

/// The cluster with its first pool, the lab's first system pool.
pub(super) fn cluster_create(lab: &Lab, place: &AzureSite, first: &Pool, tags: &BTreeMap<String, String>) -> Arguments {
    let settings = &lab.aks;
    let version = settings.kubernetes.as_ref().or(lab.kubernetes.as_ref()).map(|version| version.value);
    let line = cluster("aks create", place)
        .option("-l", &place.location)
        .option("--tier", settings.tier.as_str())
        .optional("-k", version)
        .option("--node-resource-group", &place.node_group);
    let line = match settings.network {
        AksNetwork::Overlay => line.option("--network-plugin", "azure").option("--network-plugin-mode", "overlay"),
        AksNetwork::NodeSubnet => line.option("--network-plugin", "azure"),
        AksNetwork::Kubenet => line.option("--network-plugin", "kubenet"),
    };
    // Without --no-ssh-key az reads ~/.ssh/id_rsa.pub; upgrades at Azure's own time would change a lab under its learners.
    let line = line
        .flag("--no-ssh-key")
        .option("--node-os-upgrade-channel", "None")
        .option("--auto-upgrade-channel", "none")
        .optional("--vnet-subnet-id", settings.subnet.as_ref())
        .list("--tags", pairs(tags))
        .option("--nodepool-name", &first.name.value);
    let parts = first.parts();
    let first = &*parts[0];
    let line = sized(line, first, "--node-vm-size")
        .list("--nodepool-labels", labels(first))
        .list("--nodepool-taints", joined_taints(first.taints.iter().map(|taint| taint_text(&taint.value))))
        .list("--nodepool-tags", pairs(tags))
        .list(PROFILE, pairs(&lab.autoscaler_settings()));
    let line = if lab.scheduler.is_some() { line.flag(SCHEDULER) } else { line };
    machines(line, first, "--node-count").extend(&settings.extra_args).flag("--no-wait").0
}

/// A pool; `name` differs from the pool's own while one takes another's place.
pub(super) fn pool_add(
    lab: &Lab,
    place: &AzureSite,
    spec: &Pool,
    name: &str,
    tags: &BTreeMap<String, String>,
) -> Arguments {
    let mode = match spec.mode {
        PoolMode::System => "System",
        PoolMode::User => "User",
    };
    let line = pool("aks nodepool add", place, name).option("--mode", mode);
    let parts = spec.parts();
    let spec = &*parts[0];
    let line = sized(line, spec, "-s")
        .optional("-k", spec.kubernetes.as_ref().map(|version| version.value))
        .list("--labels", labels(spec))
        .list("--node-taints", joined_taints(spec.taints.iter().map(|taint| taint_text(&taint.value))))
        .list("--tags", pairs(tags))
        .optional("--vnet-subnet-id", lab.aks.subnet.as_ref());
    let line = match spec.os {
        Os::Linux => line,
        Os::Windows => line.option("--os-type", "Windows"),
    };
    let line = match &spec.spot {
        None => line,
        Some(spot) => line
            .option("--priority", "Spot")
            .option("--eviction-policy", spot.eviction.as_str())
            .option("--spot-max-price", spot.max_price.unwrap_or(-1.0)),
    };
    machines(line, spec, "-c").extend(&spec.extra_args).flag("--no-wait").0
}

/// The size of a pool's nodes; of single virtual machines the first one, as az takes one at a time.
fn sized(line: Line, spec: &Pool, flag: &str) -> Line {
    match &spec.size {
        Some(size) if spec.is_virtual_machines() => {
            line.option("--vm-set-type", "VirtualMachines").option("--vm-sizes", &size.value)
        }
        _ => line.option(flag, klab_lab::plan::size_name(spec)),
    }
}

/// What brings a pool to this many nodes, of single virtual machines to those of each size.
pub(super) fn pool_scales(
    place: &AzureSite,
    name: &str,
    count: u32,
    sizes: &BTreeMap<String, (u32, u32)>,
) -> Vec<Arguments> {
    if sizes.is_empty() { vec![pool_scale(place, name, count)] } else { pool_sizes(place, name, sizes) }
}

/// What brings a pool that was added with its first size to all of its sizes.
pub(super) fn pool_further_sizes(place: &AzureSite, spec: &Pool, name: &str) -> Vec<Arguments> {
    let further = spec.scale.iter().skip(1).map(|profile| (profile.size.value.clone(), (0, profile.nodes)));
    pool_sizes(place, name, &further.collect())
}

/// What changes how many nodes of each size a pool has, from the first number to the second. A size takes the place of one that goes, so that
/// there is always one, and never too many.
fn pool_sizes(place: &AzureSite, name: &str, sizes: &BTreeMap<String, (u32, u32)>) -> Vec<Arguments> {
    let (gone, rest): (Vec<_>, Vec<_>) = sizes.iter().partition(|(_, (_, to))| *to == 0);
    let (new, other): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(_, (from, _))| *from == 0);
    let line = |verb: &str| pool(&format!("aks nodepool manual-scale {verb}"), place, name);
    // az refuses an update that names no new size.
    let update = |old: &String, new: &String, count: u32| {
        line("update").option("--current-vm-sizes", old).option("--vm-sizes", new).option("-c", count)
    };
    let mut lines: Vec<Line> = other.iter().map(|(size, (_, to))| update(size, size, *to)).collect();
    lines.extend(gone.iter().zip(&new).map(|((old, _), (size, (_, to)))| update(old, size, *to)));
    let added = new.iter().skip(gone.len());
    lines.extend(added.map(|(size, (_, to))| line("add").option("--vm-sizes", size).option("-c", to)));
    let removed = gone.iter().skip(new.len());
    lines.extend(removed.map(|(size, _)| line("delete").option("--current-vm-sizes", size).flag("--yes")));
    lines.into_iter().map(|line| line.flag("--no-wait").0).collect()
}

/// Options that `aks create` and `aks nodepool add` have in common.
fn machines(line: Line, spec: &Pool, count: &str) -> Line {
    let line = match spec.autoscale.as_ref().map(|bounds| (bounds.min, bounds.max)) {
        None => line.option(count, spec.nodes.value),
        // az refuses a count that is not within the bounds.
        Some((min, max)) => line
            .option(count, spec.nodes.value.clamp(min, max.max(min)))
            .flag("--enable-cluster-autoscaler")
            .option("--min-count", min)
            .option("--max-count", max),
    };
    let size = spec.machine.os_disk_gib.max(30);
    let zones = if spec.zones_auto { vec!["auto".to_owned()] } else { spec.zones.iter().map(u8::to_string).collect() };
    line.option("--max-pods", spec.max_pods)
        .list("--zones", zones)
        .option("--node-osdisk-type", if spec.machine.os_disk_ephemeral { "Ephemeral" } else { "Managed" })
        .option("--node-osdisk-size", size)
        .optional("--os-sku", spec.os_sku.as_ref())
}

fn labels(spec: &Pool) -> Vec<String> {
    spec.labels.iter().map(|(key, value)| format!("{key}={}", value.value)).collect()
}

/// All taints are one argument.
fn joined_taints(taints: impl Iterator<Item = String>) -> Option<String> {
    let taints: Vec<String> = taints.collect();
    (!taints.is_empty()).then(|| taints.join(","))
}

/// Labels, taints, autoscaler and mode of a pool in place. Labels and taints are replaced whole, so AKS's own go along.
pub(super) fn pool_update(place: &AzureSite, spec: &Pool, live: &AgentPool) -> Arguments {
    let own = |key: &&String| key.starts_with("kubernetes.azure.com/");
    let mut all: Vec<String> =
        live.node_labels.iter().filter(|(key, _)| own(key)).map(|(key, value)| format!("{key}={value}")).collect();
    all.extend(labels(spec));
    let own_taints = live.node_taints.iter().filter(own).cloned();
    let taints = joined_taints(own_taints.chain(spec.taints.iter().map(|taint| taint_text(&taint.value))));
    let line = pool("aks nodepool update", place, &spec.name.value);
    let mut line = line.flag("--labels");
    // No labels at all are an empty string, as no value would be a usage error.
    line.0.extend(if all.is_empty() { vec![String::new()] } else { all });
    let line = line.option("--node-taints", taints.unwrap_or_default());
    let line = match spec.mode {
        PoolMode::System if live.mode != "System" => line.option("--mode", "System"),
        PoolMode::User if live.mode != "User" => line.option("--mode", "User"),
        _ => line,
    };
    let line = match (live.enable_auto_scaling, spec.autoscale.as_ref().map(|bounds| (bounds.min, bounds.max))) {
        (false, None) => line,
        (true, None) => line.flag("--disable-cluster-autoscaler"),
        (true, Some((min, max))) if (live.min_count, live.max_count) == (Some(min), Some(max)) => line,
        (enabled, Some((min, max))) => {
            line.flag(autoscaler_flag(enabled)).option("--min-count", min).option("--max-count", max)
        }
    };
    line.flag("--no-wait").0
}

/// A pool in place as it is asked to be already: what failed is done again.
pub(super) fn pool_again(place: &AzureSite, live: &AgentPool) -> Arguments {
    let labels: Vec<String> = if live.node_labels.is_empty() { vec![String::new()] } else { pairs(&live.node_labels) };
    let taints = joined_taints(live.node_taints.iter().cloned()).unwrap_or_default();
    let line = pool("aks nodepool update", place, &live.name).list("--labels", labels);
    line.option("--node-taints", taints).flag("--no-wait").0
}

pub(super) fn pool_scale(place: &AzureSite, name: &str, count: u32) -> Arguments {
    pool("aks nodepool scale", place, name).option("-c", count).flag("--no-wait").0
}

/// The bounds of a pool's autoscaler, as a learner types them.
pub(super) fn pool_autoscale(place: &AzureSite, name: &str, enabled: bool, min: u32, max: u32) -> Arguments {
    pool("aks nodepool update", place, name)
        .flag(autoscaler_flag(enabled))
        .option("--min-count", min)
        .option("--max-count", max)
        .0
}

/// No autoscaler any more, as a learner types it.
pub(super) fn pool_autoscale_off(place: &AzureSite, name: &str) -> Arguments {
    pool("aks nodepool update", place, name).flag("--disable-cluster-autoscaler").0
}

fn autoscaler_flag(enabled: bool) -> &'static str {
    if enabled { "--update-cluster-autoscaler" } else { "--enable-cluster-autoscaler" }
}

/// A pool's upgrade in place, with these settings; az keeps them for the pool.
pub(super) fn pool_upgrade(
    place: &AzureSite,
    name: &str,
    version: Option<&str>,
    settings: &UpgradeSettings,
) -> Arguments {
    let line = pool("aks nodepool upgrade", place, name).optional("-k", version);
    with_settings(line, settings).flag("--yes").flag("--no-wait").0
}

fn with_settings(line: Line, settings: &UpgradeSettings) -> Line {
    settings.given().into_iter().fold(line, |line, (key, value)| {
        // az has other names for some of them.
        let flag = match key {
            "strategy" => "--upgrade-strategy".to_owned(),
            "node_soak" | "batch_soak" | "final_soak" => format!("--{}-duration", key.replace('_', "-")),
            "drain_timeout" if settings.is_blue_green() => "--drain-timeout-bg".to_owned(),
            _ => format!("--{}", key.replace('_', "-")),
        };
        line.option(&flag, if key == "strategy" { value.replace('-', "") } else { value })
    })
}

/// A pool's upgrade to the newest node image. az takes no settings beside it.
pub(super) fn pool_image_upgrade(place: &AzureSite, name: &str) -> Arguments {
    pool("aks nodepool upgrade", place, name).flag("--node-image-only").flag("--yes").flag("--no-wait").0
}

/// Machines of another size for a pool, a preview.
pub(super) fn pool_resize(place: &AzureSite, name: &str, size: &str, settings: &UpgradeSettings) -> Arguments {
    let line = pool("aks nodepool update", place, name).option("--node-vm-size", size);
    with_settings(line, settings).flag("--no-wait").0
}

/// A pool as it was before its last upgrade.
pub(super) fn pool_rollback(place: &AzureSite, name: &str) -> Arguments {
    pool("aks nodepool rollback", place, name).flag("--no-wait").0
}

/// An end of what goes on with a pool, where it is.
pub(super) fn pool_abort(place: &AzureSite, name: &str) -> Arguments {
    pool("aks nodepool operation-abort", place, name).flag("--no-wait").0
}

pub(super) fn pool_delete(place: &AzureSite, name: &str) -> Arguments {
    pool("aks nodepool delete", place, name).flag("--no-wait").0
}

/// Has Azure take a spot machine of a scale set back; none where the id of a node is not that of such a machine.
pub(super) fn simulate_eviction(id: &str) -> Option<Arguments> {
    let path: Vec<&str> = id.strip_prefix("azure://")?.split('/').collect();
    // Azure's names are the same in small letters, and nodes carry those of the group.
    let after = |kind: &str| {
        let at = path.iter().position(|part| part.eq_ignore_ascii_case(kind))?;
        path.get(at.saturating_add(1)).copied()
    };
    let (group, set) = (after("resourceGroups")?, after("virtualMachineScaleSets")?);
    let number = after("virtualMachines")?;
    let line = Line::new("vmss simulate-eviction").option("-g", group).option("-n", set);
    Some(line.option("--instance-id", number).0)
}

/// `aks nodepool add`: the words before the first option.
pub(super) fn journal_action(arguments: &Arguments) -> String {
    let words: Vec<&str> = arguments.iter().map(String::as_str).take_while(|word| !word.starts_with('-')).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::aks::account::{Account, User};
    use klab_lab::spec::{self, LoadOptions};

    fn lab(text: &str) -> (Lab, AzureSite) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.toml");
        std::fs::write(&path, format!("lab = \"words\"\nprovider = \"aks\"\n{text}")).unwrap();
        let lab =
            spec::load(&path, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        let place = AzureSite::of_lab(&lab, &Account { id: "sub".to_owned(), user: User { name: "ann".to_owned() } });
        (lab, place)
    }

    #[test]
    fn machines_of_scale_sets_are_taken_back_by_group_name_and_number() {
        let machine = "azure:///subscriptions/1/resourceGroups/mc_g_c_westeurope/providers/Microsoft.Compute/";
        let set = format!("{machine}virtualMachineScaleSets/aks-burst-1-vmss/virtualMachines/7");
        let line = "vmss simulate-eviction -g mc_g_c_westeurope -n aks-burst-1-vmss --instance-id 7";
        assert_eq!(simulate_eviction(&set).unwrap().join(" "), line);
        for other in
            [format!("{machine}virtualMachines/aks-burst-1"), "kind://docker/k/worker".to_owned(), String::new()]
        {
            assert_eq!(simulate_eviction(&other), None, "{other}");
        }
    }

    fn add(text: &str) -> String {
        let (lab, place) = lab(&format!("[pool.sys]\n[pool.p]\n{text}"));
        pool_add(&lab, &place, lab.pool("p").unwrap(), "p", &BTreeMap::new()).join(" ")
    }

    #[test]
    fn every_option_of_a_pool_is_an_argument() {
        for (text, expected) in [
            ("nodes = 3", "-c 3"),
            ("size = \"Standard_D2s_v5\"", "-s Standard_D2s_v5"),
            ("mode = \"system\"", "--mode System"),
            ("labels = { b = \"2\", a = \"1\" }", "--labels a=1 b=2"),
            ("taints = [\"k=v:NoSchedule\", \"l=w:NoExecute\"]", "--node-taints k=v:NoSchedule,l=w:NoExecute"),
            ("zones = [1, 3]", "--zones 1 3"),
            ("zones = \"auto\"", "--zones auto --node-osdisk-type"),
            ("max_pods = 30", "--max-pods 30"),
            ("spot = true", "--priority Spot --eviction-policy Delete --spot-max-price -1"),
            (
                "spot = true\nmax_price = 0.05\neviction = \"deallocate\"",
                "--eviction-policy Deallocate --spot-max-price 0.05",
            ),
            // az refuses a count beyond the bounds.
            (
                "nodes = 2\nautoscale = { min = 2, max = 5 }",
                "-c 2 --enable-cluster-autoscaler --min-count 2 --max-count 5",
            ),
            ("os = \"windows\"", "--os-type Windows"),
            ("os_sku = \"AzureLinux\"", "--os-sku AzureLinux"),
            ("os_disk = { size = 64, ephemeral = true }", "--node-osdisk-type Ephemeral --node-osdisk-size 64"),
            ("kubernetes = \"1.34\"", "-k 1.34"),
            ("extra_args = [\"--gpu-driver\", \"None\"]", "--gpu-driver None"),
        ] {
            let line = add(text);
            assert!(line.contains(expected), "{text}: {line}");
            assert!(line.ends_with("--no-wait"), "{line}");
        }
    }

    #[test]
    fn single_virtual_machines_come_size_by_size() {
        let sizes = "sizes = { \"Standard_D4s_v5\" = 2, \"Standard_D8s_v5\" = 1 }";
        let text = format!("[pool.sys]\n[pool.p]\ntype = \"VirtualMachines\"\n{sizes}");
        let (lab, place) = lab(&text);
        let spec = lab.pool("p").unwrap();
        let line = pool_add(&lab, &place, spec, "p", &BTreeMap::new()).join(" ");
        assert!(
            line.contains(" --vm-set-type VirtualMachines --vm-sizes Standard_D4s_v5 ") && line.contains(" -c 2 "),
            "{line}"
        );
        assert!(!line.contains(" -s "), "{line}");
        let short = |lines: Vec<Arguments>| -> Vec<String> {
            let option = |line: &Arguments| line.iter().position(|word| word.ends_with("vm-sizes")).unwrap_or_default();
            lines.iter().map(|line| format!("{} {}", line[3], line[option(line)..].join(" "))).collect()
        };
        assert_eq!(short(pool_further_sizes(&place, spec, "p")), ["add --vm-sizes Standard_D8s_v5 -c 1 --no-wait"]);
        let changes = |changes: &[(&str, u32, u32)]| {
            let changes = changes.iter().map(|(size, from, to)| ((*size).to_owned(), (*from, *to)));
            short(pool_sizes(&place, "p", &changes.collect()))
        };
        assert_eq!(
            changes(&[("A", 2, 3), ("B", 1, 0), ("C", 0, 2), ("D", 1, 0)]),
            [
                "update --current-vm-sizes A --vm-sizes A -c 3 --no-wait",
                "update --current-vm-sizes B --vm-sizes C -c 2 --no-wait",
                "delete --current-vm-sizes D --yes --no-wait",
            ]
        );
    }

    #[test]
    fn every_setting_of_the_cluster_is_an_argument() {
        let text = "kubernetes = \"1.34\"\n[pool.sys]\ntaints = [\"CriticalAddonsOnly=true:NoSchedule\"]\n[aks]\nlocation = \"eastus\"\ntier = \"standard\"\n\
                    network = \"node-subnet\"\nsubnet = \"/subscriptions/s/n\"\nkubernetes = \"1.35.1\"\nregistry = \"acr\"\nextra_args = [\"--enable-oidc-issuer\"]\n\
                    [autoscaler]\nscan-interval = \"30s\"\nmax-empty-bulk-delete = 5\n";
        let (lab, place) = lab(text);
        let tags = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let line = cluster_create(&lab, &place, lab.pool("sys").unwrap(), &tags).join(" ");
        for expected in [
            "-l eastus --tier standard -k 1.35.1",
            "--network-plugin azure --no-ssh-key",
            "--vnet-subnet-id /subscriptions/s/n --tags a=b",
            "--nodepool-name sys --node-vm-size Standard_B2ms",
            "--nodepool-taints CriticalAddonsOnly=true:NoSchedule --nodepool-tags a=b --cluster",
            "--cluster-autoscaler-profile max-empty-bulk-delete=5 scan-interval=30s --node-count",
            "--enable-oidc-issuer --no-wait",
        ] {
            assert!(line.contains(expected), "{expected}: {line}");
        }
    }

    #[test]
    fn update_keeps_what_is_azures_and_clears_what_is_gone() {
        let (lab, place) = lab("[pool.sys]\n[pool.p]\n");
        let mut live = AgentPool {
            name: "p".to_owned(),
            mode: "User".to_owned(),
            enable_auto_scaling: true,
            ..AgentPool::default()
        };
        live.node_labels.insert("kubernetes.azure.com/scalesetpriority".to_owned(), "spot".to_owned());
        live.node_labels.insert("team".to_owned(), "a".to_owned());
        live.node_taints =
            vec!["kubernetes.azure.com/scalesetpriority=spot:NoSchedule".to_owned(), "old=x:NoSchedule".to_owned()];
        let line = pool_update(&place, lab.pool("p").unwrap(), &live).join(" ");
        let expected = "--labels kubernetes.azure.com/scalesetpriority=spot \
                        --node-taints kubernetes.azure.com/scalesetpriority=spot:NoSchedule --disable-cluster-autoscaler --no-wait";
        assert!(line.ends_with(expected), "{line}");
        let arguments =
            pool_update(&place, lab.pool("p").unwrap(), &AgentPool { mode: "User".to_owned(), ..AgentPool::default() });
        assert_eq!(arguments[arguments.len() - 5..], ["--labels", "", "--node-taints", "", "--no-wait"]);
    }
}
