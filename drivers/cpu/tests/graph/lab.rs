//! CPU devices that are polled in an order that a seed decides, and graphs on them.

use core::ffi::c_void;
use core::ptr::NonNull;

use hcq_cpu::PACKET_BYTES;
use hcq_cpu::abi::{Group, KernelFn};
use hcq_cpu::control::Control;
use hcq_cpu::engine::{Engine, EngineQueue, Platform, Poll};
use hcq_cpu::program::Program;
use hcq_cpu::queue::{Compute, Copy};
use hcq_nostd::args::Arg;
use hcq_nostd::fault::{Access as FaultAccess, FaultRecord};
use hcq_nostd::graph::{
    self, Beside, Busy, Command, DeviceRecord, Encode, Entry, Graph, GraphError, Instance,
    InstanceMemory, LaunchError, Node, Place, QueueAt, QueueMemory, QueueRecord, Records, Scratch,
    Sizes, Spec, Timelines, WorkRecord,
};
use hcq_nostd::mem::{Region, SharedWords};
use hcq_nostd::patch::{Derived, PatchList, Site};
use hcq_nostd::plan::{self, Allocation, Device, Problem, Step, Task};
use hcq_nostd::queue::{Queue as _, WriteWidth};
use hcq_nostd::record::{RecordError, Recorder};
use hcq_nostd::ring::Ring;
use hcq_nostd::signal::{Signal, Width};
use hcq_nostd::timeline::{Point, Submission, Timeline, TimelineError, WaitFor};
use hcq_nostd::value::Value;
use hcq_nostd::wait::WaitError;

/// Words of memory at a 64-byte boundary, for as long as the process lives, accessed by address only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    first: NonNull<u64>,
    len: usize,
}

impl Memory {
    pub(crate) fn new(len: usize) -> Self {
        let words = vec![[0u64; 8]; len.div_ceil(8) + 1].leak();
        let first = NonNull::from(words).cast::<u64>();
        let skip = first.as_ptr().align_offset(64);
        // SAFETY: there are eight words more than asked for.
        let first = unsafe { first.add(skip) };
        Self { first, len }
    }

    pub(crate) fn address(&self) -> u64 {
        self.first.as_ptr().expose_provenance() as u64
    }

    pub(crate) fn region(&self) -> Region<'static> {
        // SAFETY: the words live for ever; tests keep to the order of signals and ring pointers.
        unsafe { Region::new(self.first.cast(), self.len * 8, self.address()) }
    }

    pub(crate) fn shared(&self) -> SharedWords<'static> {
        SharedWords::new(self.region()).expect("aligned")
    }

    /// The first `n` 32-bit numbers.
    pub(crate) fn numbers(&self, n: usize) -> Vec<u32> {
        let region = self.region();
        (0..n).map(|i| region.load_u32(i * 4).unwrap()).collect()
    }

    pub(crate) fn set_numbers(&self, numbers: &[u32]) {
        let mut region = self.region();
        for (i, n) in numbers.iter().enumerate() {
            region.store_u32(i * 4, *n).unwrap();
        }
    }
}

/// A seeded generator (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Rng(pub u64);

