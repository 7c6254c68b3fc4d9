//! AMD GPUs through Linux's `/dev/kfd`.
//!
//! [`Process`] is the kernel's object for this process, [`Node`] what its topology says of a GPU, [`Gpu`] an opened one,
//! [`Bo`] memory of it, [`HwQueue`] a hardware queue. Memory and queues own what they hold and give it back when they are
//! dropped, so that no path, failing or not, leaves anything behind. Only the kernel's own per-process state stays: see
//! [`System::shared`](crate::seam::System::shared).
//!
//! Everything is asked through [`System`](crate::seam::System). No packet is known here.

pub(crate) mod advice;
mod call;
mod clock;
mod event;
mod gpu;
mod list;
mod memory;
mod peer;
mod process;
mod queue;
mod text;
mod topology;

pub(crate) use gpu::Gpu;
pub(crate) use list::candidates;
pub(crate) use memory::{Bo, MemoryRequest, Place};
pub(crate) use process::{Process, Version};
pub(crate) use queue::{HwQueue, NoQueue, QueueRequest, QueueType};
pub(crate) use topology::Node;

#[cfg(test)]
mod fake;
