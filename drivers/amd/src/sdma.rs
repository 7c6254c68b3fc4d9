//! SDMA: copy engines.

mod version;

pub use version::{Unsupported, Version};
