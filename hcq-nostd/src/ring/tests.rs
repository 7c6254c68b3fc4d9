use super::*;
use crate::mem::{SharedWord, consume_fence};
use crate::testing::{Rng, cases, most, rounds};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

/// Steps from `put` that end before `get` comes round again.
fn walk_free(put: u64, get: u64, len: u64) -> u64 {
    (0..=len)
        .take_while(|n| put + n <= get + len)
        .last()
        .expect("none is always free")
}

#[test]
fn free_run_and_padding_match_a_walk() {
    for len in 1..=if cfg!(miri) { 4 } else { 9u64 } {
        for get in 0..3 * len {
            for put in get..=get + len {
                assert_eq!(
                    arith::free(put, get, len),
                    walk_free(put, get, len),
                    "{put} {get} {len}"
                );
                let to_end = (put..).take_while(|p| (p + 1) % len != 0).count() as u64 + 1;
                assert_eq!(arith::to_end(put, len), to_end, "{put} {len}");
                for n in 0..=len {
                    let wraps = (put..put + n).skip(1).any(|p| p % len == 0);
                    let padding = if wraps { to_end } else { 0 };
                    assert_eq!(arith::padding(put, n, len), padding, "{put} {n} {len}");
                }
            }
        }
    }
    assert_eq!(
        (
            arith::to_end(5, 0),
            arith::padding(5, 1, 0),
            arith::free(5, 5, 0)
        ),
        (0, 0, 0)
    );
    assert_eq!(arith::free(2, u64::MAX - 1, 9), 9 - 4);
}

#[test]
fn narrow_counts_extend_to_what_they_were_cut_from() {
    for bits in [0u32, 1, 3, 8, 31, 32, 63, 64, 65] {
        let turn = 1u128 << bits.min(64);
        for last in [0, 1, 7, 255, u64::from(u32::MAX), 1 << 40, u64::MAX - 3] {
            for step in [0, 1, 2, 6, 200, 1 << 20] {
                if u128::from(step) >= turn && bits < 64 {
                    continue;
                }
                let truth = last.wrapping_add(step);
                let raw = (u128::from(truth) % turn) as u64;
                assert_eq!(
                    arith::extend(raw, bits, last),
                    truth,
                    "{bits} {last} {step}"
                );
                // What is above the bits does not matter.
                if bits < 64 {
                    assert_eq!(arith::extend(raw | (!0 << bits), bits, last), truth);
                }
            }
        }
    }
}

#[test]
fn a_ring_has_the_shape_of_its_memory() {
    let mut memory = [0u64; 4];
    for (entry, bytes, len) in [
        (4, 32, Some(8)),
        (8, 24, Some(3)),
        (12, 24, Some(2)),
        (32, 32, Some(1)),
        (0, 32, None),
        (6, 30, None),
        (3, 30, None),
        (16, 24, None),
        (8, 0, None),
        (usize::MAX, 32, None),
    ] {
        let region = Region::from_words(&mut memory, 0)
            .slice(0, bytes)
            .expect("inside");
        let ring = Ring::new(region, entry).map(|r| r.len());
        assert_eq!(ring, len.ok_or(RingError::Shape { bytes, entry }));
    }
}

