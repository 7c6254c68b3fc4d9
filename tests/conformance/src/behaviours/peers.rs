//! Several devices of one machine: they share memory and signals, and wait for each other.
#![allow(unsafe_code, reason = "launches kernels")]

use hcq_std::{Arg, Commands, Device, Error, Grid, Kernel, Point, View};

use crate::check::word;
use crate::kinds::Stock;
use crate::{Behaviour, Context, Failure, Needs};

mod memory;
mod order;

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "peer.reads",
        what: "a device reads through a view what another one's queues wrote, in both directions, again and again",
        needs: Needs::BOTH.devices(2),
        run: memory::reads,
    },
    Behaviour {
        name: "peer.writes",
        what: "a device writes through a view, and the memory's own device and the host see it, and nothing beside it",
        needs: Needs::BOTH.devices(2),
        run: memory::writes,
    },
    Behaviour {
        name: "peer.copies",
        what: "copies between two devices' memories move all bytes, whoever makes them, of every length and alignment",
        needs: Needs::COPY.devices(2),
        run: memory::copies,
    },
    Behaviour {
        name: "peer.kernels",
        what: "kernels of two devices take turns at the same memory, each on what the other left",
        needs: Needs::COMPUTE.devices(2).kernels(&[Stock::Step]),
        run: order::kernels,
    },
    Behaviour {
        name: "peer.bound",
        what: "a bound queue writes to another device's memory at places and with values that are patched in",
        needs: Needs::COMPUTE.devices(2),
        run: memory::bound,
    },
    Behaviour {
        name: "peer.signals",
        what: "a queue waits for a shared signal until the other device, or the host, sets it, and not before",
        needs: Needs::COMPUTE.devices(2),
        run: order::signals,
    },
    Behaviour {
        name: "peer.ping-pong",
        what: "two devices' queues hand data to and fro by a shared signal, with no host between them",
        needs: Needs::COMPUTE.devices(2).kernels(&[Stock::Step]),
        run: order::ping_pong,
    },
    Behaviour {
        name: "peer.after",
        what: "what comes after another device's point does not run before it is complete",
        needs: Needs::COMPUTE.devices(2),
        run: order::after,
    },
    Behaviour {
        name: "peer.after-many",
        what: "points of both devices, old and new, are waited for at once; epochs of their timelines do not matter",
        needs: Needs::COMPUTE.devices(2),
        run: order::after_many,
    },
    Behaviour {
        name: "peer.ring-of-four",
        what: "data goes round four devices, each adding its own",
        needs: Needs::COMPUTE.devices(4).kernels(&[Stock::Add]),
        run: order::ring_of_four,
    },
    Behaviour {
        name: "peer.threads",
        what: "threads that submit to two devices, each after the other's work, neither block nor disturb each other",
        needs: Needs::COMPUTE.devices(2),
        run: order::threads,
    },
    Behaviour {
        name: "peer.shared-on",
        what: "views and signals that were shared are shared on, and back to where they come from",
        needs: Needs::COPY.devices(2),
        run: memory::shared_on,
    },
    Behaviour {
        name: "peer.kept",
        what: "memory lives as long as a view of it, on whichever device",
        needs: Needs::COPY.devices(2),
        run: memory::kept,
    },
    Behaviour {
        name: "peer.not-shared",
        what: "buffers and signals of another device that were not shared are refused",
        needs: Needs::BOTH.devices(2),
        run: memory::not_shared,
    },
    Behaviour {
        name: "peer.timestamps",
        what: "times of two devices agree with the order of their work, to the errors that the devices state",
        needs: Needs::COMPUTE.devices(2),
        run: order::timestamps,
    },
    Behaviour {
        name: "peer.dropped-view",
        what: "a view that was dropped is a fault on the device that had it, and its memory lives on",
        needs: Needs::COMPUTE.devices(2).own_addresses().faults(),
        run: memory::dropped_view,
    },
    Behaviour {
        name: "peer.fault",
        what: "a fault of one device is told to who waits for it, by name, and holds the other one up no further",
        needs: Needs::COMPUTE.devices(2).faults(),
        run: order::fault,
    },
];

/// Words of a buffer here: more than a page, and no power of two.
const N: usize = 3000;

/// What is shared, unless the machine has no way for it.
#[track_caller]
fn reach<T>(shared: Result<T, Error>) -> Result<T, Failure> {
    match shared {
        Err(e @ Error::Unreachable { .. }) => Err(Failure::missing(format!(
            "memory that the devices reach of each other: {e}"
        ))),
        other => Ok(other?),
    }
}

/// Both orders of two devices.
fn both(cx: &Context) -> Result<[[&Device; 2]; 2], Failure> {
    let [one, two] = cx.pair()?;
    Ok([[one, two], [two, one]])
}

/// A launch of [`Stock::Step`] on memory that may be another device's.
fn step(
    device: &Device,
    kernel: &Kernel,
    data: &View<u32>,
    [factor, add]: [u32; 2],
    around: impl FnOnce(&mut Commands, bool) -> Result<(), Error> + Copy,
) -> Result<Point, Failure> {
    let mut commands = device.compute_queue(0)?.record();
    around(&mut commands, false)?;
    let n = data.len() as u32;
    let args = [
        Arg::buffer(data),
        Arg::from(factor),
        Arg::from(add),
        Arg::from(n),
    ];
    // SAFETY: `data` has the words that the last argument says.
    unsafe { commands.exec(kernel, &args, Grid::new(n.div_ceil(64), 64)) }?;
    around(&mut commands, true)?;
    Ok(commands.submit()?)
}

/// What [`Stock::Step`] makes of a word in so many rounds: `factors(round)` are its arguments.
fn stepped(seed: u64, i: usize, rounds: u32, factors: impl Fn(u32) -> [u32; 2]) -> u32 {
    (0..rounds).fold(word(seed, i), |x, round| {
        let [factor, add] = factors(round);
        x.wrapping_mul(factor).wrapping_add(add)
    })
}

const fn factors(round: u32) -> [u32; 2] {
    [3 + 2 * round, 1000 + round]
}
