//! The template of a dispatch.

use hcq_nostd::args::PreparedLayout;
use hcq_nostd::record::{NameOperand, Operand, RecordError};
use hcq_nostd::value::{Field, Fit};

use super::{
    BLOCK_ADDRESSES, BlockAddress, CTRL_REG0_WORDS, NDRANGE_WORDS, Places, Program, TEMPLATE_WORDS,
};
use crate::chips::MAX_GROUP;
use crate::device::{ADDRESS_BITS, Device, PrivateMemory, PrivateNeed};
use crate::kernel::{
    Arguments, CONSTANT_BYTES, Kernel, MAX_STORAGE, MAX_TEXTURES, NO_REGISTER, ProgramError, Style,
    Table,
};
use crate::pm4::dispatch::{ExecCs, RunOpenCl, SetMarker};
use crate::pm4::header::type4;
use crate::pm4::load_state::{LoadState, State};
use crate::pm4::split;
use crate::pm4::sync::WaitForIdle;
use crate::pm4::table::{
    HLSQ_CONTROL_2_REG, HLSQ_CS_CNTL_0, HLSQ_CS_NDRANGE_0, HLSQ_INVALIDATE_CMD, SP_CS_CONFIG,
    SP_CS_CTRL_REG0, SP_CS_IBO, SP_CS_IBO_COUNT, SP_CS_INSTRLEN, SP_CS_PVT_MEM_HW_STACK_OFFSET,
    SP_CS_TEX_CONST, SP_CS_TEX_COUNT, SP_CS_TEX_SAMP, SP_MODE_CONTROL, SP_PERFCTR_ENABLE,
    SP_PS_TP_BORDER_COLOR_BASE_ADDR, SP_TP_MODE_CNTL, TPL1_DBG_ECO_CNTL,
};

// HLSQ_INVALIDATE_CMD: CS_STATE and CS_IBO.
const INVALIDATE_CS: u32 = 1 << 5 | 1 << 6;
/// Numbers of textures and storage images that may be used; SP_CS_CONFIG has those that are.
const TEX_COUNT: u32 = MAX_TEXTURES as u32;
const IBO_COUNT: u32 = MAX_STORAGE as u32;
// SP_MODE_CONTROL.
const CONSTANT_DEMOTION_ENABLE: u32 = 1;
const MODE_ISAM_SHIFT: u32 = 1;
/// ISAMMODE_CL and ISAMMODE_GL.
const ISAM_CL: u32 = 1;
const ISAM_GL: u32 = 2;
/// SP_PERFCTR_ENABLE: CS.
const PERFCTR_CS: u32 = 1 << 5;
/// Where an OpenCL program finds its ids, HLSQ_CS_CNTL_0: group, group size, group offset, item.
const CL_IDS: u32 = 0xcf | 0xc0 << 8 | 0xcc << 16;
const NONE: u32 = NO_REGISTER as u32;
const NO_REGISTERS: u32 = NONE * 0x0101_0101;

// SP_CS_CTRL_REG0.
const HALF_REGS: Field = Field::new(1, 6);
const FULL_REGS: Field = Field::new(7, 6);
const BRANCH_STACK: Field = Field::new(14, 6);
const THREAD_SIZE_128: u32 = 1 << 20;
const MERGED_REGS: u32 = 1 << 31;
/// HLSQ_CS_CNTL_1: THREADSIZE.
const CNTL_1_THREAD_SIZE_128: u32 = 1 << 9;
// SP_CS_UNKNOWN_A9B1: SHARED_SIZE, in KiB less one, and CONSTANTRAMMODE.
const SHARED_SIZE: Field = Field::new(0, 5);
const CONSTLEN_256: u32 = 2 << 5;
/// HLSQ_CS_CNTL: CONSTLEN counts 4 registers of four words.
const CONSTLEN: Field = Field::new(0, 8).unit(2);
const ENABLED: u32 = 1 << 8;
/// SP_CS_INSTRLEN counts 128 bytes.
const INSTRUCTION_UNIT: u32 = 128;
const INSTRLEN_BITS: u8 = 28;
// SP_CS_CONFIG.
const NTEX: Field = Field::new(9, 8);
const NSAMP: Field = Field::new(17, 5);
const NIBO: Field = Field::new(22, 7);
/// Bytes of a constant register.
const VEC4: u32 = 16;

