//! From registers to a launch: what the hardware is told, and whether it can do that.

use super::super::chip::Chip;
use super::Cause;
use super::chip::{MAX_WAVES, Shaders, WAVE_GRANULARITY};
use super::registers::{self as reg, Registers};
use super::state::{INSTRUCTION_UNIT, MAX_CONSTANTS};
use crate::exec::{AdrenoRegisters, Dispatch};

/// What starts a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// `CP_EXEC_CS`: so many groups.
    Groups([u32; 3]),
    /// `CP_RUN_OPENCL`: as `HLSQ_CS_KERNEL_GROUP_*` say, of which the last may be smaller.
    Range,
}

/// A launch that the hardware takes, but for what has to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// As the executor sees it, for a work-group of full size. Constants and descriptors are empty yet.
    pub(super) dispatch: Dispatch,
    pub(super) registers: AdrenoRegisters,
    /// Work-items of the last work-group in each dimension.
    pub(super) edge: [u32; 3],
    /// `SP_CS_OBJ_START`, and bytes of instructions.
    pub(super) code: (u64, u64),
    /// 32-bit constants that the program may read.
    pub(super) constants: usize,
    /// Textures, samplers and images, and their tables.
    pub(super) textures: (u32, Option<u64>),
    pub(super) samplers: (u32, Option<u64>),
    pub(super) images: (u32, Option<u64>),
    /// Private memory that has to be there: address and bytes.
    pub(super) private: Option<(u64, u64)>,
}

fn refuse<T>(text: impl Into<String>) -> Result<T, Cause> {
    Err(Cause::Launch(text.into()))
}

const fn field(value: u32, high: u32, low: u32) -> u32 {
    (value >> low) & (u32::MAX >> (31 - (high - low)))
}

/// `regid(63, 0)`: no register. `r48.x`, the first of those that hold what all items of a wave have in common.
const NO_REGISTER: u32 = 0xFC;
const FIRST_HIGH: u32 = 0xC0;

/// The launch that these registers describe.
pub(super) fn plan(
    chip: &'static Chip,
    shaders: &Shaders,
    registers: &Registers,
    start: Start,
) -> Result<Plan, Cause> {
    let config = registers.need(reg::SP_CS_CONFIG)?;
    let hlsq = registers.need(reg::HLSQ_CS_CNTL)?;
    for (name, value) in [("SP_CS_CONFIG", config), ("HLSQ_CS_CNTL", hlsq)] {
        if field(value, 8, 8) == 0 {
            return refuse(format!("{name} lacks ENABLED"));
        }
    }
    if field(config, 3, 0) != 0 {
        return refuse("SP_CS_CONFIG has bindless resources, which are not simulated");
    }
    if registers.shares_constants() {
        return refuse("shared constants are not simulated");
    }
    let control = registers.need(reg::SP_CS_CTRL_REG0)?;
    let wave = wave(registers, control)?;
    let (groups, local, edge, global) = range(registers, start)?;
    let items: u32 = local.iter().product();
    occupancy(shaders, control, items, wave)?;
    ids(registers.need(reg::HLSQ_CS_CNTL_0)?)?;
    let memory = registers.need(reg::SP_CS_CTRL_REG1)?;
    let local_memory = match field(memory, 4, 0) {
        0 => 32 << 10,
        n => (n + 1) << 10,
    };
    let constants = constants(hlsq, memory)?;
    let code = registers.need64(reg::SP_CS_OBJ_START)?;
    let code_bytes = u64::from(registers.need(reg::SP_CS_INSTRLEN)?) * INSTRUCTION_UNIT;
    let first = u64::from(registers.need(reg::SP_CS_OBJ_FIRST_EXEC_OFFSET)?);
    if code == 0 || first >= code_bytes || !first.is_multiple_of(8) {
        return refuse(format!(
            "the first instruction is byte {first:#x} of {code_bytes:#x} at {code:#x}"
        ));
    }
    let (fiber_bytes, fiber_memory, private) = private(shaders, registers)?;
    let textures = counted(
        registers,
        field(config, 16, 9),
        reg::SP_CS_TEX_CONST,
        reg::SP_CS_TEX_COUNT,
    )?;
    let samplers = (
        field(config, 21, 17),
        registers.address(reg::SP_CS_TEX_SAMP),
    );
    let images = counted(
        registers,
        field(config, 28, 22),
        reg::SP_CS_IBO,
        reg::SP_CS_IBO_COUNT,
    )?;
    texels(registers, textures.0, samplers.0)?;
    Ok(Plan {
        dispatch: Dispatch {
            target: chip.name,
            program: code.wrapping_add(first),
            groups,
            start: [0; 3],
            local,
            wave,
            local_memory,
            scratch: None,
            xcc: (0, 1),
            registers: crate::exec::Registers::Adreno(AdrenoRegisters::default()),
        },
        registers: AdrenoRegisters {
            full_registers: field(control, 12, 7),
            half_registers: field(control, 6, 1),
            fiber_bytes,
            fiber_memory,
            border_colors: registers.address(reg::SP_PS_TP_BORDER_COLOR_BASE_ADDR),
            global,
            ..AdrenoRegisters::default()
        },
        edge,
        code: (code, code_bytes),
        constants,
        textures,
        samplers,
        images,
        private,
    })
}

