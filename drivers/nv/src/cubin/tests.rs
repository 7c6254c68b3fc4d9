use super::info::{Attributes, Contents};
use super::*;
use hcq_nostd::args::{ArgKind, ArgSlot};
use hcq_nostd::mem::Region;
use std::string::ToString;
use std::vec::Vec;

const MANY: [(u16, &[u8]); 3] = [
    (86, include_bytes!("../../tests/objects/many-sm_86.cubin")),
    (90, include_bytes!("../../tests/objects/many-sm_90.cubin")),
    (120, include_bytes!("../../tests/objects/many-sm_120.cubin")),
];

fn chip(sm: u16) -> &'static Chip {
    let mut chips = crate::chips::CHIPS.iter();
    chips.find(|chip| chip.sm == sm).expect("a chip")
}

#[test]
fn every_kernel_is_found_with_its_own_numbers() {
    for (sm, data) in MANY {
        let cubin = Cubin::parse(data).expect("a cubin");
        assert_eq!((cubin.abi(), cubin.sm()), (AbiVersion::V8, sm));
        let mut names: Vec<_> = cubin.kernels().map(|k| k.expect("a kernel").name).collect();
        names.sort_unstable();
        assert_eq!(names, ["big", "first", "second"], "sm_{sm}");

        let first = cubin.kernel("first").expect("a kernel");
        assert_eq!(first.block, Some([64, 1, 1]));
        assert_eq!(first.barriers, 4, "sm_{sm}: up to barrier 3");
        assert_eq!(first.stack_bytes, 64);
        let second = cubin.kernel("second").expect("a kernel");
        assert_eq!((second.block, second.max_group), (None, Some(256)));
        assert_eq!((second.barriers, second.stack_bytes), (0, 0));
        assert!(first.registers > second.registers);
        assert_eq!((first.arguments_bytes, second.arguments_bytes), (16, 32));

        let kernel = first.kernel(chip(sm), 0x1000).expect("numbers");
        // 128 bytes of its own, and 1 KiB of the system's, once.
        assert_eq!(kernel.shared_bytes, 1024 + 128, "sm_{sm}");
        let kernel = second.kernel(chip(sm), 0x1000).expect("numbers");
        assert_eq!(kernel.shared_bytes, 1024, "sm_{sm}");
        assert_eq!(kernel.group_limit(), 256);
        assert_eq!(cubin.kernel("firs"), Err(LoadError::NoKernel));
        assert_eq!(cubin.kernel(""), Err(LoadError::NoKernel));
    }
}

#[test]
fn arguments_lie_where_the_parameter_info_says() {
    for (sm, data) in MANY {
        let cubin = Cubin::parse(data).expect("a cubin");
        let mut slots = [ArgSlot::buffer(0); 4];
        // A struct of 24 bytes behind a number.
        let second = cubin.kernel("second").expect("a kernel");
        let layout = second.layout(&mut slots).expect("a layout");
        let at = second.arguments_at;
        let bytes = ArgSlot {
            offset: at + 8,
            size: 24,
            kind: ArgKind::Bytes,
        };
        assert_eq!(layout.slots, [ArgSlot::scalar(at, 4), bytes], "sm_{sm}");
        // More than 4 KiB, which have records of their own.
        let big = cubin.kernel("big").expect("a kernel");
        let layout = big.layout(&mut slots).expect("a layout");
        let at = big.arguments_at;
        let bytes = ArgSlot {
            offset: at + 8,
            size: 6000,
            kind: ArgKind::Bytes,
        };
        let want = [ArgSlot::buffer(at), bytes, ArgSlot::scalar(at + 6008, 2)];
        assert_eq!(layout.slots, want, "sm_{sm}");
        assert_eq!(layout.size, at + 6010);
    }
}

/// The compiler says nothing of where the arguments of a kernel are that takes none.
#[test]
fn a_kernel_without_arguments_is_one() {
    const STOCK: [(u16, u32, &[u8]); 2] = [
        (
            86,
            0x160,
            include_bytes!("../../../../tests/conformance/kernels/nv/stock-sm_86.cubin"),
        ),
        (
            120,
            0x380,
            include_bytes!("../../../../tests/conformance/kernels/nv/stock-sm_120.cubin"),
        ),
    ];
    for (sm, begin, data) in STOCK {
        let cubin = Cubin::parse(data).expect("a cubin");
        let empty = cubin.kernel("empty").expect("a kernel");
        assert_eq!((empty.arguments_at, empty.arguments_bytes), (begin, 0));
        let mut slots = [ArgSlot::buffer(0); 4];
        let layout = empty.layout(&mut slots).expect("a layout");
        assert_eq!((layout.slots.len(), layout.size), (0, begin), "sm_{sm}");
        // One that has arguments has them at the same place.
        let fill = cubin.kernel("fill").expect("a kernel");
        assert_eq!((fill.arguments_at, fill.arguments_bytes), (begin, 16));
        let layout = fill.layout(&mut slots).expect("a layout");
        assert_eq!(
            (layout.slots.len(), layout.size),
            (3, begin + 16),
            "sm_{sm}"
        );
    }
}

