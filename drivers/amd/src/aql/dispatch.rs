//! The kernel dispatch packet, `hsa_kernel_dispatch_packet_t`.

use hcq_nostd::patch::{Formula, PatchList, Store};
use hcq_nostd::record::{Block, Operand, RecordError};
use hcq_nostd::value::{Fit, Value, Var};

/// Bytes of a packet.
pub const PACKET_BYTES: usize = 64;
/// Its alignment where a kernel reads it: its widest field's.
pub(crate) const READ_ALIGN: usize = 8;

/// Byte offsets in the packet.
pub(crate) mod at {
    pub(crate) const WORKGROUP_SIZE: usize = 4;
    pub(crate) const GRID_SIZE: usize = 12;
    pub(crate) const PRIVATE_SEGMENT_SIZE: usize = 24;
    pub(crate) const GROUP_SEGMENT_SIZE: usize = 28;
    pub(crate) const KERNARG_ADDRESS: usize = 40;
}

/// Header type 7:0.
pub(crate) const TYPE_KERNEL_DISPATCH: u32 = 2;
/// setup 1:0, in the upper half of the first word: three dimensions.
pub(crate) const THREE_DIMENSIONS: u32 = 3 << 16;

fn count(store: Store) -> Formula {
    let bits = store.bytes() as u8 * 8;
    Formula {
        fit: Fit::count(bits),
        ..Formula::narrow(Var::new(0), store)
    }
}

/// Writes work-group and grid sizes. The grid is in work-items; a product of two variables is a derived variable.
///
/// # Errors
/// [`RecordError`] for a size of zero or one that does not fit its field.
pub(crate) fn write_sizes(
    list: &mut PatchList<'_>,
    block: &mut Block<'_, '_>,
    packet: usize,
    groups: [Value; 3],
    local: [Value; 3],
) -> Result<(), RecordError> {
    for (d, (groups, local)) in (0u8..).zip(groups.into_iter().zip(local)) {
        let dimension = usize::from(d);
        let place = packet + at::WORKGROUP_SIZE + 2 * dimension;
        block.value(list, place, local, &count(Store::W16), Operand::Local(d))?;
        let grid = list.product(groups, local)?;
        if let (Some(g), Some(l), Some(0)) =
            (groups.imm(), local.imm(), grid.imm().map(|g| g >> 32))
        {
            // The product above is modulo 2^64.
            if g.checked_mul(l).is_none() {
                return Err(RecordError::Limit {
                    operand: Operand::Groups(d),
                    value: g,
                    max: u32::MAX.into(),
                });
            }
        }
        let place = packet + at::GRID_SIZE + 4 * dimension;
        block.value(list, place, grid, &count(Store::W32), Operand::Groups(d))?;
    }
    Ok(())
}
