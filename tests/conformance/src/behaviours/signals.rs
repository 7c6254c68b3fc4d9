//! Signals: written by queues, waited for by queues and hosts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hcq_std::{Error, Queue, Signal, Value};

use crate::check::{ensure, patiently, refused, same, says};
use crate::{Behaviour, Context, Failure, Needs};

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "signal.set-by-queue",
        what: "a queue sets a signal to the value given, and touches none of its neighbours",
        needs: Needs::COMPUTE,
        run: set_by_queue,
    },
    Behaviour {
        name: "signal.set-by-copy-queue",
        what: "so does a copy queue",
        needs: Needs::COPY,
        run: set_by_copy_queue,
    },
    Behaviour {
        name: "signal.patched",
        what: "a bound queue waits for and signals values that are patched between submissions",
        needs: Needs::COMPUTE,
        run: patched,
    },
    Behaviour {
        name: "signal.patched-addresses",
        what: "a bound queue waits for and sets the signals whose addresses are patched in, and no others",
        needs: Needs::COMPUTE,
        run: patched_addresses,
    },
    Behaviour {
        name: "signal.late-wait",
        what: "a queue that waits goes on when the host sets the value later, and not before",
        needs: Needs::COMPUTE,
        run: late_wait,
    },
    Behaviour {
        name: "signal.wait-at-least",
        what: "a wait passes at the value wanted and above, and holds one below",
        needs: Needs::COMPUTE,
        run: wait_at_least,
    },
    Behaviour {
        name: "signal.wait-timeout",
        what: "a host's wait for a signal gives up, names the value wanted and the value seen, and harms nothing",
        needs: Needs::COMPUTE,
        run: wait_timeout,
    },
    Behaviour {
        name: "signal.synchronize-timeout",
        what: "synchronizing a held queue gives up, names points wanted and seen, and works once the queue goes on",
        needs: Needs::COMPUTE,
        run: synchronize_timeout,
    },
    Behaviour {
        name: "signal.progress-restarts-timeout",
        what: "a wait longer than its timeout is no timeout while the value moves",
        needs: Needs::COMPUTE,
        run: progress_restarts_timeout,
    },
    Behaviour {
        name: "signal.reused",
        what: "a signal whose memory another one had before starts from zero, and no late write reaches it",
        needs: Needs::COMPUTE,
        run: reused,
    },
    Behaviour {
        name: "signal.host-to-host",
        what: "host threads that sleep on a signal are woken when another host thread or a queue sets it",
        needs: Needs::COMPUTE,
        run: host_to_host,
    },
];

const SHORT: Duration = Duration::from_millis(30);

fn set_by_queue(cx: &mut Context) -> Result<(), Failure> {
    let queue = cx.device().compute_queue(0)?;
    set(cx, queue)
}

fn set_by_copy_queue(cx: &mut Context) -> Result<(), Failure> {
    let queue = cx.device().copy_queue(0)?;
    set(cx, queue)
}

fn set(cx: &Context, queue: Queue) -> Result<(), Failure> {
    let signals = (0..16)
        .map(|_| cx.device().signal())
        .collect::<Result<Vec<_>, _>>()?;
    for (i, s) in signals.iter().enumerate() {
        ensure!(
            s.address().is_multiple_of(16),
            "signal {i} is at {:#x}, no multiple of 16",
            s.address()
        );
        same("a new signal", s.value(), 0)?;
        s.set(100 + i as u64)?;
    }
    queue
        .record()
        .signal(&signals[7], 0x1234_5678u64)?
        .submit()?
        .wait()?;
    for (i, s) in signals.iter().enumerate() {
        let wanted = if i == 7 { 0x1234_5678 } else { 100 + i as u64 };
        same(&format!("signal {i}"), s.value(), wanted)?;
        // An engine may store its clock beside the value, which only it may.
        ensure!(
            i == 7 || s.timestamp() == 0,
            "signal {i} has a timestamp of nobody's"
        );
    }
    // Later commands write over it, in order.
    let mut commands = queue.record();
    for value in 1..=100u64 {
        commands.signal(&signals[7], value)?;
    }
    commands.submit()?.wait()?;
    same("the last of a hundred", signals[7].value(), 100)
}

