//! What planning takes grows with the tasks and not with their square. Counted, not timed.

use super::*;

/// Ten times the tasks take at most twelve times the steps. Miri sees that few are planned.
fn grows_evenly(make: impl Fn(u64) -> Scene) {
    let effort = |n| {
        let plan = make(n).plan().unwrap();
        assert!(plan.exact);
        assert!(plan.works.len() as u64 >= n);
        plan.effort
    };
    if cfg!(miri) {
        assert!(effort(4) > 0);
        return;
    }
    let (small, large) = (effort(400), effort(4000));
    assert!(large <= 12 * small, "{small} steps, then {large}");
}

#[test]
fn a_chain_through_two_buffers() {
    grows_evenly(|n| {
        let mut s = scene(&[Device::new(1, 0), Device::new(1, 0)]);
        for i in 0..n as u32 {
            s.exec(
                0,
                &[Access::read(i % 2, 0, 64), Access::write(1 - i % 2, 0, 64)],
            );
        }
        s
    });
}

#[test]
fn views_of_one_arena() {
    grows_evenly(|n| {
        let mut s = scene(&[Device::new(2, 1)]);
        for i in 0..n {
            let (from, to) = (i * 31 % n, i * 17 % n);
            let accesses = [
                Access::read(0, from * 64, 64),
                Access::write(0, to * 64, 64),
            ];
            if i % 5 == 0 {
                s.copy(accesses[0], accesses[1]);
            } else {
                s.exec(0, &accesses).queue = Some((i % 2) as u16);
            }
        }
        s
    });
}

#[test]
fn many_readers_of_one_buffer() {
    grows_evenly(|n| {
        let mut s = scene(&[Device::new(4, 0)]);
        for i in 0..n {
            s.exec(
                0,
                &[Access::read(0, i % 97, 1000), Access::write(0, 2000 + i, 1)],
            )
            .queue = Some((i % 4) as u16);
        }
        s
    });
}

#[test]
fn devices_that_copy_to_each_other() {
    grows_evenly(|n| {
        let mut s = scene(&[Device::new(1, 8); 8]);
        s.copy_queues = 8;
        for i in 0..n {
            let (from, to) = ((i % 8) as u32, (i / 8 % 8) as u32);
            s.copy(
                Access::read(from, i % 64 * 8, 8),
                Access::write(to, 512 + i % 32 * 8, 8),
            );
            s.exec(
                to as u16,
                &[Access::read(to, 512, 256), Access::write(to, i % 64 * 8, 8)],
            );
        }
        s
    });
}

#[test]
fn inputs_that_may_alias() {
    grows_evenly(|n| {
        let mut s = scene(&[Device::new(2, 0)]);
        s.allocations = vec![Allocation::input(0).aliasing(1); n as usize];
        for i in 0..n as u32 {
            let accesses = [
                Access::read(i, 0, 64),
                Access::write((i * 7) % n as u32, 0, 64),
            ];
            s.exec(0, &accesses).queue = Some((i % 2) as u16);
        }
        s
    });
}

#[test]
fn several_in_flight() {
    grows_evenly(|n| {
        let mut s = scene(&[Device {
            compute: Queues::in_flight(1, 8),
            ..Device::new(1, 0)
        }]);
        for i in 0..n {
            s.exec(
                0,
                &[
                    Access::read(0, i % 13 * 8, 8),
                    Access::write(0, i % 11 * 8, 8),
                ],
            );
        }
        s
    });
}
