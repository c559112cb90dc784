//! A kube-scheduler in a container: which configuration it reads when it starts.

// upstream: cmd/kube-scheduler/app/options/options.go ApplyTo, ApplyLeaderElectionTo (v1.36)

use klab_api_machinery::yaml;
use klab_scheduler::Profiles;
use serde_json::{Value, json};

use crate::pod::file::Found;
use crate::pod::files::Files;

/// Where it serves `/healthz` and metrics.
pub(crate) const PORT: u16 = 10_259;

/// Whether a program is a kube-scheduler, by its name.
pub(crate) fn is_named(program: &str) -> bool {
    program.rsplit('/').next() == Some("kube-scheduler")
}

/// What a kube-scheduler reads that is started with these words; `None` where its file is not known.
pub(crate) fn read(words: &[&str], files: &Files) -> Result<Option<Value>, String> {
    let mut configuration = match flag(words, "--config") {
        None => json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration" }),
        Some(path) => match files.find(path) {
            Found::File(file) => match file.text {
                Some(text) => yaml::read(&text)?.0,
                None => return Ok(None),
            },
            Found::Unknown => return Ok(None),
            _ => return Err(format!("open {path}: no such file or directory")),
        },
    };
    Profiles::from_configuration(&configuration).map_err(|error| error.to_string())?;
    let election = &mut configuration["leaderElection"];
    if let Some(elects) = flag(words, "--leader-elect") {
        election["leaderElect"] = json!(elects != "false");
    }
    for (name, field) in
        [("--leader-elect-resource-name", "resourceName"), ("--leader-elect-resource-namespace", "resourceNamespace")]
    {
        if let Some(value) = flag(words, name) {
            election[field] = json!(value);
        }
    }
    Ok(Some(configuration))
}

/// The value of a flag: `--config=/etc/scheduler.yaml`, `--config /etc/scheduler.yaml`, `--leader-elect`.
fn flag<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    let at = words
        .iter()
        .rposition(|word| *word == name || word.strip_prefix(name).is_some_and(|it| it.starts_with('=')))?;
    match words[at].split_once('=') {
        Some((_, value)) => Some(value),
        None => Some(words.get(at + 1).copied().filter(|next| !next.starts_with("--")).unwrap_or("true")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_where_the_configuration_is_and_who_leads() {
        let read = |words: &[&str]| read(words, &Files::default()).map(Option::unwrap);
        assert_eq!(read(&["kube-scheduler"]).unwrap()["leaderElection"], Value::Null);
        let alone = read(&["kube-scheduler", "--leader-elect=false", "--v", "2"]).unwrap();
        assert_eq!(alone["leaderElection"], json!({ "leaderElect": false }));
        let named = read(&["kube-scheduler", "--leader-elect", "--leader-elect-resource-name", "second"]).unwrap();
        assert_eq!(named["leaderElection"], json!({ "leaderElect": true, "resourceName": "second" }));
        assert!(is_named("/usr/local/bin/kube-scheduler") && !is_named("kube-scheduler-simulator"));
    }
}
