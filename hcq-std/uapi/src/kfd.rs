//! `/dev/kfd`: Linux's `include/uapi/linux/kfd_ioctl.h`.
