//! Contexts: flags, limits, owners, their end.

use std::time::{Duration, Instant};

use super::*;

fn create(rig: &Rig, file: i32, flags: ContextFlags) -> Result<(u32, ContextFlags), i32> {
    let mut args = kgsl_drawctxt_create {
        flags,
        drawctxt_id: 0,
    };
    rig.call_on(file, &mut args)
        .map(|_| (args.drawctxt_id, args.flags))
}

#[test]
fn flags_are_looked_at() {
    let rig = Rig::new(1);
    let (first, flags) = create(&rig, rig.file, PLAIN).expect("a context");
    assert_eq!(first, 1);
    let usual = PLAIN | ContextFlags::PER_CONTEXT_TS;
    assert_eq!(
        flags,
        usual.with_priority(8),
        "a priority of the kernel's choice"
    );
    let odd = ContextFlags::SAVE_GMEM | ContextFlags::SPARSE | ContextFlags::SYNC;
    let wanted = PLAIN
        .with_priority(3)
        .with_type(KGSL_CONTEXT_TYPE_CL)
        .with_preempt_style(KGSL_CONTEXT_PREEMPT_STYLE_FINEGRAIN);
    let (_, flags) = create(&rig, rig.file, wanted | odd).expect("a context");
    assert_eq!(
        flags,
        wanted | ContextFlags::PER_CONTEXT_TS,
        "unknown ones are dropped"
    );
    for (flags, errno) in [
        (ContextFlags::PREAMBLE, libc::EINVAL),
        (ContextFlags::NO_GMEM_ALLOC, libc::EINVAL),
        (ContextFlags::empty(), libc::EINVAL),
        (PLAIN | ContextFlags::SECURE, libc::EOPNOTSUPP),
        (PLAIN | ContextFlags::LPAC, libc::EOPNOTSUPP),
    ] {
        assert_eq!(create(&rig, rig.file, flags), Err(errno), "{flags:?}");
    }
}

#[test]
fn there_are_so_many_and_numbers_are_used_again() {
    let rig = Rig::new(1);
    for id in 1..=201 {
        assert_eq!(create(&rig, rig.file, PLAIN).expect("a context").0, id);
    }
    assert_eq!(create(&rig, rig.file, PLAIN), Err(libc::ENOSPC));
    assert_eq!(rig.destroy(17), Ok(0));
    assert_eq!(create(&rig, rig.file, PLAIN).expect("a context").0, 17);
}

#[test]
fn a_context_is_its_files() {
    let mut rig = Rig::new(1);
    let node = Path::new("/dev/kgsl-3d0");
    let other = rig.machine.open(node, true).expect("again");
    let (theirs, _) = create(&rig, other, PLAIN).expect("a context");
    assert_eq!(rig.submit(theirs, &[nothing()]), Err(libc::EINVAL));
    assert_eq!(rig.wait(theirs, 0, 1), Err(libc::EINVAL));
    assert_eq!(
        rig.timestamp(theirs, KGSL_TIMESTAMP_RETIRED),
        Err(libc::EINVAL)
    );
    assert_eq!(rig.destroy(theirs), Err(libc::EINVAL));
    rig.machine.close(other);
    let (again, _) = create(&rig, rig.file, PLAIN).expect("a context");
    assert_eq!(again, theirs, "it ended with its file");
}

#[test]
fn time_stamps_have_three_kinds() {
    let mut rig = Rig::new(1);
    let context = rig.context(PLAIN);
    assert_eq!(rig.timestamps(context), [0, 0, 0]);
    rig.submit(context, &[nothing()]).expect("taken");
    assert_eq!(rig.timestamps(context), [1, 0, 0]);
    rig.run();
    assert_eq!(rig.timestamps(context), [1, 1, 1]);
    for kind in [0, 4, u32::MAX] {
        assert_eq!(rig.timestamp(context, kind), Err(libc::EINVAL), "{kind}");
    }
    assert_eq!(rig.timestamp(0, KGSL_TIMESTAMP_QUEUED), Err(libc::EINVAL));
}

