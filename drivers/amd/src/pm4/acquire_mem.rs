//! ACQUIRE_MEM: makes what others wrote visible, by writing back and invalidating caches.

use hcq_nostd::record::Command;
use hcq_nostd::value::{Field, Misfit};

use super::{body, join, op, parse_header, split, type3};
use crate::malformed::{Malformed, only};

bitflags::bitflags! {
    /// CP_COHER_CNTL of gfx9.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CoherCntl: u32 {
        /// TC_NC_ACTION_ENA: lines that are not coherent.
        const TC_NC = 1 << 3;
        /// TC_WC_ACTION_ENA.
        const TC_WC = 1 << 4;
        /// TC_INV_METADATA_ACTION_ENA.
        const TC_INV_METADATA = 1 << 5;
        /// TCL1_VOL_ACTION_ENA.
        const TCL1_VOL = 1 << 15;
        /// TC_WB_ACTION_ENA: write L2 back.
        const TC_WB = 1 << 18;
        /// TCL1_ACTION_ENA: invalidate vector L1.
        const TCL1 = 1 << 22;
        /// TC_ACTION_ENA: invalidate L2.
        const TC = 1 << 23;
        /// CB_ACTION_ENA.
        const CB = 1 << 25;
        /// DB_ACTION_ENA.
        const DB = 1 << 26;
        /// SH_KCACHE_ACTION_ENA: invalidate the scalar cache.
        const SH_KCACHE = 1 << 27;
        /// SH_KCACHE_VOL_ACTION_ENA.
        const SH_KCACHE_VOL = 1 << 28;
        /// SH_ICACHE_ACTION_ENA: invalidate the instruction cache.
        const SH_ICACHE = 1 << 29;
        /// SH_KCACHE_WB_ACTION_ENA: write the scalar cache back.
        const SH_KCACHE_WB = 1 << 30;
    }

    /// GCR_CNTL of gfx10 and later.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GcrCntl: u32 {
        /// GLI_INV = 1: invalidate all of the instruction cache.
        const GLI_INV_ALL = 1;
        /// GLI_INV = 2: invalidate the range in the instruction cache.
        const GLI_INV_RANGE = 2;
        /// GL1_RANGE, low bit.
        const GL1_RANGE_0 = 1 << 2;
        /// GL1_RANGE, high bit.
        const GL1_RANGE_1 = 1 << 3;
        /// GLM_WB: write the metadata cache back.
        const GLM_WB = 1 << 4;
        /// GLM_INV: invalidate the metadata cache.
        const GLM_INV = 1 << 5;
        /// GLK_WB: write the scalar cache back.
        const GLK_WB = 1 << 6;
        /// GLK_INV: invalidate the scalar cache.
        const GLK_INV = 1 << 7;
        /// GLV_INV: invalidate the vector L0.
        const GLV_INV = 1 << 8;
        /// GL1_INV: invalidate the L1.
        const GL1_INV = 1 << 9;
        /// GL2_US.
        const GL2_US = 1 << 10;
        /// GL2_RANGE, low bit.
        const GL2_RANGE_0 = 1 << 11;
        /// GL2_RANGE, high bit.
        const GL2_RANGE_1 = 1 << 12;
        /// GL2_DISCARD.
        const GL2_DISCARD = 1 << 13;
        /// GL2_INV: invalidate the L2.
        const GL2_INV = 1 << 14;
        /// GL2_WB: write the L2 back.
        const GL2_WB = 1 << 15;
        /// SEQ = 1: outer caches after inner ones.
        const SEQ_FORWARD = 1 << 16;
        /// SEQ = 2: inner caches after outer ones.
        const SEQ_REVERSE = 1 << 17;
        /// RANGE_IS_PA.
        const RANGE_IS_PA = 1 << 18;
    }
}

/// Which caches, in the bits of the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caches {
    /// gfx9: CP_COHER_CNTL, in a packet of 7 words.
    Gfx9(CoherCntl),
    /// gfx10 and later: GCR_CNTL, in a packet of 8 words.
    Gfx10(GcrCntl),
}

#[cfg(feature = "defmt")]
impl defmt::Format for Caches {
    fn format(&self, f: defmt::Formatter<'_>) {
        match self {
            Self::Gfx9(c) => defmt::write!(f, "Gfx9({=u32:#x})", c.bits()),
            Self::Gfx10(c) => defmt::write!(f, "Gfx10({=u32:#x})", c.bits()),
        }
    }
}

/// Base and size in the packet count 256 bytes.
const UNIT_LOG2: u8 = 8;
/// CP_COHER_SIZE and CP_COHER_SIZE_HI 7:0.
const SIZE: Field = Field::new(0, 40).unit(UNIT_LOG2);
/// CP_COHER_BASE and CP_COHER_BASE_HI 23:0.
const BASE: Field = Field::new(0, 56).unit(UNIT_LOG2);

/// The addresses that are made visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Range {
    base: u64,
    bytes: u64,
}

