//! Registers that a command buffer of compute work may set, and those that it may read.
//!
//! Addresses, names and fields are those of Mesa's `a6xx.xml`. Registers of other work (draws, blits) are not here: a write to
//! one stops the queue. So does a write to one that the kernel protects (`CP_PROTECT_REG`), or of a reserved bit.

use std::collections::BTreeMap;

use super::super::chip::Chip;
use super::Cause;

pub(super) const CP_SCRATCH: u32 = 0x0883;
pub(super) const CP_ALWAYS_ON_COUNTER: u32 = 0x0980;
pub(super) const SP_CS_CTRL_REG0: u32 = 0xA9B0;
pub(super) const SP_CS_CTRL_REG1: u32 = 0xA9B1;
pub(super) const SP_CS_OBJ_FIRST_EXEC_OFFSET: u32 = 0xA9B3;
pub(super) const SP_CS_OBJ_START: u32 = 0xA9B4;
pub(super) const SP_CS_PVT_MEM_PARAM: u32 = 0xA9B6;
pub(super) const SP_CS_PVT_MEM_ADDR: u32 = 0xA9B7;
pub(super) const SP_CS_PVT_MEM_SIZE: u32 = 0xA9B9;
pub(super) const SP_CS_TEX_COUNT: u32 = 0xA9BA;
pub(super) const SP_CS_CONFIG: u32 = 0xA9BB;
pub(super) const SP_CS_INSTRLEN: u32 = 0xA9BC;
pub(super) const SP_CS_PVT_MEM_HW_STACK_OFFSET: u32 = 0xA9BD;
pub(super) const SP_CS_TEX_SAMP: u32 = 0xA9E2;
pub(super) const SP_CS_TEX_CONST: u32 = 0xA9E6;
pub(super) const SP_CS_IBO: u32 = 0xA9F2;
pub(super) const SP_CS_IBO_COUNT: u32 = 0xAA00;
pub(super) const SP_MODE_CONTROL: u32 = 0xAB00;
pub(super) const SP_PS_TP_BORDER_COLOR_BASE_ADDR: u32 = 0xB180;
pub(super) const SP_TP_MODE_CNTL: u32 = 0xB309;
pub(super) const HLSQ_CS_CNTL: u32 = 0xB987;
pub(super) const HLSQ_CS_NDRANGE_0: u32 = 0xB990;
pub(super) const HLSQ_CS_CNTL_0: u32 = 0xB997;
pub(super) const HLSQ_CS_CNTL_1: u32 = 0xB998;
pub(super) const HLSQ_CS_KERNEL_GROUP_X: u32 = 0xB999;
pub(super) const HLSQ_INVALIDATE_CMD: u32 = 0xBB08;
const HLSQ_SHARED_CONSTS: u32 = 0xBB11;

/// Scratch registers.
pub(super) const SCRATCHES: u32 = 8;

/// A register, or several that are alike and follow each other.
struct Register {
    address: u32,
    count: u32,
    name: &'static str,
    mask: u32,
}

const fn r(address: u32, name: &'static str, mask: u32) -> Register {
    rs(address, 1, name, mask)
}

const fn rs(address: u32, count: u32, name: &'static str, mask: u32) -> Register {
    Register {
        address,
        count,
        name,
        mask,
    }
}

const ALL: u32 = u32::MAX;
/// Low words of addresses.
const ALIGN_16: u32 = !15;
const ALIGN_32: u32 = !31;
const ALIGN_64: u32 = !63;
const ALIGN_128: u32 = !127;
/// High words of addresses, which have 49 bits.
const HIGH: u32 = 0x1_FFFF;

