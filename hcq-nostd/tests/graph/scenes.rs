//! Random graphs, and memory for them.

use crate::toy::{Program, Toy};
use hcq_nostd::args::Arg;
use hcq_nostd::graph::{
    self, Busy, DeviceRecord, Entry, Graph, GraphError, InstanceMemory, Kernel, LaunchError, Node,
    Place, QueueRecord, Records, Scratch, Sizes, SlotAt, Spec, Timelines, WorkRecord,
};
use hcq_nostd::mem::{Region, SharedWords};
use hcq_nostd::patch::{Derived, Site};
use hcq_nostd::plan::{
    Access, Allocation, Device, Engine, Order, Plan, Problem, Step, Task, Via, plan,
};
use hcq_nostd::timeline::Point;
use hcq_nostd::value::{Value, Var};
use hcq_nostd::wait::WaitError;

/// A seeded generator (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Bytes of each allocation.
const BYTES: u64 = 0x1000;

/// A scene has fewer chores than this.
const CHORES: u64 = if cfg!(miri) { 5 } else { 14 };

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Exec(Program),
    Copy,
    Write(Engine),
}

#[derive(Clone, Debug)]
pub(crate) struct Chore {
    pub(crate) kind: Kind,
    device: u16,
    accesses: Vec<Access>,
    args: Vec<(u32, u64)>,
    scalar: Option<Var>,
    groups: [Value; 3],
    local: [Value; 3],
    value: Value,
}

/// A graph's description that owns its parts. Even variables are addresses of inputs, odd ones numbers.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) devices: Vec<Device>,
    pub(crate) allocations: Vec<Allocation>,
    pub(crate) variables: u32,
    pub(crate) chores: Vec<Chore>,
    timestamps: bool,
}

