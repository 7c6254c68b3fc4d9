use std::vec;
use std::vec::Vec;

use hcq_nostd::args::{Arg, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _};
use hcq_nostd::record::Block;

use super::*;
use crate::chips::Chip;
use crate::container::{ArgumentKind, Container};
use crate::device::{Device, PrivateMemory};
use crate::image::{Format, Image};
use crate::kernel::{Constant, ImageSlot, Param};
use crate::pm4::{AdrenoCompute, Program};

macro_rules! file {
    ($name:literal) => {
        include_bytes!(concat!(
            "../../../../tests/conformance/kernels/qcom/",
            $name
        ))
    };
}

static FILES: [(&str, &[u8]); 3] = [
    ("630", file!("stock-a630.ir3")),
    ("650", file!("stock-a650.ir3")),
    ("660", file!("stock-a660.ir3")),
];

fn device(chip: &str) -> Device {
    let chip = Chip::named(chip).expect("known");
    Device::new(chip, 0x5_0000_1000, 0x5_0000_3000).expect("a device")
}

fn params(kinds: impl Iterator<Item = ParamKind>) -> Vec<Param> {
    let image = Image::new(Format::Rgba32Float, 8, 4).ok();
    kinds
        .map(|kind| match kind {
            ParamKind::Buffer => Param::Buffer,
            ParamKind::Scalar(bytes) => Param::Scalar(bytes),
            ParamKind::Texture => Param::Texture(image),
            ParamKind::Storage => Param::Storage(image),
        })
        .collect()
}

#[test]
fn every_program_of_the_files_can_be_prepared() {
    for (chip, file) in FILES {
        let device = device(chip);
        let bundle = Bundle::parse(file).expect(chip);
        assert_eq!(std::format!("{}", bundle.chip()), chip);
        assert_eq!(bundle.programs().count(), 15);
        for entry in bundle.programs() {
            let name = entry.name();
            let mut immediates = [0; 8];
            let variant = entry.variant(&mut immediates).expect(name);
            let kernel = variant.kernel(0x5_2000_0000).expect(name);
            let params = params(entry.params());
            let fields = entry.signature().matches(';').count();
            assert_eq!(params.len(), fields, "{name}");
            let mut slots = vec![ArgSlot::buffer(0); params.len()];
            let (mut images, mut constants) = ([ImageSlot::EMPTY; 4], [Constant::EMPTY; 8]);
            let arguments = variant
                .layout(&params, &mut slots, &mut images, &mut constants)
                .expect(name);
            let private = PrivateMemory::new(0x5_4000_0000, 1 << 20).expect("memory");
            let program = Program::new(&device, &kernel, &arguments, &private).expect(name);
            assert!(program.max_group() >= 512, "{name}");
        }
    }
}

/// The compiler has the number of work-groups, then four words, then the work-group's size.
#[test]
fn the_number_of_groups_is_among_the_parameters() {
    let device = device("630");
    let bundle = Bundle::parse(FILES[0].1).expect("a file");
    for (name, count) in [("dims", [5, 6, 7]), ("fill", [0; 3])] {
        let entry = bundle.find(name).expect(name);
        let variant = entry.variant(&mut []).expect(name);
        assert_eq!(variant.driver_params, (0, 4), "{name}");
        let kernel = variant.kernel(0x5_2000_0000).expect(name);
        let params = params(entry.params());
        let mut slots = vec![ArgSlot::buffer(0); params.len()];
        let arguments = variant
            .layout(&params, &mut slots, &mut [], &mut [])
            .expect(name);
        let private = PrivateMemory::new(0x5_4000_0000, 1 << 20).expect("memory");
        let program = Program::new(&device, &kernel, &arguments, &private).expect(name);
        let mut memory = [0u64; 512];
        let mut block = Region::from_words(&mut memory, 0x5_1000_0000);
        let mut words = [0u32; 128];
        let numbers = [1u64, 2].map(|value| Arg::Scalar {
            value: value.into(),
            size: 4,
        });
        let args: Vec<_> = [Arg::Buffer(0x5_1100_0000u64.into())]
            .into_iter()
            .chain(numbers)
            .take(params.len())
            .collect();
        AdrenoCompute::new(&device, &mut words, PatchList::none())
            .exec(Launch {
                program: &program,
                args: &args,
                kernargs: Block::new(&mut block, RegionId(1), 0, program.kernargs_size())
                    .expect("room"),
                groups: [5u64, 6, 7].map(Into::into),
                local: [4u64, 3, 2].map(Into::into),
                local_memory: 0,
            })
            .expect(name);
        let words: Vec<u32> = memory
            .iter()
            .flat_map(|w| [*w as u32, (*w >> 32) as u32])
            .collect();
        assert_eq!(words[..3], count, "{name}");
        assert_eq!(words[8..11], [4, 3, 2], "{name}");
        // The arguments follow at 64 bytes.
        assert_eq!(words[16..18], [0x1100_0000, 5], "{name}");
    }
}

