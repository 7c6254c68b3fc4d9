//! The chips that this driver knows, and how they differ, as data.
//!
//! Encoders never ask which chip it is: they take what differs from a [`Chip`]. A chip that is not in the table is refused
//! with the reason, because a guess about its cores or packets would be wrong without a sound. Of some newer chips the packets
//! are known, and no more: [`PACKETS_ONLY`].
//!
//! Source: Mesa's `freedreno_devices.py` (`num_ccu`, which is the number of shader processors, `fibers_per_sp`,
//! `cs_shared_mem_size`, `reg_size_vec4`, `instr_cache_size`).

/// Ticks per second of CP_ALWAYS_ON_COUNTER, which timestamps are: a crystal of 19.2 MHz on all chips of the table.
pub const TIMESTAMP_HZ: u32 = 19_200_000;

/// Generations of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Generation {
    /// A6xx.
    A6xx,
    /// A7xx: CP_EVENT_WRITE7 in place of CP_EVENT_WRITE. Its chips are those of [`PACKETS_ONLY`].
    A7xx,
}

/// A chip id, as the kernel driver gives it (`kgsl_devinfo.chip_id`): core, major, minor and patch level, a byte each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ChipId(pub u32);

impl ChipId {
    /// The id of these numbers, with patch level 0.
    pub const fn new(core: u8, major: u8, minor: u8) -> Self {
        Self(u32::from_be_bytes([core, major, minor, 0]))
    }

    /// Core, major, minor and patch level.
    pub const fn parts(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }
}

impl core::fmt::Display for ChipId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let [core, major, minor, patch] = self.parts();
        write!(f, "Adreno {core}.{major}.{minor}.{patch}")
    }
}

/// One chip.
#[derive(Debug, PartialEq, Eq)]
pub struct Chip {
    /// Its marketing number, such as 630.
    pub number: u16,
    /// Core, major and minor of its [`ChipId`].
    pub id: [u8; 3],
    /// Its packets.
    pub generation: Generation,
    /// Shader processors.
    pub cores: u8,
    /// Work-items that one shader processor has room for.
    pub fibers_per_core: u32,
    /// Bytes of group-local memory that a work-group can have.
    pub shared_bytes: u32,
    /// Registers of four words that the waves of one shader processor share, in units of one per two waves of 64.
    pub registers: u16,
    /// Units of 128 bytes of the instruction cache, which is loaded before a dispatch.
    pub instruction_cache: u16,
}

/// Work-items of a group at most: what a size of 10 bits, less one, says.
pub const MAX_GROUP: u32 = 1024;
/// Work-items of two waves of 64, which take registers together.
const WAVE_PAIR: u32 = 128;

impl Chip {
    /// Work-items that a group may have, for a program with these numbers of full and half registers.
    ///
    /// ```
    /// use hcq_qcom::chips::Chip;
    /// let chip = Chip::named("630").ok_or("known")?;
    /// assert_eq!([chip.max_group(5, 3), chip.max_group(0x30, 0x10)], [1024, 128]);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn max_group(&self, full: u8, half: u8) -> u32 {
        let taken = u32::from(full) + u32::from(half).div_ceil(2);
        let waves = u32::from(self.registers) / taken.max(1);
        waves.saturating_mul(WAVE_PAIR).min(MAX_GROUP)
    }

    /// The chip of this id.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn find(id: ChipId) -> Result<&'static Self, Refusal> {
        let [core, major, minor, _] = id.parts();
        let is = |c: &&Self| c.id == [core, major, minor];
        let found = CHIPS.iter().find(is);
        found.ok_or(match (core, PACKETS_ONLY.iter().find(is)) {
            (0..=5, _) => Refusal::TooOld { id },
            (6, _) => Refusal::NotInTable { id },
            (_, None) => Refusal::TooNew { id },
            (_, Some(chip)) => Refusal::PacketsOnly {
                id,
                number: chip.number,
            },
        })
    }

    /// The chip of this number, such as `630`, with or without an `a` before it, those of [`PACKETS_ONLY`] included.
    ///
    /// ```
    /// use hcq_qcom::chips::{Chip, Generation};
    /// let chip = Chip::named("a740").ok_or("known")?;
    /// assert_eq!(chip.generation, Generation::A7xx);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn named(name: &str) -> Option<&'static Self> {
        let number = name.strip_prefix(['a', 'A']).unwrap_or(name);
        let number: u16 = number.parse().ok()?;
        let mut all = CHIPS.iter().chain(PACKETS_ONLY);
        all.find(|c| c.number == number)
    }
}

