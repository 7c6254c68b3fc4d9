//! Graphs against serial execution, on CPU devices, on simulated GPUs, and on both together.
#![cfg(feature = "sim")]
#![allow(unsafe_code, reason = "launches kernels")]

mod failures;
mod images;
mod private;

use std::ffi::c_void;
use std::path::Path;
use std::sync::Arc;

use hcq_std::seam::System;
use hcq_std::{
    Arg, Buffer, Device, Graph, GraphBuilder, GraphOptions, Grid, Group, Input, Kernel, Options,
    Param, Replay, View, sim,
};

const N: usize = 64;

fn open(name: &str, system: Option<&Arc<dyn System>>) -> Device {
    let options = Options::default().wait_timeout_ms(10_000);
    let options = match system {
        Some(system) => options.system(Arc::clone(system)),
        None => options,
    };
    Device::open_with(name, &options).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// `data[i] = data[i] * factor + add`.
unsafe extern "C" fn step(args: *const c_void, group: *const Group) {
    #[repr(C)]
    struct Args {
        data: *mut u32,
        factor: u32,
        add: u32,
        n: u32,
    }
    // SAFETY: a block of this layout.
    let args = unsafe { &*args.cast::<Args>() };
    // SAFETY: a group.
    let group = unsafe { &*group };
    let first = group.group[0] * group.local[0];
    for i in first..args.n.min(first + group.local[0]) {
        // SAFETY: there are `n` numbers.
        let at = unsafe { args.data.add(i as usize) };
        // SAFETY: as above, and no other item touches it.
        let at = unsafe { &mut *at };
        *at = at.wrapping_mul(args.factor).wrapping_add(args.add);
    }
}

/// `out[i] = a[i] + b[i]`.
unsafe extern "C" fn add(args: *const c_void, group: *const Group) {
    #[repr(C)]
    struct Args {
        a: *const u32,
        b: *const u32,
        out: *mut u32,
        n: u32,
    }
    // SAFETY: a block of this layout.
    let args = unsafe { &*args.cast::<Args>() };
    // SAFETY: a group.
    let group = unsafe { &*group };
    let first = group.group[0] * group.local[0];
    for i in (first..args.n.min(first + group.local[0])).map(|i| i as usize) {
        // SAFETY: there are `n` numbers in each.
        let (a, b) = (args.a.wrapping_add(i), args.b.wrapping_add(i));
        // SAFETY: as above.
        let a = unsafe { a.read() };
        // SAFETY: as above.
        let b = unsafe { b.read() };
        // SAFETY: as above, and no other item touches it.
        unsafe { args.out.wrapping_add(i).write(a.wrapping_add(b)) };
    }
}

/// A device's kernels.
struct Kernels {
    step: Kernel,
    add: Kernel,
}

fn kernels(device: &Device) -> Kernels {
    if device.name().contains("cpu") {
        let signature = "uint32_t *data; uint32_t factor; uint32_t add; uint32_t n;";
        // SAFETY: the function takes a block of this layout.
        let step = unsafe { device.register("step", signature, step) };
        let signature = "const uint32_t *a; const uint32_t *b; uint32_t *out; uint32_t n;";
        // SAFETY: as above.
        let add = unsafe { device.register("add", signature, add) };
        return Kernels {
            step: step.expect("registered"),
            add: add.expect("registered"),
        };
    }
    kernels_of(device, &stock(device.target()))
}

/// The programs of the list of behaviours.
fn stock(target: &str) -> Vec<u8> {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance/kernels");
    let path = match target {
        a6xx if a6xx.starts_with("a6") => kernels.join(format!("qcom/stock-{target}.ir3")),
        sm if sm.starts_with("sm_") => kernels.join(format!("nv/stock-{target}.cubin")),
        _ => kernels.join(format!("amd/stock-{target}.co")),
    };
    std::fs::read(path).expect("a code object")
}

fn kernels_of(device: &Device, object: &[u8]) -> Kernels {
    let module = device.load_program(object).expect("loaded");
    Kernels {
        step: module.kernel("step").expect("a kernel"),
        add: module.kernel("add").expect("a kernel"),
    }
}

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % n as u64) as usize
    }
}

