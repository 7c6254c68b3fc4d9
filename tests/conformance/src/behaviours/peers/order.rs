//! How devices wait for each other.

use std::thread;
use std::time::Duration;

use hcq_std::{Arg, Buffer, Device, Error, Grid, Point, Signal};

use super::{N, both, factors, reach, step, stepped};
use crate::check::{each, ensure, refused, same, word, words};
use crate::kinds::Stock;
use crate::{Context, Failure};

pub(super) fn signals(cx: &mut Context) -> Result<(), Failure> {
    for [home, guest] in both(cx)? {
        let gate = home.signal()?;
        let (seen, done) = (reach(gate.share(guest))?, guest.signal()?);
        let told = reach(done.share(home))?;
        for round in 1..=20u64 {
            let mut commands = guest.compute_queue(0)?.record();
            let held = commands
                .wait(&seen, round)?
                .signal(&done, round)?
                .submit()?;
            if round < 4 {
                // Give it time to go on by mistake.
                thread::sleep(Duration::from_millis(10));
            }
            same("what waits has gone on", told.value(), round - 1)?;
            ensure!(
                !held.is_done()?,
                "the submission is complete, its wait is not"
            );
            if round % 2 == 0 {
                gate.set(round)?;
            } else {
                let mut commands = home.compute_queue(0)?.record();
                commands.signal(&gate, round)?.submit()?;
            }
            // And back: the home's queue waits for the guest's.
            let mut commands = home.compute_queue(0)?.record();
            commands.wait(&told, round)?.submit()?.wait()?;
            held.wait()?;
            same(
                "both sides' values",
                [gate.value(), seen.value(), done.value(), told.value()],
                [round; 4],
            )?;
        }
    }
    Ok(())
}

pub(super) fn ping_pong(cx: &mut Context) -> Result<(), Failure> {
    // An even number.
    const ROUNDS: u32 = 100;
    for [home, guest] in both(cx)? {
        let data = home.alloc_from(&words(8, N))?;
        let seen = reach(data.share(guest))?;
        let ball = home.signal()?;
        let there = reach(ball.share(guest))?;
        let steps = [
            cx.kernel(home, Stock::Step)?,
            cx.kernel(guest, Stock::Step)?,
        ];
        // Of each pair the later turn first, so that what waits is not what was submitted last.
        for turn in (0..ROUNDS).map(|turn| turn ^ 1) {
            let (device, kernel, data, signal) = match turn % 2 {
                0 => (home, &steps[0], &*data, &ball),
                _ => (guest, &steps[1], &seen, &there),
            };
            step(device, kernel, data, factors(turn), |commands, done| {
                let commands = match done {
                    false => commands.wait(signal, u64::from(turn)),
                    true => commands.signal(signal, u64::from(turn) + 1),
                };
                commands.map(drop)
            })?;
        }
        home.synchronize()?;
        guest.synchronize()?;
        same("the ball", ball.value(), u64::from(ROUNDS))?;
        each("after all rounds", &data.to_vec()?, |i| {
            stepped(8, i, ROUNDS, factors)
        })?;
    }
    Ok(())
}

/// A submission that waits for another device's is made by a host that waits: it is the host's thread that must not go on.
pub(super) fn after(cx: &mut Context) -> Result<(), Failure> {
    for [first, second] in both(cx)? {
        for round in 1..=5u64 {
            let (gate, done) = (first.signal()?, second.signal()?);
            let mut commands = first.compute_queue(0)?.record();
            let held = commands.wait(&gate, 1u64)?.submit()?;
            thread::scope(|scope| {
                let late = scope.spawn(|| {
                    let mut commands = second.compute_queue(0)?.record();
                    commands.after(&held)?.signal(&done, round)?.submit()
                });
                thread::sleep(Duration::from_millis(5));
                same("what comes after has run", done.value(), 0)?;
                gate.set(1)?;
                let point = late
                    .join()
                    .map_err(|_| Failure::new("a submitting thread panicked"))??;
                point.wait()?;
                ensure!(
                    held.is_done()?,
                    "the second is complete, and the first is not"
                );
                same("what comes after", done.value(), round)
            })?;
        }
    }
    Ok(())
}

