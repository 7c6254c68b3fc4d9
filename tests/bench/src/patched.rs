//! Launches whose pointers and grids are known late: recorded by a driver with variables, and patched.

use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, PatchList, Patcher, Site};
use hcq_nostd::value::Var;

use crate::baseline;

/// Inputs of a launch: two pointers, and the work-groups of the first dimension.
pub const INPUTS: usize = 3;

/// Recorded launches with everything that patching them touches. Its memory lives as long as the process.
#[derive(Debug)]
pub struct Patched<const REGIONS: usize> {
    patcher: Patcher<'static>,
    regions: [Region<'static>; REGIONS],
    sites: usize,
}

/// Memory for as long as the process lives.
pub(crate) fn leak<T: Clone>(zero: T, n: usize) -> &'static mut [T] {
    vec![zero; n].leak()
}

/// Room for the sites of so many launches.
pub(crate) fn list(launches: usize) -> PatchList<'static> {
    let sites = leak(Site::EMPTY, launches * 16);
    PatchList::new(sites, leak(Derived::EMPTY, launches * 8))
}

impl<const REGIONS: usize> Patched<REGIONS> {
    /// Over what was recorded: its list, and its memory.
    pub(crate) fn new(mut list: PatchList<'static>, regions: [Region<'static>; REGIONS]) -> Self {
        let bytes = regions.each_ref().map(|region| region.len() as u64);
        let words = list.table_words(&bytes).expect("sound sites");
        let sites = list.sites().len();
        let table = list.build(&bytes, leak(0u64, words)).expect("enough room");
        let state = leak(0u64, table.state_words());
        Self {
            patcher: Patcher::new(table, state).expect("enough state"),
            regions,
            sites,
        }
    }

    /// Gives all inputs, [`INPUTS`] for each launch, and stores what changed. Returns how many places that was.
    #[inline(never)]
    pub fn launch(&mut self, inputs: &[u64]) -> usize {
        let patcher = &mut self.patcher;
        patcher
            .set_all(Var::new(0), inputs)
            .expect("variables of the table");
        patcher
            .apply(&mut self.regions)
            .expect("values that the fields hold")
    }

    /// Places that variables are stored in.
    pub fn sites(&self) -> usize {
        self.sites
    }

    /// All that is there now.
    pub fn memory(&self) -> Vec<u64> {
        let words = |region: &Region<'static>| {
            let all = (0..region.len()).step_by(8);
            all.map(|at| region.load_u64(at).expect("inside"))
                .collect::<Vec<_>>()
        };
        self.regions.iter().flat_map(words).collect()
    }
}

/// Two sets of inputs of so many launches that have nothing in common.
pub fn inputs(launches: usize) -> [Vec<u64>; 2] {
    [0u64, 1].map(|set| {
        let one = |n: u64| {
            let pointer = 0x10_0000_0000 + n * 0x2000 + set * 64;
            [pointer, pointer + 0x1000, 1 + set]
        };
        (0..launches as u64).flat_map(one).collect()
    })
}

/// What a bare loop has to store at least: each input once, as far apart as argument blocks are.
pub fn stores(launches: usize, block: u32) -> Vec<baseline::Site> {
    let inputs = INPUTS as u32;
    (0..launches as u32 * inputs)
        .map(|i| baseline::Site {
            offset: i / inputs * block + i % inputs * 8,
            slot: i,
        })
        .collect()
}
