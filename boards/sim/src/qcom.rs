//! Qualcomm's GPUs: Adreno 6xx behind the kernel driver `kgsl`.

pub(crate) mod chip;
pub(crate) mod cp;
pub(crate) mod iommu;
pub(crate) mod kgsl;
pub(crate) mod memory;
pub(crate) mod options;
pub(crate) mod seam;

#[cfg(test)]
mod tests;
