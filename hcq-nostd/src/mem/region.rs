use core::marker::PhantomData;
use core::ptr::NonNull;

use volatile::VolatilePtr;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::access;

/// An access outside a region, or not at its natural alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum AccessError {
    /// `offset + len` is past the end.
    OutOfBounds {
        /// First byte of the access.
        offset: u64,
        /// Its length in bytes.
        len: u64,
        /// Length of the region in bytes.
        region: u64,
    },
    /// The CPU address of the access is not a multiple of its width.
    Misaligned {
        /// First byte of the access.
        offset: u64,
        /// Alignment that it needs, in bytes.
        align: u64,
    },
}

impl core::fmt::Display for AccessError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::OutOfBounds {
                offset,
                len,
                region,
            } => {
                write!(
                    f,
                    "bytes {offset:#x}+{len:#x} are outside the region of {region:#x} bytes"
                )
            }
            Self::Misaligned { offset, align } => {
                write!(f, "offset {offset:#x} is not aligned to {align} bytes")
            }
        }
    }
}

impl core::error::Error for AccessError {}

/// Bytes with a CPU side and a device address, stored to by one owner.
///
/// ```
/// use hcq_nostd::mem::Region;
/// let mut backing = [0u64; 4];
/// let mut region = Region::from_words(&mut backing, 0x8000);
/// region.store_u32(4, 7)?;
/// assert_eq!(region.load_u32(4)?, 7);
/// assert_eq!(region.device_address(4), Some(0x8004));
/// assert!(region.store_u64(28, 0).is_err());
/// # Ok::<(), hcq_nostd::mem::AccessError>(())
/// ```
#[derive(Debug)]
pub struct Region<'m> {
    cpu: NonNull<u8>,
    len: usize,
    device: u64,
    lent: PhantomData<&'m mut [u8]>,
}

// SAFETY: a region is the one owner of its bytes on this side (M2), as a `&mut [u8]` would be.
unsafe impl Send for Region<'_> {}
// SAFETY: through a shared reference a region can only be read, as a `&[u8]`; stores need `&mut`.
unsafe impl Sync for Region<'_> {}

impl<'m> Region<'m> {
    /// `len` bytes at `cpu`, which the device sees at `device`.
    ///
    /// # Safety
    /// Rules M1 and M2 of the [module](crate::mem) for all of `'m`. `len` is at most `isize::MAX`.
    pub const unsafe fn new(cpu: NonNull<u8>, len: usize, device: u64) -> Self {
        Self {
            cpu,
            len,
            device,
            lent: PhantomData,
        }
    }

    /// Ordinary memory, lent by the caller. 64-bit words, so that every field is aligned.
    pub fn from_words(words: &'m mut [u64], device: u64) -> Self {
        let len = core::mem::size_of_val(words);
        Self {
            cpu: NonNull::from(words).cast(),
            len,
            device,
            lent: PhantomData,
        }
    }

    /// Length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no byte in it.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The CPU address of the first byte.
    #[inline]
    pub const fn as_ptr(&self) -> NonNull<u8> {
        self.cpu
    }

    /// The device address of the byte at `offset`; `None` past the end or past 2^64.
    #[inline]
    pub fn device_address(&self, offset: usize) -> Option<u64> {
        if offset > self.len {
            return None;
        }
        self.device.checked_add(u64::try_from(offset).ok()?)
    }

