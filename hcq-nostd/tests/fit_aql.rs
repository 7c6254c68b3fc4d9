//! The core under AQL: golden packets, indirect buffers, rings and doorbells of gfx11.

mod fit;

use std::collections::BTreeMap;

use fit::amd;
use fit::aql::{AqlQueue, PACKET_BYTES, Program, submit};
use fit::golden::{self, Json, Operands, Vars, list, number};
use fit::lab::{Recording as _, Space};
use hcq_nostd::arena::{FencedArena, Mark};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{BuildError, Derived, PatchList, Patcher, RegionId, Site};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _};
use hcq_nostd::record::{Block, Operand, RecordError, Room};
use hcq_nostd::ring::Ring;
use hcq_nostd::timeline::Point;
use hcq_nostd::value::Value;

const WORDS: usize = 512;
const PACKETS: usize = 8;
const FILLER: u64 = u64::from_ne_bytes([0xa5; 8]);

/// Everything that a case's queue is recorded into.
struct Memory {
    words: Vec<u32>,
    packets: Vec<u64>,
    kernargs: Vec<(Space, Vec<u64>)>,
}

impl Memory {
    fn new(case: &Json) -> Self {
        let execs = list(&case["inputs"]["ops"])
            .iter()
            .filter(|op| op["op"] == "exec");
        let kernargs = execs.map(|op| {
            let bytes = (number(&op["args"]["kernargs_size"]) as usize).next_multiple_of(8);
            let space = Space {
                addr: number(&op["args"]["kernargs_addr"]),
                bytes,
            };
            (space, vec![FILLER; bytes / 8])
        });
        Self {
            words: vec![0; WORDS],
            packets: vec![FILLER; PACKETS * PACKET_BYTES / 8],
            kernargs: kernargs.collect(),
        }
    }

    fn packet_words(&self) -> Vec<u32> {
        self.packets
            .iter()
            .flat_map(|&w| [w as u32, (w >> 32) as u32])
            .collect()
    }
}

/// Records into the first `packets` packets of the memory. Returns the number of words, of packets, and the list.
fn record<'m>(
    case: &Json,
    operands: Operands<'_>,
    buffer: Value,
    memory: &'m mut Memory,
    packets: usize,
    patches: PatchList<'m>,
) -> Result<(usize, usize, PatchList<'m>), RecordError> {
    let device = amd::device(case);
    let room = Region::from_words(&mut memory.packets[..packets * PACKET_BYTES / 8], 0);
    let mut q = AqlQueue::new(device, &mut memory.words, buffer, room, patches);
    let mut kernargs = (2..).zip(&mut memory.kernargs);
    for op in list(&case["inputs"]["ops"]) {
        if amd::common(&mut q, &operands, op)? {
            continue;
        }
        if op["op"] == "memory_barrier" {
            q.memory_barrier()?;
            continue;
        }
        let slots = amd::slots(op, 0);
        let program = Program::new(&amd::descriptor(op), amd::layout(&slots));
        let args = amd::arguments(&operands, q.list(), op, &slots, &[]);
        let [groups, local] = amd::sizes(&operands, q.list(), op);
        let (id, (space, backing)) = kernargs.next().expect("one per exec");
        let mut region = Region::from_words(backing, space.addr);
        let kernargs =
            Block::new(&mut region, RegionId(id), 0, program.kernargs_size()).expect("inside");
        q.exec(Launch {
            program: &program,
            args: &args,
            kernargs,
            groups,
            local,
            local_memory: 0,
        })?;
    }
    Ok(q.finish())
}

/// The device's side: ring, pointers, and where indirect buffers go.
struct Host {
    ring: Vec<u64>,
    position: u64,
    write_ptr: u64,
    doorbell: u64,
    buffers: Vec<u64>,
    buffer_base: u64,
}

