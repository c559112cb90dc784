//! Policies and their bindings, compiled once and read again when they change.

use std::sync::Arc;

use klab_api_machinery::policy_expression::{Names, Wanted, compile};
use klab_api_machinery::resource::{
    MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS, ResourceId, VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
};
use klab_cel::{Program, Type};
use serde_json::Value as Json;

use crate::dynamic_admission::condition::Condition;
use crate::dynamic_admission::matching::Matching;
use crate::store::Store;

/// A policy.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) name: String,
    pub(crate) matching: Matching,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) ignores_failure: bool,
    pub(crate) is_reinvoked: bool,
    /// apiVersion and kind of its parameters.
    pub(crate) param_kind: Option<(String, String)>,
    pub(crate) variables: Vec<(String, Program)>,
    pub(crate) validations: Vec<Rule>,
    pub(crate) annotations: Vec<Rule>,
    pub(crate) mutations: Vec<Mutation>,
    /// Why it cannot be asked.
    pub(crate) broken: Option<String>,
    pub(crate) bindings: Vec<Binding>,
}

/// An expression, and what is said when it does not hold.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) source: String,
    pub(crate) program: Program,
    pub(crate) message: String,
    pub(crate) message_program: Option<Program>,
    /// The reason of the refusal.
    pub(crate) reason: Option<String>,
}

/// A change.
#[derive(Debug)]
pub(crate) struct Mutation {
    pub(crate) source: String,
    pub(crate) program: Program,
    /// Whether it is a JSON patch, and not a part of the object.
    pub(crate) is_patch: bool,
}

/// Where a policy holds.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: String,
    pub(crate) matching: Option<Matching>,
    pub(crate) reference: Json,
    pub(crate) actions: Vec<String>,
}

/// The policies of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    mutating: Kind,
    validating: Kind,
}

#[derive(Debug, Default)]
struct Kind {
    versions: Vec<u64>,
    policies: Arc<[Policy]>,
}

impl Policies {
    pub(crate) fn mutating(&mut self, store: &Store) -> Arc<[Policy]> {
        self.mutating.policies(store, MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS)
    }

    pub(crate) fn validating(&mut self, store: &Store) -> Arc<[Policy]> {
        self.validating.policies(store, VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS)
    }
}

impl Kind {
    fn policies(&mut self, store: &Store, kind: ResourceId, of_bindings: ResourceId) -> Arc<[Policy]> {
        let objects = || store.list(kind, None).chain(store.list(of_bindings, None));
        let mut versions = self.versions.iter();
        let same =
            objects().all(|object| versions.next() == Some(&object.resource_version)) && versions.next().is_none();
        if !same {
            self.versions = objects().map(|object| object.resource_version).collect();
            let bindings: Vec<Json> = store.list(of_bindings, None).map(|binding| binding.to_value()).collect();
            let read = |policy: &Json| {
                let name = &policy["metadata"]["name"];
                let own = bindings.iter().filter(|binding| binding["spec"]["policyName"] == *name);
                Policy::new(policy, own.map(Binding::new).collect())
            };
            let all = store.list(kind, None).map(|policy| read(&policy.value()));
            self.policies = all.filter(|policy| !policy.bindings.is_empty()).collect();
        }
        Arc::clone(&self.policies)
    }
}

fn text(value: &Json) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Policy {
    fn new(policy: &Json, bindings: Vec<Binding>) -> Self {
        let spec = &policy["spec"];
        let kind = &spec["paramKind"];
        let param_kind = kind.is_object().then(|| (text(&kind["apiVersion"]), text(&kind["kind"])));
        let mut read = Self {
            name: text(&policy["metadata"]["name"]),
            matching: Matching::new(&spec["matchConstraints"], "resourceRules"),
            conditions: Condition::all_of(&spec["matchConditions"], param_kind.is_some()),
            ignores_failure: spec["failurePolicy"] == "Ignore",
            is_reinvoked: spec["reinvocationPolicy"] == "IfNeeded",
            param_kind,
            variables: Vec::new(),
            validations: Vec::new(),
            annotations: Vec::new(),
            mutations: Vec::new(),
            broken: None,
            bindings,
        };
        read.broken = read.compile(spec).err();
        read
    }

    fn compile(&mut self, spec: &Json) -> Result<(), String> {
        let mut known: Vec<(String, Type)> = Vec::new();
        let params = self.param_kind.is_some();
        let list = |field: &str| spec[field].as_array().into_iter().flatten();
        for variable in list("variables") {
            let names = Names { params, authorizer: true, variables: &known, ..Names::default() };
            let program = compile(&text(&variable["expression"]), &names, Wanted::Anything)?;
            let name = text(&variable["name"]);
            known.push((name.clone(), program.output().clone()));
            self.variables.push((name, program));
        }
        let names = Names { params, authorizer: true, variables: &known, ..Names::default() };
        for validation in list("validations") {
            let source = text(&validation["expression"]);
            let said = text(&validation["messageExpression"]);
            let of_message = Names { authorizer: false, ..names };
            self.validations.push(Rule {
                program: compile(&source, &names, Wanted::Bool)?,
                source,
                message: text(&validation["message"]),
                message_program: if said.trim().is_empty() {
                    None
                } else {
                    Some(compile(&said, &of_message, Wanted::Text)?)
                },
                reason: validation["reason"].as_str().map(str::to_owned),
            });
        }
        for annotation in list("auditAnnotations") {
            let source = text(&annotation["valueExpression"]);
            let program = compile(source.trim(), &names, Wanted::TextOrNull)?;
            let message = text(&annotation["key"]);
            self.annotations.push(Rule { source, program, message, message_program: None, reason: None });
        }
        for mutation in list("mutations") {
            let is_patch = mutation["patchType"] == "JSONPatch";
            let (field, wanted) =
                if is_patch { ("jsonPatch", Wanted::Patches) } else { ("applyConfiguration", Wanted::Configuration) };
            let source = text(&mutation[field]["expression"]);
            self.mutations.push(Mutation { program: compile(&source, &names, wanted)?, source, is_patch });
        }
        Ok(())
    }
}

impl Binding {
    fn new(binding: &Json) -> Self {
        let spec = &binding["spec"];
        let actions = spec["validationActions"].as_array().into_iter().flatten();
        Self {
            name: text(&binding["metadata"]["name"]),
            matching: spec["matchResources"]
                .is_object()
                .then(|| Matching::new(&spec["matchResources"], "resourceRules")),
            reference: spec["paramRef"].clone(),
            actions: actions.map(text).collect(),
        }
    }
}
