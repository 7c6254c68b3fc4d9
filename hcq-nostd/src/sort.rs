//! Sorting that cannot panic: the standard library's sort may, on an order that contradicts itself.
//!
//! Both keep equal items in order. [`in_place`] needs no memory; [`with_spare`] needs as much again, and is faster where
//! items come in no order at all.

/// Swaps two items; nothing if one of them does not exist.
fn swap<T>(items: &mut [T], a: usize, b: usize) {
    if a < items.len() && b < items.len() {
        items.swap(a, b);
    }
}

/// The items from `first` on come first, all in their order.
fn rotate<T>(mut items: &mut [T], mut first: usize) {
    while let Some(rest) = items.len().checked_sub(first).filter(|rest| *rest > 0)
        && first > 0
    {
        // The shorter part changes places with the far end of the longer one, and is where it belongs.
        let few = first.min(rest);
        let apart = items.len().saturating_sub(few);
        let (Some((near, _)), far) = items
            .split_at_mut_checked(apart)
            .map_or((None, None), |(a, b)| {
                (a.split_at_mut_checked(few), Some(b))
            })
        else {
            return;
        };
        for (a, b) in near.iter_mut().zip(far.unwrap_or_default()) {
            core::mem::swap(a, b);
        }
        items = if first <= rest {
            items.get_mut(..apart).unwrap_or_default()
        } else {
            first = first.saturating_sub(rest);
            items.get_mut(few..).unwrap_or_default()
        };
    }
}

/// Runs of this length are sorted by insertion.
const RUN: usize = 8;

/// Sorts in place by a key. Made for what comes in order, or in a few orders that take turns: blocks change places then,
/// and few of them. What comes in no order takes the square of the logarithm times as long.
pub(crate) fn in_place<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    if items.is_sorted_by_key(&key) {
        return;
    }
    let (runs, rest) = items.as_chunks_mut::<RUN>();
    for run in runs.iter_mut().map(<[T; RUN]>::as_mut_slice).chain([rest]) {
        for i in 1..run.len() {
            for j in (1..=i).rev() {
                let before = j.saturating_sub(1);
                if run.get(before).map(&key) <= run.get(j).map(&key) {
                    break;
                }
                swap(run, before, j);
            }
        }
    }
    let depth = usize::BITS.saturating_mul(3);
    let mut width = RUN;
    while width < items.len() {
        let pair = width.saturating_mul(2);
        let mut left = &mut *items;
        while left.len() > width {
            let n = pair.min(left.len());
            let Some((two, others)) = left.split_at_mut_checked(n) else {
                break;
            };
            merge_in_place(two, width, &key, depth);
            left = others;
        }
        width = pair;
    }
}

/// Merges the first `middle` items with the others; both are in order. Each turn leaves at most three quarters in one
/// piece, so that `depth` ends an order that contradicts itself, and no other.
fn merge_in_place<T, K: Ord>(items: &mut [T], middle: usize, key: &impl Fn(&T) -> K, depth: u32) {
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    let Some((low, high)) = items.split_at_checked(middle) else {
        return;
    };
    let (Some(last), Some(first)) = (low.last().map(key), high.first().map(key)) else {
        return;
    };
    if last <= first {
        return;
    }
    // What is in its place already.
    let skip = low.partition_point(|x| key(x) <= first);
    let take = high.partition_point(|x| key(x) < last);
    let (low, high) = (
        low.get(skip..).unwrap_or_default(),
        high.get(..take).unwrap_or_default(),
    );
    let (of_low, of_high) = if low.len() >= high.len() {
        let at = low.len() / 2;
        let pivot = low.get(at).map(key);
        let below = |x: &T| Some(key(x)) < pivot;
        (at, high.partition_point(below))
    } else {
        let at = high.len() / 2;
        let pivot = high.get(at).map(key);
        let upto = |x: &T| Some(key(x)) <= pivot;
        (low.partition_point(upto), at)
    };
    let (mine, all) = (low.len(), low.len().saturating_add(high.len()));
    let Some(items) = items.get_mut(skip..skip.saturating_add(all)) else {
        return;
    };
    let between = of_low..mine.saturating_add(of_high);
    rotate(
        items.get_mut(between).unwrap_or_default(),
        mine.saturating_sub(of_low),
    );
    if let Some((low, high)) = items.split_at_mut_checked(of_low.saturating_add(of_high)) {
        merge_in_place(low, of_low, key, depth);
        merge_in_place(high, mine.saturating_sub(of_low), key, depth);
    }
}

