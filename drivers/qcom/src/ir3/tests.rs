//! What the compiler says, and what it cannot have said.

use super::*;
use crate::chips::Chip;
use crate::device::{Device, PrivateMemory};
use crate::image::{Format, Image};
use crate::pm4::{AdrenoCompute, Program};
use hcq_nostd::args::Arg;
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _};
use hcq_nostd::record::Block;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const CODE: [u8; 256] = [0; 256];

fn variant() -> Variant<'static> {
    Variant {
        code: &CODE,
        branch_stack: 0,
        private_bytes: 0,
        shared_bytes: 0,
        max_reg: 5,
        max_half_reg: -1,
        merged_registers: true,
        double_waves: false,
        work_group_id: 0xc0,
        local_invocation_id: 0,
        constlen: 8,
        immediates: &[],
        max_const_offset: 4,
        arguments_offset: 0,
        group_count: false,
        driver_params: (0, 0),
        textures: &[],
    }
}

#[test]
fn registers_and_stack_are_counted_as_the_hardware_does() {
    let kernel = |v: Variant<'_>| v.kernel(0x1000);
    let k = kernel(variant()).expect("a kernel");
    assert_eq!((k.full_registers, k.half_registers), (6, 0));
    for (levels, field) in [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 2),
        (61, 31),
        (64, 32),
        (u32::MAX, 32),
    ] {
        let v = Variant {
            branch_stack: levels,
            ..variant()
        };
        assert_eq!(kernel(v).map(|k| k.branch_stack), Ok(field), "{levels}");
    }
    for max_reg in [-2, 255, i16::MAX, i16::MIN] {
        let v = Variant {
            max_reg,
            ..variant()
        };
        assert_eq!(kernel(v), Err(VariantError::Register { number: max_reg }));
    }
    for code in [&CODE[..0], &CODE[..7]] {
        let bytes = code.len();
        let v = Variant { code, ..variant() };
        assert_eq!(kernel(v), Err(VariantError::Code { bytes }));
    }
    let v = Variant {
        constlen: 257,
        ..variant()
    };
    assert_eq!(kernel(v), Err(VariantError::Constants { end: 257 * 16 }));
}

/// The group's size is word 8 of the compiler's parameters, whose number goes into a register of 8 bits.
#[test]
fn the_groups_size_is_among_the_parameters() {
    for (driver_params, size) in [((0, 0), Ok(0xfc)), ((6, 3), Ok(0x20)), ((60, 1), Ok(248))] {
        let v = Variant {
            driver_params,
            ..variant()
        };
        let style = v.kernel(0).map(|k| k.style);
        let want = size.map(|group_size| Style::Ir3 {
            group_id: 0xc0,
            group_count: 0xfc,
            group_size,
            local_id: 0,
        });
        assert_eq!(style, want);
    }
    for offset in [61, 1000, u32::MAX] {
        let v = Variant {
            driver_params: (offset, 1),
            ..variant()
        };
        assert!(v.kernel(0).is_err(), "{offset}");
    }
}

#[test]
fn arguments_are_packed_and_immediates_behind_them() {
    let image = Some(Image::new(Format::R32Float, 16, 4).expect("an image"));
    let v = Variant {
        immediates: &[7, 8],
        arguments_offset: 16,
        textures: &[0],
        ..variant()
    };
    let params = [
        Param::Scalar(1),
        Param::Storage(image),
        Param::Buffer,
        Param::Texture(image),
        Param::Scalar(2),
        Param::Scalar(4),
    ];
    let (mut slots, mut images) = ([ArgSlot::buffer(0); 6], [ImageSlot::EMPTY; 2]);
    let mut constants = [Constant::EMPTY; 2];
    let layout = v
        .layout(&params, &mut slots, &mut images, &mut constants)
        .expect("a layout");
    let offsets: Vec<_> = layout.layout().slots.iter().map(|s| s.offset).collect();
    // Textures before storage images.
    assert_eq!(offsets, [16, 2048 + 64 + 16, 24, 2048 + 16, 32, 36]);
    assert_eq!(layout.samplers, [Sampler::TEXELS]);
    assert_eq!(constants.map(|c| (c.offset, c.value)), [(64, 7), (68, 8)]);
    let short = v.layout(&params, &mut slots, &mut images, &mut constants[..1]);
    let (need, have) = (2, 1);
    assert_eq!(
        short.map(|a| a.bytes()),
        Err(VariantError::Room { need, have })
    );
}

