//! A merge sort that cannot panic; the standard library's may, on an order that contradicts itself.

/// Runs of this length are sorted by insertion.
const RUN: usize = 8;

/// Sorts by a key, with as much spare memory. `None` if there is less, and then nothing has changed.
pub(super) fn by_key<T: Copy, K: Ord>(
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
pub(super) fn copy<T: Copy>(from: &[T], to: &mut [T]) {
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