static REGISTERS: &[Register] = &[
    rs(CP_SCRATCH, SCRATCHES, "CP_SCRATCH", ALL),
    r(0x0E12, "UCHE_UNKNOWN_0E12", ALL),
    r(0x0E19, "UCHE_CLIENT_PF", 0xFF),
    r(0x8600, "GRAS_DBG_ECO_CNTL", ALL),
    r(0x8E04, "RB_DBG_ECO_CNTL", ALL),
    r(0x9306, "VPC_SO_DISABLE", 1),
    r(0xA9A8, "SP_UNKNOWN_A9A8", 0x1_FFFF),
    r(SP_CS_CTRL_REG0, "SP_CS_CTRL_REG0", 0x80FF_FFFF),
    r(SP_CS_CTRL_REG1, "SP_CS_CTRL_REG1", 0x7F),
    r(0xA9B2, "SP_CS_BRANCH_COND", ALL),
    r(
        SP_CS_OBJ_FIRST_EXEC_OFFSET,
        "SP_CS_OBJ_FIRST_EXEC_OFFSET",
        ALL,
    ),
    r(SP_CS_OBJ_START, "SP_CS_OBJ_START_LO", ALIGN_32),
    r(SP_CS_OBJ_START + 1, "SP_CS_OBJ_START_HI", HIGH),
    r(SP_CS_PVT_MEM_PARAM, "SP_CS_PVT_MEM_PARAM", 0xFF00_00FF),
    r(SP_CS_PVT_MEM_ADDR, "SP_CS_PVT_MEM_ADDR_LO", ALIGN_32),
    r(SP_CS_PVT_MEM_ADDR + 1, "SP_CS_PVT_MEM_ADDR_HI", HIGH),
    r(SP_CS_PVT_MEM_SIZE, "SP_CS_PVT_MEM_SIZE", 0x8003_FFFF),
    r(SP_CS_TEX_COUNT, "SP_CS_TEX_COUNT", 0xFF),
    r(SP_CS_CONFIG, "SP_CS_CONFIG", 0x1FFF_FF0F),
    r(SP_CS_INSTRLEN, "SP_CS_INSTRLEN", 0x0FFF_FFFF),
    r(
        SP_CS_PVT_MEM_HW_STACK_OFFSET,
        "SP_CS_PVT_MEM_HW_STACK_OFFSET",
        0x7_FFFF,
    ),
    r(0xA9C2, "SP_CS_CNTL_0", ALL),
    r(0xA9C3, "SP_CS_CNTL_1", 0x7FF),
    r(SP_CS_TEX_SAMP, "SP_CS_TEX_SAMP_LO", ALIGN_16),
    r(SP_CS_TEX_SAMP + 1, "SP_CS_TEX_SAMP_HI", HIGH),
    r(SP_CS_TEX_CONST, "SP_CS_TEX_CONST_LO", ALIGN_64),
    r(SP_CS_TEX_CONST + 1, "SP_CS_TEX_CONST_HI", HIGH),
    rs(0xA9E8, 10, "SP_CS_BINDLESS_BASE", ALL),
    r(SP_CS_IBO, "SP_CS_IBO_LO", ALIGN_16),
    r(SP_CS_IBO + 1, "SP_CS_IBO_HI", HIGH),
    r(SP_CS_IBO_COUNT, "SP_CS_IBO_COUNT", 0x7F),
    r(SP_MODE_CONTROL, "SP_MODE_CONTROL", 0xF),
    r(0xAB05, "SP_FS_INSTRLEN", 0x0FFF_FFFF),
    r(0xAB20, "SP_IBO_COUNT", 0x7F),
    r(0xAE00, "SP_DBG_ECO_CNTL", ALL),
    r(0xAE03, "SP_CHICKEN_BITS", ALL),
    r(0xAE04, "SP_FLOAT_CNTL", 8),
    r(0xAE0F, "SP_PERFCTR_ENABLE", 0x3F),
    r(
        SP_PS_TP_BORDER_COLOR_BASE_ADDR,
        "SP_PS_TP_BORDER_COLOR_BASE_ADDR_LO",
        ALIGN_128,
    ),
    r(
        SP_PS_TP_BORDER_COLOR_BASE_ADDR + 1,
        "SP_PS_TP_BORDER_COLOR_BASE_ADDR_HI",
        HIGH,
    ),
    r(0xB182, "SP_UNKNOWN_B182", 7),
    r(0xB183, "SP_UNKNOWN_B183", 0xFF_FFFF),
    r(0xB302, "SP_TP_BORDER_COLOR_BASE_ADDR_LO", ALIGN_128),
    r(0xB303, "SP_TP_BORDER_COLOR_BASE_ADDR_HI", HIGH),
    r(SP_TP_MODE_CNTL, "SP_TP_MODE_CNTL", 0xFF),
    r(0xB600, "TPL1_DBG_ECO_CNTL", 0x3FF_FFFF),
    r(0xB602, "TPL1_DBG_ECO_CNTL1", 1 << 18),
    r(0xB980, "HLSQ_FS_CNTL_0", 0xFFF),
    r(0xB982, "HLSQ_CONTROL_1_REG", 7),
    r(0xB983, "HLSQ_CONTROL_2_REG", ALL),
    r(0xB984, "HLSQ_CONTROL_3_REG", ALL),
    r(0xB985, "HLSQ_CONTROL_4_REG", ALL),
    r(0xB986, "HLSQ_CONTROL_5_REG", 0xFFFF),
    r(HLSQ_CS_CNTL, "HLSQ_CS_CNTL", 0x1FF),
    r(HLSQ_CS_NDRANGE_0, "HLSQ_CS_NDRANGE_0", ALL),
    r(HLSQ_CS_NDRANGE_0 + 1, "HLSQ_CS_NDRANGE_1", ALL),
    r(HLSQ_CS_NDRANGE_0 + 2, "HLSQ_CS_NDRANGE_2", ALL),
    r(HLSQ_CS_NDRANGE_0 + 3, "HLSQ_CS_NDRANGE_3", ALL),
    r(HLSQ_CS_NDRANGE_0 + 4, "HLSQ_CS_NDRANGE_4", ALL),
    r(HLSQ_CS_NDRANGE_0 + 5, "HLSQ_CS_NDRANGE_5", ALL),
    r(HLSQ_CS_NDRANGE_0 + 6, "HLSQ_CS_NDRANGE_6", ALL),
    r(HLSQ_CS_CNTL_0, "HLSQ_CS_CNTL_0", ALL),
    r(HLSQ_CS_CNTL_1, "HLSQ_CS_CNTL_1", 0x7FF),
    r(HLSQ_CS_KERNEL_GROUP_X, "HLSQ_CS_KERNEL_GROUP_X", ALL),
    r(HLSQ_CS_KERNEL_GROUP_X + 1, "HLSQ_CS_KERNEL_GROUP_Y", ALL),
    r(HLSQ_CS_KERNEL_GROUP_X + 2, "HLSQ_CS_KERNEL_GROUP_Z", ALL),
    rs(0xB9C0, 10, "HLSQ_CS_BINDLESS_BASE", ALL),
    r(0xB9D0, "HLSQ_CS_CTRL_REG1", 0x7F),
    r(HLSQ_INVALIDATE_CMD, "HLSQ_INVALIDATE_CMD", 0xF_FFFF),
    r(HLSQ_SHARED_CONSTS, "HLSQ_SHARED_CONSTS", 1),
    r(0xBE00, "HLSQ_UNKNOWN_BE00", ALL),
    r(0xBE01, "HLSQ_UNKNOWN_BE01", 0x70),
    r(0xBE04, "HLSQ_DBG_ECO_CNTL", ALL),
];

