//! Shared virtual memory: the process's own pages, moved between host and GPUs by the kernel.

use super::AMDKFD_IOCTL_BASE;
use crate::ioctl;
use crate::layout::{constants, flags, structs};

constants! {
    /// `op`: set attributes.
    KFD_IOCTL_SVM_OP_SET_ATTR: u32 = 0;
    /// `op`: ask for attributes.
    KFD_IOCTL_SVM_OP_GET_ATTR: u32 = 1;

    /// A location: system memory; other numbers are a GPU's `gpu_id`.
    KFD_IOCTL_SVM_LOCATION_SYSMEM: u32 = 0;
    /// A location: none, or not the same for the whole range.
    KFD_IOCTL_SVM_LOCATION_UNDEFINED: u32 = 0xffff_ffff;

    /// `type`: where pages should lie.
    KFD_IOCTL_SVM_ATTR_PREFERRED_LOC: u32 = 0;
    /// `type`: where pages should be moved now.
    KFD_IOCTL_SVM_ATTR_PREFETCH_LOC: u32 = 1;
    /// `type`: a GPU may use the range, pages may be moved.
    KFD_IOCTL_SVM_ATTR_ACCESS: u32 = 2;
    /// `type`: a GPU may use the range where its pages are.
    KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE: u32 = 3;
    /// `type`: a GPU may not use the range.
    KFD_IOCTL_SVM_ATTR_NO_ACCESS: u32 = 4;
    /// `type`: set [`SvmFlags`].
    KFD_IOCTL_SVM_ATTR_SET_FLAGS: u32 = 5;
    /// `type`: clear [`SvmFlags`].
    KFD_IOCTL_SVM_ATTR_CLR_FLAGS: u32 = 6;
    /// `type`: binary logarithm of the pages that move together.
    KFD_IOCTL_SVM_ATTR_GRANULARITY: u32 = 7;
}

flags! {
    /// The value of [`KFD_IOCTL_SVM_ATTR_SET_FLAGS`] and [`KFD_IOCTL_SVM_ATTR_CLR_FLAGS`].
    SvmFlags: u32 = "KFD_IOCTL_SVM_FLAG_" {
        /// The host can always use it.
        HOST_ACCESS = 1 << 0;
        /// Fine-grained between all that use it.
        COHERENT = 1 << 1;
        /// Any GPU with direct links is as good as the preferred one.
        HIVE_LOCAL = 1 << 2;
        /// GPUs only read it.
        GPU_RO = 1 << 3;
        /// GPUs may run code from it.
        GPU_EXEC = 1 << 4;
        /// GPUs mostly read it.
        GPU_READ_MOSTLY = 1 << 5;
        /// Always mapped, as if accesses could not be retried.
        GPU_ALWAYS_MAPPED = 1 << 6;
        /// Fine-grained between all, with atomics of device scope; from Linux 6.8.
        EXT_COHERENT = 1 << 7;
    }
}

structs! {
    /// One attribute of a range.
    kfd_ioctl_svm_attribute {
        /// One of `KFD_IOCTL_SVM_ATTR_*`.
        r#type: u32,
        /// By the type.
        value: u32,
    }

    /// Sets or asks for attributes of a range; `nattr` [`kfd_ioctl_svm_attribute`]s follow in memory, and
    /// [`svm_request`] has the request for them.
    kfd_ioctl_svm_args: iowr(AMDKFD_IOCTL_BASE, 0x20) AMDKFD_IOC_SVM {
        /// To the kernel: the first byte.
        start_addr: u64,
        /// To the kernel: bytes.
        size: u64,
        /// To the kernel: one of `KFD_IOCTL_SVM_OP_*`.
        op: u32,
        /// To the kernel: how many attributes follow.
        nattr: u32,
    }
}

/// [`AMDKFD_IOC_SVM`] with room for `nattr` attributes; `None` for more than a request can name (2044).
///
/// ```
/// use hcq_uapi::{ioctl, kfd};
///
/// assert_eq!(kfd::svm_request(0), Some(kfd::AMDKFD_IOC_SVM));
/// assert_eq!(kfd::svm_request(3).map(ioctl::size), Some(24 + 3 * 8));
/// assert_eq!((kfd::svm_request(2044).is_some(), kfd::svm_request(2045)), (true, None));
/// ```
#[must_use]
pub const fn svm_request(nattr: usize) -> Option<u32> {
    let Some(bytes) = nattr.checked_mul(size_of::<kfd_ioctl_svm_attribute>()) else {
        return None;
    };
    match bytes.checked_add(size_of::<kfd_ioctl_svm_args>()) {
        Some(bytes) if bytes <= ioctl::SIZE_MAX => {
            Some(ioctl::iowr(AMDKFD_IOCTL_BASE, 0x20, bytes))
        }
        _ => None,
    }
}
