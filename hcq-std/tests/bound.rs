//! Bound queues: patched between launches, never while in flight.

mod common;

use common::{add_kernel, device, exec_add, open, options};
use hcq_std::{Arg, Error, Grid, Value, Var};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

#[test]
fn signals_waits_and_their_values_are_patched() -> Result {
    let device = device();
    let (a, b, go) = (device.signal()?, device.signal()?, device.signal()?);
    let mut commands = device.compute_queue(0)?.record();
    let (address, value, least) = (commands.var()?, commands.var()?, commands.var()?);
    commands
        .wait(&go, least)?
        .signal_at(address, Value::from(value) + 1)?;
    let mut bound = commands.bind()?;
    assert_eq!(bound.variables(), 3);
    let e = bound.submit().expect_err("no values yet");
    assert!(matches!(e, Error::Patch(_)), "{e}");
    for round in 1..50u64 {
        let signal = if round % 2 == 0 { &a } else { &b };
        bound.set(address, signal.address())?;
        bound.set(value, round)?;
        bound.set(least, round)?;
        let point = bound.submit()?;
        assert!(!point.is_done()?);
        go.set(round)?;
        point.wait()?;
        assert_eq!(signal.value(), round + 1);
    }
    assert!(bound.set(Var::new(3), 0).is_err());
    Ok(())
}

#[test]
fn sizes_scalars_and_buffers_of_a_launch_are_patched() -> Result {
    let device = device();
    let kernel = add_kernel(&device);
    let buffers = [device.alloc::<u32>(27)?, device.alloc::<u32>(27)?];
    let mut commands = device.compute_queue(0)?.record();
    let vars = [
        commands.var()?,
        commands.var()?,
        commands.var()?,
        commands.var()?,
        commands.var()?,
    ];
    let [x, y, z, data, amount] = vars;
    let args = [Arg::address(data), Arg::var(amount, 4)];
    // SAFETY: at most 27 groups, and the address is that of a buffer of 27.
    unsafe { commands.exec(&kernel, &args, Grid::new((x, y, z), 1)) }?;
    let mut bound = commands.bind()?;
    let mut want = [[0u32; 27]; 2];
    for i in 0..27u64 {
        let (sizes, which) = ([i % 3 + 1, i / 3 % 3 + 1, i / 9 + 1], (i % 2) as usize);
        bound.set_all(
            x,
            &[sizes[0], sizes[1], sizes[2], buffers[which].address(), i],
        )?;
        bound.submit()?.wait()?;
        want[which]
            .iter_mut()
            .take(sizes.iter().product::<u64>() as usize)
            .for_each(|w| *w += i as u32);
    }
    assert_eq!(buffers[0].to_vec()?, want[0]);
    assert_eq!(buffers[1].to_vec()?, want[1]);
    // A size that its field cannot hold is refused, and the queue is usable afterwards.
    bound.set(x, 0)?;
    assert!(matches!(bound.submit(), Err(Error::Patch(_))));
    bound.set(x, 1)?;
    bound.set(amount, 1 << 32)?;
    assert!(matches!(bound.submit(), Err(Error::Patch(_))));
    bound.set(amount, 1)?;
    bound.submit()?.wait()?;
    Ok(())
}

#[test]
fn copies_with_patched_addresses() -> Result {
    let device = device();
    let data: Vec<u8> = (0..=255).collect();
    let (a, b) = (device.alloc_from(&data)?, device.alloc::<u8>(256)?);
    let mut commands = device.copy_queue(0)?.record();
    let (to, from, bytes) = (commands.var()?, commands.var()?, commands.var()?);
    // SAFETY: the addresses are of the two buffers, which live to the end.
    unsafe { commands.copy_raw(to, Value::from(from) + 16, bytes) }?;
    let mut bound = commands.bind()?;
    for i in 0..32u64 {
        bound.set_all(to, &[b.address() + i * 7, a.address() + i, 7])?;
        bound.submit()?;
    }
    device.synchronize()?;
    let want: Vec<u8> = (0..256u64)
        .map(|n| {
            if n < 224 {
                (n / 7 + 16 + n % 7) as u8
            } else {
                0
            }
        })
        .collect();
    assert_eq!(b.to_vec()?, want);
    Ok(())
}

