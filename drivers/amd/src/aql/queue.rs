//! The compute queue of AQL packets.
//!
//! It has two streams: PM4 words in a recorder, and packets in a region of their own. A packet's sites are filed under
//! that region, so that one table patches both.

use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Block, Command, RecordError, Recorder, Room};
use hcq_nostd::value::Value;

use super::program::Program;
use super::vendor::Pm4Ib;
use super::{PACKET_BYTES, PACKET_WORDS};
use crate::device::Device;
use crate::pm4::commands::{self, Barrier};
use crate::pm4::indirect_buffer::IndirectBuffer;

/// The vendor packet that the next PM4 words belong to.
#[derive(Clone, Copy, Debug)]
struct Open {
    packet: usize,
    first_word: usize,
}

/// A compute queue of AQL packets while it is recorded.
///
/// Commands other than launches are PM4 words, run by a vendor packet for each stretch of them. Signals and waits have
/// 32 bits. A launch takes one word, too, which nobody reads, so that words and packets have one order.
#[derive(Debug)]
pub struct AqlCompute<'m> {
    device: Device,
    barrier: Barrier,
    recorder: Recorder<'m>,
    packets: Region<'m>,
    region: RegionId,
    used: usize,
    open: Option<Open>,
    buffer: Value,
}

impl<'m> AqlCompute<'m> {
    /// An empty queue. Its words are region 0 of the patch list, and will be at device address `buffer`: known now for a
    /// bound queue, a variable otherwise. Its packets go into `packets`, number `region` of the patch list.
    pub fn new(
        device: &Device,
        words: &'m mut [u32],
        buffer: Value,
        packets: Region<'m>,
        region: RegionId,
        list: PatchList<'m>,
    ) -> Self {
        Self {
            device: *device,
            barrier: Barrier::new(device),
            recorder: Recorder::new(words, list),
            packets,
            region,
            used: 0,
            open: None,
            buffer,
        }
    }

    /// The recorder of PM4 words, to declare variables or to look at what was recorded. What is recorded into it beside
    /// this queue's commands belongs to no packet.
    pub fn recorder(&mut self) -> &mut Recorder<'m> {
        &mut self.recorder
    }

    /// The words so far.
    pub fn words(&self) -> &[u32] {
        self.recorder.words()
    }

    /// Number of packets so far, at the start of their region.
    pub const fn packets(&self) -> usize {
        self.used
    }

    /// The recorder, and the number of packets.
    pub fn finish(self) -> (Recorder<'m>, usize) {
        (self.recorder, self.used)
    }

    /// One packet more than there are.
    #[cold]
    fn no_room(&self, packet: usize) -> RecordError {
        let beside = packet.saturating_add(1).saturating_mul(PACKET_BYTES);
        RecordError::NoRoom(Room {
            beside,
            ..self.recorder.used()
        })
    }

    #[inline]
    fn pm4(
        &mut self,
        encode: impl FnOnce(&Device, &mut Command<'_, '_>) -> Result<(), RecordError>,
    ) -> Result<&mut Self, RecordError> {
        let start = self.recorder.words().len();
        let is_new = self.open.is_none();
        let open = self.open.unwrap_or(Open {
            packet: self.used,
            first_word: start,
        });
        let address = self.buffer + 4 * open.first_word as u64;
        let offset = open.packet.saturating_mul(PACKET_BYTES);
        let Ok(mut block) = Block::new(&mut self.packets, self.region, offset, PACKET_BYTES) else {
            return Err(self.no_room(open.packet));
        };
        let device = &self.device;
        let mut longer = None;
        self.recorder.command(|c| {
            encode(device, c)?;
            let end = start.saturating_add(c.position());
            let count = IndirectBuffer::count(end.saturating_sub(open.first_word))?;
            if is_new {
                return Pm4Ib::record_ordered(c.list(), &mut block, address, count);
            }
            longer = Some(count);
            Ok(())
        })?;
        // Only now: when there was no room for the words the packet still runs those before.
        if let Some(count) = longer {
            Pm4Ib::resize(&mut block, count)?;
        }
        (self.open, self.used) = (Some(open), open.packet + 1);
        Ok(self)
    }
}

impl Queue for AqlCompute<'_> {
    #[inline]
    fn signal(&mut self, signal: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.pm4(|device, c| commands::signal(device, c, signal, value))
    }

    #[inline]
    fn wait(&mut self, signal: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.pm4(|_, c| commands::wait(c, signal, value))
    }

    fn timestamp(&mut self, signal: SignalAt) -> Result<&mut Self, RecordError> {
        self.pm4(|device, c| commands::timestamp(device, c, signal))
    }

    fn write(
        &mut self,
        address: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError> {
        self.pm4(|_, c| commands::write(c, address, value, width))
    }

    fn poll_bit(
        &mut self,
        address: Value,
        mask: u32,
        expect: Value,
    ) -> Result<&mut Self, RecordError> {
        self.pm4(|_, c| commands::poll_bit(c, address, mask, expect))
    }
}

impl ComputeQueue for AqlCompute<'_> {
    type Program<'p> = Program<'p>;

    #[inline]
    fn memory_barrier(&mut self) -> Result<&mut Self, RecordError> {
        let barrier = self.barrier;
        self.pm4(|_, c| {
            c.words(barrier.words());
            Ok(())
        })
    }

    #[inline]
    fn exec(&mut self, mut launch: Launch<'_, '_, Program<'_>>) -> Result<&mut Self, RecordError> {
        let packet = self.used;
        let offset = packet.saturating_mul(PACKET_BYTES);
        let Ok(mut block) = Block::new(&mut self.packets, self.region, offset, PACKET_BYTES) else {
            return Err(self.no_room(packet));
        };
        self.recorder.command(|c| {
            launch.program.record(c.list(), &mut block, &mut launch)?;
            c.word(0);
            Ok(())
        })?;
        (self.open, self.used) = (None, packet + 1);
        Ok(self)
    }
}

const _: () = assert!(PACKET_WORDS * 4 == PACKET_BYTES);
