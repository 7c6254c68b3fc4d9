//! What a launch needs to know of a loaded kernel.

use hcq_nostd::args::{Arg, ArgKind, ArgLayout, ArgSlot};
use hcq_nostd::patch::PatchList;
use hcq_nostd::record::{Block, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use crate::local_memory::thread_bytes;
use crate::qmd::CONSTANT_BANKS;

/// Work-items of a group at most, on every chip.
pub const MAX_GROUP: u32 = 1024;
/// Work-items of a group in each dimension at most.
pub const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Work-groups of a launch in each dimension at most.
pub const MAX_GRID: [u32; 3] = [i32::MAX as u32, 0xffff, 0xffff];
/// Registers of a thread at most.
pub const MAX_REGISTERS: u32 = 255;
/// Barriers of a group at most.
pub const MAX_BARRIERS: u32 = 16;

/// A constant bank in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Bank {
    /// Device address. Bank 0's is the argument block's, and this one is not looked at.
    pub address: u64,
    /// Bytes, at most 64 KiB.
    pub bytes: u32,
}

/// Bytes of local memory of a thread, and where they are in its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Local {
    /// From address 0 up, as Mesa's compiler has it.
    Low(u32),
    /// From the window's end down, as a stack.
    High(u32),
}

impl Local {
    /// The bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Low(bytes) | Self::High(bytes) => bytes,
        }
    }
}

/// Bytes at the end of a thread's window that belong to the system, above the stack.
pub const STACK_RESERVED: u32 = 0x240;
/// Where a stack starts in local memory: at the end of 16 MiB, below what the system keeps.
pub const STACK_START: u32 = 0x100_0000 - STACK_RESERVED;

/// Who compiled a kernel: what it expects in constant bank 0 beside its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Origin {
    /// NVIDIA's compiler: sizes and windows in front of the arguments.
    Cuda,
    /// Mesa's: nothing.
    Nak,
}

/// A loaded kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Kernel {
    /// Device address of its first instruction, at a 16-byte boundary.
    pub entry: u64,
    /// Bytes of its code.
    pub code_bytes: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Barriers of a group.
    pub barriers: u32,
    /// Bytes of shared memory of a group, with what the system reserves.
    pub shared_bytes: u32,
    /// Local memory of a thread.
    pub local: Local,
    /// Its constant banks; `None` for those that it does not have.
    pub banks: [Option<Bank>; CONSTANT_BANKS],
    /// Byte offset of its arguments in bank 0.
    pub arguments_at: u32,
    /// Work-items of a group at most.
    pub max_group: u32,
    /// The one size of a group that it was compiled for.
    pub block: Option<[u32; 3]>,
    /// Who compiled it.
    pub origin: Origin,
}

/// A kernel that Mesa's NAK compiled: code without a container, with the numbers that the compiler hands out beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NakShader {
    /// Device address of its code, at a 128-byte boundary.
    pub entry: u64,
    /// Bytes of its code, `code_size`.
    pub code_bytes: u32,
    /// `num_gprs`.
    pub registers: u32,
    /// `num_control_barriers`.
    pub barriers: u32,
    /// `cs.smem_size`.
    pub shared_bytes: u32,
    /// `slm_size`.
    pub local_bytes: u32,
}

/// Bytes of bank 0 that a NAK kernel finds valid at least.
const NAK_BANK_0: u32 = 0x160;
/// What local memory of NAK kernels is rounded up to.
const NAK_LOCAL_UNIT: u32 = 16;

impl NakShader {
    /// The kernel. It takes its arguments at the start of bank 0.
    pub fn kernel(&self) -> Kernel {
        let mut banks = [None; CONSTANT_BANKS];
        let [bank_0, ..] = &mut banks;
        *bank_0 = Some(Bank {
            address: 0,
            bytes: NAK_BANK_0,
        });
        let local = self.local_bytes.checked_next_multiple_of(NAK_LOCAL_UNIT);
        Kernel {
            entry: self.entry,
            code_bytes: self.code_bytes,
            registers: self.registers,
            barriers: self.barriers,
            shared_bytes: self.shared_bytes,
            local: Local::Low(local.unwrap_or(u32::MAX)),
            banks,
            arguments_at: 0,
            max_group: MAX_GROUP,
            block: None,
            origin: Origin::Nak,
        }
    }
}

