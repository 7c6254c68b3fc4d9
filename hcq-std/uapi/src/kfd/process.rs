//! The process and its GPUs: versions, address space, clocks, caches, the debugger.

use super::AMDKFD_IOCTL_BASE;
use crate::layout::{constants, flags, structs};

constants! {
    /// The interface's major version of these structs.
    KFD_IOCTL_MAJOR_VERSION: u32 = 1;
    /// The interface's minor version of these structs.
    KFD_IOCTL_MINOR_VERSION: u32 = 22;

    /// `default_policy`, `alternate_policy`: fine-grained.
    KFD_IOC_CACHE_POLICY_COHERENT: u32 = 0;
    /// `default_policy`, `alternate_policy`: coherent at a program's end.
    KFD_IOC_CACHE_POLICY_NONCOHERENT: u32 = 1;

    /// The GPUs that [`kfd_ioctl_get_process_apertures_args`] has room for.
    NUM_OF_SUPPORTED_GPUS: usize = 7;

    /// No file.
    KFD_INVALID_FD: u32 = 0xffff_ffff;

    /// `mode_mask`: on, for the debugger; without it, off.
    KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK: u32 = 1;
    /// `mode_mask`: the GPU saves the trap registers' state.
    KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK: u32 = 2;

    /// `runtime_state`: off.
    DEBUG_RUNTIME_STATE_DISABLED: u32 = 0;
    /// `runtime_state`: on.
    DEBUG_RUNTIME_STATE_ENABLED: u32 = 1;
    /// `runtime_state`: on, GPUs used by another debugger.
    DEBUG_RUNTIME_STATE_ENABLED_BUSY: u32 = 2;
    /// `runtime_state`: turning on failed.
    DEBUG_RUNTIME_STATE_ENABLED_ERROR: u32 = 3;

    /// No exception.
    EC_NONE: u32 = 0;
    /// Queue: a wave was aborted.
    EC_QUEUE_WAVE_ABORT: u32 = 1;
    /// Queue: a wave ran a trap instruction.
    EC_QUEUE_WAVE_TRAP: u32 = 2;
    /// Queue: a wave computed what it must not.
    EC_QUEUE_WAVE_MATH_ERROR: u32 = 3;
    /// Queue: a wave ran no instruction of this GPU.
    EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION: u32 = 4;
    /// Queue: a wave used memory it must not use.
    EC_QUEUE_WAVE_MEMORY_VIOLATION: u32 = 5;
    /// Queue: a wave used an address outside its apertures.
    EC_QUEUE_WAVE_APERTURE_VIOLATION: u32 = 6;
    /// Queue: a dispatch's number of dimensions.
    EC_QUEUE_PACKET_DISPATCH_DIM_INVALID: u32 = 16;
    /// Queue: a dispatch's local memory.
    EC_QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID: u32 = 17;
    /// Queue: a dispatch's code.
    EC_QUEUE_PACKET_DISPATCH_CODE_INVALID: u32 = 18;
    /// Queue: a packet that has no meaning.
    EC_QUEUE_PACKET_RESERVED: u32 = 19;
    /// Queue: a packet that this GPU does not take.
    EC_QUEUE_PACKET_UNSUPPORTED: u32 = 20;
    /// Queue: a dispatch's work-group size.
    EC_QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID: u32 = 21;
    /// Queue: a dispatch's registers.
    EC_QUEUE_PACKET_DISPATCH_REGISTER_INVALID: u32 = 22;
    /// Queue: a vendor packet that this GPU does not take.
    EC_QUEUE_PACKET_VENDOR_UNSUPPORTED: u32 = 23;
    /// Queue: it could not be stopped.
    EC_QUEUE_PREEMPTION_ERROR: u32 = 30;
    /// Queue: it is new.
    EC_QUEUE_NEW: u32 = 31;
    /// GPU: a queue ended.
    EC_DEVICE_QUEUE_DELETE: u32 = 32;
    /// GPU: memory it must not use.
    EC_DEVICE_MEMORY_VIOLATION: u32 = 33;
    /// GPU: lost bits.
    EC_DEVICE_RAS_ERROR: u32 = 34;
    /// GPU: it stopped for good.
    EC_DEVICE_FATAL_HALT: u32 = 35;
    /// GPU: it is new.
    EC_DEVICE_NEW: u32 = 36;
    /// Process: the runtime turned on or off.
    EC_PROCESS_RUNTIME: u32 = 48;
    /// Process: a GPU is gone.
    EC_PROCESS_DEVICE_REMOVE: u32 = 49;
}

