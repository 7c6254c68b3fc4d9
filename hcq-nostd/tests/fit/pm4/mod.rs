//! PM4 of gfx9.4 and gfx11: packets, a prepared program, and a compute queue.

mod chip;
mod program;
mod submit;

use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Command, NameOperand, Operand, RecordError, Recorder};
use hcq_nostd::value::{Fit, Value};

use chip::{ADDRESS_BITS, pred_exec};
pub(crate) use chip::{Chip, Device, GFX942, GFX1100, Interrupt, type3};
use program::exec;
pub(crate) use program::{Descriptor, Program, check_local, dispatch_packet};
pub(crate) use submit::{indirect_buffer, submit, submit_predicated};

use super::lab::Recording;

// Opcodes, PACKET3_*.
const WAIT_REG_MEM: u32 = 0x3c;
pub(crate) const INDIRECT_BUFFER: u32 = 0x3f;
const RELEASE_MEM: u32 = 0x49;

// WAIT_REG_MEM, first word.
const FUNCTION_EQUAL: u32 = 3;
const FUNCTION_GREATER_EQUAL: u32 = 5;
const MEM_SPACE_MEMORY: u32 = 1 << 4;
const OPERATION_WR_WAIT_WR_REG: u32 = 1 << 6;
const POLL_INTERVAL: u32 = 4;

// RELEASE_MEM.
const CACHE_FLUSH_AND_INV_TS: u32 = 0x14;
const EVENT_INDEX_EOP: u32 = 5 << 8;
const DATA_SEL_LOW32: u32 = 1 << 29;
const DATA_SEL_64: u32 = 2 << 29;
const DATA_SEL_GPU_CLOCK: u32 = 3 << 29;
const INT_SEL_AFTER_WRITE: u32 = 2 << 24;
const END_OF_PIPE: u32 = CACHE_FLUSH_AND_INV_TS | EVENT_INDEX_EOP;

/// Commands inside run on the first XCC only.
fn on_first_xcc(
    device: &Device,
    c: &mut Command<'_, '_>,
    encode: impl FnOnce(&mut Command<'_, '_>) -> Result<(), RecordError>,
) -> Result<(), RecordError> {
    if device.xccs == 1 {
        return encode(c);
    }
    let at = c.position();
    let [header, select] = pred_exec(1);
    c.words(&[header, select]);
    encode(c)?;
    let dwords = (c.position() - at - 2) as u32;
    c.set(at + 1, select | dwords);
    Ok(())
}

fn release_mem(
    c: &mut Command<'_, '_>,
    [flush, select]: [u32; 2],
    (address, align_log2): (Value, u8),
    (data, fit): (Value, Fit),
    context: u32,
) -> Result<(), RecordError> {
    c.words(&[type3(RELEASE_MEM, 7), END_OF_PIPE | flush, select]);
    c.pair(address, Fit::aligned(ADDRESS_BITS, align_log2))
        .operand(Operand::Address)?;
    c.pair(data, fit).operand(Operand::Data)?;
    c.word(context);
    Ok(())
}

fn wait_reg_mem(
    c: &mut Command<'_, '_>,
    function: u32,
    address: Value,
    reference: Value,
    mask: u32,
) -> Result<(), RecordError> {
    c.words(&[type3(WAIT_REG_MEM, 6), function | MEM_SPACE_MEMORY]);
    c.pair(address, Fit::aligned(ADDRESS_BITS, 2))
        .operand(Operand::Address)?;
    let at = c.position();
    c.words(&[0, mask, POLL_INTERVAL]);
    c.set_value(at, reference, Fit::bits(32))
        .operand(Operand::Data)
}

// The commands, for queues whose words are PM4: the compute queue below, and AQL's indirect buffers.

pub(crate) fn signal(
    device: &Device,
    c: &mut Command<'_, '_>,
    signal: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    on_first_xcc(device, c, |c| {
        let flush = device.chip.release_flush;
        release_mem(
            c,
            [flush, DATA_SEL_LOW32],
            (signal.address, 4),
            (value, Fit::bits(32)),
            0,
        )?;
        if let (true, Some(interrupt)) = (signal.notify, device.interrupt) {
            let select = DATA_SEL_LOW32 | INT_SEL_AFTER_WRITE;
            let context = if device.chip.context_id {
                interrupt.event
            } else {
                0
            };
            let event = (interrupt.event.into(), Fit::ANY);
            release_mem(
                c,
                [0, select],
                (interrupt.mailbox.into(), 3),
                event,
                context,
            )?;
        }
        Ok(())
    })
}

