//! Graphs of the core, with a driver's encoder and a device that is always done: the host's half alone.
//!
//! A graph has N kernels of two pointers each, on one compute queue: to two inputs that all share, or to inputs of their
//! own. Every input's address is a variable.

mod drivers;

use core::ptr::NonNull;

use hcq_nostd::args::Arg;
use hcq_nostd::graph::{
    self, Addresses, Busy, DeviceRecord, DeviceTimelines, Encode, Entry, Graph, Instance,
    InstanceMemory, Kernel, Node, Place, QueueRecord, Records, Run, Scratch, Sizes, Spec,
    WorkRecord,
};
use hcq_nostd::mem::{Region, SharedWord, SharedWords};
use hcq_nostd::patch::{Derived, Site};
use hcq_nostd::plan::{self, Access, Allocation, Problem, Step, Task};
use hcq_nostd::ring::Ring;
use hcq_nostd::signal::{Signal, Width};
use hcq_nostd::timeline::{Point, Timeline};
use hcq_nostd::value::{Value, Var};
use hcq_nostd::wait::Policy;

pub use drivers::{Cpu, Pm4};

use crate::{baseline, patch};

/// Bytes of an input.
const INPUT: u64 = 4096;

/// What records a graph's queue, and how a bound queue of it is submitted.
pub trait Driver {
    /// The encoder.
    type Encode: Encode;
    /// What is known of a submission when the graph is there.
    type Entry: core::fmt::Debug;
    /// Bytes of a ring's entry.
    const ENTRY: usize;
    /// Work-items of a group.
    const LOCAL: u64;
    /// Where its graphs can be recorded for.
    const PLACES: &'static [At];

    /// The encoder.
    fn encode(&self) -> &Self::Encode;
    /// A kernel of two pointers.
    fn program(&self) -> &<Self::Encode as Encode>::Program;
    /// What a queue's submission puts into the ring, made once.
    fn entry(run: &Run) -> Self::Entry;
    /// Makes the engine run the words: a packet into the ring, and the doorbell.
    fn push(ring: &mut Ring<'_>, entry: &Self::Entry, doorbell: &mut impl FnMut(u64));
}

/// Where a graph is recorded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Memory that is there while it is recorded.
    Known,
    /// Any memory.
    Anywhere,
}

/// Memory of a graph and its instance, as much as its kind needs.
#[derive(Debug, Default)]
struct Buffers {
    plan: Vec<u64>,
    steps: Vec<Step>,
    devices: Vec<DeviceRecord>,
    queues: Vec<QueueRecord>,
    works: Vec<WorkRecord>,
    edges: Vec<u32>,
    sites: Vec<Site>,
    derived: Vec<Derived>,
    words: Vec<u32>,
    blocks: Vec<u64>,
    /// One command's words and blocks while measuring.
    command: (Vec<Site>, Vec<Derived>, Vec<u32>, Vec<u64>),
    sizes: Vec<u64>,
    table: Vec<u64>,
    regions: [Vec<u64>; 3],
    signals: Vec<u128>,
    state: Vec<u64>,
    points: Vec<Point>,
}

/// What a graph is made from, and memory for it: made once, built any number of times.
#[derive(Debug)]
pub struct Builder<D> {
    driver: D,
    kernels: u32,
    shared: bool,
    at: At,
    device: plan::Device,
    buffers: Buffers,
}

/// Device addresses of an instance's parts when they are known while recording.
const PLACES: Addresses<'static> = Addresses {
    signals: 0x1000_0000,
    words: &[0x2000_0000],
    kernargs: &[0x3000_0000],
    beside: &[0x4000_0000],
};

