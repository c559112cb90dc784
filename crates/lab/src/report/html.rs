//! The small part of Markdown that lessons use, for a page. What a stranger writes runs nothing and loads nothing: HTML in it is
//! text, pictures are their words, links lead to the web only.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

use crate::board::escaped;
use crate::printable::printable;

/// HTML of a text in Markdown. Headings begin at the level below the page's own.
pub fn markdown_html(text: &str) -> String {
    let text = printable_lines(text);
    let mut links = Vec::new();
    let events = Parser::new_ext(&text, Options::ENABLE_TABLES).filter_map(|event| harmless(event, &mut links));
    let mut out = String::new();
    html::push_html(&mut out, events);
    out
}

/// The text without what is not text, line by line.
fn printable_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(|line| printable(line).into_owned()).collect();
    lines.join("\n")
}

/// What of an event reaches a page. `links` says of each link around whether it is one.
fn harmless<'t>(event: Event<'t>, links: &mut Vec<bool>) -> Option<Event<'t>> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::HtmlBlock) => Some(Event::Start(Tag::Paragraph)),
        Event::End(TagEnd::HtmlBlock) => Some(Event::End(TagEnd::Paragraph)),
        Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => None,
        Event::Start(Tag::Link { dest_url, .. }) => {
            let is_web = ["https://", "http://"].iter().any(|scheme| dest_url.starts_with(scheme));
            links.push(is_web);
            let begin = || {
                CowStr::from(format!(
                    "<a rel=\"noopener noreferrer\" target=\"_blank\" href=\"{}\">",
                    escaped(&dest_url)
                ))
            };
            is_web.then(|| Event::InlineHtml(begin()))
        }
        Event::End(TagEnd::Link) => links.pop().unwrap_or_default().then(|| Event::InlineHtml("</a>".into())),
        Event::Start(Tag::Heading { .. }) => Some(Event::InlineHtml("<p class=\"heading\"><strong>".into())),
        Event::End(TagEnd::Heading(_)) => Some(Event::InlineHtml("</strong></p>\n".into())),
        event => Some(event),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lessons_are_html() {
        for (text, wanted) in [
            ("Type `kubectl get pods`, *now*.", "<p>Type <code>kubectl get pods</code>, <em>now</em>.</p>\n"),
            (
                "# One\n\n- a\n- b",
                "<p class=\"heading\"><strong>One</strong></p>\n<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n",
            ),
            ("```sh\nls <x>\n```", "<pre><code class=\"language-sh\">ls &lt;x&gt;\n</code></pre>\n"),
            (
                "see [docs](https://kubernetes.io/docs?a=1&b=\"2\")",
                "<p>see <a rel=\"noopener noreferrer\" target=\"_blank\" href=\"https://kubernetes.io/docs?a=1&amp;b=&quot;2&quot;\">docs</a></p>\n",
            ),
        ] {
            assert_eq!(markdown_html(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_stranger_s_text_runs_and_loads_nothing() {
        for (text, wanted) in [
            ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n"),
            ("a <img src=x onerror=alert(1)> b", "<p>a &lt;img src=x onerror=alert(1)&gt; b</p>\n"),
            ("![words](https://evil.example/x.png \"title\")", "<p>words</p>\n"),
            ("[go](javascript:alert(1)) [data](data:text/html,x) [here](/next)", "<p>go data here</p>\n"),
            (
                "<https://a.example/\"onx=\">",
                "<p><a rel=\"noopener noreferrer\" target=\"_blank\" href=\"https://a.example/&quot;onx=&quot;\">https://a.example/\"onx=\"</a></p>\n",
            ),
            ("a\u{1b}[2J\u{202e}b", "<p>a␛[2J&lt;U+202E&gt;b</p>\n"),
        ] {
            let html = markdown_html(text);
            assert_eq!(html, wanted, "{text}");
        }
    }
}
