//! Launches and what comes of them.

use crate::lab::{Home, Lab, MIX, Memory, Scene, TRIPLE};
use hcq_cpu::program::Program;
use hcq_nostd::args::Arg;
use hcq_nostd::graph::{Busy, Instance, Kernel, LaunchError, Node};
use hcq_nostd::plan::{Access, Allocation, Task};
use hcq_nostd::value::{Value, Var};
use hcq_nostd::wait::WaitError;

pub(crate) const N: usize = 8;
const BYTES: u64 = N as u64 * 4;
const WAIT: Busy = Busy::Wait {
    timeout_ns: 100_000,
};
static TRIPLE_IT: Program<'static> = Program::new(TRIPLE);
static MIX_THEM: Program<'static> = Program::new(MIX);

pub(crate) const INPUT: Var = Var::new(0);
pub(crate) const ADD: Var = Var::new(1);
pub(crate) const GROUPS: Var = Var::new(2);

/// What a launch of the test graph leaves in its output.
pub(crate) fn expected(input: &[u32], add: u32, groups: usize, output: &[u32]) -> Vec<u32> {
    let triple = |v: u32, add: u32| v.wrapping_mul(3).wrapping_add(add);
    let a: Vec<u32> = input.iter().map(|v| triple(*v, add)).collect();
    let b: Vec<u32> = a.iter().map(|v| triple(*v, 7)).collect();
    let mut out: Vec<u32> = a.iter().zip(&b).map(|(a, b)| a ^ b).collect();
    out[groups..].copy_from_slice(&output[groups..]);
    out
}

/// The input is tripled on device 0, copied to device 1, tripled again on both of its queues by halves, mixed with what
/// stayed, and copied to the output. The grid of the mixing is variable.
pub(crate) fn with_scene<R>(
    output: &Memory,
    timestamps: bool,
    f: impl FnOnce(&Scene<'_>) -> R,
) -> R {
    let [a, b, c, d] = [0; 4].map(|_| Memory::new(N / 2));
    let allocations = [
        Allocation::input(0),
        Allocation::fixed(0),
        Allocation::fixed(1),
        Allocation::fixed(1),
        Allocation::fixed(1),
        Allocation::fixed(0),
    ];
    let addresses = [
        Value::from(INPUT),
        a.address().into(),
        b.address().into(),
        c.address().into(),
        d.address().into(),
        output.address().into(),
    ];
    let half = BYTES / 2;
    let read = |n, at, len| Access::read(n, at, len);
    let write = |n, at, len| Access::write(n, at, len);
    let accesses = [
        vec![read(0, 0, BYTES), write(1, 0, BYTES)],
        vec![read(1, 0, BYTES), write(2, 0, BYTES)],
        vec![read(2, 0, half), write(3, 0, half)],
        vec![read(2, half, half), write(3, half, half)],
        vec![read(2, 0, BYTES), read(3, 0, BYTES), write(4, 0, BYTES)],
        vec![read(4, 0, BYTES), write(5, 0, BYTES)],
        vec![write(1, 0, 4)],
    ];
    let tasks = [
        Task::exec(0, &accesses[0]),
        Task::copy(&accesses[1]),
        Task::exec(1, &accesses[2]).on_queue(0),
        Task::exec(1, &accesses[3]).on_queue(1),
        Task::exec(1, &accesses[4]),
        Task::exec(1, &accesses[5]),
        Task::write(0, hcq_nostd::plan::Engine::Compute, &accesses[6]),
    ];
    let at = |n: usize, offset: u64| Arg::Buffer(addresses[n] + offset);
    let args = [
        vec![at(1, 0), at(0, 0), Arg::var(ADD, 8)],
        vec![at(3, 0), at(2, 0), Arg::from(7u64)],
        vec![at(3, half), at(2, half), Arg::from(7u64)],
        vec![at(4, 0), at(2, 0), at(3, 0)],
        vec![at(5, 0), at(4, 0), Arg::from(0u64)],
    ];
    fn kernel<'a>(
        program: &'a Program<'static>,
        args: &'a [Arg<'a>],
        groups: Value,
    ) -> Node<'a, Program<'static>> {
        Node::Exec(Kernel {
            program,
            args,
            groups: [groups, 1u64.into(), 1u64.into()],
            local: [1u64.into(); 3],
            local_memory: 0,
        })
    }
    let (all, few) = (Value::from(N as u64), Value::from(N as u64 / 2));
    let nodes = [
        kernel(&TRIPLE_IT, &args[0], all),
        Node::Copy,
        kernel(&TRIPLE_IT, &args[1], few),
        kernel(&TRIPLE_IT, &args[2], few),
        kernel(&MIX_THEM, &args[3], all),
        kernel(&TRIPLE_IT, &args[4], GROUPS.into()),
        Node::Write(0xabcdu64.into()),
    ];
    f(&Scene {
        allocations: &allocations,
        tasks: &tasks,
        addresses: &addresses,
        nodes: &nodes,
        variables: 3,
        timestamps,
        stage: None,
    })
}