/// Elements of a buffer, or of an input.
#[derive(Clone, Copy, Debug)]
struct Place {
    buffer: usize,
    first: usize,
    len: usize,
}

/// A task for the model.
#[derive(Debug)]
enum Task {
    Step(Place, u32, usize),
    Add(Place, Place, Place),
    Copy(Place, Place),
    Write(Place, usize),
}

/// Buffers on devices, some of which are inputs of the graph.
struct Scene {
    buffers: Vec<Buffer<u32>>,
    /// What each of the graph's places is now.
    bound: Vec<usize>,
    model: Vec<Vec<u32>>,
    inputs: Vec<Option<Input<u32>>>,
    params: Vec<(Param<u32>, u32)>,
    tasks: Vec<Task>,
    owner: Vec<usize>,
}

impl Scene {
    fn run(&mut self) {
        for task in &self.tasks {
            let at = |p: &Place| (self.bound[p.buffer], p.first..p.first + p.len);
            match task {
                Task::Step(p, factor, param) => {
                    let ((b, range), add) = (at(p), self.params[*param].1);
                    for v in &mut self.model[b][range] {
                        *v = v.wrapping_mul(*factor).wrapping_add(add);
                    }
                }
                Task::Add(a, b, out) => {
                    let ((a, ar), (b, br), (o, or)) = (at(a), at(b), at(out));
                    let sums: Vec<u32> = self.model[a][ar]
                        .iter()
                        .zip(&self.model[b][br])
                        .map(|(a, b)| a.wrapping_add(*b))
                        .collect();
                    self.model[o][or].copy_from_slice(&sums);
                }
                Task::Copy(from, to) => {
                    let ((f, fr), (t, tr)) = (at(from), at(to));
                    let bytes = self.model[f][fr].to_vec();
                    self.model[t][tr].copy_from_slice(&bytes);
                }
                Task::Write(p, param) => {
                    let (b, range) = at(p);
                    self.model[b][range.start] = self.params[*param].1;
                }
            }
        }
    }

    fn check(&self, what: &str) {
        for (n, (buffer, model)) in self.buffers.iter().zip(&self.model).enumerate() {
            assert_eq!(&buffer.to_vec().expect("read"), model, "{what}, buffer {n}");
        }
    }
}

