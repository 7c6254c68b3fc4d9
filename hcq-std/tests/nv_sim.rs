//! NVIDIA GPUs on simulated machines: cubins, copies, signals, bound queues, faults, local memory, for each generation.
#![cfg(feature = "sim")]

use std::sync::Arc;
use std::time::Duration;

use hcq_sim::machine::Machine;
use hcq_sim::standin::StandIns;
use hcq_std::sim::SimSystem;
use hcq_std::{Arg, Device, Error, Grid, Kernel, Options, QueueKind};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Each generation.
const NAMES: [&str; 5] = [
    "sim:nv-ampere",
    "sim:nv-ada,seed=5",
    "sim:nv-hopper",
    "sim:nv-blackwell",
    "sim:nv-hopper,driver=535.129.03",
];

fn options() -> Options {
    Options::default().wait_timeout_ms(10_000)
}

fn open(name: &str) -> Device {
    Device::open_with(name, &options()).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn object(program: &str, target: &str) -> Vec<u8> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/objects");
    std::fs::read(format!("{root}/{program}-{target}.cubin")).expect("a vector")
}

fn kernel(device: &Device, program: &str) -> Kernel {
    let module = device.load_program(&object(program, device.target()));
    let module = module.unwrap_or_else(|e| panic!("{program} on {}: {e}", device.name()));
    assert_eq!(module.kernels(), [program]);
    module
        .kernel(program)
        .unwrap_or_else(|e| panic!("{program} on {}: {e}", device.name()))
}

/// `y[i] += alpha * x[i]` for `n` items, of which `x` and `y` have as many; the last argument picks a factor of 1 out of the
/// program's constants.
fn saxpy<'a>(
    y: &'a hcq_std::View<f32>,
    x: &'a hcq_std::View<f32>,
    alpha: f32,
    n: u32,
) -> [Arg<'a>; 6] {
    [
        Arg::buffer(y),
        Arg::buffer(x),
        alpha.into(),
        (n as i32).into(),
        0u64.into(),
        0u8.into(),
    ]
}

/// Runs a test on a device of each kind. When one fails, the machine says what its queues have seen.
fn each(test: impl Fn(&Device) -> Result) -> Result {
    for name in NAMES {
        let (machine, device) = machine_and_device(name)?;
        let failed = |e| format!("{name}: {e}; the machine says: {:#?}", machine.reports());
        test(&device).map_err(failed)?;
        device.close().map_err(|e| failed(e.into()))?;
    }
    Ok(())
}

/// The device of this name, and the machine that it is in.
fn machine_and_device(name: &str) -> Result<(Arc<Machine>, Device)> {
    let text = name.strip_prefix("sim:").ok_or("a simulated device")?;
    let machine = Machine::new(text.parse()?)?;
    machine.register(Box::new(StandIns::stock()));
    let system = Arc::new(SimSystem::new(Arc::clone(&machine)));
    let device = Device::open_with(name, &options().system(system))?;
    Ok((machine, device))
}

#[test]
fn a_device_says_what_it_is() -> Result {
    each(|device| {
        let info = device.info();
        assert!(device.target().starts_with("sm_"), "{info:?}");
        assert!(info.memory_bytes > 0 && info.compute_units > 0, "{info:?}");
        assert_eq!((info.packets, info.wave_size), ("QMD", 32));
        let (compute, copy) = device.queue_counts();
        assert_eq!((compute, copy), (2, 1));
        Ok(())
    })
}

