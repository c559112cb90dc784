//! Cells: a pod, many pods of the cluster itself, a pod that should be there.

use super::drawing::{Drawing, FAINT, INK, WRONG};
use super::text::escaped;
use crate::board::legend::{colour, ink, sign};
use crate::board::model::{Amounts, Pod, Usage, Workload};
use crate::verify::amount;

const HEIGHT: i64 = 26;
const NARROWEST: i64 = 26;

/// What cells are drawn to scale with: the width that everything a node has would take.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    pub(super) all: Usage,
    pub(super) width: i64,
}

impl Scale {
    /// The width of what is requested: by the greater share of CPU or memory.
    fn width(self, requests: Amounts, narrowest: i64) -> i64 {
        let share = |wanted: i64, all: i64| if all > 0 { wanted as f64 / all as f64 } else { 0.0 };
        let share =
            share(requests.cpu_milli, self.all.cpu_milli).max(share(requests.memory_bytes, self.all.memory_bytes));
        ((share * self.width as f64).round() as i64).clamp(narrowest, self.width.max(narrowest))
    }
}

/// `50m`, `0.25` cores and memory in words.
fn requests(amounts: Amounts) -> String {
    format!("requests {} CPU, {} memory", amount("cpu", amounts.cpu_milli), amount("memory", amounts.memory_bytes))
}

fn centred(drawing: &mut Drawing, fill: &str, text: &str) {
    let middle = drawing.width / 2;
    drawing.body.push_str(&format!("<text x=\"{middle}\" y=\"18\" fill=\"{fill}\">{}</text>\n", escaped(text)));
}

/// A pod in the colour and with the letter of its workload. A sign behind the letter, the edge, and words show its state.
pub(super) fn pod(pod: &Pod, workload: Option<&Workload>, scale: Scale, wrong: Option<&str>) -> Drawing {
    let index = workload.and_then(|workload| workload.colour);
    let letter = workload.and_then(|workload| workload.letter.as_deref()).unwrap_or("·");
    let sign = sign(pod.state);
    let text = format!("{letter}{sign}");
    let narrowest = NARROWEST.max(text.chars().count() as i64 * 10 + 6);
    let mut cell = Drawing::new(scale.width(pod.requests, narrowest), HEIGHT);
    let is_over = matches!(pod.state, "succeeded" | "failed");
    let (fill, ink) = if is_over { ("#FFFFFF", INK) } else { (colour(index), ink(index)) };
    let edge = match (wrong.is_some(), pod.state) {
        (true, _) => format!("stroke=\"{WRONG}\" stroke-width=\"3\""),
        (_, "starting" | "terminating") => format!("stroke=\"{INK}\" stroke-width=\"2\" stroke-dasharray=\"4 3\""),
        _ => format!("stroke=\"{INK}\" stroke-width=\"0.8\""),
    };
    let fade = if pod.state == "terminating" { " fill-opacity=\"0.45\"" } else { "" };
    let ink = if pod.state == "terminating" { INK } else { ink };
    cell.rect((1, 1, cell.width - 2, HEIGHT - 2), &format!("rx=\"4\" fill=\"{fill}\"{fade} {edge}"));
    centred(&mut cell, ink, &text);
    if wrong.is_some() {
        let x = cell.width;
        cell.path(&format!("M{} 0H{x}V11Z", x - 11), &format!("fill=\"{WRONG}\""));
    }
    let trouble = pod.trouble.as_ref().map(|trouble| format!(" ({trouble})")).unwrap_or_default();
    let wrong = wrong.map(|check| format!("; should not be here: {check}")).unwrap_or_default();
    let title = format!("{}: {}{trouble}, {}{wrong}", pod.id, pod.state, requests(pod.requests));
    cell.named("pod", &pod.id, &title)
}

/// Pods of the cluster itself, as one.
pub(super) fn system(pods: &[&Pod], scale: Scale) -> Drawing {
    let mut sum = Amounts::default();
    for pod in pods {
        sum.cpu_milli = sum.cpu_milli.saturating_add(pod.requests.cpu_milli);
        sum.memory_bytes = sum.memory_bytes.saturating_add(pod.requests.memory_bytes);
    }
    let text = format!("system ×{}", pods.len());
    let mut cell = Drawing::new(scale.width(sum, text.chars().count() as i64 * 9 + 8), HEIGHT);
    let attributes = format!("rx=\"4\" fill=\"{}\" stroke=\"{FAINT}\" stroke-width=\"0.8\"", colour(None));
    cell.rect((1, 1, cell.width - 2, HEIGHT - 2), &attributes);
    centred(&mut cell, ink(None), &text);
    let names: Vec<&str> = pods.iter().map(|pod| pod.id.as_str()).collect();
    cell.titled(&format!("{}; {}", names.join(", "), requests(sum)))
}

/// Pods that should be here.
pub(super) fn ghost(workload: Option<&Workload>, pods: usize, check: &str) -> Drawing {
    let letter = workload.and_then(|workload| workload.letter.as_deref()).unwrap_or("·");
    let text = if pods > 1 { format!("{letter}? ×{pods}") } else { format!("{letter}?") };
    let mut cell = Drawing::new(NARROWEST.max(text.chars().count() as i64 * 9 + 10), HEIGHT);
    let colour = workload.map_or(FAINT, |workload| colour(workload.colour));
    let attributes =
        format!("rx=\"4\" fill=\"#FFFFFF\" stroke=\"{colour}\" stroke-width=\"2.5\" stroke-dasharray=\"2 3\"");
    cell.rect((2, 2, cell.width - 4, HEIGHT - 4), &attributes);
    centred(&mut cell, INK, &text);
    cell.titled(&format!("should be here: {check}"))
}

/// The cell of a workload in the legend.
pub(super) fn sample(workload: &Workload) -> Drawing {
    let text = workload.letter.as_deref().unwrap_or("·");
    let mut cell = Drawing::new(NARROWEST.max(text.chars().count() as i64 * 10 + 6), HEIGHT);
    let fill = colour(workload.colour);
    cell.rect(
        (1, 1, cell.width - 2, HEIGHT - 2),
        &format!("rx=\"4\" fill=\"{fill}\" stroke=\"{INK}\" stroke-width=\"0.8\""),
    );
    centred(&mut cell, ink(workload.colour), text);
    cell
}
