//! Which requests a webhook or a policy is for: rules, and selectors of namespaces and objects.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/{rules,namespace,object} (v1.36)

use klab_api_machinery::resource::{
    CUSTOM_RESOURCE_DEFINITIONS, CustomName, MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS,
    MUTATING_WEBHOOK_CONFIGURATIONS, NAMESPACES, ResourceId, VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS, VALIDATING_WEBHOOK_CONFIGURATIONS,
};
use klab_api_machinery::status::Status;
use klab_api_machinery::views::{LabelSelector, MatchResources, NamedRuleWithOperations, Views, metadata};
use klab_scheduler::selector::Selector;
use serde_json::Value;

use super::request::{Operation, Request};
use crate::store::Store;

/// Kinds that configure admission itself: nothing that they say is asked about them.
const EXEMPT: [ResourceId; 6] = [
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
];

/// Whether no webhook and no policy may stop writes of this kind.
pub(crate) fn is_exempt(resource: ResourceId) -> bool {
    EXEMPT.contains(&resource)
}

/// What a webhook, a policy or a binding selects.
#[derive(Debug, Clone)]
pub(crate) struct Matching {
    rules: Vec<Rule>,
    /// Rules whose requests are left out.
    excluded: Vec<Rule>,
    /// Whether a rule for one version of a kind is for all.
    equivalent: bool,
    namespaces: Selector,
    all_namespaces: bool,
    objects: Selector,
    all_objects: bool,
}

#[derive(Debug, Clone)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: String,
}

impl Rule {
    fn new(rule: NamedRuleWithOperations<'_>) -> Self {
        let list = |entries: Views<'_, &str>| entries.map(str::to_owned).collect();
        Self {
            operations: list(rule.operations()),
            groups: list(rule.api_groups()),
            versions: list(rule.api_versions()),
            resources: list(rule.resources()),
            names: list(rule.resource_names()),
            scope: rule.scope().unwrap_or("*").to_owned(),
        }
    }

    fn covers(&self, request: &Request<'_>, served: ResourceId) -> bool {
        let row = served.row();
        let has = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        let namespaced = row.namespaced && request.resource != NAMESPACES;
        has(&self.operations, request.operation.name())
            && has(&self.groups, row.group)
            && has(&self.versions, row.version)
            && match self.scope.as_str() {
                "Namespaced" => namespaced,
                "Cluster" => !namespaced,
                _ => true,
            }
            && self.resources.iter().any(|one| {
                let (resource, subresource) = one.split_once('/').unwrap_or((one, ""));
                (resource == "*" || resource == row.plural)
                    && (subresource == "*" || subresource == request.subresource)
            })
            && (self.names.is_empty() || self.names.iter().any(|name| name == request.name))
    }
}

impl Matching {
    /// What a policy or a binding says, or a webhook, which has its rules elsewhere.
    pub(crate) fn new<'a>(value: MatchResources<'_>, rules: impl Iterator<Item = NamedRuleWithOperations<'a>>) -> Self {
        let is_empty =
            |selector: LabelSelector<'_>| selector.match_labels().is_empty() && selector.match_expressions().is_empty();
        let (namespaces, objects) = (value.namespace_selector(), value.object_selector());
        Self {
            rules: rules.map(Rule::new).collect(),
            excluded: value.exclude_resource_rules().map(Rule::new).collect(),
            equivalent: value.match_policy() != Some("Exact"),
            namespaces: Selector::from_json(namespaces.0),
            all_namespaces: is_empty(namespaces),
            objects: Selector::from_json(objects.0),
            all_objects: is_empty(objects),
        }
    }

    /// The kind in whose form the request is shown, if it is selected at all.
    ///
    /// # Errors
    /// 404 for a namespace that is not there and whose labels decide.
    pub(crate) fn selects(
        &self,
        store: &Store,
        request: &Request<'_>,
        object: Option<&Value>,
    ) -> Result<Option<ResourceId>, Status> {
        let covered = |rules: &[Rule], served: ResourceId| rules.iter().any(|rule| rule.covers(request, served));
        // Other forms are of interest only where the request's own is not covered.
        let others = || if self.equivalent { equivalents(store, request.resource) } else { Vec::new() };
        let own = request.resource;
        if covered(&self.excluded, own)
            || !self.excluded.is_empty() && others().into_iter().any(|served| covered(&self.excluded, served))
        {
            return Ok(None);
        }
        let served = if covered(&self.rules, own) {
            own
        } else {
            let Some(other) = others().into_iter().find(|served| covered(&self.rules, *served)) else {
                return Ok(None);
            };
            other
        };
        if !self.all_objects && ![object, request.old].into_iter().flatten().any(|value| self.selects_object(value)) {
            return Ok(None);
        }
        if !self.all_namespaces && !self.selects_namespace(store, request, object)? {
            return Ok(None);
        }
        Ok(Some(served))
    }

    /// Whether rules are left open, as bindings may.
    pub(crate) fn selects_or_is_open(
        &self,
        store: &Store,
        request: &Request<'_>,
        object: Option<&Value>,
    ) -> Result<bool, Status> {
        if self.rules.is_empty() {
            let open = Self {
                rules: vec![Rule::new(NamedRuleWithOperations(&serde_json::json!({
                    "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"],
                })))],
                ..self.clone()
            };
            return open.selects(store, request, object).map(|served| served.is_some());
        }
        self.selects(store, request, object).map(|served| served.is_some())
    }

    fn selects_object(&self, value: &Value) -> bool {
        self.objects.matches_by(|key| metadata(value).labels().get(key))
    }

    fn selects_namespace(&self, store: &Store, request: &Request<'_>, object: Option<&Value>) -> Result<bool, Status> {
        if request.resource == NAMESPACES {
            let labelled = if request.operation == Operation::Delete { request.old } else { object };
            return Ok(self.namespaces.matches_by(|key| metadata(labelled?).labels().get(key)));
        }
        if request.namespace.is_empty() {
            return Ok(true);
        }
        match store.get(NAMESPACES, "", request.namespace) {
            Some(namespace) => Ok(self.namespaces.matches_by(|key| namespace.label(key))),
            None => Err(Status::not_found(NAMESPACES.row(), request.namespace)),
        }
    }
}

/// Other versions and groups in which objects of a stored kind are served.
fn equivalents(store: &Store, resource: ResourceId) -> Vec<ResourceId> {
    let row = resource.row();
    if !row.custom {
        return ResourceId::fixed().filter(|other| other.row().stored_as == Some(resource)).collect();
    }
    let Some(definition) = store.get(CUSTOM_RESOURCE_DEFINITIONS, "", &row.qualified()) else { return Vec::new() };
    let value = definition.value();
    let versions = value["spec"]["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["served"] == true && version["name"] != row.version)
        .filter_map(|version| {
            let CustomName { group, kind, plural, namespaced, .. } = CustomName::of(row);
            Some(ResourceId::define(&CustomName {
                group,
                version: version["name"].as_str()?,
                kind,
                plural,
                namespaced,
            }))
        })
        .collect()
}
