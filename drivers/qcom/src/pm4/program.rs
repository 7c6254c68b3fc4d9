//! A program prepared for one device: the packets of its dispatch, and where the few words are that differ.

mod prepare;

use hcq_nostd::args::{Arg, PreparedLayout};
use hcq_nostd::patch::{Part, Store, SumError, Swap};
use hcq_nostd::queue::Launch;
use hcq_nostd::record::{Block, Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Field, Fit, Value, Var};
use zerocopy::IntoBytes;

use crate::chips::MAX_GROUP;
use crate::device::{ADDRESS_BITS, BORDER_COLORS_FIT, Device, SCRAP_FIT};
use crate::image::{ADDRESS_AT, ADDRESS_FIT, SAMPLER_BYTES, bytes};
use crate::kernel::{Arguments, KERNARGS_ALIGN_LOG2, Kernel};
use crate::pm4::dispatch::ExecCs;
use crate::pm4::load_state::LoadState;
use crate::pm4::packets::Packets;
use crate::pm4::split;

/// What every dispatch begins with, up to its range: SET_MARKER 2, eight registers of 2 (two of them twice the same),
/// WAIT_FOR_IDLE 1.
const START_WORDS: usize = 2 + 8 * 2 + 1;
/// HLSQ_CS_NDRANGE_0; sizes and offsets follow.
const NDRANGE: usize = START_WORDS + 1;
const NDRANGE_WORDS: usize = 12;
/// HLSQ_CS_KERNEL_GROUP_X.
const GROUPS: usize = NDRANGE + 9;
const CTRL_REG0: usize = NDRANGE + NDRANGE_WORDS + 1;
const CTRL_REG0_WORDS: usize = 10;
/// SP_CS_UNKNOWN_A9B1.
const SHARED: usize = CTRL_REG0 + 1;
/// SP_CS_PVT_MEM_ADDR.
const PRIVATE: usize = CTRL_REG0 + 7;
/// Where constants are loaded from: the argument block.
const CONSTANTS: usize = CTRL_REG0 + CTRL_REG0_WORDS + LoadState::ADDRESS;
const LOAD_CODE: usize = CONSTANTS - LoadState::ADDRESS + LoadState::WORDS + LoadState::ADDRESS;
/// SP_CS_OBJ_START, and where instructions are loaded from.
const CODE: [usize; 2] = [CTRL_REG0 + 4, LOAD_CODE];
/// All that is at the same places in every dispatch.
const HEAD_WORDS: usize = LOAD_CODE + 2;

/// The end of every dispatch: EXEC_CS, for programs of ir3, and the cache flush.
const TAIL_WORDS: usize = ExecCs::WORDS + Packets::FLUSH_WORDS;

/// The head; CONTROL_2 6, stack offset 2, INSTRLEN 2; samplers 4 + 3 + 3, textures 4 + 3, storage 4 + 3; CONFIG 2,
/// CS_CNTL_0 3; the tail.
const TEMPLATE_WORDS: usize = HEAD_WORDS + 6 + 2 + 2 + 10 + 7 + 7 + 2 + 3 + TAIL_WORDS;

/// HLSQ_CS_NDRANGE_0: three dimensions, and their sizes less one.
const THREE_DIMENSIONS: u64 = 3;
const LOCAL_LESS_ONE: [Field; 3] = [Field::new(2, 10), Field::new(12, 10), Field::new(22, 10)];

/// A place in the template that takes an address in the argument block.
#[derive(Clone, Copy, Debug, Default)]
struct BlockAddress {
    at: usize,
    offset: u32,
}

/// Samplers twice, textures twice, storage images twice.
const BLOCK_ADDRESSES: usize = 6;

/// Words of a template that are not at the same places in all of them, and differ per launch.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    /// SP_PS_TP_BORDER_COLOR_BASE_ADDR.
    border_colors: Option<usize>,
    block: [BlockAddress; BLOCK_ADDRESSES],
    block_len: usize,
}

