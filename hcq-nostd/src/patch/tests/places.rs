//! A graph's own variables: values below and beyond their limits, in fields of every kind.

use super::*;
use crate::mem::Region;
use crate::testing::cases;
use proptest::prelude::*;

/// Bytes that a site may take, at an 8-byte boundary.
const SLOT: u32 = 16;
const DEVICES: usize = 3;
const VARS: usize = 4 * DEVICES;
/// Fields, and other variables, stay below this.
const MOST: usize = if cfg!(miri) { 5 } else { 70 };

/// A field of a variable, and how far from an 8-byte boundary it is.
type Field = (fn(Var) -> Formula, u32);

fn fields() -> impl Strategy<Value = Field> {
    let fields: [Field; 14] = [
        (|v| Formula::whole(v), 0),
        (|v| Formula::whole(v), 4),
        (
            |v| Formula {
                fit: Fit::bits(40),
                ..Formula::whole(v)
            },
            4,
        ),
        (|v| Formula::low(v, Fit::ANY), 0),
        (|v| Formula::low(v, Fit::bits(32)), 4),
        (|v| Formula::high(v, Fit::bits(48)), 4),
        (
            |v| Formula {
                store: Store::High32,
                ..Formula::whole(v)
            },
            0,
        ),
        (
            |v| Formula {
                store: Store::Low32,
                ..Formula::whole(v)
            },
            4,
        ),
        (|v| Formula::low(v, Fit::aligned(48, 2)), 0),
        (|v| Formula::narrow(v, Store::W16), 2),
        (|v| Formula::low(v, Fit::count(32)).swapped(), 0),
        (
            |v| Formula::field(v, 0xa000_0000, super::Field::new(4, 20)),
            4,
        ),
        (|v| Formula::low(Affine { add: 3, ..v.into() }, Fit::ANY), 0),
        (|v| Formula::low(v, Fit::at_most(1000)), 0),
    ];
    prop::sample::select(fields.to_vec())
}

/// Numbers around what fields hold.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0u64..1001,
        2 => prop::sample::select(vec![
            1001, 0xffff, 0x1_0000, u64::from(u32::MAX), 1 << 32, (1 << 40) - 1, 1 << 40, 1 << 48, u64::MAX - 1, u64::MAX,
        ]),
        1 => any::<u64>(),
    ]
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn every_value_is_stored_as_its_fields_say_or_refused(
        fields in prop::collection::vec((0..VARS, fields()), 1..MOST),
        before in 0usize..MOST,
        launches in prop::collection::vec(prop::collection::vec(prop::option::of(any::<prop::sample::Index>()), DEVICES), 1..8),
        pool in prop::collection::vec([value(), value(), value(), value()], 1..6),
    ) {
        let mut room = Room::new(fields.len() + before);
        let mut list = room.list();
        let vars: Vec<Var> = (0..before + VARS).map(|_| list.var().expect("room")).collect();
        let (others, own) = vars.split_at(before);
        for (i, var) in (0u32..).zip(others) {
            list.site(RegionId(0), i * 8, &Formula::whole(*var));
        }
        let placed: Vec<(usize, Formula, u32)> = (0u32..)
            .zip(&fields)
            .map(|(i, (var, (formula, shift)))| (*var, formula(own[*var]), i * SLOT + shift))
            .collect();
        for (_, formula, offset) in &placed {
            list.site(RegionId(1), *offset, formula);
        }
        let sizes = [before as u64 * 8, fields.len() as u64 * u64::from(SLOT)];
        let words = built(&mut list, &sizes).expect("complete");
        let table = table(&words);
        let mut state = vec![0; table.state_words()];
        let mut kept = vec![0; table.place_words(before as u32, VARS as u32)];
        let mut patcher = Patcher::new(table, &mut state).expect("the room asked for");
        patcher.keep_places(own[0], VARS as u32, &mut kept);
        patcher.set_all(Var::new(0), &vec![7; before]).expect("variables of the table");

        let mut first = vec![7u64; before];
        let mut memory = vec![0u64; fields.len() * SLOT as usize / 8];
        let mut model = vec![0u8; memory.len() * 8];
        let mut values = [0u64; VARS];
        let all = [[3, 4, 5, 6]; DEVICES];
        // Good values first, so that all are known; and last, after any that were refused.
        let good = std::iter::repeat_n(None, 1);
        let entries = launches.iter().map(Some);
        for launch in good.clone().chain(entries).chain(good) {
            let of: Vec<Option<[u64; 4]>> = match launch {
                None => all.iter().map(|v| Some(*v)).collect(),
                Some(l) => l.iter().map(|v| v.map(|index| *index.get(&pool))).collect(),
            };
            patcher.set_places(own[0], &of, &of, |values, _| *values);
            for (kept, new) in values.chunks_mut(4).zip(&of) {
                if let Some(new) = new {
                    kept.copy_from_slice(new);
                }
            }
            let fits = |(var, f, _): &(usize, Formula, u32)| naive_fits(f.fit, f.of, values[*var]);
            let sound = placed.iter().all(fits);
            let mut regions = [
                Region::from_words(&mut first, 0),
                Region::from_words(&mut memory, 0),
            ];
            let applied = match patcher.apply_bound(&mut regions) {
                Some(stored) => Ok(stored),
                None => patcher.apply(&mut regions),
            };
            prop_assert_eq!(applied.is_ok(), sound, "{:?} {:?}", applied, values);
            if sound {
                for (var, formula, offset) in &placed {
                    let bytes = naive_bytes(formula, values[*var]);
                    let offset = *offset as usize;
                    model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
            }
            prop_assert_eq!(zerocopy::IntoBytes::as_bytes(memory.as_slice()), model.as_slice());
        }
    }
}

