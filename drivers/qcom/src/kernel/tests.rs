//! Layouts, and what is none.

use super::*;
use crate::image::Format;
use std::vec;
use std::vec::Vec;

const NONE: Given<'static> = Given {
    storage_first: true,
    texture_map: None,
    constants: &[],
    samplers: &[],
};

/// Offsets of all slots, offsets of all descriptors, and the end.
fn layout(
    params: &[(Param, u32)],
    given: Given<'_>,
) -> Result<(Vec<u32>, Vec<u32>, u32), ArgumentsError> {
    let mut slots = vec![ArgSlot::buffer(0); params.len()];
    let mut images = vec![ImageSlot::EMPTY; 256];
    let arguments = Arguments::new(params.iter().copied(), given, &mut slots, &mut images)?;
    let slots = arguments.layout.slots.iter().map(|s| s.offset).collect();
    let images = arguments.images.iter().map(|i| i.offset).collect();
    Ok((slots, images, arguments.bytes()))
}

fn image() -> Option<Image> {
    Some(Image::new(Format::Rgba8Unorm, 64, 64).expect("an image"))
}

#[test]
fn images_are_behind_arguments() {
    let (texture, storage) = (Param::Texture(image()), Param::Storage(None));
    let params = [
        (Param::Buffer, 64),
        (texture, 0),
        (storage, 0),
        (texture, 0),
    ];
    assert_eq!(
        layout(&params, NONE),
        Ok((
            vec![64, 2048 + 64 + 16, 2048, 2048 + 128 + 16],
            vec![2112, 2048, 2176],
            4096
        ))
    );
    // Arguments that reach further push them back.
    let params = [(Param::Buffer, 2048), (texture, 0)];
    assert_eq!(
        layout(&params, NONE),
        Ok((vec![2048, 4112], vec![4096], 4096 + 64))
    );
    let params = [(Param::Buffer, 4088)];
    assert_eq!(layout(&params, NONE), Ok((vec![4088], vec![], 4096)));
}

/// A texture in several registers has a descriptor in each.
#[test]
fn textures_are_where_the_compiler_wants_them() {
    let texture = Param::Texture(image());
    let given = Given {
        storage_first: false,
        texture_map: Some(&[1, 0, 1]),
        ..NONE
    };
    assert_eq!(
        layout(&[(texture, 0), (texture, 0)], given),
        Ok((
            vec![2048 + 64 + 16, 2048 + 16],
            vec![2112, 2048, 2176],
            4096
        ))
    );
    for (map, count, number) in [(&[0u8, 2][..], 2, 1), (&[0, 0], 2, 1), (&[0, 1], 1, 1)] {
        let given = Given {
            texture_map: Some(map),
            ..given
        };
        let params = vec![(texture, 0); count];
        assert_eq!(
            layout(&params, given),
            Err(ArgumentsError::Texture { number })
        );
    }
}

/// Samplers that are arguments are in the first registers, behind the descriptors.
#[test]
fn samplers_are_behind_images() {
    let (texture, sampler) = (Param::Texture(image()), Param::Sampler);
    let given = Given {
        samplers: &[Sampler::TEXELS; 3],
        ..NONE
    };
    let params = [(sampler, 0), (texture, 0), (sampler, 0)];
    assert_eq!(
        layout(&params, given),
        Ok((vec![2112, 2048 + 16, 2112 + 16], vec![2048], 4096))
    );
    // Behind constants that reach further, they make the block longer.
    let params = [(Param::Buffer, 2048), (sampler, 0)];
    assert_eq!(
        layout(&params, given),
        Ok((vec![2048, 4096], vec![], 4096 + 3 * 16))
    );
    let params = vec![(sampler, 0); 4];
    let (count, max) = (4, 3);
    assert_eq!(
        layout(&params, given),
        Err(ArgumentsError::TooMany { count, max })
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let far = |end| Err(ArgumentsError::TooFar { end });
    assert_eq!(layout(&[(Param::Buffer, 4089)], NONE), far(4097));
    assert_eq!(
        layout(&[(Param::Scalar(4), u32::MAX)], NONE),
        far((1 << 32) + 3)
    );
    let constants = |offset, bytes| Constant {
        value: 1,
        offset,
        bytes,
    };
    for (constant, error) in [
        (constants(4095, 2), far(4097)),
        (constants(0, 3), Err(ArgumentsError::Size { bytes: 3 })),
    ] {
        let given = Given {
            constants: &[constant],
            ..NONE
        };
        assert_eq!(layout(&[], given), error);
    }
    for bytes in [0, 3, 16] {
        assert_eq!(
            layout(&[(Param::Scalar(bytes), 0)], NONE),
            Err(ArgumentsError::Size { bytes })
        );
    }
    let many = |count, max| Err(ArgumentsError::TooMany { count, max });
    assert_eq!(
        layout(&vec![(Param::Texture(None), 0); 129], NONE),
        many(129, 128)
    );
    assert_eq!(
        layout(&vec![(Param::Storage(None), 0); 65], NONE),
        many(65, 64)
    );
    let given = Given {
        samplers: &[Sampler::TEXELS; 32],
        ..NONE
    };
    assert_eq!(layout(&[], given), many(32, 31));
    let (mut slots, mut images) = ([ArgSlot::buffer(0); 1], [ImageSlot::EMPTY; 1]);
    let two = [(Param::Buffer, 0), (Param::Buffer, 8)];
    let short = Arguments::new(two.into_iter(), NONE, &mut slots, &mut images);
    let error = ArgumentsError::TooMany { count: 2, max: 1 };
    assert_eq!(short.err(), Some(error));
    let mut slots = [ArgSlot::buffer(0); 2];
    let two = [(Param::Texture(None), 0); 2];
    let short = Arguments::new(two.into_iter(), NONE, &mut slots, &mut images);
    let error = ArgumentsError::TooMany { count: 2, max: 1 };
    assert_eq!(short.err(), Some(error));
}

#[test]
fn images_that_are_none_are_refused() {
    for (width, height) in [(0, 1), (1, 0), (16385, 1), (1, 16385), (u32::MAX, 1)] {
        assert!(Image::new(Format::Rgba32Float, width, height).is_err());
    }
    for pitch in [0, 32, 96, 64, 1 << 22] {
        let image = Image::with_pitch(Format::R32Uint, 17, 2, pitch);
        assert!(image.is_err(), "{pitch}");
    }
    let image = Image::with_pitch(Format::R32Uint, 17, 2, 128).expect("an image");
    assert_eq!((image.pitch(), image.bytes()), (128, 256));
    for address in [32, 1 << 49, u64::MAX - 63] {
        assert!(image.texture_at(address).is_err() && image.storage_at(address).is_err());
    }
    let whole = image.texture_at(0x1_2345_6780 & !63).expect("an address");
    assert_eq!(whole[16..24], (0x1_2345_6780u64 & !63).to_le_bytes());
}
