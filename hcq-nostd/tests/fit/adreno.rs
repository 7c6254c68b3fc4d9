//! Adreno A6xx: type 4 and type 7 packets, a prepared program, and a compute queue.

use hcq_nostd::args::ArgLayout;
use hcq_nostd::patch::{Part, PatchList, Store, SumError, Swap};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Command, NameOperand, Operand, RecordError, Recorder};
use hcq_nostd::value::{Field, Fit, Value};

use super::lab::Recording;

// Commands, CP_*.
const CP_WAIT_MEM_WRITES: u32 = 0x12;
const CP_WAIT_FOR_IDLE: u32 = 0x26;
const CP_RUN_OPENCL: u32 = 0x31;
const CP_EXEC_CS: u32 = 0x33;
const CP_LOAD_STATE6_FRAG: u32 = 0x34;
const CP_WAIT_REG_MEM: u32 = 0x3c;
const CP_MEM_WRITE: u32 = 0x3d;
const CP_REG_TO_MEM: u32 = 0x3e;
const CP_EVENT_WRITE: u32 = 0x46;
const CP_SET_MARKER: u32 = 0x65;

const RM6_COMPUTE: u32 = 8;

// CP_WAIT_REG_MEM.
const WRITE_EQ: u32 = 3;
const WRITE_GE: u32 = 5;
const POLL_MEMORY: u32 = 1 << 4;
const DELAY_LOOP_CYCLES: u32 = 32;

// CP_REG_TO_MEM: two registers as one number.
const REG_TO_MEM_64B: u32 = 1 << 30;
const REG_TO_MEM_CNT_2: u32 = 2 << 18;

// CP_EVENT_WRITE.
const CACHE_FLUSH_TS: u32 = 4;
const CACHE_INVALIDATE: u32 = 0x31;

// CP_LOAD_STATE6.
const STATE_SHADER: u32 = 0;
const STATE_CONSTANTS: u32 = 1 << 14;
const SOURCE_INDIRECT: u32 = 2 << 16;
const BLOCK_CS_SHADER: u32 = 0xd << 18;
const UNITS: Field = Field::new(22, 10);
const CONSTANT_VEC4: u64 = 256;
const INSTRUCTION_UNIT: u64 = 128;

// Registers.
const CP_ALWAYS_ON_COUNTER: u32 = 0x980;
const SP_CS_CTRL_REG0: u32 = 0xa9b0;
const SP_CS_TEX_COUNT: u32 = 0xa9ba;
const SP_CS_CONFIG: u32 = 0xa9bb;
const SP_CS_INSTRLEN: u32 = 0xa9bc;
const SP_CS_PVT_MEM_HW_STACK_OFFSET: u32 = 0xa9bd;
const SP_CS_IBO_COUNT: u32 = 0xaa00;
const SP_MODE_CONTROL: u32 = 0xab00;
const SP_PERFCTR_ENABLE: u32 = 0xae0f;
const SP_TP_MODE_CNTL: u32 = 0xb309;
const TPL1_DBG_ECO_CNTL: u32 = 0xb600;
const HLSQ_CONTROL_2: u32 = 0xb983;
const HLSQ_CS_NDRANGE_0: u32 = 0xb990;
const HLSQ_CS_CNTL_0: u32 = 0xb997;
const HLSQ_INVALIDATE_CMD: u32 = 0xbb08;

const INVALIDATE_CS_STATE_AND_IBO: u32 = 3 << 5;
const DEFAULT_TEX_COUNT: u32 = 0x80;
const DEFAULT_IBO_COUNT: u32 = 0x40;
const CONSTANT_DEMOTION: u32 = 1;
const ISAM_CL: u32 = 1;
const ISAM_GL: u32 = 2;
const PERFCTR_CS: u32 = 1 << 5;
const NO_REGISTER: u32 = 0xfc;
const NO_REGISTERS: u32 = NO_REGISTER * 0x0101_0101;
const ENABLED: u32 = 1 << 8;
const CONSTANT_RAM_256: u32 = 2 << 5;
/// Where an OpenCL program finds its ids: group, group size, offset, item.
const CL_IDS: u32 = 0xcf | 0xc0 << 8 | 0xcc << 16;