impl Range {
    /// Every address: the most that the size field holds, 2^48 - 256 bytes.
    pub const ALL: Self = Self {
        base: 0,
        bytes: SIZE.mask() << UNIT_LOG2,
    };

    /// `bytes` bytes from `base` on.
    ///
    /// # Errors
    /// [`Misfit`] if one of them is not a multiple of 256, or `bytes` is not below 2^48.
    pub fn new(base: u64, bytes: u64) -> Result<Self, Misfit> {
        SIZE.place(bytes)?;
        BASE.place(base)?;
        Ok(Self { base, bytes })
    }

    /// First address.
    pub const fn base(self) -> u64 {
        self.base
    }

    /// Length in bytes.
    pub const fn bytes(self) -> u64 {
        self.bytes
    }
}

/// Makes what others wrote to a range visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct AcquireMem {
    /// Which caches.
    pub caches: Caches,
    /// Which addresses.
    pub range: Range,
    /// Time between polls of the caches, in clocks.
    pub poll_interval: u16,
}

impl AcquireMem {
    /// Words on gfx9.
    pub const WORDS_GFX9: usize = 7;
    /// Words on gfx10 and later.
    pub const WORDS_GFX10: usize = 8;

    /// Every address, in these caches.
    pub const fn all(caches: Caches) -> Self {
        let poll_interval = match caches {
            Caches::Gfx9(_) => 10,
            Caches::Gfx10(_) => 0,
        };
        Self {
            caches,
            range: Range::ALL,
            poll_interval,
        }
    }

    /// The packet, and its number of words.
    pub(crate) const fn encode(&self) -> ([u32; Self::WORDS_GFX10], usize) {
        let [size, size_hi] = split(self.range.bytes >> UNIT_LOG2);
        let [base, base_hi] = split(self.range.base >> UNIT_LOG2);
        let interval = self.poll_interval as u32;
        match self.caches {
            Caches::Gfx9(coher) => {
                let header = type3::<{ Self::WORDS_GFX9 }>(op::ACQUIRE_MEM);
                let coher = coher.bits();
                let words = [header, coher, size, size_hi, base, base_hi, interval, 0];
                (words, Self::WORDS_GFX9)
            }
            Caches::Gfx10(gcr) => {
                let header = type3::<{ Self::WORDS_GFX10 }>(op::ACQUIRE_MEM);
                let gcr = gcr.bits();
                let words = [header, 0, size, size_hi, base, base_hi, interval, gcr];
                (words, Self::WORDS_GFX10)
            }
        }
    }

    /// Appends the packet.
    #[inline]
    pub fn record(&self, c: &mut Command<'_, '_>) {
        let (words, len) = self.encode();
        c.words(words.get(..len).unwrap_or_default());
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`], also for a size of more than 40 bits.
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let first = *words.first().ok_or(Malformed::Truncated {
            need: Self::WORDS_GFX9,
            have: 0,
        })?;
        let (_, len) = parse_header(first)?;
        let (caches, [size, size_hi, base, base_hi, interval]) = if len == Self::WORDS_GFX9 {
            let &[_, coher, size, size_hi, base, base_hi, interval] = body(words, op::ACQUIRE_MEM)?;
            let reserved = Malformed::Reserved {
                word: 1,
                value: coher,
            };
            let caches = Caches::Gfx9(CoherCntl::from_bits(coher).ok_or(reserved)?);
            (caches, [size, size_hi, base, base_hi, interval])
        } else {
            let &[_, coher, size, size_hi, base, base_hi, interval, gcr] =
                body(words, op::ACQUIRE_MEM)?;
            only(1, coher, 0)?;
            let reserved = Malformed::Reserved {
                word: 7,
                value: gcr,
            };
            let caches = Caches::Gfx10(GcrCntl::from_bits(gcr).ok_or(reserved)?);
            (caches, [size, size_hi, base, base_hi, interval])
        };
        only(3, size_hi, 0xff)?;
        only(5, base_hi, 0xff_ffff)?;
        let poll_interval = u16::try_from(interval).map_err(|_| Malformed::Reserved {
            word: 6,
            value: interval,
        })?;
        let range = Range {
            base: join(base, base_hi) << UNIT_LOG2,
            bytes: join(size, size_hi) << UNIT_LOG2,
        };
        Ok(Self {
            caches,
            range,
            poll_interval,
        })
    }
}

impl core::fmt::Display for AcquireMem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.caches {
            Caches::Gfx9(c) => write!(f, "ACQUIRE_MEM COHER_CNTL={:#x}(", c.bits())
                .and_then(|()| bitflags::parser::to_writer(&c, &mut *f)),
            Caches::Gfx10(c) => write!(f, "ACQUIRE_MEM GCR_CNTL={:#x}(", c.bits())
                .and_then(|()| bitflags::parser::to_writer(&c, &mut *f)),
        }?;
        if self.range == Range::ALL {
            f.write_str(") all")?;
        } else {
            write!(
                f,
                ") base={:#x} size={:#x}",
                self.range.base, self.range.bytes
            )?;
        }
        write!(f, " POLL_INTERVAL={}", self.poll_interval)
    }
}
