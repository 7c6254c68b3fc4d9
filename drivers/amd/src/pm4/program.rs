//! A kernel prepared for one device: the packets of its dispatch, and where the few words are that differ.

mod prepare;

use hcq_nostd::args::PreparedLayout;
use hcq_nostd::patch::Formula;
use hcq_nostd::queue::Launch;
use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Misfit, Value, Var};

use super::dispatch_direct::DispatchDirect;
use super::split;
use crate::aql::dispatch::{LaunchFields, READ_ALIGN, record_for_reading};
use crate::chips::Lds;
use crate::device::ADDRESS_BITS;
use crate::hidden::{self, Apertures, HiddenSlot};
use crate::kernel::{Arguments, Kernel, LDS_SIZE, Properties, check_local, known_sizes, lds_size};
use crate::scratch::Scratch;

/// ACQUIRE_MEM 8, SET_SH_REG of PGM 4, RSRC1 4, RSRC3 3, TMPRING 3, RESTART 5, RESOURCE_LIMITS 3, START 10,
/// DISPATCH_DIRECT 5, EVENT_WRITE 2; user data in up to two packets of 16 in all.
const COMMON_WORDS: usize = 8 + 4 + 4 + 3 + 3 + 5 + 3 + 10 + 5 + 2 + 2 + 16;
/// PRED_EXEC, scratch base, scratch descriptor.
const XCC_WORDS: usize = 2 + 4 + 6;
const TEMPLATE_WORDS: usize = COMMON_WORDS + MAX_XCCS * XCC_WORDS;
/// XCCs of any chip.
const MAX_XCCS: usize = 8;
/// The end of every dispatch: the last two words of user data (the argument block's address, for most kernels),
/// RESOURCE_LIMITS, START, DISPATCH_DIRECT, EVENT_WRITE.
const TAIL_WORDS: usize = USER_DATA + 3 + 10 + 5 + 2;
const USER_DATA: usize = 2;
/// Places in the tail of the first of three sizes: behind START_X, Y, Z, and behind the header of DISPATCH_DIRECT.
const LOCAL: usize = USER_DATA + 3 + 2 + 3;
const GROUPS: usize = USER_DATA + 3 + 10 + DispatchDirect::GROUPS;

/// Alignment of an argument block.
pub(crate) const KERNARG_ALIGN_LOG2: u8 = 4;
/// What an argument block's address is.
pub(crate) const KERNARG_FIT: Fit = Fit::aligned(ADDRESS_BITS, KERNARG_ALIGN_LOG2);

/// Why a kernel cannot run on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ProgramError {
    /// It asks for registers that this kind of queue cannot fill in.
    Unsupported(Properties),
    /// It asks for more registers than COMPUTE_PGM_RSRC2 makes room for.
    UserSgprs {
        /// Registers that its properties ask for.
        need: u32,
        /// Registers that COMPUTE_PGM_RSRC2.USER_SGPR counts.
        have: u32,
    },
    /// It is for waves of a width that the chip does not have.
    WaveSize,
    /// Its private memory does not fit a lane's scratch memory.
    Scratch {
        /// Bytes of private memory.
        need: u32,
        /// Bytes of a lane.
        have: u32,
    },
    /// An address or number that a register cannot hold.
    Misfit(Misfit),
    /// An argument or hidden argument ends behind the argument block, or the block is larger than 2^31 bytes.
    Arguments {
        /// Where it ends.
        end: u64,
        /// Bytes of the block.
        bytes: u32,
    },
    /// Not one variable for each XCC's scratch memory.
    ScratchParts {
        /// XCCs.
        need: u8,
        /// Variables.
        have: usize,
    },
    /// Packets that cannot be recorded.
    Record(RecordError),
}

