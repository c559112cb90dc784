//! klab's az beside what else there is: the az of Azure, and labs that do not answer.

use std::process::Stdio;

use insta::assert_snapshot;

use super::{LAB, az, document, session, up};
use crate::environment::Environment;

#[test]
fn doctor_in_a_labs_shell_looks_for_the_az_of_azure() {
    let environment = up();
    let looked = |path: &str| {
        let mut shell = environment
            .command(&["shell", "small"])
            .env("SHELL", "/bin/sh")
            .env("PATH", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let typed = format!("'{}' doctor\n", env!("CARGO_BIN_EXE_klab"));
        std::io::Write::write_all(&mut shell.stdin.take().unwrap(), typed.as_bytes()).unwrap();
        let output = String::from_utf8(shell.wait_with_output().unwrap().stdout).unwrap();
        let line = output.lines().find(|line| line.split_whitespace().nth(1) == Some("az")).unwrap().to_owned();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(looked("/nowhere"), "absent az not on PATH; labs on aks need it (K0301)");
    let az = environment.write("azure/az", "#!/bin/sh\necho of-azure\n");
    std::fs::set_permissions(&az, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(looked(&format!("/nowhere:{}", az.parent().unwrap().display())), "ok az of-azure");
}

#[test]
fn lab_that_is_gone_leaves_the_others_in_the_list() {
    let environment = up();
    environment.write("gone.toml", LAB.replace("small", "gone"));
    environment.succeeds(&["up", "gone.toml"]);
    std::fs::remove_file(environment.home().join("server/clusters/gone/kubeconfig")).unwrap();
    let lines = ["aks list --query [].name -o tsv", "group list --query [].[name,location] -o tsv"];
    assert_snapshot!(session(&environment, &lines), @r"
    $ az aks list --query [].name -o tsv
    --- stdout
    klab-small
    --- stderr
    WARNING: Cluster 'klab-gone' is left out: the cluster of lab `gone` is gone
    --- status 0
    $ az group list --query [].[name,location] -o tsv
    --- stdout
    klab-gone	westeurope
    klab-small	westeurope
    --- status 0
    ");
}

#[test]
fn group_keeps_its_region_when_its_last_cluster_goes() {
    let environment = up();
    environment.write("north.toml", LAB.replace("small", "north") + "\n[aks]\nlocation = \"northeurope\"\n");
    environment.succeeds(&["up", "north.toml"]);
    // Its cluster cannot be asked any more.
    std::fs::remove_file(environment.home().join("server/clusters/north/kubeconfig")).unwrap();
    let group = || document(&environment, "group show -n klab-north --query location");
    assert_eq!(group(), "northeurope");
    az(&environment, "aks delete -g klab-north -n klab-north --yes");
    assert_eq!(group(), "northeurope");
    let made = document(&environment, "aks create -g klab-north -n again -c 1 --query location");
    assert_eq!(made, "northeurope");
}

#[test]
fn settings_of_the_autoscaler_stand_in_the_lab_file_that_az_makes() {
    let environment = Environment::new();
    az(&environment, "group create -n rg -l westeurope");
    let scanned = "--query autoScalerProfile.scanInterval";
    let created = "aks create -g rg -n mine -c 1 -e --min-count 1 --max-count 3 --ca-profile scan-interval=30s";
    assert_eq!(document(&environment, &format!("{created} {scanned}")), "30s");
    let file = environment.home().join("labs/mine/az.toml");
    assert!(std::fs::read_to_string(&file).unwrap().contains("[autoscaler]\nscan-interval = \"30s\""));
    assert_eq!(
        document(&environment, &format!("aks update -g rg -n mine --ca-profile scan-interval=20s {scanned}")),
        "20s"
    );
    environment.succeeds(&["up", file.to_str().unwrap()]);
    assert_eq!(document(&environment, &format!("aks show -g rg -n mine {scanned}")), "30s");
}
