//! Amounts of resources in words.

/// An amount of a resource for people: cores with up to three decimals, `1.5Gi`, a count.
pub fn amount(resource: &str, base: i64) -> String {
    let decimal = |value: f64, digits: usize| {
        let text = format!("{value:.digits$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    match resource {
        "cpu" => decimal(base as f64 / 1000.0, 3),
        "memory" | "ephemeral-storage" => bytes(base, decimal),
        name if name.starts_with("hugepages-") => bytes(base, decimal),
        _ => base.to_string(),
    }
}

fn bytes(base: i64, decimal: impl Fn(f64, usize) -> String) -> String {
    const UNITS: [(i64, &str); 3] = [(1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
    let unit = UNITS.iter().find(|(size, _)| base.abs() >= *size);
    // Down to hundredths, never up: an amount that is said to be free must be.
    unit.map_or(base.to_string(), |(size, name)| {
        let hundredths = i128::from(base) * 100 / i128::from(*size);
        format!("{}{name}", decimal(hundredths as f64 / 100.0, 2))
    })
}
