//! The commands of queues, as packets.

use hcq_nostd::queue::{SignalAt, WriteWidth};
use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::mem_write::MemWrite;
use super::split;
use super::sync::{WaitForIdle, WaitMemWrites};
use super::wait_reg_mem::{Function, Poll, WaitRegMem};
use crate::device::{ADDRESS_BITS, Device};

/// Signals are 16-byte aligned.
const SIGNAL_ALIGN_LOG2: u8 = 4;
const SIGNAL: Fit = Fit::aligned(ADDRESS_BITS, SIGNAL_ALIGN_LOG2);
/// Where a signal's timestamp is.
const TIMESTAMP_AT: u64 = 8;

/// Idle, a cache flush that writes the value, and another one behind it: the value is the first flush's last write, and the
/// second one sees to it that it leaves the cache.
#[inline]
pub(crate) fn signal(
    device: &Device,
    c: &mut Command<'_, '_>,
    signal: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    let packets = device.packets();
    if let (Value::Imm(address), Value::Imm(value)) = (signal.address, value) {
        SIGNAL.check(address).operand(Operand::Signal)?;
        Fit::bits(32).check(value).operand(Operand::Data)?;
        let [value, _] = split(value);
        c.word(WaitForIdle::WORD);
        c.words(&packets.flush(address, value));
        return packets.flush_to(c, device.scrap());
    }
    c.word(WaitForIdle::WORD);
    packets.flush_signal(c, signal.address, value, SIGNAL_ALIGN_LOG2)?;
    packets.flush_to(c, device.scrap())
}

#[inline]
pub(crate) fn wait(
    c: &mut Command<'_, '_>,
    signal: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    WaitRegMem {
        function: Function::GreaterEqual,
        poll: Poll::Memory(signal.address),
        reference: value,
        mask: u32::MAX,
        delay: WaitRegMem::DELAY,
    }
    .record_as(c, Operand::Signal, SIGNAL_ALIGN_LOG2)
}

#[inline]
pub(crate) fn timestamp(
    device: &Device,
    c: &mut Command<'_, '_>,
    signal: SignalAt,
) -> Result<(), RecordError> {
    c.word(WaitForIdle::WORD);
    c.words(device.packets().timestamp());
    if let Value::Imm(address) = signal.address {
        SIGNAL.check(address).operand(Operand::Signal)?;
        // Aligned, so that this does not wrap.
        c.words(&split(address.wrapping_add(TIMESTAMP_AT)));
        return Ok(());
    }
    // What is stored is the signal's address and 8, so that 16-byte alignment is a requirement of its own.
    c.list()
        .require(signal.address, SIGNAL)
        .operand(Operand::Signal)?;
    c.pair(signal.address + TIMESTAMP_AT, Fit::aligned(ADDRESS_BITS, 3))
        .operand(Operand::Signal)
}

/// The command processor writes around the cache that programs read through: what the cache holds of that memory is let go.
#[inline]
pub(crate) fn write(
    device: &Device,
    c: &mut Command<'_, '_>,
    address: Value,
    value: Value,
    width: WriteWidth,
) -> Result<(), RecordError> {
    c.word(WaitForIdle::WORD);
    MemWrite {
        address,
        value,
        width,
    }
    .record(c)?;
    c.word(WaitMemWrites::WORD);
    c.words(device.packets().invalidate());
    Ok(())
}

#[inline]
pub(crate) fn poll_bit(
    c: &mut Command<'_, '_>,
    address: Value,
    mask: u32,
    expect: Value,
) -> Result<(), RecordError> {
    // No word can match bits that the mask clears.
    if let Some(bits) = expect.imm()
        && bits & !u64::from(mask) != 0
    {
        return Err(RecordError::Limit {
            operand: Operand::Data,
            value: bits,
            max: mask.into(),
        });
    }
    WaitRegMem {
        function: Function::Equal,
        poll: Poll::Memory(address),
        reference: expect,
        mask,
        delay: WaitRegMem::DELAY,
    }
    .record(c)
}

/// Writes back the cache, invalidates it, and waits until all of that is done.
#[inline]
pub(crate) fn memory_barrier(device: &Device, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
    let packets = device.packets();
    packets.flush_to(c, device.scrap())?;
    c.words(packets.invalidate());
    c.words(&[WaitMemWrites::WORD, WaitForIdle::WORD]);
    Ok(())
}
