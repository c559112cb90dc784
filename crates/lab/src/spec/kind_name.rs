//! The names that kubectl knows a kind by: name, plural, short name.

/// A kind in lower case and in the singular, from its name, plural or short name as kubectl knows them.
pub fn singular(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    if let Some((_, long)) = SHORT_NAMES.iter().find(|(short, _)| *short == kind) {
        return (*long).to_owned();
    }
    match kind.as_str() {
        // Singulars that end as plurals do.
        "endpoints" | "componentstatus" => kind,
        plural => match (plural.strip_suffix("ies"), plural.strip_suffix("classes"), plural.strip_suffix('s')) {
            (Some(stem), ..) => format!("{stem}y"),
            (None, Some(stem), _) => format!("{stem}class"),
            (None, None, Some(stem)) if !stem.ends_with('s') => stem.to_owned(),
            _ => kind,
        },
    }
}

const SHORT_NAMES: [(&str, &str); 20] = [
    ("cj", "cronjob"),
    ("cm", "configmap"),
    ("deploy", "deployment"),
    ("ds", "daemonset"),
    ("ep", "endpoints"),
    ("hpa", "horizontalpodautoscaler"),
    ("ing", "ingress"),
    ("limits", "limitrange"),
    ("netpol", "networkpolicy"),
    ("no", "node"),
    ("ns", "namespace"),
    ("pc", "priorityclass"),
    ("pdb", "poddisruptionbudget"),
    ("po", "pod"),
    ("pv", "persistentvolume"),
    ("pvc", "persistentvolumeclaim"),
    ("quota", "resourcequota"),
    ("rs", "replicaset"),
    ("sts", "statefulset"),
    ("svc", "service"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_all_their_names() {
        for (written, kind) in [
            ("deploy", "deployment"),
            ("Deployments", "deployment"),
            ("deployment", "deployment"),
            ("networkpolicies", "networkpolicy"),
            ("priorityclasses", "priorityclass"),
            ("ingress", "ingress"),
            ("endpoints", "endpoints"),
            ("quota", "resourcequota"),
            ("sts", "statefulset"),
        ] {
            assert_eq!(singular(written), kind, "{written}");
        }
    }
}
