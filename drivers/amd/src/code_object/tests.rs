//! Several kernels in one object, their arguments, and files that are broken in every way.

use super::*;
use crate::hidden::{HiddenKind, HiddenSlot};
use hcq_nostd::args::{ArgKind, ArgSlot};
use hcq_nostd::mem::Region;
use proptest::prelude::*;
use std::vec::Vec;

const MANY_V4: &[u8] = include_bytes!("../../tests/objects/many-v4.o");
const MANY_V5: &[u8] = include_bytes!("../../tests/objects/many-v5.o");
/// EI_ABIVERSION.
const ABI: usize = 8;

fn object(data: &[u8]) -> CodeObject<'_> {
    CodeObject::parse(data).expect("a code object")
}

fn version_6() -> Vec<u8> {
    let mut data = MANY_V5.to_vec();
    data[ABI] = 4;
    data
}

#[test]
fn every_kernel_is_found_by_its_descriptor_symbol() {
    let v6 = version_6();
    for (data, abi) in [
        (MANY_V4, AbiVersion::V4),
        (MANY_V5, AbiVersion::V5),
        (&v6, AbiVersion::V6),
    ] {
        let object = object(data);
        assert_eq!(object.abi(), abi);
        let names: Vec<_> = object
            .kernels()
            .expect("symbols")
            .map(|k| k.expect("sound").name)
            .collect();
        assert_eq!(names, ["first", "second", "third"]);
        // .text at 0 with a kernel every 256 bytes, .rodata at 0x400 with a descriptor every 64.
        for (i, name) in (0..).zip(names) {
            let kernel = object.kernel(name).expect("one of them");
            assert_eq!(
                (kernel.entry_at, kernel.descriptor_at),
                (i * 0x100, 0x400 + i * 0x40),
                "{name}"
            );
            assert_eq!(
                object
                    .metadata(name)
                    .expect("sound")
                    .expect("metadata")
                    .name,
                name
            );
        }
        for name in ["table", "first.kd", "", "fourth"] {
            assert_eq!(object.kernel(name), Err(LoadError::NoKernel), "{name}");
            assert_eq!(object.metadata(name), Ok(None), "{name}");
        }
    }
}

#[test]
fn relocations_are_applied_wherever_the_image_is() {
    let object = object(MANY_V5);
    let size = object.image().expect("an image");
    let mut memory = std::vec![0; size.bytes.div_ceil(8) as usize];
    for base in [0, 0x7f00_0000_0000, 0xffff_ffff_0000] {
        object
            .load(&mut Region::from_words(&mut memory, base))
            .expect("loaded");
        // Each descriptor in memory points at its kernel's code.
        for i in 0..3 {
            let descriptor = 0x400 + i * 0x40;
            let offset = memory[(descriptor + KernelDescriptor::ENTRY) / 8].cast_signed();
            assert_eq!(descriptor as i64 + offset, i as i64 * 0x100);
        }
    }
    let mut odd = Region::from_words(&mut memory, 0x80);
    let misaligned = LoadError::Misaligned {
        address: 0x80,
        align: 256,
    };
    assert_eq!(object.load(&mut odd), Err(misaligned));
    let (need, short) = (size.bytes, &mut memory[..8]);
    let small = object.load(&mut Region::from_words(short, 0));
    assert_eq!(small, Err(LoadError::Memory { need, have: 64 }));
}

#[test]
fn arguments_are_given_or_hidden() {
    for data in [MANY_V4, MANY_V5] {
        let object = object(data);
        let (mut slots, mut hidden) = ([ArgSlot::buffer(0); 4], [HiddenSlot::EMPTY; 32]);
        let first = object.metadata("first").expect("sound").expect("metadata");
        let names: Vec<_> = first
            .arguments()
            .expect("a list")
            .map(|a| a.expect("sound").name)
            .collect();
        assert_eq!(names, ["out", "in", "n"]);
        let arguments = first.layout(&mut slots, &mut hidden).expect("known kinds");
        let constant = ArgSlot {
            kind: ArgKind::ConstBuffer,
            ..ArgSlot::buffer(8)
        };
        assert_eq!(
            arguments.layout.slots,
            [ArgSlot::buffer(0), constant, ArgSlot::scalar(16, 4)]
        );

        // A pointer to group-local memory that the launch sizes is an offset; a struct is bytes.
        let second = object.metadata("second").expect("sound").expect("metadata");
        let arguments = second.layout(&mut slots, &mut hidden).expect("known kinds");
        let bytes = ArgSlot {
            offset: 16,
            size: 12,
            kind: ArgKind::Bytes,
        };
        assert_eq!(
            arguments.layout.slots,
            [
                ArgSlot::buffer(0),
                ArgSlot::scalar(8, 4),
                ArgSlot::scalar(12, 2),
                bytes
            ]
        );

        let third = object.metadata("third").expect("sound").expect("metadata");
        let arguments = third.layout(&mut slots, &mut hidden).expect("known kinds");
        assert_eq!(
            arguments.layout.slots,
            [
                ArgSlot::buffer(0),
                ArgSlot::scalar(8, 1),
                ArgSlot::scalar(16, 8)
            ]
        );
        assert!(!arguments.hidden.is_empty());
        assert!(arguments.hidden.iter().all(|s| s.offset >= 24));
        let counts = arguments
            .hidden
            .iter()
            .filter(|s| matches!(s.kind, HiddenKind::BlockCount(_)));
        let five = object.abi() == AbiVersion::V5;
        assert_eq!(counts.count(), if five { 3 } else { 0 });
        assert_eq!(
            arguments.layout.size as usize,
            third.kernarg_segment_size as usize
        );

        let none = third.layout(&mut [], &mut hidden);
        assert_eq!(none, Err(LoadError::TooManyArguments { need: 1, have: 0 }));
        let none = third.layout(&mut slots, &mut []);
        assert_eq!(none, Err(LoadError::TooManyArguments { need: 1, have: 0 }));
    }
}

