//! Submission: the kernel driver is told where the words are and how many bytes they have.
//!
//! A queue's words lie in memory that the GPU sees, those of a bound queue for as long as it lives, and the kernel driver
//! calls them by reference (`struct kgsl_command_object`, `KGSL_CMDLIST_IB`). It writes a CP_INDIRECT_BUFFER into its ring,
//! whose size field bounds what one object can have.

use hcq_nostd::value::{Fit, Misfit};

use super::indirect_buffer::IndirectBuffer;
use crate::device::ADDRESS_BITS;

/// Why words cannot be submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SubmitError {
    /// There are none, or more than one object calls.
    Length {
        /// How many.
        words: usize,
        /// The most there may be.
        max: u32,
    },
    /// An address that is misaligned or not below 2^49.
    Address(Misfit),
}

impl core::fmt::Display for SubmitError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Length { words, max } => write!(f, "{words} words; one to {max} can be called"),
            Self::Address(m) => write!(f, "{m}"),
        }
    }
}

impl core::error::Error for SubmitError {}

/// Words that the GPU is to run.
///
/// ```
/// use hcq_qcom::pm4::submit::CommandObject;
/// let object = CommandObject::new(0x5_3000_0000, 27)?;
/// assert_eq!((object.address(), object.bytes()), (0x5_3000_0000, 0x6c));
/// assert!(CommandObject::new(0x5_3000_0000, 0).is_err());
/// # Ok::<(), hcq_qcom::pm4::submit::SubmitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CommandObject {
    address: u64,
    bytes: u64,
}

impl CommandObject {
    /// `words` words at a device address.
    ///
    /// # Errors
    /// [`SubmitError`].
    pub fn new(address: u64, words: usize) -> Result<Self, SubmitError> {
        Fit::aligned(ADDRESS_BITS, 2)
            .check(address)
            .map_err(SubmitError::Address)?;
        let length = SubmitError::Length {
            words,
            max: IndirectBuffer::MAX,
        };
        let called = IndirectBuffer::new(address.into(), words).map_err(|_| length)?;
        let bytes = u64::from(called.len()) * 4;
        Ok(Self { address, bytes })
    }

    /// Device address: `gpuaddr`.
    pub const fn address(self) -> u64 {
        self.address
    }

    /// Bytes: `size`.
    pub const fn bytes(self) -> u64 {
        self.bytes
    }
}
