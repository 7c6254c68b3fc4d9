//! Events: what the GPU's interrupts and the kernel's reports wake.

use super::AMDKFD_IOCTL_BASE;
use crate::layout::{constants, structs};
use zerocopy::transmute;

constants! {
    /// An engine's interrupt, told apart by the slot it wrote.
    KFD_IOC_EVENT_SIGNAL: u32 = 0;
    /// A GPU came or went.
    KFD_IOC_EVENT_NODECHANGE: u32 = 1;
    /// A GPU's state changed.
    KFD_IOC_EVENT_DEVICESTATECHANGE: u32 = 2;
    /// The GPU hung or was reset; see [`kfd_hsa_hw_exception_data`].
    KFD_IOC_EVENT_HW_EXCEPTION: u32 = 3;
    /// The system told something.
    KFD_IOC_EVENT_SYSTEM_EVENT: u32 = 4;
    /// A debugger's event.
    KFD_IOC_EVENT_DEBUG_EVENT: u32 = 5;
    /// A profiler's event.
    KFD_IOC_EVENT_PROFILE_EVENT: u32 = 6;
    /// A queue's event.
    KFD_IOC_EVENT_QUEUE_EVENT: u32 = 7;
    /// A GPU used memory it must not use; see [`kfd_hsa_memory_exception_data`].
    KFD_IOC_EVENT_MEMORY: u32 = 8;

    /// The wait is over because of the events.
    KFD_IOC_WAIT_RESULT_COMPLETE: u32 = 0;
    /// The wait is over because of its limit.
    KFD_IOC_WAIT_RESULT_TIMEOUT: u32 = 1;
    /// The wait failed: an event was destroyed meanwhile.
    KFD_IOC_WAIT_RESULT_FAIL: u32 = 2;

    /// Slots for signal events in one process; the page has a u64 for each.
    KFD_SIGNAL_EVENT_LIMIT: u32 = 4096;

    /// `reset_type`: the whole GPU was reset.
    KFD_HW_EXCEPTION_WHOLE_GPU_RESET: u32 = 0;
    /// `reset_type`: one engine was reset.
    KFD_HW_EXCEPTION_PER_ENGINE_RESET: u32 = 1;
    /// `reset_cause`: the GPU hung.
    KFD_HW_EXCEPTION_GPU_HANG: u32 = 0;
    /// `reset_cause`: memory lost bits.
    KFD_HW_EXCEPTION_ECC: u32 = 1;

    /// `ErrorType`: memory is whole, the access was wrong.
    KFD_MEM_ERR_NO_RAS: u32 = 0;
    /// `ErrorType`: SRAM lost bits.
    KFD_MEM_ERR_SRAM_ECC: u32 = 1;
    /// `ErrorType`: bits known to be lost were used.
    KFD_MEM_ERR_POISON_CONSUMED: u32 = 2;
    /// `ErrorType`: the GPU hung, nobody knows why.
    KFD_MEM_ERR_GPU_HANG: u32 = 3;
}