impl Scene {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let devices: Vec<Device> = (0..1 + rng.below(3))
            .map(|_| {
                let mut d = Device::new(1 + rng.below(2) as u16, rng.below(3) as u16);
                d.group = rng.of(&[0, 0, 0, 5]);
                if rng.below(4) == 0 {
                    d.compute.order = Order::InFlight(2);
                }
                d.cpu = rng.below(4) == 0;
                d
            })
            .collect();
        let device = |rng: &mut Rng| rng.below(devices.len() as u64) as u16;
        let variables = 2 * (1 + rng.below(3) as u32);
        let mut allocations: Vec<Allocation> = (0..variables / 2)
            .map(|_| Allocation::input(device(rng)))
            .collect();
        for _ in 0..2 + rng.below(3) {
            allocations.push(Allocation::fixed(device(rng)));
        }
        // For what crosses from group to group.
        allocations.push(Allocation::fixed(0).shared());
        let mut scene = Self {
            devices: devices.clone(),
            allocations,
            variables,
            chores: Vec::new(),
            timestamps: rng.below(2) == 0,
        };
        for _ in 0..rng.below(CHORES) {
            let chore = scene.chore(rng);
            scene.chores.push(chore);
        }
        scene
    }

    fn number(&self, rng: &mut Rng) -> Value {
        match rng.below(3) {
            0 => Value::from(Var::new(
                1 + 2 * rng.below(u64::from(self.variables / 2)) as u32,
            )),
            _ => (1 + rng.below(9)).into(),
        }
    }

    fn chore(&self, rng: &mut Rng) -> Chore {
        let device = rng.below(self.devices.len() as u64) as u16;
        let group = |d: u16| self.devices[usize::from(d)].group;
        // All but the staging bytes.
        let n = self.allocations.len() as u64 - 1;
        let reached: Vec<u32> = (0..n as u32)
            .filter(|a| group(self.allocations[*a as usize].device) == group(device))
            .collect();
        let place = |rng: &mut Rng| (rng.below(15) * 0x100, 0x100);
        let mut chore = Chore {
            kind: Kind::Copy,
            device,
            accesses: Vec::new(),
            args: Vec::new(),
            scalar: None,
            groups: [(); 3].map(|()| self.number(rng)),
            local: [(); 3].map(|()| self.number(rng)),
            value: self.number(rng),
        };
        let copies = rng.below(3) == 0;
        if copies || reached.is_empty() {
            let (from, to) = (rng.below(n) as u32, rng.below(n) as u32);
            let (read, write) = (place(rng), place(rng));
            chore.accesses = vec![
                Access::read(from, read.0, read.1),
                Access::write(to, write.0, write.1),
            ];
            if from == to && read == write {
                chore.accesses[1].offset ^= 0x100;
            }
            return chore;
        }
        if rng.below(5) == 0 {
            chore.kind = Kind::Write(Engine::Compute);
            let to = rng.of(&reached);
            chore.accesses = vec![Access::write(to, place(rng).0, rng.of(&[4, 8]))];
            return chore;
        }
        chore.kind = Kind::Exec(Program {
            code: 0x4000_0000 + rng.below(100) * 0x100,
            align: rng.of(&[8, 64, 256]),
        });
        for _ in 0..1 + rng.below(3) {
            let (a, (offset, len)) = (rng.of(&reached), place(rng));
            chore.args.push((a, offset));
            chore.accesses.push(match rng.below(2) {
                0 => Access::read(a, offset, len),
                _ => Access::write(a, offset, len),
            });
        }
        chore.scalar = (rng.below(2) == 0).then(|| Var::new(1));
        chore
    }

    /// Addresses of allocations; inputs are variables, or what `known` says.
    fn addresses(&self, known: Option<&[u64]>) -> Vec<Value> {
        let address = |a: usize| match known {
            _ if !self.allocations[a].input => (0x10_0000 + a as u64 * 2 * BYTES).into(),
            Some(values) => values[2 * a].into(),
            None => Var::new(2 * a as u32).into(),
        };
        (0..self.allocations.len()).map(address).collect()
    }

    pub(crate) fn planned<R>(&self, f: impl FnOnce(&Problem<'_>, &Plan<'_>, &[Step]) -> R) -> R {
        let task = |c: &'_ Chore| -> Task<'_> {
            match c.kind {
                Kind::Exec(_) => Task::exec(c.device, &[]),
                Kind::Copy => Task::copy(&[]),
                Kind::Write(engine) => Task::write(c.device, engine, &[]),
            }
        };
        let tasks: Vec<Task<'_>> = self
            .chores
            .iter()
            .map(|c| Task {
                accesses: &c.accesses,
                ..task(c)
            })
            .collect();
        let mut problem = Problem::new(&self.devices, &self.allocations, &tasks);
        problem.timestamps = self.timestamps;
        let capacity = problem.capacity().unwrap();
        let mut scratch = vec![0; problem.scratch_words(&capacity).unwrap()];
        let stage = self.allocations.len() as u32 - 1;
        let via = |c: hcq_nostd::plan::Crossing| {
            let offset = u64::from(c.task % 15) * 0x100;
            Some(Via::Staged {
                allocation: stage,
                offset,
            })
        };
        let mut made = plan(&problem, &capacity, &mut scratch, via).unwrap();
        let mut steps = vec![Step::Barrier; made.steps()];
        made.lay_out(&mut steps).unwrap();
        f(&problem, &made, &steps)
    }

    /// With `known` values in place of the variables, which are then not used.
    pub(crate) fn record(&self, at: Option<&Home>, known: Option<&[u64]>) -> Built {
        self.planned(|problem, plan, steps| {
            let value = |v: &Value| match known {
                Some(values) => v.eval(|var| values[var.index() as usize]).into(),
                None => *v,
            };
            let addresses = self.addresses(known);
            let args: Vec<Vec<Arg<'_>>> = self
                .chores
                .iter()
                .map(|c| {
                    let buffers = c.args.iter();
                    let buffers = buffers.map(|(a, o)| Arg::Buffer(addresses[*a as usize] + *o));
                    let scalar = c.scalar.map(|var| Arg::Scalar {
                        value: value(&var.into()),
                        size: 4,
                    });
                    buffers.chain(scalar).collect()
                })
                .collect();
            let nodes: Vec<Node<'_, Program>> = self
                .chores
                .iter()
                .zip(&args)
                .map(|(c, args)| match &c.kind {
                    Kind::Exec(program) => Node::Exec(Kernel {
                        program,
                        args,
                        groups: c.groups.map(|g| value(&g)),
                        local: c.local.map(|l| value(&l)),
                        local_memory: 0,
                    }),
                    Kind::Copy => Node::Copy,
                    Kind::Write(_) => Node::Write(value(&c.value)),
                })
                .collect();
            let places = at.map(Home::addresses).unwrap_or_default();
            let (queues, devices) = (plan.queues().len(), problem.devices.len());
            let of = |range: core::ops::Range<usize>| places.get(range).unwrap_or_default();
            let known_places = graph::Addresses {
                signals: Home::SIGNALS,
                words: of(0..queues),
                kernargs: of(queues..queues + devices),
                beside: of(queues + devices..queues * 2 + devices),
            };
            let spec = Spec {
                problem,
                addresses: &addresses,
                nodes: &nodes,
                variables: self.variables,
                place: match at {
                    Some(_) => Place::At(&known_places),
                    None => Place::Anywhere,
                },
                seen: &[],
            };
            Built::new(&spec, plan, steps).unwrap()
        })
    }
}