pub(super) fn after_many(cx: &mut Context) -> Result<(), Failure> {
    const ROUNDS: usize = 400;
    let devices = cx.open_peers(|o| o.timeline_span_log2(7))?;
    let [one, two] = &devices[..] else {
        return Err(Failure::missing("a second device of the same machine"));
    };
    let data = one.alloc::<u32>(1)?;
    let seen = reach(data.share(two))?;
    let mut points: Vec<Point> = Vec::new();
    for round in 0..ROUNDS {
        let (device, view) = match round % 2 {
            0 => (one, &*data),
            _ => (two, &seen),
        };
        let mut commands = device.compute_queue(0)?.record();
        // The last of both, one from long ago, and the first of all.
        let old = points.len() / 2;
        for point in points
            .iter()
            .rev()
            .take(2)
            .chain(points.get(old))
            .chain(points.first())
        {
            commands.after(point)?;
        }
        commands.write32(view.address(), round as u64 + 1)?;
        points.push(commands.submit()?);
    }
    for (round, point) in points.iter().enumerate().rev().step_by(37) {
        point.wait()?;
        ensure!(point.is_done()?, "point {round} is not done");
    }
    one.synchronize()?;
    two.synchronize()?;
    same("the last value", data.to_vec()?, vec![ROUNDS as u32])?;
    for timeline in [one.timeline()?, two.timeline()?] {
        ensure!(
            timeline.completed >> timeline.span_log2 > 0,
            "the timeline did not roll over: {timeline:?}"
        );
    }
    Ok(())
}

pub(super) fn ring_of_four(cx: &mut Context) -> Result<(), Failure> {
    const TURNS: usize = 41;
    let devices = cx.devices();
    let count = devices.len();
    let kernel = |d| cx.kernel(d, Stock::Add);
    let kernels = devices.iter().map(kernel).collect::<Result<Vec<_>, _>>()?;
    let buffers = (0u64..)
        .zip(devices)
        .map(|(seed, d)| d.alloc_from(&words(seed, N)))
        .collect::<Result<Vec<Buffer<u32>>, _>>()?;
    let mut before: Option<Point> = None;
    for turn in 1..TURNS {
        let (from, to) = ((turn - 1) % count, turn % count);
        let theirs = reach(buffers[from].share(&devices[to]))?;
        let mut commands = devices[to].compute_queue(0)?.record();
        if let Some(point) = &before {
            commands.after(point)?;
        }
        // out = a + b, of its neighbour's and its own.
        let args = [
            Arg::buffer(&theirs),
            Arg::buffer(&buffers[to]),
            Arg::buffer(&buffers[to]),
            Arg::from(N as u32),
        ];
        // SAFETY: the three have as many words as the last argument says.
        unsafe { commands.exec(&kernels[to], &args, Grid::new(N.div_ceil(64) as u32, 64)) }?;
        before = Some(commands.submit()?);
    }
    if let Some(point) = before {
        point.wait()?;
    }
    let mut wanted: Vec<Vec<u32>> = (0..count).map(|seed| words(seed as u64, N)).collect();
    for turn in 1..TURNS {
        let from = wanted[(turn - 1) % count].clone();
        for (to, from) in wanted[turn % count].iter_mut().zip(from) {
            *to = to.wrapping_add(from);
        }
    }
    for (i, (buffer, wanted)) in buffers.iter().zip(&wanted).enumerate() {
        each(&format!("device {i}"), &buffer.to_vec()?, |at| wanted[at])?;
    }
    Ok(())
}