structs! {
    /// Makes an event.
    kfd_ioctl_create_event_args: iowr(AMDKFD_IOCTL_BASE, 0x08) AMDKFD_IOC_CREATE_EVENT {
        /// To the kernel, in the first request only: the handle of the memory to use as the page of slots, or 0 for
        /// memory of the kernel. From the kernel: then, the offset to map on `/dev/kfd`.
        event_page_offset: u64,
        /// From the kernel: what an engine writes to its slot and sends with its interrupt. Signal events only.
        event_trigger_data: u32,
        /// To the kernel: one of `KFD_IOC_EVENT_*`.
        event_type: u32,
        /// To the kernel: not 0 if a wait that sees the event also resets it.
        auto_reset: u32,
        /// To the kernel: the GPU of the kinds that belong to one.
        node_id: u32,
        /// From the kernel: the event's name in later requests.
        event_id: u32,
        /// From the kernel: the slot in the page, signal events only: the u64 at 8 times this.
        event_slot_index: u32,
    }

    /// Ends an event; who waits for it is told that the wait failed.
    kfd_ioctl_destroy_event_args: iow(AMDKFD_IOCTL_BASE, 0x09) AMDKFD_IOC_DESTROY_EVENT {
        /// To the kernel: the event.
        event_id: u32,
        /// Unused.
        pad: u32,
    }

    /// Signals an event from the host.
    kfd_ioctl_set_event_args: iow(AMDKFD_IOCTL_BASE, 0x0a) AMDKFD_IOC_SET_EVENT {
        /// To the kernel: the event.
        event_id: u32,
        /// Unused.
        pad: u32,
    }

    /// Takes an event's signal back.
    kfd_ioctl_reset_event_args: iow(AMDKFD_IOCTL_BASE, 0x0b) AMDKFD_IOC_RESET_EVENT {
        /// To the kernel: the event.
        event_id: u32,
        /// Unused.
        pad: u32,
    }

    /// Why a page could not be used; more than one may be set.
    kfd_memory_exception_failure {
        /// Not mapped, or not for programs.
        NotPresent: u32,
        /// Written, but read-only.
        ReadOnly: u32,
        /// Run, but not executable.
        NoExecute: u32,
        /// The address is not exact.
        imprecise: u32,
    }

    /// What [`KFD_IOC_EVENT_MEMORY`] tells.
    kfd_hsa_memory_exception_data {
        /// Why.
        failure: kfd_memory_exception_failure,
        /// The page's address.
        va: u64,
        /// The GPU.
        gpu_id: u32,
        /// One of `KFD_MEM_ERR_*`.
        ErrorType: u32,
    }

    /// What [`KFD_IOC_EVENT_HW_EXCEPTION`] tells.
    kfd_hsa_hw_exception_data {
        /// One of `KFD_HW_EXCEPTION_*_RESET`.
        reset_type: u32,
        /// [`KFD_HW_EXCEPTION_GPU_HANG`] or [`KFD_HW_EXCEPTION_ECC`].
        reset_cause: u32,
        /// Not 0 if the GPU's memory is lost.
        memory_lost: u32,
        /// The GPU.
        gpu_id: u32,
    }

    /// How often a signal event was signaled; from version 1.14.
    kfd_hsa_signal_event_data {
        /// To the kernel: the count the caller has seen, 0 for a plain wait: a later signal ends the wait at once.
        /// From the kernel: the count now.
        last_event_age: u64,
    }

    /// One event of a wait. C has a union of three structs where this has [`kfd_event_data_union`].
    kfd_event_data {
        /// What the event tells, by its kind.
        data: kfd_event_data_union,
        /// To the kernel: address of more room, for kinds to come; 0.
        kfd_event_data_ext: u64,
        /// To the kernel: the event.
        event_id: u32,
        /// Unused.
        pad: u32,
    }

    /// The unnamed union at the start of [`kfd_event_data`], as words.
    kfd_event_data_union {
        /// The bytes of the largest of the three; see the methods.
        words: [u64; 4],
    }

    /// Waits for events.
    kfd_ioctl_wait_events_args: iowr(AMDKFD_IOCTL_BASE, 0x0c) AMDKFD_IOC_WAIT_EVENTS {
        /// To the kernel: address of the [`kfd_event_data`] array, read and filled.
        events_ptr: u64,
        /// To the kernel: how many there are.
        num_events: u32,
        /// To the kernel: not 0 to wait for all, 0 for any.
        wait_for_all: u32,
        /// To the kernel: milliseconds; `u32::MAX` waits without a limit, 0 only looks.
        timeout: u32,
        /// From the kernel: one of `KFD_IOC_WAIT_RESULT_*`.
        wait_result: u32,
    }
}

impl kfd_event_data_union {
    /// `memory_exception_data`: of [`KFD_IOC_EVENT_MEMORY`].
    #[must_use]
    pub const fn memory_exception_data(&self) -> kfd_hsa_memory_exception_data {
        transmute!(self.words)
    }

    /// `hw_exception_data`: of [`KFD_IOC_EVENT_HW_EXCEPTION`].
    #[must_use]
    pub const fn hw_exception_data(&self) -> kfd_hsa_hw_exception_data {
        let [first, second, ..] = self.words;
        transmute!([first, second])
    }

    /// `signal_event_data`: of [`KFD_IOC_EVENT_SIGNAL`].
    #[must_use]
    pub const fn signal_event_data(&self) -> kfd_hsa_signal_event_data {
        let [last_event_age, ..] = self.words;
        kfd_hsa_signal_event_data { last_event_age }
    }
}

impl From<kfd_hsa_memory_exception_data> for kfd_event_data_union {
    fn from(data: kfd_hsa_memory_exception_data) -> Self {
        Self {
            words: transmute!(data),
        }
    }
}

impl From<kfd_hsa_hw_exception_data> for kfd_event_data_union {
    fn from(data: kfd_hsa_hw_exception_data) -> Self {
        let [first, second]: [u64; 2] = transmute!(data);
        Self {
            words: [first, second, 0, 0],
        }
    }
}

impl From<kfd_hsa_signal_event_data> for kfd_event_data_union {
    fn from(data: kfd_hsa_signal_event_data) -> Self {
        Self {
            words: [data.last_event_age, 0, 0, 0],
        }
    }
}
