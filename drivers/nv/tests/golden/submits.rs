//! Entries, the ring's pointer and the doorbell after golden submits, and the pushbuffer's memory.

use hcq_nostd::arena::{FencedArena, Mark};
use hcq_nostd::mem::Region;
use hcq_nostd::timeline::Point;
use hcq_nv::gpfifo::{ChannelDoorbell, Entry, GP_PUT, GpFifo, NOTIFY_CHANNEL_PENDING};

use super::json::{Json, list, name, number};

/// Submits the words of a case as often as it says.
pub(crate) fn run(case: &Json, words: &[u32]) {
    let (name, inputs) = (name(case), &case["inputs"]);
    let (fifo, area) = (&inputs["gpfifo"], &inputs["command_buffer"]);
    let entries = number(&fifo["entries"]);
    let mut memory = vec![0u64; entries as usize];
    let ring = Region::from_words(&mut memory, number(&fifo["ring_addr"]));
    let mut ring = GpFifo::resume(ring, number(&fifo["put_value"])).expect("whole entries");

    let (mut userd, mut usermode) = (vec![0u64; 64], vec![0u64; 64]);
    let mut doorbell = ChannelDoorbell::new(
        Region::from_words(&mut userd, 0),
        Region::from_words(&mut usermode, 0),
        entries,
        number(&fifo["token"]) as u32,
    )
    .expect("long enough");
    assert_eq!(
        number(&fifo["doorbell_mmio_offset"]),
        NOTIFY_CHANNEL_PENDING as u64
    );

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
                    .alloc(words.len() as u64 * 4, 16)
                    .unwrap_or_else(|e| panic!("{name}: {e}"))
            }
        };
        arena.fence(Point::from_raw(3 + i as u64));
        let entry = Entry::decode(number(&want["gpfifo_entry"])).expect("an entry");
        assert_eq!(entry.address(), address, "{name}: {entry}");
        assert_eq!(
            entry.bits(),
            number(&want["gpfifo_entry"]),
            "{name}: {entry}"
        );
        // The reference's queue has as many words, but for what is put right.
        let put = ring.submit(address, entry.words() as usize, &mut doorbell);
        let put = put.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(put, number(&want["put_value_after"]), "{name}");
        ring.consumed(put).expect("just published");
        assert_eq!(entry.words() as usize, words.len(), "{name}: words");
    }
    let last = list(&case["expected_submits"]).last().expect("a submit");
    let word = |page: &[u64], at: usize| (page[at / 8] >> (at % 8 * 8)) as u32;
    assert_eq!(
        u64::from(word(&userd, GP_PUT)),
        number(&last["gpput"]),
        "{name}"
    );
    let rung = word(&usermode, NOTIFY_CHANNEL_PENDING);
    assert_eq!(u64::from(rung), number(&last["doorbell"]), "{name}");
    for want in list(&case["expected_submits"]) {
        let index = number(&want["gpfifo_index"]) as usize;
        let entry = number(&want["gpfifo_entry"]);
        assert_eq!(memory[index], entry, "{name}: entry {index}");
    }
}
