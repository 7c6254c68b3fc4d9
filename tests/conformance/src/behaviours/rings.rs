//! Rings and arenas where they wrap, and where they are full.
#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hcq_std::{Arg, Device, Error, Grid};

use crate::check::{Numbers, each, ensure, patiently, refused, same, says, word, words};
use crate::kinds::{Stock, spun};
use crate::{Behaviour, Context, Failure, Needs};

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "ring.wrap-at-every-alignment",
        what: "submissions of every length go over the ring's end at every place in it",
        needs: Needs::COMPUTE,
        run: wrap,
    },
    Behaviour {
        name: "ring.wrap-with-kernels",
        what: "launches and waits of mixed lengths wrap around a small ring without a host wait, in order",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: wrap_with_kernels,
    },
    Behaviour {
        name: "ring.longer-than-the-ring",
        what: "a submission many times longer than the ring is whole, and in order with its neighbours",
        needs: Needs::COMPUTE,
        run: longer_than_the_ring,
    },
    Behaviour {
        name: "ring.full",
        what: "submitting to a full ring waits for room, loses nothing, and overwrites nothing",
        needs: Needs::COMPUTE,
        run: full,
    },
    Behaviour {
        name: "ring.full-timeout",
        what: "a ring that stays full is a timeout in words; the recording is whole and can be submitted later",
        needs: Needs::COMPUTE.compute(2),
        run: full_timeout,
    },
    Behaviour {
        name: "ring.full-copy-queue",
        what: "so it is with a copy queue and its staged uploads",
        needs: Needs::COPY,
        run: full_copy_queue,
    },
    Behaviour {
        name: "arena.kernargs-wrap-in-flight",
        what: "argument blocks of launches in flight are never written over, while the arena wraps many times",
        needs: Needs::COMPUTE.kernels(&[Stock::Fill, Stock::Spin]),
        run: kernargs_wrap,
    },
    Behaviour {
        name: "arena.held-kernargs",
        what: "argument blocks of a thousand launches that are held keep their values until they run",
        needs: Needs::COMPUTE.kernels(&[Stock::Fill]),
        run: held_kernargs,
    },
    Behaviour {
        name: "arena.staging-wrap-in-flight",
        what: "staged data in flight are never written over, while four times what staging may hold goes through",
        needs: Needs::COPY,
        run: staging_wrap,
    },
];

/// The smallest ring that can be asked for; a device may make a larger one of it.
const RING: usize = 16;

fn wrap(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.open(|o| o.ring_packets(RING))?;
    let queue = device.compute_queue(0)?;
    let rounds = 2 * cx.smallest_ring();
    let out = device.alloc::<u32>(RING * rounds)?;
    for len in 1..RING as u32 {
        out.fill(u32::MAX)?;
        // Each length starts at every place of the ring at least twice, whatever a submission adds of its own.
        let mut next = 0;
        for _ in 0..rounds {
            let mut commands = queue.record();
            for _ in 0..len {
                commands.write32(out.address() + 4 * u64::from(next), next ^ len << 16)?;
                next += 1;
            }
            commands.submit()?;
        }
        device.synchronize()?;
        each(
            &format!("submissions of {len} writes"),
            &out.to_vec()?,
            |i| {
                if i < next as usize {
                    i as u32 ^ len << 16
                } else {
                    u32::MAX
                }
            },
        )?;
        // And from there, the next length starts one further on.
        queue.record().memory_barrier()?.submit()?;
    }
    drop((out, queue));
    Ok(device.close()?)
}

