//! Work-groups: each one once, with what it is told.

use super::*;

const WORDS: usize = 8;

/// Launches `NOTE` over a grid with some local memory, polled with this budget, and looks at every group's note.
fn notes(groups: [u32; 3], local: [u32; 3], local_memory: u32, skip: usize, budget: u32) {
    let total: usize = groups.iter().map(|&n| n as usize).product();
    let memory = Memory::new(8 + total * WORDS);
    let scratch = Memory::new(64);
    let ring = queue_memory(1);
    let (mut submit, q) = queue(&ring, 0);
    let mut queues = [q];
    let all = scratch.region();
    let len = all.len() - skip;
    let mut engine = Engine::new(&mut queues, all.slice(skip, len).expect("inside"));
    let mut host = Host::over(&[&memory]);
    memory.set(0, memory.at(8));
    let args = memory.at(0);
    submit.push(&[Packet::Exec(Exec {
        kernel: NOTE,
        args,
        args_size: 8,
        groups,
        local,
        local_memory,
    })]);
    let mut left = total as u32;
    while left > 0 {
        let ran = budget.min(left);
        assert_eq!(poll(&mut engine, &mut host, budget), Poll::Ran(ran));
        left -= ran;
    }
    assert_eq!(poll(&mut engine, &mut host, budget), Poll::Idle);
    assert_eq!(submit.get(), 1);

    let pair = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
    let local_at = match local_memory {
        0 => 0,
        _ => scratch.at(0) + skip.next_multiple_of(64) as u64,
    };
    let mut n = 0;
    for z in 0..groups[2] {
        for y in 0..groups[1] {
            for x in 0..groups[0] {
                let want = [
                    pair(x, y),
                    pair(z, local_memory),
                    pair(groups[0], groups[1]),
                    pair(groups[2], local[0]),
                    pair(local[1], local[2]),
                    local_at,
                    0,
                    args,
                ];
                let have: [u64; WORDS] = core::array::from_fn(|i| memory.get(8 + n * WORDS + i));
                assert_eq!(have, want, "group {n} of {groups:?}");
                n += 1;
            }
        }
    }
    // The kernel's stores to local memory went where it was told, and nowhere else.
    let from = skip.next_multiple_of(64);
    for (i, word) in scratch.all().iter().enumerate() {
        for (j, byte) in word.to_le_bytes().into_iter().enumerate() {
            let at = i * 8 + j;
            let own = (from..from + local_memory as usize).contains(&at);
            assert_eq!(byte, if own { 0x5a } else { 0 }, "byte {at}");
        }
    }
}

#[test]
fn every_group_is_told_what_it_is() {
    for groups in [
        [1, 1, 1],
        [3, 3, 3],
        [7, 1, 5],
        [1, 9, 1],
        [1, 1, 4],
        [2, 3, 1],
    ] {
        let budgets: &[u32] = if cfg!(miri) { &[2] } else { &[1, 2, 7, 1000] };
        for &budget in budgets {
            notes(groups, [4, 5, u32::MAX], 0, 0, budget);
        }
    }
}

#[test]
fn large_odd_grids() {
    if cfg!(miri) {
        return notes([17, 3, 2], [1, 2, 3], 0, 0, 50);
    }
    for budget in [1, 256, 257, 1000, 5000] {
        notes([257, 3, 2], [1, 2, 3], 0, 0, budget);
    }
}

#[test]
fn local_memory_is_aligned_and_of_the_size_asked_for() {
    for (skip, most) in [(0, 512), (8, 448), (56, 448), (64, 448), (72, 384)] {
        let sizes: &[u32] = if cfg!(miri) {
            &[most]
        } else {
            &[0, 1, 63, 64, 65, most]
        };
        for &size in sizes {
            notes([2, 1, 1], [1; 3], size, skip, 9);
        }
    }
}

