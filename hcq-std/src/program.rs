//! Programs: shared objects, their kernels, and functions of this program.
#![allow(
    unsafe_code,
    reason = "loads shared objects and takes functions from them"
)]

use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hcq_cpu::abi::KernelFn;
use hcq_cpu::signature::{self, ScalarType};
use hcq_nostd::args::{ArgKind, ArgSlot};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::Error;
use crate::arg::Arg;
use crate::backend::{Backend, Layout, Prepared, Source};
use crate::heap::Heap;
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

#[derive(Debug)]
struct Loaded {
    library: Library,
    path: PathBuf,
}

/// A loaded shared object. It stays loaded while it, its kernels, or work in flight that runs them exist.
#[derive(Clone, Debug)]
pub struct Module {
    loaded: Arc<Loaded>,
    inner: Arc<Inner>,
}

impl Module {
    /// # Safety
    /// The object's constructors are sound to run.
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
        Ok(Self {
            loaded: Arc::new(Loaded {
                library,
                path: absolute,
            }),
            inner: Arc::clone(inner),
        })
    }

    /// The kernel with this symbol. If the object has the symbol `<kernel>_hcq_args` (`HCQ_KERNEL` of `hcq.h` makes it),
    /// its text is the kernel's signature, and launches are checked against it; otherwise arguments are laid out as
    /// given.
    ///
    /// # Errors
    /// [`Error::MissingSymbol`], [`Error::Signature`].
    pub fn kernel(&self, symbol: &str) -> Result<Kernel, Error> {
        let missing = |reason: String| Error::MissingSymbol {
            path: self.loaded.path.clone(),
            symbol: symbol.to_owned(),
            reason,
        };
        if symbol.is_empty() {
            return Err(missing("the name is empty".into()));
        }
        // SAFETY: whether the function is a kernel is for `Commands::exec` to promise, which is unsafe.
        let entry = unsafe { self.loaded.library.get::<KernelFn>(symbol.as_bytes()) };
        let entry = *entry.map_err(|e| missing(loader_reason(&e)))?;
        let name = format!("{symbol}_hcq_args");
        // SAFETY: the symbol's address is read as a pointer, which is not followed here.
        let text = unsafe { self.loaded.library.get::<*const c_char>(name.as_bytes()) };
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
        Kernel::new(
            &self.inner,
            symbol,
            text,
            entry,
            Some(Arc::clone(&self.loaded)),
        )
    }

    /// The object's absolute path.
    pub fn path(&self) -> &Path {
        &self.loaded.path
    }
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
    /// Whether the kernel only reads it: numbers, and buffers by pointer to const.
    pub read_only: bool,
}

impl std::fmt::Display for ArgInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ty = self.ty.map_or("void", ScalarType::name);
        match self.kind {
            ArgKind::ConstBuffer => write!(f, "const {ty} *{}", self.name),
            ArgKind::Buffer => write!(f, "{ty} *{}", self.name),
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

impl Kernel {
    fn new(
        inner: &Arc<Inner>,
        name: &str,
        text: Option<&str>,
        entry: KernelFn,
        module: Option<Arc<Loaded>>,
    ) -> Result<Self, Error> {
        let parsed = text.map(|t| parse(name, t)).transpose()?;
        let (arguments, layout) = parsed.unzip();
        let program = inner.backend.prepare(Source::Function { entry, layout })?;
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
        Self::new(inner, name, Some(signature), entry, None)
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
        match self.kind {
            ArgKind::Buffer | ArgKind::ConstBuffer => format!("a buffer of {ty}"),
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
            read_only,
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
