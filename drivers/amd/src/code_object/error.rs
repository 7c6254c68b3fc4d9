use crate::chips::Refusal;

/// Why a code object is not loaded, or a kernel of it not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LoadError {
    /// No ELF file, or one whose tables are not inside it.
    Elf,
    /// An ELF file of another machine or system.
    NotAmdGpu {
        /// `e_machine`; AMDGPU is 224.
        machine: u16,
        /// `EI_OSABI`; HSA is 64.
        os_abi: u8,
    },
    /// A code object version other than 4, 5 and 6.
    Version {
        /// `EI_ABIVERSION`; version 4 is 2.
        abi: u8,
    },
    /// Neither an executable nor a relocatable object.
    Kind {
        /// `e_type`.
        kind: u16,
    },
    /// More sections or segments than are looked at.
    TooManyParts {
        /// How many.
        have: usize,
        /// The most there may be.
        max: usize,
    },
    /// Built for a chip that is not known here.
    Chip(Refusal),
    /// A section or segment that is not inside the file, or too large.
    Part {
        /// Its number.
        index: usize,
    },
    /// Memory for the image that is too small.
    Memory {
        /// Bytes needed.
        need: u64,
        /// Bytes given.
        have: u64,
    },
    /// Memory for the image at a device address that is not aligned.
    Misaligned {
        /// The address.
        address: u64,
        /// The alignment needed.
        align: u64,
    },
    /// A kind of relocation that is not known here.
    Relocation {
        /// `R_AMDGPU_*`.
        kind: u32,
    },
    /// A relocation outside of the image.
    RelocationPlace {
        /// Byte offset in the image.
        offset: u64,
    },
    /// A relocation whose result does not fit its place.
    RelocationRange {
        /// `R_AMDGPU_*`.
        kind: u32,
        /// The result.
        value: u64,
    },
    /// A symbol that is defined nowhere in the file.
    Undefined {
        /// Its number.
        symbol: u32,
    },
    /// No kernel of this name.
    NoKernel,
    /// A kernel descriptor that is not 64 bytes at a 64-byte boundary inside the image, or with bits that have no meaning.
    Descriptor,
    /// Group-local memory that the chip does not have.
    GroupMemory {
        /// Bytes.
        bytes: u32,
    },
    /// Metadata that are no well-formed note, or without what is needed.
    Metadata,
    /// An argument of a kind that launches cannot give: an image, a sampler, a pipe.
    Argument {
        /// Which, from 0, hidden ones included.
        index: usize,
    },
    /// More arguments than there is memory for.
    TooManyArguments {
        /// How many there are at least.
        need: usize,
        /// How many fit.
        have: usize,
    },
}

impl core::fmt::Display for LoadError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Elf => f.write_str("not a well-formed ELF file"),
            Self::NotAmdGpu { machine, os_abi } => {
                write!(
                    f,
                    "an ELF file for machine {machine} and system {os_abi}, not for AMD GPUs"
                )
            }
            Self::Version { abi } => {
                write!(
                    f,
                    "code object with ABI version {abi}; versions 4 to 6 have 2 to 4"
                )
            }
            Self::Kind { kind } => {
                write!(f, "ELF type {kind} is neither executable nor relocatable")
            }
            Self::TooManyParts { have, max } => {
                write!(f, "{have} sections or segments; {max} are looked at")
            }
            Self::Chip(e) => write!(f, "{e}"),
            Self::Part { index } => write!(f, "section or segment {index} is not inside the file"),
            Self::Memory { need, have } => {
                write!(f, "the image takes {need} bytes, {have} were given")
            }
            Self::Misaligned { address, align } => {
                write!(
                    f,
                    "the image's address {address:#x} is not a multiple of {align:#x}"
                )
            }
            Self::Relocation { kind } => write!(f, "relocation type {kind} is not known"),
            Self::RelocationPlace { offset } => {
                write!(f, "a relocation at {offset:#x}, outside of the image")
            }
            Self::RelocationRange { kind, value } => {
                write!(
                    f,
                    "the result {value:#x} of a relocation of type {kind} does not fit"
                )
            }
            Self::Undefined { symbol } => write!(f, "symbol {symbol} is defined nowhere"),
            Self::NoKernel => f.write_str("no kernel of this name"),
            Self::Descriptor => f.write_str("malformed kernel descriptor"),
            Self::GroupMemory { bytes } => {
                write!(f, "{bytes} bytes of group-local memory; the chip has less")
            }
            Self::Metadata => f.write_str("malformed metadata"),
            Self::Argument { index } => {
                write!(f, "argument {index} is of a kind that cannot be given")
            }
            Self::TooManyArguments { need, have } => write!(f, "{need} arguments; {have} fit"),
        }
    }
}

impl core::error::Error for LoadError {}

impl From<Refusal> for LoadError {
    fn from(e: Refusal) -> Self {
        Self::Chip(e)
    }
}
