//! Encoders of the CPU device's queues.
//!
//! A [`Compute`] queue runs kernels, a [`Copy`](type@Copy) queue copies; what the other has is absent from its type.
//! Every command is one packet; a queue's words are whole packets at multiples of [`PACKET_WORDS`].

use core::marker::PhantomData;

use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{ComputeQueue, CopyQueue, Launch, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Command, NameOperand, Operand, RecordError, Recorder};
use hcq_nostd::value::{Fit, Misfit, Value};

use crate::PACKET_WORDS;
use crate::packet::{Exec, Packet, op, word};
use crate::program::Program;

/// Marks queues that run kernels.
#[derive(Debug)]
pub enum RunsKernels {}
/// Marks queues that copy.
#[derive(Debug)]
pub enum Copies {}

/// A compute queue.
pub type Compute<'m> = CpuQueue<'m, RunsKernels>;
/// A copy queue.
pub type Copy<'m> = CpuQueue<'m, Copies>;

/// A queue of the CPU device while it is recorded.
#[derive(Debug)]
pub struct CpuQueue<'m, K> {
    recorder: Recorder<'m>,
    kind: PhantomData<K>,
}

/// A signal lies at a multiple of 16.
const SIGNAL: Fit = Fit::aligned(64, 4);

impl<'m, K> CpuQueue<'m, K> {
    /// An empty queue over the caller's words, region 0 of the patch list.
    pub fn new(words: &'m mut [u32], list: PatchList<'m>) -> Self {
        Self::over(Recorder::new(words, list))
    }

    /// A queue that records into an existing recorder, behind what it holds.
    pub fn over(recorder: Recorder<'m>) -> Self {
        Self {
            recorder,
            kind: PhantomData,
        }
    }

    /// The recorder, to declare variables or to look at what was recorded.
    pub fn recorder(&mut self) -> &mut Recorder<'m> {
        &mut self.recorder
    }

    /// The words so far: whole packets.
    pub fn words(&self) -> &[u32] {
        self.recorder.words()
    }

    /// The recorder.
    pub fn finish(self) -> Recorder<'m> {
        self.recorder
    }

    /// Launches the packets of a bound queue, at a 64-byte boundary.
    ///
    /// # Errors
    /// [`RecordError`]; the queue is as it was.
    pub fn indirect(&mut self, address: Value, packets: u32) -> Result<&mut Self, RecordError> {
        let header = [op::INDIRECT, 0];
        self.packet(header, |c| {
            c.set(word::COUNT, packets);
            c.set_pair(word::FIRST, address, Fit::aligned(64, 6))
                .operand(Operand::Address)
        })
    }

    #[inline]
    fn packet(
        &mut self,
        [header, extra]: [u32; 2],
        operands: impl FnOnce(&mut Command<'_, 'm>) -> Result<(), RecordError>,
    ) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| {
            let mut words = [0; PACKET_WORDS];
            let [first, second, ..] = &mut words;
            (*first, *second) = (header, extra);
            c.words(&words);
            operands(c)
        })?;
        Ok(self)
    }
}

impl<K> Queue for CpuQueue<'_, K> {
    fn signal(&mut self, signal: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        let header = if signal.notify {
            op::SIGNAL | op::FLAG
        } else {
            op::SIGNAL
        };
        self.packet([header, 0], |c| {
            c.set_pair(word::FIRST, signal.address, SIGNAL)
                .operand(Operand::Signal)?;
            c.set_pair(word::SECOND, value, Fit::ANY)
                .operand(Operand::Data)
        })
    }

    fn wait(&mut self, signal: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.packet([op::WAIT, 0], |c| {
            c.set_pair(word::FIRST, signal.address, SIGNAL)
                .operand(Operand::Signal)?;
            c.set_pair(word::SECOND, value, Fit::ANY)
                .operand(Operand::Data)
        })
    }

    fn timestamp(&mut self, signal: SignalAt) -> Result<&mut Self, RecordError> {
        self.packet([op::TIMESTAMP, 0], |c| {
            c.set_pair(word::FIRST, signal.address, SIGNAL)
                .operand(Operand::Signal)
        })
    }

    fn write(
        &mut self,
        address: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError> {
        let (header, at, data) = match width {
            WriteWidth::W32 => (op::WRITE, Fit::aligned(64, 2), Fit::bits(32)),
            WriteWidth::W64 => (op::WRITE | op::FLAG, Fit::aligned(64, 3), Fit::ANY),
        };
        self.packet([header, 0], |c| {
            c.set_pair(word::FIRST, address, at)
                .operand(Operand::Address)?;
            c.set_pair(word::SECOND, value, data).operand(Operand::Data)
        })
    }

    fn poll_bit(
        &mut self,
        address: Value,
        mask: u32,
        expect: Value,
    ) -> Result<&mut Self, RecordError> {
        if let Some(bits) = expect.imm().filter(|v| v & !u64::from(mask) != 0) {
            // No word can ever match.
            return Err(RecordError::Limit {
                operand: Operand::Data,
                value: bits,
                max: mask.into(),
            });
        }
        self.packet([op::POLL, mask], |c| {
            c.set_pair(word::FIRST, address, Fit::aligned(64, 2))
                .operand(Operand::Address)?;
            c.set_value(word::SECOND, expect, Fit::bits(32))
                .operand(Operand::Data)
        })
    }
}

