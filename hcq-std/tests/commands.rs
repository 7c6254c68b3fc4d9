//! What commands do, on the CPU device.

mod common;

use std::time::Duration;

use common::{add_kernel, device, exec_add, local_kernel, open, options, saxpy_kernel};
use hcq_std::{Arg, Error, Grid, QueueKind};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

#[test]
fn a_kernel_runs_once_per_group() -> Result {
    let device = device();
    let kernel = add_kernel(&device);
    let data = device.alloc_from(&[100u32; 60])?;
    let mut commands = device.compute_queue(1)?.record();
    let args = [Arg::buffer(&data), 7u32.into()];
    // SAFETY: 60 groups, 60 elements.
    unsafe { commands.exec(&kernel, &args, Grid::new([3, 4, 5], [1, 1, 1])) }?;
    commands.submit()?.wait()?;
    assert_eq!(data.to_vec()?, [107; 60]);
    Ok(())
}

#[test]
fn large_launches_are_shared_and_complete() -> Result {
    let device = open(&options().helper_threads(3));
    let kernel = saxpy_kernel(&device);
    let n = 1_000_003u32;
    let x = device.alloc_from(&(0..n).map(|i| i as f32).collect::<Vec<_>>())?;
    let y = device.alloc_from(&vec![1.0f32; n as usize])?;
    let mut commands = device.compute_queue(0)?.record();
    for _ in 0..3 {
        let args = [2.0f32.into(), Arg::buffer(&x), Arg::buffer(&y), n.into()];
        // SAFETY: `n` is the length of both.
        unsafe { commands.exec(&kernel, &args, Grid::new(n.div_ceil(256), 256)) }?;
    }
    commands.submit()?.wait()?;
    assert!(
        y.to_vec()?
            .iter()
            .enumerate()
            .all(|(i, &v)| v == 1.0 + 6.0 * i as f32
                || (v - 6.0 * i as f32).abs() <= i as f32 * 1e-5)
    );
    Ok(())
}

#[test]
fn local_memory_is_the_groups_own() -> Result {
    let device = open(&options().local_memory_bytes(8192));
    let kernel = local_kernel(&device);
    let out = device.alloc::<u64>(2)?;
    let mut commands = device.compute_queue(0)?.record();
    // SAFETY: two elements.
    unsafe {
        commands.exec(
            &kernel,
            &[(&out).into()],
            Grid::new(1, 64).local_memory(8192),
        )
    }?;
    commands.submit()?.wait()?;
    let seen = out.to_vec()?;
    assert!(seen[0] != 0 && seen[0] % 64 == 0);
    assert_eq!(seen[1], 8192);
    Ok(())
}

#[test]
fn signals_order_queues_and_hosts() -> Result {
    let device = device();
    let (go, half, done) = (device.signal()?, device.signal()?, device.signal()?);
    let data = device.alloc::<u64>(1)?;
    let (first, second) = (device.compute_queue(0)?, device.copy_queue(0)?);
    let later = second
        .record()
        .wait(&half, 5u64)?
        .write64(data.address(), 2u64)?
        .signal(&done, 1u64)?
        .submit()?;
    let mut commands = first.record();
    commands
        .wait(&go, 1u64)?
        .write64(data.address(), 1u64)?
        .signal(&half, 5u64)?
        .submit()?;
    assert!(!later.is_done()?);
    assert_eq!((half.value(), done.value()), (0, 0));
    go.set(1)?;
    assert_eq!(done.wait(1)?, 1);
    later.wait()?;
    assert_eq!(data.to_vec()?, [2]);
    Ok(())
}

#[test]
fn a_wait_that_nobody_ends_times_out_with_its_numbers() -> Result {
    let device = device();
    let signal = device.signal()?;
    signal.set(3)?;
    let e = signal
        .wait_for(7, Duration::from_millis(30))
        .expect_err("nobody sets it");
    let Error::Timeout {
        wanted: 7, seen: 3, ..
    } = e
    else {
        panic!("{e}")
    };
    let text = e.to_string();
    assert!(
        text.contains("wanted 7")
            && text.contains("seen 3")
            && text.contains("HCQDEV_WAIT_TIMEOUT_MS"),
        "{text}"
    );

    let mut commands = device.compute_queue(0)?.record();
    let point = commands.wait(&signal, 9u64)?.submit()?;
    let e = point
        .wait_timeout(Duration::from_millis(30))
        .expect_err("held");
    assert!(
        matches!(
            e,
            Error::Timeout {
                wanted: 1,
                seen: 0,
                ..
            }
        ),
        "{e}"
    );
    signal.set(9)?;
    point.wait()?;
    Ok(())
}

