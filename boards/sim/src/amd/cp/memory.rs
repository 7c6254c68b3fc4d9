//! The command processor's own accesses. They go to memory, past the caches of the XCCs: packets, pointers, semaphores and
//! signals are where the host and the copy engines see them, and stores of programs that are still in an L2 are not seen.
#![allow(
    unsafe_code,
    reason = "atomics on simulated memory, which is reached by address"
)]

use std::sync::atomic::{AtomicU64, Ordering};

use crate::cache::host;
use crate::vm::{AddressSpace, Need, PageFault, PageFaultReason};

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

/// Reads `N` words.
pub(super) fn read_words<const N: usize>(
    vm: &dyn AddressSpace,
    address: u64,
) -> Result<[u32; N], PageFault> {
    let mut words = [0; N];
    read_into(vm, address, &mut words)?;
    Ok(words)
}

/// Reads as many words as there is room for.
pub(super) fn read_into(
    vm: &dyn AddressSpace,
    address: u64,
    words: &mut [u32],
) -> Result<(), PageFault> {
    for (at, word) in (0..).zip(words) {
        *word = read_u32(vm, address.wrapping_add(4 * at))?;
    }
    Ok(())
}

/// Subtracts one from a 64-bit value in memory, as one access.
pub(super) fn decrement(vm: &dyn AddressSpace, address: u64) -> Result<(), PageFault> {
    let missing = PageFault {
        address,
        need: Need::Write,
        reason: PageFaultReason::NotPresent,
    };
    let extent = vm.translate(address, 8, Need::Write)?;
    let host = extent.host.cast::<u64>();
    if extent.len < 8 || !host.is_aligned() {
        return Err(missing);
    }
    // SAFETY: the page tables promise `extent.len` >= 8 live bytes at `extent.host`, it is aligned for 8, and all who share
    // this memory use atomic or volatile accesses.
    let value = unsafe { AtomicU64::from_ptr(host.as_ptr()) };
    // ORDER: release, so that a host thread that reads the new value sees what was written before.
    value.fetch_sub(1, Ordering::AcqRel);
    Ok(())
}
