//! PM4 of gfx9.4 and gfx11: packets, a prepared program, and a compute queue.

use hcq_nostd::args::ArgLayout;
use hcq_nostd::patch::{PatchList, RegionId, Store};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Command, NameOperand, Operand, RecordError, Recorder};
use hcq_nostd::value::{Fit, Value};

use super::lab::Recording;

// Opcodes, PACKET3_*.
pub(crate) const NOP: u32 = 0x10;
const DISPATCH_DIRECT: u32 = 0x15;
const PRED_EXEC: u32 = 0x23;
const WAIT_REG_MEM: u32 = 0x3c;
pub(crate) const INDIRECT_BUFFER: u32 = 0x3f;
const EVENT_WRITE: u32 = 0x46;
const RELEASE_MEM: u32 = 0x49;
const ACQUIRE_MEM: u32 = 0x58;
const SET_SH_REG: u32 = 0x76;

/// First register of SET_SH_REG.
const SH_REG_START: u32 = 0x2c00;

// WAIT_REG_MEM, first word.
const FUNCTION_EQUAL: u32 = 3;
const FUNCTION_GREATER_EQUAL: u32 = 5;
const MEM_SPACE_MEMORY: u32 = 1 << 4;
const OPERATION_WR_WAIT_WR_REG: u32 = 1 << 6;
const POLL_INTERVAL: u32 = 4;

// RELEASE_MEM.
const CACHE_FLUSH_AND_INV_TS: u32 = 0x14;
const EVENT_INDEX_EOP: u32 = 5 << 8;
const DATA_SEL_LOW32: u32 = 1 << 29;
const DATA_SEL_64: u32 = 2 << 29;
const DATA_SEL_GPU_CLOCK: u32 = 3 << 29;
const INT_SEL_AFTER_WRITE: u32 = 2 << 24;
const END_OF_PIPE: u32 = CACHE_FLUSH_AND_INV_TS | EVENT_INDEX_EOP;

// ACQUIRE_MEM: everything. Size and base count 256 bytes; the high size word has 8 bits.
const COHER_SIZE: u32 = u32::MAX;
const COHER_SIZE_HI: u32 = 0xff;

// EVENT_WRITE.
const CS_PARTIAL_FLUSH: u32 = 7 | 4 << 8;

// COMPUTE_DISPATCH_INITIATOR.
const COMPUTE_SHADER_EN: u32 = 1;
const FORCE_START_AT_000: u32 = 1 << 2;
const CS_W32_EN: u32 = 1 << 15;

// Registers at the same place in both generations.
const COMPUTE_START_X: u32 = 0x2e04;
const COMPUTE_PGM_LO: u32 = 0x2e0c;
const COMPUTE_DISPATCH_SCRATCH_BASE_LO: u32 = 0x2e10;
const COMPUTE_PGM_RSRC1: u32 = 0x2e12;
const COMPUTE_RESOURCE_LIMITS: u32 = 0x2e15;
const COMPUTE_TMPRING_SIZE: u32 = 0x2e18;
const COMPUTE_RESTART_X: u32 = 0x2e1b;
const COMPUTE_USER_DATA_0: u32 = 0x2e40;

/// COMPUTE_PGM_RSRC2, LDS_SIZE from bit 15, in granules.
const RSRC2_LDS_SHIFT: u32 = 15;
const RSRC2_LDS_BITS: u32 = 9;

/// Work-items per group.
const MAX_LOCAL: u64 = 1024;
/// The command processor addresses 48 bits.
const ADDRESS_BITS: u8 = 48;

pub(crate) const fn type3(opcode: u32, body: u32) -> u32 {
    0xc000_0000 | (body - 1) << 16 | opcode << 8
}

