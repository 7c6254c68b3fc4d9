//! A channel's GPFIFO: a ring of entries, each of which names a piece of words that the channel runs.
//!
//! Facts: `clc56f.h`, `clc86f.h`, `clca6f.h` (`GP_ENTRY`, the control page); `dev_pbdma.ref.txt`; `dev_usermode.ref.txt`.

use core::sync::atomic::{Ordering, fence};

use hcq_nostd::mem::{AccessError, Region};
use hcq_nostd::ring::{Doorbell, Ring, RingError};
use hcq_nostd::value::{Field, Fit, Misfit};

use crate::malformed::Malformed;

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 8;
/// Byte offset of GPGet in a channel's USERD page, where it is documented.
pub const GP_GET: usize = 0x88;
/// Byte offset of GPPut in a channel's USERD page.
pub const GP_PUT: usize = 0x8c;
/// Byte offset of NOTIFY_CHANNEL_PENDING in the usermode region: where work-submit tokens are written.
pub const NOTIFY_CHANNEL_PENDING: usize = 0x90;

/// GET and GET_HI: 40 bits, counting words.
const ADDRESS: Fit = Fit::aligned(40, 2);
const ADDRESS_MASK: u64 = (1 << 40) - 4;
/// LEVEL_SUBROUTINE.
const LEVEL_SUBROUTINE: u64 = 1 << 41;
/// LENGTH, in words.
const LENGTH: Field = Field::new(42, 21);
/// SYNC_WAIT.
const SYNC_WAIT: u64 = 1 << 63;
/// FETCH_CONDITIONAL, and the reserved bit 1 of the address.
const FETCH: u64 = 3;

/// Words that one entry runs at most.
pub const MAX_WORDS: u64 = LENGTH.mask();

/// An entry of a GPFIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Entry {
    address: u64,
    words: u32,
    /// SYNC_WAIT: the words are not fetched before everything in front of them was taken.
    pub wait: bool,
}

impl Entry {
    /// Lets the channel run `words` words at device address `address`.
    ///
    /// # Errors
    /// [`SubmitError`]: no words at all would be a control entry, and fields are limited.
    pub fn new(address: u64, words: usize) -> Result<Self, SubmitError> {
        let need = words as u64;
        if need == 0 {
            return Err(SubmitError::Empty);
        }
        if need > MAX_WORDS {
            return Err(SubmitError::TooLong {
                words: need,
                max: MAX_WORDS,
            });
        }
        ADDRESS.check(address).map_err(SubmitError::Address)?;
        // The last word is one that the field reaches, too.
        let end = address.saturating_add(need.saturating_mul(4));
        Fit::bits(ADDRESS.bits)
            .check(end.saturating_sub(1))
            .map_err(SubmitError::Address)?;
        Ok(Self {
            address,
            // At most 21 bits.
            words: need as u32,
            wait: false,
        })
    }

    /// Device address of the words.
    pub const fn address(self) -> u64 {
        self.address
    }

    /// Number of words, at least 1.
    pub const fn words(self) -> u32 {
        self.words
    }

    /// The entry's 64 bits.
    pub const fn bits(self) -> u64 {
        let wait = if self.wait { SYNC_WAIT } else { 0 };
        self.address | LEVEL_SUBROUTINE | (self.words as u64) << LENGTH.shift | wait
    }

    /// What 64 bits say.
    ///
    /// # Errors
    /// [`Malformed::ControlEntry`] for a length of zero, [`Malformed::Reserved`] for what this driver does not use.
    pub const fn decode(bits: u64) -> Result<Self, Malformed> {
        let words = (bits >> LENGTH.shift & LENGTH.mask()) as u32;
        if words == 0 {
            let opcode = (bits >> 32 & 0xff) as u8;
            return Err(Malformed::ControlEntry { opcode });
        }
        let entry = Self {
            address: bits & ADDRESS_MASK,
            words,
            wait: bits & SYNC_WAIT != 0,
        };
        if entry.bits() != bits {
            let word = if bits & FETCH != 0 { 0 } else { 1 };
            let value = (bits >> (word * 32)) as u32;
            return Err(Malformed::Reserved {
                word: word as usize,
                value,
            });
        }
        Ok(entry)
    }
}

impl core::fmt::Display for Entry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "GP_ENTRY GET={:#x} LENGTH={:#x}",
            self.address, self.words
        )?;
        f.write_str(if self.wait { " SYNC_WAIT" } else { "" })
    }
}

/// Why words are not submitted. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SubmitError {
    /// No words. An entry of length zero is a control entry.
    Empty,
    /// More words than one entry runs.
    TooLong {
        /// Words.
        words: u64,
        /// The most there may be.
        max: u64,
    },
    /// Words at an address that an entry cannot hold.
    Address(Misfit),
    /// The ring has no room.
    Ring(RingError),
}

impl core::fmt::Display for SubmitError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Empty => f.write_str("no words to submit"),
            Self::TooLong { words, max } => write!(f, "{words} words; an entry runs {max}"),
            Self::Address(m) => write!(f, "address of the words: {m}"),
            Self::Ring(e) => write!(f, "{e}"),
        }
    }
}

impl core::error::Error for SubmitError {}

impl From<RingError> for SubmitError {
    fn from(e: RingError) -> Self {
        Self::Ring(e)
    }
}

