//! The header of every packet, `hsa_packet_header_t`: the low half of its first word.

use crate::malformed::Malformed;

/// HSA_PACKET_HEADER_TYPE, 7:0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Kind {
    /// The vendor's own.
    Vendor = 0,
    /// Not there yet.
    Invalid = 1,
    /// Kernel dispatch.
    KernelDispatch = 2,
    /// Barrier-AND.
    BarrierAnd = 3,
}

/// How far a fence reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum FenceScope {
    /// There is none.
    None = 0,
    /// This GPU.
    Agent = 1,
    /// Everybody.
    System = 2,
}

impl FenceScope {
    const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            0 => Some(Self::None),
            1 => Some(Self::Agent),
            2 => Some(Self::System),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Agent => "agent",
            Self::System => "system",
        }
    }
}

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Header {
    /// What the packet is.
    pub kind: Kind,
    /// HSA_PACKET_HEADER_BARRIER: starts when all earlier packets are complete.
    pub barrier: bool,
    /// Acquire fence before the packet starts.
    pub acquire: FenceScope,
    /// Release fence after it is complete.
    pub release: FenceScope,
}

impl Header {
    /// A packet that starts after all earlier ones, sees what everybody wrote, and shows everybody what it wrote.
    pub const fn ordered(kind: Kind) -> Self {
        Self {
            kind,
            barrier: true,
            acquire: FenceScope::System,
            release: FenceScope::System,
        }
    }

    /// The 16 bits.
    pub const fn bits(self) -> u32 {
        self.kind as u32
            | (self.barrier as u32) << 8
            | (self.acquire as u32) << 9
            | (self.release as u32) << 11
    }

    /// The header in the low half of a packet's first word.
    ///
    /// # Errors
    /// [`Malformed::Opcode`] for a type that is not known here, [`Malformed::Header`] for another value without a meaning.
    pub fn decode(word: u32) -> Result<Self, Malformed> {
        let kind = match word & 0xff {
            0 => Kind::Vendor,
            1 => Kind::Invalid,
            2 => Kind::KernelDispatch,
            3 => Kind::BarrierAnd,
            opcode => return Err(Malformed::Opcode { opcode }),
        };
        let malformed = Malformed::Header { word };
        if word & 0xe000 != 0 {
            return Err(malformed);
        }
        Ok(Self {
            kind,
            barrier: word & 1 << 8 != 0,
            acquire: FenceScope::from_bits(word >> 9 & 3).ok_or(malformed)?,
            release: FenceScope::from_bits(word >> 11 & 3).ok_or(malformed)?,
        })
    }
}

impl core::fmt::Display for Header {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self.kind {
            Kind::Vendor => "VENDOR",
            Kind::Invalid => "INVALID",
            Kind::KernelDispatch => "KERNEL_DISPATCH",
            Kind::BarrierAnd => "BARRIER_AND",
        })?;
        let (acquire, release) = (self.acquire.name(), self.release.name());
        write!(
            f,
            " barrier={} acquire={acquire} release={release}",
            u8::from(self.barrier)
        )
    }
}