/// SP_CS_UNKNOWN_A9B1 for group-local memory of so many bytes; `None` if the chip does not have them, which would go into
/// the field beside. The least that there is are 2 KiB.
pub(super) fn shared_word(bytes: u32, max: u32) -> Option<u32> {
    let kib_less_one = bytes.saturating_sub(1) / 1024;
    let size = SHARED_SIZE.place(kib_less_one.max(1).into()).ok()?;
    let size = u32::try_from(size).ok()?;
    (bytes <= max).then_some(size | CONSTLEN_256)
}

/// Words of a template while it is made.
struct Template {
    words: [u32; TEMPLATE_WORDS],
    len: usize,
    overflow: bool,
    places: Places,
}

impl Template {
    /// Appends words, and returns where.
    fn words(&mut self, words: &[u32]) -> usize {
        let at = self.len;
        let room = self.words.get_mut(at..).unwrap_or_default();
        match room.get_mut(..words.len()) {
            Some(to) => {
                to.copy_from_slice(words);
                self.len = at.saturating_add(words.len());
            }
            None => self.overflow = true,
        }
        at
    }

    /// Writes registers, and returns where their values are.
    fn registers<const N: usize>(&mut self, first: u32, values: [u32; N]) -> usize {
        const { assert!(N >= 1 && N <= 0x7f) }
        self.words(&[type4(first, N as u32)]);
        self.words(&values)
    }

    /// The two words at `at` take the address of `offset` in the argument block.
    fn in_block(&mut self, at: usize, offset: u32) {
        match self.places.block.get_mut(self.places.block_len) {
            Some(place) => {
                *place = BlockAddress { at, offset };
                self.places.block_len += 1;
            }
            None => self.overflow = true,
        }
    }

    /// Loads descriptors from the argument block, and says where they are.
    fn descriptors(&mut self, state: State, table: Table, base: u32) -> Result<(), RecordError> {
        self.words(&LoadState::frame(state, table.count)?);
        let at = self.words(&[0; 2]);
        self.in_block(at, table.at);
        let at = self.registers(base, [0; 2]);
        self.in_block(at, table.at);
        Ok(())
    }
}

/// Bits of a field of a 32-bit word.
fn place(field: Field, value: u32) -> Result<u32, ProgramError> {
    let bits = field.place(value.into())?;
    Ok(
        u32::try_from(bits).map_err(|_| hcq_nostd::value::Misfit::TooLarge {
            value: bits,
            bits: 32,
        })?,
    )
}

fn check(device: &Device, kernel: &Kernel) -> Result<(), ProgramError> {
    if !device.packets().dispatches() {
        let chip = device.chip().number;
        return Err(ProgramError::Dispatch { chip });
    }
    Fit::aligned(ADDRESS_BITS, 7).check(kernel.code)?;
    let (bytes, first) = (kernel.code_bytes, kernel.first_instruction);
    if first >= bytes || !first.is_multiple_of(8) {
        return Err(ProgramError::Code { bytes, first });
    }
    let end = kernel.code.saturating_add(bytes.into());
    Fit::at_most(1 << ADDRESS_BITS).check(end)?;
    let have = device.chip().shared_bytes;
    if kernel.shared_bytes > have {
        return Err(ProgramError::SharedMemory {
            need: kernel.shared_bytes,
            have,
        });
    }
    Ok(())
}

