//! Ranges of addresses that are taken, of an address space (`drm_mm`).

use std::collections::BTreeMap;
use std::ops::Range;

use crate::machine::PAGE;

/// Addresses that are given out in whole pages.
#[derive(Debug)]
pub(super) struct Space {
    range: Range<u64>,
    /// Bytes of each range that is taken, by its start.
    taken: BTreeMap<u64, u64>,
}

impl Space {
    pub(super) fn new(range: Range<u64>) -> Self {
        Self {
            range,
            taken: BTreeMap::new(),
        }
    }

    pub(super) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// The lowest gap within a range (`drm_mm_insert_node_in_range`).
    ///
    /// # Errors
    /// `ENOSPC`.
    pub(super) fn allocate(&mut self, bytes: u64, within: &Range<u64>) -> Result<u64, i32> {
        let at = self.gap(bytes, within).ok_or(libc::ENOSPC)?;
        self.taken.insert(at, bytes);
        Ok(at)
    }

    fn gap(&self, bytes: u64, within: &Range<u64>) -> Option<u64> {
        let end = within.end.min(self.range.end);
        let mut at = within.start.max(self.range.start);
        at = at.checked_next_multiple_of(PAGE)?;
        for (&start, &len) in &self.taken {
            if start.saturating_add(len) <= at {
                continue;
            }
            if at.checked_add(bytes)? <= start {
                break;
            }
            at = start.checked_add(len)?;
        }
        (at.checked_add(bytes)? <= end).then_some(at)
    }

    pub(super) fn free(&mut self, start: u64) {
        self.taken.remove(&start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_found_from_the_lowest_on() {
        let all = 0..u64::MAX;
        let mut space = Space::new(0x1_0000_0000..0x1_0001_0000);
        assert_eq!(space.allocate(PAGE, &all), Ok(0x1_0000_0000));
        assert_eq!(space.allocate(2 * PAGE, &all), Ok(0x1_0000_1000));
        assert_eq!(space.allocate(PAGE, &all), Ok(0x1_0000_3000));
        space.free(0x1_0000_1000);
        assert_eq!(space.allocate(3 * PAGE, &all), Ok(0x1_0000_4000));
        assert_eq!(space.allocate(2 * PAGE, &all), Ok(0x1_0000_1000));
        assert_eq!(space.allocate(10 * PAGE, &all), Err(libc::ENOSPC));
        assert_eq!(space.allocate(9 * PAGE, &all), Ok(0x1_0000_7000));
    }

    #[test]
    fn a_chosen_address_is_given_or_refused() {
        let mut space = Space::new(0x1_0000_0000..0x2_0000_0000);
        let exactly = |at: u64, bytes: u64| at..at + bytes;
        let at = 0x1_8000_0000;
        assert_eq!(space.allocate(PAGE, &exactly(at, PAGE)), Ok(at));
        for (at, bytes) in [
            (at, PAGE),
            (at - PAGE, 2 * PAGE),
            (at + 8 * PAGE + 1, PAGE),
            (PAGE, PAGE),
            (0x2_0000_0000 - PAGE, 2 * PAGE),
        ] {
            let refused = space.allocate(bytes, &exactly(at, bytes));
            assert_eq!(refused, Err(libc::ENOSPC), "{at:#x}");
        }
    }
}
