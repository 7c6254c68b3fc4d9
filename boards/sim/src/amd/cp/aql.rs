//! A queue of AQL packets.
//!
//! Packets begin in order. A kernel dispatch runs beside those before it unless its barrier bit holds it back; it completes
//! when all XCCs are through with it: release fence, time stamps, signal, interrupt. Slots are given back in order: the header
//! becomes invalid, then `read_dispatch_id` moves on, so that a program may read its packet as long as it runs.
//!
//! # Fences
//!
//! | scope | acquire, when the packet begins | release, when it completes |
//! |---|---|---|
//! | none | | |
//! | agent | scalar and vector data are forgotten; with several XCCs the L2s' copies too | with several XCCs, the L2s are written back |
//! | system | scalar and vector data and the L2s' copies are forgotten | the L2s are written back |
//!
//! Instructions are never forgotten: a runtime that loads code says so with an `ACQUIRE_MEM` in a vendor packet
//! (`GpuAgent::InvalidateCodeCaches` of ROCR-Runtime).
//!
//! # The queue's descriptor
//!
//! The kernel is told where `read_dispatch_id` is; the word after it says how far back the `amd_queue_t` begins. Scratch,
//! profiling and the scratch descriptor are read from there whenever a packet needs them.

use std::collections::VecDeque;

use super::chip::Chip;
use super::layout;
use super::stream::{Done, Place, Stream};
use super::sync::CacheActions;
use super::{Cause, Stopped, memory};
use crate::cache::{Levels, host};
use crate::engine::{Engine, Fault, Host, QueueMemory, Step};
use crate::vm::AddressSpace;

mod kernel;
mod packet;

use packet::{Kind, Packet};

/// Bytes of a packet.
const PACKET: u64 = 64;

/// Offsets in `amd_queue_t` (`amd_hsa_queue.h`).
mod queue {
    pub(super) const READ_DISPATCH_ID: u64 = 128;
    pub(super) const COMPUTE_TMPRING_SIZE: u64 = 140;
    pub(super) const SCRATCH_RESOURCE_DESCRIPTOR: u64 = 144;
    pub(super) const SCRATCH_BACKING_MEMORY_LOCATION: u64 = 160;
    pub(super) const SCRATCH_BACKING_MEMORY_BYTE_SIZE: u64 = 168;
    pub(super) const QUEUE_PROPERTIES: u64 = 180;
    /// `AMD_QUEUE_PROPERTIES_ENABLE_PROFILING`.
    pub(super) const ENABLE_PROFILING: u32 = 1 << 3;
    /// `read_dispatch_id_field_base_byte_offset`, from `read_dispatch_id` on.
    pub(super) const BASE_OFFSET: u64 = 8;
}

/// Offsets in `amd_signal_t` (`amd_hsa_signal.h`).
mod signal {
    pub(super) const KIND: u64 = 0;
    pub(super) const VALUE: u64 = 8;
    pub(super) const EVENT_MAILBOX_PTR: u64 = 16;
    pub(super) const EVENT_ID: u64 = 24;
    pub(super) const START_TS: u64 = 32;
    pub(super) const END_TS: u64 = 40;
    /// `AMD_SIGNAL_KIND_USER`.
    pub(super) const USER: u64 = 1;
    /// `AMD_SIGNAL_ALIGN_BYTES`.
    pub(super) const ALIGN: u64 = 64;
}

/// What a packet in flight waits for.
enum Work {
    /// Launches, by their number on each XCC.
    Launches(Vec<u64>),
    /// Fronts that still read an indirect buffer.
    Reading,
    /// All that is below these numbers on each XCC.
    Drain(Vec<u64>),
    /// Nothing.
    Over,
}

struct Active {
    index: u64,
    work: Work,
    packet: Packet,
    begun: u64,
    complete: bool,
}