    /// The same bytes for a shorter time.
    #[inline]
    pub fn reborrow(&mut self) -> Region<'_> {
        Region {
            cpu: self.cpu,
            len: self.len,
            device: self.device,
            lent: PhantomData,
        }
    }

    /// `len` bytes from `offset` on.
    ///
    /// # Errors
    /// [`AccessError::OutOfBounds`].
    #[inline]
    pub fn slice(self, offset: usize, len: usize) -> Result<Region<'m>, AccessError> {
        self.check(offset, len)?;
        let device = self.device.wrapping_add(offset as u64);
        // SAFETY: `offset <= self.len` was checked, and the bytes are one object of that length (M1).
        let cpu = unsafe { self.cpu.add(offset) };
        Ok(Region {
            cpu,
            len,
            device,
            lent: PhantomData,
        })
    }

    /// Two regions: the first `at` bytes, and the rest.
    ///
    /// # Errors
    /// [`AccessError::OutOfBounds`].
    pub fn split_at(self, at: usize) -> Result<(Region<'m>, Region<'m>), AccessError> {
        let rest = self
            .len
            .checked_sub(at)
            .ok_or_else(|| self.out_of_bounds(at, 0))?;
        // SAFETY: `at <= self.len` was checked, and the bytes are one object of that length (M1).
        let second = unsafe { self.cpu.add(at) };
        let device = self.device.wrapping_add(at as u64);
        Ok((
            Region {
                cpu: self.cpu,
                len: at,
                device: self.device,
                lent: PhantomData,
            },
            Region {
                cpu: second,
                len: rest,
                device,
                lent: PhantomData,
            },
        ))
    }

    #[cold]
    fn out_of_bounds(&self, offset: usize, len: usize) -> AccessError {
        AccessError::OutOfBounds {
            offset: offset as u64,
            len: len as u64,
            region: self.len as u64,
        }
    }

    /// `Ok` when `len` bytes at `offset` are inside.
    ///
    /// # Errors
    /// [`AccessError::OutOfBounds`].
    #[inline]
    pub fn check(&self, offset: usize, len: usize) -> Result<(), AccessError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(self.out_of_bounds(offset, len)),
        }
    }

    #[inline]
    fn cell<T: Copy>(&self, offset: usize) -> Result<NonNull<T>, AccessError> {
        self.check(offset, size_of::<T>())?;
        // SAFETY: the access was checked to be inside the bytes (M1).
        let p = unsafe { self.cpu.add(offset) }.cast::<T>();
        if !p.is_aligned() {
            return Err(AccessError::Misaligned {
                offset: offset as u64,
                align: align_of::<T>() as u64,
            });
        }
        Ok(p)
    }

    #[inline]
    fn store<T: Copy + IntoBytes + Immutable>(
        &mut self,
        offset: usize,
        value: T,
    ) -> Result<(), AccessError> {
        let p = self.cell::<T>(offset)?;
        // SAFETY: `p` is inside the region and aligned; every byte is writable (M1) and this side's own (M2).
        unsafe { access::store(p, value) };
        Ok(())
    }

    #[inline]
    fn load<T: Copy + IntoBytes + FromBytes>(&self, offset: usize) -> Result<T, AccessError> {
        let p = self.cell::<T>(offset)?;
        // SAFETY: `p` is inside the region and aligned; `T` is valid for any bytes (M1).
        Ok(unsafe { access::load(p) })
    }

    /// Stores one byte.
    ///
    /// # Errors
    /// [`AccessError::OutOfBounds`].
    #[inline]
    pub fn store_u8(&mut self, offset: usize, value: u8) -> Result<(), AccessError> {
        self.store(offset, value)
    }

    /// Stores 16 bits at a 2-byte boundary.
    ///
    /// # Errors
    /// [`AccessError`].
    #[inline]
    pub fn store_u16(&mut self, offset: usize, value: u16) -> Result<(), AccessError> {
        self.store(offset, value)
    }

    /// Stores 32 bits at a 4-byte boundary.
    ///
    /// # Errors
    /// [`AccessError`].
    #[inline]
    pub fn store_u32(&mut self, offset: usize, value: u32) -> Result<(), AccessError> {
        self.store(offset, value)
    }

    /// Stores 64 bits at an 8-byte boundary, in one store on 64-bit targets.
    ///
    /// # Errors
    /// [`AccessError`].
    #[inline]
    pub fn store_u64(&mut self, offset: usize, value: u64) -> Result<(), AccessError> {
        self.store(offset, value)
    }

    /// Loads one byte.
    ///
    /// # Errors
    /// [`AccessError::OutOfBounds`].
    #[inline]
    pub fn load_u8(&self, offset: usize) -> Result<u8, AccessError> {
        self.load(offset)
    }

    /// Loads 16 bits at a 2-byte boundary.
    ///
    /// # Errors
    /// [`AccessError`].
    #[inline]
    pub fn load_u16(&self, offset: usize) -> Result<u16, AccessError> {
        self.load(offset)
    }

    /// Loads 32 bits at a 4-byte boundary.
    ///
    /// # Errors
    /// [`AccessError`].
    #[inline]
    pub fn load_u32(&self, offset: usize) -> Result<u32, AccessError> {
        self.load(offset)
    }

    /// Loads 64 bits at an 8-byte boundary.
    ///
    /// # Errors
    /// [`AccessError`].
    #[inline]
    pub fn load_u64(&self, offset: usize) -> Result<u64, AccessError> {
        self.load(offset)
    }

    /// Stores bytes, in whatever widths the machine copies fastest: for memory, not for registers.
    ///
    /// # Errors
    /// [`AccessError::OutOfBounds`].
    #[inline]
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        self.check(offset, bytes.len())?;
        // SAFETY: checked to be inside (M1).
        let to = unsafe { self.cpu.add(offset) };
        // SAFETY: `to` has room for `bytes.len()` bytes that are this side's own (M2), so `bytes` cannot overlap them.
        unsafe { access::copy_in(to, bytes) };
        Ok(())
    }

    /// Stores 32-bit words.
    ///
    /// # Errors
    /// [`AccessError::OutOfBounds`].
    #[inline]
    pub fn write_words(&mut self, offset: usize, words: &[u32]) -> Result<(), AccessError> {
        // A packet or two is written faster by hand than by a call.
        if words.len() > 16 || !offset.is_multiple_of(4) || !self.cpu.cast::<u32>().is_aligned() {
            return self.write(offset, zerocopy::IntoBytes::as_bytes(words));
        }
        self.check(offset, words.len() * 4)?;
        // SAFETY: `offset` was checked to be inside (M1).
        let first = unsafe { self.cpu.add(offset) }.cast::<u32>();
        for (i, &word) in words.iter().enumerate() {
            // SAFETY: all words were checked to be inside (M1).
            let p = unsafe { first.add(i) };
            // SAFETY: inside, aligned, writable (M1) and this side's own (M2).
            unsafe { access::store(p, word) };
        }
        Ok(())
    }

    /// Loads bytes.
    ///
    /// # Errors
    /// [`AccessError::OutOfBounds`].
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), AccessError> {
        self.check(offset, bytes.len())?;
        // SAFETY: checked to be inside (M1).
        let from = unsafe { self.cpu.add(offset) };
        // SAFETY: `from` has `bytes.len()` readable bytes (M1), which are not Rust references' (M3), so no overlap.
        unsafe { access::copy_out(from, bytes) };
        Ok(())
    }

    /// Stores `len` bytes of `value`.
    ///
    /// # Errors
    /// [`AccessError::OutOfBounds`].
    pub fn fill(&mut self, offset: usize, len: usize, value: u8) -> Result<(), AccessError> {
        self.check(offset, len)?;
        // SAFETY: checked to be inside (M1).
        let to = unsafe { self.cpu.add(offset) };
        // SAFETY: `len` bytes from `to` on are writable (M1) and this side's own (M2).
        unsafe { access::fill(to, len, value) };
        Ok(())
    }
}

