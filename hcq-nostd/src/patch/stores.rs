//! The launch loop's stores. Offsets were checked when the table was parsed and regions are checked once per launch, so
//! that nothing is checked per store.
#![allow(
    unsafe_code,
    reason = "stores through offsets that the table's constructor checked"
)]

use super::dense::rank;
use super::formula::Store;
use super::patcher::PatchError;
use super::table::PatchTable;
use crate::mem::{Region, scatter};

/// Proof that the regions of this launch passed [`check`].
#[derive(Clone, Copy)]
pub(super) struct Checked(());

/// Every region is at least as long as the table was built for, and starts at an 8-byte boundary.
pub(super) fn check(table: &PatchTable<'_>, regions: &[Region<'_>]) -> Result<Checked, PatchError> {
    let (need, have) = (table.regions.len(), regions.len());
    if need != have {
        return Err(PatchError::RegionCount { need, have });
    }
    for (index, (record, region)) in table.regions.iter().zip(regions).enumerate() {
        if (region.len() as u64) < record.bytes || !region.as_ptr().cast::<u64>().is_aligned() {
            return Err(PatchError::Region {
                index,
                need: record.bytes,
                have: region.len() as u64,
            });
        }
    }
    Ok(Checked(()))
}

/// A plain site for each of 64 values. `offsets` are of the dense list of `region` in the table that was checked against
/// it.
#[inline]
pub(super) fn block(_: Checked, region: &mut Region<'_>, offsets: &[u32; 64], values: &[u64; 64]) {
    // SAFETY: `Dense::check` saw `(offset + 1) * 8 <= record.bytes` for the whole list, and `check`
    // saw `record.bytes <= region.len()` and the alignment.
    unsafe { scatter::plain_block(region, offsets, values) };
}

/// A plain site for each of as many values as there are offsets: of those whose bit is set in `which`. `offsets` as for
/// [`block`].
#[inline]
pub(super) fn one_each(
    _: Checked,
    region: &mut Region<'_>,
    offsets: &[u32],
    values: &[u64],
    mut which: u64,
) {
    if which.count_ones() as usize == offsets.len() {
        // SAFETY: as for `block`.
        unsafe { scatter::plain_each(region, offsets, values) };
        return;
    }
    while which != 0 {
        let i = which.trailing_zeros() as usize;
        which &= which - 1;
        if let (Some(offset), Some(&value)) = (offsets.get(i), values.get(i)) {
            // SAFETY: as for `block`.
            unsafe { scatter::plain(region, core::slice::from_ref(offset), value) };
        }
    }
}

/// A plain site for each of up to 64 values whose bit is set in `mask`, in order: of those whose bit is set in `which`, too.
/// `offsets` as for [`block`].
#[inline]
pub(super) fn masked(
    _: Checked,
    region: &mut Region<'_>,
    offsets: &[u32],
    values: &[u64],
    mask: u64,
    which: u64,
) {
    let mut left = which;
    let mut next = |offset: Option<&u32>| {
        let i = left.trailing_zeros();
        left &= left.wrapping_sub(1);
        if let (Some(offset), Some(&value)) = (offset, values.get(i as usize)) {
            // SAFETY: as for `block`.
            unsafe { scatter::plain(region, core::slice::from_ref(offset), value) };
        }
    };
    if which == mask {
        // Four at a time: the compiler does not unroll volatile stores by itself.
        let (fours, rest) = offsets.as_chunks();
        for [a, b, c, d] in fours {
            next(Some(a));
            next(Some(b));
            next(Some(c));
            next(Some(d));
        }
        rest.iter().for_each(|offset| next(Some(offset)));
        return;
    }
    let mut which = which;
    while which != 0 {
        next(offsets.get(rank(mask, which.trailing_zeros())));
        which &= which - 1;
    }
}

/// Plain sites of one variable. `offsets` as for [`block`].
#[inline]
pub(super) fn plain(_: Checked, region: &mut Region<'_>, offsets: &[u32], value: u64) {
    // SAFETY: as for `block`.
    unsafe { scatter::plain(region, offsets, value) }
}

/// The sites of one variable with a formula that stores 32 bits: the low half of `value`. `offsets` are of a list or run of
/// `region`, and have such a formula, in the table that was checked.
#[inline]
pub(super) fn word(_: Checked, region: &mut Region<'_>, offsets: &[u32], value: u64) {
    // SAFETY: as for `run`.
    unsafe { scatter::each(region, offsets, (value & 0xffff_ffff) as u32) };
}

/// The sites of one variable and formula. `offsets` are of a list or run of `region`, and `store` is its formula's, in the
/// table that was checked.
#[inline]
pub(super) fn run(_: Checked, region: &mut Region<'_>, offsets: &[u32], store: Store, value: u64) {
    match store {
        Store::Nothing => {}
        // SAFETY: `PatchTable::check_runs` or `check_lists` saw `offset + store.bytes() <= record.bytes` and
        // `offset % store.align() == 0` for the whole run or list, and `check` saw `record.bytes <= region.len()` and the region's alignment.
        Store::W8 => unsafe { scatter::each(region, offsets, (value & 0xff) as u8) },
        // SAFETY: as above.
        Store::W16 => unsafe { scatter::each(region, offsets, (value & 0xffff) as u16) },
        // SAFETY: as above.
        Store::W32 | Store::Low32 | Store::High32 => unsafe {
            scatter::each(region, offsets, (value & 0xffff_ffff) as u32);
        },
        // SAFETY: as above; 64 bits are stored as two halves, which need 4-byte alignment only.
        Store::W64 => unsafe { scatter::pairs(region, offsets, value) },
    }
}