/// The same without the last tripling: `out = 3 * (a ^ b)`.
pub(crate) fn result(input: &[u32], add: u32, groups: usize, output: &[u32]) -> Vec<u32> {
    let mixed = expected(input, add, N, output);
    let mut out: Vec<u32> = mixed.iter().map(|v| v.wrapping_mul(3)).collect();
    out[groups..].copy_from_slice(&output[groups..]);
    out
}

pub(crate) fn numbers(seed: u32) -> Vec<u32> {
    (0..N as u32)
        .map(|i| seed.wrapping_mul(0x9e37_79b9) ^ i)
        .collect()
}

fn lab(seed: u64) -> Lab {
    Lab::new(&[(1, 1), (2, 1)], seed, 31)
}

/// An instance, its input and output.
fn made(lab: &Lab, anywhere: bool, timestamps: bool) -> (Instance<'static>, Memory, Memory) {
    let (input, output) = (Memory::new(N / 2), Memory::new(N / 2));
    let mut instance = with_scene(&output, timestamps, |scene| {
        if anywhere {
            let graph = scene.graph(lab);
            Home::of(&graph).bind(graph)
        } else {
            scene.here(lab)
        }
    });
    instance
        .change(&[(INPUT, input.address()), (ADD, 5), (GROUPS, N as u64)])
        .unwrap();
    (instance, input, output)
}

#[test]
fn inputs_scalars_and_grids_change_between_launches() {
    for seed in 0..20 {
        for anywhere in [false, true] {
            let mut lab = lab(seed);
            let (mut graph, input, output) = made(&lab, anywhere, seed % 2 == 0);
            let other = Memory::new(N / 2);
            let mut seen = vec![0; N];
            for (round, (memory, add, groups)) in [
                (input, 5, N),
                (other, 5, N),
                (other, 9, 3),
                (input, 1, 8),
                (input, 1, 8),
            ]
            .into_iter()
            .enumerate()
            {
                let n = numbers(round as u32 + 1);
                memory.set_numbers(&n);
                graph.set(INPUT, memory.address()).unwrap();
                graph.set(ADD, add.into()).unwrap();
                graph.set(GROUPS, groups as u64).unwrap();
                let stored = lab.launch(&mut graph, WAIT).unwrap();
                lab.drain();
                let want = result(&n, add, groups, &seen);
                assert_eq!(output.numbers(N), want, "seed {seed}, round {round}");
                seen = want;
                // Two devices' timelines: the value to wait for, and the one to signal.
                if round == 4 {
                    assert!(stored <= 4, "{stored} sites stored when nothing changed");
                }
            }
        }
    }
}

