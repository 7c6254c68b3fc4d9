//! What a launch needs to know of a loaded kernel.

use hcq_nostd::args::ArgLayout;
use hcq_nostd::record::{Operand, RecordError};
use hcq_nostd::value::Value;

use crate::chips::Lds;
use crate::hidden::HiddenSlot;

bitflags::bitflags! {
    /// `kernel_code_properties`: which registers a wave finds filled in, and its width.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Properties: u16 {
        /// ENABLE_SGPR_PRIVATE_SEGMENT_BUFFER: 4 registers.
        const PRIVATE_SEGMENT_BUFFER = 1;
        /// ENABLE_SGPR_DISPATCH_PTR: 2 registers.
        const DISPATCH_PTR = 1 << 1;
        /// ENABLE_SGPR_QUEUE_PTR: 2 registers.
        const QUEUE_PTR = 1 << 2;
        /// ENABLE_SGPR_KERNARG_SEGMENT_PTR: 2 registers.
        const KERNARG_SEGMENT_PTR = 1 << 3;
        /// ENABLE_SGPR_DISPATCH_ID: 2 registers.
        const DISPATCH_ID = 1 << 4;
        /// ENABLE_SGPR_FLAT_SCRATCH_INIT: 2 registers.
        const FLAT_SCRATCH_INIT = 1 << 5;
        /// ENABLE_SGPR_PRIVATE_SEGMENT_SIZE: 1 register.
        const PRIVATE_SEGMENT_SIZE = 1 << 6;
        /// ENABLE_WAVEFRONT_SIZE32.
        const WAVEFRONT_SIZE32 = 1 << 10;
        /// USES_DYNAMIC_STACK: `private_bytes` is not all that it may use.
        const USES_DYNAMIC_STACK = 1 << 11;
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Properties {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "Properties({=u16:#x})", self.bits());
    }
}

/// Registers in front of which a launch puts what the properties ask for: COMPUTE_PGM_RSRC2.USER_SGPR, 5:1.
pub(crate) const fn user_sgprs(rsrc2: u32) -> u32 {
    rsrc2 >> 1 & 0x1f
}

/// COMPUTE_PGM_RSRC2.LDS_SIZE, 23:15, in granules.
pub(crate) const LDS_SIZE_SHIFT: u32 = 15;
/// Its mask, in place.
pub(crate) const LDS_SIZE: u32 = 0x1ff << LDS_SIZE_SHIFT;

/// Work-items of a work-group at most, on every chip.
pub const MAX_GROUP: u32 = 1024;

/// A loaded kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Kernel {
    /// Device address of its first instruction, at a 256-byte boundary below 2^48.
    pub entry: u64,
    /// Device address of its descriptor, for AQL.
    pub object: u64,
    /// COMPUTE_PGM_RSRC1, 2 and 3, LDS_SIZE filled in.
    pub rsrc: [u32; 3],
    /// Which registers it finds filled in.
    pub properties: Properties,
    /// Bytes of group-local memory that it declares.
    pub group_bytes: u32,
    /// Bytes of scratch memory per work-item.
    pub private_bytes: u32,
    /// Bytes of its argument block.
    pub kernarg_bytes: u32,
    /// Work-items of a work-group at most.
    pub max_group: u32,
}

/// A kernel's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arguments<'p> {
    /// Those that a launch gives.
    pub layout: ArgLayout<'p>,
    /// Those that this driver fills in.
    pub hidden: &'p [HiddenSlot],
}

/// LDS_SIZE for `bytes` bytes, in place.
pub(crate) fn lds_size(lds: Lds, bytes: u64) -> Result<u32, RecordError> {
    let limit = RecordError::Limit {
        operand: Operand::LocalMemory,
        value: bytes,
        max: lds.bytes.into(),
    };
    let known = u32::try_from(bytes)
        .ok()
        .filter(|&b| b <= lds.bytes)
        .ok_or(limit)?;
    let granules = known.div_ceil(lds.granule.max(1));
    if granules > LDS_SIZE >> LDS_SIZE_SHIFT {
        return Err(limit);
    }
    Ok(granules << LDS_SIZE_SHIFT)
}

/// Refuses work-groups that are too large, as far as their sizes are known now.
#[inline]
pub(crate) fn check_local(local: &[Value; 3], max: u32) -> Result<(), RecordError> {
    let known = local
        .iter()
        .filter_map(|v| v.imm())
        .fold(1u64, u64::saturating_mul);
    if known > max.into() {
        return Err(RecordError::Limit {
            operand: Operand::Local(3),
            value: known,
            max: max.into(),
        });
    }
    Ok(())
}

/// Groups and work-items per group that are all known now and that every field holds.
#[inline]
pub(crate) fn known_sizes(
    groups: &[Value; 3],
    local: &[Value; 3],
    max_group: u32,
) -> Option<([u32; 3], [u32; 3])> {
    let (
        [Value::Imm(gx), Value::Imm(gy), Value::Imm(gz)],
        [Value::Imm(lx), Value::Imm(ly), Value::Imm(lz)],
    ) = (groups, local)
    else {
        return None;
    };
    // A product of zero has a zero in it, or is too large for what is done here; the others are checked above.
    let narrow = (gx | gy | gz) >> 32 == 0 && (lx | ly | lz) >> 16 == 0;
    let grid = gx.wrapping_mul(*gy).wrapping_mul(*gz);
    let group = lx.wrapping_mul(*ly).wrapping_mul(*lz);
    let fits = narrow && grid != 0 && group.wrapping_sub(1) < max_group.into();
    fits.then_some((
        [*gx as u32, *gy as u32, *gz as u32],
        [*lx as u32, *ly as u32, *lz as u32],
    ))
}

#[cfg(test)]
mod tests;