impl Places {
    fn block(&self) -> &[BlockAddress] {
        self.block.get(..self.block_len).unwrap_or_default()
    }
}

/// Numbers of a launch that are all known now and that every field holds.
struct Sizes {
    groups: [u32; 3],
    local: [u32; 3],
    /// Work-items.
    items: [u32; 3],
}

impl Sizes {
    #[inline]
    fn known(groups: &[Value; 3], local: &[Value; 3], max_group: u32) -> Option<Self> {
        let (
            [Value::Imm(gx), Value::Imm(gy), Value::Imm(gz)],
            [Value::Imm(lx), Value::Imm(ly), Value::Imm(lz)],
        ) = (groups, local)
        else {
            return None;
        };
        const MOST: u64 = MAX_GROUP as u64;
        let is_local = lx.wrapping_sub(1) < MOST
            && ly.wrapping_sub(1) < MOST
            && lz.wrapping_sub(1) < MOST
            && lx * ly * lz <= max_group.into();
        if !is_local || (gx | gy | gz) >> 32 != 0 || *gx == 0 || *gy == 0 || *gz == 0 {
            return None;
        }
        let [x, y, z] = [gx * lx, gy * ly, gz * lz];
        ((x | y | z) >> 32 == 0).then_some(Self {
            groups: [*gx as u32, *gy as u32, *gz as u32],
            local: [*lx as u32, *ly as u32, *lz as u32],
            items: [x as u32, y as u32, z as u32],
        })
    }

    /// HLSQ_CS_NDRANGE_0.
    #[inline]
    const fn packed(&self) -> u32 {
        let ([x, y, z], [fx, fy, fz]) = (self.local, LOCAL_LESS_ONE);
        THREE_DIMENSIONS as u32
            | x.wrapping_sub(1) << fx.shift
            | y.wrapping_sub(1) << fy.shift
            | z.wrapping_sub(1) << fz.shift
    }
}

/// A program prepared for one device.
#[derive(Clone, Debug)]
pub struct Program<'p> {
    kernel: Kernel,
    /// Where its instructions count from, if that is known at launch only.
    code: Option<Var>,
    /// The same for private memory.
    private: Option<Var>,
    /// Whether these, or what the device has for itself, are known at launch only.
    is_late: bool,
    device: Device,
    arguments: Arguments<'p>,
    layout: PreparedLayout<'p>,
    max_group: u32,
    max_shared: u32,
    template: [u32; TEMPLATE_WORDS],
    len: usize,
    places: Places,
    /// Whether it has the number of groups in CP_EXEC_CS.
    has_exec: bool,
    /// Where the argument block holds the work-group's size.
    group_size_at: Option<usize>,
    /// Where it holds the number of work-groups.
    group_count_at: Option<usize>,
}

/// What addresses of instructions and of private memory are.
const CODE_FIT: Fit = Fit::aligned(ADDRESS_BITS, 7);
const PRIVATE_FIT: Fit = Fit::aligned(ADDRESS_BITS, 12);

