//! NVIDIA GPUs behind the kernel's `nvidia` and `nvidia-uvm` drivers.
//!
//! The files are those of Linux: `/dev/nvidiactl`, `/dev/nvidiaN`, `/dev/nvidia-uvm`, `/proc/driver/nvidia/version`. The rules
//! are those of NVIDIA's open kernel modules; each check names the function there whose it is.
//!
//! | module | what |
//! |---|---|
//! | [`chip`] | what differs between GPUs |
//! | [`channel`] | a channel's memory, and what an engine needs to know of it |

#![allow(dead_code, reason = "the kernel side that calls this comes next")]

use crate::engine::Engine;

pub mod channel;
pub mod chip;

pub use channel::{ChannelEngine, ChannelMemory, ChannelRequest, Objects, Userd};

/// Who makes the engines of channels.
pub type Engines = dyn Fn(&ChannelRequest) -> Option<Box<dyn Engine>> + Send;

/// The engine of a channel, from this crate's own. `None`: nobody simulates it.
pub fn engine(_request: &ChannelRequest) -> Option<Box<dyn Engine>> {
    None
}
