//! FNV-1a: the same on every machine and with every version of klab.
//!
//! Names that Kubernetes derives from content use it, and so does whatever must look random and be equal each time.

/// FNV-1a, 32 bits, over `parts`.
pub fn fnv32(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// FNV-1a, 64 bits, over `parts`.
pub fn fnv64(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// FNV-1a, 64 bits, over texts, each closed by a byte, so that `a bc` and `ab c` differ.
pub fn fnv64_closed(parts: &[&str], end: u8) -> u64 {
    let end = [end];
    let parts: Vec<&[u8]> = parts.iter().flat_map(|part| [part.as_bytes(), &end]).collect();
    fnv64(&parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_matches_its_published_vectors() {
        assert_eq!(fnv32(&[b"a"]), 0xe40c_292c);
        assert_eq!(fnv64(&[b"foobar"]), 0x8594_4171_f739_67e8);
        assert_eq!(fnv64(&[b"foo", b"bar"]), fnv64(&[b"foobar"]));
        assert_ne!(fnv64_closed(&["a", "bc"], 0), fnv64_closed(&["ab", "c"], 0));
    }
}
