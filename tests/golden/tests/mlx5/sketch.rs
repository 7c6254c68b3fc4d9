//! mlx5: work queue entries, and the doorbells and completions that another engine's queue drives. Big endian throughout.

use hcq_nostd::patch::{Formula, Part, PatchList, Store, SumError, Swap};
use hcq_nostd::queue::WriteWidth;
use hcq_nostd::record::{Block, Operand, RecordError};
use hcq_nostd::value::{Fit, Value, Var};

use super::Recording;

pub(crate) const SEND_WQE_BYTES: usize = 64;
pub(crate) const RECEIVE_WQE_BYTES: usize = 16;

// Control segment.
const OPCODE_SEND: u64 = 0x0a;
const INDEX_SHIFT: u8 = 8;
const INDEX_BITS: u8 = 16;
const QPN: usize = 4;
const QPN_SHIFT: u32 = 8;
/// Control and one data segment, in units of 16 bytes.
const DS: u32 = 2;
const FM_CE_SE: usize = 8;
const COMPLETION_ALWAYS: u32 = 2 << 2;

// Data segment.
const DATA_SEGMENT: usize = 16;
const LKEY: usize = 4;
const ADDRESS: usize = 8;
/// Bit 31 would make the data inline.
const BYTE_COUNT_BITS: u8 = 31;

// Completion queue entries.
const CQE_LOG2: u8 = 6;
const CQE_OWNER_WORD: u64 = 60;
/// The owner bit in the entry's last byte, as a little-endian engine reads the last word.
const CQE_OWNER_BIT: u8 = 24;
const CONSUMER_INDEX_BITS: u8 = 24;

/// The doorbell register in a UAR page.
const DOORBELL_REGISTER: u64 = 0x800;
/// The send counter in a doorbell record, after the receive counter.
const SEND_COUNTER: u64 = 4;

/// A registered buffer and what of it is moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data {
    pub(crate) key: u32,
    pub(crate) address: Value,
    pub(crate) bytes: Value,
}

fn data_segment(
    list: &mut PatchList<'_>,
    at: usize,
    block: &mut Block<'_, '_>,
    data: &Data,
) -> Result<(), RecordError> {
    let any = Var::new(0);
    let count = Formula {
        fit: Fit::count(BYTE_COUNT_BITS),
        ..Formula::narrow(any, Store::W32).swapped()
    };
    block.value(list, at, data.bytes, &count, Operand::Length)?;
    block.write(at + LKEY, &data.key.to_be_bytes())?;
    block.value(
        list,
        at + ADDRESS,
        data.address,
        &Formula::whole(any).swapped(),
        Operand::Address,
    )
}

/// A send of one buffer. The index is counted modulo 2^16.
pub(crate) fn send(
    list: &mut PatchList<'_>,
    wqe: &mut Block<'_, '_>,
    qpn: u32,
    index: Value,
    data: &Data,
) -> Result<(), RecordError> {
    wqe.write(0, &[0; SEND_WQE_BYTES])?;
    let opcode = Formula {
        mask: (1 << INDEX_BITS) - 1,
        shl: INDEX_SHIFT,
        base: OPCODE_SEND,
        store: Store::W32,
        ..Formula::whole(Var::new(0)).swapped()
    };
    wqe.value(list, 0, index, &opcode, Operand::Data)?;
    wqe.write(QPN, &(qpn << QPN_SHIFT | DS).to_be_bytes())?;
    wqe.write(FM_CE_SE, &COMPLETION_ALWAYS.to_be_bytes())?;
    data_segment(list, DATA_SEGMENT, wqe, data)
}

/// Room for one message.
pub(crate) fn receive(
    list: &mut PatchList<'_>,
    wqe: &mut Block<'_, '_>,
    data: &Data,
) -> Result<(), RecordError> {
    data_segment(list, 0, wqe, data)
}

/// A queue pair's addresses, as the engine that drives it sees them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doorbells {
    pub(crate) qpn: u32,
    /// The two doorbell records.
    pub(crate) queue_record: u64,
    pub(crate) completion_record: u64,
    pub(crate) uar: u64,
    pub(crate) completions: u64,
    pub(crate) completions_log2: u8,
}

fn known(e: SumError) -> RecordError {
    match e {
        SumError::Misfit { misfit, .. } => RecordError::Misfit {
            operand: Operand::Data,
            misfit,
        },
        SumError::Build(e) => e.into(),
    }
}

/// Tells the NIC of work `head` and waits for its completion, with nothing but writes and polls of any queue.
pub(crate) fn ring<'m, Q: Recording<'m>>(
    q: &mut Q,
    nic: &Doorbells,
    head: Value,
    send: bool,
) -> Result<(), RecordError> {
    let cut = |from, bits, shl| Part::Cut { from, bits, shl };
    let next = head + 1;

    let counter = q
        .list()
        .sum(0, &[(next, cut(0, INDEX_BITS, 0))], Swap::Bytes32)
        .map_err(known)?;
    let record = nic.queue_record + if send { SEND_COUNTER } else { 0 };
    q.write(record.into(), counter, WriteWidth::W32)?;
    if send {
        // The first eight bytes of the work queue entry.
        let base = OPCODE_SEND << 32 | u64::from(nic.qpn << QPN_SHIFT | DS);
        let start = q
            .list()
            .sum(
                base,
                &[(head, cut(0, INDEX_BITS, 32 + INDEX_SHIFT))],
                Swap::Bytes64,
            )
            .map_err(known)?;
        q.write((nic.uar + DOORBELL_REGISTER).into(), start, WriteWidth::W64)?;
    }

    let (lap, slot) = (
        cut(nic.completions_log2, 1, CQE_OWNER_BIT),
        cut(0, nic.completions_log2, CQE_LOG2),
    );
    let word = q
        .list()
        .sum(nic.completions + CQE_OWNER_WORD, &[(head, slot)], Swap::No)
        .map_err(known)?;
    let owner = q.list().sum(0, &[(head, lap)], Swap::No).map_err(known)?;
    q.poll_bit(word, 1 << CQE_OWNER_BIT, owner)?;

    let consumed = q
        .list()
        .sum(0, &[(next, cut(0, CONSUMER_INDEX_BITS, 0))], Swap::Bytes32)
        .map_err(known)?;
    q.write(nic.completion_record.into(), consumed, WriteWidth::W32)?;
    Ok(())
}
