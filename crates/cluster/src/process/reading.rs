//! Programs that pass on what they read: of files, or of what is passed on to them.

use super::dump::dump;
use super::file::Found;
use super::run::{Flow, Run};

/// What a program reads: where each text is from, and the text.
type Texts = Vec<(String, Vec<u8>)>;

/// Why nothing can be read.
enum Unread {
    /// There is no such file.
    Absent(String),
    Directory(String),
    /// Nobody knows what is in it.
    Unknown(String),
}

impl Run {
    pub(super) fn is_reader(name: &str) -> bool {
        matches!(
            name,
            "cat"
                | "head"
                | "tail"
                | "wc"
                | "grep"
                | "cut"
                | "tr"
                | "sort"
                | "uniq"
                | "tee"
                | "rev"
                | "tac"
                | "nl"
                | "hexdump"
        )
    }

    #[expect(clippy::too_many_lines, reason = "a table of programs")]
    pub(super) fn reading(&mut self, name: &str, words: &[&str]) -> Flow {
        let takes_value = match name {
            "head" | "tail" => "nc",
            "cut" => "dfc",
            "grep" => "emABC",
            "sort" => "kt",
            _ => "",
        };
        let (mut flags, mut rest) = (Vec::new(), Vec::new());
        let mut each = words.iter();
        while let Some(word) = each.next() {
            if !word.starts_with('-') || *word == "-" {
                rest.push(*word);
                continue;
            }
            let letter = word.chars().nth(1).unwrap_or_default();
            if takes_value.contains(letter) && word.len() == 2 {
                flags.push((letter, (*each.next().unwrap_or(&"")).to_owned()));
            } else if takes_value.contains(letter) {
                flags.push((letter, word.get(2..).unwrap_or_default().to_owned()));
            } else {
                flags.extend(word.chars().skip(1).map(|letter| (letter, String::new())));
            }
        }
        let unknown = |run: &mut Self| run.mute(0, || format!("what `{name}` prints is not known"));
        if name == "tee" {
            return self.tee(&flags, &rest);
        }
        if name == "tr" {
            return self.translate(&flags, &rest);
        }
        let pattern = match name {
            "grep" if !flags.iter().any(|(flag, _)| *flag == 'e') && !rest.is_empty() => {
                Some(rest.remove(0).to_owned())
            }
            "grep" => flags.iter().find(|(flag, _)| *flag == 'e').map(|(_, value)| value.clone()),
            _ => None,
        };
        let mut failed = false;
        let mut texts = Texts::new();
        for one in self.texts(&rest) {
            match one {
                Ok(text) => texts.push(text),
                Err(Unread::Unknown(path)) => {
                    return match name {
                        "grep" => self.unknown(|| format!("what is in `{path}` is not known")),
                        _ => self.mute(0, || format!("what is in `{path}` is not known")),
                    };
                }
                Err(unread) => {
                    let dash = self.world.shell.is_dash();
                    let text = match unread {
                        Unread::Directory(path) if dash => format!("{name}: {path}: Is a directory"),
                        Unread::Directory(_) => format!("{name}: read error: Is a directory"),
                        Unread::Absent(path) if dash && matches!(name, "head" | "tail") => {
                            format!("{name}: cannot open '{path}' for reading: No such file or directory")
                        }
                        Unread::Absent(path) if dash || name == "grep" => {
                            format!("{name}: {path}: No such file or directory")
                        }
                        Unread::Absent(path) | Unread::Unknown(path) => {
                            format!("{name}: can't open '{path}': No such file or directory")
                        }
                    };
                    self.fail(1, &text);
                    failed = true;
                }
            }
        }
        let size: usize = texts.iter().map(|(_, text)| text.len()).sum();
        if self.spend(size) {
            return self.unknown(|| "it reads more than is followed".to_owned());
        }
        let named = texts.len() > 1;
        let all: Vec<u8> = texts.iter().flat_map(|(_, text)| text.iter().copied()).collect();
        let has = |letter: char| flags.iter().any(|(flag, _)| *flag == letter);
        let value = |letter: char| flags.iter().find(|(flag, _)| *flag == letter).map(|(_, value)| value.as_str());
        let plain = |known: &str| flags.iter().all(|(flag, _)| known.contains(*flag));
        let code = i64::from(failed);
        match name {
            "cat" if plain("u") => self.pass_on(all),
            "hexdump" if has('C') && plain("C") => self.say(dump(&all)),
            "tac" if plain("") => {
                let lines: Vec<&[u8]> = lines(&all).collect();
                self.say(lines.into_iter().rev().flatten().copied().collect::<Vec<u8>>());
            }
            "head" | "tail"
                if !named && flags.iter().all(|(flag, _)| "nc".contains(*flag) || flag.is_ascii_digit()) =>
            {
                let digits: String =
                    flags.iter().filter(|(flag, _)| flag.is_ascii_digit()).map(|(flag, _)| *flag).collect();
                match part(name, &all, value('n').or(Some(&*digits).filter(|digits| !digits.is_empty())), value('c')) {
                    Some(text) => self.say(text),
                    None => return unknown(self),
                }
            }
            "wc" if flags.len() == 1 && plain("lwc") && !named => {
                let text = String::from_utf8_lossy(&all);
                let count = match flags[0].0 {
                    'l' => text.matches('\n').count(),
                    'w' => text.split_whitespace().count(),
                    _ => all.len(),
                };
                match rest.first().filter(|path| **path != "-") {
                    Some(path) => self.say(format!("{count} {path}\n")),
                    None => self.say(format!("{count}\n")),
                }
            }
            "sort" if plain("runf") || flags.is_empty() => {
                let mut lines: Vec<String> = text_lines(&all);
                if has('n') {
                    lines.sort_by_key(|line| line.trim().parse::<i64>().unwrap_or_default());
                } else {
                    lines.sort();
                }
                if has('r') {
                    lines.reverse();
                }
                if has('u') {
                    lines.dedup();
                }
                self.say(lines.into_iter().map(|line| line + "\n").collect::<String>());
            }
            "uniq" if flags.is_empty() => {
                let mut lines = text_lines(&all);
                lines.dedup();
                self.say(lines.into_iter().map(|line| line + "\n").collect::<String>());
            }
            "rev" => {
                let turned = |line: String| line.chars().rev().chain(['\n']).collect::<String>();
                self.say(text_lines(&all).into_iter().map(turned).collect::<String>());
            }
            "cut" => match cut(&text_lines(&all), value('d'), value('f'), value('c')) {
                Some(text) => self.say(text),
                None => return unknown(self),
            },
            "grep" if plain("qvicEFeo") && !named => {
                let Some(pattern) = pattern.and_then(|pattern| expression(&pattern, has('F'), has('E'), has('i')))
                else {
                    return self.unknown(|| "what `grep` looks for is not followed here".to_owned());
                };
                let matching: Vec<String> =
                    text_lines(&all).into_iter().filter(|line| pattern.is_match(line) != has('v')).collect();
                let found = !matching.is_empty();
                if has('c') {
                    self.say(format!("{}\n", matching.len()));
                } else if has('o') && !has('q') {
                    let pieces = matching
                        .iter()
                        .flat_map(|line| pattern.find_iter(line).map(|found| format!("{}\n", found.as_str())));
                    self.say(pieces.collect::<String>());
                } else if !has('q') {
                    self.say(matching.into_iter().map(|line| line + "\n").collect::<String>());
                }
                return self.done(if failed { 2 } else { i64::from(!found) });
            }
            _ => return unknown(self),
        }
        self.done(code)
    }