impl core::fmt::Display for ProgramError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Unsupported(p) => {
                f.write_str("the queue cannot fill in the registers for ")?;
                bitflags::parser::to_writer(&p, f)
            }
            Self::UserSgprs { need, have } => {
                write!(f, "{need} user registers are asked for, {have} are there")
            }
            Self::WaveSize => f.write_str("the chip has no waves of this width"),
            Self::Scratch { need, have } => {
                write!(
                    f,
                    "{need} bytes of private memory per work-item; scratch memory has {have}"
                )
            }
            Self::Misfit(m) => write!(f, "{m}"),
            Self::Arguments { end, bytes } => {
                write!(f, "an argument ends at byte {end} of a block of {bytes}")
            }
            Self::ScratchParts { need, have } => {
                write!(f, "scratch memory of {need} XCCs at {have} variables")
            }
            Self::Record(e) => write!(f, "{e}"),
        }
    }
}

impl core::error::Error for ProgramError {}

impl From<Misfit> for ProgramError {
    fn from(m: Misfit) -> Self {
        Self::Misfit(m)
    }
}

impl From<RecordError> for ProgramError {
    fn from(e: RecordError) -> Self {
        Self::Record(e)
    }
}

/// Where the words of one XCC's scratch memory are.
#[derive(Clone, Copy, Debug, Default)]
struct XccPlaces {
    /// COMPUTE_DISPATCH_SCRATCH_BASE_LO.
    base: usize,
    /// The wave's descriptor, if it gets one.
    descriptor: Option<usize>,
}

/// Scratch memory that is known at launch only.
#[derive(Clone, Copy, Debug)]
struct ScratchVars {
    tmpring_size: Var,
    /// For each XCC.
    parts: [Var; MAX_XCCS],
}

/// Words of a template that differ per launch or when scratch memory moves.
#[derive(Clone, Copy, Debug)]
struct Places {
    /// COMPUTE_PGM_LO.
    pgm: usize,
    rsrc2: usize,
    /// COMPUTE_TMPRING_SIZE.
    tmpring: usize,
    xccs: [XccPlaces; MAX_XCCS],
    xcc_count: u8,
    dispatch_ptr: Option<usize>,
    kernargs: Option<usize>,
    /// Whether the argument block's address is in the tail.
    kernargs_in_tail: bool,
}

/// A kernel prepared for one device's PM4 queues.
#[derive(Clone, Debug)]
pub struct Program<'p> {
    kernel: Kernel,
    arguments: PreparedLayout<'p>,
    hidden: &'p [HiddenSlot],
    apertures: Apertures,
    scratch: Scratch,
    /// All packets but the tail.
    head: [u32; TEMPLATE_WORDS],
    head_len: usize,
    /// The tail, its sizes one.
    tail: [u32; TAIL_WORDS],
    places: Places,
    /// Bytes of the argument block, and where the dispatch packet is in it if the kernel reads one.
    kernargs_size: usize,
    packet_at: Option<usize>,
    lds: Lds,
    max_group: u32,
    /// Where the code object's image is, if that is known at launch only.
    code: Option<Var>,
    /// The same for scratch memory.
    scratch_vars: Option<ScratchVars>,
}

/// An address of up to 48 bits, counted in 256 bytes, in two words.
fn units(of: Var) -> Formula {
    Formula {
        shr: 8,
        fit: Fit::aligned(ADDRESS_BITS, 8),
        ..Formula::whole(of)
    }
}

/// Checks that arguments and hidden arguments are inside the kernel's block; returns its bytes.
pub(crate) fn arguments_end(
    kernel: &Kernel,
    arguments: &Arguments<'_>,
) -> Result<usize, ProgramError> {
    let bytes = kernel.kernarg_bytes.max(arguments.layout.size);
    let explicit = arguments
        .layout
        .slots
        .iter()
        .map(|s| u64::from(s.offset) + u64::from(s.size));
    let hidden = arguments
        .hidden
        .iter()
        .map(|s| u64::from(s.offset) + u64::from(s.size));
    let end = explicit.chain(hidden).max().unwrap_or(0);
    if end > bytes.into() || bytes > 1 << 31 {
        return Err(ProgramError::Arguments { end, bytes });
    }
    Ok(bytes as usize)
}

/// What a program of either kind of queue needs of its scratch memory.
pub(crate) fn check_scratch(kernel: &Kernel, scratch: &Scratch) -> Result<(), ProgramError> {
    // A stack that grows has no size; it needs memory to grow into.
    let grows = kernel.properties.contains(Properties::USES_DYNAMIC_STACK);
    let need = kernel.private_bytes.max(u32::from(grows));
    let have = scratch.lane_bytes();
    if need > have {
        return Err(ProgramError::Scratch { need, have });
    }
    Ok(())
}

