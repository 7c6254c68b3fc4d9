//! The chips that this driver knows, and how they differ, as data.
//!
//! Class numbers and widths are those of NVIDIA's class headers: `clc6c0.h` to `clcec0.h` (compute), `clc6b5.h` to
//! `clcab5.h` (copy), `clc56f.h`, `clc86f.h`, `clc96f.h`, `clca6f.h` (channels). Sizes of shared memory are those of the
//! CUDA programming guide's table of compute capabilities.

use crate::qmd::{self, Layout};

/// A generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Generation {
    /// Ampere: GA100 and GA10x.
    Ampere,
    /// Ada.
    Ada,
    /// Hopper.
    Hopper,
    /// Blackwell: GB10x and GB20x.
    Blackwell,
}

/// Class numbers: what a channel's engines are asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Classes {
    /// `*_COMPUTE_*`.
    pub compute: u16,
    /// `*_CHANNEL_GPFIFO_*`.
    pub channel: u16,
    /// `*_DMA_COPY_*`.
    pub copy: u16,
    /// `*_USERMODE_*`.
    pub usermode: u16,
}

/// Shared memory of an SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Sizes in KiB that an SM can be configured to, the smallest that is used first.
    pub configs: &'static [u16],
    /// Bytes that the system reserves in each group's.
    pub reserved: u32,
    /// Whether a cubin's `.nv.shared.*` sections count those bytes.
    pub sections_count_reserved: bool,
}

impl Shared {
    /// Bytes of a group at most, with what the system reserves.
    pub const fn max_bytes(&self) -> u32 {
        match self.configs.last() {
            Some(kib) => *kib as u32 * 1024,
            None => 0,
        }
    }

    /// SM_CONFIG_SHARED_MEM_SIZE of the smallest configuration that holds `bytes`: KiB / 4 + 1.
    pub(crate) fn config(&self, bytes: u64) -> Option<u32> {
        let mut configs = self.configs.iter().map(|kib| u32::from(*kib));
        configs
            .find(|kib| bytes <= u64::from(*kib) * 1024)
            .map(config_of)
    }

    /// SM_CONFIG_SHARED_MEM_SIZE of the largest configuration.
    pub(crate) const fn largest_config(&self) -> u32 {
        config_of(self.max_bytes() / 1024)
    }
}

const fn config_of(kib: u32) -> u32 {
    kib / 4 + 1
}

/// Words of constant bank 0 that compiled kernels read beside their arguments, by index. No header lists them: they are
/// what the compiler's machine code reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankWords {
    /// Work-items of a group, x, y, z.
    pub block: usize,
    /// Work-groups, x, y, z.
    pub grid: usize,
    /// Address of the window to shared memory, 64 bits.
    pub shared_window: usize,
    /// Address of the window to local memory, 64 bits.
    pub local_window: usize,
    /// Where the stack starts in local memory.
    pub stack: usize,
    /// Bytes of shared memory that a launch adds; not known for every chip.
    pub dynamic_shared: Option<usize>,
    /// Words in front of the arguments at most.
    pub len: usize,
}

/// The most words in front of a kernel's arguments that hold anything.
pub(crate) const MAX_BANK_WORDS: usize = 0x380 / 4;

/// Up to Hopper: `c[0x0][0x0]` and following.
const CLASSIC: BankWords = BankWords {
    block: 0,
    grid: 3,
    shared_window: 6,
    local_window: 8,
    stack: 10,
    dynamic_shared: Some(11),
    len: 0x160 / 4,
};

/// Blackwell: `c[0x0][0x2f0]` and following.
const BLACKWELL: BankWords = BankWords {
    block: 0x360 / 4,
    grid: 0x370 / 4,
    shared_window: 0x2f0 / 4,
    local_window: 0x2f8 / 4,
    stack: 0x37c / 4,
    dynamic_shared: None,
    len: 0x380 / 4,
};

/// What differs between copy engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyEngine {
    /// Bits of OFFSET_IN, OFFSET_OUT and SET_SEMAPHORE.
    pub address_bits: u8,
    /// Whether its semaphore takes 64-bit payloads: SET_SEMAPHORE_PAYLOAD_UPPER and SEMAPHORE_PAYLOAD_SIZE.
    pub payload64: bool,
}

/// A chip, or chips with no difference that matters here.
#[derive(Debug, PartialEq, Eq)]
pub struct Chip {
    /// Its name here.
    pub name: &'static str,
    /// Its generation.
    pub generation: Generation,
    /// Compute capability: 86 for 8.6.
    pub sm: u16,
    /// SASS_VERSION of launch descriptors, if the kernel driver does not say another.
    pub sass_version: u8,
    /// Its classes.
    pub classes: Classes,
    /// Its launch descriptors.
    pub qmd: &'static Layout,
    /// Bits of a host semaphore's address, SEM_ADDR_HI and SEM_ADDR_LO: 40 up to Ada.
    pub semaphore_bits: u8,
    /// Bits of SET_SHADER_LOCAL_MEMORY_A and B.
    pub local_memory_bits: u8,
    /// Its copy engines.
    pub copy: CopyEngine,
    /// Its shared memory.
    pub shared: Shared,
    /// Where compiled kernels find what they need.
    pub bank_words: BankWords,
    /// Whether USERD documents GPGet. Where not, what was consumed is known from a timeline.
    pub gp_get: bool,
}