fn find(address: u32) -> Option<&'static Register> {
    let next = REGISTERS.partition_point(|register| register.address <= address);
    let register = REGISTERS.get(next.checked_sub(1)?)?;
    (address.wrapping_sub(register.address) < register.count).then_some(register)
}

/// A register's name, as in `a6xx.xml`.
pub(super) fn name(address: u32) -> String {
    match (find(address), address.wrapping_sub(CP_ALWAYS_ON_COUNTER)) {
        (Some(register), _) if register.count == 1 => register.name.into(),
        (Some(register), _) => format!("{}[{}]", register.name, address - register.address),
        (None, 0) => "CP_ALWAYS_ON_COUNTER_LO".into(),
        (None, 1) => "CP_ALWAYS_ON_COUNTER_HI".into(),
        (None, _) => format!("register {address:#06x}"),
    }
}

/// What was written since the registers were last lost.
#[derive(Debug, Default)]
pub(super) struct Registers {
    values: BTreeMap<u32, u32>,
}

impl Registers {
    pub(super) fn clear(&mut self) {
        self.values.clear();
    }

    /// Checks that a register may be written with this value.
    pub(super) fn check(chip: &Chip, address: u32, value: u32) -> Result<(), Cause> {
        let refuse = |text: String| Err(Cause::Packet(text));
        if !chip.may_write(address) {
            return refuse(format!(
                "{} is protected: command buffers may not write it",
                name(address)
            ));
        }
        let Some(register) = find(address) else {
            return refuse(format!(
                "register {address:#06x} is none that compute work sets here"
            ));
        };
        let reserved = value & !register.mask;
        if reserved != 0 {
            return refuse(format!(
                "{} = {value:#010x}: reserved bits {reserved:#010x}",
                name(address)
            ));
        }
        Ok(())
    }

