//! The CPU device: worker threads that run [`hcq_cpu`]'s engine.
//!
//! Each queue has a ring and a thread of its own; helper threads take work-groups from the queues' launches. Threads
//! spin for a bounded time when they have nothing to do and sleep then; a submission wakes its queue's thread, a signal
//! wakes those who wait for it ([`crate::wake`]).
#![allow(unsafe_code, reason = "makes the two sides of a ring")]

mod memory;
mod worker;

use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hcq_cpu::control::Control;
use hcq_cpu::engine::EngineQueue;
use hcq_cpu::program::Program;
use hcq_cpu::queue::{Compute, Copy, CpuQueue};
use hcq_cpu::share::Job;
use hcq_cpu::{PACKET_BYTES, PACKET_WORDS};
use hcq_nostd::args::{Arg, ArgLayout};
use hcq_nostd::fault::FaultRecord;
use hcq_nostd::mem::{AccessError, Region, SharedWord};
use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{ComputeQueue, CopyQueue, Launch, Program as _, Queue};
use hcq_nostd::record::{Block, Operand, RecordError};
use hcq_nostd::ring::Ring;
use hcq_nostd::signal::Width;
use hcq_nostd::value::Var;

use self::memory::Space;
use crate::backend::{
    Backend, Body, Command, Layout, Memory, Origin, Port, Prepared, Purpose, PushError, QueueId,
    QueueKind, Relocation, Source,
};
use crate::heap::lock;
use crate::info::DeviceInfo;
use crate::peers::Peers;
use crate::seam::System;
use crate::wake::{Event, Futex};
use crate::{Error, Options};

/// Longest sleep of a waiting host before it looks around, also when nobody wakes it.
const HOST_NAP: Duration = Duration::from_millis(100);
/// Bytes of a queue's control block, before its ring.
const CONTROL_BYTES: usize = Control::WORDS * 8;

/// What threads and host share.
#[derive(Debug)]
struct Shared {
    system: Arc<dyn System>,
    space: Space,
    /// Who waits for a signal sleeps on the event of its address.
    signals: [Event; 16],
    /// One per queue: who waits for packets.
    bells: Box<[Event]>,
    /// Who waits for room in a ring.
    room: Event,
    /// Helpers that wait for work-groups.
    helpers: Event,
    /// Queues that wait for their helpers.
    helped: Event,
    fault: Mutex<Option<FaultRecord>>,
    faulted: AtomicBool,
    stop: AtomicBool,
    /// One per queue: control block and ring.
    rings: Box<[Memory]>,
    spin: Duration,
    local_memory: usize,
}

impl Drop for Shared {
    fn drop(&mut self) {
        for memory in &self.rings {
            self.space.give_back(memory);
        }
    }
}

/// Sleeps through the system seam.
struct Sleep<'a>(&'a dyn System);

impl Futex for Sleep<'_> {
    fn wait(&self, word: &std::sync::atomic::AtomicU32, expected: u32, timeout: Duration) {
        self.0.futex_wait(word, expected, timeout);
    }

    fn wake_all(&self, word: &std::sync::atomic::AtomicU32) {
        self.0.futex_wake(word, u32::MAX);
    }
}

