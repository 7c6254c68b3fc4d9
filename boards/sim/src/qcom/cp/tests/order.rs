//! What waits for what, and what is seen when: with every wait the results are right under all seeds; without one they are
//! wrong under some.

use super::support::*;

const SEEDS: u64 = 60;

/// Runs words under many seeds: in how many a check holds.
fn seeds(setup: impl Fn(&mut Rig), words: &[u32], check: impl Fn(&Rig) -> bool) -> u64 {
    let right = (0..SEEDS).filter(|&seed| {
        let mut rig = Rig::new("a630", seed);
        rig.memory.put(CODE, NUMBER);
        rig.memory.put(CODE + 0x1000, COPY);
        rig.memory.put(CODE + 0x2000, COUNT);
        setup(&mut rig);
        rig.submit(words);
        rig.finish();
        check(&rig)
    });
    right.count() as u64
}

/// A launch of another program.
fn other(at: u64, groups: [u32; 3], first: u64, second: u64) -> Vec<u32> {
    [
        state(at, groups),
        constants(0, &[lo(first), hi(first), lo(second), hi(second)]),
        exec(groups),
    ]
    .concat()
}

#[track_caller]
fn sometimes(right: u64) {
    assert!(right > 0 && right < SEEDS, "{right} of {SEEDS}");
}

#[test]
fn launches_overlap_unless_one_waits() {
    let first = launch([40, 1, 1], DATA, 0);
    let last = DATA + 4 * 39;
    let copy = other(CODE + 0x1000, [1; 3], last, SIGNAL);
    let done = [wait_for_idle(), flush(SCRAP, 0)].concat();
    let right = |rig: &Rig| rig.memory.get(SIGNAL) == 40;
    let waits = [&first[..], &wait_for_idle(), &copy, &done].concat();
    assert_eq!(seeds(|_| (), &waits, right), SEEDS);
    let overlap = [first, copy, done].concat();
    sometimes(seeds(|_| (), &overlap, right));
}

#[test]
fn an_event_follows_what_is_before_it() {
    let words = [
        launch([2, 1, 1], DATA, 0),
        flush(SIGNAL, 7),
        // When the value is there, so is everything else: the command processor sees memory.
        wait(3, SIGNAL, 7, u32::MAX),
        pkt7(
            0x75,
            &[1, lo(DATA + 4), hi(DATA), lo(SIGNAL + 8), hi(SIGNAL)],
        ),
    ];
    let right = |rig: &Rig| rig.memory.get(SIGNAL + 8) == 2;
    assert_eq!(seeds(|_| (), &words.concat(), right), SEEDS);
    let without = [words[0].clone(), words[1].clone(), words[3].clone()];
    sometimes(seeds(|_| (), &without.concat(), right));
}

#[test]
fn stores_stay_in_uche_until_they_are_flushed() {
    let copy = pkt7(0x75, &[1, lo(DATA), hi(DATA), lo(SIGNAL), hi(SIGNAL)]);
    let words = [launch([1; 3], DATA, 0), wait_for_idle(), copy.clone()].concat();
    assert_eq!(
        seeds(|_| (), &words, |rig| rig.memory.get(SIGNAL) == 0),
        SEEDS
    );
    let words = [
        launch([1; 3], DATA, 0),
        flush(SCRAP, 0),
        wait_for_idle(),
        copy,
    ];
    assert_eq!(
        seeds(|_| (), &words.concat(), |rig| rig.memory.get(SIGNAL) == 1),
        SEEDS
    );
}

#[test]
fn uche_gives_what_it_has_until_it_is_invalidated() {
    // DATA is read, changed in memory, and read again.
    let copy = other(CODE + 0x1000, [1; 3], DATA, SIGNAL);
    let change = write(DATA, 9);
    let end = [flush(SCRAP, 0), wait_for_idle()].concat();
    let stale = [&copy[..], &wait_for_idle(), &change, &copy, &end].concat();
    let value = |rig: &Rig| rig.memory.get(SIGNAL);
    assert_eq!(seeds(|_| (), &stale, |rig| value(rig) == 0), SEEDS);
    let fresh = [
        &copy[..],
        &wait_for_idle(),
        &change,
        &invalidate(),
        &wait_for_idle(),
        &copy,
        &end,
    ];
    assert_eq!(seeds(|_| (), &fresh.concat(), |rig| value(rig) == 9), SEEDS);
    // The next launch does not wait for the event.
    let early = [
        &copy[..],
        &wait_for_idle(),
        &change,
        &invalidate(),
        &copy,
        &end,
    ]
    .concat();
    sometimes(seeds(|_| (), &early, |rig| value(rig) == 9));
}

