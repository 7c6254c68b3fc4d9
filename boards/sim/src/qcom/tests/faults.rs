//! Faults: who is told what, and what is executed again.

use super::*;

const NOWHERE: u64 = 0x7F_0000_0000;

/// A packet that does not exist: the parity bits are wrong.
fn illegal() -> Vec<u32> {
    vec![0x7000_0000]
}

fn reset_status(rig: &Rig, context: u32) -> u32 {
    let mut value = context;
    let mut args = kgsl_device_getproperty {
        r#type: KGSL_PROP_GPU_RESET_STAT,
        value: at(&mut value),
        sizebytes: 4,
        ..Default::default()
    };
    assert_eq!(rig.call(&mut args), Ok(0));
    value
}

fn faults(rig: &Rig, context: u32) -> (i32, u32) {
    let mut faults = kgsl_context_property_fault::default();
    let mut property = kgsl_context_property {
        data: at(&mut faults),
        size: size_of::<kgsl_context_property_fault>() as u32,
        r#type: KGSL_CONTEXT_PROP_FAULTS,
        contextid: context,
        hole0: 0,
    };
    let mut args = kgsl_device_getproperty {
        r#type: KGSL_PROP_CONTEXT_PROPERTY,
        value: at(&mut property),
        sizebytes: size_of::<kgsl_context_property>() as u64,
        ..Default::default()
    };
    assert_eq!(rig.call(&mut args), Ok(0));
    (faults.faults, faults.timestamp)
}

#[test]
fn a_context_that_wants_to_is_lost_with_its_first_fault() {
    for flags in [
        ContextFlags::INVALIDATE_ON_FAULT,
        ContextFlags::NO_FAULT_TOLERANCE,
    ] {
        let mut rig = Rig::new(1);
        let data = rig.buffer(PAGE, WRITE_COMBINED);
        let context = rig.context(flags);
        let done = rig.submit(context, &[illegal()]).expect("taken");
        let behind = rig.submit(context, &[write(data.gpu, 1)]).expect("taken");
        rig.run();
        assert_eq!(data.get(0), 0, "nothing after it is executed");
        for timestamp in [done, behind] {
            assert_eq!(rig.wait(context, timestamp, 1), Err(libc::EDEADLK));
        }
        assert_eq!(rig.timestamps(context), [2, 2, 2], "nobody waits for ever");
        assert_eq!(rig.submit(context, &[nothing()]), Err(libc::EDEADLK));
        assert_eq!(
            reset_status(&rig, context),
            KGSL_CTX_STAT_GUILTY_CONTEXT_RESET_EXT
        );
        assert_eq!(
            reset_status(&rig, context),
            KGSL_CTX_STAT_NO_ERROR,
            "told once"
        );
        assert_eq!(faults(&rig, context), (1, done));
        let reports = rig.machine.reports();
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert!(
            reports[0].contains(&format!("ctx {context} ts {done}")),
            "{reports:?}"
        );
        // It can still be ended, and another one works.
        assert_eq!(rig.destroy(context), Ok(0));
        let context = rig.context(flags);
        let done = rig.submit(context, &[write(data.gpu, 1)]).expect("taken");
        rig.run();
        assert_eq!((rig.wait(context, done, 1), data.get(0)), (Ok(0), 1));
    }
}

#[test]
fn a_tolerated_fault_is_left_out_and_told_with_the_next_command() {
    let mut rig = Rig::new(1);
    let data = rig.buffer(PAGE, WRITE_COMBINED);
    let context = rig.context(PLAIN);
    let bad = rig.submit(context, &[illegal()]).expect("taken");
    rig.run();
    assert_eq!(
        rig.wait(context, bad, 1),
        Ok(0),
        "as if it had been executed"
    );
    let next = rig.submit(context, &[write(data.gpu, 1)]).expect("taken");
    rig.run();
    assert_eq!(data.get(0), 1);
    assert_eq!(rig.wait(context, next, 1), Err(libc::EPROTO));
    assert_eq!(rig.wait(context, next, 1), Ok(0), "told once");
    // Or with the call that submits.
    rig.submit(context, &[illegal()]).expect("taken");
    rig.submit(context, &[nothing()]).expect("taken");
    rig.run();
    assert_eq!(
        rig.submit(context, &[write(data.gpu, 2)]),
        Err(libc::EPROTO)
    );
    rig.run();
    assert_eq!(data.get(0), 2, "it was submitted all the same");
}

