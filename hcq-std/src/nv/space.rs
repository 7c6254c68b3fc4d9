//! Addresses of GPUs, for all GPUs of a process together.
//!
//! They need not be the host's. Entries of channels, launch descriptors and, up to Ada, semaphores have 40 bits of an
//! address; so everything lies below that.

use std::collections::BTreeMap;

/// Where addresses start: above what is mapped low by habit.
const START: u64 = 1 << 36;
/// Where they end.
const END: u64 = 1 << 40;

/// Free ranges: start and length.
#[derive(Debug)]
pub(super) struct Space {
    free: BTreeMap<u64, u64>,
}

impl Default for Space {
    fn default() -> Self {
        Self {
            free: BTreeMap::from([(START, END - START)]),
        }
    }
}

impl Space {
    /// `len` bytes at a multiple of `align`, a power of two: the first that there are.
    pub(super) fn take(&mut self, len: u64, align: u64) -> Option<u64> {
        let (start, size, at) = self.free.iter().find_map(|(&start, &size)| {
            let at = start.checked_next_multiple_of(align)?;
            let end = at.checked_add(len)?;
            (end <= start + size).then_some((start, size, at))
        })?;
        self.free.remove(&start);
        if start < at {
            self.free.insert(start, at - start);
        }
        let left = start + size - (at + len);
        if left > 0 {
            self.free.insert(at + len, left);
        }
        Some(at)
    }

    /// Gives a range back that was taken.
    pub(super) fn give(&mut self, mut start: u64, mut len: u64) {
        if let Some((&before, &size)) = self.free.range(..start).next_back()
            && before + size == start
        {
            self.free.remove(&before);
            (start, len) = (before, size + len);
        }
        if let Some(size) = self.free.remove(&(start + len)) {
            len += size;
        }
        self.free.insert(start, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_apart_aligned_and_come_back_whole() {
        let mut space = Space::default();
        let mut taken = Vec::new();
        let mut random = 5u64;
        for n in 0..2000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            if n % 3 == 2 && !taken.is_empty() {
                let (start, len) = taken.swap_remove(random as usize % taken.len());
                space.give(start, len);
                continue;
            }
            let len = 4096 * (1 + (random >> 40) % 600);
            let align = 4096 << (random >> 20 & 9);
            let start = space.take(len, align).expect("room");
            assert!(start.is_multiple_of(align) && start >= START && start + len <= END);
            for &(other, size) in &taken {
                assert!(start + len <= other || other + size <= start);
            }
            taken.push((start, len));
        }
        for (start, len) in taken {
            space.give(start, len);
        }
        assert_eq!(space.free, Space::default().free);
    }

    #[test]
    fn what_does_not_fit_is_not_taken() {
        let mut space = Space::default();
        assert_eq!(space.take(END, 4096), None);
        assert_eq!(space.take(u64::MAX, 1 << 63), None);
        let all = space.take(END - START, 4096).expect("all of it");
        assert_eq!(space.take(4096, 4096), None);
        space.give(all, END - START);
        assert_eq!(space.free, Space::default().free);
    }
}
