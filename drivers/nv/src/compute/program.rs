//! A kernel prepared for one device: its launch descriptor, and what it finds in front of its arguments.

use hcq_nostd::args::ArgLayout;
use hcq_nostd::patch::{Formula, PatchList, Store};
use hcq_nostd::queue::Launch;
use hcq_nostd::record::{Block, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Misfit, Value, Var};
use zerocopy::IntoBytes;

use crate::chips::{Chip, MAX_BANK_WORDS};
use crate::device::Device;
use crate::kernel::{
    Kernel, Local, MAX_BARRIERS, MAX_BLOCK, MAX_GRID, MAX_REGISTERS, Origin, STACK_START,
    check_sizes, sound_sizes, write_arguments, write_known,
};
use crate::local_memory::LocalMemory;
use crate::qmd::{
    Address, BANK_ALIGN_LOG2, Bits, CONSTANT_STRIDE, Layout, MAX_WORDS, V3_0, V4_0, V5_0, Words,
};

/// Shared memory is handed out in units of 128 bytes.
const SHARED_UNIT: u64 = 128;
/// CONSTANT_BUFFER_SIZE_SHIFTED4 counts 16 bytes, and a bank has 64 KiB at most.
const BANK_UNIT: u32 = 16;
const MAX_BANK: u32 = 64 * 1024;

/// QMD_GROUP_ID of a launch that belongs to no group.
const GROUP_NONE: u64 = 0x3f;
/// QMD_TYPE_GRID_CTA.
const TYPE_GRID_CTA: u64 = 2;
/// CWD_MEMBAR_TYPE_L1_SYSMEMBAR: what a grid writes is visible to the whole system when it is complete.
const MEMBAR_SYSTEM: u64 = 1;
/// API_VISIBLE_CALL_LIMIT_NO_CHECK, SAMPLER_INDEX_VIA_HEADER_INDEX.
const ON: u64 = 1;

/// Why a kernel cannot run on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ProgramError {
    /// More registers than a thread can have.
    Registers {
        /// Registers that it needs.
        need: u32,
        /// The most there may be.
        max: u32,
    },
    /// More barriers than a group can have.
    Barriers {
        /// Barriers that it needs.
        need: u32,
        /// The most there may be.
        max: u32,
    },
    /// More shared memory than a group can have.
    Shared {
        /// Bytes that it needs, with what the system reserves.
        need: u64,
        /// The most there may be.
        max: u32,
    },
    /// More local memory than the device's threads have.
    Local {
        /// Bytes that a thread needs.
        need: u32,
        /// Bytes that a thread has.
        have: u32,
    },
    /// A constant bank that is larger than 64 KiB, or not where a launch descriptor can have one.
    Bank {
        /// Its number.
        index: usize,
    },
    /// An argument that ends behind bank 0, or arguments over words that the kernel reads.
    Arguments {
        /// Where they end, or start.
        at: u64,
        /// Bytes of the bank, or of those words.
        bytes: u32,
    },
    /// An address or number that a field of the launch descriptor cannot hold.
    Misfit(Misfit),
}

impl core::fmt::Display for ProgramError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Registers { need, max } => write!(f, "{need} registers; a thread has {max}"),
            Self::Barriers { need, max } => write!(f, "{need} barriers; a group has {max}"),
            Self::Shared { need, max } => {
                write!(f, "{need} bytes of shared memory; a group has {max}")
            }
            Self::Local { need, have } => {
                write!(
                    f,
                    "{need} bytes of local memory per thread; there are {have}"
                )
            }
            Self::Bank { index } => write!(f, "constant bank {index} is too large or misplaced"),
            Self::Arguments { at, bytes } => {
                write!(f, "arguments at byte {at} of a constant bank of {bytes}")
            }
            Self::Misfit(m) => write!(f, "{m}"),
        }
    }
}

impl core::error::Error for ProgramError {}

impl From<Misfit> for ProgramError {
    fn from(m: Misfit) -> Self {
        Self::Misfit(m)
    }
}

