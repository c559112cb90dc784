//! Names derived from content: `pod-template-hash`, controller revisions, stable digits.

// upstream: pkg/controller/controller_utils.go ComputeHash (v1.36)

use serde_json::Value;

use klab_scheduler::hash::fnv32;

/// The letters Kubernetes uses in generated names, no vowels so that no words appear.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A number's decimal digits, each mapped to a letter of generated names: the form of `pod-template-hash`.
pub(crate) fn safe_encode(number: u32) -> String {
    number.to_string().bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

/// The hash of a pod template; `collisions` is the owner's `status.collisionCount`. Equal templates give equal hashes
/// (a `Value` keeps its keys sorted, so equal content is equal text).
pub(crate) fn template_hash(template: &Value, collisions: Option<i64>) -> String {
    let text = template.to_string();
    let count = collisions.map(|count| count.to_string()).unwrap_or_default();
    safe_encode(fnv32(&[text.as_bytes(), count.as_bytes()]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn template_hashes_are_stable_and_well_formed() {
        let template = json!({"spec": {"containers": [{"image": "nginx:1.27"}]}});
        let hash = template_hash(&template, None);
        assert_eq!(hash, template_hash(&template.clone(), None));
        assert_ne!(hash, template_hash(&template, Some(1)));
        assert!((1..=10).contains(&hash.len()) && hash.bytes().all(|byte| LETTERS.contains(&byte)));
    }
}
