//! `hcq run X.hcqg`: an image launched on the devices that it was built for.
#![allow(
    unsafe_code,
    reason = "loads an image, whose programs are foreign code"
)]

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use hcq_std::{BufferRole, Device, Error, Options, Replay};
use serde_json::{Value, json};

use super::Shaped;
use crate::args::RunArgs;
use crate::data::bytes_words;
use crate::data::npy;
use crate::data::output::Pending;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::run::device_failure;
use crate::show::{duration_words, plain, profile::median};
use crate::{json_line, say};

/// An output of the last launch.
struct Left {
    shaped: Shaped,
    bytes: Vec<u8>,
    file: Option<PathBuf>,
}

/// Launches an image, and says what it left in its outputs.
pub fn replay(args: &RunArgs, interrupt: &Interrupt) -> Result<Exit> {
    for (given, option) in [
        (args.trace.is_some(), "--trace"),
        (args.timeline.is_some(), "--timeline"),
        (args.no_graph, "--no-graph"),
        (args.plan.is_some(), "--plan"),
    ] {
        if given {
            let what =
                format!("{option} has no meaning for an image: it is launched as it was built");
            return Err(Failure::usage(what).into());
        }
    }
    let names = match args.devices.as_slice() {
        [] => default_devices(args)?,
        given => given.to_vec(),
    };
    let devices = Device::open_all(&names, &Options::default()).map_err(|e| device_failure(&e))?;
    let began = Instant::now();
    // SAFETY: whoever runs an image asks for its programs to be run in this process; `hcq run` says so in its help.
    let replay = unsafe { Replay::open(&args.job, &devices) };
    let mut replay = replay.map_err(|e| match e {
        Error::Stored { .. } | Error::File { .. } | Error::NoSuchQueue { .. } => Failure {
            exit: Exit::Usage,
            ..device_failure(&e)
        },
        e => device_failure(&e),
    })?;
    let load_ns = began.elapsed().as_nanos() as u64;
    let (mut host, mut total) = (Vec::new(), Vec::new());
    for round in 0..args.repeat.get() {
        interrupt.check()?;
        if round > 0 {
            replay.reset().map_err(|e| device_failure(&e))?;
        }
        let began = Instant::now();
        let run = replay.launch().map_err(|e| device_failure(&e))?;
        host.push(began.elapsed().as_nanos() as u64);
        run.wait().map_err(|e| device_failure(&e))?;
        total.push(began.elapsed().as_nanos() as u64);
    }
    let mut left = Vec::new();
    for buffer in replay.buffers() {
        let is_output = matches!(buffer.role, BufferRole::Output | BufferRole::InOut);
        if !is_output || buffer.name.starts_with('.') {
            continue;
        }
        let data = replay.buffer::<u8>(&buffer.name);
        let bytes = data
            .and_then(|b| b.to_vec())
            .map_err(|e| device_failure(&e))?;
        left.push(Left {
            shaped: Shaped::parse(&buffer.name, buffer.bytes),
            bytes,
            file: None,
        });
    }
    if let Some(dir) = &args.out {
        write(dir, &mut left)?;
    }
    let stored = replay.stored();
    say(&if args.json {
        json_line(&as_json(
            &names,
            &left,
            (median(host), median(total), load_ns),
            stored,
        ))
    } else {
        as_text(
            &names,
            &left,
            (median(host), median(total), load_ns),
            stored,
        )
    })?;
    Ok(Exit::Ok)
}

/// The devices that the image is for, by their drivers' names.
fn default_devices(args: &RunArgs) -> Result<Vec<String>> {
    use zerocopy::IntoBytes;
    let bytes = std::fs::read(&args.job).map_err(|e| Failure::io("read", &args.job, &e))?;
    let mut words = vec![0u64; bytes.len().div_ceil(8)];
    if let Some(to) = words.as_mut_bytes().get_mut(..bytes.len()) {
        to.copy_from_slice(&bytes);
    }
    let aligned = words.as_bytes().get(..bytes.len()).unwrap_or_default();
    let image = hcq_nostd::image::Image::load(aligned)
        .map_err(|e| super::inspect::refused(&args.job, &e))?;
    let mut seen: Vec<(&str, usize)> = Vec::new();
    let mut names = Vec::new();
    for target in image.targets() {
        let n = match seen.iter_mut().find(|s| s.0 == target.kind) {
            Some((_, n)) => {
                *n += 1;
                *n
            }
            None => {
                seen.push((target.kind, 0));
                0
            }
        };
        // AMD's ABI is odd for queues of PM4 words, and even for those of AQL packets.
        let aql = if target.kind == "amd" && target.abi % 2 == 0 {
            ",aql"
        } else {
            ""
        };
        names.push(match (target.kind, n) {
            ("cpu", _) | (_, 0) => format!("{}{aql}", target.kind),
            (kind, n) => format!("{kind}:{n}{aql}"),
        });
    }
    Ok(names)
}

/// A file's name for an output, whatever the image calls it.
fn file_name(name: &str) -> String {
    let plain = |c: char| {
        if c.is_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(plain).collect();
    format!("{}.npy", name.trim_start_matches('.'))
}

/// Writes every output as an array in a directory.
fn write(dir: &std::path::Path, left: &mut [Left]) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|e| Failure::io("make the directory", dir, &e))?;
    let mut all = Vec::new();
    for output in left.iter_mut() {
        let path = dir.join(file_name(&output.shaped.name));
        let mut pending = Pending::reserve(&path)?;
        pending.write(|w| {
            npy::write_header(&mut *w, output.shaped.dtype, &output.shaped.shape)?;
            w.write_all(&output.bytes)
        })?;
        output.file = Some(pending.shown().to_owned());
        all.push(pending);
    }
    all.into_iter()
        .try_for_each(|p| p.commit().map_err(Into::into))
}

/// The CRC-32 of zip, as eight digits.
fn checksum(bytes: &[u8]) -> String {
    const CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);
    format!("{:08x}", CRC.checksum(bytes))
}

fn as_text(
    names: &[String],
    left: &[Left],
    (host, total, load): (u64, u64, u64),
    stored: usize,
) -> String {
    let mut text = format!(
        "image on {}: launch {} on the host, {} to the end, {stored} patch sites stored; loaded in {}\n",
        names.join(", "),
        duration_words(host),
        duration_words(total),
        duration_words(load)
    );
    for output in left {
        text += &format!(
            "output {}: {} {:?}, {}, CRC-32 {}\n",
            output.shaped.name,
            output.shaped.dtype,
            output.shaped.shape,
            bytes_words(output.bytes.len() as u64),
            checksum(&output.bytes)
        );
        if let Some(file) = &output.file {
            text += &format!("wrote {}: {}\n", file.display(), output.shaped.name);
        }
    }
    plain(&text)
}

fn as_json(
    names: &[String],
    left: &[Left],
    (host, total, load): (u64, u64, u64),
    stored: usize,
) -> Value {
    let outputs: Vec<Value> = left
        .iter()
        .map(|o| {
            json!({
                "name": o.shaped.name,
                "dtype": o.shaped.dtype.name(),
                "shape": o.shaped.shape,
                "crc32": checksum(&o.bytes),
                "file": o.file,
            })
        })
        .collect();
    json!({
        "ok": true,
        "exit_code": 0,
        "devices": names,
        "launch": { "host_ns": host, "total_ns": total },
        "load_ns": load,
        "patched": stored,
        "outputs": outputs,
    })
}