/// Registers of an SM, and what a warp's are rounded up to.
const REGISTERS_PER_SM: u32 = 65536;
const WARP_REGISTERS_UNIT: u32 = 256;
const WARP: u32 = 32;
/// Warps are spread over this many quarters of an SM.
const QUARTERS: u32 = 4;

impl Kernel {
    /// Work-items that have registers enough at once: warps of an SM, spread evenly over its quarters.
    pub const fn max_by_registers(&self) -> u32 {
        let registers = match self.registers {
            0 => 1,
            n if n > MAX_REGISTERS => MAX_REGISTERS,
            n => n,
        };
        let warp = (registers * WARP).next_multiple_of(WARP_REGISTERS_UNIT);
        match REGISTERS_PER_SM.checked_div(warp) {
            Some(warps) => warps / QUARTERS * QUARTERS * WARP,
            None => 0,
        }
    }

    /// Work-items of a group at most: by the kernel's own limit, its registers, and the hardware's.
    pub fn group_limit(&self) -> u32 {
        self.max_group.min(self.max_by_registers()).min(MAX_GROUP)
    }

    /// Bytes of local memory of a thread, rounded up as the memory is; `None` for more than a thread can reach.
    pub const fn thread_bytes(&self) -> Option<u32> {
        thread_bytes(self.local.bytes())
    }
}

/// Groups and work-items per group, if all are known and [`check_sizes`] would find nothing wrong with them. `limit` is the
/// kernel's [`group_limit`](Kernel::group_limit).
#[inline]
pub(crate) fn sound_sizes(
    kernel: &Kernel,
    limit: u32,
    groups: &[Value; 3],
    local: &[Value; 3],
) -> Option<[[u32; 3]; 2]> {
    /// From 1 up to what there may be.
    const fn within(value: u64, most: u32) -> bool {
        value.wrapping_sub(1) < most as u64
    }
    let ([gx, gy, gz], [x, y, z]) = (groups, local);
    let (Value::Imm(gx), Value::Imm(gy), Value::Imm(gz)) = (*gx, *gy, *gz) else {
        return None;
    };
    let (Value::Imm(x), Value::Imm(y), Value::Imm(z)) = (*x, *y, *z) else {
        return None;
    };
    let ([most_gx, most_gy, most_gz], [most_x, most_y, most_z]) = (MAX_GRID, MAX_BLOCK);
    let sound = within(gx, most_gx)
        && within(gy, most_gy)
        && within(gz, most_gz)
        && within(x, most_x)
        && within(y, most_y)
        && within(z, most_z)
        // Far below 2^64 by the limits above.
        && x * y * z <= u64::from(limit);
    // All are below 2^31.
    let (groups, local) = ([gx, gy, gz].map(|n| n as u32), [x, y, z].map(|n| n as u32));
    let asked = kernel.block.is_none_or(|block| block == local);
    (sound && asked).then_some([groups, local])
}

/// Refuses groups and grids that are too large, as far as they are known now; what is not is checked at launch.
#[cold]
pub(crate) fn check_sizes(
    kernel: &Kernel,
    list: &mut PatchList<'_>,
    groups: &[Value; 3],
    local: &[Value; 3],
) -> Result<(), RecordError> {
    for (d, (value, most)) in (0u8..).zip(groups.iter().zip(MAX_GRID)) {
        check_size(list, *value, most, Operand::Groups(d))?;
    }
    for (d, (value, most)) in (0u8..).zip(local.iter().zip(MAX_BLOCK)) {
        check_size(list, *value, most, Operand::Local(d))?;
    }
    if let Some(block) = kernel.block {
        for (d, (value, want)) in (0u8..).zip(local.iter().zip(block)) {
            let operand = Operand::Local(d);
            match value.imm() {
                Some(v) if v == u64::from(want) => {}
                Some(_) => return Err(RecordError::Unsupported { operand }),
                None => return Err(RecordError::NotConstant { operand }),
            }
        }
    }
    let [x, y, z] = *local;
    let max = u64::from(kernel.group_limit());
    let xy = list.product(x, y)?;
    let all = list.product(xy, z)?;
    match all {
        Value::Imm(value) if value > max => Err(RecordError::Limit {
            operand: Operand::Local(3),
            value,
            max,
        }),
        Value::Imm(_) => Ok(()),
        Value::Var(_) => {
            let misfit = |misfit| RecordError::Misfit {
                operand: Operand::Local(3),
                misfit,
            };
            list.require(all, Fit::at_most(max)).map_err(misfit)
        }
    }
}

