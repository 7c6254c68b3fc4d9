//! Faults: they arrive as data, stay until the device recovers, and hold nobody up.
#![allow(unsafe_code, reason = "launches kernels and copies by address")]

use std::thread;
use std::time::Duration;

use hcq_std::{Access, Device, Error, FaultKind, FaultRecord, Grid, Queue};

use super::exec::step;
use crate::check::{each, ensure, refused, same, says, word, words};
use crate::kinds::Stock;
use crate::{Behaviour, Context, Failure, Needs};

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "fault.write",
        what: "a write to no memory is a fault record with kind, access, address and the points around it",
        needs: Needs::COMPUTE.faults(),
        run: write,
    },
    Behaviour {
        name: "fault.copy",
        what: "so are copies from and to no memory; what was no part of them is as before",
        needs: Needs::COPY.recovery().faults(),
        run: copy,
    },
    Behaviour {
        name: "fault.wait-and-poll",
        what: "so are waits and polls at no memory",
        needs: Needs::COMPUTE.faults(),
        run: wait_and_poll,
    },
    Behaviour {
        name: "fault.sticky",
        what: "after a fault every wait returns at once, every submission is refused, and the first fault stays",
        needs: Needs::COMPUTE.compute(2).faults(),
        run: sticky,
    },
    Behaviour {
        name: "fault.releases-waiters",
        what: "threads that wait for points and signals when the fault comes get it",
        needs: Needs::COMPUTE.faults(),
        run: releases_waiters,
    },
    Behaviour {
        name: "fault.earlier-work-stands",
        what: "what was done before the fault stands when the device has recovered",
        needs: Needs::COMPUTE.recovery().faults(),
        run: earlier_work_stands,
    },
    Behaviour {
        name: "fault.stops-its-queue",
        what: "nothing behind a command at fault runs, in its submission and after it, also after recovery",
        needs: Needs::COMPUTE.recovery().precise_faults().faults(),
        run: stops_its_queue,
    },
    Behaviour {
        name: "fault.recover",
        what: "a device that recovers works on: work in flight is lost in words, memory and points before it stand",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]).recovery().faults(),
        run: recover,
    },
    Behaviour {
        name: "fault.recover-held",
        what: "recovery drops what other queues hold, and none of it runs later",
        needs: Needs::COMPUTE.compute(2).recovery().faults(),
        run: recover_held,
    },
    Behaviour {
        name: "fault.bound",
        what: "a bound queue that faulted for a value patched in works with a better one after recovery",
        needs: Needs::COMPUTE.recovery().faults(),
        run: bound,
    },
    Behaviour {
        name: "fault.fresh-device",
        what: "a fault is one device's own: devices beside it and opened after it work",
        needs: Needs::COMPUTE.outlives_faults(),
        run: fresh_device,
    },
    Behaviour {
        name: "fault.drop",
        what: "a device in error with work held in other queues is dropped without a wait for it",
        needs: Needs::COMPUTE.compute(2).faults(),
        run: drop_in_error,
    },
];

/// Far longer than anything here takes: a wait that a fault does not end shows as a timeout.
const LONG_MS: u64 = 20_000;

fn patient(cx: &Context) -> Result<Device, Failure> {
    cx.open(|o| o.wait_timeout_ms(LONG_MS))
}

/// The record of a refused call.
#[track_caller]
fn faulted<T>(what: &str, result: Result<T, Error>) -> Result<FaultRecord, Failure> {
    match result {
        Ok(_) => Err(Failure::new(format!(
            "{what} succeeded on a device in error"
        ))),
        Err(Error::Fault(record)) => Ok(record),
        Err(e) => Err(Failure::new(format!("{what}: a fault wanted, seen: {e}"))),
    }
}

/// Submits a write to no memory and waits for the fault.
fn break_it(cx: &Context, device: &Device, queue: &Queue) -> Result<FaultRecord, Failure> {
    let point = queue.record().write64(cx.unmapped(), 1u64)?.submit()?;
    let record = faulted("a write to no memory", point.wait())?;
    same("the device's fault", device.fault(), Some(record))?;
    Ok(record)
}

