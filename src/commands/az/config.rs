//! `az config` and `az configure`: defaults, which are kept in klab's home and never in az's own files.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::session::Session;
use klab_az::commands::Answer;
use klab_az::grammar::Arguments;
use klab_az::refusal::Refusal;
use klab_operations::state::azure;

/// The keys of a section, as az shows them.
fn section(session: &Session<'_>, settings: &BTreeMap<String, String>, section: &str) -> Value {
    let source = azure::path(session.context.home.root()).display().to_string();
    let own = settings.iter().filter_map(|(name, value)| Some((name.strip_prefix(section)?.strip_prefix('.')?, value)));
    own.map(|(name, value)| json!({ "name": name, "source": source, "value": value })).collect()
}

/// `config get`.
pub(super) fn get(session: &Session<'_>, given: &Arguments) -> Answer {
    let settings = &session.account()?.settings;
    let Some(wanted) = given.operands.first() else {
        let names = settings.keys().filter_map(|key| key.split_once('.')).map(|(section, _)| section.to_owned());
        let all = names.map(|name| (name.clone(), section(session, settings, &name)));
        return Ok(Value::Object(all.collect()));
    };
    let found = section(session, settings, wanted.split('.').next().unwrap_or_default());
    let Some((_, name)) = wanted.split_once('.') else { return Ok(found) };
    let one = found.as_array().into_iter().flatten().find(|entry| entry["name"] == name).cloned();
    one.ok_or_else(|| Refusal::new(format!("Configuration '{wanted}' is not set.")))
}

/// `config set`.
pub(super) fn set(session: &Session<'_>, given: &Arguments) -> Answer {
    let pairs = given.operands.iter().map(|word| {
        let pair = word.split_once('=').filter(|(key, _)| {
            key.split_once('.').is_some_and(|(section, name)| !section.is_empty() && !name.is_empty())
        });
        pair.ok_or_else(|| Refusal::new(format!("{word} is not in the form of <section>.<name>=<value>")))
    });
    let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
    session.change_account(|account| pairs.iter().for_each(|(key, value)| put(&mut account.settings, key, value)))?;
    Ok(Value::Null)
}

/// `config unset`.
pub(super) fn unset(session: &Session<'_>, given: &Arguments) -> Answer {
    session.change_account(|account| given.operands.iter().for_each(|key| drop(account.settings.remove(key))))?;
    Ok(Value::Null)
}

/// `configure`.
pub(super) fn configure(session: &Session<'_>, given: &Arguments) -> Answer {
    if given.has("--list-defaults") {
        return Ok(section(session, &session.account()?.settings, "defaults"));
    }
    let Some(words) = given.words("--defaults") else {
        return Err(Refusal::new("klab's az has no dialogue to configure it.")
            .advise("Try: az configure --defaults group=NAME location=REGION"));
    };
    let wrong = || Refusal::new("usage error: --defaults STRING=STRING STRING=STRING ...");
    let pairs = words.iter().map(|word| word.split_once('=').ok_or_else(wrong));
    let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
    session.change_account(|account| {
        for (key, value) in pairs {
            put(&mut account.settings, &format!("defaults.{key}"), value);
        }
    })?;
    Ok(Value::Null)
}

/// Keeps a value; an empty one takes the key away.
fn put(settings: &mut BTreeMap<String, String>, key: &str, value: &str) {
    if value.is_empty() {
        settings.remove(key);
    } else {
        settings.insert(key.to_owned(), value.to_owned());
    }
}
