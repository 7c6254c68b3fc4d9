//! What command processors ask for while they step.

use crate::cache::Caches;
use crate::engine::{Host, Parts};
use crate::exec::Executor;
use crate::machine::clock;
use crate::vm::{AddressSpace, PageTable};

/// What a command processor asks while it steps.
pub(super) struct Asked<'a> {
    pub(super) table: &'a PageTable,
    pub(super) caches: &'a mut Caches,
    pub(super) executor: &'a mut dyn Executor,
    pub(super) random: &'a mut fastrand::Rng,
}

/// `CP_ALWAYS_ON_COUNTER`: 19.2 MHz.
pub(super) fn ticks() -> u64 {
    let ticks = u128::from(clock::raw_ns()) * 192 / 10_000;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

impl Host for Asked<'_> {
    fn vm(&self) -> &dyn AddressSpace {
        self.table
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts {
            vm: self.table,
            caches: self.caches,
            executor: self.executor,
        }
    }

    fn clock(&self) -> u64 {
        ticks()
    }

    fn interrupt(&mut self, _: u32) {}

    fn doorbell(&self) -> u64 {
        0
    }

    fn random(&mut self, below: u32) -> u32 {
        self.random.u32(..below.max(1))
    }
}
