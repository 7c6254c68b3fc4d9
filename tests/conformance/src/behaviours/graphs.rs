//! Graphs: planned and recorded once, launched with what changed.
#![allow(unsafe_code, reason = "launches kernels")]

use hcq_std::{
    Arg, Buffer, Device, Error, Graph, GraphBuilder, GraphOptions, Grid, Input, Kernel, Param, View,
};

use super::exec::step;
use crate::check::{each, ensure, refused, same, says, word, words};
use crate::kinds::Stock;
use crate::{Behaviour, Context, Failure, Needs};

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "graphs.changes",
        what: "inputs, numbers and grid sizes that change between launches are those of the next launch, and of no other",
        needs: Needs::COMPUTE.kernels(&[Stock::Step, Stock::Add]),
        run: changes,
    },
    Behaviour {
        name: "graphs.fed-back",
        what: "a graph whose output is its next input, launch after launch, counts all of them",
        needs: Needs::COMPUTE.kernels(&[Stock::Step, Stock::Copy]),
        run: fed_back,
    },
    Behaviour {
        name: "graphs.shared-input",
        what: "two graphs that share an input take turns, and each sees what the other wrote",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: shared_input,
    },
    Behaviour {
        name: "graphs.back-to-back",
        what: "a hundred launches without the host waiting, each with a number of its own",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: back_to_back,
    },
    Behaviour {
        name: "graphs.instances",
        what: "instances of one graph in flight at once keep the numbers that each was launched with",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: instances,
    },
    Behaviour {
        name: "graphs.busy",
        what: "an instance in flight is not launched again, nor changed: it says that it would block",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: busy,
    },
    Behaviour {
        name: "graphs.roll-over",
        what: "a graph left idle while the timeline rolls over several times launches as before",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: roll_over,
    },
    Behaviour {
        name: "graphs.several-queues",
        what: "copies and kernels on several queues have the effect of running one by one",
        needs: Needs::BOTH.compute(2).kernels(&[Stock::Step, Stock::Add]),
        run: several_queues,
    },
    Behaviour {
        name: "graphs.with-the-cpu",
        what: "a device and two CPU devices work on one graph, with copies between them",
        needs: Needs::BOTH.kernels(&[Stock::Step]),
        run: with_the_cpu,
    },
    Behaviour {
        name: "graphs.through-the-host",
        what: "two devices that may not reach each other exchange bytes in one graph",
        needs: Needs::BOTH.kernels(&[Stock::Step]),
        run: through_the_host,
    },
    Behaviour {
        name: "graphs.profiled",
        what: "taking times changes no result; tasks that wait for each other have times in that order",
        needs: Needs::BOTH.kernels(&[Stock::Step, Stock::Add]),
        run: profiled,
    },
    Behaviour {
        name: "graphs.refused",
        what: "inputs that share bytes, and numbers that do not fit, refuse the launch and leave the graph as it was",
        needs: Needs::COMPUTE.kernels(&[Stock::Step, Stock::Copy]),
        run: refused_changes,
    },
    Behaviour {
        name: "graphs.dropped-in-flight",
        what: "a graph dropped while it is held runs to its end all the same",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: dropped_in_flight,
    },
];

const N: u32 = 96;
const GRID: [u32; 2] = [3, 32];

fn grid() -> Grid {
    Grid::new(GRID[0], GRID[1])
}

fn stepped(data: &mut [u32], factor: u32, add: u32) {
    data.iter_mut()
        .for_each(|w| *w = w.wrapping_mul(factor).wrapping_add(add));
}

/// One step of all of a buffer, as the only node.
fn one_step(
    device: &Device,
    kernel: &Kernel,
    data: &View<u32>,
    options: &GraphOptions,
) -> Result<(Graph, Param<u32>), Failure> {
    let mut builder = GraphBuilder::new([device])?;
    let add = builder.param(0u32)?;
    let args = [data.into(), 3u32.into(), add.into(), N.into()];
    // SAFETY: `data` has `N` words.
    unsafe { builder.exec(kernel, &args, grid()) }?;
    Ok((builder.build(options)?, add))
}