#[test]
fn nothing_changes_until_publish_and_nothing_after_drop() {
    let mut memory = [0u64; 4];
    let base = memory.as_ptr();
    let mut ring = Ring::new(Region::from_words(&mut memory, 0), 8).expect("four entries");
    {
        let mut dropped = ring.reserve(2).expect("room");
        dropped.fill(0, &[1, 2, 3, 4]).expect("inside");
    }
    assert_eq!((ring.put(), ring.free(), ring.is_empty()), (0, 4, true));
    let mut hole = ring.reserve(2).expect("room");
    assert_eq!((hole.first(), hole.len(), hole.is_empty()), (0, 2, false));
    let outside = |entry: u64, len, region| {
        Err(AccessError::OutOfBounds {
            offset: entry,
            len,
            region,
        })
    };
    assert_eq!(hole.fill(0, &[0; 5]), outside(0, 20, 16));
    assert_eq!(hole.fill(1, &[0; 3]), outside(1, 12, 8));
    assert_eq!(hole.fill(2, &[0]), outside(2, 4, 0));
    assert_eq!(hole.fill(3, &[]), outside(3, 0, 0));
    assert_eq!(hole.fill(u64::MAX, &[0]), outside(u64::MAX, 4, 0));
    assert_eq!(hole.fill_header(2, 0), outside(2, 4, 2));
    assert_eq!(hole.fill(2, &[]), Ok(()));
    hole.fill(1, &[5, 6]).expect("inside");
    hole.fill_header(1, 9).expect("inside");
    let mut rung = vec![];
    assert_eq!(hole.publish(&mut |put| rung.push(put)), 2);
    assert_eq!(
        (rung, ring.put(), ring.get(), ring.free()),
        (vec![2], 2, 0, 2)
    );
    assert_eq!(
        ring.reserve(3).map(|_| ()),
        Err(WouldBlock { need: 3, free: 2 })
    );
    assert_eq!(
        (base, memory),
        (memory.as_ptr(), [1 | 2 << 32, 9 | 6 << 32, 0, 0])
    );
}

#[test]
fn a_push_is_a_hole_filled_and_published() {
    for position in [0, 1, 6, u64::MAX - 2] {
        let (mut one, mut two) = ([0u64; 5], [0u64; 5]);
        let ring = |memory| Ring::resume(Region::from_words(memory, 0), 8, position);
        let mut pushed = ring(&mut one).and_then(|r| r.keep_free(1)).expect("a ring");
        let mut filled = ring(&mut two).and_then(|r| r.keep_free(1)).expect("a ring");
        for round in 0u32..20 {
            let n = u64::from(1 + round % 3);
            let words: [u32; 6] = core::array::from_fn(|i| 10 * round + i as u32);
            let (mut rung, mut told) = (None, None);
            let mut bell = |put| rung = Some(put);
            let put = match words {
                [a, b, ..] if n == 1 => pushed.push(n, &[a, b], &mut bell),
                [a, b, c, d, ..] if n == 2 => pushed.push(n, &[a, b, c, d], &mut bell),
                _ => pushed.push(n, &words, &mut bell),
            };
            let mut hole = filled.reserve(n).expect("an empty ring");
            hole.fill(0, &words[..2 * n as usize]).expect("inside");
            assert_eq!(put, Ok(hole.publish(&mut |put| told = Some(put))));
            assert_eq!(rung, told);
            assert_eq!((pushed.put(), pushed.free()), (filled.put(), filled.free()));
            // What is left is too little for a fourth, and for one of the wrong length.
            let (put, free) = (pushed.put(), pushed.free());
            let never = &mut |_| panic!("nothing was published");
            let full = WouldBlock { need: 4, free };
            assert_eq!(pushed.push(4, &[0; 8], never), Err(RingError::Full(full)));
            let large = RingError::TooLarge { need: 5, len: 4 };
            assert_eq!(pushed.push(5, &[0; 10], never), Err(large));
            for (n, region) in [(1, 8), (0, 0)] {
                let len = AccessError::OutOfBounds {
                    offset: 0,
                    len: 4,
                    region,
                };
                assert_eq!(pushed.push(n, &[0], never), Err(RingError::Fill(len)));
            }
            assert_eq!((pushed.put(), pushed.free()), (put, free));
            for ring in [&mut pushed, &mut filled] {
                ring.consumed(put).expect("what was published");
            }
        }
        assert_eq!(one, two);
    }
}

