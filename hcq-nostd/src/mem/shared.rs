use core::marker::PhantomData;
use core::ptr::NonNull;

#[cfg(target_has_atomic = "64")]
use core::sync::atomic::Ordering;

#[cfg(target_has_atomic = "64")]
use super::access;
use super::{AccessError, Region};

/// One 64-bit word that devices and hosts access at any time.
///
/// On targets without 64-bit atomics it is read and written as two 32-bit halves in an order in which a reader may see
/// a value that is too small for a moment, and never one that is too large; with one writer and growing values, which
/// is what signals and ring pointers are, no wait ends early.
#[derive(Clone, Copy, Debug)]
pub struct SharedWord<'m> {
    cell: NonNull<u64>,
    lent: PhantomData<&'m [u64]>,
}

// SAFETY: all accesses are atomic (or follow the one-writer order above), so any thread may make them.
unsafe impl Send for SharedWord<'_> {}
// SAFETY: as above; the type has no other state.
unsafe impl Sync for SharedWord<'_> {}

impl<'m> SharedWord<'m> {
    /// The word at `cell`.
    ///
    /// # Safety
    /// `cell` is 8-byte aligned, mapped and writable for all of `'m`, and everybody on this host accesses it atomically.
    pub const unsafe fn new(cell: NonNull<u64>) -> Self {
        Self {
            cell,
            lent: PhantomData,
        }
    }

    /// A word of ordinary memory.
    pub fn from_mut(cell: &'m mut u64) -> Self {
        Self {
            cell: NonNull::from(cell),
            lent: PhantomData,
        }
    }

    /// The CPU address.
    pub const fn as_ptr(self) -> NonNull<u64> {
        self.cell
    }
}

#[cfg(target_has_atomic = "64")]
impl SharedWord<'_> {
    /// Loads; what the writer stored before its release is visible afterwards.
    #[inline]
    pub fn load(self) -> u64 {
        // SAFETY: aligned, mapped and accessed atomically only, by the contract of `new`.
        // ORDER: pairs with the release in `store` of a host, and with a device's write of the signal after its data.
        unsafe { access::word_load(self.cell, Ordering::Acquire) }
    }

    /// Stores; everything stored before is visible to whoever loads the new value.
    #[inline]
    pub fn store(self, value: u64) {
        // SAFETY: as in `load`.
        // ORDER: pairs with the acquire in `load`.
        unsafe { access::word_store(self.cell, value, Ordering::Release) };
    }

    /// Stores the low 32 bits only, as an engine of that width does; the other half keeps its value. For the one writer
    /// of the word.
    #[inline]
    pub fn store_low(self, value: u32) {
        // Whole words only: accesses of two sizes to one atomic are not ordered.
        // SAFETY: as in `load`.
        let old = unsafe { access::word_load(self.cell, Ordering::Relaxed) };
        self.store(old >> 32 << 32 | u64::from(value));
    }
}

#[cfg(not(target_has_atomic = "64"))]
impl SharedWord<'_> {
    fn half(self, high: bool) -> NonNull<u32> {
        let first: NonNull<u32> = self.cell.cast();
        if high {
            // SAFETY: a 64-bit word has two halves.
            unsafe { first.add(1) }
        } else {
            first
        }
    }

    fn read_half(self, high: bool) -> u32 {
        let half = self.half(high);
        // SAFETY: one half of a word that is mapped, aligned and accessed atomically only.
        let half = unsafe { core::sync::atomic::AtomicU32::from_ptr(half.as_ptr()) };
        // ORDER: pairs with the release in `write_half`.
        half.load(core::sync::atomic::Ordering::Acquire)
    }

    fn write_half(self, high: bool, value: u32) {
        let half = self.half(high);
        // SAFETY: one half of a word that is mapped, aligned and accessed atomically only.
        let half = unsafe { core::sync::atomic::AtomicU32::from_ptr(half.as_ptr()) };
        // ORDER: pairs with the acquire in `read_half`.
        half.store(value, core::sync::atomic::Ordering::Release);
    }

    /// Loads; what the writer stored before its release is visible afterwards. See the type for torn reads.
    pub fn load(self) -> u64 {
        // The writer clears the low half before it changes the high one, so two equal high halves around a low one give
        // a value that the word had, or a smaller one.
        let mut high = self.read_half(true);
        for _ in 0..4 {
            let low = self.read_half(false);
            let again = self.read_half(true);
            if again == high {
                return u64::from(high) << 32 | u64::from(low);
            }
            high = again;
        }
        // A writer that changes the high half this often is faster than any device; the smallest value is the safe one.
        u64::from(high) << 32
    }

    /// Stores; everything stored before is visible to whoever loads the new value.
    pub fn store(self, value: u64) {
        let (high, low) = ((value >> 32) as u32, (value & 0xffff_ffff) as u32);
        if self.read_half(true) != high {
            self.write_half(false, 0);
            self.write_half(true, high);
        }
        self.write_half(false, low);
    }

    /// Stores the low 32 bits only, as an engine of that width does; the other half keeps its value.
    pub fn store_low(self, value: u32) {
        self.write_half(false, value);
    }
}

/// A row of [`SharedWord`]s: what a region becomes when both sides write to it.
///
/// ```
/// use hcq_nostd::mem::{Region, SharedWords};
/// let mut backing = [0u64; 4];
/// let words = SharedWords::new(Region::from_words(&mut backing, 0x100))?;
/// let (word, address) = words.get(3).expect("four words");
/// word.store(9);
/// assert_eq!((word.load(), address), (9, 0x118));
/// # Ok::<(), hcq_nostd::mem::AccessError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SharedWords<'m> {
    first: NonNull<u64>,
    len: usize,
    device: u64,
    lent: PhantomData<&'m [u64]>,
}

// SAFETY: hands out `SharedWord`s only.
unsafe impl Send for SharedWords<'_> {}
// SAFETY: hands out `SharedWord`s only.
unsafe impl Sync for SharedWords<'_> {}

impl<'m> SharedWords<'m> {
    /// The region's whole 64-bit words. The region is consumed: from now on all access is atomic.
    ///
    /// # Errors
    /// [`AccessError::Misaligned`] if the region does not start at an 8-byte boundary, on either side.
    pub fn new(region: Region<'m>) -> Result<Self, AccessError> {
        let first: NonNull<u64> = region.as_ptr().cast();
        let device = region.device_address(0).unwrap_or(0);
        if !first.is_aligned() || !device.is_multiple_of(8) {
            return Err(AccessError::Misaligned {
                offset: 0,
                align: 8,
            });
        }
        Ok(Self {
            first,
            len: region.len() / 8,
            device,
            lent: PhantomData,
        })
    }

    /// Number of words.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no word.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Word `index` and its device address.
    #[inline]
    pub fn get(&self, index: usize) -> Option<(SharedWord<'m>, u64)> {
        if index >= self.len {
            return None;
        }
        // SAFETY: `index` is inside the words of the region that was consumed.
        let cell = unsafe { self.first.add(index) };
        // SAFETY: aligned (checked in `new`), mapped by M1, and shared by type from `new` on.
        let word = unsafe { SharedWord::new(cell) };
        Some((word, self.device.wrapping_add(index as u64 * 8)))
    }

    /// `len` words from `first` on; `None` if they are not inside.
    pub fn slice(&self, first: usize, len: usize) -> Option<Self> {
        if first.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: `first` is at most the number of words of the region that was consumed.
        let cell = unsafe { self.first.add(first) };
        Some(Self {
            first: cell,
            len,
            device: self.device.wrapping_add(first as u64 * 8),
            lent: PhantomData,
        })
    }
}