#[test]
fn waits_end_with_the_time_or_without() {
    let mut rig = Rig::new(1);
    let context = rig.context(PLAIN);
    let done = rig.submit(context, &[nothing()]).expect("taken");
    let begin = Instant::now();
    assert_eq!(rig.wait(context, done, 30), Err(libc::ETIMEDOUT));
    assert!(begin.elapsed() >= Duration::from_millis(30));
    assert_eq!(
        rig.wait(context, done + 1, 30),
        Err(libc::EINVAL),
        "the future"
    );
    rig.run();
    for timestamp in [0, done, 0x8000_0002] {
        assert_eq!(rig.wait(context, timestamp, 1), Ok(0), "{timestamp:#x}");
    }
    // Who makes time stamps may wait for any.
    let own = rig.context(ContextFlags::USER_GENERATED_TS);
    assert_eq!(rig.wait(own, 9, 5), Err(libc::ETIMEDOUT));
}

#[test]
fn waiting_is_over_when_the_context_is() {
    let rig = Rig::on("qcom-a650,seed=1,pace=manual");
    let context = rig.context(ContextFlags::USER_GENERATED_TS);
    let done = 7;
    let (machine, file) = (Arc::clone(&rig.machine), rig.file);
    let waiter = std::thread::spawn(move || {
        let mut args = kgsl_device_waittimestamp_ctxtid {
            context_id: context,
            timestamp: done,
            timeout: 0,
        };
        let request = kgsl_device_waittimestamp_ctxtid::REQUEST;
        // SAFETY: the struct of this request.
        unsafe { machine.ioctl(file, request.into(), (&raw mut args).cast()) }
    });
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(rig.destroy(context), Ok(0));
    assert_eq!(waiter.join().expect("no panic"), Err(libc::ENOENT));
    assert_eq!(rig.destroy(context), Err(libc::EINVAL));
}

#[test]
fn the_end_of_a_context_waits_for_what_is_executed() {
    let mut rig = Rig::on("qcom-a650,seed=1");
    let data = rig.buffer(PAGE, WRITE_COMBINED);
    let context = rig.context(ContextFlags::NO_FAULT_TOLERANCE);
    let words = [wait_for(data.gpu, 1), write(data.gpu + 8, 2)];
    rig.submit(context, &words).expect("taken");
    while rig.timestamps(context)[1] == 0 {
        std::thread::yield_now();
    }
    let (machine, file) = (Arc::clone(&rig.machine), rig.file);
    let ended = std::thread::spawn(move || {
        let mut args = kgsl_drawctxt_destroy {
            drawctxt_id: context,
        };
        // SAFETY: the struct of this request.
        unsafe {
            machine.ioctl(
                file,
                kgsl_drawctxt_destroy::REQUEST.into(),
                (&raw mut args).cast(),
            )
        }
    });
    std::thread::sleep(Duration::from_millis(30));
    assert!(!ended.is_finished(), "the GPU is not done");
    assert_eq!(
        rig.wait(context, 1, 1),
        Err(libc::EINVAL),
        "but it is nobody's any more"
    );
    data.set(0, 1);
    assert_eq!(ended.join().expect("no panic"), Ok(0));
    assert_eq!(data.get(8), 2);
}

#[test]
fn fences_are_not_there() {
    let rig = Rig::new(1);
    let context = rig.context(PLAIN);
    let event = |kind, context_id, len| {
        let mut fence = kgsl_timestamp_event_fence::default();
        rig.call(&mut kgsl_timestamp_event {
            r#type: kind,
            context_id,
            r#priv: at(&mut fence),
            len,
            ..Default::default()
        })
    };
    const FENCE: i32 = KGSL_TIMESTAMP_EVENT_FENCE;
    assert_eq!(event(FENCE, context, 4), Err(libc::EMFILE));
    assert_eq!(event(FENCE, context, 8), Err(libc::EINVAL));
    assert_eq!(event(FENCE, 99, 4), Err(libc::EINVAL));
    assert_eq!(event(1, context, 4), Err(libc::EINVAL));
}