/// What differs between chips, as data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chip {
    /// ACQUIRE_MEM of everything, and without instruction caches and L2, for dispatches.
    acquire_all: &'static [u32],
    acquire_exec: &'static [u32],
    /// Cache bits of a RELEASE_MEM that makes writes visible.
    release_flush: u32,
    rsrc3: u32,
    lds_granule: u32,
    /// Whether a RELEASE_MEM hands its interrupt a context.
    context_id: bool,
    /// GPU_HDP_FLUSH_REQ and DONE.
    hdp_flush: [u32; 2],
}

const fn acquire_gfx9(coher_cntl: u32) -> [u32; 7] {
    const INTERVAL: u32 = 10;
    [
        type3(ACQUIRE_MEM, 6),
        coher_cntl,
        COHER_SIZE,
        COHER_SIZE_HI,
        0,
        0,
        INTERVAL,
    ]
}

const fn acquire_gfx10(gcr_cntl: u32) -> [u32; 8] {
    [
        type3(ACQUIRE_MEM, 7),
        0,
        COHER_SIZE,
        COHER_SIZE_HI,
        0,
        0,
        0,
        gcr_cntl,
    ]
}

// coher_cntl of gfx9.
const TC_WB: u32 = 1 << 18;
const TCL1: u32 = 1 << 22;
const TC: u32 = 1 << 23;
const SH_KCACHE: u32 = 1 << 27;
const SH_ICACHE: u32 = 1 << 29;

// gcr_cntl of gfx10 and later.
const GLI_INV: u32 = 1;
const GLM: u32 = 3 << 4;
const GLK: u32 = 3 << 6;
const GLV_INV: u32 = 1 << 8;
const GL1_INV: u32 = 1 << 9;
const GL2: u32 = 3 << 14;

pub(crate) const GFX942: Chip = Chip {
    acquire_all: &acquire_gfx9(TC_WB | TCL1 | TC | SH_KCACHE | SH_ICACHE),
    acquire_exec: &acquire_gfx9(TCL1 | SH_KCACHE),
    release_flush: 1 << 15 | 1 << 19, // TC_WB, TC_NC
    rsrc3: 0x2e2d,
    lds_granule: 512,
    context_id: false,
    hdp_flush: [0xe26, 0xe27],
};

pub(crate) const GFX1100: Chip = Chip {
    acquire_all: &acquire_gfx10(GLI_INV | GLM | GLK | GLV_INV | GL1_INV | GL2),
    acquire_exec: &acquire_gfx10(GLM | GLK | GLV_INV | GL1_INV),
    release_flush: 0xf << 12 | 3 << 20 | 1 << 22, // GLM, GLV, GL1, GL2, SEQ
    rsrc3: 0x2e28,
    lds_granule: 512,
    context_id: true,
    hdp_flush: [0xe26, 0xe27],
};

/// How the host is woken: a mailbox is written and an interrupt raised with the event's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupt {
    pub(crate) mailbox: u64,
    pub(crate) event: u32,
}

/// A chip, as this process uses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    pub(crate) chip: &'static Chip,
    pub(crate) xccs: u32,
    pub(crate) interrupt: Option<Interrupt>,
}

/// What a code object says about a kernel, and the device's scratch memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Descriptor {
    pub(crate) entry: u64,
    pub(crate) rsrc: [u32; 3],
    pub(crate) wave32: bool,
    pub(crate) dispatch_ptr: bool,
    pub(crate) private_bytes: u32,
    pub(crate) group_bytes: u32,
    pub(crate) kernel_object: u64,
    pub(crate) waves_per_sh: u32,
    pub(crate) scratch: u64,
    pub(crate) scratch_bytes: u64,
    pub(crate) tmpring_size: u32,
}

const TEMPLATE_WORDS: usize = 128;

/// A program prepared for one device: the packets of a dispatch, and where the few words are that differ.
#[derive(Clone, Debug)]
pub(crate) struct Program<'p> {
    pub(crate) descriptor: Descriptor,
    pub(crate) layout: ArgLayout<'p>,
    template: [u32; TEMPLATE_WORDS],
    len: usize,
    rsrc2_at: usize,
    dispatch_ptr_at: Option<usize>,
    kernargs_at: usize,
    local_at: usize,
    groups_at: usize,
    lds_granule: u32,
}

