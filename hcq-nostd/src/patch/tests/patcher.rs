//! What a launch stores and what it refuses, case by case.

use super::*;
use crate::mem::Region;
use crate::testing::Rng;
use crate::value::{Fit, Misfit};

const R0: RegionId = RegionId(0);

fn value(memory: &mut [u64], offset: usize) -> u64 {
    Region::from_words(memory, 0)
        .load_u64(offset)
        .expect("inside")
}

fn apply(patcher: &mut Patcher<'_>, memory: &mut [u64]) -> Result<usize, PatchError> {
    patcher.apply(&mut [Region::from_words(memory, 0)])
}

#[test]
fn nothing_is_stored_until_everything_has_a_value() {
    let mut room = Room::new(8);
    let mut list = room.list();
    let v: Vec<Var> = (0..4).map(|_| list.var().expect("room")).collect();
    list.site(R0, 0, &Formula::whole(v[0]));
    list.site(R0, 8, &Formula::low(v[2], Fit::ANY));
    let product = list.derive(Derived::product(v[1], v[2])).expect("room");
    list.site(R0, 16, &Formula::whole(product));
    let bytes = built(&mut list, &[32]).expect("complete");
    let mut state = vec![0; table(&bytes).state_words()];
    let mut p = Patcher::new(table(&bytes), &mut state).expect("room");
    let mut memory = [7u64; 4];
    for (var, unset) in [(v[0], 0), (v[2], 1), (v[1], 1)] {
        assert_eq!(
            apply(&mut p, &mut memory),
            Err(PatchError::Unresolved { var: v[unset] })
        );
        assert_eq!((memory, p.get(var)), ([7; 4], None));
        p.set(var, 0).expect("an input");
        assert_eq!(p.get(var), Some(0));
    }
    // A derived variable that comes out as zero is stored too; nobody needs v[3].
    assert_eq!(apply(&mut p, &mut memory), Ok(3));
    assert_eq!(memory, [0, 7 >> 32 << 32, 0, 7]);
    assert_eq!((apply(&mut p, &mut memory), p.is_dirty()), (Ok(0), false));
    p.set(v[0], 0).expect("an input");
    assert!(!p.is_dirty());
    assert_eq!(p.get(product), None);
    assert_eq!(
        p.set(product, 1),
        Err(PatchError::IsDerived { var: product })
    );
    let no_such = |n| PatchError::NoSuchVariable {
        var: Var::new(n),
        vars: 5,
    };
    assert_eq!(p.set(Var::new(5), 1), Err(no_such(5)));
    assert_eq!(p.set(Var::new(u32::MAX), 1), Err(no_such(u32::MAX)));
    assert_eq!(p.set_all(Var::new(3), &[1, 1, 1]), Err(no_such(5)));
    assert_eq!(p.set_all(Var::new(9), &[]), Err(no_such(9)));
    assert_eq!(
        p.set_all(v[3], &[1, 1]),
        Err(PatchError::IsDerived { var: product })
    );
    assert_eq!(p.set_all(v[3], &[1]), Ok(()));
    assert_eq!(p.set_all(Var::new(5), &[]), Ok(()));
    // The same for those that change with every launch, whether they can be such ones or not.
    for count in [1, 2, 65] {
        p.keep_own(v[3], count);
        assert_eq!(
            p.set_own(v[3], [1, 1]),
            Err(PatchError::IsDerived { var: product })
        );
        assert_eq!(p.set_own(v[3], [1, 1, 1]), Err(no_such(5)));
        assert_eq!(p.set_own(Var::new(u32::MAX), [1]), Err(no_such(u32::MAX)));
        assert_eq!(p.set_own(v[3], [count.into()]), Ok(()));
        assert_eq!(p.get(v[3]), Some(count.into()));
    }
}

