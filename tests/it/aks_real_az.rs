//! Labs on AKS through the real az, against a stand-in for Azure's API on the loopback.
//!
//! Where az is missing, each test says on stderr that it was skipped and why. `.ci/azure-cli` installs az.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::azure::api::{Latency, Model};
use crate::azure::fault::{Fault, Trouble};
use crate::azure::real::{self, Login};
use crate::azure::server::Server;
use crate::{azure, skipped};

/// The real az, or a line that says which test is skipped and why.
fn az_or_skip() -> Option<PathBuf> {
    real::find().inspect_err(|reason| skipped::skipped(reason)).ok()
}

/// A klab whose az is the real one and whose Azure is the stand-in.
struct Setup {
    folder: tempfile::TempDir,
    server: Server,
    _kubernetes: azure::kubernetes::Behind,
    login: Login,
}

impl Setup {
    fn new(az: &Path, latency: Latency) -> Self {
        Self::with(latency, |server, folder| Login::new(az, server, folder))
    }

    fn with(latency: Latency, login: impl FnOnce(&Server, &Path) -> Login) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(Model::new(latency));
        let kubernetes = azure::kubernetes::attach(&server.model, folder.path());
        let login = login(&server, folder.path());
        Self { folder, server, _kubernetes: kubernetes, login }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_klab"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("KLAB_HOME", self.folder.path().join("home"))
            .env("KLAB_AZ", &self.login.az)
            .envs(self.login.environment.iter().cloned())
            .output()
            .unwrap()
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "klab {arguments:?}\n{text}\n{}", self.transcript());
        text
    }

    fn fails(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{text}");
        text
    }

    fn transcript(&self) -> String {
        let labs = std::fs::read_dir(self.folder.path().join("home/labs")).into_iter().flatten().flatten();
        labs.filter_map(|lab| std::fs::read_to_string(lab.path().join("az.log")).ok()).collect()
    }

    fn everything(&self) -> Vec<String> {
        self.server.model().everything()
    }

    fn fault(&self, fault: Fault) {
        self.server.model().faults.push(fault);
    }

    fn nothing_is_left(&self) {
        assert_eq!(self.everything(), Vec::<String>::new());
        assert!(!self.folder.path().join("home/labs").exists());
    }
}

const LATENCY: Latency = Latency {
    create: Duration::from_millis(500),
    pool: Duration::from_millis(300),
    delete: Duration::from_millis(200),
};

const LAB: &str = r#"
lab = "real"
provider = "aks"
kubernetes = "1.34"
ttl = "8h"

[pool.system]
mode = "system"
size = "Standard_B2ms"

[pool.spotty]
size = "Standard_D2s_v5"
zones = [1, 2]
spot = true
autoscale = { min = 1, max = 3 }
labels = { team = "a" }

[pool.windy]
size = "Standard_B2ms"
nodes = 1
labels = { team = "b", empty = "" }
taints = ["dedicated=special:NoSchedule", "more=x:NoExecute"]
max_pods = 30
os_disk = { size = 64 }
"#;

#[test]
fn scheduling_lab_goes_up_changes_and_leaves_nothing() {
    let Some(az) = az_or_skip() else { return };
    let setup = Setup::new(&az, LATENCY);
    let text = std::fs::read_to_string("labs/scheduling.toml").unwrap();
    setup.write("scheduling.toml", &text);
    setup.succeeds(&["up", "scheduling.toml", "--provider", "aks"]);
    setup.succeeds(&["verify", "scheduling"]);
    let pool = "nodes  = 1\nsize   = \"Standard_B2ms\"\nlabels = { workload = \"extra\" }";
    let other = "nodes  = 2\nsize   = \"Standard_B2ms\"\nlabels = { workload = \"extra\", team = \"a\" }";
    let changed = text.replace(pool, other);
    assert_ne!(changed, text);
    let changed = changed.replace("exist   = 1", "exist   = 2").replace("running      = 3", "running      = 4");
    setup.write("scheduling.toml", &changed);
    setup.succeeds(&["up", "scheduling.toml", "--provider", "aks"]);
    setup.succeeds(&["verify", "scheduling"]);
    setup.succeeds(&["down", "scheduling"]);
    setup.nothing_is_left();
}