/// The host's half of a channel's ring.
#[derive(Debug)]
pub struct GpFifo<'m> {
    ring: Ring<'m>,
}

impl<'m> GpFifo<'m> {
    /// The ring of a new channel, over whole entries of memory.
    ///
    /// # Errors
    /// [`RingError::Shape`]; [`RingError::TooLarge`] for fewer than two entries, since one stays free.
    pub fn new(memory: Region<'m>) -> Result<Self, RingError> {
        Self::resume(memory, 0)
    }

    /// The ring of a channel of which `position` entries were submitted and consumed before.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn resume(memory: Region<'m>, position: u64) -> Result<Self, RingError> {
        // GPPut equal to GPGet means that there is nothing to do.
        let ring = Ring::resume(memory, ENTRY_BYTES, position)?.keep_free(1)?;
        Ok(Self { ring })
    }

    /// Entries in all.
    pub fn len(&self) -> u64 {
        self.ring.len()
    }

    /// Whether everything submitted was consumed.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Entries submitted so far.
    pub fn put(&self) -> u64 {
        self.ring.put()
    }

    /// Entries that can be submitted now.
    pub fn free(&self) -> u64 {
        self.ring.free()
    }

    /// Submits words at a device address: the entry, then the doorbell. Returns the count of entries with it.
    ///
    /// The words are in memory by then; the ring orders them before the doorbell.
    ///
    /// # Errors
    /// [`SubmitError`].
    pub fn submit(
        &mut self,
        address: u64,
        words: usize,
        doorbell: &mut impl Doorbell,
    ) -> Result<u64, SubmitError> {
        self.submit_entry(Entry::new(address, words)?, doorbell)
    }

    /// Submits an entry.
    ///
    /// # Errors
    /// [`SubmitError::Ring`].
    pub fn submit_entry(
        &mut self,
        entry: Entry,
        doorbell: &mut impl Doorbell,
    ) -> Result<u64, SubmitError> {
        let bits = entry.bits();
        // Both halves of 64 bits.
        let words = [(bits & u64::from(u32::MAX)) as u32, (bits >> 32) as u32];
        Ok(self.ring.push(1, &words, doorbell)?)
    }

    /// Takes note that this many entries were consumed in all: what a timeline's completed value says, where the chip does
    /// not document GPGet.
    ///
    /// # Errors
    /// [`RingError::Consumed`] for a count that cannot be.
    pub fn consumed(&mut self, count: u64) -> Result<(), RingError> {
        self.ring.consumed(count)
    }

    /// Takes note of GPGet: the place of the next entry that the channel looks at.
    ///
    /// # Errors
    /// [`RingError::Consumed`] for a place that is not in the ring, or one that was not submitted.
    pub fn read_gp_get(&mut self, place: u32) -> Result<(), RingError> {
        let (last, put, len) = (self.ring.get(), self.ring.put(), self.ring.len());
        let place = u64::from(place);
        let never = RingError::Consumed {
            get: place,
            last,
            put,
        };
        let before = last.checked_rem(len).ok_or(never)?;
        if place >= len {
            return Err(never);
        }
        // At most one turn, since an entry stays free.
        let ahead = if place >= before {
            place - before
        } else {
            place + len - before
        };
        self.ring.consumed(last.wrapping_add(ahead))
    }
}

/// A channel's doorbell: GPPut in its USERD, a barrier, and its token in the usermode region.
#[derive(Debug)]
pub struct ChannelDoorbell<'m> {
    userd: Region<'m>,
    usermode: Region<'m>,
    entries: u64,
    token: u32,
}

impl<'m> ChannelDoorbell<'m> {
    /// The doorbell of a channel with this many entries. `userd` is its USERD page, `usermode` the usermode region, `token`
    /// what the kernel driver says it is (`NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN`).
    ///
    /// # Errors
    /// [`AccessError`] if either region is too short or misaligned, or there are no entries.
    pub fn new(
        userd: Region<'m>,
        usermode: Region<'m>,
        entries: u64,
        token: u32,
    ) -> Result<Self, AccessError> {
        // Both are read: a region that can be read here can be written.
        userd.load_u32(GP_PUT)?;
        usermode.check(NOTIFY_CHANNEL_PENDING, 4)?;
        if entries == 0 {
            return Err(AccessError::OutOfBounds {
                offset: 0,
                len: ENTRY_BYTES as u64,
                region: 0,
            });
        }
        Ok(Self {
            userd,
            usermode,
            entries,
            token,
        })
    }

    /// GPGet, for chips that have it there: see [`Chip::gp_get`](crate::chips::Chip::gp_get).
    ///
    /// # Errors
    /// [`AccessError`] for a page that is too short.
    pub fn gp_get(&self) -> Result<u32, AccessError> {
        self.userd.load_u32(GP_GET)
    }
}

impl Doorbell for ChannelDoorbell<'_> {
    fn ring(&mut self, put: u64) {
        // Entries are fewer than 2^32: GPPut has 32 bits.
        let place = put.checked_rem(self.entries).unwrap_or_default() as u32;
        // Neither fails: `new` has looked.
        let _ = self.userd.store_u32(GP_PUT, place);
        // The channel reads GPPut when the token arrives.
        fence(Ordering::SeqCst);
        let _ = self.usermode.store_u32(NOTIFY_CHANNEL_PENDING, self.token);
    }
}

#[cfg(test)]
mod tests;