#[test]
fn a_misfit_stores_nothing_and_passes_once_it_is_put_right() {
    let mut room = Room::new(8);
    let mut list = room.list();
    let (a, b) = (list.var().expect("room"), list.var().expect("room"));
    list.site(R0, 0, &Formula::whole(a));
    list.site(
        R0,
        8,
        &Formula {
            fit: Fit::aligned(16, 4),
            ..Formula::low(b, Fit::ANY)
        },
    );
    list.site(
        R0,
        12,
        &Formula {
            fit: Fit::count(8),
            store: Store::W8,
            ..Formula::whole(b)
        },
    );
    let bytes = built(&mut list, &[16]).expect("complete");
    let mut state = vec![0; table(&bytes).state_words()];
    let mut p = Patcher::new(table(&bytes), &mut state).expect("room");
    let mut memory = [0x5555_5555_5555_5555u64; 2];
    p.set(a, 1).expect("an input");
    for (bad, misfit) in [
        (
            0x10000,
            Misfit::TooLarge {
                value: 0x10000,
                bits: 8,
            },
        ),
        (
            0x18,
            Misfit::Misaligned {
                value: 0x18,
                align_log2: 4,
            },
        ),
        (
            0x100,
            Misfit::TooLarge {
                value: 0x100,
                bits: 8,
            },
        ),
        (0, Misfit::TooSmall { value: 0, least: 1 }),
    ] {
        p.set(b, bad).expect("an input");
        for _ in 0..2 {
            assert_eq!(
                apply(&mut p, &mut memory),
                Err(PatchError::Misfit { var: b, misfit })
            );
            assert_eq!(memory, [0x5555_5555_5555_5555; 2]);
        }
    }
    p.set(b, 0xf0).expect("an input");
    assert_eq!(apply(&mut p, &mut memory), Ok(3));
    assert_eq!(memory, [1, 0x5555_55f0_0000_00f0]);
}

#[test]
fn a_product_that_leaves_64_bits_is_refused() {
    let mut room = Room::new(8);
    let mut list = room.list();
    let (a, b) = (list.var().expect("room"), list.var().expect("room"));
    let area = list.derive(Derived::product(a, b)).expect("room");
    let volume = list.derive(Derived::product(area, a)).expect("room");
    list.site(R0, 0, &Formula::whole(volume));
    list.site(
        R0,
        8,
        &Formula {
            fit: Fit::bits(8),
            ..Formula::whole(area)
        },
    );
    let bytes = built(&mut list, &[16]).expect("complete");
    let mut state = vec![0; table(&bytes).state_words()];
    let mut p = Patcher::new(table(&bytes), &mut state).expect("room");
    let mut memory = [0u64; 2];
    p.set_all(a, &[1 << 32, 1 << 32]).expect("inputs");
    let overflow = PatchError::Misfit {
        var: b,
        misfit: Misfit::TooLarge {
            value: 1 << 32,
            bits: 64,
        },
    };
    assert_eq!(apply(&mut p, &mut memory), Err(overflow));
    p.set(b, 1 << 8).expect("an input");
    // 2^72 for the volume is refused as well, and so is the area in its field of 8 bits.
    assert!(matches!(
        apply(&mut p, &mut memory),
        Err(PatchError::Misfit { .. })
    ));
    p.set_all(a, &[16, 16]).expect("inputs");
    let wide = PatchError::Misfit {
        var: area,
        misfit: Misfit::TooLarge {
            value: 256,
            bits: 8,
        },
    };
    assert_eq!(apply(&mut p, &mut memory), Err(wide));
    assert_eq!(memory, [0, 0]);
    p.set_all(a, &[15, 17]).expect("inputs");
    assert_eq!(apply(&mut p, &mut memory), Ok(2));
    assert_eq!(memory, [255 * 15, 255]);
}

#[test]
fn a_derived_variable_is_computed_after_all_that_it_is_made_of() {
    let mut room = Room::new(8);
    let mut list = room.list();
    let v: Vec<Var> = (0..3).map(|_| list.var().expect("room")).collect();
    let inner = list.derive(Derived::product(v[1], v[2])).expect("room");
    let outer = list.derive(Derived::product(inner, v[0])).expect("room");
    list.site(R0, 0, &Formula::whole(outer));
    let bytes = built(&mut list, &[8]).expect("complete");
    let mut state = vec![0; table(&bytes).state_words()];
    let mut p = Patcher::new(table(&bytes), &mut state).expect("room");
    let mut memory = [0u64];
    p.set_all(v[0], &[1, 1 << 31, 1 << 30]).expect("inputs");
    assert_eq!(apply(&mut p, &mut memory), Ok(1));
    // The new first factor with the old product would overflow; with the new product it fits.
    p.set_all(v[0], &[1 << 62, 1, 1]).expect("inputs");
    assert_eq!(apply(&mut p, &mut memory), Ok(1));
    assert_eq!(memory, [1 << 62]);
    // Another way to the same value: nothing to store.
    memory = [9];
    p.set_all(v[0], &[1 << 61, 2, 1]).expect("inputs");
    assert_eq!((apply(&mut p, &mut memory), memory), (Ok(0), [9]));
}

