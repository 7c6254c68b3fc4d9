//! The timeline, rings and arenas under load: roll-overs, wraps, full rings, many submitters.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{add_kernel, device, doze_kernel, exec_add, open, options};
use hcq_std::{Error, Grid};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

#[test]
fn roll_overs_with_host_syncs() -> Result {
    for span in [2, 3, 4] {
        let device = open(&options().timeline_span_log2(span));
        let data = device.alloc::<u64>(1)?;
        let mut commands = device.compute_queue(0)?.record();
        for n in 1..=200u64 {
            let point = commands.write64(data.address(), n)?.submit()?;
            point.wait()?;
            assert_eq!(point.number(), n);
            assert_eq!(device.timeline()?.completed, n);
        }
        assert_eq!(data.to_vec()?, [200]);
    }
    Ok(())
}

#[test]
fn roll_overs_without_host_syncs_on_all_queues() -> Result {
    let device = open(&options().timeline_span_log2(4));
    let kernel = add_kernel(&device);
    let data = device.alloc::<u32>(3)?;
    let mut queues = [
        device.compute_queue(0)?.record(),
        device.compute_queue(1)?.record(),
        device.copy_queue(0)?.record(),
    ];
    let ticks = device.signal()?;
    let mut copies = 0u64;
    for n in 0..3000usize {
        let queue = n * 7 % 3;
        if queue == 2 {
            copies += 1;
            queues[2].signal(&ticks, copies)?;
        } else {
            exec_add(&mut queues[queue], &kernel, &data, 1)?;
        }
        queues[queue].submit()?;
    }
    device.synchronize()?;
    let info = device.timeline()?;
    assert_eq!(
        (info.submitted, info.completed, info.span_log2),
        (3000, 3000, 4)
    );
    assert_eq!(data.to_vec()?, [2000; 3]);
    assert_eq!(ticks.value(), 1000);
    Ok(())
}

#[test]
fn rings_wrap_at_every_alignment() -> Result {
    let device = open(&options().ring_packets(17));
    let data = device.alloc::<u64>(20)?;
    let mut commands = device.copy_queue(0)?.record();
    let mut count = 0u64;
    for len in (1..=16).cycle().take(500) {
        for i in 0..len {
            count += 1;
            commands.write64(data.address() + 8 * i, count)?;
        }
        commands.submit()?;
    }
    device.synchronize()?;
    assert_eq!(*data.to_vec()?.iter().max().ok_or("twenty")?, count);
    Ok(())
}

#[test]
fn a_full_ring_waits_and_times_out() -> Result {
    let device = open(&options().ring_packets(16).wait_timeout_ms(50));
    let gate = device.signal()?;
    let mut commands = device.compute_queue(0)?.record();
    commands.wait(&gate, 1u64)?.submit()?;
    let mut submitted = 1;
    let e = loop {
        match commands.memory_barrier()?.submit() {
            Ok(_) => submitted += 1,
            Err(e) => break e,
        }
        assert!(submitted < 100, "a ring of 16 packets cannot hold this");
    };
    assert!(
        matches!(e, Error::Timeout { what, .. } if what.contains("ring")),
        "{e}"
    );
    assert!(!commands.is_empty(), "the recording is as it was");
    assert_eq!(device.timeline()?.submitted, submitted);
    // With room again, a waiting submission goes through.
    std::thread::scope(|s| {
        let opener = s.spawn(|| {
            std::thread::sleep(Duration::from_millis(10));
            gate.set(1)
        });
        let point = commands.submit()?;
        opener.join().expect("no panic")?;
        point.wait()
    })?;
    assert_eq!(device.timeline()?.completed, submitted + 1);
    Ok(())
}

