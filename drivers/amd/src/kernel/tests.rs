//! Sizes that are known take a short way, which must hold for exactly those that the long way takes.

use super::*;
use hcq_nostd::value::Var;
use proptest::prelude::*;

fn values(sizes: [u64; 3]) -> [Value; 3] {
    sizes.map(Value::Imm)
}

fn product(sizes: [u64; 3]) -> u128 {
    sizes
        .iter()
        .fold(1u128, |all, n| all.saturating_mul((*n).into()))
}

fn fit(groups: [u64; 3], local: [u64; 3], max: u32) -> bool {
    groups.iter().all(|n| (1..1 << 32).contains(n))
        && local.iter().all(|n| (1..1 << 16).contains(n))
        && product(local) <= max.into()
}

#[test]
fn sizes_at_the_edges() {
    for (groups, local, max, known) in [
        ([1, 1, 1], [1, 1, 1], 1, true),
        ([u32::MAX.into(), 1, 1], [1024, 1, 1], 1024, true),
        ([1 << 32, 1, 1], [1, 1, 1], 1024, false),
        ([0, 1, 1], [1, 1, 1], 1024, false),
        ([1, 1, 1], [1, 0, 1], 1024, false),
        ([1, 1, 1], [1025, 1, 1], 1024, false),
        ([1, 1, 1], [32, 32, 2], 1024, false),
        ([1, 1, 1], [1 << 16, 1, 1], u32::MAX, false),
        // The product is 2^64: the long way takes it.
        ([1 << 31, 1 << 31, 4], [1, 1, 1], 1024, false),
        ([u64::MAX, u64::MAX, u64::MAX], [1, 1, 1], 1024, false),
    ] {
        let sizes = known_sizes(&values(groups), &values(local), max);
        assert_eq!(sizes.is_some(), known, "{groups:?} {local:?} {max}");
    }
    let var = [Var::new(0).into(), Value::Imm(1), Value::Imm(1)];
    assert_eq!(known_sizes(&var, &values([1; 3]), 1024), None);
    assert_eq!(known_sizes(&values([1; 3]), &var, 1024), None);
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..5,
        0u64..2000,
        any::<u32>().prop_map(u64::from),
        any::<u64>()
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 2000 }) })]

    #[test]
    fn known_sizes_fit(groups in [size(), size(), size()], local in [size(), size(), size()], max in 1u32..2000) {
        match known_sizes(&values(groups), &values(local), max) {
            Some((g, l)) => {
                prop_assert!(fit(groups, local, max));
                prop_assert_eq!((g.map(u64::from), l.map(u64::from)), (groups, local));
            }
            // Products of 2^64 and more may be left to the long way.
            None => prop_assert!(!fit(groups, local, max) || product(groups) >= 1 << 64),
        }
    }
}
