//! Patch tables of the core.

use hcq_nostd::mem::Region;
use hcq_nostd::patch::{
    Derived, Formula, PatchError, PatchList, PatchTable, Patcher, RegionId, Site, Store, Term,
};
use hcq_nostd::value::{Affine, Field, Fit, Var};

/// More would only test the patience of the fuzzer.
const MAX_VARS: u32 = 1 << 12;
const MAX_REGION_BYTES: u64 = 1 << 16;
const MAX_REGIONS: usize = 64;

/// Bytes as a patch table. With a sound table: values for its variables, a launch into regions of just the size that
/// it states, and a second launch that has nothing left to store.
pub fn patch_table(data: &[u8]) -> bool {
    let mut words = aligned(data);
    let bytes = &zerocopy::IntoBytes::as_bytes(words.as_mut_slice())[..data.len()];
    let Ok(table) = PatchTable::parse(bytes) else {
        return false;
    };
    assert_eq!(table.as_bytes(), data);
    let sizes: Vec<u64> = table.region_bytes().collect();
    let small = table.vars() <= MAX_VARS
        && sizes.len() <= MAX_REGIONS
        && sizes.iter().all(|&bytes| bytes <= MAX_REGION_BYTES);
    if small {
        launch(table, &sizes);
    }
    true
}

/// Copies bytes to an 8-byte boundary.
fn aligned(data: &[u8]) -> Vec<u64> {
    let mut words = vec![0u64; data.len().div_ceil(8)];
    zerocopy::IntoBytes::as_mut_bytes(words.as_mut_slice())[..data.len()].copy_from_slice(data);
    words
}

fn launch(table: PatchTable<'_>, sizes: &[u64]) {
    let mut memory: Vec<Vec<u64>> = sizes
        .iter()
        .map(|&bytes| vec![0; bytes.div_ceil(8) as usize])
        .collect();
    let mut whole: Vec<Region<'_>> = memory
        .iter_mut()
        .map(|words| Region::from_words(words, 0))
        .collect();
    // Cut to the byte, so that a store beyond the stated size is out of bounds.
    let mut regions: Vec<Region<'_>> = whole
        .iter_mut()
        .zip(sizes)
        .map(|(region, &bytes)| {
            region
                .reborrow()
                .slice(0, bytes as usize)
                .expect("not longer than the region")
        })
        .collect();

    let mut state = vec![0u64; table.state_words()];
    let mut patcher =
        Patcher::new(table, &mut state).expect("the state has the size that was asked for");
    for var in (0..table.vars())
        .map(Var::new)
        .filter(|&var| !table.is_derived(var))
    {
        let value =
            u64::from(var.index()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (var.index() % 64);
        patcher.set(var, value).expect("a variable of the table");
        assert_eq!(patcher.get(var), Some(value));
    }
    match patcher.apply(&mut regions) {
        Ok(stored) => {
            assert!(
                stored <= table.sites(),
                "{stored} of {} sites",
                table.sites()
            );
            assert!(!patcher.is_dirty());
            assert_eq!(patcher.apply(&mut regions), Ok(0));
            patcher.touch_all();
            assert_eq!(patcher.apply(&mut regions), Ok(table.sites()));
        }
        // The values were not chosen to fit; a refused launch is still to be made.
        Err(PatchError::Misfit { .. }) => assert!(patcher.is_dirty()),
        Err(error) => panic!("{error}"),
    }
}

/// Tables as the core builds them, and some that are no longer sound, by name: the seeds of this target.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let fields = build(&[64, 40], fields);
    let cut = fields[..fields.len() - 4].to_vec();
    let (mut magic, mut counts) = (fields.clone(), fields.clone());
    magic[0] ^= 1;
    counts[8..32].fill(0xff);
    vec![
        ("ok-empty", build(&[], |_| {})),
        ("ok-pointers", build(&[256, 64], pointers)),
        ("ok-blocks", build(&[1024, 1024, 1024], blocks)),
        ("ok-lists", build(&[256, 256], lists)),
        ("ok-fields", fields),
        ("ok-derived", build(&[96], derived)),
        ("bad-cut", cut),
        ("bad-magic", magic),
        ("bad-counts", counts),
    ]
}

