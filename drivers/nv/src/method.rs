//! Methods: the words of a pushbuffer. A header names a subchannel, a method and a count, and data words follow.
//!
//! Facts: `dev_pbdma.ref.txt`, `NV_FIFO_DMA_*`; `clc56f.h`, `NVC56F_DMA_*`.

use hcq_nostd::record::Command;

use crate::malformed::Malformed;

/// Subchannels that this driver's channels have their engines at. Host methods go to every engine's host, whichever
/// subchannel they name.
pub mod subchannel {
    /// Where host methods are sent.
    pub const HOST: u8 = 0;
    /// Where a compute channel has its engine.
    pub const COMPUTE: u8 = 1;
    /// Where a copy channel has its engine.
    pub const COPY: u8 = 4;
}

/// Host methods are below this byte offset, the engines' at and above it.
pub const FIRST_ENGINE_METHOD: u16 = 0x100;
/// SET_OBJECT is the one method below it that goes to an engine.
pub const SET_OBJECT: u16 = 0;

/// Data words behind one header at most: METHOD_COUNT has 13 bits.
pub const MAX_COUNT: u16 = 0x1fff;
/// Highest byte offset of a method: METHOD_ADDRESS has 12 bits, counting words.
pub const MAX_METHOD: u16 = 0x3ffc;

/// What a header does with its data, SEC_OP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Kind {
    /// INC_METHOD: each word goes to the next method.
    Incrementing,
    /// NON_INC_METHOD: all words go to the same method.
    NonIncrementing,
    /// ONE_INC: the first word goes to the method, the others to the next one.
    IncrementOnce,
    /// IMMD_DATA_METHOD: 13 bits of data in the header, no words behind it.
    Immediate(u16),
}

/// A method header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Header {
    kind: Kind,
    subchannel: u8,
    method: u16,
    count: u16,
}

/// A header whose fields cannot hold what it was to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum HeaderError {
    /// A subchannel of 8 or more.
    Subchannel(u8),
    /// A byte offset that is no multiple of 4, or above [`MAX_METHOD`], with all that the count reaches.
    Method(u16),
    /// More data words than [`MAX_COUNT`].
    Count(u16),
    /// More than 13 bits of immediate data.
    Data(u16),
}

impl core::fmt::Display for HeaderError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Subchannel(n) => write!(f, "subchannel {n}; there are eight"),
            Self::Method(m) => write!(f, "method {m:#x} is no multiple of 4 up to 0x3ffc"),
            Self::Count(n) => write!(f, "{n} words of data; a header counts 8191"),
            Self::Data(n) => write!(f, "{n:#x} is too large for immediate data"),
        }
    }
}

impl core::error::Error for HeaderError {}

mod sec_op {
    pub(super) const INC_METHOD: u32 = 1;
    pub(super) const NON_INC_METHOD: u32 = 3;
    pub(super) const IMMD_DATA_METHOD: u32 = 4;
    pub(super) const ONE_INC: u32 = 5;
}

impl Header {
    /// A header with `count` data words behind it; an immediate one has none, and its count is its data.
    ///
    /// # Errors
    /// [`HeaderError`].
    pub const fn new(
        kind: Kind,
        subchannel: u8,
        method: u16,
        count: u16,
    ) -> Result<Self, HeaderError> {
        if subchannel > 7 {
            return Err(HeaderError::Subchannel(subchannel));
        }
        if count > MAX_COUNT {
            return Err(HeaderError::Count(count));
        }
        let (count, last) = match kind {
            Kind::Immediate(data) if data > MAX_COUNT => return Err(HeaderError::Data(data)),
            Kind::Immediate(_) => (0, 0),
            Kind::NonIncrementing => (count, 0),
            Kind::IncrementOnce => (count, if count > 1 { 1 } else { 0 }),
            Kind::Incrementing => (count, count.saturating_sub(1)),
        };
        if !method.is_multiple_of(4) || method > MAX_METHOD || method / 4 + last > MAX_METHOD / 4 {
            return Err(HeaderError::Method(method));
        }
        Ok(Self {
            kind,
            subchannel,
            method,
            count,
        })
    }

