//! What the learner of a seat asks about lesson and cluster, and nothing is changed by: the answers as text and for programs.

use std::sync::Arc;

use serde_json::{Value, json};

use super::board_cache::Viewer;
use super::course::Course;
use super::grading;
use super::state::{Host, Learner};
use super::{practice, renderer, steps};
use klab_lab::report::{self, Styles, explanation_json};
use klab_lab::spec::Workload;
use klab_lab::verify;
use klab_operations::board::Written;
use klab_operations::board::page::Form;
use klab_operations::changes::{Baseline, Summary, live_objects};
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::lesson::stage;
use klab_operations::lesson::text::{self, Page};
use klab_operations::lesson::words::{find, step_document};
use klab_operations::observe;
use klab_operations::pool::staged::with_kept;
use klab_operations::pool::{self, ChangedPools};
use klab_operations::render;

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    /// For people, with styles.
    pub(super) text: String,
    /// For programs.
    pub(super) document: Value,
}

fn course<'h>(host: &'h Host, learner: &Learner) -> Result<&'h Course> {
    host.course(&learner.lab).ok_or_else(|| Error::message(Code::ClassRefuses, "the lab is not in this class"))
}

/// Where the learner is.
///
/// # Errors
/// When that cannot be read.
pub(super) fn status(host: &Host, learner: &Learner) -> Result<Reply> {
    let progress = host.progress(learner.seat, &learner.lab)?;
    let lab = course(host, learner)?.lab();
    let step = progress.next(lab.steps.len()).and_then(|next| lab.steps.get(next)).map(|step| &step.name.value);
    let (hints, agreed) = {
        let register = host.register();
        (register.hints(learner.seat).into_iter().map(str::to_owned).collect::<Vec<_>>(), register.agreed(learner.seat))
    };
    let late = host.refuse_late(learner.person).err();
    let is_open = late.is_none();
    let score = practice::score(host, learner.person);
    let page = format!("{}/learn/{}/", host.url(), learner.lab);
    let mut text = format!(
        "lab {} (seat {} of class {})\nclass: {}\nlesson: {} of {} steps done",
        learner.lab,
        learner.seat,
        host.settings.name,
        late.map_or_else(|| "open".to_owned(), |refusal| refusal.message.replacen("the class is ", "", 1)),
        progress.done,
        lab.steps.len(),
    );
    text.extend(step.map(|step| format!(", next is {step}")));
    text.extend(score.iter().map(|score| format!("\n{score}")));
    text.extend(hints.iter().map(|hint| format!("\nyour instructor says: {hint}")));
    let document = json!({
        "schema": "klab.seat-status/1", "class": host.settings.name, "seat": learner.seat, "lab": learner.lab,
        "name": learner.name, "title": lab.title, "done": progress.done, "steps": lab.steps.len(),
        "opened": progress.is_opened(), "step": step, "closes": host.times().closes, "open": is_open, "hints": hints,
        "agreed": agreed, "page": page,
    });
    Ok(Reply { text: format!("{text}\npage: {page}\n"), document })
}

/// The guide, as klab writes it on a page. A learner who is shown the next step has opened it.
///
/// # Errors
/// When there is no such step, or the cluster does not answer.
pub(super) async fn guide(host: &Host, learner: &Learner, step: Option<&str>, page: Page) -> Result<Reply> {
    let course = course(host, learner)?;
    let progress = host.progress(learner.seat, &learner.lab)?;
    let form = renderer::form(host, learner.seat, Viewer::Learner);
    let Written { lab, tools } = course.shown(&progress, form);
    let shown = match step {
        Some(name) => Some(find(lab, name)?),
        None => text::shown(lab, &progress),
    };
    let text = match shown {
        Some(step) => text::step_text(lab, step, tools, page),
        None => text::intro(lab, &progress, page),
    };
    if step.is_none() && shown.is_some() && form == Form::Live {
        grading::open(host, learner.seat, &learner.lab).await?;
    }
    let steps: Vec<Value> = (0..lab.steps.len()).map(|step| step_document(lab, step, tools)).collect();
    let document = json!({
        "schema": "klab.guide/1", "lab": lab.name.value, "title": lab.title, "description": lab.description,
        "shown": shown.and_then(|step| lab.steps.get(step)).map(|step| &step.name.value), "steps": steps,
        "lesson": { "steps": lab.steps.len(), "done": progress.done, "opened": progress.is_opened() },
    });
    Ok(Reply { text, document })
}

