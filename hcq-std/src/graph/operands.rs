//! What a graph's tasks are given: inputs, numbers, bytes of memory.

use std::marker::PhantomData;
use std::ops::{Bound as End, RangeBounds};

use hcq_nostd::args::Arg as CoreArg;
use hcq_nostd::value::{Value, Var};

use crate::Error;
use crate::arg::{Arg, scalar_type};
use crate::buffer::{Element, Span};
use crate::image2d::Image2d;

/// Memory that a graph is given at each launch, see [`GraphBuilder::input`](super::GraphBuilder::input).
pub struct Input<T> {
    pub(super) index: usize,
    pub(super) base: u32,
    pub(super) var: Var,
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) element: PhantomData<fn() -> T>,
}

impl<T> Clone for Input<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Input<T> {}

impl<T> std::fmt::Debug for Input<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input")
            .field("index", &self.index)
            .field("offset", &self.offset)
            .field("len", &self.len)
            .finish()
    }
}

impl<T: Element> Input<T> {
    /// Whether this is all of the input with this variable and as many bytes.
    pub(super) fn is_whole(&self, var: Var, bytes: u64) -> bool {
        self.var == var && self.offset == 0 && (self.len * size_of::<T>()) as u64 == bytes
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none. There always is one.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Part of it: at least one element.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<Self, Error> {
        let start = match range.start_bound() {
            End::Included(&s) => s,
            End::Excluded(&s) => s.saturating_add(1),
            End::Unbounded => 0,
        };
        let end = match range.end_bound() {
            End::Included(&e) => e.saturating_add(1),
            End::Excluded(&e) => e,
            End::Unbounded => self.len,
        };
        if start >= end || end > self.len {
            return Err(Error::Range {
                start: start as u64,
                end: end as u64,
                len: self.len as u64,
            });
        }
        Ok(Self {
            offset: self.offset + (start * size_of::<T>()) as u64,
            len: end - start,
            ..*self
        })
    }
}

impl<T: Element> From<Input<T>> for Arg<'_> {
    fn from(input: Input<T>) -> Self {
        Self {
            core: CoreArg::Buffer(Value::from(input.var) + input.offset),
            ty: scalar_type::<T>(),
            allocation: None,
            bytes: (input.len * size_of::<T>()) as u64,
            input: Some(input.base),
            image: None,
        }
    }
}

impl<T: Element> Input<T> {
    /// An image that begins where this does, as an argument. Whether the device can have an image at the address shows at the
    /// launch: it is refused where it cannot.
    ///
    /// # Errors
    /// [`Error::Image2d`] if it is larger.
    pub fn image<'a>(self, image: &'a Image2d) -> Result<Arg<'a>, Error> {
        let argument = Arg::from(self);
        image.check_place(None, argument.bytes)?;
        Ok(Arg {
            bytes: image.bytes() as u64,
            ty: None,
            image: Some(image),
            ..argument
        })
    }
}

/// A number that may change between launches, see [`GraphBuilder::param`](super::GraphBuilder::param).
#[derive(Debug)]
pub struct Param<T> {
    pub(super) var: Var,
    pub(super) number: PhantomData<fn() -> T>,
}

impl<T> Clone for Param<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Param<T> {}

impl<T: Number> From<Param<T>> for Arg<'_> {
    fn from(param: Param<T>) -> Self {
        let size = u8::try_from(size_of::<T>()).unwrap_or(u8::MAX);
        Self {
            ty: scalar_type::<T>(),
            ..Self::scalar(param.var, size)
        }
    }
}

/// Grid sizes and numbers to write.
impl From<Param<u32>> for Value {
    fn from(param: Param<u32>) -> Self {
        param.var.into()
    }
}

/// Numbers to write.
impl From<Param<u64>> for Value {
    fn from(param: Param<u64>) -> Self {
        param.var.into()
    }
}

/// Numbers that kernels take.
pub trait Number: Copy + 'static {
    /// Its bits, as a little-endian number of its size.
    fn bits(self) -> u64;
}

/// One implementation for each of C's number types: they differ in name only.
macro_rules! numbers {
    ($($t:ty => $bits:expr),* $(,)?) => {$(
        impl Number for $t {
            fn bits(self) -> u64 {
                let bits: fn($t) -> u64 = $bits;
                bits(self)
            }
        }
    )*};
}
numbers! {
    u8 => u64::from, u16 => u64::from, u32 => u64::from, u64 => u64::from,
    i8 => |v| v.cast_unsigned().into(), i16 => |v| v.cast_unsigned().into(),
    i32 => |v| v.cast_unsigned().into(), i64 => i64::cast_unsigned,
    f32 => |v| v.to_bits().into(), f64 => f64::to_bits,
}

/// Bytes of a buffer, a view, a mapped file or an input: what a graph's copies and writes are between.
#[derive(Clone, Copy, Debug)]
pub struct GraphSpan<'a>(pub(super) Of<'a>);

#[derive(Clone, Copy, Debug)]
pub(super) enum Of<'a> {
    Memory(Span<'a>),
    Input { base: u32, offset: u64, bytes: u64 },
}

impl<'a, S: Into<Span<'a>>> From<S> for GraphSpan<'a> {
    fn from(span: S) -> Self {
        Self(Of::Memory(span.into()))
    }
}

impl<T: Element> From<Input<T>> for GraphSpan<'_> {
    fn from(input: Input<T>) -> Self {
        Self(Of::Input {
            base: input.base,
            offset: input.offset,
            bytes: (input.len * size_of::<T>()) as u64,
        })
    }
}
