//! Submissions: what is executed, what is refused, time stamps.

use super::*;
use crate::qcom::iommu::VA;

fn sized(context: u32) -> kgsl_gpu_command {
    kgsl_gpu_command {
        context_id: context,
        ..Default::default()
    }
}

/// A sync point at a context's time stamp.
fn after(args: kgsl_gpu_command, rig: &Rig, context: u32, timestamp: u32) -> Result<u32, i32> {
    let mut stamp = kgsl_cmd_syncpoint_timestamp {
        context_id: context,
        timestamp,
    };
    let mut point = kgsl_command_syncpoint {
        r#priv: at(&mut stamp),
        size: size_of::<kgsl_cmd_syncpoint_timestamp>() as u64,
        r#type: KGSL_CMD_SYNCPOINT_TYPE_TIMESTAMP,
        hole0: 0,
    };
    let args = kgsl_gpu_command {
        synclist: at(&mut point),
        syncsize: size_of::<kgsl_command_syncpoint>() as u32,
        numsyncs: 1,
        ..args
    };
    rig.send(args, &mut [])
}

#[test]
fn commands_are_executed_and_their_time_comes() {
    for name in ["a630", "a650", "a660"] {
        let mut rig = Rig::on(&format!("qcom-{name},seed=3"));
        let data = rig.buffer(PAGE, WRITE_COMBINED);
        let context = rig.context(PLAIN);
        let first = rig.submit(context, &[write(data.gpu, 5)]).expect("taken");
        let second = rig
            .submit(context, &[write(data.gpu + 8, 6)])
            .expect("taken");
        assert_eq!((first, second), (1, 2));
        assert_eq!(rig.wait(context, second, 10_000), Ok(0));
        assert_eq!((data.get(0), data.get(8)), (5, 6));
        assert_eq!(rig.timestamps(context), [2, 2, 2]);
        assert!(rig.machine.reports().is_empty());
    }
}

#[test]
fn lists_are_looked_at() {
    let mut rig = Rig::new(1);
    let context = rig.context(PLAIN);
    let ib = rig.commands(&[nothing()]);
    let base = kgsl_gpu_command {
        cmdsize: 32,
        numcmds: 1,
        ..sized(context)
    };
    let edge = VA.end;
    let with = |change: &dyn Fn(&mut kgsl_gpu_command, &mut kgsl_command_object)| {
        let mut list = [ib; 2];
        let mut args = kgsl_gpu_command {
            cmdlist: at(&mut list),
            ..base
        };
        change(&mut args, &mut list[0]);
        rig.call(&mut args)
    };
    assert_eq!(with(&|_, _| {}), Ok(0));
    assert_eq!(with(&|args, _| args.numcmds = 2), Ok(0));
    for (what, errno, change) in [
        (
            "no context",
            libc::EINVAL,
            (|a, _| a.context_id = 0) as fn(&mut kgsl_gpu_command, &mut kgsl_command_object),
        ),
        ("another's context", libc::EINVAL, |a, _| a.context_id = 9),
        ("too many commands", libc::EINVAL, |a, _| a.numcmds = 2001),
        ("too many objects", libc::EINVAL, |a, _| a.numobjs = 2001),
        ("too many sync points", libc::EINVAL, |a, _| a.numsyncs = 33),
        ("no list", libc::EINVAL, |a, _| a.cmdlist = 0),
        ("no size", libc::EINVAL, |a, _| a.cmdsize = 0),
        ("no address", libc::EFAULT, |a, _| a.cmdlist = 8),
        ("an object's list without objects", libc::EINVAL, |a, _| {
            a.objlist = 8
        }),
        ("an object's size without objects", libc::EINVAL, |a, _| {
            a.objsize = 32
        }),
        ("flags", libc::EINVAL, |_, o| {
            o.flags = CmdFlags::OBJLIST_MEMOBJ
        }),
        ("no flags", libc::EINVAL, |_, o| o.flags = CmdFlags::empty()),
        ("no bytes", libc::EINVAL, |_, o| o.size = 0),
        ("too many bytes", libc::EINVAL, |_, o| o.size = 0x40_0000),
        ("an odd address", libc::EINVAL, |_, o| o.gpuaddr += 2),
        ("address 0", libc::EINVAL, |_, o| o.gpuaddr = 0),
        ("an address of nobody", libc::EINVAL, |_, o| {
            o.gpuaddr = 1 << 50
        }),
    ] {
        assert_eq!(with(&change), Err(errno), "{what}");
    }
    assert_eq!(
        with(&|_, object| object.gpuaddr = edge - 4),
        Err(libc::EINVAL)
    );
    // A size that is too short cuts the fields off; one that is too long reads into the next entry, which must be zero.
    assert_eq!(with(&|args, _| args.cmdsize = 16), Err(libc::EINVAL));
    assert_eq!(with(&|args, _| args.cmdsize = 48), Err(libc::EFAULT));
    rig.run();
    assert!(
        rig.machine.reports().is_empty(),
        "{:?}",
        rig.machine.reports()
    );
    assert_eq!(
        rig.timestamps(context)[2],
        2,
        "what was refused has no time stamp"
    );
}

