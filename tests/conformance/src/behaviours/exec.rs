//! Launches of kernels: that they run once, in order, over the grid asked for.
#![allow(unsafe_code, reason = "launches kernels")]

use hcq_std::{Arg, Buffer, Grid};

use crate::check::{Numbers, each, same, word, words};
use crate::kinds::{Stock, spun};
use crate::{Behaviour, Context, Failure, Needs};

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "exec.once",
        what: "a launch runs each item once, and no item beyond the grid",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: once,
    },
    Behaviour {
        name: "exec.empty-kernel",
        what: "a kernel without arguments can be launched a thousand times in one submission",
        needs: Needs::COMPUTE.kernels(&[Stock::Empty, Stock::Step]),
        run: empty_kernel,
    },
    Behaviour {
        name: "exec.two-kernels-hundred-times",
        what: "two kernels take turns a hundred times in one submission, each seeing what the one before wrote",
        needs: Needs::COMPUTE.kernels(&[Stock::Step, Stock::Add]),
        run: two_kernels,
    },
    Behaviour {
        name: "exec.in-order",
        what: "launches of one queue run in order, within a submission and across submissions",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: in_order,
    },
    Behaviour {
        name: "exec.grid-shapes",
        what: "all shapes up to 3x3x3 groups, and some large ones, give each item its place, once",
        needs: Needs::COMPUTE.kernels(&[Stock::Dims]),
        run: grid_shapes,
    },
    Behaviour {
        name: "exec.patched-sizes",
        what: "a bound launch runs over the group and item counts patched in, over all shapes up to 3x3x3",
        needs: Needs::COMPUTE.kernels(&[Stock::Dims]),
        run: patched_sizes,
    },
    Behaviour {
        name: "exec.many-groups",
        what: "a launch of more than 65,535 groups in dimension 0 runs all of them once",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: many_groups,
    },
    Behaviour {
        name: "exec.slow-groups",
        what: "a launch is over when its last group is, whoever runs it: what follows sees all of it",
        needs: Needs::COMPUTE.kernels(&[Stock::Spin, Stock::Copy]),
        run: slow_groups,
    },
    Behaviour {
        name: "exec.local-memory",
        what: "groups have local memory of the size asked for, aligned and their own, in many sizes",
        needs: Needs::COMPUTE.kernels(&[Stock::Reduce]),
        run: local_memory,
    },
    Behaviour {
        name: "exec.kernel-outlives-its-handle",
        what: "a kernel whose last handle is dropped while its launch waits runs as if it were not",
        needs: Needs::COMPUTE.kernels(&[Stock::Step]),
        run: dropped_kernel,
    },
];

/// The arguments of [`Stock::Step`].
pub(crate) fn step<'a>(data: &'a Buffer<u32>, factor: u32, add: u32, n: u32) -> [Arg<'a>; 4] {
    [
        Arg::from(data),
        Arg::from(factor),
        Arg::from(add),
        Arg::from(n),
    ]
}

fn once(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Step)?;
    // Sizes around the groups' own: the last one partly beyond `n`, and a guard behind it.
    for (n, local) in [
        (1u32, 1u32),
        (1, 64),
        (63, 32),
        (64, 32),
        (65, 32),
        (1000, 7),
        (4096, 256),
    ] {
        let data = device.alloc_from(&words(n.into(), n as usize + 64))?;
        let mut commands = device.compute_queue(0)?.record();
        // SAFETY: `data` has `n` words and more.
        unsafe {
            commands.exec(
                &kernel,
                &step(&data, 1, 1, n),
                Grid::new(n.div_ceil(local), local),
            )
        }?;
        commands.submit()?.wait()?;
        each(
            &format!("{n} items in groups of {local}"),
            &data.to_vec()?,
            |i| word(n.into(), i).wrapping_add(u32::from(i < n as usize)),
        )?;
    }
    Ok(())
}

fn empty_kernel(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (empty, stepping) = (
        cx.kernel(device, Stock::Empty)?,
        cx.kernel(device, Stock::Step)?,
    );
    let data = device.alloc_from(&[5u32])?;
    let mut commands = device.compute_queue(0)?.record();
    for _ in 0..1000 {
        // SAFETY: it does nothing.
        unsafe { commands.exec(&empty, &[], Grid::new(1, 1)) }?;
    }
    // SAFETY: `data` has one word.
    unsafe { commands.exec(&stepping, &step(&data, 3, 1, 1), Grid::new(1, 1)) }?;
    commands.submit()?.wait()?;
    same(
        "what the kernel behind them wrote",
        data.to_vec()?,
        vec![16],
    )
}