#[test]
fn every_option_of_a_pool_reaches_azure_and_every_change_in_place_too() {
    let Some(az) = az_or_skip() else { return };
    let setup = Setup::new(&az, Latency::NONE);
    setup.write("real.toml", LAB);
    setup.succeeds(&["up", "real.toml", "--no-wait"]);
    let pool = |name: &str| {
        let pools = setup.server.model().pools();
        pools.into_iter().find(|pool| pool.name == name).unwrap().properties
    };
    let spotty = pool("spotty");
    assert_eq!(spotty["scaleSetPriority"], "Spot");
    assert_eq!((&spotty["minCount"], &spotty["maxCount"]), (&1.into(), &3.into()));
    assert_eq!(spotty["availabilityZones"], serde_json::json!(["1", "2"]));
    let windy = pool("windy");
    assert_eq!((&windy["maxPods"], &windy["osDiskSizeGB"], &windy["count"]), (&30.into(), &64.into(), &1.into()));
    assert_eq!(windy["nodeLabels"], serde_json::json!({ "team": "b", "empty": "" }));
    assert_eq!(windy["nodeTaints"], serde_json::json!(["dedicated=special:NoSchedule", "more=x:NoExecute"]));
    // Nothing differs, so nothing is done.
    setup.server.model().requests.clear();
    setup.succeeds(&["up", "real.toml", "--no-wait"]);
    let requests = std::mem::take(&mut setup.server.model().requests);
    assert!(requests.iter().all(|request| !request.starts_with("PUT")), "{requests:#?}");
    // Labels and taints go altogether, the autoscaler goes, counts change, the control plane is upgraded.
    let stay = "kubernetes = \"1.34\"\nsize =";
    let changed = LAB
        .replace("size =", stay)
        .replacen("kubernetes = \"1.34\"", "kubernetes = \"1.35\"", 1)
        .replace("labels = { team = \"b\", empty = \"\" }\n", "")
        .replace("taints = [\"dedicated=special:NoSchedule\", \"more=x:NoExecute\"]\n", "")
        .replace("nodes = 1", "nodes = 2")
        .replace("autoscale = { min = 1, max = 3 }", "nodes = 2")
        .replace("os_disk = { kubernetes = \"1.34\"\nsize =", "os_disk = { size =");
    setup.write("real.toml", &changed);
    setup.succeeds(&["up", "real.toml", "--no-wait"]);
    let (spotty, windy) = (pool("spotty"), pool("windy"));
    assert_eq!((&spotty["count"], &spotty["enableAutoScaling"]), (&2.into(), &false.into()));
    assert_eq!(spotty["nodeTaints"], serde_json::json!(["kubernetes.azure.com/scalesetpriority=spot:NoSchedule"]));
    assert_eq!(windy["count"], 2);
    assert!(windy["nodeLabels"].as_object().is_none_or(serde_json::Map::is_empty), "{}", windy["nodeLabels"]);
    assert!(windy["nodeTaints"].as_array().is_none_or(Vec::is_empty), "{}", windy["nodeTaints"]);
    let transcript = setup.transcript();
    assert!(transcript.contains("aks upgrade"), "{transcript}");
    assert!(!transcript.contains(azure::SECRET) && !transcript.contains("eyJ"), "{transcript}");
    setup.succeeds(&["down", "real"]);
    setup.nothing_is_left();
}

