//! Programs that ir3 compiled, from their files to what they do to memory.

use super::support::*;
use crate::standin::StandIns;

const BUNDLE: &[u8] =
    include_bytes!("../../../../../../tests/conformance/kernels/qcom/stock-a630.ir3");
const OUT: u64 = 0x5_1200_0000;
const IN: u64 = 0x5_1300_0000;
const IMAGE: u64 = 0x5_1400_0000;
/// Where the arguments of most programs are among the constants, in words.
const ARGUMENTS: usize = 16;

/// The instructions of a program of the bundle.
fn code(name: &str) -> Vec<u8> {
    let find = |from: usize, text: &str| {
        let places = BUNDLE[from..].windows(text.len());
        let at = places.into_iter().position(|w| w == text.as_bytes());
        from + at.unwrap_or_else(|| panic!("{name}: {text}")) + text.len()
    };
    let start = find(find(0, &format!("kernel {name}\n")), "\ncode ");
    let end = find(start, "\n");
    let bytes = std::str::from_utf8(&BUNDLE[start..end - 1]).unwrap();
    BUNDLE[end..end + bytes.parse::<usize>().unwrap()].to_vec()
}

fn rig(code: &[u8]) -> Rig {
    let mut rig = Rig::with("a630", 3, Box::new(StandIns::stock()));
    for at in [OUT, IN, IMAGE] {
        rig.memory.map(at, 0x4000);
    }
    for (at, bytes) in (0..).zip(code.as_chunks::<4>().0) {
        rig.memory.put(CODE + 4 * at, u32::from_le_bytes(*bytes));
    }
    rig
}

/// The packets of a launch with this constant file; images behind it in the argument block.
fn packets(file: &[u32], groups: [u32; 3], local: [u32; 3], images: &[Vec<u32>]) -> Vec<u32> {
    let ([gx, gy, gz], [x, y, z]) = (groups, local);
    [
        state(CODE, groups),
        pkt4(0xA9B0, &[12 << 7]),
        pkt4(0xA9BC, &[16]),
        pkt4(0xB987, &[0x100 | 32]),
        pkt4(
            0xB990,
            &[
                3 | (x - 1) << 2 | (y - 1) << 12 | (z - 1) << 22,
                gx * x,
                0,
                gy * y,
                0,
                gz * z,
                0,
            ],
        ),
        constants(0, file),
        images.concat(),
        exec(groups),
        flush(SCRAP, 0),
        invalidate(),
        wait_for_idle(),
    ]
    .concat()
}

/// A constant file with the driver's parameters and arguments behind them.
fn file(groups: [u32; 3], local: [u32; 3], arguments: &[u32]) -> Vec<u32> {
    let mut file = vec![0; 64];
    file[..3].copy_from_slice(&groups);
    file[8..11].copy_from_slice(&local);
    file[ARGUMENTS..][..arguments.len()].copy_from_slice(arguments);
    file
}

/// Runs a program of the bundle on a machine that has something in memory.
fn run(name: &str, arguments: &[u32], groups: [u32; 3], local: [u32; 3], data: &[u32]) -> Rig {
    let mut rig = rig(&code(name));
    rig.memory.words(IN, data);
    let file = file(groups, local, arguments);
    rig.submit(&packets(&file, groups, local, &[]));
    rig.finish();
    rig
}

fn out(rig: &Rig, count: u64) -> Vec<u32> {
    (0..count).map(|i| rig.memory.get(OUT + 4 * i)).collect()
}

#[test]
fn items_numbers_and_sums() {
    let (o, i) = ([lo(OUT), hi(OUT)], [lo(IN), hi(IN)]);
    let fill = run("fill", &[o[0], o[1], 7, 70], [3, 1, 1], [32, 1, 1], &[]);
    let filled = out(&fill, 72);
    assert!(filled[..70].iter().all(|&w| w == 7) && filled[70..] == [0, 0]);

    let data: Vec<u32> = (0..200).map(|n| n * n).collect();
    let copy = run(
        "copy",
        &[i[0], i[1], o[0], o[1], 150],
        [2, 1, 1],
        [128, 1, 1],
        &data,
    );
    assert_eq!(out(&copy, 150), data[..150]);

    let sums = run(
        "reduce",
        &[i[0], i[1], o[0], o[1], 50],
        [3, 1, 1],
        [16, 1, 1],
        &data,
    );
    for g in 0..3 {
        let sum: u32 = data[50 * g..][..50].iter().sum();
        assert_eq!(out(&sums, 6)[2 * g..][..2], [sum, 0], "{g}");
    }
}

