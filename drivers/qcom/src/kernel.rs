//! What a launch needs to know of a program: its registers, where its arguments, constants and images are.
//!
//! A program's argument block is its constant file: arguments and constants from byte 0 on, and behind them the descriptors
//! of its images and its samplers, which are loaded from there as well.

use hcq_nostd::args::{ArgKind, ArgLayout, ArgSlot};
use hcq_nostd::value::Misfit;

use crate::image::{ADDRESS_AT, DESCRIPTOR_BYTES, Image, SAMPLER_BYTES, Sampler};

/// Bytes of a program's constants: 256 registers of four words.
pub const CONSTANT_BYTES: u32 = 4096;
/// Where descriptors begin, if arguments and constants end before.
const DESCRIPTORS_AT: u32 = 2048;
/// Alignment of an argument block.
pub(crate) const KERNARGS_ALIGN_LOG2: u8 = 6;
/// Most samplers: what SP_CS_CONFIG counts.
pub const MAX_SAMPLERS: usize = 31;
/// Most textures: what SP_CS_TEX_COUNT is set to.
pub const MAX_TEXTURES: usize = 128;
/// Most storage images: what SP_CS_IBO_COUNT is set to.
pub const MAX_STORAGE: usize = 64;
/// A register's number that means none.
pub const NO_REGISTER: u8 = 0xfc;

/// How a program is started, and what it finds where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Style {
    /// Qualcomm's OpenCL: CP_RUN_OPENCL, ids in fixed constants.
    OpenCl,
    /// Mesa's ir3: CP_EXEC_CS, ids in registers as compiled, [`NO_REGISTER`] for those that it does not read.
    Ir3 {
        /// Register of the work-group's id.
        group_id: u8,
        /// Constant of the number of work-groups, in words of the argument block.
        group_count: u8,
        /// Constant of the work-group's size, in words of the argument block.
        group_size: u8,
        /// Register of the work-item's id.
        local_id: u8,
    },
}

/// A program as its container describes it, and where its instructions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Kernel {
    /// How it is started.
    pub style: Style,
    /// Device address of its instructions, 128-byte aligned.
    pub code: u64,
    /// Bytes of its instructions.
    pub code_bytes: u32,
    /// Offset of the first instruction.
    pub first_instruction: u32,
    /// Full registers of four words.
    pub full_registers: u8,
    /// Half registers of four words.
    pub half_registers: u8,
    /// MERGEDREGS: half registers are halves of full ones.
    pub merged_registers: bool,
    /// Waves of 128 work-items in place of 64.
    pub double_waves: bool,
    /// Field BRANCHSTACK.
    pub branch_stack: u8,
    /// Bytes of private memory of a work-item.
    pub private_bytes: u32,
    /// Bytes of group-local memory.
    pub shared_bytes: u32,
}

/// A number that the compiler wants in the argument block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Constant {
    /// The number.
    pub value: u32,
    /// Where, in bytes.
    pub offset: u32,
    /// Bytes: 2 or 4.
    pub bytes: u8,
}

impl Constant {
    /// Nothing, to make room for constants.
    pub const EMPTY: Self = Self {
        value: 0,
        offset: 0,
        bytes: 2,
    };
}

/// An argument as the caller knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Param {
    /// A buffer's device address.
    Buffer,
    /// A number of 1, 2, 4 or 8 bytes.
    Scalar(u8),
    /// A storage image. If its shape is known the argument is its device address, as a buffer's; else it is the bytes of
    /// [`Image::storage_at`].
    Storage(Option<Image>),
    /// A texture. If its shape is known the argument is its device address, as a buffer's; else it is the bytes of
    /// [`Image::texture_at`].
    Texture(Option<Image>),
    /// A sampler, the bytes of [`Sampler::bytes`]. The first of them is in the first sampler register, and so on.
    Sampler,
}

