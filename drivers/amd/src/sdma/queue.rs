//! The copy queue.

use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{CopyQueue, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{NameOperand, Operand, RecordError, Recorder};
use hcq_nostd::value::{Fit, Value};

use super::copy_linear::CopyLinear;
use super::fence::Fence;
use super::poll_regmem::{Function, PollRegmem};
use super::timestamp::TimestampGetGlobal;
use super::trap::Trap;
use super::version::Limits;
use super::write_linear::WriteLinear;
use super::{Unsupported, Version};
use crate::device::{ADDRESS_BITS, Event};

/// A signal lies at a multiple of 16.
const SIGNAL_ALIGN_LOG2: u8 = 4;

/// A copy queue while it is recorded. Signals and waits have 32 bits.
#[derive(Debug)]
pub struct SdmaCopy<'m> {
    limits: Limits,
    event: Option<Event>,
    recorder: Recorder<'m>,
}

impl<'m> SdmaCopy<'m> {
    /// An empty queue over the caller's words, region 0 of the patch list, for an engine of this version. Without an
    /// event a signal that should notify only writes its value.
    ///
    /// # Errors
    /// [`Unsupported`].
    pub fn new(
        version: Version,
        event: Option<Event>,
        words: &'m mut [u32],
        list: PatchList<'m>,
    ) -> Result<Self, Unsupported> {
        Self::over(version, event, Recorder::new(words, list))
    }

    /// A queue that records into an existing recorder, behind what it holds.
    ///
    /// # Errors
    /// [`Unsupported`].
    pub fn over(
        version: Version,
        event: Option<Event>,
        recorder: Recorder<'m>,
    ) -> Result<Self, Unsupported> {
        Ok(Self {
            limits: version.limits()?,
            event,
            recorder,
        })
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
}

impl Queue for SdmaCopy<'_> {
    fn signal(&mut self, signal: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        let (mtype, event) = (
            self.limits.fence_mtype,
            self.event.filter(|_| signal.notify),
        );
        self.recorder.command(|c| {
            let fence = Fence {
                address: signal.address,
                data: value,
            };
            fence.record_as(c, mtype, Operand::Signal, SIGNAL_ALIGN_LOG2)?;
            let Some(event) = event else { return Ok(()) };
            let mailbox = Fence {
                address: event.mailbox().into(),
                data: event.id().into(),
            };
            mailbox.record_as(c, mtype, Operand::Address, 3)?;
            Trap {
                context: event.id(),
            }
            .record(c)
        })?;
        Ok(self)
    }

    fn wait(&mut self, signal: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        let poll = PollRegmem {
            function: Function::GreaterEqual,
            address: signal.address,
            value,
            mask: u32::MAX,
        };
        self.recorder
            .command(|c| poll.record_as(c, Operand::Signal, SIGNAL_ALIGN_LOG2))?;
        Ok(self)
    }

    fn timestamp(&mut self, signal: SignalAt) -> Result<&mut Self, RecordError> {
        let timestamp = TimestampGetGlobal {
            address: signal.address + 8,
        };
        self.recorder.command(|c| timestamp.record(c))?;
        Ok(self)
    }

    fn write(
        &mut self,
        address: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError> {
        let write = WriteLinear {
            destination: address,
            data: value,
            width,
        };
        self.recorder.command(|c| write.record(c))?;
        Ok(self)
    }

    fn poll_bit(
        &mut self,
        address: Value,
        mask: u32,
        expect: Value,
    ) -> Result<&mut Self, RecordError> {
        crate::pm4::commands::check_expect(mask, expect)?;
        let poll = PollRegmem {
            function: Function::Equal,
            address,
            value: expect,
            mask,
        };
        self.recorder.command(|c| poll.record(c))?;
        Ok(self)
    }
}

/// The last byte of a range that is known now must have an address, too.
fn check_end(address: Value, bytes: u64, operand: Operand) -> Result<(), RecordError> {
    match address.imm() {
        Some(a) => {
            let last = a.saturating_add(bytes.saturating_sub(1));
            Fit::bits(ADDRESS_BITS).check(last).operand(operand)
        }
        None => Ok(()),
    }
}

impl CopyQueue for SdmaCopy<'_> {
    /// A length that is known now is split into as many packets as the version needs; one that is known at launch is one
    /// packet's, not zero, and refused at launch if it is more.
    fn copy(
        &mut self,
        destination: Value,
        source: Value,
        bytes: Value,
    ) -> Result<&mut Self, RecordError> {
        let count = self.limits.count;
        let Some(length) = bytes.imm() else {
            let copy = CopyLinear {
                destination,
                source,
                bytes,
            };
            self.recorder.command(|c| copy.record_in(c, count))?;
            return Ok(self);
        };
        Fit::bits(ADDRESS_BITS)
            .check(length)
            .operand(Operand::Length)?;
        check_end(source, length, Operand::Source)?;
        check_end(destination, length, Operand::Destination)?;
        let max = count.mask() + 1;
        self.recorder.command(|c| {
            let mut done = 0;
            while done < length {
                let n = (length - done).min(max);
                let copy = CopyLinear {
                    destination: destination + done,
                    source: source + done,
                    bytes: n.into(),
                };
                copy.record_in(c, count)?;
                done += n;
            }
            Ok(())
        })?;
        Ok(self)
    }
}
