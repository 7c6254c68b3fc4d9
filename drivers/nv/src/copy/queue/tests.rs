use super::*;
use hcq_nostd::patch::Site;
use hcq_nostd::value::Misfit;

fn device(name: &str) -> Device {
    Device::new(Chip::named(name).expect("a chip"))
}

fn signal(address: u64, notify: bool) -> SignalAt {
    SignalAt {
        address: address.into(),
        notify,
    }
}

#[test]
fn signals_have_the_width_of_the_engine_s_semaphore() {
    let mut words = [0; 16];
    let mut q = NvCopy::new(&device("ad10x"), &mut words, PatchList::none());
    assert_eq!(q.signal_bits(), 64);
    q.signal(signal(0x10_2000_0040, true), 0x1_0000_0002u64.into())
        .expect("64 bits");
    // Two words of payload, and an interrupt that does not block.
    let want = [
        0x2004_8090,
        0x10,
        0x2000_0040,
        2,
        1,
        0x2001_80c0,
        0x0800_0054,
    ];
    assert_eq!(q.words(), want);

    // GA100's has 32 bits: larger values are refused, not cut.
    let mut q = NvCopy::new(&device("ga100"), &mut words, PatchList::none());
    assert_eq!(q.signal_bits(), 32);
    let misfit = Misfit::TooLarge {
        value: 1 << 32,
        bits: 32,
    };
    let operand = Operand::Data;
    assert_eq!(
        q.signal(signal(0x40, false), (1u64 << 32).into()).err(),
        Some(RecordError::Misfit { operand, misfit })
    );
    q.signal(signal(0x40, false), 7u64.into()).expect("32 bits");
    assert_eq!(q.words(), [0x2003_8090, 0, 0x40, 7, 0x2001_80c0, 0x14]);
}

#[test]
fn addresses_are_as_wide_as_the_class_takes_them() {
    for (name, bits) in [("ga100", 49), ("ad10x", 49), ("gh100", 57), ("gb20x", 57)] {
        let mut words = [0; 32];
        let mut q = NvCopy::new(&device(name), &mut words, PatchList::none());
        let last = (1u64 << bits) - 0x1000;
        assert!(
            q.copy(last.into(), 0u64.into(), 0x1000u64.into()).is_ok(),
            "{name}"
        );
        for (to, from) in [(last + 1, 0), (0, last + 1), (1 << bits, 0), (u64::MAX, 0)] {
            let refused = q.copy(to.into(), from.into(), 0x1000u64.into());
            assert!(refused.is_err(), "{name}: {to:#x} {from:#x}");
        }
        assert!(
            q.signal(signal(1 << bits, false), 1u64.into()).is_err(),
            "{name}"
        );
        // A host's semaphore has fewer bits up to Ada.
        let wide = q.wait(signal(1 << 40, false), 1u64.into()).is_ok();
        assert_eq!(wide, bits == 57, "{name}");
    }
}

#[test]
fn a_huge_copy_ends_at_once_with_an_error() {
    let mut words = [0; 32];
    let mut q = NvCopy::new(&device("gb20x"), &mut words, PatchList::none());
    let limit = |value| RecordError::Limit {
        operand: Operand::Length,
        value,
        max: MAX_COPY,
    };
    for bytes in [u64::MAX, MAX_COPY + 1] {
        let refused = q.copy(0u64.into(), 0u64.into(), bytes.into()).err();
        assert_eq!(refused, Some(limit(bytes)));
    }
    // What is not refused is counted to its end: so much memory would be needed.
    let refused = q.copy(0u64.into(), 0u64.into(), MAX_COPY.into()).err();
    let Some(RecordError::NoRoom(room)) = refused else {
        panic!("128 TiB in 32 words");
    };
    assert_eq!(room.words, 9 << 16);
    assert_eq!(q.words(), []);
    let mut sites = [Site::EMPTY; 8];
    let mut list = PatchList::new(&mut sites, &mut []);
    let var = list.var().expect("few");
    let mut q = NvCopy::new(&device("gb20x"), &mut words, list);
    assert!(q.copy(var.into(), 0u64.into(), u64::MAX.into()).is_err());
    assert_eq!(q.words(), []);
}

#[test]
fn lines_that_lie_apart_are_one_transfer() {
    let mut words = [0; 32];
    let mut q = NvCopy::new(&device("ga10x"), &mut words, PatchList::none());
    let lines = Lines {
        length: 100,
        count: 7,
        source_pitch: 256,
        destination_pitch: 100,
    };
    q.copy_lines(0x1_0000_2000u64.into(), 0x3000u64.into(), lines)
        .expect("in range");
    let want = [
        0x2008_8100,
        0,
        0x3000,
        1,
        0x2000,
        256,
        100,
        100,
        7,
        0x2001_80c0,
        0x382,
    ];
    assert_eq!(q.words(), want);
    for wrong in [
        Lines { length: 0, ..lines },
        Lines { count: 0, ..lines },
        Lines {
            source_pitch: 99,
            ..lines
        },
        Lines {
            destination_pitch: 1 << 31,
            ..lines
        },
    ] {
        let refused = q.copy_lines(0x2000u64.into(), 0x3000u64.into(), wrong);
        assert!(
            matches!(refused, Err(RecordError::Limit { .. })),
            "{wrong:?}"
        );
    }
    // The last line ends beyond what the engine reaches.
    let end = (1u64 << 49) - 6 * 256 - 100;
    assert!(q.copy_lines(0u64.into(), end.into(), lines).is_ok());
    assert!(q.copy_lines(0u64.into(), (end + 1).into(), lines).is_err());
}
