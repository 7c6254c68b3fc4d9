use super::*;
use crate::fault::{FaultKind, FaultRecord};
use crate::mem::Region;
use crate::testing::{Rng, rounds};
use std::vec;
use std::vec::Vec;

const BASE: u64 = 0x1000;

fn words(backing: &mut [u64]) -> SharedWords<'_> {
    SharedWords::new(Region::from_words(backing, BASE)).expect("aligned")
}

#[test]
fn slots_are_sixteen_bytes_at_sixteen() {
    let mut backing = [0u64; 7];
    let w = words(&mut backing);
    for index in 0..3 {
        let s = Signal::at(w, index, Width::W64).expect("three slots");
        assert_eq!(s.address(), BASE + 16 * index as u64);
        assert_eq!(
            s.operand(),
            SignalAt {
                address: Value::Imm(s.address()),
                notify: false
            }
        );
    }
    for index in [3, 4, usize::MAX / 2, usize::MAX / 2 + 1, usize::MAX] {
        let error = Signal::at(w, index, Width::W64).map(|_| ());
        assert_eq!(
            error,
            Err(SignalError::TooSmall {
                need: index.saturating_add(1),
                have: 3
            })
        );
    }
    let mut backing = [0u64; 4];
    let odd = SharedWords::new(Region::from_words(&mut backing, 8)).expect("aligned to 8");
    assert_eq!(
        Signal::at(odd, 0, Width::W64).map(|_| ()),
        Err(SignalError::Misaligned { address: 8 })
    );
    let mut states = [SlotState::EMPTY; 2];
    assert!(matches!(
        SignalPool::new(odd, &mut states, Width::W64),
        Err(SignalError::Misaligned { address: 8 })
    ));
    assert!(SignalPool::new(odd, &mut [], Width::W64).is_ok_and(|p| p.is_empty()));
}

#[test]
fn values_are_as_wide_as_the_engine() {
    let mut backing = [0u64; 4];
    let w = words(&mut backing);
    let (narrow, wide) = (Signal::at(w, 0, Width::W32), Signal::at(w, 1, Width::W64));
    let (narrow, wide) = (narrow.expect("a slot"), wide.expect("a slot"));
    assert_eq!((wide.set(u64::MAX), wide.value()), (Ok(()), u64::MAX));
    assert_eq!(
        (narrow.set(0xffff_ffff), narrow.value()),
        (Ok(()), 0xffff_ffff)
    );
    for value in [1 << 32, u64::MAX] {
        assert_eq!(
            narrow.set(value),
            Err(SignalError::Width {
                value,
                mask: 0xffff_ffff
            })
        );
        assert_eq!(narrow.value(), 0xffff_ffff);
    }
    // What an engine of 32 bits leaves in the upper half does not count.
    narrow.word().store(7 << 32 | 3);
    assert_eq!((narrow.value(), narrow.timestamp()), (3, 0));
    assert_eq!((narrow.width(), wide.width()), (Width::W32, Width::W64));
}

/// A clock of 10 ns a turn; signals `values` one a turn, and fails at turn `fault_at`.
struct Script<'a> {
    turn: u64,
    signal: Signal<'a>,
    values: &'a [u64],
    fault_at: Option<u64>,
}

impl Policy for Script<'_> {
    fn now_ns(&mut self) -> u64 {
        self.turn * 10
    }

    fn relax(&mut self, round: u32, word: SharedWord<'_>, seen: u64) {
        assert_eq!(u64::from(round), self.turn);
        assert_eq!(
            (word.as_ptr(), seen),
            (self.signal.word().as_ptr(), self.signal.value())
        );
        if let Some(&value) = self.values.get(self.turn as usize) {
            self.signal.set(value).expect("fits");
        }
        self.turn += 1;
    }

    fn check(&mut self) -> Result<(), FaultRecord> {
        match self.fault_at {
            Some(at) if self.turn >= at => Err(FaultRecord::new(FaultKind::Program, 2, 3)),
            _ => Ok(()),
        }
    }
}

#[test]
fn waits_end_with_the_value_the_fault_or_the_time() {
    for width in [Width::W32, Width::W64] {
        let run = |values: &[u64], fault_at, wanted| {
            let mut backing = [0u64; 2];
            let signal = Signal::at(words(&mut backing), 0, width).expect("a slot");
            signal.wait(
                wanted,
                40,
                &mut Script {
                    turn: 0,
                    signal,
                    values,
                    fault_at,
                },
            )
        };
        assert_eq!(run(&[], None, 0), Ok(0));
        assert_eq!(run(&[0, 0, 0, 5], None, 3), Ok(5));
        // Progress now and then is enough, however little.
        assert_eq!(
            run(&[0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 3], None, 3),
            Err(WaitError::Timeout {
                wanted: 3,
                seen: 1,
                waited_ns: 40
            })
        );
        assert_eq!(run(&[0, 0, 0, 1, 1, 1, 2, 2, 2, 3], None, 3), Ok(3));
        assert_eq!(
            run(&[], None, 1),
            Err(WaitError::Timeout {
                wanted: 1,
                seen: 0,
                waited_ns: 40
            })
        );
        let fault = FaultRecord::new(FaultKind::Program, 2, 3);
        assert_eq!(run(&[0, 0, 0, 1], Some(2), 1), Err(WaitError::Fault(fault)));
        assert_eq!(run(&[0, 0, 1], Some(2), 1), Ok(1));
    }
    let mut backing = [0u64; 2];
    let signal = Signal::at(words(&mut backing), 0, Width::W32).expect("a slot");
    let late = signal.wait(
        1 << 32,
        40,
        &mut Script {
            turn: 0,
            signal,
            values: &[u32::MAX.into()],
            fault_at: None,
        },
    );
    assert_eq!(
        late,
        Err(WaitError::Timeout {
            wanted: 1 << 32,
            seen: u32::MAX.into(),
            waited_ns: 40
        })
    );
}

