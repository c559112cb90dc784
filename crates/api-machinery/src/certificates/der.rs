//! DER, as far as certificates need it.

pub const INTEGER: u8 = 0x02;
pub const BIT_STRING: u8 = 0x03;
pub const OCTET_STRING: u8 = 0x04;
pub const OBJECT: u8 = 0x06;
pub const BOOLEAN: u8 = 0x01;
pub const UTF8_STRING: u8 = 0x0c;
pub const UTC_TIME: u8 = 0x17;
pub const GENERALIZED_TIME: u8 = 0x18;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;

/// The object identifiers of a common name, and of the extension with other names.
pub const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
pub const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// The n-th element with a tag of its own.
pub const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// An element of this content.
pub fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
        out.push(0x80 | (bytes.len() - first) as u8);
        out.extend_from_slice(&bytes[first..]);
    }
    out.extend_from_slice(content);
    out
}

/// An element of elements.
pub fn of(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    element(tag, &parts.concat())
}

/// An element that was read.
#[derive(Debug, Clone, Copy)]
pub struct Element<'a> {
    pub tag: u8,
    pub content: &'a [u8],
    /// With its tag and its length.
    pub whole: &'a [u8],
}

/// The elements in some bytes, up to the first that is none.
pub struct Elements<'a>(pub &'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = if *first < 0x80 {
            (usize::from(*first), rest)
        } else {
            let count = usize::from(first & 0x7f);
            if !(1..=4).contains(&count) || rest.len() < count {
                return None;
            }
            let (bytes, rest) = rest.split_at(count);
            (bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)), rest)
        };
        let content = rest.get(..length)?;
        let head = self.0.len() - rest.len();
        let whole = &self.0[..head + length];
        self.0 = &rest[length..];
        Some(Element { tag: *tag, content, whole })
    }
}

/// The bytes between the lines of a PEM text of this label.
pub fn unwrapped(pem: &str, label: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    let (_, rest) = pem.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let text: String = body.chars().filter(|character| !character.is_whitespace()).collect();
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

/// A PEM text.
pub fn wrapped(der: &[u8], label: &str) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let content = vec![7; length];
            let written = element(OCTET_STRING, &content);
            let read = Elements(&written).next().expect("an element");
            assert_eq!((read.tag, read.content.len(), read.whole.len()), (OCTET_STRING, length, written.len()));
        }
        for broken in [&[][..], &[0x30], &[0x30, 0x85, 1, 1, 1, 1, 1], &[0x30, 5, 1], &[0x30, 0x80]] {
            assert!(Elements(broken).next().is_none(), "{broken:?}");
        }
        assert_eq!(unwrapped(&wrapped(&[1; 100], "X"), "X"), Some(vec![1; 100]));
    }
}
