//! Runs golden cases through a sketch of a driver: records them, patches them, and compares every byte.

use std::collections::{BTreeMap, BTreeSet};

use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, POISON, PatchList, Patcher, Site};
use hcq_nostd::queue::Queue;
use hcq_nostd::record::{RecordError, Room};

use super::golden::{self, Json, Operands, Vars};

/// Device memory beside the words of the queue, filled with [`FILLER`] before each recording.
pub(crate) struct Space {
    pub(crate) addr: u64,
    pub(crate) bytes: usize,
}

/// What memory and words hold before anything is written.
const FILLER: u8 = 0xa5;

/// Words and memory as the golden case has them, to be put right where the case carries a known fault.
pub(crate) struct Image {
    pub(crate) words: Vec<u32>,
    /// Byte by byte, by device address.
    pub(crate) memory: BTreeMap<u64, u8>,
}

impl Image {
    pub(crate) fn u32(&self, addr: u64) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|i| self.memory[&(addr + i as u64)]))
    }

    pub(crate) fn set_u32(&mut self, addr: u64, word: u32) {
        for (i, byte) in (0..).zip(word.to_le_bytes()) {
            assert!(
                self.memory.insert(addr + i, byte).is_some(),
                "{addr:#x} is not in the golden memory"
            );
        }
    }

    fn write(&mut self, addr: u64, bytes: &[u8]) {
        self.memory.extend((addr..).zip(bytes.iter().copied()));
    }
}

/// A queue whose patch list can be reached between commands, to declare derived variables.
pub(crate) trait Recording<'m>: Queue {
    fn list(&mut self) -> &mut PatchList<'m>;
}

/// A driver's encoders, as far as its golden cases need them.
pub(crate) trait Sketch {
    /// The memory that a case touches beside the queue. Number `i` is region `i + 1` of the patch list.
    fn spaces(&self, case: &Json) -> Vec<Space>;