/// Fibers of a wave. `HLSQ_CS_CNTL_1` has to say the same as `SP_CS_CTRL_REG0`.
fn wave(registers: &Registers, control: u32) -> Result<u32, Cause> {
    let hlsq = registers.need(reg::HLSQ_CS_CNTL_1)?;
    if field(hlsq, 10, 10) != 0 {
        return refuse("HLSQ_CS_CNTL_1: THREADSIZE_SCALAR is not simulated");
    }
    match (field(control, 20, 20), field(hlsq, 9, 9)) {
        (0, 0) => Ok(64),
        (1, 1) => Ok(128),
        (sp, hlsq) => refuse(format!(
            "THREADSIZE is {sp} in SP_CS_CTRL_REG0 and {hlsq} in HLSQ_CS_CNTL_1"
        )),
    }
}

type Range = ([u32; 3], [u32; 3], [u32; 3], [u32; 3]);

/// Groups, items of a group, items of the last group, and items in all.
fn range(registers: &Registers, start: Start) -> Result<Range, Cause> {
    let sizes = registers.need(reg::HLSQ_CS_NDRANGE_0)?;
    let dimensions = field(sizes, 1, 0);
    if dimensions == 0 {
        return refuse("HLSQ_CS_NDRANGE_0: KERNELDIM is 0");
    }
    let local = [(11, 2), (21, 12), (31, 22)].map(|(high, low)| field(sizes, high, low) + 1);
    let (mut groups, mut edge, mut global) = ([0; 3], [0; 3], [0; 3]);
    let rows = groups.iter_mut().zip(&mut edge).zip(&mut global).zip(local);
    for ((((groups, edge), global), local), (d, axis)) in rows.zip((0..).zip("XYZ".chars())) {
        *global = registers.need(reg::HLSQ_CS_NDRANGE_0 + 1 + 2 * d)?;
        let offset = registers.need(reg::HLSQ_CS_NDRANGE_0 + 2 + 2 * d)?;
        if offset != 0 {
            return refuse(format!(
                "GLOBALOFF_{axis} is {offset}, which is not simulated"
            ));
        }
        let wanted = match start {
            Start::Groups(groups) => {
                let wanted = groups.get(d as usize).copied().unwrap_or(0);
                if u64::from(wanted) * u64::from(local) != u64::from(*global) {
                    return refuse(format!(
                        "{wanted} groups of {local} items in {axis}, and GLOBALSIZE_{axis} is {global}"
                    ));
                }
                wanted
            }
            Start::Range => registers.need(reg::HLSQ_CS_KERNEL_GROUP_X + d)?,
        };
        if wanted == 0 {
            return refuse(format!("no work-groups in {axis}"));
        }
        if global.div_ceil(local) != wanted {
            return refuse(format!(
                "{wanted} groups of {local} items in {axis}, and GLOBALSIZE_{axis} is {global}"
            ));
        }
        if d >= dimensions && (wanted != 1 || local != 1) {
            return refuse(format!(
                "KERNELDIM is {dimensions}, and there are {wanted} groups of {local} items in {axis}"
            ));
        }
        *groups = wanted;
        *edge = match global.checked_rem(local) {
            Some(0) | None => local,
            Some(rest) => rest,
        };
    }
    Ok((groups, local, edge, global))
}