// SP_CS_CTRL_REG0.
const HALF_REGS: Field = Field::new(1, 6);
const FULL_REGS: Field = Field::new(7, 6);
const BRANCH_STACK: Field = Field::new(14, 6);
/// SP_CS_UNKNOWN_A9B1.
const SHARED_SIZE: Field = Field::new(0, 5);
/// SP_CS_PVT_MEM_HW_STACK_OFFSET counts 2 KiB.
const HW_STACK_OFFSET: Field = Field::new(0, 19).unit(11);
/// HLSQ_CS_CNTL counts 4 vec4.
const CONSTANT_LENGTH: Field = Field::new(0, 8).unit(2);

// HLSQ_CS_NDRANGE_0.
const THREE_DIMENSIONS: u64 = 3;
const LOCAL_LESS_ONE: [Field; 3] = [Field::new(2, 10), Field::new(12, 10), Field::new(22, 10)];

const ADDRESS_BITS: u8 = 49;
const MAX_KERNARGS_ALIGN: usize = 64;

/// One where the number of ones is even, so that it becomes odd.
const fn odd_parity(v: u32) -> u32 {
    1 - v.count_ones() % 2
}

/// Writes `count` registers from `register` on.
const fn type4(register: u32, count: u32) -> u32 {
    assert!(count < 1 << 7 && register < 1 << 18);
    4 << 28 | count | odd_parity(count) << 7 | register << 8 | odd_parity(register) << 27
}

/// A command with `count` words.
const fn type7(opcode: u32, count: u32) -> u32 {
    assert!(count < 1 << 14 && opcode < 1 << 7);
    7 << 28 | count | odd_parity(count) << 15 | opcode << 16 | odd_parity(opcode) << 23
}

/// What the two kinds of programs differ in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Style {
    /// OpenCL binaries: ids in fixed registers.
    Cl,
    /// Mesa's: registers as compiled; group id, size constant, item id.
    Nir([u32; 3]),
}

/// What a program's container says about it, and the memory that the device gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binary {
    pub(crate) style: Style,
    pub(crate) code: u64,
    pub(crate) code_bytes: u64,
    pub(crate) first_instruction: u32,
    pub(crate) full_regs: u64,
    pub(crate) half_regs: u64,
    pub(crate) branch_stack: u64,
    /// Less one, in KiB.
    pub(crate) shared_size: u64,
    /// 512 bytes of private memory per item, and 4096 in all.
    pub(crate) private_per_item: u32,
    pub(crate) private_total: u32,
    pub(crate) stack: u64,
    pub(crate) hw_stack_offset: u64,
    pub(crate) max_threads: u64,
}

/// A program prepared for one device: the packets of a dispatch, its constants, and where the few words are that differ.
#[derive(Clone, Debug)]
pub(crate) struct Program<'p> {
    layout: ArgLayout<'p>,
    max_threads: u64,
    /// The argument block before the arguments are in it.
    constants: &'p [u8],
    template: Template,
    ndrange_at: usize,
    groups_at: usize,
    kernargs_at: usize,
    /// The groups once more, for Mesa's programs.
    exec_at: Option<usize>,
    /// Where the argument block holds the local sizes, if the program wants them there.
    local_sizes_at: Option<usize>,
}

const TEMPLATE_WORDS: usize = 96;

#[derive(Clone, Debug)]
struct Template {
    words: [u32; TEMPLATE_WORDS],
    len: usize,
}

impl Template {
    fn words(&mut self, words: &[u32]) -> usize {
        let at = self.len;
        self.words[at..at + words.len()].copy_from_slice(words);
        self.len += words.len();
        at
    }

    fn registers(&mut self, first: u32, values: &[u32]) -> usize {
        self.words(&[type4(first, values.len() as u32)]);
        self.words(values)
    }

    fn command(&mut self, opcode: u32, body: &[u32]) -> usize {
        self.words(&[type7(opcode, body.len() as u32)]);
        self.words(body)
    }
}

fn place(field: Field, value: u64) -> Result<u32, RecordError> {
    Ok(field.place(value).operand(Operand::Program)? as u32)
}

