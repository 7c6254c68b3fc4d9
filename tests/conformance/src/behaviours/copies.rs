//! Copies on the device.
#![allow(unsafe_code, reason = "copies by address")]

use hcq_std::{Buffer, Error, Value};

use crate::check::{Numbers, bulk, bytes, each, refused, same, says, word, words};
use crate::{Behaviour, Context, Failure, Needs};

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "copy.plain",
        what: "a copy moves a buffer's bytes and leaves the source as it was",
        needs: Needs::COPY,
        run: plain,
    },
    Behaviour {
        name: "copy.any-alignment",
        what: "copies of 1 to 67 bytes at every alignment move exactly these bytes",
        needs: Needs::COPY,
        run: any_alignment,
    },
    Behaviour {
        name: "copy.long",
        what: "copies of several MiB and of odd lengths around powers of two are whole",
        needs: Needs::COPY,
        run: long,
    },
    Behaviour {
        name: "copy.past-4-gib",
        what: "a copy longer than 4 GiB is whole: no length is cut to 32 bits",
        needs: Needs::COPY,
        run: past_4_gib,
    },
    Behaviour {
        name: "copy.patched-addresses",
        what: "a bound copy goes between the addresses patched in",
        needs: Needs::COPY,
        run: patched_addresses,
    },
    Behaviour {
        name: "copy.many-small",
        what: "four thousand copies of a few bytes in one submission all arrive",
        needs: Needs::COPY,
        run: many_small,
    },
    Behaviour {
        name: "copy.chain",
        what: "a chain of copies in one submission, each from where the last one went, carries data to its end",
        needs: Needs::COPY,
        run: chain,
    },
    Behaviour {
        name: "copy.chain-of-submissions",
        what: "a chain of copies, a submission each and over all copy queues, keeps its order by points",
        needs: Needs::COPY,
        run: chain_of_submissions,
    },
    Behaviour {
        name: "copy.views",
        what: "copies between views touch the views' elements alone",
        needs: Needs::COPY,
        run: views,
    },
    Behaviour {
        name: "copy.refused",
        what: "overlaps, unequal lengths and other devices' buffers are refused; the recording is as it was before",
        needs: Needs::COPY,
        run: unequal_and_overlapping,
    },
    Behaviour {
        name: "copy.dropped-buffer",
        what: "buffers dropped while a copy between them is held stay until it is done",
        needs: Needs::COPY,
        run: dropped_buffer,
    },
];

fn plain(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let queue = device.copy_queue(0)?;
    for len in [1usize, 2, 3, 64, 1000, 4096, 65_537] {
        let (from, to) = (
            device.alloc_from(&words(1, len))?,
            device.alloc_from(&words(2, len))?,
        );
        queue.record().copy(&to, &from)?.submit()?.wait()?;
        each(&format!("{len} words"), &to.to_vec()?, |i| word(1, i))?;
        each(&format!("source of {len} words"), &from.to_vec()?, |i| {
            word(1, i)
        })?;
    }
    Ok(())
}

fn any_alignment(cx: &mut Context) -> Result<(), Failure> {
    const ROOM: usize = 128;
    let device = cx.device();
    let queue = device.copy_queue(0)?;
    let (from, to) = (
        device.alloc_from(&bytes(1, ROOM))?,
        device.alloc::<u8>(ROOM)?,
    );
    for len in 1..=67usize {
        to.write(&bytes(2, ROOM))?;
        let mut wanted = bytes(2, ROOM);
        // Every pair of the alignments up to 16 comes up once in every 16 lengths.
        let (a, b) = (len % 16, (len / 16 * 5 + len * 3) % 16);
        let (source, destination) = (from.view(a..a + len)?, to.view(b..b + len)?);
        queue
            .record()
            .copy(&destination, &source)?
            .submit()?
            .wait()?;
        wanted[b..b + len].copy_from_slice(&bytes(1, ROOM)[a..a + len]);
        each(
            &format!("{len} bytes from offset {a} to {b}"),
            &to.to_vec()?,
            |i| wanted[i],
        )?;
    }
    Ok(())
}

fn long(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let queue = device.copy_queue(0)?;
    let most = (20 << 20) + 4097;
    let pattern = bytes(5, most);
    let from = device.alloc_from(&pattern)?;
    // Lengths at which engines split: 2^16, 2^20 less 256, 2^22 and 2^24, and what is beyond.
    for len in [
        65_535,
        65_537,
        (1 << 20) - 256 + 1,
        (1 << 22) - 1,
        (1 << 22) + 1,
        (1 << 24) + 3,
        most - 1,
    ] {
        let to = device.alloc_from(&vec![0x5au8; len + 64])?;
        let (source, destination) = (from.view(1..1 + len)?, to.view(0..len)?);
        queue
            .record()
            .copy(&destination, &source)?
            .submit()?
            .wait()?;
        let seen = to.to_vec()?;
        let (copied, guard) = seen.split_at(len);
        bulk(&format!("a copy of {len} bytes"), copied, &pattern[1..=len])?;
        each(&format!("behind a copy of {len} bytes"), guard, |_| 0x5a)?;
    }
    Ok(())
}

