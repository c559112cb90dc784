//! The small part of Markdown that lessons use, for a terminal: headings, emphasis, code, lists, tables; wrapped.

use anstyle::{AnsiColor, Style};
use pulldown_cmark::{Alignment, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// Indent of code blocks.
const CODE: &str = "    ";

/// Text for a terminal of this width. Without `colours` code keeps its backticks, so that nothing is lost.
pub fn markdown(text: &str, width: usize, colours: bool) -> String {
    let mut renderer = Renderer { width: width.max(20), colours, ..Renderer::default() };
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        renderer.take(event);
    }
    renderer.flush();
    let trimmed = renderer.out.trim_end();
    if trimmed.is_empty() { String::new() } else { format!("{trimmed}\n") }
}

/// Text of one style.
#[derive(Clone)]
struct Piece {
    text: String,
    style: Style,
}

/// Pieces that no blank divides.
type Word = Vec<Piece>;

#[derive(Default)]
struct Renderer {
    out: String,
    width: usize,
    colours: bool,
    /// What every line of the present block begins with.
    prefixes: Vec<String>,
    /// What the first line of a list item begins with, in place of the last prefix.
    marker: Option<String>,
    /// Numbers of the lists around; none for those with bullets.
    lists: Vec<Option<u64>>,
    words: Vec<Word>,
    /// Whether the next text goes on with the last word.
    glued: bool,
    strong: usize,
    emphasis: usize,
    heading: bool,
    code_block: Option<String>,
    links: Vec<String>,
    table: Option<Table>,
}

#[derive(Default)]
struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Word>>,
    header: bool,
}

impl Renderer {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code_block {
                Some(code) => code.push_str(&text),
                None => self.push(&text, self.style()),
            },
            Event::Code(code) => {
                let style = if self.colours { AnsiColor::Cyan.on_default() } else { Style::new() };
                let shown = if self.colours { code.to_string() } else { format!("`{code}`") };
                self.push(&shown, style);
            }
            Event::SoftBreak => self.glued = false,
            Event::HardBreak => self.flush_line(),
            Event::Rule => {
                self.blank();
                let line = "─".repeat(self.room().min(40));
                self.line(&line);
            }
            Event::Html(text) | Event::InlineHtml(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.push(&text, Style::new());
            }
            Event::FootnoteReference(_) | Event::TaskListMarker(_) => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.blank(),
            Tag::Heading { level, .. } => {
                self.blank();
                self.heading = true;
                // Deeper headings keep a mark of their depth; the first two stand for themselves.
                if level > HeadingLevel::H2 && !self.colours {
                    self.push(&"#".repeat(level as usize), Style::new());
                    self.glued = false;
                }
            }
            Tag::BlockQuote(_) => {
                self.blank();
                self.prefixes.push("│ ".to_owned());
            }
            Tag::CodeBlock(_) => {
                self.flush();
                self.blank();
                self.code_block = Some(String::new());
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.blank();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                let marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "- ".to_owned(),
                };
                self.prefixes.push(" ".repeat(marker.chars().count()));
                self.marker = Some(marker);
            }
            Tag::Table(alignments) => {
                self.blank();
                self.table = Some(Table { alignments, ..Table::default() });
            }
            Tag::TableHead | Tag::TableRow => {
                let header = matches!(tag, Tag::TableHead);
                if let Some(table) = &mut self.table {
                    table.header |= header;
                    table.rows.push(Vec::new());
                }
            }
            Tag::Strong => self.strong += 1,
            Tag::Emphasis => self.emphasis += 1,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.links.push(dest_url.to_string()),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.flush();
                self.heading = false;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.prefixes.pop();
            }
            TagEnd::CodeBlock => {
                let style = if self.colours { AnsiColor::Cyan.on_default() } else { Style::new() };
                for line in self.code_block.take().unwrap_or_default().lines() {
                    let line = if line.is_empty() { String::new() } else { format!("{CODE}{style}{line}{style:#}") };
                    self.line(&line);
                }
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
            }
            TagEnd::Item => {
                self.flush();
                self.prefixes.pop();
                self.marker = None;
            }
            TagEnd::TableCell => {
                let cell = self.cell();
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Table => self.write_table(),
            TagEnd::Paragraph => self.flush(),
            TagEnd::Strong => self.strong = self.strong.saturating_sub(1),
            TagEnd::Emphasis => self.emphasis = self.emphasis.saturating_sub(1),
            TagEnd::Link | TagEnd::Image => {
                let url = self.links.pop().unwrap_or_default();
                if !url.is_empty() {
                    self.glued = false;
                    self.push(&format!("({url})"), Style::new());
                }
            }
            _ => {}
        }
    }

    fn style(&self) -> Style {
        let style = Style::new();
        let style = if self.strong > 0 || self.heading { style.bold() } else { style };
        if self.emphasis > 0 { style.italic() } else { style }
    }

    /// Adds text to the block, word by word.
    fn push(&mut self, text: &str, style: Style) {
        if text.is_empty() {
            return;
        }
        let style = if self.colours { style } else { Style::new() };
        let mut glued = self.glued && !text.starts_with(char::is_whitespace);
        for word in text.split_whitespace() {
            let piece = Piece { text: word.to_owned(), style };
            match self.words.last_mut() {
                Some(last) if glued => last.push(piece),
                _ => self.words.push(vec![piece]),
            }
            glued = false;
        }
        self.glued = !text.ends_with(char::is_whitespace);
    }

    fn room(&self) -> usize {
        self.width.saturating_sub(self.prefixes.iter().map(|prefix| prefix.chars().count()).sum()).max(10)
    }

    /// Writes the block that was gathered, wrapped.
    fn flush(&mut self) {
        self.flush_line();
    }

    fn flush_line(&mut self) {
        self.glued = false;
        if self.words.is_empty() {
            return;
        }
        let room = self.room();
        let mut line = String::new();
        let mut used = 0;
        for word in std::mem::take(&mut self.words) {
            let length = length(&word);
            if used > 0 && used + 1 + length > room {
                self.line(&std::mem::take(&mut line));
                used = 0;
            }
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(&shown(&word));
            used += length;
        }
        self.line(&line);
    }

    /// Writes one line behind what every line of the block begins with.
    fn line(&mut self, text: &str) {
        let mut start: Vec<String> = self.prefixes.clone();
        if let (Some(marker), Some(last)) = (self.marker.take(), start.last_mut()) {
            *last = marker;
        }
        self.out.push_str(format!("{}{text}", start.concat()).trim_end());
        self.out.push('\n');
    }

    /// A blank line between blocks, but not at the top and not behind the mark of a list item.
    fn blank(&mut self) {
        self.flush();
        if !self.out.is_empty() && !self.out.ends_with("\n\n") && self.marker.is_none() {
            let start = self.prefixes.concat();
            self.out.push_str(start.trim_end());
            self.out.push('\n');
        }
    }

    /// The words of a table's cell as one.
    fn cell(&mut self) -> Word {
        self.glued = false;
        let mut cell = Word::new();
        for word in std::mem::take(&mut self.words) {
            if !cell.is_empty() {
                cell.push(Piece { text: " ".to_owned(), style: Style::new() });
            }
            cell.extend(word);
        }
        cell
    }

    fn write_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        let columns = table.rows.iter().map(Vec::len).max().unwrap_or_default();
        let cell = |row: &Vec<Word>, column: usize| row.get(column).cloned().unwrap_or_default();
        let widths: Vec<usize> = (0..columns)
            .map(|column| table.rows.iter().map(|row| length(&cell(row, column))).max().unwrap_or_default())
            .collect();
        for (number, row) in table.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, width) in widths.iter().enumerate() {
                let mut cell = cell(row, column);
                let blanks = " ".repeat(width - length(&cell));
                if number == 0 && table.header && self.colours {
                    for piece in &mut cell {
                        piece.style = piece.style.bold();
                    }
                }
                let right = table.alignments.get(column) == Some(&Alignment::Right);
                let text = shown(&cell);
                line.push_str(&if right { format!("{blanks}{text}  ") } else { format!("{text}{blanks}  ") });
            }
            self.line(line.trim_end());
            if number == 0 && table.header {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                self.line(&rule.join("  "));
            }
        }
    }
}

