//! A kernel of a cubin: what its sections and attributes say of it.

use elf::abi::STT_FUNC;
use elf::section::SectionHeader;
use hcq_nostd::args::{ArgKind, ArgLayout, ArgSlot};

use super::info::{Attributes, id};
use super::{AbiVersion, Cubin, LoadError};
use crate::chips::Chip;
use crate::kernel::{Bank, Kernel, Local, MAX_GROUP, Origin, STACK_RESERVED};
use crate::qmd::CONSTANT_BANKS;

/// What the name of a kernel's code section starts with.
const TEXT: &str = ".text.";
/// Alignment of an argument block, for who allocates one.
const ARGUMENTS_ALIGN: u32 = 256;
/// Compute capability from which on `.nv.shared.*` counts what the system reserves.
const COUNTS_RESERVED: u16 = 90;

/// A kernel of a cubin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CubinKernel<'d> {
    /// Its name.
    pub name: &'d str,
    /// Byte offset of its first instruction in the image.
    pub code_at: u64,
    /// Bytes of its code.
    pub code_bytes: u64,
    /// Registers of a thread.
    pub registers: u32,
    /// Barriers of a group.
    pub barriers: u32,
    /// Bytes of its stack, with those of what it calls.
    pub stack_bytes: u32,
    /// Bytes of shared memory that it declares, with what the system reserves if `counts_reserved`.
    pub shared_bytes: u64,
    /// Whether that counts what the system reserves.
    pub counts_reserved: bool,
    /// Byte offset of its arguments in constant bank 0.
    pub arguments_at: u32,
    /// Bytes of its arguments.
    pub arguments_bytes: u32,
    /// Byte offset in the image and bytes of its constant banks. Bank 0's is where the file has it; a launch's is
    /// elsewhere.
    pub banks: [Option<(u64, u64)>; CONSTANT_BANKS],
    /// Work-items of a group at most, if it says.
    pub max_group: Option<u32>,
    /// The one size of a group that it was compiled for.
    pub block: Option<[u32; 3]>,
    attributes: &'d [u8],
}

impl<'d> CubinKernel<'d> {
    /// What a launch needs to know, for an image at device address `base`.
    ///
    /// # Errors
    /// [`LoadError::Contradiction`] for numbers that no file has.
    pub fn kernel(&self, chip: &Chip, base: u64) -> Result<Kernel, LoadError> {
        let none = |attribute| LoadError::Contradiction { attribute };
        let at = |offset: u64| base.checked_add(offset).ok_or(LoadError::Elf);
        let mut banks = [None; CONSTANT_BANKS];
        for (to, from) in banks.iter_mut().zip(self.banks) {
            if let Some((offset, bytes)) = from {
                *to = Some(Bank {
                    address: at(offset)?,
                    bytes: u32::try_from(bytes).map_err(|_| none(id::PARAM_CBANK))?,
                });
            }
        }
        let reserved = u64::from(chip.shared.reserved);
        let shared = if self.counts_reserved {
            self.shared_bytes.max(reserved)
        } else {
            self.shared_bytes.saturating_add(reserved)
        };
        Ok(Kernel {
            entry: at(self.code_at)?,
            code_bytes: u32::try_from(self.code_bytes).map_err(|_| LoadError::Elf)?,
            registers: self.registers,
            barriers: self.barriers,
            shared_bytes: u32::try_from(shared).unwrap_or(u32::MAX),
            local: Local::High(self.stack_bytes.saturating_add(STACK_RESERVED)),
            banks,
            arguments_at: self.arguments_at,
            max_group: self.max_group.unwrap_or(MAX_GROUP).min(MAX_GROUP),
            block: self.block,
            origin: Origin::Cuda,
        })
    }

