//! What az has to do with labs on a cluster that klab did not make: nothing.

use super::Somebodys;

#[test]
fn lab_on_somebody_elses_cluster_has_no_names_in_azure() {
    let cluster = Somebodys::new();
    cluster
        .own
        .write("mine.toml", "lab = \"mine\"\nprovider = \"existing\"\n\n[config.settings]\ndata = { a = \"b\" }\n");
    cluster.own.succeeds(&["up", "mine.toml"]);
    let exports = cluster.own.succeeds(&["env", "mine"]);
    assert!(exports.contains("KLAB_LAB=mine\n"), "{exports}");
    assert!(!exports.contains("RES_GROUP") && !exports.contains("AKS_NAME"), "{exports}");
}

#[test]
fn az_neither_lists_nor_deletes_what_is_on_somebody_elses_cluster() {
    let cluster = Somebodys::new();
    cluster
        .own
        .write("mine.toml", "lab = \"mine\"\nprovider = \"existing\"\n\n[config.settings]\ndata = { a = \"b\" }\n");
    cluster.own.write("small.toml", "lab = \"small\"\n\n[pool.main]\nmode = \"system\"\n");
    cluster.own.succeeds(&["up", "mine.toml"]);
    cluster.own.succeeds(&["up", "small.toml"]);
    let of = |line: &str| cluster.klab(&line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(of("az aks list --query [].name -o tsv"), "--- stdout\nklab-small\n--- status 0\n");
    assert_eq!(of("az group list --query [].name -o tsv"), "--- stdout\nklab-small\n--- status 0\n");
    for line in [
        "aks delete -g klab-mine -n klab-mine --yes",
        "aks show -g klab-mine -n klab-mine",
        "group delete -n klab-mine --yes",
    ] {
        let said = of(&format!("az {line}"));
        assert!(said.contains("(ResourceGroupNotFound)") && said.contains("--- status 3"), "{line}: {said}");
    }
    assert!(of("status mine").contains("--- status 0"));
}
