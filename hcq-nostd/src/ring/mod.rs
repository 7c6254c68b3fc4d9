//! Rings: reserve, fill, publish.
//!
//! A [`Ring`] hands out entries that the device has consumed, and nothing else: [`Ring::reserve`] counts padding too, and
//! when there is no room it says so and nothing has changed. Entries become the device's in [`Hole::publish`], with the
//! fence and the doorbell in the one order that is right. Put and get are monotonic 64-bit counts of entries; what the
//! engine wants to be told (bytes, words, an index of the last packet) is the [`Doorbell`]'s business.
//!
//! ```
//! use hcq_nostd::mem::Region;
//! use hcq_nostd::ring::{Ring, WouldBlock};
//!
//! let mut memory = [0u64; 4];
//! let mut ring = Ring::new(Region::from_words(&mut memory, 0x1000), 8)?;    // four entries of 8 bytes
//! let mut rung = 0;
//! let mut hole = ring.reserve(3)?;
//! hole.fill(0, &[1, 0, 2, 0, 3, 0])?;
//! hole.publish(&mut |put| rung = put);
//! assert_eq!(rung, 3);
//! assert_eq!(ring.reserve(2).map(|_| ()), Err(WouldBlock { need: 2, free: 1 }));
//! ring.consumed(3)?;                                                        // the device has read them
//! assert!(ring.reserve(2).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod arith;

use crate::mem::{AccessError, Region, publish_fence};

/// No room now. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WouldBlock {
    /// Entries needed, padding included.
    pub need: u64,
    /// Entries free.
    pub free: u64,
}

impl core::fmt::Display for WouldBlock {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ring entries needed, {} free", self.need, self.free)
    }
}

impl core::error::Error for WouldBlock {}

/// What is wrong with a ring or with what was said about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum RingError {
    /// The memory is not a whole number, at least one, of entries of 4 bytes or a multiple.
    Shape {
        /// Bytes of memory.
        bytes: usize,
        /// Bytes of an entry.
        entry: usize,
    },
    /// The device claims to have consumed what was not published, or less than before.
    Consumed {
        /// What it claims.
        get: u64,
        /// What it had consumed before.
        last: u64,
        /// What was published.
        put: u64,
    },
    /// More entries than the ring has: no waiting helps.
    TooLarge {
        /// Entries needed, padding included.
        need: u64,
        /// Entries that can be in use.
        len: u64,
    },
    /// The words do not fit the entries that were reserved.
    Fill(AccessError),
    /// There is no room now.
    Full(WouldBlock),
}

impl core::fmt::Display for RingError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Shape { bytes, entry } => {
                write!(f, "{bytes} bytes are no ring of {entry}-byte entries")
            }
            Self::Consumed { get, last, put } => {
                write!(
                    f,
                    "the device says it consumed {get} entries, after {last}, of {put}"
                )
            }
            Self::TooLarge { need, len } => write!(f, "{need} entries do not fit a ring of {len}"),
            Self::Fill(e) => write!(f, "{e}"),
            Self::Full(w) => write!(f, "{w}"),
        }
    }
}

impl core::error::Error for RingError {}

impl From<AccessError> for RingError {
    fn from(e: AccessError) -> Self {
        Self::Fill(e)
    }
}

impl From<WouldBlock> for RingError {
    fn from(w: WouldBlock) -> Self {
        Self::Full(w)
    }
}

/// Tells an engine how far it may read.
///
/// Called after the fence that orders the entries before it. An implementation stores the write pointer where the engine
/// looks for it, if it does, and then writes the doorbell.
pub trait Doorbell {
    /// Entries up to this monotonic count are valid.
    fn ring(&mut self, put: u64);
}

impl<F: FnMut(u64)> Doorbell for F {
    fn ring(&mut self, put: u64) {
        self(put);
    }
}

