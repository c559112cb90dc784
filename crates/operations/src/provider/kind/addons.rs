//! Parts that kind does not bring with it, from klab's own templates.

use serde_json::Value;
use tera::{Context, Tera};

use super::config::json;
use super::live::Live;
use super::record::ClusterRecord;
use super::session::Session;
use crate::error::{Code, Context as _, Error, Result};
use crate::event::{About, Verb};
use crate::provider::Work;
use klab_lab::spec::{Addon, Lab};

const METRICS_SERVER: &str = include_str!("../../../templates/kind/metrics-server.yaml.tera");
/// What runs where the lab does not name another image with `vars.metrics_server_image`.
const METRICS_SERVER_IMAGE: &str = "registry.k8s.io/metrics-server/metrics-server:v0.8.0";

/// The name by which the record remembers an add-on.
fn name(addon: Addon) -> &'static str {
    match addon {
        Addon::MetricsServer => "metrics-server",
    }
}

/// Applies the lab's add-ons and removes those it has no more.
pub(super) fn settle(
    session: &Session,
    lab: &Lab,
    record: &mut ClusterRecord,
    live: &Live,
    work: &mut Work<'_>,
) -> Result<()> {
    for addon in [Addon::MetricsServer] {
        let wanted = lab.addons.contains(&addon);
        let there = record.addons.contains(name(addon));
        if !wanted && !there {
            continue;
        }
        let objects = objects(addon, lab)?;
        if wanted {
            if !there {
                work.intend("add-addon", name(addon))?;
                record.addons.insert(name(addon).to_owned());
                session.save(record)?;
                work.events.about(About::Addon, name(addon)).note(Verb::AddAddon, name(addon));
            }
            objects.iter().try_for_each(|object| live.apply(object))?;
        } else {
            work.intend("remove-addon", name(addon))?;
            objects.iter().rev().try_for_each(|object| live.delete(object))?;
            record.addons.remove(name(addon));
            session.save(record)?;
            work.events.about(About::Addon, name(addon)).note(Verb::RemoveAddon, name(addon));
        }
    }
    Ok(())
}

/// The objects of an add-on.
fn objects(addon: Addon, lab: &Lab) -> Result<Vec<Value>> {
    let (template, image) = match addon {
        Addon::MetricsServer => (METRICS_SERVER, METRICS_SERVER_IMAGE),
    };
    let image = lab.vars.get("metrics_server_image").and_then(Value::as_str).unwrap_or(image);
    let problem = || format!("could not render the add-on {}", name(addon));
    let mut tera = Tera::default();
    tera.register_filter("json", json);
    tera.add_raw_template("addon.yaml", template).code(Code::KlabFault, problem)?;
    let mut context = Context::new();
    context.insert("image", image);
    let text = tera.render("addon.yaml", &context).code(Code::KlabFault, problem)?;
    let documents: Result<Vec<Value>, _> = text.split("\n---\n").map(serde_saphyr::from_str).collect();
    documents.map_err(|error| Error::message(Code::KlabFault, format!("{}: {error}", problem())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{LoadOptions, load};

    #[test]
    fn metrics_server_accepts_the_certificates_of_kinds_kubelets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.toml");
        std::fs::write(&path, "lab = \"x\"\n[vars]\nmetrics_server_image = \"local/ms:1\"\n[pool.a]\n").unwrap();
        let lab = load(&path, &LoadOptions::default()).unwrap();
        let objects = objects(Addon::MetricsServer, &lab).unwrap();
        let kinds: Vec<_> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(
            kinds,
            [
                "ServiceAccount",
                "ClusterRole",
                "ClusterRole",
                "RoleBinding",
                "ClusterRoleBinding",
                "ClusterRoleBinding",
                "Service",
                "Deployment",
                "APIService"
            ]
        );
        let container = &objects[7]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "local/ms:1");
        assert!(container["args"].as_array().unwrap().contains(&"--kubelet-insecure-tls".into()));
    }
}