#[test]
fn memory_objects_are_looked_at() {
    let mut rig = Rig::new(1);
    let context = rig.context(PLAIN);
    let ib = rig.commands(&[nothing()]);
    let send = |flags: CmdFlags, count: u32| {
        let mut list = [ib];
        let mut objects = [kgsl_command_object { flags, ..ib }];
        rig.call(&mut kgsl_gpu_command {
            cmdlist: at(&mut list),
            cmdsize: 32,
            numcmds: 1,
            objlist: at(&mut objects),
            objsize: 32,
            numobjs: count,
            ..sized(context)
        })
    };
    assert_eq!(send(CmdFlags::OBJLIST_MEMOBJ, 1), Ok(0));
    assert_eq!(send(CmdFlags::OBJLIST_MEMOBJ, 0), Err(libc::EINVAL));
    assert_eq!(send(CmdFlags::OBJLIST_PROFILE, 1), Err(libc::EINVAL));
}

#[test]
fn command_buffers_need_not_be_memory_until_they_are_read() {
    let rig = Rig::new(1);
    let context = rig.context(ContextFlags::INVALIDATE_ON_FAULT);
    let nowhere = kgsl_command_object {
        gpuaddr: VA.start + (1 << 30),
        size: 4,
        flags: CmdFlags::CMDLIST_IB,
        ..Default::default()
    };
    let done = rig
        .send(sized(context), &mut [nowhere])
        .expect("the kernel takes it");
    rig.run();
    assert_eq!(rig.wait(context, done, 1), Err(libc::EDEADLK));
}

#[test]
fn own_time_stamps_rise_and_roll_over() {
    let mut rig = Rig::new(1);
    let data = rig.buffer(PAGE, WRITE_COMBINED);
    let context = rig.context(ContextFlags::USER_GENERATED_TS);
    let mut send = |timestamp: u32| {
        let ib = rig.commands(&[write(data.gpu, timestamp.into())]);
        let args = kgsl_gpu_command {
            timestamp,
            ..sized(context)
        };
        let sent = rig.send(args, &mut [ib]);
        rig.run();
        sent.inspect(|_| {
            assert_eq!(data.get(0), u64::from(timestamp));
            assert_eq!(rig.timestamps(context), [timestamp; 3]);
            assert_eq!(rig.wait(context, timestamp, 1), Ok(0));
        })
    };
    assert_eq!(send(0), Err(libc::ERANGE));
    for timestamp in [1, 10, 0x7FFF_FFFF, 0xFFFF_FFF0, u32::MAX] {
        assert_eq!(send(timestamp), Ok(timestamp));
        assert_eq!(send(timestamp), Err(libc::ERANGE), "{timestamp:#x} again");
    }
    assert_eq!(send(0xFFFF_FFF0), Err(libc::ERANGE));
    assert_eq!(send(0x8000_0000), Err(libc::ERANGE), "half a round back");
    assert_eq!(send(0), Ok(0), "rolled over");
    assert_eq!(send(u32::MAX), Err(libc::ERANGE));
    assert_eq!(send(5), Ok(5));
}

