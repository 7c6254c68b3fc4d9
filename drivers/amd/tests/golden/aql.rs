//! AQL queues: packets, indirect buffers, rings and doorbells.

use std::collections::{BTreeMap, BTreeSet};

use hcq_amd::aql::submit::{doorbell_index, submit};
use hcq_amd::aql::{AqlCompute, PACKET_BYTES, PACKET_WORDS, Packet, Program};
use hcq_amd::kernel::Arguments;
use hcq_nostd::arena::{FencedArena, Mark};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, PatchList, Patcher, RegionId, Site};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _};
use hcq_nostd::record::{Block, RecordError, Room};
use hcq_nostd::ring::Ring;
use hcq_nostd::timeline::Point;
use hcq_nostd::value::Value;

use super::Recording;
use super::json::{self, Json, Operands, Vars, list, number, number32};
use super::lab::{FILLER, Space, bytes_of, compare_memory, compare_words, expected_memory};
use super::{amd, pm4};

const WORDS: usize = 512;
const PACKETS: usize = 8;
const FILLERS: u64 = u64::from_ne_bytes([FILLER; 8]);
/// Regions of the patch list: words, packets, then each launch's arguments.
const PACKET_REGION: RegionId = RegionId(1);

impl<'m> Recording<'m> for AqlCompute<'m> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder().list()
    }
}

/// Everything that a case's queue is recorded into.
struct Memory {
    words: Vec<u32>,
    packets: Vec<u64>,
    kernargs: Vec<(Space, Vec<u64>)>,
}

fn halves(words: &[u64]) -> Vec<u32> {
    words
        .iter()
        .flat_map(|&w| [w as u32, (w >> 32) as u32])
        .collect()
}

impl Memory {
    fn new(case: &Json) -> Self {
        let spaces = amd::kernargs_spaces(case).into_iter();
        Self {
            words: vec![u32::from_ne_bytes([FILLER; 4]); WORDS],
            packets: vec![FILLERS; PACKETS * PACKET_BYTES / 8],
            kernargs: spaces.map(|s| (s, vec![FILLERS; s.bytes / 8])).collect(),
        }
    }