/// A descriptor in the argument block, and the argument that it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ImageSlot {
    /// Which argument.
    pub(crate) argument: u16,
    /// Byte offset of the descriptor.
    pub(crate) offset: u32,
    /// All of it but its address; `None` if it is given whole at each launch.
    pub(crate) descriptor: Option<[u32; 16]>,
    /// Whether the argument's slot is in this descriptor.
    pub(crate) own: bool,
}

impl ImageSlot {
    /// Nothing, to make room for images.
    pub const EMPTY: Self = Self {
        argument: 0,
        offset: 0,
        descriptor: None,
        own: false,
    };
}

/// Why arguments cannot be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ArgumentsError {
    /// An argument or a constant ends behind the constants that a program has.
    TooFar {
        /// Where it ends, in bytes.
        end: u64,
    },
    /// A number of a size that there is not, or a constant.
    Size {
        /// Its bytes.
        bytes: u8,
    },
    /// More slots, images or samplers than there is memory or than the registers count.
    TooMany {
        /// How many.
        count: usize,
        /// The most there may be.
        max: usize,
    },
    /// A texture register of a texture that is no argument, or a texture in no register.
    Texture {
        /// The texture's number among the arguments.
        number: u8,
    },
    /// The caller names another kind of argument than the program's, or another number of them.
    Kind {
        /// Which, from 0.
        index: u16,
    },
}

impl core::fmt::Display for ArgumentsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::TooFar { end } => write!(
                f,
                "ends at byte {end}, behind the {CONSTANT_BYTES} bytes of a program's constants"
            ),
            Self::Size { bytes } => write!(f, "there are no numbers of {bytes} bytes"),
            Self::TooMany { count, max } => write!(f, "{count} are too many, {max} are possible"),
            Self::Texture { number } => {
                write!(f, "texture {number} is no argument, or in no register")
            }
            Self::Kind { index } => write!(f, "argument {index} is of another kind"),
        }
    }
}

impl core::error::Error for ArgumentsError {}

/// Descriptors of one kind, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(crate) struct Table {
    /// Byte offset in the argument block.
    pub(crate) at: u32,
    /// How many.
    pub(crate) count: u32,
}

/// Where everything is in a program's argument block.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'p> {
    pub(crate) layout: ArgLayout<'p>,
    pub(crate) constants: &'p [Constant],
    pub(crate) images: &'p [ImageSlot],
    pub(crate) samplers: &'p [Sampler],
    pub(crate) sampler_table: Table,
    pub(crate) textures: Table,
    pub(crate) storage: Table,
    pub(crate) end: u32,
}

/// What arguments are laid out of.
#[derive(Clone, Copy, Debug)]
pub struct Given<'p> {
    /// Storage images before textures, as OpenCL programs have them here, or behind.
    pub storage_first: bool,
    /// Which texture is in each texture register; `None` if they are in order.
    pub texture_map: Option<&'p [u8]>,
    /// The compiler's constants.
    pub constants: &'p [Constant],
    /// Samplers, in order of their registers. Arguments take the place of the first ones.
    pub samplers: &'p [Sampler],
}

fn below(count: usize, max: usize) -> Result<u32, ArgumentsError> {
    match u32::try_from(count) {
        Ok(n) if count <= max => Ok(n),
        _ => Err(ArgumentsError::TooMany { count, max }),
    }
}

