//! The core under NVIDIA's engines: golden methods and launch descriptors of Ampere and Blackwell, and copies of Ada.

mod fit;

use fit::amd;
use fit::golden::{self, Json, Operands, Vars, list, number, number32};
use fit::lab::{Image, Recording, Sketch, Space, dense, symbolic};
use fit::nv::{ADA, AMPERE, BLACKWELL, Chip, NvCopyQueue, NvQueue, Program, Setup, gpfifo};
use hcq_nostd::arena::{FencedArena, Mark};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId, Site};
use hcq_nostd::queue::{ComputeQueue, CopyQueue, Launch, Program as _, Queue, SignalAt};
use hcq_nostd::record::{Block, Operand, RecordError, Room};
use hcq_nostd::ring::Ring;
use hcq_nostd::timeline::Point;

fn chip(case: &Json) -> &'static Chip {
    match case["inputs"]["device"]["arch"].as_str() {
        Some("ampere") => &AMPERE,
        Some("ada") => &ADA,
        Some("blackwell") => &BLACKWELL,
        other => panic!("no chip {other:?}"),
    }
}

fn setup(op: &Json) -> Setup {
    let given = |name: &str| op[name].as_str().map(|_| number(&op[name]));
    let class = |name: &str| op[name].as_str().map(|_| number32(&op[name]));
    Setup {
        compute_class: class("compute_class"),
        copy_class: class("copy_class"),
        local_window: given("local_mem_window"),
        shared_window: given("shared_mem_window"),
        local_memory: given("local_mem")
            .zip(given("local_mem_tpc_bytes"))
            .map(Into::into),
    }
}

/// Every signal of these cases raises an interrupt on the compute channel, and none on the copy channel.
fn common<'m, Q: Recording<'m>>(
    q: &mut Q,
    operands: &Operands<'_>,
    op: &Json,
) -> Result<bool, RecordError> {
    let at = |q: &mut Q| SignalAt {
        notify: true,
        ..operands.value(q.list(), &op["signal"]["addr"]).into()
    };
    match op["op"].as_str() {
        Some("signal") => {
            let (value, at) = (operands.value(q.list(), &op["value"]), at(q));
            q.signal(at, value)?;
        }
        Some("timestamp") => {
            let at = at(q);
            q.timestamp(at)?;
        }
        _ => return amd::common(q, operands, op),
    }
    Ok(true)
}

/// What the golden data knows of a loaded program: its descriptor, and the driver's words in bank 0.
struct Loaded {
    template: Vec<u32>,
    prefix: Vec<u32>,
}

fn loaded(case: &Json, op: &Json) -> Loaded {
    let (arch, object) = (&case["inputs"]["device"]["arch"], &op["program"]["object"]);
    let programs = golden::cases("nv-programs");
    let same =
        |c: &&Json| &c["inputs"]["device"]["arch"] == arch && &c["inputs"]["object"] == object;
    let expected = &programs
        .iter()
        .find(same)
        .unwrap_or_else(|| panic!("no program {object}"))["expected"];
    let template = golden::bytes(&expected["qmd_template"]);
    Loaded {
        template: template
            .as_chunks::<4>()
            .0
            .iter()
            .map(|b| u32::from_le_bytes(*b))
            .collect(),
        prefix: golden::words(&expected["cbuf0_prefix_words"]),
    }
}

fn banks(op: &Json) -> Vec<(usize, u64)> {
    let banks = op["program"]["constant_buffers"]
        .as_object()
        .expect("banks");
    banks
        .iter()
        .map(|(n, bank)| (n.parse().expect("a number"), number(&bank["size"])))
        .collect()
}

fn execs(case: &Json) -> impl Iterator<Item = &Json> {
    list(&case["inputs"]["ops"])
        .iter()
        .filter(|op| op["op"] == "exec")
}

/// The descriptor follows bank 0 at the next 256 bytes.
fn qmd_address(op: &Json) -> u64 {
    number(&op["args"]["kernargs_addr"])
        + number(&op["program"]["constant_buffers"]["0"]["size"]).next_multiple_of(256)
}

/// Where launch descriptors are put right, in bytes and bits of the vendor's tables and not of the sketch.
struct Faults {
    /// The word of CONSTANT_BUFFER_SIZE_SHIFTED4 of bank 0, from bit 19 on; banks are 8 bytes apart.
    bank_0_size: u64,
    /// The word, the enable bit and the PAYLOAD64B bit of both releases.
    releases: [(u64, u32, u32); 2],
}

const FAULTS_3_0: Faults = Faults {
    bank_0_size: 1056 / 8,
    releases: [(100, 1 << 23, 1 << 29), (116, 1 << 23, 1 << 29)],
};