fn length(word: &Word) -> usize {
    word.iter().map(|piece| piece.text.chars().count()).sum()
}

fn shown(word: &Word) -> String {
    word.iter().map(|Piece { text, style }| format!("{style}{text}{style:#}")).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    const TEXT: &str = "\
# Taints

A **taint** keeps pods away from a node, unless they *tolerate* it: `kubectl taint nodes` puts one on. See [the docs](https://example.com).

1. First put it on,
   then look.
2. Then:
   - see `Pending`,
   - see why.

| workload | says | pods |
|---|---|---:|
| `api` | node selector | 2 |
| web | nothing | 10 |

    kubectl get nodes
      --show-labels

> Mind the gap,
> really.

```console
$ kubectl get pods

done
```
";

    #[test]
    fn everything_lessons_use_is_wrapped_text() {
        assert_snapshot!(markdown(TEXT, 60, false), @r"
        Taints

        A taint keeps pods away from a node, unless they tolerate
        it: `kubectl taint nodes` puts one on. See the docs
        (https://example.com).

        1. First put it on, then look.
        2. Then:
           - see `Pending`,
           - see why.

        workload  says           pods
        ────────  ─────────────  ────
        `api`     node selector     2
        web       nothing          10

            kubectl get nodes
              --show-labels

        │ Mind the gap, really.

            $ kubectl get pods

            done
        ");
    }

    #[test]
    fn colours_add_nothing_but_escape_codes_and_take_the_backticks() {
        let coloured = markdown(TEXT, 60, true);
        assert!(coloured.contains("\u{1b}[1mtaint"), "{coloured}");
        let plain = anstream::adapter::strip_str(&coloured).to_string();
        assert!(plain.contains("kubectl taint nodes puts") && !plain.contains('`'), "{plain}");
        assert!(plain.lines().all(|line| line.chars().count() <= 60), "{plain}");
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!((markdown("", 80, false), markdown("\n\n", 80, true)), (String::new(), String::new()));
    }
}
