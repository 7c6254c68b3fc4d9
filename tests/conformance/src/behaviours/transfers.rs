//! Host data in and out, ordered with the work around it; and files as sources of copies.
#![allow(unsafe_code, reason = "launches kernels")]

use std::io::Write;
use std::path::{Path, PathBuf};

use hcq_std::{Error, Grid};

use super::exec::step;
use crate::check::{bulk, bytes, each, ensure, refused, same, says, word, words};
use crate::kinds::Stock;
use crate::{Behaviour, Context, Failure, Needs};

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "transfer.upload-takes-a-copy",
        what: "an upload keeps the data as they were when it was recorded, and runs in order",
        needs: Needs::COPY,
        run: upload_takes_a_copy,
    },
    Behaviour {
        name: "transfer.download",
        what: "a download brings what memory held at its place in the queue",
        needs: Needs::COPY,
        run: download,
    },
    Behaviour {
        name: "transfer.many-in-flight",
        what: "hundreds of uploads and downloads held in flight keep their data apart",
        needs: Needs::COPY,
        run: many_in_flight,
    },
    Behaviour {
        name: "transfer.round-trip",
        what: "upload, kernel, download, over two queues and again and again, give the kernel's results",
        needs: Needs::BOTH.kernels(&[Stock::Step]),
        run: round_trip,
    },
    Behaviour {
        name: "transfer.large",
        what: "uploads and downloads larger than any staging memory are whole",
        needs: Needs::COPY,
        run: large,
    },
    Behaviour {
        name: "transfer.refused",
        what: "wrong lengths and early reads are refused, and the recording is as it was before",
        needs: Needs::COPY,
        run: refusals,
    },
    Behaviour {
        name: "transfer.mapped-file",
        what: "a mapped file is a source of copies, whole and in part, and never a destination",
        needs: Needs::COPY,
        run: mapped_file,
    },
];

fn upload_takes_a_copy(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (gate, queue) = (device.signal()?, device.copy_queue(0)?);
    let to = device.alloc_from(&words(1, 500))?;
    let mut commands = queue.record();
    commands.wait(&gate, 1u64)?;
    let mut data = words(2, 500);
    commands.upload(&to, &data)?;
    data.fill(u32::MAX);
    // A later upload writes over part of the first.
    commands.upload(&to.view(100..200)?, &data[..100])?;
    let point = commands.submit()?;
    data.fill(0);
    drop(data);
    ensure!(!point.is_done()?, "the uploads did not wait");
    gate.set(1)?;
    point.wait()?;
    each("the buffer", &to.to_vec()?, |i| {
        if (100..200).contains(&i) {
            u32::MAX
        } else {
            word(2, i)
        }
    })
}

fn download(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let from = device.alloc_from(&words(3, 300))?;
    let mut commands = device.copy_queue(0)?.record();
    let before = commands.download(&from)?;
    commands.write32(from.address() + 4, 0u32)?;
    let part = commands.download(&from.view(0..3)?)?;
    commands.write32(from.address() + 8, 0u32)?;
    refused("a download before its submission", before.wait(), |e| {
        matches!(e, Error::NotSubmitted)
    })?;
    let point = commands.submit()?;
    each("before the writes", &before.wait()?, |i| word(3, i))?;
    same(
        "between the writes",
        part.wait()?,
        vec![word(3, 0), 0, word(3, 2)],
    )?;
    point.wait()?;
    // The memory of a download is its own.
    from.fill(9)?;
    each("read again", &before.wait()?, |i| word(3, i))?;
    each("the buffer", &from.to_vec()?, |_| 9)
}

fn many_in_flight(cx: &mut Context) -> Result<(), Failure> {
    const PARTS: usize = 300;
    const LEN: usize = 100;
    let device = cx.open(|o| {
        o.arena_bytes(4096)
            .ring_packets(8192)
            .timeline_span_log2(30)
    })?;
    let (gate, queue) = (device.signal()?, device.copy_queue(0)?);
    let buffer = device.alloc_from(&words(9, PARTS * LEN))?;
    for round in 1..=3u64 {
        queue.record().wait(&gate, round)?.submit()?;
        let mut downloads = Vec::new();
        let mut commands = queue.record();
        for part in 0..PARTS {
            let view = buffer.view(part * LEN..(part + 1) * LEN)?;
            commands.upload(&view, &words(1000 * round + part as u64, LEN))?;
            downloads.push(commands.download(&view)?);
            if part % 3 == 0 {
                commands.submit()?;
            }
        }
        commands.submit()?;
        gate.set(round)?;
        for (part, download) in downloads.iter().enumerate() {
            let seed = 1000 * round + part as u64;
            each(
                &format!("round {round}, part {part}"),
                &download.wait()?,
                |i| word(seed, i),
            )?;
        }
        let seed = |i: usize| 1000 * round + (i / LEN) as u64;
        each("the buffer", &buffer.to_vec()?, |i| word(seed(i), i % LEN))?;
    }
    drop(buffer);
    Ok(device.close()?)
}

