//! What the commands of a lesson do where the lab is a seat of a class: the host does it, and they show what it says.

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::Context;
use crate::seat::{Host, Line};
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::event::{About, Verb};
use klab_operations::lesson::GoalArguments;
use klab_operations::pool::PoolRequest;
use klab_operations::state::Joined;
use klab_operations::ui::Format;

/// The seat that is meant, where what is meant is one.
///
/// # Errors
/// When what is known of it is damaged.
pub(super) fn meant(context: &Context, argument: Option<&str>) -> Result<Option<Joined>> {
    // What is wrong with the argument is said by those who need a lab of this machine.
    let Ok(name) = context.lab_or_class_name(argument) else { return Ok(None) };
    if let Some(joined) = Joined::read(&context.home, &name)? {
        return Ok(Some(joined));
    }
    // What the host prints names the lab as the class does, which may have another name on this machine.
    let labs = context.labs()?;
    if labs.contains(&name) {
        return Ok(None);
    }
    let seats: Vec<Joined> = labs
        .iter()
        .map(|lab| Joined::read(&context.home, lab))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect();
    let mut named = seats.into_iter().filter(|seat| seat.of.as_deref() == Some(&*name));
    Ok(named.next().filter(|_| named.next().is_none()))
}

fn path(joined: &Joined, what: &str, query: &[(&str, Option<&str>)]) -> String {
    let mut pairs = form_urlencoded::Serializer::new(String::new());
    for (key, value) in query {
        if let Some(value) = value {
            pairs.append_pair(key, value);
        }
    }
    format!("/api/seats/{}{what}?{}", joined.seat, pairs.finish())
}

fn get(context: &Context, joined: &Joined, path: &str) -> Result<Value> {
    context.block_on(async { Host::of(joined).await?.get(path).await })
}

/// The text of the answer, or its document.
fn show(context: &Context, answer: &Value) {
    let text = answer["text"].as_str().unwrap_or_default();
    match context.ui.format() {
        Format::Json => context.ui.result(&answer["document"].to_string()),
        _ => context.ui.result(&context.ui.invocation().spelled(&context.ui.fitted(text))),
    }
}

/// `klab guide`.
pub(super) fn guide(context: &Context, joined: &Joined, step: Option<&str>) -> Result<()> {
    let width = context.ui.width().to_string();
    let colours = context.ui.colours().to_string();
    let query = [("step", step), ("width", Some(width.as_str())), ("colours", Some(colours.as_str()))];
    show(context, &get(context, joined, &path(joined, "/guide", &query))?);
    Ok(())
}

/// `klab explain`.
pub(super) fn explain(context: &Context, joined: &Joined, target: &str, namespace: Option<&str>) -> Result<()> {
    let query = [("target", Some(target)), ("namespace", namespace)];
    show(context, &get(context, joined, &path(joined, "/explain", &query))?);
    Ok(())
}

/// `klab render`.
pub(super) fn render(context: &Context, joined: &Joined, workload: Option<&str>, step: Option<&str>) -> Result<()> {
    let query = [("workload", workload), ("step", step)];
    show(context, &get(context, joined, &path(joined, "/render", &query))?);
    Ok(())
}

/// `klab diff`.
pub(super) fn diff(context: &Context, joined: &Joined, step: Option<&str>) -> Result<()> {
    show(context, &get(context, joined, &path(joined, "/diff", &[("step", step)]))?);
    Ok(())
}

/// `klab pool`.
pub(super) fn pool(context: &Context, joined: &Joined, asked: &PoolRequest) -> Result<()> {
    let path = path(joined, "/pool", &[]);
    if asked.pool().is_none() {
        show(context, &get(context, joined, &path)?);
        return Ok(());
    }
    let body =
        serde_json::to_vec(asked).code(Code::KlabFault, || "could not write what is asked of the pool".to_owned())?;
    follow(context, joined, &path, body, true)
}

/// `klab verify`; with `document` the report is one event among others.
pub(super) fn verify(context: &Context, joined: &Joined, step: Option<&str>, seconds: u64) -> Result<()> {
    let seconds = seconds.to_string();
    follow(context, joined, &path(joined, "/verify", &[("step", step), ("timeout", Some(&seconds))]), Vec::new(), false)
}

/// `klab step`.
pub(super) fn step(context: &Context, joined: &Joined, going: &GoalArguments) -> Result<()> {
    let flag = |is_set: bool| is_set.then_some("true");
    let query = [("to", going.to.as_deref()), ("all", flag(going.all)), ("back", flag(going.back))];
    follow(context, joined, &path(joined, "/step", &query), Vec::new(), true)
}