fn changes(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (step, add) = (
        cx.kernel(device, Stock::Step)?,
        cx.kernel(device, Stock::Add)?,
    );
    let all: Vec<Buffer<u32>> = (0..4)
        .map(|i| device.alloc_from(&words(i, N as usize)))
        .collect::<Result<_, Error>>()?;
    let out = device.alloc_from(&words(9, N as usize))?;
    let mut wanted: Vec<Vec<u32>> = (0..4).map(|i| words(i, N as usize)).collect();
    let mut sum = words(9, N as usize);

    let mut builder = GraphBuilder::new([device])?;
    let (a, b) = (builder.input(&all[0])?, builder.input(&all[1])?);
    let (factor, groups) = (builder.param(5u32)?, builder.param(GRID[0])?);
    let args = [a.into(), factor.into(), 7u32.into(), N.into()];
    // SAFETY: inputs and `out` have `N` words, and no grid has more items than `N`.
    unsafe { builder.exec(&step, &args, Grid::new((groups, 1u32, 1u32), GRID[1])) }?;
    let args = [a.into(), b.into(), Arg::buffer(&out), N.into()];
    // SAFETY: as above.
    unsafe { builder.exec(&add, &args, grid()) }?;
    let mut graph = builder.build(&GraphOptions::default())?;

    for round in 0..12usize {
        let (one, two) = (round % 4, (round + 1 + round / 4) % 4);
        let (one, two) = if one == two {
            (one, (two + 1) % 4)
        } else {
            (one, two)
        };
        let (times, n) = (3 + round as u32, 1 + round as u32 % 3);
        graph.set_input(a, &all[one])?;
        graph.set_input(b, &all[two])?;
        graph.set(factor, times)?;
        graph.set(groups, n)?;
        let run = graph.launch()?;
        if round % 3 != 0 {
            run.wait()?;
        }
        let items = (n * GRID[1]) as usize;
        stepped(&mut wanted[one][..items.min(N as usize)], times, 7);
        for (i, s) in sum.iter_mut().enumerate() {
            *s = wanted[one][i].wrapping_add(wanted[two][i]);
        }
        each(&format!("sums of launch {round}"), &out.to_vec()?, |i| {
            sum[i]
        })?;
    }
    for (n, (buffer, wanted)) in all.iter().zip(&wanted).enumerate() {
        each(&format!("input {n}"), &buffer.to_vec()?, |i| wanted[i])?;
    }
    Ok(())
}

fn fed_back(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (step_kernel, copy) = (
        cx.kernel(device, Stock::Step)?,
        cx.kernel(device, Stock::Copy)?,
    );
    let buffers = [
        device.alloc_from(&words(1, N as usize))?,
        device.alloc_from(&words(2, N as usize))?,
    ];
    let mut builder = GraphBuilder::new([device])?;
    let (from, to) = (builder.input(&buffers[0])?, builder.input(&buffers[1])?);
    // SAFETY: inputs have `N` words.
    unsafe { builder.exec(&copy, &[from.into(), to.into(), N.into()], grid()) }?;
    let args = [to.into(), 3u32.into(), 1u32.into(), N.into()];
    // SAFETY: as above.
    unsafe { builder.exec(&step_kernel, &args, grid()) }?;
    let mut graph = builder.build(&GraphOptions::default())?;
    let mut wanted = words(1, N as usize);
    for round in 0..40 {
        graph.set_input(from, &buffers[round % 2])?;
        graph.set_input(to, &buffers[(round + 1) % 2])?;
        graph.launch()?;
        stepped(&mut wanted, 3, 1);
    }
    each("after 40 launches", &buffers[0].to_vec()?, |i| wanted[i])
}

fn shared_input(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Step)?;
    let data = device.alloc_from(&words(3, N as usize))?;
    let build = |factor: u32| -> Result<(Graph, Input<u32>), Failure> {
        let mut builder = GraphBuilder::new([device])?;
        let input = builder.input(&data)?;
        let args = [input.into(), factor.into(), 11u32.into(), N.into()];
        // SAFETY: inputs have `N` words.
        unsafe { builder.exec(&kernel, &args, grid()) }?;
        Ok((builder.build(&GraphOptions::default())?, input))
    };
    let (mut one, _) = build(3)?;
    let (mut two, second) = build(5)?;
    let mut wanted = words(3, N as usize);
    for _ in 0..20 {
        one.launch()?;
        two.launch()?;
        stepped(&mut wanted, 3, 11);
        stepped(&mut wanted, 5, 11);
    }
    // One of them goes elsewhere, and the other stays.
    let other = device.alloc_from(&words(4, N as usize))?;
    two.set_input(second, &other)?;
    one.launch()?;
    two.launch()?.wait()?;
    stepped(&mut wanted, 3, 11);
    each("the shared input", &data.to_vec()?, |i| wanted[i])?;
    let mut wanted = words(4, N as usize);
    stepped(&mut wanted, 5, 11);
    each("the other input", &other.to_vec()?, |i| wanted[i])
}

