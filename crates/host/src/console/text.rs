//! Pure: bytes that come in pieces as text. A letter may be cut by the end of a piece.

/// Text of one channel.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// The beginning of a letter whose end has not come.
    cut: Vec<u8>,
}

impl Pieces {
    /// The text of a piece, as far as it is whole.
    pub(super) fn take(&mut self, piece: &[u8]) -> Option<String> {
        self.cut.extend_from_slice(piece);
        let whole = match std::str::from_utf8(&self.cut) {
            // Nothing is wrong but that it ends too early.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Ok(_) | Err(_) => self.cut.len(),
        };
        let rest = self.cut.split_off(whole);
        let text = String::from_utf8_lossy(&std::mem::replace(&mut self.cut, rest)).into_owned();
        (!text.is_empty()).then_some(text)
    }

    /// What is left when no more comes.
    pub(super) fn rest(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.cut);
        (!rest.is_empty()).then(|| String::from_utf8_lossy(&rest).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_text_is_shown_as_such() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.take(b"a\xffb"), Some("a\u{fffd}b".to_owned()));
        assert_eq!(pieces.take(b"\xe2\x82"), None);
        assert_eq!(pieces.rest(), Some("\u{fffd}".to_owned()));
        assert_eq!(pieces.rest(), None);
    }

    proptest! {
        #[test]
        fn text_comes_whole_however_it_is_cut(text in ".{0,40}", cuts in proptest::collection::vec(0usize..20, 0..20)) {
            let (mut pieces, mut got, mut rest) = (Pieces::default(), String::new(), text.as_bytes());
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                got.extend(pieces.take(piece));
                rest = after;
            }
            got.extend(pieces.take(rest));
            prop_assert_eq!(got, text);
            prop_assert_eq!(pieces.rest(), None);
        }
    }
}
