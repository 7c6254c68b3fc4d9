//! What devices see of each other's memory.

use hcq_std::{Error, FaultKind};

use super::{N, both, reach};
use crate::check::{bulk, bytes, each, refused, same, word, words};
use crate::{Context, Failure};

pub(super) fn reads(cx: &mut Context) -> Result<(), Failure> {
    for [home, guest] in both(cx)? {
        let (data, copy) = (home.alloc::<u32>(N)?, guest.alloc::<u32>(N)?);
        let seen = reach(data.share(guest))?;
        same("its length", seen.len(), N)?;
        for round in 0..20u64 {
            // What the guest's caches hold of the round before is old.
            let wrote = if round % 2 == 0 {
                let queue = home.copy_queue(0)?;
                queue.record().upload(&*data, &words(round, N))?.submit()?
            } else {
                let mut commands = home.compute_queue(0)?.record();
                for (i, value) in words(round, N).into_iter().enumerate() {
                    commands.write32(data.address() + 4 * i as u64, u64::from(value))?;
                }
                commands.submit()?
            };
            let mut commands = guest.copy_queue(0)?.record();
            commands.after(&wrote)?.copy(&*copy, &seen)?;
            commands.submit()?.wait()?;
            each(&format!("round {round}"), &copy.to_vec()?, |i| {
                word(round, i)
            })?;
        }
    }
    Ok(())
}

pub(super) fn writes(cx: &mut Context) -> Result<(), Failure> {
    for [home, guest] in both(cx)? {
        let (data, copy) = (home.alloc_from(&words(1, N))?, home.alloc::<u32>(N)?);
        let all = reach(data.share(guest))?;
        let (from, to) = (700, 2100);
        let part = all.view(from..to)?;
        for round in 0..20u64 {
            let wrote = if round % 2 == 0 {
                let queue = guest.copy_queue(0)?;
                let new = words(100 + round, to - from);
                queue.record().upload(&part, &new)?.submit()?
            } else {
                let mut commands = guest.compute_queue(0)?.record();
                for (i, value) in words(100 + round, to - from).into_iter().enumerate() {
                    commands.write32(part.address() + 4 * i as u64, u64::from(value))?;
                }
                commands.submit()?
            };
            let wanted = |i: usize| {
                if (from..to).contains(&i) {
                    word(100 + round, i - from)
                } else {
                    word(1, i)
                }
            };
            let mut commands = home.copy_queue(0)?.record();
            let read = commands.after(&wrote)?.copy(&*copy, &*data)?.submit()?;
            read.wait()?;
            each(
                &format!("round {round}, by its device"),
                &copy.to_vec()?,
                wanted,
            )?;
            each(
                &format!("round {round}, by the host"),
                &data.to_vec()?,
                wanted,
            )?;
        }
    }
    Ok(())
}

pub(super) fn copies(cx: &mut Context) -> Result<(), Failure> {
    const ROOM: usize = 1 << 16;
    for [one, two] in both(cx)? {
        let (from, to) = (one.alloc_from(&bytes(1, ROOM))?, two.alloc::<u8>(ROOM)?);
        let (from_two, to_one) = (reach(from.share(two))?, reach(to.share(one))?);
        for (i, len) in (1..=40).chain([4095, 4096, 4097, 60_000]).enumerate() {
            let (a, b) = (i % 16, i * 7 % 16);
            to.write(&bytes(2, ROOM))?;
            let mut wanted = bytes(2, ROOM);
            wanted[b..b + len].copy_from_slice(&bytes(1, ROOM)[a..a + len]);
            let point = if i % 2 == 0 {
                // Pushed by the source's device.
                let (source, target) = (from.view(a..a + len)?, to_one.view(b..b + len)?);
                let mut commands = one.copy_queue(0)?.record();
                commands.copy(&target, &source)?.submit()?
            } else {
                let (source, target) = (from_two.view(a..a + len)?, to.view(b..b + len)?);
                let mut commands = two.copy_queue(0)?.record();
                commands.copy(&target, &source)?.submit()?
            };
            point.wait()?;
            bulk(
                &format!("{len} bytes from {a} to {b}"),
                &to.to_vec()?,
                &wanted,
            )?;
        }
        bulk("the source", &from.to_vec()?, &bytes(1, ROOM))?;
    }
    Ok(())
}

pub(super) fn bound(cx: &mut Context) -> Result<(), Failure> {
    const ROUNDS: usize = 200;
    for [home, guest] in both(cx)? {
        let data = home.alloc_from(&words(6, ROUNDS))?;
        let seen = reach(data.share(guest))?;
        let mut commands = guest.compute_queue(0)?.record();
        let (place, value) = (commands.var()?, commands.var()?);
        commands.write32(place, value)?;
        let mut bound = commands.bind()?;
        // Every other one stays as it is.
        for i in (0..ROUNDS).step_by(2) {
            bound.set(place, seen.address() + 4 * i as u64)?;
            bound.set(value, u64::from(word(7, i)))?;
            bound.submit()?;
        }
        guest.synchronize()?;
        each("what was written", &data.to_vec()?, |i| {
            word(if i % 2 == 0 { 7 } else { 6 }, i)
        })?;
    }
    Ok(())
}

