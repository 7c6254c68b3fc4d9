use super::super::channel::ChannelEngine;
use super::super::tests::support::*;
use super::pushbuffer::{Advance, Header, entry, header};
use super::*;

const COMPUTE: u32 = 1;
const RELEASE: u32 = 1;
const WFI: u32 = 1 << 20;
const WIDE: u32 = 1 << 24;
const TIMESTAMP: u32 = 1 << 25;

#[test]
fn headers_of_every_kind() {
    let methods = |method, count, advance| Header::Methods {
        subchannel: 1,
        method,
        count,
        advance,
    };
    assert_eq!(header(0).unwrap(), Header::Nop);
    assert_eq!(
        header(0x2005_2017).unwrap(),
        methods(0x5C, 5, Advance::Each)
    );
    assert_eq!(
        header(0x6005_2017).unwrap(),
        methods(0x5C, 5, Advance::Never)
    );
    assert_eq!(
        header(0xA005_2017).unwrap(),
        methods(0x5C, 5, Advance::Once)
    );
    assert_eq!(
        header(0x9FFF_E05A).unwrap(),
        Header::Immediate {
            subchannel: 7,
            method: 0x168,
            data: 0x1FFF
        }
    );
    assert_eq!(header(0xE000_0000).unwrap(), Header::End);
    // The last method there is.
    assert!(header(0x2001_0FFF).is_ok());
    for bad in [
        0x2002_0FFF,
        0xA002_0FFF,
        0x2005_1017,
        0x8000_1000,
        0x0001_0000,
        0x0002_0010,
        0x0004_0100,
        0x4004_0100,
        0xC000_0000,
    ] {
        assert!(header(bad).is_err(), "{bad:#x}");
    }
    // Methods that do not advance never pass the last one.
    assert!(header(0x7FFF_0FFF).is_ok());
}

#[test]
fn entries_of_every_kind() {
    let old = Classes::of(0xC56F).unwrap();
    let new = Classes::of(0xC86F).unwrap();
    assert_eq!(
        entry(&old, 0x0000_3283_0030_0000).unwrap(),
        Entry::Segment {
            address: 0x83_0030_0000,
            words: 12
        }
    );
    // SYNC, LEVEL, FETCH are taken.
    assert!(entry(&old, 0x8000_3683_0030_0001).is_ok());
    assert_eq!(entry(&old, 0).unwrap(), Entry::Nop);
    // One word less than the end of what can be named; then the end.
    assert!(entry(&old, 0x0000_04FF_FFFF_FFF8).is_ok());
    assert!(entry(&old, 0x0000_04FF_FFFF_FFFC).is_err());
    for bad in [
        1 << 32,
        2 << 32,
        3 << 32,
        5 << 32,
        0x0000_3283_0030_0002,
        0x0000_3383_0030_0000,
    ] {
        assert!(entry(&old, bad).is_err(), "{bad:#x}");
    }
    let base = 4 << 32 | 0x1_2300;
    assert!(entry(&old, base).is_err());
    assert_eq!(entry(&new, base).unwrap(), Entry::ExtendedBase(0x123 << 40));
    assert!(entry(&new, base | 1).is_err());
}

#[test]
fn a_release_writes_what_its_size_says() {
    let mut rig = Rig::new("ampere", 1);
    for at in 0..16 {
        rig.memory.put(SIGNAL + 4 * at, 0xAAAA_AAAA);
    }
    let value = 0x1_0000_0002;
    rig.submit(&semaphore(SIGNAL, value, RELEASE));
    rig.submit(&semaphore(SIGNAL + 0x10, value, RELEASE | WIDE));
    rig.submit(&semaphore(SIGNAL + 0x20, value, RELEASE | TIMESTAMP));
    rig.submit(&semaphore(
        SIGNAL + 0x30,
        value,
        RELEASE | TIMESTAMP | WIDE | WFI,
    ));
    rig.finish();
    let memory = &rig.memory;
    assert_eq!(memory.get64(SIGNAL), 0xAAAA_AAAA_0000_0002);
    assert_eq!(memory.get64(SIGNAL + 0x10), value);
    assert_eq!(memory.get64(SIGNAL + 0x18), 0xAAAA_AAAA_AAAA_AAAA);
    assert_eq!(memory.get64(SIGNAL + 0x20), 2);
    assert_eq!(memory.get64(SIGNAL + 0x30), value);
    let (first, second) = (memory.get64(SIGNAL + 0x28), memory.get64(SIGNAL + 0x38));
    assert!(first >= 1000 && second >= first && second <= rig.clock);
    assert_eq!((first % 32, second % 32), (0, 0));
}