/// `KFD_EC_MASK`: the bit of an `EC_*` code in masks of exceptions, 0 for [`EC_NONE`] and for codes past the last bit.
#[must_use]
pub const fn kfd_ec_mask(code: u32) -> u64 {
    match code.checked_sub(1) {
        Some(bit) if bit < u64::BITS => 1 << bit,
        _ => 0,
    }
}

flags! {
    /// `misc_process_flag` of [`kfd_ioctl_set_memory_policy_args`]; from version 1.18.
    ProcessFlags: u32 = "KFD_PROC_FLAG_" {
        /// Matrix instructions compute with high precision.
        MFMA_HIGH_PRECISION = 1 << 0;
    }
}

structs! {
    /// Asks for the interface's version.
    kfd_ioctl_get_version_args: ior(AMDKFD_IOCTL_BASE, 0x01) AMDKFD_IOC_GET_VERSION {
        /// From the kernel: 1; another number is another interface.
        major_version: u32,
        /// From the kernel: grows with what the interface can do.
        minor_version: u32,
    }

    /// Sets how a GPU caches the process's memory.
    kfd_ioctl_set_memory_policy_args: iow(AMDKFD_IOCTL_BASE, 0x04) AMDKFD_IOC_SET_MEMORY_POLICY {
        /// To the kernel: start of the range with the other policy.
        alternate_aperture_base: u64,
        /// To the kernel: bytes of it.
        alternate_aperture_size: u64,
        /// To the kernel: the GPU.
        gpu_id: u32,
        /// To the kernel: one of `KFD_IOC_CACHE_POLICY_*`, for everything else.
        default_policy: u32,
        /// To the kernel: one of `KFD_IOC_CACHE_POLICY_*`, for the range.
        alternate_policy: u32,
        /// To the kernel: padding before version 1.18.
        misc_process_flag: ProcessFlags,
    }

    /// Reads a GPU's clock and the host's together.
    kfd_ioctl_get_clock_counters_args: iowr(AMDKFD_IOCTL_BASE, 0x05) AMDKFD_IOC_GET_CLOCK_COUNTERS {
        /// From the kernel: ticks of the clock that the GPU's timestamps use.
        gpu_clock_counter: u64,
        /// From the kernel: nanoseconds of `CLOCK_MONOTONIC_RAW`.
        cpu_clock_counter: u64,
        /// From the kernel: nanoseconds of `CLOCK_BOOTTIME`.
        system_clock_counter: u64,
        /// From the kernel: ticks a second of the last one.
        system_clock_freq: u64,
        /// To the kernel: the GPU.
        gpu_id: u32,
        /// Unused.
        pad: u32,
    }

    /// Where a GPU's special ranges lie in the process's addresses. Limits are the last byte.
    kfd_process_device_apertures {
        /// Start of local memory's range.
        lds_base: u64,
        /// End of it.
        lds_limit: u64,
        /// Start of private memory's range.
        scratch_base: u64,
        /// End of it.
        scratch_limit: u64,
        /// Start of what [`kfd_ioctl_alloc_memory_of_gpu_args`](super::kfd_ioctl_alloc_memory_of_gpu_args) takes.
        gpuvm_base: u64,
        /// End of it.
        gpuvm_limit: u64,
        /// The GPU.
        gpu_id: u32,
        /// Unused.
        pad: u32,
    }

    /// Asks for the apertures of up to seven GPUs; [`kfd_ioctl_get_process_apertures_new_args`] has no limit.
    kfd_ioctl_get_process_apertures_args: ior(AMDKFD_IOCTL_BASE, 0x06) AMDKFD_IOC_GET_PROCESS_APERTURES {
        /// From the kernel.
        process_apertures: [kfd_process_device_apertures; NUM_OF_SUPPORTED_GPUS],
        /// From the kernel: how many are filled.
        num_of_nodes: u32,
        /// Unused.
        pad: u32,
    }

    /// Asks for the apertures of all GPUs.
    kfd_ioctl_get_process_apertures_new_args: iowr(AMDKFD_IOCTL_BASE, 0x14) AMDKFD_IOC_GET_PROCESS_APERTURES_NEW {
        /// To the kernel: address of the array to fill.
        kfd_process_device_apertures_ptr: u64,
        /// To the kernel: its room; 0 only counts. From the kernel: how many there are.
        num_of_nodes: u32,
        /// Unused.
        pad: u32,
    }

    /// Sets where private memory lies on GPUs whose packets do not say it.
    kfd_ioctl_set_scratch_backing_va_args: iowr(AMDKFD_IOCTL_BASE, 0x11) AMDKFD_IOC_SET_SCRATCH_BACKING_VA {
        /// To the kernel: the address.
        va_addr: u64,
        /// To the kernel: the GPU.
        gpu_id: u32,
        /// Unused.
        pad: u32,
    }

    /// Asks how a GPU lays out images.
    kfd_ioctl_get_tile_config_args: iowr(AMDKFD_IOCTL_BASE, 0x12) AMDKFD_IOC_GET_TILE_CONFIG {
        /// To the kernel: address of the array of tile modes, u32 each.
        tile_config_ptr: u64,
        /// To the kernel: address of the array of macro tile modes, u32 each.
        macro_tile_config_ptr: u64,
        /// To the kernel: the first array's room. From the kernel: how many are filled.
        num_tile_configs: u32,
        /// To the kernel: the second array's room. From the kernel: how many are filled.
        num_macro_tile_configs: u32,
        /// To the kernel: the GPU.
        gpu_id: u32,
        /// From the kernel: the register `GB_ADDR_CONFIG`.
        gb_addr_config: u32,
        /// From the kernel: memory banks.
        num_banks: u32,
        /// From the kernel: memory ranks.
        num_ranks: u32,
    }

    /// Sets the program that runs when a wave traps.
    kfd_ioctl_set_trap_handler_args: iow(AMDKFD_IOCTL_BASE, 0x13) AMDKFD_IOC_SET_TRAP_HANDLER {
        /// To the kernel: the program's address.
        tba_addr: u64,
        /// To the kernel: its data's address.
        tma_addr: u64,
        /// To the kernel: the GPU.
        gpu_id: u32,
        /// Unused.
        pad: u32,
    }

    /// Gives the process's compute memory of a GPU the address space of an open render node. Once for each GPU.
    kfd_ioctl_acquire_vm_args: iow(AMDKFD_IOCTL_BASE, 0x15) AMDKFD_IOC_ACQUIRE_VM {
        /// To the kernel: the render node's file.
        drm_fd: u32,
        /// To the kernel: the GPU.
        gpu_id: u32,
    }

    /// Sets whether programs retry accesses to missing pages.
    kfd_ioctl_set_xnack_mode_args: iowr(AMDKFD_IOCTL_BASE, 0x21) AMDKFD_IOC_SET_XNACK_MODE {
        /// To the kernel: positive on, 0 off, negative only asks. From the kernel: positive on, 0 off.
        xnack_enabled: i32,
    }

    /// Tells the kernel that a runtime is there; from version 1.13.
    kfd_ioctl_runtime_enable_args: iowr(AMDKFD_IOCTL_BASE, 0x25) AMDKFD_IOC_RUNTIME_ENABLE {
        /// To the kernel: address of what the runtime tells the debugger.
        r_debug: u64,
        /// To the kernel: `KFD_RUNTIME_ENABLE_MODE_*`.
        mode_mask: u32,
        /// From the kernel: unused so far.
        capabilities_mask: u32,
    }

    /// What the kernel tells a debugger of the runtime.
    kfd_runtime_info {
        /// As the runtime gave it.
        r_debug: u64,
        /// One of `DEBUG_RUNTIME_STATE_*`.
        runtime_state: u32,
        /// Not 0 if the trap registers are saved.
        ttmp_setup: u32,
    }
}
