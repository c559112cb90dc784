//! What of an object is read back otherwise than it was sent, and where Kubernetes does that; and what no object can have.

use super::comparison::Difference;

/// Fields that a rule of Kubernetes changes, a line each: what happens to it, the type, the fields, and the rule's source.
const CHANGES: &str = include_str!("changes.txt");
/// Fields that the API server refuses: the kind or `*`, how the path ends or, with a `*`, what it contains, and why.
const REFUSED: &str = include_str!("refused.txt");

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Whether a rule of Kubernetes makes this difference.
pub(super) fn allow(difference: &Difference) -> bool {
    let fate = format!("{:?}", difference.fate);
    lines(CHANGES).any(|line| {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        word() == fate && word() == difference.of && word().split(',').any(|field| field == difference.field)
    })
}

/// Why no object has a field.
pub(super) fn refused(kind: &str, path: &str) -> Option<&'static str> {
    lines(REFUSED).find_map(|line| {
        let mut words = line.splitn(3, ' ');
        let (of, place, why) = (words.next()?, words.next()?, words.next()?);
        let is_there = match place.strip_suffix('*') {
            Some(part) => path.contains(part),
            None => path.ends_with(place),
        };
        ((of == "*" || of == kind) && is_there).then_some(why)
    })
}