fn write(cx: &mut Context) -> Result<(), Failure> {
    let device = patient(cx)?;
    let queue = device.compute_queue(0)?;
    let before = queue.record().memory_barrier()?.submit()?;
    before.wait()?;
    same("the fault before", device.fault(), None)?;
    let at = cx.unmapped() + 0x240;
    let point = queue.record().write64(at, 7u64)?.submit()?;
    let record = faulted("a write to no memory", point.wait())?;
    cx.same_kind(&record)?;
    cx.same_access(&record, Access::Write)?;
    cx.same_page(&record, at)?;
    same(
        "the last point signalled",
        record.last_signalled,
        before.number(),
    )?;
    same(
        "the first point not signalled",
        record.first_not_signalled,
        point.number(),
    )?;
    let e = refused(
        "waiting again",
        point.wait(),
        |e| matches!(e, Error::Fault(r) if *r == record),
    )?;
    let kind = match (record.kind, record.access) {
        (FaultKind::Memory, Access::Write) => "memory fault writing",
        (FaultKind::Memory, _) => "memory fault",
        _ => "hardware error",
    };
    says(
        &e.to_string(),
        &[kind, &format!("{:#x}", record.address), "recover"],
    )
}

fn copy(cx: &mut Context) -> Result<(), Failure> {
    let page = cx.unmapped();
    let device = patient(cx)?;
    let (buffer, queue) = (device.alloc_from(&words(1, 64))?, device.copy_queue(0)?);
    for (from, to, access) in [
        (page, buffer.address() + 128, Access::Read),
        (buffer.address(), page, Access::Write),
    ] {
        let mut commands = queue.record();
        // SAFETY: one of the ranges is no memory, so nothing is copied.
        unsafe { commands.copy_raw(to, from, 64u64) }?;
        let record = faulted("a copy with no memory", commands.submit()?.wait())?;
        same("its kind", record.kind, FaultKind::Memory)?;
        cx.same_access(&record, access)?;
        cx.same_page(&record, page)?;
        device.recover()?;
        each("the buffer", &buffer.to_vec()?, |i| word(1, i))?;
    }
    Ok(())
}

fn wait_and_poll(cx: &mut Context) -> Result<(), Failure> {
    let page = cx.unmapped();
    for case in 0..cx.faults(3) {
        let device = patient(cx)?;
        let mut commands = device.compute_queue(0)?.record();
        match case {
            0 => commands.poll_bit(page, 1, 1u64)?,
            1 => commands.wait_at(page, 1u64)?,
            _ => commands.signal_at(page, 1u64)?,
        };
        let record = faulted("a command at no memory", commands.submit()?.wait())?;
        cx.same_kind(&record)?;
        cx.same_page(&record, page)?;
    }
    Ok(())
}

fn sticky(cx: &mut Context) -> Result<(), Failure> {
    let device = patient(cx)?;
    let (queue, other) = (device.compute_queue(0)?, device.compute_queue(1)?);
    let (data, never) = (device.alloc_from(&[1u32; 4])?, device.signal()?);
    let done = queue.record().write32(data.address(), 2u32)?.submit()?;
    done.wait()?;
    let mut bound = {
        let mut commands = other.record();
        commands.write32(data.address(), 3u32)?;
        commands.bind()?
    };
    let held = other.record().wait(&never, 1u64)?.submit()?;
    let record = break_it(cx, &device, &queue)?;
    // None of these waits for anything.
    for what in ["first", "again"] {
        same(
            &format!("the fault, {what}"),
            faulted("synchronize", device.synchronize())?,
            record,
        )?;
        same(
            "in a wait for a held point",
            faulted("the held point", held.wait())?,
            record,
        )?;
        same(
            "in a wait for a signal",
            faulted("the signal", never.wait(1))?,
            record,
        )?;
        same(
            "in a wait with a time",
            faulted("the signal", never.wait_for(1, Duration::from_secs(3600)))?,
            record,
        )?;
        same(
            "in a look at a point",
            faulted("the held point", held.is_done())?,
            record,
        )?;
        for queue in [&queue, &other] {
            let mut commands = queue.record();
            commands.write32(data.address(), 9u32)?;
            same(
                "in a submission",
                faulted("a submission", commands.submit().map(drop))?,
                record,
            )?;
        }
        same(
            "in a bound submission",
            faulted("a bound submission", bound.submit().map(drop))?,
            record,
        )?;
        same(
            "in a host copy",
            faulted("a host copy", data.to_vec())?,
            record,
        )?;
        same(
            "in a host write",
            faulted("a host write", data.write(&[5; 4]))?,
            record,
        )?;
    }
    // What was complete stays complete, and a signal that is there counts.
    ensure!(done.is_done()?, "a complete point is not complete any more");
    done.wait()?;
    never.set(1)?;
    never.wait(1)?;
    same("the device's fault", device.fault(), Some(record))
}