impl Rng {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// `out[i] = in[i] * 3 + add`, one element for each group.
pub(crate) const TRIPLE: u64 = 1;
/// `out[i] = a[i] ^ b[i]`.
pub(crate) const MIX: u64 = 2;

unsafe extern "C" fn triple(args: *const c_void, group: *const Group) {
    // SAFETY: the block holds two addresses and a number.
    let [out, from, add] = unsafe { args.cast::<[u64; 3]>().read() };
    // SAFETY: a group is given.
    let i = unsafe { (*group).group[0] };
    // SAFETY: there are as many elements as groups.
    let value = unsafe { element(from, i).read_volatile() };
    let value = value.wrapping_mul(3).wrapping_add(add as u32);
    // SAFETY: as above.
    unsafe { element(out, i).write_volatile(value) };
}

unsafe extern "C" fn mix(args: *const c_void, group: *const Group) {
    // SAFETY: the block holds three addresses.
    let [out, a, b] = unsafe { args.cast::<[u64; 3]>().read() };
    // SAFETY: a group is given.
    let i = unsafe { (*group).group[0] };
    // SAFETY: there are as many elements as groups.
    let a = unsafe { element(a, i).read_volatile() };
    // SAFETY: as above.
    let b = unsafe { element(b, i).read_volatile() };
    // SAFETY: as above.
    unsafe { element(out, i).write_volatile(a ^ b) };
}

fn element(address: u64, i: u32) -> *mut u32 {
    core::ptr::with_exposed_provenance_mut((address + u64::from(i) * 4) as usize)
}

struct Host {
    now: u64,
}

impl Platform for Host {
    fn now_ns(&mut self) -> u64 {
        self.now += 7;
        self.now
    }
    fn translate(&mut self, address: u64, _: u64, _: FaultAccess) -> Option<NonNull<u8>> {
        NonNull::new(core::ptr::with_exposed_provenance_mut(address as usize))
    }
    fn kernel(&mut self, entry: u64) -> Option<KernelFn> {
        match entry {
            TRIPLE => Some(triple),
            MIX => Some(mix),
            _ => None,
        }
    }
}

struct HostQueue {
    ring: Ring<'static>,
    control: Control<'static>,
}

pub(crate) struct Dev {
    engine: Engine<'static>,
    /// Compute queues, then copy queues.
    queues: Vec<HostQueue>,
    compute: usize,
    pub(crate) timeline: Timeline<'static>,
    pub(crate) fault: Option<FaultRecord>,
}

/// Devices and the host.
pub(crate) struct Lab {
    pub(crate) devices: Vec<Dev>,
    pub(crate) described: Vec<Device>,
    host: Host,
    pub(crate) rng: Rng,
    /// Device of which no engine runs.
    pub(crate) frozen: Option<usize>,
}

impl Lab {
    /// CPU devices with these numbers of compute and copy queues.
    pub(crate) fn new(devices: &[(u16, u16)], seed: u64, span_log2: u32) -> Self {
        let device = |&(compute, copy): &(u16, u16)| {
            let mut queues = Vec::new();
            let mut engines = Vec::new();
            for id in 0..compute + copy {
                let (ring, control) = (Memory::new(8 * 16), Memory::new(Control::WORDS));
                let control = Control::new(control.shared()).expect("enough words");
                engines.push(EngineQueue::new(ring.region(), control, id).unwrap());
                queues.push(HostQueue {
                    ring: Ring::new(ring.region(), PACKET_BYTES).unwrap(),
                    control,
                });
            }
            let slots = Memory::new(4).shared();
            let slots = [0, 1].map(|i| Signal::at(slots, i, Width::W32).unwrap());
            Dev {
                engine: Engine::new(engines.leak(), Region::from_words(&mut [], 0)),
                queues,
                compute: compute.into(),
                timeline: Timeline::new(slots, span_log2).unwrap(),
                fault: None,
            }
        };
        Self {
            devices: devices.iter().map(device).collect(),
            described: devices.iter().map(|d| Device::new(d.0, d.1)).collect(),
            host: Host { now: 0 },
            rng: Rng(seed),
            frozen: None,
        }
    }

    /// One device runs a few packets.
    pub(crate) fn poll(&mut self) {
        let n = self.devices.len() as u64;
        let device = self.rng.below(n) as usize;
        if self.frozen == Some(device) {
            return;
        }
        let budget = 1 + self.rng.below(3) as u32;
        let d = &mut self.devices[device];
        // SAFETY: packets name memory that lives for ever, and kernels are given what they expect.
        if let Poll::Fault { record, .. } = unsafe { d.engine.poll(&mut self.host, budget) } {
            d.fault = Some(record);
        }
    }

    /// Polls until nothing can go on.
    pub(crate) fn drain(&mut self) {
        for _ in 0..2000 {
            self.poll();
        }
        for d in 0..self.devices.len() {
            assert_eq!(self.devices[d].fault, None);
            let latest = self.devices[d].timeline.latest();
            assert!(
                self.devices[d].timeline.is_complete(latest).unwrap(),
                "device {d}"
            );
        }
    }

