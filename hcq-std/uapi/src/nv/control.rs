//! Control commands of RM's objects: `ctrl/ctrl*.h`.

use super::bits::bits;
use super::version::Params;
use crate::layout::{constants, structs};

constants! {
    /// Asks a client for a GPU's numbers.
    NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2: u32 = 0x205;
    /// Asks a device for the classes that it has.
    NV0080_CTRL_CMD_GPU_GET_CLASSLIST: u32 = 0x80_0201;
    /// Asks a subdevice for its name for people.
    NV2080_CTRL_CMD_GPU_GET_NAME_STRING: u32 = 0x2080_0110;
    /// Asks a subdevice who may compute on it.
    NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES: u32 = 0x2080_0131;
    /// Asks a subdevice for its unique name.
    NV2080_CTRL_CMD_GPU_GET_GID_INFO: u32 = 0x2080_014a;
    /// Asks a subdevice for the time of its clock.
    NV2080_CTRL_CMD_TIMER_GET_TIME: u32 = 0x2080_0403;
    /// Asks a subdevice for pairs of its time and the host's.
    NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO: u32 = 0x2080_0406;
    /// Asks a subdevice about its compute engine.
    NV2080_CTRL_CMD_GR_GET_INFO: u32 = 0x2080_1201;
    /// Asks a subdevice about its memory.
    NV2080_CTRL_CMD_FB_GET_INFO: u32 = 0x2080_1301;
    /// Lets a group of channels run, or stops it.
    NVA06C_CTRL_CMD_GPFIFO_SCHEDULE: u32 = 0xa06c_0101;
    /// Lets a channel without a group run, or stops it.
    NVA06F_CTRL_CMD_GPFIFO_SCHEDULE: u32 = 0xa06f_0103;
    /// Ties a channel without a group to an engine.
    NVA06F_CTRL_CMD_BIND: u32 = 0xa06f_0104;
    /// Asks a channel for what its doorbell takes.
    NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN: u32 = 0xc36f_0108;
    /// Asks a channel for the fault of the MMU that stopped it, once: the answer is forgotten with that.
    NV906F_CTRL_CMD_GET_MMU_FAULT_INFO: u32 = 0x906f_0106;
    /// Asks a debugger for the errors of all SMs.
    NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES: u32 = 0x83de_030c;
    /// Asks a debugger for faults of the MMU. It knows those of programs only, not of copies and of semaphores.
    NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO: u32 = 0x83de_0328;
    /// Answer of [`NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS`]: anybody.
    NV2080_CTRL_GPU_COMPUTE_MODE_RULES_NONE: u32 = 0;
    /// Answer: one context.
    NV2080_CTRL_GPU_COMPUTE_MODE_RULES_EXCLUSIVE_COMPUTE: u32 = 1;
    /// Answer: nobody.
    NV2080_CTRL_GPU_COMPUTE_MODE_RULES_COMPUTE_PROHIBITED: u32 = 2;
    /// Answer: one process.
    NV2080_CTRL_GPU_COMPUTE_MODE_RULES_EXCLUSIVE_COMPUTE_PROCESS: u32 = 3;
    /// Of [`NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS`]: bytes, not 16-bit letters.
    NV2080_CTRL_GPU_GET_NAME_STRING_FLAGS_TYPE_ASCII: u32 = 0;
    /// Of [`NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT`]: bytes, not text.
    NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY: u32 = 2;
    /// Index of [`NV2080_CTRL_CMD_GR_GET_INFO`]: version of SMs, major in bits 15:8, minor in 7:0.
    NV2080_CTRL_GR_INFO_INDEX_SM_VERSION: u32 = 0xc;
    /// Index of [`NV2080_CTRL_CMD_GR_GET_INFO`]: warps of an SM.
    NV2080_CTRL_GR_INFO_INDEX_MAX_WARPS_PER_SM: u32 = 0xd;
    /// Index of [`NV2080_CTRL_CMD_GR_GET_INFO`]: GPCs at most.
    NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_GPCS: u32 = 0x14;
    /// Index of [`NV2080_CTRL_CMD_GR_GET_INFO`]: TPCs of a GPC at most.
    NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_TPC_PER_GPC: u32 = 0x17;
    /// Index of [`NV2080_CTRL_CMD_GR_GET_INFO`]: SMs of a TPC.
    NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_SM_PER_TPC: u32 = 0x20;
    /// Index of [`NV2080_CTRL_CMD_FB_GET_INFO`]: KiB of the window that the host reaches memory through.
    NV2080_CTRL_FB_INFO_INDEX_BAR1_SIZE: u32 = 0x5;
    /// Index of [`NV2080_CTRL_CMD_FB_GET_INFO`]: KiB of memory.
    NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE: u32 = 0x8;
    /// Index of [`NV2080_CTRL_CMD_FB_GET_INFO`]: KiB of memory that may be allocated.
    NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE: u32 = 0x9;
    /// Index of [`NV2080_CTRL_CMD_FB_GET_INFO`]: KiB of memory that is free.
    NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE: u32 = 0x16;
    /// Of [`NV2080_CTRL_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO_PARAMS`]: the kernel's real time.
    NV2080_TIMER_GPU_CPU_TIME_CPU_CLK_ID_OSTIME: u32 = 1;
    /// Of [`NV2080_CTRL_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO_PARAMS`]: the processor's counter.
    NV2080_TIMER_GPU_CPU_TIME_CPU_CLK_ID_TSC: u32 = 2;
}

