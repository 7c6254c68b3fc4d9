//! NVIDIA GPUs behind the kernel's `nvidia` and `nvidia-uvm` drivers.
//!
//! The files are those of Linux: `/dev/nvidiactl`, `/dev/nvidiaN`, `/dev/nvidia-uvm`, `/proc/driver/nvidia/version`. The rules
//! are those of NVIDIA's open kernel modules; each check names the function there whose it is.
//!
//! | module | what |
//! |---|---|
//! | [`chip`] | what differs between GPUs |
//! | [`channel`] | a channel's memory, and what an engine needs to know of it |
//! | `host` | a channel's engine: its ring, its pushbuffers, the methods that it executes itself |
//! | `compute`, `qmd` | the compute engine, and what describes a launch |
//! | `copy` | the copy engine |
//! | `semaphore` | what all of them write |

#![allow(dead_code, reason = "the kernel side that calls this comes next")]

use crate::engine::Engine;

pub mod channel;
pub mod chip;
mod compute;
mod copy;
mod host;
mod qmd;
mod semaphore;

pub use channel::{ChannelEngine, ChannelMemory, ChannelRequest, Objects, Userd};

/// Who makes the engines of channels.
pub type Engines = dyn Fn(&ChannelRequest) -> Option<Box<dyn Engine>> + Send;

/// The engine of a channel, from this crate's own. `None`: nobody simulates it.
pub fn engine(request: &ChannelRequest) -> Option<Box<dyn Engine>> {
    Some(Box::new(host::Channel::new(request)?))
}

#[cfg(test)]
mod tests;