impl<'p> Arguments<'p> {
    /// Lays out arguments: each one, and where it is if it is a buffer or a number. `slots` takes one entry per argument,
    /// `images` one per texture register and storage image.
    ///
    /// # Errors
    /// [`ArgumentsError`].
    pub fn new(
        params: impl Iterator<Item = (Param, u32)> + Clone,
        given: Given<'p>,
        slots: &'p mut [ArgSlot],
        images: &'p mut [ImageSlot],
    ) -> Result<Self, ArgumentsError> {
        let (mut count, mut texture_count, mut storage_count, mut end) = (0usize, 0, 0, 0u64);
        let mut sampler_count = 0usize;
        for (param, offset) in params.clone() {
            let bytes = match param {
                Param::Buffer => 8,
                Param::Scalar(bytes @ (1 | 2 | 4 | 8)) => bytes,
                Param::Scalar(bytes) => return Err(ArgumentsError::Size { bytes }),
                Param::Texture(_) => {
                    texture_count += 1;
                    0
                }
                Param::Storage(_) => {
                    storage_count += 1;
                    0
                }
                Param::Sampler => {
                    sampler_count += 1;
                    0
                }
            };
            if bytes != 0 {
                end = end.max(u64::from(offset) + u64::from(bytes));
            }
            count += 1;
        }
        for constant in given.constants {
            if !matches!(constant.bytes, 2 | 4) {
                let bytes = constant.bytes;
                return Err(ArgumentsError::Size { bytes });
            }
            end = end.max(u64::from(constant.offset) + u64::from(constant.bytes));
        }
        if end > CONSTANT_BYTES.into() {
            return Err(ArgumentsError::TooFar { end });
        }
        let registers = given.texture_map.map_or(texture_count, <[u8]>::len);
        let base = if end <= DESCRIPTORS_AT.into() {
            DESCRIPTORS_AT
        } else {
            CONSTANT_BYTES
        };
        let texture_bytes = below(registers, MAX_TEXTURES)? * DESCRIPTOR_BYTES;
        let storage_bytes = below(storage_count, MAX_STORAGE)? * DESCRIPTOR_BYTES;
        let samplers = below(given.samplers.len(), MAX_SAMPLERS)?;
        below(sampler_count, given.samplers.len())?;
        let (textures_at, storage_at) = if given.storage_first {
            (base + storage_bytes, base)
        } else {
            (base, base + texture_bytes)
        };
        let room = slots.len();
        let slots = slots
            .get_mut(..count)
            .ok_or(ArgumentsError::TooMany { count, max: room })?;
        let (need, room) = (registers + storage_count, images.len());
        let images = images.get_mut(..need).ok_or(ArgumentsError::TooMany {
            count: need,
            max: room,
        })?;
        let sampler_at = base + texture_bytes + storage_bytes;
        Self::place(
            params,
            given.texture_map,
            slots,
            images,
            [textures_at, storage_at, sampler_at],
        )?;
        Ok(Self {
            layout: ArgLayout {
                slots,
                size: (sampler_at + samplers * SAMPLER_BYTES).max(CONSTANT_BYTES),
                align: 1 << KERNARGS_ALIGN_LOG2,
            },
            constants: given.constants,
            images,
            samplers: given.samplers,
            sampler_table: Table {
                at: sampler_at,
                count: samplers,
            },
            textures: Table {
                at: textures_at,
                count: texture_bytes / DESCRIPTOR_BYTES,
            },
            storage: Table {
                at: storage_at,
                count: storage_bytes / DESCRIPTOR_BYTES,
            },
            // Constants are loaded whole, so that the block has all of them.
            end: (sampler_at + samplers * SAMPLER_BYTES).max(CONSTANT_BYTES),
        })
    }

