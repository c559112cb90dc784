//! Letters and colours of workloads: one letter each, and a colour of a palette that colour-blind people can distinguish, too.

/// The palette of Okabe and Ito, and with each colour the one of text on it.
const PALETTE: [(&str, &str); 8] = [
    ("#E69F00", "#000000"),
    ("#56B4E9", "#000000"),
    ("#009E73", "#000000"),
    ("#F0E442", "#000000"),
    ("#0072B2", "#FFFFFF"),
    ("#D55E00", "#000000"),
    ("#CC79A7", "#000000"),
    ("#000000", "#FFFFFF"),
];

/// What belongs to the cluster itself.
const PLAIN: (&str, &str) = ("#E0E0E0", "#333333");

/// How many colours there are.
pub(super) const COLOURS: usize = PALETTE.len();

/// The colour of a workload's pods.
pub fn colour(index: Option<u8>) -> &'static str {
    of(index).0
}

/// The colour of text on it.
pub fn ink(index: Option<u8>) -> &'static str {
    of(index).1
}

fn of(index: Option<u8>) -> (&'static str, &'static str) {
    index.and_then(|index| PALETTE.get(usize::from(index)).copied()).unwrap_or(PLAIN)
}

/// The letter of the workload with this number, from 0: `A` to `Z`, then `AA`, `AB`, ….
pub fn letter(number: usize) -> String {
    let mut letters = Vec::new();
    let mut rest = Some(number);
    while let Some(number) = rest {
        letters.push(char::from(b'A' + (number % 26) as u8));
        rest = (number / 26).checked_sub(1);
    }
    letters.into_iter().rev().collect()
}

/// The sign behind the letter of a pod, by its state; none for a pod that runs, or has no node.
pub fn sign(state: &str) -> &'static str {
    match state {
        "starting" => "…",
        "not-ready" => "!",
        "terminating" => "−",
        "succeeded" => "✓",
        "failed" => "✗",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_go_on_after_z() {
        for (number, wanted) in [(0, "A"), (25, "Z"), (26, "AA"), (27, "AB"), (51, "AZ"), (52, "BA"), (702, "AAA")] {
            assert_eq!(letter(number), wanted);
        }
    }

    /// Relative luminance, as WCAG defines it.
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn letters_can_be_read_on_their_colours() {
        for (ground, ink) in PALETTE.into_iter().chain([PLAIN]) {
            let (one, two) = (luminance(ground), luminance(ink));
            let contrast = (one.max(two) + 0.05) / (one.min(two) + 0.05);
            assert!(contrast >= 4.5, "{ink} on {ground}: {contrast}");
        }
    }
}