/// Dispatch packet, `hsa_kernel_dispatch_packet_t`: bytes of it and offsets in it.
pub(crate) mod dispatch_packet {
    pub(crate) const BYTES: usize = 64;
    pub(crate) const ALIGN: usize = 8;
    pub(crate) const WORKGROUP_SIZE: usize = 4;
    pub(crate) const GRID_SIZE: usize = 12;
    pub(crate) const PRIVATE_SEGMENT_SIZE: usize = 24;
    pub(crate) const GROUP_SEGMENT_SIZE: usize = 28;
    pub(crate) const KERNEL_OBJECT: usize = 32;
    pub(crate) const KERNARG_ADDRESS: usize = 40;
}

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

    /// SET_SH_REG; returns where the values are.
    fn set_sh_reg(&mut self, register: u32, values: &[u32]) -> usize {
        self.words(&[
            type3(SET_SH_REG, values.len() as u32 + 1),
            register - SH_REG_START,
        ]);
        self.words(values)
    }
}

const fn low_high(v: u64) -> [u32; 2] {
    [v as u32, (v >> 32) as u32]
}

impl<'p> Program<'p> {
    pub(crate) fn new(device: &Device, descriptor: Descriptor, layout: ArgLayout<'p>) -> Self {
        let mut t = Template {
            words: [0; TEMPLATE_WORDS],
            len: 0,
        };
        t.words(device.chip.acquire_exec);
        t.set_sh_reg(COMPUTE_PGM_LO, &low_high(descriptor.entry >> 8));
        let rsrc1 = t.set_sh_reg(COMPUTE_PGM_RSRC1, &descriptor.rsrc[..2]);
        t.set_sh_reg(device.chip.rsrc3, &descriptor.rsrc[2..]);
        t.set_sh_reg(COMPUTE_TMPRING_SIZE, &[descriptor.tmpring_size]);
        for xcc in 0..device.xccs {
            let base = descriptor.scratch
                + descriptor.scratch_bytes / u64::from(device.xccs) * u64::from(xcc);
            let predicate = (device.xccs > 1).then(|| t.words(&pred_exec(1 << xcc)));
            t.set_sh_reg(COMPUTE_DISPATCH_SCRATCH_BASE_LO, &low_high(base >> 8));
            if let Some(at) = predicate {
                t.words[at + 1] |= (t.len - at - 2) as u32;
            }
        }
        t.set_sh_reg(COMPUTE_RESTART_X, &[0; 3]);
        let pointers = if descriptor.dispatch_ptr { 2 } else { 1 };
        let user_data = t.set_sh_reg(COMPUTE_USER_DATA_0, &[0; 4][..2 * pointers]);
        t.set_sh_reg(COMPUTE_RESOURCE_LIMITS, &[descriptor.waves_per_sh]);
        let start = t.set_sh_reg(COMPUTE_START_X, &[0; 8]);
        let initiator =
            COMPUTE_SHADER_EN | FORCE_START_AT_000 | if descriptor.wave32 { CS_W32_EN } else { 0 };
        let dispatch = t.words(&[type3(DISPATCH_DIRECT, 4), 0, 0, 0, initiator]);
        t.words(&[type3(EVENT_WRITE, 1), CS_PARTIAL_FLUSH]);
        Self {
            descriptor,
            layout,
            template: t.words,
            len: t.len,
            rsrc2_at: rsrc1 + 1,
            dispatch_ptr_at: descriptor.dispatch_ptr.then_some(user_data),
            kernargs_at: user_data + 2 * (pointers - 1),
            local_at: start + 3,
            groups_at: dispatch + 1,
            lds_granule: device.chip.lds_granule,
        }
    }

    fn packet_at(&self) -> usize {
        (self.layout.size as usize).next_multiple_of(dispatch_packet::ALIGN)
    }
}

