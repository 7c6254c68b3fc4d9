//! SDMA 4.4 to 7: packets, a copy queue, and the two ways to submit it.

use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{CopyQueue, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Command, NameOperand, Operand, RecordError, Recorder};
use hcq_nostd::ring::{Doorbell, Ring, RingError, arith};
use hcq_nostd::value::{Field, Fit, Value};

use super::lab::Recording;
use super::pm4::Interrupt;

// Opcodes, SDMA_OP_*. A word of zero is a NOP.
const NOP: u32 = 0;
const COPY: u32 = 1;
const WRITE: u32 = 2;
const INDIRECT: u32 = 4;
const FENCE: u32 = 5;
const TRAP: u32 = 6;
const POLL_REGMEM: u32 = 8;
const TIMESTAMP: u32 = 13;

const OPCODE_MASK: u32 = 0xff;
/// Words less one of a WRITE.
const WRITE_ONE: u32 = 0;
const WRITE_TWO: u32 = 1;
const FENCE_MTYPE_UNCACHED: u32 = 3 << 16;
const TIMESTAMP_GLOBAL: u32 = 2 << 8;

// POLL_REGMEM.
const POLL_EQUAL: u32 = 3 << 28;
const POLL_GREATER_EQUAL: u32 = 5 << 28;
const POLL_MEMORY: u32 = 1 << 31;
const POLL_INTERVAL: u32 = 4;
const POLL_RETRY_FOREVER: u32 = 0xfff << 16;

const ADDRESS_BITS: u8 = 48;
/// An INDIRECT packet ends on such a boundary of the ring, and its buffer is such a number of words long.
const INDIRECT_ALIGN: usize = 8;
const INDIRECT_WORDS: usize = 6;
/// Its size field, in words.
const INDIRECT_SIZE: Field = Field::new(0, 20);

/// What differs between versions, as data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    /// Other bits of a FENCE header.
    fence: u32,
    /// Bytes less one in a COPY.
    count: Field,
}

pub(crate) const V4: Version = Version {
    fence: 0,
    count: Field::new(0, 22),
};
pub(crate) const V5: Version = Version {
    fence: FENCE_MTYPE_UNCACHED,
    ..V4
};
pub(crate) const V6: Version = Version {
    count: Field::new(0, 30),
    ..V5
};

#[derive(Debug)]
pub(crate) struct SdmaQueue<'m> {
    version: &'static Version,
    /// Bytes that one packet copies at most.
    max_copy: u64,
    interrupt: Option<Interrupt>,
    recorder: Recorder<'m>,
}

impl<'m> SdmaQueue<'m> {
    pub(crate) fn new(
        version: &'static Version,
        max_copy: u64,
        interrupt: Option<Interrupt>,
        words: &'m mut [u32],
        list: PatchList<'m>,
    ) -> Self {
        Self {
            version,
            max_copy,
            interrupt,
            recorder: Recorder::new(words, list),
        }
    }

    pub(crate) fn finish(self) -> (usize, PatchList<'m>) {
        self.recorder.finish()
    }
}

impl<'m> Recording<'m> for SdmaQueue<'m> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder.list()
    }
}

fn address(
    c: &mut Command<'_, '_>,
    address: Value,
    align_log2: u8,
    operand: Operand,
) -> Result<(), RecordError> {
    c.pair(address, Fit::aligned(ADDRESS_BITS, align_log2))
        .operand(operand)
}

fn poll(
    c: &mut Command<'_, '_>,
    function: u32,
    at: Value,
    value: Value,
    mask: u32,
) -> Result<(), RecordError> {
    c.word(POLL_REGMEM | function | POLL_MEMORY);
    address(c, at, 2, Operand::Address)?;
    let value_at = c.position();
    c.words(&[0, mask, POLL_INTERVAL | POLL_RETRY_FOREVER]);
    c.set_value(value_at, value, Fit::bits(32))
        .operand(Operand::Data)
}

fn fence(
    c: &mut Command<'_, '_>,
    version: &Version,
    at: Value,
    value: Value,
) -> Result<(), RecordError> {
    c.word(FENCE | version.fence);
    address(c, at, 2, Operand::Signal)?;
    c.field(0, value, Field::new(0, 32))
}

