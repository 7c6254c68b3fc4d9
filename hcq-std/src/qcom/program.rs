//! Programs in device memory, and their kernels prepared for the arguments that they are launched with.
#![allow(
    unsafe_code,
    reason = "lends argument layouts to programs, makes a region of code memory"
)]

use std::sync::{Arc, Mutex};

use hcq_nostd::args::{Arg, ArgKind, ArgSlot};
use hcq_nostd::queue::Program as _;
use hcq_nostd::record::{Operand, RecordError};
use hcq_nostd::value::Var;
use hcq_qcom::chips::Chip;
use hcq_qcom::container::{ArgumentKind, Container};
use hcq_qcom::device::{Device, PrivateMemory, PrivateNeed};
use hcq_qcom::image::{DESCRIPTOR_BYTES, Image, SAMPLER_BYTES};
use hcq_qcom::ir3::Variant;
use hcq_qcom::kernel::{Constant, ImageSlot, Kernel, Param};
use hcq_qcom::pm4::Program;

use super::bundle::{self, Shader};
use super::driver::{Block, Caching, Driver};
use super::images;
use crate::Error;
use crate::backend::{AllocateCode, Code, Found, Prepared};
use crate::heap::{Allocation, lock};
use crate::lent::Lent;
use crate::program::{ArgInfo, ImageParam};

/// Alignment of instructions.
const CODE_ALIGN: usize = 128;
/// Arguments that one kernel is prepared for in different ways at most.
const MOST_WAYS: usize = 64;

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

/// What programs are prepared for, and memory for their private data.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) device: Device,
    driver: Arc<dyn Driver>,
    /// The largest piece so far. Dispatches of the one queue follow each other, so that one does for all.
    private: Mutex<Arc<dyn Block>>,
}

impl Target {
    pub(super) fn new(driver: &Arc<dyn Driver>, device: Device) -> Result<Self, Error> {
        let least = need(device.chip(), 0)?;
        Ok(Self {
            device,
            driver: Arc::clone(driver),
            private: Mutex::new(driver.allocate(least, Caching::Gathered)?.into()),
        })
    }

    /// Private memory for a program with so many bytes of it for each work-item.
    fn private(&self, what: &str, bytes: u32) -> Result<Arc<dyn Block>, Error> {
        let need = need(self.device.chip(), bytes).map_err(|_| {
            refused(
                what,
                format!("{bytes} bytes of private memory are more than the GPU can have"),
            )
        })?;
        let mut private = lock(&self.private);
        if private.len() < need {
            // What was prepared with the smaller piece keeps it.
            *private = self.driver.allocate(need, Caching::Gathered)?.into();
        }
        Ok(Arc::clone(&private))
    }
}

fn need(chip: &Chip, private_bytes: u32) -> Result<usize, Error> {
    let broken = Error::Internal("private memory that registers cannot say");
    match PrivateNeed::new(chip, private_bytes) {
        Ok(need) => usize::try_from(need.bytes).map_err(|_| broken),
        Err(_) => Err(broken),
    }
}

/// A program's file, and where its instructions are.
#[derive(Debug)]
enum Form {
    /// A container of Qualcomm's OpenCL compiler: one kernel.
    OpenCl(Box<[u8]>),
    /// Programs of Mesa's ir3 compiler.
    Ir3(Vec<Shader>),
}

/// Programs in device memory.
pub(super) struct Loaded {
    bytes: Box<[u8]>,
    target: Arc<Target>,
    form: Arc<Form>,
    names: Vec<String>,
    /// Address of each program's instructions, by name.
    code: Vec<u64>,
    memory: Arc<Allocation>,
}

