//! Memory that a device sees, and the `unsafe` operations of this crate. (The launch loop in `patch` relies on offsets
//! that were checked when its table was built; it is the only other room, and calls into this one.)
//!
//! Two kinds of memory, told apart by type:
//!
//! - [`Region`]: bytes that one owner on this side stores to: command words, kernel arguments, descriptors. Stores are
//!   volatile, so that they happen once, in full width, and nothing reads the memory back (it may be write-combined).
//! - [`SharedWord`]: one 64-bit word that devices and hosts access at any time: a signal's value, a ring's put and get.
//!   Accesses are atomic.
//!
//! # The rules
//!
//! - **M1** Whoever makes a region with [`Region::new`] promises that its bytes are mapped, writable and stay so for the
//!   lifetime.
//! - **M2** Nobody else on the host side stores to a region's bytes meanwhile, except in an order that signals or ring
//!   pointers establish. What a device does with them is ordered by the doorbell and the completion signal alone.
//! - **M3** No reference is ever made to these bytes; all access goes through the functions here.
//!
//! # Fences
//!
//! [`publish_fence`] stands between the last store of a command and the store that tells the device about it (an index,
//! a packet header, a doorbell). [`consume_fence`] stands between seeing a completion and reading what it covers.
#![allow(unsafe_code, reason = "this is the room for it")]

#[cfg(not(loom))]
mod access;
#[cfg(loom)]
pub mod model;
mod region;
mod shared;

#[cfg(loom)]
use model as access;

pub(crate) use region::scatter;
pub use region::{AccessError, Region};
pub use shared::{SharedWord, SharedWords};

/// Orders all earlier stores, write-combined ones included, before all later ones, as any device observes them.
///
/// Pairs with the device's read of the index, header or doorbell that is stored next; a device that is a thread of this
/// host pairs with its acquiring load of that word.
#[inline]
pub fn publish_fence() {
    // A compiler and CPU release for devices that are threads.
    access::fence(core::sync::atomic::Ordering::Release);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: `sfence` has no operands and only orders stores; without it write-combined stores may pass the doorbell.
    unsafe {
        core::arch::asm!("sfence", options(nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: `dmb oshst` has no operands and only orders stores, for observers in the outer shareable domain (devices).
    unsafe {
        core::arch::asm!("dmb oshst", options(nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "riscv64", not(miri)))]
    // SAFETY: `fence ow, ow` has no operands and only orders memory and I/O stores.
    unsafe {
        core::arch::asm!("fence ow, ow", options(nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "arm", not(miri)))]
    // SAFETY: `dmb` has no operands and only orders memory accesses.
    unsafe {
        core::arch::asm!("dmb sy", options(nostack, preserves_flags));
    }
}

/// Orders a load that saw a completion before the loads of what it covers. Pairs with the device's write of the signal
/// after its data.
#[inline]
pub fn consume_fence() {
    access::fence(core::sync::atomic::Ordering::Acquire);
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: `dmb oshld` has no operands and only orders loads.
    unsafe {
        core::arch::asm!("dmb oshld", options(nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "riscv64", not(miri)))]
    // SAFETY: `fence ir, ir` has no operands and only orders memory and I/O loads.
    unsafe {
        core::arch::asm!("fence ir, ir", options(nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "arm", not(miri)))]
    // SAFETY: `dmb` has no operands and only orders memory accesses.
    unsafe {
        core::arch::asm!("dmb sy", options(nostack, preserves_flags));
    }
}

#[cfg(test)]
mod tests;