#[test]
fn troubles_that_pass_are_overcome_all_at_once() {
    let Some(az) = az_or_skip() else { return };
    let setup = Setup::new(&az, LATENCY);
    let names = ["throttled", "busy", "lost", "failing"];
    let pools = names.map(|name| format!("[pool.{name}]\nsize = \"Standard_B2ms\"\n")).concat();
    setup.write("real.toml", &format!("lab = \"real\"\nprovider = \"aks\"\n[pool.system]\nmode = \"system\"\n{pools}"));
    let words = "Operation is not allowed: Another operation (Updating) is in progress, please wait for it to finish.";
    let scarce = "We do not have sufficient capacity for the requested VM size in this region.";
    setup.fault(Fault::throttle("PUT", "/agentpools/throttled", 1));
    setup.fault(Fault::refuse("PUT", "/agentpools/busy", 2, 409, "OperationNotAllowed", words));
    setup.fault(Fault::new("PUT", "/agentpools/lost", 1, Trouble::LoseAnswer));
    setup.fault(Fault::fail_later("/agentpools/failing", 1, "AllocationFailed", scarce));
    let said = setup.succeeds(&["up", "real.toml", "--no-wait"]);
    assert!(said.contains(&format!("pool `failing` failed in Azure: (AllocationFailed) {scarce}")), "{said}");
    let unspent: Vec<Fault> = setup.server.model().faults.iter().filter(|fault| fault.times > 0).cloned().collect();
    assert!(unspent.is_empty(), "{unspent:?}");
    assert_eq!(setup.everything().len(), 8, "two groups, the cluster, five pools: {:?}", setup.everything());
    setup.succeeds(&["down", "real"]);
    setup.nothing_is_left();
}

#[test]
fn troubles_that_do_not_pass_are_explained_in_azures_own_words() {
    let Some(az) = az_or_skip() else { return };
    let setup = Setup::new(&az, Latency::NONE);
    setup.write("real.toml", LAB);
    let message =
        "Insufficient regional vcpu quota left for location westeurope. left regional vcpu quota 1, requested quota 2.";
    setup.fault(Fault::refuse("PUT", "/agentpools/windy", 1, 400, "ErrCode_InsufficientVCPUQuota", message));
    let said = setup.fails(&["up", "real.toml", "--no-wait"], 3);
    assert!(
        said.contains(message) && said.contains("could not create pool `windy`") && said.contains("hint"),
        "{said}"
    );
    let expired = "The access token expiry UTC time has passed.";
    let fault = Fault::refuse("GET", "", u32::MAX, 401, "ExpiredAuthenticationToken", expired);
    setup.fault(Fault { within: true, ..fault });
    let said = setup.fails(&["up", "real.toml", "--no-wait"], 3);
    assert!(said.contains("ExpiredAuthenticationToken") && said.contains("az login"), "{said}");
    setup.server.model().faults.clear();
    setup.succeeds(&["down", "real"]);
    setup.nothing_is_left();
}

#[test]
fn what_others_print_beside_the_real_az_changes_nothing() {
    let Some(az) = az_or_skip() else { return };
    let folder = tempfile::tempdir().unwrap();
    let wrapper = folder.path().join("az");
    let script = format!(
        "#!/bin/sh\nprintf '\\357\\273\\277[notice] A new release of pip is available\\r\\n'\n\
         echo '/usr/lib/python3/requests/__init__.py:87: RequestsDependencyWarning: urllib3' >&2\necho '  warnings.warn(' >&2\n\
         '{}' \"$@\"\ncode=$?\necho '{{\"telemetry\":\"off\"}}'\necho 'sys:1: ResourceWarning: unclosed' >&2\nexit $code\n",
        az.display()
    );
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let setup = Setup::new(&wrapper, Latency::NONE);
    let lab = "lab = \"real\"\nprovider = \"aks\"\n[pool.system]\nmode = \"system\"\n";
    setup.write("real.toml", lab);
    setup.succeeds(&["up", "real.toml", "--no-wait"]);
    setup.server.model().requests.clear();
    setup.succeeds(&["up", "real.toml", "--no-wait"]);
    let requests = std::mem::take(&mut setup.server.model().requests);
    assert!(requests.iter().all(|request| !request.starts_with("PUT")), "{requests:#?}");
    let words = "The client 'c' does not have authorization to perform action 'a' over scope 's'.";
    setup.fault(Fault::refuse("PUT", "/agentpools/more", 1, 403, "AuthorizationFailed", words));
    setup.write("real.toml", &format!("{lab}[pool.more]\nsize = \"Standard_B2ms\"\n"));
    let said = setup.fails(&["up", "real.toml", "--no-wait"], 3);
    assert!(said.contains(words) && !said.contains("Dependency") && !said.contains("telemetry"), "{said}");
    setup.succeeds(&["down", "real"]);
    setup.nothing_is_left();
}