/// A random graph. `groups` says which devices reach each other.
fn random(
    devices: &[Device],
    groups: &[usize],
    tasks: usize,
    seed: u64,
    options: &GraphOptions,
) -> (Scene, Graph) {
    let mut random = Random(seed * 2 + 1);
    let kernels: Vec<Kernels> = devices.iter().map(kernels).collect();
    let mut builder = GraphBuilder::new(devices).expect("a builder");
    // Each device has two places that are inputs, with a spare buffer each, and two that are not.
    let mut scene = Scene {
        buffers: Vec::new(),
        bound: Vec::new(),
        model: Vec::new(),
        inputs: Vec::new(),
        params: Vec::new(),
        tasks: Vec::new(),
        owner: Vec::new(),
    };
    for (d, device) in devices.iter().enumerate() {
        for place in 0..4 {
            let data: Vec<u32> = (0..N as u32)
                .map(|i| i * 7 + 1000 * (d as u32 * 4 + place))
                .collect();
            let buffer = device.alloc_from(&data).expect("memory");
            let input = (place < 2).then(|| builder.input(&buffer).expect("an input"));
            scene.bound.push(scene.buffers.len());
            scene.buffers.push(buffer);
            scene.model.push(data);
            scene.inputs.push(input);
            scene.owner.push(d);
        }
    }
    for n in 0..4 {
        let value = 100 + n;
        scene
            .params
            .push((builder.param(value).expect("a number"), value));
    }
    let places = scene.bound.len();
    let pick = |random: &mut Random, len: usize| Place {
        buffer: random.below(places),
        first: 16 * random.below((N - len) / 16 + 1),
        len,
    };
    for _ in 0..tasks {
        let len = [16, 32, 64][random.below(3)];
        let (a, b, c) = (
            pick(&mut random, len),
            pick(&mut random, len),
            pick(&mut random, len),
        );
        let apart = |x: &Place, y: &Place| x.buffer != y.buffer || x.first.abs_diff(y.first) >= len;
        let group = |p: &Place| groups[scene.owner[p.buffer]];
        let device = scene.owner[a.buffer];
        let view = |p: &Place| {
            let buffer = &scene.buffers[p.buffer];
            buffer.view(p.first..p.first + p.len).expect("a view")
        };
        // Memory of another device is named by a view that was shared with whoever runs the kernel.
        let arg = |p: &Place, views: &mut Vec<View<u32>>| match scene.inputs[p.buffer] {
            Some(input) => Err(Arg::from(
                input.view(p.first..p.first + p.len).expect("a view"),
            )),
            None => {
                views.push(view(p));
                Ok(views.len() - 1)
            }
        };
        match random.below(4) {
            0 => {
                let (param, factor) = (random.below(4), 3 + random.below(4) as u32);
                let mut views = Vec::new();
                let data = arg(&a, &mut views);
                let data = data.unwrap_or_else_arg(&views);
                let args = [
                    data,
                    factor.into(),
                    scene.params[param].0.into(),
                    (len as u32).into(),
                ];
                let grid = Grid::new(len as u32 / 16, 16);
                // SAFETY: the views have `len` numbers.
                unsafe { builder.exec(&kernels[device].step, &args, grid) }.expect("a node");
                scene.tasks.push(Task::Step(a, factor, param));
            }
            1 if group(&a) == group(&b)
                && group(&a) == group(&c)
                && apart(&a, &c)
                && apart(&b, &c) =>
            {
                let mut views = Vec::new();
                let all = [&a, &b, &c].map(|p| arg(p, &mut views));
                let [x, y, out] = all.map(|a| a.unwrap_or_else_arg(&views));
                let args = [x, y, out, (len as u32).into()];
                let grid = Grid::new(len as u32 / 16, 16);
                // SAFETY: the views have `len` numbers.
                unsafe { builder.exec(&kernels[device].add, &args, grid) }.expect("a node");
                scene.tasks.push(Task::Add(a, b, c));
            }
            2 => {
                let param = random.below(4);
                let one = Place { len: 1, ..a };
                let value = scene.params[param].0;
                match scene.inputs[a.buffer] {
                    Some(i) => builder.write(i.view(a.first..a.first + 1).expect("a view"), value),
                    None => builder.write(&view(&one), value),
                }
                .expect("a node");
                scene.tasks.push(Task::Write(one, param));
            }
            _ if apart(&a, &b) => {
                let (from, to) = (view(&a), view(&b));
                let range = |p: &Place| p.first..p.first + p.len;
                match (scene.inputs[a.buffer], scene.inputs[b.buffer]) {
                    (Some(f), Some(t)) => builder.copy(
                        t.view(range(&b)).expect("a view"),
                        f.view(range(&a)).expect("a view"),
                    ),
                    (Some(f), None) => builder.copy(&to, f.view(range(&a)).expect("a view")),
                    (None, Some(t)) => builder.copy(t.view(range(&b)).expect("a view"), &from),
                    (None, None) => builder.copy(&to, &from),
                }
                .expect("a node");
                scene.tasks.push(Task::Copy(a, b));
            }
            _ => {}
        }
    }
    let graph = builder.build(options);
    (scene, graph.unwrap_or_else(|e| panic!("seed {seed}: {e}")))
}

/// An argument that is an input, or one of the views.
trait OrView<'a> {
    fn unwrap_or_else_arg(self, views: &'a [View<u32>]) -> Arg<'a>;
}

impl<'a> OrView<'a> for Result<usize, Arg<'a>> {
    fn unwrap_or_else_arg(self, views: &'a [View<u32>]) -> Arg<'a> {
        match self {
            Ok(index) => (&views[index]).into(),
            Err(arg) => arg,
        }
    }
}

