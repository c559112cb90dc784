//! Pure: the page of a lab, its panels and the files that are saved of it, as HTML.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, json};
use tera::{Context, Kwargs, State, Tera};

use super::Frame;
use crate::error::{Code, Context as _, Result};
use crate::lesson::command::{self, Line};
use crate::lesson::{Tools, look, words};
pub use klab_lab::board::escaped;
use klab_lab::board::{Board, parts};
use klab_lab::report::{self, explanation_json, markdown_html};
use klab_lab::spec::{Lab, Step};
use klab_lab::verify::{self, Explanation, Why};
use klab_lab::words::plural;

/// What the page looks like, and what it does.
pub const STYLE: &str = concat!(
    include_str!("../../templates/design/tokens.css"),
    include_str!("../../templates/design/parts.css"),
    include_str!("../../templates/board/board.css")
);
/// See [`STYLE`].
pub const SCRIPT: &str = include_str!("../../templates/board/board.js");

/// Most pods listed for a node, and most workloads that are asked whether they may come.
const PODS: usize = 100;
const GUESTS: usize = 30;
/// Most differences from the lab shown below the checks.
const ASIDES: usize = 8;

/// The templates; names that end in `.html` are escaped.
const TEMPLATES: [(&str, &str); 9] = [
    ("aside.html", include_str!("../../templates/board/aside.html.tera")),
    ("step.html", include_str!("../../templates/board/step.html.tera")),
    ("summary.html", include_str!("../../templates/board/summary.html.tera")),
    ("page.html", include_str!("../../templates/board/page.html.tera")),
    ("lesson.html", include_str!("../../templates/board/lesson.html.tera")),
    ("checks.html", include_str!("../../templates/board/checks.html.tera")),
    ("pod.html", include_str!("../../templates/board/pod.html.tera")),
    ("node.html", include_str!("../../templates/board/node.html.tera")),
    ("trials.html", include_str!("../../templates/board/trials.html.tera")),
];

/// What all pages include.
const SHARED: [(&str, &str); 2] = [
    ("head.html", include_str!("../../templates/design/head.html.tera")),
    ("logo.html", include_str!("../../templates/design/logo.html.tera")),
];

static ENGINE: LazyLock<Engine> = LazyLock::new(|| engine(&TEMPLATES));

/// What fills templates, or why they cannot be.
pub type Engine = Result<Tera, String>;

/// What fills these templates, by name; where a name ends in `.html`, all texts are escaped but those that the template takes
/// for HTML.
pub fn engine(templates: &[(&'static str, &'static str)]) -> Engine {
    let mut tera = Tera::default();
    tera.register_filter("words", words);
    tera.add_raw_templates(SHARED.iter().chain(templates).copied()).map_err(|error| error.to_string())?;
    Ok(tera)
}

/// A sentence of klab's as HTML: what stands between backticks is code.
fn words(text: &str, _: Kwargs, _: &State<'_>) -> String {
    let mut html = String::new();
    let mut pieces = text.split('`').peekable();
    let mut is_code = false;
    while let Some(piece) = pieces.next() {
        // A backtick that nothing closes is one.
        match (is_code, pieces.peek().is_some()) {
            (true, true) => html.push_str(&format!("<code>{}</code>", escaped(piece))),
            (true, false) => html.push_str(&format!("`{}", escaped(piece))),
            (false, _) => html.push_str(&escaped(piece)),
        }
        is_code = !is_code;
    }
    html
}

/// A template with a document's fields; all texts in it are escaped but those that the template takes for HTML.
///
/// # Errors
/// When the template fails.
pub fn rendered(template: &str, document: &Value) -> Result<String> {
    rendered_by(&ENGINE, template, document)
}

/// As [`rendered`], of other templates.
///
/// # Errors
/// When the template fails.
pub fn rendered_by(engine: &Engine, template: &str, document: &Value) -> Result<String> {
    let problem = || format!("could not render `{template}`");
    let engine = engine.as_ref().map_err(|error| anyhow::Error::msg(error.clone())).code(Code::KlabFault, problem)?;
    let context = Context::from_serialize(document).code(Code::KlabFault, problem)?;
    engine.render(template, &context).code(Code::KlabFault, problem)
}

