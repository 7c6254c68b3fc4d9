//! Kernel arguments: a program's layout as plain data, and writing an argument block.
//!
//! ```
//! use hcq_nostd::args::{Arg, ArgKind, ArgLayout, ArgSlot};
//! use hcq_nostd::mem::Region;
//! use hcq_nostd::patch::{PatchList, RegionId};
//! use hcq_nostd::record::Block;
//!
//! let slots = [ArgSlot::scalar(0, 4), ArgSlot::buffer(8)];
//! let layout = ArgLayout { slots: &slots, size: 16, align: 8 };
//! let mut memory = [0u64; 2];
//! let mut region = Region::from_words(&mut memory, 0x1000);
//! let mut block = Block::new(&mut region, RegionId(1), 0, 16)?;
//! layout.write(&[Arg::from(2.0f32), Arg::Buffer(0x8000u64.into())], &mut block, &mut PatchList::none())?;
//! assert_eq!(memory, [0x4000_0000, 0x8000]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod prepared;

pub use prepared::PreparedLayout;

use crate::patch::{Formula, PatchList, Store};
use crate::record::{Block, Operand, RecordError};
use crate::value::{Fit, Value, Var};

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ArgKind {
    /// A device address, 8 bytes.
    Buffer,
    /// A device address, 8 bytes, through which the program only reads.
    ConstBuffer,
    /// A number of 1, 2, 4 or 8 bytes.
    Scalar,
    /// Any bytes: a struct by value.
    Bytes,
}

/// One argument's place in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ArgSlot {
    /// Byte offset.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// What it is.
    pub kind: ArgKind,
}

impl ArgSlot {
    /// A number of `size` bytes.
    pub const fn scalar(offset: u32, size: u32) -> Self {
        Self {
            offset,
            size,
            kind: ArgKind::Scalar,
        }
    }

    /// A buffer that the program reads and writes.
    pub const fn buffer(offset: u32) -> Self {
        Self {
            offset,
            size: 8,
            kind: ArgKind::Buffer,
        }
    }
}

/// An argument of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Arg<'a> {
    /// A buffer's device address.
    Buffer(Value),
    /// A number of 1, 2, 4 or 8 bytes, known now or at launch. A float is its bits.
    Scalar {
        /// The number; what is above its size must be zero.
        value: Value,
        /// Bytes.
        size: u8,
    },
    /// Bytes.
    Bytes(&'a [u8]),
}

impl Arg<'_> {
    /// A number known at launch, of this many bytes (1, 2, 4 or 8).
    pub fn var(var: Var, size: u8) -> Self {
        Self::Scalar {
            value: var.into(),
            size,
        }
    }

    /// Bytes that it takes in an argument block.
    pub const fn size(&self) -> usize {
        match self {
            Self::Buffer(_) => 8,
            Self::Scalar { size, .. } => *size as usize,
            Self::Bytes(b) => b.len(),
        }
    }

    /// Its natural alignment.
    pub const fn align(&self) -> usize {
        match self {
            Self::Buffer(_) => 8,
            Self::Scalar { size, .. } => *size as usize,
            Self::Bytes(_) => 1,
        }
    }
}

macro_rules! scalars {
    ($($t:ty => $bits:expr),* $(,)?) => {$(
        impl From<$t> for Arg<'_> {
            #[inline]
            fn from(v: $t) -> Self {
                let bits: fn($t) -> u64 = $bits;
                Self::Scalar { value: Value::Imm(bits(v)), size: size_of::<$t>() as u8 }
            }
        }
    )*};
}

scalars! {
    u8 => |v| v.into(), u16 => |v| v.into(), u32 => |v| v.into(), u64 => |v| v,
    i8 => |v| v.cast_unsigned().into(), i16 => |v| v.cast_unsigned().into(),
    i32 => |v| v.cast_unsigned().into(), i64 => |v| v.cast_unsigned(),
    f32 => |v| v.to_bits().into(), f64 => |v| v.to_bits(),
}

/// A program's arguments in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgLayout<'p> {
    /// Each argument's place.
    pub slots: &'p [ArgSlot],
    /// Bytes of the whole block.
    pub size: u32,
    /// Its alignment, a power of two.
    pub align: u32,
}