impl<'p> Program<'p> {
    /// Prepares a program for a device, with memory for its private data.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub fn new(
        device: &Device,
        kernel: &Kernel,
        arguments: &Arguments<'p>,
        private: &PrivateMemory,
    ) -> Result<Self, ProgramError> {
        check(device, kernel)?;
        let chip = device.chip();
        let (full, half) = (kernel.full_registers, kernel.half_registers);
        let max_group = chip.max_group(full, half);
        if max_group == 0 {
            let need = u32::from(full) + u32::from(half).div_ceil(2);
            return Err(ProgramError::Registers { need });
        }
        let need = PrivateNeed::new(chip, kernel.private_bytes)?;
        if need.bytes > private.bytes() {
            return Err(ProgramError::PrivateMemory {
                need: need.bytes,
                have: private.bytes(),
            });
        }
        let mut t = Template {
            words: [0; TEMPLATE_WORDS],
            len: 0,
            overflow: false,
            places: Places {
                block: [BlockAddress::default(); BLOCK_ADDRESSES],
                ..Places::default()
            },
        };
        start(&mut t, kernel.style);
        shader(&mut t, device, kernel, &need, private)?;
        images(&mut t, device, arguments)?;
        let [group_size_at, group_count_at] = dispatch(&mut t, kernel);
        let scrap = device.scrap().imm();
        t.words(&device.packets().flush(scrap.unwrap_or(0), 0));
        if t.overflow {
            // The template has room for the longest dispatch.
            let (value, max) = (t.len as u64, TEMPLATE_WORDS as u64);
            let operand = Operand::Program;
            return Err(RecordError::Limit {
                operand,
                value,
                max,
            }
            .into());
        }
        Ok(Self {
            kernel: *kernel,
            code: None,
            private: None,
            is_late: scrap.is_none(),
            device: *device,
            arguments: *arguments,
            layout: PreparedLayout::new(arguments.layout),
            max_group: max_group.min(MAX_GROUP),
            max_shared: chip.shared_bytes,
            template: t.words,
            len: t.len,
            places: t.places,
            has_exec: matches!(kernel.style, Style::Ir3 { .. }),
            group_size_at,
            group_count_at,
        })
    }
}

/// What every dispatch begins with, up to the sizes.
fn start(t: &mut Template, style: Style) {
    let (mode, isam) = match style {
        Style::OpenCl => (ISAM_CL << MODE_ISAM_SHIFT, ISAM_CL),
        Style::Ir3 { .. } => (
            ISAM_GL << MODE_ISAM_SHIFT | CONSTANT_DEMOTION_ENABLE,
            ISAM_GL,
        ),
    };
    t.words(&SetMarker::COMPUTE.words());
    t.registers(HLSQ_INVALIDATE_CMD, [INVALIDATE_CS]);
    t.registers(HLSQ_INVALIDATE_CMD, [0]);
    t.registers(SP_CS_TEX_COUNT, [TEX_COUNT]);
    t.registers(SP_CS_IBO_COUNT, [IBO_COUNT]);
    t.registers(SP_MODE_CONTROL, [mode]);
    t.registers(SP_PERFCTR_ENABLE, [PERFCTR_CS]);
    t.registers(SP_TP_MODE_CNTL, [isam]);
    t.registers(TPL1_DBG_ECO_CNTL, [0]);
    // The dispatch before may still read the registers that follow.
    t.words(&[WaitForIdle::WORD]);
}