    /// Records the case's commands. Returns the number of words and the list.
    fn record<'m>(
        &self,
        case: &Json,
        operands: Operands<'_>,
        words: &'m mut [u32],
        list: PatchList<'m>,
        memory: &mut [Region<'_>],
    ) -> Result<(usize, PatchList<'m>), RecordError>;

    /// Puts right what the golden case gets wrong; `vars` is empty for a template.
    fn correct(&self, _case: &Json, _vars: Option<&Vars>, _want: &mut Image) {}

    /// Golden memory that no encoder writes.
    fn ignores(&self, _region: &str) -> bool {
        false
    }
}

/// Words and memory after a recording.
struct Recorded {
    words: Vec<u32>,
    memory: Vec<Vec<u64>>,
    room: Room,
}

const WORDS: usize = 1024;
const SITES: usize = 64;
const DERIVED: usize = 8;

fn backing(spaces: &[Space]) -> Vec<Vec<u64>> {
    spaces
        .iter()
        .map(|s| vec![u64::from_ne_bytes([FILLER; 8]); s.bytes.div_ceil(8)])
        .collect()
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
    sketch: &impl Sketch,
    case: &Json,
    vars: &Vars,
    room: Room,
) -> Result<Recorded, RecordError> {
    let spaces = sketch.spaces(case);
    let mut memory = backing(&spaces);
    let mut words = vec![u32::from_ne_bytes([FILLER; 4]); room.words];
    let (mut sites, mut derived) = (
        vec![Site::EMPTY; room.sites],
        vec![Derived::EMPTY; room.derived],
    );
    let list = PatchList::new(&mut sites, &mut derived);
    let mut regions = regions(&spaces, &mut memory);
    let (len, list) = sketch.record(case, Operands::Fixed(vars), &mut words, list, &mut regions)?;
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

fn all_bytes(memory: &[u64]) -> Vec<u8> {
    memory.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

fn compare(case: &str, spaces: &[Space], got: (&[u32], &[Vec<u64>]), want: &Image) {
    for (i, (g, w)) in got.0.iter().zip(&want.words).enumerate() {
        assert_eq!(g, w, "{case}: word {i}: {g:#010x}, not {w:#010x}");
    }
    assert_eq!(got.0.len(), want.words.len(), "{case}: number of words");
    for (space, memory) in spaces.iter().zip(got.1) {
        for (addr, g) in (space.addr..).zip(all_bytes(memory)) {
            let w = want.memory.get(&addr).copied().unwrap_or(FILLER);
            assert_eq!(g, w, "{case}: byte at {addr:#x}: {g:#04x}, not {w:#04x}");
        }
    }
}

/// The golden words and memory of a case or of one of its bindings.
fn image(
    sketch: &impl Sketch,
    case: &Json,
    spaces: &[Space],
    words: &Json,
    memory: &Json,
    vars: Option<&Vars>,
) -> Image {
    let mut image = Image {
        words: golden::words(words),
        memory: BTreeMap::new(),
    };
    for run in golden::list(memory) {
        if sketch.ignores(run["region"].as_str().expect("a region")) {
            continue;
        }
        let (addr, bytes) = (golden::number(&run["addr"]), golden::bytes(&run["bytes"]));
        let end = addr + bytes.len() as u64;
        let inside = spaces
            .iter()
            .any(|s| s.addr <= addr && end <= s.addr + s.bytes as u64);
        assert!(
            inside,
            "{}: {addr:#x} is in none of the spaces",
            golden::name(case)
        );
        image.write(addr, &bytes);
    }
    sketch.correct(case, vars, &mut image);
    image
}

/// Bytes that are patched: 4 for a word of the queue, from word 0 on at address 0, and those of the memory.
fn golden_sites(case: &Json) -> (BTreeSet<usize>, BTreeSet<u64>) {
    let words = golden::list(&case["word_patches"]).iter();
    let words = words
        .map(|p| p["word"].as_u64().expect("an index") as usize)
        .collect();
    let memory = golden::list(&case["memory_patches"]).iter();
    let memory = memory.flat_map(|p| {
        let (addr, size) = (
            golden::number(&p["addr"]),
            p["size"].as_u64().expect("a size"),
        );
        addr..addr + size
    });
    (words, memory.collect())
}

fn recorded_sites(list: &PatchList<'_>, spaces: &[Space]) -> (BTreeSet<usize>, BTreeSet<u64>) {
    let (mut words, mut memory) = (BTreeSet::new(), BTreeSet::new());
    for site in list.sites() {
        let (region, offset) = site.place();
        let Some(formula) = site
            .formula()
            .filter(|_| usize::from(region.0) <= spaces.len())
        else {
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
fn symbolic_case(sketch: &impl Sketch, case: &Json) {
    let name = golden::name(case);
    let spaces = sketch.spaces(case);
    let mut memory = backing(&spaces);
    let mut words = vec![u32::from_ne_bytes([FILLER; 4]); WORDS];
    let (mut sites, mut derived) = (vec![Site::EMPTY; SITES], vec![Derived::EMPTY; DERIVED]);
    let mut list = PatchList::new(&mut sites, &mut derived);
    let names = golden::variables(case);
    let vars: BTreeMap<_, _> = names
        .iter()
        .map(|n| (n.clone(), list.var().expect("a variable")))
        .collect();
    let (len, mut list) = {
        let mut regions = regions(&spaces, &mut memory);
        sketch
            .record(
                case,
                Operands::Symbolic(&vars),
                &mut words,
                list,
                &mut regions,
            )
            .unwrap_or_else(|e| panic!("{name}: {e}"))
    };

    // The template: the same words are unresolved, all others are final.
    assert_eq!(
        recorded_sites(&list, &spaces),
        golden_sites(case),
        "{name}: sites"
    );
    let template = image(
        sketch,
        case,
        &spaces,
        &case["template_words"],
        &Json::Null,
        None,
    );
    let mut table_words = vec![0u64; 4096];
    let sizes: Vec<u64> = std::iter::once(len as u64 * 4)
        .chain(spaces.iter().map(|s| s.bytes as u64))
        .collect();
    let table = list
        .build(&sizes, &mut table_words)
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let room = Room {
        words: len,
        sites: list.used().sites,
        derived: list.used().derived,
        beside: 0,
    };
    let got = &words[..len];
    for (i, (g, w)) in got.iter().zip(&template.words).enumerate() {
        assert_eq!(g, w, "{name}: template word {i}: {g:#010x}, not {w:#010x}");
    }
    assert_eq!(len, template.words.len(), "{name}: number of words");
    assert!(room.sites > 0, "{name}: nothing is patched");

    // The words become device-visible, and are patched there.
    let mut state = vec![0u64; table.state_words()];
    let mut patcher = Patcher::new(table, &mut state).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut device_words = vec![0u64; len.div_ceil(2)];
    Region::from_words(&mut device_words, 0)
        .write_words(0, got)
        .expect("room");
    for (index, bound) in golden::list(&case["bindings"]).iter().enumerate() {
        let values = golden::binding(bound);
        for (name, var) in &vars {
            patcher
                .set(*var, values[name])
                .unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        let mut all = vec![Region::from_words(&mut device_words, 0)];
        all.extend(regions(&spaces, &mut memory));
        let stored = patcher
            .apply(&mut all)
            .unwrap_or_else(|e| panic!("{name}, binding {index}: {e}"));
        assert!(stored > 0, "{name}, binding {index}: nothing changed");
        assert_eq!(
            patcher.apply(&mut all),
            Ok(0),
            "{name}, binding {index}: stored twice"
        );

        let title = format!("{name}, binding {index}");
        let want = image(
            sketch,
            case,
            &spaces,
            &bound["expected_words"],
            &bound["expected_memory"],
            Some(&values),
        );
        let patched: Vec<u32> = all_bytes(&device_words)
            .as_chunks::<4>()
            .0
            .iter()
            .map(|b| u32::from_le_bytes(*b))
            .take(len)
            .collect();
        compare(&title, &spaces, (&patched, &memory), &want);
        assert!(
            !patched.contains(&POISON),
            "{title}: a word was never patched"
        );

        let fresh = record_fixed(
            sketch,
            case,
            &values,
            Room {
                words: WORDS,
                ..Room::default()
            },
        );
        let fresh = fresh.unwrap_or_else(|e| panic!("{title}: recorded afresh: {e}"));
        assert_eq!(
            (&fresh.words, &fresh.memory),
            (&patched, &memory),
            "{title}: patched is not recorded afresh"
        );
    }
}

/// Every symbolic case of the files whose name the filter takes.
pub(crate) fn symbolic(
    engine: &str,
    sketch: &impl Sketch,
    files: &[&str],
    take: impl Fn(&str) -> bool,
) {
    let (mut done, mut all) = (0, 0);
    for file in files {
        for case in golden::cases(file)
            .iter()
            .filter(|c| !golden::variables(c).is_empty())
        {
            all += 1;
            if take(golden::name(case)) {
                symbolic_case(sketch, case);
                done += 1;
            }
        }
    }
    println!("fit {engine}: {done} of {all} symbolic cases");
    assert!(done > 0);
}

/// Cases without variables: recorded into memory that is just large enough, and refused by memory that is not.
pub(crate) fn dense(engine: &str, sketch: &impl Sketch, file: &str, names: &[&str]) {
    let cases = golden::cases(file);
    for wanted in names {
        let case = cases
            .iter()
            .find(|c| golden::name(c) == *wanted)
            .unwrap_or_else(|| panic!("no case {wanted}"));
        let spaces = sketch.spaces(case);
        let want = image(
            sketch,
            case,
            &spaces,
            &case["expected_words"],
            &case["expected_memory"],
            Some(&Vars::new()),
        );
        let exact = Room {
            words: want.words.len(),
            ..Room::default()
        };
        let got = record_fixed(sketch, case, &Vars::new(), exact)
            .unwrap_or_else(|e| panic!("{wanted}: {e}"));
        compare(wanted, &spaces, (&got.words, &got.memory), &want);
        assert_eq!(got.room, exact, "{wanted}");
        if let Some(words) = exact.words.checked_sub(1) {
            let short = record_fixed(sketch, case, &Vars::new(), Room { words, ..exact });
            assert_eq!(
                short.err(),
                Some(RecordError::NoRoom(exact)),
                "{wanted}: one word short"
            );
        }
    }
    println!("fit {engine}: {} cases of immediates", names.len());
}
