//! Several devices that share memory: CPU devices, simulated GPUs of one machine, and both together.
#![cfg(feature = "sim")]

use std::sync::Arc;

use hcq_std::seam::System;
use hcq_std::{Arg, Device, Error, Grid, Options, sim};

const N: usize = 4096;

/// The GPUs of one machine.
fn gpus(machine: &str, names: &[&str]) -> Vec<Device> {
    let system = sim::machine(machine).expect("a machine");
    names.iter().map(|name| open(name, &system)).collect()
}

fn open(name: &str, system: &Arc<dyn System>) -> Device {
    let options = Options::default()
        .system(Arc::clone(system))
        .wait_timeout_ms(10_000);
    Device::open_with(name, &options).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn cpus() -> Vec<Device> {
    let options = Options::default().wait_timeout_ms(10_000);
    let open = |_| Device::open_with("cpu", &options).expect("a CPU device");
    (0..2).map(open).collect()
}

fn numbers(seed: u32) -> Vec<u32> {
    (0..N as u32)
        .map(|i| i.wrapping_mul(2_654_435_761).wrapping_add(seed))
        .collect()
}

/// Copies from one device's memory to the other's, by either, and back.
fn copies(one: &Device, two: &Device) {
    let (a, b) = (
        one.alloc_from(&numbers(1)).expect("memory"),
        two.alloc::<u32>(N).expect("memory"),
    );
    // Pushed by the owner of the source.
    let there = b.share(one).expect("reachable");
    let mut commands = one.copy_queue(0).expect("a queue").record();
    let pushed = commands.copy(&there, &*a).expect("recorded").submit();
    pushed.expect("submitted").wait().expect("done");
    assert_eq!(b.to_vec().expect("read"), numbers(1));
    // Pulled by the other, behind what the first one does.
    a.write(&numbers(2)).expect("written");
    let (here, back) = (
        a.share(two).expect("reachable"),
        two.alloc::<u32>(N).expect("memory"),
    );
    let mut fill = one.copy_queue(0).expect("a queue").record();
    let filled = fill.upload(&*a, &numbers(3)).expect("recorded").submit();
    let filled = filled.expect("submitted");
    let mut pull = two.copy_queue(0).expect("a queue").record();
    let pull = pull.after(&filled).expect("recorded");
    let pulled = pull.copy(&*back, &here).expect("recorded").submit();
    pulled.expect("submitted").wait().expect("done");
    assert_eq!(back.to_vec().expect("read"), numbers(3));
}

/// Two devices take turns at a shared signal, with no host between them.
fn turns(one: &Device, two: &Device) {
    const TURNS: u64 = 20;
    let ball = one.signal().expect("a signal");
    let seen = ball.share(two).expect("reachable");
    let mut last = Vec::new();
    for (device, signal, first) in [(one, &ball, 0), (two, &seen, 1)] {
        let mut commands = device.compute_queue(0).expect("a queue").record();
        for turn in (first..TURNS).step_by(2) {
            let recorded = commands
                .wait(signal, turn)
                .and_then(|c| c.signal(signal, turn + 1));
            recorded.expect("recorded");
        }
        last.push(commands.submit().expect("submitted"));
    }
    for point in last {
        point.wait().expect("done");
    }
    assert_eq!((ball.value(), seen.value()), (TURNS, TURNS));
}

/// Memory goes when the last of both is gone, and not before.
fn lifetimes(one: &Device, two: &Device) {
    for round in 0..50 {
        let a = one.alloc_from(&numbers(round)).expect("memory");
        let seen = a.share(two).expect("reachable");
        let again = a.share(two).expect("reachable");
        assert_eq!(seen.address(), again.address());
        drop((a, again));
        let copy = two.alloc::<u32>(N).expect("memory");
        let mut commands = two.copy_queue(0).expect("a queue").record();
        let point = commands.copy(&*copy, &seen).expect("recorded").submit();
        drop(seen);
        point.expect("submitted").wait().expect("done");
        assert_eq!(copy.to_vec().expect("read"), numbers(round));
    }
}

fn all(one: &Device, two: &Device) {
    copies(one, two);
    copies(two, one);
    turns(one, two);
    turns(two, one);
    lifetimes(one, two);
    // What is not shared is refused as before.
    let foreign = one.alloc::<u32>(N).expect("memory");
    let own = two.alloc::<u32>(N).expect("memory");
    let mut commands = two.copy_queue(0).expect("a queue").record();
    assert!(matches!(
        commands.copy(&*own, &*foreign),
        Err(Error::OtherDevice { .. })
    ));
}

#[test]
fn cpu_devices() {
    let devices = cpus();
    all(&devices[0], &devices[1]);
}

#[test]
fn two_gpus() {
    for machine in ["amd-gfx942,gpus=2", "amd-gfx1100,gpus=2,seed=3"] {
        for names in [["amd:0", "amd:1"], ["amd:0,aql", "amd:1,aql"]] {
            println!("{machine} {names:?}");
            let devices = gpus(machine, &names);
            all(&devices[0], &devices[1]);
        }
    }
}

/// Data goes round four GPUs, each adding to it.
#[test]
fn a_ring_of_four() {
    let names = ["amd:0", "amd:1", "amd:2", "amd:3"];
    let devices = gpus("amd-gfx942,gpus=4", &names);
    let object = include_bytes!("../../tests/vectors/objects/vadd-gfx942.co");
    let kernels: Vec<_> = devices
        .iter()
        .map(|d| {
            let module = d.load_program(object).expect("a code object");
            module.kernel("vadd").expect("a kernel")
        })
        .collect();
    let buffers: Vec<_> = devices
        .iter()
        .map(|d| d.alloc_from(&[1f32; N]).expect("memory"))
        .collect();
    let mut before = None;
    for turn in 1..8 {
        let (from, to) = ((turn - 1) % 4, turn % 4);
        let theirs = buffers[from].share(&devices[to]).expect("reachable");
        let mut commands = devices[to].compute_queue(0).expect("a queue").record();
        if let Some(point) = &before {
            commands.after(point).expect("recorded");
        }
        // out = a + b, of the neighbour's and its own.
        let args = [
            Arg::buffer(&buffers[to]),
            Arg::buffer(&theirs),
            Arg::buffer(&buffers[to]),
        ];
        // SAFETY: the kernel's arguments are an output and two inputs, of as many floats as there are items.
        let recorded = unsafe { commands.exec(&kernels[to], &args, Grid::new(N as u32 / 64, 64)) };
        before = Some(recorded.expect("recorded").submit().expect("submitted"));
    }
    before.expect("turns").wait().expect("done");
    let mut want = [1f32; 4];
    for turn in 1..8 {
        want[turn % 4] += want[(turn - 1) % 4];
    }
    for (buffer, want) in buffers.iter().zip(want) {
        assert_eq!(buffer.to_vec().expect("read"), vec![want; N]);
    }
}

#[test]
fn a_gpu_and_the_cpu() {
    for machine in ["amd-gfx1100", "amd-gfx1151", "amd-gfx942"] {
        let system = sim::machine(machine).expect("a machine");
        let (gpu, cpu) = (open("amd", &system), open("cpu", &system));
        // The CPU reaches all that the host does.
        let data = gpu.alloc_from(&numbers(7)).expect("memory");
        let seen = data.share(&cpu).expect("reachable");
        let copy = cpu.alloc::<u32>(N).expect("memory");
        let mut commands = cpu.copy_queue(0).expect("a queue").record();
        let point = commands.copy(&*copy, &seen).expect("recorded").submit();
        point.expect("submitted").wait().expect("done");
        assert_eq!(copy.to_vec().expect("read"), numbers(7));
        turns(&gpu, &cpu);
        // A GPU reaches the CPU device's memory page by page.
        let theirs = cpu.alloc_from(&numbers(8)).expect("memory");
        let seen = theirs.share(&gpu).expect("reachable");
        let mut commands = gpu.copy_queue(0).expect("a queue").record();
        let point = commands.copy(&*data, &seen).expect("recorded").submit();
        point.expect("submitted").wait().expect("done");
        assert_eq!(data.to_vec().expect("read"), numbers(8));
    }
}

#[test]
fn who_does_not_come_is_named_and_holds_nobody_up() {
    let devices = gpus("amd-gfx942,gpus=2", &["amd:0", "amd:1"]);
    let mut bad = devices[0].copy_queue(0).expect("a queue").record();
    // Nobody maps the second page.
    let never = bad.write32(0x1000u64, 1u64).expect("recorded").submit();
    let never = never.expect("submitted");
    let signal = devices[1].signal().expect("a signal");
    let mut commands = devices[1].compute_queue(0).expect("a queue").record();
    commands.after(&never).expect("recorded");
    commands.signal(&signal, 1u64).expect("recorded");
    match commands.submit() {
        Err(Error::Elsewhere { device, cause }) => {
            assert_eq!(device, "amd:0");
            assert!(matches!(*cause, Error::Fault(_)), "{cause}");
        }
        other => panic!("{other:?}"),
    }
    // The other device goes on.
    let mut commands = devices[1].compute_queue(0).expect("a queue").record();
    let point = commands.signal(&signal, 2u64).expect("recorded").submit();
    point.expect("submitted").wait().expect("done");
    assert_eq!(signal.value(), 2);
}

/// Two devices over one GPU, and a third that both share with: each lets go of its own view only.
#[test]
fn devices_of_one_gpu_count_for_themselves() {
    let devices = gpus("amd-gfx942,gpus=2", &["amd:0", "amd:0", "amd:1", "amd:1"]);
    let a = devices[0].alloc_from(&numbers(5)).expect("memory");
    let views: Vec<_> = devices[1..]
        .iter()
        .map(|d| a.share(d).expect("reachable"))
        .collect();
    for (kept, (view, device)) in views.into_iter().zip(&devices[1..]).enumerate() {
        let own = device.alloc::<u32>(N).expect("memory");
        let mut commands = device.copy_queue(0).expect("a queue").record();
        let point = commands.copy(&*own, &view).expect("recorded").submit();
        point.expect("submitted").wait().expect("done");
        assert_eq!(own.to_vec().expect("read"), numbers(5), "view {kept}");
        // The others still see it, and so does its own device.
        drop(view);
        device.synchronize().expect("idle");
        a.fill(9).expect("filled");
        a.write(&numbers(5)).expect("written");
        let back = devices[0].alloc::<u32>(N).expect("memory");
        let mut commands = devices[0].copy_queue(0).expect("a queue").record();
        let point = commands.copy(&*back, &*a).expect("recorded").submit();
        point.expect("submitted").wait().expect("done");
        assert_eq!(back.to_vec().expect("read"), numbers(5));
    }
}

/// Views and signals that were shared are shared on, and back to where they come from.
#[test]
fn what_is_shared_is_shared_on() {
    let machines = [
        cpus(),
        gpus("amd-gfx942,gpus=3", &["amd:0", "amd:1", "amd:2"]),
    ];
    for devices in machines {
        let (one, two) = (&devices[0], &devices[1]);
        let a = one.alloc_from(&numbers(6)).expect("memory");
        let there = a.share(two).expect("reachable");
        let back = there.share(one).expect("its own");
        assert_eq!(back.address(), a.address());
        let on = there
            .share(devices.last().expect("one"))
            .expect("reachable");
        let last = devices.last().expect("one");
        let copy = last.alloc::<u32>(N).expect("memory");
        drop((a, there, back));
        let mut commands = last.copy_queue(0).expect("a queue").record();
        let point = commands.copy(&*copy, &on).expect("recorded").submit();
        point.expect("submitted").wait().expect("done");
        assert_eq!(copy.to_vec().expect("read"), numbers(6));

        let signal = one.signal().expect("a signal");
        let seen = signal.share(two).expect("reachable");
        let home = seen.share(one).expect("its own");
        assert_eq!(home.address(), signal.address());
        let mut commands = one.compute_queue(0).expect("a queue").record();
        let waiting = commands.wait(&home, 3u64).expect("recorded").submit();
        let mut commands = two.compute_queue(0).expect("a queue").record();
        let setting = commands.signal(&seen, 3u64).expect("recorded").submit();
        setting.expect("submitted").wait().expect("done");
        waiting.expect("submitted").wait().expect("done");
    }
}

#[test]
fn machines_apart_do_not_reach_each_other() {
    let (one, two) = (
        gpus("amd-gfx1100", &["amd"]).remove(0),
        gpus("amd-gfx1100", &["amd"]).remove(0),
    );
    let buffer = one.alloc::<u32>(N).expect("memory");
    match buffer.share(&two) {
        Err(e @ Error::Unreachable { .. }) => {
            assert!(
                e.to_string().contains("does not reach memory of amd"),
                "{e}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// A view that is gone is gone from the other device's address space, while the memory lives on.
#[test]
fn a_dropped_view_is_a_fault() {
    let devices = gpus("amd-gfx942,gpus=2", &["amd:0", "amd:1"]);
    let a = devices[0].alloc_from(&numbers(4)).expect("memory");
    let view = a.share(&devices[1]).expect("reachable");
    let address = view.address();
    let write = |value: u64| {
        let mut commands = devices[1].copy_queue(0).expect("a queue").record();
        let point = commands.write32(address, value).expect("recorded").submit();
        point.expect("submitted").wait()
    };
    write(11).expect("shared");
    assert_eq!(a.to_vec().expect("read")[0], 11);
    drop(view);
    devices[1].synchronize().expect("idle");
    assert!(matches!(write(12), Err(Error::Fault(_))));
    assert_eq!(a.to_vec().expect("read")[0], 11);
}