#[test]
fn a_program_runs_with_its_arguments() -> Result {
    each(|device| {
        const N: usize = 1000;
        let saxpy_kernel = kernel(device, "saxpy");
        let x = device.alloc_from(&(0..N).map(|i| i as f32).collect::<Vec<_>>())?;
        let y = device.alloc_from(&vec![1.0f32; N + 24])?;
        let mut commands = device.compute_queue(0)?.record();
        let args = saxpy(&y, &x, 2.0, N as u32);
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

#[test]
fn arguments_are_checked_by_their_sizes() -> Result {
    each(|device| {
        let saxpy_kernel = kernel(device, "saxpy");
        let known = saxpy_kernel.arguments().expect("the cubin says them");
        let sizes: Vec<u32> = known.iter().map(|a| a.size).collect();
        assert_eq!(sizes, [8, 8, 4, 4, 8, 1]);
        assert!(known.iter().all(|a| a.size_only));
        let x = device.alloc::<f32>(64)?;
        let queue = device.compute_queue(0)?;
        let mut commands = queue.record();
        let short = [Arg::buffer(&x)];
        // SAFETY: refused.
        let e = unsafe { commands.exec(&saxpy_kernel, &short, Grid::new(1, 64)) };
        assert!(
            matches!(
                e,
                Err(Error::ArgumentCount {
                    expected: 6,
                    given: 1,
                    ..
                })
            ),
            "{e:?}"
        );
        let mut args = saxpy(&x, &x, 1.0, 64);
        args[3] = 64u64.into();
        // SAFETY: refused.
        let e = unsafe { commands.exec(&saxpy_kernel, &args, Grid::new(1, 64)) };
        let Err(e @ Error::Argument { index: 3, .. }) = e else {
            panic!("{e:?}");
        };
        assert!(e.to_string().contains("of 4 bytes"), "{e}");
        // Too many work-items for a group.
        let args = saxpy(&x, &x, 1.0, 64);
        // SAFETY: refused.
        let e = unsafe { commands.exec(&saxpy_kernel, &args, Grid::new(1, 4096)) };
        assert!(matches!(e, Err(Error::Record { .. })), "{e:?}");
        assert!(commands.is_empty());
        let e = device.load_program(&object("saxpy", "sm_90"));
        match e {
            Ok(_) => assert_eq!(device.target(), "sm_90"),
            Err(e) => {
                let text = e.to_string();
                assert!(
                    text.contains("-arch=") && text.contains(device.target()),
                    "{text}"
                );
            }
        }
        let e = device
            .load_program(b"\x7fELF, and no more")
            .expect_err("no object");
        assert!(matches!(e, Error::Program { .. }), "{e}");
        Ok(())
    })
}

#[test]
fn a_signature_says_what_a_cubin_does_not() -> Result {
    each(|device| {
        let module = device.load_program(&object("vadd", device.target()))?;
        let signature = "float *out; const float *a; const float *b;";
        let add = module.kernel_with("vadd", signature)?;
        let known = add.arguments().expect("the signature's");
        assert_eq!(known[1].to_string(), "const f32 *a");
        let x = device.alloc::<f32>(64)?;
        let mut commands = device.compute_queue(0)?.record();
        let wrong = [Arg::buffer(&x), 5u64.into(), Arg::buffer(&x)];
        // SAFETY: refused.
        let e = unsafe { commands.exec(&add, &wrong, Grid::new(1, 64)) };
        assert!(matches!(e, Err(Error::Argument { index: 1, .. })), "{e:?}");
        let e = module.kernel_with("vadd", "float *out; int n;");
        let e = e.expect_err("other sizes").to_string();
        assert!(e.contains("[8, 8, 8]") && e.contains("[8, 4]"), "{e}");
        Ok(())
    })
}

#[test]
fn copies_go_in_and_out() -> Result {
    each(|device| {
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

#[test]
fn queues_wait_for_each_other_by_signals_and_points() -> Result {
    each(|device| {
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

#[test]
fn a_bound_queue_runs_again_with_other_values() -> Result {
    each(|device| {
        const N: usize = 512;
        let saxpy_kernel = kernel(device, "saxpy");
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
        let mut args = saxpy(&y, &x, 1.0, 0);
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

#[test]
fn rings_and_epochs_roll_over() -> Result {
    for name in NAMES {
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

#[test]
fn what_no_ring_holds_runs_by_reference() -> Result {
    for name in NAMES {
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

#[test]
fn threads_submit_to_the_same_device() -> Result {
    each(|device| {
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

#[test]
fn times_are_the_hosts() -> Result {
    each(|device| {
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

#[test]
fn local_memory_is_there_when_a_program_needs_it() -> Result {
    each(|device| {
        const GROUPS: usize = 3;
        let reduce = kernel(device, "reduce");
        let input: Vec<f32> = (0..GROUPS * 256 * 128).map(|i| (i % 8) as f32).collect();
        let data = device.alloc_from(&input)?;
        let out = device.alloc::<f32>(GROUPS)?;
        for index in [0, 1] {
            let mut commands = device.compute_queue(index)?.record();
            let args = [
                Arg::buffer(&out),
                Arg::buffer(&data),
                5i32.into(),
                128u32.into(),
            ];
            // SAFETY: the program reads 128 elements per item, and writes one per group.
            unsafe { commands.exec(&reduce, &args, Grid::new(GROUPS as u32, 256)) }?;
            commands.submit()?.wait()?;
            // Each item picks element 5 of its own.
            assert_eq!(out.to_vec()?, [5.0 * 256.0; GROUPS]);
            out.fill(0.0)?;
        }
        Ok(())
    })
}

/// A kernel with a small stack comes first, one with a large one later, while the first may still run.
#[test]
fn local_memory_grows_behind_what_uses_it() -> Result {
    each(|device| {
        const N: usize = 256;
        let (add, reduce) = (kernel(device, "vadd"), kernel(device, "reduce"));
        let x = device.alloc_from(&[1.0f32; N * 128])?;
        let (y, out) = (device.alloc::<f32>(N)?, device.alloc::<f32>(1)?);
        let queue = device.compute_queue(0)?;
        let mut commands = queue.record();
        for _ in 0..20 {
            let args = [Arg::buffer(&y), Arg::buffer(&y), Arg::buffer(&x)];
            // SAFETY: the kernel adds as many floats as there are items.
            unsafe { commands.exec(&add, &args, Grid::new(4, 64)) }?;
        }
        commands.submit()?;
        let args = [
            Arg::buffer(&out),
            Arg::buffer(&x),
            1i32.into(),
            128u32.into(),
        ];
        // SAFETY: the program reads 128 elements per item, and writes one.
        unsafe { commands.exec(&reduce, &args, Grid::new(1, 256)) }?;
        commands.submit()?.wait()?;
        assert_eq!((y.to_vec()?, out.to_vec()?), (vec![20.0; N], vec![256.0]));
        Ok(())
    })
}

#[test]
fn a_fault_is_data_and_ends_waits() -> Result {
    for name in NAMES {
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
        device.recover()?;
        commands.submit()?.wait()?;
        assert!(matches!(point.wait(), Err(Error::Lost { .. })), "{name}");
    }
    Ok(())
}

#[test]
fn freed_memory_is_no_longer_the_devices() -> Result {
    let device = open("sim:nv-hopper");
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

#[test]
fn memory_of_the_caller_is_the_devices_for_a_while() -> Result {
    let device = open("sim:nv-hopper");
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

#[test]
fn several_devices_of_one_machine() -> Result {
    let system = hcq_std::sim::machine("nv-ada,gpus=2")?;
    let options = options().system(system);
    let devices = [
        Device::open_with("nv:0", &options)?,
        Device::open_with("nv:1", &options)?,
    ];
    for device in &devices {
        let cell = device.alloc::<u32>(1)?;
        let mut commands = device.compute_queue(0)?.record();
        commands.write32(cell.address(), 7u32)?.submit()?.wait()?;
        assert_eq!(cell.to_vec()?, [7]);
    }
    let e = Device::open_with("nv:2", &options).expect_err("there are two");
    assert!(matches!(e, Error::Unavailable { .. }), "{e}");
    Ok(())
}

#[test]
fn a_wait_that_nobody_ends_times_out() -> Result {
    let options = Options::default().wait_timeout_ms(200);
    let device = Device::open_with("sim:nv-ampere", &options)?;
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

/// What a copy engine wrote is seen by a launch behind a wait for it, also if another queue's kernel keeps the old bytes in
/// caches.
#[test]
fn what_is_behind_a_wait_sees_what_was_waited_for() -> Result {
    const N: usize = 1024;
    each(|device| {
        let add = kernel(device, "vadd");
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
