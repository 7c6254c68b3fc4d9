//! Engine versions, and how they differ, as data.

use hcq_nostd::value::Field;

/// A version of an SDMA engine, as `ip_discovery` gives it: 4.4.2, 6.0.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Version {
    /// Major version.
    pub major: u8,
    /// Minor version.
    pub minor: u8,
    /// Revision.
    pub revision: u8,
}

impl Version {
    /// A version from its three numbers.
    pub const fn new(major: u8, minor: u8, revision: u8) -> Self {
        Self {
            major,
            minor,
            revision,
        }
    }
}

impl core::fmt::Display for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SDMA {}.{}.{}", self.major, self.minor, self.revision)
    }
}

/// An engine whose packets this driver does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Unsupported(pub Version);

impl core::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{} is in no table of this driver: its packets are not known",
            self.0
        )
    }
}

impl core::error::Error for Unsupported {}

/// What differs between engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// COPY_LINEAR.count: bytes less one.
    pub(crate) count: Field,
    /// FENCE.mtype, in place.
    pub(crate) fence_mtype: u32,
}

/// 22 bits: `vega10_sdma_pkt_open.h`, `navi10_sdma_pkt_open.h`.
const COUNT_22: Field = Field::new(0, 22);
/// 30 bits: `sdma_v6_0_0_pkt_open.h`.
const COUNT_30: Field = Field::new(0, 30);
const MTYPE_UNCACHED: u32 = 3 << 16;

const V4_4: Limits = Limits {
    count: COUNT_22,
    fence_mtype: 0,
};
const V5: Limits = Limits {
    fence_mtype: MTYPE_UNCACHED,
    ..V4_4
};
const V6: Limits = Limits {
    count: COUNT_30,
    ..V5
};

/// First version, and the first one after it that is not the same.
const TABLE: [(Version, Version, Limits); 4] = [
    (Version::new(4, 4, 0), Version::new(4, 5, 0), V4_4),
    (Version::new(5, 0, 0), Version::new(5, 3, 0), V5),
    (Version::new(6, 0, 0), Version::new(6, 2, 0), V6),
    (Version::new(7, 0, 0), Version::new(7, 1, 0), V6),
];

impl Version {
    pub(crate) fn limits(self) -> Result<Limits, Unsupported> {
        let known = TABLE
            .iter()
            .find(|(from, to, _)| *from <= self && self < *to);
        known.map(|(.., limits)| *limits).ok_or(Unsupported(self))
    }

    /// Bytes that one packet copies at most.
    ///
    /// # Errors
    /// [`Unsupported`].
    pub fn max_copy(self) -> Result<u64, Unsupported> {
        self.limits().map(|l| l.count.mask() + 1)
    }
}
