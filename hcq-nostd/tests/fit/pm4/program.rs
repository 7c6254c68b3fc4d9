//! A program prepared for PM4, and its dispatch.

use hcq_nostd::args::ArgLayout;
use hcq_nostd::patch::{Formula, PatchList, Store};
use hcq_nostd::queue::{Launch, Program as _};
use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value, Var};

use super::chip::{ADDRESS_BITS, Device, pred_exec, type3};

// Opcodes, PACKET3_*.
const DISPATCH_DIRECT: u32 = 0x15;
const EVENT_WRITE: u32 = 0x46;
const SET_SH_REG: u32 = 0x76;

/// First register of SET_SH_REG.
const SH_REG_START: u32 = 0x2c00;

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

/// What a code object says about a kernel, and the device's scratch memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    pub(crate) entry: u64,
    pub(crate) rsrc: [u32; 3],
    pub(crate) wave32: bool,
    pub(crate) dispatch_ptr: bool,
    pub(crate) private_bytes: u32,
    pub(crate) group_bytes: u32,
    pub(crate) kernel_object: u64,
    pub(crate) waves_per_sh: u32,
    /// The device's scratch memory, which may move before the launch.
    pub(crate) scratch: Value,
    pub(crate) scratch_bytes: u64,
    pub(crate) tmpring_size: u32,
}

impl Descriptor {
    /// One XCC's share of the scratch memory.
    fn scratch_of(&self, xccs: u32, xcc: u32) -> Value {
        self.scratch + self.scratch_bytes / u64::from(xccs) * u64::from(xcc)
    }
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
    /// Words of the first XCC's scratch base and from each to the next.
    scratch_at: usize,
    scratch_stride: usize,
    xccs: u32,
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
        let (mut scratch_at, mut scratch_stride) = (0, 0);
        for xcc in 0..device.xccs {
            // A base that moves is filled in by each launch.
            let base = descriptor.scratch_of(device.xccs, xcc).imm().unwrap_or(0);
            let predicate = (device.xccs > 1).then(|| t.words(&pred_exec(1 << xcc)));
            let at = t.set_sh_reg(COMPUTE_DISPATCH_SCRATCH_BASE_LO, &low_high(base >> 8));
            if let Some(at) = predicate {
                t.words[at + 1] |= (t.len - at - 2) as u32;
            }
            match xcc {
                0 => scratch_at = at,
                1 => scratch_stride = at - scratch_at,
                _ => (),
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
            scratch_at,
            scratch_stride,
            xccs: device.xccs,
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

pub(crate) fn exec(
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
    if program.descriptor.scratch.imm().is_none() {
        let base = Formula {
            shr: 8,
            fit: Fit::aligned(ADDRESS_BITS, 8),
            ..Formula::whole(Var::new(0))
        };
        for xcc in 0..program.xccs {
            let at = first + program.scratch_at + program.scratch_stride * xcc as usize;
            let share = program.descriptor.scratch_of(program.xccs, xcc);
            c.set_formula(at, share, &base).operand(Operand::Program)?;
        }
    }
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
