//! From the shell's commands to the words of each kind of queue.

use hcq_amd::aql::{self, AqlCompute, PACKET_BYTES, PACKET_WORDS};
use hcq_amd::device::{Device, Event};
use hcq_amd::pm4::Pm4Compute;
use hcq_amd::pm4::indirect_buffer::IndirectBuffer;
use hcq_amd::pm4::release_mem::{DataSel, IntSel, ReleaseMem};
use hcq_amd::sdma::{self, SdmaCopy};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{BuildError, Derived, Formula, PatchList, PatchRoom, RegionId, Site};
use hcq_nostd::queue::{ComputeQueue, CopyQueue, Launch, Queue, WriteWidth};
use hcq_nostd::record::{Block, Operand, RecordError, Room};
use hcq_nostd::value::Affine;

use super::program::{FOREIGN, Packets, own};
use crate::backend::{Command, Exec};

/// Words of an AQL queue's command that is not a launch, at most.
pub(super) const BESIDE_WORDS: usize = 64;
/// Sites of one packet and its argument block, where more are asked for than anyone has arguments.
const SITES: usize = 64;
/// Derived variables of one dispatch: there are three grid sizes.
const DERIVED: usize = 8;

type Encoded<'w> = Result<(usize, PatchList<'w>), RecordError>;

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

const NO_BLOCK: RecordError = RecordError::KernargsTooSmall { need: 1, have: 0 };

/// A command of a queue of PM4 words.
pub(super) fn pm4<'w>(
    device: &Device,
    index: usize,
    command: &Command<'_>,
    kernargs: Option<Block<'_, '_>>,
    words: &'w mut [u32],
    list: PatchList<'w>,
) -> Encoded<'w> {
    let mut queue = Pm4Compute::new(device, words, list);
    match *command {
        Command::Barrier => {
            queue.memory_barrier()?;
        }
        // What was waited for is seen by what follows: since the barrier that the submission began with, another queue may
        // have filled the L2 with what was there before.
        Command::Wait(..) | Command::PollBit(..) => {
            common(&mut queue, command)?;
            queue.memory_barrier()?;
        }
        // What kernels have stored to the same cache line is written back first, and does not come over the number later.
        Command::Write(address, value, width) => {
            let data = match width {
                WriteWidth::W32 => DataSel::Low32(value),
                WriteWidth::W64 => DataSel::Data64(value),
            };
            let write = ReleaseMem {
                flush: device.chip().release,
                data,
                interrupt: IntSel::None,
                address,
                context: 0,
            };
            queue.recorder().command(|c| write.record(c))?;
        }
        Command::Exec(e) => {
            let Packets::Pm4(program) = own(e.program)?.on(index)? else {
                return Err(FOREIGN);
            };
            queue.exec(Launch {
                program: &**program,
                args: e.args,
                kernargs: kernargs.ok_or(NO_BLOCK)?,
                groups: e.grid.groups,
                local: e.grid.local,
                local_memory: e.grid.local_memory,
            })?;
        }
        Command::Launch { address, words } => {
            let buffer = IndirectBuffer::new(address.into(), words)?;
            queue.recorder().command(|c| buffer.record(c))?;
        }
        ref other => common(&mut queue, other)?,
    }
    Ok(queue.finish().finish())
}

/// A command of a copy queue. What runs by reference is the port's business: where in the ring its packet can be matters.
pub(super) fn sdma<'w>(
    version: sdma::Version,
    event: Option<Event>,
    command: &Command<'_>,
    words: &'w mut [u32],
    list: PatchList<'w>,
) -> Encoded<'w> {
    // The version was looked up when the device was opened.
    let mut queue = SdmaCopy::new(version, event, words, list).map_err(|_| FOREIGN)?;
    match *command {
        Command::Copy {
            destination,
            source,
            bytes,
        } => {
            queue.copy(destination, source, bytes)?;
        }
        Command::Launch { words, .. } => {
            let max = sdma::indirect::Indirect::MAX;
            if words > max as usize {
                return Err(RecordError::Limit {
                    operand: Operand::Length,
                    value: words as u64,
                    max: max.into(),
                });
            }
        }
        ref other => common(&mut queue, other)?,
    }
    Ok(queue.finish().finish())
}