impl Queue for SdmaQueue<'_> {
    fn signal(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        let (version, interrupt) = (self.version, self.interrupt.filter(|_| at.notify));
        self.recorder.command(|c| {
            fence(c, version, at.address, value)?;
            if let Some(interrupt) = interrupt {
                fence(c, version, interrupt.mailbox.into(), interrupt.event.into())?;
                c.words(&[TRAP, interrupt.event]);
            }
            Ok(())
        })?;
        Ok(self)
    }

    fn wait(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.recorder
            .command(|c| poll(c, POLL_GREATER_EQUAL, at.address, value, u32::MAX))?;
        Ok(self)
    }

    fn timestamp(&mut self, at: SignalAt) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| {
            c.word(TIMESTAMP | TIMESTAMP_GLOBAL);
            address(c, at.address + 8, 3, Operand::Signal)
        })?;
        Ok(self)
    }

    fn write(
        &mut self,
        at: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| {
            c.word(WRITE);
            match width {
                WriteWidth::W32 => {
                    address(c, at, 2, Operand::Address)?;
                    c.word(WRITE_ONE);
                    c.field(0, value, Field::new(0, 32))
                }
                WriteWidth::W64 => {
                    address(c, at, 3, Operand::Address)?;
                    c.word(WRITE_TWO);
                    c.pair(value, Fit::ANY).operand(Operand::Data)
                }
            }
        })?;
        Ok(self)
    }

    fn poll_bit(&mut self, at: Value, mask: u32, expect: Value) -> Result<&mut Self, RecordError> {
        self.recorder
            .command(|c| poll(c, POLL_EQUAL, at, expect, mask))?;
        Ok(self)
    }
}

fn copy(
    c: &mut Command<'_, '_>,
    count: Field,
    [to, from, bytes]: [Value; 3],
) -> Result<(), RecordError> {
    c.word(COPY);
    let at = c.position();
    c.words(&[0, 0]);
    c.set_field(at, 0, bytes - 1, count)
        .operand(Operand::Length)?;
    address(c, from, 0, Operand::Source)?;
    address(c, to, 0, Operand::Destination)
}

impl CopyQueue for SdmaQueue<'_> {
    /// A length that is known at launch is one packet's, and not zero.
    fn copy(&mut self, to: Value, from: Value, bytes: Value) -> Result<&mut Self, RecordError> {
        let (count, max) = (self.version.count, self.max_copy);
        self.recorder.command(|c| {
            let Some(bytes) = bytes.imm() else {
                return copy(c, count, [to, from, bytes]);
            };
            let mut done = 0;
            while done < bytes {
                let n = (bytes - done).min(max);
                copy(c, count, [to + done, from + done, n.into()])?;
                done += n;
            }
            Ok(())
        })?;
        Ok(self)
    }
}

/// Words of the packet that starts here.
fn packet_words(packet: &[u32]) -> usize {
    match packet[0] & OPCODE_MASK {
        COPY => 7,
        WRITE => 5 + packet[3] as usize,
        INDIRECT | POLL_REGMEM => 6,
        FENCE => 4,
        TRAP => 2,
        TIMESTAMP => 3,
        _ => 1,
    }
}

/// Copies packets into the ring; a packet that would not end before the ring's end starts at the beginning, after NOPs.
/// (The reference lets none end exactly there, and so does this.)
pub(crate) fn submit(
    ring: &mut Ring<'_>,
    words: &[u32],
    doorbell: &mut impl Doorbell,
) -> Result<u64, RingError> {
    let run = arith::to_end(ring.put(), ring.len()) as usize;
    let mut before = 0;
    while before < words.len() {
        let end = before + packet_words(&words[before..]);
        if end >= run {
            break;
        }
        before = end;
    }
    let fits = before == words.len();
    let padding = if fits { 0 } else { run - before };
    let mut hole = ring.reserve((words.len() + padding) as u64)?;
    hole.fill(0, &words[..before])?;
    for i in 0..padding {
        hole.fill((before + i) as u64, &[NOP])?;
    }
    hole.fill((before + padding) as u64, &words[before..])?;
    Ok(hole.publish(doorbell))
}

/// Copies a packet into the ring that runs `words` words at `buffer`, padded with NOPs to a whole number of boundaries.
pub(crate) fn submit_bound(
    ring: &mut Ring<'_>,
    buffer: u64,
    words: usize,
    doorbell: &mut impl Doorbell,
) -> Result<u64, RingError> {
    let size = words.next_multiple_of(INDIRECT_ALIGN) as u64;
    let size = INDIRECT_SIZE.place(size).map_err(|_| RingError::TooLarge {
        need: size,
        len: INDIRECT_SIZE.mask(),
    })?;
    let packet = [
        INDIRECT,
        buffer as u32,
        (buffer >> 32) as u32,
        size as u32,
        0,
        0,
    ];
    let align =
        |at: usize| (at + INDIRECT_WORDS).next_multiple_of(INDIRECT_ALIGN) - INDIRECT_WORDS - at;
    let run = arith::to_end(ring.put(), ring.len()) as usize;
    let mut padding = align(ring.len() as usize - run);
    if padding + INDIRECT_WORDS >= run {
        padding = run + align(0);
    }
    let mut hole = ring.reserve((padding + INDIRECT_WORDS) as u64)?;
    for i in 0..padding {
        hole.fill(i as u64, &[NOP])?;
    }
    hole.fill(padding as u64, &packet)?;
    Ok(hole.publish(doorbell))
}
