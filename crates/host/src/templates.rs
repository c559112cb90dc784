//! Pure: the pages of a class, as templates that are filled.

use std::sync::LazyLock;

use serde_json::Value;

use klab_operations::board::page::{self, Engine};
use klab_operations::error::Result;

/// The templates; names that end in `.html` are escaped.
const TEMPLATES: [(&str, &str); 8] = [
    ("console.html", include_str!("../templates/host/console.html.tera")),
    ("bar.html", include_str!("../templates/host/bar.html.tera")),
    ("lines.html", include_str!("../templates/host/lines.html.tera")),
    ("teach.html", include_str!("../templates/host/teach.html.tera")),
    ("join.html", include_str!("../templates/host/join.html.tera")),
    ("welcome.html", include_str!("../templates/host/welcome.html.tera")),
    ("onward.html", include_str!("../templates/host/onward.html.tera")),
    ("words.html", include_str!("../templates/host/words.html.tera")),
];

static ENGINE: LazyLock<Engine> = LazyLock::new(|| page::engine(&TEMPLATES));

/// A template with a document's fields.
///
/// # Errors
/// When the template fails.
pub fn rendered(template: &str, document: &Value) -> Result<String> {
    page::rendered_by(&ENGINE, template, document)
}
