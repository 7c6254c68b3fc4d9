//! What holds for the devices of every vendor.

use std::time::Duration;

use hcq_std::{Arg, Device, Error, Grid, QueueKind};

use crate::{Gpu, Result, open, options};

pub(crate) fn a_program_runs_with_its_arguments(gpu: &Gpu) -> Result {
    gpu.each(|device| {
        const N: usize = 1000;
        let saxpy_kernel = gpu.kernel(device, "saxpy");
        let x = device.alloc_from(&(0..N).map(|i| i as f32).collect::<Vec<_>>())?;
        let y = device.alloc_from(&vec![1.0f32; N + 24])?;
        let mut commands = device.compute_queue(0)?.record();
        let args = gpu.saxpy(&y, &x, 2.0, N as u32);
        // SAFETY: the program touches the first N elements of both.
        unsafe { commands.exec(&saxpy_kernel, &args, Grid::new(16, 64)) }?;
        commands.submit()?.wait()?;
        for (i, v) in y.to_vec()?.into_iter().enumerate() {
            let wanted = if i < N { 1.0 + 2.0 * i as f32 } else { 1.0 };
            assert_eq!(v, wanted, "{i}");
        }
        Ok(())
    })
}

pub(crate) fn arguments_are_checked(gpu: &Gpu) -> Result {
    gpu.each(|device| {
        let saxpy_kernel = gpu.kernel(device, "saxpy");
        let known = saxpy_kernel.arguments().expect("the program says them");
        let x = device.alloc::<f32>(64)?;
        let mut args = gpu.saxpy(&x, &x, 1.0, 64);
        assert_eq!(known.len(), args.len());
        let queue = device.compute_queue(0)?;
        let mut commands = queue.record();
        // SAFETY: refused.
        let e = unsafe { commands.exec(&saxpy_kernel, &args[..1], Grid::new(1, 64)) };
        let Err(Error::ArgumentCount {
            expected, given: 1, ..
        }) = e
        else {
            panic!("{e:?}");
        };
        assert_eq!(expected, args.len());
        // Too many work-items for a group.
        // SAFETY: refused.
        let e = unsafe { commands.exec(&saxpy_kernel, &args, Grid::new(1, 4096)) };
        assert!(matches!(e, Err(Error::Record { .. })), "{e:?}");
        args[3] = 64u64.into();
        // SAFETY: refused.
        let e = unsafe { commands.exec(&saxpy_kernel, &args, Grid::new(1, 64)) };
        let Err(e @ Error::Argument { index: 3, .. }) = e else {
            panic!("{e:?}");
        };
        let said = match known[3].size_only {
            true => "of 4 bytes",
            false => &known[3].name,
        };
        assert!(e.to_string().contains(said), "{e}");
        assert!(commands.is_empty());
        Ok(())
    })
}

pub(crate) fn programs_of_another_chip_are_refused(gpu: &Gpu) -> Result {
    let (target, said) = gpu.elsewhere;
    gpu.each(|device| {
        match device.load_program(&gpu.object("saxpy", target)) {
            Ok(_) => assert_eq!(device.target(), target),
            Err(e) => {
                let text = e.to_string();
                assert!(
                    text.contains(said) && text.contains(device.target()),
                    "{text}"
                );
            }
        }
        let e = device.load_program(b"\x7fELF, and no more");
        assert!(matches!(e, Err(Error::Program { .. })), "{e:?}");
        Ok(())
    })
}

pub(crate) fn copies_go_in_and_out(gpu: &Gpu) -> Result {
    gpu.each(|device| {
        const N: usize = 5000;
        let data: Vec<u8> = (0..N).map(|i| (i * 7) as u8).collect();
        let (a, b) = (device.alloc::<u8>(N)?, device.alloc::<u8>(N)?);
        let mut commands = device.copy_queue(0)?.record();
        commands.upload(&a, &data)?;
        commands.copy(&b.view(1..N)?, &a.view(0..N - 1)?)?;
        let out = commands.download(&b)?;
        commands.submit()?;
        let seen = out.wait()?;
        assert_eq!(seen[0], 0);
        assert_eq!(seen[1..], data[..N - 1]);
        Ok(())
    })
}