/// Whether a page lives, or is a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// It is served, and its buttons do something.
    Live,
    /// It is served to somebody who looks on, and changes nothing.
    Watched,
    /// It is read from a file.
    Saved,
}

/// A lab as it is written.
pub struct Written {
    /// The lab.
    pub lab: Lab,
    /// What its learners type with.
    pub tools: Tools,
}

/// All parts of the page of a lab, or of a cluster without one, and of the lesson beside it.
///
/// # Errors
/// When a template fails.
pub fn all_parts(frame: &Frame, of: Option<&Written>, form: Form) -> Result<Vec<(String, String)>> {
    let mut all = parts(&frame.board);
    let lesson = of.map_or(Ok(String::new()), |of| lesson(frame, of, None, form))?;
    all.push(("lesson".to_owned(), lesson));
    all.push(("checks".to_owned(), checks(&frame.report, form)?));
    Ok(all)
}

/// What the page is called.
pub fn title(frame: &Frame) -> &str {
    let board = &frame.board;
    board.title.as_deref().or(board.lab.as_deref()).unwrap_or("Cluster")
}

/// A whole page, its parts filled in.
pub struct Page<'p> {
    /// The lab's title.
    pub title: &'p str,
    /// Number of the newest change, and which run of klab numbered it.
    pub number: u64,
    /// See [`Page::number`].
    pub run: &'p str,
    /// The parts by name.
    pub parts: BTreeMap<&'p str, &'p str>,
}

/// What a page has besides, that is one of a hosted class.
pub struct Hosted<'p> {
    /// The path of the class, without a slash at the end.
    pub base: &'p str,
    /// Whose page it is: what its script is called.
    pub script: &'p str,
    /// The console, where the learner has one.
    pub console: Option<&'p str>,
}

impl Page<'_> {
    /// The page that is served.
    ///
    /// # Errors
    /// When the template fails.
    pub fn live(&self) -> Result<String> {
        let document = json!({ "title": self.title, "number": self.number, "run": self.run, "saved": false });
        Ok(filled(&rendered("page.html", &document)?, &self.parts))
    }

    /// The page of a seat of a hosted class.
    ///
    /// # Errors
    /// When the template fails.
    pub fn hosted(&self, hosted: &Hosted<'_>) -> Result<String> {
        let document = json!({
            "title": self.title, "number": self.number, "run": self.run, "saved": false, "hosted": true,
            "base": hosted.base, "script": hosted.script, "console": hosted.console.unwrap_or_default(),
        });
        Ok(filled(&rendered("page.html", &document)?, &self.parts))
    }

    /// The page as a file, which carries the board it shows.
    ///
    /// # Errors
    /// When the template fails.
    pub fn saved(&self, board: &Board) -> Result<String> {
        let document = serde_json::to_value(board).code(Code::KlabFault, || "could not write the board".to_owned())?;
        let document = json!({
            "title": self.title, "number": 0, "run": "", "saved": true, "style": STYLE, "document": embedded(&document),
            "version": env!("CARGO_PKG_VERSION"), "taken_at": board.taken_at,
        });
        Ok(filled(&rendered("page.html", &document)?, &self.parts))
    }
}

/// A document as a script of a page carries it: nothing is escaped there, and nothing but its end is read.
pub fn embedded(document: &Value) -> String {
    document.to_string().replace('<', "\\u003c")
}

/// HTML with its places for parts filled. A text of a cluster cannot make a place: its quotes are escaped.
pub fn filled(html: &str, parts: &BTreeMap<&str, &str>) -> String {
    const MARK: &str = "data-part=\"";
    let mut out = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(at) = rest.find(MARK) {
        let (before, from) = rest.split_at(at + MARK.len());
        out.push_str(before);
        let Some((name, after)) = from.split_once('"') else {
            rest = from;
            break;
        };
        let Some((tag, inside)) = after.split_once('>') else {
            rest = from;
            break;
        };
        out.push_str(&format!("{name}\"{tag}>"));
        let inner = parts.get(&*unescaped(name)).copied().unwrap_or_default();
        out.push_str(&filled(inner, parts));
        rest = inside;
    }
    out.push_str(rest);
    out
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'").replace("&amp;", "&")
}