fn patched(cx: &mut Context) -> Result<(), Failure> {
    let (gate, done) = (cx.device().signal()?, cx.device().signal()?);
    let mut commands = cx.device().compute_queue(0)?.record();
    let (open, answer) = (commands.var()?, commands.var()?);
    commands
        .wait(&gate, open)?
        .signal(&done, Value::from(answer) * 2 + 1)?;
    let mut bound = commands.bind()?;
    for round in 1..=100u64 {
        bound.set(open, round)?;
        bound.set(answer, 1000 * round)?;
        let point = bound.submit()?;
        // The value of the last round does not open this one.
        ensure!(
            !point.is_done()?,
            "round {round} did not wait for the value that was patched in"
        );
        same(
            "the answer before",
            done.value(),
            if round == 1 {
                0
            } else {
                2000 * (round - 1) + 1
            },
        )?;
        gate.set(round)?;
        point.wait()?;
        same("the answer", done.value(), 2000 * round + 1)?;
    }
    Ok(())
}

fn patched_addresses(cx: &mut Context) -> Result<(), Failure> {
    let signals = (0..8)
        .map(|_| cx.device().signal())
        .collect::<Result<Vec<_>, _>>()?;
    let mut commands = cx.device().compute_queue(0)?.record();
    let (from, to, value) = (commands.var()?, commands.var()?, commands.var()?);
    commands
        .wait_at(from, value)?
        .signal_at(to, Value::from(value) + 1)?;
    let mut bound = commands.bind()?;
    signals[0].set(1)?;
    for step in 1..=40u64 {
        // Around the circle: each waits for what the one before has set.
        let (a, b) = ((step - 1) as usize % 8, step as usize % 8);
        bound.set(from, signals[a].address())?;
        bound.set(to, signals[b].address())?;
        bound.set(value, step)?;
        bound.submit()?;
    }
    cx.device().synchronize()?;
    for (i, s) in signals.iter().enumerate() {
        // The last of the steps 33 to 40 that set it.
        same(
            &format!("signal {i}"),
            s.value(),
            if i == 0 { 41 } else { 33 + i as u64 },
        )?;
    }
    Ok(())
}

fn late_wait(cx: &mut Context) -> Result<(), Failure> {
    let (gate, before, after) = (
        cx.device().signal()?,
        cx.device().signal()?,
        cx.device().signal()?,
    );
    let queue = cx.device().compute_queue(0)?;
    let point = queue
        .record()
        .signal(&before, 1u64)?
        .wait(&gate, 7u64)?
        .signal(&after, 1u64)?
        .submit()?;
    before.wait(1)?;
    // It stands before the wait now. Give it time to go on by mistake.
    thread::sleep(SHORT);
    same("what follows the wait", after.value(), 0)?;
    ensure!(
        !point.is_done()?,
        "the submission is complete, its wait is not"
    );
    gate.set(7)?;
    after.wait(1)?;
    point.wait()?;
    Ok(())
}

fn wait_at_least(cx: &mut Context) -> Result<(), Failure> {
    let queue = cx.device().compute_queue(0)?;
    for (wanted, value) in [
        (5u64, 5u64),
        (5, 6),
        (5, 0x7fff_ffff),
        (1, 1),
        (0, 0),
        (0x7fff_fffe, 0x7fff_ffff),
    ] {
        let (gate, after) = (cx.device().signal()?, cx.device().signal()?);
        let point = queue
            .record()
            .wait(&gate, wanted)?
            .signal(&after, 1u64)?
            .submit()?;
        if let Some(below) = wanted.checked_sub(1) {
            gate.set(below)?;
            thread::sleep(Duration::from_millis(2));
            same(
                &format!("a wait for {wanted} at {below} has passed"),
                after.value(),
                0,
            )?;
        }
        gate.set(value)?;
        point.wait()?;
        same(
            &format!("a wait for {wanted} at {value} has passed"),
            after.value(),
            1,
        )?;
    }
    Ok(())
}

fn wait_timeout(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.open(|o| o.wait_timeout_ms(30))?;
    let signal = device.signal()?;
    signal.set(41)?;
    let by = |e: &Error| matches!(e, Error::Timeout { wanted: 4242, seen: 41, waited, .. } if *waited >= SHORT);
    for late in [signal.wait_for(4242, SHORT), signal.wait(4242)] {
        let e = refused("a wait for a value that nobody sets", late, by)?;
        says(
            &e.to_string(),
            &["4242", "41", "timed out", "HCQDEV_WAIT_TIMEOUT_MS"],
        )?;
    }
    same("the signal", signal.value(), 41)?;
    ensure!(
        device.fault().is_none(),
        "a host that gives up waiting is no fault of the device"
    );
    device
        .compute_queue(0)?
        .record()
        .signal(&signal, 4242u64)?
        .submit()?;
    patiently(|| signal.wait(4242))?;
    Ok(patiently(|| device.synchronize())?)
}