#[test]
fn containers_of_opencl_programs_are_taken() {
    use ArgumentKind::{Plain, Storage, Texture};
    let files: [(&str, &[u8], &[ArgumentKind]); 11] = [
        ("empty", file!("cl/empty.bin"), &[]),
        ("fill", file!("cl/fill.bin"), &[Plain; 3]),
        ("copy", file!("cl/copy.bin"), &[Plain; 3]),
        ("add", file!("cl/add.bin"), &[Plain; 4]),
        ("scale", file!("cl/scale.bin"), &[Plain; 5]),
        ("step", file!("cl/step.bin"), &[Plain; 4]),
        ("reduce", file!("cl/reduce.bin"), &[Plain; 3]),
        ("spin", file!("cl/spin.bin"), &[Plain; 3]),
        (
            "read_image",
            file!("cl/read_image.bin"),
            &[Texture, Plain, Plain, Plain],
        ),
        (
            "write_image",
            file!("cl/write_image.bin"),
            &[Plain, Storage, Plain, Plain],
        ),
        (
            "copy_image",
            file!("cl/copy_image.bin"),
            &[Texture, Storage, Plain, Plain],
        ),
    ];
    for (name, file, kinds) in files {
        let container = Container::parse(file, name).expect(name);
        assert!(
            container
                .arguments()
                .map(|a| a.kind)
                .eq(kinds.iter().copied())
        );
        assert_eq!(
            container.constant_count(),
            if name == "spin" { 2 } else { 0 }
        );
        assert!(container.code().len().is_multiple_of(128), "{name}");
        // `end` is among the instructions, with or without (sy) and (jp).
        let code = container.code().as_chunks::<8>().0;
        assert!(code.iter().any(|i| i[7] & 0xe7 == 3), "{name}");
        assert!(Container::parse(file, "other").is_err());
    }
}

fn with(change: impl FnOnce(&mut Vec<u8>)) -> Result<usize, BundleError> {
    let mut file = FILES[0].1.to_vec();
    change(&mut file);
    Bundle::parse(&file).map(|b| b.programs().count())
}

fn put(at: usize, value: u32) -> Result<usize, BundleError> {
    with(|file| file[at..at + 4].copy_from_slice(&value.to_le_bytes()))
}

#[test]
fn files_that_are_none_are_refused() {
    assert_eq!(with(|_| ()), Ok(15));
    assert_eq!(with(|f| f[0] = b'i'), Err(BundleError::Magic));
    assert_eq!(with(|f| f.clear()), Err(BundleError::Magic));
    let number = |at, value| Err(BundleError::Number { at, value });
    assert_eq!(put(8, 2), number(8, 2));
    assert_eq!(put(12, 0x1_0000), number(12, 0x1_0000));
    assert_eq!(put(20, 7), number(20, 7));
    assert_eq!(put(28, 7), number(28, 7));
    let longer = with(|f| f.push(0));
    assert!(matches!(longer, Err(BundleError::Number { at: 20, .. })));
    let cut = Err(BundleError::Truncated {
        at: 32,
        bytes: 96 * u64::from(u32::MAX),
    });
    assert_eq!(put(16, u32::MAX), cut);
    // The first record: a name, arguments, instructions, flags, registers that cannot be.
    let record = |i: u32| 32 + 4 * i;
    for (i, value) in [
        (1, 0),
        (6, 4),
        (7, 0),
        (7, 4),
        (15, 0x8000),
        (16, 0xffff_0000),
        (17, 8),
        (18, 0x1_0000),
    ] {
        assert_eq!(put(record(i) as usize, value), number(record(i), value));
    }
    for i in [0, 2, 4, 6, 8, 10] {
        let far = put(record(i) as usize + 4, 0xffff_fff8);
        assert!(matches!(far, Err(BundleError::Truncated { .. })), "{i}");
    }
    // The second program's first argument.
    let second = Bundle::parse(FILES[0].1).map(|b| b.programs().nth(1).map(|e| e.words[4]));
    let at = second.expect("a file").expect("a program") as usize;
    assert_eq!(put(at, 9), number(32 + 96 + 16, at as u32));
    let name = with(|f| {
        f[FILES[0].1[32..36]
            .iter()
            .rev()
            .fold(0, |a, b| a << 8 | usize::from(*b))] = 0xff
    });
    assert!(matches!(name, Err(BundleError::Text { .. })));
    let bundle = Bundle::parse(FILES[0].1).expect("a file");
    let spin = bundle.find("spin").expect("there");
    assert_eq!(
        spin.variant(&mut [0]).err(),
        Some(BundleError::Immediates { need: 2, have: 1 })
    );
    assert_eq!(
        spin.variant(&mut [0; 2]).map(|v| v.immediates.to_vec()),
        Ok(vec![1_664_525, 1_013_904_223])
    );
}

/// Whatever is in the file: no panic, and what is handed out lies in it.
#[test]
fn one_wrong_byte_anywhere() {
    let file = FILES[0].1;
    for at in 0..32 + 96 * 2 {
        for value in [0, 0x7f, 0xff] {
            let mut file = file.to_vec();
            file[at] = value;
            if let Ok(bundle) = Bundle::parse(&file) {
                for entry in bundle.programs() {
                    _ = entry.params().count();
                    _ = entry.variant(&mut [0; 8]).map(|v| _ = v.kernel(0));
                }
            }
        }
    }
}
