//! Words that queues write and poll.

use std::thread;
use std::time::Duration;

use hcq_nostd::record::RecordError;
use hcq_std::{Error, Queue, Signal, Value};

use crate::check::{each, ensure, refused, same, word};
use crate::{Behaviour, Context, Failure, Needs};

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "write.32-and-64-bits",
        what: "queues write 4 and 8 bytes, these and no others",
        needs: Needs::COMPUTE,
        run: write_words,
    },
    Behaviour {
        name: "write.by-copy-queue",
        what: "so do copy queues",
        needs: Needs::COPY,
        run: write_words_by_copy_queue,
    },
    Behaviour {
        name: "write.patched",
        what: "a bound write goes to the address and has the value patched in",
        needs: Needs::COMPUTE,
        run: write_patched,
    },
    Behaviour {
        name: "write.refused",
        what: "misaligned addresses and values too wide are refused, and the recording is as it was before",
        needs: Needs::COMPUTE,
        run: write_refused,
    },
    Behaviour {
        name: "poll.set-and-clear",
        what: "a queue waits until a bit is set, and until one is clear, whatever the other bits",
        needs: Needs::COMPUTE.compute(2),
        run: poll_set_and_clear,
    },
    Behaviour {
        name: "poll.copy-queue",
        what: "a copy queue that polls goes on when the host sets the bit, and not before",
        needs: Needs::COPY,
        run: poll_on_copy_queue,
    },
    Behaviour {
        name: "poll.masks",
        what: "a queue waits until all bits under a mask are as wanted, some set and some clear",
        needs: Needs::COMPUTE,
        run: poll_masks,
    },
    Behaviour {
        name: "poll.patched",
        what: "a bound poll is of the word at the address patched in, for the bits patched in",
        needs: Needs::COMPUTE,
        run: poll_patched,
    },
];

fn write_words(cx: &mut Context) -> Result<(), Failure> {
    let queue = cx.device().compute_queue(0)?;
    write_on(cx, &queue)
}

fn write_words_by_copy_queue(cx: &mut Context) -> Result<(), Failure> {
    let queue = cx.device().copy_queue(0)?;
    write_on(cx, &queue)
}

fn write_on(cx: &Context, queue: &Queue) -> Result<(), Failure> {
    let out = cx.device().alloc_from(&[0x5au8; 256])?;
    let mut wanted = [0x5au8; 256];
    let mut commands = queue.record();
    for (at, value) in [
        (4u64, 0u32),
        (12, u32::MAX),
        (16, 0x0102_0304),
        (252, 0x8000_0001),
    ] {
        commands.write32(out.address() + at, value)?;
        wanted[at as usize..][..4].copy_from_slice(&value.to_le_bytes());
    }
    for (at, value) in [
        (32u64, 0u64),
        (48, u64::MAX),
        (56, 0x0102_0304_0506_0708),
        (240, 1 << 63 | 1),
    ] {
        commands.write64(out.address() + at, value)?;
        wanted[at as usize..][..8].copy_from_slice(&value.to_le_bytes());
    }
    // Over itself, in order.
    for value in 1..=20u32 {
        commands.write32(out.address() + 128, value)?;
    }
    wanted[128..132].copy_from_slice(&20u32.to_le_bytes());
    commands.submit()?.wait()?;
    each("the memory", &out.to_vec()?, |i| wanted[i])
}

fn write_patched(cx: &mut Context) -> Result<(), Failure> {
    let out = cx.device().alloc_from(&[0u64; 128])?;
    let mut commands = cx.device().compute_queue(0)?.record();
    let (at, value, wide) = (commands.var()?, commands.var()?, commands.var()?);
    commands
        .write32(at, value)?
        .write64(Value::from(at) + 8, wide)?
        .write32(Value::from(at) + 20, value)?;
    let mut bound = commands.bind()?;
    let mut wanted = vec![0u8; 1024];
    for round in 0..40u64 {
        let offset = 24 * round;
        let (narrow, long) = (
            u64::from(word(1, round as usize)),
            u64::from(word(2, round as usize)) << 32 | round,
        );
        bound.set(at, out.address() + offset)?;
        bound.set(value, narrow)?;
        bound.set(wide, long)?;
        bound.submit()?;
        let here = &mut wanted[offset as usize..];
        here[..4].copy_from_slice(&narrow.to_le_bytes()[..4]);
        here[8..16].copy_from_slice(&long.to_le_bytes());
        here[20..24].copy_from_slice(&narrow.to_le_bytes()[..4]);
    }
    cx.device().synchronize()?;
    let seen: Vec<u8> = out.to_vec()?.iter().flat_map(|w| w.to_le_bytes()).collect();
    each("the memory", &seen, |i| wanted[i])
}

fn write_refused(cx: &mut Context) -> Result<(), Failure> {
    let out = cx.device().alloc_from(&[1u64; 4])?;
    let mut commands = cx.device().compute_queue(0)?.record();
    let at = out.address();
    commands.write32(at, 5u32)?;
    let by = |e: &Error| matches!(e, Error::Record { .. });
    for off in 1..4 {
        refused(
            "a misaligned write of 4 bytes",
            commands.write32(at + off, 9u32).map(drop),
            by,
        )?;
    }
    refused(
        "a misaligned write of 8 bytes",
        commands.write64(at + 4, 9u32).map(drop),
        by,
    )?;
    refused(
        "33 bits into 32",
        commands.write32(at, 1u64 << 32).map(drop),
        by,
    )?;
    refused(
        "a misaligned poll",
        commands.poll_bit(at + 2, 1, 1u64).map(drop),
        by,
    )?;
    refused(
        "a poll that can never end",
        commands.poll_bit(at, 1, 2u64).map(drop),
        by,
    )?;
    commands.write32(at + 16, 6u32)?.submit()?.wait()?;
    same("the memory", out.to_vec()?, vec![5, 1, 6, 1])
}

