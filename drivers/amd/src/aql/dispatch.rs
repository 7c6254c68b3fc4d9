//! The kernel dispatch packet, `hsa_kernel_dispatch_packet_t`.

use hcq_nostd::patch::{Formula, PatchList, Store};
use hcq_nostd::record::{Block, Operand, RecordError};
use hcq_nostd::value::{Fit, Value, Var};

use super::PACKET_WORDS;
use super::header::{Header, Kind};
use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};
use crate::pm4::program::KERNARG_FIT;
use crate::pm4::{join, split};

/// Alignment of a packet that a kernel reads: its widest field's.
pub(crate) const READ_ALIGN: usize = 8;

/// Byte offsets in the packet.
mod at {
    pub(super) const WORKGROUP_SIZE: usize = 4;
    pub(super) const GRID_SIZE: usize = 12;
    pub(super) const PRIVATE_SEGMENT_SIZE: usize = 24;
    pub(super) const GROUP_SEGMENT_SIZE: usize = 28;
    pub(super) const KERNEL_OBJECT: usize = 32;
    pub(super) const KERNARG_ADDRESS: usize = 40;
}

/// setup, in the upper half of the first word: three dimensions.
const THREE_DIMENSIONS: u32 = 3 << 16;

/// What a launch decides of a packet, and its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct KernelDispatch {
    /// Barrier bit and fences.
    pub header: Header,
    /// workgroup_size_x, y, z: work-items, each at least 1.
    pub workgroup_size: [u16; 3],
    /// grid_size_x, y, z: work-items, each at least 1.
    pub grid_size: [u32; 3],
    /// private_segment_size: bytes per work-item.
    pub private_segment_size: u32,
    /// group_segment_size: bytes per work-group.
    pub group_segment_size: u32,
    /// kernel_object: the descriptor's address, at a 64-byte boundary.
    pub kernel_object: u64,
    /// kernarg_address, at a 16-byte boundary.
    pub kernarg_address: u64,
    /// completion_signal: decremented when it is complete; zero for none.
    pub completion_signal: u64,
}

impl KernelDispatch {
    /// The packet. Its type is kernel dispatch whatever the header says, and it has three dimensions.
    pub fn words(&self) -> [u32; PACKET_WORDS] {
        let header = Header {
            kind: Kind::KernelDispatch,
            ..self.header
        };
        let [x, y, z] = self.workgroup_size.map(u32::from);
        let [grid_x, grid_y, grid_z] = self.grid_size;
        let [object, object_hi] = split(self.kernel_object);
        let [kernarg, kernarg_hi] = split(self.kernarg_address);
        let [completion, completion_hi] = split(self.completion_signal);
        [
            header.bits() | THREE_DIMENSIONS,
            x | y << 16,
            z,
            grid_x,
            grid_y,
            grid_z,
            self.private_segment_size,
            self.group_segment_size,
            object,
            object_hi,
            kernarg,
            kernarg_hi,
            0,
            0,
            completion,
            completion_hi,
        ]
    }

    /// The packet in these words.
    ///
    /// # Errors
    /// [`Malformed`], also for sizes of zero and misaligned addresses.
    pub fn decode(words: &[u32; PACKET_WORDS]) -> Result<Self, Malformed> {
        let &[
            first,
            xy,
            z,
            gx,
            gy,
            gz,
            private,
            group,
            o,
            o_hi,
            k,
            k_hi,
            r0,
            r1,
            s,
            s_hi,
        ] = words;
        let header = Header::decode(first)?;
        if header.kind != Kind::KernelDispatch || first >> 16 != THREE_DIMENSIONS >> 16 {
            return Err(Malformed::Header { word: first });
        }
        only(2, z, 0xffff)?;
        let [x0, x1, y0, y1] = xy.to_le_bytes();
        let [z0, z1, ..] = z.to_le_bytes();
        let workgroup_size = [[x0, x1], [y0, y1], [z0, z1]].map(u16::from_le_bytes);
        for (word, value, zero) in [
            (1, xy, workgroup_size.iter().take(2).any(|n| *n == 0)),
            (2, z, z == 0),
            (3, gx, gx == 0),
            (4, gy, gy == 0),
            (5, gz, gz == 0),
        ] {
            if zero {
                return Err(Malformed::Reserved { word, value });
            }
        }
        only(8, o, !0x3f)?;
        only(10, k, !0xf)?;
        only(12, r0, 0)?;
        only(13, r1, 0)?;
        Ok(Self {
            header,
            workgroup_size,
            grid_size: [gx, gy, gz],
            private_segment_size: private,
            group_segment_size: group,
            kernel_object: join(o, o_hi),
            kernarg_address: join(k, k_hi),
            completion_signal: join(s, s_hi),
        })
    }
}

