//! Registers that a queue may set, with the bits that they have.
//!
//! Addresses are the `reg*` offsets of `gc_9_4_3_offset.h`, `gc_11_0_0_offset.h`, `gc_11_5_0_offset.h` and
//! `gc_12_0_0_offset.h` plus the base of their segment (GC segment 0: 0x2000 on gfx9.4, 0x1260 from gfx11 on; segment 1:
//! 0xA000), in dwords. Bits are the `*_MASK` of the `*_sh_mask.h` beside them. Registers that belong to the command processor
//! or to the kernel (`COMPUTE_VMID`, `COMPUTE_DIM_*`, `COMPUTE_RELAUNCH`, ...) are left out: a queue that sets them is stopped.

use super::Cause;
use super::chip::Chip;

/// First register of `SET_SH_REG` (`PACKET3_SET_SH_REG_START`).
pub(super) const SH_START: u32 = 0x2C00;
/// First register after those (`PACKET3_SET_SH_REG_END`).
pub(super) const SH_END: u32 = 0x3000;
/// First register of `SET_UCONFIG_REG` (`PACKET3_SET_UCONFIG_REG_START`).
pub(super) const UCONFIG_START: u32 = 0xC000;
/// The packet's offset has 16 bits.
pub(super) const UCONFIG_END: u32 = UCONFIG_START + 0x1_0000;

/// A register.
#[derive(Debug)]
pub(super) struct Register {
    /// Dword address.
    pub(super) address: u32,
    /// Name in the header, without `reg`.
    pub(super) name: &'static str,
    /// Bits that exist.
    pub(super) mask: u32,
}