#[test]
fn a_page_fault_runs_the_command_again_first() {
    let mut rig = Rig::new(1);
    let data = rig.buffer(PAGE, WRITE_COMBINED);
    let context = rig.context(PLAIN);
    // CP_MEM_TO_MEM adds: data[0] += data[8].
    let halves = |at: u64| [at as u32, (at >> 32) as u32];
    let body = [
        vec![0],
        halves(data.gpu).to_vec(),
        halves(data.gpu).to_vec(),
        halves(data.gpu + 8).to_vec(),
    ];
    data.set(8, 1);
    let add = packet(0x73, &body.concat());
    let bad = rig
        .submit(context, &[add, write(NOWHERE, 1)])
        .expect("taken");
    rig.run();
    assert_eq!(data.get(0), 2, "executed twice up to the fault");
    assert_eq!(rig.wait(context, bad, 1), Ok(0), "and then left out");
    assert_eq!(rig.machine.reports().len(), 1);
    let report = rig.machine.reports().concat();
    assert!(report.contains("0x7f00000000"), "{report}");
}

#[test]
fn two_faults_in_a_row_are_the_end() {
    let mut rig = Rig::new(1);
    let context = rig.context(PLAIN);
    let first = rig.submit(context, &[illegal()]).expect("taken");
    let second = rig.submit(context, &[illegal()]).expect("taken");
    rig.run();
    // The first was left out, and the second was on trial.
    assert_eq!(rig.wait(context, first, 1), Err(libc::EDEADLK));
    assert_eq!(rig.wait(context, second, 1), Err(libc::EDEADLK));
    assert_eq!(faults(&rig, context), (2, second));
}

#[test]
fn too_many_faults_are_the_end() {
    let mut rig = Rig::new(1);
    let context = rig.context(PLAIN);
    for n in 0..4 {
        let bad = rig.submit(context, &[illegal()]).expect("taken");
        rig.run();
        let result = if n < 3 { Ok(0) } else { Err(libc::EDEADLK) };
        assert_eq!(rig.wait(context, bad, 1), result, "{n}");
        if n < 3 {
            let good = rig.submit(context, &[nothing()]).expect("taken");
            rig.run();
            assert_eq!(rig.wait(context, good, 1), Err(libc::EPROTO));
        }
    }
}

#[test]
fn the_others_commands_run_again() {
    let mut rig = Rig::on("qcom-a650,seed=2,pace=manual");
    let data = rig.buffer(PAGE, WRITE_COMBINED);
    let (guilty, other) = (
        rig.context(ContextFlags::INVALIDATE_ON_FAULT.with_priority(1)),
        rig.context(PLAIN.with_priority(15)),
    );
    // The other one is in the middle of its command.
    let words = [write(data.gpu, 5), wait_for(data.gpu + 8, 1)];
    let done = rig.submit(other, &words).expect("taken");
    rig.run();
    assert_eq!(data.get(0), 5);
    data.set(0, 0);
    rig.submit(guilty, &[illegal()]).expect("taken");
    rig.run();
    assert_eq!(data.get(0), 5, "from its beginning");
    data.set(8, 1);
    rig.run();
    assert_eq!(rig.wait(other, done, 1), Ok(0));
    assert_eq!(reset_status(&rig, other), KGSL_CTX_STAT_NO_ERROR);
}

