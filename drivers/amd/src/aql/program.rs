//! A kernel prepared for dispatch packets.

use hcq_nostd::args::PreparedLayout;
use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::Launch;
use hcq_nostd::record::{Block, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value, Var};

use super::PACKET_WORDS;
use super::dispatch::{KernelDispatch, LaunchFields, filled, record_object};
use super::header::{Header, Kind};
use crate::chips::Lds;
use crate::device::{ADDRESS_BITS, Device};
use crate::hidden::{self, Apertures, HiddenSlot};
use crate::kernel::{Arguments, Kernel, MAX_GROUP, Properties, check_local, known_sizes, lds_size};
use crate::pm4::program::{
    KERNARG_ALIGN_LOG2, KERNARG_FIT, ProgramError, arguments_end, check_scratch,
};
use crate::scratch::Scratch;

/// A kernel prepared for one device's AQL queues. The packet processor fills in what its properties ask for.
#[derive(Clone, Debug)]
pub struct Program<'p> {
    kernel: Kernel,
    arguments: PreparedLayout<'p>,
    hidden: &'p [HiddenSlot],
    apertures: Apertures,
    template: [u32; PACKET_WORDS],
    arguments_end: usize,
    lds: Lds,
    max_group: u32,
    /// Where the code object's image is, if that is known at launch only.
    code: Option<Var>,
}

impl<'p> Program<'p> {
    /// Prepares a kernel for queues with this scratch memory.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub fn new(
        device: &Device,
        kernel: &Kernel,
        arguments: Arguments<'p>,
        scratch: &Scratch,
    ) -> Result<Self, ProgramError> {
        let chip = device.chip();
        if kernel.properties.contains(Properties::WAVEFRONT_SIZE32) && !chip.wave32 {
            return Err(ProgramError::WaveSize);
        }
        check_scratch(kernel, scratch)?;
        Fit::aligned(ADDRESS_BITS, 6).check(kernel.object)?;
        let packet = KernelDispatch {
            header: Header::ordered(Kind::KernelDispatch),
            workgroup_size: [1; 3],
            grid_size: [1; 3],
            private_segment_size: kernel.private_bytes,
            group_segment_size: kernel.group_bytes,
            kernel_object: kernel.object,
            kernarg_address: 0,
            completion_signal: 0,
        };
        Ok(Self {
            kernel: *kernel,
            arguments: PreparedLayout::new(arguments.layout),
            hidden: arguments.hidden,
            apertures: Apertures::NONE,
            template: packet.words(),
            arguments_end: arguments_end(kernel, &arguments)?,
            lds: chip.lds,
            max_group: kernel.max_group.clamp(1, MAX_GROUP),
            code: None,
        })
    }

    /// The same with these numbers in its hidden arguments.
    pub const fn with_apertures(mut self, apertures: Apertures) -> Self {
        self.apertures = apertures;
        self
    }

    /// The same for code that lies at this variable when it runs: the kernel's addresses count from there, as those of a
    /// kernel whose code object was found at address 0. The variable is a multiple of 64.
    pub const fn based_on(mut self, code: Var) -> Self {
        self.code = Some(code);
        self
    }

    /// The kernel.
    pub const fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Writes one dispatch packet and its argument block.
    #[inline]
    pub(crate) fn record(
        &self,
        list: &mut PatchList<'_>,
        packet: &mut Block<'_, '_>,
        launch: &mut Launch<'_, '_, Self>,
    ) -> Result<(), RecordError> {
        let known = known_sizes(&launch.groups, &launch.local, self.max_group);
        if known.is_none() {
            check_local(&launch.local, self.max_group)?;
        }
        let group_segment_size =
            u64::from(self.kernel.group_bytes) + u64::from(launch.local_memory);
        lds_size(self.lds, group_segment_size)?;
        let block = &mut launch.kernargs;
        let (need, have) = (self.arguments_end, block.len());
        let too_small = RecordError::KernargsTooSmall { need, have };
        let kernarg_address = block.address(0).filter(|_| have >= need).ok_or(too_small)?;
        if let Value::Imm(address) = kernarg_address {
            KERNARG_FIT.check(address).operand(Operand::Kernargs)?;
        }
        self.arguments.write(launch.args, block, list)?;
        if !self.hidden.is_empty() {
            let sizes = (&launch.groups, &launch.local);
            hidden::write(
                self.hidden,
                list,
                block,
                sizes,
                launch.local_memory,
                &self.apertures,
            )?;
        }
        let group = u32::try_from(group_segment_size).ok();
        if let (Some((groups, local)), Some(group), Value::Imm(kernargs), None) =
            (known, group, kernarg_address, self.code)
            && let Some(words) = filled(&self.template, groups, local, group, kernargs)
        {
            return packet.write(0, zerocopy::IntoBytes::as_bytes(&words));
        }
        packet.write(0, zerocopy::IntoBytes::as_bytes(&self.template))?;
        let fields = LaunchFields {
            groups: launch.groups,
            local: launch.local,
            group_segment_size,
            kernarg_address,
        };
        fields.record(list, packet, 0)?;
        match self.code {
            Some(code) => {
                let object = Value::from(code) + self.kernel.object;
                record_object(list, packet, object)
            }
            None => Ok(()),
        }
    }
}

impl hcq_nostd::queue::Program for Program<'_> {
    fn kernargs_size(&self) -> usize {
        self.arguments_end
    }

    fn kernargs_align(&self) -> usize {
        1 << KERNARG_ALIGN_LOG2
    }
}
