//! GPU addresses of a process: where `kgsl_iommu.c` puts objects, and the page tables that the SMMU walks.
//!
//! Addresses come from three ranges. Objects get theirs from the 64-bit range, each above the one before as long as there is
//! room (`va_hint`), or from the 32-bit range if they ask for it. Objects of `USE_CPU_MAP` have the address at which the process has
//! mapped them, which must lie in the SVM range (or the 32-bit one); the kernel chooses where unless the process insists.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::chip::Chip;
use crate::machine::{Block, PAGE};
use crate::vm::{Backing, Heap, Mapping, Mtype, PageTable};

/// `KGSL_IOMMU_SVM_BASE64` and `KGSL_IOMMU_SVM_END64`: what a CPU with 39-bit addresses maps.
pub(crate) const SVM: Range<u64> = 0x10_0000_0000..0x40_0000_0000;
/// `KGSL_IOMMU_VA_BASE64` and `KGSL_IOMMU_VA_END64`.
pub(crate) const VA: Range<u64> = 0x40_0000_0000..0x80_0000_0000;
/// `KGSL_MEMSTORE_TOKEN_ADDRESS`: what the memory of time stamps is mapped by, and the end of the 32-bit range.
pub(crate) const MEMSTORE_TOKEN: u64 = 0x1_0000_0000 - (256 << 20) - 4096;

/// A process's GPU addresses.
#[derive(Debug)]
pub(crate) struct Iommu {
    pub(crate) table: PageTable,
    /// Bytes of each range that is taken, by its start.
    taken: BTreeMap<u64, u64>,
    compat: Range<u64>,
    hint: u64,
}

impl Iommu {
    pub(crate) fn new(chip: &Chip) -> Self {
        Self {
            table: PageTable::default(),
            taken: BTreeMap::new(),
            compat: chip.gmem_base() + chip.gmem..MEMSTORE_TOKEN,
            hint: VA.start,
        }
    }

    /// `kgsl_iommu_addr_in_range`: whether a range can be an object's at all. Its last byte may not touch a range's end.
    pub(crate) fn in_range(&self, address: u64, bytes: u64) -> bool {
        let end = address.wrapping_add(bytes);
        address != 0
            && [VA, self.compat.clone(), SVM]
                .iter()
                .any(|range| address >= range.start && end < range.end)
    }

    fn overlaps(&self, start: u64, bytes: u64) -> bool {
        let end = start.saturating_add(bytes);
        self.taken
            .range(..end)
            .next_back()
            .is_some_and(|(&at, &len)| at.saturating_add(len) > start)
    }

    /// The lowest gap of a range.
    fn gap(&self, range: &Range<u64>, bytes: u64, align: u64) -> Option<u64> {
        let mut at = range.start.checked_next_multiple_of(align)?;
        for (&start, &len) in &self.taken {
            let end = start.saturating_add(len);
            if end <= at {
                continue;
            }
            if at.checked_add(bytes)? <= start {
                break;
            }
            at = end.checked_next_multiple_of(align)?;
        }
        (at.checked_add(bytes)? <= range.end).then_some(at)
    }

