//! An image of a graph: built in one buffer, copied to another address, replayed from there with nothing of the first.

use crate::lab::{Home, Lab, Memory};
use crate::runs::{ADD, GROUPS, INPUT, N, numbers, result, with_scene};
use hcq_nostd::graph::Busy;
use hcq_nostd::image::{
    Buffer, Contents, Image, LoadError, Role, Target, Variable, VariableKind, bytes, write,
};
use hcq_nostd::profile::{ClockMap, ClockSample, Launched, Span, TickRate};

const WAIT: Busy = Busy::Wait {
    timeout_ns: 100_000,
};
const CPU: Target<'static> = Target {
    kind: "cpu",
    chip: "",
    abi: 1,
};

/// An image of the test graph, and where its output is.
fn made(lab: &Lab, timestamps: bool) -> (Vec<u64>, Memory) {
    let nodes = ["triple", "over", "left", "right", "mix", "out", "mark"];
    let buffer = |name, role| Buffer {
        name,
        device: 0,
        role,
        bytes: 4 * N as u64,
        align: 16,
        contents: &[],
    };
    let variable = |name, kind| Variable { name, kind };
    let output = Memory::new(N / 2);
    with_scene(&output, timestamps, |scene| {
        let graph = scene.graph(lab);
        let contents = Contents {
            graph: &graph,
            targets: &[CPU, CPU],
            variables: &[
                variable("input", VariableKind::Buffer { buffer: 0 }),
                variable("add", VariableKind::Scalar { bytes: 8 }),
                variable("groups", VariableKind::Count),
            ],
            codes: &[],
            buffers: &[buffer("input", Role::Input)],
            nodes: &nodes,
        };
        let mut first = vec![0; bytes(&contents).unwrap()];
        write(&contents, &mut first).unwrap();
        let copy = first.clone();
        first.fill(u64::MAX);
        (copy, output)
    })
}

fn load(words: &'static [u64]) -> Image<'static> {
    Image::load(zerocopy::IntoBytes::as_bytes(words)).unwrap()
}

#[test]
fn an_image_is_replayed_from_a_copy() {
    for seed in 0..10 {
        let mut lab = Lab::new(&[(1, 1), (2, 1)], seed, 31);
        let (words, output) = made(&lab, false);
        let image = load(words.leak());
        assert_eq!(image.require(&[CPU, CPU]), Ok(()));
        let gpu = Target { kind: "amd", ..CPU };
        assert_eq!(
            image.require(&[CPU, gpu]),
            Err(LoadError::Target { device: 1 })
        );
        // As a firmware would: names to variables, buffers to memory of its own.
        let of = |name| image.variable(name).unwrap().0;
        assert_eq!([of("input"), of("add"), of("groups")], [INPUT, ADD, GROUPS]);
        let mut all = Vec::new();
        for i in 0..2 {
            let input = Memory::new(N / 2);
            let need = image.buffers().next().unwrap();
            assert!(
                need.bytes <= 4 * N as u64 && input.address().is_multiple_of(u64::from(need.align))
            );
            let mut graph = Home::of(image.graph()).bind(*image.graph());
            let values = [
                (of("input"), input.address()),
                (of("add"), i),
                (of("groups"), N as u64),
            ];
            graph.change(&values).unwrap();
            all.push((graph, input));
        }
        for round in 0..4 {
            for (add, (graph, input)) in (0..).zip(&mut all) {
                graph.wait(&mut lab, 100_000).unwrap();
                input.set_numbers(&numbers(round));
                lab.launch(graph, WAIT).unwrap();
                lab.drain();
                let want = result(&numbers(round), add, N, &[0; N]);
                assert_eq!(output.numbers(N), want, "seed {seed}");
            }
        }
    }
}

#[test]
fn a_launch_tells_its_critical_path() {
    for seed in 0..20 {
        let mut lab = Lab::new(&[(1, 1), (2, 1)], seed, 31);
        let image = load(made(&lab, true).0.leak());
        let mut graph = Home::of(image.graph()).bind(*image.graph());
        let input = Memory::new(N / 2);
        let values = [(INPUT, input.address()), (ADD, 1), (GROUPS, N as u64)];
        graph.change(&values).unwrap();
        lab.launch(&mut graph, WAIT).unwrap();
        lab.drain();
        // The engine's clock counts nanoseconds; the host's is somewhere else.
        let sample = |at: u64| ClockSample {
            before_ns: 1_000_000 + at - 3,
            ticks: at,
            after_ns: 1_000_000 + at + 3,
        };
        let mut samples = [sample(100), sample(200), sample(300)];
        let clock = ClockMap::calibrate(&mut samples, TickRate::NANOSECONDS).unwrap();
        let launched = Launched {
            works: image.graph().works(),
            edges: image.graph().edges(),
            span: |work| {
                let t = graph.times(work)?;
                Some(Span {
                    start_ns: clock.host_ns(t.start),
                    end_ns: clock.host_ns(t.end),
                })
            },
        };
        let s = launched.summary().unwrap();
        assert_eq!(s.works, 7);
        assert!(s.all.start_ns > 1_000_000);
        let task = |w: u32| {
            image
                .node(image.graph().works()[w as usize].task())
                .unwrap()
        };
        let path: Vec<&str> = launched.critical_path(s.last).map(task).collect();
        // All but the mark, which only follows the copy, and one of the halves.
        let last = *path.first().unwrap();
        assert!(last == "out" || last == "mark", "{path:?}");
        assert_eq!(path.last(), Some(&"triple"), "seed {seed}");
        if last == "out" {
            let half = path[2];
            assert!(half == "left" || half == "right", "{path:?}");
            assert_eq!(
                [path[0], path[1], path[3], path[4]],
                ["out", "mix", "over", "triple"]
            );
        }
        for (q, record) in (0u32..).zip(image.graph().queues()) {
            let times = launched.queue(q, s.all);
            assert_eq!(times.busy_ns + times.idle_ns, s.all.ns());
            assert_eq!(times.works == 0, record.words() == 0 || times.busy_ns == 0);
        }
    }
}
