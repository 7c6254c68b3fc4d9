//! Several queues, several threads, several devices; and devices dropped with work in flight.
#![allow(
    unsafe_code,
    reason = "launches kernels and lends memory to the device"
)]

use std::ptr::NonNull;
use std::thread;

use hcq_std::{Arg, Buffer, Device, Grid, Kernel};

use super::exec::step;
use crate::check::{Numbers, each, ensure, same, word, words};
use crate::kinds::{Stock, spun};
use crate::{Behaviour, Context, Failure, Needs};

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "queues.overlap",
        what: "a queue that waits holds no other one, whichever was submitted first",
        needs: Needs::COMPUTE.compute(2),
        run: overlap,
    },
    Behaviour {
        name: "queues.all-depend",
        what: "queues that each wait for the next one, last submitted first served, all come through",
        needs: Needs::COMPUTE.compute(2),
        run: all_depend,
    },
    Behaviour {
        name: "queues.ping-pong",
        what: "two queues pass data to and fro three hundred times, ordered by signals alone",
        needs: Needs::COMPUTE.compute(2).kernels(&[Stock::Step]),
        run: ping_pong,
    },
    Behaviour {
        name: "queues.after",
        what: "a submission that comes after points of other queues sees what they did",
        needs: Needs::BOTH.compute(2).kernels(&[Stock::Step, Stock::Spin]),
        run: after,
    },
    Behaviour {
        name: "threads.one-queue",
        what: "threads that submit to one queue at the same time keep each its own order",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: one_queue,
    },
    Behaviour {
        name: "threads.many-queues",
        what: "threads that submit to all queues, wait, allocate and free at the same time do not disturb each other",
        needs: Needs::BOTH.kernels(&[Stock::Step]),
        run: many_queues,
    },
    Behaviour {
        name: "threads.bound",
        what: "threads that each launch a bound queue of their own get each its own values",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: bound,
    },
    Behaviour {
        name: "devices.side-by-side",
        what: "devices opened, used and closed at the same time do not know of each other",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: side_by_side,
    },
    Behaviour {
        name: "drop.held",
        what: "a device dropped while a queue waits for what never comes is gone after its timeout",
        needs: Needs::COMPUTE.compute(2),
        run: drop_held,
    },
    Behaviour {
        name: "drop.running",
        what: "a device dropped while a kernel runs lets it end: no write comes after the drop",
        needs: Needs::COMPUTE.kernels(&[Stock::Spin]),
        run: drop_running,
    },
    Behaviour {
        name: "drop.unsubmitted",
        what: "recordings and bound queues that were never submitted are dropped without a trace",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: drop_unsubmitted,
    },
];

const N: u32 = 64;

fn overlap(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    for round in 1..=100u64 {
        let (go, done) = (device.signal()?, device.signal()?);
        let (first, second) = (round as usize % 2, (round as usize + 1) % 2);
        let held = device
            .compute_queue(first)?
            .record()
            .wait(&go, round)?
            .signal(&done, round)?
            .submit()?;
        same("what is behind the wait", done.value(), 0)?;
        // It goes on when the other queue, submitted later, gets its turn.
        device
            .compute_queue(second)?
            .record()
            .signal(&go, round)?
            .submit()?;
        done.wait(round)?;
        held.wait()?;
    }
    Ok(())
}

fn all_depend(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.open(|o| o.compute_queues(6).copy_queues(2))?;
    let (compute, copy) = device.queue_counts();
    let count = compute + copy;
    for round in 1..=30u64 {
        let signals = (0..=count)
            .map(|_| device.signal())
            .collect::<Result<Vec<_>, _>>()?;
        for i in 0..count {
            let queue = if i < compute {
                device.compute_queue(i)?
            } else {
                device.copy_queue(i - compute)?
            };
            queue
                .record()
                .wait(&signals[i + 1], round)?
                .signal(&signals[i], round)?
                .submit()?;
        }
        same("the end of the chain", signals[0].value(), 0)?;
        signals[count].set(round)?;
        signals[0].wait(round)?;
    }
    device.synchronize()?;
    Ok(device.close()?)
}

fn ping_pong(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Step)?;
    let data = device.alloc_from(&words(1, N as usize))?;
    let turn = device.signal()?;
    let mut wanted = words(1, N as usize);
    let mut players = [
        device.compute_queue(0)?.record(),
        device.compute_queue(1)?.record(),
    ];
    for i in 0..300u32 {
        let player = &mut players[i as usize % 2];
        player.wait(&turn, i)?.memory_barrier()?;
        // SAFETY: `data` has `N` words.
        unsafe { player.exec(&kernel, &step(&data, 3, i, N), Grid::new(2, 32)) }?;
        player.memory_barrier()?.signal(&turn, i + 1)?;
        wanted
            .iter_mut()
            .for_each(|w| *w = w.wrapping_mul(3).wrapping_add(i));
    }
    for player in players.iter_mut().rev() {
        player.submit()?;
    }
    turn.wait(300)?;
    each("after 300 turns", &data.to_vec()?, |i| wanted[i])
}

