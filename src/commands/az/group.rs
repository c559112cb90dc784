//! `az group …`: resource groups. A lab is in one of its own; others are remembered.

use serde_json::Value;

use super::session::Session;
use klab_az::commands::Answer;
use klab_az::grammar::Arguments;
use klab_az::group::{document, refuse_name};
use klab_az::names::region;
use klab_az::notes::Group;
use klab_az::refusal::{Code, Refusal};
use klab_az::{checks, messages};
use klab_operations::az::{Clusters, Known};
use klab_operations::state::operation::OperationKind;

const NAME: &str = "--name";

/// A group with its state: one that goes is there until the labs in it are gone.
fn shown(session: &Session<'_>, group: &Group) -> Answer {
    let is_going = |known: &Known| known.is_in(&group.name) && known.state(None) == OperationKind::Deleting.as_str();
    let is_left = session.has_made(&group.name)? || !session.clusters()?.iter().any(is_going);
    Ok(document(group, if is_left { "Succeeded" } else { OperationKind::Deleting.as_str() }))
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
pub(super) fn create(session: &Session<'_>, given: &Arguments) -> Answer {
    let (name, location) = (given.needed(NAME), region(given.needed("--location")));
    refuse_name(name)?;
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
pub(super) fn show(session: &Session<'_>, given: &Arguments) -> Answer {
    let name = given.needed(NAME);
    session.group(name)?.map_or_else(|| Err(messages::no_group(name)), |group| shown(session, &group))
}

/// `exists`.
pub(super) fn exists(session: &Session<'_>, given: &Arguments) -> Answer {
    Ok(session.group(given.needed(NAME))?.is_some().into())
}

/// `list`.
pub(super) fn list(session: &Session<'_>, given: &Arguments) -> Answer {
    let tag = given.word("--tag");
    let has_tag = |group: &&Group| tag.is_none_or(|tag| group.has_tag(tag));
    all(session)?.iter().filter(has_tag).map(|group| shown(session, group)).collect()
}

/// `delete`: with the labs that are in the group.
pub(super) fn delete(session: &Session<'_>, given: &Arguments) -> Answer {
    session.confirm(given, "Are you sure you want to perform this operation?")?;
    let name = given.needed(NAME);
    let mut inside = session.clusters()?;
    inside.retain(|known| known.is_in(name));
    if inside.is_empty() && !session.has_made(name)? {
        return Err(messages::no_group(name));
    }
    for known in inside {
        session.delete(&known, given)?;
    }
    session.change_account(|account| drop(account.groups.remove(&name.to_lowercase())))?;
    Ok(Value::Null)
}
