//! Known words of every packet, in both directions, over filler, with each field at its limit; and what queues refuse.

use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchError, PatchList, Patcher, Site};
use hcq_nostd::queue::{CopyQueue, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Recorder, Room};
use hcq_nostd::ring::{Ring, RingError, WouldBlock};
use hcq_nostd::value::Misfit;
use std::vec::Vec;

use super::copy_linear::CopyLinear;
use super::fence::Fence;
use super::indirect::Indirect;
use super::nop::Nop;
use super::poll_regmem::{Function, PollRegmem};
use super::submit::{submit, submit_bound};
use super::timestamp::TimestampGetGlobal;
use super::trap::Trap;
use super::write_linear::WriteLinear;
use super::*;
use crate::pm4::submit::SubmitError;

const FILLER: u32 = 0xa5a5_a5a5;
const V4: Version = Version::new(4, 4, 2);
const V6: Version = Version::new(6, 0, 0);
const A: u64 = 0x7f11_2233_4458;
const TOP: u64 = (1 << 48) - 8;

fn recorded(packet: Packet, version: Version) -> Result<Vec<u32>, RecordError> {
    let mut words = [FILLER; 16];
    let mut recorder = Recorder::new(&mut words, PatchList::none());
    let result = recorder.command(|c| packet.record(c, version)).map(|_| ());
    let (len, _) = recorder.finish();
    assert!(result.is_err() || words[len..].iter().all(|w| *w == FILLER));
    result.map(|()| words[..len].to_vec())
}

#[track_caller]
fn both(packet: Packet, version: Version, want: &[u32]) {
    assert_eq!(
        recorded(packet, version).expect("a sound packet"),
        want,
        "{packet}"
    );
    assert_eq!(Packet::decode(want, version), Ok((packet, want.len())));
    assert_eq!(Packet::len(want), want.len());
    for have in 0..want.len() {
        let cut = Packet::decode(&want[..have], version);
        assert!(
            matches!(cut, Err(Malformed::Truncated { .. })),
            "{packet} of {have} words: {cut:?}"
        );
    }
}

#[test]
fn packets() {
    both(Packet::Nop(Nop::ONE), V4, &[0]);
    let copy = |bytes: u64| {
        let (destination, source) = (Value::from(TOP), Value::from(A + 1));
        Packet::CopyLinear(CopyLinear {
            destination,
            source,
            bytes: bytes.into(),
        })
    };
    let tail = [0, 0x2233_4459, 0x7f11, 0xffff_fff8, 0xffff];
    let words = |count| [&[1, count], tail.as_slice()].concat();
    both(copy(1), V4, &words(0));
    both(copy(1 << 22), V4, &words((1 << 22) - 1));
    both(copy(1 << 30), V6, &words((1 << 30) - 1));
    let too_large = |value, bits| RecordError::Misfit {
        operand: Operand::Length,
        misfit: Misfit::TooLarge { value, bits },
    };
    assert_eq!(
        recorded(copy((1 << 22) + 1), V4),
        Err(too_large(1 << 22, 22))
    );
    assert_eq!(
        recorded(copy((1 << 30) + 1), V6),
        Err(too_large(1 << 30, 30))
    );
    let wide = words(1 << 22);
    assert_eq!(
        Packet::decode(&wide, V4),
        Err(Malformed::Reserved {
            word: 1,
            value: 1 << 22
        })
    );

    let write = |data: u64, width| {
        Packet::WriteLinear(WriteLinear {
            destination: TOP.into(),
            data: data.into(),
            width,
        })
    };
    both(
        write(u32::MAX.into(), WriteWidth::W32),
        V4,
        &[2, 0xffff_fff8, 0xffff, 0, u32::MAX],
    );
    both(
        write(u64::MAX - 1, WriteWidth::W64),
        V4,
        &[2, 0xffff_fff8, 0xffff, 1, u32::MAX - 1, u32::MAX],
    );
    let long = [2, 0, 0, 2, 1, 2, 3];
    assert_eq!(
        Packet::decode(&long, V4),
        Err(Malformed::Reserved { word: 3, value: 2 })
    );

    let fence = Packet::Fence(Fence {
        address: (A + 4).into(),
        data: u32::MAX.into(),
    });
    both(fence, V4, &[5, 0x2233_445c, 0x7f11, u32::MAX]);
    both(fence, V6, &[0x3_0005, 0x2233_445c, 0x7f11, u32::MAX]);
    let other = [0x3_0005, 0, 0, 0];
    assert_eq!(
        Packet::decode(&other, V4),
        Err(Malformed::Reserved {
            word: 0,
            value: 0x3_0005
        })
    );

    both(
        Packet::Trap(Trap {
            context: 0x0fff_ffff,
        }),
        V6,
        &[6, 0x0fff_ffff],
    );
    assert!(recorded(Packet::Trap(Trap { context: 1 << 28 }), V6).is_err());
    both(
        Packet::Timestamp(TimestampGetGlobal { address: A.into() }),
        V6,
        &[0x20d, 0x2233_4458, 0x7f11],
    );
    for (function, bits) in [
        (Function::Equal, 0xb000_0008),
        (Function::GreaterEqual, 0xd000_0008),
    ] {
        let poll = PollRegmem {
            function,
            address: TOP.into(),
            value: u32::MAX.into(),
            mask: 0xff,
        };
        let want = [bits, 0xffff_fff8, 0xffff, u32::MAX, 0xff, 0x0fff_0004];
        both(Packet::PollRegmem(poll), V4, &want);
    }
    let most = Indirect::new((1 << 48) - 32, Indirect::MAX as usize).expect("the most");
    both(
        Packet::Indirect(most),
        V6,
        &[4, 0xffff_ffe0, 0xffff, 0xf_fff8, 0, 0],
    );
    assert_eq!(
        Indirect::new(0x10, 8),
        Err(Misfit::Misaligned {
            value: 0x10,
            align_log2: 5
        })
    );
    for words in [0, 4, 1 << 20] {
        assert!(Indirect::new(0x20, words).is_err(), "{words}");
    }
    assert_eq!(
        Packet::decode(&[7], V6),
        Err(Malformed::Opcode { opcode: 7 })
    );
    assert_eq!(
        Packet::decode(&[0x4000_0000], V6),
        Err(Malformed::Reserved {
            word: 0,
            value: 0x4000_0000
        })
    );
}