const FAULTS_5_0: Faults = Faults {
    bank_0_size: 1376 / 8,
    releases: [(36, 1, 1 << 12), (36, 1 << 16, 1 << 28)],
};

struct Compute;

impl Sketch for Compute {
    fn spaces(&self, case: &Json) -> Vec<Space> {
        let bytes = chip(case).qmd.bytes;
        execs(case)
            .flat_map(|op| {
                let addr = number(&op["args"]["kernargs_addr"]);
                let qmd = qmd_address(op);
                [
                    Space {
                        addr,
                        bytes: (qmd - addr) as usize,
                    },
                    Space { addr: qmd, bytes },
                ]
            })
            .collect()
    }

    fn record<'m>(
        &self,
        case: &Json,
        operands: Operands<'_>,
        words: &'m mut [u32],
        patches: PatchList<'m>,
        memory: &mut [Region<'_>],
    ) -> Result<(usize, PatchList<'m>), RecordError> {
        // The descriptors' memory is the queue's, as long as it records.
        let mut descriptors: Vec<Vec<u64>> = memory
            .iter()
            .skip(1)
            .step_by(2)
            .map(|r| vec![0; r.len() / 8])
            .collect();
        let bases = memory
            .iter()
            .skip(1)
            .step_by(2)
            .map(|r| r.device_address(0).expect("an address"));
        let slots = (2..).step_by(2).zip(descriptors.iter_mut().zip(bases));
        let slots = slots.map(|(id, (d, base))| (RegionId(id), Region::from_words(d, base)));
        let recorded = record_compute(case, operands, words, slots.collect(), patches, memory);
        for (region, descriptor) in memory.iter_mut().skip(1).step_by(2).zip(&descriptors) {
            region
                .write(0, zerocopy::IntoBytes::as_bytes(&descriptor[..]))
                .expect("the same length");
        }
        recorded
    }

    fn correct(&self, case: &Json, _: Option<&Vars>, want: &mut Image) {
        if want.memory.is_empty() {
            return;
        }
        let faults = if chip(case).qmd.bytes == 256 {
            FAULTS_3_0
        } else {
            FAULTS_5_0
        };
        for op in execs(case) {
            let qmd = qmd_address(op);
            // Sizes of constant banks are in bytes where the field counts 16 of them.
            for (bank, bytes) in banks(op) {
                let at = qmd + faults.bank_0_size + 8 * bank as u64;
                let (word, size) = (want.u32(at), (bytes as u32) << 19);
                assert_eq!(word >> 19 << 19, size, "a known fault");
                want.set_u32(at, word ^ size | (bytes.div_ceil(16) as u32) << 19);
            }
            // Releases have 64-bit payloads but do not say so.
            for (at, enable, payload64b) in faults.releases {
                let word = want.u32(qmd + at);
                if word & enable != 0 {
                    assert_eq!(word & payload64b, 0, "a known fault");
                    want.set_u32(qmd + at, word | payload64b);
                }
            }
        }
    }
}

fn record_compute<'m>(
    case: &Json,
    operands: Operands<'_>,
    words: &'m mut [u32],
    slots: fit::nv::Slots<'_>,
    patches: PatchList<'m>,
    memory: &mut [Region<'_>],
) -> Result<(usize, PatchList<'m>), RecordError> {
    let mut q = NvQueue::new(chip(case), words, slots, patches);
    let mut banks0 = (1..).step_by(2).zip(memory.iter_mut().step_by(2));
    for op in list(&case["inputs"]["ops"]) {
        if common(&mut q, &operands, op)? {
            continue;
        }
        match op["op"].as_str() {
            Some("memory_barrier") => {
                q.memory_barrier()?;
            }
            Some("setup") => {
                q.setup(&setup(op))?;
            }
            Some("exec") => {
                let loaded = loaded(case, op);
                let slots = amd::slots(op, loaded.prefix.len() as u32 * 4);
                let shared = number32(&op["program"]["shared_bytes"]);
                let layout = amd::layout(&slots);
                let program = Program::new(
                    chip(case),
                    &loaded.template,
                    &banks(op),
                    shared,
                    &loaded.prefix,
                    layout,
                )?;
                let types: Vec<_> = list(&op["program"]["scalar_types"])
                    .iter()
                    .filter_map(Json::as_str)
                    .collect();
                let args = amd::arguments(&operands, q.list(), op, &slots, &types);
                let [groups, local] = amd::sizes(&operands, q.list(), op);
                let (id, region) = banks0.next().expect("one per exec");
                let kernargs =
                    Block::new(region, RegionId(id), 0, program.kernargs_size()).expect("inside");
                q.exec(Launch {
                    program: &program,
                    args: &args,
                    kernargs,
                    groups,
                    local,
                    local_memory: 0,
                })?;
            }
            other => panic!("no operation {other:?}"),
        }
    }
    Ok(q.finish())
}

