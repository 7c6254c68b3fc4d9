//! Why each wait is there, as data.

use super::scratch::{WaitRec, work_of};
use core::fmt;

/// How two accesses of the same bytes conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Hazard {
    /// The later one reads what the earlier one writes.
    ReadAfterWrite,
    /// The later one writes what the earlier one still reads.
    WriteAfterRead,
    /// Both write.
    WriteAfterWrite,
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadAfterWrite => "read after write",
            Self::WriteAfterRead => "write after read",
            Self::WriteAfterWrite => "write after write",
        })
    }
}

/// Something that a queue waits for, or that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Event {
    /// A device's entry into the graph.
    Entry {
        /// The device.
        device: u16,
    },
    /// A work.
    Work {
        /// Its number in the plan.
        work: u32,
    },
    /// A device's end.
    End {
        /// The device.
        device: u16,
    },
}

/// Why a wait is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Reason {
    /// Both touch these bytes of an allocation; one of possibly several places.
    Bytes {
        /// How.
        hazard: Hazard,
        /// The allocation.
        allocation: u32,
        /// First byte.
        start: u64,
        /// One past the last.
        end: u64,
    },
    /// The two allocations may share bytes.
    Alias {
        /// How.
        hazard: Hazard,
        /// What the earlier work touches.
        earlier: u32,
        /// What the later one touches.
        later: u32,
    },
    /// Memory or a queue of this device, before which the device must have entered the graph.
    Entry {
        /// The device.
        device: u16,
    },
    /// As many works of the queue are in flight as may be.
    InFlight,
    /// The tracker's room was too small to tell whether the two conflict here.
    Capacity {
        /// What the later one touches.
        allocation: u32,
    },
    /// The device's end covers all work of its queues and on its memory.
    End {
        /// The device.
        device: u16,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bytes {
                hazard,
                allocation,
                start,
                end,
            } => write!(f, "{hazard} of {allocation}:{start:#x}..{end:#x}"),
            Self::Alias {
                hazard,
                earlier,
                later,
            } => write!(f, "{hazard} if {later} shares bytes with {earlier}"),
            Self::Entry { device } => write!(f, "device {device} must have entered"),
            Self::InFlight => f.write_str("the queue holds no more in flight"),
            Self::Capacity { allocation } => {
                write!(f, "no room to tell who touched these bytes of {allocation}")
            }
            Self::End { device } => write!(f, "end of device {device}"),
        }
    }
}

/// A wait explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Explained {
    /// Who waits.
    pub waiter: Event,
    /// For what.
    pub waits_for: Event,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} waits for {}: {}",
            self.waiter, self.waits_for, self.reason
        )
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Entry { device } => write!(f, "entry of device {device}"),
            Self::Work { work } => write!(f, "work {work}"),
            Self::End { device } => write!(f, "end of device {device}"),
        }
    }
}

/// A reason's kind, as a record keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Why {
    Capacity,
    WriteAfterRead,
    WriteAfterWrite,
    ReadAfterWrite,
    Entry,
    InFlight,
    End,
}

/// What a record says; `device` is the device of the lane that is waited for.
pub(super) fn explained(w: &WaitRec, device: u16) -> Explained {
    let n = &w.need;
    let narrow = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
    let conflict = |hazard| {
        if n.of == n.from {
            Reason::Bytes {
                hazard,
                allocation: n.of,
                start: n.start,
                end: n.end,
            }
        } else {
            Reason::Alias {
                hazard,
                earlier: n.from,
                later: n.of,
            }
        }
    };
    let is = |why: Why| n.why == why as u32;
    let reason = if is(Why::ReadAfterWrite) {
        conflict(Hazard::ReadAfterWrite)
    } else if is(Why::WriteAfterRead) {
        conflict(Hazard::WriteAfterRead)
    } else if is(Why::WriteAfterWrite) {
        conflict(Hazard::WriteAfterWrite)
    } else if is(Why::Entry) {
        Reason::Entry {
            device: narrow(n.of),
        }
    } else if is(Why::InFlight) {
        Reason::InFlight
    } else if is(Why::End) {
        Reason::End {
            device: narrow(n.of),
        }
    } else {
        Reason::Capacity { allocation: n.of }
    };
    Explained {
        waiter: if w.at_end != 0 {
            Event::End {
                device: narrow(w.waiter),
            }
        } else {
            Event::Work { work: w.waiter }
        },
        waits_for: match work_of(n.token) {
            Some(work) => Event::Work { work },
            None => Event::Entry { device },
        },
        reason,
    }
}