/// Bytes that the machine can give without swapping, where it says so.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

fn past_4_gib(cx: &mut Context) -> Result<(), Failure> {
    const LEN: u64 = (4 << 30) + (1 << 20) + 24;
    const WORDS: u64 = LEN / 8;
    let need = 2 * LEN + (2 << 30);
    let missing =
        |have: String| Failure::missing(format!("{} MiB of free memory; {have}", need >> 20));
    let len =
        usize::try_from(WORDS).map_err(|_| missing("addresses here have 32 bits".to_owned()))?;
    match available_memory() {
        None => {
            return Err(missing(
                "the system does not say how much there is".to_owned(),
            ));
        }
        Some(have) if have < need => return Err(missing(format!("there are {} MiB", have >> 20))),
        Some(_) => {}
    }
    // A copy shows no progress before its end, and fresh pages are slow.
    let device = cx.open(|o| o.wait_timeout_ms(240_000))?;
    let alloc = || match device.alloc::<u64>(len) {
        Err(Error::OutOfMemory { .. }) => Err(missing("the device has less".to_owned())),
        other => Ok(other?),
    };
    let (from, to) = (alloc()?, alloc()?);
    // All of it is copied; looked at is a page in every 8 MiB, and those around 4 GiB and both ends.
    let mut pages: Vec<usize> = (0..len - 512).step_by(1 << 20).collect();
    let around = (4usize << 30) / 8;
    pages.extend([around - 512, around, len - 512]);
    let touch = |buffer: &Buffer<u64>, value: &dyn Fn(usize) -> u64| -> Result<(), Failure> {
        for &page in &pages {
            let values: Vec<u64> = (page..page + 512).map(value).collect();
            buffer.view(page..page + 512)?.write(&values)?;
        }
        Ok(())
    };
    touch(&to, &|i| !(i as u64))?;
    touch(&from, &|i| i as u64 * 3 + 1)?;
    device
        .copy_queue(0)?
        .record()
        .copy(&to, &from)?
        .submit()?
        .wait()?;
    for &page in &pages {
        let seen = to.view(page..page + 512)?.to_vec()?;
        each(&format!("word {page} and the next"), &seen, |i| {
            (page + i) as u64 * 3 + 1
        })?;
    }
    drop((from, to));
    Ok(device.close()?)
}

fn patched_addresses(cx: &mut Context) -> Result<(), Failure> {
    const LEN: usize = 333;
    let device = cx.device();
    let buffers = (0..5)
        .map(|i| device.alloc_from(&bytes(i, 2 * LEN)))
        .collect::<Result<Vec<_>, _>>()?;
    let mut host: Vec<Vec<u8>> = (0..5).map(|i| bytes(i, 2 * LEN)).collect();
    let mut commands = device.copy_queue(0)?.record();
    let (to, from) = (commands.var()?, commands.var()?);
    // SAFETY: two different buffers are patched in, with `LEN` bytes behind the addresses.
    unsafe { commands.copy_raw(Value::from(to) + 3, from, LEN as u64) }?;
    let mut bound = commands.bind()?;
    let mut numbers = Numbers::new(5);
    for _ in 0..100 {
        let source = numbers.below(5) as usize;
        let destination = (source + 1 + numbers.below(4) as usize) % 5;
        let (a, b) = (
            numbers.below(LEN as u64) as usize,
            numbers.below(LEN as u64 - 3) as usize,
        );
        bound.set(from, buffers[source].address() + a as u64)?;
        bound.set(to, buffers[destination].address() + b as u64)?;
        bound.submit()?;
        let moved = host[source][a..a + LEN].to_vec();
        host[destination][b + 3..b + 3 + LEN].copy_from_slice(&moved);
    }
    device.synchronize()?;
    for (i, (buffer, wanted)) in buffers.iter().zip(&host).enumerate() {
        each(&format!("buffer {i}"), &buffer.to_vec()?, |at| wanted[at])?;
    }
    Ok(())
}

fn many_small(cx: &mut Context) -> Result<(), Failure> {
    const COPIES: usize = 4000;
    let device = cx.device();
    let source = bytes(7, 16 * COPIES);
    let mut wanted = bytes(8, 16 * COPIES);
    let (from, to) = (device.alloc_from(&source)?, device.alloc_from(&wanted)?);
    let mut commands = device.copy_queue(0)?.record();
    for i in 0..COPIES {
        let len = i % 13 + 1;
        // Sixteen bytes each, taken from the other end.
        let (a, b) = (16 * (COPIES - 1 - i) + i % 3, 16 * i + i % 4);
        commands.copy(&to.view(b..b + len)?, &from.view(a..a + len)?)?;
        wanted[b..b + len].copy_from_slice(&source[a..a + len]);
    }
    commands.submit()?.wait()?;
    each("the destination", &to.to_vec()?, |i| wanted[i])
}