#[test]
fn launches_follow_each_other_without_the_host_looking() {
    for seed in 0..20 {
        let mut lab = lab(seed);
        // The output is the next input.
        let (mut graph, input, output) = made(&lab, true, false);
        input.set_numbers(&numbers(3));
        lab.launch(&mut graph, WAIT).unwrap();
        let mut want = result(&numbers(3), 5, N, &[0; N]);
        graph.set(INPUT, output.address()).unwrap();
        for _ in 0..30 {
            lab.launch(&mut graph, WAIT).unwrap();
            want = result(&want, 5, N, &want);
        }
        lab.drain();
        assert_eq!(output.numbers(N), want);
    }
}

#[test]
fn instances_overlap() {
    let mut at_once = 0;
    for seed in 0..20 {
        let mut lab = lab(seed);
        let mut all: Vec<_> = (0..3).map(|_| made(&lab, true, false)).collect();
        for round in 0..10 {
            for (i, (graph, input, _)) in all.iter_mut().enumerate() {
                graph.wait(&mut lab, 100_000).unwrap();
                input.set_numbers(&numbers(round * 10 + i as u32));
                lab.launch(graph, Busy::Refuse).unwrap();
            }
            let mut busy = 0;
            for (graph, ..) in &mut all {
                busy += usize::from(!graph.is_idle(&mut lab).unwrap());
            }
            at_once = at_once.max(busy);
        }
        lab.drain();
        for (i, (_, _, output)) in all.iter().enumerate() {
            let want = result(&numbers(90 + i as u32), 5, N, &[0; N]);
            assert_eq!(output.numbers(N), want);
        }
    }
    assert!(at_once > 1, "no two were ever in flight together");
}

#[test]
fn one_in_flight_is_refused_or_waited_for_and_not_touched() {
    let mut lab = lab(1);
    let (mut graph, input, output) = made(&lab, true, false);
    input.set_numbers(&numbers(1));
    lab.frozen = Some(1);
    lab.launch(&mut graph, WAIT).unwrap();
    graph.set(ADD, 1000).unwrap();
    let busy = lab.launch(&mut graph, Busy::Refuse);
    assert!(matches!(busy, Err(LaunchError::Busy { .. })), "{busy:?}");
    let late = lab.launch(&mut graph, Busy::Wait { timeout_ns: 500 });
    assert!(
        matches!(late, Err(LaunchError::Wait(WaitError::Timeout { .. }))),
        "{late:?}"
    );
    lab.frozen = None;
    lab.drain();
    assert_eq!(output.numbers(N), result(&numbers(1), 5, N, &[0; N]));
    lab.launch(&mut graph, Busy::Refuse).unwrap();
    lab.drain();
    assert_eq!(output.numbers(N), result(&numbers(1), 1000, N, &[0; N]));
}

#[test]
fn a_value_that_does_not_fit_is_refused_until_it_does() {
    let mut lab = lab(2);
    let (mut graph, input, output) = made(&lab, true, false);
    input.set_numbers(&numbers(1));
    lab.launch(&mut graph, WAIT).unwrap();
    lab.drain();
    let points: Vec<_> = lab.devices.iter().map(|d| d.timeline.latest()).collect();
    graph.change(&[(ADD, 77), (GROUPS, 0)]).unwrap();
    for _ in 0..2 {
        let refused = lab.launch(&mut graph, WAIT);
        assert!(matches!(refused, Err(LaunchError::Patch(_))), "{refused:?}");
    }
    // Nothing was submitted and nothing changed; a name that is none changes nothing either.
    assert_eq!(
        points,
        lab.devices
            .iter()
            .map(|d| d.timeline.latest())
            .collect::<Vec<_>>()
    );
    let none = graph.change(&[(ADD, 78), (Var::new(3), 0)]);
    assert!(matches!(
        none,
        Err(LaunchError::NoSuchVariable { variables: 3, .. })
    ));
    assert_eq!((graph.get(ADD), graph.get(Var::new(3))), (Some(77), None));
    graph.set(GROUPS, 2).unwrap();
    lab.launch(&mut graph, WAIT).unwrap();
    lab.drain();
    let before = result(&numbers(1), 5, N, &[0; N]);
    assert_eq!(output.numbers(N), result(&numbers(1), 77, 2, &before));
}