/// The checks, each with what is true now and what would make it hold.
///
/// # Errors
/// When the template fails.
pub fn checks(of: &verify::Report, form: Form) -> Result<String> {
    let mut document = report::json(of);
    document["summary"] = report::summary(of).into();
    document["live"] = (form != Form::Saved).into();
    let lists = [("Also changed, not asked for", "to undo", &of.unasked), ("Not done yet", "to do", &of.open)];
    document["asides"] = lists
        .into_iter()
        .filter(|(_, _, all)| !all.is_empty())
        .map(|(title, verb, all)| {
            let shown: Vec<Value> =
                all.iter().take(ASIDES).map(|one| json!({ "what": one.what, "command": one.command })).collect();
            json!({ "title": title, "verb": verb, "all": shown, "more": all.len().saturating_sub(ASIDES) })
        })
        .collect();
    rendered("checks.html", &document)
}

/// The text of a step and what is typed for it: of the one that is open, else of the one with this number (from 0; as many as
/// there are steps: the introduction). What a lab of a stranger says is only text.
///
/// # Errors
/// When the template fails.
pub fn lesson(frame: &Frame, of: &Written, read: Option<usize>, form: Form) -> Result<String> {
    let Written { lab: written, tools } = of;
    let total = written.steps.len();
    let progress = &frame.progress;
    let here = if progress.is_opened() { progress.next(total) } else { None };
    let introduction = total;
    let shown = read.unwrap_or(here.unwrap_or(introduction));
    let goes_on = match progress.next(total) {
        None => None,
        Some(_) if form == Form::Watched => None,
        Some(0) if here.is_none() => Some("Begin with step 1".to_owned()),
        Some(next) if here.is_none() => Some(format!("Open step {}", next.saturating_add(1))),
        Some(_) if total == 1 => Some("Submit".to_owned()),
        Some(next) if next.saturating_add(1) == total => Some("I have done it: finish".to_owned()),
        Some(_) => Some("I have done it: next step".to_owned()),
    };
    let acts = written.steps.get(shown).is_some_and(|step| !step.actions.is_empty());
    let step = written.steps.get(shown).map(|step| step_document(of, shown, step));
    let keeps = *tools == Tools::Seat && total > 0 && progress.next(total).is_none();
    let text = match (&written.description, progress.next(total)) {
        (_, None) if total > 0 => "<p>All steps are done.</p>".to_owned(),
        (Some(description), _) => markdown_html(description),
        (None, _) => String::new(),
    };
    // The introduction comes before the first step.
    let (before, after) = match shown {
        shown if shown == introduction => (None, Some(0)),
        0 => (Some(introduction), Some(1)),
        shown => (Some(shown.saturating_sub(1)), Some(shown.saturating_add(1))),
    };
    let after = after.filter(|after| *after < total);
    rendered(
        "lesson.html",
        &json!({
            "step": step, "number": (total > 1).then(|| shown.saturating_add(1)), "total": total, "keeps": keeps,
            "title": written.shown_title(), "text": text,
            "moves": form != Form::Saved, "has_before": before.is_some(), "before": before,
            "has_after": after.is_some(), "after": after, "is_current": shown == here.unwrap_or(introduction),
            "goes_on": goes_on, "performs": form == Form::Live && *tools == Tools::Seat && here == Some(shown) && acts,
        }),
    )
}

/// A step's text, what is typed for it, and what is looked at then.
fn step_document(of: &Written, at: usize, step: &Step) -> Value {
    let lines = command::of_step(&of.lab, at, &of.tools);
    let (before, looks) = match &step.text {
        Some(whole) if !lines.is_empty() => look::apart(whole),
        whole => (whole.as_deref().unwrap_or_default(), None),
    };
    json!({
        "title": words::title(step), "text": markdown_html(before), "looks": looks.map(markdown_html),
        "lines": lines.iter().map(|line| line_document(line, &of.tools)).collect::<Vec<_>>(),
    })
}

