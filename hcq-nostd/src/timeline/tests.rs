mod device;
mod waits;

use super::*;
use crate::mem::{Region, SharedWords};

/// Four words for two slots.
fn slots(backing: &mut [u64], width: Width) -> [Signal<'_>; 2] {
    let words = SharedWords::new(Region::from_words(backing, 0x1000)).expect("aligned");
    [0, 1].map(|i| Signal::at(words, i, width).expect("two slots"))
}

#[test]
fn a_span_must_fit_the_engine() {
    for (width, most) in [(Width::W32, 31), (Width::W64, 62)] {
        assert_eq!(Timeline::default_span_log2(width), most);
        for log2 in 0..70 {
            let mut backing = [9u64; 4];
            let made = Timeline::new(slots(&mut backing, width), log2).map(|t| t.latest());
            let fits = (2..=most).contains(&log2);
            assert_eq!(
                made,
                if fits {
                    Ok(Point::ZERO)
                } else {
                    Err(TimelineError::Span { log2 })
                }
            );
            assert_eq!(backing[0] == 0, fits);
        }
    }
    let mut backing = [0u64; 4];
    let words = SharedWords::new(Region::from_words(&mut backing, 0x1000)).expect("aligned");
    let mixed = [
        Signal::at(words, 0, Width::W32),
        Signal::at(words, 1, Width::W64),
    ]
    .map(|s| s.expect("a slot"));
    assert!(matches!(
        Timeline::new(mixed, 4),
        Err(TimelineError::Widths)
    ));
}

#[test]
fn points_number_the_values_of_two_slots_in_turns() {
    let mut backing = [0u64; 4];
    let s = slots(&mut backing, Width::W32);
    let mut t = Timeline::new(s, 2).expect("a span of 4");
    let mut seen = std::vec![];
    for n in 1..=12 {
        assert_eq!(t.next(), Point::from_raw(n));
        let submission = t.submit().expect("room");
        assert_eq!(
            (submission.point, t.latest()),
            (Point::from_raw(n), Point::from_raw(n))
        );
        seen.push((
            submission.signal.slot,
            submission.signal.value,
            submission.reset,
        ));
        assert_eq!(t.is_complete(submission.point), Ok(false));
        if let Some(r) = submission.reset {
            s[r].set(0).expect("fits");
        }
        s[submission.signal.slot]
            .set(submission.signal.value)
            .expect("fits");
        assert_eq!(
            (
                t.is_complete(submission.point),
                t.is_complete(Point::from_raw(n + 1))
            ),
            (Ok(true), Ok(false))
        );
    }
    let e = |slot| {
        [
            (slot, 1, None),
            (slot, 2, Some(1 - slot)),
            (slot, 3, None),
            (slot, 4, None),
        ]
    };
    assert_eq!(seen, [e(0), e(1), e(0)].concat());
}

#[test]
fn an_operand_wakes_hosts() {
    let mut backing = [0u64; 4];
    let t = Timeline::new(slots(&mut backing, Width::W64), 4).expect("a span of 16");
    for slot in [0, 1] {
        let want = SignalAt {
            address: (0x1000 + 16 * slot as u64).into(),
            notify: true,
        };
        assert_eq!(t.operand(slot), want);
    }
}

#[test]
fn a_plan_changes_nothing_and_counts_once() {
    let mut backing = [0u64; 4];
    let mut t = Timeline::new(slots(&mut backing, Width::W64), 4).expect("a span of 16");
    let (a, b) = (t.plan().expect("room"), t.plan().expect("room"));
    assert_eq!((a, t.latest()), (b, Point::ZERO));
    t.commit(&a);
    t.commit(&b);
    assert_eq!(t.latest(), Point::from_raw(1));
    let next = t.submit().expect("room");
    t.commit(&a);
    assert_eq!(
        (t.latest(), next.previous),
        (Point::from_raw(2), WaitFor::Slot(a.signal))
    );
}

#[test]
fn there_are_64_peers() {
    let mut backing = [0u64; 4];
    let s = slots(&mut backing, Width::W64);
    let mut t = Timeline::new(s, 2).expect("a span of 4");
    for peer in [0, 5, 63] {
        assert_eq!(t.note_reader(peer), Ok(()));
    }
    for peer in [64, 69, u32::MAX] {
        assert_eq!(t.note_reader(peer), Err(TimelineError::Peer { peer }));
    }
    let want = 1 | 1 << 5 | 1 << 63;
    // In this half of an epoch and the next half; then they are forgotten.
    for n in 1..=12u64 {
        let submission = t.submit().expect("room");
        let readers = if n == 2 || n == 6 { want } else { 0 };
        assert_eq!(
            (submission.readers, submission.reset.is_some()),
            (readers, n % 4 == 2),
            "{n}"
        );
        if let Some(r) = submission.reset {
            s[r].set(0).expect("fits");
        }
        s[submission.signal.slot]
            .set(submission.signal.value)
            .expect("fits");
    }
}
