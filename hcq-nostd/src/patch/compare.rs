//! Which of 64 values changed: the inner loop of giving a graph all its inputs.
#![cfg_attr(
    all(target_arch = "x86_64", target_feature = "sse2"),
    allow(unsafe_code, reason = "calls vector instructions that the target has")
)]

/// Bit `i` is set if `old[i] != new[i]`, for the first 64 of the shorter slice.
#[inline]
pub(super) fn changed(old: &[u64], new: &[u64]) -> u64 {
    let len = old.len().min(new.len()).min(64);
    let (old, rest_old) = old.get(..len).unwrap_or_default().as_chunks::<8>();
    let (new, rest_new) = new.get(..len).unwrap_or_default().as_chunks::<8>();
    let (mut bits, mut at) = (0, 0);
    for (old, new) in old.iter().zip(new) {
        bits |= changed8(old, new) << at;
        at += 8;
    }
    for (old, new) in rest_old.iter().zip(rest_new) {
        bits |= u64::from(old != new) << at;
        at += 1;
    }
    bits
}

/// Bit `i` is set if `old[i] != new[i]`.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[inline]
fn changed8(old: &[u64; 8], new: &[u64; 8]) -> u64 {
    // SAFETY: the target that this is compiled for has SSE2, by the condition above.
    unsafe { changed_sse2(old, new) }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[target_feature(enable = "sse2")]
#[inline]
fn changed_sse2(old: &[u64; 8], new: &[u64; 8]) -> u64 {
    use core::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_epi8,
        _mm_packs_epi16, _mm_packs_epi32, _mm_shuffle_epi32,
    };
    let (old, _) = old.as_chunks::<2>();
    let (new, _) = new.as_chunks::<2>();
    let load = |two: &[u64; 2]| -> __m128i {
        // SAFETY: two values are 16 readable bytes; the load needs no alignment.
        unsafe { _mm_loadu_si128(core::ptr::from_ref(two).cast()) }
    };
    // Two values at a time; every 32-bit lane of the result is all ones if its whole 64-bit value is equal.
    let equal = |old: &[u64; 2], new: &[u64; 2]| -> __m128i {
        let halves = _mm_cmpeq_epi32(load(old), load(new));
        _mm_and_si128(halves, _mm_shuffle_epi32::<0b10_11_00_01>(halves))
    };
    let ([a, b, c, d], [e, f, g, h]) = (old, new) else {
        return 0xff;
    };
    let first = _mm_packs_epi32(equal(a, e), equal(b, f));
    let second = _mm_packs_epi32(equal(c, g), equal(d, h));
    // Two 16-bit lanes a value, read as one 32-bit lane; then one 16-bit lane, then one byte.
    let eight = _mm_packs_epi32(first, second);
    let bytes = _mm_packs_epi16(eight, eight);
    u64::from(!_mm_movemask_epi8(bytes).cast_unsigned() & 0xff)
}

/// Bit `i` is set if `old[i] != new[i]`.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
#[inline]
fn changed8(old: &[u64; 8], new: &[u64; 8]) -> u64 {
    let mut bits = 0;
    for (bit, (o, n)) in old.iter().zip(new).enumerate() {
        bits |= u64::from(o != n) << bit;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::{changed, changed8};

    #[test]
    fn every_set_of_changes() {
        let old = [0, 1, u64::MAX, 1 << 32, 1 << 63, 5, 6, 7];
        for set in (0..256u64).step_by(if cfg!(miri) { 17 } else { 1 }) {
            for flip in [1, 1 << 31, 1 << 32, 1 << 63, u64::MAX] {
                let mut new = old;
                for (i, v) in new.iter_mut().enumerate() {
                    if set >> i & 1 == 1 {
                        *v ^= flip;
                    }
                }
                assert_eq!(changed8(&old, &new), set, "{flip:#x}");
            }
        }
    }

    #[test]
    fn every_value_of_every_length_has_its_bit() {
        let old: [u64; 70] = core::array::from_fn(|i| i as u64);
        for len in (0..=70).step_by(if cfg!(miri) { 9 } else { 1 }) {
            assert_eq!(changed(&old[..len], &old), 0);
            for i in 0..len.min(64) {
                let mut new = old;
                new[i] += 1;
                assert_eq!(changed(&old[..len], &new), 1 << i);
            }
        }
    }
}
