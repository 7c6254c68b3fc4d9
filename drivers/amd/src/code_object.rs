//! Code objects: ELF files with kernels, versions 4, 5 and 6.
//!
//! Nothing here allocates, and nothing in a file is trusted: a file that is none, or that points outside of itself, is an
//! error. Facts: `AMDGPUUsage`, sections on code objects, kernel descriptors, relocations and metadata.
//!
//! Executables and relocatable objects are both loaded: [`CodeObject::image`] says how much memory that takes,
//! [`CodeObject::load`] copies what belongs there and applies relocations, [`CodeObject::kernel`] finds a kernel by its
//! `<name>.kd` symbol, of which there can be many.

mod descriptor;
mod error;
mod image;
mod kernel_symbol;
pub mod metadata;
mod msgpack;
mod relocate;

use elf::ElfBytes;
use elf::abi::{EM_AMDGPU, ET_DYN, ET_REL};
use elf::endian::LittleEndian;
use elf::file::Class;

use crate::chips::{Chip, Refusal};

pub use descriptor::KernelDescriptor;
pub use error::LoadError;
pub use image::ImageSize;
pub use kernel_symbol::{KernelSymbol, Kernels};
pub use metadata::{Argument, KernelMetadata};

/// ELFOSABI_AMDGPU_HSA.
const OS_ABI_HSA: u8 = 64;
/// EF_AMDGPU_MACH.
const MACH: u32 = 0xff;
/// Sections and segments at most, so that what is quadratic in them stays short.
const MAX_PARTS: usize = 1024;

/// Versions of code objects, `ELFABIVERSION_AMDGPU_HSA_V*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum AbiVersion {
    /// Version 4.
    V4,
    /// Version 5.
    V5,
    /// Version 6.
    V6,
}

/// A code object. Borrows the file.
#[derive(Debug)]
pub struct CodeObject<'d> {
    elf: ElfBytes<'d, LittleEndian>,
    data: &'d [u8],
    abi: AbiVersion,
    mach: u8,
    relocatable: bool,
}

impl<'d> CodeObject<'d> {
    /// The code object in a file.
    ///
    /// # Errors
    /// [`LoadError`] for a file that is none, or one of a version that is not known here.
    pub fn parse(data: &'d [u8]) -> Result<Self, LoadError> {
        let elf = ElfBytes::<LittleEndian>::minimal_parse(data).map_err(|_| LoadError::Elf)?;
        let header = &elf.ehdr;
        if header.e_machine != EM_AMDGPU
            || header.osabi != OS_ABI_HSA
            || header.class != Class::ELF64
        {
            return Err(LoadError::NotAmdGpu {
                machine: header.e_machine,
                os_abi: header.osabi,
            });
        }
        let abi = match header.abiversion {
            2 => AbiVersion::V4,
            3 => AbiVersion::V5,
            4 => AbiVersion::V6,
            abi => return Err(LoadError::Version { abi }),
        };
        let relocatable = match header.e_type {
            ET_DYN => false,
            ET_REL => true,
            kind => return Err(LoadError::Kind { kind }),
        };
        let parts = [
            elf.section_headers().map_or(0, |t| t.len()),
            elf.segments().map_or(0, |t| t.len()),
        ];
        if let Some(&have) = parts.iter().find(|n| **n > MAX_PARTS) {
            return Err(LoadError::TooManyParts {
                have,
                max: MAX_PARTS,
            });
        }
        let [mach, ..] = (header.e_flags & MACH).to_le_bytes();
        Ok(Self {
            elf,
            data,
            abi,
            mach,
            relocatable,
        })
    }

    /// Its version.
    pub const fn abi(&self) -> AbiVersion {
        self.abi
    }

    /// The chip that it was built for.
    ///
    /// # Errors
    /// [`Refusal`] for a chip that is in no table here, or a generic target.
    pub fn chip(&self) -> Result<&'static Chip, Refusal> {
        Chip::from_mach(self.mach)
    }

    /// Whether it is a relocatable object and not an executable.
    pub const fn is_relocatable(&self) -> bool {
        self.relocatable
    }

    /// `len` bytes of the file from `offset` on.
    fn bytes(&self, offset: u64, len: u64) -> Option<&'d [u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        self.data.get(start..end)
    }
}

#[cfg(test)]
mod tests;
