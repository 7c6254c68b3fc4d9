//! Adreno GPUs through Qualcomm's `kgsl` driver, `/dev/kgsl-3d0`.
//!
//! [`Device`] is the opened node, [`Bo`](memory::Bo) memory of it, [`Timestamps`](context::Timestamps) a context. Each owns
//! what it holds and gives it back when it is dropped, so that no path, failing or not, leaves anything behind.
//!
//! Everything is asked through [`System`](crate::seam::System). No packet is known here.

mod advice;
mod context;
mod device;
mod list;
mod memory;

pub(crate) use device::Device;
pub(crate) use list::{candidate, is_absent, known, on_board};

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