/// The parts of a problem that borrow from each other.
struct Tasks {
    allocations: Vec<Allocation>,
    addresses: Vec<Value>,
    accesses: Vec<[Access; 2]>,
    args: Vec<[Arg<'static>; 2]>,
}

impl Tasks {
    fn new(kernels: u32, shared: bool) -> Self {
        let inputs = if shared { 2 } else { 2 * kernels };
        let pointer = |kernel: u32, which: u32| if shared { which } else { 2 * kernel + which };
        let address = |input: u32| Value::from(Var::new(input));
        Self {
            allocations: vec![Allocation::input(0); inputs as usize],
            addresses: (0..inputs).map(address).collect(),
            accesses: (0..kernels)
                .map(|k| {
                    [
                        Access::write(pointer(k, 0), 0, INPUT),
                        Access::read(pointer(k, 1), 0, INPUT),
                    ]
                })
                .collect(),
            args: (0..kernels)
                .map(|k| [0, 1].map(|which| Arg::Buffer(address(pointer(k, which)))))
                .collect(),
        }
    }
}

impl<D: Driver> Builder<D> {
    /// A graph of this many kernels. Everything that building takes is allocated now.
    pub fn new(driver: D, kernels: u32, shared: bool, at: At) -> Self {
        let mut builder = Self {
            driver,
            kernels,
            shared,
            at,
            device: plan::Device::new(1, 0),
            buffers: Buffers::default(),
        };
        builder.size();
        builder
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        if self.shared {
            2
        } else {
            2 * self.kernels as usize
        }
    }

    /// Calls `f` with what a graph is made from. What it allocates is what a caller knows already, and not timed.
    fn with_problem<R>(
        &mut self,
        f: impl FnOnce(
            &Problem<'_>,
            &Spec<'_, <D::Encode as Encode>::Program>,
            &D::Encode,
            &mut Buffers,
        ) -> R,
    ) -> R {
        let parts = Tasks::new(self.kernels, self.shared);
        let tasks: Vec<Task<'_>> = parts.accesses.iter().map(|a| Task::exec(0, a)).collect();
        let one = Value::Imm(1);
        let nodes: Vec<Node<'_, _>> = parts
            .args
            .iter()
            .map(|args| {
                Node::Exec(Kernel {
                    program: self.driver.program(),
                    args,
                    groups: [one; 3],
                    local: [Value::Imm(D::LOCAL), one, one],
                    local_memory: 0,
                })
            })
            .collect();
        let devices = [self.device];
        let problem = Problem::new(&devices, &parts.allocations, &tasks);
        let spec = Spec {
            problem: &problem,
            addresses: &parts.addresses,
            nodes: &nodes,
            variables: parts.addresses.len() as u32,
            place: match self.at {
                At::Known => Place::At(&PLACES),
                At::Anywhere => Place::Anywhere,
            },
            seen: &[],
        };
        f(&problem, &spec, self.driver.encode(), &mut self.buffers)
    }

    /// Allocates what building takes.
    fn size(&mut self) {
        self.with_problem(|problem, spec, encode, b| {
            let capacity = problem.usual_capacity().expect("a sound problem");
            let words = problem.scratch_words(&capacity).expect("a small problem");
            b.plan = vec![0; words];
            b.devices = vec![DeviceRecord::EMPTY; 1];
            b.command = (
                vec![Site::EMPTY; 64],
                vec![Derived::EMPTY; 8],
                vec![0; 256],
                vec![0; 64],
            );
            let mut plan =
                plan::plan(problem, &capacity, &mut b.plan, |_| None).expect("room for a plan");
            b.steps = vec![Step::Barrier; plan.steps()];
            let steps = plan.lay_out(&mut b.steps).expect("room for all steps");
            b.queues = vec![QueueRecord::EMPTY; plan.queues().len()];
            b.works = vec![WorkRecord::EMPTY; plan.works()];
            b.edges = vec![0; plan.explain().len()];
            let mut records = Records {
                devices: &mut b.devices,
                queues: &mut b.queues,
                works: &mut b.works,
                edges: &mut b.edges,
            };
            let (sites, derived, words, blocks) = &mut b.command;
            let mut scratch = Scratch {
                sites,
                derived,
                words,
                blocks,
            };
            let sizes: Sizes =
                graph::measure(spec, &plan, steps, encode, &mut records, &mut scratch)
                    .expect("room for a command");
            b.sites = vec![Site::EMPTY; sizes.sites];
            b.derived = vec![Derived::EMPTY; sizes.derived];
            b.words = vec![0; sizes.words];
            b.blocks = vec![0; sizes.blocks];
            b.sizes = vec![0; sizes.regions];
            b.signals = vec![0; sizes.signals];
            b.points = vec![Point::ZERO; 1];
            let recorded = graph::record(
                spec,
                &plan,
                steps,
                encode,
                records,
                (&mut b.words, &mut b.blocks),
                (&mut b.sites, &mut b.derived),
            );
            let mut recorded = recorded.expect("as measured");
            let table = recorded.table_words(&mut b.sizes).expect("sound sites");
            b.table = vec![0; table];
            let graph = recorded.build(&mut b.sizes, &mut b.table).expect("a graph");
            b.state = vec![0; graph.state_words()];
            for (memory, need) in b.regions.iter_mut().zip(graph.regions()) {
                *memory = vec![0; need.bytes.div_ceil(8) as usize];
            }
        });
    }

