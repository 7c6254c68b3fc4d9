//! Cubins in device memory, and their kernels prepared for launches.
#![allow(
    unsafe_code,
    reason = "lends argument layouts to programs, makes a region of code memory"
)]

use std::sync::Arc;

use hcq_nostd::args::{ArgKind, ArgLayout, ArgSlot};
use hcq_nostd::queue::Program as _;
use hcq_nostd::record::{Operand, RecordError};
use hcq_nostd::value::Var;
use hcq_nv::compute::Program;
use hcq_nv::cubin::{Cubin, CubinKernel, LoadError};
use hcq_nv::device::Device;
use hcq_nv::kernel::Kernel;
use hcq_nv::local_memory::{LocalMemory, Need, Topology};

use crate::Error;
use crate::backend::{AllocateCode, Code, Found, Prepared};
use crate::heap::Allocation;
use crate::lent::Lent;
use crate::program::ArgInfo;

/// Alignment of any allocation.
const PAGE: u64 = 4096;
/// Arguments of a kernel at most: there is no room in a bank for more.
const MOST_ARGUMENTS: usize = 4096;

/// A program or command that the queue has no use for; the shell keeps them away.
pub(super) const FOREIGN: RecordError = RecordError::NotConstant {
    operand: Operand::Program,
};

fn refused(what: &str, reason: impl ToString) -> Error {
    Error::Program {
        what: what.into(),
        reason: reason.to_string(),
    }
}

/// A cubin in device memory.
pub(super) struct Loaded {
    bytes: Box<[u8]>,
    names: Vec<String>,
    base: u64,
    device: Device,
    _memory: Arc<Allocation>,
}

