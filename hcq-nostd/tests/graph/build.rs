//! Recording for any place, for one place, and with everything known give the same memory.

use crate::scenes::{Built, Home, Rng, Scene, values};
use crate::toy::{DESCRIPTOR, Program};
use hcq_nostd::graph::{GraphError, Holds, Kernel, LaunchError, Memory, Node, Place, Spec};
use hcq_nostd::patch::POISON;
use hcq_nostd::plan::{Access, Allocation, Device, Problem, Step, Task, plan};
use hcq_nostd::record::{Operand, RecordError};
use hcq_nostd::value::Value;

const SEEDS: u64 = if cfg!(miri) { 2 } else { 600 };

#[test]
fn patching_equals_recording_where_everything_is_known() {
    let mut nodes = 0;
    for seed in 0..SEEDS {
        let mut rng = Rng(seed);
        let scene = Scene::random(&mut rng);
        let anywhere = scene.record(None, None);
        assert!(anywhere.graph.is_relocatable());
        let (first, last) = (values(&scene, &mut rng), values(&scene, &mut rng));

        let mut home = Home::of(&anywhere.graph, seed);
        home.launch(&anywhere.graph, &[&first, &last]).unwrap();
        home.check_guards();

        let here = scene.record(Some(&home), None);
        let mut same_place = Home::of(&here.graph, seed);
        same_place
            .launch(&here.graph, &[&last, &first, &last])
            .unwrap();
        same_place.check_guards();

        let known = scene.record(Some(&home), Some(&last));
        let mut fresh = Home::of(&known.graph, seed);
        fresh.launch(&known.graph, &[&first, &last]).unwrap();

        // The timelines' values differ with the number of launches.
        let mut again = Home::of(&here.graph, seed);
        again.launch(&here.graph, &[&first, &last]).unwrap();
        assert_eq!(home.bytes(), again.bytes(), "seed {seed}");
        assert_eq!(home.bytes(), fresh.bytes(), "seed {seed}");
        let poison = u64::from(POISON);
        let poisoned = |w: &u64| w >> 32 == poison || w & 0xffff_ffff == poison;
        for (i, region) in home.bytes().iter().enumerate() {
            assert!(!region.iter().any(poisoned), "seed {seed}, region {i}");
        }
        nodes += scene.chores.len();
    }
    assert!(nodes as u64 > SEEDS);
}

#[test]
#[cfg_attr(miri, ignore = "no memory is touched that others do not touch")]
fn what_is_measured_is_what_is_taken() {
    for seed in 0..SEEDS {
        let scene = Scene::random(&mut Rng(seed));
        let Built {
            graph,
            measured,
            used,
        } = scene.record(None, None);
        // Variables that two commands derive alike are derived once.
        assert!(used.derived <= measured.derived && used.sites <= measured.sites);
        if used.derived == measured.derived {
            assert_eq!(used.sites, measured.sites, "seed {seed}");
        }
        // Each queue's words begin at a multiple of 64 bytes.
        let queues = graph.queues().iter().map(|q| q.words() as usize);
        let words: usize = queues.map(|n| n.next_multiple_of(16)).sum();
        assert_eq!(words, measured.words, "seed {seed}");
        assert_eq!(measured.signals, graph.signal_slots());
        assert_eq!(measured.regions, graph.regions().count());
    }
}

#[test]
#[cfg_attr(miri, ignore = "no memory is touched that others do not touch")]
fn a_launch_of_which_nothing_changed_costs_the_same_at_any_size() {
    let mut stored = Vec::new();
    for seed in 0..SEEDS {
        let mut rng = Rng(seed);
        let scene = Scene::random(&mut rng);
        let graph = scene.record(None, None).graph;
        let v = values(&scene, &mut rng);
        let mut home = Home::of(&graph, seed);
        let all = home.launch(&graph, &[&v, &v, &v]).unwrap();
        let taking_part = graph.devices().iter().filter(|d| d.takes_part()).count();
        // A value to wait for and one to signal.
        assert_eq!(all[1..], [2 * taking_part; 2], "seed {seed}");
        stored.push(all[0]);
    }
    assert!(stored.iter().max() > stored.iter().min());
}

