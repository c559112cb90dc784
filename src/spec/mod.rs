//! The lab file: types, spans, rules, diagnostics.