    /// Plans, measures, records, builds the patch table and binds: `calls` times what a caller does who has tasks, nodes,
    /// and all memory. Returns the nanoseconds of one.
    pub fn time(&mut self, calls: u32) -> f64 {
        self.with_problem(|problem, spec, encode, b| {
            let start = std::time::Instant::now();
            for _ in 0..calls {
                let mut regions = regions(&mut b.regions);
                let instance = build(
                    problem,
                    spec,
                    encode,
                    Room {
                        plan: &mut b.plan,
                        steps: &mut b.steps,
                        records: Records {
                            devices: &mut b.devices,
                            queues: &mut b.queues,
                            works: &mut b.works,
                            edges: &mut b.edges,
                        },
                        sites: &mut b.sites,
                        derived: &mut b.derived,
                        command: &mut b.command,
                        words: &mut b.words,
                        blocks: &mut b.blocks,
                        sizes: &mut b.sizes,
                        table: &mut b.table,
                        regions: &mut regions,
                        signals: &mut b.signals,
                        state: &mut b.state,
                        points: &mut b.points,
                    },
                );
                std::hint::black_box(&instance);
            }
            start.elapsed().as_nanos() as f64 / f64::from(calls.max(1))
        })
    }

    /// A graph ready to be launched. Its memory is leaked, so that it can go into benchmarks' static places.
    pub fn launcher(mut self) -> Launcher<D> {
        let inputs = self.inputs();
        let (instance, arguments) = self.with_problem(|problem, spec, encode, b| {
            let b = Box::leak(Box::new(std::mem::take(b)));
            let regions = Box::leak(Box::new(regions(&mut b.regions)));
            let [_, kernargs, _] = &*regions;
            let arguments = (kernargs.as_ptr().cast::<u64>(), kernargs.len() / 8);
            let instance = build(
                problem,
                spec,
                encode,
                Room {
                    plan: &mut b.plan,
                    steps: &mut b.steps,
                    records: Records {
                        devices: &mut b.devices,
                        queues: &mut b.queues,
                        works: &mut b.works,
                        edges: &mut b.edges,
                    },
                    sites: &mut b.sites,
                    derived: &mut b.derived,
                    command: &mut b.command,
                    words: &mut b.words,
                    blocks: &mut b.blocks,
                    sizes: &mut b.sizes,
                    table: &mut b.table,
                    regions,
                    signals: &mut b.signals,
                    state: &mut b.state,
                    points: &mut b.points,
                },
            );
            (instance, arguments)
        });
        Launcher::new(instance, arguments, inputs)
    }
}

fn regions(memory: &mut [Vec<u64>; 3]) -> [Region<'_>; 3] {
    let at = [PLACES.words, PLACES.kernargs, PLACES.beside];
    let mut memory = memory.iter_mut().zip(at);
    [(); 3].map(|()| {
        let (words, address) = memory.next().expect("three of both");
        Region::from_words(words, address[0])
    })
}

/// Memory of one build.
struct Room<'m, 's> {
    plan: &'s mut [u64],
    steps: &'s mut [Step],
    records: Records<'m>,
    sites: &'s mut [Site],
    derived: &'s mut [Derived],
    command: &'s mut (Vec<Site>, Vec<Derived>, Vec<u32>, Vec<u64>),
    words: &'m mut [u32],
    blocks: &'m mut [u64],
    sizes: &'s mut [u64],
    table: &'m mut [u64],
    regions: &'m mut [Region<'m>],
    signals: &'m mut [u128],
    state: &'m mut [u64],
    points: &'m mut [Point],
}