impl Loaded {
    pub(super) fn new(
        target: &Arc<Target>,
        bytes: &[u8],
        allocate: AllocateCode<'_>,
    ) -> Result<Self, Error> {
        const WHAT: &str = "the program";
        let (form, mut parts) = if bundle::is_bundle(bytes) {
            let mut shaders = bundle::parse(bytes).map_err(|e| refused(WHAT, e))?;
            let own = target.device.chip().number;
            if let Some(other) = shaders.iter().find(|s| s.chip.is_some_and(|c| c != own)) {
                let (name, built) = (&other.name, other.chip.unwrap_or_default());
                return Err(refused(
                    WHAT,
                    format!("{name} was compiled for a{built}, and this device is an a{own}"),
                ));
            }
            shaders.sort_by(|a, b| a.name.cmp(&b.name));
            let parts: Vec<(String, Box<[u8]>)> = shaders
                .iter()
                .map(|s| (s.name.clone(), s.code.clone()))
                .collect();
            (Form::Ir3(shaders), parts)
        } else {
            let name = Container::name(bytes).ok_or_else(|| {
                refused(
                    WHAT,
                    "it is neither a container of Qualcomm's OpenCL compiler with a kernel in it, nor a bundle of ir3 programs",
                )
            })?;
            let container = Container::parse(bytes, name).map_err(|e| refused(WHAT, e))?;
            let parts = vec![(name.to_owned(), container.code().into())];
            (Form::OpenCl(bytes.into()), parts)
        };
        let mut size = 0usize;
        let mut offsets = Vec::new();
        for (_, code) in &parts {
            offsets.push(size);
            let next = size
                .checked_add(code.len())
                .and_then(|n| n.checked_next_multiple_of(CODE_ALIGN));
            size = next.ok_or_else(|| refused(WHAT, "its instructions do not fit memory"))?;
        }
        let memory = allocate(size.max(1))?;
        // SAFETY: dropped at the end of this function, before the memory; nobody else knows it yet (M2).
        let mut region = unsafe { memory.region() };
        for ((_, code), offset) in parts.iter_mut().zip(&offsets) {
            let written = region.write(*offset, code);
            written.map_err(|_| Error::Internal("a program does not fit its memory"))?;
        }
        let base = memory.address();
        Ok(Self {
            bytes: bytes.into(),
            target: Arc::clone(target),
            form: Arc::new(form),
            names: parts.into_iter().map(|(name, _)| name).collect(),
            code: offsets
                .into_iter()
                .map(|offset| base + offset as u64)
                .collect(),
            memory,
        })
    }

    fn program(&self, symbol: &str, given: Option<&[ArgInfo]>) -> Result<Option<Found>, Error> {
        let Ok(index) = self.names.binary_search_by(|n| n.as_str().cmp(symbol)) else {
            return Ok(None);
        };
        let what = format!("kernel {symbol}");
        let code = self.code.get(index).copied();
        let code = code.ok_or(Error::Internal("a program without instructions"))?;
        let (kernel, own) = match &*self.form {
            Form::OpenCl(bytes) => {
                let container = Container::parse(bytes, symbol).map_err(|e| refused(&what, e))?;
                (container.kernel(code), None)
            }
            Form::Ir3(shaders) => {
                let shader = shaders.get(index);
                let shader = shader.ok_or(Error::Internal("a program without a shader"))?;
                let kernel = shader
                    .variant()
                    .kernel(code)
                    .map_err(|e| refused(&what, e))?;
                (kernel, Some(&shader.arguments))
            }
        };
        let private = self.target.private(&what, kernel.private_bytes)?;
        let program = QcomProgram {
            what,
            device: self.target.device,
            stored: None,
            base: self.memory.address(),
            form: Arc::clone(&self.form),
            symbol: symbol.to_owned(),
            index,
            kernel,
            private,
            ways: Mutex::default(),
            _memory: Arc::clone(&self.memory),
        };
        let arguments = given.or(own.map(|own| &**own));
        let arguments: Option<Box<[ArgInfo]>> = arguments.map(Into::into);
        if let Some(arguments) = &arguments {
            // What is wrong with them shows now.
            let params = program.params_of(arguments)?;
            program.prepare(&params)?;
        }
        Ok(Some(Found {
            program: Arc::new(program),
            arguments,
            has_needs: false,
        }))
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
        self.memory.address()
    }

    fn kernel(&self, symbol: &str) -> Result<Option<Found>, Error> {
        self.program(symbol, None)
    }

    fn kernel_as(&self, symbol: &str, arguments: &[ArgInfo]) -> Result<Option<Found>, Error> {
        self.program(symbol, Some(arguments))
    }
}

/// A kernel's packets for arguments of these kinds.
pub(super) struct Way {
    program: Box<Program<'static>>,
    params: Box<[Param]>,
    /// What the program borrows; dropped after it.
    _slots: Lent<ArgSlot>,
    _images: Lent<ImageSlot>,
    _constants: Lent<Constant>,
    _variant: Option<VariantRoom>,
}

