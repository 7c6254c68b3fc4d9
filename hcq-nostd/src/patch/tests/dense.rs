//! Dense lists with blocks of every kind, and a graph's own variables among the others.

use super::*;
use crate::mem::Region;
use crate::testing::cases;
use proptest::prelude::*;

const PLAIN: RegionId = RegionId(0);

#[test]
fn a_pointer_of_its_own_variable_takes_little_more_than_its_offset() {
    const N: u32 = if cfg!(miri) { 130 } else { 2000 };
    let mut room = Room::new(N as usize);
    let mut list = room.list();
    for i in 0..N {
        let var = list.var().expect("room");
        list.site(PLAIN, i * 8, &Formula::whole(var));
    }
    let bytes = built(&mut list, &[u64::from(N) * 8]).expect("complete");
    let bytes = bytes.len() * 8;
    assert!(bytes <= (4 * N + N / 16 + 128) as usize, "{bytes} bytes");
}

/// Lists that are none, and what of them is wrong. The words begin behind a header of 48 bytes and one region of 16.
#[test]
fn lists_that_contradict_themselves_are_refused() {
    let mut room = Room::new(100);
    let mut list = room.list();
    let vars: Vec<Var> = (0..195).map(|_| list.var().expect("room")).collect();
    let of = (0..40)
        .chain([2])
        .chain((65..128).step_by(3))
        .chain(128..140);
    for (i, var) in of.enumerate() {
        list.site(PLAIN, i as u32 * 8, &Formula::whole(vars[var]));
    }
    let words = built(&mut list, &[74 * 8]).expect("complete");
    let at = |word: usize| 64 + word * 4;
    let read = |word: usize| {
        let bytes = zerocopy::IntoBytes::as_bytes(words.as_slice());
        u32::from_le_bytes(bytes[at(word)..at(word) + 4].try_into().expect("four"))
    };
    // Four blocks and the end; the first has a mask, 41 bounds and 41 offsets, the second a mask and 21, the third 12, the
    // last none.
    let (bounds, mask, each, end) = (5, 5 + 2 + 41 + 41, 5 + 84 + 23, 5 + 84 + 23 + 12);
    let starts = [0, 1, 2, 3, 4].map(read);
    let (masked, single) = (1 << 30, 1 << 31);
    assert_eq!(
        starts,
        [bounds, mask | masked, each | single, end | single, end]
    );
    let refused = |word: u32, value: u32| {
        let mut words = words.clone();
        let at = at(word as usize);
        let bytes = zerocopy::IntoBytes::as_mut_bytes(words.as_mut_slice());
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let parsed = PatchTable::parse(zerocopy::IntoBytes::as_bytes(words.as_slice()));
        parsed.map(|_| ()) == Err(TableError::Dense { region: 0 })
    };
    let sum = |word: u32, more: u32| read(word as usize).wrapping_add(more);
    for (word, value, what) in [
        (0, bounds + 1, "a gap before the first block"),
        (0, bounds | single, "bounds taken for offsets"),
        (0, bounds | masked, "bounds taken for a mask"),
        (1, (mask - 1) | masked, "a block that ends too early"),
        (1, mask, "a mask taken for bounds"),
        (2, each | masked | single, "two kinds at once"),
        (3, end, "no bounds in an empty block"),
        (3, end | masked, "no mask in an empty block"),
        (3, each | single, "more offsets than variables"),
        (4, end + 1, "an end behind the words"),
        (4, end | single, "an end with a flag"),
        (bounds + 1, 1 << 8, "a bit without bounds"),
        (bounds, 0xffff_fffe, "bounds without a bit"),
        (
            bounds + 2,
            sum(bounds + 2, 1),
            "a first bound that leaves one out",
        ),
        (bounds + 3, sum(bounds + 3, 60), "bounds out of order"),
        (bounds + 3, sum(bounds + 2, 0), "a variable without a site"),
        (
            bounds + 42,
            sum(bounds + 42, 1),
            "a last bound in the next block",
        ),
        (mask, sum(mask, 1), "a bit without an offset"),
        (
            mask,
            sum(mask, 0u32.wrapping_sub(2)),
            "an offset without a bit",
        ),
        (mask + 2, 74, "an offset behind the region"),
        (each, u32::MAX, "an offset far behind it"),
    ] {
        assert!(refused(word, value), "{what}");
    }
    assert!(!refused(each, 0), "another offset is a table, too");

    // A mask of the last three variables.
    let mut list = room.list();
    let vars: Vec<Var> = (0..67).map(|_| list.var().expect("room")).collect();
    for (i, var) in (0..30).chain([65]).enumerate() {
        list.site(PLAIN, i as u32 * 8, &Formula::whole(vars[var]));
    }
    let mut words = built(&mut list, &[31 * 8]).expect("complete");
    let at = at(3 + 30);
    let bytes = zerocopy::IntoBytes::as_mut_bytes(words.as_mut_slice());
    assert_eq!(bytes[at..at + 4], [2, 0, 0, 0]);
    bytes[at] = 4;
    assert!(PatchTable::parse(bytes).is_ok());
    let bytes = zerocopy::IntoBytes::as_mut_bytes(words.as_mut_slice());
    bytes[at] = 8;
    let refused = PatchTable::parse(bytes).map(|_| ());
    assert_eq!(
        refused,
        Err(TableError::Dense { region: 0 }),
        "no such variable"
    );
}