impl ComputeQueue for Compute<'_> {
    type Program<'p> = Program<'p>;

    fn memory_barrier(&mut self) -> Result<&mut Self, RecordError> {
        self.packet([op::BARRIER, 0], |_| Ok(()))
    }

    fn exec(&mut self, mut launch: Launch<'_, '_, Program<'_>>) -> Result<&mut Self, RecordError> {
        let program = launch.program;
        let beyond = RecordError::Misfit {
            operand: Operand::Kernargs,
            misfit: Misfit::TooLarge {
                value: u64::MAX,
                bits: 64,
            },
        };
        let block = &launch.kernargs;
        block.address(block.len()).ok_or(beyond)?;
        let args = block.address(0).ok_or(beyond)?;
        let align = program.args_align(launch.args).max(1);
        let align_log2 = u8::try_from(align.trailing_zeros()).unwrap_or(u8::MAX);
        let aligned = Fit::aligned(64, align_log2);
        if let Value::Imm(value) = args
            && !value.is_multiple_of(align)
        {
            return Err(RecordError::Misfit {
                operand: Operand::Kernargs,
                misfit: Misfit::Misaligned { value, align_log2 },
            });
        }
        let own = program.local_memory();
        let local_memory = own
            .checked_add(launch.local_memory)
            .ok_or(RecordError::Limit {
                operand: Operand::LocalMemory,
                value: u64::from(own) + u64::from(launch.local_memory),
                max: u32::MAX.into(),
            })?;
        self.recorder.command(|c| {
            let args_size = program.write_args(launch.args, &mut launch.kernargs, c.list())?;
            let too_large = RecordError::Limit {
                operand: Operand::Kernargs,
                value: args_size as u64,
                max: u32::MAX.into(),
            };
            let exec = Exec {
                kernel: program.entry(),
                args: args.imm().unwrap_or(0),
                args_size: u32::try_from(args_size).map_err(|_| too_large)?,
                groups: known(launch.groups, Operand::Groups)?,
                local: known(launch.local, Operand::Local)?,
                local_memory,
            };
            c.words(&Packet::Exec(exec).encode());
            if let Some(entry) = program.entry_variable() {
                c.set_pair(word::FIRST, entry.into(), Fit::ANY)
                    .operand(Operand::Program)?;
            }
            if let Value::Var(_) = args {
                c.set_pair(word::ARGS, args, aligned)
                    .operand(Operand::Kernargs)?;
            }
            for (at, sizes) in [(word::GROUPS, launch.groups), (word::LOCAL, launch.local)] {
                for (at, value) in (at..).zip(sizes) {
                    if matches!(value, Value::Var(_)) {
                        // Checked at launch.
                        c.set_value(at, value, COUNT).operand(Operand::Program)?;
                    }
                }
            }
            Ok(())
        })?;
        Ok(self)
    }
}

/// A number of groups or items: at least one.
const COUNT: Fit = Fit::count(32);

/// The sizes that are known, checked; zero for those that are not.
#[inline]
fn known(sizes: [Value; 3], operand: fn(u8) -> Operand) -> Result<[u32; 3], RecordError> {
    let mut words = [0; 3];
    for (d, (word, value)) in (0u8..).zip(words.iter_mut().zip(sizes)) {
        if let Value::Imm(v) = value {
            COUNT.check(v).operand(operand(d))?;
            *word = (v & 0xffff_ffff) as u32;
        }
    }
    Ok(words)
}

impl CopyQueue for Copy<'_> {
    fn copy(
        &mut self,
        destination: Value,
        source: Value,
        bytes: Value,
    ) -> Result<&mut Self, RecordError> {
        self.packet([op::COPY, 0], |c| {
            c.set_pair(word::FIRST, destination, Fit::ANY)
                .operand(Operand::Destination)?;
            c.set_pair(word::SECOND, source, Fit::ANY)
                .operand(Operand::Source)?;
            c.set_pair(word::THIRD, bytes, Fit::ANY)
                .operand(Operand::Length)
        })
    }
}

#[cfg(test)]
mod tests;
