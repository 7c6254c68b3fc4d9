//! Single accesses to memory that others see: a model checker's, under `--cfg loom`.
//!
//! The test supplies the memory, so that this crate does not depend on the checker: relaxed cells for the bytes of
//! regions, which may be seen late and out of order unless fences or shared words order them, and atomic words. The
//! launch loop's scattered stores are the only ones that do not come here.

use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use std::sync::OnceLock;

/// The memory of a model. Addresses are those of the real memory, which stays untouched.
pub trait Memory: Send + Sync {
    /// A store to a region.
    fn write(&self, address: usize, bytes: &[u8]);
    /// A load from a region.
    fn read(&self, address: usize, bytes: &mut [u8]);
    /// A load of a shared word.
    fn word_load(&self, address: usize, order: Ordering) -> u64;
    /// A store of a shared word.
    fn word_store(&self, address: usize, value: u64, order: Ordering);
    /// A fence.
    fn fence(&self, order: Ordering);
}

static MEMORY: OnceLock<&'static dyn Memory> = OnceLock::new();

/// Sets the memory for the rest of the process. The first one stays.
pub fn install(memory: &'static dyn Memory) {
    MEMORY.get_or_init(|| memory);
}

fn memory() -> &'static dyn Memory {
    match MEMORY.get() {
        Some(&memory) => memory,
        None => std::process::abort(),
    }
}

pub(super) unsafe fn store<T: Copy + zerocopy::IntoBytes + zerocopy::Immutable>(
    p: NonNull<T>,
    value: T,
) {
    memory().write(p.addr().get(), value.as_bytes());
}

pub(super) unsafe fn load<T: Copy + zerocopy::IntoBytes + zerocopy::FromBytes>(p: NonNull<T>) -> T {
    let mut value = T::new_zeroed();
    memory().read(p.addr().get(), value.as_mut_bytes());
    value
}

pub(super) unsafe fn copy_in(to: NonNull<u8>, bytes: &[u8]) {
    memory().write(to.addr().get(), bytes);
}

pub(super) unsafe fn copy_out(from: NonNull<u8>, bytes: &mut [u8]) {
    memory().read(from.addr().get(), bytes);
}

pub(super) unsafe fn fill(to: NonNull<u8>, len: usize, value: u8) {
    memory().write(to.addr().get(), &std::vec![value; len]);
}

pub(super) unsafe fn word_load(p: NonNull<u64>, order: Ordering) -> u64 {
    memory().word_load(p.addr().get(), order)
}

pub(super) unsafe fn word_store(p: NonNull<u64>, value: u64, order: Ordering) {
    memory().word_store(p.addr().get(), value, order);
}

pub(super) fn fence(order: Ordering) {
    memory().fence(order);
}
