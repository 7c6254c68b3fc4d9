//! NVIDIA: host semaphores alone, for network cards whose doorbells GPU queues ring. All else is the driver's.

use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{NameOperand, Operand, RecordError, Recorder};
use hcq_nostd::value::{Fit, Value};

use super::lab::Recording;

/// SEM_ADDR_LO, SEM_ADDR_HI, SEM_PAYLOAD_LO, SEM_PAYLOAD_HI and SEM_EXECUTE, incrementing.
const SEM_HEADER: u32 = 1 << 29 | 5 << 16 | 0x5c >> 2;
/// Bits of a semaphore's address, up to Ada.
const ADDRESS_BITS: u8 = 40;

// SEM_EXECUTE.
const ACQ_CIRC_GEQ: u32 = 3;
const ACQ_AND: u32 = 4;
const ACQ_NOR: u32 = 5;
const RELEASE: u32 = 1;
const RELEASE_WFI: u32 = 1 << 20;
const PAYLOAD_SIZE_64BIT: u32 = 1 << 24;
const RELEASE_TIMESTAMP: u32 = 1 << 25;

#[derive(Debug)]
pub(crate) struct NvQueue<'m> {
    recorder: Recorder<'m>,
}

impl<'m> NvQueue<'m> {
    pub(crate) fn new(words: &'m mut [u32], list: PatchList<'m>) -> Self {
        Self {
            recorder: Recorder::new(words, list),
        }
    }

    pub(crate) fn finish(self) -> (usize, PatchList<'m>) {
        self.recorder.finish()
    }

    fn semaphore(
        &mut self,
        (address, align_log2): (Value, u8),
        (payload, fit): (Value, Fit),
        execute: u32,
    ) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| {
            c.word(SEM_HEADER);
            c.pair(address, Fit::aligned(ADDRESS_BITS, align_log2))
                .operand(Operand::Address)?;
            c.pair(payload, fit).operand(Operand::Data)?;
            c.word(execute);
            Ok(())
        })?;
        Ok(self)
    }
}

impl<'m> Recording<'m> for NvQueue<'m> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder.list()
    }
}

impl Queue for NvQueue<'_> {
    fn signal(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        let execute = RELEASE | RELEASE_WFI | PAYLOAD_SIZE_64BIT | RELEASE_TIMESTAMP;
        self.semaphore((at.address, 4), (value, Fit::ANY), execute)
    }

    fn wait(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        let execute = ACQ_CIRC_GEQ | PAYLOAD_SIZE_64BIT;
        self.semaphore((at.address, 3), (value, Fit::ANY), execute)
    }

    fn timestamp(&mut self, at: SignalAt) -> Result<&mut Self, RecordError> {
        self.signal(at, 0u64.into())
    }

    fn write(
        &mut self,
        address: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError> {
        let execute = RELEASE | RELEASE_WFI;
        match width {
            WriteWidth::W32 => self.semaphore((address, 2), (value, Fit::bits(32)), execute),
            WriteWidth::W64 => {
                let execute = execute | PAYLOAD_SIZE_64BIT;
                self.semaphore((address, 3), (value, Fit::ANY), execute)
            }
        }
    }

    fn poll_bit(
        &mut self,
        address: Value,
        mask: u32,
        expect: Value,
    ) -> Result<&mut Self, RecordError> {
        let unsupported = |operand| RecordError::Unsupported { operand };
        if !mask.is_power_of_two() {
            return Err(unsupported(Operand::Mask));
        }
        let (payload, operation) = match expect.imm() {
            Some(0) => (!mask, ACQ_NOR),
            Some(e) if e == u64::from(mask) => (mask, ACQ_AND),
            _ => return Err(unsupported(Operand::Data)),
        };
        self.semaphore((address, 2), (payload.into(), Fit::bits(32)), operation)
    }
}
