//! Adreno's.

use super::super::adreno::Needs;
use super::super::{Known, StandIn};

/// Symbol, bytes of code, hash of code, what a launch has to agree with, stand-in.
type Row = (&'static str, u32, u64, Needs, StandIn);

pub(super) fn known() -> impl Iterator<Item = Known> {
    TABLE.iter().flat_map(|&(target, rows)| {
        rows.iter()
            .map(move |&(symbol, code_bytes, code_hash, needs, run)| Known {
                target: target.into(),
                symbol: symbol.into(),
                code_bytes,
                code_hash,
                needs: super::super::Needs::Adreno(needs),
                run,
            })
    })
}

/// By chip: `a630`.
static TABLE: &[(&str, &[Row])] = &[];