fn wrap_with_kernels(cx: &mut Context) -> Result<(), Failure> {
    const N: u32 = 32;
    let device = cx.open(|o| o.ring_packets(RING).arena_bytes(1024))?;
    let kernel = cx.kernel(&device, Stock::Step)?;
    let (queue, data, gate) = (
        device.compute_queue(0)?,
        device.alloc_from(&words(1, N as usize))?,
        device.signal()?,
    );
    let mut wanted = words(1, N as usize);
    let mut numbers = Numbers::new(16);
    gate.set(1)?;
    for _ in 0..400 {
        let mut commands = queue.record();
        for _ in 0..1 + numbers.below(6) {
            if numbers.below(3) == 0 {
                commands.wait(&gate, 1u64)?;
            }
            let (factor, add) = (numbers.next() as u32 | 1, numbers.next() as u32);
            // SAFETY: `data` has `N` words.
            unsafe {
                commands.exec(
                    &kernel,
                    &super::exec::step(&data, factor, add, N),
                    Grid::new(1, N),
                )
            }?;
            wanted
                .iter_mut()
                .for_each(|w| *w = w.wrapping_mul(factor).wrapping_add(add));
        }
        commands.submit()?;
    }
    device.synchronize()?;
    each("after 400 submissions", &data.to_vec()?, |i| wanted[i])?;
    drop((data, kernel, gate, queue));
    Ok(device.close()?)
}

fn longer_than_the_ring(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.open(|o| o.ring_packets(RING))?;
    let queue = device.compute_queue(0)?;
    let out = device.alloc::<u32>(5000)?;
    let ring = cx.smallest_ring();
    for len in [RING - 2, RING - 1, RING, RING + 1, ring + 1, 4999] {
        out.fill(0)?;
        queue.record().write32(out.address(), 1u32)?.submit()?;
        let mut commands = queue.record();
        // The first word is of the submission before; each write needs the one before it.
        for i in 1..=len as u64 {
            commands.poll_bit(out.address() + 4 * (i - 1), 1, 1u64)?;
            commands.write32(out.address() + 4 * i, 2 * i + 1)?;
        }
        commands.submit()?;
        queue
            .record()
            .poll_bit(out.address() + 4 * len as u64, 1, 1u64)?
            .submit()?;
        device.synchronize()?;
        each(&format!("{len} links"), &out.to_vec()?, |i| {
            if i <= len { 2 * i as u32 + 1 } else { 0 }
        })?;
    }
    drop((out, queue));
    Ok(device.close()?)
}

fn full(cx: &mut Context) -> Result<(), Failure> {
    let ring = cx.smallest_ring();
    let submissions = 10 * ring as u32;
    let device = cx.open(|o| o.ring_packets(RING))?;
    let (queue, gate) = (device.compute_queue(0)?, device.signal()?);
    let out = device.alloc::<u32>(submissions as usize + 8)?;
    let opened = AtomicBool::new(false);
    queue.record().wait(&gate, 1u64)?.submit()?;
    thread::scope(|scope| {
        let opener = scope.spawn(|| {
            thread::sleep(Duration::from_millis(30));
            opened.store(true, Ordering::SeqCst);
            gate.set(1)
        });
        for i in 0..submissions {
            queue
                .record()
                .write32(out.address() + 4 * u64::from(i), i + 1)?
                .submit()?;
            // A held ring takes what fits; everything beyond has waited for the gate.
            ensure!(
                i < ring as u32 || opened.load(Ordering::SeqCst),
                "{i} submissions went into a held ring of {ring} entries"
            );
        }
        opener
            .join()
            .map_err(|_| Failure::new("the thread that opens the gate panicked"))??;
        Ok::<(), Failure>(())
    })?;
    device.synchronize()?;
    each("the words", &out.to_vec()?, |i| {
        if i < submissions as usize {
            i as u32 + 1
        } else {
            0
        }
    })?;
    drop((out, gate, queue));
    Ok(device.close()?)
}

/// A device with a small ring that soon gives up waiting for room in it.
fn open_impatient(cx: &Context) -> Result<Device, Failure> {
    cx.open(|o| {
        o.ring_packets(RING)
            .arena_bytes(512)
            .timeline_span_log2(30)
            .wait_timeout_ms(50)
    })
}