struct Copy;

impl Sketch for Copy {
    fn spaces(&self, _: &Json) -> Vec<Space> {
        Vec::new()
    }

    fn record<'m>(
        &self,
        case: &Json,
        operands: Operands<'_>,
        words: &'m mut [u32],
        patches: PatchList<'m>,
        _: &mut [Region<'_>],
    ) -> Result<(usize, PatchList<'m>), RecordError> {
        let mut q = NvCopyQueue::new(chip(case), words, patches);
        for op in list(&case["inputs"]["ops"]) {
            if common(&mut q, &operands, op)? {
                continue;
            }
            match op["op"].as_str() {
                Some("setup") => {
                    q.setup(&setup(op))?;
                }
                Some("copy") => {
                    let [to, from, bytes] =
                        ["dest", "src", "size"].map(|n| operands.value(q.list(), &op[n]));
                    q.copy(to, from, bytes)?;
                }
                other => panic!("no operation {other:?}"),
            }
        }
        Ok(q.finish())
    }
}

#[test]
fn symbolic_cases() {
    symbolic(
        "nv compute",
        &Compute,
        &["nv-ampere-compute", "nv-blackwell-compute"],
        |_| true,
    );
    symbolic("nv copy", &Copy, &["nv-copy"], |_| true);
}

#[test]
fn immediates() {
    const COMPUTE: [&str; 27] = [
        "setup_compute",
        "setup_local_mem",
        "setup_all",
        "wait",
        "wait_64",
        "signal",
        "signal_64",
        "timestamp",
        "memory_barrier",
        "write32",
        "write64",
        "poll_bit_set",
        "poll_bit_clear",
        "exec_vadd",
        "exec_saxpy",
        "exec_reduce",
        "exec_gtable",
        "exec_3d",
        "exec_signal_64",
        "exec_signal_two",
        "exec_signal_three",
        "exec_timestamp_signal",
        "exec_exec",
        "exec_signal_exec_signal",
        "exec_signal_three_exec",
        "exec_wait_exec",
        "chain_call",
    ];
    for arch in ["ampere", "blackwell"] {
        let names: Vec<_> = COMPUTE.iter().map(|n| format!("{arch}_{n}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        dense(
            "nv compute",
            &Compute,
            &format!("nv-{arch}-compute"),
            &names,
        );
    }
    for arch in ["ada", "blackwell"] {
        let names = [
            "setup",
            "1",
            "4k",
            "2gib",
            "2gib_plus_1",
            "5gib",
            "zero",
            "signal",
            "wait",
            "timestamp",
            "chain",
        ];
        let names: Vec<_> = names.iter().map(|n| format!("{arch}_copy_{n}")).collect();
        dense(
            "nv copy",
            &Copy,
            "nv-copy",
            &names.iter().map(String::as_str).collect::<Vec<_>>(),
        );
    }
}

#[test]
fn polls_of_more_than_a_known_bit_are_refused() {
    let (mut words, mut sites) = ([0; 16], [Site::EMPTY; 4]);
    let mut patches = PatchList::new(&mut sites, &mut []);
    let var = patches.var().expect("a variable");
    let mut q = NvQueue::new(&AMPERE, &mut words, Vec::new(), patches);
    let at = hcq_nostd::value::Value::from(0x1000u64);
    let not_constant = RecordError::NotConstant {
        operand: Operand::Data,
    };
    assert_eq!(q.poll_bit(at, 1, var.into()).err(), Some(not_constant));
    let two_bits = RecordError::Unsupported {
        operand: Operand::Mask,
    };
    assert_eq!(q.poll_bit(at, 3, 3u64.into()).err(), Some(two_bits));
    assert_eq!(q.finish().0, 0);
}

/// A signal that cannot be folded for want of sites leaves the launch descriptor as it was.
#[test]
fn a_fold_without_room_changes_nothing() {
    let cases = golden::cases("nv-ampere-compute");
    let case = cases
        .iter()
        .find(|c| golden::name(c) == "ampere_sym_timeline_exec")
        .expect("the case");
    let (mut words, mut sites) = ([0; 64], [Site::EMPTY; 3]);
    let mut patches = PatchList::new(&mut sites, &mut []);
    let vars = golden::variables(case)
        .into_iter()
        .map(|n| (n, patches.var().expect("a variable")))
        .collect();
    let [bank, qmd] = [0, 1].map(|i| Compute.spaces(case)[i].addr);
    let (mut bank_words, mut qmd_words) = ([0; 64], [0; 32]);
    let slots = vec![(RegionId(2), Region::from_words(&mut qmd_words, qmd))];
    let mut memory = [Region::from_words(&mut bank_words, bank)];
    let recorded = record_compute(
        case,
        Operands::Symbolic(&vars),
        &mut words,
        slots,
        patches,
        &mut memory,
    );
    // Two sites are the wait's, three the release's: the payload is one, the address two.
    let Err(RecordError::NoRoom(Room { sites: 5, .. })) = recorded.map(|_| ()) else {
        panic!("room for five sites in three")
    };
    for (at, ..) in FAULTS_3_0.releases {
        let word = at as usize / 4;
        assert_eq!(
            (qmd_words[word / 2] >> (word % 2 * 32)) as u32,
            0,
            "word {word}"
        );
    }
}

/// Entries, the ring's pointer and the doorbell after golden submits.
#[test]
fn rings() {
    let mut done = 0;
    for case in ["nv-ampere-compute", "nv-blackwell-compute"]
        .map(golden::cases)
        .iter()
        .flatten()
    {
        let (name, inputs) = (golden::name(case), &case["inputs"]);
        // The program of the last one lies where no golden program was loaded.
        if !inputs["gpfifo"].is_object() || execs(case).next().is_some() {
            continue;
        }
        let mut words = [0; 64];
        let none = Vars::new();
        let (len, _) = Compute
            .record(
                case,
                Operands::Fixed(&none),
                &mut words,
                PatchList::none(),
                &mut [],
            )
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(
            words[..len],
            golden::words(&case["expected_words"]),
            "{name}"
        );

        let (fifo, area) = (&inputs["gpfifo"], &inputs["command_buffer"]);
        let entries = number(&fifo["entries"]);
        let mut memory = vec![0; entries as usize];
        let region = Region::from_words(&mut memory, number(&fifo["ring_addr"]));
        let mut ring = Ring::resume(region, gpfifo::ENTRY_BYTES, number(&fifo["put_value"]))
            .expect("whole entries");
        let mut marks = [Mark::EMPTY; 4];
        let base = number(&area["addr"]);
        let mut arena = FencedArena::new(base, number(&area["bytes"]), &mut marks).expect("a mark");
        if let Some(used) = number(&area["alloc_ptr"]).checked_sub(16) {
            // The bytes in front are free again, the last ones are not.
            arena.alloc(used, 16).expect("room");
            arena.fence(Point::from_raw(1));
            arena.alloc(16, 16).expect("room");
            arena.fence(Point::from_raw(2));
            arena.retire(Point::from_raw(1));
        }
        for (i, want) in list(&case["expected_submits"]).iter().enumerate() {
            let address = match inputs["bound"] == true {
                true => number(&inputs["bound_addr"]),
                false => {
                    base + arena
                        .alloc(len as u64 * 4, 16)
                        .unwrap_or_else(|e| panic!("{name}: {e}"))
                }
            };
            arena.fence(Point::from_raw(3 + i as u64));
            // The engine is told a place in the ring, and the channel's token.
            let (mut gpput, mut rung) = (0, 0);
            let token = number(&fifo["token"]);
            let mut doorbell = |put: u64| (gpput, rung) = (put % entries, token);
            let put = gpfifo::submit(&mut ring, address, len, &mut doorbell)
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(put, Some(number(&want["put_value_after"])), "{name}");
            assert_eq!(
                (gpput, rung),
                (number(&want["gpput"]), number(&want["doorbell"])),
                "{name}"
            );
            ring.consumed(ring.put()).expect("just published");
        }
        for want in list(&case["expected_submits"]) {
            let index = number(&want["gpfifo_index"]) as usize;
            assert_eq!(
                memory[index],
                number(&want["gpfifo_entry"]),
                "{name}: entry {index}"
            );
        }
        done += 1;
    }
    println!("fit nv compute: {done} rings");
    assert_eq!(done, 12);
}

/// A piece of no words would be a control entry.
#[test]
fn an_empty_queue_is_not_submitted() {
    let mut memory = [0; 4];
    let mut ring =
        Ring::new(Region::from_words(&mut memory, 0), gpfifo::ENTRY_BYTES).expect("whole entries");
    assert_eq!(
        gpfifo::submit(&mut ring, 0x1000, 0, &mut |_| panic!("nothing to ring for")),
        Ok(None)
    );
    assert!(
        gpfifo::submit(&mut ring, 1 << 40, 1, &mut |_| panic!(
            "nothing to ring for"
        ))
        .is_err()
    );
    assert_eq!(ring.put(), 0);
}
