//! The timeline: points that follow one another, also where the engine's counter rolls over.
#![allow(unsafe_code, reason = "launches kernels")]

use std::thread;

use hcq_std::{Buffer, Device, Error, Grid, Kernel, Point};

use super::exec::step;
use crate::check::{each, ensure, patiently, refused, same, says, words};
use crate::kinds::Stock;
use crate::{Behaviour, Context, Failure, Needs};

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "timeline.in-order",
        what: "points count up by one over all queues, and a complete one means that all before it are",
        needs: Needs::COMPUTE.compute(2),
        run: in_order,
    },
    Behaviour {
        name: "timeline.roll-over-synced",
        what: "the counter rolls over many times with the host waiting for every submission",
        needs: Needs::COMPUTE.compute(2).kernels(&[Stock::Step]),
        run: roll_over_synced,
    },
    Behaviour {
        name: "timeline.roll-over-unsynced",
        what: "the counter rolls over many times with the host never waiting, and work keeps its order across queues",
        needs: Needs::COMPUTE.compute(2).kernels(&[Stock::Step]),
        run: roll_over_unsynced,
    },
    Behaviour {
        name: "timeline.old-points",
        what: "points many roll-overs old are complete, for hosts and for queues that wait for them",
        needs: Needs::COMPUTE,
        run: old_points,
    },
    Behaviour {
        name: "timeline.idle-bound",
        what: "a bound queue that was idle over several roll-overs neither hangs nor passes early",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: idle_bound,
    },
    Behaviour {
        name: "timeline.late-waits-over-roll-over",
        what: "a queue that comes late to a wait for a point of the last epoch passes, at every place of the roll-over",
        needs: Needs::COMPUTE.compute(2),
        run: late_waits,
    },
    Behaviour {
        name: "timeline.waiters-over-roll-over",
        what: "host threads that wait for points of different epochs all wake up",
        needs: Needs::COMPUTE,
        run: waiters,
    },
    Behaviour {
        name: "timeline.too-far-ahead",
        what: "more submissions in flight than an epoch allows are refused after a wait, and none is lost",
        needs: Needs::COMPUTE,
        run: too_far_ahead,
    },
];

const N: u32 = 64;

fn in_order(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let gate = device.signal()?;
    let queues = [device.compute_queue(0)?, device.compute_queue(1)?];
    let mut points: Vec<Point> = Vec::new();
    for i in 0..40usize {
        let mut commands = queues[i / 3 % 2].record();
        if i == 20 {
            commands.wait(&gate, 1u64)?;
        }
        points.push(commands.memory_barrier()?.submit()?);
    }
    for (i, point) in points.iter().enumerate() {
        same(
            "a point's number",
            point.number(),
            points[0].number() + i as u64,
        )?;
    }
    points[19].wait()?;
    for (i, point) in points.iter().enumerate() {
        same(
            &format!("whether point {i} is complete, held at 20"),
            point.is_done()?,
            i < 20,
        )?;
    }
    gate.set(1)?;
    points[39].wait()?;
    for (i, point) in points.iter().enumerate() {
        same(
            &format!("whether point {i} is complete in the end"),
            point.is_done()?,
            true,
        )?;
    }
    same("the latest", device.latest().number(), points[39].number())
}

/// One step on queue `index`, after `after` if there is one.
fn step_on(
    device: &Device,
    kernel: &Kernel,
    data: &Buffer<u32>,
    index: usize,
    add: u32,
    after: Option<&Point>,
) -> Result<Point, Failure> {
    let mut commands = device.compute_queue(index)?.record();
    if let Some(point) = after {
        commands.after(point)?.memory_barrier()?;
    }
    // SAFETY: callers' `data` has `N` words.
    unsafe { commands.exec(kernel, &step(data, 3, add, N), Grid::new(2, 32)) }?;
    Ok(commands.submit()?)
}

fn stepped(wanted: &mut [u32], add: u32) {
    wanted
        .iter_mut()
        .for_each(|w| *w = w.wrapping_mul(3).wrapping_add(add));
}

fn roll_over_synced(cx: &mut Context) -> Result<(), Failure> {
    for log2 in [2u32, 3, 5] {
        let device = cx.open(|o| o.timeline_span_log2(log2))?;
        let kernel = cx.kernel(&device, Stock::Step)?;
        let data = device.alloc_from(&words(1, N as usize))?;
        let mut wanted = words(1, N as usize);
        // Twelve epochs and a bit.
        for i in 0..(12u32 << log2) + 3 {
            let point = step_on(&device, &kernel, &data, i as usize % 2, i, None)?;
            point.wait()?;
            stepped(&mut wanted, i);
            ensure!(
                point.is_done()?,
                "point {} is waited for and not complete",
                point.number()
            );
            each(
                &format!("after submission {i} with epochs of {}", 1 << log2),
                &data.to_vec()?,
                |at| wanted[at],
            )?;
        }
        let info = device.timeline()?;
        same(
            "points submitted and completed",
            info.submitted,
            info.completed,
        )?;
        ensure!(
            info.completed >= 12 << log2,
            "only {} points",
            info.completed
        );
        drop((data, kernel));
        device.close()?;
    }
    Ok(())
}

fn roll_over_unsynced(cx: &mut Context) -> Result<(), Failure> {
    for log2 in [2u32, 3, 4, 6] {
        let device = cx.open(|o| o.timeline_span_log2(log2))?;
        let kernel = cx.kernel(&device, Stock::Step)?;
        let data = device.alloc_from(&words(2, N as usize))?;
        let mut wanted = words(2, N as usize);
        let mut last: Option<Point> = None;
        for i in 0..1000u32 {
            // Runs of one queue and of the other, in lengths that shift against the epoch.
            let index = (i / (i / 100 + 1)) as usize % 2;
            last = Some(step_on(&device, &kernel, &data, index, i, last.as_ref())?);
            stepped(&mut wanted, i);
        }
        device.synchronize()?;
        each(
            &format!("with epochs of {}", 1 << log2),
            &data.to_vec()?,
            |at| wanted[at],
        )?;
        drop((data, kernel, last));
        device.close()?;
    }
    Ok(())
}

