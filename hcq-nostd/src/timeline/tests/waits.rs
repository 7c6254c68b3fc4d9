//! The host's own waits, with scripted clocks and devices.

use super::*;
use crate::fault::FaultKind;
use crate::mem::SharedWord;
use std::vec;
use std::vec::Vec;

/// When a device takes its next step: while the host reads the clock, or while it naps.
#[derive(Clone, Copy, PartialEq)]
enum When {
    Clock,
    Nap,
}

/// A clock of 10 ns a look, and a device that runs a script of slot writes.
struct Script<'m> {
    now: u64,
    slots: [Signal<'m>; 2],
    /// At this time or later: slot and value to write.
    writes: Vec<(u64, usize, u64)>,
    when: When,
    fault_at: Option<u64>,
    naps: u32,
    /// Naps that nothing would have ended: the word still was what the policy was told.
    sound_naps: u32,
}

impl Script<'_> {
    fn device(&mut self, when: When) {
        if when != self.when {
            return;
        }
        while let Some(&(at, slot, value)) = self.writes.first() {
            if at > self.now {
                break;
            }
            self.slots[slot].set(value).expect("fits");
            self.writes.remove(0);
        }
    }
}

impl Policy for Script<'_> {
    fn now_ns(&mut self) -> u64 {
        self.now += 10;
        self.device(When::Clock);
        self.now
    }

    fn relax(&mut self, round: u32, word: SharedWord<'_>, seen: u64) {
        assert_eq!(round, self.naps);
        self.naps += 1;
        // As a futex does it: sleep only if the word is what was seen.
        if word.load() == seen {
            self.sound_naps += 1;
            self.device(When::Nap);
        }
    }

    fn check(&mut self) -> Result<(), FaultRecord> {
        match self.fault_at {
            Some(at) if self.now >= at => Err(FaultRecord::new(FaultKind::Memory, 0, 0xbad)),
            _ => Ok(()),
        }
    }
}

/// A timeline of 16 points an epoch with `submitted` points, of which `done` are complete.
fn timeline<'m>(slots: [Signal<'m>; 2], done: u64, submitted: u64) -> Timeline<'m> {
    let mut t = Timeline::new(slots, 4).expect("a span of 16");
    for n in 1..=submitted {
        let s = t.submit().expect("room");
        if n <= done {
            if let Some(r) = s.reset {
                slots[r].set(0).expect("fits");
            }
            slots[s.signal.slot].set(s.signal.value).expect("fits");
            t.completed().expect("sound");
        }
    }
    t
}

fn script<'m>(slots: [Signal<'m>; 2], when: When, writes: &[(u64, usize, u64)]) -> Script<'m> {
    Script {
        now: 0,
        slots,
        writes: writes.to_vec(),
        when,
        fault_at: None,
        naps: 0,
        sound_naps: 0,
    }
}

#[test]
fn progress_restarts_the_deadline_across_a_roll_over() {
    for width in [Width::W32, Width::W64] {
        for when in [When::Clock, When::Nap] {
            let mut backing = [0u64; 4];
            let s = slots(&mut backing, width);
            let mut t = timeline(s, 14, 18);
            // Points 15 and 16 in the first slot, 17 and 18 in the second: 45 ns apart, 50 ns allowed.
            let writes = [(45, 0, 15), (90, 0, 16), (135, 1, 1), (180, 1, 2)];
            let mut policy = script(s, when, &writes);
            assert_eq!(t.wait(Point::from_raw(18), 60, &mut policy), Ok(()));
            assert_eq!(t.known_completed(), Point::from_raw(18));
            assert!(policy.now >= 180 && policy.naps > 0);
        }
    }
}