#[test]
fn there_is_a_sampler_for_each_argument_and_each_texture() {
    let v = Variant {
        textures: &[0],
        ..variant()
    };
    for (samplers, count) in [(0, 1), (1, 1), (2, 2), (31, 31)] {
        let mut params = vec![Param::Texture(None)];
        params.extend(vec![Param::Sampler; samplers]);
        let (mut slots, mut images) = ([ArgSlot::buffer(0); 32], [ImageSlot::EMPTY; 1]);
        let layout = v.layout(&params, &mut slots, &mut images, &mut []);
        let layout = layout.expect("a layout");
        assert_eq!(layout.samplers, vec![Sampler::TEXELS; count]);
        let offsets = layout.layout().slots.iter().map(|s| (s.offset, s.size));
        let texture = [(2048, 64)].into_iter();
        let wanted = texture.chain((0..samplers as u32).map(|n| (2112 + 16 * n, 16)));
        assert!(offsets.eq(wanted), "{samplers}");
    }
    let params = [Param::Sampler; 32];
    let (mut slots, mut images) = ([ArgSlot::buffer(0); 32], [ImageSlot::EMPTY; 1]);
    let (count, max) = (32, MAX_SAMPLERS);
    assert_eq!(
        v.layout(&params, &mut slots, &mut images, &mut [])
            .map(|a| a.bytes()),
        Err(VariantError::Arguments(ArgumentsError::TooMany {
            count,
            max
        }))
    );
}

fn param() -> impl Strategy<Value = Param> {
    prop_oneof![
        Just(Param::Buffer),
        any::<u8>().prop_map(Param::Scalar),
        Just(Param::Scalar(4)),
        Just(Param::Texture(None)),
        Just(Param::Storage(None)),
        Just(Param::Sampler),
    ]
}

fn offset() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), 0u32..300, Just(u32::MAX)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 1000 }) })]

    #[test]
    fn any_facts_are_laid_out_or_refused(
        params in proptest::collection::vec(param(), 0..12),
        textures in proptest::collection::vec(any::<u8>().prop_map(|t| t % 5), 0..40),
        immediates in proptest::collection::vec(any::<u32>(), 0..40),
        numbers in proptest::array::uniform8(offset()),
        registers in any::<[i16; 2]>(),
    ) {
        let v = Variant {
            textures: &textures,
            immediates: &immediates,
            branch_stack: numbers[0],
            private_bytes: numbers[1],
            shared_bytes: numbers[2],
            constlen: numbers[3],
            max_const_offset: numbers[4],
            arguments_offset: numbers[5],
            driver_params: (numbers[6], numbers[7]),
            max_reg: registers[0],
            max_half_reg: registers[1],
            ..variant()
        };
        _ = v.kernel(0);
        let mut slots = vec![ArgSlot::buffer(0); params.len()];
        let (mut images, mut constants) = ([ImageSlot::EMPTY; 64], [Constant::EMPTY; 40]);
        if let Ok(layout) = v.layout(&params, &mut slots, &mut images, &mut constants) {
            for slot in layout.layout().slots {
                prop_assert!(slot.offset + slot.size <= layout.bytes());
            }
        }
    }
}

/// The compiler has the number of work-groups, then four words, then the work-group's size.
#[test]
fn the_number_of_groups_is_among_the_parameters_of_those_that_read_it() {
    let chip = Chip::named("630").expect("known");
    let device = Device::new(chip, 0x5_0000_1000, 0x5_0000_3000).expect("a device");
    let private = PrivateMemory::new(0x5_4000_0000, 1 << 20).expect("memory");
    for (group_count, written) in [(true, [5, 6, 7]), (false, [0; 3])] {
        let v = Variant {
            arguments_offset: 64,
            driver_params: (0, 4),
            group_count,
            ..variant()
        };
        let kernel = v.kernel(0x5_2000_0000).expect("a program");
        let mut slots = [ArgSlot::buffer(0); 1];
        let arguments = v
            .layout(&[Param::Buffer], &mut slots, &mut [], &mut [])
            .expect("an argument");
        let program = Program::new(&device, &kernel, &arguments, &private).expect("fits");
        let mut memory = [0u64; 512];
        let mut block = Region::from_words(&mut memory, 0x5_1000_0000);
        let mut words = [0u32; 128];
        AdrenoCompute::new(&device, &mut words, PatchList::none())
            .exec(Launch {
                program: &program,
                args: &[Arg::Buffer(0x5_1100_0000u64.into())],
                kernargs: Block::new(&mut block, RegionId(1), 0, program.kernargs_size())
                    .expect("room"),
                groups: [5u64, 6, 7].map(Into::into),
                local: [4u64, 3, 2].map(Into::into),
                local_memory: 0,
            })
            .expect("recorded");
        let words: Vec<u32> = memory
            .iter()
            .flat_map(|w| [*w as u32, (*w >> 32) as u32])
            .collect();
        assert_eq!(words[..3], written);
        assert_eq!(words[8..11], [4, 3, 2]);
        assert_eq!(words[16..18], [0x1100_0000, 5]);
    }
}