/// A list of the caller's size that goes on with the numbers of another.
fn follow<'m>(
    list: &PatchList<'_>,
    sites: &'m mut [Site],
    derived: &'m mut [Derived],
) -> Result<PatchList<'m>, RecordError> {
    Ok(PatchList::resume(
        sites,
        derived,
        PatchRoom::default(),
        list.vars(),
    )?)
}

/// A command of a queue of AQL packets: one packet. Launches are packets of their own; all others are PM4 words, in the
/// block beside, that a vendor packet runs. Without a block only these words are encoded.
pub(super) fn aql<'w>(
    device: &Device,
    index: usize,
    command: &Command<'_>,
    beside: Option<Block<'_, '_>>,
    words: &'w mut [u32],
    list: PatchList<'w>,
) -> Encoded<'w> {
    match (command, beside) {
        (Command::Exec(e), Some(kernargs)) => dispatch(device, index, e, kernargs, words, list),
        (Command::Exec(_), None) => Err(NO_BLOCK),
        (_, None) => pm4(device, index, command, None, words, list),
        (_, Some(block)) => vendor(device, index, command, block, words, list),
    }
}

fn room(list: &PatchList<'_>) -> RecordError {
    let used = list.used();
    RecordError::NoRoom(Room {
        words: PACKET_WORDS,
        sites: used.sites,
        derived: used.derived,
        beside: 0,
    })
}

/// PM4 words into the block, and the packet that runs them.
fn vendor<'w>(
    device: &Device,
    index: usize,
    command: &Command<'_>,
    mut block: Block<'_, '_>,
    words: &'w mut [u32],
    mut list: PatchList<'w>,
) -> Encoded<'w> {
    let Some(to) = words.first_chunk_mut::<PACKET_WORDS>() else {
        return Err(room(&list));
    };
    let (mut pm4_words, mut sites) = ([0; BESIDE_WORDS], [Site::EMPTY; SITES]);
    let own = follow(&list, &mut sites, &mut [])?;
    let (n, own) = pm4(device, index, command, None, &mut pm4_words, own)?;
    let filed = own.used().sites;
    let used = pm4_words.get(..n).unwrap_or_default();
    block.write(0, zerocopy::IntoBytes::as_bytes(used))?;
    for site in sites.iter().take(filed) {
        if let Some(formula) = site.formula() {
            let at = site.place().1 as usize;
            block.value(&mut list, at, formula.of.into(), &formula, Operand::Data)?;
        }
    }
    let address = block.address(0).ok_or(NO_BLOCK)?;
    let run = aql::vendor::Pm4Ib::ordered(address, n)?;
    match run.words() {
        Some(words) => *to = words,
        None => {
            // The packet is region 0, as the shell counts words.
            let mut memory = [0u64; PACKET_BYTES / 8];
            let mut region = Region::from_words(&mut memory, 0);
            let mut packet =
                Block::new(&mut region, RegionId(0), 0, PACKET_BYTES).map_err(|_| NO_BLOCK)?;
            run.record(&mut list, &mut packet)?;
            copy_packet(to, &memory);
        }
    }
    finish(list)
}