/// The launch loop's stores. Nothing is checked here; a patch table's constructor did (P1, P2).
pub(crate) mod scatter {
    use super::{NonNull, Region, VolatilePtr};

    /// Stores `value` at each `base + offset * 8`.
    ///
    /// # Safety
    /// - **P1** every `offset * 8 + 8` is at most `region.len()`;
    /// - **P2** `region` starts at an 8-byte boundary.
    #[inline]
    pub(crate) unsafe fn plain(region: &mut Region<'_>, offsets: &[u32], value: u64) {
        let base: NonNull<u64> = region.cpu.cast();
        match *offsets {
            // SAFETY: this function's contract.
            [offset] => unsafe { one(base, offset, value) },
            // SAFETY: this function's contract.
            _ => unsafe { many(base, offsets, value) },
        }
    }

    /// [`plain`] of many sites, apart, so that the loop has all registers.
    ///
    /// # Safety
    /// P1 and P2 as for [`plain`].
    #[inline(never)]
    unsafe fn many(base: NonNull<u64>, offsets: &[u32], value: u64) {
        let store = |offset: u32| {
            // SAFETY: inside by P1.
            let p = unsafe { base.add(offset as usize) };
            // SAFETY: inside by P1, aligned by P2, writable by M1, ours by M2.
            let cell = unsafe { VolatilePtr::new(p) };
            cell.write(value);
        };
        // Eight at a time: the compiler does not unroll volatile stores by itself, or does it where few are left.
        let (eights, mut rest) = offsets.as_chunks::<8>();
        for offsets in eights {
            let &[a, b, c, d, e, f, g, h] = offsets;
            store(a);
            store(b);
            store(c);
            store(d);
            store(e);
            store(f);
            store(g);
            store(h);
        }
        if let Some((&[a, b, c, d], others)) = rest.split_first_chunk() {
            store(a);
            store(b);
            store(c);
            store(d);
            rest = others;
        }
        match *rest {
            [a] => store(a),
            [a, b] => {
                store(a);
                store(b);
            }
            [a, b, c] => {
                store(a);
                store(b);
                store(c);
            }
            _ => {}
        }
    }