#[test]
fn variables_are_in_the_image_and_pointers_point_at_them() {
    for (sm, data) in MANY {
        let cubin = Cubin::parse(data).expect("a cubin");
        let size = cubin.image().expect("a size");
        let base = 0x7f12_3456_7800;
        let mut memory = std::vec![u64::MAX; size.bytes.div_ceil(8) as usize];
        cubin
            .load(&mut Region::from_words(&mut memory, base))
            .expect("loads");
        let bytes: Vec<u8> = memory.iter().flat_map(|w| w.to_le_bytes()).collect();
        let word = |address: u64| {
            let at = (address - base) as usize;
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"))
        };
        // Bank 4: addresses of `counter`, `table` and `ptrs`, in that order.
        let big = cubin.kernel("big").expect("a kernel");
        let (at, len) = big.banks[4].expect("a bank");
        assert_eq!(len, 24, "sm_{sm}");
        let [counter, table, ptrs] = [0, 8, 16].map(|n| word(base + at + n));
        assert_eq!(word(counter) as u32, 0, "sm_{sm}: starts as zero");
        assert_eq!(word(table), 2 << 32 | 1, "sm_{sm}");
        assert_eq!((word(ptrs), word(ptrs + 8)), (table, 0), "sm_{sm}");
        // The code is as the file has it.
        let (_, text) = cubin.section([".text.", "big"]).expect("code");
        let code = cubin.contents(&text).expect("inside");
        assert_eq!(&bytes[big.code_at as usize..][..code.len()], code);
    }
}

#[test]
fn memory_that_does_not_fit_is_refused() {
    let cubin = Cubin::parse(MANY[0].1).expect("a cubin");
    let size = cubin.image().expect("a size");
    let words = size.bytes.div_ceil(8) as usize;
    let mut memory = std::vec![0u64; words];
    let mut short = Region::from_words(&mut memory[..words - 1], 0x1000);
    let error = cubin.load(&mut short);
    assert!(matches!(error, Err(LoadError::Memory { .. })));
    let mut odd = Region::from_words(&mut memory, 0x1080);
    let (address, align) = (0x1080, 256);
    assert_eq!(
        cubin.load(&mut odd),
        Err(LoadError::Misaligned { address, align })
    );
    let mut high = Region::from_words(&mut memory, u64::MAX - 0xff);
    assert!(cubin.load(&mut high).is_err());
}

#[test]
fn other_files_are_refused() {
    let mut data = MANY[0].1.to_vec();
    assert_eq!(Cubin::parse(&[]).err(), Some(LoadError::Elf));
    assert_eq!(Cubin::parse(b"#!/bin/sh").err(), Some(LoadError::Elf));
    let with = |at: usize, byte: u8, data: &mut Vec<u8>| {
        let before = std::mem::replace(&mut data[at], byte);
        let error = Cubin::parse(data).err();
        data[at] = before;
        error
    };
    assert_eq!(
        with(18, 62, &mut data),
        Some(LoadError::NotCuda { machine: 62 })
    );
    assert_eq!(with(16, 1, &mut data), Some(LoadError::Kind { kind: 1 }));
    let (os_abi, version) = (0x41, 9);
    assert_eq!(
        with(8, 9, &mut data),
        Some(LoadError::Version { os_abi, version })
    );
    let ampere = Cubin::parse(&data).expect("a cubin");
    assert_eq!(ampere.check(chip(89)), Ok(()));
    let (sm, chip_sm) = (86, 90);
    assert_eq!(
        ampere.check(chip(90)),
        Err(LoadError::Architecture { sm, chip: chip_sm })
    );
    assert!(LoadError::NoKernel.to_string().contains("kernel"));
}

#[test]
fn attribute_records_end_with_their_section() {
    let section = [
        4, 0x2f, 8, 0, 1, 0, 0, 0, 9, 0, 0, 0, 2, 0x4c, 3, 0, 1, 0x35, 0, 0,
    ];
    let all: Vec<_> = Attributes::new(&section)
        .map(|a| a.expect("whole"))
        .collect();
    assert_eq!(all.len(), 3);
    assert_eq!((all[0].word(1), all[0].word(2)), (Some(9), None));
    assert_eq!(all[1].contents, Contents::Value(3));
    assert_eq!(
        Attributes::new(&section).of_symbol(0x2f, |s| s == 1),
        Ok(Some(9))
    );
    assert_eq!(
        Attributes::new(&section).of_symbol(0x2f, |s| s == 2),
        Ok(None)
    );
    for len in [1, 3, 4, 11] {
        let last = Attributes::new(&section[..len]).last();
        assert_eq!(last, Some(Err(LoadError::Info)), "{len}");
    }
    assert_eq!(
        Attributes::new(&[9, 0, 0, 0]).next(),
        Some(Err(LoadError::Info))
    );
}

/// Everything that is read from a file, whatever is in it.
fn read_all(data: &[u8]) {
    let Ok(cubin) = Cubin::parse(data) else {
        return;
    };
    let mut slots = [ArgSlot::buffer(0); 8];
    for kernel in cubin.kernels().take(64).flatten() {
        let _ = kernel.layout(&mut slots);
        for chip in &crate::chips::CHIPS {
            let _ = kernel.kernel(chip, 0x1000);
        }
    }
    let _ = cubin.kernel("first");
    let Ok(size) = cubin.image() else {
        return;
    };
    if size.bytes < 1 << 20 {
        let mut memory = std::vec![0u64; size.bytes.div_ceil(8) as usize];
        let _ = cubin.load(&mut Region::from_words(&mut memory, 0x1_0000));
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of files")]
fn damaged_files_never_panic() {
    for (_, data) in MANY {
        for len in (0..data.len()).step_by(211) {
            read_all(&data[..len]);
        }
        let mut damaged = data.to_vec();
        let mut state = 0x9e37_79b9u32;
        for _ in 0..400 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = state as usize % data.len();
            let byte = [0, 0xff, 0x80, (state >> 24) as u8][state as usize >> 8 & 3];
            damaged[at] = byte;
            read_all(&damaged);
            // A few wrong bytes at once, and not more and more.
            if state >> 16 & 3 == 0 {
                damaged.copy_from_slice(data);
            }
        }
    }
}