/// The hardware of an AQL queue.
pub(super) struct Aql {
    chip: &'static Chip,
    memory: QueueMemory,
    streams: Vec<Stream>,
    /// Index of the next packet to begin.
    next: u64,
    /// Packets that are over: `read_dispatch_id`.
    read: u64,
    /// Packets that the doorbell speaks of.
    written: u64,
    active: VecDeque<Active>,
    stopped: Option<Box<Fault>>,
}

impl Aql {
    pub(super) fn new(chip: &'static Chip, xccs: u8, memory: QueueMemory) -> Self {
        Self {
            chip,
            memory,
            streams: (0..xccs)
                .map(|xcc| Stream::new(chip, (xcc, xccs), (xcc, xccs)))
                .collect(),
            next: 0,
            read: 0,
            written: 0,
            active: VecDeque::new(),
            stopped: None,
        }
    }

    fn packets(&self) -> u64 {
        self.memory.ring_bytes / PACKET
    }

    fn slot(&self, index: u64) -> u64 {
        let at = index.checked_rem(self.packets()).unwrap_or_default();
        self.memory.ring.wrapping_add(PACKET * at)
    }

    fn about(&self) -> String {
        format!(
            "ring at {:#x}, {} packets, read to {}, next {}",
            self.memory.ring,
            self.packets(),
            self.read,
            self.next
        )
    }

    /// Looks at how far the host has written.
    fn poll(&mut self, host: &mut dyn Host) -> Result<(), Stopped> {
        // The index of the last packet; before there is one, the doorbell holds 0 or all ones.
        let rung = host.doorbell().wrapping_add(1);
        // Several threads may ring for packets of theirs in any order.
        if rung <= self.written {
            return Ok(());
        }
        let reserved = memory::read_u64(host.vm(), self.memory.write_pointer)
            .map_err(|fault| Stopped::new(fault.into(), "write_dispatch_id".into()))?;
        if rung == 1 && reserved == 0 {
            return Ok(());
        }
        let refuse = |text| Err(Stopped::new(Cause::Packet(text), self.about()));
        if rung > reserved {
            return refuse(format!(
                "doorbell rung for packet {} while write_dispatch_id is {reserved}",
                rung - 1
            ));
        }
        if rung - self.read > self.packets() {
            return refuse(format!(
                "doorbell rung for packet {}, which is more than a ring ahead",
                rung - 1
            ));
        }
        self.written = rung;
        Ok(())
    }

    /// Lets a front that is in an indirect buffer go on, whichever is drawn.
    fn buffers(&mut self, host: &mut dyn Host) -> Result<Done, Stopped> {
        let count = self.streams.len();
        let first = host.random(u32::try_from(count).unwrap_or(1).max(1)) as usize;
        let mut done = Done::Nothing;
        for turn in 0..count {
            let at = (first + turn).checked_rem(count).unwrap_or_default();
            let Some(stream) = self.streams.get_mut(at) else {
                continue;
            };
            match stream.step_buffer(host)? {
                Done::Packet => return Ok(Done::Packet),
                Done::Waits => done = Done::Waits,
                Done::Nothing => {}
            }
        }
        Ok(done)
    }

    fn front(&mut self, host: &mut dyn Host) -> Result<Done, Stopped> {
        self.poll(host)?;
        if self.streams.iter().any(Stream::in_buffer) {
            return self.buffers(host);
        }
        if let Some(last) = self.active.back_mut()
            && matches!(last.work, Work::Reading)
        {
            last.work = Work::Drain(self.streams.iter().map(|s| s.pipe.mark()).collect());
            return Ok(Done::Packet);
        }
        if self.next >= self.written {
            return Ok(Done::Nothing);
        }
        let at = self.slot(self.next);
        let mut words = [0; 16];
        let begun = self.begin(host, at, &mut words);
        begun.map_err(|cause| {
            Stopped::new(cause, packet::describe(self.chip, self.next, at, &words))
        })
    }

