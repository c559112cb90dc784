//! Tera for templates of a lab file's author, who may be a stranger: what they make is bounded in size, and how long
//! they take in turns and in time.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tera::{Context, Kwargs, State, StringInput, Tera, TeraResult, Value};

use super::{Problem, problem, tags};

/// One value, and what one template comes to, may be this large in bytes.
const MAX_VALUE: usize = 1 << 20;
/// All templates of a lab may write this many bytes; a turn of a loop counts for some.
const MAX_WORK: usize = 16 << 20;
/// What a turn of a loop and a condition count for besides what they write.
const TURN: usize = 128;
/// Deepest nesting of a value's lists and tables.
const MAX_DEPTH: usize = 64;
/// Longest list that `unique` takes: it compares each with each.
const MAX_UNIQUE: usize = 4096;
/// Far beyond what templates take. What is between two measures is bounded, but not free.
const MAX_TIME: Duration = Duration::from_secs(5);

/// A Tera engine that ends.
pub struct Limited {
    tera: Tera,
    budget: Arc<Budget>,
}

/// What may still be done.
struct Budget {
    work: AtomicUsize,
    since: Instant,
}

impl Budget {
    fn take(&self, work: usize) -> TeraResult<()> {
        let enough = self.work.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(work));
        if enough.is_err() || self.since.elapsed() > MAX_TIME {
            return Err(tera::Error::message("the templates of this lab take too long; klab stops here"));
        }
        Ok(())
    }
}

impl Limited {
    /// An engine with the templates of `tera`, for all templates of one lab.
    pub fn new(mut tera: Tera) -> Self {
        let budget = Arc::new(Budget { work: AtomicUsize::new(MAX_WORK), since: Instant::now() });
        let measure = Arc::clone(&budget);
        tera.register_filter(tags::VALUE, move |value: Value, _: Kwargs, _: &State<'_>| {
            measure.take(size(&value)?.saturating_add(TURN)).map(|()| value)
        });
        let measure = Arc::clone(&budget);
        tera.register_filter(tags::TURNS, move |value: Value, arguments: Kwargs, _: &State<'_>| {
            let each = arguments.must_get::<usize>("body")?.saturating_add(TURN);
            let turns = value.len().unwrap_or_default();
            measure.take(size(&value)?.saturating_add(each.saturating_mul(turns))).map(|()| value)
        });
        bounded_filters(&mut tera);
        Self { tera, budget }
    }

    /// Renders a template of the author's.
    ///
    /// # Errors
    /// What is wrong with it, with its place where Tera names one.
    pub fn render(&self, text: &str, context: &Context) -> Result<String, Box<Problem>> {
        let measured = tags::measure(text)?;
        let mut output = Output { text: Vec::new(), budget: &self.budget, refused: None };
        let rendered = self.tera.render_str_to(&measured.text, context, false, &mut output);
        if let Some(why) = output.refused {
            return Err(Box::new(Problem::rendering(&why)));
        }
        match rendered.map(|()| String::from_utf8(output.text)) {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(error)) => Err(Box::new(Problem::rendering(&error.to_string()))),
            Err(error) => {
                let mut problem = problem(&error, &measured.text);
                problem.span = problem.span.map(|span| measured.span(span));
                Err(Box::new(problem))
            }
        }
    }

    /// Renders a template of klab's own.
    pub fn render_built_in(&self, name: &str, context: &Context) -> TeraResult<String> {
        self.tera.render(name, context)
    }
}

