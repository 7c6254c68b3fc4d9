//! The command processor's own accesses. They go to memory past UCHE: packets, signals and what is waited for are where the host
//! sees them, and stores of programs that are still in UCHE are not seen.

use crate::cache::host;
use crate::vm::{AddressSpace, PageFault};

pub(super) fn read_u32(vm: &dyn AddressSpace, address: u64) -> Result<u32, PageFault> {
    let mut bytes = [0; 4];
    host::read(vm, address, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

pub(super) fn read_u64(vm: &dyn AddressSpace, address: u64) -> Result<u64, PageFault> {
    let mut bytes = [0; 8];
    host::read(vm, address, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

pub(super) fn write_u32(vm: &dyn AddressSpace, address: u64, value: u32) -> Result<(), PageFault> {
    host::write(vm, address, &value.to_le_bytes())
}

pub(super) fn write_u64(vm: &dyn AddressSpace, address: u64, value: u64) -> Result<(), PageFault> {
    host::write(vm, address, &value.to_le_bytes())
}

/// Reads as many words as there is room for.
pub(super) fn read_words(
    vm: &dyn AddressSpace,
    address: u64,
    words: &mut [u32],
) -> Result<(), PageFault> {
    let mut bytes = vec![0; 4 * words.len()];
    host::read(vm, address, &mut bytes)?;
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    Ok(())
}