impl Way {
    pub(super) fn program(&self) -> &Program<'static> {
        &self.program
    }

    /// Bytes and alignment of the argument block.
    pub(super) fn kernargs(&self) -> (usize, usize) {
        (self.program.kernargs_size(), self.program.kernargs_align())
    }
}

/// What an ir3 program's layout borrows.
struct VariantRoom {
    _variant: Lent<Variant<'static>>,
    _immediates: Lent<u32>,
    _textures: Lent<u8>,
}

/// A kernel of a program.
pub(super) struct QcomProgram {
    what: String,
    device: Device,
    /// Variables for its instructions and its private memory, if they are known at launch only.
    stored: Option<(Var, Var)>,
    /// What its instructions' address counts from when it is stored.
    base: u64,
    form: Arc<Form>,
    symbol: String,
    index: usize,
    kernel: Kernel,
    private: Arc<dyn Block>,
    /// Prepared so far: one for each list of kinds of arguments.
    ways: Mutex<Vec<Arc<Way>>>,
    _memory: Arc<Allocation>,
}

/// Whether an argument is of a parameter's kind; images are what is given whole.
fn takes(param: &Param, arg: &Arg<'_>) -> bool {
    match (param, arg) {
        (Param::Buffer, Arg::Buffer(_)) => true,
        (Param::Scalar(bytes), Arg::Scalar { size, .. }) => bytes == size,
        (Param::Texture(None) | Param::Storage(None), Arg::Bytes(b)) => {
            b.len() == DESCRIPTOR_BYTES as usize
        }
        (Param::Sampler, Arg::Bytes(b)) => b.len() == SAMPLER_BYTES as usize,
        _ => false,
    }
}

