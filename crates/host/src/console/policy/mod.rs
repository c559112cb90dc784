//! Pure: which typed lines the console runs. What is not on a list is refused, with what to do in its place.
//!
//! A line is read as a shell reads it, but there is no shell: words and quotes, a text that is typed below the line, and pipes:
//! from `cat` or `klab render` to kubectl, and on to the programs that klab does itself. klab writes kubectl's arguments from
//! what it understood, each flag with its whole name and its value behind `=`, so that kubectl cannot read a word in another
//! way than this list does.

mod flag;
mod flags;
mod line;
pub(super) mod refusal;
mod value;
mod verbs;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use self::flag::{Flag, Takes};
use self::line::{Line, Stage};
pub use self::refusal::Refusal;
use self::value::Context;
use self::verbs::Verb;
use klab_filters::Filter;

/// Files of the page's editor, and those of the lab: name and text.
pub type Files = BTreeMap<String, String>;

/// What kubectl reads from its stdin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A text that was typed with the line.
    Text(String),
    /// What `klab render` prints with these words.
    Rendered(Vec<String>),
}

/// What is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// kubectl's arguments.
    pub arguments: Vec<String>,
    /// The files that are named, and the name that each has in the arguments.
    pub files: Vec<(String, String)>,
    /// What kubectl reads.
    pub input: Option<Input>,
    /// Whether it goes on until somebody ends it: `-w`, `logs -f`.
    pub follows: bool,
}

/// What a line means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// What runs.
    pub source: Source,
    /// The programs that its output goes through.
    pub filters: Vec<Filter>,
}

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// kubectl.
    Kubectl(Invocation),
    /// klab, with these words: the class does what they say.
    Klab(Vec<String>),
}

/// Most bytes of a line, manifests that are typed with it included.
const MAX_LINE: usize = 256 * 1024;
/// Most words of a line.
const MAX_WORDS: usize = 500;

/// Understands a line, or says why it is not run.
///
/// # Errors
/// The reason, for the learner.
pub fn read(typed: &str, files: &Files) -> Result<Typed, Refusal> {
    if typed.len() > MAX_LINE {
        return Err(Refusal::new("this is longer than the console reads: put the manifest into the editor"));
    }
    let Line { stages, text } = line::read(typed)?;
    if stages.iter().map(Vec::len).sum::<usize>() > MAX_WORDS {
        return Err(Refusal::new(format!("this has more than {MAX_WORDS} words: put what it lists into a manifest")));
    }
    let mut stages = stages.into_iter().peekable();
    let mut first = stages.next().unwrap_or_default();
    // az is klab's.
    if first.first().is_some_and(|word| word == "az") {
        first.insert(0, "klab".to_owned());
    }
    let mut input = text.map(Input::Text);
    let is_kubectl = |stage: &Stage| stage.first().is_some_and(|word| word == "kubectl" || word == "k");
    let is_cat = matches!(first.as_slice(), [cat] if cat == "cat") || first == ["cat", "-"];
    let source = match first.split_first() {
        None => return Err(Refusal::new("type a command: `kubectl get nodes`")),
        Some((program, words)) if program == "klab" => {
            if input.is_some() {
                return Err(Refusal::new("klab reads no text: `kubectl apply -f -` takes a manifest"));
            }
            match stages.next_if(is_kubectl) {
                None => Source::Klab(words.to_vec()),
                Some(_) if words.first().is_none_or(|word| word != "render") => {
                    return Err(Refusal::new("of klab's commands only `klab render` prints what kubectl takes"));
                }
                Some(next) => {
                    input = Some(Input::Rendered(words.to_vec()));
                    Source::Kubectl(arguments(&next[1..], files, input)?)
                }
            }
        }
        Some(_) if is_cat && input.is_some() => match stages.next_if(is_kubectl) {
            Some(next) => Source::Kubectl(arguments(&next[1..], files, input)?),
            None => {
                return Err(Refusal::new("`cat` gives its text to kubectl here: `cat <<'YAML' | kubectl apply -f -`"));
            }
        },
        Some((_, words)) if is_kubectl(&first) => Source::Kubectl(arguments(words, files, input)?),
        Some((other, _)) => return Err(Refusal::new(verbs::not_kubectl(other))),
    };
    let filters =
        stages.map(|words| klab_filters::read(&words).map_err(|why| Refusal::new(why.0))).collect::<Result<_, _>>()?;
    Ok(Typed { source, filters })
}