#[test]
fn versions() {
    for (version, max) in [
        (Version::new(4, 4, 5), Some(1 << 22)),
        (Version::new(5, 0, 0), Some(1 << 22)),
        (Version::new(5, 2, 7), Some(1 << 22)),
        (Version::new(6, 1, 3), Some(1 << 30)),
        (Version::new(7, 0, 1), Some(1 << 30)),
        (Version::new(4, 0, 0), None),
        (Version::new(4, 5, 0), None),
        (Version::new(7, 1, 0), None),
        (Version::new(8, 0, 0), None),
    ] {
        assert_eq!(version.max_copy().ok(), max, "{version}");
        let queue = SdmaCopy::new(version, None, &mut [], PatchList::none());
        assert_eq!(queue.is_ok(), max.is_some());
    }
}

/// Every refused command leaves words, sites and variables as they were.
#[test]
fn refusals_change_nothing() {
    let (mut words, mut sites) = ([FILLER; 64], [Site::EMPTY; 4]);
    let mut list = PatchList::new(&mut sites, &mut []);
    let var = list.var().expect("one");
    let mut q = SdmaCopy::new(V4, None, &mut words, list).expect("known");
    let signal: SignalAt = Value::from(A & !15).into();
    q.signal(signal, var.into()).expect("room");
    let before = q.recorder().used();
    let odd: SignalAt = Value::from(A).into();
    let far = Value::from(1u64 << 48);
    let refused: [(&str, Result<(), RecordError>); 11] = [
        ("signal", q.signal(odd, 1u64.into()).map(|_| ())),
        ("value", q.signal(signal, (1u64 << 32).into()).map(|_| ())),
        ("wait", q.wait(odd, 1u64.into()).map(|_| ())),
        ("timestamp", q.timestamp(far.into()).map(|_| ())),
        (
            "write",
            q.write(Value::from(A + 4), 0u64.into(), WriteWidth::W64)
                .map(|_| ()),
        ),
        ("poll", q.poll_bit(A.into(), 1, 2u64.into()).map(|_| ())),
        ("source", q.copy(A.into(), far, 1u64.into()).map(|_| ())),
        (
            "source's end",
            q.copy(A.into(), far - 1, 2u64.into()).map(|_| ()),
        ),
        (
            "destination's end",
            q.copy(far - 4, A.into(), 8u64.into()).map(|_| ()),
        ),
        ("length", q.copy(0u64.into(), 0u64.into(), far).map(|_| ())),
        (
            "room",
            q.copy(0u64.into(), 0u64.into(), (1u64 << 27).into())
                .map(|_| ()),
        ),
    ];
    for (what, result) in refused {
        assert!(result.is_err(), "{what}");
    }
    assert_eq!(q.recorder().used(), before);
    assert_eq!(
        before,
        Room {
            words: 4,
            sites: 1,
            derived: 0,
            beside: 0
        }
    );
}

