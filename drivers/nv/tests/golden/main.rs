//! Golden data: every NVIDIA case, words, descriptors, patch sites and memory, in both directions.
//!
//! Where the reference's bytes carry a known fault the test says so ([`Known`]), puts what is right in their place, and
//! counts how often it did.

mod compute;
mod copy;
use hcq_golden as json;
use hcq_golden::lab;
mod objects;
mod programs;
mod submits;

use std::sync::atomic::{AtomicUsize, Ordering};

/// A queue whose patch list can be reached between commands, to declare derived variables.
pub(crate) trait Recording<'m>: hcq_nostd::queue::Queue {
    fn list(&mut self) -> &mut hcq_nostd::patch::PatchList<'m>;
}

/// Faults of the reference that golden bytes carry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known {
    /// Launch descriptors: sizes of constant banks in bytes, where the field counts 16 of them.
    BankSize,
    /// Launch descriptors: releases with 64-bit payloads that do not say so.
    Payload64,
    /// Shared memory on Blackwell: what the system reserves is counted twice.
    SharedTwice,
    /// Constant bank 0: sizes of group and grid, which compiled kernels read there, are never written.
    BankSizes,
    /// A launch behind a wait, a poll or a barrier may start while the one before it runs.
    Overlap,
}

static SEEN: [AtomicUsize; 5] = [const { AtomicUsize::new(0) }; 5];

impl Known {
    fn seen(self) {
        SEEN[self as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// A file, the cases that it is known to have, and what runs one.
type File = (&'static str, usize, fn(&json::Json));

const FILES: [File; 7] = [
    ("nv-ampere-compute", 46, compute::run),
    ("nv-ada-compute", 47, compute::run),
    ("nv-blackwell-compute", 46, compute::run),
    ("nv-copy", 32, copy::run),
    ("nv-local-mem", 18, programs::local_memory),
    ("nv-programs", 21, programs::run),
    ("mesa-programs", 9, compute::run),
];

#[test]
fn golden() {
    let (mut done, mut all) = (0, 0);
    for (file, count, run) in FILES {
        let cases = json::cases(file);
        // Mesa's file has Adreno programs, too.
        let cases = cases
            .iter()
            .filter(|case| file != "mesa-programs" || json::name(case).contains("_nak_"));
        let cases: Vec<_> = cases.collect();
        assert_eq!(cases.len(), count, "{file}: cases");
        all += cases.len();
        for case in &cases {
            run(case);
            done += 1;
        }
        println!("{file}: {} cases", cases.len());
    }
    println!("golden nv: {done} of {all} cases");
    for (known, seen) in [
        Known::BankSize,
        Known::Payload64,
        Known::SharedTwice,
        Known::BankSizes,
        Known::Overlap,
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