#[test]
fn nobody_logged_in_is_said_with_the_command_that_mends_it() {
    let Some(az) = az_or_skip() else { return };
    let setup = Setup::with(Latency::NONE, |server, folder| Login::logged_out(&az, server, folder));
    setup.write("real.toml", LAB);
    let said = setup.fails(&["up", "real.toml"], 3);
    assert!(said.contains("Please run 'az login' to setup account."), "{said}");
    assert!(said.contains("hint") && said.contains("then:\n        az login\n"), "{said}");
}

#[test]
fn registry_is_attached_in_the_way_that_az_takes() {
    let Some(az) = az_or_skip() else { return };
    let setup = Setup::new(&az, Latency::NONE);
    let text = "lab = \"real\"\nprovider = \"aks\"\n[aks]\nregistry = \"shop\"\n[pool.system]\nmode = \"system\"\n";
    setup.write("real.toml", text);
    setup.succeeds(&["up", "real.toml", "--no-wait"]);
    let pullers: Vec<_> = setup.server.model().pullers.iter().cloned().collect();
    assert!(
        pullers.len() == 1 && pullers[0].0 == "shop" && pullers[0].1.starts_with("kubelet-of-klab-real-"),
        "{pullers:?}"
    );
    setup.server.model().requests.clear();
    setup.succeeds(&["up", "real.toml", "--no-wait"]);
    let requests = std::mem::take(&mut setup.server.model().requests);
    assert!(requests.iter().all(|request| !request.starts_with("PUT")), "{requests:#?}");
    setup.succeeds(&["down", "real"]);
    setup.nothing_is_left();
}

#[test]
fn trouble_of_the_login_service_is_one_sentence() {
    let Some(az) = az_or_skip() else { return };
    let setup = Setup::new(&az, Latency::NONE);
    setup.write("real.toml", LAB);
    for entry in std::fs::read_dir(&setup.login.folder).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("msal_token_cache") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    setup.server.model().gives_no_tokens = true;
    let said = setup.fails(&["up", "real.toml", "--no-wait"], 3);
    assert!(said.contains("HTTP Error: 500") && said.contains("hint") && !said.contains("Traceback"), "{said}");
}

#[test]
fn pool_whose_change_failed_is_changed_by_the_real_az_again() {
    let Some(az) = az_or_skip() else { return };
    let setup = Setup::new(&az, Latency::NONE);
    let lab =
        |nodes: u32| format!("lab = \"real\"\nprovider = \"aks\"\n[pool.system]\nmode = \"system\"\nnodes = {nodes}\n");
    setup.write("real.toml", &lab(1));
    setup.succeeds(&["up", "real.toml", "--no-wait"]);
    setup.server.model().keeps_reasons = false;
    let scarce = "We do not have sufficient capacity for the requested VM size in this region.";
    setup.fault(Fault::fail_later("/agentpools/system", 1, "AllocationFailed", scarce));
    setup.write("real.toml", &lab(2));
    let said = setup.fails(&["up", "real.toml", "--no-wait"], 3);
    assert!(
        said.contains(scarce) && said.contains("this removes what there is of the lab:\n        klab down real\n"),
        "{said}"
    );
    setup.succeeds(&["up", "real.toml", "--no-wait"]);
    assert!(!setup.transcript().contains("nodepool delete"), "{}", setup.transcript());
    setup.succeeds(&["down", "real"]);
    setup.nothing_is_left();
}