    /// Where its arguments lie in constant bank 0. What the file says of one is its size: those of 8 bytes are taken for
    /// addresses, those of 1, 2 and 4 for numbers, and a launch may give either.
    ///
    /// # Errors
    /// [`LoadError::TooManyArguments`] if there are more than slots, [`LoadError::Contradiction`] for arguments that are
    /// not inside, or twice, or missing.
    pub fn layout<'s>(&self, slots: &'s mut [ArgSlot]) -> Result<ArgLayout<'s>, LoadError> {
        let have = slots.len();
        let mut count = 0usize;
        let mut highest = 0usize;
        for slot in slots.iter_mut() {
            *slot = ArgSlot::scalar(0, 0);
        }
        for attribute in Attributes::new(self.attributes) {
            let attribute = attribute?;
            let bad = LoadError::Contradiction {
                attribute: attribute.id,
            };
            // The size has the upper bits of a word, or a word.
            let size = match attribute.id {
                id::KPARAM_INFO => attribute.word(2).map(|word| word >> 18),
                id::KPARAM_INFO_V2 => attribute.word(2),
                _ => continue,
            };
            let (place, size) = attribute.word(1).zip(size).ok_or(bad)?;
            let (ordinal, offset) = ((place & 0xffff) as usize, place >> 16);
            let inside = offset
                .checked_add(size)
                .is_some_and(|end| end <= self.arguments_bytes);
            if size == 0 || !inside {
                return Err(bad);
            }
            count = count.saturating_add(1);
            highest = highest.max(ordinal.saturating_add(1));
            let Some(slot) = slots.get_mut(ordinal) else {
                continue;
            };
            if slot.size != 0 {
                return Err(bad);
            }
            *slot = ArgSlot {
                offset: self.arguments_at.saturating_add(offset),
                size,
                kind: match size {
                    8 => ArgKind::Buffer,
                    1 | 2 | 4 => ArgKind::Scalar,
                    _ => ArgKind::Bytes,
                },
            };
        }
        if highest > have {
            return Err(LoadError::TooManyArguments {
                need: highest,
                have,
            });
        }
        let slots = slots.get(..highest).unwrap_or_default();
        if count != highest || slots.iter().any(|slot| slot.size == 0) {
            let attribute = id::KPARAM_INFO;
            return Err(LoadError::Contradiction { attribute });
        }
        Ok(ArgLayout {
            slots,
            size: self.arguments_at.saturating_add(self.arguments_bytes),
            align: ARGUMENTS_ALIGN,
        })
    }
}

/// Every kernel of a cubin, in the order of their code.
#[derive(Debug)]
pub struct Kernels<'c, 'd> {
    cubin: &'c Cubin<'d>,
    next: usize,
}

impl<'d> Iterator for Kernels<'_, 'd> {
    type Item = Result<CubinKernel<'d>, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (headers, names) = self.cubin.sections().ok()?;
        while let Ok(section) = headers.get(self.next) {
            let index = self.next;
            self.next = index.saturating_add(1);
            let name = names.get(section.sh_name as usize).ok();
            let Some(name) = name.and_then(|name| name.strip_prefix(TEXT)) else {
                continue;
            };
            // Functions that only kernels call have no constant bank for arguments.
            if self.cubin.section([".nv.constant0.", name]).is_some() {
                return Some(self.cubin.read_kernel(name, index, &section));
            }
        }
        None
    }
}

impl<'d> Cubin<'d> {
    /// Every kernel.
    pub const fn kernels(&self) -> Kernels<'_, 'd> {
        Kernels {
            cubin: self,
            next: 0,
        }
    }

