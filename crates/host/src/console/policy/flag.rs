//! Pure: what a flag of kubectl is.

/// What a value must be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Any text: kubectl takes it as it stands, and opens no file for it.
    Text,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// How kubectl writes what it found.
    Output,
    /// A file of the editor, or several with commas between them.
    Files,
    /// One file of the editor.
    File,
    /// How much kubectl says: not so much that it says its credentials.
    Verbosity,
    /// A path of the API.
    Path,
}

/// What follows a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// Nothing, or `=true`, `=false`.
    Nothing,
    /// Nothing, which stands for a value, or one of some values behind `=`.
    Perhaps {
        /// What the flag alone means.
        unsaid: &'static str,
        /// What can be said.
        values: &'static [&'static str],
    },
    /// A value, behind `=` or as the next word.
    Value(Rule),
}

/// A flag of kubectl.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) letter: Option<char>,
    pub(super) takes: Takes,
    /// With it the command goes on until somebody ends it.
    pub(super) follows: bool,
}

pub(super) const fn switch(name: &'static str) -> Flag {
    Flag { name, letter: None, takes: Takes::Nothing, follows: false }
}

pub(super) const fn value(name: &'static str, rule: Rule) -> Flag {
    Flag { name, letter: None, takes: Takes::Value(rule), follows: false }
}

pub(super) const fn text(name: &'static str) -> Flag {
    value(name, Rule::Text)
}

impl Flag {
    pub(super) const fn letter(mut self, letter: char) -> Self {
        self.letter = Some(letter);
        self
    }

    pub(super) const fn follows(mut self) -> Self {
        self.follows = true;
        self
    }

    /// As it can be typed.
    pub(super) fn spellings(&self) -> Vec<String> {
        let long = match self.takes {
            Takes::Value(_) => format!("--{}=", self.name),
            _ => format!("--{}", self.name),
        };
        self.letter.map(|letter| format!("-{letter}")).into_iter().chain([long]).collect()
    }
}
