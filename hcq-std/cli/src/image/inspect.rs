//! `hcq inspect`: what an image holds.

use std::fmt::Write as _;
use std::fs;

use hcq_nostd::image::{Image, LoadError, VariableKind};
use hcq_nostd::plan::Engine;
use serde_json::{Value, json};
use zerocopy::IntoBytes;

use crate::args::InspectArgs;
use crate::data::bytes_words;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::show::plain;
use crate::{json_line, say};

/// Says what an image holds. Nothing of it is run.
pub fn inspect(args: &InspectArgs) -> Result<Exit> {
    let bytes = fs::read(&args.image).map_err(|e| Failure {
        exit: Exit::Usage,
        ..Failure::io("read", &args.image, &e)
    })?;
    // The format wants its words aligned.
    let mut words = vec![0u64; bytes.len().div_ceil(8)];
    if let Some(to) = words.as_mut_bytes().get_mut(..bytes.len()) {
        to.copy_from_slice(&bytes);
    }
    let aligned = words.as_bytes().get(..bytes.len()).unwrap_or_default();
    let image = Image::load(aligned).map_err(|e| refused(&args.image, &e))?;
    say(&if args.json {
        json_line(&as_json(&image))
    } else {
        as_text(&image)
    })?;
    Ok(Exit::Ok)
}

/// A file that is no image.
pub(super) fn refused(path: &std::path::Path, e: &LoadError) -> Failure {
    Failure::usage(format!(
        "{} is no image that can be used: {e}",
        path.display()
    ))
}

/// A device's queue in words.
fn queue(q: &hcq_nostd::graph::QueueRecord) -> String {
    let kind = match q.engine() {
        Engine::Compute => "compute",
        Engine::Copy => "copy",
    };
    format!("device {} {kind} {}", q.device(), q.index())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn variable(kind: VariableKind) -> String {
    match kind {
        VariableKind::Buffer { buffer } => format!("address of buffer {buffer}"),
        VariableKind::Code { code } => format!("address in program {code}"),
        VariableKind::Private { code, queue, part } => {
            format!("number {part} that queue {queue} has for this kernel of program {code}")
        }
        VariableKind::Own { device } => format!("address of memory of device {device}'s own"),
        VariableKind::Scalar { bytes } => format!("number of {bytes} bytes, to be set"),
        VariableKind::Count => "count, to be set".into(),
        VariableKind::Number => "number, to be set".into(),
    }
}

fn as_text(image: &Image<'_>) -> String {
    let graph = image.graph();
    let mut text = String::new();
    let all = image.as_bytes().len() as u64;
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "image: {}, checksum {:08x}, {} nodes, {} patch sites, {} signals",
        bytes_words(all),
        image.checksum(),
        image.nodes(),
        graph.table().sites(),
        graph.signal_slots()
    );
    for (n, (target, device)) in image.targets().zip(graph.devices()).enumerate() {
        let part = if device.takes_part() {
            ""
        } else {
            " (takes no part)"
        };
        let _ = writeln!(
            text,
            "device {n}: {} {}, ABI {}, peer group {}, {} of arguments{part}",
            target.kind,
            target.chip,
            target.abi,
            device.group(),
            bytes_words(device.kernargs_bytes().into())
        );
    }
    for (n, q) in (0u32..).zip(graph.queues()) {
        if q.words() == 0 {
            continue;
        }
        let _ = writeln!(text, "queue {n}: {}, {} words", queue(q), q.words());
        for (w, work) in graph.works().iter().enumerate() {
            if work.queue() != n {
                continue;
            }
            let name = image.node(work.task()).unwrap_or("?");
            let waits: Vec<String> = work
                .waits_for(graph.edges())
                .iter()
                .map(|e| {
                    let first = graph.works().get(*e as usize);
                    let name = first.and_then(|f| image.node(f.task())).unwrap_or("?");
                    format!("{name} ({e})")
                })
                .collect();
            let waits = match waits.is_empty() {
                true => String::new(),
                false => format!(", waits for {}", waits.join(", ")),
            };
            let _ = writeln!(text, "  {w}: {name}{waits}");
        }
    }
    for (n, code) in image.codes().enumerate() {
        let _ = writeln!(
            text,
            "program {n}: {} for device {}, {}, SHA-256 {}",
            code.name,
            code.device,
            bytes_words(code.bytes.len() as u64),
            hex(&code.sha256)
        );
    }
    for (n, buffer) in image.buffers().enumerate() {
        let _ = writeln!(
            text,
            "buffer {n}: {}, {:?} on device {}, {}, {} stored",
            buffer.name,
            buffer.role,
            buffer.device,
            bytes_words(buffer.bytes),
            bytes_words(buffer.contents.len() as u64)
        );
    }
    for (n, v) in image.variables().enumerate() {
        let name = if v.name.is_empty() {
            String::new()
        } else {
            format!("{}, ", v.name)
        };
        let _ = writeln!(text, "variable {n}: {name}{}", variable(v.kind));
    }
    plain(&text)
}

fn as_json(image: &Image<'_>) -> Value {
    let graph = image.graph();
    let devices = image.targets().zip(graph.devices()).map(|(t, d)| {
        json!({ "kind": t.kind, "chip": t.chip, "abi": t.abi, "group": d.group(), "takes_part": d.takes_part() })
    });
    let queues = graph.queues().iter().map(|q| {
        json!({
            "device": q.device(),
            "kind": if q.engine() == Engine::Compute { "compute" } else { "copy" },
            "index": q.index(),
            "words": q.words(),
        })
    });
    let works = graph.works().iter().map(|w| {
        json!({
            "node": image.node(w.task()),
            "queue": w.queue(),
            "waits_for": w.waits_for(graph.edges()),
        })
    });
    let programs = image.codes().map(|c| {
        json!({ "name": c.name, "device": c.device, "bytes": c.bytes.len(), "sha256": hex(&c.sha256) })
    });
    let buffers = image.buffers().map(|b| {
        json!({
            "name": b.name,
            "role": format!("{:?}", b.role),
            "device": b.device,
            "bytes": b.bytes,
            "stored": b.contents.len(),
        })
    });
    let variables = image
        .variables()
        .map(|v| json!({ "name": v.name, "kind": variable(v.kind) }));
    json!({
        "ok": true,
        "exit_code": 0,
        "bytes": image.as_bytes().len(),
        "checksum": image.checksum(),
        "nodes": image.nodes(),
        "patch_sites": graph.table().sites(),
        "signals": graph.signal_slots(),
        "devices": devices.collect::<Vec<_>>(),
        "queues": queues.collect::<Vec<_>>(),
        "works": works.collect::<Vec<_>>(),
        "programs": programs.collect::<Vec<_>>(),
        "buffers": buffers.collect::<Vec<_>>(),
        "variables": variables.collect::<Vec<_>>(),
    })
}
