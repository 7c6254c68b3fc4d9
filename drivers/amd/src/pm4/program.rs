//! A kernel prepared for one device: the packets of its dispatch, and where the few words are that differ.

use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::Launch;
use hcq_nostd::record::{Command, NameOperand, Operand, RecordError, Recorder};
use hcq_nostd::value::{Fit, Misfit, Value};

use super::acquire_mem::AcquireMem;
use super::dispatch_direct::{DispatchDirect, Initiator};
use super::event_write::EventWrite;
use super::pred_exec::PredExec;
use super::set_reg::{SetReg, Space};
use super::split;
use crate::aql::PACKET_BYTES;
use crate::aql::dispatch::{LaunchFields, READ_ALIGN, record_for_reading};
use crate::chips::Lds;
use crate::device::{ADDRESS_BITS, Device};
use crate::hidden::{self, Apertures, HiddenSlot};
use crate::kernel::{
    Arguments, Kernel, LDS_SIZE, MAX_GROUP, Properties, check_local, lds_size, user_sgprs,
};
use crate::scratch::{Scratch, wave_descriptor};
use hcq_nostd::args::ArgLayout;

/// ACQUIRE_MEM 8, SET_SH_REG of PGM 4, RSRC1 4, RSRC3 3, TMPRING 3, RESTART 5, RESOURCE_LIMITS 3, START 10,
/// DISPATCH_DIRECT 5, EVENT_WRITE 2; user data in up to two packets of 16 in all.
const COMMON_WORDS: usize = 8 + 4 + 4 + 3 + 3 + 5 + 3 + 10 + 5 + 2 + 2 + 16;
/// PRED_EXEC, scratch base, scratch descriptor.
const XCC_WORDS: usize = 2 + 4 + 6;
const TEMPLATE_WORDS: usize = COMMON_WORDS + 8 * XCC_WORDS;

/// Alignment of an argument block.
pub(crate) const KERNARG_ALIGN_LOG2: u8 = 4;

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

/// Words of a template that differ per launch or when scratch memory moves.
#[derive(Clone, Copy, Debug)]
struct Places {
    rsrc2: usize,
    dispatch_ptr: Option<usize>,
    kernargs: Option<usize>,
    local: usize,
    groups: usize,
}

/// A kernel prepared for one device's PM4 queues.
#[derive(Clone, Debug)]
pub struct Program<'p> {
    kernel: Kernel,
    layout: ArgLayout<'p>,
    hidden: &'p [HiddenSlot],
    apertures: Apertures,
    template: [u32; TEMPLATE_WORDS],
    len: usize,
    places: Places,
    /// Bytes of the argument block without the dispatch packet behind it.
    arguments_end: usize,
    lds: Lds,
    max_group: u32,
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
    let (need, have) = (kernel.private_bytes, scratch.lane_bytes());
    if need > have {
        return Err(ProgramError::Scratch { need, have });
    }
    Ok(())
}