#[test]
fn derived_sums_pack_mask_and_swap() {
    let mut room = Room::new(16);
    let mut list = room.list();
    let v: Vec<Var> = (0..3).map(|_| list.var().expect("room")).collect();
    let f = |shift, bits| Field::new(shift, bits);
    let packed = Derived::sum(
        3,
        &[
            Term::new(v[0], f(2, 10)),
            Term::new(v[1], f(12, 10)),
            Term::new(v[2], f(22, 10)),
        ],
    );
    let packed = list.derive(packed.expect("three terms")).expect("room");
    let head = Affine {
        var: v[0],
        scale: 1,
        add: 1,
    };
    let slot = Derived::sum(0x1000, &[Term::masked(head, 3, 6)]).expect("one term");
    let slot = list.derive(slot).expect("room");
    let lap = Derived::sum(0, &[Term::part(head, 3, 1, 31)])
        .expect("one term")
        .swapped32();
    let lap = list.derive(lap).expect("room");
    let wide = list
        .derive(Derived::product(v[0], v[1]).swapped64())
        .expect("room");
    for (i, d) in [packed, slot, lap, wide].into_iter().enumerate() {
        list.site(R0, i as u32 * 8, &Formula::whole(d));
    }
    let bytes = built(&mut list, &[32]).expect("complete");
    let mut state = vec![0; table(&bytes).state_words()];
    let mut p = Patcher::new(table(&bytes), &mut state).expect("room");
    let mut memory = [0u64; 4];
    p.set_all(v[0], &[14, 5, 1023]).expect("inputs");
    assert_eq!(apply(&mut p, &mut memory), Ok(4));
    assert_eq!(
        memory,
        [
            3 | 14 << 2 | 5 << 12 | 1023 << 22,
            0x1000 + (7 << 6),
            0x80,
            70u64.swap_bytes()
        ]
    );
    p.set(v[2], 1024).expect("an input");
    let misfit = Misfit::TooLarge {
        value: 1024,
        bits: 10,
    };
    assert_eq!(
        apply(&mut p, &mut memory),
        Err(PatchError::Misfit { var: v[2], misfit })
    );
    p.set(v[2], 0).expect("an input");
    p.set(v[0], 15).expect("an input");
    assert_eq!(apply(&mut p, &mut memory), Ok(4));
    assert_eq!(memory[1..3], [0x1000, 0]);
}

#[test]
fn a_swapped_sum_of_more_than_32_bits_is_refused() {
    let mut room = Room::new(4);
    let mut list = room.list();
    let a = list.var().expect("room");
    let d = Derived::sum(1, &[Term::new(a, Field::new(0, 64))])
        .expect("one term")
        .swapped32();
    let d = list.derive(d).expect("room");
    list.site(R0, 0, &Formula::whole(d));
    let bytes = built(&mut list, &[8]).expect("complete");
    let mut state = vec![0; table(&bytes).state_words()];
    let mut p = Patcher::new(table(&bytes), &mut state).expect("room");
    let mut memory = [0u64];
    p.set(a, u32::MAX.into()).expect("an input");
    let misfit = Misfit::TooLarge {
        value: 1 << 32,
        bits: 32,
    };
    assert_eq!(
        apply(&mut p, &mut memory),
        Err(PatchError::Misfit { var: a, misfit })
    );
    p.set(a, 0x1122_3343).expect("an input");
    assert_eq!((apply(&mut p, &mut memory), memory), (Ok(1), [0x4433_2211]));
}

#[test]
fn touch_all_stores_everything_again() {
    for vars in [1, 8, 63, 64, 65, 130]
        .into_iter()
        .take(if cfg!(miri) { 3 } else { 6 })
    {
        let mut room = Room::new(400);
        let mut list = room.list();
        for _ in 0..vars {
            list.var().expect("room");
        }
        for v in 0..vars {
            list.site(R0, v * 16, &Formula::whole(Var::new(v)));
            list.site(R0, v * 16 + 12, &Formula::low(Var::new(v), Fit::ANY));
        }
        let bytes = built(&mut list, &[u64::from(vars) * 16]).expect("complete");
        let mut state = vec![0; table(&bytes).state_words()];
        let mut p = Patcher::new(table(&bytes), &mut state).expect("room");
        let values: Vec<u64> = (0..vars).map(|v| u64::from(v) << 8).collect();
        p.set_all(Var::new(0), &values).expect("inputs");
        let mut memory = vec![0; vars as usize * 2];
        assert_eq!(apply(&mut p, &mut memory), Ok(vars as usize * 2));
        let want = memory.clone();
        memory.fill(0);
        assert_eq!(apply(&mut p, &mut memory), Ok(0));
        p.touch_all();
        assert!(p.is_dirty());
        assert_eq!(apply(&mut p, &mut memory), Ok(vars as usize * 2));
        assert_eq!(memory, want);
    }
}

