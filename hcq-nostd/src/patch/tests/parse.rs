//! Tables from anywhere: parsing never panics, and what parses can be applied.

use super::*;
use crate::mem::Region;
use crate::testing::cases;
use proptest::prelude::*;

/// Tables of every kind: dense only, runs only, both, derived, nothing at all, dense blocks of every kind, and lists of
/// formulas.
fn samples() -> Vec<Vec<u64>> {
    let mut room = Room::new(200);
    let mut out = vec![];
    for kind in 0..7 {
        let mut list = room.list();
        let n = [9, 9, 9, 9, 0, 195, 80][kind];
        let v: Vec<Var> = (0..n).map(|_| list.var().expect("room")).collect();
        if kind == 5 {
            // Several sites each, one each of some, one each of the first few, none.
            let vars = (0..20).chain([2]);
            let vars = vars.chain((65..128).step_by(3)).chain(128..140);
            for (i, var) in vars.enumerate() {
                list.site(RegionId(0), i as u32 * 8, &Formula::whole(v[var]));
            }
        } else if kind == 6 {
            // One formula in two regions, of which one has two sites of a variable; another one with a scale; a limit.
            for (i, &v) in (0..).zip(&v[..30]) {
                list.site(RegionId(0), i * 4, &Formula::low(v, Fit::count(32)));
                list.site(RegionId(1), i * 4, &Formula::low(v, Fit::count(32)));
                let scaled = Affine {
                    scale: 4,
                    ..v.into()
                };
                list.site(
                    RegionId(1),
                    128 + i * 4,
                    &Formula::low(scaled, Fit::bits(32)),
                );
            }
            list.site(RegionId(0), 128, &Formula::low(v[3], Fit::count(32)));
            for (i, &v) in (0..).zip(&v[50..]) {
                let swapped = Formula::narrow(v, Store::W16).swapped();
                list.site(RegionId(1), 256 + i * 2, &swapped);
                list.require(v.into(), Fit::aligned(20, 1))
                    .expect("a variable");
            }
        } else if kind != 1 {
            for (i, &v) in v.iter().enumerate() {
                list.site(RegionId(0), i as u32 * 8, &Formula::whole(v));
            }
        }
        if kind == 1 || kind == 2 {
            list.site(RegionId(1), 0, &Formula::low(v[0], Fit::bits(40)));
            list.site(RegionId(1), 6, &Formula::narrow(v[1], Store::W16).swapped());
            list.site(RegionId(1), 9, &Formula::narrow(v[1], Store::W8));
            list.site(RegionId(1), 12, &Formula::whole(v[8]));
            list.site(RegionId(0), 80, &Formula::low(v[0], Fit::bits(40)));
        }
        if kind == 3 {
            let product = list.derive(Derived::product(v[0], v[1])).expect("room");
            let terms = [
                Term::new(product, Field::new(3, 20)),
                Term::masked(v[2], 4, 1),
            ];
            let sum = list
                .derive(Derived::sum(7, &terms).expect("two terms"))
                .expect("room");
            list.site(RegionId(0), 80, &Formula::whole(sum));
            list.site(RegionId(1), 4, &Formula::high(product, Fit::ANY));
        }
        let sizes = match kind {
            5 => [432, 20],
            6 => [132, 316],
            _ => [88, 20],
        };
        let words = built(&mut list, &sizes).expect("complete");
        assert_eq!(table(&words).runs.is_empty(), [0, 4, 5, 6].contains(&kind));
        assert_eq!(table(&words).lists.len(), if kind == 6 { 5 } else { 0 });
        out.push(words);
    }
    out
}

/// Whatever parses can be launched: no panic, nothing outside the regions. True if it parsed.
fn try_table(bytes: &[u8]) -> bool {
    let Ok(table) = PatchTable::parse(bytes) else {
        return false;
    };
    let _ = (
        table.sites(),
        table.vars(),
        table.as_bytes().len(),
        table.is_derived(Var::new(0)),
    );
    let sizes: Vec<u64> = table.region_bytes().collect();
    // A caller gives the memory that he has; a table that wants more is refused.
    let mut memory: Vec<Vec<u64>> = sizes
        .iter()
        .map(|&n| vec![0; n.min(4096).div_ceil(8) as usize + 2])
        .collect();
    let mut regions: Vec<Region<'_>> = memory
        .iter_mut()
        .zip(&sizes)
        .map(|(m, &n)| {
            Region::from_words(m, 0)
                .slice(0, n.min(4096) as usize)
                .expect("inside")
        })
        .collect();
    let words = table.state_words();
    assert!(
        words <= bytes.len() * 32,
        "{words} words of state for a table of {} bytes",
        bytes.len()
    );
    let mut state = vec![0; words];
    let mut p = Patcher::new(table, &mut state).expect("the room asked for");
    let _ = p.apply(&mut regions);
    for value in [0, 1, 0x1_0000_0010, u64::MAX] {
        for var in 0..table.vars() {
            let _ = p.set(Var::new(var), value.wrapping_add(var.into()));
        }
        let _ = p.apply(&mut regions);
        p.touch_all();
        let _ = p.apply(&mut regions);
    }
    drop(regions);
    for (m, &n) in memory.iter().zip(&sizes) {
        let bytes = zerocopy::IntoBytes::as_bytes(m.as_slice());
        assert!(
            bytes[n.min(4096) as usize..].iter().all(|&b| b == 0),
            "stored outside a region"
        );
    }
    true
}

