//! NVIDIA: pushbuffer methods, launch descriptors, and the compute and copy queues.
//!
//! A launch descriptor is written when a program is launched, and again by the commands after it: a signal becomes a
//! release in it, the next launch hangs on its dependent field. So the queue owns the memory of its descriptors.

mod copy;
pub(crate) mod gpfifo;
mod host;
mod qmd;

use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Block, Command, NameOperand, Operand, RecordError, Recorder, Room};
use hcq_nostd::value::{Field, Value};

pub(crate) use copy::NvCopyQueue;
pub(crate) use host::Setup;
use host::{COMPUTE, method, poll_bit, release, setup, wait, write};
pub(crate) use qmd::{ADA, AMPERE, BLACKWELL, Chip, Program};
use qmd::{DEPENDENT_ENABLE_SCHEDULE_PREFETCH, QMD_ALIGN, fold_release, release_enable, write_qmd};

use super::lab::Recording;

// Compute methods.
const SEND_PCAS_A: u32 = 0x2b4;
const SEND_SIGNALING_PCAS2_B: u32 = 0x2c0;
const PCAS_ACTION_PREFETCH_SCHEDULE: u32 = 9;
const INVALIDATE_SHADER_CACHES_NO_WFI: u32 = 0x1698;
const INVALIDATE_INSTRUCTION: u32 = 1;
const INVALIDATE_GLOBAL_DATA: u32 = 1 << 4;
const INVALIDATE_CONSTANT: u32 = 1 << 12;

/// The last launch, while commands can still be folded into its descriptor.
#[derive(Clone, Copy, Debug)]
struct Active {
    slot: usize,
    releases: usize,
}

/// Memory for launch descriptors, one region each. (A driver cuts them from one.)
pub(crate) type Slots<'m> = Vec<(RegionId, Region<'m>)>;

#[derive(Debug)]
pub(crate) struct NvQueue<'m, 'q> {
    chip: &'static Chip,
    recorder: Recorder<'m>,
    slots: Slots<'q>,
    used: usize,
    active: Option<Active>,
}

impl<'m, 'q> NvQueue<'m, 'q> {
    pub(crate) fn new(
        chip: &'static Chip,
        words: &'m mut [u32],
        slots: Slots<'q>,
        list: PatchList<'m>,
    ) -> Self {
        Self {
            chip,
            recorder: Recorder::new(words, list),
            slots,
            used: 0,
            active: None,
        }
    }

    pub(crate) fn finish(self) -> (usize, PatchList<'m>) {
        self.recorder.finish()
    }

    pub(crate) fn setup(&mut self, what: &Setup) -> Result<&mut Self, RecordError> {
        self.host(|c, _| setup(c, what))
    }

    /// A command of words alone; nothing is folded into the launch before it any more.
    fn host(
        &mut self,
        encode: impl FnOnce(&mut Command<'_, '_>, &Chip) -> Result<(), RecordError>,
    ) -> Result<&mut Self, RecordError> {
        let chip = self.chip;
        self.recorder.command(|c| encode(c, chip))?;
        self.active = None;
        Ok(self)
    }

    fn release(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        let chip = self.chip;
        let Some(Active { slot, releases }) =
            self.active.filter(|a| a.releases < chip.qmd.releases.len())
        else {
            return self.host(|c, chip| release(c, chip, at, value));
        };
        let (id, region) = &mut self.slots[slot];
        let mut block = Block::new(region, *id, 0, chip.qmd.bytes).expect("checked by exec");
        let place = &chip.qmd.releases[releases];
        let folded = self
            .recorder
            .command(|c| fold_release(c.list(), &mut block, place, at.address, value));
        if let Err(e) = folded {
            // Some of the fields may be poison by now.
            for at in [
                place.address_lower,
                place.address_upper,
                place.payload_lower,
                place.payload_lower.plus(32),
            ] {
                block.write(at.at(), &[0; 4]).expect("inside");
            }
            return Err(e);
        }
        if place.enable.at() != place.address_upper.at() {
            let word = release_enable(&chip.qmd.releases[..=releases]);
            block
                .write(place.enable.at(), &word.to_le_bytes())
                .expect("inside");
        }
        self.active = Some(Active {
            slot,
            releases: releases + 1,
        });
        Ok(self)
    }
}

impl<'m> Recording<'m> for NvQueue<'m, '_> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder.list()
    }
}

impl Queue for NvQueue<'_, '_> {
    fn signal(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.release(at, value)
    }

    fn wait(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.host(|c, chip| wait(c, chip, at, value))
    }

    /// The engine stores a value with the clock: the signal's value becomes zero.
    fn timestamp(&mut self, at: SignalAt) -> Result<&mut Self, RecordError> {
        self.release(at, 0u64.into())
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

impl ComputeQueue for NvQueue<'_, '_> {
    type Program<'p> = Program<'p>;

    fn memory_barrier(&mut self) -> Result<&mut Self, RecordError> {
        self.host(|c, _| {
            let what = INVALIDATE_INSTRUCTION | INVALIDATE_GLOBAL_DATA | INVALIDATE_CONSTANT;
            c.words(&[method(COMPUTE, INVALIDATE_SHADER_CACHES_NO_WFI, 1), what]);
            Ok(())
        })
    }

    fn exec(&mut self, launch: Launch<'_, '_, Program<'_>>) -> Result<&mut Self, RecordError> {
        let (layout, slot) = (self.chip.qmd, self.used);
        let room = Room {
            beside: (slot + 1) * layout.bytes.next_multiple_of(QMD_ALIGN),
            ..self.recorder.used()
        };
        let (id, region) = self.slots.get_mut(slot).ok_or(RecordError::NoRoom(room))?;
        let mut block =
            Block::new(region, *id, 0, layout.bytes).map_err(|_| RecordError::NoRoom(room))?;
        let address = block.device_address(0).ok_or(RecordError::NoRoom(room))?;
        let chained = self.active.is_some();
        self.recorder.command(|c| {
            write_qmd(c.list(), &mut block, launch)?;
            if !chained {
                c.word(method(COMPUTE, SEND_PCAS_A, 1));
                c.field(0, address.into(), Field::new(0, 32).unit(8))?;
                c.words(&[
                    method(COMPUTE, SEND_SIGNALING_PCAS2_B, 1),
                    PCAS_ACTION_PREFETCH_SCHEDULE,
                ]);
            }
            Ok(())
        })?;
        if let Some(active) = self.active {
            // Everything that can fail has not: now the launch before may point here.
            let pointer = layout
                .dependent_pointer
                .field()
                .place(address)
                .operand(Operand::Program)? as u32;
            let flags =
                (DEPENDENT_ENABLE_SCHEDULE_PREFETCH as u32) << layout.dependent.field().shift;
            let region = &mut self.slots[active.slot].1;
            region
                .store_u32(layout.dependent_pointer.at(), pointer)
                .expect("inside");
            region
                .store_u32(layout.dependent.at(), flags)
                .expect("inside");
        }
        self.active = Some(Active { slot, releases: 0 });
        self.used = slot + 1;
        Ok(self)
    }
}
