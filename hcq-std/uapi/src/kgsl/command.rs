//! Submissions.

use super::KGSL_IOC_TYPE;
use crate::layout::{constants, flags, structs};

flags! {
    /// How a submission is run.
    CmdbatchFlags: u64 = "KGSL_CMDBATCH_" {
        /// Legacy: command objects may be memory objects.
        MEMLIST = 0x1;
        /// No commands: only a timestamp, in order.
        MARKER = 0x2;
        /// Legacy.
        SUBMIT_IB_LIST = 0x4;
        /// The kernel switches contexts even if the same context ran before.
        CTX_SWITCH = 0x8;
        /// The kernel writes times into the memory object with [`CmdFlags::OBJLIST_PROFILE`].
        PROFILING = 0x10;
        /// Those times are the host's clock.
        PROFILING_KTIME = 0x20;
        /// A frame ends.
        END_OF_FRAME = 0x100;
        /// No commands: only sync points that later submissions wait for.
        SYNC = 0x400;
        /// The context's power constraint holds from here on.
        PWR_CONSTRAINT = 0x800;
        /// Sparse memory.
        SPARSE = 0x1000;
        /// A recurring submission begins.
        START_RECURRING = 0x10_0000;
        /// A recurring submission ends.
        STOP_RECURRING = 0x20_0000;
    }

    /// What an entry of a submission's lists is.
    CmdFlags: u32 = "KGSL_" {
        /// Commands: an indirect buffer.
        CMDLIST_IB = 0x1;
        /// Commands: run when contexts switch.
        CMDLIST_CTXTSWITCH_PREAMBLE = 0x2;
        /// Commands: run when the submission is resumed.
        CMDLIST_IB_PREAMBLE = 0x4;
        /// Memory: used by the commands.
        OBJLIST_MEMOBJ = 0x8;
        /// Memory: for the kernel's times.
        OBJLIST_PROFILE = 0x10;
    }
}

constants! {
    /// `type` of a sync point: [`kgsl_cmd_syncpoint_timestamp`].
    KGSL_CMD_SYNCPOINT_TYPE_TIMESTAMP: u32 = 0;
    /// `type` of a sync point: [`kgsl_cmd_syncpoint_fence`].
    KGSL_CMD_SYNCPOINT_TYPE_FENCE: u32 = 1;
    /// `type` of a sync point: timelines.
    KGSL_CMD_SYNCPOINT_TYPE_TIMELINE: u32 = 2;
}

structs! {
    /// An entry of a submission's lists.
    kgsl_command_object {
        /// Bytes from the object's start; memory only.
        offset: u64,
        /// The GPU's address; commands: of the first word, a multiple of 4.
        gpuaddr: u64,
        /// Bytes; commands: a multiple of 4, not 0.
        size: u64,
        /// What it is.
        flags: CmdFlags,
        /// The object that it lies in; 0: the kernel finds it by its address.
        id: u32,
    }

    /// What a submission waits for before it runs.
    kgsl_command_syncpoint {
        /// Pointer to a struct of `type`.
        r#priv: u64,
        /// Its bytes.
        size: u64,
        /// One of `KGSL_CMD_SYNCPOINT_TYPE_*`.
        r#type: u32,
        /// Zero.
        hole0: u32,
    }

    /// A timestamp of another context.
    kgsl_cmd_syncpoint_timestamp {
        /// Of which context.
        context_id: u32,
        /// When.
        timestamp: u32,
    }

    /// A file.
    kgsl_cmd_syncpoint_fence {
        /// The file.
        fd: i32,
    }

    /// Submits commands.
    kgsl_gpu_command: iowr(KGSL_IOC_TYPE, 0x4A) IOCTL_KGSL_GPU_COMMAND {
        /// How.
        flags: CmdbatchFlags,
        /// Pointer to `numcmds` [`kgsl_command_object`].
        cmdlist: u64,
        /// Bytes of each.
        cmdsize: u32,
        /// How many.
        numcmds: u32,
        /// Pointer to `numobjs` [`kgsl_command_object`].
        objlist: u64,
        /// Bytes of each.
        objsize: u32,
        /// How many.
        numobjs: u32,
        /// Pointer to `numsyncs` [`kgsl_command_syncpoint`].
        synclist: u64,
        /// Bytes of each.
        syncsize: u32,
        /// How many.
        numsyncs: u32,
        /// The context.
        context_id: u32,
        /// In: with [`ContextFlags::USER_GENERATED_TS`](super::ContextFlags), the submission's timestamp. Out: its timestamp.
        timestamp: u32,
    }
}
