//! Known words of every packet, in both directions, over filler, with each field at its limit.

use hcq_nostd::patch::PatchList;
use hcq_nostd::record::{Command, Operand, RecordError, Recorder};
use hcq_nostd::value::Misfit;
use std::vec::Vec;

use super::acquire_mem::{AcquireMem, Caches, CoherCntl, GcrCntl, Range};
use super::copy_data::{CopyData, Destination, Source};
use super::dispatch_direct::{DispatchDirect, Initiator};
use super::event_write::EventWrite;
use super::indirect_buffer::IndirectBuffer;
use super::nop::Nop;
use super::pred_exec::PredExec;
use super::release_mem::{DataSel, Flush, IntSel, ReleaseMem};
use super::set_reg::{SetReg, Space};
use super::wait_reg_mem::{Function, Poll, WaitRegMem};
use super::*;

const FILLER: u32 = 0xa5a5_a5a5;
/// An address whose halves are told apart, and the last of its alignment.
const A: u64 = 0x7f11_2233_4458;
const TOP: u64 = (1 << 48) - 8;

/// Records over filler; returns the words, or the error, after which nothing has changed.
fn recorded_in(
    room: usize,
    encode: impl FnOnce(&mut Command<'_, '_>) -> Result<(), RecordError>,
) -> Result<Vec<u32>, RecordError> {
    let mut words = std::vec![FILLER; room];
    let mut recorder = Recorder::new(&mut words, PatchList::none());
    let result = recorder.command(encode).map(|_| ());
    let (len, _) = recorder.finish();
    assert!(words[len..].iter().all(|w| *w == FILLER) || result.is_err());
    words.truncate(len);
    assert!(result.is_ok() || words.is_empty());
    result.map(|()| words)
}

fn recorded(
    encode: impl FnOnce(&mut Command<'_, '_>) -> Result<(), RecordError>,
) -> Result<Vec<u32>, RecordError> {
    recorded_in(32, encode)
}

/// The packet has these words, and they are this packet.
#[track_caller]
fn both(packet: Packet<'_>, want: &[u32]) {
    let words = recorded(|c| packet.record(c)).expect("a sound packet");
    assert_eq!(words, want, "{packet:?}: {words:#010x?}");
    assert_eq!(Packet::decode(want), Ok((packet, want.len())));
    for have in 0..want.len() {
        assert!(
            matches!(
                Packet::decode(&want[..have]),
                Err(Malformed::Truncated { .. })
            ),
            "{packet:?} of {have} words"
        );
    }
}

#[track_caller]
fn misfit(packet: Packet<'_>, operand: Operand, misfit: Misfit) {
    let refused = recorded(|c| packet.record(c));
    assert_eq!(refused, Err(RecordError::Misfit { operand, misfit }));
}

fn too_large(value: u64, bits: u8) -> Misfit {
    Misfit::TooLarge { value, bits }
}

fn misaligned(value: u64, align_log2: u8) -> Misfit {
    Misfit::Misaligned { value, align_log2 }
}

#[test]
fn nop() {
    both(Packet::Nop(Nop::new(0).expect("none")), &[0xffff_1000]);
    both(Packet::Nop(Nop::new(1).expect("one")), &[0xc000_1000, 0]);
    let mut longest = std::vec![0; 0x4000];
    longest[0] = 0xfffe_1000;
    let nop = Nop::new(MAX_BODY).expect("the most");
    let words = recorded_in(0x4008, |c| {
        nop.record(c);
        Ok(())
    });
    assert_eq!(words.as_ref(), Ok(&longest));
    assert_eq!(Packet::decode(&longest), Ok((Packet::Nop(nop), 0x4000)));
    let limit = RecordError::Limit {
        operand: Operand::Length,
        value: 0x4000,
        max: 0x3fff,
    };
    assert_eq!(Nop::new(MAX_BODY + 1), Err(limit));
}

