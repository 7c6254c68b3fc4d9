//! Memory: buffers, memory of the caller, and what makes writes visible.
#![allow(
    unsafe_code,
    reason = "launches kernels and lends memory to the device"
)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use hcq_std::{Arg, Error, Grid};

use crate::check::{byte, bytes, each, ensure, refused, same, word, words};
use crate::kinds::Stock;
use crate::{Behaviour, Context, Failure, Needs};

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "memory.buffers",
        what: "buffers start as zeros, apart from each other, and hold what the host writes, whole or in part",
        needs: Needs::COMPUTE,
        run: buffers,
    },
    Behaviour {
        name: "memory.impossible-sizes",
        what: "sizes that no memory has are refused, and the device works on",
        needs: Needs::COMPUTE,
        run: impossible_sizes,
    },
    Behaviour {
        name: "memory.alloc-and-free",
        what: "ten thousand buffers made and dropped around work in flight neither run out nor overlap",
        needs: Needs::COMPUTE,
        run: alloc_and_free,
    },
    Behaviour {
        name: "memory.wrapped",
        what: "memory of the caller is a buffer: the device writes to it and reads from it in place",
        needs: Needs::COMPUTE,
        run: wrapped,
    },
    Behaviour {
        name: "barrier.host-writes",
        what: "after a wait and a barrier kernels see what the host had written, a hundred times over",
        needs: Needs::COMPUTE.kernels(&[Stock::Copy]),
        run: barrier_host_writes,
    },
    Behaviour {
        name: "barrier.copies",
        what: "after a wait and a barrier kernels see what a copy queue wrote, and it what they wrote",
        needs: Needs::BOTH.kernels(&[Stock::Step]),
        run: barrier_copies,
    },
    Behaviour {
        name: "barrier.wrong-queue",
        what: "what a queue does not have is refused in words: barrier and exec on copy queues, copy on compute queues",
        needs: Needs::BOTH.kernels(&[Stock::Empty]),
        run: wrong_queue,
    },
];

fn buffers(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let lens = [1usize, 3, 64, 65, 4096, 100_000];
    let made = lens
        .iter()
        .map(|&len| device.alloc::<u8>(len))
        .collect::<Result<Vec<_>, _>>()?;
    for (i, b) in made.iter().enumerate() {
        each("a new buffer", &b.to_vec()?, |_| 0)?;
        same("its sizes", (b.len(), b.size_bytes()), (lens[i], lens[i]))?;
        b.write(&bytes(i as u64, lens[i]))?;
    }
    for (i, b) in made.iter().enumerate() {
        each(&format!("buffer {i}"), &b.to_vec()?, |at| {
            byte(i as u64, at)
        })?;
        let end = b.address() + b.size_bytes() as u64;
        let apart = made
            .iter()
            .skip(i + 1)
            .all(|o| o.address() >= end || o.address() + o.len() as u64 <= b.address());
        ensure!(apart, "buffer {i} at {:#x} overlaps another", b.address());
    }
    let last = &made[5];
    last.view(1000..2000)?.write(&[7; 1000])?;
    last.view(2000..3000)?.fill(8)?;
    let mut part = [0; 10];
    last.view(1995..2005)?.read(&mut part)?;
    same("across two parts", part, [7, 7, 7, 7, 7, 8, 8, 8, 8, 8])?;
    each("the whole", &last.to_vec()?, |i| match i {
        1000..2000 => 7,
        2000..3000 => 8,
        _ => byte(5, i),
    })?;
    refused(
        "11 elements into 10",
        last.view(0..10)?.write(&[0; 11]),
        |e| matches!(e, Error::Length { .. }),
    )?;
    refused(
        "9 elements out of 10",
        last.view(0..10)?.read(&mut [0; 9]),
        |e| matches!(e, Error::Length { .. }),
    )?;
    let wide = device.alloc_from(&[1.5f64, -0.25])?;
    same("floats", wide.to_vec()?, vec![1.5, -0.25])
}

