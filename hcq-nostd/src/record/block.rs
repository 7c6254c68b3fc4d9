//! Memory beside a queue's words.

use core::marker::PhantomData;

use super::{NameOperand, Operand, RecordError};
use crate::mem::Region;
use crate::patch::{Formula, POISON, PatchList, RegionId, Store};
use crate::value::{Fit, Value, Var};

/// Device-visible memory beside a queue's words: an argument block, a descriptor (QMD), a packet that a kernel reads.
///
/// Sites in it are filed under its region's number, with offsets from the region's start.
#[derive(Debug)]
pub struct Block<'r, 'm> {
    /// The block's own bytes, so that a store has one end to look at.
    bytes: Region<'r>,
    id: RegionId,
    /// Where they are in their region.
    offset: usize,
    /// The device address of that region's first byte.
    origin: u64,
    /// The same, if it is known only at launch.
    base: Option<Var>,
    lent: PhantomData<&'r mut Region<'m>>,
}

impl<'r, 'm> Block<'r, 'm> {
    /// `len` bytes at `offset` of `region`, which is number `id` of the patch list.
    ///
    /// # Errors
    /// [`AccessError`](crate::mem::AccessError) if the bytes are not inside.
    #[inline]
    pub fn new(
        region: &'r mut Region<'m>,
        id: RegionId,
        offset: usize,
        len: usize,
    ) -> Result<Self, crate::mem::AccessError> {
        Ok(Self {
            // A region's start is always an address.
            origin: region.device_address(0).unwrap_or_default(),
            bytes: region.reborrow().slice(offset, len)?,
            id,
            offset,
            base: None,
            lent: PhantomData,
        })
    }

    /// The same block of a region whose device address is this variable, for a recording that runs at another place than
    /// where it is made. The address that the region has now is of no account.
    #[must_use]
    pub fn based_on(self, base: Var) -> Self {
        Self {
            base: Some(base),
            ..self
        }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no byte in it.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Device address of the byte at `at`, where it is known while recording; see [`address`](Self::address).
    #[inline]
    pub fn device_address(&self, at: usize) -> Option<u64> {
        self.address(at)?.imm()
    }

    /// Device address of the byte at `at`: a number, or the variable that the block is [based on](Self::based_on) and an
    /// offset. `None` past the end or past 2^64.
    #[inline]
    pub fn address(&self, at: usize) -> Option<Value> {
        // The block was found to be inside its region, so this cannot wrap.
        let offset = self.offset.wrapping_add(at);
        let offset = u64::try_from(offset).ok().filter(|_| at <= self.len())?;
        match self.base {
            None => self.origin.checked_add(offset).map(Value::Imm),
            Some(base) => Some(Value::from(base) + offset),
        }
    }

    /// The same block for a shorter time.
    pub fn reborrow(&mut self) -> Block<'_, 'm> {
        Block {
            bytes: self.bytes.reborrow(),
            id: self.id,
            offset: self.offset,
            origin: self.origin,
            base: self.base,
            lent: PhantomData,
        }
    }

    #[cold]
    fn too_small(&self, at: usize, len: usize) -> RecordError {
        RecordError::KernargsTooSmall {
            need: at.saturating_add(len),
            have: self.len(),
        }
    }

    /// Stores bytes.
    ///
    /// # Errors
    /// [`RecordError::KernargsTooSmall`].
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), RecordError> {
        match self.bytes.write(at, bytes) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.too_small(at, bytes.len())),
        }
    }

    /// Stores a value through a formula, or files its site and stores poison.
    ///
    /// # Errors
    /// [`RecordError::KernargsTooSmall`], [`RecordError::Misfit`] for an immediate; a variable is checked at launch.
    #[inline]
    pub fn value(
        &mut self,
        list: &mut PatchList<'_>,
        at: usize,
        value: Value,
        formula: &Formula,
        operand: Operand,
    ) -> Result<(), RecordError> {
        let bytes = formula.store.bytes() as usize;
        let word = match value {
            Value::Imm(v) => {
                let known = formula.known();
                known.check(v).operand(operand)?;
                known.eval(v)
            }
            Value::Var(of) => {
                let inside = self.bytes.check(at, bytes);
                inside.map_err(|_| self.too_small(at, bytes))?;
                // The block is inside its region, so this cannot wrap.
                let offset = self.offset.wrapping_add(at);
                let too_far = RecordError::KernargsTooSmall {
                    need: offset,
                    have: self.len(),
                };
                let offset = u32::try_from(offset).map_err(|_| too_far)?;
                list.site(self.id, offset, &Formula { of, ..*formula });
                u64::from(POISON) << 32 | u64::from(POISON)
            }
        };
        self.store(at, word, formula.store.bytes())
    }

    /// Stores the low 1, 2, 4 or 8 bytes of a word, or none: each is one store, where a copy of that many bytes would be a
    /// call.
    #[inline]
    pub(crate) fn store(&mut self, at: usize, word: u64, bytes: u32) -> Result<(), RecordError> {
        let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
        match bytes {
            0 => Ok(()),
            1 => self.write(at, &[a]),
            2 => self.write(at, &[a, b]),
            4 => self.write(at, &[a, b, c, d]),
            _ => self.write(at, &[a, b, c, d, e, f, g, h]),
        }
    }

    /// A whole value in a store of this width, at its natural alignment or, for 64 bits, at 4 bytes.
    ///
    /// # Errors
    /// As for [`value`](Self::value).
    #[inline]
    pub fn whole(
        &mut self,
        list: &mut PatchList<'_>,
        at: usize,
        value: Value,
        store: Store,
        operand: Operand,
    ) -> Result<(), RecordError> {
        if let Value::Imm(v) = value {
            let bits = store.bytes() as u8 * 8;
            Fit::bits(bits).check(v).operand(operand)?;
            return self.store(at, v, store.bytes());
        }
        self.value(
            list,
            at,
            value,
            &Formula::narrow(crate::value::Var::new(0), store),
            operand,
        )
    }
}