/// What a learner keeps of a lesson: every step, which of them are done, and the cluster as it is, as one file that needs nothing else.
///
/// # Errors
/// When a template fails.
pub fn summary(frame: &Frame, of: &Written, learner: &str, seat: &str) -> Result<String> {
    let step = |(at, step)| {
        let mut document = step_document(of, at, step);
        document["is_done"] = (at < frame.progress.done).into();
        document
    };
    let board = &frame.board;
    rendered(
        "summary.html",
        &json!({
            "title": title(frame), "learner": learner, "seat": seat, "position": board.position().unwrap_or_default(),
            "taken_at": frame.snapshot.taken_at.map(|at| at.strftime("%Y-%m-%d %H:%M UTC").to_string()), "text": of.lab.description.as_deref().map(markdown_html).unwrap_or_default(),
            "steps": of.lab.steps.iter().enumerate().map(step).collect::<Vec<_>>(), "moves": false,
            "picture": picture(&parts(board)), "style": STYLE, "version": env!("CARGO_PKG_VERSION"),
        }),
    )
}

/// The cluster of a board in a page that is a file.
pub fn picture(parts: &[(String, String)]) -> String {
    filled(
        "<p class=\"summary\" data-part=\"summary\"></p><div class=\"legend\" data-part=\"legend\"></div>\
         <div class=\"pools\" data-part=\"pools\"></div><div data-part=\"tray\"></div>\
         <details class=\"twin\"><summary>As a table</summary><div data-part=\"table\" \
         tabindex=\"0\" role=\"region\" aria-label=\"Nodes and pods\"></div></details>",
        &parts.iter().map(|(name, html)| (name.as_str(), html.as_str())).collect(),
    )
}

fn line_document(line: &Line, tools: &Tools) -> Value {
    match line {
        Line::Command(command) => json!({ "command": command }),
        Line::Note(note) => json!({ "note": note }),
        Line::Edit(edit) => {
            let instructions = edit.instructions().into_iter();
            let instructions = instructions.map(|(words, below)| json!({ "words": words, "text": below.join("\n") }));
            // At a seat a patch is quicker than the page's editor.
            let patches = if *tools == Tools::Seat { edit.patches.as_slice() } else { &[] };
            json!({ "open": edit.open, "instructions": instructions.collect::<Vec<_>>(), "patches": patches })
        }
    }
}

/// Why a pod (`namespace/name`) is where it is, or why it is nowhere: nodes against rules. None where there is no such pod.
///
/// # Errors
/// When the template fails.
pub fn pod(frame: &Frame, id: &str) -> Result<Option<String>> {
    let Some((namespace, name)) = id.split_once('/') else { return Ok(None) };
    let around = frame.around();
    let Ok(mut explained) = verify::explain(&frame.snapshot, &around, name, Some(namespace)) else { return Ok(None) };
    // A workload may have the name of the pod.
    let of_pod = |explanation: &Explanation| explanation.pods.iter().any(|pod| pod == id || pod == name);
    if explained.pods.iter().any(of_pod) {
        explained.pods.retain(of_pod);
    }
    rendered("pod.html", &explanation_json(id, &explained)).map(Some)
}

/// What is on a node, and which workloads may come. None where there is no such node.
///
/// # Errors
/// When the template fails.
pub fn node(frame: &Frame, name: &str) -> Result<Option<String>> {
    let board = &frame.board;
    let Some(node) = board.nodes.iter().find(|node| node.name == name) else { return Ok(None) };
    let on: Vec<_> = board.pods.iter().filter(|pod| pod.node.as_deref() == Some(name)).collect();
    let mut document = serde_json::to_value(node).code(Code::KlabFault, || "could not write the node".to_owned())?;
    document["pods"] = on.iter().take(PODS).map(|pod| json!({ "id": pod.id, "state": pod.state })).collect();
    document["more"] = on.len().saturating_sub(PODS).into();
    document["guests"] = guests(frame, name).into();
    rendered("node.html", &document).map(Some)
}