fn back_to_back(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Step)?;
    let data = device.alloc_from(&words(5, N as usize))?;
    let (mut graph, add) = one_step(device, &kernel, &data, &GraphOptions::default())?;
    let mut wanted = words(5, N as usize);
    let mut last = None;
    for round in 0..100u32 {
        graph.set(add, word(6, round as usize))?;
        last = Some(graph.launch()?);
        stepped(&mut wanted, 3, word(6, round as usize));
    }
    if let Some(run) = last {
        run.wait()?;
    }
    each("after a hundred launches", &data.to_vec()?, |i| wanted[i])
}

/// Holds everything that is submitted to the device from now on until the gate is set.
fn hold(device: &Device, gate: &hcq_std::Signal) -> Result<(), Failure> {
    device
        .compute_queue(0)?
        .record()
        .wait(gate, 1u64)?
        .submit()?;
    Ok(())
}

fn instances(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (kernel, gate) = (cx.kernel(device, Stock::Step)?, device.signal()?);
    let data = device.alloc_from(&words(7, N as usize))?;
    let options = GraphOptions::default().instances(3);
    let (mut graph, add) = one_step(device, &kernel, &data, &options)?;
    let mut wanted = words(7, N as usize);
    for turn in 0..4u32 {
        gate.set(0)?;
        hold(device, &gate)?;
        let mut runs = Vec::new();
        for n in 0..3u32 {
            graph.set(add, 100 * turn + n)?;
            runs.push(graph.try_launch()?);
            stepped(&mut wanted, 3, 100 * turn + n);
        }
        let numbers: Vec<usize> = runs.iter().map(hcq_std::Run::instance).collect();
        same("the instances launched", numbers, vec![0, 1, 2])?;
        for run in &runs {
            same("whether a held launch is complete", run.is_done()?, false)?;
        }
        gate.set(1)?;
        runs[2].wait()?;
        each(&format!("turn {turn}"), &data.to_vec()?, |i| wanted[i])?;
    }
    Ok(())
}

fn busy(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (kernel, gate) = (cx.kernel(device, Stock::Step)?, device.signal()?);
    let data = device.alloc_from(&words(8, N as usize))?;
    let (mut graph, add) = one_step(device, &kernel, &data, &GraphOptions::default())?;
    let mut wanted = words(8, N as usize);
    hold(device, &gate)?;
    graph.set(add, 21)?;
    let run = graph.launch()?;
    graph.set(add, 22)?;
    refused("a second launch in flight", graph.try_launch(), |e| {
        matches!(e, Error::WouldBlock { .. })
    })?;
    gate.set(1)?;
    run.wait()?;
    stepped(&mut wanted, 3, 21);
    each("after the first launch", &data.to_vec()?, |i| wanted[i])?;
    graph.try_launch()?.wait()?;
    stepped(&mut wanted, 3, 22);
    each("after the second launch", &data.to_vec()?, |i| wanted[i])
}

fn roll_over(cx: &mut Context) -> Result<(), Failure> {
    // Points count up to 8 between resets.
    let device = cx.open(|o| o.timeline_span_log2(3))?;
    let kernel = cx.kernel(&device, Stock::Step)?;
    let data = device.alloc_from(&words(10, N as usize))?;
    let (mut graph, add) = one_step(&device, &kernel, &data, &GraphOptions::default())?;
    let mut wanted = words(10, N as usize);
    for round in 0..10u32 {
        graph.set(add, round)?;
        graph.launch()?;
        stepped(&mut wanted, 3, round);
        let idle = [1, 7, 8, 9, 23][round as usize % 5];
        for _ in 0..idle {
            device
                .compute_queue(0)?
                .record()
                .memory_barrier()?
                .submit()?;
        }
    }
    // And in a row, so that launches themselves are where it rolls over.
    for round in 0..40u32 {
        graph.set(add, round)?;
        graph.launch()?;
        stepped(&mut wanted, 3, round);
    }
    graph.wait()?;
    each("after all launches", &data.to_vec()?, |i| wanted[i])
}

