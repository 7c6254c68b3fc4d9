//! What the tests of several modules need: a generator, and how many cases a property gets.

use proptest::test_runner::Config;

/// A seeded generator (SplitMix64), for simulations whose steps are too many to be shrunk.
#[derive(Clone, Debug)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which is not zero.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True once in `n`.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// `cases` cases, in proportion to what `PROPTEST_CASES` asks for; a few under Miri.
pub(crate) fn cases(cases: u32) -> Config {
    let default = Config::default();
    let scaled = u64::from(cases) * u64::from(default.cases) / 256;
    Config {
        cases: if cfg!(miri) {
            4
        } else {
            u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
        },
        failure_persistence: None,
        max_shrink_iters: if cfg!(miri) {
            0
        } else {
            default.max_shrink_iters
        },
        ..default
    }
}

/// How much of something a test makes: `n`, or less under Miri.
pub(crate) const fn most(n: usize) -> usize {
    if cfg!(miri) { n.div_ceil(6) } else { n }
}

/// Rounds of a simulation: all of them, or a few under Miri.
pub(crate) fn rounds(n: u64) -> u64 {
    if cfg!(miri) { n.div_ceil(100) } else { n }
}
