use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::LoadError;
use crate::chips::Chip;
use crate::kernel::{Kernel, LDS_SIZE, MAX_GROUP, Properties, lds_size};

/// The kernel descriptor in a file, `kernel_descriptor_t`: 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct KernelDescriptor {
    /// Bytes of group-local memory.
    pub group_segment_fixed_size: u32,
    /// Bytes of scratch memory per work-item.
    pub private_segment_fixed_size: u32,
    /// Bytes of the argument block; zero if not known.
    pub kernarg_size: u32,
    reserved0: [u8; 4],
    /// From the descriptor to the first instruction, in bytes. Zero in relocatable objects, where a relocation fills it in.
    pub kernel_code_entry_byte_offset: i64,
    reserved1: [u8; 20],
    /// COMPUTE_PGM_RSRC3.
    pub compute_pgm_rsrc3: u32,
    /// COMPUTE_PGM_RSRC1.
    pub compute_pgm_rsrc1: u32,
    /// COMPUTE_PGM_RSRC2, LDS_SIZE zero.
    pub compute_pgm_rsrc2: u32,
    /// [`Properties`].
    pub kernel_code_properties: u16,
    /// How many dwords of arguments are in registers already, and from which on.
    pub kernarg_preload: u16,
    reserved3: [u8; 4],
}

const _: () = {
    assert!(size_of::<KernelDescriptor>() == KernelDescriptor::BYTES);
    assert!(
        core::mem::offset_of!(KernelDescriptor, kernel_code_entry_byte_offset)
            == KernelDescriptor::ENTRY
    );
    assert!(core::mem::offset_of!(KernelDescriptor, compute_pgm_rsrc3) == 44);
    assert!(core::mem::offset_of!(KernelDescriptor, kernel_code_properties) == 56);
};

impl KernelDescriptor {
    /// Bytes, and its alignment.
    pub const BYTES: usize = 64;
    /// Byte offset of the entry's offset.
    pub(super) const ENTRY: usize = 16;

    /// The descriptor in these bytes.
    ///
    /// # Errors
    /// [`LoadError::Descriptor`] for another number of bytes, or properties without a meaning.
    pub fn parse(bytes: &[u8]) -> Result<Self, LoadError> {
        let descriptor = Self::read_from_bytes(bytes).map_err(|_| LoadError::Descriptor)?;
        descriptor.properties().map(|_| descriptor)
    }

    /// Which registers it finds filled in, and its waves' width.
    ///
    /// # Errors
    /// [`LoadError::Descriptor`] for bits without a meaning.
    pub fn properties(&self) -> Result<Properties, LoadError> {
        Properties::from_bits(self.kernel_code_properties).ok_or(LoadError::Descriptor)
    }

    /// What a launch needs to know, for a descriptor and first instruction at these device addresses.
    ///
    /// # Errors
    /// [`LoadError::Descriptor`], [`LoadError::GroupMemory`].
    pub fn kernel(&self, chip: &Chip, object: u64, entry: u64) -> Result<Kernel, LoadError> {
        let bytes = self.group_segment_fixed_size;
        let lds = lds_size(chip.lds, bytes.into()).map_err(|_| LoadError::GroupMemory { bytes })?;
        Ok(Kernel {
            entry,
            object,
            rsrc: [
                self.compute_pgm_rsrc1 | chip.rsrc1_set,
                self.compute_pgm_rsrc2 & !LDS_SIZE | lds,
                self.compute_pgm_rsrc3,
            ],
            properties: self.properties()?,
            group_bytes: bytes,
            private_bytes: self.private_segment_fixed_size,
            kernarg_bytes: self.kernarg_size,
            max_group: MAX_GROUP,
        })
    }
}