#[test]
fn what_is_counted_are_sites() {
    let mut room = Room::new(4);
    let mut list = room.list();
    let vars: Vec<Var> = (0..4).map(|_| list.var().expect("room")).collect();
    for (site, var) in (0u32..).zip([0, 1, 1, 3]) {
        list.site(RegionId(0), site * 16 + 4, &Formula::whole(vars[var]));
    }
    let words = built(&mut list, &[64]).expect("complete");
    let table = table(&words);
    let mut state = vec![0; table.state_words()];
    let mut kept = vec![0; table.place_words(0, 4)];
    let mut patcher = Patcher::new(table, &mut state).expect("the room asked for");
    patcher.keep_places(vars[0], 4, &mut kept);
    let mut memory = [0u64; 8];
    let mut regions = [Region::from_words(&mut memory, 0)];
    // In two stores each.
    for (values, stored) in [
        ([1; 4], 4),
        ([1; 4], 0),
        ([2, 3, 1, 1], 3),
        ([u64::MAX; 4], 4),
        ([5; 4], 4),
    ] {
        patcher.set_places(vars[0], &[()], &[()], |(), ()| Some(values));
        let applied = match patcher.apply_bound(&mut regions) {
            Some(stored) => Ok(stored),
            None => patcher.apply(&mut regions),
        };
        assert_eq!(applied, Ok(stored), "{values:?}");
        for (site, var) in (0usize..).zip([0, 1, 1, 3]) {
            let half = |at| regions[0].load_u32(site * 16 + at).map(u64::from);
            assert_eq!(half(4), Ok(values[var] & 0xffff_ffff));
            assert_eq!(half(8), Ok(values[var] >> 32));
        }
    }
    assert_eq!(patcher.get(vars[0]), Some(5));
}

#[test]
fn what_is_set_past_the_places_is_checked() {
    let mut room = Room::new(1);
    let mut list = room.list();
    let var = list.var().expect("room");
    list.site(RegionId(0), 0, &Formula::low(var, Fit::bits(8)));
    let words = built(&mut list, &[8]).expect("complete");
    let table = table(&words);
    let mut state = vec![0; table.state_words()];
    let mut kept = vec![0; table.place_words(0, 1)];
    let mut patcher = Patcher::new(table, &mut state).expect("the room asked for");
    patcher.keep_places(var, 1, &mut kept);
    let mut memory = [0u64; 1];
    let mut regions = [Region::from_words(&mut memory, 0)];
    patcher.set_own(var, [200]).expect("the table has it");
    assert_eq!(patcher.apply(&mut regions), Ok(1));
    patcher.set_own(var, [300]).expect("the table has it");
    let refused = patcher.apply(&mut regions);
    assert!(
        matches!(refused, Err(PatchError::Misfit { .. })),
        "{refused:?}"
    );
    assert_eq!(patcher.apply_bound(&mut regions), None);
    patcher.set_own(var, [100]).expect("the table has it");
    assert_eq!(patcher.apply(&mut regions), Ok(1));
    assert_eq!(memory, [100]);
}
