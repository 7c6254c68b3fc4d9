//! The commands that queues of PM4 words have, whether they run them from a ring or from an AQL packet.

use hcq_nostd::queue::{SignalAt, WriteWidth};
use hcq_nostd::record::{Command, Operand, RecordError};
use hcq_nostd::value::Value;

use super::acquire_mem::AcquireMem;
use super::pred_exec::PredExec;
use super::release_mem::{DataSel, Flush, IntSel, ReleaseMem};
use super::wait_reg_mem::{Function, Poll, WaitRegMem};
use crate::device::Device;

/// A signal lies at a multiple of 16.
const SIGNAL_ALIGN_LOG2: u8 = 4;

/// What `encode` appends runs on the first XCC only.
#[inline]
fn on_first_xcc(
    device: &Device,
    c: &mut Command<'_, '_>,
    encode: impl FnOnce(&mut Command<'_, '_>) -> Result<(), RecordError>,
) -> Result<(), RecordError> {
    if device.xccs() == 1 {
        encode(c)
    } else {
        PredExec::around(1, c, encode)
    }
}

#[inline]
pub(crate) fn signal(
    device: &Device,
    c: &mut Command<'_, '_>,
    signal: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    on_first_xcc(device, c, |c| {
        let release = ReleaseMem {
            flush: device.chip().release,
            data: DataSel::Low32(value),
            interrupt: IntSel::None,
            address: signal.address,
            context: 0,
        };
        release.record_as(c, Operand::Signal, SIGNAL_ALIGN_LOG2)?;
        let Some(event) = device.event().filter(|_| signal.notify) else {
            return Ok(());
        };
        let wake = ReleaseMem {
            flush: Flush::NONE,
            data: DataSel::Low32(event.id().into()),
            interrupt: IntSel::AfterWrite,
            address: event.mailbox().into(),
            context: if device.chip().event_context {
                event.id()
            } else {
                0
            },
        };
        wake.record(c)
    })
}

#[inline]
pub(crate) fn wait(
    c: &mut Command<'_, '_>,
    signal: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    let wait = WaitRegMem {
        function: Function::GreaterEqual,
        poll: Poll::Memory(signal.address),
        reference: value,
        mask: u32::MAX,
        poll_interval: WaitRegMem::POLL_INTERVAL,
    };
    wait.record_as(c, Operand::Signal, SIGNAL_ALIGN_LOG2)
}

pub(crate) fn timestamp(
    device: &Device,
    c: &mut Command<'_, '_>,
    signal: SignalAt,
) -> Result<(), RecordError> {
    on_first_xcc(device, c, |c| {
        // The first one only waits for the end of the pipe.
        let end = ReleaseMem {
            flush: Flush::NONE,
            data: DataSel::None,
            interrupt: IntSel::AfterWrite,
            address: Value::Imm(0),
            context: 0,
        };
        end.record(c)?;
        let clock = ReleaseMem {
            data: DataSel::GpuClock,
            interrupt: IntSel::None,
            address: signal.address + 8,
            ..end
        };
        clock.record_as(c, Operand::Signal, 3)?;
        AcquireMem::all(device.chip().acquire_all).record(c);
        Ok(())
    })
}

pub(crate) fn write(
    c: &mut Command<'_, '_>,
    address: Value,
    value: Value,
    width: WriteWidth,
) -> Result<(), RecordError> {
    let data = match width {
        WriteWidth::W32 => DataSel::Low32(value),
        WriteWidth::W64 => DataSel::Data64(value),
    };
    ReleaseMem {
        flush: Flush::NONE,
        data,
        interrupt: IntSel::None,
        address,
        context: 0,
    }
    .record(c)
}

/// Refuses to wait for bits that the mask clears: no word can ever match.
pub(crate) fn check_expect(mask: u32, expect: Value) -> Result<(), RecordError> {
    match expect.imm() {
        Some(bits) if bits & !u64::from(mask) != 0 => Err(RecordError::Limit {
            operand: Operand::Data,
            value: bits,
            max: mask.into(),
        }),
        _ => Ok(()),
    }
}

pub(crate) fn poll_bit(
    c: &mut Command<'_, '_>,
    address: Value,
    mask: u32,
    expect: Value,
) -> Result<(), RecordError> {
    check_expect(mask, expect)?;
    let wait = WaitRegMem {
        function: Function::Equal,
        poll: Poll::Memory(address),
        reference: expect,
        mask,
        poll_interval: WaitRegMem::POLL_INTERVAL,
    };
    wait.record(c)
}

/// The words of a memory barrier, which are the same for a whole queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    words: [u32; Self::WORDS],
    len: usize,
}

impl Barrier {
    const WORDS: usize = WaitRegMem::WORDS + AcquireMem::WORDS_GFX10;

    pub(crate) fn new(device: &Device) -> Self {
        let (registers, bit) = (device.registers(), device.hdp_client().mask());
        // The addresses have 18 bits: the device has checked them.
        let flush = WaitRegMem::request(registers.hdp_flush_req, registers.hdp_flush_done, bit);
        let (acquire, len) = AcquireMem::all(device.chip().acquire_all).encode();
        let mut words = [0; Self::WORDS];
        for (to, from) in words.iter_mut().zip(flush.iter().chain(&acquire)) {
            *to = *from;
        }
        let len = flush.len() + len;
        Self { words, len }
    }

    #[inline]
    pub(crate) fn words(&self) -> &[u32] {
        self.words.get(..self.len).unwrap_or_default()
    }
}
