//! Qualcomm's GPUs: Adreno 6xx behind the kernel driver `kgsl`.
#![allow(dead_code, reason = "the machine does not drive it yet")]

pub(crate) mod chip;
pub(crate) mod cp;
pub(crate) mod iommu;
pub(crate) mod memory;
pub(crate) mod seam;
