//! `set`: brings a workload's object to what the stage says, also where somebody else wrote the same fields.

use kube::api::{Api, DynamicObject, Patch};
use serde_json::{Map, Value, json};

use super::nodes::failure;
use super::performer::Performer;
use super::workloads::{apply, find, manifests, reference, unrendered};
use crate::apply::{ObjectKey, patch_parameters};
use crate::error::{Code, Error, Result};
use crate::observe;
use crate::provider::Work;
use crate::render::render_main;
use klab_lab::spec::{Lab, ObjectRef, Workload};

/// Where the pods of a workload are described.
pub(super) const TEMPLATE: &str = "/spec/template/spec";
/// Fields of the pod template that `set` gives as a whole: what others put there goes.
const WHOLE: [&str; 5] = ["nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "priorityClassName"];

/// Applies the workload as the stage has it.
///
/// Fields are shared in Kubernetes: an apply takes back only what klab itself wrote. What a learner added with kubectl to
/// the fields that `set` gives as a whole stays then, and is taken away afterwards.
pub(super) fn set(performer: &Performer<'_>, stage: &Lab, name: &str, work: &mut Work<'_>) -> Result<()> {
    let workload = find(stage, name)?;
    observe::refuse_without_node(workload)?;
    let (object, reference) = main_object(stage, workload)?;
    apply(performer, stage, &manifests(stage, workload)?, &format!("workload {name}"), work)?;
    performer.runtime.block_on(async {
        let Some(api) = observe::api_of(performer.client, &reference).await? else { return Ok(()) };
        take_away(&api, name, &object, work).await
    })
}

/// The object that owns a workload's pods, and where it is.
pub(super) fn main_object(stage: &Lab, workload: &Workload) -> Result<(Value, ObjectRef)> {
    let name = &workload.name.value;
    let main = render_main(stage, workload).map_err(|diagnostics| unrendered(&diagnostics))?;
    let main = main.ok_or_else(|| {
        let kind = workload.kind.kind();
        Error::message(Code::StepFailed, format!("the template of workload `{name}` makes no {kind} of that name"))
    })?;
    let reference = reference(&ObjectKey::of(&main.object));
    Ok((main.object, reference))
}

/// Clears what an apply of `wanted` leaves of the fields that `set` gives as a whole.
pub(super) async fn take_away(api: &Api<DynamicObject>, name: &str, wanted: &Value, work: &mut Work<'_>) -> Result<()> {
    let failed = |error: kube::Error| failure(&format!("change `{name}`"), &error);
    let Some(live) = api.get_opt(name).await.map_err(failed)? else { return Ok(()) };
    let live = serde_json::to_value(live).map_err(anyhow::Error::from)?;
    let Some(surplus) = surplus(&live, wanted) else { return Ok(()) };
    work.intend("change", name)?;
    let patch = json!({ "spec": { "template": { "spec": surplus } } });
    api.patch_metadata(name, &patch_parameters(), &Patch::Merge(&patch)).await.map_err(failed)?;
    Ok(())
}

/// The merge patch on a live object's pod template that clears what an apply of `wanted` would leave.
fn surplus(live: &Value, wanted: &Value) -> Option<Value> {
    let (live, wanted) = (live.pointer(TEMPLATE)?, wanted.pointer(TEMPLATE)?);
    let mut patch = Map::new();
    for field in WHOLE {
        let (have, want) = (&live[field], &wanted[field]);
        match (have, want) {
            // Nothing is there, or one value that an apply replaces whole.
            (Value::Null, _) | (_, Value::String(_)) => {}
            (Value::Array(_), Value::Array(_)) if field == "tolerations" => {}
            (Value::Object(have), Value::Object(want)) => {
                let gone: Map<String, Value> =
                    have.keys().filter(|key| !want.contains_key(*key)).map(|key| (key.clone(), Value::Null)).collect();
                if !gone.is_empty() {
                    patch.insert(field.to_owned(), Value::Object(gone));
                }
            }
            (Value::Array(have), Value::Array(want)) if have.len() <= want.len() => {}
            // More than is wanted, or nothing is.
            (_, want) => {
                patch.insert(field.to_owned(), want.clone());
            }
        }
    }
    if patch.contains_key("priorityClassName") {
        // The admission of priorities writes these; they must follow the class.
        patch.insert("priority".to_owned(), Value::Null);
        patch.insert("preemptionPolicy".to_owned(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(template: Value) -> Value {
        json!({ "spec": { "template": { "spec": template } } })
    }

    #[test]
    fn only_what_an_apply_would_leave_is_cleared() {
        for (live, wanted, patch) in [
            (json!({}), json!({}), None),
            (json!({ "nodeSelector": { "a": "b" } }), json!({ "nodeSelector": { "a": "c" } }), None),
            (
                json!({ "nodeSelector": { "a": "b", "x": "y" } }),
                json!({ "nodeSelector": { "a": "b" } }),
                Some(json!({ "nodeSelector": { "x": null } })),
            ),
            (
                json!({ "tolerations": [{ "key": "a" }], "nodeName": "kept" }),
                json!({}),
                Some(json!({ "tolerations": null })),
            ),
            (json!({ "tolerations": [{ "key": "a" }] }), json!({ "tolerations": [{ "key": "b" }] }), None),
            (
                json!({ "topologySpreadConstraints": [{ "topologyKey": "a" }, { "topologyKey": "b" }] }),
                json!({ "topologySpreadConstraints": [{ "topologyKey": "a" }] }),
                Some(json!({ "topologySpreadConstraints": [{ "topologyKey": "a" }] })),
            ),
            (
                json!({ "affinity": { "podAffinity": {} } }),
                json!({ "affinity": { "nodeAffinity": {} } }),
                Some(json!({ "affinity": { "podAffinity": null } })),
            ),
        ] {
            assert_eq!(surplus(&object(live.clone()), &object(wanted)), patch, "{live}");
        }
    }
}