fn two_kernels(cx: &mut Context) -> Result<(), Failure> {
    const N: u32 = 1000;
    let device = cx.device();
    let (stepping, adding) = (
        cx.kernel(device, Stock::Step)?,
        cx.kernel(device, Stock::Add)?,
    );
    let (a, b) = (
        device.alloc_from(&words(1, N as usize))?,
        device.alloc_from(&words(2, N as usize))?,
    );
    let mut commands = device.compute_queue(0)?.record();
    for _ in 0..100 {
        // SAFETY: `a` has `N` words.
        unsafe { commands.exec(&stepping, &step(&a, 5, 3, N), Grid::new(N.div_ceil(64), 64)) }?;
        let args = [Arg::from(&a), Arg::from(&b), Arg::from(&b), Arg::from(N)];
        // SAFETY: both have `N` words, and an item reads its word of `b` before it writes it.
        unsafe { commands.exec(&adding, &args, Grid::new(N.div_ceil(128), 128)) }?;
    }
    commands.submit()?.wait()?;
    let (mut wanted_a, mut wanted_b) = (words(1, N as usize), words(2, N as usize));
    for _ in 0..100 {
        for (a, b) in wanted_a.iter_mut().zip(&mut wanted_b) {
            *a = a.wrapping_mul(5).wrapping_add(3);
            *b = b.wrapping_add(*a);
        }
    }
    each("the first kernel's data", &a.to_vec()?, |i| wanted_a[i])?;
    each("the second kernel's data", &b.to_vec()?, |i| wanted_b[i])
}

fn in_order(cx: &mut Context) -> Result<(), Failure> {
    const N: u32 = 300;
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Step)?;
    let queue = device.compute_queue(0)?;
    let data = device.alloc_from(&words(3, N as usize))?;
    let mut wanted = words(3, N as usize);
    let mut numbers = Numbers::new(3);
    for _ in 0..50 {
        let mut commands = queue.record();
        for _ in 0..4 {
            // Odd factors lose nothing, so any other order shows.
            let (factor, add) = (numbers.next() as u32 | 1, numbers.next() as u32);
            // SAFETY: `data` has `N` words.
            unsafe {
                commands.exec(
                    &kernel,
                    &step(&data, factor, add, N),
                    Grid::new(N.div_ceil(32), 32),
                )
            }?;
            wanted
                .iter_mut()
                .for_each(|w| *w = w.wrapping_mul(factor).wrapping_add(add));
        }
        commands.submit()?;
    }
    device.synchronize()?;
    each("after 200 launches", &data.to_vec()?, |i| wanted[i])
}

/// What [`Stock::Dims`] leaves of a grid.
fn dims_wanted(groups: [u32; 3], local: [u32; 3]) -> Vec<u32> {
    let pack = |[x, y, z]: [u32; 3]| x | y << 10 | z << 20;
    let [gx, gy, gz] = groups;
    let [lx, ly, lz] = local;
    let mut out = Vec::new();
    for z in 0..gz * lz {
        for y in 0..gy * ly {
            for x in 0..gx * lx {
                out.extend([1, pack([x / lx, y / ly, z / lz]), pack(groups), pack(local)]);
            }
        }
    }
    out
}

/// Words that [`Stock::Dims`] may write for shapes up to 3x3x3 groups of 3x3x3 items, and for the large ones.
const DIMS: usize = 4 * 27 * 27;
/// Shapes of groups and items with enough groups that engines take several at a time.
const LARGE: [[[u32; 3]; 2]; 3] = [
    [[7, 11, 9], [1, 1, 1]],
    [[130, 1, 2], [2, 1, 1]],
    [[2, 3, 43], [1, 2, 1]],
];
/// What is there before; the first word of each four counts from zero.
const OLD: u32 = 0xaaaa_aaaa;

fn dims_reset(out: &Buffer<u32>) -> Result<(), Failure> {
    let blank: Vec<u32> = (0..DIMS + 16)
        .map(|i| if i % 4 == 0 { 0 } else { OLD })
        .collect();
    Ok(out.write(&blank)?)
}

fn dims_check(out: &Buffer<u32>, groups: [u32; 3], local: [u32; 3]) -> Result<(), Failure> {
    let wanted = dims_wanted(groups, local);
    each(
        &format!("groups {groups:?} of items {local:?}"),
        &out.to_vec()?,
        |i| {
            wanted
                .get(i)
                .copied()
                .unwrap_or(if i % 4 == 0 { 0 } else { OLD })
        },
    )
}

/// The shape with this number, 0 to 26: each dimension from 1 to 3.
const fn shape(n: u32) -> [u32; 3] {
    [n % 3 + 1, n / 3 % 3 + 1, n / 9 % 3 + 1]
}

fn grid_shapes(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Dims)?;
    let out = device.alloc(DIMS + 16)?;
    let mut numbers = Numbers::new(27);
    let small = (0..27).map(|n| [shape(n), shape(numbers.below(27) as u32)]);
    for [groups, local] in small.chain(LARGE) {
        dims_reset(&out)?;
        let mut commands = device.compute_queue(0)?.record();
        // SAFETY: `out` has words for the largest shape.
        unsafe { commands.exec(&kernel, &[Arg::from(&out)], Grid::new(groups, local)) }?;
        commands.submit()?.wait()?;
        dims_check(&out, groups, local)?;
    }
    Ok(())
}