    fn packet_words(&self, packets: usize) -> Vec<u32> {
        halves(&self.packets[..packets * PACKET_BYTES / 8])
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
    let mut q = AqlCompute::new(
        &device,
        &mut memory.words,
        buffer,
        room,
        PACKET_REGION,
        patches,
    );
    let mut kernargs = (2..).zip(&mut memory.kernargs);
    for op in list(&case["inputs"]["ops"]) {
        if amd::common(&mut q, &operands, op)? {
            continue;
        }
        if op["op"] == "memory_barrier" {
            q.memory_barrier()?;
            continue;
        }
        let slots = amd::slots(op);
        let arguments = Arguments {
            layout: amd::layout(&slots),
            hidden: &[],
        };
        let program = Program::new(&device, &amd::kernel(op), arguments, &amd::scratch(op))
            .expect("a program");
        assert_eq!(
            number32(&op["waves_per_sh"]),
            0,
            "packets have no such limit"
        );
        let args = amd::arguments(&operands, q.list(), op, &slots);
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
    let (recorder, packets) = q.finish();
    let (words, list) = recorder.finish();
    Ok((words, packets, list))
}

/// The device's side: ring, pointers, and where indirect buffers go.
struct Host {
    ring: Vec<u64>,
    ring_base: u64,
    position: u64,
    write_ptr: (u64, u64),
    doorbell: (u64, u64),
    buffers: Vec<u64>,
    buffer_base: u64,
}

impl Host {
    fn new(case: &Json) -> Self {
        let inputs = &case["inputs"];
        let (r, area) = (&inputs["ring"], &inputs["pm4_ib_area"]);
        let (base, bytes) = match inputs["bound"] == true {
            true => (number(&inputs["indirect_buffer_addr"]), 0x1000),
            false => (number(&area["addr"]), number(&area["bytes"])),
        };
        Self {
            ring: vec![FILLERS; number(&r["ring_bytes"]) as usize / 8],
            ring_base: number(&r["ring_addr"]),
            position: number(&r["put_value_before"]),
            write_ptr: (number(&r["write_ptr_addr"]), 0),
            doorbell: (number(&r["doorbell_addr"]), 0),
            buffers: vec![FILLERS; bytes as usize / 8],
            buffer_base: base,
        }
    }

    fn write_buffer(&mut self, offset: u64, words: &[u32]) {
        let mut region = Region::from_words(&mut self.buffers, self.buffer_base);
        region.write_words(offset as usize, words).expect("inside");
    }

    fn submit(&mut self, packets: &[u32]) {
        let ring = Region::from_words(&mut self.ring, self.ring_base);
        let mut ring = Ring::resume(ring, PACKET_BYTES, self.position).expect("whole packets");
        let (write_ptr, doorbell) = (&mut self.write_ptr.1, &mut self.doorbell.1);
        let mut rung = |put: u64| (*write_ptr, *doorbell) = (put, doorbell_index(put));
        self.position = submit(&mut ring, packets, &mut rung).expect("room");
    }

    fn check(&self, title: &str, case: &Json, memory: &Memory, expected: &Json, after: &Json) {
        assert_eq!(
            self.write_ptr.1,
            number(&after["put_value_after"]),
            "{title}"
        );
        assert_eq!(self.doorbell.1, number(&after["doorbell_value"]), "{title}");
        let mut spaces: Vec<(u64, Vec<u8>)> = vec![
            (self.buffer_base, bytes_of(&self.buffers)),
            (self.ring_base, bytes_of(&self.ring)),
            (self.write_ptr.0, self.write_ptr.1.to_le_bytes().to_vec()),
            (self.doorbell.0, self.doorbell.1.to_le_bytes().to_vec()),
        ];
        let kernargs = memory.kernargs.iter();
        spaces.extend(kernargs.map(|(s, backing)| (s.addr, bytes_of(backing))));
        let mut want = expected_memory(expected, &[]);
        pm4::correct_memory(&amd::device(case), &mut want);
        compare_memory(title, &spaces, &want);
    }
}

/// What is recorded against the golden list of words and packets, and back from packets and words.
fn check_queue(title: &str, case: &Json, words: &[u32], packets: &[u32], expected: &Json) {
    let items = list(expected);
    assert_eq!(words.len(), items.len(), "{title}: items");
    let mut want: Vec<u32> = items
        .iter()
        .map(|i| i.as_str().map_or(0, |_| number32(i)))
        .collect();
    pm4::correct_words(&amd::device(case), &mut want);
    compare_words(title, words, &want);

    let (packets, _) = packets.as_chunks::<PACKET_WORDS>();
    let decode = |p| Packet::decode(p).unwrap_or_else(|e| panic!("{title}: {e}"));
    let dispatches = packets
        .iter()
        .filter(|p| matches!(decode(p), Packet::KernelDispatch(_)));
    let golden = items.iter().filter(|i| i.is_object());
    let golden: Vec<Vec<u8>> = golden.map(|i| json::bytes(&i["dispatch_packet"])).collect();
    let got: Vec<Vec<u8>> = dispatches
        .map(|p| p.iter().flat_map(|w| w.to_le_bytes()).collect())
        .collect();
    assert_eq!(got, golden, "{title}: dispatch packets");
    for packet in packets {
        assert_eq!(
            decode(packet).words(),
            Some(*packet),
            "{title}: back from a packet"
        );
    }
    // Words in front of, between and behind launches.
    for run in items.split(|i| i.is_object()).filter(|r| !r.is_empty()) {
        let at = run.as_ptr() as usize - items.as_ptr() as usize;
        let at = at / size_of::<Json>();
        let run = &want[at..at + run.len()];
        compare_words(title, &pm4::decode_and_encode(title, run), run);
    }
}

/// Bytes in front are taken; what wraps around them has to be free again.
fn arena<'m>(case: &Json, marks: &'m mut [Mark]) -> FencedArena<'m> {
    let area = &case["inputs"]["pm4_ib_area"];
    let mut arena =
        FencedArena::new(number(&area["addr"]), number(&area["bytes"]), marks).expect("room");
    let used = number(&area["alloc_ptr"]);
    if used > 0 {
        arena.alloc(used - 16, 1).expect("room");
        arena.fence(Point::from_raw(1));
        arena.alloc(16, 1).expect("room");
        arena.fence(Point::from_raw(2));
        arena.retire(Point::from_raw(1));
    }
    arena
}

