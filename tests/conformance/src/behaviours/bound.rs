//! Bound queues: recorded once, launched by reference, patched between launches.
#![allow(unsafe_code, reason = "launches kernels and copies by address")]

use hcq_std::{Arg, Error, Grid, Value, Var};

use super::exec::step;
use crate::check::{Numbers, each, ensure, refused, same, word, words};
use crate::kinds::Stock;
use crate::{Behaviour, Context, Failure, Needs};

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "bound.resubmit",
        what: "a bound queue does the same at each of a hundred submissions",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: resubmit,
    },
    Behaviour {
        name: "bound.back-to-back",
        what: "submitted again and again without the host waiting, every launch has the values set for it",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: back_to_back,
    },
    Behaviour {
        name: "bound.set-in-flight",
        what: "setting a variable of a queue in flight does not change what is in flight",
        needs: Needs::COMPUTE,
        run: set_in_flight,
    },
    Behaviour {
        name: "bound.equals-recording",
        what: "a patched queue of many commands does what a fresh recording with the same numbers does",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: equals_recording,
    },
    Behaviour {
        name: "bound.variables",
        what: "unset and unknown variables are refused, and nothing runs with a value of nobody's",
        needs: Needs::COMPUTE,
        run: variables,
    },
    Behaviour {
        name: "bound.beside-recordings",
        what: "bound queues and plain submissions of one queue keep their order",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: beside_recordings,
    },
    Behaviour {
        name: "bound.dropped-in-flight",
        what: "a bound queue dropped while it is held runs to its end all the same",
        needs: Needs::COMPUTE,
        run: dropped_in_flight,
    },
];

const N: u32 = 96;

fn resubmit(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (kernel, done) = (cx.kernel(device, Stock::Step)?, device.signal()?);
    let data = device.alloc_from(&words(1, N as usize))?;
    let mut wanted = words(1, N as usize);
    let mut commands = device.compute_queue(0)?.record();
    // SAFETY: `data` has `N` words.
    unsafe { commands.exec(&kernel, &step(&data, 3, 7, N), Grid::new(3, 32)) }?;
    commands.signal(&done, 1u64)?;
    let mut bound = commands.bind()?;
    each("before the first submission", &data.to_vec()?, |i| {
        wanted[i]
    })?;
    for round in 1..=100 {
        done.set(0)?;
        bound.submit()?.wait()?;
        wanted
            .iter_mut()
            .for_each(|w| *w = w.wrapping_mul(3).wrapping_add(7));
        each(&format!("after submission {round}"), &data.to_vec()?, |i| {
            wanted[i]
        })?;
        same("its signal", done.value(), 1)?;
    }
    Ok(())
}

fn back_to_back(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Step)?;
    let data = device.alloc_from(&words(2, N as usize))?;
    let mut wanted = words(2, N as usize);
    let mut commands = device.compute_queue(0)?.record();
    let (factor, add) = (commands.var()?, commands.var()?);
    let args = [
        Arg::from(&data),
        Arg::var(factor, 4),
        Arg::var(add, 4),
        Arg::from(N),
    ];
    // SAFETY: `data` has `N` words.
    unsafe { commands.exec(&kernel, &args, Grid::new(3, 32)) }?;
    let mut bound = commands.bind()?;
    let mut numbers = Numbers::new(2);
    for round in 0..300 {
        let (f, a) = (numbers.next() as u32 | 1, numbers.next() as u32);
        // Sometimes only one of the two changes, sometimes none does.
        let (mut now_f, mut now_a) = (1, 0);
        if round == 0 || round % 3 != 0 {
            bound.set(factor, f.into())?;
            bound.set(add, a.into())?;
            (now_f, now_a) = (f, a);
        } else {
            bound.set(factor, 1)?;
            bound.set(add, 0)?;
        }
        bound.submit()?;
        wanted
            .iter_mut()
            .for_each(|w| *w = w.wrapping_mul(now_f).wrapping_add(now_a));
    }
    device.synchronize()?;
    each("after 300 submissions", &data.to_vec()?, |i| wanted[i])
}

fn set_in_flight(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let gate = device.signal()?;
    let out = device.alloc_from(&[7u32, 8, 9])?;
    let mut commands = device.compute_queue(0)?.record();
    let var = commands.var()?;
    commands
        .wait(&gate, 1u64)?
        .write32(out.address() + 4, var)?;
    let mut bound = commands.bind()?;
    bound.set(var, 100)?;
    let point = bound.submit()?;
    bound.set(var, 200)?;
    refused(
        "launching with a new value while the last launch is held",
        bound.try_submit(),
        |e| matches!(e, Error::WouldBlock { .. }),
    )?;
    ensure!(
        !point.is_done()?,
        "the launch went on while its gate was closed"
    );
    gate.set(1)?;
    point.wait()?;
    same("the launch in flight", out.to_vec()?, vec![7, 100, 9])?;
    bound.try_submit()?.wait()?;
    same("the next launch", out.to_vec()?, vec![7, 200, 9])
}

