//! Programs: shared objects and code objects, their kernels, and functions of this program.
#![allow(
    unsafe_code,
    reason = "loads shared objects and takes functions from them"
)]

use std::borrow::Cow;
use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hcq_cpu::abi::KernelFn;
use hcq_cpu::signature::{self, ScalarType};
use hcq_nostd::args::{ArgKind, ArgSlot};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::Error;
use crate::arg::Arg;
use crate::backend::{Backend, Code, Found, Layout, Prepared, Purpose, Source};
use crate::heap::Heap;
use crate::image2d::TexelKind;
use crate::inner::Inner;

/// Most arguments of a kernel whose signature is known.
const MOST_ARGUMENTS: usize = 4096;

/// What an I/O error means, and what to do.
pub(crate) fn io_reason(e: &std::io::Error) -> String {
    use std::io::ErrorKind;
    let hint = match e.kind() {
        ErrorKind::NotFound => "; check the path",
        ErrorKind::PermissionDenied => "; its permissions do not let this user read it",
        _ => "",
    };
    format!("{e}{hint}")
}

/// What kernels come from.
struct Loaded {
    form: Form,
    path: PathBuf,
}

enum Form {
    /// A shared object in this process, and the kernels whose signatures it has.
    Object(Library, Vec<String>),
    /// A code object in device memory.
    Code(Box<dyn Code>),
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// A loaded program: a shared object on the CPU, a code object on a GPU.
///
/// It stays loaded while it, its kernels, or work in flight that runs them exist.
#[derive(Clone, Debug)]
pub struct Module {
    loaded: Arc<Loaded>,
    inner: Arc<Inner>,
}

impl Module {
    /// # Safety
    /// If the device loads shared objects, the object's constructors are sound to run.
    pub(crate) unsafe fn load(inner: &Arc<Inner>, path: &Path) -> Result<Self, Error> {
        let failed = |reason: String| Error::File {
            operation: "loading",
            path: path.to_owned(),
            reason,
        };
        if !crate::seam::has_no_zero_byte(path) {
            return Err(failed("the path holds a zero byte".into()));
        }
        // An absolute path: the loader searches its own directories for a bare name. Not there or not readable is said
        // better here than by the loader.
        let absolute = path.canonicalize().map_err(|e| failed(io_reason(&e)))?;
        if inner.backend.takes_code() {
            let bytes = std::fs::read(&absolute).map_err(|e| failed(io_reason(&e)))?;
            return Self::of_code(inner, &bytes, absolute);
        }
        std::fs::File::open(&absolute).map_err(|e| failed(io_reason(&e)))?;
        // SAFETY: the caller vouches for the constructors. Symbols are resolved now, so that a missing one is an error
        // here and not the end of the process later.
        let library = unsafe { Library::open(Some(&absolute), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|e| {
            failed(format!(
                "{}; a shared object for this machine is needed (cc -shared -fPIC)",
                loader_reason(&e)
            ))
        })?;
        let form = Form::Object(library, signed_kernels(&absolute));
        Ok(Self {
            loaded: Arc::new(Loaded {
                form,
                path: absolute,
            }),
            inner: Arc::clone(inner),
        })
    }

    /// A code object's bytes.
    pub(crate) fn of_code(inner: &Arc<Inner>, bytes: &[u8], path: PathBuf) -> Result<Self, Error> {
        if !inner.backend.takes_code() {
            let reason = "this device runs shared objects; Device::load takes the path of one";
            return Err(Error::Program {
                what: "a code object".into(),
                reason: reason.into(),
            });
        }
        inner.look()?;
        let allocate = |bytes| inner.heap.allocate(bytes, Purpose::Code);
        let code = inner.backend.load(bytes, &allocate)?;
        Ok(Self {
            loaded: Arc::new(Loaded {
                form: Form::Code(code),
                path,
            }),
            inner: Arc::clone(inner),
        })
    }

    /// The kernel with this symbol. Launches are checked against its arguments where they are known: from the metadata
    /// of a code object, or from the text of a shared object's symbol `<kernel>_hcq_args` (`HCQ_KERNEL` of `hcq.h` makes
    /// it). Otherwise arguments are laid out as given.
    ///
    /// # Errors
    /// [`Error::MissingSymbol`], [`Error::Signature`]; [`Error::Program`] for a kernel that the device cannot run;
    /// [`Error::OutOfMemory`].
    pub fn kernel(&self, symbol: &str) -> Result<Kernel, Error> {
        match &self.loaded.form {
            Form::Object(library, _) => self.kernel_of_object(library, symbol),
            Form::Code(code) => {
                let Some(found) = code.kernel(symbol)? else {
                    let names = code.kernels().join(", ");
                    return Err(self.missing(symbol, format!("it has {names}")));
                };
                Kernel::new(&self.inner, symbol, found, Some(Arc::clone(&self.loaded)))
            }
        }
    }

    /// The same with a signature of the caller's, the fields of a C struct, for programs that do not say what their arguments
    /// are, as those of Qualcomm's OpenCL compiler. A program that says them keeps its own.
    ///
    /// # Errors
    /// As for [`kernel`](Self::kernel).
    pub fn kernel_with(&self, symbol: &str, signature: &str) -> Result<Kernel, Error> {
        match &self.loaded.form {
            Form::Object(library, _) => self.kernel_of_object(library, symbol),
            Form::Code(code) => {
                let (arguments, _) = parse(symbol, signature)?;
                let Some(found) = code.kernel_as(symbol, &arguments)? else {
                    return Err(
                        self.missing(symbol, format!("it has {}", code.kernels().join(", ")))
                    );
                };
                Kernel::new(&self.inner, symbol, found, Some(Arc::clone(&self.loaded)))
            }
        }
    }

    /// Where a code object's image is; `None` for shared objects.
    pub(crate) fn base(&self) -> Option<u64> {
        match &self.loaded.form {
            Form::Code(code) => Some(code.base()),
            Form::Object(..) => None,
        }
    }

    fn missing(&self, symbol: &str, reason: String) -> Error {
        Error::MissingSymbol {
            path: self.loaded.path.clone(),
            symbol: symbol.to_owned(),
            reason,
        }
    }

    fn kernel_of_object(&self, library: &Library, symbol: &str) -> Result<Kernel, Error> {
        const HINT: &str = "a kernel must be visible (HCQ_KERNEL sees to that) and extern \"C\"";
        if symbol.is_empty() {
            return Err(self.missing(symbol, "the name is empty".into()));
        }
        // SAFETY: whether the function is a kernel is for `Commands::exec` to promise, which is unsafe.
        let entry = unsafe { library.get::<KernelFn>(symbol.as_bytes()) };
        let entry =
            *entry.map_err(|e| self.missing(symbol, format!("{}; {HINT}", loader_reason(&e))))?;
        let name = format!("{symbol}{SIGNATURE}");
        // SAFETY: the symbol's address is read as a pointer, which is not followed here.
        let text = unsafe { library.get::<*const c_char>(name.as_bytes()) };
        let text = match text {
            Ok(text) if !text.is_null() => {
                // SAFETY: by its name the symbol is a string that ends with a zero, as `HCQ_KERNEL` defines it; the
                // library stays loaded during the call.
                let text = unsafe { CStr::from_ptr(*text) };
                let reason = || "it is not UTF-8".to_owned();
                let text = text.to_str().map_err(|_| Error::Signature {
                    kernel: symbol.to_owned(),
                    reason: reason(),
                })?;
                Some(text)
            }
            _ => None,
        };
        let found = function(&self.inner, symbol, text, entry)?;
        Kernel::new(&self.inner, symbol, found, Some(Arc::clone(&self.loaded)))
    }

    /// Names of its kernels: all of a code object's, and those of a shared object that have signatures.
    pub fn kernels(&self) -> &[String] {
        match &self.loaded.form {
            Form::Object(_, names) => names,
            Form::Code(code) => code.kernels(),
        }
    }

    /// The file's absolute path; empty for a program that was loaded from memory.
    pub fn path(&self) -> &Path {
        &self.loaded.path
    }
}

/// Ends the name of a symbol that is a kernel's signature.
const SIGNATURE: &str = "_hcq_args";

/// Kernels of a shared object whose signatures it exports. What cannot be read has none: the loader had its say.
fn signed_kernels(path: &Path) -> Vec<String> {
    let names = || {
        let bytes = std::fs::read(path).ok()?;
        let file = elf::ElfBytes::<elf::endian::NativeEndian>::minimal_parse(&bytes).ok()?;
        let (symbols, strings) = file.dynamic_symbol_table().ok()??;
        let defined = symbols.iter().filter(|s| !s.is_undefined());
        let names = defined.filter_map(|s| strings.get(usize::try_from(s.st_name).ok()?).ok());
        let kernels = names.filter_map(|n| n.strip_suffix(SIGNATURE));
        Some(kernels.map(str::to_owned).collect())
    };
    let mut names: Vec<String> = names().unwrap_or_default();
    names.sort();
    names
}

/// What the loader says, with its cause.
fn loader_reason(e: &libloading::Error) -> String {
    use std::error::Error as _;
    e.source()
        .map_or_else(|| e.to_string(), ToString::to_string)
}

/// One argument of a kernel's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgInfo {
    /// Its name.
    pub name: String,
    /// Buffer or number.
    pub kind: ArgKind,
    /// Type of the number, or of the buffer's elements; `None` if the signature does not say (`void *`).
    pub ty: Option<ScalarType>,
    /// Bytes that it takes in the argument block.
    pub size: u32,
    /// Whether the kernel only reads it: numbers, and buffers by pointer to const.
    pub read_only: bool,
    /// Whether its size is all that the code object says, so that what takes 8 bytes may be a number or a buffer.
    pub size_only: bool,
    /// What it is, if it is an image or a sampler.
    pub image: Option<ImageParam>,
}

/// A kernel's argument that is an image or a sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageParam {
    /// An image that it samples or reads; what it has texels as, if the program says so.
    Texture(Option<TexelKind>),
    /// An image that it reads and writes texel by texel; what it has them as, if the program says so.
    Storage(Option<TexelKind>),
    /// A sampler.
    Sampler,
}

