//! An encoder of a made-up engine. A launch is a descriptor beside the words, as NVIDIA's are, and a word pair that names it.

use hcq_nostd::args::{Arg, packed_size, write_packed};
use hcq_nostd::graph::{Command, Encode, QueueAt, QueueMemory, compute, copy};
use hcq_nostd::patch::{Derived, Formula, Store};
use hcq_nostd::plan::Engine;
use hcq_nostd::queue::{
    ComputeQueue, CopyQueue, Launch, Program as ProgramSize, Queue, SignalAt, WriteWidth,
};
use hcq_nostd::record::{Block, NameOperand, Operand, RecordError, Room};
use hcq_nostd::value::{Field, Fit, Value, Var};

/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) code: u64,
    pub(crate) align: usize,
}

impl ProgramSize for Program {
    fn kernargs_size(&self) -> usize {
        0
    }
    fn kernargs_align(&self) -> usize {
        self.align
    }
}

/// A queue of either kind.
pub(crate) struct ToyQueue<'m> {
    memory: QueueMemory<'m>,
    copies: bool,
}

impl ToyQueue<'_> {
    fn put(&mut self, op: u32, values: &[(Value, Fit)]) -> Result<&mut Self, RecordError> {
        self.memory.recorder.command(|c| {
            c.word(op);
            for (value, fit) in values {
                c.pair(*value, *fit).operand(Operand::Data)?;
            }
            Ok(())
        })?;
        Ok(self)
    }
}

const SIGNAL: Fit = Fit::aligned(64, 4);

impl Queue for ToyQueue<'_> {
    fn signal(&mut self, s: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        let op = if s.notify { 0x12 } else { 0x11 };
        self.put(op, &[(s.address, SIGNAL), (value, Fit::bits(32))])
    }
    fn wait(&mut self, s: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.put(0x10, &[(s.address, SIGNAL), (value, Fit::bits(32))])
    }
    fn timestamp(&mut self, s: SignalAt) -> Result<&mut Self, RecordError> {
        self.put(0x13, &[(s.address, SIGNAL)])
    }
    fn write(&mut self, at: Value, v: Value, width: WriteWidth) -> Result<&mut Self, RecordError> {
        let (op, fit) = match width {
            WriteWidth::W32 => (0x14, Fit::bits(32)),
            WriteWidth::W64 => (0x15, Fit::ANY),
        };
        self.put(op, &[(at, Fit::aligned(64, 2)), (v, fit)])
    }
    fn poll_bit(&mut self, _: Value, _: u32, _: Value) -> Result<&mut Self, RecordError> {
        let operand = Operand::Mask;
        Err(RecordError::Unsupported { operand })
    }
}

impl CopyQueue for ToyQueue<'_> {
    fn copy(&mut self, to: Value, from: Value, n: Value) -> Result<&mut Self, RecordError> {
        self.put(
            0x20,
            &[(to, Fit::ANY), (from, Fit::ANY), (n, Fit::bits(40))],
        )
    }
}

impl ComputeQueue for ToyQueue<'_> {
    type Program<'p> = Program;

    fn memory_barrier(&mut self) -> Result<&mut Self, RecordError> {
        self.put(0x30, &[])
    }

    fn exec(&mut self, mut l: Launch<'_, '_, Program>) -> Result<&mut Self, RecordError> {
        let beside = &mut self.memory.beside;
        let at = beside.used;
        let descriptor = beside.address + at as u64;
        let full = RecordError::NoRoom(Room {
            beside: at + DESCRIPTOR,
            ..self.memory.recorder.used()
        });
        let block = Block::new(&mut beside.region, beside.id, at, DESCRIPTOR);
        let mut block = block.map_err(|_| full)?;
        let kernargs = l.kernargs.address(0).expect("inside");
        self.memory.recorder.command(|c| {
            write_packed(l.args, &mut l.kernargs, c.list())?;
            let list = c.list();
            block.whole(list, 0, l.program.code.into(), Store::W64, Operand::Program)?;
            let address = Formula {
                fit: Fit::aligned(64, l.program.align.trailing_zeros() as u8),
                ..Formula::whole(Var::new(0))
            };
            block.value(list, 8, kernargs, &address, Operand::Kernargs)?;
            for (d, (groups, local)) in (0u8..).zip(l.groups.into_iter().zip(l.local)) {
                // What AQL wants: groups times local size.
                let items = match (groups, local) {
                    (Value::Var(g), Value::Var(l)) => list.derive(Derived::product(g, l))?.into(),
                    _ => list.product(groups, local)?,
                };
                let at = 16 + usize::from(d) * 4;
                block.whole(list, at, items, Store::W32, Operand::Groups(d))?;
            }
            c.word(0x31);
            // In units of 64 bytes, split at bit 32.
            c.field(0x8000_0000, descriptor, Field::new(0, 31).unit(6))
        })?;
        self.memory.beside.used = at + DESCRIPTOR;
        Ok(self)
    }
}

pub(crate) struct Toy;

impl Encode for Toy {
    type Program = Program;
    type Queue<'m> = ToyQueue<'m>;

    fn kernargs(&self, p: &Program, args: &[Arg<'_>]) -> Result<(usize, usize), RecordError> {
        Ok((packed_size(args), p.align))
    }

    fn over<'m>(&self, at: QueueAt, memory: QueueMemory<'m>) -> Result<ToyQueue<'m>, RecordError> {
        let copies = at.engine == Engine::Copy;
        Ok(ToyQueue { memory, copies })
    }

    fn command(
        &self,
        queue: &mut ToyQueue<'_>,
        command: Command<'_, '_, Program>,
    ) -> Result<(), RecordError> {
        match &command {
            // Its compute queues copy, too.
            Command::Copy { .. } => copy(queue, command),
            _ if queue.copies => copy(queue, command),
            _ => compute(queue, command),
        }
    }

    fn finish<'m>(&self, queue: Self::Queue<'m>) -> QueueMemory<'m> {
        queue.memory
    }
}