/// Takes what a template writes, up to a limit.
struct Output<'a> {
    text: Vec<u8>,
    budget: &'a Budget,
    refused: Option<String>,
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() + bytes.len() > MAX_VALUE {
            self.refused = Some("this comes to more than 1 MiB".to_owned());
        } else if let Err(error) = self.budget.take(bytes.len()) {
            self.refused = Some(error.to_string());
        }
        if self.refused.is_some() {
            return Err(io::Error::other("refused"));
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn too_large() -> tera::Error {
    tera::Error::message("the value is larger than 1 MiB")
}

/// How many bytes a value comes to when it is written, roughly.
fn size(value: &Value) -> TeraResult<usize> {
    fn add(value: &Value, sum: &mut usize, depth: usize) -> TeraResult<()> {
        if depth > MAX_DEPTH {
            return Err(tera::Error::message("the value is nested deeper than 64 levels"));
        }
        *sum += value.as_str().map_or(8, str::len);
        if *sum > MAX_VALUE {
            return Err(too_large());
        }
        if let Some(items) = value.as_array() {
            items.iter().try_for_each(|item| add(item, sum, depth + 1))?;
        } else if let Some(entries) = value.as_map() {
            for (key, item) in entries {
                *sum += key.as_str().map_or(8, str::len);
                add(item, sum, depth + 1)?;
            }
        }
        Ok(())
    }
    let mut sum = 0;
    add(value, &mut sum, 0)?;
    Ok(sum)
}

fn bounded(text: String) -> TeraResult<String> {
    if text.len() > MAX_VALUE { Err(too_large()) } else { Ok(text) }
}

/// Tera's filters that make much of little, with a bound. Nothing is escaped in lab files, so that is left out.
fn bounded_filters(tera: &mut Tera) {
    tera.register_filter("json", |value: &Value, _: Kwargs, _: &State<'_>| {
        size(value)?;
        super::json(value).and_then(bounded)
    });
    tera.register_filter("str", |value: Value, _: Kwargs, _: &State<'_>| {
        size(&value)?;
        bounded(value.to_string())
    });
    tera.register_filter("replace", |value: StringInput<'_>, arguments: Kwargs, _: &State<'_>| {
        let (from, to) = (arguments.must_get::<&str>("from")?, arguments.must_get::<&str>("to")?);
        let text = value.as_str();
        let places = text.matches(from).count();
        if places.saturating_mul(to.len()).saturating_add(text.len()) > MAX_VALUE {
            return Err(too_large());
        }
        Ok(text.replace(from, to))
    });
    tera.register_filter("join", |values: &[Value], arguments: Kwargs, _: &State<'_>| {
        let separator = arguments.get::<&str>("sep")?.unwrap_or_default();
        let mut text = String::new();
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                text.push_str(separator);
            }
            size(value)?;
            text.push_str(&value.to_string());
            if text.len() > MAX_VALUE {
                return Err(too_large());
            }
        }
        Ok(text)
    });
    tera.register_filter("indent", |value: StringInput<'_>, arguments: Kwargs, _: &State<'_>| {
        let width = arguments.get::<usize>("width")?.unwrap_or(4).min(1000);
        let with = arguments.get::<&str>("indentation")?.unwrap_or(" ");
        if with.chars().count() != 1 {
            return Err(tera::Error::message("The `indentation` argument must contain exactly one character"));
        }
        let first = arguments.get::<bool>("first")?.unwrap_or_default();
        let blank = arguments.get::<bool>("blank")?.unwrap_or_default();
        let (text, indent) = (value.as_str(), with.repeat(width));
        let mut lines = Vec::new();
        let mut sum = 0;
        for (index, line) in text.lines().enumerate() {
            let moved = if index == 0 { first } else { blank || !line.is_empty() };
            sum += line.len() + if moved { indent.len() } else { 0 };
            if sum > MAX_VALUE {
                return Err(too_large());
            }
            lines.push(if moved { format!("{indent}{line}") } else { line.to_owned() });
        }
        Ok(lines.join("\n") + if text.ends_with('\n') { "\n" } else { "" })
    });
    for name in ["escape", "escape_html", "escape_xml"] {
        let apostrophe = if name == "escape_xml" { "&apos;" } else { "&#39;" };
        tera.register_filter(name, move |value: StringInput<'_>, _: Kwargs, _: &State<'_>| {
            let text = value.as_str().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            bounded(text.replace('"', "&quot;").replace('\'', apostrophe))
        });
    }
    tera.register_filter("unique", |values: &[Value], _: Kwargs, _: &State<'_>| {
        if values.len() > MAX_UNIQUE {
            return Err(tera::Error::message("`unique` takes lists of up to 4096 entries"));
        }
        let mut kept: Vec<Value> = Vec::new();
        for value in values {
            if !kept.contains(value) {
                kept.push(value.clone());
            }
        }
        Ok(kept)
    });
}

#[cfg(test)]
mod tests {
    use super::super::engine;
    use super::*;

