//! The queue's descriptor in memory, `amd_queue_t`, which the packet processor reads.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::chips::Chip;
use crate::scratch::{Scratch, ScratchError};

/// AMD_QUEUE_PROPERTIES_IS_PTR64 and ENABLE_PROFILING.
const PROPERTIES: u32 = 1 << 1 | 1 << 3;

/// `amd_queue_t`: 256 bytes at a 64-byte boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct QueueDescriptor {
    /// hsa_queue, which only hosts read.
    hsa_queue: [u64; 5],
    reserved1: [u32; 4],
    /// write_dispatch_id: packets ever written.
    write_dispatch_id: u64,
    group_segment_aperture_base_hi: u32,
    private_segment_aperture_base_hi: u32,
    max_cu_id: u32,
    max_wave_id: u32,
    max_legacy_doorbell_dispatch_id_plus_1: u64,
    legacy_doorbell_lock: u32,
    reserved2: [u32; 9],
    /// read_dispatch_id: packets ever read.
    read_dispatch_id: u64,
    read_dispatch_id_field_base_byte_offset: u32,
    compute_tmpring_size: u32,
    scratch_resource_descriptor: [u32; 4],
    scratch_backing_memory_location: u64,
    scratch_backing_memory_byte_size: u64,
    scratch_wave64_lane_byte_size: u32,
    queue_properties: u32,
    scratch_last_used_index: u64,
    queue_inactive_signal: u64,
    reserved4: [u64; 6],
    alt_compute_tmpring_size: u32,
    reserved5: u32,
}

const _: () = {
    assert!(size_of::<QueueDescriptor>() == 256);
    assert!(core::mem::offset_of!(QueueDescriptor, write_dispatch_id) == 56);
    assert!(core::mem::offset_of!(QueueDescriptor, max_cu_id) == 72);
    assert!(core::mem::offset_of!(QueueDescriptor, read_dispatch_id) == 128);
    assert!(core::mem::offset_of!(QueueDescriptor, compute_tmpring_size) == 140);
    assert!(core::mem::offset_of!(QueueDescriptor, scratch_backing_memory_location) == 160);
    assert!(core::mem::offset_of!(QueueDescriptor, scratch_wave64_lane_byte_size) == 176);
    assert!(core::mem::offset_of!(QueueDescriptor, queue_inactive_signal) == 192);
    assert!(core::mem::offset_of!(QueueDescriptor, alt_compute_tmpring_size) == 248);
};

/// What a queue's descriptor says about the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Units {
    /// XCCs of the queue.
    pub xccs: u8,
    /// Compute units of an XCC, at least 1.
    pub cus_per_xcc: u32,
    /// Waves of a compute unit, at least 1.
    pub waves_per_cu: u32,
}

impl QueueDescriptor {
    /// Bytes.
    pub const BYTES: usize = size_of::<Self>();
    /// Byte offset of the write index.
    pub const WRITE_DISPATCH_ID: usize = core::mem::offset_of!(Self, write_dispatch_id);
    /// Byte offset of the read index.
    pub const READ_DISPATCH_ID: usize = core::mem::offset_of!(Self, read_dispatch_id);

    /// The descriptor of a new queue with this scratch memory.
    ///
    /// # Errors
    /// [`ScratchError`]: none of a unit, or more scratch memory per XCC than its descriptor counts.
    pub fn new(chip: &Chip, units: Units, scratch: &Scratch) -> Result<Self, ScratchError> {
        let last = |n: Option<u32>| {
            n.and_then(|n| n.checked_sub(1))
                .ok_or(ScratchError::Topology)
        };
        Ok(Self {
            hsa_queue: [0; 5],
            reserved1: [0; 4],
            write_dispatch_id: 0,
            group_segment_aperture_base_hi: 0,
            private_segment_aperture_base_hi: 0,
            max_cu_id: last(units.cus_per_xcc.checked_mul(units.xccs.into()))?,
            max_wave_id: last(Some(units.waves_per_cu))?,
            max_legacy_doorbell_dispatch_id_plus_1: 0,
            legacy_doorbell_lock: 0,
            reserved2: [0; 9],
            read_dispatch_id: 0,
            read_dispatch_id_field_base_byte_offset: Self::READ_DISPATCH_ID as u32,
            compute_tmpring_size: scratch.tmpring_size(),
            scratch_resource_descriptor: scratch.queue_descriptor(chip, units.xccs)?,
            scratch_backing_memory_location: scratch.address(),
            scratch_backing_memory_byte_size: 0,
            scratch_wave64_lane_byte_size: scratch.lane_bytes(),
            queue_properties: PROPERTIES,
            scratch_last_used_index: 0,
            queue_inactive_signal: 0,
            reserved4: [0; 6],
            alt_compute_tmpring_size: 0,
            reserved5: 0,
        })
    }

    /// The same with the upper halves of the apertures' addresses.
    pub const fn with_apertures(mut self, group_hi: u32, private_hi: u32) -> Self {
        self.group_segment_aperture_base_hi = group_hi;
        self.private_segment_aperture_base_hi = private_hi;
        self
    }

    /// The same with the signal that is set when the queue stops for an error.
    pub const fn with_inactive_signal(mut self, signal: u64) -> Self {
        self.queue_inactive_signal = signal;
        self
    }
}
