//! Resource groups: their names and documents.

use serde_json::{Value, json};

use crate::names::group_id;
use crate::notes::Group;
use crate::refusal::{Code, Refusal};

/// A group as az shows it. `state` is its `provisioningState`.
pub fn document(group: &Group, state: &str) -> Value {
    json!({
        "id": group_id(&group.name),
        "location": group.location,
        "managedBy": null,
        "name": group.name,
        "properties": { "provisioningState": state },
        "tags": group.tags,
        "type": "Microsoft.Resources/resourceGroups",
    })
}

/// Refuses a name that Azure gives no group.
///
/// # Errors
/// When it is too long or has other characters.
pub fn refuse_name(name: &str) -> Result<(), Refusal> {
    let is_allowed = |letter: char| letter.is_alphanumeric() || "_-.()".contains(letter);
    if name.is_empty() || name.chars().count() > 90 || name.ends_with('.') || !name.chars().all(is_allowed) {
        let message = format!(
            "The provided resource group name '{name}' has these invalid characters: the name can have up to 90 letters, digits, underscores, hyphens, periods and parentheses, and cannot end with a period."
        );
        return Err(Refusal::azure(Code::InvalidResourceGroup, &message));
    }
    Ok(())
}