#[test]
fn markers_keep_their_place() {
    let mut rig = Rig::new(1);
    let data = rig.buffer(PAGE, WRITE_COMBINED);
    let context = rig.context(PLAIN);
    let marker = kgsl_gpu_command {
        flags: CmdbatchFlags::MARKER,
        ..sized(context)
    };
    // Nothing is before it: at once.
    assert_eq!(rig.send(marker, &mut []), Ok(1));
    assert_eq!(rig.timestamps(context), [1, 1, 1]);
    // A submission of nothing is a marker.
    assert_eq!(rig.send(sized(context), &mut []), Ok(2));
    assert_eq!(rig.timestamps(context), [2, 2, 2]);
    let done = rig
        .submit(context, &[wait_for(data.gpu, 1)])
        .expect("taken");
    assert_eq!(rig.send(marker, &mut []), Ok(done + 1));
    rig.run();
    assert_eq!(rig.timestamps(context), [4, 3, 2]);
    data.set(0, 1);
    rig.run();
    assert_eq!(rig.timestamps(context), [4, 4, 4]);
    // One that does not say that it is a marker waits for a real command behind it.
    data.set(0, 0);
    rig.submit(context, &[wait_for(data.gpu, 1)])
        .expect("taken");
    assert_eq!(rig.send(sized(context), &mut []), Ok(6));
    data.set(0, 1);
    rig.run();
    assert_eq!(rig.timestamps(context), [6, 5, 5]);
    rig.submit(context, &[nothing()]).expect("taken");
    rig.run();
    assert_eq!(rig.timestamps(context), [7, 7, 7]);
}

#[test]
fn sync_points_hold_a_context_up() {
    let mut rig = Rig::new(1);
    let data = rig.buffer(PAGE, WRITE_COMBINED);
    let (first, second) = (rig.context(PLAIN), rig.context(PLAIN));
    let done = rig.submit(first, &[wait_for(data.gpu, 1)]).expect("taken");
    assert_eq!(
        after(sized(second), &rig, first, done),
        Ok(0),
        "no time stamp of its own"
    );
    let behind = rig
        .submit(second, &[write(data.gpu + 8, 7)])
        .expect("taken");
    rig.run();
    assert_eq!((data.get(8), rig.timestamps(second)[1]), (0, 0));
    data.set(0, 1);
    rig.run();
    assert_eq!(data.get(8), 7);
    assert_eq!(rig.wait(second, behind, 1), Ok(0));
    for (context, timestamp, errno) in [
        (second, behind + 1, libc::EINVAL),
        (first, done + 1, libc::EINVAL),
        (99, 0, libc::EINVAL),
    ] {
        let sent = after(sized(second), &rig, context, timestamp);
        assert_eq!(sent, Err(errno), "{context} {timestamp}");
    }
}

#[test]
fn sync_points_are_looked_at() {
    let rig = Rig::new(1);
    let context = rig.context(PLAIN);
    let send = |kind: u32, size: u64, null: bool| {
        let mut words = [0u32; 4];
        let mut point = kgsl_command_syncpoint {
            r#priv: if null { 0 } else { at(&mut words) },
            size,
            r#type: kind,
            hole0: 0,
        };
        rig.call(&mut kgsl_gpu_command {
            synclist: at(&mut point),
            syncsize: 24,
            numsyncs: 1,
            ..sized(context)
        })
    };
    for (kind, size, null, errno) in [
        (0, 8, false, libc::EINVAL),
        (0, 8, true, libc::EFAULT),
        (1, 4, false, libc::EINVAL),
        (1, 4, true, libc::EFAULT),
        (2, 16, false, libc::ENODEV),
        (3, 8, false, libc::EINVAL),
    ] {
        assert_eq!(send(kind, size, null), Err(errno), "{kind} {size} {null}");
    }
    let alone = kgsl_gpu_command {
        flags: CmdbatchFlags::SYNC,
        ..sized(context)
    };
    assert_eq!(
        rig.send(alone, &mut []),
        Err(libc::EINVAL),
        "without points"
    );
}

#[test]
fn a_context_that_goes_holds_nobody_up() {
    let mut rig = Rig::new(1);
    let data = rig.buffer(PAGE, WRITE_COMBINED);
    let own = rig.context(ContextFlags::USER_GENERATED_TS);
    let context = rig.context(PLAIN);
    assert_eq!(after(sized(context), &rig, own, 500), Ok(0));
    rig.submit(context, &[write(data.gpu, 1)]).expect("taken");
    rig.run();
    assert_eq!(data.get(0), 0);
    assert_eq!(rig.destroy(own), Ok(0));
    rig.run();
    assert_eq!(data.get(0), 1);
}