    /// `tail -f`, which never ends, unless none of its files exists. `-F` waits for them.
    pub(super) fn tail_on(&mut self, arguments: &[Option<String>]) -> Flow {
        let words: Vec<&str> = arguments.iter().flatten().map(String::as_str).collect();
        let is_value = |at: usize| at > 0 && matches!(words[at - 1], "-n" | "-c" | "-s");
        let files = (0..words.len()).filter(|at| !words[*at].starts_with('-') && !is_value(*at));
        let files: Vec<&str> = files.map(|at| words[at]).collect();
        let is_absent = |file: &&str| {
            let path = self.full(file);
            let comes = self.world.has_unknown_company && self.files.shared(&path).is_some();
            *file != "/dev/null" && !comes && self.files.find(&path) == Found::Absent
        };
        let gone: Vec<&str> = files.iter().copied().filter(is_absent).collect();
        if !gone.is_empty() && gone.len() == files.len() && words.len() == arguments.len() && !words.contains(&"-F") {
            let dash = self.world.shell.is_dash();
            for file in gone {
                let what =
                    if dash { format!("cannot open '{file}' for reading") } else { format!("can't open '{file}'") };
                self.fail(1, &format!("tail: {what}: No such file or directory"));
            }
            return self.fail(1, if dash { "tail: no files remaining" } else { "tail: no files" });
        }
        if files.iter().any(|file| *file != "/dev/null") {
            self.transcript.doubt(self.at, || "`tail -f` prints what others write into a file".to_owned());
        }
        Flow::Forever
    }