pub(super) fn shared_on(cx: &mut Context) -> Result<(), Failure> {
    for [home, guest] in both(cx)? {
        let data = home.alloc_from(&words(9, N))?;
        let there = reach(data.share(guest))?;
        let again = reach(data.share(guest))?;
        same("a second view's address", again.address(), there.address())?;
        let back = there.share(home)?;
        same("the address at home", back.address(), data.address())?;
        let part = reach(data.view(10..20)?.share(guest))?;
        same("a part's address", part.address(), there.address() + 40)?;
        // Only what came back holds the memory now.
        drop((data, there, again, part));
        let copy = home.alloc::<u32>(N)?;
        let mut commands = home.copy_queue(0)?.record();
        commands.copy(&*copy, &back)?.submit()?.wait()?;
        each("what came back", &copy.to_vec()?, |i| word(9, i))?;

        let signal = home.signal()?;
        let seen = reach(signal.share(guest))?;
        let home_again = seen.share(home)?;
        same(
            "the signal's address",
            home_again.address(),
            signal.address(),
        )?;
        drop(signal);
        let waiting = home
            .copy_queue(0)?
            .record()
            .wait(&home_again, 3u64)?
            .submit()?;
        guest
            .copy_queue(0)?
            .record()
            .signal(&seen, 3u64)?
            .submit()?;
        waiting.wait()?;
    }
    Ok(())
}

pub(super) fn kept(cx: &mut Context) -> Result<(), Failure> {
    for [home, guest] in both(cx)? {
        for round in 0..30u64 {
            let data = home.alloc_from(&words(round, N))?;
            let seen = reach(data.share(guest))?;
            drop(data);
            // Whoever takes its place would overwrite it.
            let others = (0..4)
                .map(|_| home.alloc_from(&words(999, N)))
                .collect::<Result<Vec<_>, _>>()?;
            let copy = guest.alloc::<u32>(N)?;
            let gate = guest.signal()?;
            let mut commands = guest.copy_queue(0)?.record();
            let point = commands.wait(&gate, 1u64)?.copy(&*copy, &seen)?.submit()?;
            // In flight, too.
            drop(seen);
            let more = home.alloc_from(&words(998, N))?;
            gate.set(1)?;
            point.wait()?;
            each(&format!("round {round}"), &copy.to_vec()?, |i| {
                word(round, i)
            })?;
            drop((others, more));
        }
    }
    Ok(())
}

pub(super) fn not_shared(cx: &mut Context) -> Result<(), Failure> {
    let other = |e: &Error| matches!(e, Error::OtherDevice { .. });
    for [home, guest] in both(cx)? {
        let (theirs, own) = (
            home.alloc_from(&words(1, N))?,
            guest.alloc_from(&words(2, N))?,
        );
        let (signal, done) = (home.signal()?, guest.signal()?);
        let mut commands = guest.copy_queue(0)?.record();
        refused("a copy from it", commands.copy(&*own, &*theirs), other)?;
        refused("a copy to it", commands.copy(&*theirs, &*own), other)?;
        refused("a wait for its signal", commands.wait(&signal, 1u64), other)?;
        refused("its signal", commands.signal(&signal, 1u64), other)?;
        // The recording is as it was before.
        commands.signal(&done, 1u64)?.submit()?.wait()?;
        same("signals", [signal.value(), done.value()], [0, 1])?;
        each("its memory", &theirs.to_vec()?, |i| word(1, i))?;
        each("the memory", &own.to_vec()?, |i| word(2, i))?;
    }
    Ok(())
}

pub(super) fn dropped_view(cx: &mut Context) -> Result<(), Failure> {
    let [home, guest] = cx.pair()?;
    let data = home.alloc_from(&words(3, N))?;
    let view = reach(data.share(guest))?;
    let at = view.address();
    let write = |value: u64| {
        let mut commands = guest.compute_queue(0)?.record();
        commands.write32(at, value)?.submit()?.wait()
    };
    write(11)?;
    same("shared", data.to_vec()?[0], 11)?;
    drop(view);
    guest.synchronize()?;
    let late = write(12);
    match late {
        Err(Error::Fault(record)) => {
            same("its kind", record.kind, FaultKind::Memory)?;
            same("its page", record.address & !0xfff, at & !0xfff)?;
        }
        other => {
            return Err(Failure::new(format!(
                "a write through a dropped view: a fault wanted, seen: {other:?}"
            )));
        }
    }
    same("its memory", data.to_vec()?[0], 11)?;
    // The memory's own device works on.
    let done = home.signal()?;
    let mut commands = home.compute_queue(0)?.record();
    commands
        .write32(data.address(), 13u64)?
        .signal(&done, 1u64)?;
    commands.submit()?.wait()?;
    same("its memory, by its device", data.to_vec()?[0], 13)?;
    same("the fault of its device", home.fault(), None)
}
