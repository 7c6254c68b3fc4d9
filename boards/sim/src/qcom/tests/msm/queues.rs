//! Queues, fences, waits.

use super::*;

#[test]
fn queues_are_made_and_closed() {
    let msm = Msm::new(1);
    assert_eq!([0, 1, 2].map(|prio| msm.queue(prio)), [Ok(1), Ok(2), Ok(3)]);
    for prio in [3, u32::MAX] {
        assert_eq!(msm.queue(prio), Err(libc::EINVAL), "{prio}");
    }
    let mut odd = drm_msm_submitqueue {
        flags: 1,
        ..Default::default()
    };
    assert_eq!(msm.call(&mut odd), Err(libc::EINVAL));
    let close = |id| msm.call(&mut drm_msm_submitqueue_close { id });
    assert_eq!(close(2), Ok(0));
    for (id, errno) in [(0, libc::ENOENT), (2, libc::ENOENT), (9, libc::ENOENT)] {
        assert_eq!(close(id), Err(errno), "{id}");
    }
    assert_eq!(msm.submit(2, &[nothing()], &[]), Err(libc::ENOENT));
    assert_eq!(msm.wait(2, 0, PAST), Err(libc::ENOENT));
    assert_eq!(msm.faults(2), Err(libc::ENOENT));
    assert_eq!(msm.queue(0), Ok(4), "numbers go on");
}

#[test]
fn queues_tell_their_faults_only() {
    let msm = Msm::new(1);
    let mut faults = [u8::MAX; 8];
    let data = at(&mut faults);
    let plain = drm_msm_submitqueue_query {
        data,
        len: 8,
        ..Default::default()
    };
    for (mut query, answer) in [
        (
            drm_msm_submitqueue_query { pad: 1, ..plain },
            Err(libc::EINVAL),
        ),
        (
            drm_msm_submitqueue_query { param: 1, ..plain },
            Err(libc::EINVAL),
        ),
        (
            drm_msm_submitqueue_query { id: 1, ..plain },
            Err(libc::ENOENT),
        ),
        (
            drm_msm_submitqueue_query { data: 8, ..plain },
            Err(libc::EFAULT),
        ),
        (drm_msm_submitqueue_query { len: 2, ..plain }, Ok(0)),
    ] {
        assert_eq!(msm.call(&mut query), answer, "{query:?}");
    }
    assert_eq!(faults[..3], [0, 0, u8::MAX], "two bytes of it");
    assert_eq!(msm.call(&mut { plain }), Ok(0));
    assert_eq!(faults[3..5], [0, u8::MAX]);
}

#[test]
fn fences_are_numbered_by_queue_and_waited_for() {
    let msm = Msm::new(1);
    let other = msm.queue(1).expect("a queue");
    let one = |queue| msm.submit(queue, &[nothing()], &[]).expect("takes it");
    assert_eq!([one(0), one(0), one(other), one(0)], [1, 2, 1, 3]);
    assert_eq!(msm.wait(0, 1, PAST), Err(libc::ETIMEDOUT));
    assert_eq!(msm.wait(0, 4, LATER), Err(libc::EINVAL), "of the future");
    let mut odd = drm_msm_wait_fence {
        fence: 1,
        pad: 1,
        ..Default::default()
    };
    assert_eq!(msm.call(&mut odd), Err(libc::EINVAL));
    msm.0.run();
    for (queue, fence) in [(0, 0), (0, 1), (0, 3), (other, 1)] {
        assert_eq!(msm.wait(queue, fence, PAST), Ok(0), "{queue} {fence}");
    }
    assert_eq!(msm.wait(0, 4, LATER), Err(libc::EINVAL));
}

#[test]
fn a_fence_may_have_a_number_of_the_callers() {
    let msm = Msm::new(1);
    let (bo, size) = msm.commands(&[nothing()]);
    let own = |fence| {
        let args = drm_msm_gem_submit {
            flags: SubmitFlags::FENCE_SN_IN,
            fence,
            ..Default::default()
        };
        msm.send(args, &mut [used(&bo)], &mut [run_all(size)])
    };
    assert_eq!(own(0), Err(libc::EINVAL));
    assert_eq!(own(100), Ok(100));
    assert_eq!(own(100), Err(libc::EINVAL), "it is in flight");
    assert_eq!(own(7), Ok(7));
    msm.0.run();
    assert_eq!(own(100), Ok(100));
}

#[test]
fn numbers_begin_anew_behind_the_last_one() {
    let msm = Msm::new(1);
    let (bo, size) = msm.commands(&[nothing()]);
    // The kernel's own numbers go on from where they were, whatever callers choose.
    let last = i32::MAX as u32 - 1;
    let sent = |flags, fence| {
        let args = drm_msm_gem_submit {
            flags,
            fence,
            ..Default::default()
        };
        msm.send(args, &mut [used(&bo)], &mut [run_all(size)])
    };
    assert_eq!(sent(SubmitFlags::FENCE_SN_IN, last), Ok(last));
    assert_eq!(sent(SubmitFlags::empty(), 0), Ok(1));
    // The driver takes a number from before for one of the future.
    assert_eq!(msm.wait(0, last, LATER), Err(libc::EINVAL));
    assert_eq!(msm.wait(0, 1, PAST), Err(libc::ETIMEDOUT));
    msm.0.run();
    assert_eq!(msm.wait(0, 1, PAST), Ok(0));
}

#[test]
fn a_wait_sleeps_until_it_is_over() {
    let msm = Msm::on("qcom-a650,msm=present,hang_ms=10000");
    let gate = msm.bo(PAGE, BoFlags::WC);
    let held = msm.submit(0, &[wait_for(gate.buffer.gpu, 1)], &[gate]);
    let fence = held.expect("takes it");
    assert_eq!(msm.wait(0, fence, PAST), Err(libc::ETIMEDOUT));
    assert_eq!(
        msm.prep(gate.handle, MSM_PREP_READ | MSM_PREP_NOSYNC, LATER),
        Err(libc::EBUSY)
    );
    assert_eq!(
        msm.prep(gate.handle, MSM_PREP_WRITE, PAST),
        Err(libc::EBUSY)
    );
    std::thread::scope(|scope| {
        let waits = [
            scope.spawn(|| msm.wait(0, fence, LATER)),
            scope.spawn(|| msm.prep(gate.handle, MSM_PREP_WRITE, LATER)),
            // The address goes with the handle, and not before the GPU is done with it.
            scope.spawn(|| msm.close(gate.handle)),
        ];
        std::thread::sleep(std::time::Duration::from_millis(5));
        gate.buffer.set(0, 1);
        for (n, wait) in waits.into_iter().enumerate() {
            let answer = wait.join().expect("no panic");
            // Whoever comes after the handle has gone finds none.
            assert!(
                answer == Ok(0) || (n == 1 && answer == Err(libc::ENOENT)),
                "{n}: {answer:?}"
            );
        }
    });
}
