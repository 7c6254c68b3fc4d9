//! What stopped a channel, as a record.

use hcq_nostd::fault::{Access, FaultKind, FaultRecord};
use hcq_uapi::nv;

use super::channel::Channel;
use super::gpu::Gpu;

/// SMs that one question is about at most.
const SMS_AT_ONCE: u32 = 100;
/// Kind of a warp's error; 0 is none.
const WARP_ERROR: u32 = 0xffff;
/// Codes of copy engines' errors: 39 to 41, and those of engines that came later.
const COPY_ERRORS: [std::ops::RangeInclusive<u32>; 4] = [39..=41, 70..=72, 75..=77, 85..=85];
/// `ROBUST_CHANNEL_GR_CLASS_ERROR`: methods that the class does not have.
const CLASS_ERROR: u32 = 69;

/// The first error that the channels' notifiers tell, with what the debugger adds. A channel that was only taken down with
/// another one of its group is no cause.
pub(super) fn look(gpu: &Gpu, channels: &[Channel]) -> Option<FaultRecord> {
    let mut errors = channels
        .iter()
        .enumerate()
        .filter_map(|(index, channel)| Some((index, channel, channel.error()?)));
    let first = errors.next()?;
    let consequence = nv::ROBUST_CHANNEL_PREEMPTIVE_REMOVAL;
    let cause = match first {
        (.., code) if code == consequence => errors
            .find(|(.., code)| *code != consequence)
            .unwrap_or(first),
        _ => first,
    };
    let (index, channel, code) = cause;
    let record = FaultRecord::new(kind(code), u16::try_from(index).unwrap_or(u16::MAX), 0);
    let record = FaultRecord {
        detail: code.into(),
        ..record
    };
    // Only compute channels have a debugger, and it knows of the whole group.
    let debugger = channel
        .debugger()
        .or_else(|| channels.iter().find_map(Channel::debugger));
    Some(match (record.kind, debugger) {
        (FaultKind::Memory, debugger) => memory(gpu, channels, debugger, record),
        (FaultKind::Program, Some(debugger)) => program(gpu, channel, debugger, record),
        _ => record,
    })
}

/// The kind of a code in an error notifier.
fn kind(code: u32) -> FaultKind {
    match code {
        nv::ROBUST_CHANNEL_GR_EXCEPTION => FaultKind::Program,
        nv::ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT => FaultKind::Memory,
        nv::ROBUST_CHANNEL_PBDMA_ERROR | CLASS_ERROR => FaultKind::Command,
        // An engine that was given what it cannot do.
        code if COPY_ERRORS.iter().any(|codes| codes.contains(&code)) => FaultKind::Command,
        _ => FaultKind::Hardware,
    }
}

/// What the MMU has seen.
#[derive(Clone, Copy)]
struct Seen {
    address: u64,
    /// `NV_PFAULT_FAULT_TYPE_*`.
    reason: u32,
    access: Access,
}

impl Seen {
    const fn is_near(&self, address: u64) -> bool {
        // Only the page is told in some places.
        self.address >> 12 == address >> 12
    }
}

/// The address, why, and what it was accessed for. All channels of the group are told of an error; the one that it came from
/// knows more, whichever its engine is. What for, only debuggers say, and only of programs.
fn memory(
    gpu: &Gpu,
    channels: &[Channel],
    debugger: Option<u32>,
    record: FaultRecord,
) -> FaultRecord {
    let code = Some(nv::ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT);
    let own = channels.iter().enumerate();
    let own = own
        .filter(|(_, channel)| channel.error() == code)
        .find_map(|(index, channel)| Some((index, seen_by(gpu, channel)?)));
    let debugged = debugger.map(|debugger| seen_by_programs(gpu, debugger));
    let mut debugged = debugged.into_iter().flatten();
    let (engine, seen) = match own {
        None => match debugged.next() {
            None => return record,
            Some(seen) => (record.engine, seen),
        },
        Some((index, own)) => {
            let same = debugged.find(|seen| seen.is_near(own.address));
            let access = same.map_or(own.access, |seen| seen.access);
            let engine = u16::try_from(index).unwrap_or(u16::MAX);
            (engine, Seen { access, ..own })
        }
    };
    FaultRecord {
        engine,
        access: seen.access,
        address: seen.address,
        detail: record.detail | u64::from(seen.reason) << 32,
        ..record
    }
}