impl<'p> Program<'p> {
    /// The same with these numbers in its hidden arguments.
    pub const fn with_apertures(mut self, apertures: Apertures) -> Self {
        self.apertures = apertures;
        self
    }

    /// The same for code that lies at this variable when it runs: the kernel's addresses count from there, as those of a
    /// kernel whose code object was found at address 0. The variable is a multiple of 256.
    pub const fn based_on(mut self, code: Var) -> Self {
        self.code = Some(code);
        self
    }

    /// The same for scratch memory that is known at launch only: COMPUTE_TMPRING_SIZE, and for each XCC the address of its
    /// part, a multiple of 256. What the program was prepared with is of no account but for the bytes of a lane.
    ///
    /// # Errors
    /// [`ProgramError::ScratchParts`].
    pub fn with_scratch_at(
        mut self,
        tmpring_size: Var,
        parts: &[Var],
    ) -> Result<Self, ProgramError> {
        let (need, have) = (self.places.xcc_count, parts.len());
        let mut all = [tmpring_size; MAX_XCCS];
        match all.get_mut(..have) {
            Some(to) if have == usize::from(need) => to.copy_from_slice(parts),
            _ => return Err(ProgramError::ScratchParts { need, have }),
        }
        self.scratch_vars = Some(ScratchVars {
            tmpring_size,
            parts: all,
        });
        Ok(self)
    }

    /// The kernel.
    pub const fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The scratch memory that its packets name. When it moves, the kernel is prepared and recorded again.
    pub const fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Words of one dispatch.
    pub const fn len(&self) -> usize {
        self.head_len + TAIL_WORDS
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
        let block = &mut launch.kernargs;
        let (need, have) = (self.kernargs_size, block.len());
        let too_small = RecordError::KernargsTooSmall { need, have };
        let address = block.address(0).filter(|_| have >= need).ok_or(too_small)?;
        // An address that is known at launch only is filled in behind.
        let kernargs = address.imm().unwrap_or(0);
        KERNARG_FIT.check(kernargs).operand(Operand::Kernargs)?;
        self.arguments.write(launch.args, block, c.list())?;

        let first = c.position();
        c.words(self.head.get(..self.head_len).unwrap_or_default());
        if let Some(([gx, gy, gz], [lx, ly, lz])) =
            known_sizes(&launch.groups, &launch.local, self.max_group)
        {
            if let Some(tail) = c.claim() {
                *tail = self.tail;
                if self.places.kernargs_in_tail {
                    [tail[0], tail[1]] = split(kernargs);
                }
                [tail[LOCAL], tail[LOCAL + 1], tail[LOCAL + 2]] = [lx, ly, lz];
                [tail[GROUPS], tail[GROUPS + 1], tail[GROUPS + 2]] = [gx, gy, gz];
            }
        } else {
            let mut tail = self.tail;
            if self.places.kernargs_in_tail {
                [tail[0], tail[1]] = split(kernargs);
            }
            self.patched_tail(c, &tail, &launch.groups, &launch.local)?;
        }
        if let Some(at) = self.places.kernargs {
            let [low, high] = split(kernargs);
            c.set(first + at, low);
            c.set(first + at + 1, high);
        }
        if launch.local_memory > 0 {
            let bytes = u64::from(self.kernel.group_bytes) + u64::from(launch.local_memory);
            let rsrc2 = self.kernel.rsrc[1] & !LDS_SIZE | lds_size(self.lds, bytes)?;
            c.set(first + self.places.rsrc2, rsrc2);
        }
        if self.packet_at.is_some() || !self.hidden.is_empty() {
            self.beside_arguments(c, launch, first, address)?;
        }
        if address.imm().is_none() || self.code.is_some() || self.scratch_vars.is_some() {
            self.relocate(c, first, address)?;
        }
        Ok(())
    }