/// The workloads that have pods, each with whether the node would take one more of them.
fn guests(frame: &Frame, node: &str) -> Vec<Value> {
    let around = frame.around();
    let board = &frame.board;
    let lettered = board.workloads.iter().filter(|workload| workload.letter.is_some()).take(GUESTS);
    let guests = lettered.filter_map(|workload| {
        // One that waits says best what keeps it out, then one that is elsewhere.
        let own: Vec<_> = board.pods.iter().filter(|pod| pod.workload == workload.id && pod.stays()).collect();
        let here = own.iter().filter(|pod| pod.node.as_deref() == Some(node)).count();
        let pod = own.iter().min_by_key(|pod| (pod.node.is_some(), pod.node.as_deref() == Some(node)))?;
        let (namespace, name) = pod.id.split_once('/')?;
        let explained = verify::explain(&frame.snapshot, &around, name, Some(namespace)).ok()?;
        let may = word_of(node, &explained.pods.first()?.why)?;
        let words = if here > 0 { format!("has {} here; {may}", plural(here, "pod")) } else { may };
        Some(json!({ "workload": workload.name, "words": words }))
    });
    guests.collect()
}

fn word_of(node: &str, why: &Why) -> Option<String> {
    let (refusals, here) = match why {
        Why::Over => return None,
        Why::Placed(placed) => (&placed.refusals, placed.node == node),
        Why::Pending(pending) => (&pending.refusals, false),
    };
    if here {
        return Some("none is elsewhere".to_owned());
    }
    let group = refusals.iter().find(|group| group.nodes.iter().any(|one| one == node));
    Some(match group {
        Some(group) => {
            let reasons: Vec<&str> = group.reasons.iter().map(|reason| &*reason.text).collect();
            format!("another may not come: {}", reasons.join("; "))
        }
        None => "another may come".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_with_their_parts_and_nothing_else_is_a_place() {
        let parts = BTreeMap::from([
            ("outer", "<p>in</p><div class=\"x\" data-part=\"node/a&lt;b\"></div><i data-part=\"none\"></i>"),
            ("node/a<b", "<b>node</b>"),
        ]);
        assert_eq!(
            filled("<div data-part=\"outer\" id=\"o\">old? </div>!", &parts),
            "<div data-part=\"outer\" id=\"o\"><p>in</p><div class=\"x\" data-part=\"node/a&lt;b\"><b>node</b></div>\
             <i data-part=\"none\"></i>old? </div>!"
        );
        for broken in ["data-part=\"", "<div data-part=\"outer", "<div data-part=\"outer\""] {
            assert_eq!(filled(broken, &parts), broken);
        }
        // What a pod or a message says has its quotes escaped.
        let said = escaped("data-part=\"outer\">");
        assert_eq!(filled(&said, &parts), said);
    }

    #[test]
    fn sentences_show_their_code() {
        let engine = ENGINE.as_ref().unwrap();
        let mut context = Context::new();
        let mut shown = |text: &str| {
            context.insert("reason", text);
            let mut tera = engine.clone();
            tera.add_raw_template("t.html", "{{ reason | words | safe }}").unwrap();
            tera.render("t.html", &context).unwrap()
        };
        for (text, wanted) in [
            ("type `kubectl get <x>` now", "type <code>kubectl get &lt;x&gt;</code> now"),
            ("one ` only", "one ` only"),
            ("`a` and `<b>", "<code>a</code> and `&lt;b&gt;"),
            ("<script>", "&lt;script&gt;"),
            ("", ""),
        ] {
            assert_eq!(shown(text), wanted, "{text}");
        }
    }

    #[test]
    fn documents_in_scripts_cannot_end_them() {
        let document = json!({ "a": "</script><script>" });
        assert_eq!(embedded(&document), r#"{"a":"\u003c/script>\u003cscript>"}"#);
    }
}