#[test]
fn what_a_device_claims_is_checked() {
    for position in [0, 5, u64::MAX - 3, u64::MAX] {
        let mut memory = [0u64; 4];
        let mut ring =
            Ring::resume(Region::from_words(&mut memory, 0), 8, position).expect("four entries");
        let at = |n: u64| position.wrapping_add(n);
        ring.reserve(3).expect("room").publish(&mut |_| ());
        for bogus in [at(4), at(u64::MAX), at(1 << 63), at(100)] {
            let error = RingError::Consumed {
                get: bogus,
                last: position,
                put: at(3),
            };
            assert_eq!(ring.consumed(bogus), Err(error));
            assert_eq!((ring.get(), ring.free()), (position, 1));
        }
        assert_eq!((ring.consumed(at(2)), ring.free()), (Ok(()), 3));
        assert!(ring.consumed(at(1)).is_err());
        assert_eq!(
            (ring.consumed(at(2)), ring.consumed(at(3)), ring.is_empty()),
            (Ok(()), Ok(()), true)
        );
        ring.reserve(4).expect("room").publish(&mut |_| ());
        assert_eq!((ring.put(), ring.free()), (at(7), 0));
    }
}

#[test]
fn entries_can_be_kept_free() {
    let mut memory = [0u64; 4];
    let mut make = |n| {
        Ring::new(Region::from_words(&mut memory, 0), 8)
            .and_then(|r| r.keep_free(n))
            .map(|r| r.capacity())
    };
    assert_eq!((make(0), make(1), make(3)), (Ok(4), Ok(3), Ok(1)));
    assert_eq!(make(4), Err(RingError::TooLarge { need: 5, len: 4 }));
    assert!(make(u64::MAX).is_err());
    let ring = Ring::new(Region::from_words(&mut memory, 0), 8).expect("four entries");
    let mut ring = ring.keep_free(1).expect("three are left");
    assert_eq!(
        ring.reserve(4).map(|_| ()),
        Err(WouldBlock { need: 4, free: 3 })
    );
    ring.reserve(3).expect("room").publish(&mut |_| ());
    assert!(ring.keep_free(2).is_err());
}

#[test]
fn a_piece_that_no_waiting_lets_in_says_so() {
    for len in 1..=9u64 {
        for place in 0..len {
            for n in 0..=len + 1 {
                let mut memory = vec![0u64; len as usize];
                let mut ring =
                    Ring::resume(Region::from_words(&mut memory, 0), 8, place).expect("entries");
                let padding = if place + n > len { len - place } else { 0 };
                let fits = padding + n <= len;
                let got = ring
                    .reserve_in_one_piece(n, &[7, 7])
                    .map(|h| (h.first(), h.len()));
                let want = Err(RingError::TooLarge {
                    need: padding + n,
                    len,
                });
                assert_eq!(
                    got,
                    if fits { Ok((place + padding, n)) } else { want },
                    "{n} at {place} of {len}"
                );
                assert!(fits || 2 * n > len);
                // Padding alone, consumed, makes room for whatever the ring can hold.
                let end = ring.reserve_to_end(&[7, 7]).expect("an empty ring");
                assert_eq!(end.len(), if place == 0 { 0 } else { len - place });
                let put = end.publish(&mut |_| ());
                ring.consumed(put).expect("published");
                assert_eq!(ring.reserve_in_one_piece(n, &[7, 7]).is_ok(), n <= len);
            }
        }
    }
    let mut memory = [0u64; 4];
    let mut ring = Ring::new(Region::from_words(&mut memory, 0), 8).expect("four entries");
    assert!(matches!(
        ring.reserve_in_one_piece(1, &[1]),
        Err(RingError::Fill(_))
    ));
    assert!(matches!(
        ring.reserve_to_end(&[1, 2, 3]),
        Err(RingError::Fill(_))
    ));
    assert!(matches!(
        ring.reserve_in_one_piece(u64::MAX, &[1, 1]),
        Err(RingError::TooLarge { .. })
    ));
}

