//! The copy queue.

use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{CopyQueue, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Command, NameOperand, Operand, RecordError, Recorder};
use hcq_nostd::value::{Fit, Value};

use super::{Copy, LaunchDma, offset, semaphore};
use crate::chips::Chip;
use crate::device::Device;
use crate::host;
use crate::method::{incrementing, subchannel::COPY};
use crate::setup::Setup;

/// Bytes that one transfer copies at most here: half of what LINE_LENGTH_IN counts, so that pieces of a longer copy stay
/// aligned.
pub const MAX_LINE: u64 = 1 << 31;
/// Bytes that one command copies at most: more than any memory has, in no more pieces than are recorded at once.
pub const MAX_COPY: u64 = 1 << 47;
/// PITCH_IN and PITCH_OUT are signed.
const MAX_PITCH: u32 = i32::MAX as u32;

/// Lines of the same length that lie apart, for [`NvCopy::copy_lines`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Lines {
    /// Bytes of a line, 1 to 2^31 - 1.
    pub length: u32,
    /// Number of lines, at least 1.
    pub count: u32,
    /// Bytes from one line to the next at the source, from `length` to 2^31 - 1.
    pub source_pitch: u32,
    /// The same at the destination.
    pub destination_pitch: u32,
}

/// A copy engine's queue while it is recorded.
///
/// Its signals have 64 bits where the engine's semaphore does, and 32 bits on GA100, whose queues refuse larger values;
/// waits compare 64 bits everywhere. The value and the timestamp are written by one release: a
/// [`timestamp`](Queue::timestamp) makes the signal's value zero.
#[derive(Debug)]
pub struct NvCopy<'m> {
    chip: &'static Chip,
    wide: bool,
    recorder: Recorder<'m>,
}

impl<'m> NvCopy<'m> {
    /// An empty queue over the caller's words, region 0 of the patch list.
    pub fn new(device: &Device, words: &'m mut [u32], list: PatchList<'m>) -> Self {
        Self::over(device, Recorder::new(words, list))
    }

    /// A queue that records into an existing recorder, behind what it holds.
    pub fn over(device: &Device, recorder: Recorder<'m>) -> Self {
        let chip = device.chip();
        Self {
            chip,
            wide: chip.copy.payload64,
            recorder,
        }
    }

    /// The same with signals of 32 bits, which take one word less.
    pub fn with_narrow_signals(self) -> Self {
        Self {
            wide: false,
            ..self
        }
    }

    /// Bits of the values that its signals write.
    pub const fn signal_bits(&self) -> u8 {
        if self.wide { 64 } else { 32 }
    }

    /// The recorder, to declare variables or to look at what was recorded.
    pub fn recorder(&mut self) -> &mut Recorder<'m> {
        &mut self.recorder
    }

    /// The words so far.
    pub fn words(&self) -> &[u32] {
        self.recorder.words()
    }

    /// The recorder.
    pub fn finish(self) -> Recorder<'m> {
        self.recorder
    }

    /// What the channel is told once.
    ///
    /// # Errors
    /// [`RecordError`]; the queue is as it was.
    pub fn setup(&mut self, setup: &Setup) -> Result<&mut Self, RecordError> {
        self.command(|chip, c| setup.record(chip, c))
    }

    /// Copies lines that lie apart, the first ones at these addresses.
    ///
    /// # Errors
    /// [`RecordError::Limit`] for lengths, counts and pitches outside of [`Lines`]' ranges, [`RecordError::Misfit`] for
    /// addresses; the queue is as it was.
    pub fn copy_lines(
        &mut self,
        destination: Value,
        source: Value,
        lines: Lines,
    ) -> Result<&mut Self, RecordError> {
        let limit = |value: u32, max: u32| RecordError::Limit {
            operand: Operand::Length,
            value: value.into(),
            max: max.into(),
        };
        let Lines {
            length,
            count,
            source_pitch,
            destination_pitch,
        } = lines;
        if length == 0 || count == 0 {
            return Err(limit(0, MAX_PITCH));
        }
        for pitch in [source_pitch, destination_pitch] {
            if length > pitch {
                return Err(limit(length, pitch));
            }
            if pitch > MAX_PITCH {
                return Err(limit(pitch, MAX_PITCH));
            }
        }
        self.command(|chip, c| {
            // The last byte of the last line is one that the engine reaches, too.
            for (operand, at, pitch) in [
                (Operand::Source, source, source_pitch),
                (Operand::Destination, destination, destination_pitch),
            ] {
                let last = u64::from(pitch) * u64::from(count - 1) + u64::from(length) - 1;
                let fit = Fit::bits(chip.copy.address_bits);
                c.list().require(at, fit).operand(operand)?;
                let most = (1u64 << chip.copy.address_bits) - 1;
                let fit = Fit::at_most(most.saturating_sub(last));
                c.list().require(at, fit).operand(operand)?;
            }
            let lines = Copy::Lines {
                from: source,
                to: destination,
                pitch: [source_pitch, destination_pitch],
                length,
                count,
            };
            lines.record(c)?;
            let launch = LaunchDma {
                multi_line: true,
                ..LaunchDma::COPY
            };
            Copy::Launch(launch).record(c)
        })
    }

    #[inline]
    fn command(
        &mut self,
        encode: impl FnOnce(&Chip, &mut Command<'_, '_>) -> Result<(), RecordError>,
    ) -> Result<&mut Self, RecordError> {
        let chip = self.chip;
        self.recorder.command(|c| encode(chip, c))?;
        Ok(self)
    }
}