/// A graph and its memory, which is leaked: tests are short.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) graph: Graph<'static>,
    pub(crate) measured: Sizes,
    pub(crate) used: hcq_nostd::record::Room,
}

impl Built {
    pub(crate) fn new(
        spec: &Spec<'_, Program>,
        plan: &Plan<'_>,
        steps: &[Step],
    ) -> Result<Self, GraphError> {
        let mut records = Records {
            devices: vec![DeviceRecord::EMPTY; spec.problem.devices.len()].leak(),
            queues: vec![QueueRecord::EMPTY; plan.queues().len()].leak(),
            works: vec![WorkRecord::EMPTY; plan.works()].leak(),
            edges: vec![0; plan.explain().len()].leak(),
        };
        let mut scratch = Scratch {
            sites: &mut [Site::EMPTY; 64],
            derived: &mut [Derived::EMPTY; 8],
            words: &mut [0; 64],
            blocks: &mut [0; 64],
        };
        let measured = graph::measure(spec, plan, steps, &Toy, &mut records, &mut scratch)?;
        let mut sites = vec![Site::EMPTY; measured.sites];
        let mut derived = vec![Derived::EMPTY; measured.derived];
        let memory = (
            &mut *vec![0xa5a5_a5a5u32; measured.words].leak(),
            &mut *vec![u64::MAX; measured.blocks].leak(),
        );
        let kept = (&mut sites[..], &mut derived[..]);
        let mut recorded = graph::record(spec, plan, steps, &Toy, records, memory, kept)?;
        let used = recorded.used();
        let mut sizes = vec![0; measured.regions];
        let table = vec![0u64; recorded.table_words(&mut sizes)?].leak();
        Ok(Self {
            graph: recorded.build(&mut sizes, table)?,
            measured,
            used,
        })
    }
}

/// Memory of an instance, with guards around each region.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    regions: Vec<Vec<u64>>,
    signals: Vec<u128>,
    seed: u64,
}

const GUARD: u64 = 0x5a5a_5a5a_5a5a_5a5a;
/// 64-bit words before and behind.
const GUARDS: usize = 4;

impl Home {
    pub(crate) const SIGNALS: u64 = 0x7000_0000;

    /// As much as a graph needs and not a word more.
    pub(crate) fn of(graph: &Graph<'_>, seed: u64) -> Self {
        let words = |bytes: u64| usize::try_from(bytes).unwrap().div_ceil(8);
        let region = |r: graph::RegionNeed| vec![GUARD; words(r.bytes) + 2 * GUARDS];
        Self {
            regions: graph.regions().map(region).collect(),
            signals: vec![u128::from(GUARD); graph.signal_slots() + 2],
            seed,
        }
    }

    pub(crate) fn addresses(&self) -> Vec<u64> {
        let mut rng = Rng(self.seed);
        // Regions lie apart, at multiples of 64 KiB.
        let place = |i: usize| 0x1_0000_0000 + i as u64 * 0x100_0000;
        (0..self.regions.len())
            .map(|i| place(i) + rng.below(16) * 0x1_0000)
            .collect()
    }

