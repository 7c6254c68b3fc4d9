//! Faults are data, and stay; devices end in bounded time.

mod common;

use std::time::{Duration, Instant};

use common::{add_kernel, device, doze_kernel, exec_add, open, options};
use hcq_std::{Access, Arg, Device, Error, FaultKind, Grid};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// An address that is in no buffer.
const NOWHERE: u64 = 0xdead_0000;

#[test]
fn a_fault_is_a_record_and_stays() -> Result {
    let device = device();
    let data = device.alloc_from(&[1u32; 4])?;
    let mut other = device.compute_queue(1)?.record();
    other.write32(data.address(), 5u32)?.submit()?.wait()?;
    assert!(device.fault().is_none());

    let mut commands = device.compute_queue(0)?.record();
    let point = commands.write32(NOWHERE, 1u32)?.submit()?;
    let e = point.wait().expect_err("no such memory");
    let Error::Fault(record) = e else {
        panic!("{e}")
    };
    assert_eq!(
        (record.kind, record.access, record.engine),
        (FaultKind::Memory, Access::Write, 0)
    );
    assert_eq!(
        (
            record.address,
            record.last_signalled,
            record.first_not_signalled
        ),
        (NOWHERE, 1, 2)
    );
    assert_eq!(device.fault(), Some(record));

    // Everything that would wait answers at once, submissions are refused, on every queue.
    let start = Instant::now();
    let signal = device.signal()?;
    assert!(matches!(signal.wait(1), Err(Error::Fault(r)) if r == record));
    assert!(matches!(device.synchronize(), Err(Error::Fault(_))));
    assert!(matches!(data.read(&mut [0; 4]), Err(Error::Fault(_))));
    assert!(matches!(
        other.memory_barrier()?.submit(),
        Err(Error::Fault(_))
    ));
    assert!(matches!(point.is_done(), Err(Error::Fault(_))));
    // What was complete before stays complete.
    assert!(other.is_empty() || start.elapsed() < Duration::from_secs(10));
    let text = record.to_string();
    assert!(
        text.contains("memory fault writing at 0xdead0000"),
        "{text}"
    );
    Ok(())
}

#[test]
fn recovery_drops_what_was_in_flight_and_goes_on() -> Result {
    for span in [2u32, 4, 40] {
        let device = open(&options().timeline_span_log2(span));
        let kernel = add_kernel(&device);
        let data = device.alloc::<u32>(4)?;
        let gate = device.signal()?;
        for round in 0..30u64 {
            let mut commands = device.compute_queue(0)?.record();
            for _ in 0..round % 5 {
                commands.memory_barrier()?.submit()?.wait()?;
            }
            exec_add(&mut commands, &kernel, &data, 1)?;
            let before = commands.submit()?;
            before.wait()?;
            let held = device.compute_queue(1)?.record();
            let mut held = held;
            let bad = commands.write64(NOWHERE, 1u64)?.submit()?;
            let lost = held.wait(&gate, 1u64)?.submit();
            assert!(bad.wait().is_err());
            device.recover()?;
            assert!(device.fault().is_none());
            assert!(before.is_done()?);
            assert!(matches!(bad.wait(), Err(Error::Lost { .. })));
            if let Ok(lost) = lost {
                assert!(matches!(lost.is_done(), Err(Error::Lost { .. })));
            }
            device.synchronize()?;
            exec_add(&mut commands, &kernel, &data, 1)?;
            commands.submit()?.wait()?;
            assert_eq!(data.to_vec()?, [2 * round as u32 + 2; 4]);
        }
    }
    Ok(())
}

