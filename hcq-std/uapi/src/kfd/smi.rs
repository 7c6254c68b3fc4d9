//! The system management interface: a file whose lines tell what happens to a GPU.

use super::AMDKFD_IOCTL_BASE;
use crate::layout::{constants, structs};

constants! {
    /// No event.
    KFD_SMI_EVENT_NONE: u32 = 0;
    /// A program used memory it must not use: `pid:task`.
    KFD_SMI_EVENT_VMFAULT: u32 = 1;
    /// The clock was lowered because of heat.
    KFD_SMI_EVENT_THERMAL_THROTTLE: u32 = 2;
    /// The GPU will be reset.
    KFD_SMI_EVENT_GPU_PRE_RESET: u32 = 3;
    /// The GPU was reset.
    KFD_SMI_EVENT_GPU_POST_RESET: u32 = 4;
    /// Pages begin to move.
    KFD_SMI_EVENT_MIGRATE_START: u32 = 5;
    /// Pages have moved.
    KFD_SMI_EVENT_MIGRATE_END: u32 = 6;
    /// A missing page is being looked for.
    KFD_SMI_EVENT_PAGE_FAULT_START: u32 = 7;
    /// A missing page was found.
    KFD_SMI_EVENT_PAGE_FAULT_END: u32 = 8;
    /// The process's queues were stopped.
    KFD_SMI_EVENT_QUEUE_EVICTION: u32 = 9;
    /// The process's queues run again.
    KFD_SMI_EVENT_QUEUE_RESTORE: u32 = 10;
    /// Pages were taken away from the GPU.
    KFD_SMI_EVENT_UNMAP_FROM_GPU: u32 = 11;
    /// A process began to use the GPU; from Linux 6.16.
    KFD_SMI_EVENT_PROCESS_START: u32 = 12;
    /// A process no longer uses the GPU; from Linux 6.16.
    KFD_SMI_EVENT_PROCESS_END: u32 = 13;
    /// Events of all processes, not only the caller's; needs the right to administrate the system.
    KFD_SMI_EVENT_ALL_PROCESS: u32 = 64;
    /// The longest line, bytes.
    KFD_SMI_EVENT_MSG_SIZE: u32 = 96;
}

structs! {
    /// Opens the file.
    kfd_ioctl_smi_events_args: iowr(AMDKFD_IOCTL_BASE, 0x1f) AMDKFD_IOC_SMI_EVENTS {
        /// To the kernel: the GPU.
        gpuid: u32,
        /// From the kernel: the file. Writing a u64 of [`kfd_smi_event_mask_from_index`] bits chooses the events.
        anon_fd: u32,
    }
}

/// `KFD_SMI_EVENT_MASK_FROM_INDEX`: the bit of an event, 0 for [`KFD_SMI_EVENT_NONE`] and for numbers past the last bit.
#[must_use]
pub const fn kfd_smi_event_mask_from_index(event: u32) -> u64 {
    match event.checked_sub(1) {
        Some(bit) if bit < u64::BITS => 1 << bit,
        _ => 0,
    }
}
