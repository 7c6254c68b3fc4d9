//! Faults on purpose: one that a link without an allocator must refuse, one that the count of panics must show.

/// Allocates.
#[cfg(feature = "plant-alloc")]
mod allocates {
    extern crate alloc;

    pub(super) fn boxed(value: u64) -> u64 {
        *core::hint::black_box(alloc::boxed::Box::new(value))
    }
}

/// Panics for some indices.
#[cfg(feature = "plant-panic")]
fn indexed(words: &[u32], index: usize) -> u32 {
    words[index]
}

pub(crate) fn keep() {
    #[cfg(feature = "plant-alloc")]
    crate::keep!(allocates::boxed);
    #[cfg(feature = "plant-panic")]
    crate::keep!(indexed);
}
