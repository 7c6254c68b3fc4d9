//! Words of every kind in the rings of simulated engines.

use crate::sim::{CHIPS, PAGE, Rig, Span, alone, put, word};
use hcq_amd::aql::{PACKET_WORDS, vendor::Pm4Ib};
use hcq_amd::chips::Chip;
use hcq_amd::device::Device;
use hcq_amd::pm4::Pm4Compute;
use hcq_amd::sdma::SdmaCopy;
use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{ComputeQueue, CopyQueue, Queue, SignalAt, WriteWidth};
use hcq_nostd::value::Value;
use hcq_uapi::kfd::{
    KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, KFD_IOC_QUEUE_TYPE_SDMA,
};
use std::sync::atomic::Ordering;

/// Where things are: the ring, its pointers, then memory for signals, data and words to jump to.
const RING: u64 = crate::sim::BASE;
const POINTERS: u64 = RING + PAGE;
const DATA: u64 = RING + 2 * PAGE;
const CALLED: u64 = RING + 3 * PAGE;
const PAGE_WORDS: usize = PAGE as usize / 4;
/// A launch of many groups may go on; nobody waits for its end here.
const MOST_TURNS: usize = 3000;

/// Four bytes: the chip, the kind of queue, the seed of the machine, a quarter of how many words are for the ring;
/// then words: those of the ring, and those of a buffer that the ring may call. Accepted are rings that are read to their
/// end with no fault.
pub fn cp_words(data: &[u8]) -> bool {
    let [chip, kind, seed, share, rest @ ..] = data else {
        return false;
    };
    let words: Vec<u32> = rest
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .take(2 * PAGE_WORDS)
        .collect();
    let in_ring = 4 * usize::from(*share);
    let (ring, called) = words.split_at(in_ring.min(words.len()));
    let called = &called[..called.len().min(PAGE_WORDS)];

    let _alone = alone();
    let _span = Span::new();
    let mut rig = Rig::new(CHIPS[usize::from(*chip) % CHIPS.len()], u64::from(*seed));
    for at in [RING, POINTERS, DATA, CALLED] {
        assert_eq!(rig.buffer(PAGE), at);
    }
    put(RING, ring);
    put(CALLED, called);
    let (queue_type, put_at, rung) = match kind % 3 {
        0 => (KFD_IOC_QUEUE_TYPE_COMPUTE, ring.len(), ring.len() as u64),
        1 => {
            let packets = ring.len() / PACKET_WORDS;
            let last = (packets as u64).wrapping_sub(1);
            (KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, packets, last)
        }
        _ => (
            KFD_IOC_QUEUE_TYPE_SDMA,
            ring.len() * 4,
            ring.len() as u64 * 4,
        ),
    };
    let doorbell = rig.queue(queue_type, RING, POINTERS);
    word(POINTERS + 64).store(put_at as u64, Ordering::Release);
    word(doorbell).store(rung, Ordering::Release);
    let still = rig.run(MOST_TURNS);
    let faults = rig.machine.reports().len();
    let read = word(POINTERS).load(Ordering::Acquire);
    // A queue that has stopped stays stopped, and says so once.
    rig.run(50);
    assert!(faults == 0 || rig.machine.reports().len() == faults);
    still && faults == 0 && put_at > 0 && read == put_at as u64
}

const SIGNAL: SignalAt = SignalAt {
    address: Value::Imm(DATA),
    notify: false,
};

/// All words are for the ring.
const ALL: u8 = u8::MAX;

fn seed(head: [u8; 4], words: &[u32]) -> Vec<u8> {
    let mut all = head.to_vec();
    all.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    all
}

/// What all queues can do, with nothing to wait for.
fn common<Q: Queue>(queue: &mut Q) {
    queue
        .write(Value::Imm(DATA + 64), 5u64.into(), WriteWidth::W32)
        .and_then(|q| q.poll_bit(Value::Imm(DATA + 64), 1, 1u64.into()))
        .and_then(|q| q.timestamp(SIGNAL))
        .and_then(|q| q.signal(SIGNAL, 3u64.into()))
        .and_then(|q| q.wait(SIGNAL, 3u64.into()))
        .expect("it is recorded");
}

/// Queues as the driver records them, called and in the ring itself; and words that no engine takes.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    // On several XCCs the words depend on PRED_EXEC, which a ring itself may not have.
    let mut seeds = Vec::new();
    for (names, number, name) in [
        (
            ["bad-pm4-gfx942", "ok-aql-gfx942", "ok-sdma-gfx942"],
            0,
            "gfx942",
        ),
        (
            ["ok-pm4-gfx1100", "ok-aql-gfx1100", "ok-sdma-gfx1100"],
            2,
            "gfx1100",
        ),
        (
            ["ok-pm4-gfx1201", "ok-aql-gfx1201", "ok-sdma-gfx1201"],
            4,
            "gfx1201",
        ),
    ] {
        let chip = Chip::named(name).expect("a chip of the table");
        let xccs = if name == "gfx942" { 8 } else { 1 };
        let device = Device::new(chip, xccs).expect("a device");
        let mut memory = [0u32; 512];
        let mut queue = Pm4Compute::new(&device, &mut memory, PatchList::none());
        queue.memory_barrier().expect("it is recorded");
        common(&mut queue);
        seeds.push((names[0], seed([number, 0, 1, ALL], queue.words())));
        // A packet that calls the words that follow it.
        let called = queue.words();
        let call = Pm4Ib::ordered(CALLED.into(), called.len()).expect("not too many");
        let packet = call.words().expect("no variables");
        let all = [&packet[..], called].concat();
        seeds.push((names[1], seed([number, 1, 2, PACKET_WORDS as u8 / 4], &all)));
        let mut memory = [0u32; 512];
        let mut queue =
            SdmaCopy::new(chip.sdma, None, &mut memory, PatchList::none()).expect("an engine");
        common(&mut queue);
        queue
            .copy(Value::Imm(DATA + 128), Value::Imm(CALLED), Value::Imm(64))
            .expect("it is recorded");
        seeds.push((names[2], seed([number, 2, 3, ALL], queue.words())));
    }
    let wrong = [0xc000_7b00, 0, 0x1234_5678, 0xc006_4900, 0];
    seeds.push(("bad-pm4", seed([2, 0, 1, ALL], &wrong)));
    seeds.push(("bad-sdma", seed([2, 2, 1, ALL], &[0xff; 8])));
    let mut packet = [0u32; PACKET_WORDS];
    packet[0] = 7;
    seeds.push(("bad-aql", seed([2, 1, 1, ALL], &packet)));
    seeds
}