#[test]
fn every_mutated_byte_is_refused_or_harmless() {
    let mut parsed = 0;
    for (kind, words) in samples().into_iter().enumerate() {
        if cfg!(miri) && kind != 3 && kind != 6 {
            continue;
        }
        let mut words = words;
        assert!(try_table(zerocopy::IntoBytes::as_bytes(words.as_slice())));
        let step = if cfg!(miri) { 61 } else { 1 };
        for at in (0..words.len() * 8).step_by(step) {
            for flip in [0x01, 0x10, 0x80, 0xff, 0x7f] {
                zerocopy::IntoBytes::as_mut_bytes(words.as_mut_slice())[at] ^= flip;
                parsed += u32::from(try_table(zerocopy::IntoBytes::as_bytes(words.as_slice())));
                zerocopy::IntoBytes::as_mut_bytes(words.as_mut_slice())[at] ^= flip;
            }
        }
    }
    // Numbers inside formulas and offsets may be others.
    assert!(parsed > 0);
}

#[test]
fn every_truncation_and_extension_is_refused() {
    for words in samples() {
        let bytes = zerocopy::IntoBytes::as_bytes(words.as_slice());
        for len in 0..bytes.len() {
            let refused = PatchTable::parse(&bytes[..len]).map(|_| ());
            assert_eq!(refused, Err(TableError::Size { have: len }));
        }
        let mut longer = words.clone();
        longer.push(0);
        let longer = zerocopy::IntoBytes::as_bytes(longer.as_slice());
        for len in bytes.len() + 1..=longer.len() {
            assert_eq!(
                PatchTable::parse(&longer[..len]).map(|_| ()),
                Err(TableError::Size { have: len })
            );
        }
        let odd = &longer[1..];
        assert_eq!(
            PatchTable::parse(odd).map(|_| ()),
            Err(TableError::Size { have: odd.len() })
        );
        assert!(PatchTable::parse(bytes).is_ok());
    }
}

#[test]
fn reasons_name_what_is_wrong() {
    let words = samples().remove(3);
    let refuse = |at: usize, value: u32| {
        let mut words = words.clone();
        zerocopy::IntoBytes::as_mut_bytes(words.as_mut_slice())[at..at + 4]
            .copy_from_slice(&value.to_le_bytes());
        PatchTable::parse(zerocopy::IntoBytes::as_bytes(words.as_slice())).map(|_| ())
    };
    assert_eq!(refuse(0, 0), Err(TableError::Magic));
    assert_eq!(refuse(4, 1), Err(TableError::Version { seen: 1 }));
    assert_eq!(
        refuse(8, 1 << 20),
        Err(TableError::Size {
            have: words.len() * 8
        })
    );
    // The first derived variable's output, made one that does not exist.
    assert_eq!(
        refuse(48 + 108, 1000),
        Err(TableError::Derived { index: 0 })
    );
    // The first formula's right shift, byte 32 of its record.
    assert_eq!(
        refuse(48 + 2 * 112 + 32, 64),
        Err(TableError::Formula { index: 0 })
    );
    let regions = 48 + 2 * 112 + 48;
    assert_eq!(refuse(regions, 8), Err(TableError::Dense { region: 0 }));
    assert_eq!(refuse(regions + 8, 1), Err(TableError::Dense { region: 0 }));
    let special = regions + 2 * 16;
    assert_eq!(refuse(special, 0), Err(TableError::Special { index: 0 }));
    assert_eq!(
        refuse(special + 16, 1000),
        Err(TableError::Run { index: 0 })
    );
    assert_eq!(
        refuse(special + 16 + 12, 0),
        Err(TableError::Run { index: 0 })
    );
    for (error, text) in [
        (TableError::Magic, "not a patch table"),
        (TableError::Run { index: 3 }, "run 3 is malformed"),
        (
            TableError::List { index: 2 },
            "the list 2 of a formula is malformed",
        ),
        (
            TableError::Size { have: 5 },
            "5 bytes are no whole patch table",
        ),
    ] {
        assert_eq!(std::format!("{error}"), text);
    }
}