    fn texts(&mut self, paths: &[&str]) -> Vec<Result<(String, Vec<u8>), Unread>> {
        if paths.is_empty() {
            let text = self.read_rest().ok_or_else(|| Unread::Unknown("what it is given".to_owned()));
            return vec![text.map(|text| (String::new(), text))];
        }
        paths
            .iter()
            .map(|path| match *path {
                "-" | "/dev/stdin" => {
                    self.read_rest().map(|text| (String::new(), text)).ok_or_else(|| Unread::Unknown("-".to_owned()))
                }
                "/dev/null" => Ok((String::new(), Vec::new())),
                path => match self.files.find(&self.full(path)) {
                    Found::File(file) => match file.text {
                        Some(text) => Ok((path.to_owned(), text.to_vec())),
                        None => Err(Unread::Unknown(path.to_owned())),
                    },
                    Found::Directory { .. } => Err(Unread::Directory(path.to_owned())),
                    Found::Absent => Err(Unread::Absent(path.to_owned())),
                    Found::Unknown => Err(Unread::Unknown(path.to_owned())),
                },
            })
            .collect()
    }

    fn tee(&mut self, flags: &[(char, String)], paths: &[&str]) -> Flow {
        let text = self.read_rest();
        for path in paths.iter().filter(|path| !path.starts_with("/dev/")) {
            let full = self.full(path);
            if let Some(refused) = self.files.refusal(&full) {
                return self.fail(1, &format!("tee: {path}: {}", refused.text()));
            }
            self.files.open(&full, !flags.iter().any(|(flag, _)| *flag == 'a'));
            self.files.append(&full, text.as_deref());
            self.note(&full, true);
        }
        match text {
            Some(text) => {
                self.pass_on(text);
                self.done(0)
            }
            None => self.mute(0, || "what `tee` passes on is not known".to_owned()),
        }
    }

    fn translate(&mut self, flags: &[(char, String)], sets: &[&str]) -> Flow {
        let text = self.read_rest().map(|text| String::from_utf8_lossy(&text).into_owned());
        let removes = matches!(flags, [('d', _)]);
        let sets: Option<Vec<Vec<char>>> = sets.iter().map(|set| letters(set)).collect();
        let out = match (text, sets.as_deref(), flags.is_empty()) {
            (Some(text), Some([set]), false) if removes => {
                Some(text.chars().filter(|letter| !set.contains(letter)).collect())
            }
            (Some(text), Some([from, to]), true) if !to.is_empty() => {
                let turned = |letter: char| match from.iter().position(|own| *own == letter) {
                    Some(at) => *to.get(at).or(to.last()).unwrap_or(&letter),
                    None => letter,
                };
                Some(text.chars().map(turned).collect::<String>())
            }
            _ => None,
        };
        match out {
            Some(text) => {
                self.say(text);
                self.done(0)
            }
            None => self.mute(0, || "what `tr` prints is not known".to_owned()),
        }
    }
}

/// Lines with their ends.
fn lines(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

fn text_lines(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text).lines().map(str::to_owned).collect()
}

/// What `head` and `tail` print.
fn part(name: &str, text: &[u8], count: Option<&str>, bytes: Option<&str>) -> Option<Vec<u8>> {
    if let Some(bytes) = bytes {
        let bytes: usize = bytes.parse().ok()?;
        let at = if name == "head" { 0 } else { text.len().saturating_sub(bytes) };
        return Some(text.iter().skip(at).take(bytes).copied().collect());
    }
    let count = count.unwrap_or("10");
    let all: Vec<&[u8]> = lines(text).collect();
    let chosen = if let Some(from) = count.strip_prefix('+').filter(|_| name == "tail") {
        all.get(from.parse::<usize>().ok()?.saturating_sub(1)..).unwrap_or_default()
    } else if name == "head" {
        all.get(..count.parse::<usize>().ok()?.min(all.len()))?
    } else {
        all.get(all.len().saturating_sub(count.parse::<usize>().ok()?)..)?
    };
    Some(chosen.concat())
}