    fn begin(
        &mut self,
        host: &mut dyn Host,
        at: u64,
        words: &mut [u32; 16],
    ) -> Result<Done, Cause> {
        // The header is written last, so nothing else of the packet may be looked at before it is valid.
        let header = memory::read_u32(host.vm(), at)?;
        if header & 0xFF == packet::INVALID {
            return Ok(Done::Waits);
        }
        memory::read_into(host.vm(), at, words)?;
        let packet = Packet::read(words)?;
        if packet.barrier && !self.active.is_empty() {
            return Ok(Done::Waits);
        }
        self.check_signal(host.vm(), packet.signal)?;
        let ready = match packet.kind {
            Kind::Kernel => self.streams.iter().all(|stream| stream.pipe.takes_launch()),
            Kind::And(signals) => all(host.vm(), &signals)?,
            Kind::Or(signals) => any(host.vm(), &signals)?,
            Kind::Value {
                signal,
                value,
                mask,
                condition,
            } => signal == 0 || compares(self.value(host.vm(), signal)?, value, mask, condition),
            Kind::Buffer(_) => true,
        };
        if !ready {
            return Ok(Done::Waits);
        }
        let work = match packet.kind {
            Kind::Kernel => {
                let queue = self.queue(host.vm())?;
                // All are made before one begins: a packet begins whole or not at all.
                let plans = self
                    .streams
                    .iter()
                    .map(|stream| {
                        kernel::plan(
                            self.chip,
                            host.vm(),
                            words,
                            at,
                            queue,
                            self.next,
                            stream.xcc(),
                        )
                    })
                    .collect::<Result<Vec<_>, _>>()?;
                self.acquire(host, packet.acquire)?;
                let text = packet::describe(self.chip, self.next, at, words);
                let launch = |(stream, plan): (&mut Stream, _)| {
                    let share = stream.share();
                    stream.pipe.launch(plan, share, text.clone())
                };
                Work::Launches(self.streams.iter_mut().zip(plans).map(launch).collect())
            }
            Kind::Buffer(call) => {
                let layout = layout::layout(self.chip, &call);
                match layout {
                    Some(layout) if layout::opcode(call[0]) == layout::INDIRECT_BUFFER => {
                        layout.check(&call)?;
                    }
                    _ => {
                        return Err(Cause::Packet(format!(
                            "words 1 to 4 begin with {:#010x}, which is no INDIRECT_BUFFER",
                            call[0]
                        )));
                    }
                }
                self.acquire(host, packet.acquire)?;
                for stream in &mut self.streams {
                    stream.indirect(&call, Place::Ring)?;
                }
                Work::Reading
            }
            Kind::And(_) | Kind::Or(_) | Kind::Value { .. } => {
                self.acquire(host, packet.acquire)?;
                Work::Over
            }
        };
        self.active.push_back(Active {
            index: self.next,
            work,
            packet,
            begun: host.clock(),
            complete: false,
        });
        self.next += 1;
        Ok(Done::Packet)
    }

    /// Address of the `amd_queue_t`.
    fn queue(&self, vm: &dyn AddressSpace) -> Result<u64, Cause> {
        let read = self.memory.read_pointer;
        let offset = memory::read_u32(vm, read.wrapping_add(queue::BASE_OFFSET))?;
        let base = read.wrapping_sub(u64::from(offset));
        if u64::from(offset) != queue::READ_DISPATCH_ID || !base.is_multiple_of(64) {
            return Err(Cause::Packet(format!(
                "read_dispatch_id_field_base_byte_offset is {offset}, which puts the amd_queue_t at {base:#x}"
            )));
        }
        Ok(base)
    }

    fn check_signal(&self, vm: &dyn AddressSpace, handle: u64) -> Result<(), Cause> {
        if handle == 0 {
            return Ok(());
        }
        let kind = signal_field(vm, handle, signal::KIND)?;
        if kind != signal::USER {
            return Err(Cause::Packet(format!(
                "signal {handle:#x} is of kind {kind:#x}; a packet completes one of kind AMD_SIGNAL_KIND_USER"
            )));
        }
        Ok(())
    }