impl hcq_nostd::queue::Program for Program<'_> {
    fn kernargs_size(&self) -> usize {
        let packet = if self.descriptor.dispatch_ptr {
            dispatch_packet::BYTES
        } else {
            0
        };
        if packet == 0 {
            self.layout.size as usize
        } else {
            self.packet_at() + packet
        }
    }

    fn kernargs_align(&self) -> usize {
        16
    }
}

const fn pred_exec(xcc_mask: u32) -> [u32; 2] {
    [type3(PRED_EXEC, 1), xcc_mask << 24]
}

/// Commands inside run on the first XCC only.
fn on_first_xcc(
    device: &Device,
    c: &mut Command<'_, '_>,
    encode: impl FnOnce(&mut Command<'_, '_>) -> Result<(), RecordError>,
) -> Result<(), RecordError> {
    if device.xccs == 1 {
        return encode(c);
    }
    let at = c.position();
    let [header, select] = pred_exec(1);
    c.words(&[header, select]);
    encode(c)?;
    let dwords = (c.position() - at - 2) as u32;
    c.set(at + 1, select | dwords);
    Ok(())
}

fn release_mem(
    c: &mut Command<'_, '_>,
    [flush, select]: [u32; 2],
    (address, align_log2): (Value, u8),
    (data, fit): (Value, Fit),
    context: u32,
) -> Result<(), RecordError> {
    c.words(&[type3(RELEASE_MEM, 7), END_OF_PIPE | flush, select]);
    c.pair(address, Fit::aligned(ADDRESS_BITS, align_log2))
        .operand(Operand::Address)?;
    c.pair(data, fit).operand(Operand::Data)?;
    c.word(context);
    Ok(())
}

fn wait_reg_mem(
    c: &mut Command<'_, '_>,
    function: u32,
    address: Value,
    reference: Value,
    mask: u32,
) -> Result<(), RecordError> {
    c.words(&[type3(WAIT_REG_MEM, 6), function | MEM_SPACE_MEMORY]);
    c.pair(address, Fit::aligned(ADDRESS_BITS, 2))
        .operand(Operand::Address)?;
    let at = c.position();
    c.words(&[0, mask, POLL_INTERVAL]);
    c.set_value(at, reference, Fit::bits(32))
        .operand(Operand::Data)
}

// The commands, for queues whose words are PM4: the compute queue below, and AQL's indirect buffers.

pub(crate) fn signal(
    device: &Device,
    c: &mut Command<'_, '_>,
    signal: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    on_first_xcc(device, c, |c| {
        let flush = device.chip.release_flush;
        release_mem(
            c,
            [flush, DATA_SEL_LOW32],
            (signal.address, 4),
            (value, Fit::bits(32)),
            0,
        )?;
        if let (true, Some(interrupt)) = (signal.notify, device.interrupt) {
            let select = DATA_SEL_LOW32 | INT_SEL_AFTER_WRITE;
            let context = if device.chip.context_id {
                interrupt.event
            } else {
                0
            };
            let event = (interrupt.event.into(), Fit::ANY);
            release_mem(
                c,
                [0, select],
                (interrupt.mailbox.into(), 3),
                event,
                context,
            )?;
        }
        Ok(())
    })
}

pub(crate) fn wait(
    c: &mut Command<'_, '_>,
    signal: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    wait_reg_mem(c, FUNCTION_GREATER_EQUAL, signal.address, value, u32::MAX)
}

pub(crate) fn timestamp(
    device: &Device,
    c: &mut Command<'_, '_>,
    signal: SignalAt,
) -> Result<(), RecordError> {
    on_first_xcc(device, c, |c| {
        let nothing = (0u64.into(), Fit::ANY);
        release_mem(c, [0, INT_SEL_AFTER_WRITE], (0u64.into(), 3), nothing, 0)?;
        release_mem(
            c,
            [0, DATA_SEL_GPU_CLOCK],
            (signal.address + 8, 3),
            nothing,
            0,
        )?;
        c.words(device.chip.acquire_all);
        Ok(())
    })
}