fn equals_recording(cx: &mut Context) -> Result<(), Failure> {
    const PARTS: usize = 12;
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Step)?;
    let queue = device.compute_queue(0)?;
    let (patched, fresh) = (
        device.alloc_from(&words(4, 1024))?,
        device.alloc_from(&words(4, 1024))?,
    );
    let done = device.signal()?;
    let mut commands = queue.record();
    let mut sets = Vec::new();
    for part in 0..PARTS as u64 {
        let (at, value, n) = (commands.var()?, commands.var()?, commands.var()?);
        commands.write32(Value::from(at) + 4 * part, Value::from(value) + part)?;
        let args = [
            Arg::address(at),
            Arg::from(5u32),
            Arg::var(value, 4),
            Arg::var(n, 4),
        ];
        let grid = Grid::new((n, 1u32, 1u32), 2);
        // SAFETY: at most 32 words at an address that leaves as many to the end of the buffer.
        unsafe { commands.exec(&kernel, &args, grid) }?;
        commands.signal(&done, Value::from(value) * 3)?;
        sets.push((at, value, n));
    }
    let mut bound = commands.bind()?;
    let mut numbers = Numbers::new(4);
    for round in 0..40 {
        let mut commands = queue.record();
        for (part, &(at, value, n)) in (0..).zip(&sets) {
            let offset = 4 * numbers.below(1024 - 32);
            let (v, count) = (numbers.next() as u32 & 0xffff, 1 + numbers.below(32) as u32);
            bound.set(at, patched.address() + offset)?;
            bound.set(value, v.into())?;
            bound.set(n, count.into())?;
            commands.write32(fresh.address() + offset + 4 * part, u64::from(v) + part)?;
            let args = [
                Arg::address(fresh.address() + offset),
                Arg::from(5u32),
                Arg::from(v),
                Arg::from(count),
            ];
            // SAFETY: as above.
            unsafe { commands.exec(&kernel, &args, Grid::new(count, 2)) }?;
            commands.signal(&done, u64::from(v) * 3)?;
        }
        commands.submit()?.wait()?;
        let (want, want_done) = (fresh.to_vec()?, done.value());
        done.set(0x7fff_ffff)?;
        bound.submit()?.wait()?;
        each(&format!("round {round}"), &patched.to_vec()?, |i| want[i])?;
        same("the last signal", done.value(), want_done)?;
    }
    Ok(())
}

fn variables(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let out = device.alloc_from(&[1u32, 2, 3])?;
    let queue = device.compute_queue(0)?;
    let mut commands = queue.record();
    let (a, b) = (commands.var()?, commands.var()?);
    let foreign = Var::new(77);
    refused(
        "a variable that nobody declared",
        commands.write32(out.address(), foreign).map(drop),
        |e| {
            matches!(
                e,
                Error::UnknownVariable {
                    index: 77,
                    count: 2
                } | Error::Record { .. }
            )
        },
    )?;
    commands
        .write32(out.address(), a)?
        .write32(out.address() + 8, b)?;
    refused(
        "submitting places without a value",
        commands.submit(),
        |e| matches!(e, Error::Unbound { .. }),
    )?;
    let mut bound = commands.bind()?;
    refused("launching with nothing set", bound.submit(), |e| {
        matches!(e, Error::Patch(_))
    })?;
    bound.set(a, 10)?;
    refused("launching with one of two set", bound.submit(), |e| {
        matches!(e, Error::Patch(_))
    })?;
    refused("setting what does not exist", bound.set(foreign, 1), |e| {
        matches!(e, Error::UnknownVariable { .. } | Error::Patch(_))
    })?;
    bound.set(b, 1 << 32)?;
    refused("33 bits for 32", bound.submit(), |e| {
        matches!(e, Error::Patch(_))
    })?;
    device.synchronize()?;
    same("the memory so far", out.to_vec()?, vec![1, 2, 3])?;
    bound.set(b, 30)?;
    bound.submit()?.wait()?;
    same("with both set", out.to_vec()?, vec![10, 2, 30])
}

fn beside_recordings(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Step)?;
    let queue = device.compute_queue(0)?;
    let data = device.alloc_from(&words(6, N as usize))?;
    let mut wanted: Vec<u32> = (0..N as usize).map(|i| word(6, i)).collect();
    let mut bounds = Vec::new();
    for add in [1, 2] {
        let mut commands = queue.record();
        // SAFETY: `data` has `N` words.
        unsafe { commands.exec(&kernel, &step(&data, 3, add, N), Grid::new(3, 32)) }?;
        bounds.push(commands.bind()?);
    }
    for round in 0..60u32 {
        let which = round as usize % 3;
        match bounds.get_mut(which) {
            Some(bound) => bound.submit()?,
            None => {
                let mut commands = queue.record();
                // SAFETY: as above.
                unsafe { commands.exec(&kernel, &step(&data, 3, 3, N), Grid::new(3, 32)) }?;
                commands.submit()?
            }
        };
        wanted
            .iter_mut()
            .for_each(|w| *w = w.wrapping_mul(3).wrapping_add(which as u32 + 1));
    }
    device.synchronize()?;
    each("after 60 submissions", &data.to_vec()?, |i| wanted[i])
}

fn dropped_in_flight(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (gate, done) = (device.signal()?, device.signal()?);
    let out = device.alloc_from(&[0x5555_5555u32; 64])?;
    let mut commands = device.compute_queue(0)?.record();
    let var = commands.var()?;
    commands.wait(&gate, 1u64)?;
    for i in 0..64 {
        commands.write32(out.address() + 4 * i, Value::from(var) + i)?;
    }
    commands.signal(&done, 1u64)?;
    let mut bound = commands.bind()?;
    bound.set(var, 1000)?;
    bound.submit()?;
    drop(bound);
    // Whatever would take the words' place.
    let fillers = (0..32)
        .map(|_| device.alloc_from(&[u32::MAX; 1024]))
        .collect::<Result<Vec<_>, _>>()?;
    gate.set(1)?;
    done.wait(1)?;
    device.synchronize()?;
    drop(fillers);
    each("what it wrote", &out.to_vec()?, |i| 1000 + i as u32)
}
