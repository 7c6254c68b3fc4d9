//! Contexts and their timestamps.
//!
//! Each context counts its submissions: 32 bits that roll over, so `a` is at or past `b` when the signed difference
//! `a - b` is not negative.

use super::KGSL_IOC_TYPE;
use crate::layout::{constants, flags, structs};

flags! {
    /// What a context is. The type, the priority and the way of preemption are numbers in it: [`ContextFlags::with_type`] and
    /// its kin.
    ContextFlags: u32 = "KGSL_CONTEXT_" {
        /// Legacy: tile memory is kept.
        SAVE_GMEM = 0x1;
        /// Legacy and set by the kernel: no memory for saved tile memory.
        NO_GMEM_ALLOC = 0x2;
        /// Submissions only.
        SUBMIT_IB_LIST = 0x4;
        /// Submissions only: the kernel switches contexts even if the same context ran before.
        CTX_SWITCH = 0x8;
        /// The first command object of a submission restores the context's state. Kernels demand it of every context.
        PREAMBLE = 0x10;
        /// Legacy.
        TRASH_STATE = 0x20;
        /// The context counts its own timestamps; set by the kernel.
        PER_CONTEXT_TS = 0x40;
        /// The caller chooses timestamps, each later than the one before (`ERANGE`).
        USER_GENERATED_TS = 0x80;
        /// Submissions only.
        END_OF_FRAME = 0x100;
        /// A context that failed is not tried again: its first fault is its end.
        NO_FAULT_TOLERANCE = 0x200;
        /// Submissions only.
        SYNC = 0x400;
        /// Submissions may carry a power constraint.
        PWR_CONSTRAINT = 0x800;
        /// For tests: nothing is executed.
        IFH_NOP = 0x1_0000;
        /// Protected content.
        SECURE = 0x2_0000;
        /// A fault is not dumped.
        NO_SNAPSHOT = 0x4_0000;
        /// Sparse memory.
        SPARSE = 0x8_0000;
        /// The first fault is the context's end, and everything after is refused.
        INVALIDATE_ON_FAULT = 0x1000_0000;
        /// The low-priority compute pipe.
        LPAC = 0x2000_0000;
        /// The kernel keeps the faults' addresses: [`kgsl_fault_report`](super::kgsl_fault_report).
        FAULT_INFO = 0x4000_0000;
    }
}

constants! {
    /// No context.
    KGSL_CONTEXT_INVALID: u32 = 0xffff_ffff;

    /// The bits of the priority: 1 is the highest, 15 the lowest, 0 the kernel's choice.
    KGSL_CONTEXT_PRIORITY_MASK: u32 = 0xf000;
    /// The lowest bit of the priority.
    KGSL_CONTEXT_PRIORITY_SHIFT: u32 = 12;
    /// The kernel's choice.
    KGSL_CONTEXT_PRIORITY_UNDEF: u32 = 0;

    /// The bits of the way of preemption.
    KGSL_CONTEXT_PREEMPT_STYLE_MASK: u32 = 0x0e00_0000;
    /// The lowest bit of the way of preemption.
    KGSL_CONTEXT_PREEMPT_STYLE_SHIFT: u32 = 25;
    /// Preemption as the kernel likes.
    KGSL_CONTEXT_PREEMPT_STYLE_DEFAULT: u32 = 0;
    /// Preemption between submissions.
    KGSL_CONTEXT_PREEMPT_STYLE_RINGBUFFER: u32 = 1;
    /// Preemption inside submissions.
    KGSL_CONTEXT_PREEMPT_STYLE_FINEGRAIN: u32 = 2;

    /// The bits of the type.
    KGSL_CONTEXT_TYPE_MASK: u32 = 0x01f0_0000;
    /// The lowest bit of the type.
    KGSL_CONTEXT_TYPE_SHIFT: u32 = 20;
    /// Type: not said.
    KGSL_CONTEXT_TYPE_ANY: u32 = 0;
    /// Type: OpenGL.
    KGSL_CONTEXT_TYPE_GL: u32 = 1;
    /// Type: OpenCL.
    KGSL_CONTEXT_TYPE_CL: u32 = 2;
    /// Type: the 2D blitter.
    KGSL_CONTEXT_TYPE_C2D: u32 = 3;
    /// Type: RenderScript.
    KGSL_CONTEXT_TYPE_RS: u32 = 4;
    /// Type: Vulkan.
    KGSL_CONTEXT_TYPE_VK: u32 = 5;
    /// Type: unknown.
    KGSL_CONTEXT_TYPE_UNKNOWN: u32 = 0x1e;

    /// Which timestamp: the last commands that began.
    KGSL_TIMESTAMP_CONSUMED: u32 = 1;
    /// Which timestamp: the last commands that ended.
    KGSL_TIMESTAMP_RETIRED: u32 = 2;
    /// Which timestamp: the last commands that were submitted.
    KGSL_TIMESTAMP_QUEUED: u32 = 3;

    /// `type` of an event: a file that is readable when it happened ([`kgsl_timestamp_event_fence`]).
    KGSL_TIMESTAMP_EVENT_FENCE: i32 = 2;
}