    /// Fills in slots and descriptors; there is one slot per argument, and one image per register.
    fn place(
        params: impl Iterator<Item = (Param, u32)>,
        map: Option<&[u8]>,
        slots: &mut [ArgSlot],
        images: &mut [ImageSlot],
        [textures_at, storage_at, sampler_at]: [u32; 3],
    ) -> Result<(), ArgumentsError> {
        let mut images = images.iter_mut();
        let (mut texture, mut storage, mut sampler) = (0u8, 0u32, 0u32);
        for (argument, ((param, offset), slot)) in (0u16..).zip(params.zip(slots)) {
            let mut put = |at: u32, descriptor: Option<[u32; 16]>, own: bool| {
                if let Some(image) = images.next() {
                    *image = ImageSlot {
                        argument,
                        offset: at,
                        descriptor,
                        own,
                    };
                }
                if own {
                    *slot = match descriptor {
                        Some(_) => ArgSlot::buffer(at + ADDRESS_AT),
                        None => ArgSlot {
                            offset: at,
                            size: DESCRIPTOR_BYTES,
                            kind: ArgKind::Bytes,
                        },
                    };
                }
            };
            match param {
                Param::Buffer => *slot = ArgSlot::buffer(offset),
                Param::Scalar(bytes) => *slot = ArgSlot::scalar(offset, bytes.into()),
                Param::Sampler => {
                    *slot = ArgSlot {
                        offset: sampler_at + sampler * SAMPLER_BYTES,
                        size: SAMPLER_BYTES,
                        kind: ArgKind::Bytes,
                    };
                    sampler += 1;
                }
                Param::Storage(image) => {
                    let descriptor = image.map(|i| i.storage());
                    put(storage_at + storage * DESCRIPTOR_BYTES, descriptor, true);
                    storage += 1;
                }
                Param::Texture(image) => {
                    let descriptor = image.map(|i| i.texture());
                    let mut own = true;
                    let in_order = [texture];
                    let registers = match map {
                        Some(map) => (0u32..).zip(map),
                        None => (u32::from(texture)..).zip(&in_order),
                    };
                    for (register, _) in registers.filter(|(_, t)| **t == texture) {
                        put(textures_at + register * DESCRIPTOR_BYTES, descriptor, own);
                        own = false;
                    }
                    if own {
                        return Err(ArgumentsError::Texture { number: texture });
                    }
                    texture = texture.saturating_add(1);
                }
            }
        }
        match map.and_then(|m| m.iter().find(|t| **t >= texture)) {
            Some(&number) => Err(ArgumentsError::Texture { number }),
            None => Ok(()),
        }
    }

    /// Bytes of the argument block.
    pub const fn bytes(&self) -> u32 {
        self.end
    }

    /// Each argument's place.
    pub const fn layout(&self) -> &ArgLayout<'p> {
        &self.layout
    }
}

/// Why a program is none for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ProgramError {
    /// An address or number that a register cannot hold.
    Misfit(Misfit),
    /// More group-local memory than the chip has.
    SharedMemory {
        /// Bytes that it needs.
        need: u32,
        /// Bytes that the chip has.
        have: u32,
    },
    /// Less private memory than it needs.
    PrivateMemory {
        /// Bytes that it needs.
        need: u64,
        /// Bytes that there are.
        have: u64,
    },
    /// No instruction, or a first instruction that is none of them.
    Code {
        /// Bytes of its instructions.
        bytes: u32,
        /// Offset of the first one.
        first: u32,
    },
    /// It needs more registers than a single wave can have.
    Registers {
        /// Registers of four words.
        need: u32,
    },
    /// A chip of [`PACKETS_ONLY`](crate::chips::PACKETS_ONLY).
    Dispatch {
        /// Its number.
        chip: u16,
    },
    /// Packets that cannot be recorded.
    Record(hcq_nostd::record::RecordError),
}

impl core::fmt::Display for ProgramError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Misfit(m) => write!(f, "{m}"),
            Self::SharedMemory { need, have } => {
                write!(f, "{need} bytes of group-local memory; the chip has {have}")
            }
            Self::PrivateMemory { need, have } => {
                write!(
                    f,
                    "{need} bytes of private memory are needed, {have} are there"
                )
            }
            Self::Code { bytes, first } => {
                write!(f, "the first instruction is byte {first} of {bytes}")
            }
            Self::Registers { need } => {
                write!(f, "{need} registers are more than a wave can have")
            }
            Self::Dispatch { chip } => write!(
                f,
                "of Adreno {chip} the packets are known, the registers of a dispatch are not"
            ),
            Self::Record(e) => write!(f, "{e}"),
        }
    }
}

impl core::error::Error for ProgramError {}

impl From<Misfit> for ProgramError {
    fn from(m: Misfit) -> Self {
        Self::Misfit(m)
    }
}

impl From<hcq_nostd::record::RecordError> for ProgramError {
    fn from(e: hcq_nostd::record::RecordError) -> Self {
        Self::Record(e)
    }
}

#[cfg(test)]
mod tests;
