//! Sorting that cannot panic: the standard library's sort may, on an order that contradicts itself.

/// Swaps two items; nothing if one of them does not exist.
pub(super) fn swap<T>(items: &mut [T], a: usize, b: usize) {
    if a < items.len() && b < items.len() {
        items.swap(a, b);
    }
}

/// Sorts in place by a key: heapsort. Sites are often recorded in order, which is seen first.
pub(super) fn by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    if items.is_sorted_by_key(&key) {
        return;
    }
    let n = items.len();
    for root in (0..n / 2).rev() {
        sift(items, root, &key);
    }
    for last in (1..n).rev() {
        swap(items, 0, last);
        sift(items.get_mut(..last).unwrap_or_default(), 0, &key);
    }
}

/// Moves the item at `root` down until none below it is greater.
fn sift<T, K: Ord>(heap: &mut [T], mut root: usize, key: &impl Fn(&T) -> K) {
    loop {
        let left = root.saturating_mul(2).saturating_add(1);
        let right = left.saturating_add(1);
        let (Some(top), Some(l)) = (heap.get(root), heap.get(left)) else {
            return;
        };
        let l = key(l);
        let (child, greatest) = match heap.get(right).map(key).filter(|r| *r > l) {
            Some(r) => (right, r),
            None => (left, l),
        };
        if key(top) >= greatest {
            return;
        }
        swap(heap, root, child);
        root = child;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn every_order_of_few_and_many_of_some_is_sorted() {
        let (few, many) = if cfg!(miri) { (3, 50) } else { (6, 1000) };
        for n in 0..=few {
            for code in 0..u32::pow(n, n) {
                let mut items: Vec<u32> = (0..n).map(|i| code / n.pow(i) % n).collect();
                let mut want = items.clone();
                want.sort_unstable();
                by_key(&mut items, |x| *x);
                assert_eq!(items, want);
            }
        }
        let mut items: Vec<u32> = (0..many)
            .map(|i: u32| i.wrapping_mul(0x9e37_79b9) >> 20)
            .collect();
        by_key(&mut items, |x| *x);
        assert!(items.is_sorted());
    }
}
