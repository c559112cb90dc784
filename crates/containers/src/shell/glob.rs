//! Patterns of file names and of `case`: `*`, `?`, `[a-z]`.

/// Whether a pattern fits all of a text.
// Two places are remembered at most, so that no pattern takes long.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
                continue;
            }
            Some(_) => {
                if let Some(next) = one(&pattern, p, text[t]) {
                    (p, t) = (next, t + 1);
                    continue;
                }
            }
            None => {}
        }
        let Some((at, from)) = star else { return false };
        star = Some((at, from + 1));
        (p, t) = (at + 1, from + 1);
    }
    pattern[p.min(pattern.len())..].iter().all(|letter| *letter == '*')
}

/// Where the pattern goes on after a letter that it fits.
fn one(pattern: &[char], at: usize, letter: char) -> Option<usize> {
    match pattern[at] {
        '?' => Some(at + 1),
        '\\' if at + 1 < pattern.len() => (pattern[at + 1] == letter).then_some(at + 2),
        '[' => {
            let end = pattern.iter().skip(at + 2).position(|letter| *letter == ']').map(|end| end + at + 2);
            let Some(end) = end else { return (letter == '[').then_some(at + 1) };
            let inner = &pattern[at + 1..end];
            let (negated, inner) = match inner.split_first() {
                Some(('!' | '^', rest)) => (true, rest),
                _ => (false, inner),
            };
            let mut held = false;
            let mut index = 0;
            while let Some(first) = inner.get(index) {
                if let (Some('-'), Some(last)) = (inner.get(index + 1), inner.get(index + 2)) {
                    held |= (*first..=*last).contains(&letter);
                    index += 3;
                } else {
                    held |= *first == letter;
                    index += 1;
                }
            }
            (held != negated).then_some(end + 1)
        }
        own => (own == letter).then_some(at + 1),
    }
}

/// Whether all shells read a pattern alike.
pub(super) fn is_certain(pattern: &str) -> bool {
    !pattern.contains(['\\']) && !["[^", "[[", "[]", "[!]"].iter().any(|odd| pattern.contains(odd))
}

/// Whether a word is a pattern.
pub(super) fn is_pattern(word: &str) -> bool {
    word.contains(['*', '?']) || (word.contains('[') && word.contains(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_shells_have_it() {
        for (pattern, text, expected) in [
            ("*.txt", "a.txt", true),
            ("*.txt", "a.text", false),
            ("a?c", "abc", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("a*b*c", "aXbYbZc", true),
            ("*", "", true),
            ("", "a", false),
            ("[", "[", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
        assert!(!matches(&"*a".repeat(2000), &"a".repeat(1000)));
    }
}