#[test]
fn memory_must_be_what_the_table_was_built_for() {
    let mut room = Room::new(4);
    let mut list = room.list();
    let a = list.var().expect("room");
    list.site(RegionId(1), 8, &Formula::whole(a));
    let bytes = built(&mut list, &[8, 16]).expect("complete");
    let need = table(&bytes).state_words();
    let mut state = vec![0; need];
    let too_small = PatchError::StateTooSmall {
        need,
        have: need - 1,
    };
    assert_eq!(
        Patcher::new(table(&bytes), &mut state[1..]).map(|_| ()),
        Err(too_small)
    );
    let mut p = Patcher::new(table(&bytes), &mut state).expect("room");
    p.set(a, 5).expect("an input");
    let (mut first, mut second) = ([0u64; 1], [0u64; 3]);
    fn r(m: &mut [u64]) -> Region<'_> {
        Region::from_words(m, 0)
    }
    assert_eq!(
        p.apply(&mut [r(&mut second)]),
        Err(PatchError::RegionCount { need: 2, have: 1 })
    );
    let short = p.apply(&mut [r(&mut first), r(&mut second[..1])]);
    assert_eq!(
        short,
        Err(PatchError::Region {
            index: 1,
            need: 16,
            have: 8
        })
    );
    let odd = r(&mut second).slice(4, 20).expect("inside");
    assert_eq!(
        p.apply(&mut [r(&mut first), odd]),
        Err(PatchError::Region {
            index: 1,
            need: 16,
            have: 20
        })
    );
    // More than needed is fine, and stays as it is.
    assert_eq!(p.apply(&mut [r(&mut first), r(&mut second)]), Ok(1));
    assert_eq!((first, second), ([0], [0, 5, 0]));
}

#[test]
fn setting_a_range_equals_setting_each() {
    const VARS: u32 = 150;
    let mut room = Room::new(400);
    let mut list = room.list();
    for _ in 0..VARS {
        list.var().expect("room");
    }
    for v in 0..VARS {
        list.site(R0, v * 8, &Formula::whole(Var::new(v)));
    }
    let bytes = built(&mut list, &[u64::from(VARS) * 8]).expect("complete");
    let words = table(&bytes).state_words();
    let (mut one, mut other) = (vec![0; words], vec![0; words]);
    let mut rng = Rng(1);
    let step = if cfg!(miri) { 61 } else { 1 };
    for first in (0..VARS).step_by(step) {
        for len in (0..=VARS - first).step_by(step) {
            let mut by_range = Patcher::new(table(&bytes), &mut one).expect("room");
            let mut by_each = Patcher::new(table(&bytes), &mut other).expect("room");
            let (mut memory_a, mut memory_b) = (vec![1; VARS as usize], vec![1; VARS as usize]);
            for round in 0..3 {
                // Zero is what the state starts with, and must count as a value nevertheless.
                let values: Vec<u64> = (0..len).map(|_| rng.below(2) * round).collect();
                by_range.set_all(Var::new(first), &values).expect("inputs");
                for (v, &n) in (first..).zip(&values) {
                    by_each.set(Var::new(v), n).expect("an input");
                }
                assert_eq!(by_range.is_dirty(), by_each.is_dirty());
                if round == 1 {
                    by_range
                        .set_all(Var::new(0), &[5; VARS as usize])
                        .expect("inputs");
                    (0..VARS).for_each(|v| by_each.set(Var::new(v), 5).expect("an input"));
                }
                let (a, b) = (
                    apply(&mut by_range, &mut memory_a),
                    apply(&mut by_each, &mut memory_b),
                );
                assert_eq!(
                    (a, &memory_a),
                    (b, &memory_b),
                    "{len} from {first}, round {round}"
                );
                assert_eq!(
                    (0..VARS).find(|&v| by_range.get(Var::new(v)) != by_each.get(Var::new(v))),
                    None
                );
            }
        }
    }
}

