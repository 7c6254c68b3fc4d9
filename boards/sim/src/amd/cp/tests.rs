//! Packets here are written word by word from the vendors' documents.

mod aql;
mod fuzz;
mod golden;
mod illegal;
mod launches;
mod order;
mod packets;
mod support;
mod xccs;