/// The engine's own semaphore, when everything before is copied.
#[inline]
fn release(
    chip: &Chip,
    c: &mut Command<'_, '_>,
    signal: SignalAt,
    value: Value,
    wide: bool,
) -> Result<(), RecordError> {
    let (_, align_log2) = host::SIGNAL;
    let fit = Fit::aligned(chip.copy.address_bits, align_log2);
    semaphore(c, (signal.address, fit), value, wide)?;
    let launch = LaunchDma {
        payload64: wide,
        interrupt: signal.notify,
        ..LaunchDma::SIGNAL
    };
    c.words(&[
        incrementing::<COPY, { offset::LAUNCH_DMA }, 1>(),
        launch.bits(),
    ]);
    Ok(())
}

/// One linear transfer.
#[inline]
fn copy(
    chip: &Chip,
    c: &mut Command<'_, '_>,
    [to, from, bytes]: [Value; 3],
) -> Result<(), RecordError> {
    let address = Fit::bits(chip.copy.address_bits);
    c.word(incrementing::<COPY, { offset::OFFSET_IN_UPPER }, 4>());
    c.pair_high_first(from, address).operand(Operand::Source)?;
    c.pair_high_first(to, address)
        .operand(Operand::Destination)?;
    c.word(incrementing::<COPY, { offset::LINE_LENGTH_IN }, 1>());
    let at = c.position();
    c.word(0);
    let length = Fit {
        most: MAX_LINE,
        ..Fit::count(32)
    };
    c.set_value(at, bytes, length).operand(Operand::Length)?;
    c.words(&[
        incrementing::<COPY, { offset::LAUNCH_DMA }, 1>(),
        LaunchDma::COPY.bits(),
    ]);
    Ok(())
}

impl Queue for NvCopy<'_> {
    #[inline]
    fn signal(&mut self, signal: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        let wide = self.wide;
        self.command(|chip, c| release(chip, c, signal, value, wide))
    }

    #[inline]
    fn wait(&mut self, signal: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.command(|chip, c| host::wait(chip, c, signal, value))
    }

    /// The engine stores a value with the clock: the signal's value becomes zero.
    fn timestamp(&mut self, signal: SignalAt) -> Result<&mut Self, RecordError> {
        self.command(|chip, c| release(chip, c, signal, 0u64.into(), false))
    }

    fn write(
        &mut self,
        address: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError> {
        self.command(|chip, c| host::write(chip, c, address, value, width))
    }

    fn poll_bit(
        &mut self,
        address: Value,
        mask: u32,
        expect: Value,
    ) -> Result<&mut Self, RecordError> {
        self.command(|chip, c| host::poll_bit(chip, c, address, mask, expect))
    }
}

impl CopyQueue for NvCopy<'_> {
    /// A length that is known at launch is one transfer's: 1 to [`MAX_LINE`]. One that is known now may be any, and none
    /// takes no words; more than [`MAX_COPY`] are refused.
    fn copy(
        &mut self,
        destination: Value,
        source: Value,
        bytes: Value,
    ) -> Result<&mut Self, RecordError> {
        self.command(|chip, c| {
            let Some(bytes) = bytes.imm() else {
                return copy(chip, c, [destination, source, bytes]);
            };
            if bytes > MAX_COPY {
                return Err(RecordError::Limit {
                    operand: Operand::Length,
                    value: bytes,
                    max: MAX_COPY,
                });
            }
            // The last byte is one that the engine reaches, too.
            let most = (1u64 << chip.copy.address_bits).saturating_sub(bytes);
            for (operand, at) in [
                (Operand::Source, source),
                (Operand::Destination, destination),
            ] {
                if let Some(at) = at.imm() {
                    Fit::at_most(most).check(at).operand(operand)?;
                }
            }
            let mut done = 0;
            while done < bytes {
                let piece = (bytes - done).min(MAX_LINE);
                copy(chip, c, [destination + done, source + done, piece.into()])?;
                done += piece;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
