//! Programs that have stand-ins, by their machine code: a table for each vendor.

use super::Known;

mod amd;
mod nv;
mod qcom;

pub(super) fn known() -> impl Iterator<Item = Known> {
    amd::known().chain(nv::known()).chain(qcom::known())
}