#[test]
fn acquire_mem() {
    let caches = Caches::Gfx9(CoherCntl::all());
    let top = Range::new(u64::MAX << 8, ((1 << 40) - 1) << 8).expect("the last");
    let packet = AcquireMem {
        caches,
        range: top,
        poll_interval: u16::MAX,
    };
    let bits = CoherCntl::all().bits();
    both(
        Packet::AcquireMem(packet),
        &[
            0xc005_5800,
            bits,
            u32::MAX,
            0xff,
            u32::MAX,
            0xff_ffff,
            0xffff,
        ],
    );
    let caches = Caches::Gfx10(GcrCntl::all());
    let range = Range::new(0x1_2345_6700, 0x89_0000_0100).expect("whole units");
    let packet = AcquireMem {
        caches,
        range,
        poll_interval: 1,
    };
    both(
        Packet::AcquireMem(packet),
        &[0xc006_5800, 0, 0x8900_0001, 0, 0x0123_4567, 0, 1, 0x7_ffff],
    );
    let all = AcquireMem::all(Caches::Gfx9(CoherCntl::TC));
    both(
        Packet::AcquireMem(all),
        &[0xc005_5800, 1 << 23, u32::MAX, 0xff, 0, 0, 10],
    );
    assert_eq!(Range::new(0, 1 << 48), Err(too_large(1 << 48, 48)));
    assert_eq!(Range::new(0x80, 0x100), Err(misaligned(0x80, 8)));
    for (word, value) in [(1, 1), (3, 0x100), (5, 1 << 24), (6, 0x1_0000)] {
        let mut words = [0xc005_5800, 1 << 23, 1, 0, 0, 0, 10];
        words[word] = value;
        assert_eq!(
            Packet::decode(&words),
            Err(Malformed::Reserved { word, value })
        );
    }
}

fn release(
    flush: Flush,
    data: DataSel,
    interrupt: IntSel,
    address: u64,
    context: u32,
) -> Packet<'static> {
    let address = address.into();
    Packet::ReleaseMem(ReleaseMem {
        flush,
        data,
        interrupt,
        address,
        context,
    })
}

#[test]
fn release_mem() {
    let low = DataSel::Low32(0xdead_beefu32.into());
    both(
        release(Flush::GFX9_WRITE_BACK, low, IntSel::None, A + 4, 0),
        &[
            0xc006_4900,
            0x0008_8514,
            1 << 29,
            0x2233_445c,
            0x7f11,
            0xdead_beef,
            0,
            0,
        ],
    );
    let wide = DataSel::Data64(0x1122_3344_5566_7788u64.into());
    both(
        release(Flush::GFX10_WRITE_BACK, wide, IntSel::Now, TOP, 0x0fff_ffff),
        &[
            0xc006_4900,
            0x0070_f514,
            0x4100_0000,
            0xffff_fff8,
            0xffff,
            0x5566_7788,
            0x1122_3344,
            0x0fff_ffff,
        ],
    );
    both(
        release(Flush::NONE, DataSel::GpuClock, IntSel::AfterWrite, A, 1),
        &[
            0xc006_4900,
            0x514,
            0x6200_0000,
            0x2233_4458,
            0x7f11,
            0,
            0,
            1,
        ],
    );
    both(
        release(Flush::NONE, DataSel::None, IntSel::None, 0, 0),
        &[0xc006_4900, 0x514, 0, 0, 0, 0, 0, 0],
    );
    let at = |data, address| release(Flush::NONE, data, IntSel::None, address, 0);
    misfit(at(wide, A + 4), Operand::Address, misaligned(A + 4, 3));
    misfit(at(low, A + 2), Operand::Address, misaligned(A + 2, 2));
    misfit(at(low, 1 << 48), Operand::Address, too_large(1 << 48, 48));
    let more = DataSel::Low32((1u64 << 32).into());
    misfit(at(more, A), Operand::Data, too_large(1 << 32, 32));
    misfit(
        release(Flush::NONE, low, IntSel::Now, A, 1 << 28),
        Operand::Data,
        too_large(1 << 28, 28),
    );
    for (word, value) in [
        (1, 0x515),
        (2, 5 << 29),
        (2, 1 << 29 | 4 << 24),
        (2, 1),
        (3, 1),
        (4, 1 << 16),
        (7, 1 << 28),
    ] {
        let mut words = [0xc006_4900, 0x514, 1 << 29, 0, 0, 7, 0, 0];
        words[word] = value;
        assert_eq!(
            Packet::decode(&words),
            Err(Malformed::Reserved { word, value })
        );
    }
}

fn wait(function: Function, poll: Poll, reference: u64, mask: u32) -> Packet<'static> {
    Packet::WaitRegMem(WaitRegMem {
        function,
        poll,
        reference: reference.into(),
        mask,
        poll_interval: 4,
    })
}

