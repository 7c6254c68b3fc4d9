//! Launch arguments and grids.

use std::any::TypeId;
use std::sync::Arc;

use hcq_cpu::signature::ScalarType;
use hcq_nostd::args::{Arg as CoreArg, ArgKind};
use hcq_nostd::value::{Value, Var};

use crate::Error;
use crate::buffer::{Buffer, Element, View};
use crate::heap::Allocation;
use crate::image2d::{Image2d, Sampler};
use crate::program::{ArgInfo, ImageParam};

/// One argument of a launch.
///
/// ```
/// # use hcq_std::{Arg, Device};
/// # let device = Device::open("cpu")?;
/// let x = device.alloc::<f32>(16)?;
/// let args = [Arg::from(2.0f32), Arg::buffer(&x), (&x.view(4..8)?).into(), 16u32.into()];
/// # Ok::<(), hcq_std::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Arg<'a> {
    pub(crate) core: CoreArg<'a>,
    /// The number's type, or the buffer's element type, where it is one of C's.
    pub(crate) ty: Option<ScalarType>,
    pub(crate) allocation: Option<&'a Arc<Allocation>>,
    /// Bytes of a buffer from its address on.
    pub(crate) bytes: u64,
    /// The base allocation of a graph that an input is bytes of.
    pub(crate) input: Option<u32>,
    /// How an image lies at the address.
    pub(crate) image: Option<&'a Image2d>,
}

impl<'a> Arg<'a> {
    #[inline]
    const fn plain(core: CoreArg<'a>) -> Self {
        Self {
            core,
            ty: None,
            allocation: None,
            bytes: 0,
            input: None,
            image: None,
        }
    }

    /// A buffer or view; it lives until the launch is complete.
    #[inline]
    pub fn buffer<T: Element>(view: &'a View<T>) -> Self {
        Self {
            core: CoreArg::Buffer(view.address().into()),
            ty: scalar_type::<T>(),
            allocation: Some(view.allocation()),
            bytes: view.size_bytes() as u64,
            input: None,
            image: None,
        }
    }

    /// An image that begins where a buffer or view does; the buffer lives until the launch is complete.
    ///
    /// # Errors
    /// [`Error::Image2d`] if the image is larger than the view, or the view begins where an image of the device cannot.
    pub fn image<T: Element>(view: &'a View<T>, image: &'a Image2d) -> Result<Self, Error> {
        image.check_place(Some(view.address()), view.size_bytes() as u64)?;
        Ok(Self {
            bytes: image.bytes() as u64,
            image: Some(image),
            ty: None,
            ..Self::buffer(view)
        })
    }

    /// An image at a device address, known now or at launch. It must live there until the launch is complete. Its sizes and its
    /// format are recorded: only where it is can be set later.
    pub fn image_at(address: impl Into<Value>, image: &'a Image2d) -> Self {
        Self {
            bytes: image.bytes() as u64,
            image: Some(image),
            ..Self::address(address)
        }
    }

    /// A sampler, copied when the launch is recorded.
    pub fn sampler(sampler: &'a Sampler) -> Self {
        Self::bytes(&sampler.bytes)
    }

    /// A device address, known now or at launch. What it points to must live until the launch is complete.
    #[inline]
    pub fn address(address: impl Into<Value>) -> Self {
        Self::plain(CoreArg::Buffer(address.into()))
    }

    /// A number of `size` bytes (1, 2, 4 or 8), known now or at launch. A float is its bits.
    #[inline]
    pub fn scalar(value: impl Into<Value>, size: u8) -> Self {
        Self::plain(CoreArg::Scalar {
            value: value.into(),
            size,
        })
    }

    /// A number of `size` bytes (1, 2, 4 or 8) known at launch.
    #[inline]
    pub fn var(var: Var, size: u8) -> Self {
        Self::scalar(var, size)
    }

    /// Bytes: a struct by value, as long as the kernel's parameter. Kernels with a signature in C fields take none.
    pub fn bytes(bytes: &'a [u8]) -> Self {
        Self::plain(CoreArg::Bytes(bytes))
    }
}