/// Another version with its settings, back to the one before, the newest image alone; a preview says which extension it needs.
#[test]
fn pools_are_upgraded_rolled_back_and_reimaged_by_the_real_az() {
    let Some(az) = az_or_skip() else { return };
    let setup = Setup::new(&az, Latency::NONE);
    let apps = "[pool.apps]\nkubernetes = \"1.34\"\nupgrade = { max_surge = 2 }\n";
    let lab = "lab = \"real\"\nprovider = \"aks\"\nkubernetes = \"1.35\"\n[pool.system]\nmode = \"system\"\n";
    setup.write("real.toml", &format!("{lab}{apps}"));
    setup.succeeds(&["up", "real.toml", "--no-wait"]);
    let apps = |key: &str| {
        let pools = setup.server.model().pools();
        pools.into_iter().find(|pool| pool.name == "apps").unwrap().properties[key].clone()
    };
    let image = apps("nodeImageVersion");
    setup.succeeds(&["pool", "upgrade", "apps", "--kubernetes", "1.35", "--drain-timeout", "10"]);
    assert_eq!(
        (apps("currentOrchestratorVersion"), &apps("upgradeSettings")["maxSurge"]),
        ("1.35.0".into(), &"2".into())
    );
    assert_eq!(apps("upgradeSettings")["drainTimeoutInMinutes"], 10);
    assert_ne!(apps("nodeImageVersion"), image, "a version comes with its image");
    setup.succeeds(&["pool", "rollback", "apps"]);
    assert_eq!((apps("currentOrchestratorVersion"), apps("nodeImageVersion")), ("1.34.2".into(), image.clone()));
    setup.succeeds(&["pool", "upgrade", "apps", "--node-image-only"]);
    assert_ne!(apps("nodeImageVersion"), image);
    assert_eq!(apps("currentOrchestratorVersion"), "1.34.2");
    let said = setup.fails(&["pool", "abort", "apps"], 4);
    assert!(
        said.contains("could not abort the upgrade of pool `apps`") && said.contains("There is no operation"),
        "{said}"
    );
    setup.server.model().held = true;
    setup.succeeds(&["pool", "upgrade", "apps", "--kubernetes", "1.35", "--no-wait"]);
    setup.succeeds(&["pool", "abort", "apps"]);
    setup.server.model().held = false;
    let requests = setup.server.model().requests.clone();
    assert!(
        requests.iter().any(|request| request.starts_with("POST") && request.ends_with("/apps/abort")),
        "{requests:?}"
    );
    let said = setup.fails(&["pool", "resize", "apps", "--size", "Standard_B4ms"], 4);
    assert!(said.contains("--node-vm-size") && said.contains("az extension add --name aks-preview"), "{said}");
    let transcript = setup.transcript();
    assert!(transcript.contains("aks nodepool rollback") && transcript.contains("--node-image-only"), "{transcript}");
    setup.succeeds(&["down", "real"]);
    setup.nothing_is_left();
}

/// What an az said: exit code, stdout, and the first line of its error.
fn said(command: &mut Command, line: &str) -> (Option<i32>, String, String) {
    let mut words: Vec<&str> = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 1 { words.push(part) } else { words.extend(part.split_whitespace()) }
    }
    let output = command.args(words).stdin(std::process::Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let error = text.lines().find(|line| line.starts_with("ERROR: ")).unwrap_or_default().to_owned();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), error)
}