impl ContextFlags {
    /// With one of `KGSL_CONTEXT_TYPE_*`; bits without room are cut off.
    #[must_use]
    pub const fn with_type(self, number: u32) -> Self {
        Self::from_bits_retain(
            self.bits() & !KGSL_CONTEXT_TYPE_MASK
                | number << KGSL_CONTEXT_TYPE_SHIFT & KGSL_CONTEXT_TYPE_MASK,
        )
    }

    /// With a priority; bits without room are cut off.
    #[must_use]
    pub const fn with_priority(self, number: u32) -> Self {
        Self::from_bits_retain(
            self.bits() & !KGSL_CONTEXT_PRIORITY_MASK
                | number << KGSL_CONTEXT_PRIORITY_SHIFT & KGSL_CONTEXT_PRIORITY_MASK,
        )
    }

    /// With one of `KGSL_CONTEXT_PREEMPT_STYLE_*`; bits without room are cut off.
    #[must_use]
    pub const fn with_preempt_style(self, number: u32) -> Self {
        Self::from_bits_retain(
            self.bits() & !KGSL_CONTEXT_PREEMPT_STYLE_MASK
                | number << KGSL_CONTEXT_PREEMPT_STYLE_SHIFT & KGSL_CONTEXT_PREEMPT_STYLE_MASK,
        )
    }
}

/// Whether a context that is at timestamp `now` is at or past `then`. Timestamps roll over at 32 bits.
///
/// ```
/// use hcq_uapi::kgsl::timestamp_passed;
///
/// assert!(timestamp_passed(5, 5) && timestamp_passed(6, 5) && !timestamp_passed(5, 6));
/// assert!(timestamp_passed(2, 0xffff_fffe), "rolled over");
/// ```
#[must_use]
pub const fn timestamp_passed(now: u32, then: u32) -> bool {
    now.wrapping_sub(then) as i32 >= 0
}

structs! {
    /// Makes a context.
    kgsl_drawctxt_create: iowr(KGSL_IOC_TYPE, 0x13) IOCTL_KGSL_DRAWCTXT_CREATE {
        /// In: what is wanted. Out: what it is.
        flags: ContextFlags,
        /// From the kernel.
        drawctxt_id: u32,
    }

    /// Ends a context. Its commands that have not begun are dropped; the kernel waits for those that run.
    kgsl_drawctxt_destroy: iow(KGSL_IOC_TYPE, 0x14) IOCTL_KGSL_DRAWCTXT_DESTROY {
        /// The context.
        drawctxt_id: u32,
    }

    /// Waits until a context is at or past a timestamp. `EINVAL`: it was not handed out yet; `ETIMEDOUT`: time is up;
    /// `EDEADLK`: the context failed and is invalid; `ENOENT`: it was destroyed meanwhile.
    kgsl_device_waittimestamp_ctxtid: iow(KGSL_IOC_TYPE, 0x7) IOCTL_KGSL_DEVICE_WAITTIMESTAMP_CTXTID {
        /// The context.
        context_id: u32,
        /// The timestamp.
        timestamp: u32,
        /// Milliseconds; 0, and numbers from 2^31 on: without end.
        timeout: u32,
    }

    /// Reads a context's timestamp.
    kgsl_cmdstream_readtimestamp_ctxtid: iowr(KGSL_IOC_TYPE, 0x16) IOCTL_KGSL_CMDSTREAM_READTIMESTAMP_CTXTID {
        /// The context.
        context_id: u32,
        /// One of `KGSL_TIMESTAMP_*`.
        r#type: u32,
        /// From the kernel.
        timestamp: u32,
    }

    /// Asks for something to happen at a timestamp.
    kgsl_timestamp_event: iowr(KGSL_IOC_TYPE, 0x33) IOCTL_KGSL_TIMESTAMP_EVENT {
        /// One of `KGSL_TIMESTAMP_EVENT_*`.
        r#type: i32,
        /// When.
        timestamp: u32,
        /// Of which context.
        context_id: u32,
        /// Zero.
        hole0: u32,
        /// Pointer to a struct of `type`.
        r#priv: u64,
        /// Its bytes.
        len: u64,
    }

    /// A file that is readable once the timestamp has passed.
    kgsl_timestamp_event_fence {
        /// From the kernel: the file.
        fence_fd: i32,
    }
}
