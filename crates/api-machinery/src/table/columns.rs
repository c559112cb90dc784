//! Columns of tables, as kubectl prints them.

// upstream: pkg/printers/internalversion/printers.go AddHandlers (v1.36)

/// One column of a Table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column<'a> {
    pub name: &'a str,
    /// `string`, `integer`, `boolean`, `date`.
    pub kind: &'a str,
    /// `name` for the column that names the object.
    pub format: &'a str,
    /// 1 for columns that only `-o wide` shows.
    pub priority: u8,
}

/// Reads the columns of a kind: names separated by `|`.
pub(super) fn columns(specification: &str) -> impl Iterator<Item = Column<'_>> {
    specification.split('|').map(column)
}

/// Reads one column: `:integer` and the like give its type, `*` marks columns of `-o wide`.
pub(super) fn column(text: &str) -> Column<'_> {
    let (text, priority) = match text.strip_suffix('*') {
        Some(text) => (text, 1),
        None => (text, 0),
    };
    let (name, kind) = text.split_once(':').unwrap_or((text, "string"));
    match kind {
        "name" => Column { name, kind: "string", format: "name", priority },
        kind => Column { name, kind, format: "", priority },
    }
}
