//! Words that mean nothing.

/// Why words are no command that this driver knows in full. A command either means something or is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Malformed {
    /// The word is no method header: its SEC_OP is none that is in use.
    Header {
        /// The word.
        word: u32,
    },
    /// The words end before the command does.
    Truncated {
        /// Words needed.
        need: usize,
        /// Words left.
        have: usize,
    },
    /// Bits without a meaning are set, or a field holds a value without one.
    Reserved {
        /// Index of the word in the command.
        word: usize,
        /// The word.
        value: u32,
    },
    /// A GP entry of length zero: a control entry.
    ControlEntry {
        /// Its opcode.
        opcode: u8,
    },
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Header { word } => write!(f, "{word:#010x} is no method header"),
            Self::Truncated { need, have } => {
                write!(f, "a command of {need} words ends after {have}")
            }
            Self::Reserved { word, value } => {
                write!(
                    f,
                    "word {word} holds reserved bits or values: {value:#010x}"
                )
            }
            Self::ControlEntry { opcode } => {
                write!(
                    f,
                    "an entry of length zero is a control entry; opcode {opcode}"
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