#[test]
fn without_progress_the_time_ends() {
    let mut backing = [0u64; 4];
    let s = slots(&mut backing, Width::W64);
    let mut t = timeline(s, 14, 18);
    let mut policy = script(s, When::Nap, &[(40, 0, 15)]);
    let late = t.wait(Point::from_raw(17), 50, &mut policy);
    assert_eq!(
        late,
        Err(WaitError::Timeout {
            wanted: 17,
            seen: 15,
            waited_ns: 50
        })
    );
    // No time at all: one look.
    let mut policy = script(s, When::Nap, &[]);
    let late = t.wait(Point::from_raw(16), 0, &mut policy);
    assert_eq!(
        (late, policy.naps),
        (
            Err(WaitError::Timeout {
                wanted: 16,
                seen: 15,
                waited_ns: 0
            }),
            0
        )
    );
    assert_eq!(t.wait(Point::from_raw(15), 0, &mut policy), Ok(()));
    // What was not submitted counts as the latest.
    let late = t.wait(Point::from_raw(1000), 0, &mut policy);
    assert_eq!(
        late,
        Err(WaitError::Timeout {
            wanted: 18,
            seen: 15,
            waited_ns: 0
        })
    );
}

/// A policy that sleeps on the word must be told what the wait saw: a change between look and nap ends the nap.
#[test]
fn no_wake_up_is_lost() {
    for done in [0, 3, 14, 15, 16, 17, 30, 31, 32, 47] {
        let mut backing = [0u64; 4];
        let s = slots(&mut backing, Width::W64);
        let mut t = timeline(s, done, done + 1);
        let last = t.slot_value(done + 1);
        // All progress happens while the clock is read, right before the nap.
        let mut policy = script(s, When::Clock, &[(10, last.slot, last.value)]);
        assert_eq!(t.wait(Point::from_raw(done + 1), 1000, &mut policy), Ok(()));
        assert_eq!(
            (policy.naps, policy.sound_naps),
            (1, 0),
            "slept through point {}",
            done + 1
        );
        // With nothing in between the nap is one that the device's write ends.
        let mut backing = [0u64; 4];
        let s = slots(&mut backing, Width::W64);
        let mut t = timeline(s, done, done + 1);
        let mut policy = script(s, When::Nap, &[(10, last.slot, last.value)]);
        assert_eq!(t.wait(Point::from_raw(done + 1), 1000, &mut policy), Ok(()));
        assert_eq!((policy.naps, policy.sound_naps), (1, 1));
    }
}

#[test]
fn a_fault_ends_the_wait_unless_the_point_is_complete() {
    let mut backing = [0u64; 4];
    let s = slots(&mut backing, Width::W64);
    let mut t = timeline(s, 2, 4);
    let mut policy = script(s, When::Nap, &[(20, 0, 3)]);
    policy.fault_at = Some(30);
    let fault = FaultRecord::new(FaultKind::Memory, 0, 0xbad);
    assert_eq!(
        t.wait(Point::from_raw(4), 1000, &mut policy),
        Err(WaitError::Fault(fault))
    );
    assert_eq!(t.wait(Point::from_raw(3), 1000, &mut policy), Ok(()));
}

#[test]
fn a_value_that_was_never_submitted_is_a_fault() {
    for (slot, value) in [(0, 5), (0, 16), (0, 17), (0, 1 << 40), (1, u64::MAX)] {
        let mut backing = [0u64; 4];
        let s = slots(&mut backing, Width::W64);
        let mut t = timeline(s, 2, 4);
        s[slot].set(value).expect("64 bits");
        if slot == 1 {
            // Nobody looks at the slot of an epoch that has not begun.
            assert_eq!(t.completed(), Ok(Point::from_raw(2)));
            continue;
        }
        let impossible = TimelineError::Impossible { slot, seen: value };
        assert_eq!(t.completed(), Err(impossible));
        assert_eq!(t.is_complete(Point::from_raw(3)), Err(impossible));
        assert_eq!(t.is_complete(Point::from_raw(2)), Ok(true));
        let Err(WaitError::Fault(fault)) =
            t.wait(Point::from_raw(3), 100, &mut script(s, When::Nap, &[]))
        else {
            panic!("no fault")
        };
        assert_eq!(
            (fault.kind, fault.address, fault.detail),
            (FaultKind::Hardware, 0x1000, value)
        );
        assert_eq!((fault.last_signalled, fault.first_not_signalled), (2, 3));
    }
    let texts: Vec<_> = vec![
        TimelineError::Impossible { slot: 1, seen: 9 },
        TimelineError::TooFarAhead {
            wait_for: Point::from_raw(7),
        },
        TimelineError::Peer { peer: 64 },
    ];
    for e in texts {
        assert!(std::format!("{e}").contains(|c: char| c.is_ascii_digit()));
    }
}