    fn value(&self, vm: &dyn AddressSpace, handle: u64) -> Result<u64, Cause> {
        signal_field(vm, handle, signal::VALUE)
    }

    fn each_xcc(&self, host: &mut dyn Host, actions: CacheActions) -> Result<(), Cause> {
        self.streams
            .iter()
            .try_for_each(|stream| actions.apply(stream.xcc().0, host))
    }

    fn acquire(&self, host: &mut dyn Host, scope: u32) -> Result<(), Cause> {
        let mut invalidate = Levels::empty();
        if scope >= packet::AGENT {
            invalidate |= Levels::SCALAR | Levels::VECTOR;
        }
        if scope >= packet::SYSTEM || scope >= packet::AGENT && self.streams.len() > 1 {
            invalidate |= Levels::L2;
        }
        self.each_xcc(
            host,
            CacheActions {
                invalidate,
                ..CacheActions::NONE
            },
        )
    }

    fn release(&self, host: &mut dyn Host, scope: u32) -> Result<(), Cause> {
        if scope < packet::AGENT || scope < packet::SYSTEM && self.streams.len() == 1 {
            return Ok(());
        }
        self.each_xcc(
            host,
            CacheActions {
                write_back: Levels::L2,
                ..CacheActions::NONE
            },
        )
    }

    fn over(&self, work: &Work) -> bool {
        let mut streams = self.streams.iter();
        match work {
            Work::Launches(numbers) => streams
                .zip(numbers)
                .all(|(stream, &number)| stream.pipe.over(number)),
            Work::Drain(marks) => streams
                .zip(marks)
                .all(|(stream, &mark)| stream.pipe.drained(mark)),
            Work::Reading => streams.next().is_none(),
            Work::Over => true,
        }
    }

    /// Completes a packet, if there is one to complete, and gives slots back.
    fn complete(&mut self, host: &mut dyn Host) -> Result<bool, Stopped> {
        let ready: Vec<usize> = (0..)
            .zip(&self.active)
            .filter(|(_, active)| !active.complete && self.over(&active.work))
            .map(|(at, _)| at)
            .collect();
        let Some(below) = u32::try_from(ready.len()).ok().filter(|&n| n > 0) else {
            return Ok(false);
        };
        let chosen = ready.get(host.random(below) as usize).copied();
        let Some(active) = chosen.and_then(|at| self.active.get(at)) else {
            return Ok(false);
        };
        let (index, packet, begun) = (active.index, active.packet, active.begun);
        let at = self.slot(index);
        self.finish(host, &packet, begun).map_err(|cause| {
            let words = memory::read_words::<16>(host.vm(), at).unwrap_or_default();
            Stopped::new(cause, packet::describe(self.chip, index, at, &words))
        })?;
        if let Some(active) = chosen.and_then(|at| self.active.get_mut(at)) {
            active.complete = true;
        }
        while self.active.front().is_some_and(|first| first.complete) {
            self.active.pop_front();
            let at = self.slot(self.read);
            self.read += 1;
            let header = (packet::INVALID as u16).to_le_bytes();
            host::write(host.vm(), at, &header)
                .and_then(|()| memory::write_u64(host.vm(), self.memory.read_pointer, self.read))
                .map_err(|fault| Stopped::new(fault.into(), self.about()))?;
        }
        Ok(true)
    }

