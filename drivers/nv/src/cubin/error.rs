/// Why a cubin is not loaded, or a kernel of it not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LoadError {
    /// No ELF file, or one whose tables are not inside it.
    Elf,
    /// An ELF file of another machine.
    NotCuda {
        /// `e_machine`; CUDA is 190.
        machine: u16,
    },
    /// A convention that is not known here.
    Version {
        /// `EI_OSABI`.
        os_abi: u8,
        /// `EI_ABIVERSION`.
        version: u8,
    },
    /// Not linked: a relocatable object, which needs `nvlink`.
    Kind {
        /// `e_type`.
        kind: u16,
    },
    /// Compiled for another architecture than the chip's.
    Architecture {
        /// Compute capability of the file.
        sm: u16,
        /// Compute capability of the chip.
        chip: u16,
    },
    /// More sections than are looked at.
    TooManyParts {
        /// How many.
        have: usize,
        /// The most there may be.
        max: usize,
    },
    /// A section that is not inside the file, or too large.
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
        /// `R_CUDA_*`.
        kind: u32,
    },
    /// A relocation outside of the image.
    RelocationPlace {
        /// Byte offset in its section.
        offset: u64,
    },
    /// A relocation whose result does not fit its place.
    RelocationRange {
        /// `R_CUDA_*`.
        kind: u32,
        /// The result.
        value: u64,
    },
    /// A symbol that is defined nowhere in the file, or in a section that is not loaded: a system call of CUDA's driver,
    /// for one.
    Undefined {
        /// Its number.
        symbol: u32,
    },
    /// No kernel of this name.
    NoKernel,
    /// An attribute section that is none.
    Info,
    /// An attribute that a kernel needs and does not have.
    Missing {
        /// `EIATTR_*`.
        attribute: u8,
    },
    /// Attributes of a kernel that contradict each other or its sections.
    Contradiction {
        /// `EIATTR_*`.
        attribute: u8,
    },
    /// More arguments than there is memory for.
    TooManyArguments {
        /// How many there are.
        need: usize,
        /// How many fit.
        have: usize,
    },
}

impl core::fmt::Display for LoadError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Elf => f.write_str("not a well-formed ELF file"),
            Self::NotCuda { machine } => {
                write!(f, "an ELF file for machine {machine}, not for NVIDIA GPUs")
            }
            Self::Version { os_abi, version } => {
                write!(f, "cubin of convention {os_abi:#x}, version {version}")
            }
            Self::Kind { kind } => write!(f, "ELF type {kind} is not linked"),
            Self::Architecture { sm, chip } => {
                write!(f, "compiled for sm_{sm}, the chip is sm_{chip}")
            }
            Self::TooManyParts { have, max } => {
                write!(f, "{have} sections; {max} are looked at")
            }
            Self::Part { index } => write!(f, "section {index} is not inside the file"),
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
            Self::Info => f.write_str("an attribute section that is none"),
            Self::Missing { attribute } => {
                write!(f, "attribute {attribute:#x} of the kernel is missing")
            }
            Self::Contradiction { attribute } => {
                write!(
                    f,
                    "attribute {attribute:#x} contradicts the rest of the file"
                )
            }
            Self::TooManyArguments { need, have } => {
                write!(f, "{need} arguments; there is memory for {have}")
            }
        }
    }
}

impl core::error::Error for LoadError {}