/// A ring in caller memory.
#[derive(Debug)]
pub struct Ring<'m> {
    memory: Region<'m>,
    entry: usize,
    len: u64,
    /// Entries that may be published and not consumed: all, or fewer for engines that take a full ring for an empty one.
    usable: u64,
    put: u64,
    get: u64,
    /// `put % len`, kept so that no launch divides.
    place: u64,
}

impl<'m> Ring<'m> {
    /// An empty ring of `entry`-byte entries over the whole region.
    ///
    /// # Errors
    /// [`RingError::Shape`].
    pub fn new(memory: Region<'m>, entry: usize) -> Result<Self, RingError> {
        Self::resume(memory, entry, 0)
    }

    /// An empty ring of which `position` entries were published and consumed before: one whose engine counts on from
    /// there.
    ///
    /// # Errors
    /// [`RingError::Shape`].
    pub fn resume(memory: Region<'m>, entry: usize, position: u64) -> Result<Self, RingError> {
        let bytes = memory.len();
        if entry == 0 || !entry.is_multiple_of(4) || bytes < entry || !bytes.is_multiple_of(entry) {
            return Err(RingError::Shape { bytes, entry });
        }
        let len = (bytes / entry) as u64;
        let place = position
            .checked_rem(len)
            .ok_or(RingError::Shape { bytes, entry })?;
        Ok(Self {
            memory,
            entry,
            len,
            usable: len,
            put: position,
            get: position,
            place,
        })
    }

    /// Leaves `n` entries free always, for engines that report places (one: put equal to get then means empty) or that
    /// fetch ahead.
    ///
    /// # Errors
    /// [`RingError::TooLarge`] if nothing is left to use, or if more is in use now.
    pub fn keep_free(mut self, n: u64) -> Result<Self, RingError> {
        let (need, len) = (n.saturating_add(1), self.len);
        let usable = len
            .checked_sub(n)
            .filter(|&u| u > 0 && u >= self.put.wrapping_sub(self.get));
        self.usable = usable.ok_or(RingError::TooLarge { need, len })?;
        Ok(self)
    }

    /// Entries in all.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Entries that can be reserved when everything was consumed.
    pub fn capacity(&self) -> u64 {
        self.usable
    }

    /// Whether everything published was consumed.
    pub fn is_empty(&self) -> bool {
        self.put == self.get
    }

    /// Entries published so far.
    pub fn put(&self) -> u64 {
        self.put
    }

    /// Entries known to be consumed.
    pub fn get(&self) -> u64 {
        self.get
    }

    /// Entries that can be reserved now.
    pub fn free(&self) -> u64 {
        arith::free(self.put, self.get, self.usable)
    }

    /// Takes note of how many entries the device has consumed. For narrower counters see [`arith::extend`].
    ///
    /// # Errors
    /// [`RingError::Consumed`] for a count that cannot be; nothing has changed then.
    #[inline]
    pub fn consumed(&mut self, get: u64) -> Result<(), RingError> {
        // Counts from a device may go past 2^64: what matters is how far apart they are.
        if get.wrapping_sub(self.get) > self.put.wrapping_sub(self.get) {
            return Err(RingError::Consumed {
                get,
                last: self.get,
                put: self.put,
            });
        }
        self.get = get;
        Ok(())
    }

    /// Reserves `n` entries, which may wrap between two entries.
    ///
    /// # Errors
    /// [`WouldBlock`]; check [`capacity`](Self::capacity) for requests that never fit.
    #[inline]
    pub fn reserve(&mut self, n: u64) -> Result<Hole<'_, 'm>, WouldBlock> {
        let free = self.free();
        if n > free {
            return Err(WouldBlock { need: n, free });
        }
        let first = self.put;
        Ok(Hole {
            ring: self,
            first,
            n,
        })
    }