/// The packets of a program for these arguments.
pub(super) fn way(program: &Prepared, args: &[Arg<'_>]) -> Result<Arc<Way>, RecordError> {
    if program.is::<Way>() {
        return Arc::clone(program).downcast().map_err(|_| FOREIGN);
    }
    own(program)?.for_args(args)
}

pub(super) fn own(program: &Prepared) -> Result<&QcomProgram, RecordError> {
    program.downcast_ref().ok_or(FOREIGN)
}

impl QcomProgram {
    /// The address of its private memory.
    pub(super) fn private(&self) -> u64 {
        self.private.address()
    }

    /// The same for a device, instructions and private memory that are known at launch only: for what is launched, which may be
    /// packets for images.
    pub(super) fn relocatable(
        &self,
        device: Device,
        (code, private): (Var, Var),
        launched: &Prepared,
        args: &[Arg<'_>],
    ) -> Result<Prepared, Error> {
        let for_images = launched.downcast_ref::<Way>();
        let params = match for_images {
            Some(way) => way.params.to_vec(),
            None => self.params(args).map_err(Error::record("exec"))?,
        };
        let whole = |param: &Param| matches!(param, Param::Texture(None) | Param::Storage(None));
        if let Some(index) = params.iter().position(whole) {
            return Err(refused(
                &self.what,
                format!(
                    "argument {index} is an image's descriptor, which has an address of this machine's; stored launches name \
                     the image's buffer"
                ),
            ));
        }
        let relative = self.kernel.code.checked_sub(self.base);
        let relative = relative.ok_or(Error::Internal("instructions before their program"))?;
        let stored = Self {
            what: self.what.clone(),
            device,
            stored: Some((code, private)),
            base: 0,
            form: Arc::clone(&self.form),
            symbol: self.symbol.clone(),
            index: self.index,
            kernel: Kernel {
                code: relative,
                ..self.kernel
            },
            private: Arc::clone(&self.private),
            ways: Mutex::default(),
            _memory: Arc::clone(&self._memory),
        };
        let way = stored.prepare(&params)?;
        Ok(match for_images {
            Some(_) => way,
            None => Arc::new(stored),
        })
    }

    /// Kinds of the arguments of a signature.
    fn params_of(&self, arguments: &[ArgInfo]) -> Result<Vec<Param>, Error> {
        let params = arguments
            .iter()
            .enumerate()
            .map(|(index, info)| match info.kind {
                ArgKind::Buffer | ArgKind::ConstBuffer => Ok(Param::Buffer),
                ArgKind::Bytes if info.image == Some(ImageParam::Sampler) => Ok(Param::Sampler),
                ArgKind::Bytes if info.size == DESCRIPTOR_BYTES => Ok(self.image(index, None)),
                _ => match u8::try_from(info.size) {
                    Ok(bytes @ (1 | 2 | 4 | 8)) => Ok(Param::Scalar(bytes)),
                    _ => Err(refused(
                        &self.what,
                        format!(
                            "argument {index} has {} bytes, which no number has",
                            info.size
                        ),
                    )),
                },
            });
        params.collect()
    }

    /// Kinds of the arguments of a launch.
    fn params(&self, args: &[Arg<'_>]) -> Result<Vec<Param>, RecordError> {
        let params = args.iter().enumerate().map(|(index, arg)| match arg {
            Arg::Buffer(_) => Ok(Param::Buffer),
            Arg::Scalar { size, .. } => Ok(Param::Scalar(*size)),
            Arg::Bytes(bytes) => match u32::try_from(bytes.len()) {
                Ok(DESCRIPTOR_BYTES) => Ok(self.image(index, None)),
                Ok(SAMPLER_BYTES) => Ok(Param::Sampler),
                _ => Err(RecordError::ArgumentKind {
                    index: u16::try_from(index).unwrap_or(u16::MAX),
                }),
            },
            _ => Err(RecordError::ArgumentKind {
                index: u16::try_from(index).unwrap_or(u16::MAX),
            }),
        });
        params.collect()
    }

    /// What kind of image an argument is, which lies so.
    fn image(&self, index: usize, lies: Option<Image>) -> Param {
        let is_storage = match &*self.form {
            Form::OpenCl(bytes) => {
                let container = Container::parse(bytes, &self.symbol);
                let kind = container
                    .ok()
                    .and_then(|c| c.arguments().nth(index).map(|a| a.kind));
                kind == Some(ArgumentKind::Storage)
            }
            Form::Ir3(shaders) => shaders
                .get(self.index)
                .and_then(|s| s.arguments.get(index))
                .is_some_and(|a| matches!(a.image, Some(ImageParam::Storage(_)))),
        };
        if is_storage {
            Param::Storage(lies)
        } else {
            Param::Texture(lies)
        }
    }

    /// The packets for these arguments.
    pub(super) fn for_args(&self, args: &[Arg<'_>]) -> Result<Arc<Way>, RecordError> {
        let same = |way: &Arc<Way>| {
            way.params.len() == args.len()
                && way
                    .params
                    .iter()
                    .zip(args)
                    .all(|(param, arg)| takes(param, arg))
        };
        if let Some(way) = lock(&self.ways).iter().find(|way| same(way)) {
            return Ok(Arc::clone(way));
        }
        let params = self.params(args)?;
        self.prepare(&params)
            .map_err(|_| RecordError::ArgumentCount {
                need: self.expected(),
                have: args.len(),
            })
    }

    /// The packets for these arguments, where images are addresses.
    pub(super) fn with_images(&self, args: &[crate::Arg<'_>]) -> Result<Arc<Way>, Error> {
        let same = |way: &Arc<Way>| {
            way.params.len() == args.len()
                && way
                    .params
                    .iter()
                    .zip(args)
                    .all(|(param, arg)| match (param, arg.image) {
                        (Param::Texture(lies) | Param::Storage(lies), Some(image)) => {
                            lies.is_some_and(|lies| images::is(&lies, image))
                        }
                        (_, Some(_)) => false,
                        (param, None) => takes(param, &arg.core),
                    })
        };
        if let Some(way) = lock(&self.ways).iter().find(|way| same(way)) {
            return Ok(Arc::clone(way));
        }
        let core: Vec<_> = args.iter().map(|a| a.core).collect();
        let params = self.params(&core).map_err(Error::record("exec"))?;
        let params = params.into_iter().zip(args).enumerate();
        let params: Result<Vec<_>, Error> = params
            .map(|(index, (param, arg))| match arg.image {
                Some(image) => Ok(self.image(index, Some(images::lies(image)?))),
                None => Ok(param),
            })
            .collect();
        self.prepare(&params?)
    }

    /// Arguments that the program's file knows of.
    fn expected(&self) -> usize {
        match &*self.form {
            Form::OpenCl(bytes) => Container::parse(bytes, &self.symbol)
                .map_or(0, |container| container.arguments().count()),
            Form::Ir3(shaders) => shaders.get(self.index).map_or(0, |s| s.arguments.len()),
        }
    }

    /// Bytes and alignment of the argument block for these arguments; without any, for those that it was prepared for.
    pub(super) fn kernargs(&self, args: &[Arg<'_>]) -> Result<(usize, usize), RecordError> {
        let first = lock(&self.ways)
            .first()
            .filter(|_| args.is_empty())
            .map(Arc::clone);
        let way = match first {
            Some(way) => way,
            None => self.for_args(args)?,
        };
        Ok(way.kernargs())
    }

    fn prepare(&self, params: &[Param]) -> Result<Arc<Way>, Error> {
        let way = Arc::new(self.make(params)?);
        let mut ways = lock(&self.ways);
        if ways.len() >= MOST_WAYS {
            // The first one is that of the signature.
            ways.truncate(1);
        }
        ways.push(Arc::clone(&way));
        Ok(way)
    }

    fn make(&self, params: &[Param]) -> Result<Way, Error> {
        let images = params
            .iter()
            .filter(|p| matches!(p, Param::Texture(_) | Param::Storage(_)))
            .count();
        let mut slots = Lent::new(ArgSlot::buffer(0), params.len());
        // SAFETY: lent once; the program, which borrows it, is dropped before, by the order of a way's fields.
        let lent_slots = unsafe { slots.lend() };
        let (arguments, constants, image_slots, variant) = match &*self.form {
            Form::OpenCl(bytes) => {
                let failed = |e| refused(&self.what, e);
                let container = Container::parse(bytes, &self.symbol).map_err(failed)?;
                let mut constants = Lent::new(Constant::EMPTY, container.constant_count());
                let mut image_slots = Lent::new(ImageSlot::EMPTY, images);
                // SAFETY: as above.
                let lent_constants = unsafe { constants.lend() };
                // SAFETY: as above.
                let lent_images = unsafe { image_slots.lend() };
                let arguments = container.layout(params, lent_slots, lent_images, lent_constants);
                (arguments.map_err(failed)?, constants, image_slots, None)
            }
            Form::Ir3(shaders) => {
                let shader = shaders.get(self.index);
                let shader = shader.ok_or(Error::Internal("a program without a shader"))?;
                let registers = shader.textures.len();
                let mut constants = Lent::new(Constant::EMPTY, shader.immediates.len());
                let mut image_slots = Lent::new(ImageSlot::EMPTY, images + registers);
                let mut immediates = Lent::new(0u32, shader.immediates.len());
                let mut textures = Lent::new(0u8, registers);
                // SAFETY: as above; the room of the variant is a field of the way, too.
                let lent_immediates = unsafe { immediates.lend() };
                lent_immediates.copy_from_slice(&shader.immediates);
                // SAFETY: as above.
                let lent_textures = unsafe { textures.lend() };
                lent_textures.copy_from_slice(&shader.textures);
                let mut room = Lent::new(
                    Variant {
                        code: &[],
                        immediates: lent_immediates,
                        textures: lent_textures,
                        ..shader.facts
                    },
                    1,
                );
                // SAFETY: as above.
                let lent_variant: &'static [Variant<'static>] = unsafe { room.lend() };
                let [lent_variant] = lent_variant else {
                    return Err(Error::Internal("one variant is one"));
                };
                // SAFETY: as above.
                let lent_constants = unsafe { constants.lend() };
                // SAFETY: as above.
                let lent_images = unsafe { image_slots.lend() };
                let arguments =
                    lent_variant.layout(params, lent_slots, lent_images, lent_constants);
                let arguments = arguments.map_err(|e| refused(&self.what, e))?;
                let variant = VariantRoom {
                    _variant: room,
                    _immediates: immediates,
                    _textures: textures,
                };
                (arguments, constants, image_slots, Some(variant))
            }
        };
        let private = &self.private;
        let memory = PrivateMemory::new(private.address(), private.len() as u64);
        let memory = memory.map_err(|_| Error::Internal("private memory is misaligned"))?;
        let program = Program::new(&self.device, &self.kernel, &arguments, &memory);
        let mut program = program.map_err(|e| refused(&self.what, e))?;
        if let Some((code, private)) = self.stored {
            program = program.based_on(code).with_private_at(private);
        }
        Ok(Way {
            program: Box::new(program),
            params: params.into(),
            _slots: slots,
            _images: image_slots,
            _constants: constants,
            _variant: variant,
        })
    }
}
