//! Who moves when: seeds, steps by hand, lateness, an idle machine, its end.

use super::*;

const SDMA: u32 = KFD_IOC_QUEUE_TYPE_SDMA;

/// Three queues count into one place each; the order of what they do, as the engines saw it.
fn trace(config: &str) -> Vec<u64> {
    let rig = Rig::readers(config);
    let queues: Vec<Ring> = (0..3).map(|_| rig.queue(0, SDMA)).collect();
    for queue in &queues {
        queue.push(&[Packet::Interrupt(0); 40]);
    }
    let mut trace = Vec::new();
    let mut before = [0; 3];
    while rig.machine.step() {
        for (index, queue) in (0u64..).zip(&queues) {
            let slot = &mut before[index as usize];
            if queue.read() != *slot {
                *slot = queue.read();
                trace.push(index);
            }
        }
    }
    assert_eq!(before, [40; 3]);
    trace
}

#[test]
fn the_seed_decides_the_order() {
    let first = trace("amd-gfx1100,pace=manual,seed=1");
    assert_eq!(first.len(), 120);
    assert_eq!(first, trace("amd-gfx1100,pace=manual,seed=1"));
    let others: Vec<_> = (2..6)
        .map(|seed| trace(&format!("amd-gfx1100,pace=manual,seed={seed}")))
        .collect();
    assert!(others.iter().all(|other| *other != first));
    // Neither in turns nor one after the other.
    let changes = first.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!((3..110).contains(&changes), "{changes}");
}

#[test]
fn steps_end_when_nobody_can_move_and_go_on_when_somebody_can() {
    let rig = Rig::readers("amd-gfx1201,pace=manual");
    assert!(!rig.machine.step());
    let (queue, flag) = (rig.queue(0, SDMA), rig.buffer(0, 4096, GTT));
    queue.push(&[
        Packet::Wait(flag.address, 1),
        Packet::Store(flag.address, 2),
    ]);
    let run = || {
        let mut steps = 0;
        while rig.machine.step() {
            steps += 1;
            assert!(steps < 100, "waiting is no progress");
        }
    };
    run();
    assert_eq!(queue.read(), 0);
    word(flag.address).store(1, Ordering::Release);
    run();
    assert_eq!(
        (queue.read(), word(flag.address).load(Ordering::Acquire)),
        (2, 2)
    );
}

#[test]
fn a_late_queue_loses_nothing() {
    let rig = Rig::readers("amd-gfx1100,pace=manual");
    let (late, other) = (rig.queue(0, SDMA), rig.queue(0, SDMA));
    rig.machine.inject(Script::Late {
        queue: Some(late.args.queue_id),
        steps: 30,
    });
    late.push(&[Packet::Interrupt(0)]);
    other.push(&[Packet::Interrupt(0)]);
    let mut steps = 0;
    while rig.machine.step() {
        steps += 1;
        if late.read() == 1 {
            break;
        }
    }
    assert!(steps > 30, "{steps}");
    assert_eq!(late.read(), 1);
    while rig.machine.step() {}
    assert_eq!(other.read(), 1);
    // Queues yet to be made are late too.
    rig.machine.inject(Script::Late {
        queue: None,
        steps: 5,
    });
    let new = rig.queue(0, SDMA);
    new.push(&[Packet::Interrupt(0)]);
    for _ in 0..5 {
        assert!(rig.machine.step());
        assert_eq!(new.read(), 0);
    }
    while rig.machine.step() {}
    assert_eq!(new.read(), 1);
}

#[test]
fn a_doorbell_is_heard_after_a_long_rest() {
    let rig = Rig::readers("amd-gfx1100");
    let queue = rig.queue(0, SDMA);
    for round in 1..4u64 {
        std::thread::sleep(Duration::from_millis(150));
        queue.push(&[Packet::Interrupt(0)]);
        soon("a packet", || queue.read() == round);
    }
}

#[test]
fn an_idle_machine_hardly_looks() {
    for queues in [0, 3] {
        let rig = Rig::readers("amd-gfx1100");
        let rings: Vec<Ring> = (0..queues).map(|_| rig.queue(0, SDMA)).collect();
        for ring in &rings {
            ring.push(&[Packet::Interrupt(0)]);
            soon("a packet", || ring.read() == 1);
        }
        let looks = || rig.machine.shared.lock().looks;
        // A nap takes two milliseconds after a while, and where there are no queues nobody looks at all.
        soon("rest", || {
            let (before, start) = (looks(), Instant::now());
            std::thread::sleep(Duration::from_millis(100));
            let naps = start.elapsed().as_millis() as u64 / 2 + 5;
            looks() - before <= if queues == 0 { 0 } else { naps }
        });
    }
}

#[test]
fn many_machines_start_and_end() {
    for round in 0..20 {
        let rig = Rig::readers("amd-gfx1100");
        let (queue, flag) = (rig.queue(0, SDMA), rig.buffer(0, 4096, GTT));
        queue.push(&[
            Packet::Store(flag.address, round),
            Packet::Wait(flag.address, 99),
        ]);
        soon("the first packet", || queue.read() == 1);
        let start = Instant::now();
        let weak = Arc::downgrade(&rig.machine);
        drop(rig);
        assert!(weak.upgrade().is_none());
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "a waiting queue does not hold the end up"
        );
        assert_eq!(
            word(flag.address).load(Ordering::Acquire),
            round,
            "what the process has mapped stays"
        );
    }
}

#[test]
fn calls_and_engines_share_a_machine() {
    let rig = Rig::readers("amd-gfx942,gpus=4,seed=3");
    std::thread::scope(|scope| {
        for gpu in 0..4 {
            let rig = &rig;
            scope.spawn(move || {
                for round in 0..20u64 {
                    let (queue, flag) = (rig.queue(gpu, SDMA), rig.buffer(gpu, 8192, GTT));
                    let last = flag.address + flag.bytes - 8;
                    queue.push(&[
                        Packet::Store(flag.address, round + 1),
                        Packet::Store(last, round + 2),
                    ]);
                    soon("both", || word(last).load(Ordering::Acquire) == round + 2);
                    assert_eq!(word(flag.address).load(Ordering::Acquire), round + 1);
                    rig.destroy(queue.args.queue_id).expect("is there");
                    for part in [queue.ring, queue.pointers, flag] {
                        assert_eq!(rig.unmap(part.handle, &[gpu]), Ok(1));
                        rig.free(part.handle).expect("freed");
                    }
                }
            });
        }
    });
    assert_eq!(rig.machine.reports(), [] as [String; 0]);
}
