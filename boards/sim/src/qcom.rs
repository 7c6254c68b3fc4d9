//! Qualcomm's GPUs: Adreno 6xx behind the kernel drivers `kgsl` and `msm`.

mod call;
pub(crate) mod chip;
pub(crate) mod cp;
mod host;
pub(crate) mod iommu;
pub(crate) mod kgsl;
pub(crate) mod memory;
pub(crate) mod msm;
pub(crate) mod options;
mod power;
pub(crate) mod seam;

#[cfg(test)]
mod tests;
