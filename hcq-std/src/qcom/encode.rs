//! From the shell's commands to the words of each kind of queue.

use hcq_cpu::queue::Copy;
use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{ComputeQueue, CopyQueue, Launch, Queue};
use hcq_nostd::record::{Block, NameOperand, Operand, RecordError};
use hcq_nostd::value::Fit;
use hcq_qcom::device::Device;
use hcq_qcom::pm4::AdrenoCompute;
use hcq_qcom::pm4::indirect_buffer::IndirectBuffer;

use super::program::{FOREIGN, way};
use crate::backend::Command;

type Encoded<'w> = Result<(usize, PatchList<'w>), RecordError>;

const NO_BLOCK: RecordError = RecordError::KernargsTooSmall { need: 1, have: 0 };

/// Commands that all queues have.
fn common<Q: Queue>(queue: &mut Q, command: &Command<'_>) -> Result<(), RecordError> {
    match *command {
        Command::Wait(signal, value) => queue.wait(signal, value)?,
        Command::Signal(signal, value) => queue.signal(signal, value)?,
        Command::Timestamp(signal) => queue.timestamp(signal)?,
        Command::Write(address, value, width) => queue.write(address, value, width)?,
        Command::PollBit(address, mask, expect) => queue.poll_bit(address, mask, expect)?,
        // The shell refuses these before they come here.
        Command::Barrier | Command::Exec(_) | Command::Copy { .. } | Command::Launch { .. } => {
            return Err(FOREIGN);
        }
    };
    Ok(())
}

/// A command of the compute queue.
pub(super) fn compute<'w>(
    device: &Device,
    command: &Command<'_>,
    kernargs: Option<Block<'_, '_>>,
    words: &'w mut [u32],
    list: PatchList<'w>,
) -> Encoded<'w> {
    let mut queue = AdrenoCompute::new(device, words, list);
    match *command {
        Command::Barrier => {
            queue.memory_barrier()?;
        }
        // What was waited for is seen by what follows: the cache may hold what was there before.
        Command::Wait(..) | Command::PollBit(..) => {
            common(&mut queue, command)?;
            queue.memory_barrier()?;
        }
        Command::Exec(e) => {
            let prepared = way(e.program, e.args)?;
            queue.exec(Launch {
                program: prepared.program(),
                args: e.args,
                kernargs: kernargs.ok_or(NO_BLOCK)?,
                groups: e.grid.groups,
                local: e.grid.local,
                local_memory: e.grid.local_memory,
            })?;
        }
        // The kernel driver calls what is elsewhere.
        Command::Launch { address, words } => {
            IndirectBuffer::new(address.into(), words)?;
        }
        ref other => common(&mut queue, other)?,
    }
    Ok(queue.finish().finish())
}

/// A command of a copy queue: packets that a thread of the host runs. Signals have the GPU's width on it as well.
pub(super) fn copy<'w>(
    command: &Command<'_>,
    words: &'w mut [u32],
    mut list: PatchList<'w>,
) -> Encoded<'w> {
    if let Command::Wait(_, value) | Command::Signal(_, value) = *command {
        list.require(value, Fit::bits(32)).operand(Operand::Data)?;
    }
    let mut queue = Copy::new(words, list);
    match *command {
        Command::Copy {
            destination,
            source,
            bytes,
        } => {
            queue.copy(destination, source, bytes)?;
        }
        Command::Launch { address, words } => {
            let packets = words / hcq_cpu::PACKET_WORDS;
            let too_large = RecordError::Limit {
                operand: Operand::Length,
                value: packets as u64,
                max: u32::MAX.into(),
            };
            queue.indirect(
                address.into(),
                u32::try_from(packets).map_err(|_| too_large)?,
            )?;
        }
        ref other => common(&mut queue, other)?,
    }
    Ok(queue.finish().finish())
}
