//! Why a context failed.

use super::KGSL_IOC_TYPE;
use crate::layout::{constants, flags, structs};

flags! {
    /// What a page fault was.
    PageFaultType: u32 = "KGSL_PAGEFAULT_TYPE_" {
        /// A read.
        READ = 1 << 0;
        /// A write.
        WRITE = 1 << 1;
        /// No memory at the address.
        TRANSLATION = 1 << 2;
        /// Memory that must not be used so.
        PERMISSION = 1 << 3;
        /// The memory system failed.
        EXTERNAL = 1 << 4;
        /// The GPU stands still at it.
        TRANSACTION_STALLED = 1 << 5;
    }
}

constants! {
    /// `type` of [`kgsl_fault`]: none.
    KGSL_FAULT_TYPE_NO_FAULT: u32 = 0;
    /// `type` of [`kgsl_fault`]: [`kgsl_pagefault_report`].
    KGSL_FAULT_TYPE_PAGEFAULT: u32 = 1;
    /// How many types there are.
    KGSL_FAULT_TYPE_MAX: u32 = 2;
    /// `fault_type`: nothing.
    KGSL_PAGEFAULT_TYPE_NONE: u32 = 0;
}

structs! {
    /// A page fault.
    kgsl_pagefault_report {
        /// The address.
        fault_addr: u64,
        /// Zero.
        reserved: [u64; 2],
        /// What it was.
        fault_type: PageFaultType,
        /// Zero.
        __pad: u32,
    }

    /// The faults of one type.
    kgsl_fault {
        /// Pointer to `count` structs of `type`.
        fault: u64,
        /// In and out: one of `KGSL_FAULT_TYPE_*`.
        r#type: u32,
        /// In: room. Out: how many there are.
        count: u32,
        /// Bytes of each.
        size: u32,
        /// Zero.
        padding: u32,
    }

    /// The faults of an invalid context made with [`ContextFlags::FAULT_INFO`](super::ContextFlags), asked for in three calls: the
    /// number of types, how many of each type, and the faults.
    kgsl_fault_report: iowr(KGSL_IOC_TYPE, 0x5E) IOCTL_KGSL_GET_FAULT_REPORT {
        /// Pointer to `faultnents` [`kgsl_fault`]; 0 asks for the number.
        faultlist: u64,
        /// In: room. Out: how many types there are.
        faultnents: u32,
        /// Bytes of each.
        faultsize: u32,
        /// The context.
        context_id: u32,
        /// Zero.
        padding: u32,
    }
}
