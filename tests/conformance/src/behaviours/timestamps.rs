//! Timestamps of the device's clock.
#![allow(unsafe_code, reason = "launches kernels")]

use std::time::{Duration, Instant};

use hcq_std::{Arg, Device, Grid, Queue, Region, Signal};

use crate::check::{bulk, bytes, each, ensure, same};
use crate::kinds::{Stock, spun};
use crate::{Behaviour, Context, Failure, Needs};

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "timestamp.monotonic",
        what: "timestamps of a queue are not zero and never go back",
        needs: Needs::COMPUTE,
        run: monotonic,
    },
    Behaviour {
        name: "timestamp.copy-queue",
        what: "so on copy queues",
        needs: Needs::COPY,
        run: monotonic_on_copy_queue,
    },
    Behaviour {
        name: "timestamp.bound",
        what: "a bound queue writes a later timestamp at each submission",
        needs: Needs::COMPUTE,
        run: bound,
    },
    Behaviour {
        name: "timestamp.across-queues",
        what: "what a queue does after waiting for another one has the later timestamp",
        needs: Needs::COMPUTE.compute(2),
        run: across_queues,
    },
    Behaviour {
        name: "timestamp.device-clock",
        what: "timestamps lie between two looks at the device's clock",
        needs: Needs::COMPUTE,
        run: device_clock,
    },
    Behaviour {
        name: "timestamp.regions",
        what: "regions of a profile nest, follow one another, and lie within the host's looks at the clock",
        needs: Needs::COMPUTE,
        run: regions,
    },
    Behaviour {
        name: "timestamp.kernel-time",
        what: "a kernel takes time, and no more by the device's clock than the host saw pass around it",
        needs: Needs::COMPUTE.kernels(&[Stock::Spin]),
        run: kernel_time,
    },
    Behaviour {
        name: "timestamp.copy-time",
        what: "a copy takes time, and no more by the device's clock than the host saw pass around it",
        needs: Needs::COPY,
        run: copy_time,
    },
];

fn signals(device: &Device, count: usize) -> Result<Vec<Signal>, Failure> {
    Ok((0..count)
        .map(|_| device.signal())
        .collect::<Result<_, _>>()?)
}

fn monotonic(cx: &mut Context) -> Result<(), Failure> {
    stamps(cx, &cx.device().compute_queue(0)?)
}

fn monotonic_on_copy_queue(cx: &mut Context) -> Result<(), Failure> {
    stamps(cx, &cx.device().copy_queue(0)?)
}

fn stamps(cx: &Context, queue: &Queue) -> Result<(), Failure> {
    let signals = signals(cx.device(), 300)?;
    let mut commands = queue.record();
    for (i, s) in signals.iter().enumerate() {
        commands.timestamp(s)?;
        if i % 100 == 99 {
            commands.submit()?;
        }
    }
    cx.device().synchronize()?;
    let mut last = 1;
    for (i, s) in signals.iter().enumerate() {
        let now = s.timestamp();
        ensure!(now >= last, "timestamp {i} is {now}, after {last}");
        last = now;
    }
    ensure!(
        last > signals[0].timestamp(),
        "300 timestamps in 3 submissions are all {last}"
    );
    Ok(())
}

fn bound(cx: &mut Context) -> Result<(), Failure> {
    let stamp = cx.device().signal()?;
    let mut commands = cx.device().compute_queue(0)?.record();
    commands.timestamp(&stamp)?;
    let mut bound = commands.bind()?;
    same("before", stamp.timestamp(), 0)?;
    let mut last = 0;
    let first = cx.device().now_ns();
    for round in 0..50 {
        bound.submit()?.wait()?;
        let now = stamp.timestamp();
        ensure!(
            now >= last && now >= first,
            "submission {round} has timestamp {now}, after {last} and {first}"
        );
        last = now;
    }
    Ok(())
}

fn across_queues(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (done, before, after) = (device.signal()?, device.signal()?, device.signal()?);
    for round in 1..=50u64 {
        let (first, second) = (round as usize % 2, (round as usize + 1) % 2);
        let mut waiting = device.compute_queue(second)?.record();
        waiting.wait(&done, round)?.timestamp(&after)?.submit()?;
        let mut leading = device.compute_queue(first)?.record();
        leading.timestamp(&before)?.signal(&done, round)?.submit()?;
        device.synchronize()?;
        let (a, b) = (before.timestamp(), after.timestamp());
        ensure!(
            a != 0 && a <= b,
            "round {round}: {a} before the signal, {b} after the wait"
        );
    }
    Ok(())
}