impl<'p> Program<'p> {
    pub(crate) fn new(
        binary: &Binary,
        constants: &'p [u8],
        layout: ArgLayout<'p>,
        scrap: u64,
    ) -> Result<Self, RecordError> {
        let mut t = Template {
            words: [0; TEMPLATE_WORDS],
            len: 0,
        };
        let (mode, isam) = match binary.style {
            Style::Cl => (ISAM_CL << 1, ISAM_CL),
            Style::Nir(_) => (ISAM_GL << 1 | CONSTANT_DEMOTION, ISAM_GL),
        };
        t.command(CP_SET_MARKER, &[RM6_COMPUTE]);
        t.registers(HLSQ_INVALIDATE_CMD, &[INVALIDATE_CS_STATE_AND_IBO]);
        t.registers(HLSQ_INVALIDATE_CMD, &[0]);
        t.registers(SP_CS_TEX_COUNT, &[DEFAULT_TEX_COUNT]);
        t.registers(SP_CS_IBO_COUNT, &[DEFAULT_IBO_COUNT]);
        t.registers(SP_MODE_CONTROL, &[mode]);
        t.registers(SP_PERFCTR_ENABLE, &[PERFCTR_CS]);
        t.registers(SP_TP_MODE_CNTL, &[isam]);
        t.registers(TPL1_DBG_ECO_CNTL, &[0]);
        t.command(CP_WAIT_FOR_IDLE, &[]);
        // Seven for the range, two for ids, three for groups.
        let ndrange_at = t.registers(
            HLSQ_CS_NDRANGE_0,
            &[0, 0, 0, 0, 0, 0, 0, CL_IDS, NO_REGISTER, 0, 0, 0],
        );
        let registers = place(HALF_REGS, binary.half_regs)?
            | place(FULL_REGS, binary.full_regs)?
            | place(BRANCH_STACK, binary.branch_stack)?;
        let shared = place(SHARED_SIZE, binary.shared_size)? | CONSTANT_RAM_256;
        let [code, stack] = [binary.code, binary.stack].map(|a| [a as u32, (a >> 32) as u32]);
        t.registers(
            SP_CS_CTRL_REG0,
            &[
                registers,
                shared,
                0,
                binary.first_instruction,
                code[0],
                code[1],
                binary.private_per_item,
                stack[0],
                stack[1],
                binary.private_total,
            ],
        );
        let indirect = SOURCE_INDIRECT | BLOCK_CS_SHADER;
        let constants_at = t.command(
            CP_LOAD_STATE6_FRAG,
            &[
                STATE_CONSTANTS | indirect | place(UNITS, CONSTANT_VEC4)?,
                0,
                0,
            ],
        );
        let instructions = binary.code_bytes.div_ceil(INSTRUCTION_UNIT);
        let load = STATE_SHADER | indirect | place(UNITS, instructions)?;
        t.command(CP_LOAD_STATE6_FRAG, &[load, code[0], code[1]]);
        let constant_length = place(CONSTANT_LENGTH, CONSTANT_VEC4)?;
        t.registers(
            HLSQ_CONTROL_2,
            &[
                NO_REGISTERS,
                NO_REGISTERS,
                NO_REGISTERS,
                NO_REGISTER,
                constant_length | ENABLED,
            ],
        );
        t.registers(
            SP_CS_PVT_MEM_HW_STACK_OFFSET,
            &[place(HW_STACK_OFFSET, binary.hw_stack_offset)?],
        );
        t.registers(SP_CS_INSTRLEN, &[instructions as u32]);
        t.registers(SP_CS_CONFIG, &[ENABLED]);
        let (mut exec_at, mut local_sizes_at) = (None, None);
        match binary.style {
            Style::Cl => {
                t.command(CP_RUN_OPENCL, &[0]);
            }
            Style::Nir([group, size, item]) => {
                let ids = group | size << 8 | NO_REGISTER << 16 | item << 24;
                t.registers(HLSQ_CS_CNTL_0, &[ids, NO_REGISTER]);
                exec_at = Some(t.command(CP_EXEC_CS, &[0; 4]) + 1);
                // A constant's number counts words of the argument block.
                local_sizes_at = (size != NO_REGISTER).then_some(size as usize * 4);
            }
        }
        t.command(CP_EVENT_WRITE, &flush_body(scrap));
        Ok(Self {
            layout,
            max_threads: binary.max_threads,
            constants,
            template: t,
            ndrange_at,
            groups_at: ndrange_at + 9,
            kernargs_at: constants_at + 1,
            exec_at,
            local_sizes_at,
        })
    }
}

