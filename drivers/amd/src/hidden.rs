//! Hidden arguments: what the compiler adds behind a kernel's own, and a launch fills in.
//!
//! Names are the values of `.value_kind` in the metadata of code objects (`AMDGPUUsage`). What needs a host service
//! (`printf`, host calls, device-side queues) finds a null pointer.

use hcq_nostd::patch::{Formula, PatchList, Store};
use hcq_nostd::record::{Block, Operand, RecordError};
use hcq_nostd::value::{Fit, Value, Var};

/// What a hidden argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum HiddenKind {
    /// `hidden_global_offset_x`, `y`, `z`: 8 bytes; zero.
    GlobalOffset(u8),
    /// `hidden_block_count_x`, `y`, `z`: 4 bytes; whole work-groups.
    BlockCount(u8),
    /// `hidden_group_size_x`, `y`, `z`: 2 bytes; work-items per group.
    GroupSize(u8),
    /// `hidden_remainder_x`, `y`, `z`: 2 bytes; work-items in the last group if it is smaller. Launches have whole groups
    /// only: zero.
    Remainder(u8),
    /// `hidden_grid_dims`: 2 bytes; three.
    GridDims,
    /// `hidden_dynamic_lds_size`: 4 bytes; group-local memory beyond what the kernel declares.
    DynamicLdsSize,
    /// `hidden_private_base`: 4 bytes; the upper half of the private aperture's address.
    PrivateBase,
    /// `hidden_shared_base`: 4 bytes; the upper half of the shared aperture's address.
    SharedBase,
    /// `hidden_queue_ptr`: 8 bytes; the address of the queue's `amd_queue_t`.
    QueuePtr,
    /// A host service that is not there, or nothing: zero. `hidden_none`, `hidden_printf_buffer`,
    /// `hidden_hostcall_buffer`, `hidden_default_queue`, `hidden_completion_action`, `hidden_multigrid_sync_arg`,
    /// `hidden_heap_v1`.
    Null,
}

impl HiddenKind {
    /// The kind of this name, and its bytes; `None` if it is no hidden argument known here.
    pub fn named(name: &str) -> Option<(Self, u32)> {
        // As bytes: splitting text can panic as far as the compiler knows.
        if let [prefix @ .., b'_', dimension @ b'x'..=b'z'] = name.as_bytes() {
            let d = dimension - b'x';
            match prefix {
                b"hidden_global_offset" => return Some((Self::GlobalOffset(d), 8)),
                b"hidden_block_count" => return Some((Self::BlockCount(d), 4)),
                b"hidden_group_size" => return Some((Self::GroupSize(d), 2)),
                b"hidden_remainder" => return Some((Self::Remainder(d), 2)),
                _ => {}
            }
        }
        Some(match name {
            "hidden_grid_dims" => (Self::GridDims, 2),
            "hidden_dynamic_lds_size" => (Self::DynamicLdsSize, 4),
            "hidden_private_base" => (Self::PrivateBase, 4),
            "hidden_shared_base" => (Self::SharedBase, 4),
            "hidden_queue_ptr" => (Self::QueuePtr, 8),
            "hidden_none"
            | "hidden_printf_buffer"
            | "hidden_hostcall_buffer"
            | "hidden_default_queue"
            | "hidden_completion_action"
            | "hidden_multigrid_sync_arg"
            | "hidden_heap_v1" => (Self::Null, 8),
            _ => return None,
        })
    }
}

/// A hidden argument's place in the argument block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct HiddenSlot {
    /// What it is.
    pub kind: HiddenKind,
    /// Byte offset.
    pub offset: u32,
    /// Bytes: 1, 2, 4 or 8.
    pub size: u8,
}

impl HiddenSlot {
    /// Fills the memory for slots before use.
    pub const EMPTY: Self = Self {
        kind: HiddenKind::Null,
        offset: 0,
        size: 8,
    };
}

/// What hidden arguments are filled with beside a launch's sizes: upper halves of the apertures' addresses, 32 bits each, and
/// the queue's `amd_queue_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Apertures {
    /// Upper half of the private aperture's address.
    pub private_base_hi: Value,
    /// Upper half of the shared aperture's address.
    pub shared_base_hi: Value,
    /// Device address of `amd_queue_t`; zero for a queue without.
    pub queue: Value,
}

impl Apertures {
    /// No apertures, and no `amd_queue_t`.
    pub const NONE: Self = Self {
        private_base_hi: Value::Imm(0),
        shared_base_hi: Value::Imm(0),
        queue: Value::Imm(0),
    };
}

impl Default for Apertures {
    fn default() -> Self {
        Self::NONE
    }
}

/// Dimensions of every launch, as dispatch packets say them too: which ones are in use is not known before launch.
const DIMENSIONS: u32 = 3;

/// Writes hidden arguments; variables become patch sites.
pub(crate) fn write(
    slots: &[HiddenSlot],
    list: &mut PatchList<'_>,
    block: &mut Block<'_, '_>,
    (groups, local): (&[Value; 3], &[Value; 3]),
    local_memory: u32,
    apertures: &Apertures,
) -> Result<(), RecordError> {
    let of =
        |sizes: &[Value; 3], d: u8| sizes.get(usize::from(d)).copied().unwrap_or(Value::Imm(0));
    for slot in slots {
        let (value, operand) = match slot.kind {
            HiddenKind::BlockCount(d) => (of(groups, d), Operand::Groups(d)),
            HiddenKind::GroupSize(d) => (of(local, d), Operand::Local(d)),
            HiddenKind::GridDims => (DIMENSIONS.into(), Operand::Kernargs),
            HiddenKind::DynamicLdsSize => (local_memory.into(), Operand::LocalMemory),
            HiddenKind::PrivateBase => (apertures.private_base_hi, Operand::Kernargs),
            HiddenKind::SharedBase => (apertures.shared_base_hi, Operand::Kernargs),
            HiddenKind::QueuePtr => (apertures.queue, Operand::Kernargs),
            HiddenKind::GlobalOffset(_) | HiddenKind::Remainder(_) | HiddenKind::Null => {
                (Value::Imm(0), Operand::Kernargs)
            }
        };
        let store = match slot.size {
            1 => Store::W8,
            2 => Store::W16,
            4 => Store::W32,
            _ => Store::W64,
        };
        let formula = match slot.kind {
            HiddenKind::BlockCount(_) | HiddenKind::GroupSize(_) => Formula {
                fit: Fit::count(store.bytes() as u8 * 8),
                ..Formula::narrow(Var::new(0), store)
            },
            _ => Formula::narrow(Var::new(0), store),
        };
        block.value(list, slot.offset as usize, value, &formula, operand)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