#[test]
fn wait_reg_mem() {
    let memory = Poll::Memory(TOP.into());
    both(
        wait(Function::GreaterEqual, memory, u32::MAX.into(), u32::MAX),
        &[
            0xc005_3c00,
            0x15,
            0xffff_fff8,
            0xffff,
            u32::MAX,
            u32::MAX,
            4,
        ],
    );
    both(
        wait(Function::Equal, Poll::Register(0x3_ffff), 1, 3),
        &[0xc005_3c00, 3, 0x3_ffff, 0, 1, 3, 4],
    );
    let request = Poll::Request {
        request: 0xe26,
        done: 0x3_ffff,
    };
    both(
        wait(Function::NotEqual, request, 4, 4),
        &[0xc005_3c00, 0x44, 0xe26, 0x3_ffff, 4, 4, 4],
    );
    let words = WaitRegMem::request(0xe26, 0xe27, 4);
    assert_eq!(words, [0xc005_3c00, 0x45, 0xe26, 0xe27, 4, 4, 4]);
    let poll = Poll::Request {
        request: 0xe26,
        done: 0xe27,
    };
    let flush = wait(Function::GreaterEqual, poll, 4, 4);
    assert_eq!(Packet::decode(&words), Ok((flush, 7)));
    for function in [
        Function::Always,
        Function::Less,
        Function::LessEqual,
        Function::Greater,
    ] {
        let bits = function as u32 | 0x10;
        both(
            wait(function, Poll::Memory(A.into()), 0, 0),
            &[0xc005_3c00, bits, 0x2233_4458, 0x7f11, 0, 0, 4],
        );
    }
    let at = |a: u64| wait(Function::Equal, Poll::Memory(a.into()), 0, 0);
    misfit(at(A + 2), Operand::Address, misaligned(A + 2, 2));
    misfit(at(1 << 48), Operand::Address, too_large(1 << 48, 48));
    misfit(
        wait(Function::Equal, memory, 1 << 32, 0),
        Operand::Data,
        too_large(1 << 32, 32),
    );
    misfit(
        wait(Function::Equal, Poll::Register(1 << 18), 0, 0),
        Operand::Address,
        too_large(1 << 18, 18),
    );
    for (word, value) in [(1, 0x17), (1, 0x115), (2, 2), (3, 0x1_0000), (6, 0x1_0000)] {
        let mut words = [0xc005_3c00, 0x15, 0, 0, 0, 0, 4];
        words[word] = value;
        assert_eq!(
            Packet::decode(&words),
            Err(Malformed::Reserved { word, value })
        );
    }
}

#[test]
fn indirect_buffer() {
    let most = IndirectBuffer::new((TOP + 4).into(), 0xf_ffff).expect("the most");
    both(
        Packet::IndirectBuffer(most),
        &[0xc002_3f00, 0xffff_fffc, 0xffff, 0x008f_ffff],
    );
    let limit = |value| {
        Err(RecordError::Limit {
            operand: Operand::Length,
            value,
            max: 0xf_ffff,
        })
    };
    assert_eq!(IndirectBuffer::new(A.into(), 0), limit(0));
    assert_eq!(IndirectBuffer::new(A.into(), 1 << 20), limit(1 << 20));
    let misaligned = RecordError::Misfit {
        operand: Operand::Address,
        misfit: misaligned(A + 2, 2),
    };
    assert_eq!(IndirectBuffer::new((A + 2).into(), 1), Err(misaligned));
    for value in [0x0080_0000, 1, 0x0180_0001] {
        let words = [0xc002_3f00, 0, 0, value];
        assert_eq!(
            Packet::decode(&words),
            Err(Malformed::Reserved { word: 3, value })
        );
    }
}

#[test]
fn small_packets() {
    let most = PredExec::new(0xff, 0x3fff).expect("14 bits");
    both(Packet::PredExec(most), &[0xc000_2300, 0xff00_3fff]);
    let limit = RecordError::Limit {
        operand: Operand::Length,
        value: 0x4000,
        max: 0x3fff,
    };
    assert_eq!(PredExec::new(1, 0x4000), Err(limit));
    let around = recorded(|c| {
        c.word(FILLER);
        PredExec::around(2, c, |c| {
            c.words(&[1, 2, 3]);
            Ok(())
        })
    });
    assert_eq!(
        around,
        Ok(std::vec![FILLER, 0xc000_2300, 0x0200_0003, 1, 2, 3])
    );
    let too_long = recorded(|c| {
        PredExec::around(1, c, |c| {
            (0..0x4000).try_for_each(|w| {
                c.word(w);
                Ok(())
            })
        })
    });
    assert_eq!(too_long, Err(limit));

    both(
        Packet::EventWrite(EventWrite::CS_PARTIAL_FLUSH),
        &[0xc000_4600, 0x407],
    );
    both(
        Packet::EventWrite(EventWrite::new(0x3f, 0xf).expect("limits")),
        &[0xc000_4600, 0xf3f],
    );
    assert_eq!(
        (EventWrite::new(0x40, 0), EventWrite::new(0, 0x10)),
        (None, None)
    );

    let groups = [1u32, 2, u32::MAX].map(Value::from);
    let dispatch = DispatchDirect {
        groups,
        initiator: Initiator::all(),
    };
    let bits = Initiator::all().bits();
    both(
        Packet::DispatchDirect(dispatch),
        &[0xc003_1500, 1, 2, u32::MAX, bits],
    );
    let sized = |groups| Packet::DispatchDirect(DispatchDirect { groups, ..dispatch });
    let zero = Misfit::TooSmall { value: 0, least: 1 };
    misfit(
        sized([1u64.into(), 0u64.into(), 1u64.into()]),
        Operand::Groups(1),
        zero,
    );
    let large = [1u64.into(), 1u64.into(), (1u64 << 32).into()];
    misfit(sized(large), Operand::Groups(2), too_large(1 << 32, 32));
    let none = [0xc003_1500, 1, 1, 0, 5];
    assert_eq!(
        Packet::decode(&none),
        Err(Malformed::Reserved { word: 3, value: 0 })
    );
    let unknown = [0xc003_1500, 1, 1, 1, 1 << 31];
    assert_eq!(
        Packet::decode(&unknown),
        Err(Malformed::Reserved {
            word: 4,
            value: 1 << 31
        })
    );
}

