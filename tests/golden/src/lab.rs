//! Runs golden cases through encoders: records them, patches them, compares every byte, and goes back from the words.

use std::collections::{BTreeMap, BTreeSet};

use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, POISON, PatchList, Patcher, Site};
use hcq_nostd::record::{RecordError, Room};

use crate::{self as json, Json, Operands, Vars};

/// Device memory beside the words of the queue, filled with [`Encoder::filler`] before each recording.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// Device address.
    pub addr: u64,
    /// Bytes.
    pub bytes: usize,
}

/// What memory and words hold before anything is written.
pub const FILLER: u8 = 0xa5;

/// Words and memory as the golden case has them, to be put right where the case carries a known fault.
#[derive(Debug)]
pub struct Image {
    /// The queue.
    pub words: Vec<u32>,
    /// Byte by byte, by device address.
    pub memory: BTreeMap<u64, u8>,
}

impl Image {
    /// Puts bytes at a device address.
    pub fn write(&mut self, addr: u64, bytes: &[u8]) {
        self.memory.extend((addr..).zip(bytes.iter().copied()));
    }

    /// The word at a device address.
    ///
    /// # Panics
    /// If the case has none there.
    pub fn u32(&self, addr: u64) -> u32 {
        let byte = |i| {
            let byte = self.memory.get(&(addr + i));
            *byte.unwrap_or_else(|| panic!("no golden byte at {:#x}", addr + i))
        };
        u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
    }

    /// Puts a word at a device address.
    pub fn set_u32(&mut self, addr: u64, word: u32) {
        self.write(addr, &word.to_le_bytes());
    }
}

/// How one file of cases is recorded.
pub trait Encoder {
    /// The memory that a case touches beside the queue. Number `i` is region `i + 1` of the patch list.
    fn spaces(&self, case: &Json) -> Vec<Space>;

    /// Records the case's commands. Returns the number of words and the list.
    ///
    /// # Errors
    /// What the encoder says.
    fn record<'m>(
        &self,
        case: &Json,
        operands: Operands<'_>,
        words: &'m mut [u32],
        list: PatchList<'m>,
        memory: &mut [Region<'_>],
    ) -> Result<(usize, PatchList<'m>), RecordError>;

    /// Puts right what the golden case gets wrong; `vars` is `None` for a template.
    fn correct(&self, case: &Json, vars: Option<&Vars>, want: &mut Image) {
        let _ = (case, vars, want);
    }

    /// From words to packets and back.
    fn decode_and_encode(&self, title: &str, words: &[u32]) -> Vec<u32>;

    /// What memory holds before anything is written, and after it where nothing is: zero for drivers that leave bytes alone
    /// which the reference clears.
    fn filler(&self) -> u8 {
        FILLER
    }

    /// Whether golden memory of this region is written while recording; the rest is when the case is submitted.
    fn is_beside(&self, region: &str) -> bool {
        is_kernargs(region)
    }

    /// Patched bytes that the reference does not have: addresses and lengths.
    fn more_sites(&self, case: &Json) -> Vec<(u64, u64)> {
        let _ = case;
        Vec::new()
    }
}

/// Whether a region holds argument blocks.
pub fn is_kernargs(region: &str) -> bool {
    region.starts_with("kernargs")
}

/// Words and memory after a recording.
struct Recorded {
    words: Vec<u32>,
    memory: Vec<Vec<u64>>,
    room: Room,
}

const WORDS: usize = 2048;
const SITES: usize = 64;
const DERIVED: usize = 8;

fn backing(encoder: &impl Encoder, spaces: &[Space]) -> Vec<Vec<u64>> {
    let fill = |s: &Space| vec![u64::from_ne_bytes([encoder.filler(); 8]); s.bytes.div_ceil(8)];
    spaces.iter().map(fill).collect()
}

fn regions<'m>(spaces: &[Space], backing: &'m mut [Vec<u64>]) -> Vec<Region<'m>> {
    spaces
        .iter()
        .zip(backing)
        .map(|(s, b)| Region::from_words(b, s.addr))
        .collect()
}

/// Records with numbers, into memory of exactly the given room.
fn record_fixed(
    encoder: &impl Encoder,
    case: &Json,
    vars: &Vars,
    room: Room,
) -> Result<Recorded, RecordError> {
    let spaces = encoder.spaces(case);
    let mut memory = backing(encoder, &spaces);
    let mut words = vec![u32::from_ne_bytes([FILLER; 4]); room.words];
    let mut sites = vec![Site::EMPTY; room.sites];
    let mut derived = vec![Derived::EMPTY; room.derived];
    let list = PatchList::new(&mut sites, &mut derived);
    let mut regions = regions(&spaces, &mut memory);
    let (len, list) =
        encoder.record(case, Operands::Fixed(vars), &mut words, list, &mut regions)?;
    let used = list.used();
    let room = Room {
        words: len,
        sites: used.sites,
        derived: used.derived,
        beside: 0,
    };
    words.truncate(len);
    Ok(Recorded {
        words,
        memory,
        room,
    })
}