    fn push(&mut self, device: usize, queue: usize, words: &[u32]) {
        loop {
            let q = &mut self.devices[device].queues[queue];
            q.ring.consumed(q.control.get()).unwrap();
            let control = q.control;
            if let Ok(mut hole) = q.ring.reserve((words.len() / 16) as u64) {
                hole.fill(0, words).unwrap();
                hole.publish(&mut |put| control.set_put(put));
                return;
            }
            self.poll();
        }
    }

    /// What a device's next submission would contain, once there is room for it.
    fn next(&mut self, device: usize) -> Submission {
        for _ in 0..100_000 {
            match self.devices[device].timeline.plan() {
                Ok(s) => return s,
                Err(TimelineError::TooFarAhead { .. }) => self.poll(),
                Err(e) => panic!("{e}"),
            }
        }
        panic!("device {device} does not go on");
    }

    /// A submission on a device's first queue: whatever a timeline asks for, and nothing else.
    pub(crate) fn submit_nothing(&mut self, device: usize) {
        let s = self.next(device);
        let timeline = &mut self.devices[device].timeline;
        let mut words = [0u32; 16 * 4];
        let mut q = Compute::new(&mut words, PatchList::none());
        if let WaitFor::Slot(w) = s.previous {
            q.wait(timeline.operand(w.slot), w.value.into()).unwrap();
        }
        if let Some(slot) = s.reset {
            let address = timeline.operand(slot).address;
            q.write(address, 0u64.into(), WriteWidth::W64).unwrap();
        }
        let at = timeline.operand(s.signal.slot);
        q.signal(at, s.signal.value.into()).unwrap();
        let words = q.words().to_vec();
        timeline.commit(&s);
        self.push(device, 0, &words);
    }

    /// Each device's next point, for a graph.
    pub(crate) fn entries(&mut self) -> Vec<Entry> {
        (0..self.devices.len())
            .map(|d| {
                loop {
                    let s = self.next(d);
                    if let Some(entry) = Entry::of(&self.devices[d].timeline, &s) {
                        return entry;
                    }
                    self.submit_nothing(d);
                }
            })
            .collect()
    }

    /// A launch. Returns the sites that it stored.
    pub(crate) fn launch(
        &mut self,
        instance: &mut Instance<'static>,
        busy: Busy,
    ) -> Result<usize, LaunchError> {
        let taking: Vec<bool> = {
            let devices = instance.graph().devices();
            devices.iter().map(DeviceRecord::takes_part).collect()
        };
        let idle = instance.idle(self, busy)?;
        let entries = self.entries();
        let mut launch = idle.patch(&entries)?;
        let stored = launch.stored();
        let mut order = Vec::new();
        let done: Result<(), ()> = launch.submit(|run, _, _| {
            let (device, copy) = (usize::from(run.device), run.engine == plan::Engine::Copy);
            let first = if copy {
                self.devices[device].compute
            } else {
                0
            };
            let mut words = [0u32; 16];
            let mut q = Compute::new(&mut words, PatchList::none());
            q.indirect(run.address.into(), run.words / 16).unwrap();
            let words = q.words().to_vec();
            self.push(device, first + usize::from(run.index), &words);
            order.push(run.queue);
            Ok(())
        });
        done.unwrap();
        assert!(order.is_sorted());
        for (d, takes_part) in taking.iter().enumerate() {
            if *takes_part {
                let t = &mut self.devices[d].timeline;
                let s = t.plan().unwrap();
                assert_eq!(s.point, entries[d].point);
                t.commit(&s);
            }
        }
        launch.kickoff(|_| {});
        Ok(stored)
    }
}

impl Timelines for Lab {
    fn is_complete(&mut self, device: u16, point: Point) -> Result<bool, WaitError> {
        let d = &mut self.devices[usize::from(device)];
        if let Some(fault) = d.fault {
            return Err(WaitError::Fault(fault));
        }
        Ok(d.timeline.is_complete(point).expect("possible values"))
    }

    fn wait(&mut self, device: u16, point: Point, timeout_ns: u64) -> Result<(), WaitError> {
        for _ in 0..timeout_ns {
            if self.is_complete(device, point)? {
                return Ok(());
            }
            self.poll();
        }
        Err(WaitError::Timeout {
            wanted: point.raw(),
            seen: 0,
            waited_ns: timeout_ns,
        })
    }
}

/// The CPU driver as a graph's.
pub(crate) struct CpuEncode;

pub(crate) enum AnyQueue<'m> {
    Compute(Compute<'m>, Value, Beside<'m>),
    Copy(Copy<'m>, Value, Beside<'m>),
}