/// Every key of a document, with the path to it; of lists, those of the first item.
fn keys(document: &serde_json::Value, path: &str, into: &mut std::collections::BTreeSet<String>) {
    match document {
        serde_json::Value::Object(entries) => {
            for (key, value) in entries {
                into.insert(format!("{path}{key}"));
                // What a user named, and what the stand-in says less of than Azure.
                if path.is_empty() && key == "agentPoolProfiles" {
                    keys(value, &format!("{key}."), into);
                }
            }
        }
        serde_json::Value::Array(items) => items.first().into_iter().for_each(|item| keys(item, path, into)),
        _ => {}
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a row for each command")]
fn klabs_own_az_says_what_the_real_one_says() {
    let Some(az) = az_or_skip() else { return };
    let setup = Setup::new(&az, Latency::NONE);
    let real = |line: &str| said(Command::new(&az).envs(setup.login.environment.iter().cloned()), line);
    let klab = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_klab"));
        said(command.arg("az").env("KLAB_HOME", setup.folder.path().join("other")).env_remove("KUBECONFIG"), line)
    };
    let of = |verb: &str, rest: &str| format!("aks nodepool {verb} -g rg --cluster-name c {rest}");
    let changes = [
        "group create -n rg -l westeurope -o none".to_owned(),
        "aks create -g rg -n c --no-ssh-key --node-count 2 --node-vm-size Standard_B2ms -o none".to_owned(),
        of(
            "add",
            "-n other -c 1 -s Standard_B2ms --labels a=b --node-taints k=v:NoSchedule --zones 1 2 --max-pods 30 -o none",
        ),
        of("add", "-n spotty -c 1 -s Standard_B2ms --priority Spot -e --min-count 1 --max-count 3 -o none"),
        of("scale", "-n other -c 2 -o none"),
        of("update", "-n other --labels c=d e=f -o none"),
        of("update", "-n spotty -u --min-count 1 --max-count 5 -o none"),
    ];
    for line in &changes {
        assert_eq!(
            (real(line), klab(line)),
            ((Some(0), String::new(), String::new()), (Some(0), String::new(), String::new())),
            "{line}"
        );
    }
    let lines = [
        of("get-rollback-versions", "-n other"),
        of("rollback", "-n other"),
        of("upgrade", "-n other --node-image-only --max-surge 1"),
        of("list", "--query [].name"),
        of("list", "--query '[].{Name:name, Count:count, Mode:mode, Size:vmSize}' -o table"),
        of("list", "--query '[].[name, count, mode]' -o table"),
        of("list", "--query [].name -o table"),
        of("list", "--query '[].{Name:name, Scaled:enableAutoScaling, Max:maxCount}' -o tsv"),
        of("list", "--query '[?mode==`User`].name' -o tsv"),
        of("list", "--query '[].{b:name, a:count}' -o yaml"),
        of(
            "show",
            "-n other --query '[count, nodeLabels, nodeTaints, availabilityZones, maxPods, provisioningState, powerState.code]'",
        ),
        of("show", "-n spotty --query '[scaleSetPriority, minCount, maxCount, nodeTaints, nodeLabels, type]'"),
        of("show", "-n other --query nodeLabels -o tsv"),
        of("show", "-n other --query nodeLabels"),
        "group exists -n rg".to_owned(),
        "group exists -n rg -o tsv".to_owned(),
        "group exists -n other".to_owned(),
        "group show -n rg --query '{n:name, l:location}' -o table".to_owned(),
        "aks show -g rg -n c --query '[name, resourceGroup, location, provisioningState]'".to_owned(),
        "aks list --query [].name -o tsv".to_owned(),
        // What az itself refuses.
        of("add", "-n other"),
        of("add", "-n toolongpoolname"),
        of("add", "-n a-b"),
        of("add", "-n new --node-taints dedicated:NoSchedule"),
        of("add", "-n new --labels a"),
        of("add", "-n new --labels -x=y"),
        of("add", "-n new --labels a=b=c"),
        of("add", "-n new --labels a/b/c=d"),
        of("add", "-n new -k abc"),
        of("add", "-n new --mode foo"),
        of("add", "-n new --spot-max-price 0.1"),
        of("add", "-n new -e"),
        of("add", "-n new -e --min-count 5 --max-count 3"),
        of("add", "-n new -e --min-count 5 --max-count 9"),
        of("add", "-n new --min-count 5"),
        of("add", "-n new --os-sku Windows2022"),
        of("add", "-n new --foo bar"),
        of("add", "-n new -c two"),
        of("add", "-n"),
        of("add", ""),
        of("scale", "-n other -c 2"),
        of("scale", "-n spotty -c 2"),
        of("delete", "-n nope"),
        of("update", "-n other -e -d"),
        of("update", "-n other -u --min-count 1 --max-count 2"),
        of("upgrade", "-n other -k 1.34 --node-image-only"),
        of("list", "-o tabel"),
        of("list", "--query ["),
        of("lisst", ""),
        "aks create -g rg -n c --no-ssh-key".to_owned(),
        "aks scale -g rg -n c -c 3".to_owned(),
        "aks update -g rg -n c --cluster-autoscaler-profile foo=1".to_owned(),
        "aks update -g rg -n c -e --min-count 1 --max-count 2".to_owned(),
        "aks wait -g rg -n c".to_owned(),
        "group show -n other".to_owned(),
        "aks delete -g rg -n c".to_owned(),
        "foo".to_owned(),
    ];
    let different: Vec<String> = lines
        .iter()
        .filter_map(|line| {
            let (one, other) = (real(line), klab(line));
            (one != other).then(|| format!("az {line}\n  real {one:?}\n  klab {other:?}\n"))
        })
        .collect();
    assert!(different.is_empty(), "{}", different.concat());
    for line in [of("show", "-n other"), "aks show -g rg -n c".to_owned(), "group show -n rg".to_owned()] {
        let of_document = |(_, text, _): (Option<i32>, String, String)| {
            let mut all = std::collections::BTreeSet::new();
            keys(&serde_json::from_str(&text).unwrap(), "", &mut all);
            all
        };
        assert_eq!(of_document(klab(&line)), of_document(real(&line)), "az {line}");
    }
    assert_eq!(klab("group delete -n rg --yes").0, Some(0));
}

/// virtual-machines-node-pools: az takes one size at a time.
#[test]
fn single_virtual_machines_come_and_change_size_by_size() {
    let Some(az) = az_or_skip() else { return };
    let setup = Setup::new(&az, LATENCY);
    let lab = |system: &str, mixed: &str| {
        let pool = |name: &str, mode: &str, sizes: &str| {
            format!("[pool.{name}]\nmode = \"{mode}\"\ntype = \"VirtualMachines\"\nsizes = {{ {sizes} }}\n")
        };
        let pools = pool("system", "system", system) + &pool("mixed", "user", mixed);
        setup.write("real.toml", &format!("lab = \"real\"\nprovider = \"aks\"\n{pools}"));
        setup.succeeds(&["up", "real.toml"])
    };
    let sizes = |name: &str| {
        let pools = setup.server.model().pools();
        let pool = pools.into_iter().find(|pool| pool.name == name).unwrap().properties;
        assert_eq!(
            (&pool["type"], &pool["vmSize"], &pool["count"]),
            (&"VirtualMachines".into(), &().into(), &().into())
        );
        let manual = pool["virtualMachinesProfile"]["scale"]["manual"].as_array().cloned().unwrap_or_default();
        let text: Vec<String> =
            manual.iter().map(|one| format!("{} {}", one["size"].as_str().unwrap(), one["count"])).collect();
        text.join(", ")
    };
    lab("\"Standard_D2s_v5\" = 1, \"Standard_D4s_v5\" = 1", "\"Standard_B2ms\" = 2");
    assert_eq!(sizes("system"), "Standard_D2s_v5 1, Standard_D4s_v5 1", "the second size comes after the cluster");
    assert_eq!(sizes("mixed"), "Standard_B2ms 2");
    let said = lab("\"Standard_D2s_v5\" = 2", "\"Standard_D4s_v5\" = 1, \"Standard_D2s_v5\" = 1");
    assert_eq!(
        (sizes("system"), sizes("mixed")),
        ("standard_d2s_v5 2".to_owned(), "standard_d2s_v5 1, Standard_D4s_v5 1".to_owned()),
        "{said}"
    );
    let listed = setup.succeeds(&["pool", "list"]);
    assert!(listed.contains("1 × Standard_D2s_v5, 1 × Standard_D4s_v5"), "{listed}");
    setup.server.model().requests.clear();
    lab("\"Standard_D2s_v5\" = 2", "\"Standard_D4s_v5\" = 1, \"Standard_D2s_v5\" = 1");
    let requests = std::mem::take(&mut setup.server.model().requests);
    assert!(requests.iter().all(|request| !request.starts_with("PUT")), "{requests:#?}");
    setup.succeeds(&["down", "real"]);
    setup.nothing_is_left();
}
