//! Labs on AKS through a fake az that shares its model of Azure with the stand-in for the real one.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use klab_lab::plan::{Action, plan};
use klab_lab::spec::{self, Lab, LoadOptions};
use klab_operations::error::Kind;
use klab_operations::event::{Event, Events, Sink};
use klab_operations::provider::aks::Aks;
use klab_operations::provider::aks::az::Pace;
use klab_operations::provider::{Machines, Options, Provider, Work};
use klab_operations::state::{Home, Journal};
use serde_json::json;

use crate::azure::CLIENT;
use crate::azure::api::{Latency, Model};
use crate::azure::fake::Fake;
use crate::azure::fault::Fault;

pub(crate) const LAB: &str = r#"
lab = "pools"
provider = "aks"
kubernetes = "1.34"

[pool.system]
mode = "system"
size = "Standard_B2ms"

[pool.extra]
nodes = 2
size = "Standard_B2ms"
labels = { workload = "extra" }
taints = ["dedicated=special:NoSchedule"]

[pool.burst]
nodes = 1
size = "Standard_D2s_v5"
zones = [1, 2]
spot = true
autoscale = { min = 1, max = 3 }
"#;

/// Events in words.
#[derive(Default)]
pub(crate) struct Told(pub(crate) Mutex<Vec<String>>);

impl Sink for Told {
    fn event(&self, event: &Event) {
        if let Event::Warned { message, .. } = event {
            self.0.lock().unwrap().push(message.clone());
        }
    }
}