bits! {
    /// Of [`NV2080_CTRL_GPU_GET_GID_INFO_PARAMS`].
    NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT = 1:0;
    /// Of [`NV2080_CTRL_GPU_GET_GID_INFO_PARAMS`]: 0 is SHA-1.
    NV2080_GPU_CMD_GPU_GET_GID_FLAGS_TYPE = 2:2;
}

structs! {
    /// Of [`NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2`].
    NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS {
        /// To the kernel: `gpu_id` of the card.
        gpuId: u32,
        /// From the kernel: flags.
        gpuFlags: u32,
        /// From the kernel: its number as a device.
        deviceInstance: u32,
        /// From the kernel: its number in that device.
        subDeviceInstance: u32,
        /// From the kernel: state of linked GPUs.
        sliStatus: u32,
        /// From the kernel: the board's number.
        boardId: u32,
        /// From the kernel: its number in the driver.
        gpuInstance: u32,
        /// From the kernel: the node of its memory, -1 without one.
        numaId: i32,
    }

    /// Of [`NV0080_CTRL_CMD_GPU_GET_CLASSLIST`].
    NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS {
        /// To the kernel: places in the list; 0 asks for how many there are. From the kernel: how many.
        numClasses: u32,
        /// Padding.
        pad: u32,
        /// Address of u32 each.
        classList: u64,
    }

    /// Of [`NV2080_CTRL_CMD_GPU_GET_NAME_STRING`].
    NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS {
        /// `NV2080_CTRL_GPU_GET_NAME_STRING_FLAGS_TYPE_*`.
        gpuNameStringFlags: u32,
        /// From the kernel: the name, 64 letters at most, ends with a zero.
        gpuNameString: [u8; 128],
    }

    /// Of [`NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES`].
    NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS {
        /// From the kernel: `NV2080_CTRL_GPU_COMPUTE_MODE_RULES_*`.
        rules: u32,
    }

    /// Of [`NV2080_CTRL_CMD_GPU_GET_GID_INFO`].
    NV2080_CTRL_GPU_GET_GID_INFO_PARAMS {
        /// 0.
        index: u32,
        /// `NV2080_GPU_CMD_GPU_GET_GID_FLAGS_*`.
        flags: u32,
        /// From the kernel: bytes.
        length: u32,
        /// From the kernel: the name.
        data: [u8; 256],
    }

    /// Of [`NV2080_CTRL_CMD_TIMER_GET_TIME`].
    NV2080_CTRL_TIMER_GET_TIME_PARAMS {
        /// From the kernel: nanoseconds of the clock that semaphores are stamped with.
        time_nsec: u64,
    }

    /// A pair of times.
    NV2080_CTRL_TIMER_GPU_CPU_TIME_SAMPLE {
        /// The host's.
        cpuTime: u64,
        /// The GPU's, nanoseconds.
        gpuTime: u64,
    }

    /// Of [`NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO`].
    NV2080_CTRL_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO_PARAMS {
        /// Which clock of the host.
        cpuClkId: u8,
        /// How many pairs.
        sampleCount: u8,
        /// Padding.
        pad: [u8; 6],
        /// From the kernel: pairs.
        samples: [NV2080_CTRL_TIMER_GPU_CPU_TIME_SAMPLE; 16],
    }

    /// A question and its answer, of several commands.
    NVXXXX_CTRL_XXX_INFO {
        /// What.
        index: u32,
        /// From the kernel: the answer.
        data: u32,
    }

    /// Which compute engine, of a GPU in parts.
    NV0080_CTRL_GR_ROUTE_INFO {
        /// 0: none is said.
        flags: u32,
        /// Padding.
        pad: u32,
        /// Which.
        route: u64,
    }

    /// Of [`NV2080_CTRL_CMD_GR_GET_INFO`].
    NV2080_CTRL_GR_GET_INFO_PARAMS {
        /// How many questions.
        grInfoListSize: u32,
        /// Padding.
        pad: u32,
        /// Address of [`NVXXXX_CTRL_XXX_INFO`] each.
        grInfoList: u64,
        /// Which engine.
        grRouteInfo: NV0080_CTRL_GR_ROUTE_INFO,
    }

    /// Of [`NV2080_CTRL_CMD_FB_GET_INFO`].
    NV2080_CTRL_FB_GET_INFO_PARAMS {
        /// How many questions.
        fbInfoListSize: u32,
        /// Padding.
        pad: u32,
        /// Address of [`NVXXXX_CTRL_XXX_INFO`] each.
        fbInfoList: u64,
    }

    /// Of [`NVA06C_CTRL_CMD_GPFIFO_SCHEDULE`].
    NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS {
        /// Whether it runs.
        bEnable: u8,
        /// Whether the list of what runs is left as it is.
        bSkipSubmit: u8,
        /// From branch 575: whether only the list changes.
        bSkipEnable: u8,
    }

    /// Of [`NVA06F_CTRL_CMD_GPFIFO_SCHEDULE`].
    NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS {
        /// Whether it runs.
        bEnable: u8,
        /// Whether the list of what runs is left as it is.
        bSkipSubmit: u8,
        /// From branch 575: whether only the list changes.
        bSkipEnable: u8,
    }

    /// Of [`NVA06F_CTRL_CMD_BIND`].
    NVA06F_CTRL_BIND_PARAMS {
        /// `NV2080_ENGINE_TYPE_*`.
        engineType: u32,
    }

    /// Of [`NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN`].
    NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS {
        /// From the kernel: what the doorbell takes.
        workSubmitToken: u32,
    }

    /// Of [`NV906F_CTRL_CMD_GET_MMU_FAULT_INFO`].
    NV906F_CTRL_GET_MMU_FAULT_INFO_PARAMS {
        /// From the kernel: the address, high half.
        addrHi: u32,
        /// From the kernel: its low half.
        addrLo: u32,
        /// From the kernel: why, as in [`NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_ENTRY`].
        faultType: u32,
        /// From the kernel: that in words, ends with a zero.
        faultString: [u8; 32],
        /// Padding.
        pad: u32,
        /// From the kernel: the programs that ran, of graphics and, the last, of compute.
        shaderProgramVA: [u64; 7],
    }

    /// Errors of an SM.
    NV83DE_SM_ERROR_STATE_REGISTERS {
        /// Errors of the SM.
        hwwGlobalEsr: u32,
        /// Error of a warp: its kind in bits 15:0, 0 is none.
        hwwWarpEsr: u32,
        /// Where it ran, low half.
        hwwWarpEsrPc: u32,
        /// Which errors of the SM are told.
        hwwGlobalEsrReportMask: u32,
        /// Which errors of warps are told.
        hwwWarpEsrReportMask: u32,
        /// Padding.
        pad: u32,
        /// The address that it used.
        hwwEsrAddr: u64,
        /// Where it ran.
        hwwWarpEsrPc64: u64,
        /// Errors of clusters.
        hwwCgaEsr: u32,
        /// Which of them are told.
        hwwCgaEsrReportMask: u32,
    }

    /// Whether the MMU saw a fault.
    NV83DE_MMU_FAULT_INFO {
        /// Whether it did.
        valid: u8,
        /// Padding.
        pad: [u8; 3],
        /// What it saw.
        faultInfo: u32,
    }

    /// Of [`NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES`].
    NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS {
        /// The channel that is looked at.
        hTargetChannel: u32,
        /// How many SMs, 100 at most.
        numSMsToRead: u32,
        /// From the kernel: one for each.
        smErrorStateArray: [NV83DE_SM_ERROR_STATE_REGISTERS; 100],
        /// From the kernel: the same as `mmuFault`'s.
        mmuFaultInfo: u32,
        /// From the kernel: what the MMU saw.
        mmuFault: NV83DE_MMU_FAULT_INFO,
        /// The first SM.
        startingSM: u32,
    }

    /// A fault of the MMU.
    NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_ENTRY {
        /// The address.
        faultAddress: u64,
        /// Why: 0 is a page directory, 2 a page that is not mapped, and so on.
        faultType: u32,
        /// What for: 0 is a read, 1 a write.
        accessType: u32,
    }

    /// Of [`NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO`].
    NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS {
        /// From the kernel: the last ones.
        mmuFaultInfoList: [NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_ENTRY; 4],
        /// From the kernel: how many.
        count: u32,
        /// Padding.
        pad: u32,
    }
}

macro_rules! params {
    ($($name:ident,)*) => {
        $(impl Params for $name {})*
    };
}

params! {
    NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS,
    NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS,
    NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS,
    NV2080_CTRL_GPU_GET_GID_INFO_PARAMS,
    NV2080_CTRL_TIMER_GET_TIME_PARAMS,
    NV2080_CTRL_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO_PARAMS,
    NV2080_CTRL_GR_GET_INFO_PARAMS,
    NV2080_CTRL_FB_GET_INFO_PARAMS,
    NVA06F_CTRL_BIND_PARAMS,
    NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS,
    NV906F_CTRL_GET_MMU_FAULT_INFO_PARAMS,
    NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS,
    NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS,
}
