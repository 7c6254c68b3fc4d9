//! Arguments of launches: all types, variables, views, and what is refused.
#![allow(unsafe_code, reason = "launches kernels")]

use hcq_std::{Arg, Error, Grid, Value};

use super::exec::step;
use crate::check::{each, refused, same, says, word, words};
use crate::kinds::Stock;
use crate::{Behaviour, Context, Failure, Needs};

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "args.all-scalars",
        what: "scalars of all ten types reach the kernel with their sign and all their bits",
        needs: Needs::COMPUTE.kernels(&[Stock::Scalars]),
        run: all_scalars,
    },
    Behaviour {
        name: "args.floats",
        what: "floats and buffers of floats reach the kernel",
        needs: Needs::COMPUTE.kernels(&[Stock::Scale]),
        run: floats,
    },
    Behaviour {
        name: "args.patched-scalars",
        what: "a bound launch takes scalars patched between submissions, in all four widths",
        needs: Needs::COMPUTE.kernels(&[Stock::Scalars]),
        run: patched_scalars,
    },
    Behaviour {
        name: "args.patched-buffers",
        what: "a bound launch reads and writes the buffers patched in, and no others",
        needs: Needs::COMPUTE.kernels(&[Stock::Add]),
        run: patched_buffers,
    },
    Behaviour {
        name: "args.own-block",
        what: "each launch of a submission has an argument block of its own",
        needs: Needs::COMPUTE.kernels(&[Stock::Fill]),
        run: own_block,
    },
    Behaviour {
        name: "args.views",
        what: "a view is an argument: the kernel sees the part of the buffer and nothing else",
        needs: Needs::COMPUTE.kernels(&[Stock::Copy]),
        run: views,
    },
    Behaviour {
        name: "args.errors-change-nothing",
        what: "wrong arguments and sizes are refused in words, and the recording is as it was before",
        needs: Needs::COMPUTE.kernels(&[Stock::Step, Stock::Add]),
        run: errors_change_nothing,
    },
    Behaviour {
        name: "args.other-devices",
        what: "kernels, buffers and signals of another device are refused",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: other_devices,
    },
];

const OLD: u64 = 0xaaaa_aaaa_aaaa_aaaa;

fn all_scalars(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Scalars)?;
    let out = device.alloc(11)?;
    let sets = [
        (
            i8::MIN,
            i16::MIN,
            i32::MIN,
            i64::MIN,
            u8::MAX,
            u16::MAX,
            u32::MAX,
            u64::MAX,
            f32::MIN,
            f64::MIN,
        ),
        (
            i8::MAX,
            i16::MAX,
            i32::MAX,
            i64::MAX,
            0,
            0,
            0,
            0,
            f32::MAX,
            f64::MAX,
        ),
        (-1, -2, -3, -4, 5, 6, 7, 8, -0.0, -0.0),
        (
            1,
            0x0203,
            0x0405_0607,
            0x0809_0a0b_0c0d_0e0f,
            16,
            17,
            18,
            19,
            f32::MIN_POSITIVE,
            f64::NEG_INFINITY,
        ),
    ];
    for (a, b, c, d, e, f, g, h, i, j) in sets {
        out.write(&[OLD; 11])?;
        let args = [
            Arg::from(a),
            Arg::from(b),
            Arg::from(c),
            Arg::from(d),
            Arg::from(e),
            Arg::from(f),
            Arg::from(g),
            Arg::from(h),
            Arg::from(i),
            Arg::from(j),
            Arg::from(&out),
        ];
        let mut commands = device.compute_queue(0)?.record();
        // SAFETY: `out` has ten words and one more.
        unsafe { commands.exec(&kernel, &args, Grid::new(1, 1)) }?;
        commands.submit()?.wait()?;
        let signed = [i64::from(a), b.into(), c.into(), d].map(i64::cast_unsigned);
        let unsigned = [
            e.into(),
            f.into(),
            g.into(),
            h,
            i.to_bits().into(),
            j.to_bits(),
            OLD,
        ];
        same(
            "what the kernel saw",
            out.to_vec()?,
            [signed.as_slice(), &unsigned].concat(),
        )?;
    }
    Ok(())
}