/// What of a formula's list is wrong.
#[test]
fn lists_of_formulas_that_are_none_are_refused() {
    let words = samples().remove(6);
    let sound = table(&words);
    let (lists, first) = (sound.lists.as_ptr(), words.as_ptr());
    let at = lists.addr() - first.addr();
    let starts: Vec<u32> = sound.lists.iter().map(|l| l.starts).collect();
    let words_at = sound.words.as_ptr().addr() - first.addr();
    let formulas = sound.formulas.len() as u32;
    let refuse = |at: usize, value: u32| {
        let mut words = words.clone();
        zerocopy::IntoBytes::as_mut_bytes(words.as_mut_slice())[at..at + 4]
            .copy_from_slice(&value.to_le_bytes());
        PatchTable::parse(zerocopy::IntoBytes::as_bytes(words.as_slice())).map(|_| ())
    };
    let bad = |index| Err(TableError::List { index });
    assert_eq!(refuse(at, formulas), bad(0), "no such formula");
    assert_eq!(refuse(at, u32::MAX), bad(0), "no formula");
    assert_eq!(refuse(at + 4, 2), bad(0), "no such region");
    assert_eq!(refuse(at + 40, 0), bad(1), "regions out of order");
    assert_eq!(refuse(at + 3 * 40, 0), bad(3), "formulas out of order");
    assert_eq!(refuse(at + 8, 1), bad(0), "a gap before the first list");
    assert_eq!(
        refuse(at + 40 + 8, starts[0]),
        bad(1),
        "the words of another"
    );
    assert_eq!(refuse(at + 8, u32::MAX), bad(0), "words behind the table");
    // The fourth list's variables are the fifth one's, too: what is checked once counts for both, and for no other.
    let covered: Vec<u16> = sound.lists.iter().map(|l| l.covered).collect();
    assert_eq!(covered, [0, 0, 0, 0, 1]);
    let regions: Vec<u16> = sound.lists.iter().map(|l| l.region).collect();
    assert_eq!(regions, [1, 1, 0, 0, 1]);
    assert_eq!(refuse(at + 4, 0x1_0001), bad(0), "by none");
    assert_eq!(refuse(at + 40 + 4, 0x1_0001), bad(1), "by a wider one");
    assert_eq!(
        refuse(at + 120 + 4, 0x1_0000),
        bad(3),
        "by other variables'"
    );
    assert_eq!(refuse(at + 160 + 4, 1), Ok(()), "it may be checked again");
    for n in 0..5 {
        for part in [16, 24, 32] {
            assert_eq!(refuse(at + n * 40 + part, 77), bad(n as u32), "a range");
        }
    }
    // The last offset of the second list, of 16-bit words, made one that is misaligned, or outside.
    let offset = words_at + 4 * (starts[2] as usize - 1);
    assert_eq!(refuse(offset, 313), bad(1), "misaligned");
    assert_eq!(refuse(offset, 316), bad(1), "outside");
    assert_eq!(refuse(offset, 312), Ok(()));
    let sites = table(&words).sites();
    assert_eq!(sites, 30 + 1 + 30 + 30 + 30, "limits are no sites");
}

/// Runs that share their words would make checking a small table take a long time.
#[test]
fn runs_that_share_words_are_refused() {
    let mut room = Room::new(2);
    let mut list = room.list();
    for offset in [0, 4] {
        let var = list.var().expect("room");
        list.site(RegionId(0), offset, &Formula::low(var, Fit::ANY));
    }
    let mut words = built(&mut list, &[8]).expect("complete");
    // One formula, one region, one word of the index, then the runs; the second one's first word, made the first one's.
    let formula = size_of::<crate::patch::record::FormulaRecord>();
    let at = 48 + formula + 16 + 16 + 20 + 12;
    let bytes = zerocopy::IntoBytes::as_mut_bytes(words.as_mut_slice());
    assert_eq!(bytes[at..at + 4], [1, 0, 0, 0]);
    bytes[at] = 0;
    let refused = PatchTable::parse(zerocopy::IntoBytes::as_bytes(words.as_slice())).map(|_| ());
    assert_eq!(refused, Err(TableError::Run { index: 1 }));
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn random_bytes_never_panic(words in prop::collection::vec(any::<u64>(), 0..60), magic in any::<bool>()) {
        let mut words = words;
        if let (Some(w), true) = (words.first_mut(), magic) {
            *w = u64::from(u32::from_le_bytes(*b"HCQP")) | 3 << 32;
        }
        try_table(zerocopy::IntoBytes::as_bytes(words.as_slice()));
    }

    #[test]
    fn several_mutations_never_panic(
        kind in 0usize..7,
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(0u32), 0u32..12, any::<u32>()]), 1..6),
    ) {
        let mut words = samples().remove(kind);
        let bytes = zerocopy::IntoBytes::as_mut_bytes(words.as_mut_slice());
        for (at, value) in changes {
            let at = at.index(bytes.len() / 4) * 4;
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        try_table(zerocopy::IntoBytes::as_bytes(words.as_slice()));
    }
}
