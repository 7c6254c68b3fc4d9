//! EVENT_WRITE: an event in the pipe.

use hcq_nostd::record::Command;

use super::{body, op, type3};
use crate::malformed::{Malformed, only};

/// An event in the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct EventWrite {
    event: u8,
    index: u8,
}

impl EventWrite {
    /// Words of the packet.
    pub const WORDS: usize = 2;
    /// CS_PARTIAL_FLUSH: holds the queue until its waves have ended.
    pub const CS_PARTIAL_FLUSH: Self = Self { event: 7, index: 4 };

    /// EVENT_TYPE, 6 bits, and EVENT_INDEX, 4 bits; `None` for more.
    pub const fn new(event: u8, index: u8) -> Option<Self> {
        if event < 1 << 6 && index < 1 << 4 {
            Some(Self { event, index })
        } else {
            None
        }
    }

    /// Appends the packet.
    pub fn record(self, c: &mut Command<'_, '_>) {
        let event = u32::from(self.event) | u32::from(self.index) << 8;
        c.words(&[type3::<{ Self::WORDS }>(op::EVENT_WRITE), event]);
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[_, event] = body(words, op::EVENT_WRITE)?;
        only(1, event, 0xf3f)?;
        let [event, index, ..] = event.to_le_bytes();
        Ok(Self { event, index })
    }
}

impl core::fmt::Display for EventWrite {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("EVENT_WRITE EVENT_TYPE=")?;
        match *self {
            Self::CS_PARTIAL_FLUSH => f.write_str("CS_PARTIAL_FLUSH")?,
            Self { event, .. } => write!(f, "{event:#x}")?,
        }
        write!(f, " EVENT_INDEX={}", self.index)
    }
}