#[test]
fn what_is_in_flight_is_never_patched() -> Result {
    let device = device();
    let (go, out) = (device.signal()?, device.alloc::<u64>(1)?);
    let mut commands = device.compute_queue(0)?.record();
    let value = commands.var()?;
    commands.wait(&go, 1u64)?.write64(out.address(), value)?;
    let mut bound = commands.bind()?;
    bound.set(value, 11)?;
    let first = bound.submit()?;
    // Nothing changed: launches may follow one another in flight.
    bound.try_submit()?;
    bound.set(value, 22)?;
    assert!(matches!(bound.try_submit(), Err(Error::WouldBlock { .. })));
    assert_eq!(bound.get(value), Some(22));
    go.set(1)?;
    device.synchronize()?;
    assert!(first.is_done()? && bound.is_done()?);
    assert_eq!(out.to_vec()?, [11]);
    bound.try_submit()?.wait()?;
    assert_eq!(out.to_vec()?, [22]);
    // `submit` waits for the last launch by itself.
    for n in 0..100 {
        bound.set(value, n)?;
        bound.submit()?;
    }
    device.synchronize()?;
    assert_eq!(out.to_vec()?, [99]);
    Ok(())
}

#[test]
fn points_that_a_bound_queue_waits_for_stand_for_them_after_roll_overs() -> Result {
    let device = open(&options().timeline_span_log2(4));
    let (go, out) = (device.signal()?, device.alloc::<u32>(1)?);
    let held = device
        .compute_queue(1)?
        .record()
        .wait(&go, 1u64)?
        .submit()?;
    let mut commands = device.compute_queue(0)?.record();
    let mut bound = {
        commands.after(&held)?.write32(out.address(), 1u32)?;
        commands.bind()?
    };
    let point = bound.submit()?;
    assert!(!point.is_done()?);
    go.set(1)?;
    point.wait()?;
    assert_eq!(out.to_vec()?, [1]);
    for _ in 0..100 {
        bound.submit()?.wait()?;
    }
    Ok(())
}

#[test]
fn a_bound_queue_keeps_what_it_names() -> Result {
    let device = device();
    let kernel = add_kernel(&device);
    let data = device.alloc::<u32>(4)?;
    let view = data.view(..)?;
    let done = device.signal()?;
    let mut commands = device.compute_queue(0)?.record();
    // Argument blocks beyond the first arena, and a kernel that nobody else holds.
    for _ in 0..2000 {
        exec_add(&mut commands, &kernel, &data, 1)?;
    }
    commands.signal(&done, 1u64)?;
    let mut bound = commands.bind()?;
    drop((data, kernel, done));
    bound.submit()?;
    bound.submit()?.wait()?;
    drop(bound);
    assert_eq!(view.to_vec()?, [4000; 4]);
    Ok(())
}

#[test]
fn recordings_with_variables_must_be_bound_and_downloads_must_not() -> Result {
    let device = device();
    let data = device.alloc::<u32>(1)?;
    let mut commands = device.copy_queue(0)?.record();
    let value = commands.var()?;
    commands.write32(data.address(), value)?;
    assert!(matches!(
        commands.submit(),
        Err(Error::Unbound { sites: 1 })
    ));
    let mut bound = commands.bind()?;
    bound.set(value, 5)?;
    bound.submit()?.wait()?;
    assert_eq!(data.to_vec()?, [5]);
    let mut commands = device.copy_queue(0)?.record();
    let _download = commands.download(&data)?;
    assert!(matches!(commands.bind(), Err(Error::Download)));
    Ok(())
}

#[test]
fn an_empty_bound_queue_is_a_point() -> Result {
    let device = device();
    let mut bound = device.compute_queue(0)?.record().bind()?;
    bound.submit()?.wait()?;
    bound.submit()?.wait()?;
    device.compute_queue(0)?.record().submit()?.wait()?;
    assert_eq!(device.timeline()?.completed, 3);
    Ok(())
}
