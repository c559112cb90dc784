//! Label selectors as kubectl takes them: `app=web,tier!=db,zone in (1, 2),!legacy`.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

/// A parsed label selector; all requirements must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    text: String,
    requirements: Vec<LabelSelectorRequirement>,
}

impl Selector {
    /// The requirements, in the order written.
    pub fn requirements(&self) -> &[LabelSelectorRequirement] {
        &self.requirements
    }

    /// Whether these labels satisfy all requirements.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            let listed = |value: &String| requirement.values.as_ref().is_some_and(|values| values.contains(value));
            match requirement.operator.as_str() {
                "In" => value.is_some_and(listed),
                "NotIn" => !value.is_some_and(listed),
                "Exists" => value.is_some(),
                _ => value.is_none(),
            }
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