/// Registers of a packet's space: what chips have alike, and a generation's own.
pub(super) type Table = [&'static [Register]; 2];

const fn reg(address: u32, name: &'static str, mask: u32) -> Register {
    Register {
        address,
        name,
        mask,
    }
}

pub(super) const START_X: u32 = 0x2E04;
pub(super) const NUM_THREAD_X: u32 = 0x2E07;
pub(super) const PGM_LO: u32 = 0x2E0C;
pub(super) const PGM_HI: u32 = 0x2E0D;
pub(super) const SCRATCH_BASE_LO: u32 = 0x2E10;
pub(super) const SCRATCH_BASE_HI: u32 = 0x2E11;
pub(super) const RSRC1: u32 = 0x2E12;
pub(super) const RSRC2: u32 = 0x2E13;
pub(super) const TMPRING_SIZE: u32 = 0x2E18;
pub(super) const RESTART_X: u32 = 0x2E1B;
pub(super) const USER_DATA_0: u32 = 0x2E40;
/// User registers of a queue.
pub(super) const USER_DATA: u32 = 16;

const ALL: u32 = u32::MAX;

/// What all generations have alike.
const COMMON: &[Register] = &[
    reg(0x2E04, "COMPUTE_START_X", ALL),
    reg(0x2E05, "COMPUTE_START_Y", ALL),
    reg(0x2E06, "COMPUTE_START_Z", ALL),
    reg(0x2E07, "COMPUTE_NUM_THREAD_X", ALL),
    reg(0x2E08, "COMPUTE_NUM_THREAD_Y", ALL),
    reg(0x2E09, "COMPUTE_NUM_THREAD_Z", ALL),
    reg(0x2E0A, "COMPUTE_PIPELINESTAT_ENABLE", 1),
    reg(0x2E0B, "COMPUTE_PERFCOUNT_ENABLE", 1),
    reg(0x2E0C, "COMPUTE_PGM_LO", ALL),
    reg(0x2E0D, "COMPUTE_PGM_HI", 0xFF),
    reg(0x2E0E, "COMPUTE_DISPATCH_PKT_ADDR_LO", ALL),
    reg(0x2E0F, "COMPUTE_DISPATCH_PKT_ADDR_HI", 0xFF),
    reg(0x2E10, "COMPUTE_DISPATCH_SCRATCH_BASE_LO", ALL),
    reg(0x2E11, "COMPUTE_DISPATCH_SCRATCH_BASE_HI", 0xFF),
    reg(0x2E1B, "COMPUTE_RESTART_X", ALL),
    reg(0x2E1C, "COMPUTE_RESTART_Y", ALL),
    reg(0x2E1D, "COMPUTE_RESTART_Z", ALL),
    reg(0x2E1E, "COMPUTE_THREAD_TRACE_ENABLE", 1),
    reg(0x2E40, "COMPUTE_USER_DATA_0", ALL),
    reg(0x2E41, "COMPUTE_USER_DATA_1", ALL),
    reg(0x2E42, "COMPUTE_USER_DATA_2", ALL),
    reg(0x2E43, "COMPUTE_USER_DATA_3", ALL),
    reg(0x2E44, "COMPUTE_USER_DATA_4", ALL),
    reg(0x2E45, "COMPUTE_USER_DATA_5", ALL),
    reg(0x2E46, "COMPUTE_USER_DATA_6", ALL),
    reg(0x2E47, "COMPUTE_USER_DATA_7", ALL),
    reg(0x2E48, "COMPUTE_USER_DATA_8", ALL),
    reg(0x2E49, "COMPUTE_USER_DATA_9", ALL),
    reg(0x2E4A, "COMPUTE_USER_DATA_10", ALL),
    reg(0x2E4B, "COMPUTE_USER_DATA_11", ALL),
    reg(0x2E4C, "COMPUTE_USER_DATA_12", ALL),
    reg(0x2E4D, "COMPUTE_USER_DATA_13", ALL),
    reg(0x2E4E, "COMPUTE_USER_DATA_14", ALL),
    reg(0x2E4F, "COMPUTE_USER_DATA_15", ALL),
];

/// gfx9.4.3. There is no header of gfx9.5.0; these registers are where gfx9.4.3 has them.
pub(super) const GFX9: Table = [
    COMMON,
    &[
        reg(0x2E12, "COMPUTE_PGM_RSRC1", 0x07FF_FFFF),
        reg(0x2E13, "COMPUTE_PGM_RSRC2", 0xFFFF_FFFF),
        reg(0x2E15, "COMPUTE_RESOURCE_LIMITS", 0x7FFF_F3FF),
        reg(0x2E18, "COMPUTE_TMPRING_SIZE", 0x01FF_FFFF),
        reg(0x2E2D, "COMPUTE_PGM_RSRC3", 0x0001_0C3F),
    ],
];

/// gfx11 and gfx11.5.
pub(super) const GFX11: Table = [
    COMMON,
    &[
        reg(0x2E12, "COMPUTE_PGM_RSRC1", 0xE5BF_FFFF),
        reg(0x2E13, "COMPUTE_PGM_RSRC2", 0x7FFF_FFFF),
        reg(0x2E15, "COMPUTE_RESOURCE_LIMITS", 0x07FF_F3FF),
        reg(0x2E18, "COMPUTE_TMPRING_SIZE", 0x07FF_FFFF),
        reg(0x2E28, "COMPUTE_PGM_RSRC3", 0x8000_0FFF),
        reg(0x2E2A, "COMPUTE_SHADER_CHKSUM", ALL),
    ],
];

/// gfx12.
pub(super) const GFX12: Table = [
    COMMON,
    &[
        reg(0x2E12, "COMPUTE_PGM_RSRC1", 0xE7FF_FFFF),
        reg(0x2E13, "COMPUTE_PGM_RSRC2", 0xFFFF_FFFF),
        reg(0x2E15, "COMPUTE_RESOURCE_LIMITS", 0x07FF_F3FF),
        reg(0x2E18, "COMPUTE_TMPRING_SIZE", 0x3FFF_FFFF),
        reg(0x2E28, "COMPUTE_PGM_RSRC3", 0x8000_2FFF),
        reg(0x2E2A, "COMPUTE_SHADER_CHKSUM", ALL),
    ],
];

/// What these do shows in traces only, of which there are none here.
const TRACE: &[Register] = &[
    reg(0xC340, "SQ_THREAD_TRACE_USERDATA_0", ALL),
    reg(0xC341, "SQ_THREAD_TRACE_USERDATA_1", ALL),
    reg(0xC342, "SQ_THREAD_TRACE_USERDATA_2", ALL),
    reg(0xC343, "SQ_THREAD_TRACE_USERDATA_3", ALL),
];

/// gfx9.4.3.
pub(super) const UCONFIG9: Table = [TRACE, &[reg(0xC200, "GRBM_GFX_INDEX", 0xE0FF_FFFF)]];

/// gfx11 and gfx11.5; the narrower of the two masks.
pub(super) const UCONFIG11: Table = [TRACE, &[reg(0xC200, "GRBM_GFX_INDEX", 0xE0FF_FF7F)]];

/// gfx12.
pub(super) const UCONFIG12: Table = [TRACE, &[reg(0xC200, "GRBM_GFX_INDEX", 0xE00F_037F)]];

/// The compute registers of a queue on one XCC.
#[derive(Clone, Debug)]
pub(super) struct Registers {
    /// Registers 0x2E00 to 0x2EFF.
    values: [u32; 256],
}

impl Registers {
    pub(super) fn new() -> Self {
        Self { values: [0; 256] }
    }

    /// A register's value; 0 for one that no table has.
    pub(super) fn get(&self, address: u32) -> u32 {
        let index = address.wrapping_sub(0x2E00) as usize;
        self.values.get(index).copied().unwrap_or_default()
    }

    /// Three registers in a row.
    pub(super) fn get3(&self, address: u32) -> [u32; 3] {
        [0, 1, 2].map(|at| self.get(address.wrapping_add(at)))
    }

    /// Sets a run of registers from one that is `offset` into the space of the packet.
    pub(super) fn set(
        &mut self,
        chip: &Chip,
        space: Space,
        offset: u32,
        values: &[u32],
    ) -> Result<(), Cause> {
        let (start, end, table) = match space {
            Space::Sh => (SH_START, SH_END, &chip.sh),
            Space::Uconfig => (UCONFIG_START, UCONFIG_END, &chip.uconfig),
        };
        // All are checked before one is set, so that a report shows the state before the packet.
        for (address, &value) in (start.saturating_add(offset)..).zip(values) {
            if address >= end {
                return Err(Cause::Packet(format!(
                    "register {address:#x} is past the end of this packet's space, {end:#x}"
                )));
            }
            check(chip, table, address, value)?;
        }
        for (address, &value) in (start.saturating_add(offset)..).zip(values) {
            if let Some(slot) = self.values.get_mut(address.wrapping_sub(0x2E00) as usize) {
                *slot = value;
            }
        }
        Ok(())
    }
}

/// Which registers a packet sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Sh,
    Uconfig,
}

fn check(chip: &Chip, table: &Table, address: u32, value: u32) -> Result<(), Cause> {
    let Some(register) = table
        .iter()
        .copied()
        .flatten()
        .find(|register| register.address == address)
    else {
        return Err(Cause::Packet(format!(
            "{} has no register {address:#x} that a queue may set",
            chip.target
        )));
    };
    let extra = value & !register.mask;
    if extra != 0 {
        return Err(Cause::Packet(format!(
            "{} = {value:#010x} has reserved bits {extra:#010x} on {}",
            register.name, chip.target
        )));
    }
    Ok(())
}

/// Checks a value that the command processor itself is about to put into a register.
pub(super) fn check_sh(chip: &Chip, address: u32, value: u32) -> Result<(), Cause> {
    check(chip, &chip.sh, address, value)
}