pub(crate) fn queues_wait_for_each_other_by_signals_and_points(gpu: &Gpu) -> Result {
    gpu.each(|device| {
        let (compute, other, copy) = (
            device.compute_queue(0)?,
            device.compute_queue(1)?,
            device.copy_queue(0)?,
        );
        let (go, done) = (device.signal()?, device.signal()?);
        let cell = device.alloc::<u64>(2)?;
        let mut commands = compute.record();
        commands.wait(&go, 1u64)?.write64(cell.address(), 11u64)?;
        let first = commands.signal(&done, 5u64)?.submit()?;
        let mut commands = copy.record();
        commands.wait(&done, 5u64)?;
        commands.copy(&cell.view(1..2)?, &cell.view(0..1)?)?;
        let second = commands.submit()?;
        let mut commands = other.record();
        let third = commands
            .after(&second)?
            .write32(cell.address(), 12u32)?
            .submit()?;
        assert!(!first.is_done()?);
        go.set(1)?;
        third.wait()?;
        assert!(first.is_done()? && second.is_done()?);
        assert_eq!(cell.to_vec()?, [12, 11]);
        Ok(())
    })
}

pub(crate) fn a_bound_queue_runs_again_with_other_values(gpu: &Gpu) -> Result {
    gpu.each(|device| {
        const N: usize = 512;
        let saxpy_kernel = gpu.kernel(device, "saxpy");
        let x = device.alloc_from(&vec![1.0f32; N])?;
        let y = device.alloc::<f32>(N)?;
        let done = device.signal()?;
        let mut commands = device.compute_queue(1)?.record();
        let [groups, local, n, value] = [
            commands.var()?,
            commands.var()?,
            commands.var()?,
            commands.var()?,
        ];
        let mut args = gpu.saxpy(&y, &x, 1.0, 0);
        args[3] = Arg::var(n, 4);
        let grid = Grid::new((groups, 1u32, 1u32), (local, 1u32, 1u32));
        // SAFETY: the program touches at most N elements of both.
        unsafe { commands.exec(&saxpy_kernel, &args, grid) }?;
        commands.signal(&done, value)?;
        let mut bound = commands.bind()?;
        assert!(bound.submit().is_err(), "no variable has a value yet");
        let mut wanted = vec![0.0f32; N];
        for (round, (g, l, items)) in [(4, 64, 200), (2, 128, 256), (8, 64, 512), (8, 64, 512)]
            .into_iter()
            .enumerate()
        {
            bound.set_all(groups, &[g, l, items, round as u64 + 1])?;
            bound.submit()?.wait()?;
            wanted[..items as usize].iter_mut().for_each(|w| *w += 1.0);
            assert_eq!(done.value(), round as u64 + 1);
            assert_eq!(y.to_vec()?, wanted, "round {round}");
        }
        bound.set(groups, 0)?;
        let e = bound.submit().expect_err("no launch has no groups");
        assert!(matches!(e, Error::Patch(_)), "{e}");
        Ok(())
    })
}

pub(crate) fn rings_and_epochs_roll_over(gpu: &Gpu) -> Result {
    for name in gpu.names {
        let options = options().ring_packets(64).timeline_span_log2(6);
        let device = Device::open_with(name, &options)?;
        let (compute, copy) = (device.compute_queue(0)?, device.copy_queue(0)?);
        let cells = device.alloc::<u32>(2)?;
        let mut last = None;
        for i in 1..=400u32 {
            let mut commands = compute.record();
            commands.write32(cells.address(), i)?.submit()?;
            let mut commands = copy.record();
            last = Some(commands.write32(cells.address() + 4, i)?.submit()?);
        }
        last.expect("there were some").wait()?;
        assert_eq!(cells.to_vec()?, [400, 400], "{name}");
        assert_eq!(device.timeline()?.completed, 800);
    }
    Ok(())
}

pub(crate) fn what_no_ring_holds_runs_by_reference(gpu: &Gpu) -> Result {
    for name in gpu.names {
        let options = options().ring_packets(64);
        let device = Device::open_with(name, &options)?;
        let cells = device.alloc::<u32>(4)?;
        for kind in [QueueKind::Compute, QueueKind::Copy] {
            let queue = match kind {
                QueueKind::Compute => device.compute_queue(0)?,
                QueueKind::Copy => device.copy_queue(0)?,
            };
            cells.fill(0)?;
            let mut commands = queue.record();
            for i in 1..=3000u32 {
                commands.write32(cells.address() + u64::from(i % 4) * 4, i)?;
            }
            commands.submit()?.wait()?;
            assert_eq!(cells.to_vec()?, [3000, 2997, 2998, 2999], "{name}, {kind}");
        }
    }
    Ok(())
}