impl Shared {
    fn futex(&self) -> Sleep<'_> {
        Sleep(&*self.system)
    }

    /// The event of a word of memory. The two slots of the timeline, which lie side by side, have the same.
    fn event(&self, address: u64) -> &Event {
        let index = (address >> 5) as usize % self.signals.len();
        self.signals.get(index).unwrap_or(&self.room)
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn is_faulted(&self) -> bool {
        self.faulted.load(Ordering::Acquire)
    }

    /// The first fault is the device's; everybody looks up.
    fn fail(&self, record: FaultRecord) {
        lock(&self.fault).get_or_insert(record);
        self.faulted.store(true, Ordering::SeqCst);
        self.wake_everybody();
    }

    fn wake_everybody(&self) {
        let all =
            self.signals
                .iter()
                .chain(&self.bells)
                .chain([&self.room, &self.helpers, &self.helped]);
        for event in all {
            event.notify(&self.futex());
        }
    }

    /// The control block and the ring's memory of a queue.
    fn queue(&self, index: usize) -> Result<(Control<'static>, Region<'static>), AccessError> {
        let none = AccessError::OutOfBounds {
            offset: index as u64,
            len: 1,
            region: self.rings.len() as u64,
        };
        let memory = self.rings.get(index).ok_or(none)?;
        // SAFETY: the memory lives as long as `self`, which outlives both sides. All access to the control block is
        // atomic; the host stores to ring entries that the engine has consumed, which the pointers order (M2).
        let region = unsafe { Region::new(memory.cpu, memory.len, memory.address) };
        let (control, ring) = region.split_at(CONTROL_BYTES)?;
        Ok((Control::in_region(control)?, ring))
    }

    /// How a host waits: it spins first, and sleeps in later rounds. A fault ends it. Whether there was a change.
    fn relax(
        &self,
        round: u32,
        event: &Event,
        limit: Duration,
        changed: impl Fn() -> bool,
    ) -> bool {
        let ready = || changed() || self.is_faulted();
        if round == 0 {
            self.spin_until(ready);
        } else {
            event.sleep(&self.futex(), limit.min(HOST_NAP), ready);
        }
        changed()
    }

    /// Checks `ready` again and again for the time of a spin.
    fn spin_until(&self, ready: impl Fn() -> bool) {
        let end = Instant::now() + self.spin;
        loop {
            for _ in 0..32 {
                if ready() {
                    return;
                }
                std::hint::spin_loop();
            }
            if Instant::now() >= end {
                return;
            }
        }
    }
}

/// The CPU as a device.
#[derive(Debug)]
pub(crate) struct Cpu {
    info: DeviceInfo,
    shared: Arc<Shared>,
    counts: (usize, usize),
    helpers: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
    peers: Peers<()>,
}

/// The host's half of the rings.
struct CpuPort {
    rings: Vec<(Ring<'static>, Control<'static>)>,
    compute: usize,
    /// Keeps the memory that the rings are in; dropped after them.
    shared: Arc<Shared>,
}

fn flat(compute: usize, queue: QueueId) -> usize {
    match queue.kind {
        QueueKind::Compute => queue.index,
        QueueKind::Copy => compute + queue.index,
    }
}

impl Cpu {
    /// Starts the threads. Options have been checked.
    pub(crate) fn open(options: &Options) -> Result<(Self, Box<dyn Port>), Error> {
        let space = Space::new(Arc::clone(&options.system));
        let counts = (options.compute_queues, options.copy_queues);
        let queues = counts.0 + counts.1;
        let mut rings = Vec::with_capacity(queues);
        for _ in 0..queues {
            match space.allocate(CONTROL_BYTES + options.ring_packets * PACKET_BYTES) {
                Ok(memory) => {
                    // No packet may name it.
                    space.hide(&memory);
                    rings.push(memory);
                }
                Err(e) => {
                    rings.iter().for_each(|memory| space.give_back(memory));
                    return Err(e);
                }
            }
        }
        let shared = Arc::new(Shared {
            system: Arc::clone(&options.system),
            space,
            signals: std::array::from_fn(|_| Event::new()),
            bells: (0..queues).map(|_| Event::new()).collect(),
            room: Event::new(),
            helpers: Event::new(),
            helped: Event::new(),
            fault: Mutex::new(None),
            faulted: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            rings: rings.into(),
            spin: options.spin,
            local_memory: options.local_memory_bytes,
        });
        let broken = |_| Error::Internal("a ring does not fit its memory");
        let mut rings = Vec::with_capacity(queues);
        for index in 0..queues {
            let (control, memory) = shared.queue(index).map_err(broken)?;
            let ring = Ring::new(memory, PACKET_BYTES)
                .map_err(|_| Error::Internal("a ring has no room"))?;
            rings.push((ring, control));
        }
        let port = CpuPort {
            rings,
            compute: counts.0,
            shared: Arc::clone(&shared),
        };
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        let info = DeviceInfo {
            name: "the system's processors".into(),
            target: std::env::consts::ARCH.into(),
            memory_bytes: 0,
            visible_memory_bytes: 0,
            compute_units: u32::try_from(processors).unwrap_or(u32::MAX),
            dies: 1,
            wave_size: 1,
            local_memory_bytes: options.local_memory_bytes as u64,
            max_group: None,
            packets: "64-byte packets",
        };
        let cpu = Self {
            info,
            shared,
            counts,
            helpers: options.helper_threads,
            threads: Mutex::default(),
            peers: Peers::default(),
        };
        cpu.start(false)?;
        Ok((cpu, Box::new(port)))
    }