/// One submission polls, another one on a second queue writes, in steps that the host gates.
fn poll_set_and_clear(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let word = device.alloc_from(&[0xff00_00feu32, 0])?;
    let (at, log) = (word.address(), device.alloc_from(&[0u32; 2])?);
    let (passed, go, wrote) = (device.signal()?, device.signal()?, device.signal()?);
    let mut commands = device.compute_queue(0)?.record();
    commands
        .signal(&passed, 1u64)?
        .poll_bit(at, 1, 1u64)?
        .write32(log.address(), 1u32)?
        .signal(&passed, 2u64)?;
    commands
        .poll_bit(at, 1 << 24, 0u64)?
        .write32(log.address() + 4, 1u32)?
        .signal(&passed, 3u64)?;
    let held = commands.submit()?;
    // What each step writes, and how far the polls get by it.
    let steps: [(&[u32], u64); 4] = [
        (&[0x0000_00f0, 0xffff_fffe], 1),
        (&[0xffff_ffff], 2),
        (&[0xff00_0001, 0x0100_0000], 2),
        (&[0xfe00_0002], 3),
    ];
    let mut writer = device.compute_queue(1)?.record();
    for (step, (words, _)) in (1u64..).zip(steps) {
        writer.wait(&go, step)?;
        for &w in words {
            writer.write32(at, w)?;
        }
        writer.signal(&wrote, step)?;
    }
    writer.submit()?;
    for (step, (words, wanted)) in (1u64..).zip(steps) {
        ensure!(
            !held.is_done()?,
            "the submission is complete before its last poll"
        );
        go.set(step)?;
        wrote.wait(step)?;
        passed.wait(wanted)?;
        // Give it time to go on by mistake.
        thread::sleep(Duration::from_millis(3));
        same(
            &format!("how far the polls are after {words:x?}"),
            passed.value(),
            wanted,
        )?;
    }
    device.synchronize()?;
    same("both went on", log.to_vec()?, vec![1, 1])
}

/// A poll of a signal's word: held at each of `before`, passed at `then`.
fn poll_a_signal(
    cx: &Context,
    queue: &Queue,
    mask: u32,
    expect: u32,
    before: &[u64],
    then: u64,
) -> Result<(), Failure> {
    let device = cx.device();
    let (word, reached, after) = (device.signal()?, device.signal()?, device.signal()?);
    word.set(before[0])?;
    let mut commands = queue.record();
    commands.signal(&reached, 1u64)?;
    only_if_supported(commands.poll_bit(word.address(), mask, expect))?;
    let point = commands.signal(&after, 1u64)?.submit()?;
    reached.wait(1)?;
    for &value in before {
        word.set(value)?;
        thread::sleep(Duration::from_millis(2));
        same(
            &format!("past a poll for {expect:#x} under {mask:#x} at {value:#x}"),
            after.value(),
            0,
        )?;
    }
    word.set(then)?;
    after.wait(1)?;
    Ok(point.wait()?)
}

/// Engines may refuse polls that they have no command for, as the core says.
#[track_caller]
fn only_if_supported<T>(recorded: Result<T, Error>) -> Result<T, Failure> {
    match recorded {
        Err(Error::Record {
            source: e @ (RecordError::Unsupported { .. } | RecordError::NotConstant { .. }),
            ..
        }) => Err(Failure::missing(format!("an engine with such polls: {e}"))),
        other => Ok(other?),
    }
}

fn poll_on_copy_queue(cx: &mut Context) -> Result<(), Failure> {
    let queue = cx.device().copy_queue(0)?;
    poll_a_signal(cx, &queue, 4, 4, &[0, 0xb, 0x7fff_fffb], 0xf4)?;
    poll_a_signal(cx, &queue, 4, 0, &[4, 0xf, 0x7fff_ffff], 0x7fff_fffb)
}

fn poll_masks(cx: &mut Context) -> Result<(), Failure> {
    let queue = cx.device().compute_queue(0)?;
    poll_a_signal(cx, &queue, 0xf, 5, &[0x10, 0x11, 0x14, 0x07, 0xff], 0xa5)?;
    poll_a_signal(
        cx,
        &queue,
        0x0f0f_00f0,
        0,
        &[0x10, 0x0100_0000, 0x0f0f_00f0],
        0x7070_ff0f,
    )?;
    poll_a_signal(
        cx,
        &queue,
        u32::MAX,
        0x0102_0304,
        &[0x0102_0305, 0x0002_0304, 0x0102_0300],
        0x0102_0304,
    )
}

fn poll_patched(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let words = (0..3)
        .map(|_| device.signal())
        .collect::<Result<Vec<Signal>, _>>()?;
    let mut commands = device.compute_queue(0)?.record();
    let (at, expect) = (commands.var()?, commands.var()?);
    only_if_supported(commands.poll_bit(at, 2, Value::from(expect) * 2))?;
    let mut bound = commands.bind()?;
    for round in 0..12usize {
        let word = &words[round % 3];
        let set = round as u64 / 3 % 2;
        word.set(if set == 1 { 0x7fff_fff5 } else { 0xa })?;
        bound.set(at, word.address())?;
        bound.set(expect, set)?;
        let point = bound.submit()?;
        // The other words have the bit as wanted.
        for other in words.iter().filter(|w| w.address() != word.address()) {
            other.set(2 * set)?;
        }
        thread::sleep(Duration::from_millis(2));
        ensure!(
            !point.is_done()?,
            "round {round} is past its poll for a bit that is {}",
            1 - set
        );
        word.set(if set == 1 { 0xa } else { 0x7fff_fff5 })?;
        point.wait()?;
    }
    Ok(())
}