pub(super) fn threads(cx: &mut Context) -> Result<(), Failure> {
    const ROUNDS: u64 = 100;
    let [one, two] = cx.pair()?;
    let work = |device: &Device, other: &Device, done: &Signal| -> Result<(), Error> {
        for round in 1..=ROUNDS {
            let mut commands = device.compute_queue(0)?.record();
            commands.after(&other.latest())?.after(&device.latest())?;
            commands.signal(done, round)?.submit()?;
        }
        device.synchronize()
    };
    let (a, b) = (one.signal()?, two.signal()?);
    thread::scope(|scope| {
        let threads = [
            scope.spawn(|| work(one, two, &a)),
            scope.spawn(|| work(two, one, &b)),
        ];
        for thread in threads {
            thread
                .join()
                .map_err(|_| Failure::new("a submitting thread panicked"))??;
        }
        Ok::<(), Failure>(())
    })?;
    same("the last values", [a.value(), b.value()], [ROUNDS; 2])
}

pub(super) fn timestamps(cx: &mut Context) -> Result<(), Failure> {
    for [first, second] in both(cx)? {
        let (a, b) = (first.signal()?, second.signal()?);
        let ball = first.signal()?;
        let seen = reach(ball.share(second))?;
        for round in 1..=50u64 {
            let start = first.now_ns();
            let mut waiting = second.compute_queue(0)?.record();
            waiting.wait(&seen, round)?.timestamp(&b)?.submit()?;
            let mut leading = first.compute_queue(0)?.record();
            leading.timestamp(&a)?.signal(&ball, round)?.submit()?;
            first.synchronize()?;
            second.synchronize()?;
            let end = second.now_ns();
            let (before, after) = (a.timestamp(), b.timestamp());
            // Asked last: they are of all that was told by then.
            let errors = [first.clock_error_ns(), second.clock_error_ns()];
            let most = errors[0] + errors[1];
            ensure!(
                before != 0 && after != 0 && before <= after + most,
                "round {round}: {before} before the signal, {after} after the wait, errors {errors:?}"
            );
            for (what, at, error) in [("first", before, errors[0]), ("second", after, errors[1])] {
                ensure!(
                    start <= at + error && at <= end + error,
                    "round {round}: the {what} is {at}, not in {start}..={end}, error {error}"
                );
            }
        }
    }
    Ok(())
}

pub(super) fn fault(cx: &mut Context) -> Result<(), Failure> {
    let [bad, good] = cx.pair()?;
    let data = good.alloc_from(&words(4, N))?;
    let never = bad
        .compute_queue(0)?
        .record()
        .write64(cx.unmapped(), 1u64)?
        .submit()?;
    let done = good.signal()?;
    let mut commands = good.compute_queue(0)?.record();
    commands.after(&never)?.signal(&done, 1u64)?;
    let by = |e: &Error| {
        matches!(e, Error::Elsewhere { device, cause }
            if device == bad.name() && matches!(**cause, Error::Fault(_)))
    };
    refused("a submission after a fault", commands.submit(), by)?;
    same("the good device's fault", good.fault(), None)?;
    let mut commands = good.compute_queue(0)?.record();
    commands.signal(&done, 2u64)?.submit()?.wait()?;
    same("the signal", done.value(), 2)?;
    each("its memory", &data.to_vec()?, |i| word(4, i))
}

pub(super) fn kernels(cx: &mut Context) -> Result<(), Failure> {
    const ROUNDS: u32 = 60;
    for [home, guest] in both(cx)? {
        let data = home.alloc_from(&words(5, N))?;
        let seen = reach(data.share(guest))?;
        let steps = [
            cx.kernel(home, Stock::Step)?,
            cx.kernel(guest, Stock::Step)?,
        ];
        let mut last: Option<Point> = None;
        for round in 0..ROUNDS {
            let (device, kernel, data) = match round % 2 {
                0 => (home, &steps[0], &*data),
                _ => (guest, &steps[1], &seen),
            };
            let before = last.as_ref();
            let point = step(
                device,
                kernel,
                data,
                factors(round),
                |commands, done| match before.filter(|_| !done) {
                    Some(point) => commands.after(point).map(drop),
                    None => Ok(()),
                },
            )?;
            last = Some(point);
        }
        if let Some(point) = last {
            point.wait()?;
        }
        each("after all rounds", &data.to_vec()?, |i| {
            stepped(5, i, ROUNDS, factors)
        })?;
    }
    Ok(())
}
