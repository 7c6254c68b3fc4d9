//! AMD's code objects, as far as it takes to know a program again.
//!
//! Layouts are those of LLVM's `AMDGPUUsage` ("Code Object", "Kernel Descriptor") and `BinaryFormat/ELF.h` (`EF_AMDGPU_*`).

use object::read::elf::ElfFile64;
use object::{
    Endianness, FileFlags, Object as _, ObjectKind, ObjectSection as _, ObjectSymbol as _,
};

/// What is wrong with a code object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// It is no ELF file, or a broken one.
    #[error("not an ELF file: {0}")]
    Elf(String),
    /// It is not linked.
    #[error("not an executable: link it first")]
    NotLinked,
    /// It is for a machine that is not simulated.
    #[error("for a machine that is not simulated: e_flags {0:#x}")]
    Machine(u32),
    /// A program's descriptor or code is not in the file.
    #[error("program `{0}` is not whole")]
    Cut(String),
    /// A program wants arguments in registers before it starts.
    #[error(
        "program `{0}` has its arguments loaded into registers (`kernarg_preload`), which stand-ins do not know"
    )]
    Preload(String),
}

/// Chips by `EF_AMDGPU_MACH`.
static MACHINES: &[(u32, &str)] = &[
    (0x4c, "gfx942"),
    (0x4f, "gfx950"),
    (0x41, "gfx1100"),
    (0x4a, "gfx1151"),
    (0x4e, "gfx1201"),
];

/// What a launch of a program has to agree with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) group_bytes: u32,
    pub(super) private_bytes: u32,
    pub(super) kernarg_bytes: u32,
    pub(super) rsrc1: u32,
    pub(super) rsrc2: u32,
    pub(super) rsrc3: u32,
    pub(super) properties: u16,
}

/// User registers by the bit of `kernel_code_properties` that asks for them, in the order in which they are laid out.
const USER_REGISTERS: [(u16, u32); 7] = [
    (1 << 0, 4), // private segment buffer
    (1 << 1, 2), // dispatch packet
    (1 << 2, 2), // queue
    (1 << 3, 2), // arguments
    (1 << 4, 2), // dispatch id
    (1 << 5, 2), // flat scratch
    (1 << 6, 1), // private segment size
];

impl Descriptor {
    /// `ENABLE_WAVEFRONT_SIZE32`.
    pub(super) const WAVE32: u16 = 1 << 10;

    /// User registers that the program takes.
    pub(super) fn user_registers(&self) -> u32 {
        USER_REGISTERS
            .iter()
            .filter(|(bit, _)| self.properties & bit != 0)
            .map(|(_, count)| count)
            .sum()
    }

    fn register(&self, which: u16) -> Option<u32> {
        if self.properties & which == 0 {
            return None;
        }
        let before = USER_REGISTERS
            .iter()
            .take_while(|(bit, _)| *bit != which)
            .filter(|(bit, _)| self.properties & bit != 0);
        Some(before.map(|(_, count)| count).sum())
    }

    /// The first of two user registers that point to the arguments.
    pub(super) fn kernarg_register(&self) -> Option<u32> {
        self.register(1 << 3)
    }

    /// The first of two user registers that point to the dispatch packet.
    pub(super) fn packet_register(&self) -> Option<u32> {
        self.register(1 << 1)
    }
}

/// A program of a code object.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) symbol: String,
    pub(super) code: Vec<u8>,
    pub(super) descriptor: Descriptor,
}

/// A code object.
#[derive(Clone, Debug)]
pub(super) struct CodeObject {
    pub(super) target: &'static str,
    pub(super) programs: Vec<Program>,
}

/// Reads a linked code object.
pub(super) fn read(bytes: &[u8]) -> Result<CodeObject, ObjectError> {
    let elf = |e: object::Error| ObjectError::Elf(e.to_string());
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(elf)?;
    if file.kind() != ObjectKind::Dynamic {
        return Err(ObjectError::NotLinked);
    }
    let flags = match file.flags() {
        FileFlags::Elf { e_flags, .. } => e_flags,
        _ => 0,
    };
    let Some(&(_, target)) = MACHINES.iter().find(|(mach, _)| *mach == flags & 0xff) else {
        return Err(ObjectError::Machine(flags));
    };
    let at = |address: u64, len: u64| {
        file.sections()
            .find_map(|section| section.data_range(address, len).ok().flatten())
    };
    let mut programs = Vec::new();
    for symbol in file.symbols() {
        let Ok(Some(name)) = symbol.name().map(|n| n.strip_suffix(".kd")) else {
            continue;
        };
        let cut = || ObjectError::Cut(name.into());
        let kd: &[u8; 64] = at(symbol.address(), 64)
            .and_then(|bytes| bytes.first_chunk())
            .ok_or_else(cut)?;
        let word = |at: usize| u32::from_le_bytes(super::part(kd, at));
        let half = |at: usize| u16::from_le_bytes(super::part(kd, at));
        let entry = i64::from_le_bytes(super::part(kd, 16));
        let code = file
            .symbols()
            .find(|s| s.name() == Ok(name))
            .filter(|s| symbol.address().wrapping_add_signed(entry) == s.address())
            .filter(|s| (4..1 << 20).contains(&s.size()))
            .and_then(|s| at(s.address(), s.size()))
            .ok_or_else(cut)?;
        if half(58) != 0 {
            return Err(ObjectError::Preload(name.into()));
        }
        programs.push(Program {
            symbol: name.into(),
            code: code.to_vec(),
            descriptor: Descriptor {
                group_bytes: word(0),
                private_bytes: word(4),
                kernarg_bytes: word(8).min(1 << 16),
                rsrc3: word(44),
                rsrc1: word(48),
                rsrc2: word(52),
                properties: half(56),
            },
        });
    }
    Ok(CodeObject { target, programs })
}