/// Memory, byte by byte.
pub fn bytes_of(memory: &[u64]) -> Vec<u8> {
    memory.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

fn compare(
    encoder: &impl Encoder,
    case: &str,
    spaces: &[Space],
    got: (&[u32], &[Vec<u64>]),
    want: &Image,
) {
    compare_words(case, got.0, &want.words);
    let mut seen = 0;
    for (space, memory) in spaces.iter().zip(got.1) {
        for (addr, g) in (space.addr..).zip(bytes_of(memory)) {
            seen += usize::from(want.memory.contains_key(&addr));
            let w = want.memory.get(&addr).copied().unwrap_or(encoder.filler());
            assert_eq!(g, w, "{case}: byte at {addr:#x}: {g:#04x}, not {w:#04x}");
        }
    }
    assert_eq!(
        seen,
        want.memory.len(),
        "{case}: golden memory that was not compared"
    );
}

/// Compares words one by one.
///
/// # Panics
/// Where they differ.
pub fn compare_words(case: &str, got: &[u32], want: &[u32]) {
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert_eq!(g, w, "{case}: word {i}: {g:#010x}, not {w:#010x}");
    }
    assert_eq!(got.len(), want.len(), "{case}: number of words");
}

/// The golden words and memory of a case or of one of its bindings.
fn image(
    encoder: &impl Encoder,
    case: &Json,
    words: &Json,
    memory: &Json,
    vars: Option<&Vars>,
) -> Image {
    let mut image = Image {
        words: json::words(words),
        memory: BTreeMap::new(),
    };
    let beside = |run: &&Json| encoder.is_beside(run["region"].as_str().expect("a region"));
    for run in json::list(memory).iter().filter(beside) {
        image.write(json::number(&run["addr"]), &json::bytes(&run["bytes"]));
    }
    encoder.correct(case, vars, &mut image);
    image
}

/// Bytes that are patched: words of the queue by index, and memory by address.
type Sites = (BTreeSet<usize>, BTreeSet<u64>);

fn golden_sites(case: &Json) -> Sites {
    let words = json::list(&case["word_patches"]).iter();
    let words = words.map(|p| p["word"].as_u64().expect("an index") as usize);
    let memory = json::list(&case["memory_patches"]).iter().flat_map(|p| {
        let addr = json::number(&p["addr"]);
        addr..addr + p["size"].as_u64().expect("a size")
    });
    (words.collect(), memory.collect())
}

fn recorded_sites(list: &PatchList<'_>, spaces: &[Space]) -> Sites {
    let (mut words, mut memory) = (BTreeSet::new(), BTreeSet::new());
    for site in list.sites() {
        let (region, offset) = site.place();
        let inside = |_: &_| usize::from(region.0) <= spaces.len();
        let Some(formula) = site.formula().filter(inside) else {
            continue;
        };
        let bytes = u64::from(formula.store.bytes());
        match usize::from(region.0).checked_sub(1) {
            None => words.extend((0..bytes / 4).map(|i| offset as usize / 4 + i as usize)),
            Some(i) => memory.extend((0..bytes).map(|b| spaces[i].addr + u64::from(offset) + b)),
        }
    }
    (words, memory)
}