    /// The header in a word.
    ///
    /// # Errors
    /// [`Malformed::Header`] for a word that is none.
    pub const fn decode(word: u32) -> Result<Self, Malformed> {
        let count = (word >> 16 & MAX_COUNT as u32) as u16;
        let kind = match word >> 29 {
            sec_op::INC_METHOD => Kind::Incrementing,
            sec_op::NON_INC_METHOD => Kind::NonIncrementing,
            sec_op::IMMD_DATA_METHOD => Kind::Immediate(count),
            sec_op::ONE_INC => Kind::IncrementOnce,
            _ => return Err(Malformed::Header { word }),
        };
        // Bit 12 belongs to no field.
        if word & 1 << 12 != 0 {
            return Err(Malformed::Reserved {
                word: 0,
                value: word,
            });
        }
        let method = ((word & 0xfff) << 2) as u16;
        match Self::new(kind, (word >> 13 & 7) as u8, method, count) {
            Ok(header) => Ok(header),
            Err(_) => Err(Malformed::Reserved {
                word: 0,
                value: word,
            }),
        }
    }

    /// The word.
    pub const fn word(self) -> u32 {
        let (op, count) = match self.kind {
            Kind::Incrementing => (sec_op::INC_METHOD, self.count),
            Kind::NonIncrementing => (sec_op::NON_INC_METHOD, self.count),
            Kind::Immediate(data) => (sec_op::IMMD_DATA_METHOD, data),
            Kind::IncrementOnce => (sec_op::ONE_INC, self.count),
        };
        op << 29 | (count as u32) << 16 | (self.subchannel as u32) << 13 | (self.method as u32) >> 2
    }

    /// What it does with its data.
    pub const fn kind(self) -> Kind {
        self.kind
    }

    /// Its subchannel.
    pub const fn subchannel(self) -> u8 {
        self.subchannel
    }

    /// Byte offset of its first method.
    pub const fn method(self) -> u16 {
        self.method
    }

    /// Data words behind it.
    pub const fn count(self) -> usize {
        self.count as usize
    }

    /// The method that data word `index` goes to.
    pub const fn method_of(self, index: usize) -> u16 {
        let ahead = match self.kind {
            Kind::Incrementing => index,
            Kind::NonIncrementing | Kind::Immediate(_) => 0,
            Kind::IncrementOnce => {
                if index > 0 {
                    1
                } else {
                    0
                }
            }
        };
        // `new` has seen to it that no word of the count goes past the last method; what is beyond stays there.
        let ahead = if ahead > MAX_COUNT as usize {
            MAX_COUNT
        } else {
            ahead as u16
        };
        self.method.saturating_add(ahead.saturating_mul(4))
    }

    /// Whether the host itself takes this method, whatever the subchannel.
    pub const fn is_host(self) -> bool {
        self.method < FIRST_ENGINE_METHOD && self.method != SET_OBJECT
    }
}

/// The word of an incrementing header that is known to be right.
pub(crate) const fn incrementing<const SUBCHANNEL: u8, const METHOD: u16, const COUNT: u16>() -> u32
{
    const {
        let header = Header::new(Kind::Incrementing, SUBCHANNEL, METHOD, COUNT);
        assert!(header.is_ok());
        match header {
            Ok(header) => header.word(),
            Err(_) => 0,
        }
    }
}

/// A header and its data, as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'w> {
    /// The header.
    pub header: Header,
    /// Its data words; none for immediate data.
    pub data: &'w [u32],
}

impl<'w> Run<'w> {
    /// The run that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &'w [u32]) -> Result<Self, Malformed> {
        let [first, rest @ ..] = words else {
            return Err(Malformed::Truncated { need: 1, have: 0 });
        };
        let header = Header::decode(*first)?;
        let data = rest.get(..header.count()).ok_or(Malformed::Truncated {
            need: header.count().saturating_add(1),
            have: words.len(),
        })?;
        Ok(Self { header, data })
    }

    /// Words of the run, its header included.
    pub const fn len(&self) -> usize {
        self.data.len() + 1
    }

    /// It is never empty: there is a header.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Appends it.
    pub fn record(&self, c: &mut Command<'_, '_>) {
        c.word(self.header.word());
        c.words(self.data);
    }

    /// The data of an incrementing run that starts at this method and has this length.
    pub(crate) fn exactly<const N: usize>(
        &self,
        subchannel: u8,
        method: u16,
    ) -> Option<&'w [u32; N]> {
        let h = self.header;
        let same =
            h.kind() == Kind::Incrementing && h.subchannel() == subchannel && h.method() == method;
        <&[u32; N]>::try_from(self.data).ok().filter(|_| same)
    }
}

#[cfg(test)]
mod tests;