/// Why a pod is where it is, or nowhere.
///
/// # Errors
/// When there is no such pod or workload, or the cluster does not answer.
pub(super) async fn explain(host: &Host, learner: &Learner, target: &str, namespace: Option<&str>) -> Result<Reply> {
    let lab = course(host, learner)?.lab();
    let progress = host.progress(learner.seat, &learner.lab)?;
    let kept = ChangedPools::read(&host.seat_folder(learner.seat)).unwrap_or_default();
    let stage = with_kept(stage(lab, progress.done), &kept);
    let snapshot = observe::look_at_all(&host.client_of(learner.seat)?).await?;
    let found = verify::explain(&snapshot, &verify::Context::of(&stage), target, namespace);
    let explanations = found.map_err(|nothing| {
        let hint = nothing.hint().unwrap_or_else(|| "`kubectl get pods -A` shows the pods".to_owned());
        Error::message(Code::NothingToExplain, nothing.to_string()).hint(hint)
    })?;
    Ok(Reply {
        text: report::explanation_text(&explanations, Styles::coloured()),
        document: explanation_json(target, &explanations),
    })
}

/// The objects of the lab, or of one of its workloads; at the set-up, or after a step.
///
/// # Errors
/// When there is no such workload or step, or the objects cannot be rendered.
pub(super) async fn render(
    host: &Host,
    learner: &Learner,
    workload: Option<&str>,
    step: Option<&str>,
) -> Result<Reply> {
    for (given, flag) in [(workload, "--workload"), (step, "--step")] {
        if given.is_some() {
            practice::refuse_help(host, learner, &format!("klab render {flag}"))?;
        }
    }
    let mut lab = course(host, learner)?.lab().clone();
    if let Some(step) = step {
        lab = stage(&lab, find(&lab, step)?.saturating_add(1));
    }
    let lab = observe::nodes_named(&host.client_of(learner.seat)?, &lab).await?;
    let is_shown = |one: &&Workload| workload.map_or(!one.deferred, |name| one.name.value == name);
    lab.workloads.iter().filter(is_shown).try_for_each(observe::refuse_without_node)?;
    let manifests = match workload {
        None => render::render(&lab),
        Some(name) => render::render_workload(&lab, render::workload(&lab, name)?),
    };
    let manifests = manifests.map_err(|_| {
        Error::message(Code::ClassFault, "the lab's objects could not be rendered: tell the instructor")
    })?;
    // Where the files are is the host's own business.
    Ok(Reply { text: render::shown(&manifests, false)?, document: render::shown_list(&manifests) })
}

/// What differs between the seat and the lab after a step; after the last one that is done, where none is named.
///
/// # Errors
/// When there is no such step, or the cluster does not answer.
pub(super) async fn diff(host: &Host, learner: &Learner, step: Option<&str>) -> Result<Reply> {
    let course = course(host, learner)?;
    let (lab, twin) = (course.lab().clone(), Arc::clone(&course.twin));
    if step.is_some() {
        practice::refuse_help(host, learner, "klab diff --step")?;
    }
    let steps = match step {
        Some(name) => find(&lab, name)?.saturating_add(1),
        None => host.progress(learner.seat, &learner.lab)?.done,
    };
    let found = live_objects(&host.client_of(learner.seat)?).await?;
    let compared = tokio::task::spawn_blocking(move || {
        // The twin of the lab is made by a runtime of its own.
        let changes = Baseline::default().differences(&*twin.after(steps)?, &found, &lab);
        let text = format!("{}\n{}", Summary::heading(&changes, &lab, steps), Summary::text(&changes, &lab, steps));
        Ok(Reply { text, document: Summary::document(&changes, &lab, steps) })
    });
    compared.await.code(Code::ClassFault, || "could not compare the cluster".to_owned())?
}

/// The pools of the seat.
///
/// # Errors
/// When the cluster does not answer.
pub(super) async fn pools(host: &Arc<Host>, learner: &Learner) -> Result<Reply> {
    let (host, learner) = (Arc::clone(host), learner.clone());
    let live = tokio::task::spawn_blocking(move || steps::live_pools(&host, &learner)).await;
    let live = live.code(Code::ClassFault, || "could not list the pools".to_owned())??;
    Ok(Reply { text: pool::list(&live), document: pool::list_document(&live) })
}
