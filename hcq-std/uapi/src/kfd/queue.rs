//! Queues that the process writes itself.

use super::AMDKFD_IOCTL_BASE;
use crate::layout::{constants, structs};

constants! {
    /// A queue of PM4 packets on the compute engine.
    KFD_IOC_QUEUE_TYPE_COMPUTE: u32 = 0x0;
    /// A queue of the copy engine: the kernel chooses one.
    KFD_IOC_QUEUE_TYPE_SDMA: u32 = 0x1;
    /// A queue of AQL packets on the compute engine.
    KFD_IOC_QUEUE_TYPE_COMPUTE_AQL: u32 = 0x2;
    /// A queue of a copy engine that is meant for the links between GPUs.
    KFD_IOC_QUEUE_TYPE_SDMA_XGMI: u32 = 0x3;
    /// A queue of the copy engine in `sdma_engine_id`; from version 1.17.
    KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID: u32 = 0x4;
    /// The largest `queue_percentage`.
    KFD_MAX_QUEUE_PERCENTAGE: u32 = 100;
    /// The largest `queue_priority`.
    KFD_MAX_QUEUE_PRIORITY: u32 = 15;
    /// The smallest ring, bytes. From Linux 6.12; older kernels took smaller ones.
    KFD_MIN_QUEUE_RING_SIZE: u32 = 1024;
}

structs! {
    /// Makes a queue. The ring, the two pointers and the buffers are the caller's memory, mapped to the GPU.
    kfd_ioctl_create_queue_args: iowr(AMDKFD_IOCTL_BASE, 0x02) AMDKFD_IOC_CREATE_QUEUE {
        /// To the kernel: GPU address of the ring, 256-byte aligned.
        ring_base_address: u64,
        /// To the kernel: where the process keeps its write position, a u64.
        write_pointer_address: u64,
        /// To the kernel: where the engine tells its read position, a u64.
        read_pointer_address: u64,
        /// From the kernel: offset to map on `/dev/kfd`, the doorbell's place in that page included.
        doorbell_offset: u64,
        /// To the kernel: bytes, a power of two; 0 is refused for AQL.
        ring_size: u32,
        /// To the kernel: the GPU.
        gpu_id: u32,
        /// To the kernel: one of `KFD_IOC_QUEUE_TYPE_*`.
        queue_type: u32,
        /// To the kernel: share of the engine in percent; 0 makes a queue that does not run. Bits 8 to 15 name the
        /// partition that takes PM4 packets on GPUs with several.
        queue_percentage: u32,
        /// To the kernel: 0 to [`KFD_MAX_QUEUE_PRIORITY`].
        queue_priority: u32,
        /// From the kernel: the queue's name in later requests.
        queue_id: u32,
        /// To the kernel: GPU address of the end-of-pipe buffer; compute queues only.
        eop_buffer_address: u64,
        /// To the kernel: its bytes.
        eop_buffer_size: u64,
        /// To the kernel: GPU address of the area where waves are saved when the queue is preempted.
        ctx_save_restore_address: u64,
        /// To the kernel: its bytes for one partition, without the debugger's part.
        ctx_save_restore_size: u32,
        /// To the kernel: bytes of the control stack at that area's start.
        ctl_stack_size: u32,
        /// To the kernel: the copy engine of [`KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID`]; from version 1.17.
        sdma_engine_id: u32,
        /// To the kernel: bytes of the ring of metadata behind the ring; from version 1.22, padding before.
        metadata_ring_size: u32,
    }

    /// Ends a queue, whatever it still holds.
    kfd_ioctl_destroy_queue_args: iowr(AMDKFD_IOCTL_BASE, 0x03) AMDKFD_IOC_DESTROY_QUEUE {
        /// To the kernel: the queue.
        queue_id: u32,
        /// Unused.
        pad: u32,
    }

    /// Gives a queue another ring, share or priority; a share or a ring of 0 stops it.
    kfd_ioctl_update_queue_args: iow(AMDKFD_IOCTL_BASE, 0x07) AMDKFD_IOC_UPDATE_QUEUE {
        /// To the kernel: GPU address of the ring.
        ring_base_address: u64,
        /// To the kernel: the queue.
        queue_id: u32,
        /// To the kernel: bytes of the ring.
        ring_size: u32,
        /// To the kernel: as in [`kfd_ioctl_create_queue_args`].
        queue_percentage: u32,
        /// To the kernel: as in [`kfd_ioctl_create_queue_args`].
        queue_priority: u32,
    }

    /// Restricts a queue to some compute units.
    kfd_ioctl_set_cu_mask_args: iow(AMDKFD_IOCTL_BASE, 0x1a) AMDKFD_IOC_SET_CU_MASK {
        /// To the kernel: the queue.
        queue_id: u32,
        /// To the kernel: bits of the mask, a multiple of 32.
        num_cu_mask: u32,
        /// To the kernel: address of the mask, u32 words.
        cu_mask_ptr: u64,
    }

    /// Asks what a stopped queue has saved.
    kfd_ioctl_get_queue_wave_state_args: iowr(AMDKFD_IOCTL_BASE, 0x1b) AMDKFD_IOC_GET_QUEUE_WAVE_STATE {
        /// To the kernel: where to copy the control stack.
        ctl_stack_address: u64,
        /// From the kernel: bytes of the control stack in use.
        ctl_stack_used_size: u32,
        /// From the kernel: bytes of the save area in use.
        save_area_used_size: u32,
        /// To the kernel: the queue.
        queue_id: u32,
        /// Unused.
        pad: u32,
    }

    /// Gives a queue slots for synchronizing all of a grid's waves.
    kfd_ioctl_alloc_queue_gws_args: iowr(AMDKFD_IOCTL_BASE, 0x1e) AMDKFD_IOC_ALLOC_QUEUE_GWS {
        /// To the kernel: the queue.
        queue_id: u32,
        /// To the kernel: how many slots; 0 takes them back.
        num_gws: u32,
        /// From the kernel: the first of them.
        first_gws: u32,
        /// Unused.
        pad: u32,
    }

    /// At the start of every partition's context save area; the process writes it before it makes the queue.
    kfd_context_save_area_header {
        /// Written by the kernel when it has stopped the queue.
        wave_state: kfd_context_save_area_wave_state,
        /// To the debugger: bytes from this header to the part that is its own.
        debug_offset: u32,
        /// To the debugger: bytes of that part.
        debug_size: u32,
        /// To the kernel: address of a u64 for the exceptions of this queue, bits of `EC_*` codes.
        err_payload_addr: u64,
        /// To the kernel: the event that it signals then.
        err_event_id: u32,
        /// Unused.
        reserved1: u32,
    }

    /// The unnamed struct at the start of [`kfd_context_save_area_header`].
    kfd_context_save_area_wave_state {
        /// Bytes from the header.
        control_stack_offset: u32,
        /// Bytes.
        control_stack_size: u32,
        /// Bytes from the header.
        wave_state_offset: u32,
        /// Bytes.
        wave_state_size: u32,
    }
}