/// A size that is known: at least 1, and at most this.
#[inline]
fn check_size(
    list: &mut PatchList<'_>,
    value: Value,
    most: u32,
    operand: Operand,
) -> Result<(), RecordError> {
    let most = u64::from(most);
    match value {
        Value::Imm(value) if value > most => Err(RecordError::Limit {
            operand,
            value,
            max: most,
        }),
        _ => {
            let fit = Fit {
                most,
                ..Fit::count(32)
            };
            // A variable's field says the same, where it is wide enough to.
            match value {
                Value::Imm(_) => list
                    .require(value, fit)
                    .map_err(|misfit| RecordError::Misfit { operand, misfit }),
                Value::Var(_) => Ok(()),
            }
        }
    }
}

/// What [`write_arguments`] does with what is nearly always given: addresses and numbers of 32 bits that are known. `false` if
/// there is another one, or anything is wrong.
#[inline]
pub(crate) fn write_known(
    layout: &ArgLayout<'_>,
    args: &[Arg<'_>],
    block: &mut Block<'_, '_>,
) -> bool {
    let mut each = args.iter().zip(layout.slots);
    args.len() == layout.slots.len()
        && each.all(|(arg, slot)| {
            let at = slot.offset as usize;
            let written = match *arg {
                Arg::Buffer(Value::Imm(v)) if slot.size == 8 => block.write(at, &v.to_le_bytes()),
                Arg::Scalar {
                    value: Value::Imm(v),
                    size: 4,
                } if slot.size == 4 && v <= u32::MAX.into() => {
                    block.write(at, &(v as u32).to_le_bytes())
                }
                _ => return false,
            };
            written.is_ok()
        })
}

/// Checks and writes arguments. What a kernel's file says of an argument is its size: a number of 8 bytes and an address
/// are one to it.
pub(crate) fn write_arguments(
    layout: &ArgLayout<'_>,
    args: &[Arg<'_>],
    block: &mut Block<'_, '_>,
    list: &mut PatchList<'_>,
) -> Result<(), RecordError> {
    if args.len() != layout.slots.len() {
        return Err(RecordError::ArgumentCount {
            need: layout.slots.len(),
            have: args.len(),
        });
    }
    for (index, (arg, slot)) in args.iter().zip(layout.slots).enumerate() {
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        let kind = match arg {
            Arg::Buffer(_) => ArgKind::Buffer,
            Arg::Scalar { .. } => ArgKind::Scalar,
            _ => ArgKind::Bytes,
        };
        let slots = [ArgSlot { kind, ..*slot }];
        let one = ArgLayout {
            slots: &slots,
            ..*layout
        };
        let written = one.write(core::slice::from_ref(arg), block, list);
        written.map_err(|e| of_argument(e, index))?;
    }
    Ok(())
}

/// An error of a layout with one argument, which is number `index` of the launch.
fn of_argument(error: RecordError, index: u16) -> RecordError {
    match error {
        RecordError::ArgumentKind { .. } => RecordError::ArgumentKind { index },
        RecordError::Misfit { misfit, .. } => RecordError::Misfit {
            operand: Operand::Argument(index),
            misfit,
        },
        other => other,
    }
}

#[cfg(test)]
mod tests;
