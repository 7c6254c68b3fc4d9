//! Images of graphs.

use crate::image::{as_bytes, random};
use crate::scenes::{Home, Rng};
use hcq_nostd::graph::Graph;
use hcq_nostd::image::{Image, VariableKind};

/// Bytes of the header before those that the checksum is of.
const UNCHECKED: usize = 20;

/// CRC-32 of zip, from its polynomial.
fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| crc >> 1 ^ if crc & 1 != 0 { 0xedb8_8320 } else { 0 };
    !bytes.iter().fold(u32::MAX, |crc, b| {
        (0..8).fold(crc ^ u32::from(*b), |crc, _| bit(crc))
    })
}

/// Whoever replays an image decides how much memory it may have.
fn modest(graph: &Graph<'_>) -> bool {
    let all = graph
        .regions()
        .try_fold(0u64, |sum, r| sum.checked_add(r.bytes));
    all.is_some_and(|all| all < 1 << 20)
        && graph.signal_slots() < 1 << 16
        && graph.state_words() < 1 << 20
}

/// A byte that says whether the checksum is made right first, and an image. What loads is bound to exactly the memory that
/// it asks for, with guards around, and launched twice with values from the image's own bytes. Accepted is what loads.
pub fn graph_image(data: &[u8]) -> bool {
    let [mode, image @ ..] = data else {
        return false;
    };
    let mut words = vec![0u64; image.len().div_ceil(8)];
    let bytes = &mut zerocopy::IntoBytes::as_mut_bytes(words.as_mut_slice())[..image.len()];
    bytes.copy_from_slice(image);
    if mode & 1 != 0 && bytes.len() > UNCHECKED {
        let crc = crc32(&bytes[UNCHECKED..]);
        bytes[UNCHECKED - 4..UNCHECKED].copy_from_slice(&crc.to_le_bytes());
    }
    let Ok(image) = Image::load(bytes) else {
        return false;
    };
    let graph = image.graph();
    assert_eq!(image.targets().count(), graph.devices().len());
    assert_eq!(image.variables().count(), graph.variables() as usize);
    // What it hands out is of the image, and of nothing else.
    let whole = image.as_bytes().as_ptr_range();
    let inside = |part: &[u8]| {
        let part = part.as_ptr_range();
        part.is_empty() || whole.start <= part.start && part.end <= whole.end
    };
    assert!(image.codes().all(|c| inside(c.bytes)));
    assert!(image.buffers().all(|b| inside(b.contents)));
    for node in 0..image.nodes() {
        assert!(u32::try_from(node).is_ok_and(|node| image.node(node).is_some()));
    }
    if modest(graph) {
        let mut rng = Rng(u64::from(image.checksum()));
        let mut values = || -> Vec<u64> {
            (0..graph.variables())
                .map(|_| rng.next() >> rng.below(64))
                .collect()
        };
        let (first, second) = (values(), values());
        let mut home = Home::of(graph, u64::from(*mode));
        if home.fits(graph) {
            // Values need not fit; a launch that is refused stores nothing outside either.
            let _ = home.launch(graph, &[&first, &second]);
        }
        home.check_guards();
    }
    true
}

/// Images of random graphs, and some that are none any more.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let image = |mode: u8, seed| {
        let mut all = vec![mode];
        all.extend_from_slice(as_bytes(&random(seed).1));
        all
    };
    // One with variables of every kind.
    let all_kinds = |seed: &u64| {
        let words = random(*seed).1;
        let image = Image::load(as_bytes(&words)).expect("an image");
        let has = |kind: fn(&VariableKind) -> bool| image.variables().any(|v| kind(&v.kind));
        has(|k| matches!(k, VariableKind::Private { .. }))
            && has(|k| matches!(k, VariableKind::Own { .. }))
    };
    let places = (0..1000).find(all_kinds).expect("one of many");
    let mut unsealed = image(0, 5);
    unsealed[UNCHECKED] ^= 1;
    let mut counts = image(1, 6);
    counts[1 + 24..1 + 56].fill(0xff);
    let mut cut = image(1, 7);
    cut.truncate(cut.len() - 64);
    vec![
        ("ok-first", image(0, 1)),
        ("ok-second", image(1, 2)),
        ("ok-third", image(1, 3)),
        ("ok-fourth", image(1, 4)),
        ("ok-places", image(1, places)),
        ("bad-checksum", unsealed),
        ("bad-counts", counts),
        ("bad-cut", cut),
    ]
}