fn patched_sizes(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Dims)?;
    let out = device.alloc(DIMS + 16)?;
    let mut commands = device.compute_queue(0)?.record();
    let mut var = || commands.var();
    let (groups, local) = ([var()?, var()?, var()?], [var()?, var()?, var()?]);
    // SAFETY: `out` has words for the largest shape that is patched in below.
    unsafe {
        commands.exec(
            &kernel,
            &[Arg::from(&out)],
            Grid::new(<(_, _, _)>::from(groups), <(_, _, _)>::from(local)),
        )
    }?;
    let mut bound = commands.bind()?;
    let mut numbers = Numbers::new(333);
    for n in 0..81 {
        // All shapes of groups three times, with items at random; and all shapes of items once.
        let items = if n < 54 {
            numbers.below(27) as u32
        } else {
            n - 54
        };
        let (g, l) = (shape(n % 27), shape(items));
        dims_reset(&out)?;
        for (var, value) in groups.into_iter().zip(g).chain(local.into_iter().zip(l)) {
            bound.set(var, value.into())?;
        }
        bound.submit()?.wait()?;
        dims_check(&out, g, l)?;
    }
    Ok(())
}

fn many_groups(cx: &mut Context) -> Result<(), Failure> {
    const N: u32 = 3 * 65_537;
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Step)?;
    let data = device.alloc_from(&words(9, N as usize))?;
    let mut commands = device.compute_queue(0)?.record();
    // SAFETY: `data` has `N` words.
    unsafe { commands.exec(&kernel, &step(&data, 1, 1, N), Grid::new(65_537, 3)) }?;
    commands.submit()?.wait()?;
    each("65,537 groups of three", &data.to_vec()?, |i| {
        word(9, i).wrapping_add(1)
    })
}

fn slow_groups(cx: &mut Context) -> Result<(), Failure> {
    const GROUPS: u32 = 24;
    let device = cx.device();
    let (spin, copy) = (
        cx.kernel(device, Stock::Spin)?,
        cx.kernel(device, Stock::Copy)?,
    );
    let (out, seen) = (
        device.alloc::<u32>(GROUPS as usize)?,
        device.alloc::<u32>(GROUPS as usize)?,
    );
    for round in 0..40u32 {
        let turns = 1000 + 500 * (round % 8);
        let mut commands = device.compute_queue(0)?.record();
        // A launch that others help with, and a short one that reads what it wrote: it must not overtake the last group.
        let args = [Arg::from(&out), Arg::from(turns), Arg::from(round)];
        // SAFETY: `out` has a word for every group.
        unsafe { commands.exec(&spin, &args, Grid::new(GROUPS, 1)) }?;
        let args = [Arg::from(&out), Arg::from(&seen), Arg::from(GROUPS)];
        // SAFETY: both have `GROUPS` words.
        unsafe { commands.exec(&copy, &args, Grid::new(1, GROUPS)) }?;
        commands.submit()?.wait()?;
        each(
            &format!("round {round}: what followed saw"),
            &seen.to_vec()?,
            |g| spun(turns, round, g as u32),
        )?;
    }
    Ok(())
}

fn local_memory(cx: &mut Context) -> Result<(), Failure> {
    const GROUPS: u32 = 37;
    let device = cx.device();
    let kernel = cx.kernel(device, Stock::Reduce)?;
    for n in [1u32, 2, 15, 16, 17, 255, 1000, 4096] {
        let count = (n * GROUPS) as usize;
        let input = device.alloc_from(&words(n.into(), count))?;
        let out = device.alloc_from(&[OLD; 2 * GROUPS as usize])?;
        let args = [Arg::from(&input), Arg::from(&out), Arg::from(n)];
        let mut commands = device.compute_queue(0)?.record();
        // SAFETY: `input` has `n` words for every group, `out` two.
        unsafe { commands.exec(&kernel, &args, Grid::new(GROUPS, 1).local_memory(4 * n)) }?;
        commands.submit()?.wait()?;
        let sum = |g: usize| {
            (0..n as usize).fold(0u32, |s, i| {
                s.wrapping_add(word(n.into(), g * n as usize + i))
            })
        };
        each(
            &format!("sums over {n} words of local memory, and its alignment"),
            &out.to_vec()?,
            |i| {
                if i % 2 == 0 { sum(i / 2) } else { 0 }
            },
        )?;
    }
    Ok(())
}

fn dropped_kernel(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let gate = device.signal()?;
    let data = device.alloc_from(&[1u32; 64])?;
    let mut commands = device.compute_queue(0)?.record();
    commands.wait(&gate, 1u64)?;
    let kernel = cx.kernel(device, Stock::Step)?;
    // SAFETY: `data` has 64 words.
    unsafe { commands.exec(&kernel, &step(&data, 2, 5, 64), Grid::new(2, 32)) }?;
    drop(kernel);
    let point = commands.submit()?;
    drop(commands);
    gate.set(1)?;
    point.wait()?;
    each("what it wrote", &data.to_vec()?, |_| 7)
}
