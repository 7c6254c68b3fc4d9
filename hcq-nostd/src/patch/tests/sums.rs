//! Sums of known and unknown parts: the same number, whichever parts are known while recording.

use super::*;
use crate::mem::Region;
use crate::testing::cases;
use proptest::prelude::*;

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        (0u8..70, 0u8..70, 0u8..10).prop_map(|(s, b, u)| Part::Field(Field::new(s, b).unit(u))),
        (0u8..64, 0u8..70, 0u8..64).prop_map(|(from, bits, shl)| Part::Cut { from, bits, shl }),
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..256, any::<u64>(), (0u32..64).prop_map(|b| 1 << b)]
}

/// The sum over unbounded integers, from the words of the documentation; `None` if a part does not fit its field.
fn naive(base: u64, parts: &[(u64, Part)], swap: Swap) -> Option<u128> {
    let mut sum = u128::from(base);
    for &(value, part) in parts {
        let value = u128::from(value);
        sum += match part {
            Part::Field(f) => {
                let unit = 1u128 << f.unit_log2;
                if value % unit != 0 || value / unit >= 1 << f.bits {
                    return None;
                }
                let placed = (value / unit).checked_mul(1 << f.shift)?;
                u64::try_from(placed).ok()?.into()
            }
            Part::Cut { from, bits, shl } => {
                ((value >> from & ((1 << bits) - 1)) << shl) & u128::from(u64::MAX)
            }
        };
    }
    match swap {
        Swap::No => Some(sum),
        Swap::Bytes32 => Some(u32::try_from(sum).ok()?.swap_bytes().into()),
        Swap::Bytes64 => Some(u64::try_from(sum).ok()?.swap_bytes().into()),
    }
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn a_sum_is_the_same_known_or_patched(
        base in number(),
        parts in prop::collection::vec((number(), part(), any::<bool>()), 0..6),
        swap in prop::sample::select(&[Swap::No, Swap::Bytes32, Swap::Bytes64][..]),
    ) {
        let values: Vec<(u64, Part)> = parts.iter().map(|p| (p.0, p.1)).collect();
        let want = naive(base, &values, swap);
        // Sums that leave 64 bits are refused when all is known, and wrap when a variable is in it.
        prop_assume!(naive(base, &values, Swap::No).is_none_or(|n| u64::try_from(n).is_ok()));
        let mut list = PatchList::none();
        let known: Vec<(Value, Part)> = values.iter().map(|&(v, p)| (Value::Imm(v), p)).collect();
        let sum = list.sum(base, &known, swap).ok().and_then(Value::imm).map(u128::from);
        prop_assert_eq!(sum, want);

        let mut room = Room::new(8);
        let mut list = room.list();
        let mut unknown = vec![];
        let mixed: Vec<(Value, Part)> = parts
            .iter()
            .map(|&(v, p, variable)| {
                if variable && unknown.len() < 3 {
                    unknown.push(v.wrapping_sub(7));
                    (Value::from(list.var().expect("room")) + 7, p)
                } else {
                    (Value::Imm(v), p)
                }
            })
            .collect();
        // `v - 7 + 7` must not wrap on its way.
        prop_assume!(unknown.iter().all(|&v| v < u64::MAX - 7));
        let sum = match list.sum(base, &mixed, swap) {
            Ok(sum) => sum,
            Err(_) => {
                prop_assert_eq!(want, None);
                return Ok(());
            }
        };
        let of = match sum {
            Value::Var(of) => of,
            Value::Imm(v) => {
                prop_assert_eq!(Some(u128::from(v)), want);
                return Ok(());
            }
        };
        list.site(RegionId(0), 0, &Formula::whole(of));
        let bytes = built(&mut list, &[8]).expect("complete");
        let mut state = vec![0; table(&bytes).state_words()];
        let mut p = Patcher::new(table(&bytes), &mut state).expect("room");
        for (n, &v) in (0..).zip(&unknown) {
            p.set(Var::new(n), v).expect("an input");
        }
        let mut memory = [0u64];
        let applied = p.apply(&mut [Region::from_words(&mut memory, 0)]);
        prop_assert_eq!(applied.ok().map(|_| u128::from(memory[0])), want);
    }
}

#[test]
fn a_sum_has_three_variables_at_most() {
    let mut room = Room::new(8);
    let mut list = room.list();
    let v: Vec<Value> = (0..4).map(|_| list.var().expect("room").into()).collect();
    let low = Part::Cut {
        from: 0,
        bits: 8,
        shl: 0,
    };
    let parts: Vec<(Value, Part)> = v.iter().map(|&v| (v, low)).collect();
    assert!(list.sum(0, &parts[..3], Swap::No).is_ok());
    let used = list.used();
    assert_eq!(
        list.sum(0, &parts, Swap::No),
        Err(SumError::Build(BuildError::TooMany))
    );
    let wide = [
        (v[0], low),
        (Value::Imm(256), Part::Field(Field::new(0, 8))),
    ];
    let misfit = Misfit::TooLarge {
        value: 256,
        bits: 8,
    };
    assert_eq!(
        list.sum(0, &wide, Swap::No),
        Err(SumError::Misfit { part: 1, misfit })
    );
    let carry = [(Value::Imm(1), low)];
    assert!(matches!(
        list.sum(u64::MAX, &carry, Swap::No),
        Err(SumError::Misfit { part: 1, .. })
    ));
    assert_eq!(list.used(), used);
}