fn floats(cx: &mut Context) -> Result<(), Failure> {
    const N: u32 = 777;
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Scale)?;
    let input: Vec<f32> = (0..N).map(|i| i as f32 * 0.25 - 64.0).collect();
    let (x, y) = (
        device.alloc_from(&input)?,
        device.alloc_from(&[f32::NAN; N as usize + 8])?,
    );
    let args = [
        Arg::from(0.5f32),
        Arg::from(-3.0f32),
        Arg::from(&x),
        Arg::from(&y),
        Arg::from(N),
    ];
    let mut commands = device.compute_queue(0)?.record();
    // SAFETY: both have `N` floats.
    unsafe { commands.exec(&kernel, &args, Grid::new(N.div_ceil(64), 64)) }?;
    commands.submit()?.wait()?;
    let bits: Vec<u32> = y.to_vec()?.into_iter().map(f32::to_bits).collect();
    each("y = 0.5 x - 3, as bits", &bits, |i| {
        input.get(i).map_or(f32::NAN, |x| 0.5 * x - 3.0).to_bits()
    })?;
    each("the input", &x.to_vec()?, |i| input[i])
}

fn patched_scalars(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Scalars)?;
    let out = device.alloc_from(&[OLD; 11])?;
    let mut commands = device.compute_queue(0)?.record();
    let mut var = || commands.var();
    let (narrow, half, word, long, float) = (var()?, var()?, var()?, var()?, var()?);
    let args = [
        Arg::from(-1i8),
        Arg::from(-2i16),
        Arg::from(-3i32),
        Arg::var(long, 8),
        Arg::var(narrow, 1),
        Arg::var(half, 2),
        // An adjusted variable, and the plain one beside it.
        Arg::scalar(Value::from(word) * 2 + 1, 4),
        Arg::scalar(word, 8),
        Arg::var(float, 4),
        Arg::from(2.5f64),
        Arg::from(&out),
    ];
    // SAFETY: `out` has ten words and one more.
    unsafe { commands.exec(&kernel, &args, Grid::new(1, 1)) }?;
    let mut bound = commands.bind()?;
    for round in 0..50u64 {
        let f = round as f32 * 0.5 - 3.0;
        bound.set(narrow, 255 - round)?;
        bound.set(half, 0xffff - 7 * round)?;
        bound.set(word, 0x7000_0000 + round)?;
        bound.set(long, u64::MAX - round)?;
        bound.set(float, f.to_bits().into())?;
        bound.submit()?.wait()?;
        let minus = |n: i64| n.cast_unsigned();
        let wanted = vec![
            minus(-1),
            minus(-2),
            minus(-3),
            u64::MAX - round,
            255 - round,
            0xffff - 7 * round,
            2 * (0x7000_0000 + round) + 1,
            0x7000_0000 + round,
            f.to_bits().into(),
            2.5f64.to_bits(),
            OLD,
        ];
        same(
            &format!("round {round}: what the kernel saw"),
            out.to_vec()?,
            wanted,
        )?;
    }
    // A value that its argument cannot hold is refused, and the old one stays.
    refused(
        "256 for a byte",
        bound
            .set(narrow, 256)
            .and_then(|()| bound.submit().map(drop)),
        |_| true,
    )?;
    bound.set(narrow, 17)?;
    bound.submit()?.wait()?;
    same("the byte after a refused one", out.to_vec()?[4], 17)
}

