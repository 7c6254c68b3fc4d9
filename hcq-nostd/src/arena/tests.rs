use super::*;
use crate::testing::{cases, most};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

fn p(n: u64) -> Point {
    Point::from_raw(n)
}

#[test]
fn a_bump_arena_refuses_without_a_change() {
    let mut arena = Bump::new(0x1008, 64);
    for align in [0, 3, 6, u64::MAX] {
        assert_eq!(arena.alloc(1, align), Err(ArenaError::Alignment { align }));
    }
    assert_eq!(arena.alloc(8, 16), Ok(8));
    assert_eq!(
        arena.alloc(49, 1),
        Err(ArenaError::TooLarge { size: 49, most: 48 })
    );
    assert_eq!(
        arena.alloc(48, 1 << 63),
        Err(ArenaError::TooLarge { size: 48, most: 48 })
    );
    assert_eq!(
        arena.alloc(u64::MAX, 1),
        Err(ArenaError::TooLarge {
            size: u64::MAX,
            most: 48
        })
    );
    assert_eq!(
        (arena.used(), arena.alloc(48, 8), arena.used()),
        (16, Ok(16), 64)
    );
    assert_eq!(
        (arena.alloc(0, 1), arena.alloc(1, 1).is_err()),
        (Ok(64), true)
    );
    arena.reset();
    assert_eq!(arena.alloc(64, 8), Ok(0));
    // The last bytes of all: the address does not wrap.
    let mut top = Bump::new(u64::MAX - 15, 16);
    assert_eq!(
        (top.alloc(8, 8), top.alloc(8, 16).is_err(), top.alloc(8, 8)),
        (Ok(0), true, Ok(8))
    );
}

#[test]
fn an_arena_needs_a_mark_and_a_sensible_size() {
    let mut marks = [Mark::EMPTY];
    assert!(FencedArena::new(0, 16, &mut []).is_err());
    assert!(FencedArena::new(u64::MAX, 16, &mut marks).is_err());
    let most = 1 << 62;
    let too_large = ArenaError::TooLarge {
        size: most + 1,
        most,
    };
    assert_eq!(
        FencedArena::new(0, most + 1, &mut marks).map(|_| ()),
        Err(too_large)
    );
    assert!(FencedArena::new(0, most, &mut marks).is_ok());
    let mut empty = FencedArena::new(0, 0, &mut marks).expect("no bytes are an arena");
    assert_eq!(
        empty.alloc(0, 1),
        Err(ArenaError::TooLarge { size: 0, most: 0 })
    );
}

#[test]
fn rewind_gives_back_what_was_not_submitted() {
    let mut marks = [Mark::EMPTY; 2];
    let mut arena = FencedArena::new(0, 64, &mut marks).expect("marks");
    assert_eq!((arena.alloc(16, 1), arena.used()), (Ok(0), 16));
    arena.fence(p(1));
    assert_eq!((arena.alloc(40, 1), arena.used()), (Ok(16), 56));
    arena.rewind();
    assert_eq!((arena.used(), arena.alloc(48, 1)), (16, Ok(16)));
    arena.rewind();
    // Nothing was handed out: no mark is taken, and the point is not waited for.
    arena.fence(p(2));
    arena.retire(p(1));
    assert_eq!((arena.used(), arena.alloc(64, 1)), (0, Ok(0)));
}

#[test]
fn submissions_without_a_mark_come_back_with_the_last_one() {
    let mut marks = [Mark::EMPTY; 2];
    let mut arena = FencedArena::new(0, 100, &mut marks).expect("marks");
    for n in 1..=5 {
        assert_eq!(arena.alloc(20, 1), Ok((n - 1) * 20));
        arena.fence(p(n));
    }
    assert_eq!(
        arena.alloc(1, 1),
        Err(ArenaError::WouldBlock { wait_for: p(1) })
    );
    arena.retire(p(1));
    assert_eq!(arena.used(), 80);
    assert_eq!(
        arena.alloc(21, 1),
        Err(ArenaError::WouldBlock { wait_for: p(5) })
    );
    arena.retire(p(4));
    assert_eq!(arena.used(), 80);
    arena.retire(p(5));
    assert_eq!(arena.used(), 0);
}

#[test]
fn a_submission_that_its_own_bytes_block_fits_after_a_rewind() {
    let mut marks = [Mark::EMPTY; 4];
    let mut arena = FencedArena::new(0, 100, &mut marks).expect("marks");
    arena.alloc(60, 1).expect("room");
    arena.fence(p(1));
    assert_eq!(arena.alloc(10, 1), Ok(60));
    assert_eq!(
        arena.alloc(70, 1),
        Err(ArenaError::WouldBlock { wait_for: p(1) })
    );
    arena.retire(p(1));
    assert_eq!(
        arena.alloc(70, 1),
        Err(ArenaError::TooLarge { size: 70, most: 90 })
    );
    arena.rewind();
    assert_eq!((arena.alloc(10, 1), arena.alloc(70, 1)), (Ok(0), Ok(10)));
}