/// A graph, its buffers, and what they hold after a launch.
type Web = (Graph, Vec<Buffer<u32>>, Vec<Vec<u32>>);

/// Two chains that meet, over all queues.
fn web(cx: &Context, options: &GraphOptions) -> Result<Web, Failure> {
    let device = cx.device();
    let (kernel, add) = (
        cx.kernel(device, Stock::Step)?,
        cx.kernel(device, Stock::Add)?,
    );
    let all: Vec<Buffer<u32>> = (0..4)
        .map(|i| device.alloc_from(&words(20 + i, N as usize)))
        .collect::<Result<_, Error>>()?;
    let mut wanted: Vec<Vec<u32>> = (0..4).map(|i| words(20 + i, N as usize)).collect();
    let mut builder = GraphBuilder::new([device])?;
    for turn in 0..4u32 {
        for (chain, from) in [(0usize, 1usize), (2, 3)] {
            // SAFETY: all buffers have `N` words.
            unsafe { builder.exec(&kernel, &step(&all[chain], 3, turn, N), grid()) }?;
            let half = (N / 2) as usize;
            builder.copy(&all[from].view(half..)?, &all[chain].view(..half)?)?;
            stepped(&mut wanted[chain], 3, turn);
            let copied = wanted[chain][..half].to_vec();
            wanted[from][half..].copy_from_slice(&copied);
        }
        let args = [
            Arg::buffer(&all[1]),
            (&*all[3]).into(),
            (&*all[0]).into(),
            N.into(),
        ];
        // SAFETY: as above.
        unsafe { builder.exec(&add, &args, grid()) }?;
        let sum: Vec<u32> = wanted[1]
            .iter()
            .zip(&wanted[3])
            .map(|(a, b)| a.wrapping_add(*b))
            .collect();
        wanted[0] = sum;
        builder.write(&all[2].view(5..6)?, 4000 + turn)?;
        wanted[2][5] = 4000 + turn;
    }
    Ok((builder.build(options)?, all, wanted))
}

fn several_queues(cx: &mut Context) -> Result<(), Failure> {
    let (mut graph, all, wanted) = web(cx, &GraphOptions::default())?;
    let stats = graph.stats();
    ensure!(
        stats.queues >= 3,
        "{} queues are used: {}",
        stats.queues,
        graph.explain()
    );
    says(&graph.explain(), &["read after write", "write after write"])?;
    graph.launch()?.wait()?;
    for (n, (buffer, wanted)) in all.iter().zip(&wanted).enumerate() {
        each(&format!("buffer {n}"), &buffer.to_vec()?, |i| wanted[i])?;
    }
    // Once more from the same contents: nothing is left of the first launch.
    for (n, buffer) in all.iter().enumerate() {
        buffer.write(&words(20 + n as u64, N as usize))?;
    }
    graph.launch()?.wait()?;
    for (n, (buffer, wanted)) in all.iter().zip(&wanted).enumerate() {
        each(
            &format!("buffer {n}, second launch"),
            &buffer.to_vec()?,
            |i| wanted[i],
        )?;
    }
    Ok(())
}

/// A graph of several devices, some of which have no way to wait for each other.
fn together(builder: GraphBuilder, options: &GraphOptions) -> Result<Graph, Failure> {
    match builder.build(options) {
        Err(Error::Graph { reason }) => Err(Failure::missing(format!(
            "memory through which the devices wait for each other: {reason}"
        ))),
        built => Ok(built?),
    }
}