/// Moves the items of which this holds to the front, without changing the order of these or of the others. Returns their
/// number. Few swaps if they come in few blocks.
pub(crate) fn to_front<T>(items: &mut [T], is: &impl Fn(&T) -> bool) -> usize {
    let first = items.iter().take_while(|x| is(x)).count();
    let items = items.get_mut(first..).unwrap_or_default();
    let others = items.iter().take_while(|x| !is(x)).count();
    if others == items.len() {
        return first;
    }
    // In two halves, of which the first one begins with others, and both are shorter.
    let middle = others.max(items.len() / 2);
    let Some((low, high)) = items.split_at_mut_checked(middle) else {
        return first;
    };
    let (of_low, of_high) = (to_front(low, is), to_front(high, is));
    let end = middle.saturating_add(of_high);
    rotate(
        items.get_mut(of_low..end).unwrap_or_default(),
        middle.saturating_sub(of_low),
    );
    first.saturating_add(of_low).saturating_add(of_high)
}

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
    fn is_sorted(items: &[u32], by: impl Fn(&mut [u32])) {
        let (mut mine, mut want) = (items.to_vec(), items.to_vec());
        want.sort_unstable();
        by(&mut mine);
        assert!(mine == want, "{items:?} became {mine:?}");
    }

    #[test]
    fn shapes_that_lead_sorts_astray() {
        let n = if cfg!(miri) { 60 } else { 3000u32 };
        let shapes: [fn(u32, u32) -> u32; 8] = [
            |i, n| n - i,
            |_, _| 7,
            |i, _| i % 3,
            |i, n| i.min(n - i),
            |i, n| if i % 2 == 0 { i } else { n - i },
            |i, n| i % 3 * n + i,
            |i, n| (i + n / 3) % n.max(1),
            |i, _| i.wrapping_mul(0x9e37_79b9) >> 7,
        ];
        for shape in shapes {
            for n in [n, n - 1, 13, 14, 25] {
                let items: Vec<u32> = (0..n).map(|i| shape(i, n)).collect();
                is_sorted(&items, |i| in_place(i, |x| *x));
                // Equal ones keep their order.
                let mut pairs: Vec<(u32, u32)> = items.iter().map(|i| i % 16).zip(0..).collect();
                in_place(&mut pairs, |x| x.0);
                assert!(pairs.is_sorted());
            }
        }
    }

    #[test]
    fn what_comes_to_the_front_keeps_its_order() {
        let bits = if cfg!(miri) { 6 } else { 11 };
        for len in 0..=bits {
            for set in 0..1u32 << len {
                let mut items: Vec<u32> = (0..len).collect();
                let is = |i: &u32| set >> i & 1 == 1;
                let (mine, others): (Vec<u32>, Vec<u32>) = items.iter().copied().partition(is);
                assert_eq!(to_front(&mut items, &is), mine.len());
                assert_eq!(items, [mine, others].concat(), "{set:#b}");
            }
        }
        let n = if cfg!(miri) { 100 } else { 10_000u32 };
        let mut items: Vec<u32> = (0..n).collect();
        assert_eq!(to_front(&mut items, &|i| i % 2 == 1), n as usize / 2);
        assert!(
            items
                .iter()
                .take(n as usize / 2)
                .copied()
                .eq((0..n / 2).map(|i| 2 * i + 1))
        );
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
