//! A flag of az and a command of az, as rows of tables.

/// What follows a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// One word.
    Word,
    /// One whole number.
    Number,
    /// One word at least.
    Words,
    /// Any number of words.
    AnyWords,
}

/// A flag.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Its names, apart by blanks, the one first that klab asks for it by.
    pub names: &'static str,
    /// What follows it.
    pub takes: Takes,
    /// Whether the command needs it.
    pub is_required: bool,
    /// The words that may follow it; all, where there are none.
    pub choices: &'static [&'static str],
    /// Its default.
    pub default: Option<&'static str>,
    /// The key of `az config set defaults.KEY=…` that says it where the command line does not.
    pub configured: Option<&'static str>,
    /// Whether a lab outside of Azure has nothing that it could be about.
    pub is_moot: bool,
}

impl Flag {
    /// A flag with one word.
    pub const fn word(names: &'static str) -> Self {
        let takes = Takes::Word;
        Self { names, takes, is_required: false, choices: &[], default: None, configured: None, is_moot: false }
    }

    /// A flag with a whole number.
    pub const fn number(names: &'static str) -> Self {
        Self { takes: Takes::Number, ..Self::word(names) }
    }

    /// A flag alone.
    pub const fn switch(names: &'static str) -> Self {
        Self { takes: Takes::Nothing, ..Self::word(names) }
    }

    /// A flag with one word or more.
    pub const fn words(names: &'static str) -> Self {
        Self { takes: Takes::Words, ..Self::word(names) }
    }

    /// A flag with any number of words.
    pub const fn any_words(names: &'static str) -> Self {
        Self { takes: Takes::AnyWords, ..Self::word(names) }
    }

    /// The same, needed.
    pub const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// The same with these choices.
    pub const fn one_of(self, choices: &'static [&'static str]) -> Self {
        Self { choices, ..self }
    }

    /// The same with a default.
    pub const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    /// The same with a default that the user may configure.
    pub const fn configured(self, key: &'static str) -> Self {
        Self { configured: Some(key), ..self }
    }

    /// The name that klab asks for it by.
    pub fn name(&self) -> &'static str {
        self.each().next().unwrap_or_default()
    }

    /// Its names.
    pub fn each(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.names.split_whitespace()
    }

    /// All its names, as az's messages write them.
    pub fn all_names(&self) -> String {
        self.names.replace(' ', "/")
    }
}

/// Flags of az that a lab outside of Azure has nothing for, by what follows them, apart by blanks. They are taken, and a warning
/// says that they do nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moot {
    /// With one word.
    pub words: &'static str,
    /// Alone.
    pub switches: &'static str,
    /// With any number of words.
    pub lists: &'static str,
}

impl Moot {
    /// None.
    pub const NONE: Self = Self { words: "", switches: "", lists: "" };
}

/// A command of az.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// Its words, such as `aks nodepool add`; `az` itself is none of them.
    pub words: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Its flags, in groups that several commands share.
    pub flags: &'static [&'static [Flag]],
    /// Flags that are taken and do nothing.
    pub moot: Moot,
    /// What words without a flag are, as its usage calls them; none are taken where it is empty.
    pub operands: &'static str,
}

impl Command {
    /// A command with these flags.
    pub const fn new(words: &'static str, about: &'static str, flags: &'static [&'static [Flag]]) -> Self {
        Self { words, about, flags, moot: Moot::NONE, operands: "" }
    }

    /// The same with flags that do nothing.
    pub const fn with_moot(self, moot: Moot) -> Self {
        Self { moot, ..self }
    }

    /// The same with words that have no flag.
    pub const fn with_operands(self, operands: &'static str) -> Self {
        Self { operands, ..self }
    }

    /// All its flags, those of every command among them.
    pub fn all_flags(&self) -> Vec<Flag> {
        let moot =
            [(self.moot.words, Takes::Word), (self.moot.switches, Takes::Nothing), (self.moot.lists, Takes::AnyWords)];
        let moot = moot.into_iter().flat_map(|(names, takes)| {
            names.split_whitespace().map(move |name| Flag { takes, is_moot: true, ..Flag::word(name) })
        });
        self.flags.iter().flat_map(|group| group.iter().copied()).chain(GLOBAL.iter().copied()).chain(moot).collect()
    }
}

/// The flags of every command.
pub const GLOBAL: &[Flag] = &[
    Flag::switch("--debug"),
    Flag::switch("--help -h"),
    Flag::switch("--only-show-errors"),
    Flag::word("--output -o").one_of(&["json", "jsonc", "yaml", "yamlc", "table", "tsv", "none"]).configured("output"),
    Flag::word("--query"),
    Flag::word("--subscription"),
    Flag::switch("--verbose"),
];
