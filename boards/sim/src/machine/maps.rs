//! Which of the machine's blocks are mapped where in the process: they live as long as they can be seen there.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::memory::Block;

/// Mapped ranges by first address: the address after the last, and the block.
#[derive(Debug, Default)]
pub(crate) struct Maps {
    ranges: BTreeMap<usize, (usize, Arc<Block>)>,
}

impl Maps {
    /// A block was mapped here, whatever was here before.
    pub(crate) fn add(&mut self, start: usize, len: usize, block: Arc<Block>) {
        self.remove(start, len);
        self.ranges
            .insert(start, (start.saturating_add(len), block));
    }

    /// Nothing is mapped in the range any more.
    pub(crate) fn remove(&mut self, start: usize, len: usize) {
        let end = start.saturating_add(len);
        let touched: Vec<usize> = self
            .ranges
            .range(..end)
            .filter(|&(_, &(last, _))| last > start)
            .map(|(&first, _)| first)
            .collect();
        for first in touched {
            let Some((last, block)) = self.ranges.remove(&first) else {
                continue;
            };
            if first < start {
                self.ranges.insert(first, (start, Arc::clone(&block)));
            }
            if last > end {
                self.ranges.insert(end, (last, block));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Store;

    #[test]
    fn blocks_are_kept_while_a_part_is_mapped() {
        let store = Store::new().expect("memory");
        let (a, b) = (
            store.block(0x4000).expect("a"),
            store.block(0x1000).expect("b"),
        );
        let mut maps = Maps::default();
        maps.add(0x10000, 0x4000, Arc::clone(&a));
        maps.remove(0x11000, 0x1000);
        assert_eq!(Arc::strong_count(&a), 3, "two parts are left");
        maps.add(0x10000, 0x1000, Arc::clone(&b));
        assert_eq!((Arc::strong_count(&a), Arc::strong_count(&b)), (2, 2));
        maps.remove(0, usize::MAX);
        assert_eq!((Arc::strong_count(&a), Arc::strong_count(&b)), (1, 1));
    }
}
