//! Policies and their bindings, compiled once and read again when they change.

use std::sync::Arc;

use klab_api_machinery::policy_expression::{Names, Wanted, compile};
use klab_api_machinery::resource::{
    MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS, ResourceId, VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
};
use klab_api_machinery::views::{
    MutatingAdmissionPolicySpec, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicySpec, metadata,
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
                let name = metadata(policy).name();
                let own = bindings.iter().map(ValidatingAdmissionPolicyBinding);
                let own = own.filter(|binding| binding.spec().policy_name() == name);
                Policy::new(policy, own.map(Binding::new).collect())
            };
            let all = store.list(kind, None).map(|policy| read(&policy.value()));
            self.policies = all.filter(|policy| !policy.bindings.is_empty()).collect();
        }
        Arc::clone(&self.policies)
    }
}

impl Policy {
    fn new(policy: &Json, bindings: Vec<Binding>) -> Self {
        // Most fields are those of both kinds.
        let spec = ValidatingAdmissionPolicy(policy).spec();
        let (kind, constraints) = (spec.param_kind(), spec.match_constraints());
        let param_kind = kind.is_set().then(|| (kind.api_version().to_owned(), kind.kind().to_owned()));
        let mut read = Self {
            name: metadata(policy).name().to_owned(),
            matching: Matching::new(constraints, constraints.resource_rules()),
            conditions: Condition::all_of(spec.match_conditions(), param_kind.is_some()),
            ignores_failure: spec.failure_policy() == Some("Ignore"),
            is_reinvoked: MutatingAdmissionPolicySpec(spec.0).reinvocation_policy() == "IfNeeded",
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

    fn compile(&mut self, spec: ValidatingAdmissionPolicySpec<'_>) -> Result<(), String> {
        let mut known: Vec<(String, Type)> = Vec::new();
        let params = self.param_kind.is_some();
        for variable in spec.variables() {
            let names = Names { params, authorizer: true, variables: &known, ..Names::default() };
            let program = compile(variable.expression(), &names, Wanted::Anything)?;
            known.push((variable.name().to_owned(), program.output().clone()));
            self.variables.push((variable.name().to_owned(), program));
        }
        let names = Names { params, authorizer: true, variables: &known, ..Names::default() };
        for validation in spec.validations() {
            let (source, said) = (validation.expression(), validation.message_expression());
            let of_message = Names { authorizer: false, ..names };
            self.validations.push(Rule {
                program: compile(source, &names, Wanted::Bool)?,
                source: source.to_owned(),
                message: validation.message().to_owned(),
                message_program: if said.trim().is_empty() {
                    None
                } else {
                    Some(compile(said, &of_message, Wanted::Text)?)
                },
                reason: validation.reason().map(str::to_owned),
            });
        }
        for annotation in spec.audit_annotations() {
            let (source, message) = (annotation.value_expression().to_owned(), annotation.key().to_owned());
            let program = compile(source.trim(), &names, Wanted::TextOrNull)?;
            self.annotations.push(Rule { source, program, message, message_program: None, reason: None });
        }
        for mutation in MutatingAdmissionPolicySpec(spec.0).mutations() {
            let is_patch = mutation.patch_type() == "JSONPatch";
            let (source, wanted) = if is_patch {
                (mutation.json_patch().expression(), Wanted::Patches)
            } else {
                (mutation.apply_configuration().expression(), Wanted::Configuration)
            };
            let program = compile(source, &names, wanted)?;
            self.mutations.push(Mutation { program, source: source.to_owned(), is_patch });
        }
        Ok(())
    }
}

impl Binding {
    fn new(binding: ValidatingAdmissionPolicyBinding<'_>) -> Self {
        let (spec, resources) = (binding.spec(), binding.spec().match_resources());
        Self {
            name: binding.metadata().name().to_owned(),
            matching: resources.is_set().then(|| Matching::new(resources, resources.resource_rules())),
            reference: spec.param_ref().0.clone(),
            actions: spec.validation_actions().map(str::to_owned).collect(),
        }
    }
}
