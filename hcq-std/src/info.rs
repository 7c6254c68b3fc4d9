//! What a device is.

/// Facts of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The name that people know it by.
    pub name: String,
    /// What programs are compiled for: `gfx1100`, or the processor's architecture (`x86_64`).
    pub target: String,
    /// Bytes of its own memory; 0 if it uses the system's.
    pub memory_bytes: u64,
    /// Bytes of its own memory that the host reaches.
    pub visible_memory_bytes: u64,
    /// Compute units, or processors.
    pub compute_units: u32,
    /// Dies that run each launch together; 1 for most.
    pub dies: u32,
    /// Work-items that run in step, for kernels that do not choose.
    pub wave_size: u32,
    /// Bytes of group-local memory of a work-group at most.
    pub local_memory_bytes: u64,
    /// Work-items of a work-group at most; `None` if there is no limit but that of the numbers.
    pub max_group: Option<u32>,
    /// The packets of its compute queues, in the vendor's word: `PM4`, `AQL`.
    pub packets: &'static str,
}
