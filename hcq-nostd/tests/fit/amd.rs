//! What the AMD golden cases say, as this project's types.

use hcq_nostd::args::{Arg, ArgKind, ArgLayout, ArgSlot};
use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{SignalAt, WriteWidth};
use hcq_nostd::record::RecordError;
use hcq_nostd::value::Value;

use super::golden::{Json, Operands, list, number, number32, signed};
use super::lab::{Image, Recording, Space};
use super::pm4::{Chip, Descriptor, Device, GFX942, GFX1100, Interrupt};

/// The device of a case.
pub(crate) fn device(case: &Json) -> Device {
    let d = &case["inputs"]["device"];
    let chip: &Chip = match d["arch"].as_str() {
        Some("gfx942") => &GFX942,
        Some("gfx1100") => &GFX1100,
        other => panic!("no chip {other:?}"),
    };
    let interrupt = Interrupt {
        mailbox: number(&d["queue_event_mailbox_ptr"]),
        event: number32(&d["queue_event_id"]),
    };
    let interrupt = (d["interface"] == "kfd").then_some(interrupt);
    Device {
        chip,
        xccs: d["xccs"].as_str().map_or(1, |_| number32(&d["xccs"])),
        interrupt,
    }
}

pub(crate) fn signal_at(operands: &Operands<'_>, list: &mut PatchList<'_>, op: &Json) -> SignalAt {
    let signal = &op["signal"];
    SignalAt {
        address: operands.value(list, &signal["addr"]),
        // Timelines of a device that another driver owns are not slept on.
        notify: signal["is_timeline"] == true && signal["owner"] == "kfd",
    }
}

/// The commands that all queues have; `false` for another one.
pub(crate) fn common<'m, Q: Recording<'m>>(
    q: &mut Q,
    operands: &Operands<'_>,
    op: &Json,
) -> Result<bool, RecordError> {
    let value = |q: &mut Q, name: &str| operands.value(q.list(), &op[name]);
    match op["op"].as_str().expect("an operation") {
        "signal" => {
            let v = value(q, "value");
            let at = signal_at(operands, q.list(), op);
            q.signal(at, v)?;
        }
        "wait" => {
            let v = value(q, "value");
            let at = signal_at(operands, q.list(), op);
            q.wait(at, v)?;
        }
        "timestamp" => {
            let at = signal_at(operands, q.list(), op);
            q.timestamp(at)?;
        }
        "write" => {
            let width = if op["b64"] == true {
                WriteWidth::W64
            } else {
                WriteWidth::W32
            };
            let (address, v) = (value(q, "addr"), value(q, "value"));
            q.write(address, v, width)?;
        }
        "poll_bit" => {
            let (address, v) = (value(q, "addr"), value(q, "value"));
            q.poll_bit(address, number32(&op["mask"]), v)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

pub(crate) fn descriptor(op: &Json) -> Descriptor {
    let (p, s) = (&op["program"], &op["device_scratch"]);
    Descriptor {
        entry: number(&p["prog_addr"]),
        rsrc: [
            number32(&p["rsrc1"]),
            number32(&p["rsrc2"]),
            number32(&p["rsrc3"]),
        ],
        wave32: p["wave32"] == true,
        dispatch_ptr: p["enable_dispatch_ptr"] == true,
        private_bytes: number32(&p["private_segment_size"]),
        group_bytes: number32(&p["group_segment_size"]),
        kernel_object: number(&p["aql_kernel_object"]),
        waves_per_sh: number32(&op["waves_per_sh"]),
        scratch: number(&s["scratch_addr"]).into(),
        scratch_bytes: number(&s["scratch_size"]),
        tmpring_size: number32(&s["tmpring_size"]),
    }
}

/// Bytes of a scalar type of the golden data.
pub(crate) fn scalar_bytes(name: &str) -> u32 {
    let bits: u32 = name[1..].parse().expect("a width");
    bits / 8
}

/// Buffers first, then scalars at their natural alignment, from `start` on.
pub(crate) fn slots(op: &Json, start: u32) -> Vec<ArgSlot> {
    let mut at = start;
    let mut slots = Vec::new();
    for _ in list(&op["args"]["buffer_addrs"]) {
        slots.push(ArgSlot::buffer(at));
        at += 8;
    }
    for scalar in list(&op["program"]["scalar_types"]) {
        let bytes = scalar_bytes(scalar.as_str().expect("a type"));
        at = at.next_multiple_of(bytes);
        slots.push(ArgSlot::scalar(at, bytes));
        at += bytes;
    }
    slots
}

pub(crate) fn layout(slots: &[ArgSlot]) -> ArgLayout<'_> {
    ArgLayout {
        slots,
        size: slots.iter().map(|s| s.offset + s.size).max().unwrap_or(0),
        align: 8,
    }
}

/// The arguments of an `exec`, in the order of [`slots`]. `types` are the scalars' types.
pub(crate) fn arguments(
    operands: &Operands<'_>,
    patches: &mut PatchList<'_>,
    op: &Json,
    slots: &[ArgSlot],
    types: &[&str],
) -> Vec<Arg<'static>> {
    let buffers = list(&op["args"]["buffer_addrs"]);
    let mut args: Vec<_> = buffers
        .iter()
        .map(|b| Arg::Buffer(operands.value(patches, b)))
        .collect();
    let scalars = slots.iter().filter(|s| s.kind == ArgKind::Scalar);
    for ((slot, json), name) in scalars.zip(list(&op["args"]["values"])).zip(types) {
        let value = match (*name, operands.value(patches, json)) {
            ("f32", Value::Imm(_)) => u64::from((signed(json) as f32).to_bits()).into(),
            ("f64", Value::Imm(_)) => (signed(json) as f64).to_bits().into(),
            // A negative number in the bits of its type.
            (_, Value::Imm(v)) => (v & u64::MAX >> (64 - 8 * slot.size)).into(),
            (_, v) => v,
        };
        args.push(Arg::Scalar {
            value,
            size: slot.size as u8,
        });
    }
    args
}

/// Work-groups and work-items of an `exec`.
pub(crate) fn sizes(
    operands: &Operands<'_>,
    patches: &mut PatchList<'_>,
    op: &Json,
) -> [[Value; 3]; 2] {
    ["global_size", "local_size"]
        .map(|n| std::array::from_fn(|d| operands.value(patches, &list(&op[n])[d])))
}

/// The argument memory of a case with at most one `exec`.
pub(crate) fn kernargs_space(case: &Json) -> Vec<Space> {
    let exec = list(&case["inputs"]["ops"])
        .iter()
        .find(|op| op["op"] == "exec");
    exec.map_or_else(Vec::new, |op| {
        let bytes = number(&op["args"]["kernargs_size"]) as usize;
        vec![Space {
            addr: number(&op["args"]["kernargs_addr"]),
            bytes: bytes.next_multiple_of(8),
        }]
    })
}

/// The golden ACQUIRE_MEM has a high size word of 32 bits where the field has 8.
pub(crate) fn correct_acquire(want: &mut Image) {
    correct_acquire_words(&mut want.words);
}

pub(crate) fn correct_acquire_words(words: &mut [u32]) {
    const HEADERS: [u32; 2] = [0xc005_5800, 0xc006_5800];
    const SIZE_HI: usize = 3;
    for at in 0..words.len() {
        if HEADERS.contains(&words[at]) {
            assert_eq!(words[at + SIZE_HI], u32::MAX, "a known fault");
            words[at + SIZE_HI] = 0xff;
        }
    }
}
