//! The namespace that a learner's kubectl looks into, where the lab has nothing there: what is typed would find nothing.

use std::path::Path;

use crate::kubeconfig;
use klab_lab::spec::Lab;
use klab_lab::verify::Aside;

/// What kubectl looks into by the lab's kubeconfig, if that is a namespace without anything of the lab.
pub fn elsewhere(kubeconfig: &Path, lab: &Lab) -> Option<Aside> {
    let namespace = kubeconfig::namespace(kubeconfig)?;
    let is_of_lab = namespace == DEFAULT || lab.workloads.iter().any(|workload| workload.namespace == namespace);
    (!is_of_lab).then(|| Aside {
        what: format!("kubectl: it looks into namespace {namespace}, the lab is in {DEFAULT}"),
        command: Some(format!("kubectl config set-context --current --namespace={DEFAULT}")),
    })
}

/// Where kubectl looks by default.
const DEFAULT: &str = "default";

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{LoadOptions, parse};

    #[test]
    fn only_a_namespace_without_anything_of_the_lab_is_told() {
        let text = "lab = 'x'\n[pool.a]\nnodes = 1\n[workload.web]\nnamespace = 'team'\n";
        let lab = parse("x.toml", text, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}"));
        let folder = tempfile::tempdir().unwrap();
        for (context, told) in [
            ("{cluster: x, user: x}", None),
            ("{cluster: x, user: x, namespace: team}", None),
            ("{cluster: x, user: x, namespace: default}", None),
            (
                "{cluster: x, user: x, namespace: kube-system}",
                Some("kubectl: it looks into namespace kube-system, the lab is in default"),
            ),
        ] {
            let file = folder.path().join("kubeconfig");
            let contexts = format!(
                "contexts: [{{name: y, context: {{cluster: x, user: x, namespace: no}}}}, {{name: x, context: {context}}}]"
            );
            std::fs::write(&file, format!("apiVersion: v1\nkind: Config\ncurrent-context: x\n{contexts}\n")).unwrap();
            assert_eq!(elsewhere(&file, &lab).map(|aside| aside.what).as_deref(), told);
        }
        assert_eq!(elsewhere(&folder.path().join("none"), &lab), None);
    }
}