    /// Stores `values[i]` at `base + offsets[i] * 8` for each `i` of the shorter slice.
    ///
    /// # Safety
    /// P1 and P2 as for [`plain`].
    #[inline]
    pub(crate) unsafe fn plain_each(region: &mut Region<'_>, offsets: &[u32], values: &[u64]) {
        let base: NonNull<u64> = region.cpu.cast();
        for (&offset, &value) in offsets.iter().zip(values) {
            // SAFETY: this function's contract.
            unsafe { one(base, offset, value) };
        }
    }

    /// The same for 64 of them; apart, as [`many`] is.
    ///
    /// # Safety
    /// P1 and P2 as for [`plain`].
    #[inline(never)]
    pub(crate) unsafe fn plain_block(
        region: &mut Region<'_>,
        offsets: &[u32; 64],
        values: &[u64; 64],
    ) {
        let base: NonNull<u64> = region.cpu.cast();
        let (offsets, _) = offsets.as_chunks::<16>();
        let (values, _) = values.as_chunks::<16>();
        // Spelled out: each offset and value is loaded right before its store, with no registers to spill.
        macro_rules! store {
            ($o:ident $v:ident $($i:literal)*) => {
                $(
                    // SAFETY: this function's contract.
                    unsafe { one(base, $o[$i], $v[$i]) };
                )*
            };
        }
        for (o, v) in offsets.iter().zip(values) {
            store!(o v 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        }
    }

    /// Stores `value` at `base + offset * 8`. `base` is a region's first byte.
    ///
    /// # Safety
    /// P1 and P2 as for [`plain`].
    #[inline(always)]
    unsafe fn one(base: NonNull<u64>, offset: u32, value: u64) {
        // SAFETY: inside by P1.
        let p = unsafe { base.add(offset as usize) };
        // SAFETY: inside by P1, aligned by P2, writable by M1, ours by M2.
        let cell = unsafe { VolatilePtr::new(p) };
        cell.write(value);
    }

    /// Stores a `T` at each byte offset.
    ///
    /// # Safety
    /// Every `offset + size_of::<T>()` is at most `region.len()`, and both `offset` and the region's start are
    /// multiples of `align_of::<T>()`.
    #[inline]
    pub(crate) unsafe fn each<T: Copy>(region: &mut Region<'_>, offsets: &[u32], value: T) {
        for &offset in offsets {
            // SAFETY: inside by this function's contract.
            let p = unsafe { region.cpu.add(offset as usize) }.cast::<T>();
            // SAFETY: inside and aligned by this function's contract, writable by M1, ours by M2.
            let cell = unsafe { VolatilePtr::new(p) };
            cell.write(value);
        }
    }

    /// Stores a 64-bit value as its two halves, the low one first, at each byte offset.
    ///
    /// # Safety
    /// As for [`each`] with 8 bytes of room and 4-byte alignment.
    #[inline]
    pub(crate) unsafe fn pairs(region: &mut Region<'_>, offsets: &[u32], value: u64) {
        let halves: [u32; 2] = zerocopy::transmute!(value);
        let [first, second] = halves;
        for &offset in offsets {
            // SAFETY: inside by this function's contract.
            let p = unsafe { region.cpu.add(offset as usize) }.cast::<u32>();
            // SAFETY: the second half is inside too.
            let q = unsafe { p.add(1) };
            // SAFETY: inside and aligned by this function's contract, writable by M1, ours by M2.
            let low = unsafe { VolatilePtr::new(p) };
            // SAFETY: as for the first half.
            let high = unsafe { VolatilePtr::new(q) };
            low.write(first);
            high.write(second);
        }
    }
}