const fn flush_body(scrap: u64) -> [u32; 4] {
    [CACHE_FLUSH_TS, scrap as u32, (scrap >> 32) as u32, 0]
}

impl hcq_nostd::queue::Program for Program<'_> {
    fn kernargs_size(&self) -> usize {
        self.constants.len()
    }

    fn kernargs_align(&self) -> usize {
        MAX_KERNARGS_ALIGN
    }
}

#[derive(Debug)]
pub(crate) struct AdrenoQueue<'m> {
    recorder: Recorder<'m>,
    /// A cache flush writes a word somewhere.
    scrap: u64,
}

impl<'m> AdrenoQueue<'m> {
    pub(crate) fn new(scrap: u64, words: &'m mut [u32], list: PatchList<'m>) -> Self {
        Self {
            recorder: Recorder::new(words, list),
            scrap,
        }
    }

    pub(crate) fn finish(self) -> (usize, PatchList<'m>) {
        self.recorder.finish()
    }
}

fn flush(c: &mut Command<'_, '_>, scrap: u64) {
    c.word(type7(CP_EVENT_WRITE, 4));
    c.words(&flush_body(scrap));
}

fn wait_reg_mem(
    c: &mut Command<'_, '_>,
    function: u32,
    at: Value,
    value: Value,
    mask: u32,
) -> Result<(), RecordError> {
    c.words(&[type7(CP_WAIT_REG_MEM, 6), function | POLL_MEMORY]);
    c.pair(at, Fit::aligned(ADDRESS_BITS, 2))
        .operand(Operand::Address)?;
    c.field(0, value, Field::new(0, 32))?;
    c.words(&[mask, DELAY_LOOP_CYCLES]);
    Ok(())
}

impl<'m> Recording<'m> for AdrenoQueue<'m> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder.list()
    }
}

impl Queue for AdrenoQueue<'_> {
    fn signal(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        let scrap = self.scrap;
        self.recorder.command(|c| {
            c.words(&[
                type7(CP_WAIT_FOR_IDLE, 0),
                type7(CP_EVENT_WRITE, 4),
                CACHE_FLUSH_TS,
            ]);
            c.pair(at.address, Fit::aligned(ADDRESS_BITS, 4))
                .operand(Operand::Signal)?;
            c.field(0, value, Field::new(0, 32))?;
            flush(c, scrap);
            Ok(())
        })?;
        Ok(self)
    }

    fn wait(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.recorder
            .command(|c| wait_reg_mem(c, WRITE_GE, at.address, value, u32::MAX))?;
        Ok(self)
    }

    fn timestamp(&mut self, at: SignalAt) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| {
            let read = CP_ALWAYS_ON_COUNTER | REG_TO_MEM_CNT_2 | REG_TO_MEM_64B;
            c.words(&[type7(CP_WAIT_FOR_IDLE, 0), type7(CP_REG_TO_MEM, 3), read]);
            c.pair(at.address + 8, Fit::aligned(ADDRESS_BITS, 3))
                .operand(Operand::Signal)
        })?;
        Ok(self)
    }

    fn write(
        &mut self,
        at: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| {
            c.word(type7(CP_WAIT_FOR_IDLE, 0));
            match width {
                WriteWidth::W32 => {
                    c.word(type7(CP_MEM_WRITE, 3));
                    c.pair(at, Fit::aligned(ADDRESS_BITS, 2))
                        .operand(Operand::Address)?;
                    c.field(0, value, Field::new(0, 32))
                }
                WriteWidth::W64 => {
                    c.word(type7(CP_MEM_WRITE, 4));
                    c.pair(at, Fit::aligned(ADDRESS_BITS, 3))
                        .operand(Operand::Address)?;
                    c.pair(value, Fit::ANY).operand(Operand::Data)
                }
            }
        })?;
        Ok(self)
    }

    fn poll_bit(&mut self, at: Value, mask: u32, expect: Value) -> Result<&mut Self, RecordError> {
        self.recorder
            .command(|c| wait_reg_mem(c, WRITE_EQ, at, expect, mask))?;
        Ok(self)
    }
}

