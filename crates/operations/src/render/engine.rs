//! Tera with the built-in templates, the variables of the lab, and errors with their place.

use serde_json::{Value, json};
use tera::Context;

use klab_lab::code::Code;
use klab_lab::nodes;
use klab_lab::spec::template::{Limited, Problem, engine, problem};
use klab_lab::spec::{Diagnostic, Diagnostics, Lab, Location, Pool, Source};

/// The built-in templates: the same files as in `templates/`.
pub(super) const TEMPLATES: &[(&str, &str)] = &[
    ("deployment.yaml.tera", include_str!("../../templates/deployment.yaml.tera")),
    ("daemonset.yaml.tera", include_str!("../../templates/daemonset.yaml.tera")),
    ("statefulset.yaml.tera", include_str!("../../templates/statefulset.yaml.tera")),
    ("job.yaml.tera", include_str!("../../templates/job.yaml.tera")),
    ("pod.yaml.tera", include_str!("../../templates/pod.yaml.tera")),
    ("pod-spec.yaml.tera", include_str!("../../templates/pod-spec.yaml.tera")),
    ("service.yaml.tera", include_str!("../../templates/service.yaml.tera")),
    ("scheduler.yaml.tera", include_str!("../../templates/scheduler.yaml.tera")),
    ("namespace.yaml.tera", include_str!("../../templates/namespace.yaml.tera")),
    ("config.yaml.tera", include_str!("../../templates/config.yaml.tera")),
    ("secret.yaml.tera", include_str!("../../templates/secret.yaml.tera")),
];

pub(super) struct Engine {
    tera: Limited,
    context: Context,
}

impl Engine {
    pub(super) fn new(lab: &Lab) -> Result<Self, Diagnostics> {
        let mut tera = engine();
        tera.add_raw_templates(TEMPLATES.iter().copied())
            .map_err(|error| Diagnostic::error(Code::Template, error.to_string()))?;
        let mut context = Context::new();
        context.insert("lab", lab.name.as_str());
        context.insert("provider", lab.provider.as_str());
        context.insert("vars", &lab.vars);
        context.insert("pool", &pools(lab));
        Ok(Self { tera: Limited::new(tera), context })
    }

    pub(super) fn render(&self, name: &str, value: &Value) -> Result<String, Box<Problem>> {
        self.tera.render_built_in(name, &self.with(value)).map_err(|error| Box::new(problem(&error, "")))
    }

    pub(super) fn render_text(&self, text: &str, value: &Value) -> Result<String, Box<Problem>> {
        self.tera.render(text, &self.with(value))
    }

    /// The variables of the lab and what the template is about.
    fn with(&self, value: &Value) -> Context {
        let mut context = self.context.clone();
        for (name, value) in value.as_object().into_iter().flatten() {
            context.insert(name.clone(), value);
        }
        context
    }

    /// An error of Tera, shown in the template; `text` is that of a template of the author's own.
    pub(super) fn diagnostic(report: Problem, name: &str, text: Option<&str>, lab: &Location) -> Diagnostic {
        // The error may be in a template that this one includes.
        let included = report.template.as_deref().and_then(|name| TEMPLATES.iter().find(|(known, _)| *known == name));
        let (name, text) = match included {
            Some((name, text)) => (format!("templates/{name}"), Some(*text)),
            None => (name.to_owned(), text),
        };
        let mut diagnostic = Diagnostic::error(Code::Template, format!("{name}: {}", report.message));
        if let (Some(span), Some(text)) = (report.span, text) {
            diagnostic = diagnostic.at(&Source::new(name, text).at(span), report.label);
        } else {
            diagnostic = diagnostic.at(lab, report.label);
        }
        for note in report.notes {
            diagnostic = diagnostic.note(note);
        }
        diagnostic.note(format!("asked for at {lab}"))
    }
}

/// What templates may know about pools. Who knows the cluster has put the names of nodes there
/// (as `observe` names them); without one they are those that the embedded cluster would give.
fn pools(lab: &Lab) -> Value {
    let names = |pool: &Pool| -> Vec<String> {
        if let Some(present) = &pool.present {
            return present.clone();
        }
        let count = if lab.has_templates() && !pool.deferred { pool.nodes.value } else { 0 };
        (0..count).map(|number| nodes::node_name(lab, pool, number)).collect()
    };
    lab.pools
        .iter()
        .map(|pool| {
            let labels: serde_json::Map<_, _> =
                pool.labels.iter().map(|(key, value)| (key.clone(), json!(value.value))).collect();
            let description = json!({
                "name": pool.name.value,
                "mode": pool.mode.as_str(),
                "nodes": *pool.nodes,
                "node_names": names(pool),
                "size": pool.size.as_ref().map(|size| size.as_str()),
                "labels": labels,
                "taints": pool.taints.iter().map(|taint| &taint.value).collect::<Vec<_>>(),
                "zones": pool.zones,
                "max_pods": pool.max_pods,
                "os": pool.os.as_str(),
            });
            (pool.name.value.clone(), description)
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}