fn full_timeout(cx: &mut Context) -> Result<(), Failure> {
    let device = open_impatient(cx)?;
    let (queue, gate) = (device.compute_queue(0)?, device.signal()?);
    let ring = cx.smallest_ring();
    let out = device.alloc::<u32>(4 * ring)?;
    queue.record().wait(&gate, 1u64)?.submit()?;
    let mut accepted = 0usize;
    let mut commands = queue.record();
    let error = loop {
        ensure!(
            accepted < ring,
            "{accepted} submissions went into a held ring of {ring} entries"
        );
        commands.write32(out.address() + 4 * accepted as u64, accepted as u64 + 1)?;
        match commands.submit() {
            Ok(_) => accepted += 1,
            Err(e) => break e,
        }
    };
    let error = refused("one more", Err::<(), _>(error), |e| {
        matches!(e, Error::Timeout { .. })
    })?;
    says(&error.to_string(), &["timed out", "ring"])?;
    same("whether that is a fault", device.fault(), None)?;
    ensure!(
        accepted >= 2,
        "a ring of {ring} entries took {accepted} submissions of one command"
    );
    // Another queue is not concerned.
    let other = device.signal()?;
    device
        .compute_queue(1)?
        .record()
        .signal(&other, 1u64)?
        .submit()?;
    patiently(|| other.wait(1))?;
    gate.set(1)?;
    let last = patiently(|| commands.submit())?;
    patiently(|| last.wait())?;
    each("the words", &out.to_vec()?, |i| {
        if i <= accepted { i as u32 + 1 } else { 0 }
    })?;
    drop((commands, out, gate, other, queue));
    Ok(patiently(|| device.synchronize())?)
}

fn full_copy_queue(cx: &mut Context) -> Result<(), Failure> {
    const LEN: usize = 50;
    let device = open_impatient(cx)?;
    let (queue, gate) = (device.copy_queue(0)?, device.signal()?);
    let ring = cx.smallest_ring();
    let out = device.alloc::<u32>(2 * LEN * ring)?;
    let mut commands = queue.record();
    commands.wait(&gate, 1u64)?.submit()?;
    let mut accepted = 0usize;
    let error = loop {
        ensure!(
            accepted < ring,
            "{accepted} submissions went into a held ring of {ring} entries"
        );
        let view = out.view(accepted * LEN..(accepted + 1) * LEN)?;
        commands.upload(&view, &words(accepted as u64, LEN))?;
        match commands.submit() {
            Ok(_) => accepted += 1,
            Err(e) => break e,
        }
    };
    refused("one more", Err::<(), _>(error), |e| {
        matches!(e, Error::Timeout { .. })
    })?;
    gate.set(1)?;
    let last = patiently(|| commands.submit())?;
    patiently(|| last.wait())?;
    each("the words", &out.to_vec()?, |i| {
        if i / LEN <= accepted {
            word((i / LEN) as u64, i % LEN)
        } else {
            0
        }
    })?;
    drop((commands, out, gate, queue));
    Ok(device.close()?)
}

fn kernargs_wrap(cx: &mut Context) -> Result<(), Failure> {
    const LAUNCHES: u32 = 6000;
    for arena in [256usize, 4096] {
        let device = cx.open(|o| o.arena_bytes(arena))?;
        let (fill, spin) = (
            cx.kernel(&device, Stock::Fill)?,
            cx.kernel(&device, Stock::Spin)?,
        );
        let (out, slow) = (
            device.alloc::<u32>(LAUNCHES as usize)?,
            device.alloc::<u32>(1)?,
        );
        out.fill(u32::MAX)?;
        let mut commands = device.compute_queue(0)?.record();
        let mut numbers = Numbers::new(arena as u64);
        for i in 0..LAUNCHES {
            let args = [
                Arg::address(out.address() + 4 * u64::from(i)),
                Arg::from(word(1, i as usize)),
                Arg::from(1u32),
            ];
            // SAFETY: one word of `out`.
            unsafe { commands.exec(&fill, &args, Grid::new(1, 1)) }?;
            if numbers.below(100) == 0 {
                // Holds the device up, so that the host runs ahead and the arena fills.
                let args = [Arg::from(&slow), Arg::from(20_000u32), Arg::from(i)];
                // SAFETY: `slow` has a word for the one group.
                unsafe { commands.exec(&spin, &args, Grid::new(1, 1)) }?;
            }
            if numbers.below(4) == 0 {
                commands.submit()?;
            }
        }
        let args = [Arg::from(&slow), Arg::from(3u32), Arg::from(7u32)];
        // SAFETY: as above.
        unsafe { commands.exec(&spin, &args, Grid::new(1, 1)) }?;
        commands.submit()?;
        device.synchronize()?;
        each(
            &format!("a word for each launch, from arenas of {arena} bytes"),
            &out.to_vec()?,
            |i| word(1, i),
        )?;
        same("the last slow launch", slow.to_vec()?, vec![spun(3, 7, 0)])?;
        drop((commands, out, slow, fill, spin));
        device.close()?;
    }
    Ok(())
}

