//! AMD GPUs behind the kernel's `amdgpu` driver.

pub mod chip;
pub mod cp;
pub mod kfd;
pub(crate) mod options;
pub mod sdma;