fn round_trip(cx: &mut Context) -> Result<(), Failure> {
    const N: u32 = 256;
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Step)?;
    let (copy, compute) = (device.copy_queue(0)?, device.compute_queue(0)?);
    let data = device.alloc::<u32>(N as usize)?;
    let mut downloads = Vec::new();
    let mut last = None;
    for round in 0..50u64 {
        let mut up = copy.record();
        // A buffer for all rounds: the next upload must wait for the download before.
        if let Some(point) = &last {
            up.after(point)?;
        }
        let up = up.upload(&data, &words(round, N as usize))?.submit()?;
        let mut run = compute.record();
        run.after(&up)?.memory_barrier()?;
        // SAFETY: `data` has `N` words.
        unsafe { run.exec(&kernel, &step(&data, 3, 1, N), Grid::new(4, 64)) }?;
        let run = run.submit()?;
        let mut down = copy.record();
        down.after(&run)?;
        downloads.push(down.download(&data)?);
        last = Some(down.submit()?);
    }
    for (round, download) in (0..).zip(&downloads) {
        let wanted = |i| word(round, i).wrapping_mul(3).wrapping_add(1);
        each(&format!("round {round}"), &download.wait()?, wanted)?;
    }
    Ok(())
}

fn large(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.open(|o| o.arena_bytes(1 << 16))?;
    let data = bytes(4, (5 << 20) + 3);
    let buffer = device.alloc_from(&vec![0xeeu8; data.len() + 1])?;
    let mut commands = device.copy_queue(0)?.record();
    commands.upload(&buffer.view(1..)?, &data)?;
    let down = commands.download(&buffer)?;
    commands.submit()?;
    let seen = down.wait()?;
    same("the byte before", seen[0], 0xee)?;
    bulk("the rest", &seen[1..], &data)?;
    drop((buffer, down, commands));
    Ok(device.close()?)
}

fn refusals(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (to, done) = (device.alloc_from(&words(1, 10))?, device.signal()?);
    let mut commands = device.copy_queue(0)?.record();
    for len in [0usize, 9, 11] {
        let data = words(2, len);
        refused(
            &format!("an upload of {len} elements to 10"),
            commands.upload(&to, &data).map(drop),
            |e| matches!(e, Error::Length { .. } | Error::Size { .. }),
        )?;
    }
    commands.signal(&done, 1u64)?.submit()?.wait()?;
    each("the buffer", &to.to_vec()?, |i| word(1, i))?;
    same("the signal behind them", done.value(), 1)
}

/// A file that goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(content: &[u8]) -> Result<Self, Failure> {
        let name = format!(
            "hcq-conformance-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        );
        let path = std::env::temp_dir().join(name);
        let failed = |e| {
            Failure::missing(format!(
                "a directory for temporary files that can be written: {e}"
            ))
        };
        let mut file = std::fs::File::create(&path).map_err(failed)?;
        let file = file.write_all(content).map(|()| Self(path));
        file.map_err(failed)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The system clears its temporary files when this fails.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn mapped_file(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let content = bytes(7, 100_001);
    let file = Scratch::new(&content)?;
    let queue = device.copy_queue(0)?;
    let (whole, part) = (
        device.alloc_from(&bytes(1, content.len()))?,
        device.alloc_from(&bytes(2, 100))?,
    );
    let mapped = device.map_file(&file.0)?;
    same("its size", mapped.size_bytes(), content.len())?;
    let point = queue
        .record()
        .copy(&whole, &mapped)?
        .copy(&part, mapped.range(4090..4190)?)?
        .submit()?;
    let by = |e: &Error| matches!(e, Error::ReadOnly { .. });
    refused(
        "a copy into a mapped file",
        queue.record().copy(&mapped, &whole).map(drop),
        by,
    )?;
    let by = |e: &Error| matches!(e, Error::Range { .. });
    refused(
        "bytes beyond the file",
        mapped.range(100_000..100_002).map(drop),
        by,
    )?;
    // The mapping stays until the copies are done.
    drop(mapped);
    point.wait()?;
    each("the whole file", &whole.to_vec()?, |i| content[i])?;
    each("a part of it", &part.to_vec()?, |i| content[4090 + i])?;
    let nowhere = Path::new("/nowhere/at all");
    let e = refused(
        "a file that does not exist",
        device.map_file(nowhere).map(drop),
        |e| matches!(e, Error::File { .. }),
    )?;
    says(&e.to_string(), &["/nowhere/at all"])?;
    Ok(())
}
