use elf::abi::{SHF_ALLOC, SHT_NOBITS, SHT_PROGBITS};
use elf::section::SectionHeader;
use hcq_nostd::mem::Region;

use super::{Cubin, LoadError};

/// Alignment of every section in the image: code and constant banks want 128 bytes.
const PART_ALIGN: u64 = 128;
/// Alignment of the image's device address.
const IMAGE_ALIGN: u64 = 256;
/// Sections without contents that are memory: variables that start as zero. Others are shared memory.
const ZEROED: &str = ".nv.global";

/// Memory that an image takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ImageSize {
    /// Bytes.
    pub bytes: u64,
    /// Alignment of its device address, a power of two.
    pub align: u64,
}

/// A section that is in the image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Its number.
    pub(super) index: usize,
    /// Byte offset in the image.
    pub(super) at: u64,
    /// Bytes.
    pub(super) bytes: u64,
    /// Whether the file has them.
    pub(super) in_file: bool,
    offset: u64,
    align: u64,
}

impl Part {
    fn new(index: usize, s: &SectionHeader, after: u64) -> Self {
        let align = s.sh_addralign.max(PART_ALIGN);
        Self {
            index,
            at: after.checked_next_multiple_of(align).unwrap_or(u64::MAX),
            bytes: s.sh_size,
            in_file: s.sh_type != SHT_NOBITS,
            offset: s.sh_offset,
            align,
        }
    }

    fn end(&self) -> u64 {
        self.at.saturating_add(self.bytes)
    }
}

impl<'d> Cubin<'d> {
    /// What is in the image: code, constant banks and variables, one after the other.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part> + use<'d> {
        let everything = self.everything;
        let sections = self.sections().ok();
        let names = sections.map(|(_, names)| names);
        let headers = sections.into_iter().flat_map(|(headers, _)| headers.iter());
        let mut after = 0;
        headers.enumerate().filter_map(move |(index, s)| {
            let allocated = s.sh_flags & u64::from(SHF_ALLOC) != 0;
            let is_in = match s.sh_type {
                SHT_PROGBITS => allocated || everything,
                SHT_NOBITS => {
                    let name = names.and_then(|names| names.get(s.sh_name as usize).ok());
                    allocated && name == Some(ZEROED)
                }
                _ => false,
            };
            if !is_in {
                return None;
            }
            let part = Part::new(index, &s, after);
            after = part.end();
            Some(part)
        })
    }

    /// Memory that its image takes.
    ///
    /// # Errors
    /// [`LoadError::Part`] for a section that is not inside the file, or alignments that are none.
    pub fn image(&self) -> Result<ImageSize, LoadError> {
        let mut size = ImageSize {
            bytes: 0,
            align: IMAGE_ALIGN,
        };
        for part in self.parts() {
            let bad = LoadError::Part { index: part.index };
            if part.in_file {
                self.bytes(part.offset, part.bytes).ok_or(bad)?;
            }
            if !part.align.is_power_of_two() || part.at.checked_add(part.bytes).is_none() {
                return Err(bad);
            }
            size.bytes = size.bytes.max(part.end());
            size.align = size.align.max(part.align);
        }
        Ok(size)
    }

    /// Writes the image into device-visible memory and applies relocations for the address where it is. Memory between its
    /// sections becomes zero.
    ///
    /// # Errors
    /// [`LoadError`]; the memory's contents may have changed.
    pub fn load(&self, memory: &mut Region<'_>) -> Result<(), LoadError> {
        let size = self.image()?;
        let have = memory.len() as u64;
        let too_small = LoadError::Memory {
            need: size.bytes,
            have,
        };
        let bytes = usize::try_from(size.bytes).map_err(|_| too_small)?;
        let base = memory
            .device_address(0)
            .filter(|_| size.bytes <= have)
            .ok_or(too_small)?;
        if !base.is_multiple_of(size.align) || base.checked_add(size.bytes).is_none() {
            return Err(LoadError::Misaligned {
                address: base,
                align: size.align,
            });
        }
        memory.fill(0, bytes, 0).map_err(|_| too_small)?;
        for part in self.parts().filter(|part| part.in_file) {
            let bad = LoadError::Part { index: part.index };
            let contents = self.bytes(part.offset, part.bytes).ok_or(bad)?;
            let at = usize::try_from(part.at).map_err(|_| bad)?;
            memory.write(at, contents).map_err(|_| bad)?;
        }
        self.relocate(base, |at, bytes| {
            let place = LoadError::RelocationPlace { offset: at };
            let inside = at
                .checked_add(bytes.len() as u64)
                .is_some_and(|end| end <= size.bytes);
            let at = usize::try_from(at).ok().filter(|_| inside).ok_or(place)?;
            memory.write(at, bytes).map_err(|_| place)
        })
    }

    /// Byte offset of a section in the image.
    pub(super) fn place(&self, section: usize) -> Option<u64> {
        self.parts().find(|p| p.index == section).map(|p| p.at)
    }
}
