//! .npy headers: read without trust, written by `npyz`.
//!
//! `npyz` reads the header; this module first makes sure that doing so is bounded: the length that the file
//! claims is held against a limit and the file, nesting is refused before a recursive parser sees it, and the
//! product of the dimensions is known to fit before anyone multiplies.

use std::fs::File;
use std::io::{self, Read, Write};

use npyz::{DType, NpyHeader, Order, TypeChar, WriterBuilder};

use super::dtype::Dtype;

/// Headers are a few hundred bytes; numpy itself refuses more than this.
const MAX_HEADER: usize = 10_000;
/// As many dimensions as numpy allows.
const MAX_DIMS: usize = 64;

/// What a .npy file says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Npy {
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions, slowest first. Empty for a single number.
    pub shape: Vec<u64>,
    /// Where the data starts, in bytes.
    pub offset: u64,
    /// Bytes of data.
    pub bytes: u64,
}

/// Why a file is not a .npy file that can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// The file could not be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The first bytes are not those of a .npy file.
    #[error("not a .npy file: it does not begin with the bytes \\x93NUMPY")]
    Magic,
    /// A format version that does not exist.
    #[error("format version {0}.{1} is unknown (1.0, 2.0 and 3.0 are known)")]
    Version(u8, u8),
    /// The header is longer than any real one, or than the file.
    #[error("the header claims {claimed} bytes, but {limit} is the most that can be there")]
    HeaderLength {
        /// Length that the file states.
        claimed: u64,
        /// The most that is accepted.
        limit: u64,
    },
    /// The header's text is malformed.
    #[error("malformed header: {0}")]
    Header(String),
    /// An element type that is not supported.
    #[error("element type {0} is not supported: {1}")]
    Type(String, &'static str),
    /// Column-major data.
    #[error(
        "the array is in Fortran (column-major) order; save numpy.ascontiguousarray(a) instead"
    )]
    Fortran,
    /// No elements, or more than memory can hold.
    #[error("shape {0:?} is {1}")]
    Shape(Vec<u64>, &'static str),
    /// The data's length is not what the header promises.
    #[error("{words}: the header promises {promised} bytes of data, the file has {found}",
        words = if found < promised { "truncated" } else { "too long" })]
    Length {
        /// Bytes that the header's shape and type need.
        promised: u64,
        /// Bytes behind the header.
        found: u64,
    },
}

/// Reads the header of `file`, whose length is `file_len`, and checks that the data it promises is there.
pub fn open(file: &mut File, file_len: u64) -> Result<Npy, NpyError> {
    let mut head = Vec::new();
    file.take(MAX_HEADER as u64 + 12).read_to_end(&mut head)?;
    let npy = parse(&head, file_len)?;
    let found = file_len - npy.offset;
    if npy.bytes != found {
        return Err(NpyError::Length {
            promised: npy.bytes,
            found,
        });
    }
    Ok(npy)
}

/// Reads a header from the first bytes of a file of `file_len` bytes. Does not check the length of the data.
pub fn parse(head: &[u8], file_len: u64) -> Result<Npy, NpyError> {
    let (text_at, text_len) = header_bounds(head, file_len)?;
    let end = text_at + text_len;
    let text = head
        .get(text_at..end)
        .and_then(|t| std::str::from_utf8(t).ok())
        .ok_or_else(|| NpyError::Header("its text is cut off or is not UTF-8".into()))?;
    let (shape, elements) = bounded_shape(text)?;

    let header =
        NpyHeader::from_reader(&head[..end]).map_err(|e| NpyError::Header(e.to_string()))?;
    if header.shape() != shape {
        return Err(NpyError::Header("it gives more than one shape".into()));
    }
    let dtype = element_type(&header.dtype())?;
    if header.order() == Order::Fortran && shape.len() > 1 {
        return Err(NpyError::Fortran);
    }
    if elements == 0 {
        return Err(NpyError::Shape(shape, "empty"));
    }
    let bytes = elements
        .checked_mul(dtype.size())
        .filter(|&b| b <= isize::MAX as u64)
        .ok_or_else(|| NpyError::Shape(shape.clone(), "too large to be held in memory"))?;
    Ok(Npy {
        dtype,
        shape,
        offset: end as u64,
        bytes,
    })
}