#[inline(never)]
fn build<'m, E: Encode>(
    problem: &Problem<'_>,
    spec: &Spec<'_, E::Program>,
    encode: &E,
    room: Room<'m, '_>,
) -> Instance<'m> {
    let capacity = problem.usual_capacity().expect("a sound problem");
    let plan = plan::plan(problem, &capacity, room.plan, |_| None);
    let mut plan = plan.expect("room for a plan");
    let steps = plan.lay_out(room.steps).expect("room for all steps");
    let mut records = room.records;
    let (sites, derived, words, blocks) = room.command;
    let mut scratch = Scratch {
        sites,
        derived,
        words,
        blocks,
    };
    graph::measure(spec, &plan, steps, encode, &mut records, &mut scratch).expect("measured");
    let memory = (room.words, room.blocks);
    let kept = (room.sites, room.derived);
    let recorded = graph::record(spec, &plan, steps, encode, records, memory, kept);
    let mut recorded = recorded.expect("as measured");
    let words = recorded.table_words(room.sizes).expect("sound sites");
    assert!(words <= room.table.len(), "as the first time");
    let graph: Graph<'m> = recorded.build(room.sizes, room.table).expect("a graph");
    let signals: &'m mut [u64] = zerocopy::transmute_mut!(room.signals);
    let memory = InstanceMemory {
        regions: room.regions,
        signals: SharedWords::new(Region::from_words(signals, PLACES.signals)).expect("aligned"),
        state: room.state,
        points: room.points,
    };
    graph.bind(memory).expect("enough of everything")
}

/// Never waits: the device is done when it is looked at.
#[derive(Debug)]
struct NoWait;