fn patched_buffers(cx: &mut Context) -> Result<(), Failure> {
    const N: u32 = 100;
    let n = N as usize;
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Add)?;
    let buffers = (0..6)
        .map(|i| device.alloc_from(&words(i, n)))
        .collect::<Result<Vec<_>, _>>()?;
    let mut host: Vec<Vec<u32>> = (0..6).map(|i| words(i, n)).collect();
    let mut commands = device.compute_queue(0)?.record();
    let mut var = || commands.var();
    let (a, b, out) = (var()?, var()?, var()?);
    let args = [
        Arg::address(a),
        Arg::address(b),
        Arg::address(out),
        Arg::from(N),
    ];
    // SAFETY: buffers of `N` words are patched in below, of which only the output may be an input too, item by item.
    unsafe { commands.exec(&kernel, &args, Grid::new(4, 25)) }?;
    let mut bound = commands.bind()?;
    for round in 0..60 {
        let [i, j, k] = [round % 6, round / 2 % 6, (round + 1 + round / 6) % 6];
        for (var, index) in [(a, i), (b, j), (out, k)] {
            bound.set(var, buffers[index].address())?;
        }
        // The next launch follows without the host waiting; only the last round is looked at in whole.
        bound.submit()?;
        host[k] = host[i]
            .iter()
            .zip(&host[j])
            .map(|(a, b)| a.wrapping_add(*b))
            .collect();
    }
    device.synchronize()?;
    for (i, (buffer, wanted)) in buffers.iter().zip(&host).enumerate() {
        each(&format!("buffer {i}"), &buffer.to_vec()?, |at| wanted[at])?;
    }
    Ok(())
}

fn own_block(cx: &mut Context) -> Result<(), Failure> {
    const LAUNCHES: u32 = 2000;
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Fill)?;
    let out = device.alloc_from(&words(4, LAUNCHES as usize + 1))?;
    let mut commands = device.compute_queue(0)?.record();
    for i in 0..LAUNCHES {
        let args = [
            Arg::address(out.address() + 4 * u64::from(i)),
            Arg::from(!i),
            Arg::from(1u32),
        ];
        // SAFETY: a word of `out`.
        unsafe { commands.exec(&kernel, &args, Grid::new(1, 1)) }?;
    }
    commands.submit()?.wait()?;
    each("a word for each launch", &out.to_vec()?, |i| {
        if i == LAUNCHES as usize {
            word(4, i)
        } else {
            !(i as u32)
        }
    })
}

fn views(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Copy)?;
    let (from, to) = (
        device.alloc_from(&words(1, 200))?,
        device.alloc_from(&words(2, 200))?,
    );
    let (source, destination) = (from.view(30..80)?, to.view(101..151)?);
    same(
        "elements of a view",
        (source.len(), source.address()),
        (50, from.address() + 120),
    )?;
    let mut commands = device.compute_queue(0)?.record();
    let args = [
        Arg::from(&source),
        Arg::from(&destination),
        Arg::from(50u32),
    ];
    // SAFETY: both views have 50 words.
    unsafe { commands.exec(&kernel, &args, Grid::new(5, 10)) }?;
    commands.submit()?.wait()?;
    each("the destination's buffer", &to.to_vec()?, |i| match i {
        101..151 => word(1, i - 101 + 30),
        _ => word(2, i),
    })?;
    each("the destination", &destination.to_vec()?, |i| {
        word(1, i + 30)
    })?;
    for range in [(150, 201), (200, 202), (7, 3)] {
        let view = to.view(range.0..range.1).map(drop);
        refused(&format!("a view of {range:?} of 200 elements"), view, |e| {
            matches!(e, Error::Range { .. })
        })?;
    }
    Ok(())
}

