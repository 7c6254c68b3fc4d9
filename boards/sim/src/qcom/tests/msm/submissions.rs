//! Submissions: what is refused, what is done, what becomes of those that hang.

use super::*;

#[test]
fn wrong_submissions_are_refused() {
    let msm = Msm::new(1);
    let (bo, size) = msm.commands(&[nothing()]);
    let plain = drm_msm_gem_submit::default();
    let flags = |flags| drm_msm_gem_submit { flags, ..plain };
    let bit = SubmitFlags::from_bits_retain;
    for (args, errno) in [
        (drm_msm_gem_submit { pad: 1, ..plain }, libc::EINVAL),
        (flags(bit(1)), libc::EINVAL),
        (flags(bit(1 << 24)), libc::EINVAL),
        (flags(SubmitFlags::SUDO), libc::EINVAL),
        (
            drm_msm_gem_submit {
                queueid: 5,
                ..plain
            },
            libc::ENOENT,
        ),
        (flags(SubmitFlags::FENCE_FD_IN), libc::EINVAL),
        (flags(SubmitFlags::FENCE_FD_OUT), libc::EMFILE),
        (
            drm_msm_gem_submit {
                nr_in_syncobjs: 1,
                ..flags(SubmitFlags::SYNCOBJ_IN)
            },
            libc::EINVAL,
        ),
    ] {
        let refused = msm.send(args, &mut [used(&bo)], &mut [run_all(size)]);
        assert_eq!(refused, Err(errno), "{args:?}");
    }
    let good = used(&bo);
    for wrong in [
        drm_msm_gem_submit_bo {
            flags: SubmitBoFlags::empty(),
            ..good
        },
        drm_msm_gem_submit_bo {
            flags: SubmitBoFlags::DUMP,
            ..good
        },
        drm_msm_gem_submit_bo {
            flags: good.flags | SubmitBoFlags::from_bits_retain(8),
            ..good
        },
        drm_msm_gem_submit_bo { handle: 0, ..good },
        drm_msm_gem_submit_bo { handle: 77, ..good },
    ] {
        let refused = msm.send(plain, &mut [wrong], &mut [run_all(size)]);
        assert_eq!(refused, Err(libc::EINVAL), "{wrong:?}");
    }
    let twice = msm.send(plain, &mut [good, good], &mut [run_all(size)]);
    assert_eq!(twice, Err(libc::EINVAL));
    let all = run_all(size);
    for wrong in [
        drm_msm_gem_submit_cmd { r#type: 0, ..all },
        drm_msm_gem_submit_cmd { r#type: 4, ..all },
        drm_msm_gem_submit_cmd { size: 0, ..all },
        drm_msm_gem_submit_cmd { size: 6, ..all },
        drm_msm_gem_submit_cmd {
            size: 4096 + 4,
            ..all
        },
        drm_msm_gem_submit_cmd {
            submit_offset: 4096,
            ..all
        },
        drm_msm_gem_submit_cmd {
            submit_offset: u32::MAX,
            ..all
        },
        drm_msm_gem_submit_cmd {
            submit_idx: 1,
            ..all
        },
    ] {
        let refused = msm.send(plain, &mut [good], &mut [wrong]);
        assert_eq!(refused, Err(libc::EINVAL), "{wrong:?}");
    }
    let mut relocations = [drm_msm_gem_submit_reloc::default()];
    for (relocs, errno) in [(8, libc::EFAULT), (at(&mut relocations), libc::EINVAL)] {
        let nr_relocs = 1;
        let wrong = drm_msm_gem_submit_cmd {
            nr_relocs,
            relocs,
            ..all
        };
        let refused = msm.send(plain, &mut [good], &mut [wrong]);
        assert_eq!(refused, Err(errno), "{wrong:?}");
    }
    let lists = |nr_bos, nr_cmds, bos, cmds| {
        msm.call(&mut drm_msm_gem_submit {
            flags: plain.flags.gpu(),
            nr_bos,
            nr_cmds,
            bos,
            cmds,
            ..plain
        })
    };
    assert_eq!(lists(u32::MAX, 0, 0, 0), Err(libc::ENOMEM));
    assert_eq!(lists(0, u32::MAX, 0, 0), Err(libc::ENOMEM));
    assert_eq!(lists(1, 0, 8, 0), Err(libc::EFAULT));
    assert_eq!(lists(0, 1, 0, 8), Err(libc::EFAULT));
    assert_eq!(lists(1, 0, u64::MAX, 0), Err(libc::EFAULT));
    // None of them took a number.
    assert_eq!(msm.send(plain, &mut [good], &mut [all]), Ok(1));
}

#[test]
fn what_is_listed_is_used() {
    for seed in 0..20 {
        let msm = Msm::new(seed);
        let data = msm.bo(PAGE, BoFlags::CACHED_COHERENT);
        let (bo, size) = msm.commands(&[write(data.buffer.gpu, 7), write(data.buffer.gpu + 8, 8)]);
        let half = drm_msm_gem_submit_cmd {
            size: size / 2,
            submit_idx: 1,
            submit_offset: size / 2,
            ..run_all(size)
        };
        let target = drm_msm_gem_submit_cmd {
            r#type: MSM_SUBMIT_CMD_IB_TARGET_BUF,
            submit_idx: 1,
            ..run_all(size)
        };
        let mut bos = [used(&data), used(&bo)];
        let sent = msm.send(drm_msm_gem_submit::default(), &mut bos, &mut [target, half]);
        let fence = sent.expect("takes it");
        msm.0.run();
        assert_eq!(msm.wait(0, fence, PAST), Ok(0));
        let seen = [data.buffer.get(0), data.buffer.get(8)];
        assert_eq!(seen, [0, 8], "the second half of the words alone");
    }
}

#[test]
fn what_is_not_listed_may_be_gone() {
    let mut gone = 0;
    for seed in 0..40 {
        let msm = Msm::new(seed);
        let data = msm.bo(PAGE, BoFlags::WC);
        let sent = msm.submit(0, &[write(data.buffer.gpu, 7)], &[]);
        sent.expect("the kernel does not know");
        msm.0.run();
        gone += msm.faults(0).expect("a queue");
        assert_eq!(
            msm.param(MSM_PARAM_FAULTS),
            Ok(msm.faults(0).expect("a queue").into())
        );
    }
    assert!(gone > 0);
}

#[test]
fn what_hangs_is_over_and_the_others_run_on() {
    let msm = Msm::on("qcom-a650,msm=present,hang_ms=5");
    let (gate, data) = (msm.bo(PAGE, BoFlags::WC), msm.bo(PAGE, BoFlags::WC));
    let other = msm.queue(1).expect("a queue");
    let hangs = msm.submit(
        0,
        &[wait_for(gate.buffer.gpu, 1), write(data.buffer.gpu, 1)],
        &[gate, data],
    );
    let behind = msm.submit(0, &[write(data.buffer.gpu + 8, 2)], &[data]);
    let beside = msm.submit(other, &[write(data.buffer.gpu + 16, 3)], &[data]);
    for (queue, fence) in [(0, hangs), (0, behind), (other, beside)] {
        assert_eq!(msm.wait(queue, fence.expect("takes it"), LATER), Ok(0));
    }
    assert_eq!([0, 8, 16].map(|at| data.buffer.get(at)), [0, 2, 3]);
    assert_eq!((msm.faults(0), msm.faults(other)), (Ok(1), Ok(0)));
    assert_eq!(msm.param(MSM_PARAM_FAULTS), Ok(1));
    assert!(
        msm.0
            .machine
            .reports()
            .iter()
            .any(|r| r.contains("waits for too long"))
    );
}

#[test]
fn a_fault_is_the_files_own() {
    let msm = Msm::new(3);
    let other = Msm(Rig {
        machine: Arc::clone(&msm.0.machine),
        file: msm.0.machine.open(Path::new(NODE), true).expect("there"),
        commands: Vec::new(),
    });
    let data = other.bo(PAGE, BoFlags::WC);
    msm.submit(0, &[write(0x1000, 1)], &[]).expect("takes it");
    let fine = other.submit(0, &[write(data.buffer.gpu, 5)], &[data]);
    msm.0.run();
    assert_eq!(other.wait(0, fine.expect("takes it"), PAST), Ok(0));
    assert_eq!(data.buffer.get(0), 5);
    assert_eq!(
        [msm.param(MSM_PARAM_FAULTS), other.param(MSM_PARAM_FAULTS)],
        [Ok(1), Ok(0)]
    );
    // What was to be of a closed file is not.
    let held = other.submit(0, &[wait_for(data.buffer.gpu + 8, 1)], &[data]);
    held.expect("takes it");
    other.0.machine.close(other.0.file);
    msm.0.run();
    assert_eq!(data.buffer.get(0), 5, "its memory is mapped yet");
}
