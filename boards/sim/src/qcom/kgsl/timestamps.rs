//! Time stamps of contexts: 32 bits that roll over, and the memory in which the GPU writes them.

use std::cmp::Ordering;

use super::Kernel;

/// `KGSL_TIMESTAMP_WINDOW`.
const WINDOW: u32 = 0x8000_0000;

/// `timestamp_cmp`.
pub(crate) fn compare(a: u32, b: u32) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    if a > b && a - b < WINDOW {
        return Ordering::Greater;
    }
    let (a, b) = (a.wrapping_add(WINDOW), b.wrapping_add(WINDOW));
    if a > b && a - b <= WINDOW {
        Ordering::Greater
    } else {
        Ordering::Less
    }
}

/// Whether a context that is at `now` has come to `then`.
pub(super) fn passed(now: u32, then: u32) -> bool {
    compare(now, then) != Ordering::Less
}

/// `KGSL_MEMSTORE_OFFSET` of `soptimestamp`.
fn started(index: u32) -> u64 {
    u64::from(index) * 40
}

/// Of `eoptimestamp`.
fn ended(index: u32) -> u64 {
    started(index) + 8
}

/// Of `current_context`.
fn running(index: u32) -> u64 {
    started(index) + 32
}

impl Kernel {
    fn word(&self, offset: u64) -> u32 {
        u32::try_from(self.memstore.load(offset).unwrap_or(0) & 0xFFFF_FFFF).unwrap_or(0)
    }

    /// `KGSL_TIMESTAMP_CONSUMED` of a context, or of a ring.
    pub(super) fn consumed(&self, index: u32) -> u32 {
        self.word(started(index))
    }

    /// `KGSL_TIMESTAMP_RETIRED`.
    pub(super) fn retired(&self, index: u32) -> u32 {
        self.word(ended(index))
    }

    pub(super) fn set_consumed(&mut self, index: u32, timestamp: u32) {
        self.memstore.store(started(index), timestamp.into());
    }

    pub(super) fn set_retired(&mut self, index: u32, timestamp: u32) {
        self.memstore.store(ended(index), timestamp.into());
        self.news = true;
    }

    /// Which context a ring, or (0) the GPU, executes.
    pub(super) fn set_running(&mut self, index: u32, context: u32) {
        self.memstore.store(running(index), context.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_is_less_than_half_a_round_away() {
        for (a, b, order) in [
            (5, 5, Ordering::Equal),
            (6, 5, Ordering::Greater),
            (5, 6, Ordering::Less),
            (0, u32::MAX, Ordering::Greater),
            (u32::MAX, 0, Ordering::Less),
            (0x7FFF_FFFF, 0, Ordering::Greater),
            (0, 0x7FFF_FFFF, Ordering::Less),
            // Half a round: the kernel says that 0 is the later one.
            (0x8000_0000, 0, Ordering::Less),
            (0, 0x8000_0000, Ordering::Greater),
            (0x8000_0001, 0, Ordering::Less),
        ] {
            assert_eq!(compare(a, b), order, "{a:#x} {b:#x}");
        }
    }
}