    /// The kernel of this name.
    ///
    /// # Errors
    /// [`LoadError::NoKernel`], or another for a kernel whose sections or attributes do not fit together.
    pub fn kernel(&self, name: &str) -> Result<CubinKernel<'d>, LoadError> {
        let (index, section) = self.section([TEXT, name]).ok_or(LoadError::NoKernel)?;
        self.section([".nv.constant0.", name])
            .ok_or(LoadError::NoKernel)?;
        let (_, names) = self.sections()?;
        let own = names.get(section.sh_name as usize).ok();
        let own = own.and_then(|own| own.strip_prefix(TEXT));
        self.read_kernel(own.ok_or(LoadError::NoKernel)?, index, &section)
    }

    fn read_kernel(
        &self,
        name: &'d str,
        text: usize,
        section: &SectionHeader,
    ) -> Result<CubinKernel<'d>, LoadError> {
        let missing = |attribute| LoadError::Missing { attribute };
        let contradiction = |attribute| LoadError::Contradiction { attribute };
        let (symbols, strings) = match self.elf.symbol_table() {
            Ok(Some(tables)) => tables,
            _ => return Err(LoadError::Elf),
        };
        let is_kernel = |index: u32| {
            symbols.get(index as usize).is_ok_and(|s| {
                usize::from(s.st_shndx) == text
                    && s.st_symtype() == STT_FUNC
                    && strings.get(s.st_name as usize).is_ok_and(|own| own == name)
            })
        };
        let contents = |name: [&str; 2]| match self.section(name) {
            Some((index, section)) => self.contents(&section).ok_or(LoadError::Part { index }),
            None => Err(LoadError::Info),
        };
        let of_file = Attributes::new(contents([".nv.info", ""])?);
        let attributes = contents([".nv.info.", name])?;
        let of_kernel = Attributes::new(attributes);

        let registers = of_file
            .of_symbol(id::REGCOUNT, is_kernel)?
            .ok_or(missing(id::REGCOUNT))?;
        let frame = of_file.of_symbol(id::FRAME_SIZE, is_kernel)?;
        let stack = of_file.of_symbol(id::MIN_STACK_SIZE, is_kernel)?;
        let stack_bytes = frame.unwrap_or(0).max(stack.unwrap_or(0));

        let (bank_0, bank_0_section) = self
            .section([".nv.constant0.", name])
            .ok_or(LoadError::NoKernel)?;
        let bad = contradiction(id::PARAM_CBANK);
        let (arguments_at, arguments_bytes) = match of_kernel.find(id::PARAM_CBANK)? {
            Some(parameters) => {
                let (symbol, place) = parameters.word(0).zip(parameters.word(1)).ok_or(bad)?;
                let symbol = symbols.get(symbol as usize).map_err(|_| bad)?;
                if usize::from(symbol.st_shndx) != bank_0 {
                    return Err(bad);
                }
                (place & 0xffff, place >> 16)
            }
            // A kernel without arguments does not say where they are: its bank ends where they would begin.
            None => (u32::try_from(bank_0_section.sh_size).map_err(|_| bad)?, 0),
        };
        if u64::from(arguments_at) + u64::from(arguments_bytes) > bank_0_section.sh_size {
            return Err(bad);
        }
        if let Some(size) = of_kernel.find(id::CBANK_PARAM_SIZE)?
            && size.value() != Some(arguments_bytes)
        {
            return Err(contradiction(id::CBANK_PARAM_SIZE));
        }
        let three = |id: u8| match of_kernel.find(id)? {
            Some(attribute) => attribute.three().map(Some).ok_or(contradiction(id)),
            None => Ok(None),
        };
        let block = three(id::REQNTID)?;
        let max_group = three(id::MAX_THREADS)?.map(|sizes| {
            let product = sizes.iter().fold(1u32, |n, size| n.saturating_mul(*size));
            product.max(1)
        });
        Ok(CubinKernel {
            name,
            code_at: self.place(text).ok_or(LoadError::Part { index: text })?,
            code_bytes: section.sh_size,
            registers,
            barriers: self.barriers(section, of_kernel)?,
            stack_bytes,
            shared_bytes: self
                .section([".nv.shared.", name])
                .map_or(0, |(_, section)| section.sh_size),
            counts_reserved: self.sm() >= COUNTS_RESERVED,
            arguments_at,
            arguments_bytes,
            banks: self.banks(name),
            max_group,
            block,
            attributes,
        })
    }

    /// Barriers of a kernel: an attribute, or up to version 7 also bits 26:20 of its code section's flags.
    fn barriers(
        &self,
        section: &SectionHeader,
        attributes: Attributes<'d>,
    ) -> Result<u32, LoadError> {
        if let Some(attribute) = attributes.find(id::NUM_BARRIERS)? {
            let none = LoadError::Contradiction {
                attribute: id::NUM_BARRIERS,
            };
            return attribute.value().ok_or(none);
        }
        Ok(match self.abi {
            AbiVersion::V7 => (section.sh_flags >> 20 & 0x7f) as u32,
            AbiVersion::V8 => 0,
        })
    }

    /// A kernel's constant banks: the file's, and those of its own.
    fn banks(&self, kernel: &str) -> [Option<(u64, u64)>; CONSTANT_BANKS] {
        let mut banks = [None; CONSTANT_BANKS];
        let Ok((headers, names)) = self.sections() else {
            return banks;
        };
        for part in self.parts() {
            let Ok(section) = headers.get(part.index) else {
                continue;
            };
            let name = names.get(section.sh_name as usize).ok();
            let Some(rest) = name.and_then(|name| name.strip_prefix(".nv.constant")) else {
                continue;
            };
            let (number, of) = rest.split_once('.').unwrap_or((rest, kernel));
            let number = number.parse::<usize>().ok();
            if let Some(bank) = number.and_then(|n| banks.get_mut(n))
                && of == kernel
            {
                *bank = Some((part.at, part.bytes));
            }
        }
        banks
    }
}