/// A home, a model of Azure, and a fake az between them.
pub(crate) struct Setup {
    folder: tempfile::TempDir,
    pub(crate) home: Home,
    pub(crate) fake: Fake,
    pub(crate) told: Arc<Told>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        Self::with(Latency::NONE)
    }

    pub(crate) fn with(latency: Latency) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"));
        Self { home, fake: Fake::start(Model::new(latency)), folder, told: Arc::default() }
    }

    pub(crate) fn lab(&self, text: &str) -> Lab {
        let path: PathBuf = self.folder.path().join("lab.toml");
        std::fs::write(&path, text).unwrap();
        spec::load(&path, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{}", problems.render(false)))
    }

    pub(crate) fn pace() -> Pace {
        Pace {
            least: Duration::from_millis(1),
            patience: Duration::from_millis(400),
            deadline: Duration::from_secs(20),
        }
    }

    pub(crate) fn aks(&self) -> Aks {
        Aks::with(&self.home, self.fake.program(self.folder.path()), Self::pace())
    }

    /// What `klab up` does to the cluster: preflight, plan, perform.
    pub(crate) fn up(&self, text: &str, options: Options) -> Result<Vec<Action>, klab_operations::error::Error> {
        let (lab, aks) = (self.lab(text), self.aks());
        if let Some(problem) = aks.preflight(&lab).into_iter().next() {
            return Err(problem);
        }
        let actions = plan(&lab, &aks.observe(&lab.name.value, Some(&lab))?);
        self.work("up", |work| aks.perform_all(&lab, &actions, &options, work))?;
        aks.kubeconfig("pools")?;
        Ok(actions)
    }

    /// az as a user types it.
    pub(crate) fn az(&self, line: &str) {
        let mut az = std::process::Command::new(self.fake.program(self.folder.path()));
        let output = az.args(line.split(' ')).output().unwrap();
        assert!(output.status.success(), "az {line}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn down(&self) -> Result<Vec<String>, klab_operations::error::Error> {
        let aks = self.aks();
        self.work("down", |work| aks.remove("pools", work))?;
        aks.remains("pools")
    }

    pub(crate) fn work<T>(&self, command: &str, act: impl FnOnce(&mut Work<'_>) -> T) -> T {
        let folder = self.home.lab("pools");
        std::fs::create_dir_all(&folder).unwrap();
        let mut journal = Journal::open(&folder, command).unwrap();
        let events = Events::new(self.told.clone());
        act(&mut Work { journal: &mut journal, events: &events })
    }

    pub(crate) fn everything(&self) -> Vec<String> {
        self.fake.model().everything()
    }

    pub(crate) fn fault(&self, fault: Fault) {
        self.fake.model().faults.push(fault);
    }

    pub(crate) fn calls_with(&self, words: &str) -> usize {
        self.fake.take_calls().iter().filter(|call| call.starts_with(words)).count()
    }
}

/// Names without the mark of the owner.
pub(crate) fn plain(names: &[String]) -> Vec<String> {
    let strip = |name: &String| {
        name.split('/')
            .map(|part| {
                if part.starts_with("klab-pools-") {
                    "klab-pools"
                } else if part.starts_with("MC_klab-pools-") {
                    "MC_klab-pools"
                } else {
                    part
                }
            })
            .collect::<Vec<_>>()
            .join("/")
    };
    let mut names: Vec<String> = names.iter().map(strip).collect();
    names.sort();
    names
}

pub(crate) const COMPLETE: [&str; 6] = [
    "cluster/klab-pools",
    "group/MC_klab-pools",
    "group/klab-pools",
    "pool/klab-pools/burst",
    "pool/klab-pools/extra",
    "pool/klab-pools/system",
];

#[test]
fn lab_comes_up_as_declared_and_leaves_nothing() {
    let setup = Setup::new();
    setup.up(LAB, Options::default()).unwrap();
    assert_eq!(plain(&setup.everything()), COMPLETE);
    let pools = setup.fake.model().pools();
    let pool = |name: &str| pools.iter().find(|pool| pool.name == name).unwrap().properties.clone();
    assert_eq!(pool("system")["mode"], "System");
    assert_eq!((&pool("extra")["count"], &pool("extra")["nodeLabels"]), (&json!(2), &json!({ "workload": "extra" })));
    assert_eq!(pool("extra")["nodeTaints"], json!(["dedicated=special:NoSchedule"]));
    let burst = pool("burst");
    assert_eq!((&burst["scaleSetPriority"], &burst["availabilityZones"]), (&json!("Spot"), &json!(["1", "2"])));
    assert_eq!((&burst["minCount"], &burst["maxCount"], &burst["count"]), (&json!(1), &json!(3), &json!(1)));
    assert_eq!(setup.down().unwrap(), Vec::<String>::new());
    assert_eq!(setup.everything(), Vec::<String>::new());
}

#[test]
fn unchanged_lab_takes_at_most_four_calls_and_changes_nothing() {
    let setup = Setup::new();
    setup.up(LAB, Options::default()).unwrap();
    setup.fake.take_calls();
    let actions = setup.up(LAB, Options::default()).unwrap();
    assert_eq!(actions, []);
    let calls = setup.fake.take_calls();
    assert!(calls.len() <= 4, "{calls:?}");
    assert!(calls.iter().all(|call| call.contains("show") || call.starts_with("rest --method get ")), "{calls:?}");
}

#[test]
fn pools_are_changed_in_place() {
    let setup = Setup::new();
    setup.up(LAB, Options::default()).unwrap();
    let changed = LAB
        .replace("nodes = 2", "nodes = 3")
        .replace("workload = \"extra\"", "workload = \"other\"")
        .replace("dedicated=special:NoSchedule", "dedicated=other:NoExecute")
        .replace("max = 3", "max = 4");
    setup.fake.take_calls();
    setup.up(&changed, Options::default()).unwrap();
    let pools = setup.fake.model().pools();
    let pool = |name: &str| pools.iter().find(|pool| pool.name == name).unwrap().properties.clone();
    assert_eq!((&pool("extra")["count"], &pool("extra")["nodeLabels"]), (&json!(3), &json!({ "workload": "other" })));
    assert_eq!(pool("extra")["nodeTaints"], json!(["dedicated=other:NoExecute"]));
    let burst = pool("burst");
    assert_eq!(burst["maxCount"], json!(4));
    // What AKS put on spot nodes itself is still there.
    assert_eq!(burst["nodeTaints"], json!(["kubernetes.azure.com/scalesetpriority=spot:NoSchedule"]));
    assert_eq!(setup.calls_with("aks nodepool add"), 0);
    assert_eq!(setup.up(&changed, Options::default()).unwrap(), []);
}

#[test]
fn pools_are_added_and_removed() {
    let setup = Setup::new();
    setup.up(LAB, Options::default()).unwrap();
    let changed = LAB.replace("[pool.extra]", "[pool.other]");
    setup.up(&changed, Options::default()).unwrap();
    let names = plain(&setup.everything());
    assert!(
        names.contains(&"pool/klab-pools/other".to_owned()) && !names.contains(&"pool/klab-pools/extra".to_owned()),
        "{names:?}"
    );
}

#[test]
fn drift_in_azure_is_mended() {
    let setup = Setup::new();
    setup.up(LAB, Options::default()).unwrap();
    setup.fake.model().tamper("extra", "count", json!(1));
    setup.fake.model().tamper("extra", "nodeTaints", json!(null));
    setup.up(LAB, Options::default()).unwrap();
    let pools = setup.fake.model().pools();
    let extra = pools.iter().find(|pool| pool.name == "extra").unwrap();
    assert_eq!(
        (&extra.properties["count"], &extra.properties["nodeTaints"]),
        (&json!(2), &json!(["dedicated=special:NoSchedule"]))
    );
}

#[test]
fn new_nodes_are_made_only_when_allowed() {
    let setup = Setup::new();
    setup.up(LAB, Options::default()).unwrap();
    let changed = LAB.replacen("nodes = 2\nsize = \"Standard_B2ms\"", "nodes = 2\nsize = \"Standard_B4ms\"", 1);
    let before = setup.fake.model().pools();
    let error = setup.up(&changed, Options::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("pool extra: size Standard_B2ms becomes Standard_B4ms"), "{error}");
    assert_eq!(setup.fake.model().pools(), before);
}

#[test]
fn control_plane_is_upgraded_minor_by_minor() {
    let setup = Setup::new();
    setup.up(&LAB.replace("\"1.34\"", "\"1.33\""), Options::default()).unwrap();
    setup.fake.take_calls();
    let only_cluster = LAB.replace("\"1.34\"", "\"1.35\"").replace("size = ", "kubernetes = \"1.33\"\nsize = ");
    setup.up(&only_cluster, Options::default()).unwrap();
    let calls: Vec<String> =
        setup.fake.take_calls().into_iter().filter(|call| call.starts_with("aks upgrade")).collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(calls[0].contains("-k 1.34 ") && calls[1].contains("-k 1.35 "), "{calls:?}");
}

#[test]
fn at_most_four_pools_are_in_flight() {
    let setup =
        Setup::with(Latency { create: Duration::ZERO, pool: Duration::from_millis(150), delete: Duration::ZERO });
    let pools: Vec<String> = (0..7).map(|number| format!("[pool.p{number}]\nsize = \"Standard_B2ms\"\n")).collect();
    let pools = pools.concat();
    let text = format!("lab = \"pools\"\nprovider = \"aks\"\n[pool.system]\nmode = \"system\"\n{pools}");
    setup.up(&text, Options::default()).unwrap();
    let requests = setup.fake.model().requests.clone();
    let is_add = |request: &&String| request.starts_with("PUT") && request.contains("/agentPools/p");
    let adds: Vec<&String> = requests.iter().filter(is_add).collect();
    assert_eq!(adds.len(), 7);
    assert!(adds[0].contains("/agentPools/p0"), "the one that the last ones wait for begins alone: {}", adds[0]);
    assert!(setup.fake.model().most_busy_pools <= 4, "{}", setup.fake.model().most_busy_pools);
    assert!(setup.fake.model().most_busy_pools > 1, "nothing ran side by side");
}

#[test]
fn own_subnet_makes_pools_one_after_the_other() {
    let setup =
        Setup::with(Latency { create: Duration::ZERO, pool: Duration::from_millis(20), delete: Duration::ZERO });
    let subnet = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/n";
    setup.up(&format!("{LAB}\n[aks]\nsubnet = \"{subnet}\"\n"), Options::default()).unwrap();
    assert_eq!(setup.fake.model().most_busy_pools, 1);
    // What only az knows, and only warns of, is passed on.
    let told = setup.told.0.lock().unwrap().clone();
    assert_eq!(told, ["Could not create a role assignment for subnet. Are you an Owner on this subscription?"]);
}

#[test]
fn new_lab_is_looked_for_with_one_question() {
    let setup = Setup::new();
    assert!(setup.aks().preflight(&setup.lab(LAB)).is_empty());
    let calls = setup.fake.take_calls();
    assert_eq!(calls.iter().filter(|call| call.contains("/resourceGroups/")).count(), 1, "{calls:#?}");
    assert!(calls.iter().any(|call| call.contains("kubernetesVersions")), "{calls:#?}");
    // A lab that leaves the version to Azure does not ask which there are.
    let any = LAB.replace("kubernetes = \"1.34\"", "");
    assert!(setup.aks().preflight(&setup.lab(&any)).is_empty());
    let calls = setup.fake.take_calls();
    assert!(!calls.iter().any(|call| call.contains("kubernetesVersions")), "{calls:#?}");
}

#[test]
fn account_is_read_where_az_keeps_it() {
    let setup = Setup::new();
    let subscription = setup.fake.model().subscription.clone();
    let profile = json!({ "subscriptions": [{ "id": subscription, "name": "Stand-in", "user": { "name": CLIENT },
        "isDefault": true, "environmentName": "AzureCloud" }] });
    std::fs::write(setup.folder.path().join("azureProfile.json"), profile.to_string()).unwrap();
    let (lab, aks) = (setup.lab(LAB), setup.aks().logged_in_at(setup.folder.path()));
    let read = aks
        .observe(&lab.name.value, Some(&lab))
        .map(|_| aks.commands(&lab, &[Action::CreateCluster]).unwrap())
        .unwrap();
    assert!(!setup.fake.take_calls().iter().any(|call| call.starts_with("account show")));
    let aks = setup.aks();
    let asked = aks
        .observe(&lab.name.value, Some(&lab))
        .map(|_| aks.commands(&lab, &[Action::CreateCluster]).unwrap())
        .unwrap();
    assert!(setup.fake.take_calls().iter().any(|call| call.starts_with("account show")));
    assert_eq!(read, asked);
}

#[test]
fn autoscaler_gets_the_settings_of_the_lab_with_its_cluster_and_later() {
    let setup = Setup::new();
    let text = |settings: &str| format!("{LAB}\n[autoscaler]\n{settings}\n");
    let profiles = || -> Vec<String> {
        let calls = setup.fake.take_calls();
        let said = calls.iter().filter_map(|call| call.split_once("--cluster-autoscaler-profile "));
        said.map(|(before, after)| {
            let settings: Vec<&str> = after.split(' ').take_while(|word| !word.starts_with("--")).collect();
            let words: Vec<&str> = before.split(' ').take(2).collect();
            format!("{}: {}", words.join(" "), settings.join(" "))
        })
        .collect()
    };
    setup.up(&text("scan-interval = \"30s\""), Options::default()).unwrap();
    assert_eq!(profiles(), ["aks create: scan-interval=30s"]);
    assert_eq!(setup.up(&text("scan-interval = \"30\""), Options::default()).unwrap(), []);
    assert_eq!(profiles(), [""; 0]);
    setup.up(&text("scan-interval = \"20s\"\nexpander = \"least-waste\""), Options::default()).unwrap();
    assert_eq!(profiles(), ["aks update: expander=least-waste scan-interval=20s"]);
    // What the file does not name is left as it is.
    assert_eq!(setup.up(&text("scan-interval = \"20s\""), Options::default()).unwrap(), []);
}

#[test]
fn registry_is_attached_once_the_cluster_is_there_and_only_once() {
    let setup = Setup::new();
    let text = format!("{LAB}\n[aks]\nregistry = \"shop\"\n");
    setup.up(&text, Options::default()).unwrap();
    assert_eq!(plain(&setup.everything()), COMPLETE);
    let pullers = setup.fake.model().pullers.clone();
    assert!(pullers.iter().all(|(registry, who)| registry == "shop" && who.starts_with("kubelet-of-klab-pools-")));
    assert_eq!((pullers.len(), setup.calls_with("aks update")), (1, 1));
    assert_eq!(setup.up(&text, Options::default()).unwrap(), []);
    assert_eq!(setup.calls_with("aks update"), 0);
    // A lab whose file gets a registry later gets it, too; one that is not there is told before anything is made.
    let setup = Setup::new();
    setup.up(LAB, Options::default()).unwrap();
    setup.up(&text, Options::default()).unwrap();
    assert_eq!(setup.fake.model().pullers.len(), 1);
    let setup = Setup::new();
    let error = setup.up(&text.replace("\"shop\"", "\"shoop\""), Options::default()).unwrap_err();
    assert!(error.to_string().contains("there is no container registry `shoop`"), "{error}");
    assert_eq!(setup.everything(), Vec::<String>::new());
}

#[test]
fn preflight_names_every_problem_with_what_mends_it_and_creates_nothing() {
    let setup = Setup::new();
    {
        let mut model = setup.fake.model();
        model.registered = false;
        model.quota.insert("standardBSFamily".to_owned(), 4);
        model.quota.insert("lowPriorityCores".to_owned(), 1);
    }
    let text = LAB
        .replace("\"1.34\"", "\"1.31\"")
        .replace("zones = [1, 2]", "zones = [1, 3]")
        .replace("mode = \"system\"\nsize = \"Standard_B2ms\"", "mode = \"system\"\nsize = \"Standard_NC4as_T4_v3\"");
    let problems = setup.aks().preflight(&setup.lab(&text));
    let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
    for expected in [
        "not registered for AKS",
        "Kubernetes 1.31 is not offered",
        "not available in westeurope with this subscription (NotAvailableForSubscription)",
        "not available in zone 3",
        "are left for `lowPriorityCores`",
    ] {
        assert!(words.iter().any(|words| words.contains(expected)), "{expected}: {words:#?}");
    }
    assert!(
        problems.iter().all(|problem| problem.kind() == Kind::Outside && !problem.hints.is_empty()),
        "{problems:#?}"
    );
    let changes = setup.fake.model().requests.iter().filter(|request| !request.starts_with("GET")).count();
    assert_eq!((setup.everything(), changes), (Vec::new(), 0));
}

#[test]
fn quota_is_that_of_the_whole_lab() {
    let setup = Setup::new();
    setup.fake.model().quota.insert("standardBSFamily".to_owned(), 5);
    let problems = setup.aks().preflight(&setup.lab(LAB));
    let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "the lab needs 6 vCPUs (system 1 × Standard_B2ms, extra 2 × Standard_B2ms), and 5 of 5 are left for `standardBSFamily` in westeurope"
        ]
    );
    setup.fake.model().quota.insert("standardBSFamily".to_owned(), 6);
    assert!(setup.aks().preflight(&setup.lab(LAB)).is_empty());
}