pub(crate) fn threads_submit_to_the_same_device(gpu: &Gpu) -> Result {
    gpu.each(|device| {
        const ROUNDS: u64 = 60;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|n| {
                    scope.spawn(move || -> std::result::Result<(), Error> {
                        let queue = match n {
                            0 | 1 => device.compute_queue(n)?,
                            _ => device.copy_queue(0)?,
                        };
                        let signal = device.signal()?;
                        for i in 1..=ROUNDS {
                            let mut commands = queue.record();
                            let point = commands.signal(&signal, i)?.submit()?;
                            if i % 8 == 0 {
                                point.wait()?;
                                assert_eq!(signal.value(), i);
                            }
                        }
                        signal.wait(ROUNDS).map(|_| ())
                    })
                })
                .collect();
            for thread in threads {
                thread.join().expect("no panic")?;
            }
            Ok(())
        })
    })
}

pub(crate) fn times_are_the_hosts(gpu: &Gpu) -> Result {
    gpu.each(|device| {
        for queue in [device.compute_queue(0)?, device.copy_queue(0)?] {
            let cell = device.alloc::<u32>(1)?;
            let before = device.now_ns();
            let mut commands = queue.record();
            let region = commands.begin("all")?;
            commands.write32(cell.address(), 1u32)?;
            commands.end(&region)?.submit()?.wait()?;
            let after = device.now_ns();
            let times = region.times().ok_or("it has run")?;
            // The clocks are tied to each other to within a microsecond or two.
            let slack = 50_000;
            assert!(times.start_ns <= times.end_ns, "{times:?}");
            assert!(before <= times.start_ns + slack, "{before} {times:?}");
            assert!(times.end_ns <= after + slack, "{times:?} {after}");
        }
        Ok(())
    })
}

pub(crate) fn a_fault_is_data_and_ends_waits(gpu: &Gpu) -> Result {
    for name in gpu.names {
        let device = open(name);
        let mut commands = device.compute_queue(0)?.record();
        let point = commands.write32(0x1000u64, 1u32)?.submit()?;
        let e = point.wait().expect_err("nothing is there");
        let Error::Fault(fault) = e else {
            panic!("{name}: {e}");
        };
        assert_eq!(fault.address & !0xfff, 0x1000, "{name}: {fault}");
        assert_eq!(device.fault(), Some(fault));
        let mut commands = device.compute_queue(1)?.record();
        let refused = commands.memory_barrier()?.submit();
        assert!(matches!(refused, Err(Error::Fault(_))), "{name}");
        // Whether a new queue runs is the kernel's to say; the answer comes, and is the same again.
        match device.recover() {
            Ok(()) => {
                commands.submit()?.wait()?;
                assert!(matches!(point.wait(), Err(Error::Lost { .. })), "{name}");
            }
            Err(e) => {
                assert!(!gpu.recovers, "{name}: {e}");
                assert!(
                    matches!(e, Error::Recovery { .. } | Error::Driver { .. }),
                    "{name}: {e}"
                );
                assert!(matches!(point.wait(), Err(Error::Fault(_))), "{name}");
                assert!(device.fault().is_some());
            }
        }
    }
    Ok(())
}

pub(crate) fn freed_memory_is_no_longer_the_devices(gpu: &Gpu) -> Result {
    let device = open(gpu.names[0]);
    let address = {
        let buffer = device.alloc::<u32>(1024)?;
        let mut commands = device.compute_queue(0)?.record();
        commands.write32(buffer.address(), 1u32)?.submit()?.wait()?;
        buffer.address()
    };
    device.synchronize()?;
    let mut commands = device.compute_queue(0)?.record();
    let e = commands.write32(address, 1u32)?.submit()?.wait();
    assert!(matches!(e, Err(Error::Fault(_))), "{e:?}");
    Ok(())
}

