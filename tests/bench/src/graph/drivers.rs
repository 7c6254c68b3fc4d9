//! The CPU's and AMD's encoders as a graph's.

use hcq_amd::pm4::indirect_buffer::IndirectBuffer;
use hcq_amd::pm4::{self, Pm4Compute, submit};
use hcq_cpu::program::Program;
use hcq_cpu::queue::Compute;
use hcq_cpu::{PACKET_BYTES, PACKET_WORDS};
use hcq_nostd::args::Arg;
use hcq_nostd::graph::{self, Beside, Command, Encode, QueueAt, QueueMemory, Run};
use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::Program as _;
use hcq_nostd::record::RecordError;
use hcq_nostd::ring::Ring;
use hcq_nostd::value::Value;

use super::{At, Driver};
use crate::amd;

/// The CPU device: packets of 64 bytes.
#[derive(Debug)]
pub struct Cpu(CpuEncode, Program<'static>);

impl Default for Cpu {
    fn default() -> Self {
        Self(CpuEncode, Program::new(0x1000))
    }
}

/// The encoder of its compute queue.
#[derive(Debug)]
pub struct CpuEncode;

impl Encode for CpuEncode {
    type Program = Program<'static>;
    type Queue<'m> = (Compute<'m>, Value, Beside<'m>);

    fn kernargs(&self, p: &Self::Program, args: &[Arg<'_>]) -> Result<(usize, usize), RecordError> {
        Ok((p.kernargs_for(args), p.kernargs_align()))
    }

    fn over<'m>(&self, _: QueueAt, m: QueueMemory<'m>) -> Result<Self::Queue<'m>, RecordError> {
        Ok((Compute::over(m.recorder), m.words_at, m.beside))
    }

    fn command(
        &self,
        queue: &mut Self::Queue<'_>,
        command: Command<'_, '_, Self::Program>,
    ) -> Result<(), RecordError> {
        graph::compute(&mut queue.0, command)
    }

    fn finish<'m>(&self, (queue, words_at, beside): Self::Queue<'m>) -> QueueMemory<'m> {
        QueueMemory {
            recorder: queue.finish(),
            words_at,
            beside,
        }
    }
}

impl Driver for Cpu {
    type Encode = CpuEncode;
    type Entry = [u32; PACKET_WORDS];
    const ENTRY: usize = PACKET_BYTES;
    const LOCAL: u64 = 1;
    const PLACES: &'static [At] = &[At::Known, At::Anywhere];

    fn encode(&self) -> &CpuEncode {
        &self.0
    }

    fn program(&self) -> &Program<'static> {
        &self.1
    }

    fn entry(run: &Run) -> Self::Entry {
        let mut words = [0u32; PACKET_WORDS];
        let mut q = Compute::new(&mut words, PatchList::none());
        q.indirect(run.address.into(), run.words / PACKET_WORDS as u32)
            .expect("room for one packet");
        words
    }

    #[inline]
    fn push(ring: &mut Ring<'_>, entry: &Self::Entry, doorbell: &mut impl FnMut(u64)) {
        ring.push(1, entry, doorbell).expect("an empty ring");
    }
}

/// AMD's compute queue of PM4 packets, for a gfx1100.
#[derive(Debug)]
pub struct Pm4(Pm4Encode, pm4::Program<'static>);

impl Default for Pm4 {
    fn default() -> Self {
        let (device, program) = amd::pm4_program();
        Self(Pm4Encode(device), program)
    }
}

/// The encoder of its compute queue.
#[derive(Debug)]
pub struct Pm4Encode(hcq_amd::device::Device);

impl Encode for Pm4Encode {
    type Program = pm4::Program<'static>;
    type Queue<'m> = (Pm4Compute<'m>, Value, Beside<'m>);

    fn kernargs(&self, p: &Self::Program, _: &[Arg<'_>]) -> Result<(usize, usize), RecordError> {
        Ok((p.kernargs_size(), p.kernargs_align()))
    }

    fn over<'m>(&self, _: QueueAt, m: QueueMemory<'m>) -> Result<Self::Queue<'m>, RecordError> {
        let queue = Pm4Compute::over(&self.0, m.recorder);
        Ok((queue, m.words_at, m.beside))
    }

    fn command(
        &self,
        queue: &mut Self::Queue<'_>,
        command: Command<'_, '_, Self::Program>,
    ) -> Result<(), RecordError> {
        graph::compute(&mut queue.0, command)
    }

    fn finish<'m>(&self, (queue, words_at, beside): Self::Queue<'m>) -> QueueMemory<'m> {
        QueueMemory {
            recorder: queue.finish(),
            words_at,
            beside,
        }
    }
}

impl Driver for Pm4 {
    type Encode = Pm4Encode;
    type Entry = [u32; IndirectBuffer::WORDS];
    const ENTRY: usize = 4;
    const LOCAL: u64 = 64;
    // Its packets take addresses of argument blocks that are known.
    const PLACES: &'static [At] = &[At::Known];

    fn encode(&self) -> &Pm4Encode {
        &self.0
    }

    fn program(&self) -> &pm4::Program<'static> {
        &self.1
    }

    fn entry(run: &Run) -> Self::Entry {
        submit::indirect(run.address, run.words as usize).expect("words that one packet runs")
    }

    #[inline]
    fn push(ring: &mut Ring<'_>, entry: &Self::Entry, doorbell: &mut impl FnMut(u64)) {
        ring.push(IndirectBuffer::WORDS as u64, entry, doorbell)
            .expect("an empty ring");
    }
}
