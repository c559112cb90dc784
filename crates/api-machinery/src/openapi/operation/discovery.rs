//! The paths that say what a server has.

use super::{COMMON, FORMS, FOUND, Operation, Path, tag, title, trimmed, valid};

/// The paths that say what a server has, of everything built in: `/api/`, `/apis/apps/`, `/apis/apps/v1/`, …
pub(in super::super) fn discovery(path: &str) -> Path {
    const VERSION: &[&str] = &["application/json"];
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (id, tag, description, schema) = match parts.as_slice() {
        ["api"] => ("getCoreAPIVersions".to_owned(), "core".to_owned(), "get available API versions", "APIVersions"),
        ["apis"] => ("getAPIVersions".to_owned(), "apis".to_owned(), "get available API versions", "APIGroupList"),
        ["apis", group] => {
            let trimmed = trimmed(group);
            (
                format!("get{}APIGroup", valid(trimmed, true)),
                valid(trimmed, false),
                "get information of a group",
                "APIGroup",
            )
        }
        ["api", version] => (
            format!("get{}APIResources", title("", version)),
            tag("", version),
            "get available resources",
            "APIResourceList",
        ),
        ["apis", group, version] => (
            format!("get{}APIResources", title(group, version)),
            self::tag(group, version),
            "get available resources",
            "APIResourceList",
        ),
        ["version"] => {
            ("getCodeVersion".to_owned(), "version".to_owned(), "get the version information for this server", "")
        }
        [".well-known", ..] => (
            "getServiceAccountIssuerOpenIDConfiguration".to_owned(),
            "WellKnown".to_owned(),
            "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
            "",
        ),
        _ => (
            "getServiceAccountIssuerOpenIDKeyset".to_owned(),
            "openid".to_owned(),
            "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
            "",
        ),
    };
    let (consumes, produces, answer): (&[&str], &[&str], _) = match parts.first() {
        Some(&"version") => (VERSION, VERSION, Some("io.k8s.apimachinery.pkg.version.Info".to_owned())),
        Some(&".well-known") => (&[], VERSION, None),
        Some(&"openid") => (&[], &["application/jwk-set+json"], None),
        _ => (FORMS, FORMS, Some(format!("{COMMON}{schema}"))),
    };
    let asked = Operation {
        method: "get",
        id,
        tag,
        description: description.to_owned(),
        action: "",
        kind: None,
        consumes,
        produces,
        body: None,
        parameters: Vec::new(),
        codes: &[FOUND],
        answer,
    };
    Path { name: path.to_owned(), operations: vec![asked] }
}