/// Start and length of the header's text.
fn header_bounds(head: &[u8], file_len: u64) -> Result<(usize, usize), NpyError> {
    if head.get(..6) != Some(b"\x93NUMPY") {
        return Err(NpyError::Magic);
    }
    let number = |range: std::ops::Range<usize>| {
        head.get(range).map(|b| {
            b.iter()
                .rev()
                .fold(0u64, |n, &byte| (n << 8) | u64::from(byte))
        })
    };
    let cut = || NpyError::Header("the file ends inside it".into());
    let (major, minor) = match head.get(6..8) {
        Some(&[major, minor]) => (major, minor),
        _ => return Err(cut()),
    };
    let (text_at, claimed) = match (major, minor) {
        (1, 0) => (10, number(8..10)),
        (2 | 3, 0) => (12, number(8..12)),
        _ => return Err(NpyError::Version(major, minor)),
    };
    let claimed = claimed.ok_or_else(cut)?;
    let limit = (MAX_HEADER as u64).min(file_len.saturating_sub(text_at as u64));
    if claimed > limit {
        return Err(NpyError::HeaderLength { claimed, limit });
    }
    Ok((text_at, claimed as usize))
}

/// The dimensions in the one pair of parentheses of a plain array's header, and their product.
fn bounded_shape(text: &str) -> Result<(Vec<u64>, u64), NpyError> {
    let refuse = |why: &str| Err(NpyError::Header(why.to_owned()));
    if text.contains('[') {
        return Err(NpyError::Type(
            "a list of fields".into(),
            "structured arrays cannot be given to kernels",
        ));
    }
    let count = |c: char| text.matches(c).count();
    if count('(') != 1 || count(')') != 1 || count('{') != 1 || count('}') != 1 {
        return refuse("it must be one dictionary with one tuple, the shape");
    }
    let Some((_, rest)) = text.split_once('(') else {
        return refuse("it has no shape");
    };
    let Some((inner, _)) = rest.split_once(')') else {
        return refuse("its shape does not end");
    };
    let mut shape = Vec::new();
    let mut product = 1u64;
    let mut parts = inner.split(',').map(str::trim).peekable();
    while let Some(part) = parts.next() {
        if part.is_empty() && parts.peek().is_none() {
            break;
        }
        let Ok(dim) = part.parse::<u64>() else {
            return refuse("its shape is not a tuple of whole numbers from 0 to 2^64 - 1");
        };
        shape.push(dim);
        if shape.len() > MAX_DIMS {
            return refuse("its shape has more than 64 dimensions");
        }
        // The crate's own strides multiply dimensions in both directions: a zero must not hide an overflow.
        match product.checked_mul(dim.max(1)) {
            Some(p) => product = p,
            None => return Err(NpyError::Shape(shape, "too large to be held in memory")),
        }
    }
    let elements = if shape.contains(&0) { 0 } else { product };
    Ok((shape, elements))
}

fn element_type(dtype: &DType) -> Result<Dtype, NpyError> {
    let DType::Plain(ty) = dtype else {
        return Err(NpyError::Type(
            dtype.descr(),
            "structured arrays cannot be given to kernels",
        ));
    };
    let text = ty.to_string();
    if text.starts_with('>') {
        return Err(NpyError::Type(
            text,
            "it is big-endian; convert it with a.astype(a.dtype.newbyteorder('<'))",
        ));
    }
    Ok(match (ty.type_char(), ty.size_field()) {
        (TypeChar::Int, 1) => Dtype::I8,
        (TypeChar::Int, 2) => Dtype::I16,
        (TypeChar::Int, 4) => Dtype::I32,
        (TypeChar::Int, 8) => Dtype::I64,
        (TypeChar::Uint | TypeChar::Bool, 1) => Dtype::U8,
        (TypeChar::Uint, 2) => Dtype::U16,
        (TypeChar::Uint, 4) => Dtype::U32,
        (TypeChar::Uint, 8) => Dtype::U64,
        (TypeChar::Float, 4) => Dtype::F32,
        (TypeChar::Float, 8) => Dtype::F64,
        _ => {
            return Err(NpyError::Type(
                text,
                "integers of 1 to 8 bytes, f4 and f8 are",
            ));
        }
    })
}

/// Writes the header of a row-major array; the data follows it.
pub fn write_header(out: impl Write, dtype: Dtype, shape: &[u64]) -> io::Result<()> {
    let ty = dtype
        .numpy()
        .parse()
        .map_err(|e| io::Error::other(format!("{e}")))?;
    npyz::WriteOptions::new_header_only()
        .dtype(DType::new_scalar(ty))
        .shape(shape)
        .writer(out)
        .write_header_only()
        .map(|_| ())
}

#[cfg(test)]
mod tests;
