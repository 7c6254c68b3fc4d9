//! The chips that can be simulated, as data.

/// The LLVM names of the chips.
pub fn names() -> impl Iterator<Item = &'static str> {
    ["gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"].into_iter()
}