/// Sizes, registers, private memory, constants and instructions.
fn shader(
    t: &mut Template,
    device: &Device,
    kernel: &Kernel,
    need: &PrivateNeed,
    private: &PrivateMemory,
) -> Result<(), ProgramError> {
    let [thread_size, cntl_1_thread_size] = if kernel.double_waves {
        [THREAD_SIZE_128, CNTL_1_THREAD_SIZE_128]
    } else {
        [0; 2]
    };
    // Seven for the range, two for ids, three for groups.
    let cntl_1 = NONE | cntl_1_thread_size;
    t.registers::<NDRANGE_WORDS>(
        HLSQ_CS_NDRANGE_0,
        [0, 0, 0, 0, 0, 0, 0, CL_IDS, cntl_1, 0, 0, 0],
    );
    let merged = if kernel.merged_registers {
        MERGED_REGS
    } else {
        0
    };
    let registers = place(HALF_REGS, kernel.half_registers.into())?
        | place(FULL_REGS, kernel.full_registers.into())?
        | place(BRANCH_STACK, kernel.branch_stack.into())?;
    let max = device.chip().shared_bytes;
    let shared = shared_word(kernel.shared_bytes, max).ok_or(ProgramError::SharedMemory {
        need: kernel.shared_bytes,
        have: max,
    })?;
    let [item, total, stack_offset] = need.registers()?;
    let ([code, code_high], [stack, stack_high]) = (split(kernel.code), split(private.address()));
    t.registers::<CTRL_REG0_WORDS>(
        SP_CS_CTRL_REG0,
        [
            registers | thread_size | merged,
            shared,
            0,
            kernel.first_instruction,
            code,
            code_high,
            item,
            stack,
            stack_high,
            total,
        ],
    );
    let constants = CONSTANT_BYTES / VEC4;
    t.words(&LoadState::frame(State::Constants, constants)?);
    t.words(&[0; 2]);
    // The instruction cache's worth; the others are fetched when they are needed.
    let units = kernel.code_bytes.div_ceil(INSTRUCTION_UNIT);
    let cached = units.min(device.chip().instruction_cache.into());
    t.words(&LoadState::frame(State::Instructions, cached)?);
    t.words(&[code, code_high]);
    let constant_length = place(CONSTLEN, constants)?;
    t.registers(
        HLSQ_CONTROL_2_REG,
        [
            NO_REGISTERS,
            NO_REGISTERS,
            NO_REGISTERS,
            NONE,
            constant_length | ENABLED,
        ],
    );
    t.registers(SP_CS_PVT_MEM_HW_STACK_OFFSET, [stack_offset]);
    Fit::bits(INSTRLEN_BITS)
        .check(units.into())
        .operand(Operand::Program)?;
    t.registers(SP_CS_INSTRLEN, [units]);
    Ok(())
}

/// Samplers, textures, storage images.
fn images(
    t: &mut Template,
    device: &Device,
    arguments: &Arguments<'_>,
) -> Result<(), ProgramError> {
    let (samplers, textures, storage) = (
        arguments.sampler_table,
        arguments.textures,
        arguments.storage,
    );
    if samplers.count > 0 {
        t.descriptors(State::Samplers, samplers, SP_CS_TEX_SAMP)?;
        let address = device.border_colors().imm().unwrap_or(0);
        let at = t.registers(SP_PS_TP_BORDER_COLOR_BASE_ADDR, split(address));
        t.places.border_colors = Some(at);
    }
    if textures.count > 0 {
        t.descriptors(State::Textures, textures, SP_CS_TEX_CONST)?;
    }
    if storage.count > 0 {
        t.descriptors(State::Storage, storage, SP_CS_IBO)?;
    }
    let config = ENABLED
        | place(NTEX, textures.count)?
        | place(NSAMP, samplers.count)?
        | place(NIBO, storage.count)?;
    t.registers(SP_CS_CONFIG, [config]);
    Ok(())
}

/// The dispatch itself. Returns where the argument block takes the work-group's size and the number of groups.
fn dispatch(t: &mut Template, kernel: &Kernel) -> [Option<usize>; 2] {
    match kernel.style {
        Style::OpenCl => {
            t.words(&RunOpenCl.words());
            [None; 2]
        }
        Style::Ir3 {
            group_id,
            group_count,
            group_size,
            local_id,
        } => {
            // The size is among the constants. WGSIZECONSTID would be a register, from r48 on, that takes it.
            let ids = u32::from_le_bytes([group_id, NO_REGISTER, NO_REGISTER, local_id]);
            let thread_size = if kernel.double_waves {
                CNTL_1_THREAD_SIZE_128
            } else {
                0
            };
            t.registers(HLSQ_CS_CNTL_0, [ids, NONE | thread_size]);
            t.words(&ExecCs::one_group());
            // A constant's number counts words. Three words behind the last number are still among the constants.
            [group_size, group_count]
                .map(|constant| (constant != NO_REGISTER).then_some(usize::from(constant) * 4))
        }
    }
}