    fn context() -> Context {
        let mut context = Context::new();
        context.insert("x", "0123456789abcdef");
        context.insert("many", &vec!["0123456789abcdef"; 4096]);
        context
    }

    fn render(text: &str) -> Result<String, Box<Problem>> {
        Limited::new(engine()).render(text, &context())
    }

    #[test]
    fn templates_do_what_they_do_without_limits() {
        for text in [
            "{% for a in [1, 2] %}{% if a > 1 %}{{ a }}{% else %}-{% endif %}{% endfor %}",
            "{%- for k, v in {\"a\": 1} -%} {{ k }}={{ v }} {%- endfor -%} x",
            "{% set a = x ~ 1 %}{% set b %}<{{ a }}>{% endset %}{{ b | upper }}",
            "{% if nothing is defined %}a{% elif nothing %}b{% else %}c{% endif %}",
            "{% filter upper %}a{{ x }}{% endfilter %}{% for a in [] %}{% else %}none{% endfor %}",
            "{{ [1, \"a\"] | str }} {{ \"a-b\" | replace(from=\"-\", to=\"+\") }} {{ many | length }} {{ [1,1] | unique }}",
            "{{ [\"a\", 1] | join(sep=\", \") }} {{ \"a\\n\\nb\\n\" | indent(first=true) }}|{{ \"<'&\" | escape_xml }}",
            "{% for a in \"äb\" %}{{ loop.index }}{{ a }}{% break %}{% endfor %}{{ \"<'\\\"\" | escape }}",
        ] {
            let expected = engine().render_str(text, &context(), false);
            assert_eq!(render(text).unwrap(), expected.unwrap(), "{text}");
        }
    }

    #[test]
    fn every_template_ends() {
        let range = "range(end=99999)";
        let doubled = "{% set x = x ~ x %}".repeat(40) + "{{ x | length }}";
        let deep = "{% set_global x = [x] %}";
        for (text, says) in [
            (format!("{{% for i in {range} %}}{{% for j in {range} %}}{{% endfor %}}{{% endfor %}}"), "take too long"),
            (
                format!("{{% set r = {range} %}}{{% for i in r %}}{{% for j in r %}}{{% endfor %}}{{% endfor %}}"),
                "too long",
            ),
            (doubled, "larger than 1 MiB"),
            ("{% for i in range(end=99) %}{% set_global x = x ~ x %}{% endfor %}".to_owned(), "larger than 1 MiB"),
            (format!("{{% for i in range(end=99) %}}{deep}{{% endfor %}}"), "nested deeper"),
            ("{% for i in range(end=40) %}{% set_global x = [x, x] %}{% endfor %}".to_owned(), "larger than 1 MiB"),
            (format!("{{% for i in {range} %}}{{{{ x }}}}{{% endfor %}}"), "comes to more than 1 MiB"),
            (
                format!("{{% set y %}}{{% for i in {range} %}}{}{{% endfor %}}{{% endset %}}", "x".repeat(999)),
                "too long",
            ),
            ("{% set y %}{% for i in many %}{{ many | str }}{% endfor %}{% endset %}".to_owned(), "too long"),
            ("{{ many | join(sep=x) | replace(from=\"0\", to=many | join) }}".to_owned(), "larger than 1 MiB"),
            ("{{ many | join(sep=\"\\n\") | indent(width=1000) }}".to_owned(), "larger than 1 MiB"),
            ("{{ \"\\\"\" | json".to_owned() + &" | json".repeat(30) + " }}", "larger than 1 MiB"),
            (format!("{{{{ {range} | unique }}}}"), "up to 4096"),
        ] {
            let said = render(&text).unwrap_err();
            assert!(format!("{} {}", said.label, said.notes.join(" ")).contains(says), "{text}: {said:?}");
        }
    }

    #[test]
    fn problems_are_at_their_place() {
        for (text, word) in [
            ("{% if true %}{% for a in nothing %}{% endfor %}{% endif %}", "nothing"),
            ("{% for a in [1, 2] %}{% if a > \"x\" %}{% endif %}{% endfor %}", "a > \"x\""),
            ("{% set a = 1 %}{% if a %}{{ nothing }}{% endif %}", "nothing"),
        ] {
            let problem = render(text).unwrap_err();
            assert_eq!(&text[problem.span.clone().unwrap()], word, "{problem:?}");
        }
    }
}