    /// Whether the regions' addresses are those that the graph asks for, and aligned as it asks.
    pub(crate) fn fits(&self, graph: &Graph<'_>) -> bool {
        let signals = graph.is_relocatable();
        let all = graph.regions().zip(self.addresses());
        let fit = |(r, at): (graph::RegionNeed, u64)| {
            r.bytes == 0 || at.is_multiple_of(r.align) && r.address.is_none_or(|a| a == at)
        };
        signals && all.into_iter().all(fit)
    }

    /// What the regions hold.
    pub(crate) fn bytes(&self) -> Vec<Vec<u64>> {
        self.regions
            .iter()
            .map(|r| r[GUARDS..r.len() - GUARDS].to_vec())
            .collect()
    }

    pub(crate) fn check_guards(&self) {
        for r in &self.regions {
            let (first, last) = (&r[..GUARDS], &r[r.len() - GUARDS..]);
            assert!(
                first.iter().chain(last).all(|w| *w == GUARD),
                "a guard was stored to"
            );
        }
        let (first, last) = (self.signals.first(), self.signals.last());
        assert_eq!((first, last), (Some(&GUARD.into()), Some(&GUARD.into())));
    }

    /// Binds a graph to this memory and launches it with these values, as often as there are sets of them. Gives the sites
    /// stored each time.
    pub(crate) fn launch(
        &mut self,
        graph: &Graph<'_>,
        values: &[&[u64]],
    ) -> Result<Vec<usize>, LaunchError> {
        let addresses = self.addresses();
        let slots = self.signals.len();
        let mut regions: Vec<Region<'_>> = self
            .regions
            .iter_mut()
            .zip(addresses)
            .map(|(r, at)| {
                let len = r.len();
                Region::from_words(&mut r[GUARDS..len - GUARDS], at)
            })
            .collect();
        let signals: &mut [u64] = zerocopy::transmute_mut!(&mut self.signals[1..slots - 1]);
        let mut state = vec![0; graph.state_words()];
        let mut points = vec![Point::ZERO; graph.devices().len()];
        let memory = InstanceMemory {
            regions: &mut regions,
            signals: SharedWords::new(Region::from_words(signals, Self::SIGNALS)).unwrap(),
            state: &mut state,
            points: &mut points,
        };
        let mut instance = graph.bind(memory).expect("enough of everything");
        let mut stored = Vec::new();
        for (round, values) in (1u64..).zip(values) {
            instance.set_all(Var::new(0), values)?;
            let entries: Vec<Entry> = (0..graph.devices().len() as u64)
                .map(|d| Entry {
                    wait: SlotAt {
                        address: 0x9000 + d * 0x20,
                        value: round - 1,
                    },
                    signal: SlotAt {
                        address: 0x9000 + d * 0x20,
                        value: round,
                    },
                    point: Point::from_raw(round),
                })
                .collect();
            let wait = Busy::Wait { timeout_ns: 1 };
            let mut launch = instance.idle(&mut AtOnce, wait)?.patch(&entries)?;
            stored.push(launch.stored());
            assert_eq!(launch.submit(|_, _, _| Ok::<(), ()>(())), Ok(()));
            launch.kickoff(|_| {});
        }
        Ok(stored)
    }
}

/// Devices that are done at once.
pub(crate) struct AtOnce;

impl Timelines for AtOnce {
    fn is_complete(&mut self, _: u16, _: Point) -> Result<bool, WaitError> {
        Ok(true)
    }
    fn wait(&mut self, _: u16, _: Point, _: u64) -> Result<(), WaitError> {
        Ok(())
    }
}

/// Values for a scene's variables.
pub(crate) fn values(scene: &Scene, rng: &mut Rng) -> Vec<u64> {
    (0..scene.variables)
        .map(|v| match v % 2 {
            0 => 0x50_0000_0000 + rng.below(1 << 20) * 0x100,
            _ => 1 + rng.below(200),
        })
        .collect()
}