pub(crate) fn memory_of_the_caller_is_the_devices_for_a_while(gpu: &Gpu) -> Result {
    let device = open(gpu.names[0]);
    let mut memory = vec![0u32; 4096];
    let start = std::ptr::NonNull::from(&mut *memory).cast::<u32>();
    {
        // SAFETY: the vector lives on, and is accessed through the buffer only.
        let buffer = unsafe { device.wrap(start, 4096) }?;
        let mut commands = device.copy_queue(0)?.record();
        let source = device.alloc_from(&vec![9u32; 4096])?;
        commands.copy(&buffer, &source)?.submit()?.wait()?;
        assert_eq!(buffer.to_vec()?, vec![9; 4096]);
    }
    assert_eq!(memory, vec![9; 4096]);
    Ok(())
}

pub(crate) fn several_devices_of_one_machine(gpu: &Gpu) -> Result {
    let system = hcq_std::sim::machine(gpu.machine_of_two)?;
    let options = options().system(system);
    let [first, second, third] = gpu.three_names;
    let devices = [
        Device::open_with(first, &options)?,
        Device::open_with(second, &options)?,
    ];
    for device in &devices {
        let cell = device.alloc::<u32>(1)?;
        let mut commands = device.compute_queue(0)?.record();
        commands.write32(cell.address(), 7u32)?.submit()?.wait()?;
        assert_eq!(cell.to_vec()?, [7]);
    }
    let e = Device::open_with(third, &options).expect_err("there are two");
    assert!(matches!(e, Error::Unavailable { .. }), "{e}");
    Ok(())
}

pub(crate) fn a_wait_that_nobody_ends_times_out(gpu: &Gpu) -> Result {
    let options = options().wait_timeout_ms(200);
    let device = Device::open_with(gpu.names[0], &options)?;
    let signal = device.signal()?;
    let mut commands = device.compute_queue(0)?.record();
    let point = commands.wait(&signal, 1u64)?.submit()?;
    let e = point.wait_timeout(Duration::from_millis(100));
    assert!(
        matches!(
            e,
            Err(Error::Timeout {
                wanted: 1,
                seen: 0,
                ..
            })
        ),
        "{e:?}"
    );
    signal.set(1)?;
    point.wait()?;
    Ok(())
}

/// What a copy engine wrote is seen behind a wait for it, also if another queue's kernel keeps the old bytes in caches: that
/// one has read them, and its submission, which would clean up, has not ended.
pub(crate) fn what_is_behind_a_wait_sees_what_was_waited_for(gpu: &Gpu) -> Result {
    const N: usize = 1024;
    gpu.each(|device| {
        let add = gpu.kernel(device, "vadd");
        let (zero, x) = (device.alloc::<f32>(N)?, device.alloc::<f32>(N)?);
        let (old, new) = (device.alloc::<f32>(N)?, device.alloc::<f32>(N)?);
        let fresh = device.alloc_from(&[5f32; N])?;
        let (read, copied, end) = (device.signal()?, device.signal()?, device.signal()?);
        let grid = Grid::new(N as u32 / 64, 64);
        let args = |out| [Arg::buffer(out), Arg::buffer(&x), Arg::buffer(&zero)];

        let mut holds = device.compute_queue(0)?.record();
        // SAFETY: the kernel adds as many floats as there are items, which all three buffers have.
        unsafe { holds.exec(&add, &args(&old), grid) }?;
        holds.signal(&read, 1u64)?.wait(&end, 1u64)?;

        let mut reads = device.compute_queue(1)?.record();
        reads.wait(&copied, 1u64)?;
        // SAFETY: as above.
        unsafe { reads.exec(&add, &args(&new), grid) }?;
        reads.signal(&end, 1u64)?;
        // Begun before anything else, so that it waits through all of it.
        let reads = reads.submit()?;

        let holds = holds.submit()?;
        let mut copies = device.copy_queue(0)?.record();
        copies.wait(&read, 1u64)?.copy(&x, &fresh)?;
        copies.signal(&copied, 1u64)?.submit()?;
        holds.wait()?;
        reads.wait()?;
        assert_eq!(old.to_vec()?, vec![0.0; N]);
        assert_eq!(new.to_vec()?, vec![5.0; N], "{}", device.name());
        Ok(())
    })
}