#[test]
fn other_files_are_refused() {
    assert_eq!(CodeObject::parse(&[]).err(), Some(LoadError::Elf));
    assert_eq!(
        CodeObject::parse(b"#!/bin/sh\n").err(),
        Some(LoadError::Elf)
    );
    let change = |at: usize, value: u8| {
        let mut data = MANY_V5.to_vec();
        data[at] = value;
        CodeObject::parse(&data).err()
    };
    assert_eq!(change(ABI, 1), Some(LoadError::Version { abi: 1 }));
    assert_eq!(change(ABI, 5), Some(LoadError::Version { abi: 5 }));
    assert_eq!(
        change(7, 0),
        Some(LoadError::NotAmdGpu {
            machine: 224,
            os_abi: 0
        })
    );
    assert_eq!(
        change(18, 62),
        Some(LoadError::NotAmdGpu {
            machine: 62,
            os_abi: 64
        })
    );
    assert_eq!(change(16, 2), Some(LoadError::Kind { kind: 2 }));
    let mut generic = MANY_V5.to_vec();
    generic[0x30] = 0x54;
    let chip = object(&generic).chip();
    assert_eq!(chip, Err(Refusal::NoTarget { number: 0x54 }));
}

/// Whatever the bytes are, every question has an answer or an error.
fn ask_everything(data: &[u8]) {
    let Ok(object) = CodeObject::parse(data) else {
        return;
    };
    let _ = object.chip();
    if let Ok(size) = object.image()
        && size.bytes <= 1 << 20
    {
        let mut memory = std::vec![0; size.bytes.div_ceil(8) as usize];
        let _ = object.load(&mut Region::from_words(&mut memory, 0x7f00_0000_0000));
    }
    let (mut slots, mut hidden) = ([ArgSlot::buffer(0); 8], [HiddenSlot::EMPTY; 32]);
    for kernel in object.kernels().into_iter().flatten() {
        let Ok(kernel) = kernel else { continue };
        let metadata = object.metadata(kernel.name).ok().flatten();
        if let Ok(chip) = object.chip() {
            let _ = kernel.kernel(chip, 0x7f00_0000_0000, metadata.as_ref());
        }
        if let Some(metadata) = metadata {
            let _ = metadata.layout(&mut slots, &mut hidden);
        }
    }
    for name in ["first", "third"] {
        let _ = (object.kernel(name), object.metadata(name));
    }
}

#[test]
fn every_truncation_is_answered() {
    let step = if cfg!(miri) { 257 } else { 1 };
    for data in [MANY_V4, MANY_V5] {
        for len in (0..data.len()).step_by(step) {
            ask_everything(&data[..len]);
        }
    }
}

/// A note of nothing but opening brackets does not use up the stack.
#[test]
fn deep_metadata_are_skipped() {
    let depth = if cfg!(miri) { 1000 } else { 100_000 };
    let deep = std::vec![0x91; depth];
    assert_eq!(
        msgpack::Reader::new(&deep).skip().err(),
        Some(LoadError::Metadata)
    );
    let mut closed = deep;
    closed.push(0xc0);
    assert_eq!(
        msgpack::Reader::new(&closed).skip().map(<[u8]>::len),
        Ok(depth + 1)
    );
    // Counts that no file has end at once.
    for huge in [
        [0xdf, 0xff, 0xff, 0xff, 0xff],
        [0xdd, 0xff, 0xff, 0xff, 0xff],
        [0xdb, 0xff, 0xff, 0xff, 0xff],
    ] {
        assert_eq!(
            msgpack::Reader::new(&huge).skip().err(),
            Some(LoadError::Metadata)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 2000 }) })]

    #[test]
    fn broken_files_are_answered(
        five in any::<bool>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), Just(0), Just(0xff)]), 1..12),
    ) {
        let mut data = if five { MANY_V5.to_vec() } else { MANY_V4.to_vec() };
        for (at, value) in changes {
            let at = at.index(data.len());
            data[at] = value;
        }
        ask_everything(&data);
    }

    /// Tables are where offsets and counts are: broken ones more often.
    #[test]
    fn broken_tables_are_answered(
        changes in proptest::collection::vec((0x1040usize..0x1400, any::<u64>(), 0u32..64), 1..4),
        header in proptest::collection::vec((16usize..64, any::<u8>()), 0..2),
    ) {
        let mut data = MANY_V5.to_vec();
        for (at, value, shift) in changes {
            let bytes = (value >> shift).to_le_bytes();
            let end = (at + 8).min(data.len());
            data[at..end].copy_from_slice(&bytes[..end - at]);
        }
        for (at, value) in header {
            data[at] = value;
        }
        ask_everything(&data);
    }
}
