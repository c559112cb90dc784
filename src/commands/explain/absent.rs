//! A workload of the lab that is not in the cluster: what makes it, and the command that does.

use super::super::lesson::label;
use klab_lab::spec::{Action, Lab, ObjectRef, Workload};
use klab_operations::changes::{Change, Named};
use klab_operations::error::{Code, Error};

/// The answer about a name that nothing in the cluster has, if it is that of a workload of the lab. `written` is the lab as its
/// file says, `done` the number of its steps that are done.
pub(super) fn absent(written: &Lab, done: usize, target: &str, namespace: Option<&str>) -> Option<Error> {
    let (kind, name) = target.split_once('/').map_or((None, target), |(kind, name)| (Some(kind), name));
    let workload = written.workload(name)?;
    let reference = |kind: &str| ObjectRef {
        kind: kind.to_owned(),
        group: None,
        name: name.to_owned(),
        namespace: workload.namespace.clone(),
    };
    let is_meant = kind.is_none_or(|kind| written.workload_of(&reference(kind)).is_some())
        && namespace.is_none_or(|namespace| namespace == workload.namespace);
    if !is_meant {
        return None;
    }
    let object = named(workload);
    let error = |words: String| Error::message(Code::NothingToExplain, format!("{} {words}", object.label()));
    let bring = |steps: usize| Change::Gone(object.clone()).undo(written, steps).unwrap_or_default();
    let (past, ahead) = (last(written, done, name), first_made(written, done, name));
    Some(match past {
        Some((step, Made::Deleted)) => {
            let error = error(format!("is not in the cluster: {} deletes it", label(written, step)));
            match ahead {
                Some(again) => error.hint(format!("{} makes it again: `klab guide`", label(written, again))),
                None => error.hint(format!("`{}` brings it back", bring(done))),
            }
        }
        Some((step, Made::Deployed)) => error(format!("is gone from the cluster: {} makes it", label(written, step)))
            .hint(format!("`{}` brings it back", bring(done))),
        None if workload.deferred => match ahead {
            Some(step) => error(format!("is not in the cluster yet: {} makes it", label(written, step)))
                .hint(format!("`{}` makes it now", bring(step + 1))),
            None => {
                error("is not in the cluster: no step makes it".to_owned()).hint(format!("`{}` makes it", bring(done)))
            }
        },
        None => error("is gone from the cluster: the set-up makes it".to_owned())
            .hint(format!("`{}` brings it back", bring(done))),
    })
}

/// What a step does to a workload as a whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    Deployed,
    Deleted,
}

/// The last of the steps that are done to make or delete a workload.
fn last(lab: &Lab, done: usize, name: &str) -> Option<(usize, Made)> {
    let steps = lab.steps.iter().enumerate().take(done);
    let acts = steps.flat_map(|(number, step)| step.actions.iter().map(move |action| (number, &action.value)));
    acts.filter_map(|(number, action)| Some((number, made(lab, action, name)?))).next_back()
}

/// The first step from this one on that makes a workload.
fn first_made(lab: &Lab, from: usize, name: &str) -> Option<usize> {
    let makes = |action: &Action| made(lab, action, name) == Some(Made::Deployed);
    (from..lab.steps.len()).find(|step| lab.steps[*step].actions.iter().any(|action| makes(&action.value)))
}

fn made(lab: &Lab, action: &Action, name: &str) -> Option<Made> {
    match action {
        Action::Deploy { workload } => (workload == name).then_some(Made::Deployed),
        Action::Delete { object } => (*lab.workload_of(object)?.name == *name).then_some(Made::Deleted),
        _ => None,
    }
}

fn named(workload: &Workload) -> Named {
    let group = workload.kind.api_version().split_once('/').map_or("", |(group, _)| group);
    Named {
        kind: workload.kind.kind().to_owned(),
        namespace: workload.namespace.clone(),
        name: workload.name.value.clone(),
        group: group.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{LoadOptions, parse};

    const LAB: &str = "lab = 'x'\n[pool.a]\nnodes = 1\n[workload.web]\n[workload.late]\ndeferred = true\n\
                       [[step]]\nname = 'make'\ndo = [{ deploy = 'late' }]\n\
                       [[step]]\nname = 'more'\ndo = [{ scale = 'web', replicas = 2 }]\n\
                       [[step]]\nname = 'less'\ndo = [{ delete = 'deployment/late' }]\n";

    #[test]
    fn a_workload_without_pods_is_said_to_be_gone_or_not_there_yet() {
        let lab = parse("x.toml", LAB, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}"));
        let said = |target: &str, done: usize| {
            let error = absent(&lab, done, target, None)?;
            Some(format!("{error}; {}", error.hints.join("; ")))
        };
        for (target, done, words) in [
            (
                "web",
                0,
                "deployment/web is gone from the cluster: the set-up makes it; `klab render x --workload web | kubectl apply -f -` brings it back",
            ),
            (
                "deploy/web",
                2,
                "deployment/web is gone from the cluster: the set-up makes it; `klab render x --workload web --step more | kubectl apply -f -` brings it back",
            ),
            (
                "late",
                0,
                "deployment/late is not in the cluster yet: step 1 of 3 `make` makes it; `klab render x --workload late | kubectl apply -f -` makes it now",
            ),
            (
                "late",
                1,
                "deployment/late is gone from the cluster: step 1 of 3 `make` makes it; `klab render x --workload late | kubectl apply -f -` brings it back",
            ),
            (
                "late",
                3,
                "deployment/late is not in the cluster: step 3 of 3 `less` deletes it; `klab render x --workload late | kubectl apply -f -` brings it back",
            ),
        ] {
            assert_eq!(said(target, done).as_deref(), Some(words));
        }
        assert_eq!(said("job/web", 0), None);
        assert_eq!(said("wbe", 0), None);
    }
}