/// One symbolic case: template, sites, every binding in order, and each binding against a fresh recording.
fn symbolic_case(encoder: &impl Encoder, case: &Json) {
    let name = json::name(case);
    let spaces = encoder.spaces(case);
    let mut memory = backing(encoder, &spaces);
    let mut words = vec![u32::from_ne_bytes([FILLER; 4]); WORDS];
    let (mut sites, mut derived) = (vec![Site::EMPTY; SITES], vec![Derived::EMPTY; DERIVED]);
    let mut list = PatchList::new(&mut sites, &mut derived);
    let names = json::variables(case);
    let vars: BTreeMap<_, _> = names
        .iter()
        .map(|n| (n.clone(), list.var().expect("a variable")))
        .collect();
    let (len, mut list) = encoder
        .record(
            case,
            Operands::Symbolic(&vars),
            &mut words,
            list,
            &mut regions(&spaces, &mut memory),
        )
        .unwrap_or_else(|e| panic!("{name}: {e}"));

    // The template: the same words are unresolved, all others are final.
    let mut sites = golden_sites(case);
    for (addr, len) in encoder.more_sites(case) {
        sites.1.extend(addr..addr + len);
    }
    assert_eq!(recorded_sites(&list, &spaces), sites, "{name}: sites");
    let mut table_words = vec![0u64; 4096];
    let sizes: Vec<u64> = std::iter::once(len as u64 * 4)
        .chain(spaces.iter().map(|s| s.bytes as u64))
        .collect();
    let table = list
        .build(&sizes, &mut table_words)
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let template = image(encoder, case, &case["template_words"], &Json::Null, None);
    compare_words(&format!("{name}, template"), &words[..len], &template.words);

    // The words become device-visible, and are patched there.
    let mut state = vec![0u64; table.state_words()];
    let mut patcher = Patcher::new(table, &mut state).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut device_words = vec![0u64; len.div_ceil(2)];
    Region::from_words(&mut device_words, 0)
        .write_words(0, &words[..len])
        .expect("room");
    for (index, bound) in json::list(&case["bindings"]).iter().enumerate() {
        let title = format!("{name}, binding {index}");
        let values = json::binding(bound);
        for (name, var) in &vars {
            patcher
                .set(*var, values[name])
                .unwrap_or_else(|e| panic!("{title}: {e}"));
        }
        let mut all = vec![Region::from_words(&mut device_words, 0)];
        all.extend(regions(&spaces, &mut memory));
        let stored = patcher
            .apply(&mut all)
            .unwrap_or_else(|e| panic!("{title}: {e}"));
        assert!(stored > 0, "{title}: nothing changed");
        assert_eq!(patcher.apply(&mut all), Ok(0), "{title}: stored twice");

        let expected = (&bound["expected_words"], &bound["expected_memory"]);
        let want = image(encoder, case, expected.0, expected.1, Some(&values));
        let patched: Vec<u32> = bytes_of(&device_words)
            .as_chunks::<4>()
            .0
            .iter()
            .map(|b| u32::from_le_bytes(*b))
            .take(len)
            .collect();
        compare(encoder, &title, &spaces, (&patched, &memory), &want);
        assert!(
            !patched.contains(&POISON),
            "{title}: a word was never patched"
        );
        compare_words(
            &title,
            &encoder.decode_and_encode(&title, &want.words),
            &want.words,
        );

        let room = Room {
            words: WORDS,
            ..Room::default()
        };
        let fresh =
            record_fixed(encoder, case, &values, room).unwrap_or_else(|e| panic!("{title}: {e}"));
        assert_eq!(
            (&fresh.words, &fresh.memory),
            (&patched, &memory),
            "{title}: patched is not recorded afresh"
        );
    }
}

/// A case without variables: recorded into memory that is just large enough, and refused by memory that is not. Returns
/// the words.
fn dense_case(encoder: &impl Encoder, case: &Json) -> Vec<u32> {
    let name = json::name(case);
    let spaces = encoder.spaces(case);
    let expected = (&case["expected_words"], &case["expected_memory"]);
    let want = image(encoder, case, expected.0, expected.1, Some(&Vars::new()));
    let exact = Room {
        words: want.words.len(),
        ..Room::default()
    };
    let got =
        record_fixed(encoder, case, &Vars::new(), exact).unwrap_or_else(|e| panic!("{name}: {e}"));
    compare(encoder, name, &spaces, (&got.words, &got.memory), &want);
    assert_eq!(got.room, exact, "{name}");
    if let Some(words) = exact.words.checked_sub(1) {
        let short = record_fixed(encoder, case, &Vars::new(), Room { words, ..exact });
        assert_eq!(
            short.err(),
            Some(RecordError::NoRoom(exact)),
            "{name}: one word short"
        );
    }
    compare_words(
        name,
        &encoder.decode_and_encode(name, &want.words),
        &want.words,
    );
    got.words
}

/// One case, in both directions. Returns its words if it has no variables.
///
/// # Panics
/// With what differs.
pub fn case(encoder: &impl Encoder, case: &Json) -> Option<Vec<u32>> {
    if json::variables(case).is_empty() {
        Some(dense_case(encoder, case))
    } else {
        symbolic_case(encoder, case);
        None
    }
}

/// Device memory that a submit writes: ring, pointers, doorbell, indirect buffers. Everything else stays [`FILLER`].
///
/// # Panics
/// Where it differs.
pub fn compare_memory(title: &str, spaces: &[(u64, Vec<u8>)], want: &BTreeMap<u64, u8>) {
    let mut seen = 0;
    for (base, bytes) in spaces {
        for (addr, got) in (*base..).zip(bytes) {
            seen += usize::from(want.contains_key(&addr));
            let want = want.get(&addr).copied().unwrap_or(FILLER);
            assert_eq!(
                *got, want,
                "{title}: byte at {addr:#x}: {got:#04x}, not {want:#04x}"
            );
        }
    }
    assert_eq!(
        seen,
        want.len(),
        "{title}: golden memory outside of what was compared"
    );
}

/// The golden memory of a submit, byte by byte, without the regions that are named.
///
/// # Panics
/// If the case is not one of a submit.
pub fn expected_memory(j: &Json, ignored: &[&str]) -> BTreeMap<u64, u8> {
    let mut want = BTreeMap::new();
    for run in json::list(j) {
        if !ignored.contains(&run["region"].as_str().expect("a region")) {
            want.extend((json::number(&run["addr"])..).zip(json::bytes(&run["bytes"])));
        }
    }
    want
}
