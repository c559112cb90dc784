//! A Scale that is written: the number of replicas of a workload, through the subresource `scale`.

use std::sync::Arc;

use klab_api_machinery::custom::Definition;
use klab_api_machinery::object::Object;
use klab_api_machinery::part::Part;
use klab_api_machinery::resource::{self as kinds, ResourceId};
use klab_api_machinery::status::Status;
use klab_api_machinery::value::selector_terms;
use klab_api_machinery::views::{Scale, metadata};
use klab_fields::{Managed, ScaleManagers};
use serde_json::{Value, json};

use crate::admission::{AdmissionRequest, consider, is_asked};
use crate::custom_versions::live;
use crate::dynamic_admission::Operation;
use crate::transaction::Transaction;

/// What becomes of a Scale.
pub(crate) type ScaleChange<'a> =
    dyn Fn(&mut Transaction<'_>, Value, &mut ScaleManagers<'_>) -> Result<Value, Status> + 'a;

/// A workload whose Scale is written.
pub(crate) struct Scaling<'a, 'w> {
    resource: ResourceId,
    change: &'a ScaleChange<'a>,
    pub(crate) paths: ScalePaths,
    pub(crate) current: Arc<Object>,
    /// The current JSON.
    pub(crate) old: Arc<Value>,
    /// The Scale before and after the change.
    before: Value,
    scale: Value,
    managers: ScaleManagers<'w>,
}

impl<'a, 'w> Scaling<'a, 'w> {
    /// Finds the workload and shows its Scale.
    ///
    /// # Errors
    /// 404 without the object, or for a kind that has no scale.
    pub(crate) fn of(
        transaction: &Transaction<'w>,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        change: &'a ScaleChange<'a>,
    ) -> Result<Self, Status> {
        let definition = transaction.state.definitions.of(&transaction.state.store, resource);
        let paths = ScalePaths::of(resource, definition.as_deref()).ok_or_else(no_scale)?;
        let current = live(transaction, resource, namespace, name)?;
        let old = current.value();
        let before = scale_of(resource, &paths, &old);
        let managers = ScaleManagers::of(&current, transaction.writer(resource, Part::Main), &paths.spec);
        Ok(Self { resource, change, paths, current, old, scale: before.clone(), before, managers })
    }

    fn replicas(&self) -> i64 {
        Scale(&self.scale).spec().replicas()
    }

    /// The next version of the workload, and the managers of its fields.
    pub(crate) fn scaled(self) -> (Value, Managed) {
        let (mut new, replicas) = ((*self.old).clone(), self.replicas());
        if let Some((last, holders)) = self.paths.spec.split_last() {
            let holder = holders.iter().fold(&mut new, |value, part| &mut value[part.as_str()]);
            holder[last.as_str()] = json!(replicas);
        }
        let is_other = Scale(&self.before).spec().replicas() != replicas;
        (new, self.managers.after(is_other))
    }
}

/// Changes the Scale as the client says.
pub(crate) fn change_scale(transaction: &mut Transaction<'_>, scaling: &mut Scaling<'_, '_>) -> Result<(), Status> {
    scaling.scale = (scaling.change)(transaction, scaling.before.clone(), &mut scaling.managers)?;
    Ok(())
}

/// Asks webhooks and policies about the Scale, and not about the object that it is of.
pub(crate) fn ask_about_scale(transaction: &mut Transaction<'_>, scaling: &mut Scaling<'_, '_>) -> Result<(), Status> {
    if !is_asked(transaction, scaling.resource) {
        return Ok(());
    }
    let admission_request = AdmissionRequest {
        operation: Operation::Update,
        resource: scaling.resource,
        subresource: "scale",
        namespace: &scaling.current.namespace,
        name: &scaling.current.name,
        kind: Some(("autoscaling", "v1", "Scale")),
        old: Some(&scaling.before),
    };
    consider(transaction, &admission_request, Some(&scaling.scale))?;
    transaction.is_considered = true;
    Ok(())
}