fn held_kernargs(cx: &mut Context) -> Result<(), Failure> {
    const LAUNCHES: u32 = 1000;
    let device = cx.open(|o| o.arena_bytes(256).ring_packets(8192).timeline_span_log2(30))?;
    let (fill, gate) = (cx.kernel(&device, Stock::Fill)?, device.signal()?);
    let out = device.alloc::<u32>(LAUNCHES as usize)?;
    for round in 1..=3u64 {
        out.fill(u32::MAX)?;
        let mut commands = device.compute_queue(0)?.record();
        commands.wait(&gate, round)?;
        for i in 0..LAUNCHES {
            let value = word(round, i as usize);
            let args = [
                Arg::address(out.address() + 4 * u64::from(i)),
                Arg::from(value),
                Arg::from(1u32),
            ];
            // SAFETY: one word of `out`.
            unsafe { commands.exec(&fill, &args, Grid::new(1, 1)) }?;
            // Fewer submissions than the shortest queue of any kernel driver holds.
            if i % 29 == 28 {
                commands.submit()?;
            }
        }
        let last = commands.submit()?;
        ensure!(!last.is_done()?, "the launches did not wait");
        gate.set(round)?;
        last.wait()?;
        each(
            &format!("round {round}: a word for each launch"),
            &out.to_vec()?,
            |i| word(round, i),
        )?;
    }
    drop((out, fill, gate));
    Ok(device.close()?)
}

fn staging_wrap(cx: &mut Context) -> Result<(), Failure> {
    const LEN: usize = 16 << 10;
    const PARTS: usize = 1024;
    let device = cx.open(|o| o.arena_bytes(1 << 16))?;
    let queue = device.copy_queue(0)?;
    let (out, other) = (
        device.alloc::<u32>(LEN * PARTS)?,
        device.alloc::<u32>(LEN * PARTS)?,
    );
    let mut commands = queue.record();
    // A word that tells the parts apart in front, and the same bulk behind: 64 MiB of data, cheap to make.
    let mut data = words(5, LEN);
    for part in 0..PARTS {
        data[0] = part as u32;
        data[LEN - 1] = !(part as u32);
        let view = out.view(part * LEN..(part + 1) * LEN)?;
        commands.upload(&view, &data)?;
        if part % 64 == 0 {
            // Holds the device up, so that the host runs ahead.
            commands.copy(&other, &out)?;
        }
        commands.submit()?;
    }
    device.synchronize()?;
    let seen = out.to_vec()?;
    for (part, seen) in seen.chunks(LEN).enumerate() {
        let ends = (seen[0], seen[LEN - 1]);
        same(
            &format!("the ends of part {part}"),
            ends,
            (part as u32, !(part as u32)),
        )?;
        ensure!(
            seen[1..LEN - 1] == data[1..LEN - 1],
            "the middle of part {part} is wrong"
        );
    }
    drop((commands, out, other, queue));
    Ok(device.close()?)
}
