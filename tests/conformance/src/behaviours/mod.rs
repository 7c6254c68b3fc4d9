//! The behaviours, by theme.

pub mod arguments;
pub mod bound;
pub mod copies;
pub mod exec;
pub mod faults;
pub mod graphs;
pub mod images;
pub mod memory;
pub mod peers;
pub mod rings;
pub mod signals;
pub mod threads;
pub mod timeline;
pub mod timestamps;
pub mod transfers;
pub mod words;

use crate::Behaviour;

/// The lists of all themes, in the order in which they run: each builds on what the ones before have shown.
pub(crate) static THEMES: &[&[Behaviour]] = &[
    signals::LIST,
    memory::LIST,
    words::LIST,
    copies::LIST,
    transfers::LIST,
    exec::LIST,
    arguments::LIST,
    bound::LIST,
    timestamps::LIST,
    timeline::LIST,
    graphs::LIST,
    images::LIST,
    rings::LIST,
    threads::LIST,
    peers::LIST,
    faults::LIST,
];
