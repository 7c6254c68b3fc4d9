//! Adreno GPUs through Linux' own driver `msm`, a render node `/dev/dri/renderD*`.
//!
//! [`Device`] is the opened node, [`Bo`](memory::Bo) memory of it, [`Fences`](queue::Fences) a queue. Each owns what it
//! holds and gives it back when it is dropped, so that no path, failing or not, leaves anything behind.
//!
//! The driver differs from [`kgsl`](crate::kgsl) in what the layer above has to know:
//!
//! - It takes no pages of the process: what is adopted for reading is seen by copy queues only, the rest is refused.
//! - A submission names all memory that it uses. Here that is all there is.
//! - When the GPU hangs in a submission, that one is over, and those after it run all the same
//!   ([`Driver::runs_on`](crate::qcom::driver::Driver::runs_on)). Of the reason only the log knows.
//! - Waiting is hanging: a submission that comes no further for half a second, as a rule, is over.
//!
//! Everything is asked through [`System`](crate::seam::System). No packet is known here.

mod advice;
mod device;
mod list;
mod memory;
mod node;
mod queue;

pub(crate) use device::Device;
pub(crate) use list::{candidate, is_loaded, is_there};

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
