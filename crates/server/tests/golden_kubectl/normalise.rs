//! The stated normalisation: ordered rules that replace what differs from run to run.

use std::path::Path;

use regex::Regex;
use serde_json::Value;

pub(crate) struct Normaliser {
    rules: Vec<Rule>,
    node_any: Vec<Rule>,
}

struct Rule {
    regex: Regex,
    replace: String,
    text_only: bool,
}

fn rules(value: &Value) -> Vec<Rule> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| Rule {
            regex: Regex::new(&format!("(?m){}", rule["regex"].as_str().unwrap())).unwrap(),
            replace: rule["replace"].as_str().unwrap().to_owned(),
            text_only: rule["text_only"] == true,
        })
        .collect()
}

impl Normaliser {
    pub(crate) fn read(folder: &Path) -> Self {
        let text = std::fs::read_to_string(folder.join("normalise.json")).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        Self { rules: rules(&value["rules"]), node_any: rules(&value["node_any"]) }
    }

    /// What a command printed.
    pub(crate) fn text(&self, text: &str, node_any: bool) -> String {
        self.apply(text, node_any, true)
    }

    /// A body as JSON text.
    pub(crate) fn body(&self, text: &str) -> String {
        self.apply(text, false, false)
    }

    fn apply(&self, text: &str, node_any: bool, is_text: bool) -> String {
        let mut text = text.to_owned();
        let node_rules = self.node_any.iter().filter(|_| node_any);
        for rule in self.rules.iter().filter(|rule| is_text || !rule.text_only).chain(node_rules) {
            text = rule.regex.replace_all(&text, rule.replace.as_str()).into_owned();
        }
        text
    }
}