fn device_clock(cx: &mut Context) -> Result<(), Failure> {
    let (device, stamp) = (cx.device(), cx.device().signal()?);
    for round in 0..20 {
        let before = device.now_ns();
        device
            .compute_queue(0)?
            .record()
            .timestamp(&stamp)?
            .submit()?
            .wait()?;
        let (at, after) = (stamp.timestamp(), device.now_ns());
        let error = device.clock_error_ns();
        ensure!(
            before != 0 && at != 0 && before <= at + error && at <= after + error,
            "round {round}: {at} is not in {before}..={after}, with an error of {error}"
        );
    }
    Ok(())
}

fn regions(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let mut commands = device.compute_queue(0)?.record();
    let outer = commands.begin("outer")?;
    let first = commands.begin("first")?;
    commands.memory_barrier()?.end(&first)?;
    let second = commands.begin("second")?;
    commands.memory_barrier()?.end(&second)?.end(&outer)?;
    same("times before it ran", outer.times(), None)?;
    let before = device.now_ns();
    commands.submit()?.wait()?;
    let after = device.now_ns();
    let times = |r: &Region| {
        r.times()
            .ok_or_else(|| Failure::new(format!("region {} has no times", r.name())))
    };
    let (outer, first, second) = (times(&outer)?, times(&first)?, times(&second)?);
    let order = [
        outer.start_ns,
        first.start_ns,
        first.end_ns,
        second.start_ns,
        second.end_ns,
        outer.end_ns,
    ];
    ensure!(order.is_sorted(), "times out of order: {order:?}");
    let error = device.clock_error_ns();
    ensure!(
        before <= outer.start_ns + error && outer.end_ns <= after + error,
        "{order:?} are not in {before}..={after}, with an error of {error}"
    );
    same(
        "the length",
        outer.duration_ns(),
        outer.end_ns - outer.start_ns,
    )
}

/// Two clocks of one interval: they may run apart by a thousandth, and by the grain of the coarser one.
fn lies_within(what: &str, device: u64, host: Duration) -> Result<(), Failure> {
    let most = host + host / 1000 + Duration::from_micros(2);
    ensure!(device > 0, "{what} took no time");
    let took = Duration::from_nanos(device);
    ensure!(
        took <= most,
        "{what} took {took:?} by the device's clock, within {host:?} by the host's"
    );
    Ok(())
}

fn kernel_time(cx: &mut Context) -> Result<(), Failure> {
    const GROUPS: u32 = 8;
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Spin)?;
    let out = device.alloc_from(&[0u32; GROUPS as usize])?;
    let (start, end) = (device.signal()?, device.signal()?);
    for turns in [100u32, 10_000, 100_000] {
        let mut commands = device.compute_queue(0)?.record();
        commands.timestamp(&start)?;
        let args = [Arg::from(&out), Arg::from(turns), Arg::from(1u32)];
        // SAFETY: `out` has a word for every group.
        unsafe { commands.exec(&kernel, &args, Grid::new(GROUPS, 1)) }?;
        commands.timestamp(&end)?;
        let since = Instant::now();
        commands.submit()?.wait()?;
        let host = since.elapsed();
        lies_within(
            &format!("{turns} turns"),
            end.timestamp().saturating_sub(start.timestamp()),
            host,
        )?;
        each("what it computed", &out.to_vec()?, |g| {
            spun(turns, 1, g as u32)
        })?;
    }
    Ok(())
}

fn copy_time(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (from, to) = (
        device.alloc_from(&bytes(1, 16 << 20))?,
        device.alloc::<u8>(16 << 20)?,
    );
    let (start, end) = (device.signal()?, device.signal()?);
    let mut commands = device.copy_queue(0)?.record();
    commands
        .timestamp(&start)?
        .copy(&to, &from)?
        .timestamp(&end)?;
    let since = Instant::now();
    commands.submit()?.wait()?;
    let host = since.elapsed();
    lies_within(
        "16 MiB",
        end.timestamp().saturating_sub(start.timestamp()),
        host,
    )?;
    bulk("the copy", &to.to_vec()?, &from.to_vec()?)?;
    Ok(())
}
