//! Groups and channels as the kernel keeps them.

use std::sync::Arc;

use super::channel::{ChannelEngine, Objects, Userd};
use super::memory::{Memory, SpaceId};
use crate::engine::Engine;
use crate::machine::order::Turn;

/// A number of a channel, for as long as the machine lives: what reports and scripts call it.
pub(super) type ChannelId = u32;
/// A number of a group.
pub(super) type GroupId = u32;

/// A group of channels, which share an engine's time and its errors.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) engine: ChannelEngine,
    /// The address space of channels that have no context of their own.
    pub(super) space: Option<SpaceId>,
    /// Its channels may run: `NVA06C_CTRL_CMD_GPFIFO_SCHEDULE`.
    pub(super) enabled: bool,
    /// An error of one of its channels has stopped it for good.
    pub(super) broken: bool,
    /// Whether its channels have contexts that the process made; set by the first.
    pub(super) shares: Option<bool>,
    /// The kernel made it for a channel that has none.
    pub(super) own: bool,
    /// Where errors of its channels are told, if the channel says nothing else.
    pub(super) error: Option<Arc<Memory>>,
    /// The fault of a program that stopped it.
    pub(super) fault: Option<Faulted>,
    /// The error of a warp that stopped it, `hwwWarpEsr`.
    pub(super) sm_error: Option<u32>,
}

/// A fault of the MMU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faulted {
    pub(super) address: u64,
    /// `NV_PFAULT_FAULT_TYPE_*`.
    pub(super) kind: u32,
    /// `NV_PFAULT_ACCESS_TYPE_*`.
    pub(super) access: u32,
}

/// A channel.
pub(super) struct Channel {
    pub(super) gpu: usize,
    pub(super) group: GroupId,
    pub(super) class: u32,
    /// What its doorbell takes.
    pub(super) token: u32,
    pub(super) space: SpaceId,
    pub(super) userd: Userd,
    /// RM made its USERD, which the process may map.
    pub(super) own_userd: Option<Arc<Memory>>,
    pub(super) objects: Objects,
    pub(super) engine: Option<Box<dyn Engine>>,
    pub(super) turn: Turn,
    /// What its context needs is bound: `bIsContextBound`.
    pub(super) bound: bool,
    /// It has stopped for good.
    pub(super) stopped: bool,
    /// `GPPut` as its last ring had it, and how often it was rung.
    pub(super) put: u32,
    pub(super) rings: u32,
    /// Where errors are told.
    pub(super) error: Option<Arc<Memory>>,
    /// The fault that it met with, until somebody asks.
    pub(super) fault: Option<Faulted>,
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel")
            .field("gpu", &self.gpu)
            .field("token", &self.token)
            .field("group", &self.group)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}

impl Channel {
    /// Its token was rung: it may run as far as the host has written by now.
    pub(super) fn ring(&mut self) {
        self.put = self.userd.gp_put();
        self.rings = self.rings.wrapping_add(1);
    }

    /// What its doorbell says: another number after each ring.
    pub(super) fn rung(&self) -> u64 {
        u64::from(self.rings) << 32 | u64::from(self.put)
    }
}