fn errors_change_nothing(cx: &mut Context) -> Result<(), Failure> {
    const N: u32 = 64;
    let device = cx.device();
    let (stepping, adding) = (
        cx.kernel(device, Stock::Step)?,
        cx.kernel(device, Stock::Add)?,
    );
    let (data, done) = (device.alloc_from(&words(5, N as usize))?, device.signal()?);
    let good = step(&data, 3, 1, N);
    let mut commands = device.compute_queue(0)?.record();
    // SAFETY: `data` has `N` words.
    unsafe { commands.exec(&stepping, &good, Grid::new(2, 32)) }?;

    let few = &good[..3];
    // SAFETY: it is refused.
    let e = refused(
        "three arguments of four",
        unsafe { commands.exec(&stepping, few, Grid::new(2, 32)) }.map(drop),
        |e| {
            matches!(
                e,
                Error::ArgumentCount {
                    expected: 4,
                    given: 3,
                    ..
                }
            )
        },
    )?;
    says(&e.to_string(), &[Stock::Step.name(), "4", "3"])?;
    let five = [good.as_slice(), &[Arg::from(1u32)]].concat();
    // SAFETY: it is refused.
    let result = unsafe { commands.exec(&stepping, &five, Grid::new(2, 32)) };
    refused("five arguments of four", result.map(drop), |e| {
        matches!(
            e,
            Error::ArgumentCount {
                expected: 4,
                given: 5,
                ..
            }
        )
    })?;
    let wrong = [
        (0, Arg::from(1u64), "a number for a buffer"),
        (1, Arg::from(&data), "a buffer for a number"),
        (2, Arg::from(1u64), "eight bytes for four"),
        (3, Arg::from(1u8), "one byte for four"),
    ];
    let known = if cx.programs_tell_arguments() { 0 } else { 1 };
    for (index, arg, what) in wrong.into_iter().skip(known) {
        let mut args = good;
        args[index] = arg;
        // SAFETY: it is refused.
        let e = refused(
            what,
            unsafe { commands.exec(&stepping, &args, Grid::new(2, 32)) }.map(drop),
            |e| matches!(e, Error::Argument { index: i, .. } if *i == index),
        )?;
        says(&e.to_string(), &[Stock::Step.name(), &index.to_string()])?;
    }
    let sizes = [
        Grid::new([0, 1, 1], 1),
        Grid::new([1, 1, 0], 1),
        Grid::new(1, [1, 0, 1]),
        Grid::new((1u64 << 40, 1u32, 1u32), 1),
    ];
    for grid in sizes {
        // SAFETY: it is refused.
        let result = unsafe { commands.exec(&stepping, &good, grid) }.map(drop);
        refused(&format!("a grid of {grid:?}"), result, |e| {
            matches!(e, Error::Record { .. })
        })?;
    }
    // SAFETY: it is refused.
    let result = unsafe { commands.exec(&adding, &good, Grid::new(2, 32)) }.map(drop);
    refused("arguments of another kernel", result, |e| {
        matches!(e, Error::Argument { .. })
    })?;

    commands.signal(&done, 9u64)?.submit()?.wait()?;
    // Had any of them left something behind, the data would show a second step, or the device a fault.
    each("the data", &data.to_vec()?, |i| {
        word(5, i).wrapping_mul(3).wrapping_add(1)
    })?;
    same("the signal behind them", done.value(), 9)
}

fn other_devices(cx: &mut Context) -> Result<(), Failure> {
    let (device, other) = (cx.device(), cx.open(|o| o)?);
    let (kernel, foreign) = (
        cx.kernel(device, Stock::Step)?,
        cx.kernel(&other, Stock::Step)?,
    );
    let (data, done) = (device.alloc_from(&[1u32])?, other.signal()?);
    let by = |e: &Error| matches!(e, Error::OtherDevice { .. });
    let mut commands = device.compute_queue(0)?.record();
    // SAFETY: it is refused.
    let result = unsafe { commands.exec(&foreign, &step(&data, 1, 1, 1), Grid::new(1, 1)) };
    refused("a foreign kernel", result.map(drop), by)?;
    let elsewhere = other.alloc_from(&[1u32])?;
    // SAFETY: it is refused.
    let result = unsafe { commands.exec(&kernel, &step(&elsewhere, 1, 1, 1), Grid::new(1, 1)) };
    refused("a foreign buffer", result.map(drop), by)?;
    refused(
        "a foreign signal",
        commands.signal(&done, 1u64).map(drop),
        by,
    )?;
    refused(
        "a wait for a foreign signal",
        commands.wait(&done, 1u64).map(drop),
        by,
    )?;
    // SAFETY: `data` has one word.
    unsafe { commands.exec(&kernel, &step(&data, 1, 41, 1), Grid::new(1, 1)) }?;
    commands.submit()?.wait()?;
    same("the data", data.to_vec()?, vec![42])?;
    drop(elsewhere);
    Ok(other.close()?)
}
