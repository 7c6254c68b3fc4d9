//! Random graphs on several devices, queues and peer groups leave what their tasks one by one leave.

use crate::lab::{Home, Lab, MIX, Memory, Rng, Scene, TRIPLE};
use hcq_cpu::program::Program;
use hcq_nostd::args::Arg;
use hcq_nostd::graph::{Busy, Kernel, Node};
use hcq_nostd::plan::{Access, Allocation, Engine, Task};
use hcq_nostd::value::{Value, Var};

/// Numbers of an allocation.
const N: u64 = 16;
/// Inputs, which come first.
const INPUTS: usize = 2;
const SEEDS: u64 = if cfg!(miri) { 2 } else { 300 };

/// Numbers `at..at + n` of an allocation.
#[derive(Clone, Copy, Debug)]
struct Part {
    of: usize,
    at: u64,
    n: u64,
}

impl Part {
    fn range(&self) -> core::ops::Range<usize> {
        self.at as usize..(self.at + self.n) as usize
    }

    fn access(&self, write: bool) -> Access {
        let (of, at, len) = (self.of as u32, self.at * 4, self.n * 4);
        match write {
            true => Access::write(of, at, len),
            false => Access::read(of, at, len),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Chore {
    Triple(u16, Part, Part, u32),
    Mix(u16, Part, [Part; 2]),
    Copy(Part, Part),
    Write(u16, Part, u32),
}

struct Random {
    allocations: Vec<Allocation>,
    chores: Vec<Chore>,
}

impl Random {
    fn new(lab: &Lab, rng: &mut Rng) -> Self {
        let devices = lab.described.len() as u64;
        let device = |rng: &mut Rng| rng.below(devices) as u16;
        let mut allocations: Vec<Allocation> = (0..INPUTS)
            .map(|_| Allocation::input(device(rng)))
            .collect();
        for _ in 0..2 + rng.below(3) {
            allocations.push(Allocation::fixed(device(rng)));
        }
        allocations.push(Allocation::fixed(0).shared());
        let group = |d: u16| lab.described[usize::from(d)].group;
        let mut chores = Vec::new();
        for _ in 0..rng.below(18) {
            let by = device(rng);
            // All but the staging bytes.
            let all = 0..allocations.len() - 1;
            let near: Vec<usize> = all
                .clone()
                .filter(|a| group(allocations[*a].device) == group(by))
                .collect();
            let part = |rng: &mut Rng, of: &[usize], n: u64| Part {
                of: of[rng.below(of.len() as u64) as usize],
                at: rng.below(N - n + 1),
                n,
            };
            let n = 1 + rng.below(8);
            let number = rng.below(1 << 32) as u32;
            let all: Vec<usize> = all.collect();
            chores.push(match rng.below(4) {
                0 | 1 if near.is_empty() => continue,
                0 => Chore::Triple(by, part(rng, &near, n), part(rng, &near, n), number),
                1 => {
                    let from = [part(rng, &near, n), part(rng, &near, n)];
                    Chore::Mix(by, part(rng, &near, n), from)
                }
                2 => {
                    let (to, from) = (part(rng, &all, n), part(rng, &all, n));
                    if to.of == from.of && to.at < from.at + n && from.at < to.at + n {
                        continue;
                    }
                    Chore::Copy(to, from)
                }
                _ if near.is_empty() => continue,
                _ => Chore::Write(by, part(rng, &near, 1), number),
            });
        }
        Self {
            allocations,
            chores,
        }
    }

    /// The tasks one by one.
    fn run(&self, memory: &mut [Vec<u32>]) {
        for chore in &self.chores {
            match *chore {
                Chore::Triple(_, to, from, add) => {
                    // Groups run in order.
                    for (t, f) in to.range().zip(from.range()) {
                        let v = memory[from.of][f].wrapping_mul(3).wrapping_add(add);
                        memory[to.of][t] = v;
                    }
                }
                Chore::Mix(_, to, [a, b]) => {
                    for ((t, a_at), b_at) in to.range().zip(a.range()).zip(b.range()) {
                        memory[to.of][t] = memory[a.of][a_at] ^ memory[b.of][b_at];
                    }
                }
                Chore::Copy(to, from) => {
                    let bytes = memory[from.of][from.range()].to_vec();
                    memory[to.of][to.range()].copy_from_slice(&bytes);
                }
                Chore::Write(_, to, v) => memory[to.of][to.at as usize] = v,
            }
        }
    }

    fn accesses(&self) -> Vec<Vec<Access>> {
        let of = |c: &Chore| match c {
            Chore::Triple(_, to, from, _) => vec![from.access(false), to.access(true)],
            Chore::Mix(_, to, [a, b]) => vec![a.access(false), b.access(false), to.access(true)],
            Chore::Copy(to, from) => vec![from.access(false), to.access(true)],
            Chore::Write(_, to, _) => vec![to.access(true)],
        };
        self.chores.iter().map(of).collect()
    }

    fn with<R>(&self, memory: &[Memory], f: impl FnOnce(&Scene<'_>) -> R) -> R {
        let accesses = self.accesses();
        let addresses: Vec<Value> = (0..self.allocations.len())
            .map(|a| match a < INPUTS {
                true => Var::new(a as u32).into(),
                false => memory[a].address().into(),
            })
            .collect();
        let at = |p: &Part| Arg::Buffer(addresses[p.of] + p.at * 4);
        let args: Vec<Vec<Arg<'_>>> = self
            .chores
            .iter()
            .map(|c| match c {
                Chore::Triple(_, to, from, add) => {
                    vec![at(to), at(from), Arg::from(u64::from(*add))]
                }
                Chore::Mix(_, to, [a, b]) => vec![at(to), at(a), at(b)],
                _ => Vec::new(),
            })
            .collect();
        static TRIPLE_IT: Program<'static> = Program::new(TRIPLE);
        static MIX_THEM: Program<'static> = Program::new(MIX);
        let (mut tasks, mut nodes) = (Vec::new(), Vec::new());
        for ((c, a), args) in self.chores.iter().zip(&accesses).zip(&args) {
            let kernel = |program, n: u64| {
                Node::Exec(Kernel {
                    program,
                    args,
                    groups: [n.into(), 1u64.into(), 1u64.into()],
                    local: [1u64.into(); 3],
                    local_memory: 0,
                })
            };
            let (task, node) = match c {
                Chore::Triple(d, to, ..) => (Task::exec(*d, a), kernel(&TRIPLE_IT, to.n)),
                Chore::Mix(d, to, _) => (Task::exec(*d, a), kernel(&MIX_THEM, to.n)),
                Chore::Copy(..) => (Task::copy(a), Node::Copy),
                Chore::Write(d, _, v) => {
                    let task = Task::write(*d, Engine::Compute, a);
                    (task, Node::Write((*v).into()))
                }
            };
            tasks.push(task);
            nodes.push(node);
        }
        f(&Scene {
            allocations: &self.allocations,
            tasks: &tasks,
            addresses: &addresses,
            nodes: &nodes,
            variables: INPUTS as u32,
            timestamps: self.chores.len().is_multiple_of(2),
            stage: Some(self.allocations.len() as u32 - 1),
        })
    }
}

#[test]
fn any_graph_leaves_what_its_tasks_leave() {
    let (mut works, mut staged, mut devices) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut rng = Rng(seed);
        let shapes: Vec<(u16, u16)> = (0..1 + rng.below(3))
            .map(|_| (1 + rng.below(2) as u16, 1 + rng.below(2) as u16))
            .collect();
        let mut lab = Lab::new(&shapes, seed, 31);
        for d in &mut lab.described {
            d.group = rng.below(3) as u16 / 2 * 5;
        }
        let random = Random::new(&lab, &mut rng);
        let memory: Vec<Memory> = random
            .allocations
            .iter()
            .map(|a| Memory::new(if a.shared { 8 * 32 } else { N as usize / 2 }))
            .collect();
        let others: Vec<Memory> = (0..INPUTS).map(|_| Memory::new(N as usize / 2)).collect();
        let mut instance = random.with(&memory, |scene| match seed % 2 {
            0 => scene.here(&lab),
            _ => {
                let graph = scene.graph(&lab);
                Home::of(&graph).bind(graph)
            }
        });
        works += instance.graph().works().len();
        staged += instance.graph().works().len() - random.chores.len();
        let records = instance.graph().devices();
        devices += usize::from(records.iter().filter(|d| d.takes_part()).count() > 1);
        let fixed = &memory[INPUTS..memory.len() - 1];
        let all: Vec<Memory> = memory[..INPUTS]
            .iter()
            .chain(&others)
            .chain(fixed)
            .copied()
            .collect();
        for m in &all {
            let fill: Vec<u32> = (0..N).map(|_| rng.below(1 << 32) as u32).collect();
            m.set_numbers(&fill);
        }
        let numbers = |m: &Memory| m.numbers(N as usize);
        let mut want: Vec<Vec<u32>> = all.iter().map(numbers).collect();
        for round in 0..4 {
            // Every input changes places with its other memory now and then.
            let picked: Vec<usize> = (0..INPUTS)
                .map(|i| i + INPUTS * rng.below(2) as usize)
                .collect();
            for (i, p) in picked.iter().enumerate() {
                instance.set(Var::new(i as u32), all[*p].address()).unwrap();
            }
            let bound = picked.iter().copied().chain(2 * INPUTS..all.len());
            let bound: Vec<usize> = bound.collect();
            let mut view: Vec<Vec<u32>> = bound.iter().map(|m| want[*m].clone()).collect();
            random.run(&mut view);
            for (m, v) in bound.iter().zip(view) {
                want[*m] = v;
            }
            let wait = Busy::Wait {
                timeout_ns: 100_000,
            };
            lab.launch(&mut instance, wait).unwrap();
            if round % 2 == 1 {
                lab.drain();
                let have: Vec<Vec<u32>> = all.iter().map(numbers).collect();
                assert_eq!(
                    have, want,
                    "seed {seed}, round {round}: {:?}",
                    random.chores
                );
            }
        }
    }
    if !cfg!(miri) {
        assert!(
            works > 1000 && staged > 50 && devices > 100,
            "{works} {staged} {devices}"
        );
    }
}