    /// Starts the threads, all of them or none. With `afresh` queues drop what was published.
    fn start(&self, afresh: bool) -> Result<(), Error> {
        let queues = self.counts.0 + self.counts.1;
        let jobs: Arc<[Job]> = (0..self.counts.0).map(|_| Job::new()).collect();
        for index in (0..queues).filter(|_| afresh) {
            // Here and not in the thread, which would drop what is submitted before it comes to that.
            let queue = self
                .shared
                .queue(index)
                .ok()
                .and_then(|(control, ring)| EngineQueue::new(ring, control, 0).ok());
            queue
                .ok_or(Error::Internal("a ring does not fit its memory"))?
                .reset();
        }
        let mut threads = lock(&self.threads);
        for index in 0..queues + self.helpers {
            let queue = (index < queues).then_some(index);
            let name = match queue {
                None => format!("hcq-helper-{}", index - queues),
                Some(i) if i < self.counts.0 => format!("hcq-compute-{i}"),
                Some(i) => format!("hcq-copy-{}", i - self.counts.0),
            };
            let started = worker::Worker::new(&self.shared, &jobs, queue).and_then(|w| {
                std::thread::Builder::new()
                    .name(name)
                    .spawn(move || w.run())
                    .map_err(Error::Thread)
            });
            match started {
                Ok(thread) => threads.push(thread),
                Err(e) => {
                    drop(threads);
                    // They have nothing to do yet, so they come back.
                    self.halt(Duration::from_secs(10));
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    /// Stops the threads; returns how many did not come back. Those are left alone with what they use.
    fn halt(&self, limit: Duration) -> usize {
        self.shared.stop.store(true, Ordering::SeqCst);
        let end = Instant::now() + limit;
        let mut threads = lock(&self.threads);
        let mut nap = Duration::from_micros(20);
        while threads.iter().any(|t| !t.is_finished()) {
            self.shared.wake_everybody();
            if Instant::now() >= end {
                break;
            }
            std::thread::sleep(nap);
            nap = (nap * 2).min(Duration::from_millis(5));
        }
        let mut stuck = Vec::new();
        for thread in threads.drain(..) {
            if thread.is_finished() {
                // A worker does not panic; if it did, the device is going away anyhow.
                let _ = thread.join();
            } else {
                stuck.push(thread);
            }
        }
        *threads = stuck;
        threads.len()
    }
}

impl Drop for Cpu {
    fn drop(&mut self) {
        self.halt(Duration::from_millis(100));
    }
}

impl CpuPort {
    /// Room for so many packets in a queue's ring.
    fn make_room(&mut self, index: usize, need: u64) -> Result<(), PushError> {
        let Some((ring, control)) = self.rings.get_mut(index) else {
            return Err(PushError::TooLarge);
        };
        if need > ring.len() {
            return Err(PushError::TooLarge);
        }
        if need > ring.free() {
            let get = control.get();
            // A count that cannot be leaves the ring as it was, and so as full as it was.
            let _ = ring.consumed(get);
            if need > ring.free() {
                return Err(PushError::Full {
                    need,
                    free: ring.free(),
                    get,
                });
            }
        }
        Ok(())
    }
}

impl Port for CpuPort {
    fn room(&mut self, queue: QueueId, body: Body<'_>, tail: &[u32]) -> Result<(), PushError> {
        let need = (body.words().len() + tail.len()) / PACKET_WORDS;
        self.make_room(flat(self.compute, queue), need as u64)
    }

    fn push(&mut self, queue: QueueId, body: Body<'_>, tail: &[u32]) -> Result<(), PushError> {
        let body = body.words();
        let index = flat(self.compute, queue);
        let (first, need) = (
            (body.len() / PACKET_WORDS) as u64,
            ((body.len() + tail.len()) / PACKET_WORDS) as u64,
        );
        self.make_room(index, need)?;
        let Some((ring, control)) = self.rings.get_mut(index) else {
            return Err(PushError::TooLarge);
        };
        let Ok(mut hole) = ring.reserve(need) else {
            return Err(PushError::TooLarge);
        };
        if (!body.is_empty() && hole.fill(0, body).is_err()) || hole.fill(first, tail).is_err() {
            return Err(PushError::TooLarge);
        }
        hole.publish(control);
        if let Some(bell) = self.shared.bells.get(index) {
            bell.notify(&self.shared.futex());
        }
        Ok(())
    }
}

/// A kernel prepared for the engine.
struct CpuProgram {
    entry: u64,
    layout: Option<Layout>,
    /// Its entry, if it is known at launch only.
    at: Option<Var>,
}

impl CpuProgram {
    fn as_program(&self) -> Program<'_> {
        let program = match self.at {
            None => Program::new(self.entry),
            Some(at) => Program::new(0).entered_at(at),
        };
        match &self.layout {
            None => program,
            Some(l) => program.with_layout(ArgLayout {
                slots: &l.slots,
                size: l.size,
                align: l.align,
            }),
        }
    }
}

const FOREIGN: RecordError = RecordError::NotConstant {
    operand: Operand::Program,
};

fn own(program: &Prepared) -> Result<&CpuProgram, RecordError> {
    program.downcast_ref().ok_or(FOREIGN)
}

impl Backend for Cpu {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn width(&self) -> Width {
        Width::W64
    }

    fn queue_counts(&self) -> (usize, usize) {
        self.counts
    }

    fn allocate(&self, bytes: usize, _purpose: Purpose) -> Result<Memory, Error> {
        self.shared.space.allocate(bytes)
    }

    fn adopt(&self, cpu: NonNull<u8>, bytes: usize, writable: bool) -> Result<Memory, Error> {
        self.shared.space.adopt(cpu, bytes, writable)
    }

    fn import(&self, memory: &Memory, _from: &dyn Backend) -> Result<Memory, Error> {
        // What the host reaches, its processors reach.
        let space = &self.shared.space;
        self.peers.import(memory, || {
            let known = space.adopt(memory.cpu, memory.len, memory.writable)?;
            Ok(((), known.address))
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn hide(&self, memory: &Memory) {
        if memory.origin == Origin::Peer {
            self.peers
                .forget(memory, |()| self.shared.space.hide(memory));
            return;
        }
        self.shared.space.hide(memory);
    }

    fn release(&self, memory: Memory) {
        self.shared.space.give_back(&memory);
    }

    fn prepare(&self, source: Source) -> Result<Option<Prepared>, Error> {
        let Source::Function { entry, layout } = source;
        Ok(Some(Arc::new(CpuProgram {
            entry: self.shared.space.register(entry),
            layout,
            at: None,
        })))
    }

    fn relocatable(
        &self,
        program: &Prepared,
        places: Relocation<'_>,
    ) -> Result<Option<Prepared>, Error> {
        let program = own(program).map_err(Error::record("exec"))?;
        Ok(Some(Arc::new(CpuProgram {
            entry: 0,
            layout: program.layout.clone(),
            at: Some(places.code),
        })))
    }

    fn entry(&self, program: &Prepared) -> Option<u64> {
        own(program).ok().map(|p| p.entry)
    }

    fn target(&self) -> (&'static str, String, u32) {
        ("cpu", self.info.target.clone(), 1)
    }

    fn retire(&self, program: &Prepared) {
        if let Ok(program) = own(program)
            && program.at.is_none()
        {
            self.shared.space.unregister(program.entry);
        }
    }

    fn kernargs(
        &self,
        program: &Prepared,
        args: &[Arg<'_>],
    ) -> Result<(usize, usize), RecordError> {
        let program = own(program)?.as_program();
        Ok((program.kernargs_for(args), program.kernargs_align()))
    }

    fn encode<'w>(
        &self,
        queue: QueueId,
        command: &Command<'_>,
        kernargs: Option<Block<'_, '_>>,
        words: &'w mut [u32],
        list: PatchList<'w>,
    ) -> Result<(usize, PatchList<'w>), RecordError> {
        match queue.kind {
            QueueKind::Compute => {
                let mut queue = Compute::new(words, list);
                match *command {
                    Command::Barrier => queue.memory_barrier()?,
                    Command::Exec(e) => {
                        let program = own(e.program)?.as_program();
                        let kernargs =
                            kernargs.ok_or(RecordError::KernargsTooSmall { need: 1, have: 0 })?;
                        queue.exec(Launch {
                            program: &program,
                            args: e.args,
                            kernargs,
                            groups: e.grid.groups,
                            local: e.grid.local,
                            local_memory: e.grid.local_memory,
                        })?
                    }
                    other => common(&mut queue, other)?,
                };
                Ok(queue.finish().finish())
            }
            QueueKind::Copy => {
                let mut queue = Copy::new(words, list);
                match *command {
                    Command::Copy {
                        destination,
                        source,
                        bytes,
                    } => queue.copy(destination, source, bytes)?,
                    other => common(&mut queue, other)?,
                };
                Ok(queue.finish().finish())
            }
        }
    }

    fn fault(&self) -> Option<FaultRecord> {
        if !self.shared.is_faulted() {
            return None;
        }
        *lock(&self.shared.fault)
    }

    fn recover(&self, limit: Duration) -> Result<(), Error> {
        let threads = self.halt(limit);
        if threads > 0 {
            return Err(Error::Stuck {
                threads,
                waited: limit,
            });
        }
        *lock(&self.shared.fault) = None;
        self.shared.faulted.store(false, Ordering::SeqCst);
        self.shared.stop.store(false, Ordering::SeqCst);
        self.start(true)
    }

    fn stop(&self, limit: Duration) -> bool {
        self.halt(limit) == 0
    }

    fn now_ns(&self) -> u64 {
        self.shared.system.now_ns()
    }

    fn relax(&self, round: u32, words: &[(SharedWord<'_>, u64)], limit: Duration) -> bool {
        let changed = || words.iter().any(|(word, seen)| word.load() != *seen);
        let address = words
            .first()
            .map_or(0, |(word, _)| word.as_ptr().as_ptr().addr() as u64);
        self.shared
            .relax(round, self.shared.event(address), limit, changed)
    }

    fn relax_room(&self, round: u32, queue: QueueId, get: u64, limit: Duration) -> bool {
        let consumed = || {
            let queue = self.shared.queue(flat(self.counts.0, queue));
            queue.map_or(0, |(control, _)| control.get())
        };
        self.shared
            .relax(round, &self.shared.room, limit, || consumed() != get)
    }

    fn written(&self, address: u64) {
        self.shared.event(address).notify(&self.shared.futex());
    }
}

/// Commands that both kinds of queues have.
fn common<'q, 'm, K>(
    queue: &'q mut CpuQueue<'m, K>,
    command: Command<'_>,
) -> Result<&'q mut CpuQueue<'m, K>, RecordError> {
    match command {
        Command::Wait(signal, value) => queue.wait(signal, value),
        Command::Signal(signal, value) => queue.signal(signal, value),
        Command::Timestamp(signal) => queue.timestamp(signal),
        Command::Write(address, value, width) => queue.write(address, value, width),
        Command::PollBit(address, mask, expect) => queue.poll_bit(address, mask, expect),
        Command::Launch { address, words } => {
            let packets = words / PACKET_WORDS;
            let too_large = RecordError::Limit {
                operand: Operand::Length,
                value: packets as u64,
                max: u32::MAX.into(),
            };
            queue.indirect(
                address.into(),
                u32::try_from(packets).map_err(|_| too_large)?,
            )
        }
        // The shell refuses these before they come here.
        Command::Barrier | Command::Exec(_) | Command::Copy { .. } => Err(FOREIGN),
    }
}