/// A dispatch packet.
fn dispatch<'w>(
    device: &Device,
    index: usize,
    e: &Exec<'_>,
    kernargs: Block<'_, '_>,
    words: &'w mut [u32],
    mut list: PatchList<'w>,
) -> Encoded<'w> {
    let Packets::Aql(program) = own(e.program)?.on(index)? else {
        return Err(FOREIGN);
    };
    let Some(packet) = words.first_chunk_mut::<PACKET_WORDS>() else {
        return Err(room(&list));
    };
    // Arguments may all be variables.
    let most = SITES + e.args.len();
    let (mut few, mut many) = ([Site::EMPTY; SITES], Vec::new());
    let sites = if e.args.is_empty() {
        &mut few[..]
    } else {
        many.resize(most, Site::EMPTY);
        &mut many[..]
    };
    let mut derived = [Derived::EMPTY; DERIVED];
    let first_derived = list.vars();
    let mut memory = [0u64; PACKET_BYTES / 8];
    let made;
    {
        let own = follow(&list, sites, &mut derived)?;
        // The packet is region 0, as the shell counts words.
        let region = Region::from_words(&mut memory, 0);
        let mut dummy = [0; 1];
        let (id, nowhere) = (RegionId(0), 0u64.into());
        let mut queue = AqlCompute::new(device, &mut dummy, nowhere, region, id, own);
        queue.exec(Launch {
            program: &**program,
            args: e.args,
            kernargs,
            groups: e.grid.groups,
            local: e.grid.local,
            local_memory: e.grid.local_memory,
        })?;
        let (recorder, _) = queue.finish();
        let (_, own) = recorder.finish();
        made = own.used();
    }
    let mut moved = [hcq_nostd::value::Var::new(0); DERIVED];
    for (n, one) in derived.iter().take(made.derived).enumerate() {
        let (before, rest) = moved.split_at_mut(n);
        if let Some(to) = rest.first_mut() {
            *to = list.derive(one.renumbered(first_derived, before))?;
        }
    }
    let filed = if e.args.is_empty() {
        &few[..]
    } else {
        &many[..]
    };
    for site in filed.iter().take(made.sites) {
        let Some(mut formula) = site.formula() else {
            continue;
        };
        if let Some(n) = formula.of.var.index().checked_sub(first_derived) {
            let var = moved
                .get(n as usize)
                .filter(|_| (n as usize) < made.derived);
            let var = *var.ok_or(BuildError::TooMany)?;
            formula.of = Affine { var, ..formula.of };
        }
        let (region, offset) = site.place();
        list.site(region, offset, &Formula { ..formula });
    }
    copy_packet(packet, &memory);
    finish(list)
}

fn copy_packet(to: &mut [u32; PACKET_WORDS], from: &[u64; PACKET_BYTES / 8]) {
    for (to, pair) in to.chunks_exact_mut(2).zip(from) {
        if let [low, high] = to {
            (*low, *high) = ((pair & 0xffff_ffff) as u32, (pair >> 32) as u32);
        }
    }
}

/// One packet; what the list lacks room for is asked for.
fn finish(list: PatchList<'_>) -> Result<(usize, PatchList<'_>), RecordError> {
    let used = list.used();
    if used.sites > list.sites().len() {
        return Err(room(&list));
    }
    Ok((PACKET_WORDS, list))
}

/// Words that a port needs beside those it is given.
pub(super) struct PortWords {
    /// What every submission to a compute queue starts with: what hosts and copy engines have written is seen.
    pub(super) barrier: Box<[u32]>,
    /// Stores 1 where queues are tried: of a compute queue, and of a copy queue.
    pub(super) probes: [Box<[u32]>; 2],
}

impl PortWords {
    pub(super) fn new(
        device: &Device,
        version: sdma::Version,
        copies: bool,
        probe: u64,
    ) -> Result<Self, RecordError> {
        let mut words = [0; BESIDE_WORDS];
        let (n, _) = pm4(
            device,
            0,
            &Command::Barrier,
            None,
            &mut words,
            PatchList::none(),
        )?;
        let barrier = words.get(..n).unwrap_or_default().into();
        let store = Command::Write(probe.into(), 1u64.into(), WriteWidth::W32);
        let (n, _) = pm4(device, 0, &store, None, &mut words, PatchList::none())?;
        let compute = words.get(..n).unwrap_or_default().into();
        let n = if copies {
            sdma(version, None, &store, &mut words, PatchList::none())?.0
        } else {
            0
        };
        let copy = words.get(..n).unwrap_or_default().into();
        Ok(Self {
            barrier,
            probes: [compute, copy],
        })
    }
}

#[cfg(test)]
mod tests;