#[test]
fn sizes_come_from_the_drivers_parameters() {
    let (groups, local) = ([3, 2, 2], [4, 2, 1]);
    let rig = run("dims", &[lo(OUT), hi(OUT)], groups, local, &[]);
    let words = out(&rig, 4 * 96);
    for (i, item) in words.chunks(4).enumerate() {
        let (x, y, z) = (i % 12, i / 12 % 4, i / 48);
        let group = ((x / 4) | ((y / 2) << 10) | (z << 20)) as u32;
        assert_eq!(
            item,
            [1, group, 3 | 2 << 10 | 2 << 20, 4 | 2 << 10 | 1 << 20],
            "{i}"
        );
    }
}

#[test]
fn what_a_program_relies_on_has_to_be_there() {
    let spin = |constants: &[u32]| {
        let mut rig = rig(&code("spin"));
        let mut file = vec![0; 64];
        file[..4].copy_from_slice(&[lo(OUT), hi(OUT), 3, 5]);
        file[16..16 + constants.len()].copy_from_slice(constants);
        rig.submit(&packets(&file, [2, 1, 1], [8, 1, 1], &[]));
        rig
    };
    let mut right = spin(&[1_664_525, 1_013_904_223]);
    right.finish();
    let turned = |x: u32| {
        (0..3).fold(x, |x, _| {
            x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
        })
    };
    assert_eq!(out(&right, 2), [turned(5), turned(6)]);
    let text = spin(&[1_664_525]).fault();
    assert!(
        text.contains("the constant at byte 68 is 0x0; the program's code relies on 0x3c6ef35f"),
        "{text}"
    );
    // Another program's code is another program.
    let mut rig = rig(&code("fill"));
    rig.memory.put(CODE + 8, 1);
    rig.submit(&packets(&file([1; 3], [1; 3], &[]), [1; 3], [1; 3], &[]));
    assert!(rig.fault().contains("nobody can run the program"));
}

#[test]
fn a_container_of_opencl_finds_its_ids_without_constants() {
    let bytes = include_bytes!("../../../../../../tests/conformance/kernels/qcom/cl/add.bin");
    let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
    let mut rig = rig(&bytes[word(0xC0)..][..word(0x100)]);
    let data: Vec<u32> = (0..100).collect();
    rig.memory.words(IN, &data);
    let (i, o) = ([lo(IN), hi(IN)], [lo(OUT), hi(OUT)]);
    let file = [i[0], i[1], i[0], i[1], o[0], o[1], 90, 0];
    let mut words = state(CODE, [2, 1, 1]);
    words.extend(pkt4(0xA9B0, &[12 << 7 | 4 << 1]));
    words.extend(pkt4(0xA9BC, &[16]));
    words.extend(pkt4(0xB997, &[0x00CC_C0CF]));
    words.extend(constants(0, &file));
    words.extend([pkt7(0x31, &[0]), flush(SCRAP, 0), wait_for_idle()].concat());
    rig.submit(&words);
    rig.finish();
    let sums = out(&rig, 100);
    assert!((0..90).all(|n| sums[n] == 2 * n as u32) && sums[90..] == [0; 10]);
}

/// A descriptor of 5 by 3 texels: a texture's has swizzles.
fn descriptor(format: u32, texture: bool) -> [u32; 16] {
    let swizzle = if texture {
        8 | 1 << 7 | 2 << 10 | 3 << 13
    } else {
        0
    };
    let mut words = [0; 16];
    words[..6].copy_from_slice(&[
        format << 22 | swizzle,
        5 | 3 << 15,
        1 | 128 << 7 | 1 << 29,
        0,
        lo(IMAGE),
        hi(IMAGE),
    ]);
    words
}

