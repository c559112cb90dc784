//! `klab az` for the rest of a pool's life: node images, other machines and zones, and the way back.

use serde_json::{Value, json};

use super::{LAB, OF_LAB, az, document};
use crate::environment::Environment;

/// upgrade-node-image, resize-node-pool, roll-back-node-pool-version and configure-automatic-zone-placement, as typed there.
#[test]
fn pools_get_other_images_machines_and_zones_and_go_back() {
    let environment = &Environment::new();
    let old = "[sim]\nnode_start = \"1ms\"\n[pool.old]\nkubernetes = \"1.34\"\nnode_image = \"202607.20.0\"\n";
    environment.write("small.toml", format!("{LAB}{old}"));
    environment.succeeds(&["up", "small.toml"]);
    let on = |verb: &str, rest: &str| document(environment, &format!("aks nodepool {verb} {OF_LAB} -n old {rest}"));
    let said = |verb: &str, rest: &str| az(environment, &format!("aks nodepool {verb} {OF_LAB} -n old {rest}"));
    let of = |pool: &Value, keys: [&str; 2]| keys.map(|key| pool[key].as_str().unwrap_or_default().to_owned());
    let image = |version: &str| format!("AKSUbuntu-2404gen2containerd-{version}");
    let (before, latest) = (image("202607.20.0"), image("202608.14.0"));
    let versions = ["currentOrchestratorVersion", "nodeImageVersion"];
    assert_eq!(of(&on("show", ""), versions), ["1.34.0", &before]);
    assert_eq!(of(&on("get-upgrades", ""), ["latestNodeImageVersion", "recentlyUsedVersions"]), [&*latest, ""]);
    let both = said("upgrade", "--node-image-only --max-surge 1");
    assert!(both.contains("Conflicting flags. Unable to specify max-surge/drain-timeout"), "{both}");
    assert_eq!(of(&on("upgrade", "--node-image-only"), versions), ["1.34.0", &latest]);
    let used = on("get-rollback-versions", "")[0].clone();
    assert_eq!(of(&used, ["orchestratorVersion", "nodeImageVersion"]), ["1.34.0", &before]);
    assert!(used["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{used}");
    assert_eq!(of(&on("upgrade", "-k 1.35 --yes"), versions), ["1.35.0", &latest]);
    let table = said("get-rollback-versions", "-o table");
    assert!(table.contains("1.34.0") && table.contains(&latest), "{table}");
    assert_eq!(of(&on("rollback", ""), versions), ["1.34.0", &latest]);
    let again = said("rollback", "");
    assert!(again.contains("ERROR: No rollback versions available."), "{again}");
    for (flag, why) in [
        ("--upgrade-strategy bluegreen --max-unavailable 1", "blue-green upgrades have no `max_unavailable`"),
        ("--batch-soak-duration 5", "need `strategy = \"blue-green\"`"),
        ("--max-blocked-nodes 2", "more blocked nodes than surge nodes"),
    ] {
        let refused = said("upgrade", &format!("-k 1.35 --yes {flag}"));
        assert!(refused.contains(why), "{flag}: {refused}");
    }
    let flags = "--upgrade-strategy BlueGreen --drain-batch-size 100% --batch-soak-duration 0 --final-soak-duration 0";
    let upgraded = on("upgrade", &format!("-k 1.35 --yes {flags}"));
    assert_eq!(of(&upgraded, ["currentOrchestratorVersion", "upgradeStrategy"]), ["1.35.0", "BlueGreen"]);
    assert_eq!(
        (&upgraded["count"], &upgraded["upgradeSettingsBlueGreen"]["drainBatchSize"]),
        (&json!(1), &json!("100%"))
    );
    let idle = said("operation-abort", "");
    assert!(idle.contains("pool `old` is not being upgraded"), "{idle}");
    on("rollback", "");
    let flags = "--batch-soak-duration 0 --final-soak-duration 60 --no-wait";
    // Before its final soak, an upgrade that is aborted has no way back: it goes on where it was, and is aborted again.
    let mut tries = (0..20).map(|_| {
        said("upgrade", &format!("-k 1.35 --yes {flags}"));
        // It begins once az has answered, and the process that waits for it looks each second.
        let is_aborted = (0..500).any(|_| said("operation-abort", "").starts_with("--- status 0"));
        assert!(is_aborted, "{}", said("show", ""));
        (0..500).map(|_| said("rollback", "")).find(|answer| !answer.contains("in progress")).unwrap()
    });
    let went_back = tries.find(|answer| !answer.contains("No rollback versions available")).unwrap();
    assert!(went_back.contains("\"currentOrchestratorVersion\": \"1.34.0\""), "{went_back}");
    assert_eq!(of(&on("upgrade", "-k 1.35 --yes --final-soak-duration 0"), versions), ["1.35.0", &latest]);
    on("update", "--upgrade-strategy Rolling --drain-timeout 5");
    let resized = on("update", "--node-vm-size Standard_D4s_v3");
    assert_eq!((&resized["vmSize"], &resized["count"]), (&json!("Standard_D4s_v3"), &json!(1)));
    let refused = said("update", "--node-vm-size Standard_D4ps_v5");
    assert!(refused.contains("Standard_D4s_v3 has the CPU architecture amd64"), "{refused}");
    assert_eq!(on("update", "--zones auto")["availabilityZones"], json!(["1", "2", "3"]));
    let refused = said("update", "--zones 1");
    assert!(refused.contains("AKS documents no other change"), "{refused}");
}
