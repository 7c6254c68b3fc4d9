//! Words that mean nothing.

use super::super::channel::ChannelEngine;
use super::support::*;
use crate::engine::Step;

/// Runs a bounded number of steps; whatever comes out is fine.
fn walk(rig: &mut Rig) {
    for _ in 0..2000 {
        match rig.step() {
            Step::Progress => {}
            Step::Idle | Step::Waiting | Step::Fault(_) => break,
        }
    }
}

#[test]
fn any_pushbuffer_ends_in_order() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut taken = 0;
    for round in 0..3000 {
        let name = ["ampere", "ada", "hopper", "blackwell"][round % 4];
        let engine = if round % 3 == 0 {
            ChannelEngine::Copy(0)
        } else {
            ChannelEngine::Graphics
        };
        let mut rig = Rig::on(name, engine, round as u64);
        let mut words = Vec::new();
        for _ in 0..random.usize(1..12) {
            // Headers that are right more often than not, with data of all kinds.
            let count = random.u32(0..6);
            let method = match random.u32(0..4) {
                0 => 4 * random.u32(0..0x1000),
                1 => 4 * random.u32(0..0x22),
                2 => [0x2B4, 0x2C0, 0x1698, 0x240, 0x300, 0x400, 0x418][random.usize(0..7)],
                _ => 0x5C,
            };
            let subchannel = [0, 1, 4, 1, 4, random.u32(0..8)][random.usize(0..6)];
            words.push(match random.u32(0..8) {
                0 => random.u32(..),
                _ => inc(subchannel, method, count),
            });
            for _ in 0..count {
                words.push(match random.u32(0..6) {
                    0 => random.u32(..),
                    1 => SIGNAL as u32,
                    2 => (SIGNAL >> 32) as u32,
                    3 => (QMDS >> 8) as u32,
                    4 => 1 << random.u32(0..32),
                    _ => random.u32(0..16),
                });
            }
        }
        for at in 0..96 {
            if random.u32(0..3) == 0 {
                rig.memory.put(QMDS + 4 * at, random.u32(..));
            }
        }
        rig.submit(&words);
        walk(&mut rig);
        taken += u32::from(!matches!(rig.step(), Step::Fault(_)));
    }
    assert!(taken > 100, "{taken}");
}

#[test]
fn any_entry_ends_in_order() {
    let mut random = fastrand::Rng::with_seed(8);
    for round in 0..2000 {
        let mut rig = Rig::new(["ampere", "hopper"][round % 2], round as u64);
        for _ in 0..4 {
            let low = random.u32(..);
            rig.entry(match random.u32(0..3) {
                0 => random.u64(..),
                1 => u64::from(low) | u64::from(random.u32(0..6)) << 32,
                _ => PUSH | u64::from(random.u32(0..0x8000)) << 42,
            });
        }
        walk(&mut rig);
    }
}