#[test]
fn quota_of_a_class_is_that_of_all_its_seats() {
    let setup = Setup::new();
    setup.fake.model().quota.insert("standardBSFamily".to_owned(), 17);
    assert!(setup.aks().preflight_class(&setup.lab(LAB), 2).is_empty());
    let problems = setup.aks().preflight_class(&setup.lab(LAB), 3);
    let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "3 seats of the lab need 18 vCPUs (system 3 × Standard_B2ms, extra 6 × Standard_B2ms), and 17 of 17 are left for `standardBSFamily` in westeurope"
        ]
    );
}

#[test]
fn version_back_is_refused_with_what_can_be_done() {
    let setup = Setup::new();
    setup.up(LAB, Options::default()).unwrap();
    let older = LAB.replace("\"1.34\"", "\"1.33\"");
    for options in [Options::default(), Options { replace_pools: true }] {
        let error = setup.up(&older, options).unwrap_err();
        assert!(error.to_string().contains("AKS does not go back to 1.33"), "{error}");
        assert!(error.hints[0].contains("klab down"), "{:?}", error.hints);
    }
    let (lab, aks) = (setup.lab(&older), setup.aks());
    let refusals = aks.refusals(&lab, &plan(&lab, &aks.observe(&lab.name.value, Some(&lab)).unwrap()));
    assert!(refusals.iter().any(|refusal| refusal.to_string().contains("does not go back")), "{refusals:?}");
}