#[test]
fn a_pool_knows_its_own_signals() {
    let (mut a, mut b) = ([0u64; 8], [0u64; 8]);
    let (mut states_a, mut states_b) = ([SlotState::EMPTY; 4], [SlotState::EMPTY; 2]);
    let too_small =
        SignalPool::new(words(&mut a), &mut [SlotState::EMPTY; 5], Width::W64).map(|_| ());
    assert_eq!(too_small, Err(SignalError::TooSmall { need: 5, have: 4 }));
    let mut pool = SignalPool::new(words(&mut a), &mut states_a, Width::W64).expect("room");
    let mut other = SignalPool::new(words(&mut b), &mut states_b, Width::W64).expect("room");
    assert_eq!((pool.len(), other.len(), pool.is_empty()), (4, 2, false));
    let mine: Vec<Signal<'_>> = (0..4)
        .map(|_| pool.alloc(Point::ZERO).expect("free"))
        .collect();
    let theirs = other.alloc(Point::ZERO).expect("free");
    // The same device address, another memory.
    assert_eq!(theirs.address(), mine[0].address());
    pool.free(theirs, Point::ZERO);
    let exhausted = |frees_at| Err(SignalError::Exhausted { slots: 4, frees_at });
    assert_eq!(
        pool.alloc(Point::from_raw(u64::MAX)).map(|_| ()),
        exhausted(None)
    );
    other.free(mine[3], Point::ZERO);
    assert!(other.alloc(Point::ZERO).is_ok() && other.alloc(Point::ZERO).is_err());
    // Given back twice: the later use counts.
    pool.free(mine[1], Point::from_raw(7));
    pool.free(mine[1], Point::from_raw(5));
    pool.free(mine[2], Point::from_raw(u64::MAX));
    assert_eq!(
        pool.alloc(Point::from_raw(6)).map(|_| ()),
        exhausted(Some(Point::from_raw(7)))
    );
    assert_eq!(
        pool.alloc(Point::from_raw(7)).map(|s| s.address()),
        Ok(BASE + 16)
    );
    assert_eq!(
        pool.alloc(Point::from_raw(7)).map(|_| ()),
        exhausted(Some(Point::from_raw(u64::MAX - 1)))
    );
}

#[test]
fn a_pool_is_a_set_of_slots_with_a_time_to_come_back() {
    for seed in 0..rounds(200) {
        let mut rng = Rng(seed);
        let slots = 1 + rng.below(6) as usize;
        let mut backing = vec![0x55u64; slots * 2 + 1];
        let mut states = vec![SlotState::EMPTY; slots];
        let mut pool = SignalPool::new(words(&mut backing), &mut states, Width::W64).expect("room");
        let mut held: Vec<Signal<'_>> = vec![];
        // Slots that came back, with the point that must be complete.
        let mut back: Vec<(u64, u64)> = vec![];
        let mut free: Vec<u64> = (0..slots as u64).map(|i| BASE + i * 16).collect();
        let mut completed = 0;
        for _ in 0..200 {
            match rng.below(5) {
                0 | 1 => {
                    let (ready, rest) = back.iter().partition(|b| b.1 <= completed);
                    back = rest;
                    free.extend(ready.iter().map(|b: &(u64, u64)| b.0));
                    match pool.alloc(Point::from_raw(completed)) {
                        Ok(s) => {
                            let at = free
                                .iter()
                                .position(|&f| f == s.address())
                                .expect("it was free");
                            free.swap_remove(at);
                            assert_eq!((s.value(), s.timestamp()), (0, 0));
                            s.set(rng.next()).expect("64 bits");
                            held.push(s);
                        }
                        Err(e) => {
                            assert!(free.is_empty());
                            let frees_at = back.iter().map(|b| b.1).min().map(Point::from_raw);
                            assert_eq!(e, SignalError::Exhausted { slots, frees_at });
                        }
                    }
                }
                2 | 3 if !held.is_empty() => {
                    let s = held.swap_remove(rng.below(held.len() as u64) as usize);
                    let last_use = completed + rng.below(4);
                    pool.free(s, Point::from_raw(last_use));
                    back.push((s.address(), last_use));
                }
                _ => completed += rng.below(3),
            }
        }
    }
}
