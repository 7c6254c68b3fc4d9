//! New values for 64 variables, and which of them changed: the inner loop of giving a graph all its inputs.
#![cfg_attr(
    all(target_arch = "x86_64", target_feature = "sse2"),
    allow(unsafe_code, reason = "calls vector instructions that the target has")
)]

/// Makes the first 64 values of `old` those of `new`, as many as the shorter slice has. Bit `i` is set if the `i`th changed.
#[inline]
pub(super) fn update(old: &mut [u64], new: &[u64]) -> u64 {
    let len = old.len().min(new.len()).min(64);
    let (old, rest_old) = old.get_mut(..len).unwrap_or_default().as_chunks_mut::<16>();
    let (new, rest_new) = new.get(..len).unwrap_or_default().as_chunks::<16>();
    let (mut bits, mut at) = (0, 0);
    for (old, new) in old.iter_mut().zip(new) {
        bits |= update16(old, new) << at;
        at += 16;
    }
    for (old, new) in rest_old.iter_mut().zip(rest_new) {
        if *old != *new {
            *old = *new;
            bits |= 1 << at;
        }
        at += 1;
    }
    bits
}

/// The same for 64 values.
#[inline]
pub(super) fn update64(old: &mut [u64; 64], new: &[u64; 64]) -> u64 {
    let (old, _) = old.as_chunks_mut::<16>();
    let (new, _) = new.as_chunks::<16>();
    let ([a, b, c, d], [e, f, g, h]) = (old, new) else {
        return 0;
    };
    update16(a, e) | update16(b, f) << 16 | update16(c, g) << 32 | update16(d, h) << 48
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[inline]
fn update16(old: &mut [u64; 16], new: &[u64; 16]) -> u64 {
    // SAFETY: the target that this is compiled for has SSE2, by the condition above.
    unsafe { update_sse2(old, new) }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[target_feature(enable = "sse2")]
#[inline]
fn update_sse2(old: &mut [u64; 16], new: &[u64; 16]) -> u64 {
    use core::arch::x86_64::{
        __m128i, _mm_cmpeq_epi16, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_epi8,
        _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi8, _mm_storeu_si128,
    };
    let load = |two: &[u64; 2]| -> __m128i {
        // SAFETY: two values are 16 readable bytes; the load needs no alignment.
        unsafe { _mm_loadu_si128(core::ptr::from_ref(two).cast()) }
    };
    let (before, _) = old.as_chunks_mut::<2>();
    let (after, _) = new.as_chunks::<2>();
    let ([o0, o1, o2, o3, o4, o5, o6, o7], [n0, n1, n2, n3, n4, n5, n6, n7]) = (before, after)
    else {
        return 0;
    };
    let after = [n0, n1, n2, n3, n4, n5, n6, n7].map(load);
    let [n0, n1, n2, n3, n4, n5, n6, n7] = after;
    // Two 32-bit lanes a value, all ones where they are equal; then two 16-bit lanes, then two bytes.
    let four = |(oa, na): (&[u64; 2], __m128i), (ob, nb): (&[u64; 2], __m128i)| {
        _mm_packs_epi32(_mm_cmpeq_epi32(load(oa), na), _mm_cmpeq_epi32(load(ob), nb))
    };
    let first = _mm_packs_epi16(four((o0, n0), (o1, n1)), four((o2, n2), (o3, n3)));
    let second = _mm_packs_epi16(four((o4, n4), (o5, n5)), four((o6, n6), (o7, n7)));
    // A value's two bytes read as one 16-bit lane, which is all ones if both are; then one byte, one bit.
    let ones = _mm_set1_epi8(-1);
    let (first, second) = (_mm_cmpeq_epi16(first, ones), _mm_cmpeq_epi16(second, ones));
    let equal = _mm_movemask_epi8(_mm_packs_epi16(first, second));
    let changed = u64::from(!equal.cast_unsigned() & 0xffff);
    if changed != 0 {
        for (to, from) in [o0, o1, o2, o3, o4, o5, o6, o7].into_iter().zip(after) {
            // SAFETY: two values are 16 writable bytes; the store needs no alignment.
            unsafe { _mm_storeu_si128(core::ptr::from_mut(to).cast(), from) };
        }
    }
    changed
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
#[inline]
fn update16(old: &mut [u64; 16], new: &[u64; 16]) -> u64 {
    let mut bits = 0;
    for (bit, (o, n)) in old.iter().zip(new).enumerate() {
        bits |= u64::from(o != n) << bit;
    }
    if bits != 0 {
        *old = *new;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::{update, update16, update64};

    #[test]
    fn every_set_of_changes() {
        let old: [u64; 16] = core::array::from_fn(|i| [0, 1, u64::MAX, 1 << 32, 1 << 63, 5][i % 6]);
        for set in (0..1u64 << 16).step_by(if cfg!(miri) { 4099 } else { 7 }) {
            for flip in [1, 1 << 31, 1 << 32, 1 << 63, u64::MAX] {
                let mut new = old;
                for (i, v) in new.iter_mut().enumerate() {
                    if set >> i & 1 == 1 {
                        *v ^= flip;
                    }
                }
                let mut kept = old;
                assert_eq!(update16(&mut kept, &new), set, "{flip:#x}");
                assert_eq!(kept, new);
            }
        }
    }

    #[test]
    fn every_value_of_every_length_has_its_bit() {
        let old: [u64; 70] = core::array::from_fn(|i| i as u64);
        for len in (0..=70).step_by(if cfg!(miri) { 9 } else { 1 }) {
            let mut kept = old;
            assert_eq!(update(&mut kept[..len], &old), 0);
            for i in 0..len.min(64) {
                let mut new = old;
                new[i] += 1;
                let mut kept = old;
                assert_eq!(update(&mut kept[..len], &new), 1 << i);
                assert_eq!(kept, new);
            }
            if let (64, Some(old)) = (len, old.first_chunk::<64>()) {
                for i in 0..64 {
                    let (mut new, mut kept) = (*old, *old);
                    new[i] += 1;
                    assert_eq!(update64(&mut kept, &new), 1 << i);
                    assert_eq!(kept, new);
                }
            }
            // The others stay as they are.
            let mut kept = old;
            update(&mut kept[..len], &[7; 70]);
            assert!(
                kept.iter()
                    .zip(old)
                    .enumerate()
                    .all(|(i, (k, o))| { *k == if i < len.min(64) { 7 } else { o } })
            );
        }
    }
}