    fn finish(&self, host: &mut dyn Host, packet: &Packet, begun: u64) -> Result<(), Cause> {
        self.release(host, packet.release)?;
        let handle = packet.signal;
        if handle == 0 {
            return Ok(());
        }
        let now = host.clock();
        let vm = host.vm();
        let properties =
            memory::read_u32(vm, self.queue(vm)?.wrapping_add(queue::QUEUE_PROPERTIES))?;
        if properties & queue::ENABLE_PROFILING != 0 {
            memory::write_u64(vm, handle.wrapping_add(signal::START_TS), begun)?;
            memory::write_u64(vm, handle.wrapping_add(signal::END_TS), now)?;
        }
        let mailbox = signal_field(vm, handle, signal::EVENT_MAILBOX_PTR)?;
        let event = memory::read_u32(vm, handle.wrapping_add(signal::EVENT_ID))?;
        memory::decrement(vm, handle.wrapping_add(signal::VALUE))?;
        if mailbox != 0 {
            memory::write_u64(vm, mailbox, u64::from(event))?;
            host.interrupt(event);
        }
        Ok(())
    }

    fn act(&mut self, host: &mut dyn Host) -> Result<Step, Stopped> {
        let first = host.random(4);
        let mut front = Done::Nothing;
        for turn in 0..4 {
            let moved = match (first + turn) % 4 {
                0 => {
                    front = self.front(host)?;
                    front == Done::Packet
                }
                1 => self.backs(host, |stream, host| stream.pipe.run(host))?,
                2 => self.backs(host, |stream, host| stream.pipe.fire(host))?,
                _ => self.complete(host)?,
            };
            if moved {
                return Ok(Step::Progress);
            }
        }
        Ok(match front {
            Done::Waits => Step::Waiting,
            _ if self.active.is_empty() => Step::Idle,
            _ => Step::Waiting,
        })
    }

    /// Lets the back of one XCC go on, whichever is drawn.
    fn backs(
        &mut self,
        host: &mut dyn Host,
        mut act: impl FnMut(&mut Stream, &mut dyn Host) -> Result<bool, Stopped>,
    ) -> Result<bool, Stopped> {
        let count = self.streams.len();
        let first = host.random(u32::try_from(count).unwrap_or(1).max(1)) as usize;
        for turn in 0..count {
            let at = (first + turn).checked_rem(count).unwrap_or_default();
            if let Some(stream) = self.streams.get_mut(at)
                && act(stream, host)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A 64-bit field of an `amd_signal_t`.
fn signal_field(vm: &dyn AddressSpace, handle: u64, offset: u64) -> Result<u64, Cause> {
    if !handle.is_multiple_of(signal::ALIGN) {
        return Err(Cause::Packet(format!(
            "signal {handle:#x} does not lie on a multiple of {}",
            signal::ALIGN
        )));
    }
    Ok(memory::read_u64(vm, handle.wrapping_add(offset))?)
}

/// Barrier-AND: no signal, or one at 0, is satisfied.
fn all(vm: &dyn AddressSpace, signals: &[u64]) -> Result<bool, Cause> {
    for &handle in signals.iter().filter(|&&handle| handle != 0) {
        if signal_field(vm, handle, signal::VALUE)? != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Barrier-OR: one at 0 is enough; no signal counts for nothing, but without any signal there is nothing to wait for.
fn any(vm: &dyn AddressSpace, signals: &[u64]) -> Result<bool, Cause> {
    let mut none = true;
    for &handle in signals.iter().filter(|&&handle| handle != 0) {
        none = false;
        if signal_field(vm, handle, signal::VALUE)? == 0 {
            return Ok(true);
        }
    }
    Ok(none)
}

/// `hsa_signal_condition_t`; signals are signed.
fn compares(signal: u64, value: u64, mask: u64, condition: u32) -> bool {
    let (signal, value) = ((signal & mask).cast_signed(), value.cast_signed());
    match condition {
        0 => signal == value,
        1 => signal != value,
        2 => signal < value,
        _ => signal >= value,
    }
}

impl Engine for Aql {
    fn step(&mut self, host: &mut dyn Host) -> Step {
        let mut stopped = self.stopped.take();
        let step = super::step(&mut stopped, || self.act(host));
        self.stopped = stopped;
        step
    }
}