impl ArgLayout<'_> {
    /// Checks the arguments against the layout and writes them to the block. Variables become patch sites.
    ///
    /// # Errors
    /// [`RecordError::ArgumentCount`], [`RecordError::ArgumentKind`], [`RecordError::KernargsTooSmall`], or
    /// [`RecordError::Misfit`] for a number that its size cannot hold. No site was filed then; the block's bytes may have
    /// changed.
    pub fn write(
        &self,
        args: &[Arg<'_>],
        block: &mut Block<'_, '_>,
        list: &mut PatchList<'_>,
    ) -> Result<(), RecordError> {
        if args.len() != self.slots.len() {
            return Err(RecordError::ArgumentCount {
                need: self.slots.len(),
                have: args.len(),
            });
        }
        if (self.size as usize) > block.len() {
            return Err(RecordError::KernargsTooSmall {
                need: self.size as usize,
                have: block.len(),
            });
        }
        let mark = list.mark();
        let written = self.write_each(args, block, list);
        if written.is_err() {
            list.rewind(mark);
        }
        written
    }

    fn write_each(
        &self,
        args: &[Arg<'_>],
        block: &mut Block<'_, '_>,
        list: &mut PatchList<'_>,
    ) -> Result<(), RecordError> {
        for (index, (arg, slot)) in args.iter().zip(self.slots).enumerate() {
            // What is nearly always given: numbers and addresses that are known.
            if let Some((bits, size)) = known(arg, slot) {
                block.store(slot.offset as usize, bits, size)?;
                continue;
            }
            let kind = matches!(
                (arg, slot.kind),
                (Arg::Buffer(_), ArgKind::Buffer | ArgKind::ConstBuffer)
                    | (Arg::Bytes(_), ArgKind::Bytes)
                    | (Arg::Scalar { .. }, ArgKind::Scalar)
            );
            let index = u16::try_from(index).unwrap_or(u16::MAX);
            if !kind || arg.size() != slot.size as usize {
                return Err(RecordError::ArgumentKind { index });
            }
            write_one(arg, index, slot.offset as usize, block, list)?;
        }
        Ok(())
    }
}

/// An argument that needs no more than a store: its bits and its size.
#[inline]
fn known(arg: &Arg<'_>, slot: &ArgSlot) -> Option<(u64, u32)> {
    match (*arg, slot.kind) {
        (Arg::Buffer(Value::Imm(v)), ArgKind::Buffer | ArgKind::ConstBuffer) => {
            (slot.size == 8).then_some((v, 8))
        }
        (
            Arg::Scalar {
                value: Value::Imm(v),
                size,
            },
            ArgKind::Scalar,
        ) => {
            let fits = match size {
                1 | 2 | 4 => v >> (size * 8) == 0,
                8 => true,
                _ => false,
            };
            (fits && u32::from(size) == slot.size).then_some((v, slot.size))
        }
        _ => None,
    }
}

/// Writes arguments at their natural alignment one after the other, as a C struct has them: for programs whose layout is
/// not known. Returns the bytes taken, without padding at the end.
///
/// # Errors
/// [`RecordError::KernargsTooSmall`], [`RecordError::ArgumentKind`] for a number of another size than 1, 2, 4 or 8, or
/// [`RecordError::Misfit`] for one that its size cannot hold. No site was filed then.
pub fn write_packed(
    args: &[Arg<'_>],
    block: &mut Block<'_, '_>,
    list: &mut PatchList<'_>,
) -> Result<usize, RecordError> {
    let (need, have) = (packed_size(args), block.len());
    if need > have {
        return Err(RecordError::KernargsTooSmall { need, have });
    }
    let mark = list.mark();
    let mut end = 0;
    for (index, arg) in args.iter().enumerate() {
        let at = place_after(end, arg);
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        if let Err(e) = write_one(arg, index, at, block, list) {
            list.rewind(mark);
            return Err(e);
        }
        end = at.saturating_add(arg.size());
    }
    Ok(end)
}

/// Bytes that [`write_packed`] takes.
pub fn packed_size(args: &[Arg<'_>]) -> usize {
    args.iter().fold(0, |end, arg| {
        place_after(end, arg).saturating_add(arg.size())
    })
}

/// Where an argument goes after `end` bytes.
fn place_after(end: usize, arg: &Arg<'_>) -> usize {
    end.checked_next_multiple_of(arg.align().max(1))
        .unwrap_or(usize::MAX)
}

#[inline]
fn write_one(
    arg: &Arg<'_>,
    index: u16,
    at: usize,
    block: &mut Block<'_, '_>,
    list: &mut PatchList<'_>,
) -> Result<(), RecordError> {
    let operand = Operand::Argument(index);
    match *arg {
        Arg::Buffer(address) => block.whole(list, at, address, Store::W64, operand),
        Arg::Scalar { value, size } => {
            let store = match size {
                1 => Store::W8,
                2 => Store::W16,
                4 => Store::W32,
                8 => Store::W64,
                _ => return Err(RecordError::ArgumentKind { index }),
            };
            if let Value::Var(of) = value {
                // Nobody knows yet whether the number is signed: `n - 3` may become negative.
                let fit = Fit::signed(size * 8);
                let formula = Formula {
                    fit,
                    ..Formula::narrow(of, store)
                };
                return block.value(list, at, value, &formula, operand);
            }
            block.whole(list, at, value, store, operand)
        }
        Arg::Bytes(bytes) => block.write(at, bytes),
    }
}

#[cfg(test)]
mod tests;
