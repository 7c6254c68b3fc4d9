//! A queue's put, get and fault, in memory that host and engine share.

use hcq_nostd::fault::FaultCell;
use hcq_nostd::mem::{AccessError, Region, SharedWord, SharedWords};
use hcq_nostd::ring::Doorbell;

/// A queue's control block: 256 bytes.
///
/// | word | what | written by |
/// |---|---|---|
/// | 0 | put: packets published, monotonic | host |
/// | 8 | get: packets consumed, monotonic | engine |
/// | 16 to 23 | the first fault ([`FaultCell`]) | engine |
///
/// It is its queue's [`Doorbell`]; whoever polls the engine may need waking besides.
#[derive(Clone, Copy, Debug)]
pub struct Control<'m> {
    put: SharedWord<'m>,
    get: SharedWord<'m>,
    fault: FaultCell<'m>,
}

impl<'m> Control<'m> {
    /// 64-bit words that it takes.
    pub const WORDS: usize = 32;

    /// A control block over the first words; `None` if there are too few. Zero them first: the words are used as they
    /// are, so that host and engine can each make one.
    pub fn new(words: SharedWords<'m>) -> Option<Self> {
        if words.len() < Self::WORDS {
            return None;
        }
        let ((put, _), (get, _)) = (words.get(0)?, words.get(8)?);
        Some(Self {
            put,
            get,
            fault: FaultCell::new(words.slice(16, FaultCell::WORDS)?)?,
        })
    }

    /// A control block at the start of a region.
    ///
    /// # Errors
    /// [`AccessError`] if the region is too short or misaligned.
    pub fn in_region(region: Region<'m>) -> Result<Self, AccessError> {
        let region_len = region.len() as u64;
        let short = AccessError::OutOfBounds {
            offset: 0,
            len: Self::WORDS as u64 * 8,
            region: region_len,
        };
        Self::new(SharedWords::new(region)?).ok_or(short)
    }

    /// Packets published.
    #[inline]
    pub fn put(&self) -> u64 {
        self.put.load()
    }

    /// Publishes packets up to this count.
    #[inline]
    pub fn set_put(&self, put: u64) {
        // ORDER: the release pairs with the engine's acquire in `put`, which then sees the packets.
        self.put.store(put);
    }

    /// Packets consumed.
    #[inline]
    pub fn get(&self) -> u64 {
        self.get.load()
    }

    /// For the engine: the packets up to this count are not read again.
    #[inline]
    pub(crate) fn set_get(&self, get: u64) {
        self.get.store(get);
    }

    /// Where the engine reports its first fault.
    pub fn fault(&self) -> FaultCell<'m> {
        self.fault
    }
}

impl Doorbell for Control<'_> {
    fn ring(&mut self, put: u64) {
        self.set_put(put);
    }
}