    /// `kgsl_iommu_get_gpuaddr`: an address for an object, aligned to `1 << power`.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn allocate(&mut self, bytes: u64, power: u32, compat: bool) -> Result<u64, i32> {
        let align = 1u64.checked_shl(power).unwrap_or(PAGE).max(PAGE);
        let range = if compat { self.compat.clone() } else { VA };
        let hinted = (!compat)
            .then(|| self.hint.checked_next_multiple_of(align))
            .flatten()
            .filter(|at| at.checked_add(bytes).is_some_and(|end| end <= range.end));
        let at = match hinted {
            Some(at) => {
                self.hint = at + bytes;
                at
            }
            None => self.gap(&range, bytes, align).ok_or(libc::ENOMEM)?,
        };
        self.taken.insert(at, bytes);
        Ok(at)
    }

    /// `kgsl_iommu_set_svm_region`: an address that the process has chosen.
    ///
    /// # Errors
    /// `ENOMEM`: it is not in a range for that, or taken.
    pub(crate) fn take(&mut self, start: u64, bytes: u64) -> Result<(), i32> {
        let end = start.checked_add(bytes).filter(|&end| end > start);
        let end = end.ok_or(libc::ENOMEM)?;
        let fits = [self.compat.clone(), SVM]
            .iter()
            .any(|range| range.contains(&start) && end <= range.end);
        if !fits || self.overlaps(start, bytes) {
            return Err(libc::ENOMEM);
        }
        self.taken.insert(start, bytes);
        Ok(())
    }

    /// Where the process could map an object of `USE_CPU_MAP`: the highest gap, as `kgsl_mmu_find_svm_region` looks for it.
    pub(crate) fn svm_gap(
        &self,
        bytes: u64,
        align: u64,
        compat: bool,
        before: Option<u64>,
    ) -> Option<u64> {
        let range = if compat { self.compat.clone() } else { SVM };
        let down = |end: u64| {
            let at = end.checked_sub(bytes)?;
            let at = at - at % align.max(1);
            (at >= range.start).then_some(at)
        };
        let end = before.map_or(range.end, |end| end.min(range.end));
        let mut at = down(end)?;
        for (&start, &len) in self.taken.range(..end).rev() {
            if start.saturating_add(len) <= at {
                break;
            }
            at = down(start)?;
        }
        Some(at)
    }

    /// Maps an object where it has its address. The guard page behind it may only be read.
    pub(crate) fn map(
        &mut self,
        id: u32,
        start: u64,
        bytes: u64,
        backing: &Backing,
        writable: bool,
        guard: Option<&Arc<Block>>,
    ) {
        let mapping = |bytes, backing, writable| Mapping {
            bytes,
            backing,
            from: 0,
            heap: Heap::System,
            mtype: Mtype::Nc,
            writable,
            executable: true,
            owner: (0, id),
        };
        self.table
            .insert(start, mapping(bytes, backing.clone(), writable));
        if let Some(guard) = guard {
            let backing = Backing::Block(Arc::clone(guard));
            self.table
                .insert(start + bytes, mapping(PAGE, backing, false));
        }
    }

    /// Takes an object's mapping and its address away.
    pub(crate) fn remove(&mut self, id: u32, start: u64) {
        self.table.remove((0, id));
        let Some(bytes) = self.taken.remove(&start) else {
            return;
        };
        // `_remove_gpuaddr`: the hint goes down with the highest address.
        if self.hint == start.saturating_add(bytes) && VA.contains(&start) {
            let before = self.taken.range(VA.start..start).next_back();
            self.hint = before.map_or(VA.start, |(&at, &len)| at.saturating_add(len));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qcom::chip;

    fn iommu() -> Iommu {
        Iommu::new(chip::find("a630").expect("known"))
    }

    #[test]
    fn addresses_go_up_and_come_back_when_the_highest_is_freed() {
        let mut iommu = iommu();
        let a = iommu.allocate(PAGE, 12, false).expect("a");
        let b = iommu.allocate(3 * PAGE, 16, false).expect("b");
        let c = iommu.allocate(PAGE, 0, false).expect("c");
        assert_eq!((a, b, c), (VA.start, VA.start + 0x1_0000, b + 3 * PAGE));
        iommu.remove(2, b);
        let d = iommu.allocate(PAGE, 12, false).expect("d");
        assert_eq!(d, c + PAGE, "gaps are left alone while there is room above");
        iommu.remove(4, d);
        iommu.remove(3, c);
        assert_eq!(iommu.allocate(PAGE, 12, false), Ok(a + PAGE));
    }

    #[test]
    fn a_full_range_is_searched_for_gaps() {
        let mut iommu = iommu();
        let half = (VA.end - VA.start) / 2;
        let a = iommu.allocate(half, 12, false).expect("a");
        iommu.allocate(half, 12, false).expect("b");
        assert_eq!(iommu.allocate(PAGE, 12, false), Err(libc::ENOMEM));
        iommu.remove(1, a);
        assert_eq!(iommu.allocate(PAGE, 20, false), Ok(a));
        assert_eq!(iommu.allocate(half, 12, false), Err(libc::ENOMEM));
        assert_eq!(
            iommu.allocate(half - (1 << 20), 20, false),
            Ok(a + (1 << 20))
        );
    }

    #[test]
    fn the_32_bit_range_begins_after_tile_memory() {
        let mut iommu = iommu();
        assert_eq!(iommu.allocate(PAGE, 12, true), Ok(0x20_0000));
        assert_eq!(iommu.allocate(1 << 32, 12, true), Err(libc::ENOMEM));
        let mut newer = Iommu::new(chip::find("a650").expect("known"));
        assert_eq!(newer.allocate(PAGE, 12, true), Ok(0x12_0000));
    }

    #[test]
    fn the_process_chooses_within_the_ranges_only() {
        let mut iommu = iommu();
        for (start, bytes) in [
            (0x7F00_0000_0000, PAGE),
            (SVM.end - PAGE, 2 * PAGE),
            (SVM.start - PAGE, PAGE),
            (VA.start, PAGE),
            (u64::MAX - 1, 2),
            (SVM.start, 0),
        ] {
            assert_eq!(iommu.take(start, bytes), Err(libc::ENOMEM), "{start:#x}");
        }
        assert_eq!(iommu.svm_gap(PAGE, PAGE, false, None), Some(SVM.end - PAGE));
        assert_eq!(iommu.take(SVM.end - PAGE, PAGE), Ok(()));
        assert_eq!(iommu.take(SVM.end - PAGE, PAGE), Err(libc::ENOMEM));
        assert_eq!(
            iommu.svm_gap(PAGE, 1 << 20, false, None),
            Some(SVM.end - (1 << 20)),
            "aligned, and beside what is taken"
        );
        assert_eq!(iommu.svm_gap(SVM.end, PAGE, false, None), None);
        assert_eq!(iommu.take(0x4000_0000, PAGE), Ok(()));
    }

    #[test]
    fn ranges_end_before_their_last_byte() {
        let iommu = iommu();
        assert!(!iommu.in_range(0, 4) && !iommu.in_range(0x1000, 4));
        assert!(iommu.in_range(VA.start, PAGE) && iommu.in_range(0x20_0000, 4));
        assert!(iommu.in_range(VA.end - PAGE, PAGE - 1));
        assert!(!iommu.in_range(VA.end - PAGE, PAGE));
        assert!(!iommu.in_range(VA.end, 4));
    }
}
