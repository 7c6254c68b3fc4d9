use elf::abi::{PT_LOAD, SHF_ALLOC, SHN_ABS, SHT_NOBITS};
use elf::section::SectionHeader;
use elf::segment::ProgramHeader;
use hcq_nostd::mem::Region;

use super::{CodeObject, LoadError};

/// Memory that an image takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ImageSize {
    /// Bytes.
    pub bytes: u64,
    /// Alignment of its device address, a power of two.
    pub align: u64,
}

/// A part of the file that is in the image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Its number among sections or segments.
    pub(super) index: usize,
    /// Byte offset in the image.
    pub(super) at: u64,
    /// Bytes in the image.
    pub(super) bytes: u64,
    /// Byte offset in the file, and bytes there; the rest is zero.
    file: (u64, u64),
    align: u64,
}

impl Part {
    fn segment(index: usize, s: &ProgramHeader) -> Option<Self> {
        (s.p_type == PT_LOAD).then_some(Self {
            index,
            at: s.p_vaddr,
            bytes: s.p_memsz,
            file: (s.p_offset, s.p_filesz),
            align: s.p_align,
        })
    }

    fn section(index: usize, s: &SectionHeader, after: u64) -> Option<Self> {
        if s.sh_flags & u64::from(SHF_ALLOC) == 0 {
            return None;
        }
        let in_file = if s.sh_type == SHT_NOBITS {
            0
        } else {
            s.sh_size
        };
        Some(Self {
            index,
            at: after
                .checked_next_multiple_of(s.sh_addralign.max(1))
                .unwrap_or(u64::MAX),
            bytes: s.sh_size,
            file: (s.sh_offset, in_file),
            align: s.sh_addralign,
        })
    }

    fn end(&self) -> u64 {
        self.at.saturating_add(self.bytes)
    }
}

impl<'d> CodeObject<'d> {
    /// What is in the image: an executable's PT_LOAD segments at their addresses, a relocatable object's SHF_ALLOC sections
    /// one after the other.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part> + use<'d> {
        let (segments, sections) = if self.is_relocatable() {
            (None, self.elf.section_headers())
        } else {
            (self.elf.segments(), None)
        };
        let segments = segments.into_iter().flat_map(|t| t.iter()).enumerate();
        let sections = sections.into_iter().flat_map(|t| t.iter()).enumerate();
        let mut after = 0;
        let sections = sections.filter_map(move |(i, s)| {
            let part = Part::section(i, &s, after)?;
            after = part.end();
            Some(part)
        });
        segments
            .filter_map(|(i, s)| Part::segment(i, &s))
            .chain(sections)
    }

    /// Memory that its image takes.
    ///
    /// # Errors
    /// [`LoadError::Part`] for a part that is not inside the file, or alignments that are none.
    pub fn image(&self) -> Result<ImageSize, LoadError> {
        let mut size = ImageSize {
            bytes: 0,
            align: 256,
        };
        for part in self.parts() {
            let bad = LoadError::Part { index: part.index };
            let (offset, in_file) = part.file;
            self.bytes(offset, in_file).ok_or(bad)?;
            let align = part.align.max(1);
            if !align.is_power_of_two()
                || in_file > part.bytes
                || part.at.checked_add(part.bytes).is_none()
            {
                return Err(bad);
            }
            size.bytes = size.bytes.max(part.end());
            size.align = size.align.max(align);
        }
        Ok(size)
    }

    /// Writes the image into device-visible memory and applies relocations for the address where it is. Memory between its
    /// parts becomes zero.
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
        for part in self.parts() {
            let bad = LoadError::Part { index: part.index };
            let (offset, in_file) = part.file;
            let bytes = self.bytes(offset, in_file).ok_or(bad)?;
            let at = usize::try_from(part.at).map_err(|_| bad)?;
            memory.write(at, bytes).map_err(|_| bad)?;
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

    /// Byte offset in the image of a section's or address's byte: for a relocatable object `value` bytes into section
    /// `section`, for an executable the address itself.
    pub(super) fn place(&self, section: u16, value: u64) -> Option<u64> {
        if section == SHN_ABS {
            return None;
        }
        if !self.is_relocatable() {
            return Some(value);
        }
        let part = self.parts().find(|p| p.index == usize::from(section))?;
        part.at.checked_add(value).filter(|at| *at <= part.end())
    }

    /// `len` bytes of the file that are at byte offset `at` of the image.
    pub(super) fn image_bytes(&self, at: u64, len: u64) -> Option<&'d [u8]> {
        self.parts().find_map(|p| {
            let (offset, in_file) = p.file;
            let into = at.checked_sub(p.at)?;
            let inside = into.checked_add(len).is_some_and(|end| end <= in_file);
            inside
                .then(|| self.bytes(offset.checked_add(into)?, len))
                .flatten()
        })
    }
}
