//! What happens when an engine stops: robust channels. The error is told in the notifiers of all channels of the group, none of
//! which runs again.

use hcq_uapi::nv::{
    ROBUST_CHANNEL_CE0_ERROR, ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT, ROBUST_CHANNEL_GR_EXCEPTION,
    ROBUST_CHANNEL_PBDMA_ERROR,
};

use super::Nv;
use super::channel::ChannelEngine;
use super::queue::{ChannelId, Faulted, Group, GroupId};
use crate::engine::{Cause, Fault};
use crate::machine::clock;
use crate::vm::{Need, PageFault, PageFaultReason};

/// `NV_PFAULT_FAULT_TYPE_PTE`, `NV_PFAULT_FAULT_TYPE_RO_VIOLATION` of `dev_fault.h`.
const NOT_MAPPED: u32 = 2;
const READ_ONLY: u32 = 6;
/// `NV_PFAULT_ACCESS_TYPE_*`.
const ACCESS_READ: u32 = 0;
const ACCESS_WRITE: u32 = 1;
/// `OOR_ADDR` of `gf100_mp_warp_error` in nouveau: a thread's address is out of its memory.
const OUT_OF_RANGE: u32 = 0xE;
/// `NvNotification.status` of an error.
const FAILED: u32 = 0xFFFF;
/// Copy engines whose errors follow each other: `ROBUST_CHANNEL_CE_ERROR` of `nverror.h`.
const COPY_ERRORS: [(u32, u32); 4] = [(0, 39), (3, 70), (6, 75), (9, 85)];

fn copy_error(engine: u32) -> u32 {
    let of = |&&(first, _): &&(u32, u32)| first <= engine;
    let (first, code) = COPY_ERRORS
        .iter()
        .rev()
        .find(of)
        .copied()
        .unwrap_or((engine, ROBUST_CHANNEL_CE0_ERROR));
    code + (engine - first)
}

fn faulted(fault: &PageFault) -> Faulted {
    Faulted {
        // Entries of the fault buffer have the page only: `NVC369_BUF_ENTRY_ADDR_LO`.
        address: fault.address & !0xFFF,
        kind: match fault.reason {
            PageFaultReason::NotPresent | PageFaultReason::NoExecute => NOT_MAPPED,
            PageFaultReason::ReadOnly => READ_ONLY,
        },
        access: match fault.need {
            Need::Read | Need::Execute => ACCESS_READ,
            Need::Write => ACCESS_WRITE,
        },
    }
}

impl Faulted {
    /// `kgmmuGetFaultTypeString`.
    pub(super) const fn words(&self) -> &'static str {
        match self.kind {
            READ_ONLY => "FAULT_RO_VIOLATION",
            _ => "FAULT_PTE",
        }
    }
}

impl Nv {
    /// A channel's engine has stopped; `by_program`: it was an access of a program's.
    pub(super) fn fault(&mut self, id: ChannelId, fault: &Fault, by_program: bool) {
        let Some(channel) = self.channels.get_mut(&id) else {
            return;
        };
        let group = channel.group;
        let (gpu, token, class) = (channel.gpu, channel.token, channel.class);
        let Some(state) = self.groups.get_mut(&group) else {
            return;
        };
        let copy = match state.engine {
            ChannelEngine::Copy(engine) => Some(engine),
            ChannelEngine::Graphics => None,
        };
        let code = match &fault.cause {
            Cause::Memory(page) => {
                channel.fault = Some(faulted(page));
                // `kgrctxRecordMmuFault`: of the graphics engine's clients in GPCs only.
                if by_program {
                    state.fault = channel.fault;
                }
                ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT
            }
            Cause::Packet(_) => ROBUST_CHANNEL_PBDMA_ERROR,
            Cause::Launch(_) => copy.map_or(ROBUST_CHANNEL_GR_EXCEPTION, copy_error),
            Cause::Program(_) => {
                state.sm_error = Some(OUT_OF_RANGE);
                ROBUST_CHANNEL_GR_EXCEPTION
            }
        };
        self.report(format!(
            "channel {id} (class {class:#x}, token {token:#x}) of GPU {gpu}: {fault}"
        ));
        self.break_group(group, code);
    }

    /// Stops the channels of a group for good and tells each of its notifiers.
    pub(super) fn break_group(&mut self, group: GroupId, code: u32) {
        let Some(state) = self.groups.get_mut(&group) else {
            return;
        };
        (state.enabled, state.broken) = (false, true);
        let engine = engine_type(state);
        let mut told = None;
        for (&id, channel) in &mut self.channels {
            if channel.group != group || channel.stopped {
                continue;
            }
            channel.stopped = true;
            told = Some(channel.gpu);
            if let Some(notifier) = &channel.error {
                let now = clock::raw_ns();
                let half = |bits: u64| u32::try_from(bits & 0xFFFF_FFFF).unwrap_or(0);
                notifier.put32(0, half(now));
                notifier.put32(4, half(now >> 32));
                notifier.put32(8, code);
                // `info16` and, last, the status: one word.
                notifier.put32(12, FAILED << 16 | engine);
            } else {
                self.reports.push(format!(
                    "channel {id} has no error notifier: nobody was told"
                ));
            }
        }
        if let Some(gpu) = told {
            self.notify_error(gpu, code);
        }
    }

    /// An engine, or somebody's program in it, has broken down: every channel stops.
    pub(super) fn stop_all(&mut self, why: &str) {
        self.report(format!("the engines have stopped: {why}"));
        let groups: Vec<GroupId> = self.groups.keys().copied().collect();
        for group in groups {
            self.break_group(group, ROBUST_CHANNEL_GR_EXCEPTION);
        }
    }
}

/// `NV2080_ENGINE_TYPE_*`.
fn engine_type(group: &Group) -> u32 {
    match group.engine {
        ChannelEngine::Graphics => hcq_uapi::nv::NV2080_ENGINE_TYPE_GRAPHICS,
        ChannelEngine::Copy(copy) => hcq_uapi::nv::NV2080_ENGINE_TYPE_COPY0 + copy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_engines_have_errors_of_their_own() {
        // `ROBUST_CHANNEL_CE0_ERROR` to `CE9_ERROR`.
        let known = [39, 40, 41, 70, 71, 72, 75, 76, 77, 85];
        for (engine, code) in (0..).zip(known) {
            assert_eq!(copy_error(engine), code, "{engine}");
        }
    }
}
