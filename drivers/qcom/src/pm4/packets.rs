//! What differs between the packets of generations, as data, and how commands write them.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::event_write::EventWrite;
use super::event_write7::EventWrite7;
use super::reg_to_mem::RegToMem;
use super::split;
use super::table::CP_ALWAYS_ON_COUNTER;
use crate::chips::Generation;
use crate::device::{ADDRESS_BITS, SCRAP_FIT};

/// Packets of commands, by generation. A flush has five words on each of them, and a timestamp four: where the address and
/// the number are does not differ.
#[derive(Debug)]
pub(crate) struct Packets {
    /// A CACHE_FLUSH_TS that writes a number of 32 bits. The address and the number follow.
    flush: [u32; 2],
    /// Invalidates the unified cache, and writes nothing.
    invalidate: [u32; 2],
    /// What writes the always-on counter, 64 bits. The address follows.
    timestamp: [u32; 2],
    /// Whether dispatches are known: their registers differ more than data can say.
    dispatches: bool,
}

static A6XX: Packets = Packets {
    flush: EventWrite::FLUSH,
    invalidate: EventWrite::INVALIDATE,
    timestamp: RegToMem::frame(CP_ALWAYS_ON_COUNTER, 2, true),
    dispatches: true,
};

static A7XX: Packets = Packets {
    flush: EventWrite7::FLUSH,
    invalidate: EventWrite7::INVALIDATE,
    timestamp: EventWrite7::TIMESTAMP,
    dispatches: false,
};

impl Generation {
    pub(crate) const fn packets(self) -> &'static Packets {
        match self {
            Self::A6xx => &A6XX,
            Self::A7xx => &A7XX,
        }
    }
}

impl Packets {
    /// Words of a flush.
    pub(crate) const FLUSH_WORDS: usize = 5;
    /// Where its address is.
    pub(crate) const FLUSH_ADDRESS: usize = 2;

    pub(crate) const fn dispatches(&self) -> bool {
        self.dispatches
    }

    pub(crate) const fn invalidate(&self) -> &[u32; 2] {
        &self.invalidate
    }

    pub(crate) const fn timestamp(&self) -> &[u32; 2] {
        &self.timestamp
    }

    /// A cache flush that writes a word that is known.
    #[inline]
    pub(crate) const fn flush(&self, address: u64, value: u32) -> [u32; Self::FLUSH_WORDS] {
        let ([header, info], [low, high]) = (self.flush, split(address));
        [header, info, low, high, value]
    }

    /// Appends a cache flush that writes zero to a word that nobody reads.
    #[inline]
    pub(crate) fn flush_to(
        &self,
        c: &mut Command<'_, '_>,
        scrap: Value,
    ) -> Result<(), RecordError> {
        let address = scrap.imm().unwrap_or(0);
        let at = c.position() + Self::FLUSH_ADDRESS;
        c.words(&self.flush(address, 0));
        match scrap {
            Value::Imm(_) => Ok(()),
            Value::Var(_) => c.set_pair(at, scrap, SCRAP_FIT).operand(Operand::Address),
        }
    }

    /// Appends a cache flush that writes a signal's value. The address is a multiple of `2^align_log2`.
    pub(crate) fn flush_signal(
        &self,
        c: &mut Command<'_, '_>,
        address: Value,
        value: Value,
        align_log2: u8,
    ) -> Result<(), RecordError> {
        c.words(&self.flush);
        c.pair(address, Fit::aligned(ADDRESS_BITS, align_log2))
            .operand(Operand::Signal)?;
        let at = c.position();
        c.word(0);
        c.set_value(at, value, Fit::bits(32)).operand(Operand::Data)
    }
}