fn impossible_sizes(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let size = |e: &Error| matches!(e, Error::Size { .. } | Error::OutOfMemory { .. });
    for len in [
        0,
        usize::MAX,
        usize::MAX / 8 + 2,
        usize::MAX / 16,
        usize::MAX / 32,
    ] {
        let e = refused(
            &format!("{len} elements of 8 bytes"),
            device.alloc::<u64>(len).map(drop),
            size,
        )?;
        ensure!(e.to_string().contains("bytes"), "no size in `{e}`");
    }
    let small = device.alloc_from(&[11u32])?;
    device
        .compute_queue(0)?
        .record()
        .write32(small.address(), 12u32)?
        .submit()?
        .wait()?;
    same("the device afterwards", small.to_vec()?, vec![12])
}

fn alloc_and_free(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let queue = device.compute_queue(0)?;
    let mut kept = Vec::new();
    for round in 0..10_000u32 {
        let buffer = device.alloc::<u32>(16 + round as usize % 300)?;
        queue
            .record()
            .write32(buffer.address() + 4 * 15, round + 1)?
            .submit()?;
        if round % 100 == 7 {
            kept.push((buffer, round));
        }
    }
    device.synchronize()?;
    for (buffer, round) in &kept {
        each(
            &format!("the buffer of round {round}"),
            &buffer.to_vec()?,
            |i| if i == 15 { round + 1 } else { 0 },
        )?;
    }
    Ok(())
}

fn wrapped(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    // Pages of their own, as every kernel driver wants them.
    let mut memory = vec![0u32; 4096];
    let skip = memory.as_ptr().align_offset(4096);
    let mine = &mut memory[skip..skip + 1024];
    mine.copy_from_slice(&words(1, 1024));
    mine[100] = 0;
    let base = NonNull::from(&mut *mine).cast::<u32>();
    // SAFETY: `memory` outlives the buffer, and is looked at when the device is idle only.
    let buffer = unsafe { cx.wrap(device, base, 1024) }?;
    let out = device.alloc_from(&[0u32; 2])?;
    let queue = device.compute_queue(0)?;
    let mut commands = queue.record();
    commands
        .write32(buffer.address() + 4 * 100, 77u32)?
        .write32(buffer.address() + 4 * 1023, 78u32)?;
    commands
        .poll_bit(buffer.address() + 4 * 100, 1, 1u64)?
        .write32(out.address(), 1u32)?;
    commands.submit()?.wait()?;
    same(
        "a word polled in the caller's memory",
        out.to_vec()?,
        vec![1, 0],
    )?;
    let wanted = |i: usize| match i {
        100 => 77,
        1023 => 78,
        _ => word(1, i),
    };
    each("by way of the buffer", &buffer.to_vec()?, wanted)?;
    drop(buffer);
    device.synchronize()?;
    each("the caller's memory", &memory[skip..skip + 1024], wanted)
}

fn barrier_host_writes(cx: &mut Context) -> Result<(), Failure> {
    const N: u32 = 512;
    cx.need_late_stores()?;
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Copy)?;
    // Memory that the host writes to on its own, while the device is held.
    let memory: Vec<AtomicU32> = (0..2048).map(|_| AtomicU32::new(u32::MAX)).collect();
    let skip = memory.as_ptr().align_offset(4096);
    let mine = &memory[skip..skip + 1024];
    let base = NonNull::from(mine).cast::<u32>();
    // SAFETY: `memory` outlives the buffer; all its accesses here are atomic, and ordered with the device's by signals.
    let input = unsafe { cx.wrap(device, base, 1024) }?;
    let (out, gate, done) = (
        device.alloc::<u32>(N as usize)?,
        device.signal()?,
        device.signal()?,
    );
    let mut commands = device.compute_queue(0)?.record();
    let round_var = commands.var()?;
    commands.wait(&gate, round_var)?.memory_barrier()?;
    let args = [Arg::from(&input), Arg::from(&out), Arg::from(N)];
    // SAFETY: both have `N` words.
    unsafe { commands.exec(&kernel, &args, Grid::new(N.div_ceil(64), 64)) }?;
    commands.signal(&done, round_var)?;
    let mut bound = commands.bind()?;
    for round in 1..=100u64 {
        bound.set(round_var, round)?;
        bound.submit()?;
        for (i, slot) in mine.iter().take(N as usize).enumerate() {
            slot.store(word(round, i), Ordering::Relaxed);
        }
        // Setting the signal publishes them.
        gate.set(round)?;
        done.wait(round)?;
        each(
            &format!("round {round}: what the kernel saw"),
            &out.to_vec()?,
            |i| word(round, i),
        )?;
    }
    drop((bound, input));
    Ok(device.synchronize()?)
}

