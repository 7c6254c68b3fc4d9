//! Golden data: every Adreno case, words, patch sites and memory, in both directions; parsed containers and variants.
//!
//! Where the reference's bytes carry a known fault the test says so ([`Known`]), puts what is right in their place, and
//! counts how often it did.

use hcq_golden as json;
mod commands;
use hcq_golden::lab;
mod misc;
mod objects;

use std::sync::atomic::{AtomicUsize, Ordering};

/// A queue whose patch list can be reached between commands, to declare derived variables.
pub(crate) trait Recording<'m>: hcq_nostd::queue::Queue {
    fn list(&mut self) -> &mut hcq_nostd::patch::PatchList<'m>;
}

/// Faults of the reference that golden bytes carry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known {
    /// The constants' length is not scaled to its field's unit: it lands on the bit beside, and reads zero.
    ConstantLength,
    /// The hardware stack's offset is in bytes, where the field counts 2 KiB.
    StackOffset,
    /// Private memory is counted for the 2048 work-items of a shader processor of A630, also where there are more.
    Fibers,
    /// Only 16 textures are loaded.
    Textures,
    /// The low 32 bits of a larger value are written or compared.
    HighValue,
    /// A number of groups that is none is rounded.
    Fraction,
    /// The number of the constant that holds the work-group's size is given as that of a register, which is to be r48 or higher.
    SizeRegister,
}

static SEEN: [AtomicUsize; 7] = [const { AtomicUsize::new(0) }; 7];

impl Known {
    pub(crate) fn seen(self) {
        SEEN[self as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// A file, the cases of it that are Adreno's, and what runs one.
type File = (&'static str, usize, fn(&json::Json));

const FILES: [File; 5] = [
    ("qcom-a630", 31, commands::run),
    ("qcom-a650", 23, commands::run),
    ("qcom-a660", 23, commands::run),
    ("qcom-misc", 10, misc::run),
    ("mesa-programs", 3, objects::run),
];

#[test]
fn golden() {
    let (mut done, mut all) = (0, 0);
    for (file, count, run) in FILES {
        let cases: Vec<_> = json::cases(file)
            .into_iter()
            .filter(|c| file != "mesa-programs" || json::name(c).contains("_ir3_"))
            .collect();
        assert_eq!(cases.len(), count, "{file}: cases");
        all += cases.len();
        for case in &cases {
            run(case);
            done += 1;
        }
        println!("{file}: {} cases", cases.len());
    }
    println!("golden qcom: {done} of {all} cases");
    for (known, seen) in [
        Known::ConstantLength,
        Known::StackOffset,
        Known::Fibers,
        Known::Textures,
        Known::HighValue,
        Known::Fraction,
        Known::SizeRegister,
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
