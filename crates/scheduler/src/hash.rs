//! FNV-1a, plain and mixed: the same on every machine and with every version of klab.
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

/// FNV-1a, 64 bits, over texts, mixed. Placements in published labs depend on it.
pub(crate) fn fnv64_mixed(parts: &[&str]) -> u64 {
    mix(fnv64_closed(parts, 0))
}

/// The finaliser of SplitMix64.
pub const fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
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

    /// Placements in published labs depend on these: they must never change.
    #[test]
    fn hashes_are_fixed() {
        assert_eq!(fnv64_mixed(&["default", "web-0"]), 0xf967_e870_dd89_9722);
        assert_eq!(mix(1), 0x5692_161d_100b_05e5);
        assert_ne!(fnv64_mixed(&["a", "bc"]), fnv64_mixed(&["ab", "c"]));
    }
}
