//! What the golden cases say, as this driver's types.

use hcq_amd::chips::Chip;
use hcq_amd::device::{Device, Event};
use hcq_amd::kernel::{Kernel, MAX_GROUP, Properties};
use hcq_amd::scratch::{Need, Scratch};
use hcq_nostd::args::{Arg, ArgKind, ArgLayout, ArgSlot};
use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{SignalAt, WriteWidth};
use hcq_nostd::record::RecordError;
use hcq_nostd::value::Value;

use super::Recording;
use super::json::{Json, Operands, list, number, number32, signed};
use super::lab::Space;

/// The chip that a case names, found by its name.
pub(crate) fn chip(arch: &Json) -> &'static Chip {
    let name = arch.as_str().expect("a name");
    Chip::named(name).unwrap_or_else(|| panic!("no chip {name}"))
}

/// The device of a case. Its registers are where the case says.
pub(crate) fn device(case: &Json) -> Device {
    let d = &case["inputs"]["device"];
    let xccs = d["xccs"].as_str().map_or(1, |_| number32(&d["xccs"]));
    let device = Device::new(chip(&d["arch"]), xccs as u8).expect("a device");
    let (r, named) = (device.registers(), &d["registers"]);
    for (name, at) in [
        ("COMPUTE_PGM_LO", r.pgm_lo),
        ("COMPUTE_PGM_RSRC1", r.pgm_rsrc1),
        ("COMPUTE_PGM_RSRC3", r.pgm_rsrc3),
        ("COMPUTE_TMPRING_SIZE", r.tmpring_size),
        (
            "COMPUTE_DISPATCH_SCRATCH_BASE_LO",
            r.dispatch_scratch_base_lo,
        ),
        ("COMPUTE_RESTART_X", r.restart_x),
        ("COMPUTE_USER_DATA_0", r.user_data_0),
        ("COMPUTE_RESOURCE_LIMITS", r.resource_limits),
        ("COMPUTE_START_X", r.start_x),
        ("HDP_FLUSH_REQ", r.hdp_flush_req),
        ("HDP_FLUSH_DONE", r.hdp_flush_done),
    ] {
        assert_eq!(number32(&named[name]), at, "{name}");
    }
    if d["interface"] == "kfd" {
        device.with_event(event(d))
    } else {
        device
    }
}

/// The event of a device.
pub(crate) fn event(d: &Json) -> Event {
    Event::new(
        number(&d["queue_event_mailbox_ptr"]),
        number32(&d["queue_event_id"]),
    )
    .expect("an event")
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

pub(crate) fn kernel(op: &Json) -> Kernel {
    let p = &op["program"];
    let mut properties = Properties::KERNARG_SEGMENT_PTR;
    properties.set(Properties::WAVEFRONT_SIZE32, p["wave32"] == true);
    properties.set(Properties::DISPATCH_PTR, p["enable_dispatch_ptr"] == true);
    let private = p["enable_private_segment_sgpr"] == true;
    properties.set(Properties::PRIVATE_SEGMENT_BUFFER, private);
    Kernel {
        entry: number(&p["prog_addr"]),
        object: number(&p["aql_kernel_object"]),
        rsrc: ["rsrc1", "rsrc2", "rsrc3"].map(|r| number32(&p[r])),
        properties,
        group_bytes: number32(&p["group_segment_size"]),
        private_bytes: number32(&p["private_segment_size"]),
        kernarg_bytes: number32(&p["kernargs_segment_size"]),
        max_group: MAX_GROUP,
    }
}

/// The device's scratch memory. A case may run a kernel that needs more per lane than the memory was made for.
pub(crate) fn scratch(op: &Json) -> Scratch {
    let s = &op["device_scratch"];
    let need = Need {
        bytes: number(&s["scratch_size"]),
        lane_bytes: number32(&s["max_private_segment_size"])
            .max(number32(&op["program"]["private_segment_size"])),
        tmpring_size: number32(&s["tmpring_size"]),
    };
    Scratch::new(number(&s["scratch_addr"]), &need).expect("scratch memory")
}

/// Bytes of a scalar type of the golden data.
fn scalar_bytes(name: &str) -> u32 {
    let bits: u32 = name[1..].parse().expect("a width");
    bits / 8
}

/// Buffers first, then scalars at their natural alignment.
pub(crate) fn slots(op: &Json) -> Vec<ArgSlot> {
    let mut at = 0;
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

/// The arguments of an `exec`, in the order of [`slots`].
pub(crate) fn arguments(
    operands: &Operands<'_>,
    patches: &mut PatchList<'_>,
    op: &Json,
    slots: &[ArgSlot],
) -> Vec<Arg<'static>> {
    let buffers = list(&op["args"]["buffer_addrs"]);
    let mut args: Vec<_> = buffers
        .iter()
        .map(|b| Arg::Buffer(operands.value(patches, b)))
        .collect();
    let types = list(&op["program"]["scalar_types"])
        .iter()
        .filter_map(Json::as_str);
    let scalars = slots.iter().filter(|s| s.kind == ArgKind::Scalar);
    for ((slot, json), name) in scalars.zip(list(&op["args"]["values"])).zip(types) {
        let value = match (name, operands.value(patches, json)) {
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

/// The argument memory of each `exec`.
pub(crate) fn kernargs_spaces(case: &Json) -> Vec<Space> {
    let execs = list(&case["inputs"]["ops"])
        .iter()
        .filter(|op| op["op"] == "exec");
    let space = |op: &Json| Space {
        addr: number(&op["args"]["kernargs_addr"]),
        bytes: (number(&op["args"]["kernargs_size"]) as usize).next_multiple_of(8),
    };
    execs.map(space).collect()
}
