//! Several XCCs.

use super::support::*;
use crate::engine::Step;

/// An AQL vendor packet that calls a buffer on all XCCs (`AqlQueue::ExecutePM4`).
fn vendor(words: u32, signal: u64) -> [u32; 16] {
    let mut slot = [0; 16];
    slot[0] = 1 << 16 | 1 << 8;
    slot[1..5].copy_from_slice(&indirect(BUFFER, words));
    slot[5] = 10;
    slot[14] = lo(signal);
    slot[15] = hi(signal);
    slot
}

fn run(seed: u64, words: &[u32]) -> Rig {
    let mut rig = Rig::aql("gfx942", 8, seed);
    rig.memory.put(CODE, NUMBER);
    rig.words(BUFFER, words);
    rig.submit(&vendor(words.len() as u32, 0));
    rig.finish();
    rig
}

/// `PRED_EXEC` of these words.
fn only(xccs: u32, words: &[u32]) -> Vec<u32> {
    let mut all = packet(0x23, &[xccs << 24 | words.len() as u32]);
    all.extend(words);
    all
}

#[test]
fn pred_exec_selects_who_executes() {
    let mut words = Vec::new();
    for xcc in 0..8 {
        words.extend(only(1 << xcc, &write_data(DATA + 4 * xcc, 1 + xcc as u32)));
    }
    words.extend(only(0x06, &write_data(DATA + 64, 7)));
    words.extend(only(0, &write_data(DATA + 68, 7)));
    for seed in 0..10 {
        let rig = run(seed, &words);
        for xcc in 0..8 {
            assert_eq!(rig.memory.get(DATA + 4 * xcc), 1 + xcc as u32);
        }
        assert_eq!(
            (rig.memory.get(DATA + 64), rig.memory.get(DATA + 68)),
            (7, 0)
        );
    }
}

#[test]
fn one_xcc_writes_what_is_written_once() {
    // Every XCC sends its event; inside of PRED_EXEC one of them does.
    let event = |context| packet(0x49, &[0x14 | 5 << 8, 1 << 24, 0, 0, 0, 0, context]);
    let rig = run(1, &[event(5), only(1, &event(6))].concat());
    assert_eq!(
        rig.interrupts
            .iter()
            .filter(|&&context| context == 5)
            .count(),
        8
    );
    assert_eq!(
        rig.interrupts
            .iter()
            .filter(|&&context| context == 6)
            .count(),
        1
    );
}

#[test]
fn launches_are_shared_out_round_robin() {
    let words = [state(CODE, DATA), dispatch([21, 1, 1]), flush()].concat();
    let rig = run(2, &words);
    let log = rig.log();
    assert_eq!(log.len(), 21);
    for (dispatch, [x, _, _]) in log {
        assert_eq!(dispatch.xcc, ((x % 8) as u8, 8));
    }
}

#[test]
fn a_launch_of_some_xccs_lacks_the_groups_of_the_others() {
    let words = [state(CODE, DATA), only(0x0F, &dispatch([16, 1, 1]))].concat();
    let mut groups: Vec<u32> = run(3, &words)
        .log()
        .iter()
        .map(|(_, group)| group[0])
        .collect();
    groups.sort();
    assert_eq!(groups, [0, 1, 2, 3, 8, 9, 10, 11]);
}

#[test]
fn each_xcc_has_its_own_registers() {
    let mut words = state(CODE, DATA);
    words.extend(set_sh(0x2E13, &[0x89]));
    words.extend(set_sh(0x2E18, &[1 << 12 | 4]));
    for xcc in 0..8u64 {
        let base = SCRATCH + 0x1_0000 * xcc;
        let registers = set_sh(0x2E10, &[lo(base >> 8), hi(base >> 8)]);
        words.extend(only(1 << xcc, &registers));
    }
    words.extend(dispatch([8, 1, 1]));
    let log = run(4, &words).log();
    assert_eq!(log.len(), 8);
    for (dispatch, _) in log {
        let base = SCRATCH + 0x1_0000 * u64::from(dispatch.xcc.0);
        assert_eq!(dispatch.scratch.unwrap().base, base);
    }
}

#[test]
fn a_flush_on_one_xcc_does_not_wait_for_the_others() {
    let words = [
        state(CODE, DATA),
        dispatch([80, 1, 1]),
        flush(),
        only(1, &write_data(SIGNAL, 1)),
    ]
    .concat();
    let early = (0..20)
        .filter(|&seed| {
            let mut rig = Rig::aql("gfx942", 8, seed);
            rig.memory.put(CODE, NUMBER);
            rig.words(BUFFER, &words);
            rig.submit(&vendor(words.len() as u32, 0));
            while rig.memory.get(SIGNAL) == 0 {
                assert!(matches!(rig.step(), Step::Progress));
            }
            (0..80).any(|at| rig.memory.get(DATA + 4 * at) == 0)
        })
        .count();
    assert!(early > 0);
}

#[test]
fn l2s_do_not_see_each_other() {
    // XCC 0 stores what XCC 1 then copies, through memory if the packets' fences say so: acquire in bits 10:9, release in
    // 12:11.
    for (fences, want) in [(0, 0), (1 << 9 | 1 << 11, 1), (2 << 9 | 2 << 11, 1)] {
        let mut rig = Rig::aql("gfx942", 8, 5);
        rig.memory.put(CODE, NUMBER);
        rig.memory.put(CODE + 0x100, COPY);
        let store = only(0x01, &[state(CODE, CACHED), dispatch([1, 1, 1])].concat());
        // Of two groups the second is XCC 1's.
        let read = [
            state(CODE + 0x100, CACHED),
            set_sh(0x2E42, &[lo(DATA), hi(DATA)]),
            only(0x02, &dispatch([2, 1, 1])),
        ]
        .concat();
        // XCC 1 has the old bytes already.
        for words in [&read, &store, &read] {
            rig.words(BUFFER, words);
            let mut slot = vendor(words.len() as u32, 0);
            slot[0] |= fences;
            rig.submit(&slot);
            rig.finish();
        }
        assert_eq!(rig.memory.get(DATA), want, "{fences:#x}");
    }
}

#[test]
fn a_pm4_queue_is_one_xccs() {
    let words = [
        state(CODE, DATA),
        dispatch([20, 1, 1]),
        only(0x04, &write_data(SIGNAL, 1)),
        only(0xFB, &write_data(SIGNAL + 4, 1)),
    ]
    .concat();
    let mut rig = Rig::pm4("gfx942", 8, 6);
    rig.engine = super::super::pm4_on("gfx942", 2, 8, queue_memory());
    rig.memory.put(CODE, NUMBER);
    rig.words(BUFFER, &words);
    rig.submit(&indirect(BUFFER, words.len() as u32));
    rig.finish();
    assert_eq!((rig.memory.get(SIGNAL), rig.memory.get(SIGNAL + 4)), (1, 0));
    let log = rig.log();
    assert_eq!(log.len(), 20);
    assert!(log.iter().all(|(dispatch, _)| dispatch.xcc == (2, 8)));
    assert!(super::super::pm4_on("gfx942", 8, 8, queue_memory()).is_none());
}