fn with_the_cpu(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let cpus = [Device::open("cpu")?, Device::open("cpu")?];
    let kernel = cx.kernel(device, Stock::Step)?;
    let data = device.alloc_from(&words(30, N as usize))?;
    let there = [
        cpus[0].alloc::<u32>(N as usize)?,
        cpus[1].alloc::<u32>(N as usize)?,
    ];
    let mut builder = GraphBuilder::new([&cpus[0], device, &cpus[1]])?;
    let mut wanted = words(30, N as usize);
    for turn in 0..6u32 {
        // SAFETY: `data` has `N` words.
        unsafe { builder.exec(&kernel, &step(&data, 3, turn, N), grid()) }?;
        builder.copy(&*there[0], &*data)?;
        builder.write(&there[0].view(1..2)?, turn)?;
        builder.copy(&*there[1], &*there[0])?;
        builder.write(&there[1].view(2..3)?, turn + 50)?;
        builder.copy(&*data, &*there[1])?;
        stepped(&mut wanted, 3, turn);
        (wanted[1], wanted[2]) = (turn, turn + 50);
    }
    let mut graph = together(builder, &GraphOptions::default())?;
    graph.launch()?.wait()?;
    each("on the device", &data.to_vec()?, |i| wanted[i])?;
    each("on the second CPU device", &there[1].to_vec()?, |i| {
        wanted[i]
    })?;
    same("devices of a launch", graph.launch()?.points().len(), 3)?;
    graph.wait()?;
    Ok(())
}

fn through_the_host(cx: &mut Context) -> Result<(), Failure> {
    let (one, two) = (cx.device(), cx.open(|o| o)?);
    let kernels = [cx.kernel(one, Stock::Step)?, cx.kernel(&two, Stock::Step)?];
    let here = one.alloc_from(&words(40, N as usize))?;
    let there = two.alloc::<u32>(N as usize)?;
    let mut builder = GraphBuilder::new([one, &two])?;
    let mut wanted = words(40, N as usize);
    for turn in 0..6u32 {
        // SAFETY: both buffers have `N` words.
        unsafe { builder.exec(&kernels[0], &step(&here, 3, turn, N), grid()) }?;
        builder.copy(&*there, &*here)?;
        // SAFETY: as above.
        unsafe { builder.exec(&kernels[1], &step(&there, 5, turn, N), grid()) }?;
        builder.copy(&*here, &*there)?;
        stepped(&mut wanted, 3, turn);
        stepped(&mut wanted, 5, turn);
    }
    let mut graph = together(builder, &GraphOptions::default().instances(2))?;
    let mut last = Vec::new();
    for _ in 0..3 {
        last.push(graph.launch()?);
    }
    for run in &last {
        run.wait()?;
    }
    for _ in 0..2 {
        for turn in 0..6u32 {
            stepped(&mut wanted, 3, turn);
            stepped(&mut wanted, 5, turn);
        }
    }
    each("on the first device", &here.to_vec()?, |i| wanted[i])?;
    each("on the second device", &there.to_vec()?, |i| wanted[i])
}

fn profiled(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (mut graph, all, wanted) = web(cx, &GraphOptions::default().profile(true))?;
    let begun = device.now_ns();
    let run = graph.launch()?;
    run.wait()?;
    let ended = device.now_ns();
    for (n, (buffer, wanted)) in all.iter().zip(&wanted).enumerate() {
        each(&format!("buffer {n}"), &buffer.to_vec()?, |i| wanted[i])?;
    }
    let profile = graph.profile(&run)?;
    same("tasks with times", profile.ran.len(), graph.len())?;
    // Device clocks are told by the host's with an error; an interval lies within another, give or take that.
    let slack = 2_000_000;
    for ran in &profile.ran {
        let Some(times) = ran.times else {
            return Err(Failure::new(format!("{} has no times", ran.name)));
        };
        ensure!(
            times.start_ns <= times.end_ns,
            "{} ended before it began: {times:?}",
            ran.name
        );
        ensure!(
            times.start_ns + slack >= begun && times.end_ns <= ended + slack,
            "{} ran at {times:?}, outside of {begun}..{ended}",
            ran.name
        );
        for &first in &ran.waited_for {
            let before = profile.ran[first].times.map_or(0, |t| t.end_ns);
            ensure!(
                before <= times.start_ns + slack,
                "{} began at {} and had waited for what ended at {before}",
                ran.name,
                times.start_ns
            );
        }
    }
    ensure!(
        profile.ran.iter().any(|r| r.is_critical),
        "nothing is on the critical path"
    );
    ensure!(
        profile.path_ns <= profile.total_ns + slack,
        "the critical path takes {} of {} ns",
        profile.path_ns,
        profile.total_ns
    );
    refused(
        "times of a launch that was followed by another",
        {
            graph.launch()?;
            graph.wait()?;
            graph.profile(&run)
        },
        |e| matches!(e, Error::Graph { .. }),
    )?;
    Ok(())
}