/// One value in sixteen is more.
const MOST: u64 = u64::MAX - (1 << 60);

/// How many sites each of 64 variables has.
fn block() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        Just(vec![0; 64]),
        Just(vec![1; 64]),
        prop::collection::vec(0usize..2, 64),
        (0usize..64).prop_map(|n| (0..64).map(|i| usize::from(i < n)).collect()),
        prop::collection::vec(0usize..4, 64),
        prop::collection::vec(prop_oneof![9 => Just(1usize), 1 => 0usize..3], 64),
    ]
}

#[derive(Clone, Debug)]
enum Op {
    /// These and the following variables, to values from a number on.
    All(usize, usize, u64),
    /// The own ones.
    Own([u64; 3]),
    /// Others are the own ones, so many from this one on.
    Keep(usize, u32),
    Everything,
    Apply,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (any::<usize>(), 1usize..90, any::<u64>()).prop_map(|(at, n, x)| Op::All(at, n, x)),
        2 => any::<[u64; 3]>().prop_map(Op::Own),
        // One of them as it was.
        1 => (0u64..2).prop_map(|x| Op::Own([x, 1, 2])),
        1 => (any::<usize>(), 0u32..70).prop_map(|(at, n)| Op::Keep(at, n)),
        1 => Just(Op::Everything),
        2 => Just(Op::Apply),
    ]
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn what_changed_is_stored_and_nothing_else(
        blocks in prop::collection::vec(block(), 1..4),
        last in 1usize..=64,
        // Often in two blocks.
        own in prop_oneof![any::<usize>(), 62usize..64],
        known in any::<bool>(),
        narrow in any::<bool>(),
        // Fields with a limit, of every so many variables; none for none.
        fields in 0usize..4,
        ops in prop::collection::vec(op(), 1..12),
    ) {
        let mut counts: Vec<usize> = blocks.into_iter().flatten().collect();
        counts.truncate((counts.len() - 64 + last).max(3));
        let total = counts.iter().sum::<usize>() + 1 + 2 * counts.len();
        let mut room = Room::new(total);
        let mut list = room.list();
        let vars: Vec<Var> = counts.iter().map(|_| list.var().expect("room")).collect();
        let own = own % (vars.len() - 2);
        // The variable of each 64-bit word, in an order that is not the variables'.
        let mut sites: Vec<usize> = (0..vars.len()).flat_map(|v| vec![v; counts[v]]).collect();
        let middle = sites.len() / 3;
        sites.rotate_left(middle);
        for (i, &v) in sites.iter().enumerate() {
            list.site(PLAIN, i as u32 * 8, &Formula::whole(vars[v]));
        }
        // A site with a formula among the own ones.
        if narrow {
            list.site(RegionId(1), 0, &Formula::high(vars[own + 1], Fit::ANY));
        }
        let with_fields: Vec<usize> = match fields {
            0 => vec![],
            step => (0..vars.len()).step_by(step).collect(),
        };
        for (i, &v) in (0..).zip(&with_fields) {
            let shifted = Formula { shr: 8, ..Formula::low(vars[v], Fit::ANY) };
            list.site(RegionId(1), 8 + i * 8, &shifted);
            let sum = Affine { add: 1, ..vars[v].into() };
            list.site(RegionId(1), 12 + i * 8, &Formula::low(sum, Fit::at_most(MOST)));
        }
        let sizes = [sites.len() as u64 * 8, 8 + with_fields.len() as u64 * 8];
        let words = built(&mut list, &sizes).expect("complete");
        let table = table(&words);
        let mut state = vec![0; table.state_words()];
        let mut patcher = Patcher::new(table, &mut state).expect("the room asked for");
        patcher.keep_own(vars[own], 3);

        let mut memory = vec![7u64; sites.len() + 1];
        let mut other = vec![7u64; 1 + with_fields.len()];
        let mut values: Vec<Option<u64>> = vec![None; vars.len()];
        let mut stored = values.clone();
        let used = |v: usize| {
            counts[v] > 0 || (narrow && v == own + 1) || with_fields.contains(&v)
        };
        let all = [Op::All(0, vars.len(), 9), Op::Apply];
        let start = if known { &all[..] } else { &[] };
        for op in start.iter().chain(&ops).chain(&all) {
            match op {
                Op::All(at, n, x) => {
                    let n = (*n).min(vars.len());
                    let first = at % (vars.len() - n + 1);
                    let new: Vec<u64> = (0..n as u64).map(|i| x.wrapping_add(i * 0x1_0000_0001)).collect();
                    prop_assert_eq!(patcher.set_all(vars[first], &new), Ok(()));
                    for (value, new) in values[first..].iter_mut().zip(new) {
                        *value = Some(new);
                    }
                }
                Op::Own(new) => {
                    let is_new = (own..).zip(new).any(|(v, new)| used(v) && values[v] != Some(*new));
                    prop_assert_eq!(patcher.set_own(vars[own], *new), Ok(()));
                    prop_assert!(patcher.is_dirty() || !is_new);
                    for (value, new) in values[own..].iter_mut().zip(new) {
                        *value = Some(*new);
                    }
                }
                Op::Keep(at, n) => patcher.keep_own(vars[at % vars.len()], *n),
                Op::Everything => {
                    patcher.touch_all();
                    stored.fill(None);
                }
                Op::Apply => {
                    let before = (memory.clone(), other.clone());
                    let len = sites.len() * 8;
                    let mut regions = [
                        Region::from_words(&mut memory, 0).slice(0, len).expect("inside"),
                        Region::from_words(&mut other, 0),
                    ];
                    let applied = patcher.apply(&mut regions);
                    let unknown = (0..vars.len()).find(|&v| used(v) && values[v].is_none());
                    if let Some(v) = unknown {
                        prop_assert_eq!(applied, Err(PatchError::Unresolved { var: vars[v] }));
                        continue;
                    }
                    let above = |&&v: &&usize| values[v].is_some_and(|x| x >= MOST);
                    if with_fields.iter().any(|v| above(&v)) {
                        let Err(PatchError::Misfit { var, .. }) = applied else {
                            return Err(TestCaseError::fail(std::format!("{applied:?}")));
                        };
                        prop_assert!(above(&&(var.index() as usize)), "{}", var.index());
                        prop_assert!(memory == before.0 && other == before.1);
                        continue;
                    }
                    // Of what is stored again because it was set back, nothing is said here.
                    let changed = |v: &usize| values[*v] != stored[*v];
                    let least = sites.iter().filter(|v| changed(v)).count()
                        + 2 * with_fields.iter().filter(|v| changed(v)).count();
                    let applied = applied.expect("all have values");
                    prop_assert!(applied >= least, "{applied} stores, {least} changed");
                    stored.clone_from(&values);
                    for (word, &v) in memory.iter().zip(&sites) {
                        prop_assert_eq!(Some(*word), values[v]);
                    }
                    if let (true, Some(value)) = (narrow, values[own + 1]) {
                        prop_assert_eq!(other[0] as u32, (value >> 32) as u32);
                    }
                    for (word, &v) in other[1..].iter().zip(&with_fields) {
                        let x = values[v].unwrap_or(0);
                        let want = (x >> 8) & 0xffff_ffff | (x + 1) << 32;
                        prop_assert_eq!(*word, want);
                    }
                    prop_assert_eq!(memory[sites.len()], 7);
                    let mut regions = [
                        Region::from_words(&mut memory, 0).slice(0, len).expect("inside"),
                        Region::from_words(&mut other, 0),
                    ];
                    prop_assert_eq!((patcher.apply(&mut regions), patcher.is_dirty()), (Ok(0), false));
                }
            }
        }
    }
}
