//! `az group …`: resource groups. A lab is in one of its own; others are remembered.

use serde_json::{Value, json};

use super::session::{Answer, Known, Session};
use crate::az::grammar::Given;
use crate::az::names::{group_id, region};
use crate::az::refusal::{Code, Refusal};
use crate::az::{checks, words};
use crate::state::azure::Group;
use crate::state::operation::Doing;

const NAME: &str = "--name";

fn document(group: &Group, state: &str) -> Value {
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

/// A group with its state: one that goes is there until the labs in it are gone.
fn shown(session: &Session<'_>, group: &Group) -> Answer {
    let is_going = |known: &Known| known.is_in(&group.name) && known.state(None) == Doing::Deleting.as_str();
    let is_left = session.has_made(&group.name)? || !session.clusters()?.iter().any(is_going);
    Ok(document(group, if is_left { "Succeeded" } else { Doing::Deleting.as_str() }))
}

/// All groups: those that were made, and those that labs are in.
fn all(session: &Session<'_>) -> Result<Vec<Group>, Refusal> {
    let mut groups: Vec<Group> = session.account()?.groups.values().cloned().collect();
    for known in session.clusters()? {
        if !groups.iter().any(|group| known.is_in(&group.name)) {
            groups.push(session.group_of(&known));
        }
    }
    groups.sort_by_key(|group| group.name.to_lowercase());
    Ok(groups)
}

/// `create`.
pub(super) fn create(session: &Session<'_>, given: &Given) -> Answer {
    let (name, location) = (given.needed(NAME), region(given.needed("--location")));
    let is_allowed = |letter: char| letter.is_alphanumeric() || "_-.()".contains(letter);
    if name.is_empty() || name.chars().count() > 90 || name.ends_with('.') || !name.chars().all(is_allowed) {
        let message = format!(
            "The provided resource group name '{name}' has these invalid characters: the name can have up to 90 letters, digits, underscores, hyphens, periods and parentheses, and cannot end with a period."
        );
        return Err(Refusal::azure(Code::InvalidResourceGroup, &message));
    }
    let known = session.group(name)?;
    if let Some(known) = &known
        && known.location != location
    {
        let message = format!(
            "Invalid resource group location '{location}'. The Resource group already exists in location '{}'.",
            known.location
        );
        return Err(Refusal::azure(Code::InvalidResourceGroupLocation, &message));
    }
    let tags = given.words("--tags").map(checks::tags).filter(|tags| !tags.is_empty());
    let group = Group { name: known.map_or_else(|| name.to_owned(), |known| known.name), location, tags };
    session.change_account(|account| drop(account.groups.insert(name.to_lowercase(), group.clone())))?;
    Ok(document(&group, "Succeeded"))
}

/// `show`.
pub(super) fn show(session: &Session<'_>, given: &Given) -> Answer {
    let name = given.needed(NAME);
    session.group(name)?.map_or_else(|| Err(words::no_group(name)), |group| shown(session, &group))
}

/// `exists`.
pub(super) fn exists(session: &Session<'_>, given: &Given) -> Answer {
    Ok(session.group(given.needed(NAME))?.is_some().into())
}

/// `list`.
pub(super) fn list(session: &Session<'_>, given: &Given) -> Answer {
    let tag = given.word("--tag").map(|tag| tag.split_once('=').map_or((tag, None), |(key, value)| (key, Some(value))));
    let has_tag = |group: &Group| {
        tag.is_none_or(|(key, value)| {
            let own = group.tags.as_ref().and_then(|tags| tags.get(key));
            own.is_some_and(|own| value.is_none_or(|value| own == value))
        })
    };
    all(session)?.iter().filter(|group| has_tag(group)).map(|group| shown(session, group)).collect()
}

/// `delete`: with the labs that are in the group.
pub(super) fn delete(session: &Session<'_>, given: &Given) -> Answer {
    session.confirm(given, "Are you sure you want to perform this operation?")?;
    let name = given.needed(NAME);
    let mut inside = session.clusters()?;
    inside.retain(|known| known.is_in(name));
    if inside.is_empty() && !session.has_made(name)? {
        return Err(words::no_group(name));
    }
    for known in inside {
        session.delete(&known, given)?;
    }
    session.change_account(|account| drop(account.groups.remove(&name.to_lowercase())))?;
    Ok(Value::Null)
}