impl Program<'_> {
    /// The same for instructions that lie at this variable when they run: the kernel's address counts from there. The variable
    /// is a multiple of 128.
    pub const fn based_on(mut self, code: Var) -> Self {
        self.code = Some(code);
        self.is_late = true;
        self
    }

    /// The same for private memory that is known at launch only: as large as what it was prepared with, at a multiple of 4096.
    pub const fn with_private_at(mut self, private: Var) -> Self {
        self.private = Some(private);
        self.is_late = true;
        self
    }

    /// The program.
    pub const fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Work-items that a group may have.
    pub const fn max_group(&self) -> u32 {
        self.max_group
    }

    /// Words of one dispatch.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// It is never empty.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Appends one dispatch.
    #[inline]
    pub(crate) fn record(
        &self,
        c: &mut Command<'_, '_>,
        launch: &mut Launch<'_, '_, Self>,
    ) -> Result<(), RecordError> {
        let (need, have) = (self.arguments.end as usize, launch.kernargs.len());
        if have < need {
            return Err(RecordError::KernargsTooSmall { need, have });
        }
        let sizes = Sizes::known(&launch.groups, &launch.local, self.max_group);
        if sizes.is_none() {
            self.check_local(c, &launch.local)?;
        }
        self.write_block(c, launch.args, &mut launch.kernargs)?;

        let first = c.position();
        let words = c.template(self.template.get(..self.len).unwrap_or_default());
        let kernargs = launch.kernargs.device_address(0);
        match (sizes, kernargs.filter(|&at| self.is_block(at))) {
            (Some(sizes), Some(kernargs)) => {
                if let Some(words) = words {
                    self.fill(words, &sizes, kernargs);
                }
                self.write_known_sizes(&sizes, &mut launch.kernargs)?;
            }
            _ => {
                self.write_addresses(c, first, &launch.kernargs)?;
                self.write_sizes(c, first, launch)?;
            }
        }
        if self.is_late {
            self.relocate(c, first)?;
        }
        if launch.local_memory > 0 {
            let bytes = self.kernel.shared_bytes.saturating_add(launch.local_memory);
            let word = prepare::shared_word(bytes, self.max_shared).ok_or(RecordError::Limit {
                operand: Operand::LocalMemory,
                value: bytes.into(),
                max: self.max_shared.into(),
            })?;
            c.set(first + SHARED, word);
        }
        Ok(())
    }

    /// Whether an argument block may be there: its end is an address, too.
    #[inline]
    fn is_block(&self, address: u64) -> bool {
        let most = (1 << ADDRESS_BITS) - u64::from(self.arguments.end);
        address & ((1 << KERNARGS_ALIGN_LOG2) - 1) == 0 && address <= most
    }

    /// What differs per launch, in a copy of the template.
    #[inline]
    fn fill(&self, words: &mut [u32], sizes: &Sizes, kernargs: u64) {
        let Some(head) = words.first_chunk_mut::<HEAD_WORDS>() else {
            return;
        };
        head[NDRANGE] = sizes.packed();
        [head[NDRANGE + 1], head[NDRANGE + 3], head[NDRANGE + 5]] = sizes.items;
        [head[GROUPS], head[GROUPS + 1], head[GROUPS + 2]] = sizes.groups;
        [head[CONSTANTS], head[CONSTANTS + 1]] = split(kernargs);
        if self.has_exec
            && let Some(tail) = words.last_chunk_mut::<TAIL_WORDS>()
        {
            const AT: usize = ExecCs::GROUPS;
            [tail[AT], tail[AT + 1], tail[AT + 2]] = sizes.groups;
        }
        for place in self.places.block() {
            // The block's end is an address, so this does not wrap.
            let address = split(kernargs.wrapping_add(place.offset.into()));
            if let Some(to) = words.get_mut(place.at..).and_then(<[u32]>::first_chunk_mut) {
                *to = address;
            }
        }
    }

    /// What the program finds of them in its argument block.
    #[inline]
    fn write_known_sizes(
        &self,
        sizes: &Sizes,
        block: &mut Block<'_, '_>,
    ) -> Result<(), RecordError> {
        if let Some(at) = self.group_size_at {
            block.write(at, sizes.local.as_bytes())?;
        }
        if let Some(at) = self.group_count_at {
            block.write(at, sizes.groups.as_bytes())?;
        }
        Ok(())
    }

    /// A group has at most 1024 work-items in each dimension, and as many in all as the program's registers leave room for:
    /// each limit for itself.
    #[cold]
    fn check_local(&self, c: &mut Command<'_, '_>, local: &[Value; 3]) -> Result<(), RecordError> {
        let max = u64::from(self.max_group);
        let mut all = Value::Imm(1);
        let mut known = 1u64;
        for (d, size) in (0u8..).zip(*local) {
            if let Value::Imm(size) = size {
                let fit = Fit {
                    least: 1,
                    ..Fit::at_most(MAX_GROUP.into())
                };
                fit.check(size).operand(Operand::Local(d))?;
                known = known.saturating_mul(size);
            }
            all = c.list().product(all, size)?;
        }
        if known > max {
            return Err(RecordError::Limit {
                operand: Operand::Local(3),
                value: known,
                max,
            });
        }
        c.list()
            .require(all, Fit::at_most(max))
            .operand(Operand::Local(3))
    }

    /// Arguments, constants, samplers and descriptors.
    #[inline]
    fn write_block(
        &self,
        c: &mut Command<'_, '_>,
        args: &[Arg<'_>],
        block: &mut Block<'_, '_>,
    ) -> Result<(), RecordError> {
        let arguments = &self.arguments;
        if !arguments.constants.is_empty() || !arguments.samplers.is_empty() {
            self.write_fixed(block)?;
        }
        // Behind the samplers: arguments take the place of the first ones.
        self.layout.write(args, block, c.list())?;
        if !arguments.images.is_empty() {
            self.write_images(c, args, block)?;
        }
        Ok(())
    }

    /// Constants and samplers, which no launch gives.
    #[inline(never)]
    fn write_fixed(&self, block: &mut Block<'_, '_>) -> Result<(), RecordError> {
        let arguments = &self.arguments;
        for constant in arguments.constants {
            let value = constant.value.to_le_bytes();
            let value = value.get(..constant.bytes.into()).unwrap_or(&value);
            block.write(constant.offset as usize, value)?;
        }
        let samplers = arguments
            .samplers
            .iter()
            .zip((arguments.sampler_table.at as usize..).step_by(SAMPLER_BYTES as usize));
        for (sampler, at) in samplers {
            block.write(at, &sampler.bytes())?;
        }
        Ok(())
    }

    #[inline(never)]
    fn write_images(
        &self,
        c: &mut Command<'_, '_>,
        args: &[Arg<'_>],
        block: &mut Block<'_, '_>,
    ) -> Result<(), RecordError> {
        for image in self.arguments.images {
            let operand = Operand::Argument(image.argument);
            let at = image.offset as usize;
            let address_at = at + ADDRESS_AT as usize;
            let wrong = RecordError::ArgumentKind {
                index: image.argument,
            };
            match (image.descriptor, args.get(usize::from(image.argument))) {
                (Some(words), Some(Arg::Buffer(address))) => {
                    c.list().require(*address, ADDRESS_FIT).operand(operand)?;
                    let mut words = words;
                    if let Value::Imm(address) = *address {
                        [words[4], words[5]] = split(address);
                        block.write(at, &bytes(&words))?;
                        continue;
                    }
                    let words = bytes(&words);
                    let (before, rest) = words.split_at(ADDRESS_AT as usize);
                    block.write(at, before)?;
                    block.write(address_at + 8, rest.get(8..).unwrap_or_default())?;
                    if !image.own {
                        block.whole(c.list(), address_at, *address, Store::W64, operand)?;
                    }
                }
                (None, Some(Arg::Bytes(bytes))) => block.write(at, bytes)?,
                _ => return Err(wrong),
            }
        }
        Ok(())
    }

    /// The argument block's address, or one that is known at launch only.
    #[cold]
    fn write_addresses(
        &self,
        c: &mut Command<'_, '_>,
        first: usize,
        block: &Block<'_, '_>,
    ) -> Result<(), RecordError> {
        let (need, have) = (self.arguments.end as usize, block.len());
        let constants = BlockAddress {
            at: CONSTANTS,
            offset: 0,
        };
        for place in core::iter::once(&constants).chain(self.places.block()) {
            let address = block
                .address(place.offset as usize)
                .ok_or(RecordError::KernargsTooSmall { need, have })?;
            // Tables start at multiples of their alignment, samplers at one of 16.
            let align = KERNARGS_ALIGN_LOG2.min(place.offset.trailing_zeros() as u8);
            c.set_pair(first + place.at, address, Fit::aligned(ADDRESS_BITS, align))
                .operand(Operand::Kernargs)?;
        }
        Ok(())
    }

    /// Sites of addresses that are known at launch only.
    #[cold]
    fn relocate(&self, c: &mut Command<'_, '_>, first: usize) -> Result<(), RecordError> {
        if let Some(code) = self.code {
            let address = Value::from(code) + self.kernel.code;
            for at in CODE {
                c.set_pair(first + at, address, CODE_FIT)
                    .operand(Operand::Program)?;
            }
        }
        if let Some(private) = self.private {
            c.set_pair(first + PRIVATE, private.into(), PRIVATE_FIT)
                .operand(Operand::Program)?;
        }
        if let Some(at) = self.places.border_colors {
            let address = self.device.border_colors();
            c.set_pair(first + at, address, BORDER_COLORS_FIT)
                .operand(Operand::Program)?;
        }
        let flush = self.len.saturating_sub(Packets::FLUSH_WORDS);
        let at = first + flush + Packets::FLUSH_ADDRESS;
        c.set_pair(at, self.device.scrap(), SCRAP_FIT)
            .operand(Operand::Address)
    }

    /// Sites for sizes that are not known, errors for those that do not fit.
    #[cold]
    fn write_sizes(
        &self,
        c: &mut Command<'_, '_>,
        first: usize,
        launch: &mut Launch<'_, '_, Self>,
    ) -> Result<(), RecordError> {
        let [x, y, z] = launch.local;
        let [fx, fy, fz] = LOCAL_LESS_ONE;
        let parts = [
            (x - 1, Part::Field(fx)),
            (y - 1, Part::Field(fy)),
            (z - 1, Part::Field(fz)),
        ];
        let packed = c.list().sum(THREE_DIMENSIONS, &parts, Swap::No);
        let packed = packed.map_err(|e| match e {
            SumError::Misfit { part, misfit } => RecordError::Misfit {
                operand: Operand::Local(u8::try_from(part).unwrap_or(3)),
                misfit,
            },
            SumError::Build(e) => e.into(),
        })?;
        c.set_value(first + NDRANGE, packed, Fit::bits(32))
            .operand(Operand::Local(3))?;
        let exec = self.len.saturating_sub(TAIL_WORDS) + ExecCs::GROUPS;
        let dimensions = launch.groups.iter().zip(&launch.local);
        for (d, (&groups, &local)) in (0u8..).zip(dimensions) {
            let (at, operand) = (usize::from(d), Operand::Groups(d));
            let items = c.list().product(groups, local)?;
            c.set_value(first + NDRANGE + 1 + 2 * at, items, Fit::count(32))
                .operand(operand)?;
            c.set_value(first + GROUPS + at, groups, Fit::count(32))
                .operand(operand)?;
            if self.has_exec {
                c.set_value(first + exec + at, groups, Fit::count(32))
                    .operand(operand)?;
            }
            if let Some(size_at) = self.group_size_at {
                let operand = Operand::Local(d);
                launch
                    .kernargs
                    .whole(c.list(), size_at + 4 * at, local, Store::W32, operand)?;
            }
            if let Some(count_at) = self.group_count_at {
                launch
                    .kernargs
                    .whole(c.list(), count_at + 4 * at, groups, Store::W32, operand)?;
            }
        }
        Ok(())
    }
}

impl hcq_nostd::queue::Program for Program<'_> {
    /// Bytes of the argument block, with descriptors and samplers.
    #[inline]
    fn kernargs_size(&self) -> usize {
        self.arguments.end as usize
    }

    fn kernargs_align(&self) -> usize {
        1 << KERNARGS_ALIGN_LOG2
    }
}