/// A kernel prepared for one device's compute queues.
///
/// Its argument block is the whole of constant bank 0: sizes and windows in front, then the arguments.
#[derive(Clone, Debug)]
pub struct Program<'p> {
    chip: &'static Chip,
    kernel: Kernel,
    arguments: ArgLayout<'p>,
    qmd: Words,
    /// The words in front of the arguments.
    front: [u32; MAX_BANK_WORDS],
    /// How many of them are written: all in front of the arguments, up to as many as there are.
    front_words: usize,
    bank_bytes: u32,
    /// Byte offsets of a group's sizes and a grid's in front of the arguments.
    sizes_at: [u16; 2],
    /// Work-items of a group at most.
    group_limit: u32,
    /// The two words of the descriptor that a group's sizes go into, and those of bank 0's address, with what else they hold.
    group: u64,
    bank: u64,
    /// Where the cubin's image is, if that is known at launch only.
    code: Option<Var>,
}

/// Puts a value into its field.
fn set(qmd: &mut Words, at: Bits, value: u64) -> Result<(), Misfit> {
    let (field, bits) = (at.field(), at.field().place(value)?);
    if let Some(word) = qmd.get_mut(at.word()) {
        let mask = (field.mask() << field.shift) & u64::from(u32::MAX);
        // The field is inside its word.
        *word = *word & !(mask as u32) | bits as u32;
    }
    Ok(())
}

/// The low 32 bits of what an address is counted in, and the rest.
fn set_address(qmd: &mut Words, at: Address, address: u64) -> Result<(), Misfit> {
    Fit::aligned(at.bits(), at.shift).check(address)?;
    let units = address >> at.shift;
    set(qmd, at.lower, units & u64::from(u32::MAX))?;
    set(qmd, at.upper, units >> 32)
}

/// Two words as one number.
fn pair(qmd: &Words, first: usize) -> u64 {
    let word = |at: usize| u64::from(qmd.get(at).copied().unwrap_or_default());
    word(first) | word(first.saturating_add(1)) << 32
}

/// SHARED_MEMORY_SIZE and the configurations that go with it.
fn set_shared(qmd: &mut Words, chip: &Chip, bytes: u64) -> Result<(), Option<Misfit>> {
    let rounded = bytes.checked_next_multiple_of(SHARED_UNIT).ok_or(None)?;
    let config = chip.shared.config(rounded).ok_or(None)?;
    let [min, target, max] = chip.qmd.shared_config;
    set(qmd, chip.qmd.shared, rounded)?;
    set(qmd, min, config.into())?;
    set(qmd, target, config.into())?;
    set(qmd, max, chip.shared.largest_config().into())?;
    Ok(())
}

/// The descriptor of a kernel, without what a launch adds.
fn template(device: &Device, kernel: &Kernel, bank_0: u32) -> Result<Words, ProgramError> {
    let (chip, layout) = (device.chip(), device.chip().qmd);
    let mut qmd = [0; MAX_WORDS];
    let fixed = &layout.fixed;
    let mut put = |at, value| set(&mut qmd, at, value);
    put(fixed.major, layout.major.into())?;
    put(fixed.minor, layout.minor.into())?;
    put(fixed.group_id, GROUP_NONE)?;
    if let Some(kind) = fixed.kind {
        put(kind, TYPE_GRID_CTA)?;
    }
    if let Some(caching) = fixed.global_caching {
        put(caching, ON)?;
    }
    for at in [fixed.call_limit, fixed.sampler_index]
        .into_iter()
        .chain(fixed.invalidate)
    {
        put(at, ON)?;
    }
    put(fixed.membar, MEMBAR_SYSTEM)?;

    put(layout.registers, kernel.registers.into())?;
    // One is always there.
    put(layout.barriers, kernel.barriers.max(1).into())?;
    put(layout.sass_version, device.sass_version().into())?;
    let local = kernel.thread_bytes().unwrap_or(u32::MAX);
    match kernel.local {
        Local::Low(_) => put(layout.local_low, local.into())?,
        Local::High(_) => put(layout.local_high, local.into())?,
    }
    let prefetch = u64::from(kernel.code_bytes >> layout.prefetch.shift);
    let prefetch_size = layout.prefetch_size;
    put(prefetch_size, prefetch.min(prefetch_size.field().mask()))?;
    set_address(&mut qmd, layout.program, kernel.entry)?;
    let unit = 1u64 << layout.prefetch.shift;
    set_address(&mut qmd, layout.prefetch, kernel.entry & !(unit - 1))?;

    let shared = kernel.shared_bytes.into();
    set_shared(&mut qmd, chip, shared).map_err(|misfit| match misfit {
        Some(misfit) => ProgramError::Misfit(misfit),
        None => ProgramError::Shared {
            need: shared,
            max: chip.shared.max_bytes(),
        },
    })?;

    for (n, (index, bank)) in (0u16..).zip(kernel.banks.iter().enumerate()) {
        let Some(bank) = bank else { continue };
        let bad = ProgramError::Bank { index };
        let (valid, stride) = layout.constant_valid;
        set(&mut qmd, valid.nth(n, stride), ON)?;
        let bytes = if index == 0 {
            let (invalidate, stride) = layout.constant_invalidate;
            set(&mut qmd, invalidate.nth(n, stride), ON)?;
            bank_0
        } else {
            let at = layout.constant.nth(n, CONSTANT_STRIDE);
            set_address(&mut qmd, at, bank.address).map_err(|_| bad)?;
            bank.bytes
        };
        if bytes > MAX_BANK {
            return Err(bad);
        }
        // Whole units, of which 64 KiB are no more than the field counts.
        let size = bytes.next_multiple_of(BANK_UNIT).into();
        set(&mut qmd, layout.constant_size.nth(n, CONSTANT_STRIDE), size)?;
    }
    Ok(qmd)
}