#[test]
fn a_gpu_that_hangs_is_reset() {
    let mut rig = Rig::on("qcom-a650,seed=2,hang_ms=50");
    let data = rig.buffer(PAGE, WRITE_COMBINED);
    let context = rig.context(PLAIN);
    let done = rig
        .submit(context, &[wait_for(data.gpu, 1)])
        .expect("taken");
    assert_eq!(rig.wait(context, done, 10_000), Err(libc::EDEADLK));
    assert!(rig.machine.reports().concat().contains("too long"));
    // One without fault tolerance has no limit.
    let context = rig.context(ContextFlags::NO_FAULT_TOLERANCE);
    let done = rig
        .submit(context, &[wait_for(data.gpu, 1)])
        .expect("taken");
    assert_eq!(rig.wait(context, done, 200), Err(libc::ETIMEDOUT));
    data.set(0, 1);
    assert_eq!(rig.wait(context, done, 10_000), Ok(0));
}

#[test]
fn page_faults_are_reported() {
    let mut rig = Rig::new(1);
    let flags = ContextFlags::INVALIDATE_ON_FAULT | ContextFlags::FAULT_INFO;
    let context = rig.context(flags);
    let ask = |rig: &Rig, list: u64, nents: u32| {
        let mut args = kgsl_fault_report {
            faultlist: list,
            faultnents: nents,
            faultsize: size_of::<kgsl_fault>() as u32,
            context_id: context,
            padding: 0,
        };
        rig.call(&mut args).map(|_| args.faultnents)
    };
    assert_eq!(ask(&rig, 0, 0), Err(libc::EINVAL), "it is not lost");
    rig.submit(context, &[write(NOWHERE + 0x123_4560, 1)])
        .expect("taken");
    rig.run();
    assert_eq!(ask(&rig, 0, 0), Ok(KGSL_FAULT_TYPE_MAX));
    let mut list = [kgsl_fault::default(); 2];
    assert_eq!(ask(&rig, at(&mut list), 2), Ok(2));
    assert_eq!(list[0].r#type, KGSL_FAULT_TYPE_PAGEFAULT);
    // It was run again, and failed again.
    assert_eq!((list[0].count, list[1].count), (2, 0));
    let mut reports = [kgsl_pagefault_report::default(); 3];
    list[0].fault = at(&mut reports);
    list[0].size = size_of::<kgsl_pagefault_report>() as u32;
    assert_eq!(ask(&rig, at(&mut list), 1), Ok(1));
    let kind = PageFaultType::TRANSLATION | PageFaultType::WRITE;
    for report in &reports[..2] {
        assert_eq!(report.fault_addr, NOWHERE + 0x123_4560);
        assert_eq!(report.fault_type, kind);
    }
    assert_eq!(reports[2], kgsl_pagefault_report::default());
    list[0].r#type = 2;
    assert_eq!(ask(&rig, at(&mut list), 1), Err(libc::EINVAL));
    assert_eq!(ask(&rig, 8, 1), Err(libc::EFAULT));
    let plain = rig.context(ContextFlags::INVALIDATE_ON_FAULT);
    rig.submit(plain, &[write(NOWHERE, 1)]).expect("taken");
    rig.run();
    let mut args = kgsl_fault_report {
        context_id: plain,
        ..Default::default()
    };
    assert_eq!(
        rig.call(&mut args),
        Err(libc::EINVAL),
        "nobody asked to keep them"
    );
}

#[test]
fn memory_waits_for_a_lost_context_no_longer() {
    let mut rig = Rig::new(1);
    let context = rig.context(ContextFlags::INVALIDATE_ON_FAULT);
    let id = rig.alloc(PAGE, WRITE_COMBINED).expect("memory").id;
    let done = rig.submit(context, &[illegal()]).expect("taken");
    let mut event = kgsl_gpu_event_timestamp {
        context_id: context,
        timestamp: done,
    };
    let mut args = kgsl_gpuobj_free {
        flags: 1,
        r#priv: at(&mut event),
        id,
        r#type: KGSL_GPU_EVENT_TIMESTAMP,
        len: 8,
        ..Default::default()
    };
    assert_eq!(rig.call(&mut args), Ok(0));
    rig.run();
    assert_eq!(rig.alloc(PAGE, WRITE_COMBINED).expect("memory").id, id);
}
