use elf::abi::{SHF_ALLOC, SHN_ABS, SHN_UNDEF, SHT_RELA, STB_WEAK};
use elf::endian::LittleEndian;
use elf::parse::ParsingTable;
use elf::relocation::Rela;
use elf::section::SectionHeader;
use elf::symbol::Symbol;

use super::{CodeObject, LoadError};

/// `R_AMDGPU_*`.
mod kind {
    pub(super) const NONE: u32 = 0;
    pub(super) const ABS32_LO: u32 = 1;
    pub(super) const ABS32_HI: u32 = 2;
    pub(super) const ABS64: u32 = 3;
    pub(super) const REL32: u32 = 4;
    pub(super) const REL64: u32 = 5;
    pub(super) const ABS32: u32 = 6;
    pub(super) const REL32_LO: u32 = 10;
    pub(super) const REL32_HI: u32 = 11;
    pub(super) const RELATIVE64: u32 = 13;
}

/// A relocation's place in the image, its bytes, and how many of them.
#[derive(Clone, Copy, Debug)]
struct Store {
    at: u64,
    value: u64,
    bytes: usize,
}

impl<'d> CodeObject<'d> {
    /// Every relocation section that concerns the image: which section it is for (0 for a whole executable), and its
    /// entries with their symbols.
    fn relocations(&self) -> impl Iterator<Item = (SectionHeader, SectionHeader)> + use<'d> {
        let (table, relocatable) = (self.elf.section_headers(), self.is_relocatable());
        table.into_iter().flat_map(move |t| {
            t.iter().filter_map(move |s| {
                let target = match (s.sh_type, relocatable) {
                    (SHT_RELA, true) => t.get(usize::try_from(s.sh_info).ok()?).ok()?,
                    (SHT_RELA, false) => s,
                    _ => return None,
                };
                (target.sh_flags & u64::from(SHF_ALLOC) != 0).then_some((s, target))
            })
        })
    }

    /// The symbol table that a relocation section names.
    fn symbols_of(
        &self,
        relocations: &SectionHeader,
    ) -> Option<ParsingTable<'d, LittleEndian, Symbol>> {
        let header = self
            .elf
            .section_headers()?
            .get(usize::try_from(relocations.sh_link).ok()?)
            .ok()?;
        let bytes = self.bytes(header.sh_offset, header.sh_size)?;
        Some(ParsingTable::new(
            LittleEndian,
            elf::file::Class::ELF64,
            bytes,
        ))
    }

    /// A symbol's value for an image at `base`.
    pub(super) fn value_of(
        &self,
        symbol: &Symbol,
        number: u32,
        base: u64,
    ) -> Result<u64, LoadError> {
        let undefined = LoadError::Undefined { symbol: number };
        match symbol.st_shndx {
            SHN_ABS => Ok(symbol.st_value),
            SHN_UNDEF if number == 0 || symbol.st_bind() == STB_WEAK => Ok(0),
            SHN_UNDEF => Err(undefined),
            section => {
                let at = self.place(section, symbol.st_value).ok_or(undefined)?;
                Ok(base.wrapping_add(at))
            }
        }
    }

    fn resolve(
        &self,
        rela: &Rela,
        at: u64,
        symbols: Option<&ParsingTable<'d, LittleEndian, Symbol>>,
        base: u64,
    ) -> Result<Option<Store>, LoadError> {
        let kind = rela.r_type;
        let place = base.wrapping_add(at);
        let symbol = || match (rela.r_sym, symbols) {
            (0, _) => Ok(0),
            (n, Some(table)) => {
                let undefined = LoadError::Undefined { symbol: n };
                let index = usize::try_from(n).map_err(|_| undefined)?;
                let symbol = table.get(index).map_err(|_| undefined)?;
                self.value_of(&symbol, n, base)
            }
            (n, None) => Err(LoadError::Undefined { symbol: n }),
        };
        let absolute = || symbol().map(|s| s.wrapping_add_signed(rela.r_addend));
        let relative = || absolute().map(|v| v.wrapping_sub(place));
        let half = |value: u64| (value & 0xffff_ffff, 4);
        let (value, bytes) = match kind {
            kind::NONE => return Ok(None),
            kind::ABS32_LO => half(absolute()?),
            kind::ABS32_HI => half(absolute()? >> 32),
            kind::ABS64 => (absolute()?, 8),
            kind::REL32_LO => half(relative()?),
            kind::REL32_HI => half(relative()? >> 32),
            kind::REL64 => (relative()?, 8),
            kind::RELATIVE64 => (base.wrapping_add_signed(rela.r_addend), 8),
            kind::ABS32 => {
                let value = absolute()?;
                u32::try_from(value).map_err(|_| LoadError::RelocationRange { kind, value })?;
                (value, 4)
            }
            kind::REL32 => {
                let value = relative()?;
                i32::try_from(value.cast_signed())
                    .map_err(|_| LoadError::RelocationRange { kind, value })?;
                half(value)
            }
            kind => return Err(LoadError::Relocation { kind }),
        };
        Ok(Some(Store { at, value, bytes }))
    }

    /// Calls `store` for each relocation whose byte offset in the image `take` takes.
    fn each_relocation(
        &self,
        base: u64,
        take: impl Fn(u64) -> bool,
        mut store: impl FnMut(Store) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        for (section, _) in self.relocations() {
            let target = if self.is_relocatable() {
                section.sh_info
            } else {
                0
            };
            let target = u16::try_from(target).map_err(|_| LoadError::Elf)?;
            let start = self.place(target, 0).ok_or(LoadError::Elf)?;
            let symbols = self.symbols_of(&section);
            let relas = self
                .elf
                .section_data_as_relas(&section)
                .map_err(|_| LoadError::Elf)?;
            for rela in relas {
                let at = start.wrapping_add(rela.r_offset);
                if !take(at) {
                    continue;
                }
                if let Some(s) = self.resolve(&rela, at, symbols.as_ref(), base)? {
                    store(s)?;
                }
            }
        }
        Ok(())
    }

    /// Calls `write` with the byte offset in the image and the bytes of every relocation, for an image at `base`.
    pub(super) fn relocate(
        &self,
        base: u64,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        self.each_relocation(
            base,
            |_| true,
            |s| {
                write(
                    s.at,
                    s.value.to_le_bytes().get(..s.bytes).unwrap_or_default(),
                )
            },
        )
    }

    /// What a relocation puts into the 8 bytes at `wanted` of the image, if one does.
    pub(super) fn relocated(&self, wanted: u64) -> Result<Option<u64>, LoadError> {
        let mut found = None;
        self.each_relocation(
            0,
            |at| at == wanted,
            |s| {
                found = Some(s.value).filter(|_| s.bytes == 8);
                Ok(())
            },
        )?;
        Ok(found)
    }
}
