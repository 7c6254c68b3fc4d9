use elf::abi::STT_OBJECT;
use elf::endian::LittleEndian;
use elf::parse::ParsingIterator;
use elf::string_table::StringTable;
use elf::symbol::Symbol;

use super::{CodeObject, KernelDescriptor, KernelMetadata, LoadError};
use crate::chips::Chip;
use crate::kernel::Kernel;

/// What a kernel's descriptor symbol ends in.
const SUFFIX: &str = ".kd";

/// A kernel in a code object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelSymbol<'d> {
    /// Its name.
    pub name: &'d str,
    /// Its descriptor.
    pub descriptor: KernelDescriptor,
    /// Byte offset of its descriptor in the image.
    pub descriptor_at: u64,
    /// Byte offset of its first instruction in the image.
    pub entry_at: u64,
}

impl KernelSymbol<'_> {
    /// What a launch needs to know, for an image at device address `base`. `metadata` may say how large its groups are at
    /// most.
    ///
    /// # Errors
    /// [`LoadError::Descriptor`], [`LoadError::GroupMemory`].
    pub fn kernel(
        &self,
        chip: &Chip,
        base: u64,
        metadata: Option<&KernelMetadata<'_>>,
    ) -> Result<Kernel, LoadError> {
        let at = |offset| base.checked_add(offset).ok_or(LoadError::Descriptor);
        let mut kernel =
            self.descriptor
                .kernel(chip, at(self.descriptor_at)?, at(self.entry_at)?)?;
        if let Some(metadata) = metadata {
            kernel.kernarg_bytes = kernel.kernarg_bytes.max(metadata.kernarg_segment_size);
            kernel.max_group = kernel
                .max_group
                .min(metadata.max_flat_workgroup_size.max(1));
        }
        Ok(kernel)
    }
}

/// Every kernel of a code object, in the symbol table's order.
#[derive(Debug)]
pub struct Kernels<'c, 'd> {
    object: &'c CodeObject<'d>,
    symbols: Option<ParsingIterator<'d, LittleEndian, Symbol>>,
    names: Option<StringTable<'d>>,
}

impl<'d> Kernels<'_, 'd> {
    /// The next symbol that a kernel's descriptor has, and the kernel's name.
    fn next_symbol(&mut self) -> Option<(&'d str, Symbol)> {
        let names = self.names.as_ref()?;
        self.symbols.as_mut()?.find_map(|symbol| {
            let name = names.get(usize::try_from(symbol.st_name).ok()?).ok()?;
            let name = name.strip_suffix(SUFFIX)?;
            let is_one = symbol.st_symtype() == STT_OBJECT && !symbol.is_undefined();
            is_one.then_some((name, symbol))
        })
    }
}

impl<'d> Iterator for Kernels<'_, 'd> {
    type Item = Result<KernelSymbol<'d>, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (name, symbol) = self.next_symbol()?;
        Some(self.object.symbol(name, &symbol))
    }
}

impl<'d> CodeObject<'d> {
    fn symbol(&self, name: &'d str, symbol: &Symbol) -> Result<KernelSymbol<'d>, LoadError> {
        let bytes = KernelDescriptor::BYTES as u64;
        let at = self
            .place(symbol.st_shndx, symbol.st_value)
            .ok_or(LoadError::Descriptor)?;
        if symbol.st_size != bytes || !at.is_multiple_of(bytes) {
            return Err(LoadError::Descriptor);
        }
        let raw = self.image_bytes(at, bytes).ok_or(LoadError::Descriptor)?;
        let descriptor = KernelDescriptor::parse(raw)?;
        let offset = self.relocated(at + KernelDescriptor::ENTRY as u64)?;
        let offset = offset.unwrap_or(descriptor.kernel_code_entry_byte_offset.cast_unsigned());
        let entry_at = at.wrapping_add(offset);
        // An instruction has four bytes at least.
        self.image_bytes(entry_at, 4).ok_or(LoadError::Descriptor)?;
        Ok(KernelSymbol {
            name,
            descriptor,
            descriptor_at: at,
            entry_at,
        })
    }

    /// Every kernel.
    ///
    /// # Errors
    /// [`LoadError::Elf`] for a symbol table that is not inside the file.
    pub fn kernels(&self) -> Result<Kernels<'_, 'd>, LoadError> {
        let full = self.elf.symbol_table().map_err(|_| LoadError::Elf)?;
        let table = match full {
            Some(table) => Some(table),
            // A stripped executable still has those that can be launched.
            None => self
                .elf
                .dynamic_symbol_table()
                .map_err(|_| LoadError::Elf)?,
        };
        let (symbols, names) = table.map(|(s, n)| (s.iter(), n)).unzip();
        Ok(Kernels {
            object: self,
            symbols,
            names,
        })
    }

    /// The kernel of this name: the one that symbol `<name>.kd` describes.
    ///
    /// # Errors
    /// [`LoadError::NoKernel`], or what is wrong with its descriptor.
    pub fn kernel(&self, name: &str) -> Result<KernelSymbol<'d>, LoadError> {
        let mut kernels = self.kernels()?;
        while let Some((found, symbol)) = kernels.next_symbol() {
            if found == name {
                return self.symbol(found, &symbol);
            }
        }
        Err(LoadError::NoKernel)
    }
}
