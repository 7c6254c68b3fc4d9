//! Code objects in device memory, and their kernels prepared for queues.
#![allow(
    unsafe_code,
    reason = "lends argument layouts to programs, makes a region of code memory"
)]

use std::sync::{Arc, OnceLock};

use hcq_amd::aql;
use hcq_amd::code_object::{Argument, CodeObject, KernelMetadata, LoadError};
use hcq_amd::device::Device;
use hcq_amd::hidden::{Apertures, HiddenKind, HiddenSlot};
use hcq_amd::kernel::{Arguments, Kernel, Properties};
use hcq_amd::pm4;
use hcq_amd::scratch::Scratch;
use hcq_nostd::args::{ArgKind, ArgSlot};
use hcq_nostd::queue::Program as _;
use hcq_nostd::record::{Operand, RecordError};
use hcq_nostd::value::Var;

use super::scratch::{Block, lane_bytes};
use crate::Error;
use crate::backend::{AllocateCode, Code, Found, Prepared, Relocation};
use crate::heap::Allocation;
use crate::lent::Lent;
use crate::program::ArgInfo;
use hcq_cpu::signature::ScalarType;

/// Alignment of any allocation.
const PAGE: u64 = 4096;
/// Hidden arguments of a kernel at most: there are fewer kinds.
const MOST_HIDDEN: usize = 64;

/// What programs are prepared for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) device: Device,
    /// Upper halves of the addresses where waves see group-local and private memory.
    pub(super) apertures: (u32, u32),
    pub(super) aql: bool,
    pub(super) queues: usize,
}

impl Target {
    fn apertures(&self, queue: u64) -> Apertures {
        let (shared, private) = self.apertures;
        Apertures {
            private_base_hi: private.into(),
            shared_base_hi: shared.into(),
            queue: queue.into(),
        }
    }
}

/// What images call the numbers that a queue has for a program.
mod part {
    /// COMPUTE_TMPRING_SIZE.
    pub(super) const TMPRING_SIZE: u16 = 0;
    /// Bytes of scratch memory of a work-item, which AQL queues know the place of.
    pub(super) const LANE_BYTES: u16 = 1;
    /// Address of `amd_queue_t`.
    pub(super) const QUEUE: u16 = 2;
    /// Upper halves of the apertures' addresses.
    pub(super) const PRIVATE_BASE: u16 = 3;
    pub(super) const SHARED_BASE: u16 = 4;
    /// Address of the first XCC's scratch memory; those of the others follow.
    pub(super) const SCRATCH: u16 = 16;
}

fn refused(what: &str, reason: impl ToString) -> Error {
    Error::Program {
        what: what.into(),
        reason: reason.to_string(),
    }
}

/// A code object in device memory.
pub(super) struct Loaded {
    bytes: Box<[u8]>,
    names: Vec<String>,
    base: u64,
    target: Target,
    _memory: Arc<Allocation>,
}

impl Loaded {
    pub(super) fn new(
        target: Target,
        bytes: &[u8],
        allocate: AllocateCode<'_>,
    ) -> Result<Self, Error> {
        const WHAT: &str = "the code object";
        let failed = |e: LoadError| refused(WHAT, e);
        let object = CodeObject::parse(bytes).map_err(failed)?;
        let own = target.device.chip().target;
        match object.chip() {
            Ok(chip) if chip.target == own => {}
            Ok(chip) => {
                let built = chip.target;
                return Err(refused(
                    WHAT,
                    format!(
                        "it was compiled for {built}, and this device is {own}; compile it with --offload-arch={own} \
                         or -mcpu={own}"
                    ),
                ));
            }
            Err(e) => return Err(refused(WHAT, format!("{e}; this device is {own}"))),
        }
        let image = object.image().map_err(failed)?;
        let too_large = || refused(WHAT, format!("its image takes {} bytes", image.bytes));
        // Pages are aligned enough for nearly all.
        let slack = if image.align > PAGE { image.align } else { 0 };
        let size = image.bytes.max(1).checked_add(slack);
        let size = size.and_then(|n| usize::try_from(n).ok());
        let memory = allocate(size.ok_or_else(too_large)?)?;
        let start = memory
            .address()
            .checked_next_multiple_of(image.align.max(1))
            .and_then(|at| usize::try_from(at - memory.address()).ok())
            .ok_or_else(too_large)?;
        // SAFETY: dropped at the end of this function, before the memory; nobody else knows it yet (M2).
        let region = unsafe { memory.region() };
        let broken = |_| Error::Internal("an image does not fit its memory");
        let (_, mut region) = region.split_at(start).map_err(broken)?;
        object.load(&mut region).map_err(failed)?;
        let base = region
            .device_address(0)
            .ok_or(Error::Internal("an image has no address"))?;
        let mut names = Vec::new();
        for kernel in object.kernels().map_err(failed)? {
            names.push(kernel.map_err(failed)?.name.to_owned());
        }
        names.sort();
        Ok(Self {
            bytes: bytes.into(),
            names,
            base,
            target,
            _memory: memory,
        })
    }
}