/// Loads one descriptor, and says how many there are.
fn image(rig: &Rig, format: u32, texture: bool) -> Vec<Vec<u32>> {
    let at = ARGS + 0x800;
    rig.memory.words(at, &descriptor(format, texture));
    rig.memory
        .words(at + 64, &[3 << 5 | 3 << 8 | 3 << 11, 0x30, 0, 0]);
    if texture {
        vec![
            load(1, 0x5, 1, at),
            load(0, 0x5, 1, at + 64),
            pkt4(0xB180, &[0x3000, 5]),
            pkt4(0xA9BA, &[0x80]),
            pkt4(0xA9BB, &[1 << 8 | 1 << 9 | 1 << 17]),
        ]
    } else {
        vec![
            load(3, 0xD, 1, at),
            pkt4(0xAA00, &[0x40]),
            pkt4(0xA9BB, &[1 << 8 | 1 << 22]),
        ]
    }
}

#[test]
fn texels_go_to_an_image_and_come_back() {
    let texels: Vec<f32> = (0..60).map(|n| n as f32 / 64.0 - 0.25).collect();
    // RGBA32F, RGBA16F, RGBA8 as fractions with and without a sign.
    type Stored = fn(f32) -> f32;
    let formats: [(u32, Stored); 4] = [
        (0x82, |v| v),
        (0x62, |v| v),
        (0x30, |v| {
            (v.clamp(0.0, 1.0) * 255.0).round_ties_even() / 255.0
        }),
        (0x32, |v| {
            (v.clamp(-1.0, 1.0) * 127.0).round_ties_even() / 127.0
        }),
    ];
    for (format, stored) in formats {
        // More items than texels, in both directions.
        let (groups, local) = ([2, 2, 1], [4, 2, 1]);
        let mut rig = rig(&code("write_image"));
        let data: Vec<u32> = texels.iter().map(|t| t.to_bits()).collect();
        rig.memory.words(IN, &data);
        let arguments = [lo(IN), hi(IN), 5, 3];
        let images = image(&rig, format, false);
        rig.submit(&packets(
            &file(groups, local, &arguments),
            groups,
            local,
            &images,
        ));
        rig.finish();
        for (at, bytes) in (0..).zip(code("read_image").as_chunks::<4>().0) {
            rig.memory.put(CODE + 4 * at, u32::from_le_bytes(*bytes));
        }
        let arguments = [lo(OUT), hi(OUT), 5, 3];
        let images = image(&rig, format, true);
        rig.submit(&packets(
            &file(groups, local, &arguments),
            groups,
            local,
            &images,
        ));
        rig.finish();
        let back: Vec<f32> = out(&rig, 60).into_iter().map(f32::from_bits).collect();
        let wanted: Vec<f32> = texels.iter().map(|&t| stored(t)).collect();
        assert_eq!(back, wanted, "{format:#x}");
        // Rows are 128 bytes apart, and nothing is between them.
        let pixel = if format == 0x82 { 16 } else { 8 };
        assert_eq!(rig.memory.get(IMAGE + 5 * pixel), 0);
        assert_ne!(rig.memory.get(IMAGE + 256 + 4), 0);
    }
    let mut rig = rig(&code("read_image"));
    let images = image(&rig, 0x83, true);
    let file = file([1; 3], [1; 3], &[lo(OUT), hi(OUT), 5, 3]);
    rig.submit(&packets(&file, [1; 3], [1; 3], &images));
    let text = rig.fault();
    assert!(text.contains("texture 0: format 0x83 is none"), "{text}");
}