/// The word with three local sizes less one.
fn local_sizes(list: &mut PatchList<'_>, local: [Value; 3]) -> Result<Value, RecordError> {
    let parts: [_; 3] = std::array::from_fn(|d| (local[d] - 1, Part::Field(LOCAL_LESS_ONE[d])));
    list.sum(THREE_DIMENSIONS, &parts, Swap::No)
        .map_err(|e| match e {
            SumError::Misfit { part, misfit } => RecordError::Misfit {
                operand: Operand::Local(part as u8),
                misfit,
            },
            SumError::Build(e) => e.into(),
        })
}

fn exec(
    c: &mut Command<'_, '_>,
    mut launch: Launch<'_, '_, Program<'_>>,
) -> Result<(), RecordError> {
    let program = launch.program;
    if launch.local_memory > 0 {
        // The size is part of the program here.
        return Err(RecordError::Unsupported {
            operand: Operand::LocalMemory,
        });
    }
    let known = launch
        .local
        .iter()
        .filter_map(|v| v.imm())
        .fold(1u64, u64::saturating_mul);
    if known > program.max_threads {
        let (value, max) = (known, program.max_threads);
        return Err(RecordError::Limit {
            operand: Operand::Local(3),
            value,
            max,
        });
    }
    let (need, have) = (program.kernargs_size(), launch.kernargs.len());
    let too_small = RecordError::KernargsTooSmall { need, have };
    if have < need {
        return Err(too_small);
    }
    launch.kernargs.write(0, program.constants)?;
    program
        .layout
        .write(launch.args, &mut launch.kernargs, c.list())?;
    let kernargs = launch.kernargs.device_address(0).ok_or(too_small)?;

    let first = c.position();
    c.words(&program.template.words[..program.template.len]);
    let address = Fit::aligned(ADDRESS_BITS, 2);
    c.set_pair(first + program.kernargs_at, kernargs.into(), address)
        .operand(Operand::Kernargs)?;
    let packed = local_sizes(c.list(), launch.local)?;
    c.set_value(first + program.ndrange_at, packed, Fit::bits(32))
        .operand(Operand::Local(3))?;
    for d in 0..3 {
        let groups = launch.groups[d];
        let operand = Operand::Groups(d as u8);
        let items = c.list().product(groups, launch.local[d])?;
        c.set_value(
            first + program.ndrange_at + 1 + 2 * d,
            items,
            Fit::count(32),
        )
        .operand(operand)?;
        c.set_value(first + program.groups_at + d, groups, Fit::count(32))
            .operand(operand)?;
        if let Some(at) = program.local_sizes_at {
            let operand = Operand::Local(d as u8);
            launch
                .kernargs
                .whole(c.list(), at + 4 * d, launch.local[d], Store::W32, operand)?;
        }
        if let Some(at) = program.exec_at {
            c.set_value(first + at + d, groups, Fit::count(32))
                .operand(operand)?;
        }
    }
    Ok(())
}

impl ComputeQueue for AdrenoQueue<'_> {
    type Program<'p> = Program<'p>;

    fn memory_barrier(&mut self) -> Result<&mut Self, RecordError> {
        let scrap = self.scrap;
        self.recorder.command(|c| {
            flush(c, scrap);
            c.words(&[type7(CP_EVENT_WRITE, 1), CACHE_INVALIDATE]);
            c.words(&[type7(CP_WAIT_MEM_WRITES, 0), type7(CP_WAIT_FOR_IDLE, 0)]);
            Ok(())
        })?;
        Ok(self)
    }

    fn exec(&mut self, launch: Launch<'_, '_, Program<'_>>) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| exec(c, launch))?;
        Ok(self)
    }
}