fn after(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (stepping, spin) = (
        cx.kernel(device, Stock::Step)?,
        cx.kernel(device, Stock::Spin)?,
    );
    let (data, slow, copied) = (
        device.alloc_from(&[0u32; N as usize])?,
        device.alloc::<u32>(N as usize)?,
        device.alloc::<u32>(N as usize)?,
    );
    for round in 0..30u32 {
        let mut first = device.compute_queue(0)?.record();
        let args = [Arg::from(&data), Arg::from(3000u32), Arg::from(round)];
        // SAFETY: `data` has a word for every group.
        unsafe { first.exec(&spin, &args, Grid::new(N, 1)) }?;
        let first = first.submit()?;
        let mut second = device.compute_queue(1)?.record();
        let args = [Arg::from(&slow), Arg::from(2000u32), Arg::from(round)];
        // SAFETY: as above, for `slow`.
        unsafe { second.exec(&spin, &args, Grid::new(N, 1)) }?;
        second.after(&first)?.memory_barrier()?;
        // SAFETY: `data` has `N` words.
        unsafe { second.exec(&stepping, &step(&data, 5, 1, N), Grid::new(2, 32)) }?;
        let second = second.submit()?;
        let mut third = device.copy_queue(0)?.record();
        third
            .after(&second)?
            .copy(&copied, &data)?
            .submit()?
            .wait()?;
        each(&format!("round {round}"), &copied.to_vec()?, |g| {
            spun(3000, round, g as u32).wrapping_mul(5).wrapping_add(1)
        })?;
    }
    each("the slow launch", &slow.to_vec()?, |g| {
        spun(2000, 29, g as u32)
    })
}

/// Runs a function in several threads, each with its number, and gathers what they return.
fn in_threads<T: Send>(
    count: usize,
    run: impl Fn(usize) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..count).map(|i| scope.spawn(move || run(i))).collect();
        let join = |t: thread::ScopedJoinHandle<'_, Result<T, Failure>>| t.join();
        threads
            .into_iter()
            .map(|t| join(t).map_err(|_| Failure::new("a thread panicked"))?)
            .collect()
    })
}

/// Steps of one thread with numbers of its own, and what must come of them.
fn steps(
    device: &Device,
    queue: usize,
    kernel: &Kernel,
    data: &Buffer<u32>,
    seed: u64,
    count: usize,
    wait_every: usize,
) -> Result<Vec<u32>, Failure> {
    let queue = device.compute_queue(queue)?;
    let mut wanted = words(seed, N as usize);
    let mut numbers = Numbers::new(seed);
    for i in 1..=count {
        let (factor, add) = (numbers.next() as u32 | 1, numbers.next() as u32);
        let mut commands = queue.record();
        // SAFETY: callers' `data` has `N` words.
        unsafe { commands.exec(kernel, &step(data, factor, add, N), Grid::new(2, 32)) }?;
        let point = commands.submit()?;
        if i % wait_every == 0 {
            point.wait()?;
        }
        wanted
            .iter_mut()
            .for_each(|w| *w = w.wrapping_mul(factor).wrapping_add(add));
    }
    Ok(wanted)
}

fn one_queue(cx: &mut Context) -> Result<(), Failure> {
    // A small ring and short epochs, so that threads meet where it is tight.
    let device = cx.open(|o| o.ring_packets(32).timeline_span_log2(6))?;
    let kernel = cx.kernel(&device, Stock::Step)?;
    let ended = in_threads(8, |i| {
        let data = device.alloc_from(&words(i as u64, N as usize))?;
        let wanted = steps(&device, 0, &kernel, &data, i as u64, 250, 1000)?;
        Ok((data, wanted))
    })?;
    device.synchronize()?;
    for (i, (data, wanted)) in ended.iter().enumerate() {
        each(&format!("thread {i}"), &data.to_vec()?, |at| wanted[at])?;
    }
    drop((ended, kernel));
    Ok(device.close()?)
}

fn many_queues(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.open(|o| o.compute_queues(3).copy_queues(2))?;
    let (compute, copies) = device.queue_counts();
    let kernel = cx.kernel(&device, Stock::Step)?;
    in_threads(6, |i| {
        for round in 0..8u64 {
            let seed = 100 * i as u64 + round;
            let data = device.alloc_from(&words(seed, N as usize))?;
            let wanted = steps(&device, i % compute, &kernel, &data, seed, 10, 5)?;
            let copy = device.copy_queue(i % copies)?;
            let mut commands = copy.record();
            let down = commands.after(&device.latest())?.download(&data)?;
            commands.submit()?;
            each(&format!("thread {i}, round {round}"), &down.wait()?, |at| {
                wanted[at]
            })?;
            let done = device.signal()?;
            copy.record().signal(&done, seed + 1)?.submit()?;
            done.wait(seed + 1)?;
        }
        Ok(())
    })?;
    device.synchronize()?;
    drop(kernel);
    Ok(device.close()?)
}