#[test]
fn a_full_queue_waits_for_room() {
    let mut rig = Rig::new(1);
    let data = rig.buffer(PAGE, WRITE_COMBINED);
    let context = rig.context(ContextFlags::NO_FAULT_TOLERANCE);
    let ib = rig.commands(&[wait_for(data.gpu, 1)]);
    // Those in the ring, and those in the context's queue. The first burst goes to the ring at once.
    for n in 1..=15 + 49 {
        assert_eq!(rig.send(sized(context), &mut [ib]), Ok(n));
        rig.machine.step();
    }
    let (machine, file) = (Arc::clone(&rig.machine), rig.file);
    let waiter = std::thread::spawn(move || {
        let mut list = [ib];
        let mut args = kgsl_gpu_command {
            cmdlist: at(&mut list),
            cmdsize: 32,
            numcmds: 1,
            ..sized(context)
        };
        // SAFETY: the struct of this request.
        let done = unsafe {
            machine.ioctl(
                file,
                kgsl_gpu_command::REQUEST.into(),
                (&raw mut args).cast(),
            )
        };
        done.map(|_| args.timestamp)
    });
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!waiter.is_finished());
    assert_eq!(rig.timestamps(context)[0], 64);
    data.set(0, 1);
    while !waiter.is_finished() {
        rig.machine.step();
    }
    assert_eq!(waiter.join().expect("no panic"), Ok(65));
    rig.run();
    assert_eq!(rig.timestamps(context), [65, 65, 65]);
}

#[test]
fn a_preamble_runs_when_contexts_switch() {
    let mut rig = Rig::new(1);
    let data = rig.buffer(PAGE, WRITE_COMBINED);
    let (first, second) = (rig.context(PLAIN), rig.context(PLAIN));
    let mut preamble = rig.commands(&[write(data.gpu, 1)]);
    preamble.flags = CmdFlags::CMDLIST_CTXTSWITCH_PREAMBLE;
    let body = rig.commands(&[nothing()]);
    let ran = |rig: &Rig, context: u32, flags: CmdbatchFlags| {
        data.set(0, 0);
        let args = kgsl_gpu_command {
            flags,
            ..sized(context)
        };
        rig.send(args, &mut [preamble, body]).expect("taken");
        rig.run();
        data.get(0) == 1
    };
    let none = CmdbatchFlags::empty();
    assert!(ran(&rig, first, none));
    assert!(!ran(&rig, first, none));
    assert!(ran(&rig, second, none));
    assert!(ran(&rig, first, none));
    assert!(ran(&rig, first, CmdbatchFlags::CTX_SWITCH));
    let forced = rig.context(ContextFlags::CTX_SWITCH);
    assert!(ran(&rig, forced, none) && ran(&rig, forced, none));
    let nops = rig.context(ContextFlags::IFH_NOP);
    assert!(!ran(&rig, nops, none), "nothing is executed");
    assert_eq!(rig.timestamps(nops), [1, 1, 1]);
}

#[test]
fn times_are_written() {
    let mut rig = Rig::new(1);
    let times = rig.buffer(PAGE, WRITE_COMBINED);
    let context = rig.context(PLAIN);
    let ib = rig.commands(&[nothing()]);
    let send = |flags: CmdbatchFlags, offset: u64| {
        let mut list = [ib];
        let mut objects = [kgsl_command_object {
            offset,
            gpuaddr: times.gpu,
            size: 40,
            flags: CmdFlags::OBJLIST_MEMOBJ | CmdFlags::OBJLIST_PROFILE,
            id: times.id,
        }];
        let sent = rig.call(&mut kgsl_gpu_command {
            flags,
            cmdlist: at(&mut list),
            cmdsize: 32,
            numcmds: 1,
            objlist: at(&mut objects),
            objsize: 32,
            numobjs: 1,
            ..sized(context)
        });
        assert_eq!(sent, Ok(0));
        rig.run();
    };
    send(CmdbatchFlags::empty(), 64);
    assert_eq!(times.get(64), 0, "nobody asked");
    send(
        CmdbatchFlags::PROFILING | CmdbatchFlags::PROFILING_KTIME,
        64,
    );
    let now = rig.machine.now_ns() / 1_000_000_000;
    assert!(now - times.get(64) < 60);
    let [queued, submitted, retired] = [16, 24, 32].map(|at| times.get(64 + at));
    assert!(0 < queued && queued <= submitted && submitted <= retired);
    send(CmdbatchFlags::PROFILING, PAGE - 32);
    assert_eq!(times.get(PAGE - 8), 0, "no room: ignored");
}