#[test]
fn small_system_pools_are_warned_of() {
    let setup = Setup::new();
    let caveats = setup.aks().caveats(&setup.lab(LAB));
    assert!(caveats.len() == 1 && caveats[0].contains("system pool `system` has machines of 2 vCPUs"), "{caveats:?}");
    let larger = LAB.replacen("Standard_B2ms", "Standard_D4s_v5", 1);
    assert_eq!(setup.aks().caveats(&setup.lab(&larger)), Vec::<String>::new());
}

#[test]
fn users_own_group_is_used_and_left() {
    let setup = Setup::new();
    let text = format!("{LAB}\n[aks]\nresource_group = \"team\"\n");
    let error = setup.up(&text, Options::default()).unwrap_err();
    assert!(error.to_string().contains("there is no resource group `team`"), "{error}");
    setup.fake.model().add_group("team", json!({ "cost": "42" }));
    setup.up(&text, Options::default()).unwrap();
    assert!(setup.everything().iter().any(|name| name.starts_with("cluster/klab-pools-")));
    assert_eq!(setup.down().unwrap(), Vec::<String>::new());
    assert_eq!(setup.everything(), ["group/team"]);
}

#[test]
fn removal_that_nobody_waited_for_is_finished_later() {
    let setup =
        Setup::with(Latency { create: Duration::ZERO, pool: Duration::ZERO, delete: Duration::from_millis(120) });
    setup.up(LAB, Options::default()).unwrap();
    let aks = setup.aks();
    setup.fake.model().held = true;
    setup.work("down", |work| aks.begin_removal("pools", work)).unwrap();
    assert!(aks.is_being_removed("pools"));
    let left = aks.remains("pools").unwrap();
    assert!(left.iter().any(|left| left.contains("being removed by Azure")), "{left:?}");
    setup.fake.model().held = false;
    // `up` waits for the old lab to be gone.
    setup.up(LAB, Options::default()).unwrap();
    assert_eq!(plain(&setup.everything()), COMPLETE);
    assert!(!setup.aks().is_being_removed("pools"));
    setup.work("down", |work| setup.aks().begin_removal("pools", work)).unwrap();
    assert_eq!(setup.down().unwrap(), Vec::<String>::new());
}