/// Bits of a virtual address up to Ada, and from Hopper on.
const ADDRESS_49: u8 = 49;
const ADDRESS_57: u8 = 57;
/// SEM_ADDR_HI has 8 bits.
const ADDRESS_40: u8 = 40;

/// 1 KiB in each group.
const fn shared(configs: &'static [u16], sections_count_reserved: bool) -> Shared {
    Shared {
        configs,
        reserved: 1024,
        sections_count_reserved,
    }
}

const USERMODE_AMPERE: u16 = 0xc561;
const USERMODE_HOPPER: u16 = 0xc661;
const CHANNEL_AMPERE: u16 = 0xc56f;

const GA100: Chip = Chip {
    name: "ga100",
    generation: Generation::Ampere,
    sm: 80,
    sass_version: 0x80,
    classes: Classes {
        compute: 0xc6c0,
        channel: CHANNEL_AMPERE,
        copy: 0xc6b5,
        usermode: USERMODE_AMPERE,
    },
    qmd: &qmd::V3_0,
    semaphore_bits: ADDRESS_40,
    local_memory_bits: ADDRESS_49,
    copy: CopyEngine {
        address_bits: ADDRESS_49,
        payload64: false,
    },
    shared: shared(&[32, 64, 100, 132, 164], false),
    bank_words: CLASSIC,
    gp_get: true,
};

const GA10X: Chip = Chip {
    name: "ga10x",
    sm: 86,
    sass_version: 0x86,
    classes: Classes {
        compute: 0xc7c0,
        copy: 0xc7b5,
        ..GA100.classes
    },
    copy: CopyEngine {
        payload64: true,
        ..GA100.copy
    },
    shared: shared(&[32, 64, 100], false),
    ..GA100
};

const AD10X: Chip = Chip {
    name: "ad10x",
    generation: Generation::Ada,
    sm: 89,
    sass_version: 0x89,
    classes: Classes {
        compute: 0xc9c0,
        ..GA10X.classes
    },
    ..GA10X
};

const GH100: Chip = Chip {
    name: "gh100",
    generation: Generation::Hopper,
    sm: 90,
    sass_version: 0x90,
    classes: Classes {
        compute: 0xcbc0,
        channel: 0xc86f,
        copy: 0xc8b5,
        usermode: USERMODE_HOPPER,
    },
    qmd: &qmd::V4_0,
    semaphore_bits: ADDRESS_57,
    local_memory_bits: ADDRESS_57,
    copy: CopyEngine {
        address_bits: ADDRESS_57,
        payload64: true,
    },
    shared: shared(&[32, 64, 100, 132, 164, 196, 228], true),
    ..GA100
};

const GB10X: Chip = Chip {
    name: "gb10x",
    generation: Generation::Blackwell,
    sm: 100,
    sass_version: 0xa0,
    classes: Classes {
        compute: 0xcdc0,
        channel: 0xc96f,
        copy: 0xc9b5,
        usermode: USERMODE_HOPPER,
    },
    qmd: &qmd::V5_0,
    bank_words: BLACKWELL,
    gp_get: false,
    ..GH100
};

const GB20X: Chip = Chip {
    name: "gb20x",
    sm: 120,
    sass_version: 0xa4,
    classes: Classes {
        compute: 0xcec0,
        channel: 0xca6f,
        copy: 0xcab5,
        usermode: USERMODE_HOPPER,
    },
    shared: shared(&[32, 64, 100], true),
    ..GB10X
};

/// Every chip, oldest first.
pub static CHIPS: [Chip; 6] = [GA100, GA10X, AD10X, GH100, GB10X, GB20X];

/// A GPU that is in no table of this driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct UnknownClass(pub u16);

impl core::fmt::Display for UnknownClass {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "compute class {:#x} is in no table of this driver; it knows Ampere, Ada, Hopper and Blackwell",
            self.0
        )
    }
}

impl core::error::Error for UnknownClass {}

impl Chip {
    /// The chip with this name here.
    pub fn named(name: &str) -> Option<&'static Self> {
        CHIPS.iter().find(|chip| chip.name == name)
    }

    /// The chip whose compute class this is, one of a GPU's class list.
    ///
    /// # Errors
    /// [`UnknownClass`].
    pub fn from_compute_class(class: u16) -> Result<&'static Self, UnknownClass> {
        let mut chips = CHIPS.iter();
        chips
            .find(|chip| chip.classes.compute == class)
            .ok_or(UnknownClass(class))
    }

    /// Whether machine code for compute capability `sm` runs: of the same major version, and not of a later minor one.
    pub const fn runs(&self, sm: u16) -> bool {
        sm / 10 == self.sm / 10 && sm <= self.sm
    }
}

#[cfg(test)]
mod tests;