impl Host {
    fn new(case: &Json) -> Self {
        let inputs = &case["inputs"];
        let bound = inputs["bound"] == true;
        let area = &inputs["pm4_ib_area"];
        let (base, bytes) = match bound {
            true => (number(&inputs["indirect_buffer_addr"]), 0x1000),
            false => (number(&area["addr"]), number(&area["bytes"])),
        };
        Self {
            ring: vec![FILLER; number(&inputs["ring"]["ring_bytes"]) as usize / 8],
            position: number(&inputs["ring"]["put_value_before"]),
            write_ptr: 0,
            doorbell: 0,
            buffers: vec![FILLER; bytes as usize / 8],
            buffer_base: base,
        }
    }

    fn write_buffer(&mut self, offset: u64, words: &[u32]) {
        let mut region = Region::from_words(&mut self.buffers, self.buffer_base);
        region.write_words(offset as usize, words).expect("inside");
    }

    fn submit(&mut self, packets: &[u32]) {
        let ring = Region::from_words(&mut self.ring, 0);
        let mut ring = Ring::resume(ring, PACKET_BYTES, self.position).expect("whole packets");
        let (write_ptr, doorbell) = (&mut self.write_ptr, &mut self.doorbell);
        // The write index counts packets; the doorbell takes the last one's.
        let ring_for = |put: u64| (*write_ptr, *doorbell) = (put, put - 1);
        self.position = submit(&mut ring, packets, &mut { ring_for }).expect("room");
    }

    fn check(&self, title: &str, memory: &Memory, expected: &Json) {
        let mut spaces: Vec<(u64, Vec<u8>)> = vec![
            (self.buffer_base, bytes_of(&self.buffers)),
            (0x0812_0000_0000, bytes_of(&self.ring)),
            (0x0812_0010_0000, self.write_ptr.to_le_bytes().to_vec()),
            (0x0812_0010_2000, self.doorbell.to_le_bytes().to_vec()),
        ];
        spaces.extend(
            memory
                .kernargs
                .iter()
                .map(|(s, backing)| (s.addr, bytes_of(backing))),
        );
        let mut want: BTreeMap<u64, u8> = BTreeMap::new();
        for run in list(expected) {
            want.extend((number(&run["addr"])..).zip(golden::bytes(&run["bytes"])));
        }
        // ACQUIRE_MEM in the buffers: the high size word has 8 bits and not 32.
        let acquires: Vec<u64> = want
            .keys()
            .copied()
            .filter(|&at| word(&want, at) == Some(0xc006_5800))
            .collect();
        for at in acquires.iter().map(|at| at + 12) {
            assert_eq!(word(&want, at), Some(u32::MAX), "a known fault");
            want.extend((at..).zip(0xffu32.to_le_bytes()));
        }
        let mut seen = 0;
        for (base, bytes) in &spaces {
            for (addr, got) in (*base..).zip(bytes) {
                seen += usize::from(want.contains_key(&addr));
                let want = want.get(&addr).copied().unwrap_or(0xa5);
                assert_eq!(
                    *got, want,
                    "{title}: byte at {addr:#x}: {got:#04x}, not {want:#04x}"
                );
            }
        }
        assert_eq!(
            seen,
            want.len(),
            "{title}: golden memory outside of what was compared"
        );
    }
}

fn word(bytes: &BTreeMap<u64, u8>, at: u64) -> Option<u32> {
    let byte = |i: u64| bytes.get(&(at + i)).copied();
    at.is_multiple_of(4)
        .then_some(u32::from_le_bytes([byte(0)?, byte(1)?, byte(2)?, byte(3)?]))
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

fn arena<'m>(case: &Json, marks: &'m mut [Mark]) -> FencedArena<'m> {
    let area = &case["inputs"]["pm4_ib_area"];
    let mut arena =
        FencedArena::new(number(&area["addr"]), number(&area["bytes"]), marks).expect("room");
    let used = number(&area["alloc_ptr"]);
    if used > 0 {
        // Bytes in front are taken; what wraps around them has to be free again.
        arena.alloc(used - 16, 1).expect("room");
        arena.fence(Point::from_raw(1));
        arena.alloc(16, 1).expect("room");
        arena.fence(Point::from_raw(2));
        arena.retire(Point::from_raw(1));
    }
    arena
}