#[test]
fn paused_lab_is_resumed() {
    let setup = Setup::new();
    setup.up(LAB, Options::default()).unwrap();
    for _ in 0..2 {
        setup.work("pause", |work| setup.aks().pause("pools", work)).unwrap();
    }
    let error = setup.up(LAB, Options::default()).unwrap_err();
    assert_eq!(error.hints, ["klab resume pools"]);
    for _ in 0..2 {
        setup.work("resume", |work| setup.aks().resume("pools", work)).unwrap();
    }
    assert_eq!(setup.up(LAB, Options::default()).unwrap(), []);
}

#[test]
fn expired_labs_are_found_by_their_tags_without_any_state() {
    let setup = Setup::new();
    setup.up(&format!("ttl = \"8h\"\n{LAB}"), Options::default()).unwrap();
    std::fs::remove_dir_all(setup.home.root()).unwrap();
    let labs = setup.aks().labs().unwrap();
    assert_eq!((labs.len(), labs[0].lab.as_str(), labs[0].owner.as_str()), (1, "pools", CLIENT));
    let hours = labs[0].expires.unwrap().duration_since(jiff::Timestamp::now()).as_hours();
    assert!((7..=8).contains(&hours), "{hours}");
    let left = setup.work("gc", |work| setup.aks().remove_expired(&labs[0], work)).unwrap();
    assert_eq!((left, setup.everything()), (Vec::new(), Vec::new()));
}