fn releases_waiters(cx: &mut Context) -> Result<(), Failure> {
    let device = patient(cx)?;
    let (queue, gate, never) = (device.compute_queue(0)?, device.signal()?, device.signal()?);
    queue
        .record()
        .wait(&gate, 1u64)?
        .write64(cx.unmapped(), 1u64)?
        .submit()?;
    let last = queue.record().signal(&never, 1u64)?.submit()?;
    thread::scope(|scope| {
        let waits: Vec<_> = (0..6)
            .map(|i| {
                let (device, last, never) = (&device, &last, &never);
                scope.spawn(move || match i % 3 {
                    0 => last.wait(),
                    1 => never.wait(1).map(drop),
                    _ => device.synchronize(),
                })
            })
            .collect();
        // Let them fall asleep.
        thread::sleep(Duration::from_millis(20));
        gate.set(1)?;
        for (i, wait) in waits.into_iter().enumerate() {
            let result = wait
                .join()
                .map_err(|_| Failure::new("a waiting thread panicked"))?;
            let record = faulted(&format!("waiter {i}"), result)?;
            cx.same_kind(&record)?;
        }
        Ok(())
    })
}

fn earlier_work_stands(cx: &mut Context) -> Result<(), Failure> {
    let device = patient(cx)?;
    let (queue, data, before) = (
        device.compute_queue(0)?,
        device.alloc_from(&[0u32; 4])?,
        device.signal()?,
    );
    queue.record().write32(data.address(), 1u32)?.submit()?;
    let mut commands = queue.record();
    commands
        .write32(data.address() + 4, 2u32)?
        .signal(&before, 1u64)?
        .write64(cx.unmapped(), 1u64)?;
    faulted("the submission", commands.submit()?.wait())?;
    same("the signal before the fault", before.value(), 1)?;
    device.recover()?;
    same("words before the fault", data.to_vec()?, vec![1, 2, 0, 0])
}

fn stops_its_queue(cx: &mut Context) -> Result<(), Failure> {
    let device = patient(cx)?;
    let (queue, data, after) = (
        device.compute_queue(0)?,
        device.alloc_from(&[7u32; 64])?,
        device.signal()?,
    );
    // Both the fault and what follows it are there before any of it runs.
    let gate = device.signal()?;
    queue.record().wait(&gate, 1u64)?.submit()?;
    let mut commands = queue.record();
    commands.write64(cx.unmapped(), 1u64)?;
    for i in 0..64 {
        commands.write32(data.address() + 4 * i, 1u32)?;
    }
    let point = commands.signal(&after, 1u64)?.submit()?;
    queue
        .record()
        .write32(data.address(), 2u32)?
        .signal(&after, 2u64)?
        .submit()?;
    gate.set(1)?;
    faulted("the submission", point.wait())?;
    device.recover()?;
    queue.record().memory_barrier()?.submit()?.wait()?;
    each("the words", &data.to_vec()?, |_| 7)?;
    same("the signal", after.value(), 0)
}

fn recover(cx: &mut Context) -> Result<(), Failure> {
    const N: u32 = 64;
    let device = cx.open(|o| o.wait_timeout_ms(LONG_MS).timeline_span_log2(4))?;
    let kernel = cx.kernel(&device, Stock::Step)?;
    let queue = device.compute_queue(0)?;
    let data = device.alloc_from(&words(3, N as usize))?;
    let mut wanted = words(3, N as usize);
    device.recover()?;
    // More rounds than an epoch has points, so that faults meet every place in it.
    for round in 0..40u32 {
        let mut commands = queue.record();
        // SAFETY: `data` has `N` words.
        unsafe { commands.exec(&kernel, &step(&data, 3, round, N), Grid::new(2, 32)) }?;
        let good = commands.submit()?;
        wanted
            .iter_mut()
            .for_each(|w| *w = w.wrapping_mul(3).wrapping_add(round));
        let bad = queue.record().write64(cx.unmapped(), 1u64)?.submit()?;
        faulted("the bad submission", bad.wait())?;
        device.recover()?;
        same("the fault after recovery", device.fault(), None)?;
        good.wait()?;
        let number = bad.number();
        refused(
            "waiting for lost work",
            bad.wait(),
            |e| matches!(e, Error::Lost { point } if *point == number),
        )?;
        refused("looking at lost work", bad.is_done(), |e| {
            matches!(e, Error::Lost { .. })
        })?;
        each(&format!("round {round}"), &data.to_vec()?, |i| wanted[i])?;
    }
    drop((data, kernel, queue));
    Ok(device.close()?)
}