fn cut(lines: &[String], delimiter: Option<&str>, fields: Option<&str>, letters: Option<&str>) -> Option<String> {
    let list = fields.or(letters)?;
    let mut ranges = Vec::new();
    for part in list.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let from: usize = if from.is_empty() { 1 } else { from.parse().ok()? };
        let to: usize = if to.is_empty() { usize::MAX } else { to.parse().ok()? };
        ranges.push((from, to));
    }
    let chosen = |index: usize| ranges.iter().any(|(from, to)| (*from..=*to).contains(&(index + 1)));
    let mut out = String::new();
    for line in lines {
        if fields.is_none() {
            out.extend(line.chars().enumerate().filter(|(index, _)| chosen(*index)).map(|(_, letter)| letter));
        } else {
            let delimiter = delimiter.unwrap_or("\t");
            let parts: Vec<&str> = line.split(delimiter).collect();
            if parts.len() < 2 {
                out.push_str(line);
            } else {
                let kept: Vec<&str> =
                    parts.iter().enumerate().filter(|(index, _)| chosen(*index)).map(|(_, part)| *part).collect();
                out.push_str(&kept.join(delimiter));
            }
        }
        out.push('\n');
    }
    Some(out)
}

/// The letters of a set: `a-z`, `\n`, `[:upper:]`.
fn letters(set: &str) -> Option<Vec<char>> {
    match set {
        "[:upper:]" => return Some(('A'..='Z').collect()),
        "[:lower:]" => return Some(('a'..='z').collect()),
        _ if set.contains("[:") => return None,
        _ => {}
    }
    let set = set.replace("\\n", "\n").replace("\\t", "\t");
    let all: Vec<char> = set.chars().collect();
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(first) = all.get(at) {
        if let (Some('-'), Some(last)) = (all.get(at + 1), all.get(at + 2)) {
            out.extend((*first..=*last).take(256));
            at += 3;
        } else {
            out.push(*first);
            at += 1;
        }
    }
    Some(out)
}

/// What `grep` looks for.
fn expression(pattern: &str, fixed: bool, extended: bool, insensitive: bool) -> Option<regex::Regex> {
    let text = if fixed {
        regex::escape(pattern)
    } else if extended || !pattern.contains(['\\', '+', '?', '|', '(', ')', '{', '}']) {
        pattern.to_owned()
    } else {
        // In basic expressions these are themselves, and `\` makes them what they are in the others.
        let mut text = String::new();
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => match letters.next()? {
                    special @ ('|' | '(' | ')' | '{' | '}' | '+' | '?') => text.push(special),
                    other => text.extend(['\\', other]),
                },
                '+' | '?' | '|' | '(' | ')' | '{' | '}' => text.extend(['\\', letter]),
                _ => text.push(letter),
            }
        }
        text
    };
    regex::RegexBuilder::new(&text).case_insensitive(insensitive).size_limit(1 << 18).build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_texts() {
        let text = b"a:1\nb:2\nc:3\n";
        assert_eq!(part("head", text, Some("1"), None).as_deref(), Some(&b"a:1\n"[..]));
        assert_eq!(part("tail", text, Some("1"), None).as_deref(), Some(&b"c:3\n"[..]));
        assert_eq!(part("tail", text, Some("+2"), None).as_deref(), Some(&b"b:2\nc:3\n"[..]));
        assert_eq!(part("head", text, None, Some("2")).as_deref(), Some(&b"a:"[..]));
        assert_eq!(part("head", text, Some("x"), None), None);
        let lines = text_lines(text);
        assert_eq!(cut(&lines, Some(":"), Some("2"), None).as_deref(), Some("1\n2\n3\n"));
        assert_eq!(cut(&lines, None, None, Some("1-2")).as_deref(), Some("a:\nb:\nc:\n"));
        assert_eq!(letters("a-c"), Some(vec!['a', 'b', 'c']));
        assert!(expression("a\\|b", false, false, false).unwrap().is_match("b"));
        assert!(expression("a+", false, false, false).unwrap().is_match("a+"));
        assert!(expression("(", false, true, false).is_none());
    }
}