/// What a sampler makes of an image of 4 by 2 texels, `16 * row + column`, at places along a diagonal: the first components.
fn sampled(words: [u32; 4], format: u32, start: [f32; 2], step: [f32; 2]) -> Vec<f32> {
    const COLORS: u64 = OUT + 0x2000;
    let mut rig = rig(&code("sample_image"));
    for (at, value) in (0..8).map(|n| (128 * (n / 4) + 16 * (n % 4), 16 * (n / 4) + n % 4)) {
        rig.memory.put(IMAGE + at, (value as f32).to_bits());
    }
    // Colours of 128 bytes: as floats, as bytes.
    rig.memory.put(COLORS + 128, 99.0f32.to_bits());
    rig.memory.put(COLORS + 128 + 48, 51);
    let mut descriptor = descriptor(format, true);
    descriptor[1] = 4 | 2 << 15;
    let at = ARGS + 0x800;
    rig.memory.words(at, &descriptor);
    rig.memory.words(at + 64, &words);
    let images = vec![
        load(1, 0x5, 1, at),
        load(0, 0x5, 1, at + 64),
        pkt4(0xB180, &[lo(COLORS), hi(COLORS)]),
        pkt4(0xA9BA, &[0x80]),
        pkt4(0xA9BB, &[1 << 8 | 1 << 9 | 1 << 17]),
    ];
    let [x, y, dx, dy] = [start[0], start[1], step[0], step[1]].map(f32::to_bits);
    let arguments = [lo(OUT), hi(OUT), 8, 1, x, y, dx, dy];
    let (groups, local) = ([2, 1, 1], [4, 1, 1]);
    let file = file(groups, local, &arguments);
    rig.submit(&packets(&file, groups, local, &images));
    rig.finish();
    let floats = out(&rig, 32).into_iter().step_by(4).map(f32::from_bits);
    floats.collect()
}

#[test]
fn samplers_pick_texels_between_and_around() {
    let words = |wrap: u32, linear: u32, texels: u32| {
        let filter = linear << 1 | linear << 3;
        [
            filter | wrap << 5 | wrap << 8,
            1 << 4 | texels << 5,
            1 << 7,
            0,
        ]
    };
    let (edge, mirror, border) = (1, 2, 3);
    // Coordinates that count texels, in the second row.
    let along = ([-1.5, 1.5], [1.0, 0.0]);
    let pick = |words, format| sampled(words, format, along.0, along.1);
    assert_eq!(
        pick(words(edge, 0, 1), 0x82),
        [16.0, 16.0, 16.0, 17.0, 18.0, 19.0, 19.0, 19.0]
    );
    assert_eq!(
        pick(words(border, 0, 1), 0x82),
        [99.0, 99.0, 16.0, 17.0, 18.0, 19.0, 99.0, 99.0]
    );
    // Of bytes the colour's bytes are read.
    assert_eq!(pick(words(border, 0, 1), 0x30)[0], 0.2);
    // Between two rows and two columns, and the last one outside.
    assert_eq!(
        sampled(words(edge, 1, 1), 0x82, [0.0, 1.0], [0.5, 0.0]),
        [8.0, 8.0, 8.5, 9.0, 9.5, 10.0, 10.5, 11.0]
    );
    // From 0 to 1 over the image, again and again.
    assert_eq!(
        sampled(words(0, 0, 0), 0x82, [-0.125, 0.25], [0.25, 0.0]),
        [3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0]
    );
    assert_eq!(
        sampled(words(mirror, 0, 0), 0x82, [0.625, 1.25], [0.25, 0.0]),
        [18.0, 19.0, 19.0, 18.0, 17.0, 16.0, 16.0, 17.0]
    );
}

#[test]
fn whole_numbers_are_copied_from_a_texture_to_an_image() {
    let mut rig = rig(&code("copy_image_uint"));
    let (groups, local) = ([1, 1, 1], [8, 4, 1]);
    // Of 16 bits: 8 bytes a texel.
    for (row, word) in (0..3).flat_map(|y| (0..10).map(move |x| (y, x))) {
        rig.memory.put(
            IMAGE + 128 * row + 4 * word,
            (0xBEEF_0000 + 16 * row + word) as u32,
        );
    }
    let mut images = image(&rig, 0x63, true);
    let mut to = descriptor(0x83, false);
    [to[4], to[5]] = [lo(OUT), hi(OUT)];
    let at = ARGS + 0xC00;
    rig.memory.words(at, &to);
    images.push(load(3, 0xD, 1, at));
    images.push(pkt4(0xAA00, &[0x40]));
    images.push(pkt4(0xA9BB, &[1 << 8 | 1 << 9 | 1 << 17 | 1 << 22]));
    let file = file(groups, local, &[5, 3]);
    rig.submit(&packets(&file, groups, local, &images));
    rig.finish();
    for row in 0..3 {
        let words: Vec<u32> = (0..20)
            .map(|n| rig.memory.get(OUT + 128 * row + 4 * n))
            .collect();
        let halves = (0..10).flat_map(|n| [(16 * row + n) as u32, 0xBEEF]);
        assert!(words.into_iter().eq(halves), "{row}");
    }
}