fn refused_changes(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (kernel, copy) = (
        cx.kernel(device, Stock::Step)?,
        cx.kernel(device, Stock::Copy)?,
    );
    let pool = device.alloc_from(&words(50, 3 * N as usize))?;
    let n = N as usize;
    let (a, b) = (pool.view(..n)?, pool.view(n..2 * n)?);
    let own = device.alloc_from(&words(51, n))?;
    let mut builder = GraphBuilder::new([device])?;
    let (from, to) = (builder.input(&a)?, builder.input(&b)?);
    let groups = builder.param(GRID[0])?;
    // SAFETY: inputs have `N` words.
    unsafe { builder.exec(&copy, &[from.into(), to.into(), N.into()], grid()) }?;
    // SAFETY: as above; items beyond `N` do nothing.
    unsafe {
        builder.exec(
            &kernel,
            &step(&own, 3, 1, N),
            Grid::new((groups, 1u32, 1u32), GRID[1]),
        )
    }?;
    let mut graph = builder.build(&GraphOptions::default())?;
    graph.launch()?.wait()?;
    let (mut wanted, mut stepped_own) = (words(50, 3 * n), words(51, n));
    let copied = wanted[..n].to_vec();
    wanted[n..2 * n].copy_from_slice(&copied);
    stepped(&mut stepped_own, 3, 1);

    let overlaps = pool.view(n / 2..n / 2 + n)?;
    graph.set_input(to, &overlaps)?;
    let e = refused("inputs that share bytes", graph.launch(), |e| {
        matches!(e, Error::Graph { .. })
    })?;
    says(&e.to_string(), &["inputs", "share bytes"])?;
    refused("the same again", graph.launch(), |e| {
        matches!(e, Error::Graph { .. })
    })?;
    graph.set_input(to, &own)?;
    refused(
        "an input that is the graph's own buffer",
        graph.launch(),
        |e| matches!(e, Error::Graph { .. }),
    )?;
    graph.set_input(to, &pool.view(2 * n..)?)?;
    refused(
        "a view of another length",
        graph.set_input(to, &pool.view(1..n)?),
        |e| matches!(e, Error::Length { .. }),
    )?;
    graph.launch()?.wait()?;
    wanted[2 * n..].copy_from_slice(&copied);
    stepped(&mut stepped_own, 3, 1);

    // No grid has no groups in a dimension, nor more than fit.
    graph.set(groups, 0)?;
    let e = graph.launch();
    if let Err(e) = e {
        ensure!(matches!(e, Error::Launch(_)), "no groups: {e}");
        graph.set(groups, GRID[0])?;
        graph.launch()?.wait()?;
        stepped(&mut stepped_own, 3, 1);
    } else {
        // Engines that take an empty grid run nothing.
        graph.wait()?;
    }
    each("the inputs", &pool.to_vec()?, |i| wanted[i])?;
    each("the graph's own", &own.to_vec()?, |i| stepped_own[i])
}

fn dropped_in_flight(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (kernel, gate) = (cx.kernel(device, Stock::Step)?, device.signal()?);
    let data = device.alloc_from(&words(60, N as usize))?;
    let mut wanted = words(60, N as usize);
    let (mut graph, add) = one_step(device, &kernel, &data, &GraphOptions::default())?;
    graph.set(add, 5)?;
    hold(device, &gate)?;
    graph.launch()?;
    // Dropping it waits: somebody else lets it go meanwhile.
    let opener = std::thread::spawn({
        let gate = gate.clone();
        move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            gate.set(1)
        }
    });
    drop(graph);
    let opened = opener.join();
    ensure!(matches!(opened, Ok(Ok(()))), "the gate: {opened:?}");
    stepped(&mut wanted, 3, 5);
    each("after the graph is gone", &data.to_vec()?, |i| wanted[i])
}