#[test]
fn writes_polls_and_barriers() -> Result {
    let device = device();
    let words = device.alloc::<u32>(4)?;
    let (set, clear) = (device.signal()?, device.signal()?);
    let at = |i: u64| words.address() + 4 * i;
    let mut waiting = device.compute_queue(0)?.record();
    waiting.poll_bit(at(0), 0xf0, 0x50u32)?.signal(&set, 1u64)?;
    waiting
        .poll_bit(at(1), 1, 0u32)?
        .memory_barrier()?
        .signal(&clear, 1u64)?;
    let mut writing = device.copy_queue(0)?.record();
    writing.write32(at(1), 1u32)?.submit()?.wait()?;
    waiting.submit()?;
    writing.write32(at(0), 0x1234_5658u32)?.submit()?;
    set.wait(1)?;
    assert_eq!(clear.value(), 0);
    // The copy queue is held at the end of its submission, by the point before it.
    let mut writing = device.compute_queue(1)?.record();
    writing
        .write32(at(1), 0xffff_fffeu32)?
        .write64(at(2), 0x1_0000_0002u64)?
        .submit()?;
    clear.wait(1)?;
    assert_eq!(words.to_vec()?, [0x1234_5658, 0xffff_fffe, 2, 1]);
    Ok(())
}

#[test]
fn timestamps_grow_and_lie_within_the_hosts() -> Result {
    let device = device();
    let before = device.now_ns();
    let mut commands = device.compute_queue(0)?.record();
    let outer = commands.begin("outer")?;
    let inner = commands.begin("inner")?;
    commands.memory_barrier()?.end(&inner)?.end(&outer)?;
    assert_eq!(outer.times(), None);
    commands.submit()?.wait()?;
    let after = device.now_ns();
    let (o, i) = (
        outer.times().expect("it ran"),
        inner.times().expect("it ran"),
    );
    assert!(before <= o.start_ns && o.start_ns <= i.start_ns && i.start_ns <= i.end_ns);
    assert!(i.end_ns <= o.end_ns && o.end_ns <= after);
    assert!(o.duration_ns() >= i.duration_ns());
    assert_eq!(outer.name(), "outer");
    Ok(())
}

#[test]
fn copies_between_buffers_views_and_hosts() -> Result {
    let device = device();
    let queue = device.copy_queue(0)?;
    let data: Vec<u32> = (0..3_000_000).collect();
    let (a, b) = (device.alloc_from(&data)?, device.alloc::<u32>(data.len())?);
    // A chain: long copy, small copies, uploads and a download in the order of the queue.
    let mut commands = queue.record();
    commands.copy(&b, &a)?;
    for i in 0..100 {
        commands.copy(&b.view(i..i + 1)?, &a.view(1000 + i..1001 + i)?)?;
    }
    let mut staged = vec![7u32; 50];
    commands.upload(&b.view(50..100)?, &staged)?;
    staged.fill(8);
    let download = commands.download(&b.view(..200)?)?;
    assert!(matches!(download.wait(), Err(Error::NotSubmitted)));
    commands.write32(b.address(), 0u32)?;
    commands.submit()?;
    let seen = download.wait()?;
    assert!(download.is_done()?);
    let want: Vec<u32> = (0..200)
        .map(|i| match i {
            0..50 => 1000 + i,
            50..100 => 7,
            _ => i,
        })
        .collect();
    assert_eq!(seen, want);
    let all = b.to_vec()?;
    assert_eq!((all[0], all[1], all[2_999_999]), (0, 1001, 2_999_999));
    Ok(())
}

#[test]
fn after_waits_for_another_queues_submission() -> Result {
    let device = device();
    let go = device.signal()?;
    let data = device.alloc::<u32>(1)?;
    let mut first = device.compute_queue(0)?.record();
    let point = first
        .wait(&go, 1u64)?
        .write32(data.address(), 1u32)?
        .submit()?;
    let mut second = device.compute_queue(1)?.record();
    second
        .after(&point)?
        .write32(data.address(), 2u32)?
        .submit()?;
    go.set(1)?;
    device.synchronize()?;
    assert_eq!(data.to_vec()?, [2]);
    // A point that is complete needs no wait.
    second
        .after(&point)?
        .write32(data.address(), 3u32)?
        .submit()?
        .wait()?;
    assert_eq!(data.to_vec()?, [3]);
    Ok(())
}

#[test]
fn recordings_longer_than_the_ring_are_launched_by_reference() -> Result {
    let device = open(&options().ring_packets(16).arena_bytes(512));
    let kernel = add_kernel(&device);
    let data = device.alloc::<u32>(4)?;
    let gate = device.signal()?;
    let held = device
        .compute_queue(1)?
        .record()
        .wait(&gate, 1u64)?
        .submit()?;
    let mut commands = device.compute_queue(0)?.record();
    commands.after(&held)?;
    for _ in 0..1000 {
        exec_add(&mut commands, &kernel, &data, 1)?;
    }
    assert!(commands.size_bytes() > 16 * 64);
    let point = commands.submit()?;
    assert!(commands.is_empty() && !point.is_done()?);
    gate.set(1)?;
    point.wait()?;
    assert_eq!(data.to_vec()?, [1000; 4]);
    Ok(())
}