#[test]
fn constants_are_read_when_the_launch_begins_and_through_uche() {
    let args = [lo(DATA), hi(DATA), lo(SIGNAL), hi(SIGNAL)];
    let launch = [
        state(CODE + 0x1000, [1; 3]),
        load(1, 0xD, 1, ARGS),
        exec([1; 3]),
    ]
    .concat();
    let end = [flush(SCRAP, 0), wait_for_idle()].concat();
    let setup = |rig: &mut Rig| {
        rig.memory.words(ARGS, &args);
        rig.memory.words(DATA, &[5, 6]);
    };
    // Changed behind the launch: either.
    let late = [&launch[..], &write(ARGS, lo(DATA) + 4), &end].concat();
    sometimes(seeds(setup, &late, |rig| rig.memory.get(SIGNAL) == 5));
    // Changed when the launch is over and UCHE has the old ones.
    let again = [&launch[..], &wait_for_idle(), &write(ARGS, lo(DATA) + 4)].concat();
    let old = [&again[..], &launch, &end].concat();
    assert_eq!(seeds(setup, &old, |rig| rig.memory.get(SIGNAL) == 5), SEEDS);
    let new = [&again[..], &invalidate(), &wait_for_idle(), &launch, &end].concat();
    assert_eq!(seeds(setup, &new, |rig| rig.memory.get(SIGNAL) == 6), SEEDS);
}

#[test]
fn instructions_are_kept_until_a_program_is_loaded() {
    let first = launch([1; 3], DATA, SIGNAL);
    let change = write(CODE, COPY);
    let end = [flush(SCRAP, 0), wait_for_idle()].concat();
    let setup = |rig: &mut Rig| rig.memory.put(DATA, 3);
    let copied = |rig: &Rig| rig.memory.get(SIGNAL) == 3;
    let begin = [
        &first[..],
        &wait_for_idle(),
        &change,
        &invalidate(),
        &wait_for_idle(),
    ]
    .concat();
    // The same state again: the old program, from the instruction cache. It has written 1 to DATA.
    let old = [&begin[..], &write(DATA, 3), &exec([1; 3]), &end].concat();
    assert_eq!(seeds(setup, &old, |rig| rig.memory.get(SIGNAL) == 0), SEEDS);
    let new = [
        &begin[..],
        &flush(SCRAP, 0),
        &wait_for_idle(),
        &write(DATA, 3),
        &invalidate(),
        &wait_for_idle(),
        &first,
        &end,
    ];
    assert_eq!(seeds(setup, &new.concat(), copied), SEEDS);
}

#[test]
fn groups_end_in_any_order() {
    let words = launch([8, 1, 1], DATA, 0);
    let orders: std::collections::BTreeSet<Vec<u32>> = (0..20)
        .map(|seed| {
            let mut rig = Rig::new("a630", seed);
            rig.memory.put(CODE, NUMBER);
            rig.submit(&words);
            rig.finish();
            rig.log().iter().map(|(_, [x, ..])| *x).collect()
        })
        .collect();
    assert!(orders.len() > 10, "{orders:?}");
    // The same seed, the same order.
    let run = || {
        let mut rig = Rig::new("a630", 5);
        rig.memory.put(CODE, NUMBER);
        rig.submit(&words);
        rig.finish();
        rig.log()
    };
    assert_eq!(run(), run());
}

#[test]
fn waiting_changes_wait_for_what_is_in_flight() {
    // CP_REG_RMW waits for the launch, though nothing says so.
    let words = [
        launch([20, 1, 1], DATA, 0),
        pkt4(0x0883, &[0]),
        pkt7(0x21, &[0x0883, u32::MAX, 1]),
    ];
    let check = |rig: &Rig| rig.log().len() == 20;
    for seed in 0..20 {
        let mut rig = Rig::new("a630", seed);
        rig.memory.put(CODE, NUMBER);
        rig.submit(&[words.concat(), pkt7(0x7F, &[])].concat());
        assert!(rig.fault().contains("opcode 0x7f"));
        assert!(check(&rig), "{}", rig.log().len());
    }
}

#[test]
fn many_launches_in_a_row() {
    let one = other(CODE + 0x2000, [3, 1, 1], DATA, 0);
    let mut words = Vec::new();
    for _ in 0..30 {
        words.extend(&one);
        words.extend(wait_for_idle());
    }
    words.extend(flush(SIGNAL, 1));
    assert_eq!(
        seeds(|_| (), &words, |rig| rig.memory.get(DATA) == 90),
        SEEDS
    );
}