#[test]
fn transcript_holds_every_call_and_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let setup = Setup::new();
    std::fs::create_dir_all(setup.home.lab("pools")).unwrap();
    setup.up(LAB, Options::default()).unwrap();
    let file = setup.home.lab("pools").join("az.log");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains(" aks nodepool add ")).count(), 2, "{text}");
    for file in [file, setup.home.lab("pools").join("kubeconfig"), setup.home.lab("pools").join("aks.json")] {
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
}

#[test]
fn commands_are_those_that_are_run() {
    let setup = Setup::new();
    let (lab, aks) = (setup.lab(LAB), setup.aks());
    let actions = plan(&lab, &aks.observe(&lab.name.value, Some(&lab)).unwrap());
    let said = aks.commands(&lab, &actions).unwrap();
    setup.fake.take_calls();
    setup.up(LAB, Options::default()).unwrap();
    let calls = setup.fake.take_calls();
    let mut changes: Vec<&String> =
        calls.iter().filter(|call| call.contains(" create ") || call.contains(" add ")).collect();
    // Pools are added side by side: in which order is chance.
    let mut said = said;
    changes.sort();
    // A call that was too early is made again.
    changes.dedup();
    said.sort();
    assert_eq!((said.len(), changes.len()), (4, 4), "{said:#?} {changes:#?}");
    let program = setup.fake.program(setup.folder.path());
    for (said, run) in said.iter().zip(changes) {
        assert!(said.starts_with(&format!("{} {run} --subscription ", program.display())), "{said}\n{run}");
    }
}