fn synchronize_timeout(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.open(|o| o.wait_timeout_ms(30))?;
    let (gate, done) = (device.signal()?, device.signal()?);
    let queue = device.compute_queue(0)?;
    let first = queue.record().signal(&done, 1u64)?.submit()?;
    patiently(|| first.wait())?;
    let held = queue.record().wait(&gate, 1u64)?.submit()?;
    let (from, to) = (first.number(), held.number());
    let by = |e: &Error| matches!(e, Error::Timeout { wanted, seen, .. } if (*wanted, *seen) == (to, from));
    let e = refused("synchronizing a held queue", device.synchronize(), by)?;
    says(
        &e.to_string(),
        &["timed out", &format!("wanted {to}, seen {from}")],
    )?;
    refused("waiting for a held submission", held.wait(), by)?;
    gate.set(1)?;
    queue.record().signal(&done, 2u64)?.submit()?;
    patiently(|| held.wait())?;
    patiently(|| done.wait(2))?;
    Ok(patiently(|| device.synchronize())?)
}

/// A thread sets the signal 1, 2, 3 .. in steps far shorter than the timeout, for longer than it altogether. When the
/// machine held the thread up for half a timeout the round says nothing, and another is made.
fn progress_restarts_timeout(cx: &mut Context) -> Result<(), Failure> {
    const TIMEOUT: Duration = Duration::from_millis(600);
    const STEP: Duration = Duration::from_millis(30);
    const STEPS: u64 = 30;
    let device = cx.open(|o| o.wait_timeout_ms(TIMEOUT.as_millis() as u64))?;
    for _ in 0..5 {
        let signal = device.signal()?;
        let stalled = AtomicBool::new(false);
        let result = thread::scope(|scope| {
            scope.spawn(|| set_in_steps(&signal, STEP, STEPS, TIMEOUT / 2, &stalled));
            signal.wait(STEPS)
        });
        match (result, stalled.load(Ordering::Relaxed)) {
            (Ok(_), _) => return Ok(device.close()?),
            (Err(Error::Timeout { .. }), true) => {}
            (Err(e), _) => return Err(e.into()),
        }
    }
    Err(Failure::missing(
        "a machine that lets a thread run every 300 ms",
    ))
}

fn set_in_steps(signal: &Signal, step: Duration, steps: u64, most: Duration, stalled: &AtomicBool) {
    let mut last = Instant::now();
    for value in 1..=steps {
        thread::sleep(step);
        if last.elapsed() >= most {
            stalled.store(true, Ordering::Relaxed);
        }
        last = Instant::now();
        // What goes wrong here shows as a timeout.
        let _ = signal.set(value);
    }
}

fn reused(cx: &mut Context) -> Result<(), Failure> {
    let queue = cx.device().compute_queue(0)?;
    for round in 0..20u64 {
        let gate = cx.device().signal()?;
        let mut commands = queue.record();
        commands.wait(&gate, 1u64)?;
        for _ in 0..100 {
            let s = cx.device().signal()?;
            same(
                "a new signal's value and timestamp",
                (s.value(), s.timestamp()),
                (0, 0),
            )?;
            commands.signal(&s, 1000 + round)?.timestamp(&s)?;
        }
        // A hundred signals are dropped, and will be written to once the gate opens.
        let point = commands.submit()?;
        // More than a pool has left, so that one which hands out too early hands out these.
        let others = (0..600)
            .map(|_| cx.device().signal())
            .collect::<Result<Vec<_>, _>>()?;
        gate.set(1)?;
        point.wait()?;
        for s in &others {
            same(
                "a signal of somebody else's",
                (s.value(), s.timestamp()),
                (0, 0),
            )?;
        }
    }
    Ok(())
}

fn host_to_host(cx: &mut Context) -> Result<(), Failure> {
    let queue = cx.device().compute_queue(0)?;
    for round in 0..50 {
        let (start, end) = (cx.device().signal()?, cx.device().signal()?);
        thread::scope(|scope| {
            let sleep = || start.wait(1).and_then(|_| end.wait(1));
            let sleepers: Vec<_> = (0..4).map(|_| scope.spawn(sleep)).collect();
            if round % 2 == 0 {
                // Let them fall asleep in half of the rounds.
                thread::sleep(Duration::from_millis(1));
            }
            start.set(1)?;
            queue.record().signal(&end, 1u64)?.submit()?;
            for sleeper in sleepers {
                sleeper
                    .join()
                    .map_err(|_| Failure::new("a waiting thread panicked"))??;
            }
            Ok::<(), Failure>(())
        })?;
    }
    Ok(())
}
