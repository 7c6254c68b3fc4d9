//! The page tables of one process on one GPU, as ranges of pages.
#![allow(unsafe_code, reason = "ranges of memory are raw addresses of the host")]

use std::collections::BTreeMap;
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::Arc;

use super::{AddressSpace, Extent, Heap, Mtype, Need, PageFault, PageFaultReason};
use crate::machine::Block;

/// Where the bytes of a mapping are.
#[derive(Clone, Debug)]
pub(crate) enum Backing {
    /// The machine's memory.
    Block(Arc<Block>),
    /// The process's own memory, from this address on.
    User(u64),
}

/// Which allocation a mapping belongs to: the GPU's index and the allocation's number there.
pub(crate) type Owner = (usize, u32);

/// Pages that are mapped together.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    /// Bytes, whole pages.
    pub(crate) bytes: u64,
    /// The memory.
    pub(crate) backing: Backing,
    /// Bytes of the memory before the first that is mapped.
    pub(crate) from: u64,
    /// Which memory that is for this GPU.
    pub(crate) heap: Heap,
    /// How caches treat it.
    pub(crate) mtype: Mtype,
    /// Writes are allowed.
    pub(crate) writable: bool,
    /// Instructions may be fetched.
    pub(crate) executable: bool,
    /// Whose it is.
    pub(crate) owner: Owner,
}

impl Mapping {
    fn host(&self, offset: u64) -> Option<NonNull<u8>> {
        let offset = self.from.checked_add(offset)?;
        match &self.backing {
            Backing::Block(block) => {
                let offset = usize::try_from(offset).ok()?;
                // SAFETY: a mapping ends where its block does or before, and the offset is within the mapping.
                Some(unsafe { block.host().add(offset) })
            }
            Backing::User(address) => {
                let address = usize::try_from(address.checked_add(offset)?).ok()?;
                NonNull::new(with_exposed_provenance_mut(address))
            }
        }
    }
}

/// The mappings, by first address.
#[derive(Debug, Default)]
pub(crate) struct PageTable {
    mappings: BTreeMap<u64, Mapping>,
}

impl PageTable {
    /// The mapping that holds an address, and its first address.
    pub(crate) fn at(&self, address: u64) -> Option<(u64, &Mapping)> {
        let (&start, mapping) = self.mappings.range(..=address).next_back()?;
        (address.wrapping_sub(start) < mapping.bytes).then_some((start, mapping))
    }

    /// Whether some page of the range is mapped. `bytes` is not 0 and the range does not wrap.
    pub(crate) fn overlaps(&self, start: u64, bytes: u64) -> bool {
        let last = start.saturating_add(bytes.saturating_sub(1));
        self.at(start).is_some() || self.mappings.range(start..=last).next().is_some()
    }

    /// Adds a mapping where nothing is mapped.
    pub(crate) fn insert(&mut self, start: u64, mapping: Mapping) {
        self.mappings.insert(start, mapping);
    }

    /// Takes the mappings of an allocation away.
    pub(crate) fn remove(&mut self, owner: Owner) {
        self.mappings.retain(|_, mapping| mapping.owner != owner);
    }

    /// Takes a range of pages away. What lies before and behind it in the mappings that it touches stays.
    pub(crate) fn clear(&mut self, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        let first = self.at(start).map_or(start, |(first, _)| first);
        let touched: Vec<u64> = self.mappings.range(first..end).map(|(&at, _)| at).collect();
        for at in touched {
            let Some(mut mapping) = self.mappings.remove(&at) else {
                continue;
            };
            let past = at.saturating_add(mapping.bytes);
            if past > end {
                let skipped = end.saturating_sub(at);
                let rest = Mapping {
                    bytes: past.saturating_sub(end),
                    from: mapping.from.saturating_add(skipped),
                    ..mapping.clone()
                };
                self.mappings.insert(end, rest);
            }
            if at < start {
                mapping.bytes = start.saturating_sub(at);
                self.mappings.insert(at, mapping);
            }
        }
    }
}