#[derive(Clone, Debug)]
enum Step {
    Reserve { n: u64, split: u64, publish: bool },
    OnePiece { n: u64, publish: bool },
    ToEnd,
    Consume(u64),
    Bogus(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..12, 0u64..12, prop::bool::weighted(0.8)).prop_map(|(n, split, publish)| Step::Reserve { n, split, publish }),
        3 => (0u64..12, prop::bool::weighted(0.8)).prop_map(|(n, publish)| Step::OnePiece { n, publish }),
        1 => Just(Step::ToEnd),
        4 => (0u64..12).prop_map(Step::Consume),
        1 => any::<u64>().prop_map(Step::Bogus),
    ]
}

const PAD: u32 = 0xffff_0000;

/// The device: reads `n` entries from the memory, in the order of the ring.
fn consume(memory: &Region<'_>, get: &mut u64, entry: usize, n: u64) -> Vec<Vec<u32>> {
    let len = (memory.len() / entry) as u64;
    let mut out = vec![];
    for _ in 0..n {
        let at = (*get % len) as usize * entry;
        let words = (0..entry / 4)
            .map(|w| memory.load_u32(at + w * 4).expect("inside"))
            .collect();
        out.push(words);
        *get += 1;
    }
    out
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn a_ring_is_a_queue(
        len in 1u64..10,
        words in 1usize..5,
        position in 0u64..20,
        spare in 0u64..2,
        steps in prop::collection::vec(step(), 0..most(120)),
    ) {
        let entry = words * 4;
        let spare = spare.min(len - 1);
        let mut memory = vec![0u64; (len as usize * entry).div_ceil(8)];
        let mut region = Region::from_words(&mut memory, 0).slice(0, len as usize * entry).expect("inside");
        // The device has a view of its own; both are used in turns.
        // SAFETY: the bytes outlive both, and no two accesses happen at the same time (one thread).
        #[allow(unsafe_code)]
        let device = unsafe { Region::new(region.as_ptr(), region.len(), 0) };
        region.fill(0, region.len(), 0).expect("inside");
        let mut ring = Ring::resume(region, entry, position).expect("shape").keep_free(spare).expect("some left");
        let capacity = len - spare;
        let mut queue: VecDeque<Vec<u32>> = VecDeque::new();
        let (mut put, mut get, mut number) = (position, position, 0u32);
        for step in steps {
            let free = capacity - queue.len() as u64;
            prop_assert_eq!((ring.put(), ring.get(), ring.free()), (put, get, free));
            let (padding, n, publish, split) = match step {
                Step::Reserve { n, split, publish } => (0, n, publish, split),
                Step::OnePiece { n, publish } => {
                    let left = len - put % len;
                    (if n > left { left } else { 0 }, n, publish, 0)
                }
                Step::ToEnd => {
                    let n = (len - put % len) % len;
                    match ring.reserve_to_end(&vec![PAD; words]) {
                        Ok(hole) => {
                            prop_assert_eq!((hole.first(), hole.len()), (put, n));
                            put = hole.publish(&mut |_| ());
                            queue.extend((0..n).map(|_| vec![PAD; words]));
                        }
                        Err(RingError::Full(b)) => prop_assert!(b.need == n && b.free == free && n > free),
                        Err(e) => prop_assert!(n > capacity, "{}", e),
                    }
                    continue;
                }
                Step::Consume(n) => {
                    let n = n.min(queue.len() as u64);
                    let seen = consume(&device, &mut get, entry, n);
                    let want: Vec<Vec<u32>> = queue.drain(..n as usize).collect();
                    prop_assert_eq!(seen, want);
                    prop_assert_eq!(ring.consumed(get), Ok(()));
                    continue;
                }
                Step::Bogus(claim) => {
                    let possible = (get..=put).contains(&claim);
                    if !possible {
                        prop_assert_eq!(ring.consumed(claim), Err(RingError::Consumed { get: claim, last: get, put }));
                    }
                    continue;
                }
            };
            let one_piece = matches!(step, Step::OnePiece { .. });
            let hole = if one_piece {
                ring.reserve_in_one_piece(n, &vec![PAD; words])
            } else {
                ring.reserve(n).map_err(RingError::Full)
            };
            let need = padding + n;
            let mut hole = match hole {
                Ok(hole) => hole,
                Err(e) => {
                    let never = one_piece && need > capacity;
                    let blocked = RingError::Full(WouldBlock { need, free });
                    let want = if never { RingError::TooLarge { need, len: capacity } } else { blocked };
                    prop_assert_eq!(e, want);
                    prop_assert!(never || need > free);
                    continue;
                }
            };
            prop_assert!(need <= free);
            prop_assert_eq!((hole.first(), hole.len()), (put + padding, n));
            let entries: Vec<Vec<u32>> =
                (0..n).map(|i| (0..words as u32).map(|w| number + i as u32 * 100 + w).collect()).collect();
            // In two pieces, of which the first may end anywhere; or each header last, as AQL has it.
            let flat: Vec<u32> = entries.concat();
            let at = (split.min(n) as usize * words).min(flat.len());
            hole.fill(split.min(n), &flat[at..]).expect("inside");
            hole.fill(0, &flat[..at]).expect("inside");
            if split == 3 {
                for i in 0..n {
                    hole.fill_header(i, flat[i as usize * words]).expect("inside");
                }
            }
            number = number.wrapping_add(10_000);
            if publish {
                let mut rung = vec![];
                let new = hole.publish(&mut |p| rung.push(p));
                prop_assert_eq!((new, rung), (put + need, vec![put + need]));
                put = new;
                queue.extend((0..padding).map(|_| vec![PAD; words]));
                queue.extend(entries);
            }
        }
        let n = queue.len() as u64;
        let rest = consume(&device, &mut get, entry, n);
        prop_assert_eq!(rest, Vec::from(queue));
    }
}

