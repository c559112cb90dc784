//! Documents that were asked for, compressed: made once for all clusters of the process that have the same.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// How many bytes are kept; what was asked for longest ago goes first.
const MAX_BYTES: usize = 4 << 20;

static DOCUMENTS: Mutex<DocumentCache> =
    Mutex::new(DocumentCache { documents: VecDeque::new(), bytes: 0, making: BTreeMap::new() });

/// Documents by what they are made of.
struct DocumentCache {
    documents: VecDeque<(String, Bytes)>,
    bytes: usize,
    /// Those that are being made.
    making: BTreeMap<String, Arc<OnceLock<Bytes>>>,
}

fn documents() -> MutexGuard<'static, DocumentCache> {
    DOCUMENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DocumentCache {
    fn get(&mut self, name: &str) -> Option<Bytes> {
        let at = self.documents.iter().position(|(have, _)| have == name)?;
        let found = self.documents.remove(at)?;
        let document = found.1.clone();
        self.documents.push_back(found);
        Some(document)
    }

    fn add(&mut self, name: &str, document: &Bytes, most: usize) {
        self.bytes += document.len();
        self.documents.push_back((name.to_owned(), document.clone()));
        while self.bytes > most {
            let Some((_, gone)) = self.documents.pop_front() else { break };
            self.bytes -= gone.len();
        }
    }
}

/// The document of this name, compressed.
///
/// It is made once: a client that asks for the same meanwhile waits for it. Clients of other documents do not.
pub(super) fn compressed(name: &str, make: impl FnOnce() -> Vec<u8>) -> Bytes {
    let place = {
        let mut kept = documents();
        if let Some(document) = kept.get(name) {
            return document;
        }
        Arc::clone(kept.making.entry(name.to_owned()).or_default())
    };
    let document = place.get_or_init(|| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        // A vector takes all that is written to it.
        let _ = encoder.write_all(&make());
        Bytes::from(encoder.finish().unwrap_or_default())
    });
    let mut kept = documents();
    if kept.making.remove(name).is_some() {
        kept.add(name, document, MAX_BYTES);
    }
    document.clone()
}

/// What was compressed.
pub(super) fn unpacked(document: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    // It was compressed above.
    let _ = GzDecoder::new(document).read_to_end(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_made_once_and_what_nobody_asked_for_goes_first() {
        let first = compressed("one of these tests", || b"text".to_vec());
        let again = compressed("one of these tests", || panic!("made already"));
        assert_eq!((unpacked(&first), first), (b"text".to_vec(), again));

        let mut kept = DocumentCache { documents: VecDeque::new(), bytes: 0, making: BTreeMap::new() };
        for name in ["a", "b", "c"] {
            kept.add(name, &Bytes::from_static(b"12345"), 15);
        }
        assert!(kept.get("a").is_some());
        kept.add("d", &Bytes::from_static(b"12345"), 15);
        assert_eq!(["a", "b", "c", "d"].map(|name| kept.get(name).is_some()), [true, false, true, true]);
        kept.add("all", &Bytes::from_static(b"a document that is larger than all may be"), 15);
        assert_eq!((kept.documents.len(), kept.bytes), (0, 0));
    }

    #[test]
    fn a_document_is_had_while_another_one_is_made() {
        let outer = compressed("one that takes long", || {
            let inner = compressed("one that is asked for meanwhile", || b"inner".to_vec());
            [&unpacked(&inner)[..], b" and outer"].concat()
        });
        assert_eq!(unpacked(&outer), b"inner and outer");
    }
}