impl core::fmt::Display for KernelDispatch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let ([x, y, z], [gx, gy, gz]) = (self.workgroup_size, self.grid_size);
        write!(
            f,
            "{} workgroup_size={x},{y},{z} grid_size={gx},{gy},{gz}",
            self.header
        )?;
        let (private, group) = (self.private_segment_size, self.group_segment_size);
        write!(
            f,
            " private_segment_size={private:#x} group_segment_size={group:#x}"
        )?;
        let (object, kernarg) = (self.kernel_object, self.kernarg_address);
        write!(f, " kernel_object={object:#x} kernarg_address={kernarg:#x}")?;
        if self.completion_signal != 0 {
            write!(f, " completion_signal={:#x}", self.completion_signal)?;
        }
        Ok(())
    }
}

/// The packet of a template with all that a launch decides, if that is known now. `None` for a grid of too many items.
#[inline]
pub(crate) fn filled(
    template: &[u32; PACKET_WORDS],
    [groups_x, groups_y, groups_z]: [u32; 3],
    [x, y, z]: [u32; 3],
    group_segment_size: u32,
    kernarg_address: u64,
) -> Option<[u32; PACKET_WORDS]> {
    let mut words = *template;
    let [_, xy, z_, gx, gy, gz, _, group, _, _, low, high, ..] = &mut words;
    (*xy, *z_) = (x | y << 16, z);
    *gx = groups_x.checked_mul(x)?;
    *gy = groups_y.checked_mul(y)?;
    *gz = groups_z.checked_mul(z)?;
    *group = group_segment_size;
    [*low, *high] = split(kernarg_address);
    Some(words)
}

/// What a launch writes into a packet in memory; the rest is its template's.
pub(crate) struct LaunchFields {
    pub(crate) groups: [Value; 3],
    pub(crate) local: [Value; 3],
    pub(crate) group_segment_size: u64,
    pub(crate) kernarg_address: Value,
}

fn count(store: Store) -> Formula {
    Formula {
        fit: Fit::count(store.bytes() as u8 * 8),
        ..Formula::narrow(Var::new(0), store)
    }
}

impl LaunchFields {
    /// Writes the fields to the packet at `packet` of a block. The grid is in work-items: a product of two variables is a
    /// derived variable.
    ///
    /// # Errors
    /// [`RecordError`] for a size of zero or one that does not fit its field.
    pub(crate) fn record(
        &self,
        list: &mut PatchList<'_>,
        block: &mut Block<'_, '_>,
        packet: usize,
    ) -> Result<(), RecordError> {
        for (d, (groups, local)) in (0u8..).zip(self.groups.into_iter().zip(self.local)) {
            let dimension = usize::from(d);
            let place = packet + at::WORKGROUP_SIZE + 2 * dimension;
            block.value(list, place, local, &count(Store::W16), Operand::Local(d))?;
            if let (Some(g), Some(l)) = (groups.imm(), local.imm())
                && g.checked_mul(l).is_none()
            {
                // The product below is modulo 2^64.
                let max = u32::MAX.into();
                return Err(RecordError::Limit {
                    operand: Operand::Groups(d),
                    value: g,
                    max,
                });
            }
            let grid = list.product(groups, local)?;
            let place = packet + at::GRID_SIZE + 4 * dimension;
            block.value(list, place, grid, &count(Store::W32), Operand::Groups(d))?;
        }
        block.whole(
            list,
            packet + at::GROUP_SEGMENT_SIZE,
            self.group_segment_size.into(),
            Store::W32,
            Operand::LocalMemory,
        )?;
        block.value(
            list,
            packet + at::KERNARG_ADDRESS,
            self.kernarg_address,
            &Formula {
                fit: KERNARG_FIT,
                ..Formula::whole(Var::new(0))
            },
            Operand::Kernargs,
        )
    }
}

/// The kernel's descriptor, if where it is is known at launch only.
pub(crate) fn record_object(
    list: &mut PatchList<'_>,
    block: &mut Block<'_, '_>,
    object: Value,
) -> Result<(), RecordError> {
    let whole = Formula {
        fit: Fit::aligned(ADDRESS_BITS, 6),
        ..Formula::whole(Var::new(0))
    };
    block.value(list, at::KERNEL_OBJECT, object, &whole, Operand::Program)
}

/// The first word and the private segment's size of a packet that only a kernel reads, through its dispatch pointer.
pub(crate) fn record_for_reading(
    list: &mut PatchList<'_>,
    block: &mut Block<'_, '_>,
    packet: usize,
    private_segment_size: u32,
) -> Result<(), RecordError> {
    let first = Kind::KernelDispatch as u32 | THREE_DIMENSIONS;
    block.whole(list, packet, first.into(), Store::W32, Operand::Kernargs)?;
    let (at, private) = (
        packet + at::PRIVATE_SEGMENT_SIZE,
        private_segment_size.into(),
    );
    block.whole(list, at, private, Store::W32, Operand::Program)
}