#[test]
fn local_memory_behind_the_alignment_is_all_there_is() {
    // 512 bytes from byte 8 on: 448 from the next boundary.
    for (skip, len, most) in [
        (0, 512, 512),
        (8, 504, 448),
        (8, 56, 0),
        (8, 40, 0),
        (0, 0, 0),
    ] {
        let (memory, scratch, ring) = (Memory::new(1), Memory::new(64), queue_memory(1));
        let (mut submit, q) = queue(&ring, 0);
        let mut queues = [q];
        let local = scratch.region().slice(skip, len).expect("inside");
        let mut engine = Engine::new(&mut queues, local);
        submit.push(&[Packet::Exec(Exec {
            kernel: COUNT,
            args: 0,
            args_size: 0,
            groups: [1; 3],
            local: [1; 3],
            local_memory: most + 1,
        })]);
        let mut host = Host::over(&[&memory]);
        let Poll::Fault { record, .. } = poll(&mut engine, &mut host, 9) else {
            panic!("{skip} {len}")
        };
        assert_eq!(
            (record.kind, record.detail),
            (FaultKind::Program, u64::from(most) + 1)
        );
    }
}

#[test]
fn group_numbers_beyond_32_bits() {
    // The last groups of grids that nobody can run through.
    for groups in [
        [u32::MAX, u32::MAX, 1],
        [1, u32::MAX, u32::MAX],
        [3, 1 << 31, 5],
        [u32::MAX, 1, 2],
    ] {
        let total = groups.map(u64::from).iter().product::<u64>();
        let exec = Exec {
            kernel: 0,
            args: 0,
            args_size: 0,
            groups,
            local: [1; 3],
            local_memory: 0,
        };
        let mut ids: [[u32; 3]; 4] = [[7; 3]; 4];
        /// Notes the group in the next place.
        unsafe extern "C" fn tell(args: *const c_void, group: *const Group) {
            let next = args.cast_mut().cast::<*mut [u32; 3]>();
            // SAFETY: the test's own pointer.
            let place = unsafe { *next };
            // SAFETY: the engine's.
            let id = unsafe { (*group).group };
            // SAFETY: there are as many places as groups.
            unsafe { place.write(id) };
            // SAFETY: one past the last place is the most.
            let after = unsafe { place.add(1) };
            // SAFETY: the test's own pointer.
            unsafe { *next = after };
        }
        let mut next = ids.as_mut_ptr();
        let args = NonNull::from(&mut next).cast();
        // SAFETY: `tell` is sound for these arguments and four groups.
        unsafe { launch::call(tell, args, &exec, &no_local(), total - 4, 4) };
        let want: Vec<[u32; 3]> = (total - 4..total)
            .map(|n| {
                let [gx, gy, _] = groups.map(u64::from);
                [n % gx, n / gx % gy, n / gx / gy].map(|v| v as u32)
            })
            .collect();
        assert_eq!(ids.as_slice(), want, "{groups:?}");
        assert_eq!(ids[3], groups.map(|n| n - 1));
    }
}

#[test]
fn a_launch_without_arguments_reads_no_memory() {
    let (memory, ring) = (Memory::new(1), queue_memory(1));
    let (mut submit, q) = queue(&ring, 0);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local());
    struct NoArgs(u32);
    impl Platform for NoArgs {
        fn now_ns(&mut self) -> u64 {
            1
        }
        fn translate(&mut self, _: u64, _: u64, _: Access) -> Option<NonNull<u8>> {
            None
        }
        fn kernel(&mut self, entry: u64) -> Option<KernelFn> {
            self.0 += 1;
            unsafe extern "C" fn nothing(args: *const c_void, _: *const Group) {
                assert!(!args.is_null());
            }
            (entry == 5).then_some(nothing as KernelFn)
        }
    }
    submit.push(&[exec(5, memory.at(0), 0, [3, 1, 1])]);
    let mut host = NoArgs(0);
    // SAFETY: the kernel does nothing.
    let outcome = unsafe { engine.poll(&mut host, 99) };
    assert_eq!((outcome, host.0), (Poll::Ran(3), 1));
}
