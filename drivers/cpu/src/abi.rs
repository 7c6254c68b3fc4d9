//! What a kernel is called with.
//!
//! A kernel is a C function, called once per work-group; the work-items inside are the kernel's own loop. The same
//! layouts stand in `include/hcq.h` ([`HCQ_H`]) for kernels in C.

use core::ffi::c_void;

/// The header for kernels in C, to be written where a compiler finds it as `hcq.h`.
pub const HCQ_H: &str = include_str!("../include/hcq.h");

/// One work-group: `struct hcq_group` of `hcq.h`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Group {
    /// This group's number, x, y, z.
    pub group: [u32; 3],
    /// Number of groups, x, y, z.
    pub groups: [u32; 3],
    /// Work-items per group, x, y, z.
    pub local: [u32; 3],
    /// Bytes at `local_memory`.
    pub local_size: u32,
    /// Group-local memory, 64-byte aligned, its contents undefined at the start; null if there is none.
    pub local_memory: *mut c_void,
    /// Zero.
    pub reserved: u64,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(
    size_of::<Group>() == 56
        && core::mem::offset_of!(Group, local_size) == 36
        && core::mem::offset_of!(Group, local_memory) == 40
);

/// A kernel: `void kernel(const void *args, const struct hcq_group *group)`.
pub type KernelFn = unsafe extern "C" fn(args: *const c_void, group: *const Group);
