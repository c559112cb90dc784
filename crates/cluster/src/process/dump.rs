//! `hexdump -C`: bytes as numbers and letters.

use std::fmt::Write;

/// Bytes of one line.
const WIDTH: usize = 16;

/// What `hexdump -C` prints of these bytes.
pub(super) fn dump(bytes: &[u8]) -> String {
    let (mut out, mut before, mut is_left_out) = (String::new(), None, false);
    for (number, line) in bytes.chunks(WIDTH).enumerate() {
        // Lines like the one before are left out, all together.
        if before == Some(line) {
            if !std::mem::replace(&mut is_left_out, true) {
                out.push_str("*\n");
            }
            continue;
        }
        (before, is_left_out) = (Some(line), false);
        let _ = write!(out, "{:08x} ", number * WIDTH);
        for at in 0..WIDTH {
            let gap = if at == WIDTH / 2 { " " } else { "" };
            let _ = match line.get(at) {
                Some(byte) => write!(out, "{gap} {byte:02x}"),
                None => write!(out, "{gap}   "),
            };
        }
        let letter = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' };
        let _ = writeln!(out, "  |{}|", line.iter().map(letter).collect::<String>());
    }
    if !bytes.is_empty() {
        let _ = writeln!(out, "{:08x}", bytes.len());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_busybox_and_gnu_do() {
        assert_eq!(
            dump(b"hello world, this is text\n\0\0"),
            "00000000  68 65 6c 6c 6f 20 77 6f  72 6c 64 2c 20 74 68 69  |hello world, thi|\n\
             00000010  73 20 69 73 20 74 65 78  74 0a 00 00              |s is text...|\n0000001c\n"
        );
        assert_eq!(
            dump(&[0xde, 0xca, 0xfe]),
            "00000000  de ca fe                                          |...|\n00000003\n"
        );
        let zeros = "00000000  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|\n*\n00000040\n";
        assert_eq!(dump(&[0; 64]), zeros);
        assert_eq!(dump(&[]), "");
    }
}
