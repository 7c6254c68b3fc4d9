//! Golden data: every AMD case, words, patch sites and memory, in both directions.
//!
//! Where the reference's bytes carry a known fault the test says so ([`Known`]), puts what is right in their place, and
//! counts how often it did.

mod amd;
mod aql;
use hcq_golden as json;
use hcq_golden::lab;
mod objects;
mod pm4;
mod scratch;
mod sdma;

use std::sync::atomic::{AtomicUsize, Ordering};

/// A queue whose patch list can be reached between commands, to declare derived variables.
pub(crate) trait Recording<'m>: hcq_nostd::queue::Queue {
    fn list(&mut self) -> &mut hcq_nostd::patch::PatchList<'m>;
}

/// Faults of the reference that golden bytes carry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known {
    /// ACQUIRE_MEM: 32 bits in the high size word, where the field has 8.
    AcquireSize,
    /// ACQUIRE_MEM: a bounded range in bytes, where base and size count 256.
    AcquireRange,
    /// HDP flush: waits for the bits of all engines.
    HdpFlush,
    /// The private segment's descriptor: one constant for every generation.
    PrivateSegment,
    /// A dispatch packet for kernels to read: header and setup are never written.
    PacketSetup,
    /// SDMA: a submit longer than the ring is noticed when the ring is full.
    RingOverrun,
}

static SEEN: [AtomicUsize; 6] = [const { AtomicUsize::new(0) }; 6];

impl Known {
    fn seen(self) {
        SEEN[self as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// A file, the cases that it is known to have, and what runs one.
type File = (&'static str, usize, fn(&json::Json));

const FILES: [File; 12] = [
    ("amd-aql-queue-descriptor", 10, scratch::descriptor),
    ("amd-gfx1100-aql", 15, aql::run),
    ("amd-gfx1201-aql", 15, aql::run),
    ("amd-gfx942-aql", 30, aql::run),
    ("amd-gfx950-aql", 15, aql::run),
    ("amd-scratch", 63, scratch::run),
    ("amd-gfx1100-pm4", 52, pm4::run),
    ("amd-gfx1151-pm4", 6, pm4::run),
    ("amd-gfx1201-pm4", 52, pm4::run),
    ("amd-gfx942-pm4", 100, pm4::run),
    ("amd-gfx950-pm4", 100, pm4::run),
    ("amd-sdma", 146, sdma::run),
];

#[test]
fn golden() {
    let (mut done, mut all) = (0, 0);
    for (file, count, run) in FILES {
        let cases = json::cases(file);
        assert_eq!(cases.len(), count, "{file}: cases");
        all += cases.len();
        for case in &cases {
            run(case);
            done += 1;
        }
        println!("{file}: {} cases", cases.len());
    }
    println!("golden amd: {done} of {all} cases");
    for (known, seen) in [
        Known::AcquireSize,
        Known::AcquireRange,
        Known::HdpFlush,
        Known::PrivateSegment,
        Known::PacketSetup,
        Known::RingOverrun,
    ]
    .iter()
    .zip(&SEEN)
    {
        let seen = seen.load(Ordering::Relaxed);
        println!("known fault {known:?}: {seen} times");
        assert!(seen > 0, "{known:?} is in no case");
    }
    assert_eq!(done, all);
}