    /// Reserves `n` entries, fills them with these words, and publishes them: for packets that are known whole. Returns the
    /// new put.
    ///
    /// ```
    /// use hcq_nostd::mem::Region;
    /// use hcq_nostd::ring::Ring;
    /// let mut memory = [0u64; 4];
    /// let mut ring = Ring::new(Region::from_words(&mut memory, 0x1000), 8)?;
    /// let mut rung = 0;
    /// assert_eq!(ring.push(2, &[1, 0, 2, 0], &mut |put| rung = put), Ok(2));
    /// assert_eq!(rung, 2);
    /// assert!(ring.push(1, &[1], &mut |_| ()).is_err());         // half an entry
    /// # Ok::<(), hcq_nostd::ring::RingError>(())
    /// ```
    ///
    /// # Errors
    /// [`RingError::TooLarge`] for more than the ring can hold, [`RingError::Full`] for more than it can now,
    /// [`RingError::Fill`] for words that are not `n` entries. Nothing has changed then.
    #[inline]
    pub fn push<const N: usize>(
        &mut self,
        n: u64,
        words: &[u32; N],
        doorbell: &mut impl Doorbell,
    ) -> Result<u64, RingError> {
        let bytes = size_of_val(words);
        if n > self.free() || n.wrapping_mul(self.entry as u64) != bytes as u64 {
            return Err(self.refused(n, bytes));
        }
        // At most the ring's length, as `n` is.
        let next = self.place + n;
        let first = self.put;
        if next > self.len {
            let ring = &mut *self;
            let mut hole = Hole { ring, first, n };
            hole.fill(0, words)?;
            return Ok(hole.publish(doorbell));
        }
        // As in `offset`; a place is less than `len`.
        self.memory
            .write_words(self.place as usize * self.entry, words)?;
        // ORDER: as in `Hole::publish`.
        publish_fence();
        let put = first.wrapping_add(n);
        self.place = if next == self.len { 0 } else { next };
        self.put = put;
        doorbell.ring(put);
        Ok(put)
    }

    /// Why `bytes` bytes in `n` entries were not taken.
    #[cold]
    fn refused(&self, n: u64, bytes: usize) -> RingError {
        let (need, free, len) = (n, self.free(), self.usable);
        if need > len {
            return RingError::TooLarge { need, len };
        }
        if need > free {
            return WouldBlock { need, free }.into();
        }
        RingError::Fill(AccessError::OutOfBounds {
            offset: 0,
            len: bytes as u64,
            region: n.saturating_mul(self.entry as u64),
        })
    }

    /// Reserves `n` entries in one piece. When they do not fit before the ring's end, the entries up to there are filled
    /// with copies of `pad`, one entry that the engine skips.
    ///
    /// # Errors
    /// [`RingError::TooLarge`] if padding and entries exceed the ring, which no waiting changes: a piece of up to half the
    /// ring never does, for a larger one publish [`reserve_to_end`](Self::reserve_to_end) first. [`RingError::Full`] if
    /// there is no room for padding and entries now, [`RingError::Fill`] if `pad` is not one entry. Nothing has changed
    /// then.
    pub fn reserve_in_one_piece(&mut self, n: u64, pad: &[u32]) -> Result<Hole<'_, 'm>, RingError> {
        let padding = arith::padding(self.place, n, self.len);
        self.pad(padding, n, pad)?;
        let first = self.put.wrapping_add(padding);
        Ok(Hole {
            ring: self,
            first,
            n,
        })
    }

    /// Reserves the entries up to the ring's end, if put is not at its start, and fills them with copies of `pad`. When
    /// they are published and consumed, a piece as large as the ring fits.
    ///
    /// # Errors
    /// As for [`reserve_in_one_piece`](Self::reserve_in_one_piece).
    pub fn reserve_to_end(&mut self, pad: &[u32]) -> Result<Hole<'_, 'm>, RingError> {
        let n = match self.place {
            0 => 0,
            place => arith::to_end(place, self.len),
        };
        self.pad(n, 0, pad)?;
        let first = self.put;
        Ok(Hole {
            ring: self,
            first,
            n,
        })
    }