#[test]
fn idle_over_any_number_of_roll_overs() {
    for seed in 0..10 {
        // Epochs of eight points.
        let mut lab = Lab::new(&[(1, 1), (2, 1)], seed, 3);
        let (mut graph, input, output) = made(&lab, true, false);
        for round in 0..6 {
            input.set_numbers(&numbers(round));
            lab.launch(&mut graph, WAIT).unwrap();
            for i in 0..8 * round {
                for d in 0..2 {
                    lab.submit_nothing(d);
                    for _ in 0..10 * (i % 3) {
                        lab.poll();
                    }
                }
            }
            lab.drain();
            assert_eq!(output.numbers(N), result(&numbers(round), 5, N, &[0; N]));
        }
    }
}

#[test]
fn a_launch_that_fails_halfway_makes_the_instance_stuck_until_it_is_abandoned() {
    let mut lab = lab(3);
    let (mut graph, input, output) = made(&lab, true, false);
    input.set_numbers(&numbers(1));
    // Before the first queue: as before.
    let entries = lab.entries();
    let mut launch = graph.idle(&mut lab, WAIT).unwrap().patch(&entries).unwrap();
    assert_eq!(launch.submit(|_, _, _| Err(1)), Err(1));
    launch.kickoff(|_| panic!("nothing was submitted"));
    assert!(graph.is_idle(&mut lab).unwrap());
    // After it: stuck. What was submitted here is thrown away, as a recovery does.
    let mut launch = graph.idle(&mut lab, WAIT).unwrap().patch(&entries).unwrap();
    let mut n = 0;
    let failed = launch.submit(|_, _, _| {
        n += 1;
        if n < 3 { Ok(()) } else { Err(2) }
    });
    assert_eq!(failed, Err(2));
    let stuck = lab.launch(&mut graph, WAIT);
    assert_eq!(stuck, Err(LaunchError::Stuck { submitted: 2 }));
    graph.abandon();
    lab.launch(&mut graph, WAIT).unwrap();
    lab.drain();
    assert_eq!(output.numbers(N), result(&numbers(1), 5, N, &[0; N]));
}

#[test]
fn times_are_taken_and_change_nothing() {
    let mut lab = lab(4);
    let (mut graph, input, output) = made(&lab, true, true);
    input.set_numbers(&numbers(1));
    lab.launch(&mut graph, WAIT).unwrap();
    lab.drain();
    assert_eq!(output.numbers(N), result(&numbers(1), 5, N, &[0; N]));
    let works = graph.graph().works();
    for (n, work) in works.iter().enumerate() {
        let times = graph.times(n as u32).expect("it has run");
        assert!(times.start < times.end, "{n}: {times:?}");
        for first in work.waits_for(graph.graph().edges()) {
            let before = graph.times(*first).unwrap();
            assert!(
                before.end <= times.start,
                "work {n} began before {first} ended"
            );
        }
    }
    assert!(
        works
            .iter()
            .any(|w| !w.waits_for(graph.graph().edges()).is_empty())
    );
    graph.idle(&mut lab, WAIT).unwrap().clear_timestamps();
    assert_eq!(graph.times(0), None);
}

#[test]
fn ten_thousand_launches_take_no_memory() {
    let mut lab = lab(5);
    let (mut graph, input, output) = made(&lab, true, false);
    input.set_numbers(&numbers(1));
    for round in 0..if cfg!(miri) { 3 } else { 10_000u64 } {
        graph.set(ADD, round).unwrap();
        let stored = lab.launch(&mut graph, WAIT).unwrap();
        assert!(round < 1 || stored <= 6, "{stored}");
    }
    lab.drain();
    let last = if cfg!(miri) { 2 } else { 9_999 };
    assert_eq!(output.numbers(N), result(&numbers(1), last, N, &[0; N]));
}
