//! Words that are no packet.

/// Why words are no packet that this driver knows in full. A packet either means something or is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Malformed {
    /// The header is none: another type than 4 and 7, or bits without a meaning.
    Header {
        /// The first word.
        word: u32,
    },
    /// A parity bit of the header is wrong. The command processor stops at such a word.
    Parity {
        /// The first word.
        word: u32,
    },
    /// No packet of this driver has the opcode.
    Opcode {
        /// The opcode.
        opcode: u32,
    },
    /// The packet has another length than it asks for.
    Length {
        /// Words that it asks for, the header included.
        need: usize,
        /// Words that the header announces.
        have: usize,
    },
    /// The words end before the packet does.
    Truncated {
        /// Words of the packet.
        need: usize,
        /// Words left.
        have: usize,
    },
    /// Bits without a meaning are set, or a field holds a value without one.
    Reserved {
        /// Index of the word in the packet.
        word: usize,
        /// The word.
        value: u32,
    },
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Header { word } => write!(f, "{word:#010x} is no packet header"),
            Self::Parity { word } => write!(f, "{word:#010x} has a wrong parity bit"),
            Self::Opcode { opcode } => write!(f, "no packet has the opcode {opcode:#x}"),
            Self::Length { need, have } => write!(f, "the packet takes {need} words, not {have}"),
            Self::Truncated { need, have } => {
                write!(f, "a packet of {need} words ends after {have}")
            }
            Self::Reserved { word, value } => {
                write!(
                    f,
                    "word {word} holds reserved bits or values: {value:#010x}"
                )
            }
        }
    }
}

impl core::error::Error for Malformed {}

/// `Ok` when `word` has no bits but those of `mask`.
pub(crate) const fn only(index: usize, word: u32, mask: u32) -> Result<(), Malformed> {
    if word & !mask == 0 {
        Ok(())
    } else {
        Err(Malformed::Reserved {
            word: index,
            value: word,
        })
    }
}