pub(crate) fn write(
    c: &mut Command<'_, '_>,
    address: Value,
    value: Value,
    width: WriteWidth,
) -> Result<(), RecordError> {
    let (select, align, fit) = match width {
        WriteWidth::W32 => (DATA_SEL_LOW32, 2, Fit::bits(32)),
        WriteWidth::W64 => (DATA_SEL_64, 3, Fit::ANY),
    };
    release_mem(c, [0, select], (address, align), (value, fit), 0)
}

pub(crate) fn poll_bit(
    c: &mut Command<'_, '_>,
    address: Value,
    mask: u32,
    expect: Value,
) -> Result<(), RecordError> {
    wait_reg_mem(c, FUNCTION_EQUAL, address, expect, mask)
}

pub(crate) fn memory_barrier(device: &Device, c: &mut Command<'_, '_>) {
    let [request, done] = device.chip.hdp_flush;
    c.words(&[
        type3(WAIT_REG_MEM, 6),
        FUNCTION_GREATER_EQUAL | OPERATION_WR_WAIT_WR_REG,
        request,
        done,
    ]);
    c.words(&[u32::MAX, u32::MAX, POLL_INTERVAL]);
    c.words(device.chip.acquire_all);
}

/// Three sizes that may not be zero.
fn set_sizes(
    c: &mut Command<'_, '_>,
    at: usize,
    sizes: [Value; 3],
    bits: u8,
    operand: fn(u8) -> Operand,
) -> Result<(), RecordError> {
    for (d, size) in (0u8..).zip(sizes) {
        c.set_value(at + usize::from(d), size, Fit::count(bits))
            .operand(operand(d))?;
    }
    Ok(())
}

/// Work-items per group, as far as they are known now.
pub(crate) fn check_local(local: [Value; 3]) -> Result<(), RecordError> {
    let known = local
        .iter()
        .filter_map(|v| v.imm())
        .fold(1u64, u64::saturating_mul);
    if known > MAX_LOCAL {
        return Err(RecordError::Limit {
            operand: Operand::Local(3),
            value: known,
            max: MAX_LOCAL,
        });
    }
    Ok(())
}

/// The fields of a dispatch packet that a launch decides, at `at` of a block.
fn write_dispatch_packet(
    list: &mut PatchList<'_>,
    launch: &mut Launch<'_, '_, Program<'_>>,
    at: usize,
    kernargs: u64,
) -> Result<(), RecordError> {
    let (program, block) = (launch.program, &mut launch.kernargs);
    for d in 0..3u8 {
        let (groups, local) = (launch.groups[usize::from(d)], launch.local[usize::from(d)]);
        let place = at + dispatch_packet::WORKGROUP_SIZE + 2 * usize::from(d);
        block.whole(list, place, local, Store::W16, Operand::Local(d))?;
        let grid = list.product(groups, local)?;
        let place = at + dispatch_packet::GRID_SIZE + 4 * usize::from(d);
        block.whole(list, place, grid, Store::W32, Operand::Groups(d))?;
    }
    let private = program.descriptor.private_bytes.into();
    block.whole(
        list,
        at + dispatch_packet::PRIVATE_SEGMENT_SIZE,
        private,
        Store::W32,
        Operand::Program,
    )?;
    let group = Value::from(program.descriptor.group_bytes) + launch.local_memory.into();
    block.whole(
        list,
        at + dispatch_packet::GROUP_SEGMENT_SIZE,
        group,
        Store::W32,
        Operand::LocalMemory,
    )?;
    block.whole(
        list,
        at + dispatch_packet::KERNARG_ADDRESS,
        kernargs.into(),
        Store::W64,
        Operand::Kernargs,
    )
}