#[test]
fn acquires_compare_as_documented() {
    let high = 1 << 63;
    // Operation, 64 bits, value, payload, whether it passes.
    let cases: &[(u32, bool, u64, u64, bool)] = &[
        (0, true, 5, 5, true),
        (0, true, 6, 5, false),
        (0, false, 0x7_0000_0005, 5, true),
        (2, true, 6, 5, true),
        (2, true, 4, 5, false),
        (2, true, high, 5, true),
        (2, false, 0xFFFF_FFFF, 5, true),
        (3, true, 5, 5, true),
        (3, true, 4, 5, false),
        (3, true, high | 4, 5, true),
        (3, true, high | 5, 5, false),
        (3, true, 2, u64::MAX - 2, true),
        (3, false, 0x8000_0004, 5, true),
        (3, false, 0x8000_0005, 5, false),
        (3, false, 0x1_0000_0000, 5, false),
        (4, true, 6, 2, true),
        (4, true, 4, 2, false),
        (4, false, 0x2_0000_0000, 2, false),
        (5, true, 0, u64::MAX - 1, true),
        (5, true, 1, u64::MAX - 1, false),
        (5, false, 0, 0xFFFF_FFFF, false),
        (5, true, 0, 0xFFFF_FFFF, true),
    ];
    for &(operation, wide, value, payload, passes) in cases {
        let mut rig = Rig::new("ada", 2);
        rig.memory.put64(SIGNAL, value);
        let execute = operation | if wide { WIDE } else { 0 };
        rig.submit(&semaphore(SIGNAL, payload, execute));
        rig.submit(&semaphore(SIGNAL + 16, 1, RELEASE));
        let waits = rig.run().unwrap();
        let what = format!("{operation} {wide} {value:#x} {payload:#x}");
        assert_eq!(waits, !passes, "{what}");
        assert_eq!(rig.memory.get(SIGNAL + 16), u32::from(passes), "{what}");
        if !passes && operation <= 3 {
            // It passes once the value is there.
            rig.memory.put64(SIGNAL, payload);
            rig.finish();
            assert_eq!(rig.memory.get(SIGNAL + 16), 1, "{what}");
        }
    }
}

#[test]
fn reductions_change_what_is_there() {
    let mut rig = Rig::new("hopper", 3);
    rig.memory.put64(SIGNAL, 40);
    let add = 5 << 27 | 1 << 31;
    rig.submit(&semaphore(SIGNAL, 2, 6 | add | WIDE));
    rig.finish();
    assert_eq!(rig.memory.get64(SIGNAL), 42);
    // Signed sums have 32 bits.
    rig.submit(&semaphore(SIGNAL, 2, 6 | 5 << 27 | WIDE));
    let text = rig.fault().to_string();
    assert!(text.contains("reduction Add of 64 bits"), "{text}");
}

#[test]
fn entries_are_given_back_when_they_begin() {
    let mut rig = Rig::new("ampere", 4);
    rig.submit(&semaphore(SIGNAL, 1, 0));
    rig.submit(&semaphore(SIGNAL + 16, 1, RELEASE));
    assert!(rig.run().unwrap());
    // The first is still at work.
    assert_eq!((rig.gp_get(), rig.memory.get(SIGNAL + 16)), (1, 0));
    rig.memory.put(SIGNAL, 1);
    rig.finish();
    assert_eq!((rig.gp_get(), rig.memory.get(SIGNAL + 16)), (2, 1));
    // Blackwell has no such word.
    let mut rig = Rig::new("blackwell", 4);
    rig.submit(&semaphore(SIGNAL, 1, RELEASE));
    rig.finish();
    assert_eq!(rig.gp_get(), 0);
}

#[test]
fn the_ring_goes_round() {
    let mut rig = Rig::new("ampere", 5);
    for lap in 0..5 * u64::from(ENTRIES) {
        rig.submit(&semaphore(SIGNAL, lap + 1, RELEASE | WIDE));
        rig.finish();
        assert_eq!(rig.memory.get64(SIGNAL), lap + 1);
    }
    assert_eq!(rig.gp_get(), rig.put);
}

#[test]
fn a_run_of_methods_may_cross_segments() {
    let mut rig = Rig::new("ampere", 6);
    let words = semaphore(SIGNAL, 7, RELEASE);
    rig.submit(&words[..2]);
    rig.submit(&words[2..5]);
    // A control entry in between is nothing.
    rig.entry(0);
    assert!(!rig.run().unwrap());
    assert_eq!(rig.memory.get(SIGNAL), 0);
    rig.submit(&words[5..]);
    rig.finish();
    assert_eq!(rig.memory.get(SIGNAL), 7);
    // What follows END_PB_SEGMENT is not looked at.
    rig.submit(&[0xE000_0000, 0xFFFF_FFFF]);
    rig.finish();
}

#[test]
fn segments_lie_above_40_bits_from_hopper_on() {
    let high = 0x12 << 40 | PUSH;
    let mut rig = Rig::new("hopper", 7);
    rig.memory.map(high, 0x1000);
    rig.memory.write(high, &semaphore(SIGNAL, 9, RELEASE));
    rig.entry(4 << 32 | 0x1200);
    rig.entry(PUSH | 6 << 42);
    rig.finish();
    assert_eq!(rig.memory.get(SIGNAL), 9);
}