pub(crate) fn wait(
    c: &mut Command<'_, '_>,
    signal: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    wait_reg_mem(c, FUNCTION_GREATER_EQUAL, signal.address, value, u32::MAX)
}

pub(crate) fn timestamp(
    device: &Device,
    c: &mut Command<'_, '_>,
    signal: SignalAt,
) -> Result<(), RecordError> {
    on_first_xcc(device, c, |c| {
        let nothing = (0u64.into(), Fit::ANY);
        release_mem(c, [0, INT_SEL_AFTER_WRITE], (0u64.into(), 3), nothing, 0)?;
        release_mem(
            c,
            [0, DATA_SEL_GPU_CLOCK],
            (signal.address + 8, 3),
            nothing,
            0,
        )?;
        c.words(device.chip.acquire_all);
        Ok(())
    })
}

pub(crate) fn write(
    c: &mut Command<'_, '_>,
    address: Value,
    value: Value,
    width: WriteWidth,
) -> Result<(), RecordError> {
    let (select, align, fit) = match width {
        WriteWidth::W32 => (DATA_SEL_LOW32, 2, Fit::bits(32)),
        WriteWidth::W64 => (DATA_SEL_64, 3, Fit::ANY),
    };
    release_mem(c, [0, select], (address, align), (value, fit), 0)
}

pub(crate) fn poll_bit(
    c: &mut Command<'_, '_>,
    address: Value,
    mask: u32,
    expect: Value,
) -> Result<(), RecordError> {
    wait_reg_mem(c, FUNCTION_EQUAL, address, expect, mask)
}

pub(crate) fn memory_barrier(device: &Device, c: &mut Command<'_, '_>) {
    let [request, done] = device.chip.hdp_flush;
    c.words(&[
        type3(WAIT_REG_MEM, 6),
        FUNCTION_GREATER_EQUAL | OPERATION_WR_WAIT_WR_REG,
        request,
        done,
    ]);
    c.words(&[u32::MAX, u32::MAX, POLL_INTERVAL]);
    c.words(device.chip.acquire_all);
}

/// A compute queue of PM4 words.
#[derive(Debug)]
pub(crate) struct Pm4Queue<'m> {
    device: Device,
    recorder: Recorder<'m>,
}

impl<'m> Pm4Queue<'m> {
    pub(crate) fn new(device: Device, words: &'m mut [u32], list: PatchList<'m>) -> Self {
        Self {
            device,
            recorder: Recorder::new(words, list),
        }
    }

    pub(crate) fn finish(self) -> (usize, PatchList<'m>) {
        self.recorder.finish()
    }
}

impl<'m> Recording<'m> for Pm4Queue<'m> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder.list()
    }
}

impl Queue for Pm4Queue<'_> {
    fn signal(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.recorder
            .command(|c| signal(&self.device, c, at, value))?;
        Ok(self)
    }

    fn wait(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| wait(c, at, value))?;
        Ok(self)
    }

    fn timestamp(&mut self, at: SignalAt) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| timestamp(&self.device, c, at))?;
        Ok(self)
    }

    fn write(
        &mut self,
        address: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| write(c, address, value, width))?;
        Ok(self)
    }

    fn poll_bit(
        &mut self,
        address: Value,
        mask: u32,
        expect: Value,
    ) -> Result<&mut Self, RecordError> {
        self.recorder
            .command(|c| poll_bit(c, address, mask, expect))?;
        Ok(self)
    }
}

impl ComputeQueue for Pm4Queue<'_> {
    type Program<'p> = Program<'p>;

    fn memory_barrier(&mut self) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| {
            memory_barrier(&self.device, c);
            Ok(())
        })?;
        Ok(self)
    }

    fn exec(&mut self, launch: Launch<'_, '_, Program<'_>>) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| exec(c, launch))?;
        Ok(self)
    }
}

/// The kernel argument memory's number in a recording of this sketch.
pub(crate) const KERNARGS: RegionId = RegionId(1);