fn build(regions: &[u64], record: fn(&mut PatchList<'_>)) -> Vec<u8> {
    let (mut sites, mut derived) = ([Site::EMPTY; 128], [Derived::EMPTY; 8]);
    let mut list = PatchList::new(&mut sites, &mut derived);
    record(&mut list);
    let mut out = vec![0u64; list.table_words(regions).expect("a sound list")];
    list.build(regions, &mut out)
        .expect("room for the table")
        .as_bytes()
        .to_vec()
}

fn var(list: &mut PatchList<'_>) -> Var {
    list.var().expect("fewer than 2^32 variables")
}

/// Plain pointers: a dense list with a block of eight, and one region with a few.
fn pointers(list: &mut PatchList<'_>) {
    for n in 0..16 {
        let v = var(list);
        list.site(RegionId(0), n * 8, &Formula::whole(v));
        if n < 3 {
            list.site(RegionId(1), n * 8, &Formula::whole(v));
            list.site(RegionId(0), 128 + n * 8, &Formula::whole(v));
        }
    }
}

/// Plain pointers of more variables than a block has. In one region each of the first has a site, in the next one every
/// seventh has one, in the last one every third has two.
fn blocks(list: &mut PatchList<'_>) {
    for n in 0..70 {
        let v = var(list);
        if n < 40 {
            list.site(RegionId(0), n * 8, &Formula::whole(v));
        }
        if n % 7 == 4 && n < 64 {
            list.site(RegionId(1), 512 - n * 8, &Formula::whole(v));
        }
        if n % 3 == 0 && n < 64 {
            list.site(RegionId(2), n * 16, &Formula::whole(v));
            list.site(RegionId(2), n * 16 + 8, &Formula::whole(v));
        }
    }
}

/// Lists of formulas: words with a limit in two regions, of which one has two sites of a variable, scaled words, swapped
/// ones, limits that are only checked.
fn lists(list: &mut PatchList<'_>) {
    let vars: Vec<Var> = (0..70).map(|_| var(list)).collect();
    for (n, &v) in (0..).zip(&vars[50..]) {
        let word = Formula::low(v, Fit::aligned(40, 1));
        list.site(RegionId(0), n * 4, &word);
        list.site(RegionId(1), n * 4, &word);
        let scaled = Affine {
            var: v,
            scale: 64,
            add: 3,
        };
        list.site(RegionId(0), 84 + n * 4, &Formula::low(scaled, Fit::ANY));
    }
    let again = Formula::low(vars[55], Fit::aligned(40, 1));
    list.site(RegionId(0), 80, &again);
    for (n, &v) in (0..).zip(&vars[..12]) {
        let half = Formula::narrow(v, Store::W16).swapped();
        list.site(RegionId(1), 128 + n * 2, &half);
        list.require(v.into(), Fit::at_most(1000))
            .expect("a variable");
    }
}

/// Every width, halves, a swapped field, an adjusted one.
fn fields(list: &mut PatchList<'_>) {
    let (a, b) = (var(list), var(list));
    for (offset, store) in [
        (0, Store::W8),
        (2, Store::W16),
        (4, Store::W32),
        (8, Store::W64),
    ] {
        list.site(
            RegionId(1),
            offset,
            &Formula {
                fit: Fit::ANY,
                ..Formula::narrow(a, store)
            },
        );
    }
    list.site(RegionId(0), 4, &Formula::low(b, Fit::ANY));
    list.site(RegionId(0), 12, &Formula::high(b, Fit::ANY));
    list.site(
        RegionId(0),
        20,
        &Formula {
            fit: Fit::ANY,
            ..Formula::field(b, 0x0a, Field::new(8, 16)).swapped()
        },
    );
    list.site(
        RegionId(0),
        28,
        &Formula::whole(Affine {
            var: a,
            scale: 3,
            add: 7,
        }),
    );
}

/// A product of a sum and a variable, stored.
fn derived(list: &mut PatchList<'_>) {
    let (a, b) = (var(list), var(list));
    let terms = [Term::masked(a, 6, 4), Term::masked(b, 4, 0)];
    let sum = list
        .derive(Derived::sum(0x100, &terms).expect("two terms"))
        .expect("sound");
    let product = list.product(
        Affine {
            var: sum,
            scale: 1,
            add: 0,
        }
        .into(),
        Affine {
            var: a,
            scale: 0,
            add: 2,
        }
        .into(),
    );
    let hcq_nostd::value::Value::Var(product) = product.expect("sound") else {
        return;
    };
    for (n, of) in [Affine::from(sum), product, Affine::from(a)]
        .into_iter()
        .enumerate()
    {
        list.site(RegionId(0), n as u32 * 8, &Formula::whole(of));
    }
}