    /// Fills `padding` entries from put on, if there is room for them and `n` more.
    fn pad(&mut self, padding: u64, n: u64, pad: &[u32]) -> Result<(), RingError> {
        let (need, free) = (padding.saturating_add(n), self.free());
        if need > self.usable {
            let len = self.usable;
            return Err(RingError::TooLarge { need, len });
        }
        if core::mem::size_of_val(pad) != self.entry {
            let error = AccessError::OutOfBounds {
                offset: 0,
                len: core::mem::size_of_val(pad) as u64,
                region: self.entry as u64,
            };
            return Err(RingError::Fill(error));
        }
        if need > free {
            return Err(WouldBlock { need, free }.into());
        }
        for i in 0..padding {
            let at = self.offset(i);
            self.memory.write_words(at, pad)?;
        }
        Ok(())
    }

    /// Byte offset of the entry `ahead` (less than a turn) after put.
    #[inline]
    fn offset(&self, ahead: u64) -> usize {
        let place = self.place + ahead;
        let place = if place >= self.len {
            place - self.len
        } else {
            place
        };
        // `len` entries of `entry` bytes are `memory.len()`, which fits.
        place as usize * self.entry
    }
}

/// Reserved entries: to be filled, then published. Dropping it gives them back.
#[derive(Debug)]
pub struct Hole<'r, 'm> {
    ring: &'r mut Ring<'m>,
    first: u64,
    n: u64,
}

impl Hole<'_, '_> {
    /// How far an entry of the hole is after the ring's put.
    #[inline]
    fn ahead(&self, entry: u64) -> u64 {
        self.first.wrapping_sub(self.ring.put) + entry
    }

    /// The monotonic count of the first entry.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Number of entries.
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Whether nothing was reserved.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Stores words from entry `entry` of the hole on; any number of words that fits.
    ///
    /// # Errors
    /// [`AccessError::OutOfBounds`]; nothing was stored.
    #[inline]
    pub fn fill(&mut self, entry: u64, words: &[u32]) -> Result<(), AccessError> {
        let bytes = words.len() * 4;
        let room = self
            .n
            .saturating_sub(entry)
            .saturating_mul(self.ring.entry as u64);
        if entry > self.n || bytes as u64 > room {
            return Err(AccessError::OutOfBounds {
                offset: entry,
                len: bytes as u64,
                region: room,
            });
        }
        if words.is_empty() {
            return Ok(());
        }
        let at = self.ring.offset(self.ahead(entry));
        let run = self.ring.memory.len() - at;
        if run >= bytes {
            return self.ring.memory.write_words(at, words);
        }
        let (before, after) = words.split_at_checked(run / 4).unwrap_or((words, &[]));
        self.ring.memory.write_words(at, before)?;
        self.ring.memory.write_words(0, after)
    }

    /// Stores the first word of entry `entry` after a fence: for packets whose header makes them valid (AQL). The bodies
    /// are ordered before it for whoever sees the header.
    ///
    /// # Errors
    /// [`AccessError::OutOfBounds`].
    pub fn fill_header(&mut self, entry: u64, header: u32) -> Result<(), AccessError> {
        if entry >= self.n {
            return Err(AccessError::OutOfBounds {
                offset: entry,
                len: 4,
                region: self.n,
            });
        }
        // ORDER: pairs with the packet processor's read of the header before the body.
        publish_fence();
        let at = self.ring.offset(self.ahead(entry));
        self.ring.memory.store_u32(at, header)
    }

    /// Makes the entries the device's: fence, then doorbell. Returns the new put.
    #[inline]
    pub fn publish(self, doorbell: &mut impl Doorbell) -> u64 {
        let put = self.first.wrapping_add(self.n);
        // ORDER: pairs with the engine's read of the write pointer or doorbell before it fetches entries.
        publish_fence();
        // The hole is at most one turn long, padding included.
        let place = self.ring.place + self.ahead(self.n);
        self.ring.place = if place >= self.ring.len {
            place - self.ring.len
        } else {
            place
        };
        self.ring.put = put;
        doorbell.ring(put);
        put
    }
}

#[cfg(test)]
mod tests;
