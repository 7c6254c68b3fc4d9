//! Relocations: addresses of variables and functions in constant banks, variables and code.

use elf::abi::{SHN_ABS, SHT_REL, SHT_RELA};
use elf::endian::LittleEndian;
use elf::symbol::SymbolTable;

use super::image::Part;
use super::{Cubin, LoadError};

/// Kinds, `R_CUDA_*`.
mod kind {
    /// 32 bits of an address.
    pub(super) const ABS_32: u32 = 1;
    /// 64 bits of an address.
    pub(super) const ABS_64: u32 = 2;
    /// 32 bits of a generic address.
    pub(super) const GENERIC_32: u32 = 3;
    /// 64 bits of a generic address, which global memory's are.
    pub(super) const GENERIC_64: u32 = 4;
    /// The low 32 bits of an address in bits 63:32 of an instruction.
    pub(super) const ABS_32_LO_32: u32 = 0x38;
    /// The high 32 bits of an address in bits 63:32 of an instruction.
    pub(super) const ABS_32_HI_32: u32 = 0x39;
}

/// Where in an instruction the address is that the last two write.
const INSTRUCTION_FIELD: u64 = 4;

/// A relocation of either form.
#[derive(Clone, Copy)]
struct Relocation {
    offset: u64,
    symbol: u32,
    kind: u32,
    /// `None` if it is what the place holds.
    addend: Option<i64>,
}

impl<'d> Cubin<'d> {
    /// Hands the bytes of every relocation of the image to `write`, with their byte offset in the image.
    pub(super) fn relocate(
        &self,
        base: u64,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let (headers, _) = self.sections()?;
        let symbols = match self.elf.symbol_table() {
            Ok(table) => table.map(|(symbols, _)| symbols),
            Err(_) => return Err(LoadError::Elf),
        };
        for section in headers.iter() {
            let target = section.sh_info as usize;
            let relocates = matches!(section.sh_type, SHT_REL | SHT_RELA);
            let Some(part) = self.parts().find(|p| relocates && p.index == target) else {
                continue;
            };
            let symbols = symbols.as_ref().ok_or(LoadError::Elf)?;
            let mut apply = |r: Relocation| self.apply(&r, &part, symbols, base, &mut write);
            if section.sh_type == SHT_RELA {
                let entries = self.elf.section_data_as_relas(&section);
                for r in entries.map_err(|_| LoadError::Elf)? {
                    apply(Relocation {
                        offset: r.r_offset,
                        symbol: r.r_sym,
                        kind: r.r_type,
                        addend: Some(r.r_addend),
                    })?;
                }
            } else {
                let entries = self.elf.section_data_as_rels(&section);
                for r in entries.map_err(|_| LoadError::Elf)? {
                    apply(Relocation {
                        offset: r.r_offset,
                        symbol: r.r_sym,
                        kind: r.r_type,
                        addend: None,
                    })?;
                }
            }
        }
        Ok(())
    }

    fn apply(
        &self,
        r: &Relocation,
        part: &Part,
        symbols: &SymbolTable<'d, LittleEndian>,
        base: u64,
        write: &mut impl FnMut(u64, &[u8]) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let kind = r.kind;
        let (skip, bytes) = match kind {
            kind::ABS_64 | kind::GENERIC_64 => (0, 8),
            kind::ABS_32 | kind::GENERIC_32 => (0, 4),
            kind::ABS_32_LO_32 | kind::ABS_32_HI_32 => (INSTRUCTION_FIELD, 4),
            _ => return Err(LoadError::Relocation { kind }),
        };
        let place = LoadError::RelocationPlace { offset: r.offset };
        let offset = r.offset.checked_add(skip).ok_or(place)?;
        let inside = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= part.bytes);
        if !inside || !part.in_file {
            return Err(place);
        }
        let addend = match r.addend {
            Some(addend) => addend.cast_unsigned(),
            None => self.held(part, offset, bytes).ok_or(place)?,
        };
        let undefined = LoadError::Undefined { symbol: r.symbol };
        let symbol = symbols.get(r.symbol as usize).map_err(|_| undefined)?;
        let address = if symbol.st_shndx == SHN_ABS {
            symbol.st_value
        } else {
            let section = self.place(symbol.st_shndx.into()).ok_or(undefined)?;
            base.wrapping_add(section).wrapping_add(symbol.st_value)
        };
        let value = address.wrapping_add(addend);
        let narrow = |v: u64| {
            let narrow = u32::try_from(v);
            narrow.map_err(|_| LoadError::RelocationRange { kind, value: v })
        };
        let at = part.at.checked_add(offset).ok_or(place)?;
        match kind {
            kind::ABS_64 | kind::GENERIC_64 => write(at, &value.to_le_bytes()),
            kind::ABS_32_LO_32 => write(at, &narrow(value & u64::from(u32::MAX))?.to_le_bytes()),
            kind::ABS_32_HI_32 => write(at, &narrow(value >> 32)?.to_le_bytes()),
            _ => write(at, &narrow(value)?.to_le_bytes()),
        }
    }

    /// The number of 4 or 8 bytes that the file has at a place.
    fn held(&self, part: &Part, offset: u64, bytes: u64) -> Option<u64> {
        let (headers, _) = self.sections().ok()?;
        let section = headers.get(part.index).ok()?;
        let held = self.bytes(section.sh_offset.checked_add(offset)?, bytes)?;
        let low = u32::from_le_bytes(*held.first_chunk::<4>()?);
        let high = held.get(4..)?.first_chunk::<4>();
        let high = high.map_or(0, |b| u32::from_le_bytes(*b));
        Some(crate::host::join(low, high))
    }
}