impl<'p> Program<'p> {
    /// Prepares a kernel. Without a limit (`waves_per_sh` zero) as many waves run at once as fit.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub fn new(
        device: &Device,
        kernel: &Kernel,
        arguments: Arguments<'p>,
        scratch: &Scratch,
        waves_per_sh: u32,
    ) -> Result<Self, ProgramError> {
        let (chip, registers) = (device.chip(), device.registers());
        let properties = kernel.properties;
        let unsupported =
            Properties::QUEUE_PTR | Properties::DISPATCH_ID | Properties::FLAT_SCRATCH_INIT;
        if properties.intersects(unsupported) {
            return Err(ProgramError::Unsupported(properties & unsupported));
        }
        let wave32 = properties.contains(Properties::WAVEFRONT_SIZE32);
        if wave32 && !chip.wave32 {
            return Err(ProgramError::WaveSize);
        }
        check_scratch(kernel, scratch)?;
        Fit::aligned(ADDRESS_BITS, 8).check(kernel.entry)?;
        Fit::bits(10).check(waves_per_sh.into())?;
        let arguments_end = arguments_end(kernel, &arguments)?;
        let (base, part) = scratch.parts(device.xccs())?;

        // User data: the private segment buffer is per XCC, what comes behind it is not.
        let buffer = properties.contains(Properties::PRIVATE_SEGMENT_BUFFER);
        let (mut user, mut dispatch_ptr, mut kernargs) = (0, None, None);
        let first_user = if buffer { 4 } else { 0 };
        if properties.contains(Properties::DISPATCH_PTR) {
            dispatch_ptr = Some(user);
            user += 2;
        }
        if properties.contains(Properties::KERNARG_SEGMENT_PTR) {
            kernargs = Some(user);
            user += 2;
        }
        let mut user_data = [0; 5];
        if properties.contains(Properties::PRIVATE_SEGMENT_SIZE) {
            if let Some(word) = user_data.get_mut(user) {
                *word = kernel.private_bytes;
            }
            user += 1;
        }
        let (need, have) = ((first_user + user) as u32, user_sgprs(kernel.rsrc[1]));
        if need > have {
            return Err(ProgramError::UserSgprs { need, have });
        }
        let user_data = user_data.get(..user).unwrap_or_default();

        let mut template = [0; TEMPLATE_WORDS];
        let mut recorder = Recorder::new(&mut template, PatchList::none());
        let mut places = Places {
            rsrc2: 0,
            dispatch_ptr: None,
            kernargs: None,
            local: 0,
            groups: 0,
        };
        recorder.command(|c| {
            let sh = |c: &mut Command<'_, '_>, first, values: &[u32]| {
                SetReg::new(Space::Sh, first, values).map(|r| r.record(c))
            };
            AcquireMem::all(chip.acquire_dispatch).record(c);
            sh(c, registers.pgm_lo, &split(kernel.entry >> 8))?;
            let [rsrc1, rsrc2, rsrc3] = kernel.rsrc;
            places.rsrc2 = sh(c, registers.pgm_rsrc1, &[rsrc1, rsrc2])? + 1;
            sh(c, registers.pgm_rsrc3, &[rsrc3])?;
            sh(c, registers.tmpring_size, &[scratch.tmpring_size()])?;
            let one = device.xccs() == 1;
            for xcc in 0..device.xccs() {
                let base = base + part * u64::from(xcc);
                let own = |c: &mut Command<'_, '_>| {
                    sh(c, registers.dispatch_scratch_base_lo, &split(base >> 8))?;
                    if buffer && !one {
                        sh(
                            c,
                            registers.user_data_0,
                            &wave_descriptor(chip, base, wave32),
                        )?;
                    }
                    Ok(())
                };
                if one {
                    own(c)?;
                } else {
                    PredExec::around(1 << xcc, c, own)?;
                }
            }
            sh(c, registers.restart_x, &[0; 3])?;
            let user_at = if buffer && one {
                let mut all = [0; 9];
                for (to, from) in all
                    .iter_mut()
                    .zip(wave_descriptor(chip, base, wave32).iter().chain(user_data))
                {
                    *to = *from;
                }
                let all = all.get(..first_user + user).unwrap_or_default();
                sh(c, registers.user_data_0, all)? + first_user
            } else if user > 0 {
                sh(c, registers.user_data_0 + first_user as u32, user_data)?
            } else {
                0
            };
            places.dispatch_ptr = dispatch_ptr.map(|at| user_at + at);
            places.kernargs = kernargs.map(|at| user_at + at);
            sh(c, registers.resource_limits, &[waves_per_sh])?;
            places.local = sh(c, registers.start_x, &[0; 8])? + 3;
            let mut initiator = Initiator::COMPUTE_SHADER_EN | Initiator::FORCE_START_AT_000;
            initiator.set(Initiator::CS_W32_EN, wave32);
            places.groups = c.position() + DispatchDirect::GROUPS;
            DispatchDirect {
                groups: [Value::Imm(1); 3],
                initiator,
            }
            .record(c)?;
            EventWrite::CS_PARTIAL_FLUSH.record(c);
            Ok(())
        })?;
        let (len, _) = recorder.finish();
        Ok(Self {
            kernel: *kernel,
            layout: arguments.layout,
            hidden: arguments.hidden,
            apertures: Apertures::default(),
            template,
            len,
            places,
            arguments_end,
            lds: chip.lds,
            max_group: kernel.max_group.clamp(1, MAX_GROUP),
        })
    }

    /// The same with these numbers in its hidden arguments.
    pub const fn with_apertures(mut self, apertures: Apertures) -> Self {
        self.apertures = apertures;
        self
    }

    /// The kernel.
    pub const fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Words of one dispatch.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// It is never empty.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Where the dispatch packet is in the argument block, if the kernel reads one.
    fn packet_at(&self) -> Option<usize> {
        let at = self.arguments_end.checked_next_multiple_of(READ_ALIGN);
        at.filter(|_| self.places.dispatch_ptr.is_some())
    }

    /// Appends one dispatch.
    #[inline]
    pub(crate) fn record(
        &self,
        c: &mut Command<'_, '_>,
        launch: &mut Launch<'_, '_, Self>,
    ) -> Result<(), RecordError> {
        check_local(&launch.local, self.max_group)?;
        let block = &mut launch.kernargs;
        let (need, have) = (hcq_nostd::queue::Program::kernargs_size(self), block.len());
        let too_small = RecordError::KernargsTooSmall { need, have };
        let kernargs = block
            .device_address(0)
            .filter(|_| have >= need)
            .ok_or(too_small)?;
        Fit::aligned(ADDRESS_BITS, KERNARG_ALIGN_LOG2)
            .check(kernargs)
            .operand(Operand::Kernargs)?;
        self.layout.write(launch.args, block, c.list())?;
        if !self.hidden.is_empty() {
            let sizes = (&launch.groups, &launch.local);
            hidden::write(
                self.hidden,
                c.list(),
                block,
                sizes,
                launch.local_memory,
                &self.apertures,
            )?;
        }

        let first = c.position();
        c.words(self.template.get(..self.len).unwrap_or_default());
        if let Some(at) = self.places.kernargs {
            let [low, high] = split(kernargs);
            c.set(first + at, low);
            c.set(first + at + 1, high);
        }
        for (d, local) in (0u8..).zip(launch.local) {
            c.set_value(
                first + self.places.local + usize::from(d),
                local,
                Fit::count(16),
            )
            .operand(Operand::Local(d))?;
        }
        for (d, groups) in (0u8..).zip(launch.groups) {
            c.set_value(
                first + self.places.groups + usize::from(d),
                groups,
                Fit::count(32),
            )
            .operand(Operand::Groups(d))?;
        }
        if launch.local_memory > 0 {
            let bytes = u64::from(self.kernel.group_bytes) + u64::from(launch.local_memory);
            let rsrc2 = self.kernel.rsrc[1] & !LDS_SIZE | lds_size(self.lds, bytes)?;
            c.set(first + self.places.rsrc2, rsrc2);
        }
        if let (Some(at), Some(packet)) = (self.places.dispatch_ptr, self.packet_at()) {
            let pointer = block.device_address(packet).ok_or(too_small)?;
            let [low, high] = split(pointer);
            c.set(first + at, low);
            c.set(first + at + 1, high);
            let list = c.list();
            record_for_reading(list, block, packet, self.kernel.private_bytes)?;
            let group = u64::from(self.kernel.group_bytes) + u64::from(launch.local_memory);
            let fields = LaunchFields {
                groups: launch.groups,
                local: launch.local,
                group_segment_size: group,
                kernarg_address: kernargs,
            };
            fields.record(list, block, packet)?;
        }
        Ok(())
    }
}

impl hcq_nostd::queue::Program for Program<'_> {
    /// Bytes of the argument block, with the dispatch packet if the kernel reads one.
    #[inline]
    fn kernargs_size(&self) -> usize {
        self.packet_at()
            .map_or(self.arguments_end, |at| at.saturating_add(PACKET_BYTES))
    }

    fn kernargs_align(&self) -> usize {
        1 << KERNARG_ALIGN_LOG2
    }
}