/// Launches with changes in between; all memory is compared each time.
fn against_the_model(devices: &[Device], groups: &[usize], tasks: usize, seed: u64) {
    let options = GraphOptions::default()
        .instances(1 + seed as usize % 2)
        .profile(seed.is_multiple_of(3));
    let (mut scene, mut graph) = random(devices, groups, tasks, seed, &options);
    let mut random = Random(seed + 77);
    for launch in 0..4 {
        let run = graph
            .launch()
            .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        scene.run();
        // Sometimes the next launch follows without the host having seen the end of this one.
        if launch % 2 == 1 {
            run.wait()
                .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", graph.explain()));
            scene.check(&format!(
                "seed {seed}, launch {launch}\n{}",
                graph.explain()
            ));
        }
        for n in 0..scene.params.len() {
            if random.below(2) == 0 {
                let value = random.below(1 << 20) as u32;
                graph.set(scene.params[n].0, value).expect("set");
                scene.params[n].1 = value;
            }
        }
        // Inputs of one device change places.
        for d in 0..devices.len() {
            if random.below(2) == 0 {
                let (one, two) = (4 * d, 4 * d + 1);
                scene.bound.swap(one, two);
                for place in [one, two] {
                    let input = scene.inputs[place].expect("an input");
                    graph
                        .set_input(input, &scene.buffers[scene.bound[place]])
                        .expect("replaced");
                }
            }
        }
    }
}

#[test]
fn on_the_cpu() {
    for seed in 0..seeds(20) {
        against_the_model(&[open("cpu", None)], &[0], 12, seed);
    }
}

#[test]
fn on_two_cpu_devices() {
    for seed in 0..seeds(20) {
        let devices = [open("cpu", None), open("cpu", None)];
        against_the_model(&devices, &[0, 0], 16, seed);
    }
}

#[test]
fn on_one_simulated_gpu_of_each_kind() {
    for name in [
        "sim:amd-gfx1100",
        "sim:amd-gfx1201",
        "sim:amd-gfx942",
        "sim:amd-gfx1100,aql",
        "sim:amd-gfx942,aql",
    ] {
        for seed in 0..seeds(4) {
            against_the_model(&[open(name, None)], &[0], 16, seed);
        }
    }
}

/// GPUs of one machine, and CPU devices.
fn together(machine: &str, gpus: usize, cpus: usize) -> Vec<Device> {
    let system = sim::machine(machine).expect("a machine");
    let aql = if machine.contains("seed=1") {
        ",aql"
    } else {
        ""
    };
    let names = (0..gpus).map(|n| format!("amd:{n}{aql}"));
    let mut devices: Vec<Device> = names.map(|name| open(&name, Some(&system))).collect();
    devices.extend((0..cpus).map(|_| open("cpu", None)));
    devices
}

#[test]
fn on_several_simulated_gpus() {
    for machine in [
        "amd-gfx1100,gpus=2",
        "amd-gfx942,gpus=4",
        "amd-gfx942,gpus=2,seed=1",
    ] {
        for seed in 0..seeds(3) {
            let gpus = if machine.contains("gpus=4") { 4 } else { 2 };
            against_the_model(&together(machine, gpus, 0), &[0; 4], 24, seed);
        }
    }
}

#[test]
fn on_two_simulated_gpus_and_the_cpu() {
    for machine in ["amd-gfx1100,gpus=2", "amd-gfx1201,gpus=2,seed=1"] {
        for seed in 0..seeds(4) {
            against_the_model(&together(machine, 2, 1), &[0; 3], 24, seed);
        }
    }
}

/// GPUs of two machines do not reach each other: what goes between them goes through the host's memory.
#[test]
fn on_gpus_that_do_not_reach_each_other() {
    for seed in 0..seeds(4) {
        let mut devices = together("amd-gfx1100", 1, 0);
        devices.extend(together("amd-gfx942", 1, 0));
        against_the_model(&devices, &[0, 1], 24, seed);
    }
}

#[test]
fn on_gpus_that_do_not_reach_each_other_and_the_cpu() {
    for seed in 0..seeds(4) {
        let mut devices = together("amd-gfx1100", 1, 1);
        devices.extend(together("amd-gfx1201,seed=1", 1, 0));
        against_the_model(&devices, &[0, 0, 1], 24, seed);
    }
}

