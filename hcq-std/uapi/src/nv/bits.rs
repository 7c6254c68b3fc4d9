//! Fields of flag words. The headers write them as `high:low`.

/// A field of a 32-bit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// The lowest bit.
    pub low: u8,
    /// The highest bit.
    pub high: u8,
}

/// A [`Bits`] and its C name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedBits {
    /// The C name.
    pub name: &'static str,
    /// The field.
    pub bits: Bits,
}

impl Bits {
    const fn mask(self) -> u32 {
        u32::MAX >> (31 - (self.high - self.low) as u32)
    }

    /// A value in its place. Bits that the field has no room for are cut off.
    #[must_use]
    pub const fn put(self, value: u32) -> u32 {
        (value & self.mask()) << self.low
    }

    /// What a word holds there.
    #[must_use]
    pub const fn get(self, word: u32) -> u32 {
        word >> self.low & self.mask()
    }
}

/// Fields of flag words, and `BITS` with all of them.
macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident = $high:literal : $low:literal;)*) => {
        $($(#[$doc])* pub const $name: super::Bits = super::Bits { low: $low, high: $high };)*

        pub(super) const BITS: &[super::NamedBits] = &[$(
            super::NamedBits { name: stringify!($name), bits: $name },
        )*];
    };
}

pub(super) use bits;
