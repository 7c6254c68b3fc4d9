//! The numbers of Linux's `ioctl` requests: `include/uapi/asm-generic/ioctl.h`.
//!
//! A request number is a direction, the size of the argument, the interface's letter and a number in it. The letters and
//! numbers are facts of each interface; the rest follows from the argument's type.
//!
//! ```
//! use hcq_uapi::ioctl;
//!
//! let request = ioctl::iowr(b'K', 2, 96);
//! assert_eq!(request, 0xc060_4b02);
//! assert_eq!((ioctl::letter(request), ioctl::number(request), ioctl::size(request)), (b'K', 2, 96));
//! ```

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// `_IOC_WRITE`: the caller hands the argument to the kernel.
pub const WRITE: u32 = 1;
/// `_IOC_READ`: the kernel fills the argument.
pub const READ: u32 = 2;
/// `_IOC_SIZESHIFT`: the lowest bit of the argument's size.
pub const SIZE_SHIFT: u32 = 16;
/// `_IOC_SIZEBITS`: the bits of the argument's size.
pub const SIZE_BITS: u32 = 14;
/// The largest argument that a request can name, bytes.
pub const SIZE_MAX: usize = (1 << SIZE_BITS) - 1;

/// `_IOC`. Bits of `bytes` that the number has no room for are cut off, as in C; [`SIZE_MAX`] is the limit.
#[must_use]
pub const fn request(direction: u32, letter: u8, number: u8, bytes: usize) -> u32 {
    (direction << (SIZE_SHIFT + SIZE_BITS))
        | (((bytes & SIZE_MAX) as u32) << SIZE_SHIFT)
        | ((letter as u32) << 8)
        | number as u32
}

/// `_IO`: a request without an argument.
#[must_use]
pub const fn io(letter: u8, number: u8) -> u32 {
    request(0, letter, number, 0)
}

/// `_IOR`: the kernel fills an argument of `bytes`.
#[must_use]
pub const fn ior(letter: u8, number: u8, bytes: usize) -> u32 {
    request(READ, letter, number, bytes)
}

/// `_IOW`: the kernel reads an argument of `bytes`.
#[must_use]
pub const fn iow(letter: u8, number: u8, bytes: usize) -> u32 {
    request(WRITE, letter, number, bytes)
}

/// `_IOWR`: the kernel reads and fills an argument of `bytes`.
#[must_use]
pub const fn iowr(letter: u8, number: u8, bytes: usize) -> u32 {
    request(READ | WRITE, letter, number, bytes)
}

/// `_IOC_DIR`: [`READ`] and [`WRITE`] of a request.
#[must_use]
pub const fn direction(request: u32) -> u32 {
    request >> (SIZE_SHIFT + SIZE_BITS)
}

/// `_IOC_SIZE`: bytes of a request's argument.
#[must_use]
pub const fn size(request: u32) -> usize {
    (request >> SIZE_SHIFT) as usize & SIZE_MAX
}

/// `_IOC_TYPE`: the letter of a request's interface.
#[must_use]
pub const fn letter(request: u32) -> u8 {
    (request >> 8) as u8
}

/// `_IOC_NR`: the number of a request in its interface.
#[must_use]
pub const fn number(request: u32) -> u8 {
    request as u8
}

/// The argument of exactly one request: what a typed `ioctl` needs to know of it.
pub trait Argument: FromBytes + IntoBytes + Immutable {
    /// The C name of the request.
    const NAME: &'static str;
    /// The request's number, with this struct's size in it.
    const REQUEST: u32;
}
