//! Methods of the host engine, for every channel, and what a channel is told once.

use hcq_nostd::queue::{SignalAt, WriteWidth};
use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::qmd::Chip;

// Subchannels.
pub(super) const HOST: u32 = 0;
pub(super) const COMPUTE: u32 = 1;
pub(super) const COPY: u32 = 4;

// Host methods.
const NON_STALL_INTERRUPT: u32 = 0x20;
const SEM_ADDR_LO: u32 = 0x5c;

// SEM_EXECUTE.
const ACQ_CIRC_GEQ: u32 = 3;
const ACQ_AND: u32 = 4;
const ACQ_NOR: u32 = 5;
const RELEASE: u32 = 1;
const RELEASE_WFI: u32 = 1 << 20;
const PAYLOAD_SIZE_64BIT: u32 = 1 << 24;
const RELEASE_TIMESTAMP: u32 = 1 << 25;

// What a compute channel is told once.
const SET_OBJECT: u32 = 0;
const SET_SHADER_SHARED_MEMORY_WINDOW_A: u32 = 0x2a0;
const SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A: u32 = 0x2e4;
const MAX_SM_COUNT: u32 = 0xff;
const SET_SHADER_LOCAL_MEMORY_A: u32 = 0x790;
const SET_SHADER_LOCAL_MEMORY_WINDOW_A: u32 = 0x7b0;

/// Header of an incrementing method run.
pub(super) const fn method(subchannel: u32, method: u32, count: u32) -> u32 {
    const INCREMENTING: u32 = 1 << 29;
    assert!(count < 1 << 13 && method < 1 << 14);
    INCREMENTING | count << 16 | subchannel << 13 | method >> 2
}

pub(super) fn semaphore(
    c: &mut Command<'_, '_>,
    chip: &Chip,
    address: (Value, u8),
    (payload, fit): (Value, Fit),
    execute: u32,
) -> Result<(), RecordError> {
    c.word(method(HOST, SEM_ADDR_LO, 5));
    c.pair(address.0, Fit::aligned(chip.semaphore_bits, address.1))
        .operand(Operand::Address)?;
    c.pair(payload, fit).operand(Operand::Data)?;
    c.word(execute);
    Ok(())
}

/// A release with timestamp writes 16 bytes: the value, and the clock after it.
pub(super) fn release(
    c: &mut Command<'_, '_>,
    chip: &Chip,
    at: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    let execute = RELEASE | RELEASE_WFI | PAYLOAD_SIZE_64BIT | RELEASE_TIMESTAMP;
    semaphore(c, chip, (at.address, 4), (value, Fit::ANY), execute)?;
    if at.notify {
        c.words(&[method(HOST, NON_STALL_INTERRUPT, 1), 0]);
    }
    Ok(())
}

pub(super) fn wait(
    c: &mut Command<'_, '_>,
    chip: &Chip,
    at: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    semaphore(
        c,
        chip,
        (at.address, 3),
        (value, Fit::ANY),
        ACQ_CIRC_GEQ | PAYLOAD_SIZE_64BIT,
    )
}

pub(super) fn write(
    c: &mut Command<'_, '_>,
    chip: &Chip,
    address: Value,
    value: Value,
    width: WriteWidth,
) -> Result<(), RecordError> {
    match width {
        WriteWidth::W32 => semaphore(
            c,
            chip,
            (address, 2),
            (value, Fit::bits(32)),
            RELEASE | RELEASE_WFI,
        ),
        WriteWidth::W64 => {
            let execute = RELEASE | RELEASE_WFI | PAYLOAD_SIZE_64BIT;
            semaphore(c, chip, (address, 3), (value, Fit::ANY), execute)
        }
    }
}

/// One bit, and known now: an acquire tests for any bit set or any bit clear.
pub(super) fn poll_bit(
    c: &mut Command<'_, '_>,
    chip: &Chip,
    address: Value,
    mask: u32,
    expect: Value,
) -> Result<(), RecordError> {
    let expect = expect.imm().ok_or(RecordError::NotConstant {
        operand: Operand::Data,
    })?;
    if !mask.is_power_of_two() {
        return Err(RecordError::Unsupported {
            operand: Operand::Mask,
        });
    }
    let (payload, operation) = match expect {
        0 => (!mask, ACQ_NOR),
        e if e == u64::from(mask) => (mask, ACQ_AND),
        _ => {
            return Err(RecordError::Unsupported {
                operand: Operand::Data,
            });
        }
    };
    semaphore(
        c,
        chip,
        (address, 2),
        (payload.into(), Fit::bits(32)),
        operation,
    )
}

/// What a channel is told once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) compute_class: Option<u32>,
    pub(crate) copy_class: Option<u32>,
    pub(crate) local_window: Option<u64>,
    pub(crate) shared_window: Option<u64>,
    /// Address, and bytes per TPC.
    pub(crate) local_memory: Option<[u64; 2]>,
}

pub(super) fn setup(c: &mut Command<'_, '_>, setup: &Setup) -> Result<(), RecordError> {
    for (subchannel, class) in [(COMPUTE, setup.compute_class), (COPY, setup.copy_class)] {
        if let Some(class) = class {
            c.words(&[method(subchannel, SET_OBJECT, 1), class]);
        }
    }
    let windows = [
        (SET_SHADER_LOCAL_MEMORY_WINDOW_A, setup.local_window),
        (SET_SHADER_SHARED_MEMORY_WINDOW_A, setup.shared_window),
        (
            SET_SHADER_LOCAL_MEMORY_A,
            setup.local_memory.map(|[address, _]| address),
        ),
    ];
    for (first, address) in windows {
        if let Some(address) = address {
            c.word(method(COMPUTE, first, 2));
            c.pair_high_first(address.into(), Fit::bits(49))
                .operand(Operand::Address)?;
        }
    }
    if let Some([_, bytes]) = setup.local_memory {
        c.word(method(COMPUTE, SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A, 3));
        c.pair_high_first(bytes.into(), Fit::bits(40))
            .operand(Operand::Length)?;
        c.word(MAX_SM_COUNT);
    }
    Ok(())
}
