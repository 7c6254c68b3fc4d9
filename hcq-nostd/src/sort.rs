//! Sorting that cannot panic: the standard library's sort may, on an order that contradicts itself.
//!
//! [`in_place`] needs no memory; [`with_spare`] is faster, keeps equal items in order, and needs as much again.

/// Swaps two items; nothing if one of them does not exist.
pub(crate) fn swap<T>(items: &mut [T], a: usize, b: usize) {
    if a < items.len() && b < items.len() {
        items.swap(a, b);
    }
}

/// Sorts in place by a key: heapsort. Sites are often recorded in order, which is seen first.
pub(crate) fn in_place<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
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

/// Runs of this length are sorted by insertion.
const RUN: usize = 8;

/// Sorts by a key, with as much spare memory. `None` if there is less, and then nothing has changed.
pub(crate) fn with_spare<T: Copy, K: Ord>(
    items: &mut [T],
    spare: &mut [T],
    key: impl Fn(&T) -> K,
) -> Option<()> {
    let spare = spare.get_mut(..items.len())?;
    for run in items.chunks_mut(RUN) {
        insert_all(run, &key);
    }
    let (mut from, mut to) = (items, spare);
    let mut width = RUN;
    let mut moved = false;
    while width < from.len() {
        let mut start = 0;
        while start < from.len() {
            let middle = start.saturating_add(width).min(from.len());
            let end = middle.saturating_add(width).min(from.len());
            let (left, right) = (from.get(start..middle)?, from.get(middle..end)?);
            merge(left, right, to.get_mut(start..end)?, &key);
            start = end;
        }
        core::mem::swap(&mut from, &mut to);
        moved = !moved;
        width = width.saturating_mul(2);
    }
    if moved {
        copy(from, to);
    }
    Some(())
}

/// Copies as many as there are.
pub(crate) fn copy<T: Copy>(from: &[T], to: &mut [T]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

fn insert_all<T: Copy, K: Ord>(run: &mut [T], key: impl Fn(&T) -> K) {
    for i in 1..run.len() {
        for j in (0..i).rev() {
            let Some([a, b]) = run.get_mut(j..j.saturating_add(2)) else {
                break;
            };
            if key(a) <= key(b) {
                break;
            }
            core::mem::swap(a, b);
        }
    }
}

fn merge<T: Copy, K: Ord>(left: &[T], right: &[T], out: &mut [T], key: impl Fn(&T) -> K) {
    let in_order = match (left.last(), right.first()) {
        (Some(a), Some(b)) => key(a) <= key(b),
        _ => true,
    };
    if in_order {
        for (to, from) in out.iter_mut().zip(left.iter().chain(right)) {
            *to = *from;
        }
        return;
    }
    let (mut left, mut right) = (left.iter(), right.iter());
    let (mut a, mut b) = (left.next(), right.next());
    for to in out {
        match (a, b) {
            (Some(x), Some(y)) if key(y) < key(x) => {
                *to = *y;
                b = right.next();
            }
            (Some(x), _) => {
                *to = *x;
                a = left.next();
            }
            (None, Some(y)) => {
                *to = *y;
                b = right.next();
            }
            (None, None) => break,
        }
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
                in_place(&mut items, |x| *x);
                assert_eq!(items, want);
            }
        }
        let mut items: Vec<u32> = (0..many)
            .map(|i: u32| i.wrapping_mul(0x9e37_79b9) >> 20)
            .collect();
        in_place(&mut items, |x| *x);
        assert!(items.is_sorted());
    }
}
