//! Permissions as Go writes them.
// upstream: io/fs FileMode.String

/// `-rw-r--r--`, `drwxrwxrwx`, `dgtrwxrwxrwx`.
pub(super) fn text(directory: bool, bits: u32) -> String {
    let mut text = String::new();
    for (letter, held) in
        [('d', directory), ('u', bits & 0o4000 != 0), ('g', bits & 0o2000 != 0), ('t', bits & 0o1000 != 0)]
    {
        if held {
            text.push(letter);
        }
    }
    if text.is_empty() {
        text.push('-');
    }
    for (shift, letter) in (0..9).rev().zip("rwxrwxrwx".chars()) {
        text.push(if bits >> shift & 1 == 1 { letter } else { '-' });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_written_as_go_writes_them() {
        for (directory, bits, expected) in [
            (false, 0o644, "-rw-r--r--"),
            (true, 0o777, "drwxrwxrwx"),
            (true, 0o3777, "dgtrwxrwxrwx"),
            (false, 0o400, "-r--------"),
        ] {
            assert_eq!(text(directory, bits), expected);
        }
    }
}
