//! Completes new versions of objects of some kinds, once their fields are assigned to managers.

use klab_api_machinery::defaults::job::{generate_selector, inherit_labels};
use klab_api_machinery::registry::strategy::spec;
use klab_api_machinery::resource::PRIORITY_LEVEL_CONFIGURATIONS;
use klab_api_machinery::value::{list_mut, time_text};
use klab_api_machinery::views::{FlowSchema, metadata};
use serde_json::{Value, json};

use crate::builtin;
use crate::rbac::User;
use crate::transaction::Transaction;
use klab_api_machinery::policy_type_check;

/// A new namespace is held until what it contains is gone.
// upstream: pkg/registry/core/namespace/strategy.go PrepareForCreate (v1.36)
pub(super) fn finalize_namespace(new: &mut Value) {
    let finalizers = list_mut(&mut new["spec"]["finalizers"]);
    if !finalizers.iter().any(|finalizer| finalizer == "kubernetes") {
        finalizers.push(json!("kubernetes"));
    }
}

/// A new Job selects its own pods, unless it says otherwise.
pub(super) fn select_own_pods(old: Option<&Value>, new: &mut Value) {
    if old.is_none() {
        generate_selector(new);
    }
    inherit_labels(new);
}

/// The expressions of a policy are held against the types of the kinds it is for.
pub(super) fn check_types(transaction: &Transaction<'_>, old: Option<&Value>, new: &mut Value) {
    let before = old.map_or(0, |old| metadata(old).generation());
    if old.is_none_or(|old| spec(old, new)) {
        let state = &transaction.state;
        let of_custom = |group: &str, version: &str, plural: &str| {
            let definition = state.definitions.named(&state.store, &format!("{plural}.{group}"))?;
            let version = definition.versions.iter().find(|known| known.id.row().version == version)?;
            Some((version.id, version.declaration()?))
        };
        new["status"] = policy_type_check::status(new, before + 1, &of_custom);
    }
}

/// A certificate request is its sender's, and stays as it was sent.
// upstream: pkg/registry/certificates/certificates/strategy.go PrepareForCreate, PrepareForUpdate (v1.36)
pub(super) fn sign_request(sender: Option<&User>, old: Option<&Value>, new: &mut Value) {
    if let Some(old) = old {
        new["spec"] = old["spec"].clone();
    } else if let Some(user) = sender
        && let Some(spec) = new["spec"].as_object_mut()
    {
        for field in ["username", "uid", "groups", "extra"] {
            spec.remove(field);
        }
        spec.insert("username".to_owned(), json!(user.name));
        if !user.uid.is_empty() {
            spec.insert("uid".to_owned(), json!(user.uid));
        }
        if !user.groups.is_empty() {
            spec.insert("groups".to_owned(), json!(user.groups));
        }
        if !user.extra.is_empty() {
            spec.insert("extra".to_owned(), json!(user.extra));
        }
    }
}

/// Says whether the level that a flow names is there.
// upstream: staging/src/k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go syncFlowSchemaStatus (v1.36)
pub(super) fn find_level(transaction: &Transaction<'_>, new: &mut Value) {
    let level = FlowSchema(new).spec().priority_level_configuration().name().to_owned();
    let found =
        transaction.state.store.get(PRIORITY_LEVEL_CONFIGURATIONS, "", &level).is_some() || builtin::has_level(&level);
    let (status, reason, rest) =
        if found { ("False", "Found", "and it exists") } else { ("True", "NotFound", "but there is no such object") };
    let before = FlowSchema(new).status().conditions().of_type("Dangling");
    if before.is_none_or(|before| before.status() != status) {
        new["status"]["conditions"] = json!([{
            "type": "Dangling", "status": status, "reason": reason, "lastTransitionTime": time_text(transaction.now),
            "message": format!("This FlowSchema references the PriorityLevelConfiguration object named \"{level}\" {rest}"),
        }]);
    }
}
