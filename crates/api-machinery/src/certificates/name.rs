//! Distinguished names, as far as they say who somebody is.

use super::der::{COMMON_NAME, Element, Elements, OBJECT, SEQUENCE, SET, UTF8_STRING};

const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
/// 1.3.6.1.4.1.57683.2, Kubernetes' own.
const UID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xc2, 0x53, 0x02];

const PRINTABLE_STRING: u8 = 0x13;
const TELETEX_STRING: u8 = 0x14;
const IA5_STRING: u8 = 0x16;
const BMP_STRING: u8 = 0x1e;

/// Who a subject is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// The last common name, as Go has it.
    pub common_name: String,
    pub organizations: Vec<String>,
    pub uids: Vec<String>,
}

impl Subject {
    /// Reads a name in DER.
    pub fn read(der: &[u8]) -> Option<Self> {
        let mut subject = Self::default();
        let name = Elements(der).next().filter(|name| name.tag == SEQUENCE)?;
        for set in Elements(name.content).filter(|set| set.tag == SET) {
            for pair in Elements(set.content) {
                let mut parts = Elements(pair.content);
                let (kind, value) = (parts.next().filter(|kind| kind.tag == OBJECT)?, parts.next()?);
                match kind.content {
                    COMMON_NAME => subject.common_name = text(&value)?,
                    ORGANIZATION => subject.organizations.push(text(&value)?),
                    UID => subject.uids.push(text(&value)?),
                    _ => {}
                }
            }
        }
        Some(subject)
    }
}

fn text(value: &Element<'_>) -> Option<String> {
    match value.tag {
        UTF8_STRING | PRINTABLE_STRING | IA5_STRING => String::from_utf8(value.content.to_vec()).ok(),
        TELETEX_STRING => Some(value.content.iter().map(|byte| char::from(*byte)).collect()),
        BMP_STRING => {
            let units: Vec<u16> =
                value.content.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            String::from_utf16(&units).ok()
        }
        _ => None,
    }
}