/// Refuses a Scale of another object, or of an older version.
pub(crate) fn check_scaled_object(_: &mut Transaction<'_>, scaling: &mut Scaling<'_, '_>) -> Result<(), Status> {
    let (asked, current) = (metadata(&scaling.scale), &scaling.current);
    let is_other = |asked: &str, own: &str| !asked.is_empty() && asked != own;
    let version = current.resource_version.to_string();
    if is_other(asked.uid(), &current.uid) || is_other(asked.resource_version(), &version) {
        return Err(Status::conflict(scaling.resource.row(), &current.name));
    }
    Ok(())
}

/// Refuses fewer replicas than none.
pub(crate) fn check_replicas(_: &mut Transaction<'_>, scaling: &mut Scaling<'_, '_>) -> Result<(), Status> {
    let (name, replicas) = (&scaling.current.name, scaling.replicas());
    if replicas >= 0 {
        return Ok(());
    }
    let message = "must be greater than or equal to 0";
    let whole = format!("Scale.autoscaling \"{name}\" is invalid: spec.replicas: Invalid value: {replicas}: {message}");
    Err(Status {
        details: json!({
            "name": name, "group": "autoscaling", "kind": "Scale",
            "causes": [{
                "reason": "FieldValueInvalid",
                "message": format!("Invalid value: {replicas}: {message}"),
                "field": "spec.replicas",
            }],
        }),
        ..Status::new(422, "Invalid", whole)
    })
}

/// Where a kind has what its Scale shows.
#[derive(Clone)]
pub(crate) struct ScalePaths {
    spec: Vec<String>,
    status: Vec<String>,
    /// Of custom resources, whose selector is a text; other kinds have a label selector in their spec.
    selector: Option<Vec<String>>,
}

impl ScalePaths {
    /// `None` for kinds that have no scale.
    pub(crate) fn of(resource: ResourceId, definition: Option<&Definition>) -> Option<Self> {
        let parts = |path: &str| path.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        if !resource.row().custom {
            resource.row().subresource("scale")?;
            return Some(Self { spec: parts(".spec.replicas"), status: parts(".status.replicas"), selector: None });
        }
        let version = definition?.version(resource)?;
        let scale = Some(&version.spec["subresources"]["scale"]).filter(|scale| scale.is_object())?;
        let at = |name: &str| parts(scale[name].as_str().unwrap_or_default());
        Some(Self {
            spec: at("specReplicasPath"),
            status: at("statusReplicasPath"),
            selector: Some(at("labelSelectorPath")),
        })
    }
}

/// The Scale view of a workload. Zero replicas are left out of `spec`, as Go's `omitempty` does.
pub(crate) fn scale_of(resource: ResourceId, paths: &ScalePaths, value: &Value) -> Value {
    let given = metadata(value).0;
    let at = |path: &[String]| path.iter().fold(value, |value, part| &value[part.as_str()]);
    let mut spec = json!({});
    if let Some(replicas) = at(&paths.spec).as_i64().filter(|replicas| *replicas != 0) {
        spec["replicas"] = json!(replicas);
    }
    let mut status = json!({ "replicas": at(&paths.status).as_i64().unwrap_or_default() });
    let selector = match &paths.selector {
        Some(path) if path.is_empty() => String::new(),
        Some(path) => at(path).as_str().unwrap_or_default().to_owned(),
        None => selector_text(resource, &value["spec"]["selector"]),
    };
    if !selector.is_empty() {
        status["selector"] = json!(selector);
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": given["name"], "namespace": given["namespace"], "uid": given["uid"],
            "resourceVersion": given["resourceVersion"], "creationTimestamp": given["creationTimestamp"],
        },
        "spec": spec, "status": status,
    })
}

/// A label selector in the form of a query parameter: `app=web,tier in (a,b)`.
fn selector_text(resource: ResourceId, selector: &Value) -> String {
    let equals = if resource == kinds::REPLICATION_CONTROLLERS { selector } else { &selector["matchLabels"] };
    let mut terms = selector_terms(equals, &selector["matchExpressions"]);
    terms.sort();
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

/// 404 for kinds that have no scale.
pub(crate) fn no_scale() -> Status {
    let mut status = Status::new(404, "NotFound", "the server could not find the requested resource");
    status.details = json!({});
    status
}
