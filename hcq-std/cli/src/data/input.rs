//! Opening what a job reads: types, shapes and lengths are settled before anything runs.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::bytes_words;
use super::dtype::Dtype;
use super::fill::Fill;
use super::npy;
use crate::exit::Exit;
use crate::failure::{At, Failure, Failures, Located, Result};
use crate::job::{BufferDecl, Job, Output, Source};

/// A buffer whose size is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions; empty for a single number.
    pub shape: Vec<u64>,
    /// Bytes in all; at least one element, at most `isize::MAX`.
    pub bytes: u64,
    /// Where the contents come from.
    pub origin: Origin,
}

impl Input {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.bytes / self.dtype.size()
    }
}

/// Where the contents of a buffer come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    /// Bytes of a file, from `offset` to its end.
    File {
        /// The file.
        path: PathBuf,
        /// First byte of the data.
        offset: u64,
    },
    /// Made up.
    Fill(Fill),
}

/// A file that an output is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// The file.
    pub path: PathBuf,
    /// First byte of the data.
    pub offset: u64,
}

/// Opens the files of all buffers; every mistake is reported.
pub fn open_all(job: &Job) -> Result<Vec<Input>> {
    let mut failures = Vec::new();
    let mut inputs = Vec::new();
    for buffer in &job.buffers {
        match open(job, buffer) {
            Ok(input) => inputs.push(input),
            Err(failure) => failures.push(failure),
        }
    }
    Failures::check(failures)?;
    Ok(inputs)
}

fn open(job: &Job, buffer: &BufferDecl) -> std::result::Result<Input, Failure> {
    match &buffer.source {
        Source::Fill { dtype, shape, fill } => {
            let elements = product(shape).ok_or_else(|| too_large(job, &buffer.at))?;
            let bytes = byte_size(elements, *dtype).ok_or_else(|| too_large(job, &buffer.at))?;
            Ok(Input {
                dtype: *dtype,
                shape: shape.clone(),
                bytes,
                origin: Origin::Fill(*fill),
            })
        }
        Source::Npy { file, dtype, shape } => {
            let (path, npy) = open_npy(job, file)?;
            if let Some(wanted) = dtype.as_ref().filter(|d| d.value != npy.dtype) {
                let what = format!(
                    "{} holds {}, not {}",
                    path.display(),
                    npy.dtype,
                    wanted.value
                );
                return Err(Failure::usage(what).at(job.place(&wanted.at)));
            }
            if let Some(wanted) = shape.as_ref().filter(|s| s.value != npy.shape) {
                let what = format!(
                    "{} has shape {:?}, not {:?}",
                    path.display(),
                    npy.shape,
                    wanted.value
                );
                return Err(Failure::usage(what).at(job.place(&wanted.at)));
            }
            let origin = Origin::File {
                path,
                offset: npy.offset,
            };
            Ok(Input {
                dtype: npy.dtype,
                shape: npy.shape,
                bytes: npy.bytes,
                origin,
            })
        }
        Source::Raw { file, dtype, shape } => {
            let (path, _, len) = open_file(job, file)?;
            let size = dtype.size();
            if len == 0 || len % size != 0 || len > isize::MAX as u64 {
                let what = match len {
                    0 => format!("{} is empty", path.display()),
                    _ => format!(
                        "{} has {len} bytes: no whole number of {dtype} elements",
                        path.display()
                    ),
                };
                return Err(Failure::usage(what).at(job.place(&file.at)));
            }
            let shape = match shape {
                Some(wanted) if product(&wanted.value) != Some(len / size) => {
                    let what = format!(
                        "{} has {len} bytes, which is {} elements of {dtype}, not shape {:?}",
                        path.display(),
                        len / size,
                        wanted.value
                    );
                    return Err(Failure::usage(what).at(job.place(&wanted.at)));
                }
                Some(wanted) => wanted.value.clone(),
                None => vec![len / size],
            };
            Ok(Input {
                dtype: *dtype,
                shape,
                bytes: len,
                origin: Origin::File { path, offset: 0 },
            })
        }
    }
}

/// Opens the expected values of `output`, which must have the type and shape of its buffer.
pub fn open_expected(job: &Job, output: &Output, inputs: &[Input]) -> Result<Option<Expected>> {
    let Some(file) = &output.expect else {
        return Ok(None);
    };
    let Some(input) = inputs.get(output.buffer) else {
        return Ok(None);
    };
    let place = job.place(&file.at);
    if !is_npy(&file.value) {
        let (path, _, len) = open_file(job, file)?;
        if len != input.bytes {
            let what = format!(
                "{} has {len} bytes, the buffer has {}",
                path.display(),
                input.bytes
            );
            return Err(Failure::usage(what).at(place).into());
        }
        return Ok(Some(Expected { path, offset: 0 }));
    }
    let (path, npy) = open_npy(job, file)?;
    if npy.dtype != input.dtype {
        let what = format!(
            "{} holds {}, the buffer {}",
            path.display(),
            npy.dtype,
            input.dtype
        );
        return Err(Failure::usage(what).at(place).into());
    }
    if npy.shape != input.shape {
        let what = format!(
            "{} has shape {:?}, the buffer {:?}",
            path.display(),
            npy.shape,
            input.shape
        );
        return Err(Failure::usage(what).at(place).into());
    }
    Ok(Some(Expected {
        path,
        offset: npy.offset,
    }))
}

fn open_npy(
    job: &Job,
    file: &Located<PathBuf>,
) -> std::result::Result<(PathBuf, npy::Npy), Failure> {
    let (path, mut handle, len) = open_file(job, file)?;
    let npy = npy::open(&mut handle, len).map_err(|e| {
        let exit = if matches!(e, npy::NpyError::Io(_)) {
            Exit::Io
        } else {
            Exit::Usage
        };
        Failure::new(exit, format!("{}: {e}", path.display())).at(job.place(&file.at))
    })?;
    Ok((path, npy))
}

fn open_file(
    job: &Job,
    file: &Located<PathBuf>,
) -> std::result::Result<(PathBuf, File, u64), Failure> {
    let path = job.resolve(&file.value);
    let place = || job.place(&file.at);
    // Opening a pipe would wait for someone to write to it: look first.
    let meta = std::fs::metadata(&path).map_err(|e| Failure::io("open", &path, &e).at(place()))?;
    if !meta.is_file() {
        return Err(
            Failure::usage(format!("{} is not a regular file", path.display())).at(place()),
        );
    }
    let handle = File::open(&path).map_err(|e| Failure::io("open", &path, &e).at(place()))?;
    Ok((path, handle, meta.len()))
}

fn too_large(job: &Job, at: &At) -> Failure {
    Failure::usage("the buffer is larger than memory can hold").at(job.place(at))
}

/// Whether `path` names a .npy file.
pub fn is_npy(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("npy"))
}

fn product(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d))
}

fn byte_size(elements: u64, dtype: Dtype) -> Option<u64> {
    elements
        .checked_mul(dtype.size())
        .filter(|&b| b <= isize::MAX as u64)
}

/// How a buffer is shown to a person.
pub fn describe(input: &Input) -> String {
    format!(
        "{} {:?}, {}",
        input.dtype,
        input.shape,
        bytes_words(input.bytes)
    )
}