impl Loaded {
    pub(super) fn new(
        device: Device,
        bytes: &[u8],
        allocate: AllocateCode<'_>,
    ) -> Result<Self, Error> {
        const WHAT: &str = "the cubin";
        let failed = |e: LoadError| refused(WHAT, e);
        let cubin = Cubin::parse(bytes).map_err(failed)?;
        let chip = device.chip();
        cubin.check(chip).map_err(|e| {
            let sm = chip.sm;
            refused(
                WHAT,
                format!("{e}; compile it for this device (nvcc -cubin -arch=sm_{sm}, ptxas -arch=sm_{sm})"),
            )
        })?;
        let image = cubin.image().map_err(failed)?;
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
        cubin.load(&mut region).map_err(failed)?;
        let base = region
            .device_address(0)
            .ok_or(Error::Internal("an image has no address"))?;
        let mut names = Vec::new();
        for kernel in cubin.kernels() {
            names.push(kernel.map_err(failed)?.name.to_owned());
        }
        names.sort();
        Ok(Self {
            bytes: bytes.into(),
            names,
            base,
            device,
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
        let cubin = Cubin::parse(&self.bytes).map_err(|e| refused(&what, e))?;
        let kernel = cubin.kernel(symbol).map_err(|e| refused(&what, e))?;
        let program = NvProgram::new(&self.device, &what, &kernel, self.base)?;
        let arguments = program.describe();
        Ok(Some(Found {
            has_needs: program.thread_bytes > 0,
            program: Arc::new(program),
            arguments: Some(arguments),
        }))
    }

    fn kernel_as(&self, symbol: &str, arguments: &[ArgInfo]) -> Result<Option<Found>, Error> {
        self.named(symbol, arguments)
    }
}

impl Loaded {
    /// A kernel whose arguments the caller knows: they must have the sizes that the cubin says.
    fn named(&self, symbol: &str, arguments: &[ArgInfo]) -> Result<Option<Found>, Error> {
        let Some(found) = self.kernel(symbol)? else {
            return Ok(None);
        };
        let sizes = |infos: &[ArgInfo]| infos.iter().map(|i| i.size).collect::<Vec<_>>();
        let (own, given) = (
            sizes(found.arguments.as_deref().unwrap_or_default()),
            sizes(arguments),
        );
        if own != given {
            return Err(refused(
                &format!("kernel {symbol}"),
                format!("its arguments have {own:?} bytes, and those of the signature {given:?}"),
            ));
        }
        Ok(Some(Found {
            arguments: Some(arguments.into()),
            ..found
        }))
    }
}

/// A kernel of a cubin.
pub(super) struct NvProgram {
    what: String,
    program: Program<'static>,
    layout: ArgLayout<'static>,
    /// Where the cubin's image is; `None` if that is known at launch only.
    base: Option<u64>,
    /// Bytes of local memory of a thread.
    thread_bytes: u32,
    /// What the fields above borrow; dropped after them.
    _lent: Arc<Lent<ArgSlot>>,
}

impl NvProgram {
    fn new(
        device: &Device,
        what: &str,
        kernel: &CubinKernel<'_>,
        base: u64,
    ) -> Result<Self, Error> {
        let chip = device.chip();
        let found = kernel.kernel(chip, base).map_err(|e| refused(what, e))?;
        let mut trial = vec![ArgSlot::scalar(0, 0); MOST_ARGUMENTS];
        let count = kernel
            .layout(&mut trial)
            .map_err(|e| refused(what, e))?
            .slots
            .len();
        let mut lent = Lent::new(ArgSlot::scalar(0, 0), count);
        // SAFETY: lent once; what borrows it is dropped before, by the order of the fields.
        let slots = unsafe { lent.lend() };
        let layout = kernel.layout(slots).map_err(|e| refused(what, e))?;
        let bytes = found.local.bytes();
        let thread_bytes = found
            .thread_bytes()
            .ok_or_else(|| refused(what, format!("{bytes} bytes of local memory per thread")))?;
        let local = stand_in(device, what, thread_bytes)?;
        let program = Program::new(device, &found, layout, &local).map_err(|e| refused(what, e))?;
        Ok(Self {
            what: what.to_owned(),
            program,
            layout,
            base: Some(base),
            thread_bytes,
            _lent: Arc::new(lent),
        })
    }

    /// The same for code that lies at this variable.
    pub(super) fn relocatable(&self, device: &Device, code: Var) -> Result<Self, Error> {
        let base = self.base.unwrap_or(0);
        let relative = |address: u64| {
            let offset = address.checked_sub(base);
            offset.ok_or(Error::Internal("a kernel before its cubin"))
        };
        let mut kernel: Kernel = *self.program.kernel();
        kernel.entry = relative(kernel.entry)?;
        for bank in kernel.banks.iter_mut().flatten() {
            bank.address = relative(bank.address)?;
        }
        let local = stand_in(device, &self.what, self.thread_bytes)?;
        let program = Program::new(device, &kernel, self.layout, &local);
        Ok(Self {
            what: self.what.clone(),
            program: program.map_err(|e| refused(&self.what, e))?.based_on(code),
            layout: self.layout,
            base: None,
            thread_bytes: self.thread_bytes,
            _lent: Arc::clone(&self._lent),
        })
    }

    pub(super) const fn prepared(&self) -> &Program<'static> {
        &self.program
    }

    /// Bytes of local memory of a thread.
    pub(super) const fn thread_bytes(&self) -> u32 {
        self.thread_bytes
    }

    /// Bytes and alignment of its argument block.
    pub(super) fn kernargs(&self) -> (usize, usize) {
        (self.program.kernargs_size(), self.program.kernargs_align())
    }

    /// Its arguments in words. A cubin says their sizes: what has 8 bytes may be an address or a number.
    fn describe(&self) -> Box<[ArgInfo]> {
        let infos = self
            .layout
            .slots
            .iter()
            .enumerate()
            .map(|(index, slot)| ArgInfo {
                name: format!("#{index}"),
                kind: slot.kind,
                ty: None,
                size: slot.size,
                read_only: slot.kind != ArgKind::Buffer,
                size_only: true,
                image: None,
            });
        infos.collect()
    }
}

/// Local memory that is nowhere: how much a thread uses is all that a launch descriptor says of it.
fn stand_in(device: &Device, what: &str, thread_bytes: u32) -> Result<LocalMemory, Error> {
    let one = Topology {
        gpcs: 1,
        tpcs_per_gpc: 1,
        sms_per_tpc: 1,
        warps_per_sm: 1,
    };
    let need = Need::new(&one, thread_bytes);
    need.and_then(|need| LocalMemory::new(device.chip(), 0, &need))
        .map_err(|e| refused(what, e))
}

pub(super) fn own(program: &Prepared) -> Result<&NvProgram, RecordError> {
    program.downcast_ref().ok_or(FOREIGN)
}