/// `klab reset`.
pub(super) fn reset(context: &Context, joined: &Joined, to: Option<&str>, yes: bool) -> Result<()> {
    let question = format!("All that was done in lab `{}` is taken back. Go on?", joined.lab);
    match if yes { Some(true) } else { context.ui.agrees(&question) } {
        Some(true) => follow(context, joined, &path(joined, "/reset", &[("to", to)]), Vec::new(), true),
        Some(false) => Err(Error::message(Code::NotConfirmed, "nothing was changed")),
        None => Err(Error::message(Code::NotConfirmed, "what was done in the seat would be taken back")
            .hint(format!("`klab reset {} --yes` takes it back", joined.lab))),
    }
}

/// Has the host do something, and shows what it says as klab shows its own work.
fn follow(context: &Context, joined: &Joined, path: &str, body: Vec<u8>, document: bool) -> Result<()> {
    context.ui.works_on(&joined.lab);
    let shows = |line: Line| match line {
        Line::Command(command) => {
            let dim = Style::new().fg_color(Some(AnsiColor::Cyan.into()));
            context.ui.say(&format!("{:>12} {dim}{command}{dim:#}", "$"));
        }
        Line::Warning(message) => context.ui.events().warn(Code::HostWarns, message),
        Line::Done(action, what) => {
            let verb = Verb::ALL.iter().copied().find(|verb| verb.action() == action).unwrap_or(Verb::VerifyLab);
            context.ui.events().note(verb, what);
        }
        Line::Report(report) => {
            let text = |key: &str| report[key].as_str().unwrap_or_default().to_owned();
            match context.ui.format() {
                Format::Json => {
                    let mut written = report["json"].clone();
                    written["lab"] = joined.lab.clone().into();
                    if document {
                        written["event"] = json!("report");
                    }
                    context.ui.result(&written.to_string());
                }
                Format::Junit => context.ui.result(&text("junit")),
                _ => context.ui.result(&context.ui.fitted(&text("human"))),
            }
        }
    };
    context.block_on(async { Host::of(joined).await?.follow(path, body, shows).await })
}

/// `klab status`.
pub(super) fn status(context: &Context, joined: &Joined) -> Result<()> {
    let status = get(context, joined, &path(joined, "", &[]))?;
    if context.ui.format() == Format::Json {
        context.ui.result(&status.to_string());
        return Ok(());
    }
    let (done, steps) = (&status["done"], &status["steps"]);
    let open = if status["open"] == true { "open" } else { "closed: nothing is changed any more" };
    let mut text = format!(
        "lab {} (seat {} of class {} at {})\nclass: {open}\nlesson: {done} of {steps} steps done",
        joined.lab, joined.seat, joined.class, joined.url
    );
    if let Some(step) = status["step"].as_str() {
        text.push_str(&format!(", next is {step}"));
    }
    for hint in status["hints"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        text.push_str(&format!("\nyour instructor says: {hint}"));
    }
    context.ui.result(&text);
    context.ui.say(&format!("  page: {}", joined.page));
    Ok(())
}

/// `klab board`: the page is the host's; for a file or as a picture, what is to be written of now.
pub(super) fn board(context: &Context, joined: &Joined, saves: bool) -> Result<Option<String>> {
    let key = match (saves, context.ui.format()) {
        (true, _) => "saved",
        (false, Format::Svg) => "svg",
        (false, Format::Mermaid) => "mermaid",
        (false, Format::Json) => "board",
        (false, _) => {
            context.ui.result(&joined.page);
            context.ui.say("open the address in a browser; your name and PIN lead to your seat");
            return Ok(None);
        }
    };
    let board = get(context, joined, &path(joined, "/board", &[]))?;
    Ok(Some(board[key].as_str().map_or_else(|| board[key].to_string(), str::to_owned)))
}

/// `klab down`: this machine forgets the seat; it stays where it is.
pub(super) fn leave(context: &Context, joined: &Joined) -> Result<()> {
    let lab = &joined.lab;
    Joined::forget(&context.home, lab)?;
    let words = format!("class `{}`; your seat stays: join again with the same link, name and PIN", joined.class);
    context.ui.events().about(About::Lab, lab).note(Verb::LeaveClass, words);
    Ok(())
}

/// A row of `klab list`, and the same for programs.
pub(super) fn row(joined: &Joined) -> (Vec<String>, Value) {
    let row = vec![
        joined.lab.clone(),
        "class".to_owned(),
        "joined".to_owned(),
        "-".to_owned(),
        joined.joined.strftime("%Y-%m-%d %H:%M").to_string(),
        joined.url.clone(),
    ];
    let document = json!({
        "lab": joined.lab, "state": "joined", "class": joined.class, "seat": joined.seat, "url": joined.url,
        "created": joined.joined, "page": joined.page,
    });
    (row, document)
}