/// What a channel says, which it does once.
fn seen_by(gpu: &Gpu, channel: &Channel) -> Option<Seen> {
    let mut params = nv::NV906F_CTRL_GET_MMU_FAULT_INFO_PARAMS::default();
    let command = nv::NV906F_CTRL_CMD_GET_MMU_FAULT_INFO;
    gpu.root()
        .control(channel.handle(), command, &mut params)
        .ok()?;
    let address = u64::from(params.addrHi) << 32 | u64::from(params.addrLo);
    let [letter, ..] = params.faultString;
    // Address 0 and reason 0, a page directory that is not there, are a fault's, too.
    (address != 0 || params.faultType != 0 || letter != 0).then_some(Seen {
        address,
        reason: params.faultType,
        access: Access::Unknown,
    })
}

/// What a debugger says of programs' accesses, oldest first.
fn seen_by_programs(gpu: &Gpu, debugger: u32) -> impl Iterator<Item = Seen> {
    let mut params = nv::NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS::default();
    let command = nv::NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO;
    let asked = gpu.root().control(debugger, command, &mut params);
    let count = asked.map_or(0, |()| params.count as usize);
    let list = params.mmuFaultInfoList.into_iter().take(count);
    list.map(|entry| Seen {
        address: entry.faultAddress,
        reason: entry.faultType,
        access: access(entry.accessType),
    })
}

/// `NV_PFAULT_ACCESS_TYPE_*`: bit 3 is an access by physical address.
const fn access(kind: u32) -> Access {
    match kind & 7 {
        0 => Access::Read,
        // Atomics, strong and weak, write, too.
        1 | 2 | 4 => Access::Write,
        _ => Access::Unknown,
    }
}

fn program(gpu: &Gpu, channel: &Channel, debugger: u32, record: FaultRecord) -> FaultRecord {
    let sms = gpu.facts().sms();
    let mut start = 0;
    while start < sms {
        let count = (sms - start).min(SMS_AT_ONCE);
        let mut params = Box::new(nv::NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS {
            hTargetChannel: channel.handle(),
            numSMsToRead: count,
            startingSM: start,
            ..Default::default()
        });
        let command = nv::NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES;
        // There are fewer SMs than there may be: beyond the last the answer is a refusal.
        if gpu.root().control(debugger, command, &mut *params).is_err() {
            return record;
        }
        let mut states = params.smErrorStateArray.iter().take(count as usize);
        let found = states.find(|sm| sm.hwwWarpEsr & WARP_ERROR != 0 || sm.hwwGlobalEsr != 0);
        if let Some(sm) = found {
            let error = match sm.hwwWarpEsr & WARP_ERROR {
                0 => sm.hwwGlobalEsr,
                warp => warp,
            };
            return FaultRecord {
                access: Access::Execute,
                address: sm.hwwWarpEsrPc64,
                detail: record.detail | u64::from(error) << 32,
                ..record
            };
        }
        start += count;
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_kinds() {
        for (code, expected) in [
            (13, FaultKind::Program),
            (31, FaultKind::Memory),
            (32, FaultKind::Command),
            (39, FaultKind::Command),
            (69, FaultKind::Command),
            (43, FaultKind::Hardware),
            (79, FaultKind::Hardware),
            (0, FaultKind::Hardware),
        ] {
            assert_eq!(kind(code), expected, "{code}");
        }
    }

    #[test]
    fn accesses_are_told() {
        let told = [0, 1, 2, 3, 4, 8].map(access);
        use Access::{Read, Unknown, Write};
        assert_eq!(told, [Read, Write, Write, Unknown, Write, Read]);
    }
}