impl Arg<'_> {
    /// Whether a parameter takes it. Bytes pass for elements of any type, and the sign of a number is the kernel's.
    #[inline]
    pub(crate) fn fits(&self, info: &ArgInfo) -> bool {
        let is_float = |t: ScalarType| matches!(t, ScalarType::F32 | ScalarType::F64);
        let same =
            |a: ScalarType, b: ScalarType| a.size() == b.size() && is_float(a) == is_float(b);
        if info.size_only {
            return self.core.size() == info.size as usize;
        }
        if let Some(image) = self.image {
            let kind = match info.image {
                Some(ImageParam::Texture(kind) | ImageParam::Storage(kind)) => kind,
                Some(ImageParam::Sampler) | None => return false,
            };
            return kind.is_none_or(|kind| kind == image.format().kind());
        }
        match (&self.core, info.kind) {
            (CoreArg::Buffer(_), ArgKind::Buffer | ArgKind::ConstBuffer) => {
                match (self.ty, info.ty) {
                    (Some(given), Some(wanted)) => {
                        given == wanted || given.size() == 1 || same(given, wanted)
                    }
                    _ => true,
                }
            }
            (CoreArg::Scalar { size, .. }, ArgKind::Scalar) => match (self.ty, info.ty) {
                (Some(given), Some(wanted)) => given == wanted || same(given, wanted),
                _ => info.size == u32::from(*size),
            },
            (CoreArg::Bytes(bytes), ArgKind::Bytes) => info.size as usize == bytes.len(),
            _ => false,
        }
    }

    /// What it is, in words.
    pub(crate) fn given(&self) -> String {
        if let Some(image) = self.image {
            return image.described();
        }
        match (&self.core, self.ty) {
            (CoreArg::Buffer(_), Some(ty)) => format!("a buffer of {}", ty.name()),
            (CoreArg::Buffer(_), None) => "an address".into(),
            (CoreArg::Scalar { .. }, Some(ty)) => format!("a number of type {}", ty.name()),
            (CoreArg::Scalar { size, .. }, None) => format!("a number of {size} bytes"),
            _ => format!("{} bytes", self.core.size()),
        }
    }
}

impl<'a> From<CoreArg<'a>> for Arg<'a> {
    #[inline]
    fn from(core: CoreArg<'a>) -> Self {
        Self::plain(core)
    }
}

impl<'a, T: Element> From<&'a Buffer<T>> for Arg<'a> {
    #[inline]
    fn from(buffer: &'a Buffer<T>) -> Self {
        Self::buffer(buffer)
    }
}

impl<'a, T: Element> From<&'a View<T>> for Arg<'a> {
    #[inline]
    fn from(view: &'a View<T>) -> Self {
        Self::buffer(view)
    }
}

macro_rules! scalars {
    ($($t:ty => $ty:ident),* $(,)?) => {$(
        impl From<$t> for Arg<'_> {
            #[inline]
            fn from(v: $t) -> Self {
                Self { ty: Some(ScalarType::$ty), ..Self::plain(v.into()) }
            }
        }
    )*};
}
scalars! { i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f32 => F32, f64 => F64 }

/// C's name for a Rust type, if it is a number.
#[inline]
pub(crate) fn scalar_type<T: 'static>() -> Option<ScalarType> {
    let id = TypeId::of::<T>();
    let types = [
        (TypeId::of::<f32>(), ScalarType::F32),
        (TypeId::of::<f64>(), ScalarType::F64),
        (TypeId::of::<u32>(), ScalarType::U32),
        (TypeId::of::<i32>(), ScalarType::I32),
        (TypeId::of::<u8>(), ScalarType::U8),
        (TypeId::of::<i8>(), ScalarType::I8),
        (TypeId::of::<u16>(), ScalarType::U16),
        (TypeId::of::<i16>(), ScalarType::I16),
        (TypeId::of::<u64>(), ScalarType::U64),
        (TypeId::of::<i64>(), ScalarType::I64),
    ];
    types.into_iter().find(|t| t.0 == id).map(|t| t.1)
}

/// Three sizes, x, y, z: an array of numbers or [`Value`]s, a tuple of either mixed with variables, or one number for x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dims(pub [Value; 3]);

impl From<[u32; 3]> for Dims {
    #[inline]
    fn from(sizes: [u32; 3]) -> Self {
        Self(sizes.map(Value::from))
    }
}

impl From<[Value; 3]> for Dims {
    #[inline]
    fn from(sizes: [Value; 3]) -> Self {
        Self(sizes)
    }
}

impl<X: Into<Value>, Y: Into<Value>, Z: Into<Value>> From<(X, Y, Z)> for Dims {
    #[inline]
    fn from((x, y, z): (X, Y, Z)) -> Self {
        Self([x.into(), y.into(), z.into()])
    }
}

impl From<u32> for Dims {
    #[inline]
    fn from(x: u32) -> Self {
        Self::from([x, 1, 1])
    }
}

/// A launch's size: work-groups, work-items per group, and group-local memory.
///
/// ```
/// use hcq_std::{Grid, Var};
/// let fixed = Grid::new([64, 4, 1], [256, 1, 1]).local_memory(4096);
/// let at_launch = Grid::new((Var::new(0), 1u32, 1u32), 256);
/// # let _: (Grid, Grid) = (fixed, at_launch);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Work-groups, x, y, z; each from 1 to 2^32 - 1.
    pub groups: [Value; 3],
    /// Work-items per group, x, y, z; each from 1 to 2^32 - 1.
    pub local: [Value; 3],
    /// Bytes of group-local memory.
    pub local_memory: u32,
}

impl Grid {
    /// A grid without local memory. Sizes may be variables.
    #[inline]
    pub fn new(groups: impl Into<Dims>, local: impl Into<Dims>) -> Self {
        Self {
            groups: groups.into().0,
            local: local.into().0,
            local_memory: 0,
        }
    }

    /// The same with this many bytes of local memory per group.
    #[inline]
    pub fn local_memory(self, bytes: u32) -> Self {
        Self {
            local_memory: bytes,
            ..self
        }
    }
}