/// Whether a work-group's waves fit into one shader processor: it has to hold all of them. One that does not fit never
/// begins.
fn occupancy(shaders: &Shaders, control: u32, items: u32, wave: u32) -> Result<(), Cause> {
    let (half, full) = (field(control, 6, 1), field(control, 12, 7));
    // MERGEDREGS: half registers are parts of full ones.
    let merged = field(control, 31, 31) != 0;
    let taken = if merged {
        full
    } else {
        full + half.div_ceil(2)
    };
    // `ir3_get_reg_dependent_max_waves`
    let pairs = shaders.registers.checked_div(taken * (wave / 64));
    let waves = pairs.map_or(MAX_WAVES, |pairs| (pairs * WAVE_GRANULARITY).min(MAX_WAVES));
    if items.div_ceil(wave) > waves {
        return refuse(format!(
            "a work-group of {items} items with {taken} registers each does not fit: {waves} waves of {wave}"
        ));
    }
    Ok(())
}

/// Where a program finds its numbers: the first three have to be registers from r48 on.
fn ids(value: u32) -> Result<(), Cause> {
    let names = ["WGIDCONSTID", "WGSIZECONSTID", "WGOFFSETCONSTID"];
    for (name, low) in names.into_iter().zip([0, 8, 16]) {
        let register = field(value, low + 7, low);
        if register != NO_REGISTER && register < FIRST_HIGH {
            return refuse(format!(
                "HLSQ_CS_CNTL_0: {name} is r{}.{}; it has to be r48 or higher",
                register >> 2,
                ["x", "y", "z", "w"]
                    .get(register as usize & 3)
                    .unwrap_or(&"x")
            ));
        }
    }
    Ok(())
}

/// Constants that the program may read, which the local buffer has to have room for.
fn constants(hlsq: u32, memory: u32) -> Result<usize, Cause> {
    let length = field(hlsq, 7, 0) * 4;
    let room = match field(memory, 6, 5) {
        0 => 128,
        1 => 192,
        2 => MAX_CONSTANTS,
        _ => return refuse("SP_CS_CTRL_REG1: CONSTLEN_512 is for A7xx"),
    };
    if length > room {
        return refuse(format!(
            "CONSTLEN is {length} vectors, and CONSTANTRAMMODE leaves room for {room}"
        ));
    }
    Ok(4 * length as usize)
}

type Private = (u32, Option<(u64, u64)>, Option<(u64, u64)>);

/// Private memory of a fiber, of a shader processor, and of all of them.
fn private(shaders: &Shaders, registers: &Registers) -> Result<Private, Cause> {
    let item = field(registers.need(reg::SP_CS_PVT_MEM_PARAM)?, 7, 0) << 9;
    let base = registers.need64(reg::SP_CS_PVT_MEM_ADDR)?;
    let total = u64::from(field(registers.need(reg::SP_CS_PVT_MEM_SIZE)?, 17, 0)) << 12;
    if item == 0 {
        return Ok((0, None, None));
    }
    let need = (u64::from(item) * shaders.fibers).next_multiple_of(4096);
    if base == 0 || total < need {
        return refuse(format!(
            "{item} bytes of private memory for each of {} fibers take {need:#x} bytes of each shader processor; there are \
             {total:#x} at {base:#x}",
            shaders.fibers
        ));
    }
    let stack = u64::from(registers.need(reg::SP_CS_PVT_MEM_HW_STACK_OFFSET)?) << 11;
    if stack < total {
        return refuse(format!(
            "the hardware's stack at {stack:#x} is within the {total:#x} bytes of private memory"
        ));
    }
    let all = (base, total.saturating_mul(shaders.processors));
    Ok((item, Some((base, total)), Some(all)))
}

/// Descriptors that a program uses, and where their table is.
fn counted(
    registers: &Registers,
    used: u32,
    base: u32,
    count: u32,
) -> Result<(u32, Option<u64>), Cause> {
    if used > 0 {
        let have = registers.need(count)?;
        if have == 0 {
            return refuse(format!("{} is 0, and {used} are used", reg::name(count)));
        }
    }
    Ok((used, registers.address(base)))
}

/// What texture units need beside descriptors.
fn texels(registers: &Registers, textures: u32, samplers: u32) -> Result<(), Cause> {
    if textures > 0 {
        let mode = field(registers.need(reg::SP_MODE_CONTROL)?, 2, 1);
        let units = field(registers.need(reg::SP_TP_MODE_CNTL)?, 1, 0);
        if mode != units || !matches!(mode, 1 | 2) {
            return refuse(format!(
                "ISAMMODE is {mode} in SP_MODE_CONTROL and {units} in SP_TP_MODE_CNTL"
            ));
        }
    }
    if samplers > 0
        && registers
            .address(reg::SP_PS_TP_BORDER_COLOR_BASE_ADDR)
            .is_none()
    {
        return refuse("there are samplers, and no SP_PS_TP_BORDER_COLOR_BASE_ADDR");
    }
    Ok(())
}
