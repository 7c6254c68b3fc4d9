//! The job file: what to load, what to run, what to keep.
//!
//! A job file is TOML. [`parse`] checks all that can be known from its text; every mistake is reported with its line
//! and key, all of them at once. Files that the job names are opened later, by [`crate::data::input`].

mod parse;
mod source;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hcq_std::{Sampling, TexelFormat};

use crate::data::compare::Tolerance;
use crate::data::dtype::{Dtype, Number, Scalar};
use crate::data::fill::Fill;
use crate::exit::Exit;
use crate::failure::{At, Failure, Located, Place, Result};

pub use parse::parse;

/// Longest job file that is read.
pub const MAX_BYTES: u64 = 16 << 20;
/// Most tasks of one job: planning compares each with those before it.
pub const MAX_TASKS: usize = 16_384;
/// Most bytes of memory that the items of a group share.
pub const MAX_LOCAL_MEMORY: u64 = 1 << 30;

/// A job, checked as far as its own text allows.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The job file.
    pub file: Arc<Path>,
    /// The device that the job asks for.
    pub device: Option<Located<String>>,
    /// Programs, in the order of the file.
    pub programs: Vec<Program>,
    /// Further devices, by name.
    pub devices: Vec<DeviceDecl>,
    /// Buffers, in the order of the file.
    pub buffers: Vec<BufferDecl>,
    /// Tasks, in the order of the file: each sees the effects of those before it.
    pub tasks: Vec<Task>,
    /// What to keep or check.
    pub outputs: Vec<Output>,
}

/// A program: kernels in one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Its name in the job.
    pub name: String,
    /// Where it is defined.
    pub at: At,
    /// The file, relative to the job file's directory unless absolute. `{target}` in it stands for what the device's
    /// programs are compiled for.
    pub path: Located<PathBuf>,
    /// Source, shared object or code object.
    pub kind: ProgramKind,
    /// Extra compiler flags.
    pub flags: Vec<String>,
}

/// A device beside the job's own.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceDecl {
    /// Its name in the job.
    pub name: String,
    /// Where it is declared.
    pub at: At,
    /// The name to open it by.
    pub device: Located<String>,
}

/// How a program becomes loadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    /// C source, compiled first.
    C,
    /// A shared object, loaded as it is.
    Shared,
    /// A code object for a GPU, loaded as it is.
    CodeObject,
}

/// A buffer's declaration.
#[derive(Debug, Clone, PartialEq)]
pub struct BufferDecl {
    /// Its name in the job.
    pub name: String,
    /// Where it is defined.
    pub at: At,
    /// Where its contents come from.
    pub source: Source,
    /// The device whose memory it is: an index into [`Job::devices`], or the job's own device.
    pub device: Option<usize>,
}

/// Where a buffer's contents come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// A .npy file; type and shape are its own and, if given, are checked.
    Npy {
        /// The file.
        file: Located<PathBuf>,
        /// The type that it must have.
        dtype: Option<Located<Dtype>>,
        /// The shape that it must have.
        shape: Option<Located<Vec<u64>>>,
    },
    /// A file of nothing but elements.
    Raw {
        /// The file.
        file: Located<PathBuf>,
        /// The type of its elements.
        dtype: Dtype,
        /// Its shape; one dimension if not given.
        shape: Option<Located<Vec<u64>>>,
    },
    /// Made up.
    Fill {
        /// The type of its elements.
        dtype: Dtype,
        /// Its shape.
        shape: Vec<u64>,
        /// Its contents.
        fill: Fill,
    },
}

/// One step of the job.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its name, for people.
    pub name: String,
    /// Where it is defined.
    pub at: At,
    /// What it does.
    pub work: Work,
}

/// What a task does.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Runs a kernel.
    Kernel(Box<Launch>),
    /// Copies bytes.
    Copy(Box<Transfer>),
}

/// A copy.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// What is read.
    pub from: ViewDecl,
    /// What is written; as many bytes.
    pub to: ViewDecl,
}

/// A kernel launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// Index of the program.
    pub program: usize,
    /// The kernel's symbol.
    pub kernel: Located<String>,
    /// Arguments in the kernel's order.
    pub args: Vec<Located<Argument>>,
    /// Work-groups in each direction.
    pub groups: [u32; 3],
    /// Work-items of a group in each direction.
    pub local: [u32; 3],
    /// Bytes of memory that the items of a group share.
    pub local_memory: u32,
    /// Where the launch size is given, for errors about it.
    pub groups_at: At,
    /// Buffers said to be read, by index.
    pub reads: Vec<usize>,
    /// Buffers said to be written, by index.
    pub writes: Vec<usize>,
    /// The compute queue asked for.
    pub queue: Option<Located<usize>>,
    /// The device that runs it: an index into [`Job::devices`], or the job's own device.
    pub device: Option<usize>,
}

/// A kernel argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// A buffer or part of one.
    Buffer(ViewDecl),
    /// A number with its type.
    Scalar(Scalar),
    /// A number whose type the kernel's signature gives.
    Number(Number),
    /// An image in a buffer.
    Image(Box<ImageDecl>),
    /// A sampler.
    Sampler(Sampling),
}

/// An image in a buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageDecl {
    /// The buffer, and the element that it begins at.
    pub view: ViewDecl,
    /// How its texels are stored.
    pub format: TexelFormat,
    /// Texels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes from a row to the next; as few as the device can have if not given.
    pub pitch: Option<u32>,
}

/// A buffer, or elements `offset .. offset + len` of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewDecl {
    /// Index of the buffer.
    pub buffer: usize,
    /// First element; 0 if not given.
    pub offset: Option<Located<u64>>,
    /// Number of elements; all that follow if not given.
    pub len: Option<Located<u64>>,
    /// Where it stands.
    pub at: At,
}

/// What to do with a buffer at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Where it is defined.
    pub at: At,
    /// Index of the buffer.
    pub buffer: usize,
    /// File to write.
    pub file: Option<Located<PathBuf>>,
    /// File to compare with.
    pub expect: Option<Located<PathBuf>>,
    /// How far off it may be; `None` for the default of the element type.
    pub rtol: Option<f64>,
    /// How far off it may be, absolutely.
    pub atol: Option<f64>,
}

impl Output {
    /// The tolerance of the comparison: as given, else one part in a million for floats and none for integers.
    pub fn tolerance(&self, dtype: Dtype) -> Tolerance {
        let default = if dtype.is_float() { 1e-6 } else { 0.0 };
        Tolerance {
            rtol: self.rtol.unwrap_or(default),
            atol: self.atol.unwrap_or(0.0),
        }
    }
}

impl Job {
    /// Reads and checks the job file at `path`.
    pub fn read(path: &Path) -> Result<Self> {
        use std::io::Read;
        let file = std::fs::File::open(path).map_err(|e| Failure {
            exit: Exit::Usage,
            ..Failure::io("open the job file", path, &e)
        })?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| Failure::io("read", path, &e))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(Failure::usage(format!(
                "{} is over 16 MiB: not a job file",
                path.display()
            ))
            .into());
        }
        let text = String::from_utf8(bytes).map_err(|_| {
            Failure::usage(format!(
                "{} is not UTF-8 text: not a job file",
                path.display()
            ))
        })?;
        parse(&text, path)
    }

    /// The full place of `at`.
    pub fn place(&self, at: &At) -> Place {
        Place {
            file: self.file.clone(),
            line: at.line,
            key: at.key.clone(),
        }
    }

    /// `path` as seen from the job file.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        match self.file.parent() {
            Some(dir) => dir.join(path),
            None => path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