#[test]
fn a_busy_arena_counts_past_2_to_the_63() {
    let mut marks = [Mark::EMPTY; 3];
    let mut arena = FencedArena::new(0, 96, &mut marks).expect("marks");
    let mut reference_marks = [Mark::EMPTY; 3];
    let mut reference = FencedArena::new(0, 96, &mut reference_marks).expect("marks");
    // As after that many bytes; 2^63 - 32 is a multiple of 96 as zero is.
    let turns = (1 << 63) / 96 * 96;
    (arena.head, arena.tail, arena.fenced) = (turns, turns, turns);
    for a in [&mut arena, &mut reference] {
        // Something is always in flight, so that it never starts over.
        a.alloc(32, 1).expect("room");
        a.fence(p(1));
    }
    (arena.head, arena.tail, arena.fenced) = (turns + 32, turns, turns + 32);
    arena.marks[0].end += turns;
    for n in 2..200 {
        let got = (arena.alloc(32, 1), arena.used());
        assert_eq!(got, (reference.alloc(32, 1), reference.used()));
        for a in [&mut arena, &mut reference] {
            a.fence(p(n));
            a.retire(p(n - 1));
        }
        assert!(arena.head < (1 << 63) + 200);
    }
    assert!(arena.head < 10_000, "it counted anew");
}

#[derive(Clone, Debug)]
enum Step {
    Alloc(u64, u64),
    Fence,
    Rewind,
    Retire(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..90, 0u32..6).prop_map(|(size, log2)| Step::Alloc(size, 1 << log2)),
        3 => Just(Step::Fence),
        1 => Just(Step::Rewind),
        3 => (0u64..4).prop_map(Step::Retire),
    ]
}

/// Bytes `from..to` that work up to a point reads; no point yet if it was not submitted.
#[derive(Clone, Debug)]
struct Lent {
    from: u64,
    to: u64,
    point: Option<u64>,
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn no_byte_in_flight_is_handed_out(
        base in 0u64..70,
        size in 1u64..150,
        marks in 1usize..6,
        steps in prop::collection::vec(step(), 0..most(150)),
    ) {
        let mut marks = vec![Mark::EMPTY; marks];
        let mut arena = FencedArena::new(base, size, &mut marks).expect("marks");
        let mut lent: Vec<Lent> = vec![];
        let (mut next, mut completed) = (1, 0);
        for step in steps {
            match step {
                Step::Alloc(want, align) => {
                    let fresh = Bump::new(base, size).alloc(want, align);
                    let used = arena.used();
                    match arena.alloc(want, align) {
                        Ok(at) => {
                            prop_assert!((base + at) % align == 0 && at + want <= size);
                            let over = lent.iter().find(|l| at < l.to && l.from < at + want);
                            prop_assert!(over.is_none(), "{} bytes at {} overlap {:?}", want, at, over);
                            if want > 0 {
                                lent.push(Lent { from: at, to: at + want, point: None });
                            }
                        }
                        Err(ArenaError::WouldBlock { wait_for }) => {
                            prop_assert!(fresh.is_ok(), "waiting for ever");
                            prop_assert_eq!(arena.used(), used);
                            // The point is one in flight, and its completion gives bytes back.
                            prop_assert!(wait_for.raw() > completed && wait_for.raw() < next);
                            completed = wait_for.raw();
                            arena.retire(wait_for);
                            lent.retain(|l| l.point.is_none_or(|p| p > completed));
                            prop_assert!(arena.used() < used);
                        }
                        Err(ArenaError::TooLarge { most, .. }) => {
                            prop_assert_eq!(arena.used(), used);
                            prop_assert!(most <= size);
                            if fresh.is_ok() {
                                // Its own submission is in the way, and nothing else.
                                prop_assert!(lent.iter().any(|l| l.point.is_none()) || used > 0);
                                prop_assert!(lent.iter().all(|l| l.point.is_none()), "{:?}", lent);
                                arena.rewind();
                                lent.clear();
                                prop_assert_eq!(arena.alloc(want, align), fresh);
                                arena.rewind();
                            }
                        }
                        Err(e) => return Err(TestCaseError::fail(std::format!("{e}"))),
                    }
                }
                Step::Fence => {
                    arena.fence(p(next));
                    lent.iter_mut().for_each(|l| l.point = l.point.or(Some(next)));
                    next += 1;
                }
                Step::Rewind => {
                    arena.rewind();
                    lent.retain(|l| l.point.is_some());
                }
                Step::Retire(n) => {
                    completed = (completed + n).min(next - 1);
                    arena.retire(p(completed));
                    lent.retain(|l| l.point.is_none_or(|p| p > completed));
                }
            }
            let bytes: u64 = lent.iter().map(|l| l.to - l.from).sum();
            prop_assert!((bytes..=size).contains(&arena.used()), "{} used, {} lent", arena.used(), bytes);
        }
        // When all work is complete and nothing is pending, nothing is left.
        arena.rewind();
        arena.retire(p(next));
        prop_assert_eq!(arena.used(), 0);
    }
}