    /// Sites of addresses that are known at launch only.
    #[cold]
    fn relocate(
        &self,
        c: &mut Command<'_, '_>,
        first: usize,
        kernargs: Value,
    ) -> Result<(), RecordError> {
        let at = match self.places.kernargs_in_tail {
            true => Some(self.head_len),
            false => self.places.kernargs,
        };
        if let (None, Some(at)) = (kernargs.imm(), at) {
            c.set_pair(first + at, kernargs, KERNARG_FIT)
                .operand(Operand::Kernargs)?;
        }
        if let Some(code) = self.code {
            let entry = Value::from(code) + self.kernel.entry;
            c.set_formula(first + self.places.pgm, entry, &units(code))
                .operand(Operand::Program)?;
        }
        if let Some(scratch) = &self.scratch_vars {
            let size = scratch.tmpring_size.into();
            c.set_value(first + self.places.tmpring, size, Fit::bits(32))
                .operand(Operand::Program)?;
            let xccs = self.places.xccs.iter().zip(&scratch.parts);
            for (place, &part) in xccs.take(self.places.xcc_count.into()) {
                c.set_formula(first + place.base, part.into(), &units(part))
                    .operand(Operand::Program)?;
                let Some(at) = place.descriptor else { continue };
                // The address of what it was prepared with is behind the other bits of the second word.
                let word = self.head.get(at + 1).copied().unwrap_or_default();
                let others = u64::from(word) << 32 & !((1 << ADDRESS_BITS) - 1);
                let descriptor = Formula {
                    base: others,
                    fit: Fit::aligned(ADDRESS_BITS, 8),
                    ..Formula::whole(part)
                };
                c.set_formula(first + at, part.into(), &descriptor)
                    .operand(Operand::Program)?;
            }
        }
        Ok(())
    }

    /// The tail for other sizes: sites for those that are not known, errors for those that do not fit.
    #[cold]
    fn patched_tail(
        &self,
        c: &mut Command<'_, '_>,
        tail: &[u32; TAIL_WORDS],
        groups: &[Value; 3],
        local: &[Value; 3],
    ) -> Result<(), RecordError> {
        check_local(local, self.max_group)?;
        let at = c.position();
        c.words(tail);
        for (d, local) in (0u8..).zip(*local) {
            c.set_value(at + LOCAL + usize::from(d), local, Fit::count(16))
                .operand(Operand::Local(d))?;
        }
        for (d, groups) in (0u8..).zip(*groups) {
            c.set_value(at + GROUPS + usize::from(d), groups, Fit::count(32))
                .operand(Operand::Groups(d))?;
        }
        Ok(())
    }

    /// Hidden arguments, and the packet that the kernel may read through its dispatch pointer.
    fn beside_arguments(
        &self,
        c: &mut Command<'_, '_>,
        launch: &mut Launch<'_, '_, Self>,
        first: usize,
        kernargs: Value,
    ) -> Result<(), RecordError> {
        let block = &mut launch.kernargs;
        let sizes = (&launch.groups, &launch.local);
        hidden::write(
            self.hidden,
            c.list(),
            block,
            sizes,
            launch.local_memory,
            &self.apertures,
        )?;
        let (Some(at), Some(packet)) = (self.places.dispatch_ptr, self.packet_at) else {
            return Ok(());
        };
        let (need, have) = (self.kernargs_size, block.len());
        let pointer = block
            .address(packet)
            .ok_or(RecordError::KernargsTooSmall { need, have })?;
        c.set_pair(first + at, pointer, Fit::bits(ADDRESS_BITS))
            .operand(Operand::Kernargs)?;
        record_for_reading(c.list(), block, packet, self.kernel.private_bytes)?;
        let group = u64::from(self.kernel.group_bytes) + u64::from(launch.local_memory);
        let fields = LaunchFields {
            groups: launch.groups,
            local: launch.local,
            group_segment_size: group,
            kernarg_address: kernargs,
        };
        fields.record(c.list(), block, packet)
    }
}

impl hcq_nostd::queue::Program for Program<'_> {
    /// Bytes of the argument block, with the dispatch packet if the kernel reads one.
    #[inline]
    fn kernargs_size(&self) -> usize {
        self.kernargs_size
    }

    fn kernargs_align(&self) -> usize {
        1 << KERNARG_ALIGN_LOG2
    }
}