impl std::fmt::Display for ImageParam {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (word, kind) = match self {
            Self::Texture(kind) => ("texture", *kind),
            Self::Storage(kind) => ("storage", *kind),
            Self::Sampler => ("sampler", None),
        };
        match kind {
            Some(kind) => write!(f, "{word} {kind}"),
            None => f.write_str(word),
        }
    }
}

impl std::fmt::Display for ArgInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ty = self.ty.map_or("void", ScalarType::name);
        if let Some(image) = self.image {
            return write!(f, "{image} {}", self.name);
        }
        match self.kind {
            _ if self.size_only => write!(f, "{} bytes {}", self.size, self.name),
            ArgKind::ConstBuffer => write!(f, "const {ty} *{}", self.name),
            ArgKind::Buffer => write!(f, "{ty} *{}", self.name),
            _ if self.ty.is_none() => write!(f, "{} bytes {}", self.size, self.name),
            _ => write!(f, "{ty} {}", self.name),
        }
    }
}

/// A kernel, ready to be launched. Clones are the same kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) kernel: Arc<KernelInner>,
}

pub(crate) struct KernelInner {
    name: String,
    arguments: Option<Box<[ArgInfo]>>,
    pub(crate) program: Prepared,
    /// Size and alignment of the argument block, where the signature says them.
    pub(crate) kernargs: Option<(usize, usize)>,
    /// Whether the backend is asked before each launch.
    pub(crate) has_needs: bool,
    module: Option<Arc<Loaded>>,
    pub(crate) heap: Arc<Heap>,
}