/// One case of an AQL file.
pub(crate) fn run(case: &Json) {
    if json::variables(case).is_empty() {
        fixed_case(case);
    } else {
        symbolic_case(case);
    }
}

fn fixed_case(case: &Json) {
    let name = json::name(case);
    let bound = case["inputs"]["bound"] == true;
    let mut host = Host::new(case);
    let mut marks = [Mark::EMPTY; 4];
    let mut arena = arena(case, &mut marks);
    let mut memory = Memory::new(case);
    let none = Vars::new();
    for (i, _) in list(&case["after_submit"]).iter().enumerate() {
        // Recorded for each submit, when the place of its buffer is known.
        memory = Memory::new(case);
        let bytes = list(&case["expected_queue"]).len() as u64 * 4;
        let offset = if bound {
            0
        } else {
            arena.alloc(bytes, 16).expect("room")
        };
        arena.fence(Point::from_raw(3 + i as u64));
        let buffer = (host.buffer_base + offset).into();
        let fixed = Operands::Fixed(&none);
        let recorded = record(case, fixed, buffer, &mut memory, PACKETS, PatchList::none());
        let (words, packets, _) = recorded.unwrap_or_else(|e| panic!("{name}: {e}"));

        let mut small = Memory::new(case);
        let short = record(
            case,
            fixed,
            buffer,
            &mut small,
            packets - 1,
            PatchList::none(),
        );
        let Err(RecordError::NoRoom(room)) = short else {
            panic!("{name}: recorded without room")
        };
        let need = Room {
            beside: packets * PACKET_BYTES,
            ..room
        };
        assert_eq!(room, need, "{name}: one packet short");

        let packets = memory.packet_words(packets);
        check_queue(
            name,
            case,
            &memory.words[..words],
            &packets,
            &case["expected_queue"],
        );
        host.write_buffer(offset, &memory.words[..words]);
        host.submit(&packets);
    }
    let after = list(&case["after_submit"]).last().expect("a submit");
    host.check(name, case, &memory, &case["expected_memory"], after);
}

/// Patched bytes: words by index, argument bytes by address, packet bytes by launch and offset.
type Sites = (BTreeSet<usize>, BTreeSet<u64>, BTreeSet<(usize, u64)>);

fn golden_sites(case: &Json) -> Sites {
    let index = |j: &Json| j.as_u64().expect("an index");
    let words = list(&case["item_patches"])
        .iter()
        .map(|p| index(&p["item"]) as usize);
    let (mut arguments, mut packets) = (BTreeSet::new(), BTreeSet::new());
    for p in list(&case["memory_patches"]) {
        let size = index(&p["size"]);
        if p["addr"].is_string() {
            arguments.extend((0..size).map(|i| number(&p["addr"]) + i));
        } else {
            let (item, at) = (index(&p["queue_item"]) as usize, index(&p["packet_byte"]));
            packets.extend((at..at + size).map(|i| (item, i)));
        }
    }
    (words.collect(), arguments, packets)
}

/// The sites of the list, but for where unbound words go. `items` are the launches' places among the words, by packet.
fn recorded_sites(
    patches: &PatchList<'_>,
    memory: &[Space],
    items: &BTreeMap<usize, usize>,
) -> Sites {
    let mut sites = Sites::default();
    for site in patches.sites() {
        let (RegionId(region), offset) = site.place();
        let bytes = site.formula().map_or(0, |f| f.store.bytes());
        let range = offset..offset + bytes;
        match usize::from(region) {
            0 => sites.0.extend(range.step_by(4).map(|o| o as usize / 4)),
            1 => {
                let packet = offset as usize / PACKET_BYTES;
                if let Some(&item) = items.get(&packet) {
                    let start = (packet * PACKET_BYTES) as u32;
                    sites.2.extend(range.map(|o| (item, u64::from(o - start))));
                }
            }
            i if i - 2 < memory.len() => sites
                .1
                .extend(range.map(|o| memory[i - 2].addr + u64::from(o))),
            _ => {}
        }
    }
    sites
}

