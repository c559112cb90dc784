//! What `klab list` and `klab status` say of a class.

use serde_json::{Value, json};

use super::super::Context;
use super::{Workshop, jobs};
use klab_lab::names::WORKLOAD_LABEL;
use klab_lab::verify::Snapshot;
use klab_lab::words::{plural, table};
use klab_operations::error::Result;
use klab_operations::observe;
use klab_operations::parallel::parallel;
use klab_operations::state::class::{Class, is_ready};
use klab_operations::ui::Format;

/// The class as a line of `klab list`, and for programs; `silent` where the server of its seats does not answer.
pub(in super::super) fn row(context: &Context, class: &Class, silent: bool) -> (Vec<String>, Value) {
    let ready = class.names().filter(|(_, seat)| is_ready(&context.home, seat)).count();
    let total = class.seats.len();
    let state = match ready == total {
        _ if silent => "no answer".to_owned(),
        true => "up".to_owned(),
        false => format!("{ready} of {total} up"),
    };
    let row = vec![
        class.lab.clone(),
        class.provider.spoken().to_owned(),
        format!("{state}, {}", plural(total, "seat")),
        "-".to_owned(),
        class.created.strftime("%Y-%m-%d %H:%M").to_string(),
        class.source.display().to_string(),
    ];
    let document = json!({
        "lab": class.lab, "provider": class.provider, "state": match ready == total {
            _ if silent => "no answer",
            true => "up",
            false => "partly up",
        },
        "seats": total, "ready": ready, "created": class.created, "file": class.source,
    });
    (row, document)
}

/// Looks at every seat and prints a line for each.
///
/// # Errors
/// When klab's state cannot be read; a seat that does not answer is a line like any other.
pub(in super::super) fn status(context: &Context, class: &Class) -> Result<()> {
    let workshop = Workshop::new(context);
    let seats: Vec<(u32, String)> = class.names().collect();
    let workers = jobs(class.provider);
    let looks = parallel(&seats, workers, |(_, seat)| look(&workshop.context(), seat))?;
    let mut rows = vec![["SEAT", "LAB", "STATE", "NODES", "RUNNING", "PENDING"].map(str::to_owned).to_vec()];
    let mut documents = Vec::new();
    for ((number, seat), look) in seats.iter().zip(looks) {
        let state = match (&look, is_ready(&context.home, seat)) {
            (Ok(Some(_)), true) => "up",
            (Ok(Some(_)), false) => "partly up",
            (Ok(None), _) => "missing",
            (Err(_), _) => "unreachable",
        };
        let snapshot = look.ok().flatten();
        let count = |phase: &str| snapshot.as_ref().map(|snapshot| pods(snapshot, phase));
        let nodes = snapshot.as_ref().map(|snapshot| snapshot.nodes.len());
        let (running, pending) = (count("Running"), count("Pending"));
        let cell = |count: Option<usize>| count.map_or("-".to_owned(), |count| count.to_string());
        rows.push(vec![number.to_string(), seat.clone(), state.to_owned(), cell(nodes), cell(running), cell(pending)]);
        documents.push(json!({
            "seat": number, "lab": seat, "state": state, "nodes": nodes, "running": running, "pending": pending,
            "kubeconfig": context.home.lab(seat).join("kubeconfig"),
        }));
    }
    if context.ui.format() == Format::Json {
        let document = json!({
            "schema": "klab.class-status/1", "lab": class.lab, "provider": class.provider, "created": class.created,
            "seats": documents,
        });
        context.ui.result(&document.to_string());
        return Ok(());
    }
    let head = format!("lab {} ({}), {}", class.lab, class.provider.spoken(), plural(class.seats.len(), "seat"));
    context.ui.result(&format!("{head}\n\n{}", table(&rows)));
    Ok(())
}

/// One look at a seat; none where it is not up.
fn look(context: &Context, seat: &str) -> Result<Option<Snapshot>> {
    if context.record(seat)?.is_none() {
        return Ok(None);
    }
    let kubeconfig = context.kubeconfig(seat)?;
    let client = context.client(seat, &kubeconfig)?;
    context.block_on(observe::look(&client)).map(Some)
}

/// The lab's own pods of a phase.
fn pods(snapshot: &Snapshot, phase: &str) -> usize {
    let of_lab = |pod: &k8s_openapi::api::core::v1::Pod| {
        pod.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(WORKLOAD_LABEL))
    };
    let in_phase = |pod: &k8s_openapi::api::core::v1::Pod| {
        pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase)
    };
    snapshot.pods.iter().filter(|pod| of_lab(pod) && in_phase(pod)).count()
}