impl AddressSpace for PageTable {
    fn translate(&self, address: u64, len: u64, need: Need) -> Result<Extent, PageFault> {
        let fault = |reason| PageFault {
            address,
            need,
            reason,
        };
        let missing = || fault(PageFaultReason::NotPresent);
        let (start, mapping) = self.at(address).ok_or_else(missing)?;
        match need {
            Need::Write if !mapping.writable => return Err(fault(PageFaultReason::ReadOnly)),
            Need::Execute if !mapping.executable => return Err(fault(PageFaultReason::NoExecute)),
            Need::Read | Need::Write | Need::Execute => {}
        }
        let offset = address.wrapping_sub(start);
        Ok(Extent {
            host: mapping.host(offset).ok_or_else(missing)?,
            len: mapping.bytes.wrapping_sub(offset).min(len.max(1)),
            heap: mapping.heap,
            mtype: mapping.mtype,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(bytes: u64) -> Mapping {
        Mapping {
            bytes,
            backing: Backing::User(0x10_0000),
            from: 0,
            heap: Heap::System,
            mtype: Mtype::Nc,
            writable: false,
            executable: false,
            owner: (0, 1),
        }
    }

    #[test]
    fn addresses_are_found_in_their_mapping_only() {
        let mut table = PageTable::default();
        table.insert(0x2000, mapping(0x2000));
        let extent = table.translate(0x2FFF, 0x9999, Need::Read).expect("mapped");
        assert_eq!(extent.len, 0x1001);
        assert_eq!(extent.host.as_ptr().expose_provenance(), 0x10_0FFF);
        for (address, need, reason) in [
            (0x1FFF, Need::Read, PageFaultReason::NotPresent),
            (0x4000, Need::Read, PageFaultReason::NotPresent),
            (u64::MAX, Need::Read, PageFaultReason::NotPresent),
            (0x3FFF, Need::Write, PageFaultReason::ReadOnly),
            (0x2000, Need::Execute, PageFaultReason::NoExecute),
        ] {
            let fault = table.translate(address, 1, need).expect_err("not allowed");
            assert_eq!(
                fault,
                PageFault {
                    address,
                    need,
                    reason
                }
            );
        }
        table.remove((0, 2));
        assert!(table.at(0x2000).is_some());
        table.remove((0, 1));
        assert!(table.at(0x2000).is_none());
    }

    #[test]
    fn what_is_around_a_cleared_range_stays_what_it_was() {
        let mut table = PageTable::default();
        table.insert(0x1000, mapping(0x1000));
        table.insert(0x2000, mapping(0x5000));
        table.insert(0x8000, mapping(0x1000));
        table.clear(0x3000, 0x2000);
        for (address, host) in [
            (0x1000, Some(0x10_0000)),
            (0x2FFF, Some(0x10_0FFF)),
            (0x3000, None),
            (0x4FFF, None),
            (0x5000, Some(0x10_3000)),
            (0x6FFF, Some(0x10_4FFF)),
            (0x8000, Some(0x10_0000)),
        ] {
            let found = table.translate(address, 1, Need::Read).ok();
            let found = found.map(|extent| extent.host.as_ptr().expose_provenance());
            assert_eq!(found, host, "{address:#x}");
        }
        table.clear(0, u64::MAX);
        assert!(!table.overlaps(0, u64::MAX));
    }

    #[test]
    fn overlaps_are_seen_from_every_side() {
        let mut table = PageTable::default();
        table.insert(0x4000, mapping(0x2000));
        for (start, bytes, overlaps) in [
            (0x2000, 0x2000, false),
            (0x2000, 0x2001, true),
            (0x4000, 0x1000, true),
            (0x5000, 0x1000, true),
            (0x5000, 0x9000, true),
            (0x1000, 0x9000, true),
            (0x6000, 0x1000, false),
        ] {
            assert_eq!(table.overlaps(start, bytes), overlaps, "{start:#x}");
        }
    }
}