#[test]
fn immediates() {
    let mut done = 0;
    for case in golden::cases("amd-gfx1100-aql")
        .iter()
        .filter(|c| golden::variables(c).is_empty())
    {
        let name = golden::name(case);
        let bound = case["inputs"]["bound"] == true;
        let mut host = Host::new(case);
        let mut marks = [Mark::EMPTY; 4];
        let mut arena = arena(case, &mut marks);
        let mut memory = Memory::new(case);
        let after = list(&case["after_submit"]);
        for (i, after) in after.iter().enumerate() {
            memory = Memory::new(case);
            // Recorded for each submit, when the place of its buffer is known.
            let items = list(&case["expected_queue"]).len() as u64;
            let offset = if bound {
                0
            } else {
                arena
                    .alloc(items * 4, 16)
                    .unwrap_or_else(|e| panic!("{name}: {e}"))
            };
            arena.fence(Point::from_raw(3 + i as u64));
            let buffer = (host.buffer_base + offset).into();
            let recorded = record(
                case,
                Operands::Fixed(&Vars::new()),
                buffer,
                &mut memory,
                PACKETS,
                PatchList::none(),
            );
            let (words, packets, _) = recorded.unwrap_or_else(|e| panic!("{name}: {e}"));

            let (none, mut small) = (Vars::new(), Memory::new(case));
            let short = record(
                case,
                Operands::Fixed(&none),
                buffer,
                &mut small,
                packets - 1,
                PatchList::none(),
            );
            let need = Room {
                beside: packets * PACKET_BYTES,
                ..Room::default()
            };
            let Err(RecordError::NoRoom(room)) = short else {
                panic!("{name}: recorded without room")
            };
            assert_eq!(Room { words: 0, ..room }, need, "{name}: one packet short");

            host.write_buffer(offset, &memory.words[..words]);
            host.submit(&memory.packet_words()[..packets * PACKET_BYTES / 4]);
            assert_eq!(host.write_ptr, number(&after["put_value_after"]), "{name}");
            assert_eq!(host.doorbell, number(&after["doorbell_value"]), "{name}");
        }
        host.check(name, &memory, &case["expected_memory"]);
        done += 1;
    }
    println!("fit aql: {done} cases of immediates");
    assert_eq!(done, 13);
}

#[test]
fn symbolic_cases() {
    let mut done = 0;
    for case in golden::cases("amd-gfx1100-aql")
        .iter()
        .filter(|c| !golden::variables(c).is_empty())
    {
        symbolic_case(case);
        done += 1;
    }
    println!("fit aql: {done} of {done} symbolic cases");
    assert_eq!(done, 2);
}