/// A consumer in another thread sees entries whole, in order, and never one that was not published.
#[test]
#[allow(unsafe_code)]
fn a_consumer_thread_sees_only_what_was_published() {
    const LEN: u64 = 8;
    let mut memory = [0u64; LEN as usize * 2];
    let (mut put_cell, mut get_cell) = (0u64, 0u64);
    let (put, get) = (
        SharedWord::from_mut(&mut put_cell),
        SharedWord::from_mut(&mut get_cell),
    );
    let region = Region::from_words(&mut memory, 0);
    // SAFETY: the bytes outlive the scope below; an entry is the producer's until `put` passes it and the consumer's
    // until `get` does.
    let device = unsafe { Region::new(region.as_ptr(), region.len(), 0) };
    let total = rounds(100_000);
    std::thread::scope(|s| {
        s.spawn(move || {
            let mut seen = 0;
            while seen < total {
                let upto = put.load();
                consume_fence();
                for n in seen..upto {
                    let at = (n % LEN) as usize * 16;
                    assert_eq!(
                        (device.load_u64(at), device.load_u64(at + 8)),
                        (Ok(n), Ok(!n))
                    );
                }
                if seen == upto {
                    std::thread::yield_now();
                }
                seen = upto;
                get.store(seen);
            }
        });
        let mut ring = Ring::new(region, 16).expect("eight entries");
        let mut rng = Rng(7);
        let mut turns = 0u64;
        while ring.put() < total {
            turns += 1;
            assert!(turns < 1 << 32, "the consumer is gone");
            let n = (rng.below(3) + 1).min(total - ring.put());
            let first = ring.put();
            match ring.reserve(n) {
                Ok(mut hole) => {
                    for i in 0..n {
                        let (a, b) = (first + i, !(first + i));
                        let words = [a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32];
                        hole.fill(i, &words).expect("inside");
                    }
                    hole.publish(&mut |p| put.store(p));
                }
                Err(_) => std::thread::yield_now(),
            }
            ring.consumed(get.load())
                .expect("the consumer counts what it saw");
            consume_fence();
        }
    });
}