fn arguments(words: &[String], files: &Files, input: Option<Input>) -> Result<Invocation, Refusal> {
    let mut reading = Reading {
        context: Context { files, has_input: input.is_some(), named: Vec::new(), reads_input: false },
        flags: Vec::new(),
        objects: Vec::new(),
        command: Vec::new(),
        follows: false,
    };
    let mut words = words.iter().map(String::as_str);
    // Flags may stand before the verb: those that every verb has.
    let name = loop {
        match words.next() {
            None if reading.flags.iter().any(|flag| flag == "--help=true") => {
                return Err(Refusal::new(format!("kubectl here has {}", verbs::listed())));
            }
            None => return Err(Refusal::new("what should kubectl do? `kubectl get pods` is a beginning")),
            Some(word) if word.starts_with('-') => reading.flag("kubectl", flags::GLOBAL, &[], word, &mut words)?,
            Some(word) => break word,
        }
    };
    let rest: Vec<&str> = words.collect();
    let (verb, path) = verbs::find(name, &rest)?;
    let mut words = rest.iter().skip(path.len() - 1).copied();
    while let Some(word) = words.next() {
        match word {
            "--" if verb.takes_command => {
                reading.command = words.map(str::to_owned).collect();
                break;
            }
            "--" => return Err(Refusal::new("nothing can follow `--` in this command")),
            "-" => return Err(Refusal::new(value::NO_STDIN)),
            _ if word.starts_with('-') => reading.flag(verb.path, flags::GLOBAL, verb.flags, word, &mut words)?,
            _ => reading.objects.push(word.to_owned()),
        }
    }
    reading.finish(verb, path, input)
}

/// What a line has come to, word by word.
struct Reading<'f> {
    context: Context<'f>,
    flags: Vec<String>,
    objects: Vec<String>,
    command: Vec<String>,
    follows: bool,
}

impl Reading<'_> {
    /// Takes a word that begins with a dash, and its value, which may be the word behind it.
    fn flag<'w>(
        &mut self,
        verb: &str,
        global: &[Flag],
        own: &[&[Flag]],
        word: &str,
        rest: &mut impl Iterator<Item = &'w str>,
    ) -> Result<(), Refusal> {
        // A verb's own meaning of a letter comes before the common one.
        let all = || own.iter().copied().flatten().chain(global);
        let mut value_of = |flag: &Flag, value: Option<&str>| match (flag.takes, value) {
            (Takes::Value(_), None) => rest
                .next()
                .map(|word| Some(word.to_owned()))
                .ok_or_else(|| Refusal::new(format!("`--{}` needs a value", flag.name))),
            (_, value) => Ok(value.map(str::to_owned)),
        };
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let flag = all().find(|flag| flag.name == name);
            let flag = flag.ok_or_else(|| flags::refusal(verb, &format!("--{name}"), all()))?;
            let value = value_of(flag, value)?;
            return self.take(flag, value.as_deref());
        }
        // Letters may stand together: `-Aw`, `-owide`.
        let mut letters = word[1..].chars();
        while let Some(letter) = letters.next() {
            let flag = all().find(|flag| flag.letter == Some(letter));
            let flag = flag.ok_or_else(|| flags::refusal(verb, &format!("-{letter}"), all()))?;
            let attached = letters.as_str();
            let value = match flag.takes {
                Takes::Value(_) if !attached.is_empty() => Some(attached.strip_prefix('=').unwrap_or(attached)),
                Takes::Value(_) => None,
                // As kubectl reads it: `-w=false`.
                _ => attached.strip_prefix('='),
            };
            let ends = value.is_some() || matches!(flag.takes, Takes::Value(_));
            let value = value_of(flag, value)?;
            self.take(flag, value.as_deref())?;
            if ends {
                break;
            }
        }
        Ok(())
    }

    fn take(&mut self, flag: &Flag, value: Option<&str>) -> Result<(), Refusal> {
        let values = self.context.values(flag, value)?;
        self.follows |= flag.follows && values.iter().all(|value| value != "false");
        self.flags.extend(values.into_iter().map(|value| format!("--{}={value}", flag.name)));
        Ok(())
    }

    fn finish(self, verb: &Verb, path: Vec<&'static str>, input: Option<Input>) -> Result<Invocation, Refusal> {
        if let Some(refused) = self.objects.iter().find_map(|object| value::object(object)) {
            return Err(refused);
        }
        if input.is_some() && !self.context.reads_input {
            return Err(Refusal::new("nothing in this command reads the manifest that comes to it: add `-f -`"));
        }
        let mut arguments: Vec<String> = path.into_iter().map(str::to_owned).collect();
        arguments.extend(self.flags);
        arguments.extend(self.objects);
        if !self.command.is_empty() {
            arguments.push("--".to_owned());
            arguments.extend(self.command);
        }
        let follows = self.follows || verb.follows;
        Ok(Invocation { arguments, files: self.context.named, input, follows })
    }
}

/// What a page offers while a line is typed: verbs with their flags, kinds of objects.
pub fn words() -> Value {
    let verbs: BTreeMap<String, Vec<String>> = verbs::all()
        .map(|verb| {
            let flags = verb.flags.iter().copied().flatten().chain(flags::GLOBAL).flat_map(Flag::spellings);
            (verb.first_names(), flags.collect())
        })
        .collect();
    json!({ "verbs": verbs, "kinds": verbs::KINDS })
}

#[cfg(test)]
mod tests;