fn symbolic_case(case: &Json) {
    let name = golden::name(case);
    let bound = case["inputs"]["bound"] == true;
    let mut host = Host::new(case);
    let mut marks = [Mark::EMPTY; 4];
    let mut arena = arena(case, &mut marks);

    let (mut sites, mut derived) = ([Site::EMPTY; 32], [Derived::EMPTY; 2]);
    let mut patches = PatchList::new(&mut sites, &mut derived);
    let vars: BTreeMap<_, _> = golden::variables(case)
        .into_iter()
        .map(|n| (n, patches.var().expect("a variable")))
        .collect();
    // An unbound queue's words move with every submit: one more variable, in the packets that point at them.
    let place = (!bound).then(|| patches.var().expect("a variable"));
    let buffer = place.map_or_else(|| host.buffer_base.into(), Value::from);

    let mut memory = Memory::new(case);
    let kernargs_bytes = memory.kernargs[0].0.bytes as u64;
    let (len, packets, mut patches) = record(
        case,
        Operands::Symbolic(&vars),
        buffer,
        &mut memory,
        PACKETS,
        patches,
    )
    .unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(len, list(&case["expected_queue"]).len(), "{name}: items");
    let sizes = [
        len as u64 * 4,
        (packets * PACKET_BYTES) as u64,
        kernargs_bytes,
    ];
    let mut table = [0; 512];
    let table = patches
        .build(&sizes, &mut table)
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut state = vec![0; table.state_words()];
    let mut patcher = Patcher::new(table, &mut state).expect("room");
    let mut device_words = vec![0; len.div_ceil(2)];
    Region::from_words(&mut device_words, 0)
        .write_words(0, &memory.words[..len])
        .expect("inside");

    for (i, bound_values) in list(&case["bindings"]).iter().enumerate() {
        let title = format!("{name}, binding {i}");
        let values = golden::binding(bound_values);
        for (name, var) in &vars {
            patcher.set(*var, values[name]).expect("a variable");
        }
        let mut offset = 0;
        if let Some(place) = place {
            offset = arena.alloc(len as u64 * 4, 16).expect("room");
            arena.fence(Point::from_raw(3 + i as u64));
            patcher
                .set(place, host.buffer_base + offset)
                .expect("a variable");
        }
        let (space, kernargs) = &mut memory.kernargs[0];
        let mut regions = [
            Region::from_words(&mut device_words, 0),
            Region::from_words(&mut memory.packets, 0),
            Region::from_words(kernargs, space.addr),
        ];
        patcher
            .apply(&mut regions)
            .unwrap_or_else(|e| panic!("{title}: {e}"));
        let words: Vec<u32> = device_words
            .iter()
            .flat_map(|&w| [w as u32, (w >> 32) as u32])
            .take(len)
            .collect();
        host.write_buffer(offset, &words);
        let patched = memory.packet_words();
        host.submit(&patched[..packets * PACKET_BYTES / 4]);
        assert_eq!(
            host.write_ptr,
            number(&bound_values["put_value_after"]),
            "{title}"
        );
        assert_eq!(
            host.doorbell,
            number(&bound_values["doorbell_value"]),
            "{title}"
        );
        host.check(&title, &memory, &bound_values["expected_memory"]);

        let mut fresh = Memory::new(case);
        let place = host.buffer_base + offset;
        record(
            case,
            Operands::Fixed(&values),
            place.into(),
            &mut fresh,
            PACKETS,
            PatchList::none(),
        )
        .unwrap_or_else(|e| panic!("{title}: recorded afresh: {e}"));
        assert_eq!(
            fresh.words[..len],
            words,
            "{title}: patched is not recorded afresh"
        );
        assert_eq!(
            fresh.packets, memory.packets,
            "{title}: patched is not recorded afresh"
        );
        assert_eq!(
            fresh.kernargs[0].1, memory.kernargs[0].1,
            "{title}: patched is not recorded afresh"
        );
    }
}

/// A grid is a product: one that leaves 64 bits does not come back in as a small number.
#[test]
fn a_grid_beyond_32_bits_is_refused() {
    let cases = golden::cases("amd-gfx1100-aql");
    let op = &list(&cases[0]["inputs"]["ops"])[0];
    let slots = amd::slots(op, 0);
    let program = Program::new(&amd::descriptor(op), amd::layout(&slots));
    let (none, mut patches) = (Vars::new(), PatchList::none());
    let args = amd::arguments(&Operands::Fixed(&none), &mut patches, op, &slots, &[]);
    for count in [0, 1 << 22, (1 << 54) + 1, u64::MAX] {
        let (mut words, mut packets, mut memory) = ([0; 4], [0; 8], [0; 2]);
        let room = Region::from_words(&mut packets, 0);
        let mut q = AqlQueue::new(
            amd::device(&cases[0]),
            &mut words,
            0u64.into(),
            room,
            PatchList::none(),
        );
        let mut region = Region::from_words(&mut memory, 0x1000);
        let kernargs = Block::new(&mut region, RegionId(2), 0, 16).expect("inside");
        let (groups, local) = (
            [count, 1, 1].map(Value::from),
            [1024u64, 1, 1].map(Value::from),
        );
        let launch = Launch {
            program: &program,
            args: &args,
            kernargs,
            groups,
            local,
            local_memory: 0,
        };
        let refused = q.exec(launch).err();
        let product = RecordError::Patch(BuildError::Product { a: count, b: 1024 });
        let misfit = matches!(
            refused,
            Some(RecordError::Misfit {
                operand: Operand::Groups(0),
                ..
            })
        );
        assert!(misfit || refused == Some(product), "{count}: {refused:?}");
        assert_eq!(q.finish().1, 0);
    }
}