impl Encode for CpuEncode {
    type Program = Program<'static>;
    type Queue<'m> = AnyQueue<'m>;

    fn kernargs(&self, p: &Self::Program, args: &[Arg<'_>]) -> Result<(usize, usize), RecordError> {
        Ok((p.kernargs_for(args), 16))
    }

    fn over<'m>(&self, at: QueueAt, m: QueueMemory<'m>) -> Result<AnyQueue<'m>, RecordError> {
        let (words_at, beside) = (m.words_at, m.beside);
        Ok(match at.engine {
            plan::Engine::Compute => AnyQueue::Compute(Compute::over(m.recorder), words_at, beside),
            plan::Engine::Copy => AnyQueue::Copy(Copy::over(m.recorder), words_at, beside),
        })
    }

    fn command(
        &self,
        queue: &mut AnyQueue<'_>,
        command: Command<'_, '_, Self::Program>,
    ) -> Result<(), RecordError> {
        match queue {
            AnyQueue::Compute(q, ..) => graph::compute(q, command),
            AnyQueue::Copy(q, ..) => graph::copy(q, command),
        }
    }

    fn finish<'m>(&self, queue: Self::Queue<'m>) -> QueueMemory<'m> {
        let (recorder, words_at, beside): (Recorder<'m>, _, _) = match queue {
            AnyQueue::Compute(q, words_at, beside) => (q.finish(), words_at, beside),
            AnyQueue::Copy(q, words_at, beside) => (q.finish(), words_at, beside),
        };
        QueueMemory {
            recorder,
            words_at,
            beside,
        }
    }
}

/// What a graph is made from.
pub(crate) struct Scene<'a> {
    pub(crate) allocations: &'a [Allocation],
    pub(crate) tasks: &'a [Task<'a>],
    pub(crate) addresses: &'a [Value],
    pub(crate) nodes: &'a [Node<'a, Program<'static>>],
    pub(crate) variables: u32,
    pub(crate) timestamps: bool,
    /// The allocation through which copies cross peer groups, 64 bytes for each task.
    pub(crate) stage: Option<u32>,
}

/// Memory of an instance.
pub(crate) struct Home {
    pub(crate) regions: Vec<Memory>,
    pub(crate) signals: Memory,
    state: Vec<u64>,
    points: Vec<Point>,
}

impl Home {
    /// As much as a graph says, somewhere.
    pub(crate) fn of(graph: &Graph<'_>) -> Self {
        let bytes: Vec<usize> = graph.regions().map(|r| r.bytes as usize).collect();
        Self::new(
            &bytes,
            graph.signal_slots(),
            graph.state_words(),
            graph.devices().len(),
        )
    }

    fn new(bytes: &[usize], slots: usize, state: usize, devices: usize) -> Self {
        Self {
            regions: bytes.iter().map(|b| Memory::new(b.div_ceil(8))).collect(),
            signals: Memory::new(slots * 2),
            state: vec![0; state],
            points: vec![Point::ZERO; devices],
        }
    }

    pub(crate) fn bind(self, graph: Graph<'static>) -> Instance<'static> {
        let regions: Vec<Region<'static>> = self.regions.iter().map(Memory::region).collect();
        let memory = InstanceMemory {
            regions: regions.leak(),
            signals: self.signals.shared(),
            state: self.state.leak(),
            points: self.points.leak(),
        };
        graph.bind(memory).expect("enough of everything")
    }
}

impl Scene<'_> {
    fn plan<R>(&self, lab: &Lab, f: impl FnOnce(&Problem<'_>, &plan::Plan<'_>, &[Step]) -> R) -> R {
        let mut problem = Problem::new(&lab.described, self.allocations, self.tasks);
        problem.timestamps = self.timestamps;
        let capacity = problem.capacity().unwrap();
        let mut scratch = vec![0; problem.scratch_words(&capacity).unwrap()];
        let via = |c: plan::Crossing| {
            let offset = u64::from(c.task) * 64;
            self.stage
                .map(|allocation| plan::Via::Staged { allocation, offset })
        };
        let mut made = plan::plan(&problem, &capacity, &mut scratch, via).unwrap();
        let mut steps = vec![Step::Barrier; made.steps()];
        made.lay_out(&mut steps).unwrap();
        f(&problem, &made, &steps)
    }