#[test]
fn a_failed_call_leaves_the_recording_as_it_was() -> Result {
    let (device, other) = (device(), device());
    let kernel = add_kernel(&device);
    let data = device.alloc::<u32>(4)?;
    let (compute, copy) = (device.compute_queue(0)?, device.copy_queue(0)?);
    let mut commands = compute.record();
    commands.write32(data.address(), 1u32)?;
    let size = commands.size_bytes();
    let foreign = other.signal()?;
    let foreign_data = other.alloc::<u32>(4)?;
    let small = device.alloc::<u32>(3)?;

    let wrong = commands.copy(&data, &small).map(|_| ());
    assert!(matches!(
        wrong,
        Err(Error::WrongQueue {
            kind: QueueKind::Compute,
            other: QueueKind::Copy,
            ..
        })
    ));
    assert!(matches!(
        commands.wait(&foreign, 1u64).map(|_| ()),
        Err(Error::OtherDevice { what: "signal" })
    ));
    assert!(matches!(
        commands.write32(data.address() + 1, 1u32).map(|_| ()),
        Err(Error::Record { .. })
    ));
    assert!(matches!(
        commands.write32(data.address(), 1u64 << 32).map(|_| ()),
        Err(Error::Record { .. })
    ));
    let undeclared = hcq_std::Var::new(0);
    let unknown = commands.write32(data.address(), undeclared).map(|_| ());
    assert!(matches!(
        unknown,
        Err(Error::UnknownVariable { index: 0, count: 0 })
    ));
    // SAFETY: refused, or sound as in `exec_add`.
    let mut exec =
        |args: &[Arg<'_>], grid| unsafe { commands.exec(&kernel, args, grid).map(|_| ()) };
    let one = Grid::new(1, 1);
    let e = exec(&[Arg::buffer(&data)], one).expect_err("one argument too few");
    assert!(
        matches!(
            e,
            Error::ArgumentCount {
                expected: 2,
                given: 1,
                ..
            }
        ),
        "{e}"
    );
    assert!(e.to_string().contains("u32 *data, u32 amount"), "{e}");
    let e = exec(&[Arg::buffer(&data), 1.0f32.into()], one).expect_err("a float for an integer");
    assert_eq!(
        e.to_string(),
        "kernel add, argument 1 (amount): a number of type u32 expected, a number of type f32 given"
    );
    let e = exec(&[1u32.into(), 1u32.into()], one).expect_err("a number for a buffer");
    assert!(
        matches!(&e, Error::Argument { index: 0, name, .. } if name == "data"),
        "{e}"
    );
    let floats = device.alloc::<f32>(1)?;
    assert!(exec(&[Arg::buffer(&floats), 1u32.into()], one).is_err());
    let e = exec(&[Arg::buffer(&foreign_data), 1u32.into()], one).expect_err("another device's");
    assert!(matches!(e, Error::OtherDevice { what: "buffer" }), "{e}");
    assert!(exec(&[Arg::buffer(&data), 1u32.into()], Grid::new(0, 1)).is_err());
    assert!(
        exec(
            &[Arg::buffer(&data), 1u32.into()],
            Grid::new([1, 1, 1], [1, 0, 1])
        )
        .is_err()
    );
    assert_eq!(commands.size_bytes(), size);

    let mut copies = copy.record();
    assert!(matches!(
        copies.copy(&data, &small).map(|_| ()),
        Err(Error::Length {
            need: 16,
            have: 12,
            ..
        })
    ));
    let overlap = copies.copy(&data.view(1..)?, &data.view(..3)?).map(|_| ());
    assert!(matches!(overlap, Err(Error::Overlap { bytes: 12, .. })));
    assert!(matches!(
        copies.copy(&data, &foreign_data).map(|_| ()),
        Err(Error::OtherDevice { .. })
    ));
    assert!(matches!(
        copies.memory_barrier().map(|_| ()),
        Err(Error::WrongQueue { .. })
    ));
    assert!(matches!(
        copies.upload(&data, &[1u32; 5]).map(|_| ()),
        Err(Error::Length { .. })
    ));
    assert!(copies.is_empty());
    commands.submit()?.wait()?;
    assert_eq!(data.to_vec()?, [1, 0, 0, 0]);
    Ok(())
}

#[test]
fn queues_that_are_not_there() {
    let device = device();
    let e = device.compute_queue(2).expect_err("two by default");
    assert!(
        matches!(
            e,
            Error::NoSuchQueue {
                kind: QueueKind::Compute,
                index: 2,
                count: 2
            }
        ),
        "{e}"
    );
    assert!(e.to_string().contains("compute_queues"), "{e}");
    let device = open(&options().copy_queues(0));
    assert!(device.copy_queue(0).is_err());
    let refused = hcq_std::Device::open_with("cpu", &options().compute_queues(0));
    assert!(matches!(
        refused,
        Err(Error::Option {
            option: "compute_queues",
            value: 0,
            ..
        })
    ));
}
