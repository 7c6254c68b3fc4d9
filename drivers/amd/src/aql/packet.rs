//! Any packet.

use super::PACKET_WORDS;
use super::barrier::BarrierAnd;
use super::dispatch::KernelDispatch;
use super::header::{Header, Kind};
use super::vendor::Pm4Ib;
use crate::malformed::Malformed;

/// Any packet that this driver records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Packet {
    /// A vendor packet that runs PM4 words.
    Pm4Ib(Pm4Ib),
    /// Not there yet.
    Invalid,
    /// Kernel dispatch.
    KernelDispatch(KernelDispatch),
    /// Barrier-AND.
    BarrierAnd(BarrierAnd),
}

impl Packet {
    /// The packet in these words. Those of one that is not there yet are not looked at.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32; PACKET_WORDS]) -> Result<Self, Malformed> {
        let [first, ..] = *words;
        Ok(match Header::decode(first)?.kind {
            Kind::Vendor => Self::Pm4Ib(Pm4Ib::decode(words)?),
            Kind::Invalid => Self::Invalid,
            Kind::KernelDispatch => Self::KernelDispatch(KernelDispatch::decode(words)?),
            Kind::BarrierAnd => Self::BarrierAnd(BarrierAnd::decode(words)?),
        })
    }

    /// The packet, if its addresses are known now.
    pub fn words(&self) -> Option<[u32; PACKET_WORDS]> {
        match self {
            Self::Pm4Ib(p) => p.words(),
            Self::Invalid => {
                let mut words = [0; PACKET_WORDS];
                let [first, ..] = &mut words;
                *first = Kind::Invalid as u32;
                Some(words)
            }
            Self::KernelDispatch(p) => Some(p.words()),
            Self::BarrierAnd(p) => Some(p.words()),
        }
    }
}

impl core::fmt::Display for Packet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Pm4Ib(p) => write!(f, "{p}"),
            Self::Invalid => f.write_str("INVALID"),
            Self::KernelDispatch(p) => write!(f, "{p}"),
            Self::BarrierAnd(p) => write!(f, "{p}"),
        }
    }
}