fn barrier_copies(cx: &mut Context) -> Result<(), Failure> {
    const N: u32 = 2000;
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Step)?;
    let (a, b) = (
        device.alloc_from(&words(1, N as usize))?,
        device.alloc_from(&words(2, N as usize))?,
    );
    let (copied, stepped) = (device.signal()?, device.signal()?);
    let (compute, copy) = (device.compute_queue(0)?, device.copy_queue(0)?);
    // Both queues are given all their rounds at once, so that signals alone order them.
    let (mut steps, mut copies) = (compute.record(), copy.record());
    for round in 1..=50u64 {
        copies
            .wait(&stepped, round - 1)?
            .copy(&b, &a)?
            .copy(&a, &b)?
            .signal(&copied, round)?;
        steps.wait(&copied, round)?.memory_barrier()?;
        let args = super::exec::step(&a, 3, 1, N);
        // SAFETY: `a` has `N` words.
        unsafe { steps.exec(&kernel, &args, Grid::new(N.div_ceil(64), 64)) }?;
        steps.memory_barrier()?.signal(&stepped, round)?;
    }
    steps.submit()?;
    copies.submit()?;
    device.synchronize()?;
    let step = |w: u32, n: u32| (0..n).fold(w, |w, _| w.wrapping_mul(3).wrapping_add(1));
    each("after 50 rounds", &a.to_vec()?, |i| step(word(1, i), 50))?;
    each("the copy queue's last", &b.to_vec()?, |i| {
        step(word(1, i), 49)
    })
}

fn wrong_queue(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Empty)?;
    let (a, b, done) = (
        device.alloc_from(&[1u32])?,
        device.alloc_from(&[2u32])?,
        device.signal()?,
    );
    let by = |e: &Error| matches!(e, Error::WrongQueue { .. });
    let mut copies = device.copy_queue(0)?.record();
    refused(
        "a barrier on a copy queue",
        copies.memory_barrier().map(drop),
        by,
    )?;
    // SAFETY: it is refused.
    let result = unsafe { copies.exec(&kernel, &[], Grid::new(1, 1)) };
    refused("a launch on a copy queue", result.map(drop), by)?;
    copies.signal(&done, 1u64)?.submit()?.wait()?;
    same("the signal behind them", done.value(), 1)?;
    let mut commands = device.compute_queue(0)?.record();
    refused(
        "a copy on a compute queue",
        commands.copy(&a, &b).map(drop),
        by,
    )?;
    commands.signal(&done, 2u64)?.submit()?.wait()?;
    same("the signal behind it", done.value(), 2)?;
    same(
        "the buffers",
        (a.to_vec()?, b.to_vec()?),
        (vec![1], vec![2]),
    )?;
    let (compute, copy) = device.queue_counts();
    let none = |e: &Error| matches!(e, Error::NoSuchQueue { .. });
    refused(
        "a compute queue too many",
        device.compute_queue(compute).map(drop),
        none,
    )?;
    refused(
        "a copy queue too many",
        device.copy_queue(copy).map(drop),
        none,
    )?;
    Ok(())
}