fn symbolic_case(case: &Json) {
    let name = json::name(case);
    let bound = case["inputs"]["bound"] == true;
    let mut host = Host::new(case);
    let mut marks = [Mark::EMPTY; 4];
    let mut arena = arena(case, &mut marks);

    let (mut sites, mut derived) = ([Site::EMPTY; 32], [Derived::EMPTY; 2]);
    let mut patches = PatchList::new(&mut sites, &mut derived);
    let names = json::variables(case).into_iter();
    let vars: BTreeMap<_, _> = names
        .map(|n| (n, patches.var().expect("a variable")))
        .collect();
    // An unbound queue's words move with every submit: one more variable, in the packets that point at them.
    let place = (!bound).then(|| patches.var().expect("a variable"));
    let buffer = place.map_or_else(|| host.buffer_base.into(), Value::from);

    let mut memory = Memory::new(case);
    let spaces: Vec<Space> = memory.kernargs.iter().map(|(s, _)| *s).collect();
    let symbolic = Operands::Symbolic(&vars);
    let (len, packets, mut patches) = record(case, symbolic, buffer, &mut memory, PACKETS, patches)
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    // A stretch of words is a packet, and so is a launch.
    let (mut items, mut packet, mut words_before) = (BTreeMap::new(), 0, false);
    for (i, item) in list(&case["expected_queue"]).iter().enumerate() {
        if item.is_object() {
            packet += usize::from(words_before);
            items.insert(packet, i);
            packet += 1;
        }
        words_before = !item.is_object();
    }
    assert_eq!(
        recorded_sites(&patches, &spaces, &items),
        golden_sites(case),
        "{name}: sites"
    );

    let sizes: Vec<u64> = [len as u64 * 4, (packets * PACKET_BYTES) as u64]
        .into_iter()
        .chain(spaces.iter().map(|s| s.bytes as u64))
        .collect();
    let mut table = [0; 512];
    let table = patches
        .build(&sizes, &mut table)
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut state = vec![0; table.state_words()];
    let mut patcher = Patcher::new(table, &mut state).expect("room");
    // Words that are not patched are final, the others unresolved.
    let mut template: Vec<u32> = list(&case["expected_queue"])
        .iter()
        .map(|i| i.as_str().map_or(0, |_| number32(i)))
        .collect();
    pm4::correct_words(&amd::device(case), &mut template);
    compare_words(
        &format!("{name}, template"),
        &memory.words[..len],
        &template,
    );
    let mut device_words = vec![0; len.div_ceil(2)];
    Region::from_words(&mut device_words, 0)
        .write_words(0, &memory.words[..len])
        .expect("inside");

    for (i, values) in list(&case["bindings"]).iter().enumerate() {
        let title = format!("{name}, binding {i}");
        let vars_now = json::binding(values);
        for (name, var) in &vars {
            patcher.set(*var, vars_now[name]).expect("a variable");
        }
        let mut offset = 0;
        if let Some(place) = place {
            offset = arena.alloc(len as u64 * 4, 16).expect("room");
            arena.fence(Point::from_raw(3 + i as u64));
            patcher
                .set(place, host.buffer_base + offset)
                .expect("a variable");
        }
        let mut regions = vec![
            Region::from_words(&mut device_words, 0),
            Region::from_words(&mut memory.packets, 0),
        ];
        let kernargs = memory.kernargs.iter_mut();
        regions.extend(kernargs.map(|(s, backing)| Region::from_words(backing, s.addr)));
        patcher
            .apply(&mut regions)
            .unwrap_or_else(|e| panic!("{title}: {e}"));
        let words = halves(&device_words)[..len].to_vec();
        let patched = memory.packet_words(packets);
        // A bound queue is compared where it is bound.
        if values["expected_queue"].is_array() {
            check_queue(&title, case, &words, &patched, &values["expected_queue"]);
        }
        host.write_buffer(offset, &words);
        host.submit(&patched);
        host.check(&title, case, &memory, &values["expected_memory"], values);

        let mut fresh = Memory::new(case);
        let buffer = Value::from(host.buffer_base + offset);
        record(
            case,
            Operands::Fixed(&vars_now),
            buffer,
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
            fresh.packet_words(packets),
            patched,
            "{title}: patched is not recorded afresh"
        );
        for (a, b) in fresh.kernargs.iter().zip(&memory.kernargs) {
            assert_eq!(a.1, b.1, "{title}: patched is not recorded afresh");
        }
    }
}