fn bound(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Step)?;
    let (compute, _) = device.queue_counts();
    let ended = in_threads(4, |i| {
        let data = device.alloc_from(&words(i as u64, N as usize))?;
        let mut wanted = words(i as u64, N as usize);
        let mut commands = device.compute_queue(i % compute)?.record();
        let (factor, add) = (commands.var()?, commands.var()?);
        let args = [
            Arg::from(&data),
            Arg::var(factor, 4),
            Arg::var(add, 4),
            Arg::from(N),
        ];
        // SAFETY: `data` has `N` words.
        unsafe { commands.exec(&kernel, &args, Grid::new(2, 32)) }?;
        let mut bound = commands.bind()?;
        for round in 0..200u32 {
            let f = 2 * round + 1 + 2 * i as u32;
            bound.set(factor, f.into())?;
            bound.set(add, round.into())?;
            bound.submit()?;
            wanted
                .iter_mut()
                .for_each(|w| *w = w.wrapping_mul(f).wrapping_add(round));
        }
        Ok((data, wanted))
    })?;
    device.synchronize()?;
    for (i, (data, wanted)) in ended.iter().enumerate() {
        each(&format!("thread {i}"), &data.to_vec()?, |at| wanted[at])?;
    }
    Ok(())
}

fn side_by_side(cx: &mut Context) -> Result<(), Failure> {
    let cx = &*cx;
    in_threads(4, |i| {
        for round in 0..8u64 {
            let seed = 10 * i as u64 + round;
            let device = cx.open(|o| o.compute_queues(1 + round as usize % 2).ring_packets(64))?;
            let kernel = cx.kernel(&device, Stock::Step)?;
            let data = device.alloc_from(&words(seed, N as usize))?;
            let wanted = steps(&device, 0, &kernel, &data, seed, 20, 7)?;
            each(
                &format!("thread {i}, device {round}"),
                &data.to_vec()?,
                |at| wanted[at],
            )?;
            drop((data, kernel));
            device.close()?;
        }
        Ok(())
    })?;
    Ok(())
}

fn drop_held(cx: &mut Context) -> Result<(), Failure> {
    for kind in 0..3 {
        let device = cx.open(|o| o.wait_timeout_ms(40))?;
        let (never, done) = (device.signal()?, device.signal()?);
        let queue = device.compute_queue(0)?;
        let mut commands = queue.record();
        match kind {
            0 => commands.wait(&never, 1u64)?,
            1 => commands.poll_bit(never.address(), 1, 1u64)?,
            // Behind the timeline of another queue that is held.
            _ => commands.after(
                &device
                    .compute_queue(1)?
                    .record()
                    .wait(&never, 1u64)?
                    .submit()?,
            )?,
        };
        let point = commands.signal(&done, 1u64)?.submit()?;
        ensure!(!point.is_done()?, "the submission did not wait");
        drop((commands, queue, point, never, done));
        // The last handle; the runner's limit is the bound.
        drop(device);
    }
    // Nothing of it is left in the way of another device.
    let device = cx.open(|o| o)?;
    device
        .compute_queue(0)?
        .record()
        .memory_barrier()?
        .submit()?
        .wait()?;
    Ok(device.close()?)
}

fn drop_running(cx: &mut Context) -> Result<(), Failure> {
    const GROUPS: usize = 16;
    let mut memory = vec![0u32; 4096];
    let skip = memory.as_ptr().align_offset(4096);
    let base = NonNull::from(&mut memory[skip..skip + 1024]).cast::<u32>();
    let device = cx.open(|o| o)?;
    let kernel = cx.kernel(&device, Stock::Spin)?;
    // SAFETY: `memory` is looked at after the device is dropped, which waits for the work.
    let out = unsafe { cx.wrap(&device, base, 1024) }?;
    let mut commands = device.compute_queue(0)?.record();
    let args = [Arg::from(&out), Arg::from(200_000u32), Arg::from(5u32)];
    // SAFETY: `out` has a word for every group.
    unsafe { commands.exec(&kernel, &args, Grid::new(GROUPS as u32, 1)) }?;
    commands.submit()?;
    drop((commands, kernel, out));
    drop(device);
    each("the caller's memory", &memory[skip..skip + 1024], |i| {
        if i < GROUPS {
            spun(200_000, 5, i as u32)
        } else {
            0
        }
    })
}

fn drop_unsubmitted(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Step)?;
    let data = device.alloc_from(&words(8, N as usize))?;
    let queue = device.compute_queue(0)?;
    let before = device.latest().number();
    for i in 0..200 {
        let mut commands = queue.record();
        // SAFETY: `data` has `N` words.
        unsafe { commands.exec(&kernel, &step(&data, 3, 1, N), Grid::new(2, 32)) }?;
        if i % 2 == 0 {
            drop(commands.bind()?);
        }
    }
    device.synchronize()?;
    same("the latest point", device.latest().number(), before)?;
    each("the data", &data.to_vec()?, |i| word(8, i))?;
    // A recording made after them starts empty.
    queue
        .record()
        .write32(data.address(), 1u32)?
        .submit()?
        .wait()?;
    each("after one write", &data.to_vec()?, |i| {
        if i == 0 { 1 } else { word(8, i) }
    })
}
