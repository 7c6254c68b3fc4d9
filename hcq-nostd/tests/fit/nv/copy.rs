//! The copy engine's channel.

use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{CopyQueue, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Command, NameOperand, Operand, RecordError, Recorder};
use hcq_nostd::value::{Field, Fit, Value};

use super::host::{COPY, Setup, method, poll_bit, setup, wait, write};
use super::qmd::Chip;
use crate::fit::lab::Recording;

// Copy methods.
const SET_SEMAPHORE_A: u32 = 0x240;
const LAUNCH_DMA: u32 = 0x300;
const OFFSET_IN_UPPER: u32 = 0x400;
const LINE_LENGTH_IN: u32 = 0x418;

// LAUNCH_DMA.
const TRANSFER_NON_PIPELINED: u32 = 2;
const FLUSH_ENABLE: u32 = 1 << 2;
const SEMAPHORE_FOUR_WORDS: u32 = 2 << 3;
const SRC_PITCH: u32 = 1 << 7;
const DST_PITCH: u32 = 1 << 8;

/// Bytes that one LAUNCH_DMA copies at most here.
const MAX_LINE: u64 = 1 << 31;

/// A copy engine's channel.
#[derive(Debug)]
pub(crate) struct NvCopyQueue<'m> {
    chip: &'static Chip,
    recorder: Recorder<'m>,
}

impl<'m> NvCopyQueue<'m> {
    pub(crate) fn new(chip: &'static Chip, words: &'m mut [u32], list: PatchList<'m>) -> Self {
        Self {
            chip,
            recorder: Recorder::new(words, list),
        }
    }

    pub(crate) fn finish(self) -> (usize, PatchList<'m>) {
        self.recorder.finish()
    }

    pub(crate) fn setup(&mut self, what: &Setup) -> Result<&mut Self, RecordError> {
        self.host(|c, _| setup(c, what))
    }

    fn host(
        &mut self,
        encode: impl FnOnce(&mut Command<'_, '_>, &Chip) -> Result<(), RecordError>,
    ) -> Result<&mut Self, RecordError> {
        let chip = self.chip;
        self.recorder.command(|c| encode(c, chip))?;
        Ok(self)
    }
}

impl<'m> Recording<'m> for NvCopyQueue<'m> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder.list()
    }
}

/// The copy engine's own semaphore has 32 bits of value.
fn copy_release(
    c: &mut Command<'_, '_>,
    chip: &Chip,
    at: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    c.word(method(COPY, SET_SEMAPHORE_A, 3));
    c.pair_high_first(at.address, Fit::aligned(chip.semaphore_bits, 4))
        .operand(Operand::Signal)?;
    c.field(0, value, Field::new(0, 32))?;
    c.words(&[
        method(COPY, LAUNCH_DMA, 1),
        FLUSH_ENABLE | SEMAPHORE_FOUR_WORDS,
    ]);
    Ok(())
}

fn copy(c: &mut Command<'_, '_>, to: Value, from: Value, line: Value) -> Result<(), RecordError> {
    let address = Fit::bits(49);
    c.word(method(COPY, OFFSET_IN_UPPER, 4));
    c.pair_high_first(from, address).operand(Operand::Source)?;
    c.pair_high_first(to, address)
        .operand(Operand::Destination)?;
    c.word(method(COPY, LINE_LENGTH_IN, 1));
    let at = c.position();
    c.word(0);
    c.set_value(at, line, Fit::count(32))
        .operand(Operand::Length)?;
    c.words(&[
        method(COPY, LAUNCH_DMA, 1),
        TRANSFER_NON_PIPELINED | SRC_PITCH | DST_PITCH,
    ]);
    Ok(())
}

impl Queue for NvCopyQueue<'_> {
    fn signal(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.host(|c, chip| copy_release(c, chip, at, value))
    }

    fn wait(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.host(|c, chip| wait(c, chip, at, value))
    }

    /// The engine stores a value with the clock: the signal's value becomes zero.
    fn timestamp(&mut self, at: SignalAt) -> Result<&mut Self, RecordError> {
        self.host(|c, chip| copy_release(c, chip, at, 0u64.into()))
    }

    fn write(
        &mut self,
        address: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError> {
        self.host(|c, chip| write(c, chip, address, value, width))
    }

    fn poll_bit(
        &mut self,
        address: Value,
        mask: u32,
        expect: Value,
    ) -> Result<&mut Self, RecordError> {
        self.host(|c, chip| poll_bit(c, chip, address, mask, expect))
    }
}

impl CopyQueue for NvCopyQueue<'_> {
    /// A length that is known at launch is one launch's, and not zero.
    fn copy(&mut self, to: Value, from: Value, bytes: Value) -> Result<&mut Self, RecordError> {
        self.host(|c, _| {
            let Some(bytes) = bytes.imm() else {
                return copy(c, to, from, bytes);
            };
            let mut done = 0;
            while done < bytes {
                let n = (bytes - done).min(MAX_LINE);
                copy(c, to + done, from + done, n.into())?;
                done += n;
            }
            Ok(())
        })
    }
}
