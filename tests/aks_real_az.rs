//! Labs on AKS through the real az, against a stand-in for Azure's API on the loopback.
//!
//! A test without libtest's harness would be silent; where az is missing each test says that it was skipped and why.

mod azure;

use std::path::PathBuf;

use azure::api::{Latency, Model};
use azure::real::{self, Login};
use azure::server::Server;

/// The real az, or a line that says which test is skipped and why.
fn az_or_skip(test: &str) -> Option<PathBuf> {
    match real::find() {
        Ok(az) => Some(az),
        Err(reason) => {
            // Written past libtest's capture, so that nobody takes a skipped test for a passed one.
            let line = format!("skipped aks_real_az::{test}: {reason}\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
            None
        }
    }
}

#[test]
fn az_logs_in_and_sees_the_subscription() {
    let Some(az) = az_or_skip("az_logs_in_and_sees_the_subscription") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(Model::new(Latency::NONE));
    let login = Login::new(&az, &server, folder.path());
    let account = login.run(&["account", "show", "-o", "json"]);
    let subscription = server.model().subscription.clone();
    assert!(account.contains(&subscription), "{account}");
    for line in [
        "group create -n g -l westeurope --tags a=b -o json",
        "group show -n g -o json",
        "group list --tag a -o json",
        "provider show -n Microsoft.ContainerService --query registrationState -o json",
        "aks get-versions -l westeurope -o json",
        "vm list-skus -l westeurope -r virtualMachines --all true -o json",
        "vm list-usage -l westeurope -o json",
        "aks create -g g -n c -l westeurope --tier free -k 1.34 --node-resource-group MC_x --network-plugin azure --network-plugin-mode overlay --no-ssh-key --node-os-upgrade-channel None --auto-upgrade-channel none --tags a=b --nodepool-name sys --node-vm-size Standard_B2ms --nodepool-labels x=y --nodepool-taints CriticalAddonsOnly=true:NoSchedule --nodepool-tags a=b --node-count 1 --max-pods 250 --node-osdisk-type Managed --node-osdisk-size 128 --no-wait -o json",
        "aks show -g g -n c -o json",
        "aks nodepool add -g g --cluster-name c -n extra --mode User -s Standard_B2ms --labels a=b --node-taints k=v:NoSchedule --tags a=b -c 1 --max-pods 250 --node-osdisk-type Managed --node-osdisk-size 128 --no-wait -o json",
        "aks nodepool list -g g --cluster-name c -o json",
        "aks nodepool update -g g --cluster-name c -n extra --labels a=c --node-taints  --no-wait -o json",
        "aks nodepool scale -g g --cluster-name c -n extra -c 2 --no-wait -o json",
        "aks get-credentials -g g -n c --file FILE --overwrite-existing -o json",
        "aks nodepool delete -g g --cluster-name c -n extra --no-wait -o json",
        "tag update --resource-id /subscriptions/SUB/resourceGroups/g --operation Merge --tags e=f -o json",
        "aks upgrade -g g -n c -k 1.35 --control-plane-only --yes --no-wait -o json",
        "aks stop -g g -n c --no-wait -o json",
        "aks start -g g -n c --no-wait -o json",
        "aks list -o json",
        "group delete -n g --yes --no-wait -o json",
    ] {
        let line = line.replace("SUB", &subscription).replace("FILE", &folder.path().join("kc").display().to_string());
        let arguments: Vec<&str> = line.split(' ').collect();
        let started = std::time::Instant::now();
        let output = std::process::Command::new(&login.az)
            .args(&arguments)
            .envs(login.environment.iter().cloned())
            .output()
            .unwrap();
        eprintln!("{:?} {} {} {}", started.elapsed(), output.status, line, String::from_utf8_lossy(&output.stderr));
        if !output.status.success() || std::env::var_os("SHOW").is_some() {
            eprintln!("{}", String::from_utf8_lossy(&output.stdout));
        }
        let requests = std::mem::take(&mut server.model().requests);
        for request in requests {
            eprintln!("    {request}");
        }
    }
    assert_eq!(server.model().everything(), Vec::<String>::new());
}
