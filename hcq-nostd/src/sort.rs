//! Sorting that cannot panic: the standard library's sort may, on an order that contradicts itself.
//!
//! [`in_place`] needs no memory; [`with_spare`] is faster, keeps equal items in order, and needs as much again.

/// Swaps two items; nothing if one of them does not exist.
pub(crate) fn swap<T>(items: &mut [T], a: usize, b: usize) {
    if a < items.len() && b < items.len() {
        items.swap(a, b);
    }
}

/// Sorts in place by a key: quicksort, and heapsort where that goes astray. Items are often in order, which is seen first.
pub(crate) fn in_place<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    if items.is_sorted_by_key(&key) {
        return;
    }
    let turns = items.len().checked_ilog2().unwrap_or(0).saturating_mul(2);
    quick(items, &key, turns);
}

/// So few are sorted by insertion.
const FEW: usize = 12;

fn quick<T, K: Ord>(mut items: &mut [T], key: &impl Fn(&T) -> K, mut turns: u32) {
    while items.len() > FEW {
        let Some(left) = turns.checked_sub(1) else {
            return heap(items, key);
        };
        turns = left;
        let at = partition(items, key);
        let Some((low, rest)) = items.split_at_mut_checked(at) else {
            return;
        };
        let Some((_, high)) = rest.split_first_mut() else {
            return;
        };
        // The shorter part first: so the stack stays as deep as the length has bits.
        if low.len() < high.len() {
            quick(low, key, turns);
            items = high;
        } else {
            quick(high, key, turns);
            items = low;
        }
    }
    for i in 1..items.len() {
        for j in (1..=i).rev() {
            let pair = (items.get(j.saturating_sub(1)), items.get(j));
            if pair.0.map(key) <= pair.1.map(key) {
                break;
            }
            swap(items, j.saturating_sub(1), j);
        }
    }
}

/// Moves the smaller items before, and the greater ones behind one of them; returns its place.
fn partition<T, K: Ord>(items: &mut [T], key: &impl Fn(&T) -> K) -> usize {
    let last = items.len().saturating_sub(1);
    // The middle one of three, so that what is nearly in order stays cheap.
    let (a, b, c) = (items.first(), items.get(last / 2), items.get(last));
    let (a, b, c) = (a.map(key), b.map(key), c.map(key));
    let middle = if (a < b) == (b < c) {
        last / 2
    } else if (b < a) == (a < c) {
        0
    } else {
        last
    };
    swap(items, 0, middle);
    let Some(pivot) = items.first().map(key) else {
        return 0;
    };
    let (mut i, mut j) = (1, last);
    loop {
        while i <= j && items.get(i).is_some_and(|x| key(x) < pivot) {
            i += 1;
        }
        while i <= j && items.get(j).is_some_and(|x| key(x) > pivot) {
            j = j.saturating_sub(1);
        }
        if i >= j {
            break;
        }
        swap(items, i, j);
        (i, j) = (i + 1, j.saturating_sub(1));
    }
    // Now all up to `j` are at most the pivot, unless `i` stopped on one that equals it.
    swap(items, 0, j);
    j
}

fn heap<T, K: Ord>(items: &mut [T], key: &impl Fn(&T) -> K) {
    let n = items.len();
    for root in (0..n / 2).rev() {
        sift(items, root, key);
    }
    for last in (1..n).rev() {
        swap(items, 0, last);
        sift(items.get_mut(..last).unwrap_or_default(), 0, key);
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

    /// A sorted list that holds what this one does.
    fn sorted(items: &[u32], by: impl Fn(&mut [u32])) {
        let (mut mine, mut want) = (items.to_vec(), items.to_vec());
        want.sort_unstable();
        by(&mut mine);
        assert!(mine == want, "{items:?} became {mine:?}");
    }

    #[test]
    fn shapes_that_lead_quicksort_astray() {
        let n = if cfg!(miri) { 60 } else { 3000u32 };
        let shapes: [fn(u32, u32) -> u32; 6] = [
            |i, n| n - i,
            |_, _| 7,
            |i, _| i % 3,
            |i, n| i.min(n - i),
            |i, n| if i % 2 == 0 { i } else { n - i },
            |i, _| i.wrapping_mul(0x9e37_79b9) >> 7,
        ];
        for shape in shapes {
            for n in [n, n - 1, 13, 14, 25] {
                let items: Vec<u32> = (0..n).map(|i| shape(i, n)).collect();
                sorted(&items, |i| in_place(i, |x| *x));
                sorted(&items, |i| heap(i, &|x: &u32| *x));
                sorted(&items, |i| quick(i, &|x: &u32| *x, 3));
            }
        }
    }

    #[test]
    fn an_order_that_contradicts_itself_ends() {
        let calls = core::cell::Cell::new(0u64);
        for n in 0..200u32 {
            let mut items: Vec<u32> = (0..n).collect();
            let odd = |_: &u32| {
                calls.set(
                    calls
                        .get()
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(n.into()),
                );
                calls.get() >> 33
            };
            in_place(&mut items, odd);
            items.sort_unstable();
            assert!(items.iter().copied().eq(0..n));
        }
    }

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
