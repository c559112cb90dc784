//! The protobuf wire format, as far as Kubernetes uses it.

/// A field's content as it is on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Wire type 0.
    Number(u64),
    /// Wire type 1.
    Fixed64(u64),
    /// Wire type 2: strings, bytes, messages, packed lists.
    Bytes(&'a [u8]),
    /// Wire type 5.
    Fixed32(u32),
}

/// Reads fields one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next field: its number and content. `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Token<'a>)>, String> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| format!("proto: illegal tag {}", tag >> 3))?;
        let token = match tag & 7 {
            0 => Token::Number(self.varint()?),
            1 => Token::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| "unexpected EOF".to_owned())?;
                Token::Bytes(self.take(length)?)
            }
            5 => Token::Fixed32(u32::from_le_bytes(self.array()?)),
            kind => return Err(format!("proto: illegal wireType {kind}")),
        };
        Ok(Some((number, token)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("proto: integer overflow".to_owned())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| "unexpected EOF".to_owned())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(|| "unexpected EOF".to_owned())?;
        self.0 = rest;
        Ok(taken)
    }
}

fn raw_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a field that is a number.
pub fn varint(out: &mut Vec<u8>, number: u32, value: u64) {
    raw_varint(out, u64::from(number) << 3);
    raw_varint(out, value);
}

/// Writes a field that is a floating point number.
pub fn double(out: &mut Vec<u8>, number: u32, value: f64) {
    raw_varint(out, u64::from(number) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes a field that is a string, a message or a packed list.
pub fn bytes(out: &mut Vec<u8>, number: u32, content: &[u8]) {
    raw_varint(out, u64::from(number) << 3 | 2);
    raw_varint(out, content.len() as u64);
    out.extend_from_slice(content);
}