impl std::fmt::Debug for KernelInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.name)
            .field("arguments", &self.arguments)
            .finish_non_exhaustive()
    }
}

/// A kernel that nothing launches any more: forgotten by the device, then unloaded.
struct Retired {
    backend: Arc<dyn Backend>,
    program: Prepared,
    _module: Option<Arc<Loaded>>,
}

impl Drop for Retired {
    fn drop(&mut self) {
        self.backend.retire(&self.program);
    }
}

impl Drop for KernelInner {
    fn drop(&mut self) {
        self.heap.bury(Box::new(Retired {
            backend: Arc::clone(self.heap.backend()),
            program: Arc::clone(&self.program),
            _module: self.module.take(),
        }));
    }
}

/// A function of this process as a kernel.
fn function(
    inner: &Arc<Inner>,
    name: &str,
    text: Option<&str>,
    entry: KernelFn,
) -> Result<Found, Error> {
    let parsed = text.map(|t| parse(name, t)).transpose()?;
    let (arguments, layout) = parsed.unzip();
    let program = inner.backend.prepare(Source::Function { entry, layout })?;
    let program = program.ok_or_else(|| Error::Program {
        what: format!("function {name}"),
        reason: "this device runs code objects, not functions of this process; Device::load and Device::load_program \
                 take one"
            .into(),
    })?;
    Ok(Found {
        program,
        arguments,
        has_needs: false,
    })
}