#[test]
fn every_kind_of_fault() -> Result {
    let local = u64::from(u32::try_from(options().local_memory_bytes)?) + 1;
    let cases: [(&str, FaultKind); 6] = [
        ("read", FaultKind::Memory),
        ("past the end", FaultKind::Memory),
        ("freed", FaultKind::Memory),
        ("overlap", FaultKind::Command),
        ("local memory", FaultKind::Program),
        ("misaligned signal", FaultKind::Memory),
    ];
    for (what, kind) in cases {
        let device = device();
        let data = device.alloc::<u32>(1024)?;
        let freed = device.alloc::<u32>(1024)?.address();
        device.synchronize()?;
        let mut copy = device.copy_queue(0)?.record();
        let mut compute = device.compute_queue(0)?.record();
        let kernel = add_kernel(&device);
        let grid = Grid::new(1, 1).local_memory(u32::try_from(local)?);
        let (at, one) = (data.address(), [Arg::buffer(&data), 1u32.into()]);
        // SAFETY: one group, many elements.
        let mut exec = |grid| unsafe { compute.exec(&kernel, &one, grid)?.submit() };
        // SAFETY: addresses that are nobody's, or of `data`, which nobody else uses.
        let mut raw =
            |to: u64, from: u64, bytes: u64| unsafe { copy.copy_raw(to, from, bytes)?.submit() };
        let point = match what {
            "read" => raw(at, NOWHERE, 4)?,
            "past the end" => raw(at + 2052, at, 2048)?,
            "freed" => copy.write32(freed, 1u32)?.submit()?,
            "overlap" => raw(at, at + 4, 64)?,
            "local memory" => exec(grid)?,
            _ => copy.wait_at(NOWHERE + 16, 0u64)?.submit()?,
        };
        let e = point.wait().expect_err(what);
        let Error::Fault(record) = e else {
            panic!("{what}: {e}")
        };
        assert_eq!(record.kind, kind, "{what}");
        device.recover()?;
        copy.write32(data.address(), 7u32)?.submit()?.wait()?;
        assert_eq!(data.to_vec()?[0], 7, "{what}");
    }
    Ok(())
}

#[test]
fn a_device_with_work_in_flight_ends() -> Result {
    // Work that completes is waited for.
    let device = device();
    let kernel = doze_kernel(&device);
    let done = device.signal()?;
    let mut commands = device.compute_queue(0)?.record();
    // SAFETY: sleeps.
    unsafe { commands.exec(&kernel, &[20u32.into()], Grid::new(3, 1)) }?;
    commands.signal(&done, 1u64)?.submit()?;
    let slot = done.clone();
    drop((device, kernel, commands, done));
    slot.wait(1)?;

    // Work that nobody can complete is given up.
    let device = open(&options().wait_timeout_ms(40));
    let mut commands = device.compute_queue(0)?.record();
    let data = device.alloc::<u32>(1)?;
    commands
        .wait_at(slot_of(&device)?, 1u64)?
        .write32(data.address(), 1u32)?
        .submit()?;
    let start = Instant::now();
    drop((commands, data));
    let e = device.close().expect_err("held for ever");
    assert!(matches!(e, Error::Timeout { .. }), "{e}");
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "bounded: 40 ms, twice, and the threads' end"
    );
    Ok(())
}

/// The address of a signal that stays 0.
fn slot_of(device: &Device) -> Result<u64> {
    let signal = device.signal()?;
    let address = signal.address();
    Ok(address)
}

#[test]
fn a_kernel_that_takes_longer_than_the_wait_is_left_alone() -> Result {
    let device = open(&options().wait_timeout_ms(20));
    let kernel = doze_kernel(&device);
    let data = device.alloc_from(&vec![3u8; 1 << 20])?;
    let mut commands = device.compute_queue(0)?.record();
    // SAFETY: sleeps.
    unsafe { commands.exec(&kernel, &[4000u32.into()], Grid::new(1, 1)) }?;
    let point = commands.submit()?;
    assert!(matches!(
        point.wait(),
        Err(Error::Timeout {
            wanted: 1,
            seen: 0,
            ..
        })
    ));
    let start = Instant::now();
    drop((device, kernel, data, commands, point));
    assert!(
        start.elapsed() < Duration::from_millis(3900),
        "the thread was not waited for"
    );
    Ok(())
}

#[test]
fn freed_buffers_live_until_their_work_is_done() -> Result {
    let device = device();
    let gate = device.signal()?;
    let out = device.alloc::<u8>(200_000)?;
    let mut commands = device.copy_queue(0)?.record();
    commands.wait(&gate, 1u64)?;
    for n in 0..40usize {
        let source = device.alloc_from(&vec![n as u8; 200_000])?;
        commands.copy(&out.view(n * 5000..)?, &source.view(n * 5000..)?)?;
    }
    let point = commands.submit()?;
    // Forty freed buffers; new ones must not take their place.
    let mut fresh = Vec::new();
    for _ in 0..40 {
        fresh.push(device.alloc_from(&vec![0xffu8; 200_000])?);
    }
    gate.set(1)?;
    point.wait()?;
    let seen = out.to_vec()?;
    assert!(
        seen.iter()
            .enumerate()
            .all(|(i, &b)| usize::from(b) == i / 5000)
    );
    Ok(())
}