/// The words in front of the arguments, without what a launch adds.
fn front(device: &Device) -> [u32; MAX_BANK_WORDS] {
    let (mut words, at) = ([0; MAX_BANK_WORDS], &device.chip().bank_words);
    let windows = device.windows();
    for (place, address) in [
        (at.shared_window, windows.shared),
        (at.local_window, windows.local),
    ] {
        let pair = [
            (place, address & u64::from(u32::MAX)),
            (place.saturating_add(1), address >> 32),
        ];
        for (place, half) in pair {
            if let Some(word) = words.get_mut(place) {
                // Half of 64 bits.
                *word = half as u32;
            }
        }
    }
    if let Some(word) = words.get_mut(at.stack) {
        *word = STACK_START;
    }
    words
}

impl<'p> Program<'p> {
    /// Prepares a kernel whose image is loaded. `arguments` is where they lie in bank 0; `local` is the memory that the
    /// device's channels have for stacks.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub fn new(
        device: &Device,
        kernel: &Kernel,
        arguments: ArgLayout<'p>,
        local: &LocalMemory,
    ) -> Result<Self, ProgramError> {
        let (need, max) = (kernel.registers, MAX_REGISTERS);
        if need > max {
            return Err(ProgramError::Registers { need, max });
        }
        if kernel.barriers > MAX_BARRIERS {
            return Err(ProgramError::Barriers {
                need: kernel.barriers,
                max: MAX_BARRIERS,
            });
        }
        let (need, have) = (
            kernel.thread_bytes().unwrap_or(u32::MAX),
            local.thread_bytes(),
        );
        if need > have {
            return Err(ProgramError::Local { need, have });
        }
        let bank_words = &device.chip().bank_words;
        let end = arguments
            .slots
            .iter()
            .map(|s| u64::from(s.offset) + u64::from(s.size))
            .fold(u64::from(arguments.size), u64::max);
        let [bank_0, ..] = kernel.banks;
        let declared = bank_0.map_or(0, |bank| bank.bytes);
        let bank_bytes = match kernel.origin {
            Origin::Cuda => declared,
            Origin::Nak => declared.max(u32::try_from(end).unwrap_or(u32::MAX)),
        };
        if bank_bytes > MAX_BANK {
            return Err(ProgramError::Bank { index: 0 });
        }
        if end > bank_bytes.into() {
            return Err(ProgramError::Arguments {
                at: end,
                bytes: bank_bytes,
            });
        }
        let front_words = match kernel.origin {
            Origin::Nak => 0,
            Origin::Cuda => {
                let words = (kernel.arguments_at / 4) as usize;
                let first = arguments.slots.iter().map(|s| s.offset).min();
                let over = first.is_some_and(|at| at < kernel.arguments_at);
                if words < bank_words.len || kernel.arguments_at > bank_bytes || over {
                    return Err(ProgramError::Arguments {
                        at: kernel.arguments_at.into(),
                        bytes: bank_bytes,
                    });
                }
                words
            }
        };
        let (layout, qmd) = (device.chip().qmd, template(device, kernel, bank_bytes)?);
        Ok(Self {
            chip: device.chip(),
            kernel: *kernel,
            arguments,
            front: front(device),
            front_words,
            bank_bytes,
            // Nothing is in front of the arguments that far.
            sizes_at: [bank_words.block, bank_words.grid]
                .map(|word| u16::try_from(4 * word).unwrap_or(u16::MAX)),
            group_limit: kernel.group_limit(),
            group: pair(&qmd, usize::from(layout.places.group) / 4),
            bank: pair(&qmd, usize::from(layout.places.bank) / 4),
            code: None,
            qmd,
        })
    }

    /// The same for code that lies at this variable when it runs: the kernel's addresses count from there, as those of a
    /// kernel whose image was found at address 0. The variable is a multiple of 256.
    pub const fn based_on(mut self, code: Var) -> Self {
        self.code = Some(code);
        // No group is that small: all of its launches take the long way.
        self.group_limit = 0;
        self
    }

    /// The kernel.
    pub const fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The chip that it is prepared for.
    pub const fn chip(&self) -> &'static Chip {
        self.chip
    }

    /// The launch descriptor without what a launch adds: grid, group, bank 0, shared memory, releases, dependent launch.
    pub fn template(&self) -> &[u32] {
        self.qmd.get(..self.chip.qmd.words).unwrap_or_default()
    }

    /// Writes what is in front of the arguments.
    #[inline]
    fn write_front(&self, block: &mut Block<'_, '_>, launch: &Sizes) -> Result<(), RecordError> {
        let known = self.front.get(..self.front_words).unwrap_or(&self.front);
        block.write(0, known.as_bytes())?;
        if self.front_words > known.len() {
            self.write_zeros(block)?;
        }
        // `Program::new` has found all of them to be in front of the arguments.
        let [group, grid] = self.sizes_at;
        block.write(group.into(), launch.local.as_bytes())?;
        block.write(grid.into(), launch.groups.as_bytes())?;
        if let (Some(place), 1..) = (self.chip.bank_words.dynamic_shared, launch.local_memory) {
            block.write(place * 4, &launch.local_memory.to_le_bytes())?;
        }
        Ok(())
    }

    /// Behind the words that hold something, up to the arguments: nothing but zeros.
    #[cold]
    fn write_zeros(&self, block: &mut Block<'_, '_>) -> Result<(), RecordError> {
        let zeros = [0u32; 64];
        let mut done = self.front.len();
        while let Some(left @ 1..) = self.front_words.checked_sub(done) {
            let piece = zeros.get(..left).unwrap_or(&zeros);
            block.write(done * 4, piece.as_bytes())?;
            done += piece.len();
        }
        Ok(())
    }

    /// What [`record`](Self::record) does, for a launch of which all is known. `false` if that is another one, or anything
    /// is wrong with it: what was written so far does not count.
    #[inline]
    pub(crate) fn record_known(
        &self,
        qmd: &mut Block<'_, '_>,
        launch: &mut Launch<'_, '_, Self>,
        bank: Option<&Value>,
    ) -> bool {
        let kernargs = &mut launch.kernargs;
        let address = match bank {
            None => kernargs.device_address(0),
            Some(bank) => bank.imm(),
        };
        let limit = self.group_limit;
        let sizes = sound_sizes(&self.kernel, limit, &launch.groups, &launch.local);
        let (Some(address), Some([groups, local])) = (address, sizes) else {
            return false;
        };
        let sizes = Sizes {
            groups,
            local,
            local_memory: launch.local_memory,
        };
        kernargs.len() >= self.bank_bytes as usize
            && (self.front_words == 0 || self.write_front(kernargs, &sizes).is_ok())
            && write_known(&self.arguments, launch.args, kernargs)
            && self.write_qmd(qmd, &sizes, address).is_ok()
    }

    /// Writes the argument block and the launch descriptor. `bank` is where bank 0 will be, if that is not where the block
    /// is now.
    #[cold]
    pub(crate) fn record(
        &self,
        list: &mut PatchList<'_>,
        qmd: &mut Block<'_, '_>,
        launch: &mut Launch<'_, '_, Self>,
        bank: Option<&Value>,
    ) -> Result<(), RecordError> {
        let (need, have) = (self.bank_bytes as usize, launch.kernargs.len());
        let too_small = RecordError::KernargsTooSmall { need, have };
        if have < need {
            return Err(too_small);
        }
        let Some(kernargs) = launch.kernargs.address(0) else {
            return Err(too_small);
        };
        // What is not known yet is stored later. Sizes are below 2^31.
        let bank = bank.copied().unwrap_or(kernargs);
        let address = bank.imm().unwrap_or_default();
        check_sizes(&self.kernel, list, &launch.groups, &launch.local)?;
        let numbers = |sizes: [Value; 3]| sizes.map(|size| size.imm().unwrap_or_default() as u32);
        let sizes = Sizes {
            groups: numbers(launch.groups),
            local: numbers(launch.local),
            local_memory: launch.local_memory,
        };
        if self.front_words > 0 {
            self.write_front(&mut launch.kernargs, &sizes)?;
        }
        write_arguments(&self.arguments, launch.args, &mut launch.kernargs, list)?;
        self.write_qmd(qmd, &sizes, address)?;
        self.file_sites(list, qmd, launch, bank)
    }

    #[inline]
    fn write_qmd(
        &self,
        qmd: &mut Block<'_, '_>,
        launch: &Sizes,
        address: u64,
    ) -> Result<(), RecordError> {
        let places = &self.chip.qmd.places;
        if address & places.bank_zero != 0 {
            places.bank_fit.check(address).operand(Operand::Kernargs)?;
        }
        let with;
        let template = match launch.local_memory {
            0 => &self.qmd,
            more => {
                with = self.with_shared(more)?;
                &with
            }
        };
        // No layout is longer than a template.
        if let Some(words) = template.get(..self.chip.qmd.words) {
            qmd.write(0, words.as_bytes())?;
        }
        qmd.write(places.grid.into(), launch.groups.as_bytes())?;
        let [x, y, z] = launch.local.map(u64::from);
        let [at_x, at_y, at_z] = places.group_shifts;
        let group = self.group | x << at_x | y << at_y | z << at_z;
        qmd.write(places.group.into(), &group.to_le_bytes())?;
        let constant = self.bank | address >> places.bank_shift;
        qmd.write(places.bank.into(), &constant.to_le_bytes())
    }

    /// The template of a launch with more shared memory than the kernel declares.
    #[cold]
    fn with_shared(&self, local_memory: u32) -> Result<Words, RecordError> {
        let mut words = self.qmd;
        let bytes = u64::from(self.kernel.shared_bytes) + u64::from(local_memory);
        set_shared(&mut words, self.chip, bytes).map_err(|misfit| match misfit {
            Some(misfit) => RecordError::Misfit {
                operand: Operand::LocalMemory,
                misfit,
            },
            None => RecordError::Limit {
                operand: Operand::LocalMemory,
                value: bytes,
                max: self.chip.shared.max_bytes().into(),
            },
        })?;
        Ok(words)
    }

    /// Sites for what is not known yet, but for arguments.
    #[cold]
    fn file_sites(
        &self,
        list: &mut PatchList<'_>,
        qmd: &mut Block<'_, '_>,
        launch: &mut Launch<'_, '_, Self>,
        bank: Value,
    ) -> Result<(), RecordError> {
        let (layout, [group, grid]) = (self.chip.qmd, self.sizes_at);
        let compiled = self.front_words > 0;
        for (d, (at, value)) in (0u8..).zip(layout.grid.iter().zip(launch.groups)) {
            if value.imm().is_some() {
                continue;
            }
            // A word of its own in both: one formula, so that it is checked and worked out once.
            let (formula, operand) = (size(MAX_GRID, d, Store::W32), Operand::Groups(d));
            if compiled {
                let at = usize::from(grid) + 4 * usize::from(d);
                let kernargs = &mut launch.kernargs;
                kernargs.value(list, at, value, &formula, operand)?;
            }
            qmd.value(list, at.at(), value, &formula, operand)?;
        }
        for (d, (at, value)) in (0u8..).zip(layout.block.iter().zip(launch.local)) {
            if value.imm().is_some() {
                continue;
            }
            let operand = Operand::Local(d);
            if compiled {
                let at = usize::from(group) + 4 * usize::from(d);
                let formula = size(MAX_BLOCK, d, Store::W32);
                let kernargs = &mut launch.kernargs;
                kernargs.value(list, at, value, &formula, operand)?;
            }
            let store = match at.width() {
                8 => Store::W8,
                _ => Store::W16,
            };
            let formula = size(MAX_BLOCK, d, store);
            qmd.value(list, at.byte(), value, &formula, operand)?;
        }
        if bank.imm().is_none() {
            let places = &layout.places;
            // The upper word has the bank's size, too.
            let formula = Formula {
                shr: places.bank_shift,
                base: self.bank,
                fit: places.bank_fit,
                ..Formula::whole(Var::new(0))
            };
            qmd.value(list, places.bank.into(), bank, &formula, Operand::Kernargs)?;
        }
        match self.code {
            Some(code) => self.relocate(list, qmd, code),
            None => Ok(()),
        }
    }

    /// Sites of addresses in an image whose place is known at launch only.
    #[cold]
    fn relocate(
        &self,
        list: &mut PatchList<'_>,
        block: &mut Block<'_, '_>,
        code: Var,
    ) -> Result<(), RecordError> {
        let layout = self.chip.qmd;
        let mut file = |at: Address, offset: u64| {
            self.file_address(list, block, at, Value::from(code) + offset)
        };
        file(layout.program, self.kernel.entry)?;
        let unit = 1u64 << layout.prefetch.shift;
        file(layout.prefetch, self.kernel.entry & !(unit - 1))?;
        for (n, bank) in (0u16..).zip(&self.kernel.banks).skip(1) {
            if let Some(bank) = bank {
                file(layout.constant.nth(n, CONSTANT_STRIDE), bank.address)?;
            }
        }
        Ok(())
    }

    /// Sites of an address: a word, and the low bits of another one, whose other bits are the template's.
    fn file_address(
        &self,
        list: &mut PatchList<'_>,
        block: &mut Block<'_, '_>,
        at: Address,
        value: Value,
    ) -> Result<(), RecordError> {
        let (fit, operand) = (Fit::aligned(at.bits(), at.shift), Operand::Program);
        let low = Formula {
            shr: at.shift,
            ..Formula::low(Var::new(0), fit)
        };
        block.value(list, at.lower.at(), value, &low, operand)?;
        let word = self.qmd.get(at.upper.word()).copied().unwrap_or_default();
        let mask = at.upper.field().mask();
        let high = Formula {
            shr: at.shift.saturating_add(32),
            mask,
            base: u64::from(word) & !mask,
            ..low
        };
        block.value(list, at.upper.at(), value, &high, operand)
    }
}