/// A program's code for a stored graph.
pub(crate) struct Stored<'k> {
    /// Which program it is: kernels of one module have the same.
    pub(crate) key: usize,
    pub(crate) bytes: Cow<'k, [u8]>,
    pub(crate) name: String,
    /// A shared object, whose kernels are found by name.
    pub(crate) by_name: bool,
}

impl Kernel {
    /// The program for these arguments: another one if some of them are images.
    #[inline]
    pub(crate) fn program_for(&self, args: &[Arg<'_>]) -> Result<Cow<'_, Prepared>, Error> {
        if args.iter().any(|a| a.image.is_some()) {
            return self.with_images(args).map(Cow::Owned);
        }
        Ok(Cow::Borrowed(&self.kernel.program))
    }

    #[cold]
    fn with_images(&self, args: &[Arg<'_>]) -> Result<Prepared, Error> {
        let backend = self.kernel.heap.backend();
        let images = backend.images().ok_or_else(|| Error::NoImages {
            device: backend.info().name.clone(),
        })?;
        images.prepared(&self.kernel.program, args)
    }

    /// What a function of this process is entered by.
    pub(crate) fn entry(&self) -> Option<u64> {
        let kernel = &self.kernel;
        kernel.heap.backend().entry(&kernel.program)
    }

    /// What it was loaded from.
    pub(crate) fn stored(&self) -> Result<Stored<'_>, Error> {
        let name = self.name();
        let Some(module) = &self.kernel.module else {
            return Err(Error::Program {
                what: format!("kernel {name}"),
                reason: "it is a function of this process, which cannot be stored; load it from a shared object".into(),
            });
        };
        let key = Arc::as_ptr(module).addr();
        let file = module
            .path
            .file_name()
            .map_or(String::new(), |n| n.to_string_lossy().into_owned());
        Ok(match &module.form {
            Form::Code(code) => Stored {
                key,
                bytes: code.bytes().into(),
                name: file,
                by_name: false,
            },
            Form::Object(..) => Stored {
                key,
                bytes: std::fs::read(&module.path)
                    .map_err(|e| Error::File {
                        operation: "reading",
                        path: module.path.clone(),
                        reason: io_reason(&e),
                    })?
                    .into(),
                name: file,
                by_name: true,
            },
        })
    }

    fn new(
        inner: &Arc<Inner>,
        name: &str,
        found: Found,
        module: Option<Arc<Loaded>>,
    ) -> Result<Self, Error> {
        let Found {
            program,
            arguments,
            has_needs,
        } = found;
        let kernargs = arguments
            .as_ref()
            .map(|_| inner.backend.kernargs(&program, &[]));
        let kernargs = kernargs.transpose().map_err(Error::record("prepare"))?;
        let heap = Arc::clone(&inner.heap);
        Ok(Self {
            kernel: Arc::new(KernelInner {
                name: name.to_owned(),
                arguments,
                program,
                kernargs,
                has_needs,
                module,
                heap,
            }),
        })
    }

    /// A function of this program as a kernel.
    pub(crate) fn of_function(
        inner: &Arc<Inner>,
        name: &str,
        signature: &str,
        entry: KernelFn,
    ) -> Result<Self, Error> {
        let found = function(inner, name, Some(signature), entry)?;
        Self::new(inner, name, found, None)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.kernel.name
    }

    /// Its arguments in order; `None` if it has no signature.
    pub fn arguments(&self) -> Option<&[ArgInfo]> {
        self.kernel.arguments.as_deref()
    }

    /// Holds arguments against the signature.
    #[inline]
    pub(crate) fn check(&self, args: &[Arg<'_>]) -> Result<(), Error> {
        let Some(expected) = &self.kernel.arguments else {
            return Ok(());
        };
        let fits = |(arg, info): (&Arg<'_>, &ArgInfo)| arg.fits(info);
        if args.len() == expected.len() && args.iter().zip(expected).all(fits) {
            return Ok(());
        }
        Err(self.mismatch(args, expected))
    }

    #[cold]
    fn mismatch(&self, args: &[Arg<'_>], expected: &[ArgInfo]) -> Error {
        let kernel = self.kernel.name.clone();
        if args.len() != expected.len() {
            let list: Vec<String> = expected.iter().map(ToString::to_string).collect();
            let (expected, given) = (expected.len(), args.len());
            return Error::ArgumentCount {
                kernel,
                expected,
                given,
                signature: list.join(", "),
            };
        }
        let wrong = args
            .iter()
            .zip(expected)
            .enumerate()
            .find(|(_, (arg, info))| !arg.fits(info));
        let Some((index, (arg, info))) = wrong else {
            return Error::Internal("an argument fits after all");
        };
        Error::Argument {
            kernel,
            index,
            name: info.name.clone(),
            expected: info.expected(),
            given: arg.given(),
        }
    }
}

impl ArgInfo {
    fn expected(&self) -> String {
        let ty = self.ty.map_or("any type", ScalarType::name);
        let bytes = self.size;
        let texels = |kind: Option<TexelKind>| match kind {
            Some(kind) => format!(" whose texels are {kind}"),
            None => String::new(),
        };
        match self.image {
            Some(ImageParam::Texture(kind)) => return format!("an image to read{}", texels(kind)),
            Some(ImageParam::Storage(kind)) => {
                return format!("an image to read and write{}", texels(kind));
            }
            Some(ImageParam::Sampler) => return "a sampler".into(),
            None => {}
        }
        match self.kind {
            _ if self.size_only => format!("a buffer, a number or a struct of {bytes} bytes"),
            ArgKind::Buffer | ArgKind::ConstBuffer => format!("a buffer of {ty}"),
            ArgKind::Bytes => format!("{bytes} bytes"),
            _ if self.ty.is_none() => format!("a number of {bytes} bytes"),
            _ => format!("a number of type {ty}"),
        }
    }
}

fn parse(name: &str, text: &str) -> Result<(Box<[ArgInfo]>, Layout), Error> {
    let failed = |e: &signature::SignatureError| Error::Signature {
        kernel: name.to_owned(),
        reason: format!("{e}: `{text}`"),
    };
    let mut arguments = Vec::new();
    for argument in signature::arguments(text).take(MOST_ARGUMENTS + 1) {
        let a = argument.map_err(|e| failed(&e))?;
        let read_only = a.slot.kind != ArgKind::Buffer;
        arguments.push(ArgInfo {
            name: a.name.to_owned(),
            kind: a.slot.kind,
            ty: a.ty,
            size: a.slot.size,
            read_only,
            size_only: false,
            image: None,
        });
    }
    let mut slots = vec![ArgSlot::buffer(0); arguments.len().min(MOST_ARGUMENTS)];
    let layout = signature::parse(text, &mut slots).map_err(|e| failed(&e))?;
    let (size, align) = (layout.size, layout.align);
    Ok((
        arguments.into(),
        Layout {
            slots: slots.into(),
            size,
            align,
        },
    ))
}