#[test]
fn a_plain_pointer_lands_where_it_should() {
    let mut room = Room::new(4);
    let mut list = room.list();
    let a = list.var().expect("room");
    list.site(R0, 8, &Formula::whole(a));
    let bytes = built(&mut list, &[16]).expect("complete");
    let mut state = vec![0; table(&bytes).state_words()];
    let mut p = Patcher::new(table(&bytes), &mut state).expect("room");
    let mut memory = [0u64; 2];
    p.set(a, 0x7f00_0000_1000).expect("an input");
    assert_eq!(apply(&mut p, &mut memory), Ok(1));
    assert_eq!(
        (value(&mut memory, 0), value(&mut memory, 8)),
        (0, 0x7f00_0000_1000)
    );
}

#[test]
fn a_limit_is_checked_and_stores_nothing() {
    let (mut sites, mut derived) = ([Site::EMPTY; 8], [Derived::EMPTY; 1]);
    let mut list = PatchList::new(&mut sites, &mut derived);
    let (x, y) = (list.var().unwrap(), list.var().unwrap());
    list.site(RegionId(0), 0, &Formula::whole(x));
    let items = list.product(x.into(), y.into()).unwrap();
    list.require(items, Fit::at_most(0x600)).unwrap();
    assert_eq!(list.require(Value::Imm(0x600), Fit::at_most(0x600)), Ok(()));
    assert!(
        list.require(Value::Imm(0x601), Fit::at_most(0x600))
            .is_err()
    );
    let mut bytes = [0u64; 64];
    let table = list.build(&[16], &mut bytes).unwrap();
    assert_eq!(table.sites(), 1);
    let mut state = [0u64; 16];
    let mut patcher = Patcher::new(table, &mut state).unwrap();
    let mut memory = [0u64; 2];
    let mut regions = [Region::from_words(&mut memory, 0)];
    patcher.set(x, 0x600).unwrap();
    patcher.set(y, 2).unwrap();
    let refused = patcher.apply(&mut regions).unwrap_err();
    let above = Misfit::AboveLimit {
        value: 0xc00,
        most: 0x600,
    };
    assert!(matches!(refused, PatchError::Misfit { misfit, .. } if misfit == above));
    assert_eq!(regions[0].load_u64(0), Ok(0));
    patcher.set(y, 1).unwrap();
    assert_eq!(patcher.apply(&mut regions), Ok(1));
    assert_eq!(memory, [0x600, 0]);
}

/// What one list's check leaves to another one is checked all the same.
#[test]
fn a_value_that_one_formula_takes_and_another_does_not_is_refused() {
    let mut room = Room::new(64);
    let mut list = room.list();
    let vars: Vec<Var> = (0..10).map(|_| list.var().expect("room")).collect();
    for (i, &var) in (0..).zip(&vars) {
        list.site(R0, i * 8, &Formula::low(var, Fit::signed(8)));
        list.site(R0, i * 8 + 4, &Formula::low(var, Fit::bits(16)));
        list.require(var.into(), Fit::at_most(u64::MAX >> 1))
            .expect("a variable");
    }
    let bytes = built(&mut list, &[80]).expect("complete");
    let covered = table(&bytes).lists.iter().map(|l| l.covered);
    assert_eq!(covered.sum::<u16>(), 2, "by the one of the fewest values");
    let mut state = vec![0; table(&bytes).state_words()];
    let mut p = Patcher::new(table(&bytes), &mut state).expect("room");
    let mut memory = [0u64; 10];
    p.set_all(vars[0], &[3; 10]).expect("inputs");
    assert_eq!(apply(&mut p, &mut memory), Ok(20));
    for (bad, bits) in [(u64::MAX, 16), (u64::MAX - 200, 8), (256, 8)] {
        p.set(vars[7], bad).expect("an input");
        let misfit = Misfit::TooLarge { value: bad, bits };
        let refused = Err(PatchError::Misfit {
            var: vars[7],
            misfit,
        });
        let seen = apply(&mut p, &mut memory);
        if bad == u64::MAX {
            assert!(matches!(seen, Err(PatchError::Misfit { .. })), "{seen:?}");
        } else {
            assert_eq!(seen, refused);
        }
        assert_eq!(memory, [0x3_0000_0003; 10]);
    }
    p.set(vars[7], 255).expect("an input");
    assert_eq!(apply(&mut p, &mut memory), Ok(2));
    assert_eq!(memory[7], 0xff_0000_00ff);
}