#[test]
fn registers() {
    let values = [1, 2, u32::MAX];
    let set = SetReg::new(Space::Sh, 0x2fff - 2, &values).expect("the last");
    both(Packet::SetReg(set), &[0xc003_7600, 0x3fd, 1, 2, u32::MAX]);
    let set = SetReg::new(Space::Uconfig, 0xc000, &values).expect("the first");
    both(Packet::SetReg(set), &[0xc003_7900, 0, 1, 2, u32::MAX]);
    let limit = |value, max| {
        Err(RecordError::Limit {
            operand: Operand::Address,
            value,
            max,
        })
    };
    assert_eq!(
        SetReg::new(Space::Sh, 0x2fff, &values),
        limit(0x3002, 0x3000)
    );
    assert_eq!(
        SetReg::new(Space::Sh, 0x2bff, &values),
        limit(0x2c02, 0x3000)
    );
    assert_eq!(SetReg::new(Space::Uconfig, 0xc000, &[]), limit(0, 0x3ffe));
    let outside = [0xc001_7600, 0x400, 1];
    assert_eq!(
        Packet::decode(&outside),
        Err(Malformed::Reserved {
            word: 1,
            value: 0x400
        })
    );
    let empty = [0xc000_7600, 0];
    assert!(Packet::decode(&empty).is_err());
}

#[test]
fn copy_data() {
    let copy = |source, destination, wide| {
        Packet::CopyData(CopyData {
            source,
            destination,
            wide,
            confirm: wide,
        })
    };
    both(
        copy(
            Source::Register(0x3_ffff),
            Destination::Memory(A.into()),
            false,
        ),
        &[0xc004_4000, 0x200, 0x3_ffff, 0, 0x2233_4458, 0x7f11],
    );
    both(
        copy(Source::Memory(TOP.into()), Destination::Register(7), true),
        &[0xc004_4000, 0x0011_0002, 0xffff_fff8, 0xffff, 7, 0],
    );
    both(
        copy(
            Source::Immediate(u64::MAX.into()),
            Destination::Memory(A.into()),
            true,
        ),
        &[
            0xc004_4000,
            0x0011_0205,
            u32::MAX,
            u32::MAX,
            0x2233_4458,
            0x7f11,
        ],
    );
    both(
        copy(Source::GpuClock, Destination::Memory(A.into()), true),
        &[0xc004_4000, 0x0011_0209, 0, 0, 0x2233_4458, 0x7f11],
    );
    let wide = copy(
        Source::Immediate((1u64 << 32).into()),
        Destination::Register(0),
        false,
    );
    misfit(wide, Operand::Data, too_large(1 << 32, 32));
    let odd = copy(Source::GpuClock, Destination::Memory((A + 4).into()), true);
    misfit(odd, Operand::Destination, misaligned(A + 4, 3));
}

#[test]
fn headers() {
    assert_eq!(
        Packet::decode(&[]),
        Err(Malformed::Truncated { need: 1, have: 0 })
    );
    for word in [0, 0x8000_0000, 0x4000_1000, 0xc000_1001, 0xc000_10ff] {
        assert_eq!(Packet::decode(&[word, 0]), Err(Malformed::Header { word }));
    }
    assert_eq!(
        Packet::decode(&[0xc000_ff00, 0]),
        Err(Malformed::Opcode { opcode: 0xff })
    );
    let long = [0xc001_4600, 0, 0];
    assert_eq!(
        Packet::decode(&long),
        Err(Malformed::Length {
            opcode: 0x46,
            need: 2,
            have: 3
        })
    );
}