fn old_points(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.open(|o| o.timeline_span_log2(4))?;
    let (queue, gate) = (device.compute_queue(0)?, device.signal()?);
    let mut old = Vec::new();
    for i in 0..16 * 7 {
        let point = queue.record().memory_barrier()?.submit()?;
        if i % 5 == 0 {
            old.push(point);
        }
    }
    device.synchronize()?;
    // With something in flight, so that nothing passes for idleness.
    let held = queue.record().wait(&gate, 1u64)?.submit()?;
    for point in &old {
        ensure!(
            point.is_done()?,
            "point {} is not complete any more",
            point.number()
        );
        point.wait()?;
    }
    ensure!(!held.is_done()?, "the held point is complete");
    gate.set(1)?;
    let done = device.signal()?;
    for point in &old {
        done.set(0)?;
        queue
            .record()
            .after(point)?
            .signal(&done, 1u64)?
            .submit()?
            .wait()?;
        same("a wait for an old point passed", done.value(), 1)?;
    }
    drop((old, held, done, gate, queue));
    Ok(device.close()?)
}

fn idle_bound(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.open(|o| o.timeline_span_log2(3))?;
    let (kernel, gate) = (cx.kernel(&device, Stock::Step)?, device.signal()?);
    let data = device.alloc_from(&words(3, N as usize))?;
    let mut wanted = words(3, N as usize);
    let queue = device.compute_queue(0)?;
    let mut commands = queue.record();
    let open = commands.var()?;
    commands.wait(&gate, open)?;
    // SAFETY: `data` has `N` words.
    unsafe { commands.exec(&kernel, &step(&data, 3, 5, N), Grid::new(2, 32)) }?;
    let mut bound = commands.bind()?;
    for round in 1..=12u64 {
        bound.set(open, round)?;
        let point = bound.submit()?;
        ensure!(!point.is_done()?, "round {round} passed early");
        gate.set(round)?;
        point.wait()?;
        stepped(&mut wanted, 5);
        each(&format!("round {round}"), &data.to_vec()?, |i| wanted[i])?;
        // Idle for a bit less than, exactly, and a bit more than whole epochs.
        for _ in 0..8 * (round % 4) + round % 3 {
            queue.record().memory_barrier()?.submit()?;
        }
        ensure!(
            point.is_done()?,
            "a point of an old epoch is not complete any more"
        );
    }
    drop((bound, data, kernel, gate, queue));
    Ok(device.close()?)
}

fn late_waits(cx: &mut Context) -> Result<(), Failure> {
    // Three submissions at a time: they fall on every place of the epochs of 16, and are what may be in flight.
    let device = cx.open(|o| o.timeline_span_log2(4))?;
    let (first, second) = (device.compute_queue(0)?, device.compute_queue(1)?);
    let (gate, late, done) = (device.signal()?, device.signal()?, device.signal()?);
    for round in 1..=48u64 {
        let held = first.record().wait(&gate, round)?.submit()?;
        let next = first.record().memory_barrier()?.submit()?;
        // What it waits for is known now, and looked at only when the next one is complete, too.
        let mut commands = second.record();
        let last = commands
            .wait(&late, round)?
            .after(&held)?
            .signal(&done, round)?
            .submit()?;
        gate.set(round)?;
        next.wait()?;
        same(
            &format!("round {round}, before its turn"),
            done.value(),
            round - 1,
        )?;
        late.set(round)?;
        last.wait()?;
        same(&format!("round {round}"), done.value(), round)?;
    }
    drop((first, second, gate, late, done));
    Ok(device.close()?)
}

fn waiters(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.open(|o| o.timeline_span_log2(4))?;
    let queue = device.compute_queue(0)?;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for i in 0..16 * 6 {
            let point = queue.record().memory_barrier()?.submit()?;
            if i % 4 == 0 {
                threads.push(scope.spawn(move || point.wait()));
            }
        }
        for thread in threads {
            thread
                .join()
                .map_err(|_| Failure::new("a waiting thread panicked"))??;
        }
        Ok::<(), Failure>(())
    })?;
    drop(queue);
    Ok(device.close()?)
}

fn too_far_ahead(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.open(|o| o.timeline_span_log2(4).wait_timeout_ms(50))?;
    let (queue, gate, out) = (
        device.compute_queue(0)?,
        device.signal()?,
        device.alloc_from(&[0u32; 64])?,
    );
    queue.record().wait(&gate, 1u64)?.submit()?;
    let mut accepted = 0u32;
    let mut commands = queue.record();
    let error = loop {
        ensure!(accepted < 16, "a whole epoch of 16 points is in flight");
        commands.write32(out.address() + 4 * u64::from(accepted), accepted + 1)?;
        match commands.submit() {
            Ok(_) => accepted += 1,
            Err(e) => break e,
        }
    };
    let error = refused("one more", Err::<(), _>(error), |e| {
        matches!(e, Error::Timeout { .. })
    })?;
    says(&error.to_string(), &["timed out", "timeline"])?;
    gate.set(1)?;
    // The recording that was refused is whole, and goes now.
    let last = patiently(|| commands.submit())?;
    patiently(|| last.wait())?;
    each("the words", &out.to_vec()?, |i| {
        if i <= accepted as usize {
            i as u32 + 1
        } else {
            0
        }
    })?;
    drop((commands, out, gate, queue));
    Ok(patiently(|| device.synchronize())?)
}