impl Policy for NoWait {
    fn now_ns(&mut self) -> u64 {
        0
    }
    fn relax(&mut self, _: u32, _: SharedWord<'_>, _: u64) {}
}

/// A graph, its device's timeline and ring.
#[derive(Debug)]
pub struct Launcher<D: Driver> {
    instance: Instance<'static>,
    timeline: [Timeline<'static>; 1],
    slots: [Signal<'static>; 2],
    ring: Ring<'static>,
    doorbell: u64,
    /// Of the one queue; made by the first launch.
    entry: Option<D::Entry>,
    /// The argument blocks: where, and how many words.
    arguments: (NonNull<u64>, usize),
    inputs: usize,
}

impl<D: Driver> Launcher<D> {
    fn new(instance: Instance<'static>, arguments: (NonNull<u64>, usize), inputs: usize) -> Self {
        let slots: &'static mut [u64] = zerocopy::transmute_mut!(vec![0u128; 2].leak());
        let words = SharedWords::new(Region::from_words(slots, 0x5000_0000)).expect("aligned");
        let slots = [0, 1].map(|i| Signal::at(words, i, Width::W32).expect("two slots"));
        let ring = Region::from_words(vec![0u64; 64 * D::ENTRY / 8].leak(), 0x6000_0000);
        let mut this = Self {
            instance,
            timeline: [Timeline::new(slots, 31).expect("a span")],
            slots,
            ring: Ring::new(ring, D::ENTRY).expect("whole entries"),
            doorbell: 0,
            entry: None,
            arguments,
            inputs,
        };
        // All sites are stored by the first launch; of the second one on only those that changed.
        let [first, _] = this.two_inputs();
        this.launch(&first);
        this.launch(&first);
        this
    }

    /// Two sets of inputs that have nothing in common.
    pub fn two_inputs(&self) -> [Vec<u64>; 2] {
        let a: Vec<u64> = (0..self.inputs as u64)
            .map(|i| 0x7f00_0000_0000 + i * INPUT)
            .collect();
        let b = a.iter().map(|v| v + 64).collect();
        [a, b]
    }

    /// Gives all inputs and launches. Returns how many sites were stored.
    #[inline(never)]
    pub fn launch(&mut self, inputs: &[u64]) -> usize {
        self.instance
            .set_all(Var::new(0), inputs)
            .expect("variables of the graph");
        self.submit()
    }

    /// Gives one input and launches.
    #[inline(never)]
    pub fn launch_one(&mut self, input: u32, address: u64) -> usize {
        self.instance
            .set(Var::new(input), address)
            .expect("a variable of the graph");
        self.submit()
    }

    /// Launches as it is.
    #[inline(never)]
    pub fn launch_again(&mut self) -> usize {
        self.submit()
    }

    /// From the wait for the last launch to the doorbell and the kickoff; then the device is done.
    #[inline]
    fn submit(&mut self) -> usize {
        let mut timelines = DeviceTimelines {
            timelines: &mut self.timeline,
            policy: &mut NoWait,
        };
        let idle = self.instance.idle(&mut timelines, Busy::Refuse);
        let idle = idle.expect("a device that is always done");
        let [timeline] = &mut self.timeline;
        let submission = timeline.plan().expect("room in the timeline");
        let entries = [Entry::of(timeline, &submission).expect("no reset in 2^30 launches")];
        let mut launch = idle.patch(&entries).expect("values that fit");
        let stored = launch.stored();
        let (ring, doorbell, entry) = (&mut self.ring, &mut self.doorbell, &mut self.entry);
        let put = ring.put();
        ring.consumed(put).expect("a device that is always done");
        let pushed: Result<(), ()> = launch.submit(|run, _, _| {
            let entry = entry.get_or_insert_with(|| D::entry(run));
            D::push(ring, entry, &mut |put| {
                // SAFETY: an exclusive reference; volatile, as a doorbell is.
                unsafe { core::ptr::from_mut(doorbell).write_volatile(put) };
            });
            Ok(())
        });
        pushed.expect("room in the ring");
        timeline.commit(&submission);
        launch.kickoff(|_| {});
        let done = self.slots.get(submission.signal.slot);
        done.expect("two slots")
            .set(submission.signal.value)
            .expect("31 bits");
        stored
    }

    /// Bytes of the patch table.
    pub fn table_bytes(&self) -> usize {
        self.instance.graph().table().as_bytes().len()
    }

    /// What is in the argument blocks.
    pub fn arguments(&self) -> Vec<u64> {
        let (first, words) = self.arguments;
        // SAFETY: the graph's region of argument blocks, which is never freed, and which only launches write.
        let words = unsafe { core::slice::from_raw_parts(first.as_ptr(), words) };
        words.to_vec()
    }

    /// The bare loop's table for the same pointers at the same places.
    pub fn bare(&self) -> Vec<baseline::Site> {
        let kernels = self.instance.graph().works().len() as u32;
        // The last block has no padding behind it.
        let between = (self.arguments.1 as u32 * 8).saturating_sub(16);
        let between = between.checked_div(kernels.saturating_sub(1)).unwrap_or(0);
        patch::sites_every(kernels, self.inputs == 2, between)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same_bytes<D: Driver + Default>() {
        for (kernels, shared) in [(1, true), (10, true), (10, false), (100, false)] {
            for &at in D::PLACES {
                let mut launcher = Builder::new(D::default(), kernels, shared, at).launcher();
                let bare = launcher.bare();
                let mut theirs = vec![0; launcher.arguments().len()];
                let [a, b] = launcher.two_inputs();
                // The timeline's values: two for a device's wait and signal.
                let own = launcher.launch_again();
                assert!(own <= 4, "{own}");
                for inputs in [b, a] {
                    assert_eq!(launcher.launch(&inputs), own + bare.len());
                    baseline::stores(&mut theirs, &bare, &inputs);
                    if baseline::AVAILABLE {
                        assert!(launcher.arguments() == theirs, "{kernels} {shared} {at:?}");
                    }
                }
                let of_one = bare.iter().filter(|s| s.slot == 1).count();
                assert_eq!(launcher.launch_one(1, 0x7e00_0000_0000), own + of_one);
            }
        }
    }

    #[test]
    fn a_launch_stores_what_the_bare_loop_stores() {
        same_bytes::<Cpu>();
        same_bytes::<Pm4>();
    }

    #[test]
    fn a_graph_is_built_again_in_the_same_memory() {
        let mut builder = Builder::new(Pm4::default(), 10, false, At::Known);
        assert!(builder.time(3) > 0.0);
        let mut launcher = builder.launcher();
        let [_, b] = launcher.two_inputs();
        assert!(launcher.launch(&b) >= 20);
    }
}
