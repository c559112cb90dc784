//! `klab up`: make the lab, or bring it to what its file says now, and wait until every check holds.

use std::time::{Duration, Instant};

use serde_json::json;

pub use super::one::Arguments;
use super::one::{Made, make, wait, with_way_on};
use super::{Context, invalid};
use klab_lab::spec::Lab;
use klab_lab::words::{duration, plural};
use klab_operations::bundled_lessons;
use klab_operations::error::Result;
use klab_operations::event::{About, Verb};
use klab_operations::exec::quoted;
use klab_operations::grade::report_set_up;
use klab_operations::locked_lab::LockedLab;
use klab_operations::render;
use klab_operations::state::class::Class;
use klab_operations::ui::Format;

/// Makes the lab.
///
/// # Errors
/// Whatever keeps it from being made; what is left behind is named, and a second `up` continues from there.
pub fn run(context: &Context, mut arguments: Arguments) -> Result<()> {
    arguments.lab = bundled_lessons::lab_file(&context.home, &arguments.lab)?;
    let arguments = &arguments;
    let started = Instant::now();
    context.ui.stream_events();
    let lab = context.load_where_it_is(&arguments.lab, arguments.options.load_options_to_make())?;
    context.ui.works_on(&lab.name.value);
    let manifests = render::render(&lab).map_err(|diagnostics| invalid(&arguments.lab, &diagnostics))?;
    context.ui.events().about(About::Lab, &lab.name.value).note(
        Verb::CheckLab,
        format!(
            "{}: {}, {}, {}",
            arguments.lab.display(),
            plural(lab.pools.iter().filter(|pool| !pool.deferred).count(), "pool"),
            plural(manifests.len(), "object"),
            plural(lab.checks.len(), "check")
        ),
    );
    if let Some(seats) = arguments.seats {
        return super::seats::up(context, arguments, &lab, seats);
    }
    let name = lab.name.value.clone();
    if let Some(class) = Class::read(&context.home, &name)? {
        let seats = class.seats.len();
        return Err(class.name_a_seat().hint(format!("`--seats {seats}` brings up the class")));
    }
    let mut locked = LockedLab::new(context, &name, "up")?;
    let words = format!(
        "lab `{name}` is partly made; `klab up {}` continues, `klab down {name}` removes it",
        arguments.lab.display()
    );
    locked.interruption_leaves(words);
    let made = make(&mut locked, arguments, &lab, &manifests)
        .map_err(|error| with_way_on(context, error, arguments, &name))?;
    locked.interruption_leaves_afterwards(format!(
        "lab `{name}` is up; `klab verify {name}` says what holds, `klab down {name}` removes it"
    ));
    drop(locked);
    if !arguments.no_wait {
        let report = wait(context, arguments, &lab, &made, arguments.timeout)?;
        report_set_up(context, report, arguments.timeout)?;
    }
    report(context, &lab, &made, started.elapsed());
    Ok(())
}

fn report(context: &Context, lab: &Lab, made: &Made, elapsed: Duration) {
    let name = &lab.name.value;
    if context.ui.format() == Format::Json {
        let outcome = &made.outcome;
        context.ui.last_event(&json!({
            "event": "ready", "provider": lab.provider.as_str(), "kubeconfig": made.kubeconfig,
            "changed": !made.is_unchanged(),
            "created": outcome.created, "updated": outcome.updated, "pruned": outcome.pruned,
            "unchanged": outcome.unchanged.len(), "elapsed_ms": u64::try_from(elapsed.as_millis()).ok(),
        }));
        return;
    }
    let what = if made.is_unchanged() {
        format!("lab `{name}` was as its file says; nothing changed")
    } else {
        format!("lab `{name}`")
    };
    context.ui.events().about(About::Lab, name).note(Verb::MakeLab, format!("{what} in {}", duration(elapsed)));
    let guide = if lab.steps.is_empty() { String::new() } else { format!("klab guide {name}    ") };
    if lab.provider.profile().is_embedded || !context.ui.quiet() {
        context.ui.say(&format!(
            "\n  export KUBECONFIG={}    # then: kubectl get pods -o wide\n  klab verify {name}    {guide}klab down {name}",
            quoted(&made.kubeconfig.display().to_string())
        ));
    }
}
