//! Files that are damaged in any way: an error, never more.

use super::*;
use hcq_golden::{bytes, cases, name};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

fn files() -> Vec<(Vec<u8>, std::string::String)> {
    cases("qcom-misc")
        .iter()
        .filter(|c| name(c).starts_with("parse_"))
        .map(|c| {
            let inputs = &c["inputs"];
            let name = inputs["name"].as_str().expect("a name");
            (bytes(&inputs["container"]), name.into())
        })
        .collect()
}

/// Reads all that there is.
fn read(data: &[u8], name: &str) -> Result<u32, ContainerError> {
    let container = Container::parse(data, name)?;
    let params: Vec<_> = container
        .arguments()
        .map(|a| match a.kind {
            ArgumentKind::Plain => Param::Buffer,
            ArgumentKind::Texture => Param::Texture(None),
            ArgumentKind::Storage => Param::Storage(None),
        })
        .collect();
    let mut slots = vec![ArgSlot::buffer(0); params.len()];
    let mut images = vec![ImageSlot::EMPTY; params.len()];
    let mut constants = vec![Constant::EMPTY; container.constant_count()];
    let laid_out = container.layout(&params, &mut slots, &mut images, &mut constants)?;
    assert!(laid_out.bytes() >= 4096);
    Ok(laid_out.bytes())
}

#[test]
fn files_that_end_early_are_refused() {
    for (data, name) in files() {
        assert!(read(&data, &name).is_ok());
        for len in 0..data.len() {
            assert!(read(&data[..len], &name).is_err(), "{name}: {len} bytes");
        }
    }
}

#[test]
fn names_are_found() {
    for (data, name) in files() {
        assert_eq!(Container::name(&data), Some(&*name));
        for len in 0..data.len() {
            assert_eq!(Container::name(&data[..len]), None, "{name}: {len} bytes");
        }
    }
    assert_eq!(Container::name(&[]), None);
    assert_eq!(Container::name(&[0xff; 0x400]), None);
}

#[test]
fn other_names_are_refused() {
    for (data, name) in files() {
        for other in ["", "other", "a name that is longer than what is behind"] {
            assert_eq!(
                Container::parse(&data, other).map(|c| c.constant_count()),
                Err(ContainerError::Name),
                "{name}"
            );
        }
    }
}

/// The kernel is `kernel_c`: what follows the beginning of its name is no padding, and no argument.
#[test]
fn the_beginning_of_a_name_is_another_name() {
    let (data, name) = files()
        .into_iter()
        .find(|(_, name)| name == "kernel_c")
        .expect("the case with constants");
    for len in 1..name.len() {
        assert!(Container::parse(&data, &name[..len]).is_err(), "{len}");
    }
}

#[test]
fn other_arguments_are_refused() {
    let (data, name) = &files()[0];
    let container = Container::parse(data, name).expect("a program");
    let kind = |index| Err(ContainerError::Arguments(ArgumentsError::Kind { index }));
    let buffer = Param::Buffer;
    for (params, error) in [
        (&[buffer, buffer][..], kind(2)),
        (&[buffer, buffer, buffer, buffer], kind(3)),
        (&[buffer, Param::Texture(None), buffer], kind(1)),
        (&[buffer, buffer, Param::Storage(None)], kind(2)),
    ] {
        let (mut slots, mut images) = ([ArgSlot::buffer(0); 4], [ImageSlot::EMPTY; 4]);
        let layout = container.layout(params, &mut slots, &mut images, &mut []);
        assert_eq!(layout.map(|a| a.bytes()), error);
    }
    let (data, name) = files()
        .into_iter()
        .find(|(_, name)| name == "kernel_c")
        .expect("the case with constants");
    let container = Container::parse(&data, &name).expect("a program");
    let (mut slots, mut constants) = ([ArgSlot::buffer(0); 1], [Constant::EMPTY; 4]);
    let layout = container.layout(&[buffer], &mut slots, &mut [], &mut constants);
    let (need, have) = (5, 4);
    assert_eq!(
        layout.map(|a| a.bytes()),
        Err(ContainerError::Constants { need, have })
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 2000 }) })]

    #[test]
    fn damaged_files_are_read_or_refused(
        which in 0usize..7,
        damage in proptest::collection::vec((0usize..2048, prop_oneof![any::<u32>(), 0u32..0x800, Just(u32::MAX)]), 1..6),
    ) {
        let (mut data, name) = files().swap_remove(which);
        for (at, value) in damage {
            let at = (at % data.len()) & !3;
            if let Some(word) = data[at..].first_chunk_mut() {
                *word = value.to_le_bytes();
            }
        }
        _ = read(&data, &name);
    }

    #[test]
    fn any_bytes_are_read_or_refused(data in proptest::collection::vec(any::<u8>(), 0..1024)) {
        _ = read(&data, "k");
    }
}

#[test]
fn containers_of_opencl_programs_are_taken() {
    use ArgumentKind::{Plain, Storage, Texture};
    macro_rules! file {
        ($name:literal) => {
            include_bytes!(concat!(
                "../../../../tests/conformance/kernels/qcom/",
                $name
            ))
        };
    }
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