/// A size in dimension `d` that is known at launch only, in a store that holds all sizes up to `most`.
fn size(most: [u32; 3], d: u8, store: Store) -> Formula {
    let most = most.get(usize::from(d)).copied().unwrap_or_default();
    Formula {
        fit: Fit {
            most: most.into(),
            ..Fit::count(32)
        },
        ..Formula::narrow(Var::new(0), store)
    }
}

/// Whether these fields hold all sizes up to the limits.
const fn hold(fields: [Bits; 3], most: [u32; 3]) -> bool {
    let ([x, y, z], [most_x, most_y, most_z]) = (fields, most);
    x.field().mask() >= most_x as u64
        && y.field().mask() >= most_y as u64
        && z.field().mask() >= most_z as u64
}

const fn holds_sizes(layout: &Layout) -> bool {
    hold(layout.grid, MAX_GRID) && hold(layout.block, MAX_BLOCK)
}

/// Sizes within the limits need no further look when they are stored.
const _: () = assert!(holds_sizes(&V3_0) && holds_sizes(&V4_0) && holds_sizes(&V5_0));

/// What of a launch decides its descriptor, with zero for sizes that are not known yet.
struct Sizes {
    groups: [u32; 3],
    local: [u32; 3],
    local_memory: u32,
}

impl hcq_nostd::queue::Program for Program<'_> {
    /// Bytes of constant bank 0.
    #[inline]
    fn kernargs_size(&self) -> usize {
        self.bank_bytes as usize
    }

    fn kernargs_align(&self) -> usize {
        1 << BANK_ALIGN_LOG2
    }
}