impl Code for Loaded {
    fn kernels(&self) -> &[String] {
        &self.names
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn base(&self) -> u64 {
        self.base
    }

    fn kernel(&self, symbol: &str) -> Result<Option<Found>, Error> {
        if self
            .names
            .binary_search_by(|n| n.as_str().cmp(symbol))
            .is_err()
        {
            return Ok(None);
        }
        let what = format!("kernel {symbol}");
        let failed = |e: LoadError| refused(&what, e);
        let object = CodeObject::parse(&self.bytes).map_err(failed)?;
        let metadata = object.metadata(symbol).map_err(failed)?;
        let metadata = metadata.ok_or_else(|| {
            refused(
                &what,
                "the code object has no metadata for it, so its arguments are not known",
            )
        })?;
        let kernel = object.kernel(symbol).map_err(failed)?;
        let kernel = kernel
            .kernel(self.target.device.chip(), self.base, Some(&metadata))
            .map_err(failed)?;
        let (mut program, arguments) = AmdProgram::new(&self.target, &what, kernel, &metadata)?;
        program.base = self.base;
        let has_needs = program.has_needs();
        Ok(Some(Found {
            program: Arc::new(program),
            arguments: Some(arguments),
            has_needs,
        }))
    }
}

/// The packets of a kernel, prepared.
pub(super) enum Packets {
    Pm4(Box<pm4::Program<'static>>),
    Aql(Box<aql::Program<'static>>),
}

/// A kernel prepared for a queue.
pub(super) struct Ready {
    pub(super) packets: Packets,
    /// Kept as long as launches may use it.
    scratch: Option<Arc<Block>>,
}

/// A kernel of a code object.
pub(super) struct AmdProgram {
    what: String,
    kernel: Kernel,
    /// Where the code object's image is.
    base: u64,
    arguments: Arguments<'static>,
    kernargs: (usize, usize),
    /// For each queue, or for all in one.
    ready: Box<[OnceLock<Ready>]>,
    /// What the fields above borrow; dropped after them.
    _slots: Arc<Lent<ArgSlot>>,
    _hidden: Arc<Lent<HiddenSlot>>,
}

impl AmdProgram {
    fn new(
        target: &Target,
        what: &str,
        kernel: Kernel,
        metadata: &KernelMetadata<'_>,
    ) -> Result<(Self, Box<[ArgInfo]>), Error> {
        let mut list = Vec::new();
        for argument in metadata.arguments().map_err(|e| refused(what, e))? {
            list.push(argument.map_err(|e| refused(what, e))?);
        }
        let mut slots = Lent::new(ArgSlot::buffer(0), list.len());
        let mut hidden = Lent::new(HiddenSlot::EMPTY, list.len().min(MOST_HIDDEN));
        // SAFETY: lent once; what borrows it is dropped before, by the order of the fields.
        let lent_slots = unsafe { slots.lend() };
        // SAFETY: as above.
        let lent_hidden = unsafe { hidden.lend() };
        let laid_out = metadata.layout(lent_slots, lent_hidden);
        let arguments = laid_out.map_err(|e| match e {
            LoadError::Argument { index } => match list.get(index) {
                Some(a) => refused(
                    what,
                    format!(
                        "argument {index} ({}) is a {} of {} bytes, which launches cannot give",
                        a.name, a.value_kind, a.size
                    ),
                ),
                None => refused(what, e),
            },
            e => refused(what, e),
        })?;
        let infos = describe(&list, &arguments);
        let mut program = Self {
            what: what.to_owned(),
            kernel,
            arguments,
            kernargs: (0, 1),
            ready: Box::new([]),
            base: 0,
            _slots: Arc::new(slots),
            _hidden: Arc::new(hidden),
        };
        // As far as it is not the scratch memory's address, what a queue makes of it shows now.
        let stand_in = program.stand_in(target)?;
        let packets = program.packets(target, &stand_in, target.apertures(0))?;
        program.kernargs = match &packets {
            Packets::Pm4(p) => (p.kernargs_size(), p.kernargs_align()),
            Packets::Aql(p) => (p.kernargs_size(), p.kernargs_align()),
        };
        let lazy = program.lanes() > 0 || target.aql;
        let count = if lazy { target.queues } else { 1 };
        program.ready = (0..count).map(|_| OnceLock::new()).collect();
        if let (false, [one]) = (lazy, &*program.ready) {
            let _ = one.set(Ready {
                packets,
                scratch: None,
            });
        }
        Ok((program, infos))
    }

    /// Bytes of scratch memory per work-item.
    pub(super) fn lanes(&self) -> u32 {
        let dynamic = self
            .kernel
            .properties
            .contains(Properties::USES_DYNAMIC_STACK);
        lane_bytes(self.kernel.private_bytes, dynamic)
    }

    /// Scratch memory that is nowhere, to try with.
    fn stand_in(&self, target: &Target) -> Result<Scratch, Error> {
        use hcq_amd::scratch::{Need, Topology};
        let one = Topology {
            xccs: target.device.xccs().into(),
            ses_per_xcc: 1,
            cus_per_xcc: 1,
            slots_per_cu: 32,
        };
        let need = Need::new(target.device.chip(), &one, self.lanes());
        let scratch = need.and_then(|need| Scratch::new(0, &need));
        scratch.map_err(|e| refused(&self.what, e))
    }

    fn packets(
        &self,
        target: &Target,
        scratch: &Scratch,
        apertures: Apertures,
    ) -> Result<Packets, Error> {
        let (device, kernel) = (&target.device, &self.kernel);
        let failed = |e: pm4::program::ProgramError| {
            let hint = match e {
                pm4::program::ProgramError::Unsupported(_) if !target.aql => {
                    "; AQL queues have them (open the device with the option `aql`)"
                }
                _ => "",
            };
            refused(&self.what, format!("{e}{hint}"))
        };
        Ok(if target.aql {
            let program = aql::Program::new(device, kernel, self.arguments, scratch);
            Packets::Aql(Box::new(program.map_err(failed)?.with_apertures(apertures)))
        } else {
            let program = pm4::Program::new(device, kernel, self.arguments, scratch, 0);
            Packets::Pm4(Box::new(program.map_err(failed)?.with_apertures(apertures)))
        })
    }

    fn has_hidden(&self, kind: HiddenKind) -> bool {
        self.arguments.hidden.iter().any(|slot| slot.kind == kind)
    }

    /// The numbers that a queue has for it.
    pub(super) fn parts(&self, target: &Target) -> Vec<u16> {
        let mut parts = Vec::new();
        match self.lanes() {
            0 => {}
            _ if target.aql => parts.push(part::LANE_BYTES),
            _ => {
                parts.push(part::TMPRING_SIZE);
                let xccs = u16::from(target.device.xccs());
                parts.extend((0..xccs).map(|xcc| part::SCRATCH + xcc));
            }
        }
        let of_hidden = [
            (HiddenKind::PrivateBase, part::PRIVATE_BASE),
            (HiddenKind::SharedBase, part::SHARED_BASE),
            // Queues of PM4 words have none.
            (HiddenKind::QueuePtr, part::QUEUE),
        ];
        let count = if target.aql { 3 } else { 2 };
        let of_hidden = of_hidden.iter().take(count);
        parts.extend(
            of_hidden
                .filter(|(kind, _)| self.has_hidden(*kind))
                .map(|(_, part)| *part),
        );
        parts
    }

    /// Such a number, on a queue that it is ready for.
    pub(super) fn part(
        &self,
        target: &Target,
        queue: usize,
        queue_descriptor: u64,
        part: u16,
    ) -> Option<u64> {
        if !self.parts(target).contains(&part) {
            return None;
        }
        let (shared, private) = target.apertures;
        let block = || self.slot(queue)?.get()?.scratch.as_ref();
        Some(match part {
            part::TMPRING_SIZE => block()?.scratch.tmpring_size().into(),
            part::LANE_BYTES => block()?.scratch.lane_bytes().into(),
            part::QUEUE => queue_descriptor,
            part::PRIVATE_BASE => private.into(),
            part::SHARED_BASE => shared.into(),
            _ => {
                let xcc = part.checked_sub(part::SCRATCH)?;
                let (first, distance) = block()?.scratch.parts(target.device.xccs()).ok()?;
                first.checked_add(distance.checked_mul(xcc.into())?)?
            }
        })
    }

    /// The same for places that are known at launch only.
    pub(super) fn relocatable(
        &self,
        target: &Target,
        places: Relocation<'_>,
    ) -> Result<Self, Error> {
        let relative = |address: u64| {
            let offset = address.checked_sub(self.base);
            offset.ok_or(Error::Internal("a kernel before its code object"))
        };
        let kernel = Kernel {
            entry: relative(self.kernel.entry)?,
            object: relative(self.kernel.object)?,
            ..self.kernel
        };
        let mut program = Self {
            what: self.what.clone(),
            kernel,
            base: 0,
            arguments: self.arguments,
            kernargs: self.kernargs,
            ready: Box::new([]),
            _slots: Arc::clone(&self._slots),
            _hidden: Arc::clone(&self._hidden),
        };
        let parts = self.parts(target);
        let var = |part: u16| {
            let at = parts.iter().position(|p| *p == part)?;
            places.private.get(at).copied()
        };
        let own = target.apertures(0);
        let apertures = Apertures {
            private_base_hi: var(part::PRIVATE_BASE).map_or(own.private_base_hi, Into::into),
            shared_base_hi: var(part::SHARED_BASE).map_or(own.shared_base_hi, Into::into),
            queue: var(part::QUEUE).map_or(own.queue, Into::into),
        };
        let packets = program.packets(target, &program.stand_in(target)?, apertures)?;
        let packets = match (packets, var(part::TMPRING_SIZE)) {
            (Packets::Aql(p), _) => Packets::Aql(Box::new(p.based_on(places.code))),
            (Packets::Pm4(p), None) => Packets::Pm4(Box::new(p.based_on(places.code))),
            (Packets::Pm4(p), Some(size)) => {
                let xccs = u16::from(target.device.xccs());
                let scratch = (0..xccs).filter_map(|xcc| var(part::SCRATCH + xcc));
                let scratch: Vec<Var> = scratch.collect();
                let p = p.based_on(places.code).with_scratch_at(size, &scratch);
                Packets::Pm4(Box::new(p.map_err(|e| refused(&self.what, e))?))
            }
        };
        let slot = OnceLock::new();
        let _ = slot.set(Ready {
            packets,
            scratch: None,
        });
        program.ready = Box::new([slot]);
        Ok(program)
    }

    /// Whether queues prepare it one by one.
    fn has_needs(&self) -> bool {
        self.ready.first().is_none_or(|r| r.get().is_none())
    }

    pub(super) fn kernargs(&self) -> (usize, usize) {
        self.kernargs
    }

    /// The layout of its arguments.
    #[cfg(test)]
    pub(super) fn layout(&self) -> &hcq_nostd::args::ArgLayout<'static> {
        &self.arguments.layout
    }

    fn slot(&self, queue: usize) -> Option<&OnceLock<Ready>> {
        match &*self.ready {
            [one] => Some(one),
            many => many.get(queue),
        }
    }

    pub(super) fn is_ready(&self, queue: usize) -> bool {
        self.slot(queue).is_some_and(|slot| slot.get().is_some())
    }

    /// Prepares it for a queue that has this scratch memory.
    pub(super) fn make_ready(
        &self,
        target: &Target,
        queue: usize,
        scratch: Option<Arc<Block>>,
        queue_descriptor: u64,
    ) -> Result<(), Error> {
        let memory = scratch.as_ref().map_or(Scratch::NONE, |b| b.scratch);
        let packets = self.packets(target, &memory, target.apertures(queue_descriptor))?;
        if let Some(slot) = self.slot(queue) {
            // Another thread may have been faster, with the same.
            let _ = slot.set(Ready { packets, scratch });
        }
        Ok(())
    }

    pub(super) fn on(&self, queue: usize) -> Result<&Packets, RecordError> {
        let ready = self.slot(queue).and_then(OnceLock::get);
        ready.map(|r| &r.packets).ok_or(FOREIGN)
    }
}

/// A program or command that the queue has no use for; the shell keeps them away.
pub(super) const FOREIGN: RecordError = RecordError::NotConstant {
    operand: Operand::Program,
};

pub(super) fn own(program: &Prepared) -> Result<&AmdProgram, RecordError> {
    program.downcast_ref().ok_or(FOREIGN)
}

/// The arguments that a launch gives, in words. The layout's slots are those of the list that are not hidden, in order.
fn describe(list: &[Argument<'_>], arguments: &Arguments<'_>) -> Box<[ArgInfo]> {
    let mut given = list.iter();
    let slots = arguments.layout.slots.iter();
    let infos = slots.enumerate().map(|(index, slot)| {
        let argument =
            given.find(|a| a.offset == slot.offset && !a.value_kind.starts_with("hidden_"));
        let (name, ty) = argument.map_or(("", ""), |a| (a.name, a.type_name));
        let is_buffer = matches!(slot.kind, ArgKind::Buffer | ArgKind::ConstBuffer);
        ArgInfo {
            name: if name.is_empty() {
                format!("#{index}")
            } else {
                name.to_owned()
            },
            kind: slot.kind,
            ty: scalar(ty).filter(|t| is_buffer || t.size() == slot.size),
            size: slot.size,
            read_only: slot.kind != ArgKind::Buffer,
            size_only: false,
            image: None,
        }
    });
    infos.collect()
}

/// The type of a number or of a pointer's target, by the names of OpenCL C and C.
fn scalar(name: &str) -> Option<ScalarType> {
    let plain = name.trim_end_matches(['*', ' ', '&']);
    let plain = plain.strip_prefix("const ").unwrap_or(plain);
    Some(match plain.strip_suffix(" const").unwrap_or(plain) {
        "char" | "signed char" | "int8_t" => ScalarType::I8,
        "uchar" | "unsigned char" | "uint8_t" => ScalarType::U8,
        "short" | "int16_t" => ScalarType::I16,
        "ushort" | "unsigned short" | "uint16_t" => ScalarType::U16,
        "int" | "int32_t" => ScalarType::I32,
        "uint" | "unsigned int" | "unsigned" | "uint32_t" => ScalarType::U32,
        "long" | "long long" | "int64_t" => ScalarType::I64,
        "ulong" | "unsigned long" | "unsigned long long" | "uint64_t" | "size_t" => ScalarType::U64,
        "float" => ScalarType::F32,
        "double" => ScalarType::F64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_known_by_their_names() {
        for (name, ty) in [
            ("float*", Some(ScalarType::F32)),
            ("const int *", Some(ScalarType::I32)),
            ("ulong", Some(ScalarType::U64)),
            ("float4*", None),
            ("", None),
            ("struct S", None),
        ] {
            assert_eq!(scalar(name), ty, "{name}");
        }
    }
}
