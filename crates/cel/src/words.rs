//! Words of the language that cannot be names.

/// Literals and operators that are written as words.
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Words that are kept for later.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a name that the parser has found is kept for later.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Whether no variable and no field may be called so.
pub fn is_word(name: &str) -> bool {
    KEYWORDS.contains(&name) || is_reserved(name)
}