/// A kernel, and what is wrong with it.
fn one<R>(
    args: &[hcq_nostd::args::Arg<'_>],
    align: usize,
    f: impl FnOnce(&Spec<'_, Program>, &hcq_nostd::plan::Plan<'_>, &[Step]) -> R,
) -> R {
    let devices = [Device::new(1, 1)];
    let allocations = [Allocation::fixed(0)];
    let accesses = [Access::write(0, 0, 64)];
    let tasks = [Task::exec(0, &accesses), Task::exec(0, &accesses)];
    let problem = Problem::new(&devices, &allocations, &tasks);
    let capacity = problem.capacity().unwrap();
    let mut scratch = vec![0; problem.scratch_words(&capacity).unwrap()];
    let mut made = plan(&problem, &capacity, &mut scratch, |_| None).unwrap();
    let mut steps = vec![Step::Barrier; made.steps()];
    made.lay_out(&mut steps).unwrap();
    let program = Program { code: 0x100, align };
    let node = || {
        Node::Exec(Kernel {
            program: &program,
            args,
            groups: [Value::Imm(1); 3],
            local: [Value::Imm(1); 3],
            local_memory: 0,
        })
    };
    f(
        &Spec {
            problem: &problem,
            addresses: &[Value::Imm(0x1000)],
            nodes: &[node(), node()],
            variables: 0,
            place: Place::Anywhere,
            seen: &[],
        },
        &made,
        &steps,
    )
}

#[test]
fn no_two_nodes_share_an_argument_block() {
    let args = [1u64.into(), 2u64.into(), 3u32.into()];
    let graph = one(&args, 64, |spec, plan, steps| {
        Built::new(spec, plan, steps).unwrap().graph
    });
    let kernargs = graph
        .regions()
        .find(|r| matches!(r.holds, Holds::Kernargs { .. }));
    // 20 bytes, and 20 at the next multiple of 64.
    assert_eq!(kernargs.map(|r| (r.bytes, r.align)), Some((84, 64)));
    let beside = graph
        .regions()
        .filter(|r| matches!(r.holds, Holds::Beside { .. }));
    assert_eq!(beside.map(|r| r.bytes).sum::<u64>(), 2 * DESCRIPTOR as u64);
}

#[test]
fn what_is_missing_is_told() {
    one(&[1u64.into()], 8, |spec, plan, steps| {
        let short = |spec: Spec<'_, Program>| Built::new(&spec, plan, steps).unwrap_err();
        let of = |what, need, have| GraphError::Short { what, need, have };
        let no_nodes = Spec {
            nodes: &[],
            ..*spec
        };
        assert_eq!(short(no_nodes), of(Memory::Nodes, 2, 0));
        let no_addresses = Spec {
            addresses: &[],
            ..*spec
        };
        assert_eq!(short(no_addresses), of(Memory::Addresses, 1, 0));
        let copies = Spec {
            nodes: &[Node::Copy, Node::Copy],
            ..*spec
        };
        assert_eq!(short(copies), GraphError::Node { task: 0 });
        let few = Built::new(spec, plan, &steps[..steps.len() - 1]);
        assert_eq!(few.unwrap_err(), GraphError::Steps);
    });
    one(&[1u64.into()], 24, |spec, plan, steps| {
        let odd = Built::new(spec, plan, steps).unwrap_err();
        assert_eq!(odd, GraphError::Alignment { task: 0, align: 24 });
    });
    let wide = hcq_nostd::args::Arg::Scalar {
        value: Value::Imm(256),
        size: 1,
    };
    one(&[wide], 8, |spec, plan, steps| {
        let e = Built::new(spec, plan, steps).unwrap_err();
        let GraphError::Record { error, .. } = e else {
            panic!("{e}");
        };
        assert!(matches!(
            error,
            RecordError::Misfit {
                operand: Operand::Argument(0),
                ..
            }
        ));
    });
}

#[test]
fn variables_of_the_graph_are_not_the_callers() {
    let scene = Scene::random(&mut Rng(7));
    let graph = scene.record(None, None).graph;
    let mut home = Home::of(&graph, 7);
    let mut too_many = values(&scene, &mut Rng(1));
    too_many.push(0);
    let e = home.launch(&graph, &[&too_many]);
    let variables = scene.variables;
    assert!(matches!(e, Err(LaunchError::NoSuchVariable { variables: v, .. }) if v == variables));
}