    /// A graph for any place.
    pub(crate) fn graph(&self, lab: &Lab) -> Graph<'static> {
        self.plan(lab, |problem, plan, steps| {
            self.record(problem, plan, steps, None).0.unwrap()
        })
    }

    /// An instance in memory that is known while recording.
    pub(crate) fn here(&self, lab: &Lab) -> Instance<'static> {
        self.plan(lab, |problem, plan, steps| {
            let (_, sizes, bytes) = self.record(problem, plan, steps, None);
            let home = Home::new(&bytes, sizes.signals, 100_000, problem.devices.len());
            let (graph, ..) = self.record(problem, plan, steps, Some(&home));
            home.bind(graph.unwrap())
        })
    }

    fn record(
        &self,
        problem: &Problem<'_>,
        plan: &plan::Plan<'_>,
        steps: &[Step],
        home: Option<&Home>,
    ) -> (Result<Graph<'static>, GraphError>, Sizes, Vec<usize>) {
        let (devices, queues) = (problem.devices.len(), plan.queues().len());
        let at = |range: core::ops::Range<usize>| -> Vec<u64> {
            let of = home.map(|h| h.regions[range].iter().map(Memory::address).collect());
            of.unwrap_or_default()
        };
        let words_at = at(0..queues);
        let kernargs_at = at(queues..queues + devices);
        let beside_at = at(queues + devices..2 * queues + devices);
        let addresses = graph::Addresses {
            signals: home.map_or(0, |h| h.signals.address()),
            words: &words_at,
            kernargs: &kernargs_at,
            beside: &beside_at,
        };
        let spec = Spec {
            problem,
            addresses: self.addresses,
            nodes: self.nodes,
            variables: self.variables,
            place: match home {
                None => Place::Anywhere,
                Some(_) => Place::At(&addresses),
            },
            seen: &[],
        };
        let edges = plan.explain().len();
        let mut records = Records {
            devices: vec![DeviceRecord::EMPTY; devices].leak(),
            queues: vec![QueueRecord::EMPTY; queues].leak(),
            works: vec![WorkRecord::EMPTY; plan.works()].leak(),
            edges: vec![0; edges].leak(),
        };
        let mut scratch = Scratch {
            sites: &mut vec![Site::EMPTY; 64],
            derived: &mut vec![Derived::EMPTY; 8],
            words: &mut [0; 64],
            blocks: &mut [0; 128],
        };
        let measured =
            graph::measure(&spec, plan, steps, &CpuEncode, &mut records, &mut scratch).unwrap();
        let words = records.queues.iter().map(|q| q.words() as usize * 4);
        let kernargs = records.devices.iter().map(|d| d.kernargs_bytes() as usize);
        let beside = records.queues.iter().map(|q| q.beside_bytes() as usize);
        let bytes: Vec<usize> = words.chain(kernargs).chain(beside).collect();

        let mut sites = vec![Site::EMPTY; measured.sites];
        let mut derived = vec![Derived::EMPTY; measured.derived];
        let words = vec![0u32; measured.words].leak();
        let blocks = vec![0u64; measured.blocks].leak();
        let memory = (&mut *words, &mut *blocks);
        let kept = (&mut sites[..], &mut derived[..]);
        let recorded = graph::record(&spec, plan, steps, &CpuEncode, records, memory, kept);
        let built = recorded.and_then(|mut recorded| {
            // Exactly as much as was said, and no more.
            let used = recorded.used();
            assert!(used.words <= measured.words && measured.words < used.words + 16 * queues + 1);
            assert_eq!(used.sites, measured.sites);
            let mut sizes = vec![0; measured.regions];
            let table = vec![0u64; recorded.table_words(&mut sizes)?].leak();
            recorded.build(&mut sizes, table)
        });
        (built, measured, bytes)
    }
}