fn chain(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let buffers = (0..40)
        .map(|i| device.alloc_from(&words(i, 5000)))
        .collect::<Result<Vec<_>, _>>()?;
    let mut commands = device.copy_queue(0)?.record();
    for pair in buffers.windows(2) {
        commands.copy(&pair[1], &pair[0])?;
    }
    commands.submit()?.wait()?;
    for (i, buffer) in buffers.iter().enumerate() {
        each(&format!("link {i}"), &buffer.to_vec()?, |at| word(0, at))?;
    }
    Ok(())
}

fn chain_of_submissions(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.open(|o| o.copy_queues(3))?;
    let count = device.queue_counts().1;
    let queues = (0..count)
        .map(|i| device.copy_queue(i))
        .collect::<Result<Vec<_>, _>>()?;
    let buffers = (0..90)
        .map(|i| device.alloc_from(&words(i, 3000)))
        .collect::<Result<Vec<_>, _>>()?;
    let mut last = None;
    for (i, pair) in buffers.windows(2).enumerate() {
        let mut commands = queues[i % count].record();
        if let Some(point) = &last {
            commands.after(point)?;
        }
        last = Some(commands.copy(&pair[1], &pair[0])?.submit()?);
    }
    device.synchronize()?;
    for (i, buffer) in buffers.iter().enumerate() {
        each(&format!("link {i}"), &buffer.to_vec()?, |at| word(0, at))?;
    }
    drop((buffers, last));
    Ok(device.close()?)
}

fn views(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let buffer = device.alloc_from(&words(1, 1000))?;
    let (head, tail) = (buffer.view(10..110)?, buffer.view(110..210)?);
    // Neighbours in one buffer do not overlap.
    device
        .copy_queue(0)?
        .record()
        .copy(&tail, &head)?
        .submit()?
        .wait()?;
    each("the buffer", &buffer.to_vec()?, |i| {
        word(1, if (110..210).contains(&i) { i - 100 } else { i })
    })
}

fn unequal_and_overlapping(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (a, b) = (
        device.alloc_from(&words(1, 100))?,
        device.alloc_from(&words(2, 101))?,
    );
    let done = device.signal()?;
    let mut commands = device.copy_queue(0)?.record();
    commands.copy(&b.view(0..50)?, &a.view(0..50)?)?;
    let e = refused(
        "a copy of 100 elements to 101",
        commands.copy(&b, &a).map(drop),
        |e| matches!(e, Error::Length { .. }),
    )?;
    says(&e.to_string(), &["400", "404"])?;
    for (to, from) in [
        (0..60, 40..100),
        (40..100, 0..60),
        (0..100, 0..100),
        (0..2, 1..3),
    ] {
        let (to, from) = (a.view(to)?, a.view(from)?);
        refused(
            "an overlapping copy",
            commands.copy(&to, &from).map(drop),
            |e| matches!(e, Error::Overlap { .. }),
        )?;
    }
    let other = cx.open(|o| o)?;
    let elsewhere = other.alloc_from(&words(3, 100))?;
    let by = |e: &Error| matches!(e, Error::OtherDevice { .. });
    refused(
        "a copy from another device",
        commands.copy(&a, &elsewhere).map(drop),
        by,
    )?;
    refused(
        "a copy to another device",
        commands.copy(&elsewhere, &a).map(drop),
        by,
    )?;
    refused(
        "an upload to another device",
        commands.upload(&elsewhere, &words(4, 100)).map(drop),
        by,
    )?;
    refused(
        "a download from another device",
        commands.download(&elsewhere).map(drop),
        by,
    )?;
    commands.signal(&done, 3u64)?.submit()?.wait()?;
    each("the source", &a.to_vec()?, |i| word(1, i))?;
    each("the destination", &b.to_vec()?, |i| {
        word(if i < 50 { 1 } else { 2 }, i)
    })?;
    same("the signal behind them", done.value(), 3)?;
    each("the other device's buffer", &elsewhere.to_vec()?, |i| {
        word(3, i)
    })?;
    drop(elsewhere);
    Ok(other.close()?)
}

fn dropped_buffer(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (gate, queue) = (device.signal()?, device.copy_queue(0)?);
    let end = device.alloc_from(&words(9, 4096))?;
    let (from, middle) = (
        device.alloc_from(&words(1, 4096))?,
        device.alloc::<u32>(4096)?,
    );
    let point = queue
        .record()
        .wait(&gate, 1u64)?
        .copy(&middle, &from)?
        .copy(&end, &middle)?
        .submit()?;
    drop((from, middle));
    // Whatever would take their place.
    let fillers = (0..16)
        .map(|i| device.alloc_from(&words(100 + i, 4096)))
        .collect::<Result<Vec<_>, _>>()?;
    gate.set(1)?;
    point.wait()?;
    each("the end of the chain", &end.to_vec()?, |i| word(1, i))?;
    for (n, filler) in (100..).zip(&fillers) {
        each("a buffer made meanwhile", &filler.to_vec()?, |i| word(n, i))?;
    }
    Ok(())
}
