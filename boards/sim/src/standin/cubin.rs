//! NVIDIA's code objects, as far as it takes to know a program again.
//!
//! Names of sections and numbers of attributes are those that `cuobjdump` and `readelf` show of what `ptxas` 12.9 writes.

use object::read::elf::{ElfFile64, FileHeader as _};
use object::{
    Endianness, FileFlags, Object as _, ObjectSection as _, ObjectSymbol as _, SectionFlags,
    SymbolIndex,
};

use super::nv::Needs;
use super::object::ObjectError;
use super::part;

/// `EM_CUDA`.
const MACHINE: u16 = 190;
/// From this version of the ABI on the architecture is in bits 15:8 of `e_flags`; before, in bits 7:0.
const ABI_WITH_WIDE_FLAGS: u8 = 8;

/// Architectures that are simulated, and where their programs read the sizes of their group and of the grid in bank 0.
static TARGETS: &[(u32, &str, (u32, u32))] = &[
    (86, "sm_86", (0, 0xC)),
    (89, "sm_89", (0, 0xC)),
    (90, "sm_90", (0, 0xC)),
    (120, "sm_120", (0x360, 0x370)),
];

/// Bytes of shared memory that the system keeps for itself, which sections count from sm_90 on.
const SYSTEM_SHARED: u64 = 1 << 10;

/// `EIATTR_*` of `.nv.info`.
mod attribute {
    pub(super) const PARAM_CBANK: u8 = 0x0A;
    pub(super) const MIN_STACK_SIZE: u8 = 0x12;
    pub(super) const REGCOUNT: u8 = 0x2F;
    pub(super) const NUM_BARRIERS: u8 = 0x4C;
}

/// A program of a cubin.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) symbol: String,
    pub(super) code: Vec<u8>,
    pub(super) needs: Needs,
}

/// A cubin.
#[derive(Clone, Debug)]
pub(super) struct Cubin {
    pub(super) target: &'static str,
    pub(super) programs: Vec<Program>,
}

/// Whether an ELF file is for this vendor's machines.
pub(super) fn is_cubin(bytes: &[u8]) -> bool {
    u16::from_le_bytes(part(bytes, 18)) == MACHINE
}

/// Attributes of a section: number, value (of those that have one in place), data.
fn attributes(section: &[u8]) -> Vec<(u8, u16, &[u8])> {
    let mut all = Vec::new();
    let mut rest = section;
    while let [format, number, low, high, more @ ..] = rest {
        let value = u16::from_le_bytes([*low, *high]);
        let len = if *format == 4 { usize::from(value) } else { 0 };
        let Some((data, next)) = more.split_at_checked(len) else {
            break;
        };
        all.push((*number, value, data));
        rest = next;
    }
    all
}

/// Reads a cubin.
pub(super) fn read(bytes: &[u8]) -> Result<Cubin, ObjectError> {
    let elf = |e: object::Error| ObjectError::Elf(e.to_string());
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(elf)?;
    let flags = match file.flags() {
        FileFlags::Elf { e_flags, .. } => e_flags,
        _ => 0,
    };
    let wide = file.elf_header().e_ident().abi_version >= ABI_WITH_WIDE_FLAGS;
    let number = if wide {
        flags >> 8 & 0xFF
    } else {
        flags & 0xFF
    };
    let Some(&(_, target, sizes)) = TARGETS.iter().find(|(sm, ..)| *sm == number) else {
        return Err(ObjectError::Machine(flags));
    };
    let data = |name: &str| {
        let section = file.section_by_name(name);
        section.and_then(|section| section.data().ok())
    };
    let of_all = attributes(data(".nv.info").unwrap_or_default());
    let named = |index: u32| {
        let symbol = file.symbol_by_index(SymbolIndex(index as usize)).ok()?;
        symbol.name().ok()
    };
    let mut banks = 0;
    for bank in 1..8 {
        if file
            .section_by_name(&format!(".nv.constant{bank}"))
            .is_some()
        {
            banks |= 1 << bank;
        }
    }
    let mut programs = Vec::new();
    for section in file.sections() {
        let Ok(Some(symbol)) = section.name().map(|name| name.strip_prefix(".text.")) else {
            continue;
        };
        let cut = || ObjectError::Cut(symbol.into());
        let code = section.data().map_err(elf)?;
        let of_this = attributes(data(&format!(".nv.info.{symbol}")).ok_or_else(cut)?);
        let word = |data: &[u8], at| u32::from_le_bytes(part(data, at));
        let half = |data: &[u8], at| u32::from(u16::from_le_bytes(part(data, at)));
        // Those of all programs name theirs.
        let of = |wanted: u8| {
            let mut all = of_all.iter();
            let found = all.find(|(number, _, data)| {
                *number == wanted && named(word(data, 0)) == Some(symbol)
            });
            found.map(|(_, _, data)| word(data, 4))
        };
        let own = |wanted: u8| of_this.iter().find(|(number, ..)| *number == wanted);
        let parameters =
            own(attribute::PARAM_CBANK).map(|(_, _, data)| (half(data, 4), half(data, 6)));
        let barriers = match (own(attribute::NUM_BARRIERS), section.flags()) {
            (Some((_, value, _)), _) => u32::from(*value & 0xFF),
            (None, SectionFlags::Elf { sh_flags }) => (sh_flags >> 20 & 0x7F) as u32,
            (None, _) => 0,
        };
        let shared = file.section_by_name(&format!(".nv.shared.{symbol}"));
        let shared = shared.map_or(0, |section| section.size());
        let reserved = if number >= 90 { SYSTEM_SHARED } else { 0 };
        programs.push(Program {
            symbol: symbol.into(),
            code: code.to_vec(),
            needs: Needs {
                registers: of(attribute::REGCOUNT).ok_or_else(cut)?,
                barriers,
                shared_bytes: u32::try_from(shared.saturating_sub(reserved)).unwrap_or(u32::MAX),
                thread_bytes: of(attribute::MIN_STACK_SIZE).unwrap_or_default(),
                // A program without arguments reads nothing there.
                parameters: parameters.unwrap_or_default(),
                sizes: Some(sizes),
                banks,
            },
        });
    }
    Ok(Cubin { target, programs })
}

#[cfg(test)]
mod tests;
