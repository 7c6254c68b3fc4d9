//! CP_WAIT_FOR_IDLE, CP_WAIT_MEM_WRITES, CP_NOP.

use hcq_nostd::record::{Command, Operand, RecordError};

use super::header::{MAX_BODY, any_body, body, command, type7};
use super::op;
use crate::malformed::Malformed;

/// CP_WAIT_FOR_IDLE: holds the queue until the engine is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WaitForIdle;

impl WaitForIdle {
    /// The packet.
    pub const WORD: u32 = command::<1>(op::WAIT_FOR_IDLE);

    /// Appends the packet.
    pub fn record(self, c: &mut Command<'_, '_>) {
        c.word(Self::WORD);
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        body::<1>(words, op::WAIT_FOR_IDLE).map(|_| Self)
    }
}

/// CP_WAIT_MEM_WRITES: holds the queue until the command processor's own writes to memory are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WaitMemWrites;

impl WaitMemWrites {
    /// The packet.
    pub const WORD: u32 = command::<1>(op::WAIT_MEM_WRITES);

    /// Appends the packet.
    pub fn record(self, c: &mut Command<'_, '_>) {
        c.word(Self::WORD);
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        body::<1>(words, op::WAIT_MEM_WRITES).map(|_| Self)
    }
}

/// CP_NOP: words that are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nop<'w> {
    body: &'w [u32],
}

impl<'w> Nop<'w> {
    /// Skips these words, [`MAX_BODY`] at most.
    ///
    /// # Errors
    /// [`RecordError::Limit`].
    pub const fn new(body: &'w [u32]) -> Result<Self, RecordError> {
        if body.len() > MAX_BODY as usize {
            return Err(RecordError::Limit {
                operand: Operand::Length,
                value: body.len() as u64,
                max: MAX_BODY as u64,
            });
        }
        Ok(Self { body })
    }

    /// The words that are skipped.
    pub const fn body(&self) -> &'w [u32] {
        self.body
    }

    /// Appends the packet.
    pub fn record(&self, c: &mut Command<'_, '_>) {
        // `new` has seen to the length.
        c.word(type7(op::NOP, self.body.len() as u32));
        c.words(self.body);
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &'w [u32]) -> Result<Self, Malformed> {
        let packet = any_body(words, op::NOP)?;
        let body = packet.get(1..).unwrap_or_default();
        Ok(Self { body })
    }
}

impl core::fmt::Display for Nop<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "CP_NOP skips {} words", self.body.len())
    }
}