/// Seeds of a test; `HCQ_GRAPH_SEEDS` times as many if it is set.
fn seeds(usual: u64) -> u64 {
    let times = std::env::var("HCQ_GRAPH_SEEDS").ok();
    usual * times.and_then(|n| n.parse().ok()).unwrap_or(1)
}

#[test]
fn on_gpus_of_two_vendors_and_the_cpu() {
    for seed in 0..seeds(4) {
        let mut devices = together("amd-gfx1100", 1, 0);
        devices.push(open("sim:nv-ampere", None));
        against_the_model(&devices, &[0, 1], 16, seed);
        let mut devices = together("amd-gfx942", 1, 1);
        devices.push(open("sim:nv-hopper", None));
        against_the_model(&devices, &[0, 0, 1], 24, seed);
    }
}

#[test]
fn on_one_and_two_simulated_nvidia_gpus() {
    for seed in 0..seeds(3) {
        for name in ["sim:nv-ampere", "sim:nv-blackwell"] {
            against_the_model(&[open(name, None)], &[0], 16, seed);
        }
        let system = sim::machine("nv-hopper,gpus=2").expect("a machine");
        let devices = ["nv:0", "nv:1"].map(|name| open(name, Some(&system)));
        against_the_model(&devices, &[0, 0], 20, seed);
    }
}

/// Compute queues write numbers where there are no copy queues, behind what kernels stored and before what they load; nobody
/// copies there but a processor.
#[test]
fn devices_without_copy_queues() {
    for name in [
        "cpu",
        "sim:amd-gfx1100",
        "sim:amd-gfx942",
        "sim:amd-gfx942,aql",
    ] {
        for _ in 0..seeds(10) {
            let options = Options::default().copy_queues(0).wait_timeout_ms(10_000);
            let device = Device::open_with(name, &options).expect("a device");
            let kernels = kernels(&device);
            let data = device.alloc_from(&[1u32; N]).expect("memory");
            let long = device.alloc::<u64>(1).expect("memory");
            let mut builder = GraphBuilder::new([&device]).expect("a builder");
            let number = builder.param(9u32).expect("a number");
            let mut wanted = vec![1u32; N];
            for turn in 0..8u32 {
                let args = [Arg::buffer(&data), 3u32.into(), turn.into(), 64u32.into()];
                // SAFETY: the buffer has 64 numbers.
                unsafe { builder.exec(&kernels.step, &args, Grid::new(4, 16)) }.expect("a node");
                let at = data.view(turn as usize..turn as usize + 1).expect("a view");
                builder.write(&at, number).expect("a node");
                builder
                    .write(&*long, u64::from(turn) << 40 | 7)
                    .expect("a node");
                wanted.iter_mut().for_each(|w| *w = *w * 3 + turn);
                wanted[turn as usize] = 9;
            }
            let mut graph = builder
                .build(&GraphOptions::default())
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            graph.launch().expect("launched").wait().expect("done");
            assert_eq!(data.to_vec().expect("read"), wanted, "{name}");
            assert_eq!(long.to_vec().expect("read"), [7 << 40 | 7], "{name}");

            let mut builder = GraphBuilder::new([&device]).expect("a builder");
            let other = device.alloc::<u32>(N).expect("memory");
            builder.copy(&*other, &*data).expect("a node");
            let e = builder
                .build(&GraphOptions::default())
                .expect_err("nobody copies");
            assert!(e.to_string().contains("no copy queue"), "{e}");
            // A processor of the graph copies for it.
            let cpu = open("cpu", None);
            let mut builder = GraphBuilder::new([&device, &cpu]).expect("a builder");
            builder.copy(&*other, &*data).expect("a node");
            let mut graph = builder.build(&GraphOptions::default()).expect("a graph");
            graph.launch().expect("launched").wait().expect("done");
            assert_eq!(other.to_vec().expect("read"), wanted, "{name}");
        }
    }
}

#[test]
fn graphs_can_be_sent_to_other_threads() {
    fn is_send<T: Send>() {}
    is_send::<Graph>();
    is_send::<GraphBuilder>();
    is_send::<Replay>();
}