fn exec(
    c: &mut Command<'_, '_>,
    mut launch: Launch<'_, '_, Program<'_>>,
) -> Result<(), RecordError> {
    let program = launch.program;
    check_local(launch.local)?;
    let (need, have) = (program.kernargs_size(), launch.kernargs.len());
    let too_small = RecordError::KernargsTooSmall { need, have };
    if have < need {
        return Err(too_small);
    }
    program
        .layout
        .write(launch.args, &mut launch.kernargs, c.list())?;

    let first = c.position();
    c.words(&program.template[..program.len]);
    let kernargs = launch.kernargs.device_address(0).ok_or(too_small)?;
    let address = Fit::aligned(ADDRESS_BITS, 2);
    c.set_pair(first + program.kernargs_at, kernargs.into(), address)
        .operand(Operand::Kernargs)?;
    set_sizes(
        c,
        first + program.local_at,
        launch.local,
        16,
        Operand::Local,
    )?;
    set_sizes(
        c,
        first + program.groups_at,
        launch.groups,
        32,
        Operand::Groups,
    )?;
    if launch.local_memory > 0 {
        let granules = (program
            .descriptor
            .group_bytes
            .saturating_add(launch.local_memory))
        .div_ceil(program.lds_granule);
        let max = (1 << RSRC2_LDS_BITS) - 1;
        if granules > max {
            let (value, max) = (granules.into(), max.into());
            return Err(RecordError::Limit {
                operand: Operand::LocalMemory,
                value,
                max,
            });
        }
        c.set(
            first + program.rsrc2_at,
            program.descriptor.rsrc[1] | granules << RSRC2_LDS_SHIFT,
        );
    }
    if let Some(at) = program.dispatch_ptr_at {
        let packet = program.packet_at();
        let pointer = launch.kernargs.device_address(packet).ok_or(too_small)?;
        c.set_pair(first + at, pointer.into(), address)
            .operand(Operand::Kernargs)?;
        write_dispatch_packet(c.list(), &mut launch, packet, kernargs)?;
    }
    Ok(())
}

/// A compute queue of PM4 words.
#[derive(Debug)]
pub(crate) struct Pm4Queue<'m> {
    device: Device,
    recorder: Recorder<'m>,
}

impl<'m> Pm4Queue<'m> {
    pub(crate) fn new(device: Device, words: &'m mut [u32], list: PatchList<'m>) -> Self {
        Self {
            device,
            recorder: Recorder::new(words, list),
        }
    }

    pub(crate) fn finish(self) -> (usize, PatchList<'m>) {
        self.recorder.finish()
    }
}

impl<'m> Recording<'m> for Pm4Queue<'m> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder.list()
    }
}

impl Queue for Pm4Queue<'_> {
    fn signal(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.recorder
            .command(|c| signal(&self.device, c, at, value))?;
        Ok(self)
    }

    fn wait(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| wait(c, at, value))?;
        Ok(self)
    }

    fn timestamp(&mut self, at: SignalAt) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| timestamp(&self.device, c, at))?;
        Ok(self)
    }

    fn write(
        &mut self,
        address: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| write(c, address, value, width))?;
        Ok(self)
    }

    fn poll_bit(
        &mut self,
        address: Value,
        mask: u32,
        expect: Value,
    ) -> Result<&mut Self, RecordError> {
        self.recorder
            .command(|c| poll_bit(c, address, mask, expect))?;
        Ok(self)
    }
}

impl ComputeQueue for Pm4Queue<'_> {
    type Program<'p> = Program<'p>;

    fn memory_barrier(&mut self) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| {
            memory_barrier(&self.device, c);
            Ok(())
        })?;
        Ok(self)
    }

    fn exec(&mut self, launch: Launch<'_, '_, Program<'_>>) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| exec(c, launch))?;
        Ok(self)
    }
}

/// The kernel argument memory's number in a recording of this sketch.
pub(crate) const KERNARGS: RegionId = RegionId(1);