impl core::fmt::Display for Chip {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Adreno {}", self.number)
    }
}

/// Why a chip is not driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Refusal {
    /// Before A6xx.
    TooOld {
        /// The chip.
        id: ChipId,
    },
    /// A7xx and newer.
    TooNew {
        /// The chip.
        id: ChipId,
    },
    /// A chip of [`PACKETS_ONLY`].
    PacketsOnly {
        /// The chip.
        id: ChipId,
        /// Its marketing number.
        number: u16,
    },
    /// An A6xx that is not in the table.
    NotInTable {
        /// The chip.
        id: ChipId,
    },
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::TooOld { id } => write!(
                f,
                "{id} is older than A6xx: its registers and descriptors differ"
            ),
            Self::TooNew { id } => write!(
                f,
                "{id} is newer than A6xx: its event packet and its compute registers differ"
            ),
            Self::PacketsOnly { id, number } => write!(
                f,
                "{id} (a{number}) is newer than A6xx: its packets can be decoded, but its compute registers differ and are not known here"
            ),
            Self::NotInTable { id } => write!(
                f,
                "{id} is in no table of this driver: its shader processors and their memory are not known"
            ),
        }
    }
}

impl core::error::Error for Refusal {}

const A6XX: Chip = Chip {
    number: 630,
    id: [6, 3, 0],
    generation: Generation::A6xx,
    cores: 2,
    fibers_per_core: 128 * 16,
    shared_bytes: 32 << 10,
    registers: 96,
    instruction_cache: 64,
};

/// All chips of the table.
pub static CHIPS: &[Chip] = &[
    Chip {
        number: 618,
        id: [6, 1, 8],
        cores: 1,
        ..A6XX
    },
    A6XX,
    Chip {
        number: 640,
        id: [6, 4, 0],
        fibers_per_core: 128 * 4 * 16,
        ..A6XX
    },
    // Called A635 in its id and in kernel drivers: the GPU of QCM6490.
    Chip {
        number: 643,
        id: [6, 3, 5],
        ..LATE
    },
    Chip {
        number: 650,
        id: [6, 5, 0],
        cores: 3,
        ..LATE
    },
    Chip {
        number: 660,
        id: [6, 6, 0],
        cores: 3,
        ..LATE
    },
    Chip {
        number: 690,
        id: [6, 9, 0],
        cores: 8,
        ..LATE
    },
];

/// From A650 on: other register files and instruction caches.
const LATE: Chip = Chip {
    fibers_per_core: 128 * 2 * 16,
    registers: 64,
    instruction_cache: 127,
    ..A6XX
};

/// Chips whose packets are known, and no more: [`Chip::find`] refuses them, and there is no
/// [`Program`](crate::pm4::Program) for them. Their numbers are those of `freedreno_devices.py`.
///
/// Dispatches of A7xx have other registers (HLSQ_CS_NDRANGE and its neighbours have moved, SP_CS_UNKNOWN_A9BE,
/// SP_CS_VGPR_CONFIG and HLSQ_CS_LAST_LOCAL_SIZE are new), a second compute pipe (LPAC), and a command processor of two threads for
/// concurrent binning. None of that is here.
pub static PACKETS_ONLY: &[Chip] = &[
    // A725 too has this id, with patch level 2, and the same packets.
    Chip {
        number: 730,
        id: [7, 3, 0],
        cores: 4,
        ..A7XX
    },
    Chip {
        number: 735,
        id: [0x43, 3, 0x0b],
        cores: 3,
        ..A7XX
    },
    A7XX,
    Chip {
        number: 750,
        id: [0x43, 5, 0x14],
        ..A7XX
    },
];

const A7XX: Chip = Chip {
    number: 740,
    id: [0x43, 5, 0x0a],
    generation: Generation::A7xx,
    cores: 6,
    fibers_per_core: 128 * 2 * 16,
    shared_bytes: 32 << 10,
    registers: 96,
    instruction_cache: 127,
};

#[cfg(test)]
mod tests;