#[test]
fn arenas_wrap_and_grow_with_work_in_flight() -> Result {
    let device = open(&options().arena_bytes(256));
    let kernel = add_kernel(&device);
    let data = device.alloc::<u32>(1)?;
    let gate = device.signal()?;
    let mut commands = device.compute_queue(0)?.record();
    let mut sum = 0u32;
    // Held: no argument block may come back.
    commands.wait(&gate, 1u64)?.submit()?;
    for n in 0..500 {
        sum += n;
        exec_add(&mut commands, &kernel, &data, n)?;
        commands.submit()?;
    }
    gate.set(1)?;
    // Flowing: they come back in between.
    for n in 0..5000 {
        sum += n;
        exec_add(&mut commands, &kernel, &data, n)?;
        if n % 3 == 0 {
            commands.submit()?;
        }
    }
    commands.submit()?;
    device.synchronize()?;
    assert_eq!(data.to_vec()?, [sum]);
    // Staging too.
    let bytes = device.alloc::<u8>(1000)?;
    let mut commands = device.copy_queue(0)?.record();
    for n in 0..300usize {
        commands
            .upload(&bytes.view(n..n + 500)?, &vec![n as u8; 500])?
            .submit()?;
    }
    device.synchronize()?;
    let want: Vec<u8> = (0..1000)
        .map(|i: usize| if i < 799 { i.min(299) as u8 } else { 0 })
        .collect();
    assert_eq!(bytes.to_vec()?, want);
    Ok(())
}

#[test]
fn many_threads_submit_at_once() -> Result {
    let device = open(&options().timeline_span_log2(8).ring_packets(64));
    let kernel = add_kernel(&device);
    let data = device.alloc::<u32>(8)?;
    let highest = AtomicU64::new(0);
    std::thread::scope(|s| {
        let threads: Vec<_> = (0..4usize)
            .map(|t| {
                let (device, kernel, data, highest) = (device.clone(), &kernel, &data, &highest);
                s.spawn(move || -> std::result::Result<(), Error> {
                    let queue = device.compute_queue(t % 2)?;
                    for n in 0..500 {
                        let mut commands = queue.record();
                        exec_add(&mut commands, kernel, data, 1)?;
                        let point = commands.submit()?;
                        highest.fetch_max(point.number(), Ordering::Relaxed);
                        if n % 50 == 0 {
                            point.wait()?;
                            data.read(&mut [0; 8])?;
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|t| t.join().expect("no panic"))
    })?;
    device.synchronize()?;
    assert_eq!(highest.into_inner(), 2000);
    assert_eq!(data.to_vec()?, [2000; 8]);
    Ok(())
}

#[test]
fn signals_come_back_when_their_work_is_done() -> Result {
    let device = device();
    let gate = device.signal()?;
    let mut commands = device.compute_queue(0)?.record();
    commands.wait(&gate, 1u64)?.submit()?;
    // More than a pool has, each named by work in flight and dropped here.
    let mut seen = std::collections::HashSet::new();
    for _ in 0..1000 {
        let signal = device.signal()?;
        assert!(
            seen.insert(signal.address()),
            "in flight, and handed out again"
        );
        commands.signal(&signal, 1u64)?.submit()?;
    }
    gate.set(1)?;
    device.synchronize()?;
    let again = device.signal()?;
    assert!(seen.contains(&again.address()));
    assert_eq!((again.value(), again.timestamp()), (0, 0));
    Ok(())
}

#[test]
fn sleeping_waiters_are_woken_every_time() -> Result {
    // No spinning at all: every hand-over goes through sleep and wake.
    let device = open(&options().spin(Duration::ZERO));
    let (ping, pong) = (device.signal()?, device.signal()?);
    let mut commands = device.compute_queue(0)?.record();
    for n in 1..=2000u64 {
        commands.wait(&ping, n)?.signal(&pong, n)?;
    }
    let point = commands.submit()?;
    for n in 1..=2000u64 {
        ping.set(n)?;
        pong.wait(n)?;
    }
    point.wait()?;
    for _ in 0..500 {
        commands.memory_barrier()?.submit()?.wait()?;
    }
    Ok(())
}

#[test]
fn progress_restarts_the_deadline() -> Result {
    let device = open(&options().wait_timeout_ms(800).helper_threads(0));
    let kernel = doze_kernel(&device);
    let mut commands = device.compute_queue(0)?.record();
    for _ in 0..5 {
        // SAFETY: sleeps.
        unsafe { commands.exec(&kernel, &[250u32.into()], Grid::new(1, 1)) }?.submit()?;
    }
    // 1250 ms of work, none of it longer than the time without progress.
    device.synchronize()?;
    let ticks = device.signal()?;
    for n in 1..=4u64 {
        // SAFETY: sleeps.
        unsafe { commands.exec(&kernel, &[250u32.into()], Grid::new(1, 1)) }?.signal(&ticks, n)?;
    }
    commands.submit()?;
    assert_eq!(ticks.wait(4)?, 4);
    Ok(())
}
