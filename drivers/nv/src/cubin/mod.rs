//! Cubins: ELF files with kernels that NVIDIA's compilers make.
//!
//! Nothing here allocates, and nothing in a file is trusted: a file that is none, or that points outside of itself, is an
//! error. No document describes the format; what is read here was found in files that `ptxas` 12.9 and 13.5 made.
//!
//! [`Cubin::image`] says how much memory the code and data of a file take, [`Cubin::load`] copies them there and applies
//! relocations, [`Cubin::kernel`] finds a kernel by its name, of which there can be many.
//!
//! Two conventions are known: the older one (`EI_OSABI` 0x33, version 7) and the one of CUDA 13 (0x41, version 8), which
//! is also what 12.9 uses for Blackwell. They differ in where the header says the architecture, and where a kernel's
//! barriers are counted.

mod error;
mod image;
mod info;
mod kernel;
mod relocate;

use elf::ElfBytes;
use elf::abi::ET_EXEC;
use elf::endian::LittleEndian;
use elf::file::Class;
use elf::section::{SectionHeader, SectionHeaderTable};
use elf::string_table::StringTable;

use crate::chips::Chip;

pub use error::LoadError;
pub use image::ImageSize;
pub use kernel::{CubinKernel, Kernels};

/// EM_CUDA.
const EM_CUDA: u16 = 190;
/// Sections at most, so that what is quadratic in them stays short.
const MAX_PARTS: usize = 4096;

/// Conventions of a cubin, by `EI_OSABI` and `EI_ABIVERSION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum AbiVersion {
    /// 0x33, 7: the architecture in the lowest byte of the flags.
    V7,
    /// 0x41, 8: the architecture in the byte above.
    V8,
}

/// A cubin. Borrows the file.
#[derive(Debug)]
pub struct Cubin<'d> {
    elf: ElfBytes<'d, LittleEndian>,
    data: &'d [u8],
    abi: AbiVersion,
    sm: u16,
    everything: bool,
}

impl<'d> Cubin<'d> {
    /// The cubin in a file.
    ///
    /// # Errors
    /// [`LoadError`] for a file that is none, or one of a convention that is not known here.
    pub fn parse(data: &'d [u8]) -> Result<Self, LoadError> {
        let elf = ElfBytes::<LittleEndian>::minimal_parse(data).map_err(|_| LoadError::Elf)?;
        let header = &elf.ehdr;
        if header.e_machine != EM_CUDA || header.class != Class::ELF64 {
            return Err(LoadError::NotCuda {
                machine: header.e_machine,
            });
        }
        let [low, high, ..] = header.e_flags.to_le_bytes();
        let (abi, sm) = match (header.osabi, header.abiversion) {
            (0x33, 7) => (AbiVersion::V7, low),
            (0x41, 8) => (AbiVersion::V8, high),
            (os_abi, version) => return Err(LoadError::Version { os_abi, version }),
        };
        if header.e_type != ET_EXEC {
            return Err(LoadError::Kind {
                kind: header.e_type,
            });
        }
        let have = elf.section_headers().map_or(0, |t| t.len());
        if have > MAX_PARTS {
            return Err(LoadError::TooManyParts {
                have,
                max: MAX_PARTS,
            });
        }
        Ok(Self {
            elf,
            data,
            abi,
            sm: sm.into(),
            everything: false,
        })
    }

    /// The same with sections in its image that no kernel reads: unwinding tables, for debuggers that look for them in
    /// device memory.
    pub fn with_everything(self) -> Self {
        Self {
            everything: true,
            ..self
        }
    }

    /// Its convention.
    pub const fn abi(&self) -> AbiVersion {
        self.abi
    }

    /// The compute capability that it was compiled for: 86 for 8.6.
    pub const fn sm(&self) -> u16 {
        self.sm
    }

    /// Whether its code runs on a chip.
    ///
    /// # Errors
    /// [`LoadError::Architecture`].
    pub fn check(&self, chip: &Chip) -> Result<(), LoadError> {
        if chip.runs(self.sm) {
            Ok(())
        } else {
            Err(LoadError::Architecture {
                sm: self.sm,
                chip: chip.sm,
            })
        }
    }

    fn sections(
        &self,
    ) -> Result<(SectionHeaderTable<'d, LittleEndian>, StringTable<'d>), LoadError> {
        match self.elf.section_headers_with_strtab() {
            Ok((Some(headers), Some(names))) => Ok((headers, names)),
            _ => Err(LoadError::Elf),
        }
    }

    /// The section whose name is these parts together.
    fn section(&self, name: [&str; 2]) -> Option<(usize, SectionHeader)> {
        let (headers, names) = self.sections().ok()?;
        let [prefix, rest] = name;
        headers.iter().enumerate().find(|(_, section)| {
            let own = names.get(section.sh_name as usize).ok();
            own.and_then(|own| own.strip_prefix(prefix)) == Some(rest)
        })
    }

    /// A section's bytes in the file.
    fn contents(&self, section: &SectionHeader) -> Option<&'d [u8]> {
        self.bytes(section.sh_offset, section.sh_size)
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