fn recover_held(cx: &mut Context) -> Result<(), Failure> {
    let device = patient(cx)?;
    let (queue, other) = (device.compute_queue(0)?, device.compute_queue(1)?);
    let data = device.alloc_from(&[0u32; 8])?;
    for round in 1..=10u32 {
        let gate = device.signal()?;
        let held = other
            .record()
            .wait(&gate, 1u64)?
            .write32(data.address() + 4, 99u32)?
            .submit()?;
        let behind = other
            .record()
            .write32(data.address() + 8, 99u32)?
            .submit()?;
        break_it(cx, &device, &queue)?;
        device.recover()?;
        gate.set(1)?;
        for point in [held, behind] {
            refused("waiting for dropped work", point.wait(), |e| {
                matches!(e, Error::Lost { .. })
            })?;
        }
        for queue in [&queue, &other] {
            queue
                .record()
                .write32(data.address(), round)?
                .submit()?
                .wait()?;
        }
        same(
            &format!("round {round}"),
            data.to_vec()?,
            vec![round, 0, 0, 0, 0, 0, 0, 0],
        )?;
    }
    drop((data, queue, other));
    Ok(device.close()?)
}

fn bound(cx: &mut Context) -> Result<(), Failure> {
    let device = patient(cx)?;
    let data = device.alloc_from(&[0u32; 4])?;
    let mut commands = device.compute_queue(0)?.record();
    let (at, value) = (commands.var()?, commands.var()?);
    commands.write32(at, value)?;
    let mut bound = commands.bind()?;
    for round in 1..=5u64 {
        bound.set(at, cx.unmapped())?;
        bound.set(value, round)?;
        let point = bound.submit()?;
        faulted("a bad address patched in", point.wait())?;
        device.recover()?;
        bound.set(at, data.address() + 4)?;
        bound.submit()?.wait()?;
        same(
            &format!("round {round}"),
            data.to_vec()?,
            vec![0, round as u32, 0, 0],
        )?;
    }
    drop((bound, data));
    Ok(device.close()?)
}

fn fresh_device(cx: &mut Context) -> Result<(), Failure> {
    let (broken, beside) = (patient(cx)?, patient(cx)?);
    break_it(cx, &broken, &broken.compute_queue(0)?)?;
    let after = patient(cx)?;
    for device in [&beside, &after] {
        let data = device.alloc_from(&[1u32, 2])?;
        device
            .compute_queue(0)?
            .record()
            .write32(data.address(), 5u32)?
            .submit()?
            .wait()?;
        same("its memory", data.to_vec()?, vec![5, 2])?;
        same("its fault", device.fault(), None)?;
    }
    ensure!(
        broken.fault().is_some(),
        "the fault has gone from its own device"
    );
    drop(broken);
    beside
        .compute_queue(0)?
        .record()
        .memory_barrier()?
        .submit()?
        .wait()?;
    beside.close()?;
    Ok(after.close()?)
}

fn drop_in_error(cx: &mut Context) -> Result<(), Failure> {
    for _ in 0..cx.faults(5) {
        let device = patient(cx)?;
        let (queue, other, never) = (
            device.compute_queue(0)?,
            device.compute_queue(1)?,
            device.signal()?,
        );
        let data = device.alloc_from(&words(1, 1000))?;
        other
            .record()
            .wait(&never, 1u64)?
            .write32(data.address(), 1u32)?
            .submit()?;
        break_it(cx, &device, &queue)?;
        faulted("closing", device.clone().close())?;
        drop((data, queue, other, never));
        drop(device);
    }
    Ok(())
}
