//! Rings, priorities, sleep: what happens when.

use super::*;
use crate::machine::Script;

#[test]
fn a_higher_priority_goes_first() {
    let mut overtaken = 0;
    for seed in 0..20 {
        let mut rig = Rig::on(&format!("qcom-a650,seed={seed},pace=manual"));
        let data = rig.buffer(PAGE, WRITE_COMBINED);
        let low = rig.context(PLAIN.with_priority(15));
        let high = rig.context(PLAIN.with_priority(1));
        // It could go on for ever, but for the other ring.
        let last = rig.submit(low, &[wait_for(data.gpu, 1)]).expect("taken");
        rig.run();
        assert_eq!(rig.timestamps(low)[1], last);
        rig.submit(high, &[write(data.gpu, 1)]).expect("taken");
        rig.run();
        overtaken += u32::from(rig.timestamps(high)[2] == 1);
        assert_eq!(rig.wait(low, last, 1), Ok(0));
    }
    assert_eq!(overtaken, 20);
}

#[test]
fn one_ring_is_done_in_order() {
    let mut rig = Rig::on("qcom-a650,seed=1,pace=manual,hang_ms=50");
    let data = rig.buffer(PAGE, WRITE_COMBINED);
    let (first, second) = (rig.context(PLAIN), rig.context(PLAIN));
    let done = rig.submit(first, &[wait_for(data.gpu, 1)]).expect("taken");
    rig.submit(second, &[write(data.gpu, 1)]).expect("taken");
    rig.run();
    assert_eq!(data.get(0), 0, "it is behind the one that waits for it");
    std::thread::sleep(std::time::Duration::from_millis(60));
    rig.run();
    assert_eq!(rig.wait(first, done, 1), Err(libc::EDEADLK), "the GPU hung");
    assert_eq!(data.get(0), 1, "the other context goes on");
    assert_eq!(rig.wait(second, 1, 1), Ok(0));
}

#[test]
fn rings_can_be_late() {
    let mut rig = Rig::new(1);
    let context = rig.context(PLAIN);
    rig.machine.inject(Script::Late {
        queue: None,
        steps: 100,
    });
    rig.submit(context, &[nothing()]).expect("taken");
    for _ in 0..100 {
        assert!(rig.machine.step());
    }
    assert_eq!(rig.timestamps(context), [1, 0, 0]);
    rig.run();
    assert_eq!(rig.timestamps(context), [1, 1, 1]);
}

/// The order in which contexts of one priority retire.
fn order(seed: u64) -> Vec<u32> {
    let mut rig = Rig::new(seed);
    let contexts: Vec<u32> = (0..4).map(|_| rig.context(PLAIN)).collect();
    for &context in contexts.iter().cycle().take(40) {
        rig.submit(context, &[nothing()]).expect("taken");
    }
    let mut order = Vec::new();
    let mut before = [0; 4];
    while order.len() < 40 {
        rig.machine.step();
        for (n, &context) in contexts.iter().enumerate() {
            let now = rig.timestamps(context)[2];
            if now != before[n] {
                assert_eq!(now, before[n] + 1);
                before[n] = now;
                order.push(context);
            }
        }
    }
    order
}

#[test]
fn contexts_of_one_priority_share_a_ring() {
    let first = order(5);
    assert_eq!(first, order(5), "a seed decides");
    for context in 1..=4 {
        let at = first.iter().position(|&c| c == context).expect("in it");
        assert!(at < 24, "{first:?}");
    }
}

#[test]
fn a_gpu_that_sleeps_takes_time_to_wake() {
    let steps = |rig: &mut Rig, context: u32| {
        rig.submit(context, &[nothing()]).expect("taken");
        let mut steps = 0;
        while rig.timestamps(context)[0] != rig.timestamps(context)[2] {
            rig.machine.step();
            steps += 1;
        }
        rig.run();
        steps
    };
    let mut rig = Rig::on("qcom-a650,seed=3,pace=manual,idle_ms=0");
    let context = rig.context(PLAIN);
    let asleep: Vec<u32> = (0..20).map(|_| steps(&mut rig, context)).collect();
    let mut rig = Rig::on("qcom-a650,seed=3,pace=manual,idle_ms=100000");
    let context = rig.context(PLAIN);
    let first = steps(&mut rig, context);
    let awake: Vec<u32> = (0..20).map(|_| steps(&mut rig, context)).collect();
    let most = awake.iter().max().expect("some");
    assert!(awake.iter().all(|steps| steps == most), "{awake:?}");
    assert!(
        first > *most && asleep.iter().all(|steps| steps > most),
        "{asleep:?}"
    );
}

#[test]
fn registers_are_lost_while_nothing_is_to_do() {
    // CP_SCRATCH 0 is written by one submission and read by the next.
    let scratch = 0x0883;
    let (mut kept, mut lost) = (0, 0);
    for seed in 0..40 {
        let mut rig = Rig::new(seed);
        let data = rig.buffer(PAGE, WRITE_COMBINED);
        let context = rig.context(PLAIN);
        let odd = |value: u32| (value.count_ones() + 1) & 1;
        let count = 1 | odd(1) << 7;
        let header = 4 << 28 | count | scratch << 8 | odd(scratch) << 27;
        rig.submit(context, &[vec![header, 77]]).expect("taken");
        rig.run();
        let (low, high) = (data.gpu as u32, (data.gpu >> 32) as u32);
        let read = packet(0x3E, &[scratch | 1 << 18, low, high]);
        rig.submit(context, &[read]).expect("taken");
        rig.run();
        if data.get(0) == 77 {
            kept += 1;
        } else {
            lost += 1;
        }
    }
    assert!(kept > 5 && lost > 5, "{kept} {lost}");
}