    /// Writes a register that was [checked](Self::check).
    pub(super) fn set(&mut self, address: u32, value: u32) {
        self.values.insert(address, value);
    }

    /// Reads a register for the command processor.
    pub(super) fn read(&self, chip: &Chip, address: u32, clock: u64) -> Result<u32, Cause> {
        if !chip.may_read(address) {
            return Err(Cause::Packet(format!(
                "{} is protected: command buffers may not read it",
                name(address)
            )));
        }
        match address.wrapping_sub(CP_ALWAYS_ON_COUNTER) {
            0 => return Ok(clock as u32),
            1 => return Ok((clock >> 32) as u32),
            _ => {}
        }
        match (find(address), self.values.get(&address)) {
            (Some(_), Some(&value)) => Ok(value),
            (Some(_), None) => Err(Cause::Packet(format!(
                "{} is read, and nobody has set it",
                name(address)
            ))),
            (None, _) => Err(Cause::Packet(format!(
                "{} is read, which is not simulated",
                name(address)
            ))),
        }
    }

    /// A register that a launch depends on.
    pub(super) fn need(&self, address: u32) -> Result<u32, Cause> {
        self.values
            .get(&address)
            .copied()
            .ok_or_else(|| Cause::Launch(format!("{} was not set by this context", name(address))))
    }

    /// A 64-bit address that a launch depends on.
    pub(super) fn need64(&self, address: u32) -> Result<u64, Cause> {
        Ok(u64::from(self.need(address)?) | u64::from(self.need(address + 1)?) << 32)
    }

    /// A 64-bit address; `None` if it was not set.
    pub(super) fn address(&self, address: u32) -> Option<u64> {
        self.need64(address).ok()
    }

    /// Whether constants are shared with other stages, in a way that is not simulated.
    pub(super) fn shares_constants(&self) -> bool {
        let set = |address| {
            self.values
                .get(&address)
                .is_some_and(|value| value & 1 != 0)
        };
        let mode = self.values.get(&SP_MODE_CONTROL).copied().unwrap_or(0);
        set(HLSQ_SHARED_CONSTS) || mode >> 3 & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_nothing_in_it_is_protected() {
        let mut next = 0;
        for register in REGISTERS {
            assert!(register.address >= next, "{}", register.name);
            assert_ne!(register.mask, 0);
            next = register.address + register.count;
        }
        for chip in super::super::super::chip::names() {
            let chip = super::super::super::chip::find(chip).unwrap();
            for register in REGISTERS {
                for address in register.address..register.address + register.count {
                    assert!(
                        chip.may_write(address) && chip.may_read(address),
                        "{}: {}",
                        chip.name,
                        register.name
                    );
                }
            }
        }
        assert!(find(0x0882).is_none() && find(0x088B).is_none());
        assert_eq!(name(0x0885), "CP_SCRATCH[2]");
        assert_eq!(name(0xA9B5), "SP_CS_OBJ_START_HI");
        assert_eq!(name(0x0981), "CP_ALWAYS_ON_COUNTER_HI");
        assert_eq!(name(0x1234), "register 0x1234");
    }
}