#[test]
fn a_length_known_at_launch_is_one_packet_and_checked_there() {
    let (mut words, mut sites) = ([0; 16], [Site::EMPTY; 8]);
    let mut list = PatchList::new(&mut sites, &mut []);
    let length = list.var().expect("a variable");
    let mut q = SdmaCopy::new(V4, None, &mut words, list).expect("known");
    q.copy(0x1000u64.into(), 0x2000u64.into(), length.into())
        .expect("recorded");
    let (len, mut list) = q.finish().finish();
    assert_eq!(len, CopyLinear::WORDS);
    let mut table = [0; 64];
    let table = list.build(&[28], &mut table).expect("a table");
    let mut state = [0; 8];
    let mut patcher = Patcher::new(table, &mut state).expect("room");
    let mut memory = [0; 4];
    let mut regions = [Region::from_words(&mut memory, 0)];
    for (bytes, fits) in [
        (0, false),
        (1, true),
        (1 << 22, true),
        ((1 << 22) + 1, false),
    ] {
        patcher.set(length, bytes).expect("a variable");
        let applied = patcher.apply(&mut regions);
        assert_eq!(applied.is_ok(), fits, "{bytes}: {applied:?}");
        assert!(fits || matches!(applied, Err(PatchError::Misfit { var, .. }) if var == length));
    }
    assert_eq!(regions[0].load_u32(4), Ok((1 << 22) - 1));
}

/// Any put, any packets: they are whole, the rest is NOPs, and a ring without room is left alone.
#[test]
fn rings_hold_whole_packets() {
    let fence = [5, 0, 0, 7];
    for put in 0..32 {
        for packets in 0..8 {
            let words: Vec<u32> = fence
                .iter()
                .copied()
                .cycle()
                .take(packets * fence.len())
                .collect();
            let mut memory = [u64::MAX; 16];
            let mut ring = Ring::resume(Region::from_words(&mut memory, 0), 4, put).expect("words");
            let mut rung = None;
            let result = submit(&mut ring, &words, &mut |p| rung = Some(p));
            let Ok(end) = result else {
                assert!(matches!(
                    result,
                    Err(SubmitError::Ring(RingError::TooLarge { .. }))
                ));
                assert_eq!((ring.put(), rung, memory), (put, None, [u64::MAX; 16]));
                continue;
            };
            assert_eq!(rung, Some(end));
            let flat: Vec<u32> = memory
                .iter()
                .flat_map(|w| [*w as u32, (*w >> 32) as u32])
                .collect();
            let (mut at, mut seen) = (put, 0);
            while at < end {
                let place = (at % 32) as usize;
                if flat[place] == 0 {
                    at += 1;
                    continue;
                }
                assert!(
                    place + 4 < 32,
                    "a packet at {place} wraps or ends at the end"
                );
                assert_eq!(flat[place..place + 4], fence);
                (at, seen) = (at + 4, seen + 1);
            }
            assert_eq!(seen, packets, "put {put}");
        }
    }
}

#[test]
fn a_full_ring_says_so() {
    let mut memory = [0; 16];
    let mut ring = Ring::new(Region::from_words(&mut memory, 0), 4).expect("words");
    let fence = [5, 0, 0, 7];
    for _ in 0..7 {
        submit(&mut ring, &fence, &mut |_| ()).expect("room");
    }
    let full = submit(&mut ring, &fence, &mut |_| panic!("nothing to ring for"));
    let need = WouldBlock { need: 8, free: 4 };
    assert_eq!(full, Err(SubmitError::Ring(RingError::Full(need))));
    assert_eq!(ring.put(), 28);
}

/// Wherever the ring is, an indirect buffer's packet ends at a multiple of eight words and not at the end.
#[test]
fn indirect_packets_end_where_they_must() {
    for put in 0..32 {
        let mut memory = [u64::MAX; 16];
        let mut ring = Ring::resume(Region::from_words(&mut memory, 0), 4, put).expect("words");
        let end = submit_bound(&mut ring, 0x1000, 17, &mut |_| ()).expect("room");
        assert!(end.is_multiple_of(8) && !end.is_multiple_of(32), "{put}");
        let flat: Vec<u32> = memory
            .iter()
            .flat_map(|w| [*w as u32, (*w >> 32) as u32])
            .collect();
        let start = ((end - 6) % 32) as usize;
        assert_eq!(flat[start..start + 6], [4, 0x1000, 0, 24, 0, 0]);
        assert!(
            (put..end - 6).all(|at| flat[(at % 32) as usize] == 0),
            "{put}"
        );
    }
    let mut memory = [0; 16];
    let mut ring = Ring::new(Region::from_words(&mut memory, 0), 4).expect("words");
    let mut bound =
        |address, words| submit_bound(&mut ring, address, words, &mut |_| panic!("refused"));
    assert_eq!(bound(0x1000, 0), Err(SubmitError::Empty));
    let too_long = SubmitError::TooLong {
        words: 0xf_fff9,
        max: 0xf_fff8,
    };
    assert_eq!(bound(0x1000, 0xf_fff9), Err(too_long));
    assert!(matches!(bound(0x1010, 8), Err(SubmitError::Address(_))));
}
