//! A patch table with the sites of a graph: two pointers for each of N kernels, in argument blocks of 32 bytes.

use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, Formula, PatchList, PatchTable, Patcher, RegionId, Site};
use hcq_nostd::ring::Ring;
use hcq_nostd::value::Var;

use crate::baseline;

/// Bytes between argument blocks.
const BLOCK: u32 = 32;

/// The sites of `kernels` kernels with two pointers each, to two inputs that all share, or to an input each.
pub fn sites(kernels: u32, shared: bool) -> Vec<baseline::Site> {
    sites_every(kernels, shared, BLOCK)
}

/// The same with this many bytes between argument blocks.
pub fn sites_every(kernels: u32, shared: bool, block: u32) -> Vec<baseline::Site> {
    (0..2 * kernels)
        .map(|i| baseline::Site {
            offset: i / 2 * block + i % 2 * 8,
            slot: if shared { i % 2 } else { i },
        })
        .collect()
}

/// `n` sites of one variable and one site of another.
pub fn one_of(n: u32) -> Vec<baseline::Site> {
    (0..=n)
        .map(|i| baseline::Site {
            offset: i * 8,
            slot: u32::from(i == n),
        })
        .collect()
}

/// Builds the table. Returns its words.
pub fn table(sites: &[baseline::Site], memory_bytes: u64) -> Vec<u64> {
    let mut room = vec![Site::EMPTY; sites.len()];
    let mut derived = [Derived::EMPTY; 0];
    let mut list = PatchList::new(&mut room, &mut derived);
    let inputs = sites.iter().map(|s| s.slot + 1).max().unwrap_or(0);
    let vars: Vec<Var> = (0..inputs)
        .map(|_| list.var().expect("few variables"))
        .collect();
    for s in sites {
        list.site(
            RegionId(0),
            s.offset,
            &Formula::whole(vars[s.slot as usize]),
        );
    }
    let words = list.table_words(&[memory_bytes]).expect("sound sites");
    let mut out = vec![0; words];
    list.build(&[memory_bytes], &mut out).expect("enough room");
    out
}

/// Everything that a launch of a graph touches: table, state, argument blocks, a ring, a doorbell.
pub struct Launch<'m> {
    patcher: Patcher<'m>,
    regions: [Region<'m>; 1],
    ring: Ring<'m>,
    /// What goes into the ring by turns: words that were stored just before would stall their own copying.
    words: [[u32; 4]; 2],
    turn: bool,
    doorbell: &'m mut u64,
}

impl<'m> Launch<'m> {
    /// Over memory that the caller made: see [`PatchTable::state_words`].
    pub fn new(
        table: &'m [u64],
        state: &'m mut [u64],
        memory: &'m mut [u64],
        ring: &'m mut [u64],
        doorbell: &'m mut u64,
    ) -> Self {
        // SAFETY: any bytes are bytes.
        let bytes =
            unsafe { core::slice::from_raw_parts(table.as_ptr().cast::<u8>(), size_of_val(table)) };
        let table = PatchTable::parse(bytes).expect("a table");
        Self {
            patcher: Patcher::new(table, state).expect("enough state"),
            regions: [Region::from_words(memory, 0x1_0000)],
            ring: Ring::new(Region::from_words(ring, 0), 4).expect("a ring"),
            words: [[1, 2, 3, 4], [5, 6, 7, 8]],
            turn: false,
            doorbell,
        }
    }

    /// Gives all inputs, patches what changed, writes four words to the ring, rings the doorbell.
    #[inline(never)]
    pub fn launch(&mut self, inputs: &[u64]) -> usize {
        self.patcher
            .set_all(Var::new(0), inputs)
            .expect("variables of the table");
        self.submit()
    }

    /// The same with one input changed.
    #[inline(never)]
    pub fn launch_one(&mut self, var: u32, value: u64) -> usize {
        self.patcher
            .set(Var::new(var), value)
            .expect("a variable of the table");
        self.submit()
    }

    #[inline]
    fn submit(&mut self) -> usize {
        let stored = self.patcher.apply(&mut self.regions).expect("resolved");
        let put = self.ring.put();
        self.ring
            .consumed(put)
            .expect("a device that is always done");
        self.turn = !self.turn;
        let words = &self.words[usize::from(self.turn)];
        let doorbell = &mut *self.doorbell;
        let pushed = self.ring.push(4, words, &mut |put| {
            // SAFETY: an exclusive reference; volatile, as a doorbell is.
            unsafe { core::ptr::from_mut(doorbell).write_volatile(put) };
        });
        pushed.expect("an empty ring");
        stored
    }
}
