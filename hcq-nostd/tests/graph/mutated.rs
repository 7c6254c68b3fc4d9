//! Images that somebody has changed: no panic, and no store outside the memory that was given.
//!
//! `IMAGE_MUTATIONS` says how many, for a long run.

use crate::image::{as_bytes, random};
use crate::scenes::{Home, Rng};
use hcq_nostd::graph::Graph;
use hcq_nostd::image::{Image, LoadError};
use zerocopy::IntoBytes;

fn mutations() -> u64 {
    let asked = std::env::var("IMAGE_MUTATIONS").ok();
    let few = if cfg!(miri) { 12 } else { 20_000 };
    asked.and_then(|n| n.parse().ok()).unwrap_or(few)
}

/// CRC-32 of zip, from its polynomial.
fn crc32(bytes: &[u8]) -> u32 {
    static TABLE: std::sync::OnceLock<[u32; 256]> = std::sync::OnceLock::new();
    let step = |crc: u32, _| crc >> 1 ^ if crc & 1 != 0 { 0xedb8_8320 } else { 0 };
    let table = TABLE.get_or_init(|| core::array::from_fn(|i| (0..8).fold(i as u32, step)));
    let crc = bytes.iter().fold(u32::MAX, |crc, b| {
        crc >> 8 ^ table[usize::from(crc as u8 ^ *b)]
    });
    !crc
}

/// Makes the checksum right again, so that what lies behind it is looked at.
fn seal(words: &mut [u64]) {
    let bytes = words.as_mut_bytes();
    if bytes.len() >= 20 {
        let crc = crc32(&bytes[20..]);
        bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    }
}

fn mutate(words: &mut Vec<u64>, rng: &mut Rng) {
    let interesting = [
        0,
        1,
        2,
        3,
        7,
        8,
        63,
        64,
        0x7fff,
        0xffff,
        0x7fff_ffff,
        u64::MAX,
    ];
    for _ in 0..1 + rng.below(3) {
        let n = words.len() as u64;
        // Often in the header and the records, which is where the numbers are.
        let at = match rng.below(3) {
            0 => rng.below(n.min(40)) as usize,
            1 => rng.below(n.min(300)) as usize,
            _ => rng.below(n) as usize,
        };
        match rng.below(6) {
            0 => words[at] ^= 1 << rng.below(64),
            1 => words[at] = rng.of(&interesting),
            2 => {
                let half = rng.of(&interesting) & 0xffff_ffff;
                words[at] = words[at] & !0xffff_ffff | half;
            }
            3 => {
                let half = rng.of(&interesting) & 0xffff_ffff;
                words[at] = words[at] & 0xffff_ffff | half << 32;
            }
            4 => {
                let from = rng.below(n) as usize;
                words[at] = words[from];
            }
            _ => words[at] = words[at].wrapping_add(rng.below(17)).wrapping_sub(8),
        }
    }
    if rng.below(20) == 0 {
        words.truncate(rng.below(words.len() as u64 + 1) as usize);
    }
}

/// Whoever replays an image decides how much memory it may have.
fn modest(graph: &Graph<'_>) -> bool {
    let all: u64 = graph.regions().map(|r| r.bytes).sum();
    all < 1 << 20 && graph.signal_slots() < 1 << 16 && graph.state_words() < 1 << 20
}

#[test]
fn nothing_that_is_in_an_image_can_hurt() {
    let images: Vec<_> = (0..if cfg!(miri) { 1 } else { 40 })
        .map(|seed| random(seed).1)
        .collect();
    let (mut loaded, mut launched, mut refused) = (0, 0, std::collections::BTreeSet::new());
    for n in 0..mutations() {
        let mut rng = Rng(n);
        let mut words = images[rng.below(images.len() as u64) as usize].clone();
        mutate(&mut words, &mut rng);
        seal(&mut words);
        let image = match Image::load(as_bytes(&words)) {
            Ok(image) => image,
            Err(e) => {
                refused.insert(match e {
                    LoadError::Section { .. } => "section",
                    LoadError::Count { .. } => "count",
                    LoadError::Entry { .. } => "entry",
                    LoadError::Texts { .. } => "texts",
                    LoadError::Table(_) => "table",
                    LoadError::Graph(_) => "graph",
                    LoadError::Size { .. } => "size",
                    _ => "other",
                });
                continue;
            }
        };
        loaded += 1;
        let all = image.targets().count() + image.variables().count();
        assert_eq!(
            all,
            image.graph().devices().len() + image.graph().variables() as usize
        );
        let read: usize = image.codes().map(|c| c.bytes.len()).sum();
        assert!(read <= words.len() * 8 && image.buffers().count() < 1000);
        let graph = image.graph();
        if !modest(graph) {
            continue;
        }
        let v: Vec<u64> = (0..graph.variables())
            .map(|_| rng.next() >> rng.below(64))
            .collect();
        let mut home = Home::of(graph, n);
        if home.fits(graph) && home.launch(graph, &[&v, &v]).is_ok() {
            launched += 1;
        }
        home.check_guards();
    }
    if mutations() >= 20_000 {
        assert!(
            loaded > mutations() / 50 && launched > mutations() / 200,
            "{loaded}, {launched}"
        );
        for what in [
            "section", "count", "entry", "texts", "table", "graph", "size",
        ] {
            assert!(
                refused.contains(what),
                "never refused for its {what}: {refused:?}"
            );
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "no memory is touched that others do not touch")]
fn the_checksum_is_that_of_zip() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    let (_, words) = random(1);
    let image = Image::load(as_bytes(&words)).unwrap();
    assert_eq!(image.checksum(), crc32(&as_bytes(&words)[20..]));
}
