//! OpenAPI documents: every operation that is served, and the fields and descriptions of everything, definitions included.

mod catalogue;
mod explain;
mod operation;
mod parameter;
mod version2;
mod version2_message;
mod version3;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use serde_json::{Value, json};

pub use self::explain::Definitions;
pub use self::operation::root;

use self::catalogue::Catalogue;
use self::operation::Path;
use crate::custom::Listing;
use crate::resource::{Resource, served};

/// Resources with the kinds of their lists.
pub type Kinds = [(Listing, String)];

/// What is served beside groups, by the path of its document.
pub const OTHERS: &[&str] = &[".well-known/openid-configuration", "api", "apis", "openid/v1/jwks", "version"];

/// The document of all paths, as JSON or as a message. It is written path by path: the text is all that is held of them.
pub fn version2(kinds: &Kinds, definition: &Definitions<'_>, protobuf: bool) -> Vec<u8> {
    let mut paths: Vec<Path> = OTHERS.iter().map(|path| operation::discovery(&format!("/{path}/"))).collect();
    let groups: BTreeSet<_> = served().map(|row| row.group).filter(|group| !group.is_empty()).collect();
    paths.extend(groups.into_iter().map(|group| operation::discovery(&format!("/apis/{group}/"))));
    paths.extend(paths_of(kinds));
    let text = catalogue::descriptions();
    let catalogue = Catalogue::of(&text);
    let frame = version2::frame(&paths, &catalogue);
    let definitions = version2::definitions(explain::schemas(definition, &catalogue, kinds, &paths));
    let items = paths.iter().map(|path| (path.name.as_str(), version2::item(path, &catalogue)));
    if protobuf {
        return version2_message::encode(&Value::Object(frame), items, &definitions);
    }
    let mut written = String::from("{\"paths\":");
    write_items(&mut written, items);
    let _ = write!(written, ",\"definitions\":{}", Value::Object(definitions));
    for (key, value) in frame {
        let _ = write!(written, ",\"{key}\":{value}");
    }
    written.push('}');
    written.into_bytes()
}

/// `{"/api/v1/pods":{…},…}`
fn write_items<'a>(written: &mut String, items: impl Iterator<Item = (&'a str, Value)>) {
    written.push('{');
    for (at, (name, item)) in items.enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(written, "{comma}{}:{item}", json!(name));
    }
    written.push('}');
}

/// All paths of these resources; the lists of what is built in are described as well.
fn paths_of(kinds: &Kinds) -> Vec<Path> {
    let built_in = kinds.iter().map(|(listing, _)| listing.row).filter(|row| !row.custom);
    let roots: BTreeSet<_> = built_in.map(|row| operation::root(row.group, row.version)).collect();
    let mut found: Vec<Path> = roots.iter().map(|root| operation::discovery(&format!("{root}/"))).collect();
    found.extend(kinds.iter().flat_map(|(listing, list_kind)| operation::paths(listing, list_kind)));
    found
}

/// The document of the resources of one group and version.
pub fn version3(kinds: &Kinds, definition: &Definitions<'_>) -> Vec<u8> {
    write_version3(kinds, definition, &paths_of(kinds))
}

/// The document of a group, or of what is no group: its path answers what there is.
pub fn discovery(path: &str) -> Vec<u8> {
    write_version3(&[], &|_| Arc::default(), &[operation::discovery(&format!("/{path}/"))])
}

fn write_version3(kinds: &Kinds, definition: &Definitions<'_>, paths: &[Path]) -> Vec<u8> {
    let text = catalogue::descriptions();
    let catalogue = Catalogue::of(&text);
    let schemas = explain::schemas(definition, &catalogue, kinds, paths);
    let mut written =
        String::from("{\"openapi\":\"3.0.0\",\"info\":{\"title\":\"Kubernetes\",\"version\":\"v1.36.2\"},\"paths\":");
    write_items(&mut written, paths.iter().map(|path| (path.name.as_str(), version3::item(path, &catalogue))));
    let mut components = json!({"securitySchemes": {"BearerToken": {
        "description": "Bearer Token authentication", "in": "header", "name": "authorization", "type": "apiKey",
    }}});
    if !schemas.is_empty() {
        components["schemas"] = Value::Object(schemas);
    }
    let _ = write!(written, ",\"components\":{components}}}");
    written.into_bytes()
}

/// A document with only the operations kubectl looks at: for patches, whether the server validates fields and knows dry
/// runs; for gets, which kind a path has.
pub fn operations(resources: &[&Resource]) -> String {
    let mut text =
        String::from("{\"openapi\":\"3.0.0\",\"info\":{\"title\":\"Kubernetes\",\"version\":\"v1.36.2\"},\"paths\":{");
    for (at, row) in resources.iter().filter(|row| row.is_stored()).enumerate() {
        let prefix = if row.group.is_empty() {
            format!("/api/{}", row.version)
        } else {
            format!("/apis/{}/{}", row.group, row.version)
        };
        let namespace = if row.namespaced { "/namespaces/{namespace}" } else { "" };
        let comma = if at == 0 { "" } else { "," };
        let kind = format!(
            "\"x-kubernetes-group-version-kind\":{{\"group\":\"{}\",\"version\":\"{}\",\"kind\":\"{}\"}}",
            row.group, row.version, row.kind
        );
        let _ = write!(
            text,
            concat!(
                // kubectl 1.27 finds the kind of what it explains at the list of all namespaces, later ones also at one object.
                "{comma}\"{prefix}/{plural}\":{{",
                "\"get\":{{\"x-kubernetes-action\":\"list\",{kind},\"responses\":{{}}}}}},",
                "\"{prefix}{namespace}/{plural}/{{name}}\":{{",
                "\"get\":{{\"x-kubernetes-action\":\"get\",{kind},\"responses\":{{}}}},",
                "\"patch\":{{\"x-kubernetes-action\":\"patch\",{kind},",
                "\"parameters\":[{{\"name\":\"dryRun\",\"in\":\"query\",\"schema\":{{\"type\":\"string\"}}}},",
                "{{\"name\":\"fieldValidation\",\"in\":\"query\",\"schema\":{{\"type\":\"string\"}}}}],",
                "\"responses\":{{}}}}}}"
            ),
            comma = comma,
            prefix = prefix,
            namespace = namespace,
            plural = row.plural,
            kind = kind,
        );
    }
    text.push_str("}}");
    text
}