#[test]
fn an_interrupt_is_one() {
    let mut rig = Rig::new("ampere", 8);
    rig.submit(&[inc(0, 0x20, 1), 0, 0, inc(0, 8, 1), 0xFFFF_FFFF]);
    rig.finish();
    assert_eq!(rig.interrupts, 1);
}

#[test]
fn memory_operations() {
    let operation = |d: u32| [inc(0, 0x28, 4), 0, 0, 0, d << 27];
    for allowed in [5, 0xD, 0xE, 0x10, 0x15] {
        let mut rig = Rig::new("ampere", 9);
        rig.submit(&operation(allowed));
        rig.finish();
    }
    for refused in [9, 0xA, 0xB, 0x16, 0, 0x1F] {
        let mut rig = Rig::new("ampere", 9);
        rig.submit(&operation(refused));
        assert!(matches!(rig.fault().cause, Cause::Packet(_)));
    }
    let mut rig = Rig::new("ampere", 9);
    rig.submit(&[inc(0, 0x34, 1), 5 << 27]);
    assert!(rig.fault().to_string().contains("without MEM_OP_A"));
}

#[test]
fn faults_tell_the_method() {
    let cases: &[(&[u32], &str)] = &[
        (&[inc(0, 0x40, 1), 0], "no host method 0x40"),
        (&[inc(0, 0x04, 1), 0], "always illegal"),
        (
            &[inc(0, 0x60, 1), 0x100],
            "SEM_ADDR_HI has reserved bits 0x100",
        ),
        (&[inc(0, 0x5C, 1), 3], "SEM_ADDR_LO has reserved bits 0x3"),
        (&[inc(0, 0x6C, 1), 7], "no operation 7"),
        (&[inc(0, 0x6C, 1), 1 | 1 << 12], "reserved bits 0x1000"),
        (&[inc(0, 0x6C, 1), 3 | 1 << 20], "reserved bits 0x100000"),
        (&[inc(0, 0x100, 1), 0], "not simulated"),
        (&[inc(5, 0x100, 1), 0], "software's methods"),
        (&[inc(COMPUTE, 0x0, 1), 0xC9C0], "SET_OBJECT names 0xc9c0"),
        (&[inc(COMPUTE, 0x320, 1), 0], "LOAD_INLINE_QMD_DATA"),
        (&[inc(COMPUTE, 0x600, 1), 0], "no method 0x600"),
        (&[inc(4, 0x104, 1), 0], "no method 0x104"),
        (&[0xC000_0000], "is of no kind"),
    ];
    for (words, wanted) in cases {
        let mut rig = Rig::new("ampere", 10);
        rig.submit(words);
        let text = rig.fault().to_string();
        assert!(text.contains(wanted), "{wanted}: {text}");
        assert!(text.contains("GP entry 0x0"), "{text}");
        // It stays stopped.
        assert!(matches!(rig.step(), Step::Fault(_)));
    }
}

#[test]
fn misaligned_semaphores_are_refused() {
    for (address, execute) in [
        (SIGNAL + 4, RELEASE | WIDE),
        (SIGNAL + 8, RELEASE | TIMESTAMP),
        (SIGNAL + 4, WIDE),
    ] {
        let mut rig = Rig::new("ampere", 11);
        rig.submit(&semaphore(address, 0, execute));
        assert!(rig.fault().to_string().contains("not aligned"));
    }
    // An acquire of 32 bits needs no more than 4.
    let mut rig = Rig::new("ampere", 11);
    rig.submit(&semaphore(SIGNAL + 4, 0, 0));
    rig.finish();
}

#[test]
fn memory_that_is_not_there_is_a_fault() {
    let mut rig = Rig::new("ampere", 12);
    rig.submit(&semaphore(0x3000, 0, RELEASE));
    let fault = rig.fault();
    let Cause::Memory(page) = fault.cause else {
        panic!("{fault}");
    };
    assert_eq!(page.address, 0x3000);
    // So is a segment, and so is a put pointer past the ring.
    let mut rig = Rig::new("ampere", 12);
    rig.entry(0x7000 | 1 << 42);
    assert!(matches!(rig.fault().cause, Cause::Memory(_)));
    let mut rig = Rig::new("ampere", 12);
    rig.put = ENTRIES;
    assert!(rig.fault().to_string().contains("the ring has 16 entries"));
}

#[test]
fn methods_need_an_object() {
    let mut rig = Rig::with("ampere", ChannelEngine::Graphics, &[0xC7B5], 13);
    rig.submit(&[inc(COMPUTE, 0x100, 1), 0]);
    let text = rig.fault().to_string();
    assert!(text.contains("no object of class 0xc7c0"), "{text}");
    // On a copy channel every subchannel is the copy engine.
    let mut rig = Rig::with("ampere", ChannelEngine::Copy(0), &[0xC7B5], 13);
    rig.submit(&[inc(4, 0, 1), 0xC7B5, inc(0, 0, 1), 0xC7B5]);
    rig.finish();
}
