//! Words as text: one line per run of methods, with the vendor's names.
//!
//! ```
//! use hcq_nv::dump::Dump;
//!
//! let words = [0x2001_20ad, 0x8123_4502, 0x2001_20b0, 9, 0x2001_001e, 0, 0xe000_0000];
//! assert_eq!(Dump::new(&words).to_string(), "\
//! 0x0000: SEND_PCAS_A QMD_ADDRESS=0x8123450200
//! 0x0002: SEND_SIGNALING_PCAS2_B PCAS_ACTION=PREFETCH_SCHEDULE
//! 0x0004: WFI
//! 0x0006: ?? 0xe0000000: 0xe0000000 is no method header
//! ");
//! ```
//!
//! Launch descriptors are not among the words: [`Fields`](crate::qmd::Fields) reads them.

use crate::method::Run;
use crate::packet::Packet;

/// Words of a pushbuffer as text. Words that are no run have a line that starts with `??`, and what is behind them is read
/// on.
#[derive(Clone, Copy, Debug)]
pub struct Dump<'w> {
    words: &'w [u32],
}

impl<'w> Dump<'w> {
    /// These words.
    pub const fn new(words: &'w [u32]) -> Self {
        Self { words }
    }
}

impl core::fmt::Display for Dump<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut at = 0usize;
        while let Some(rest @ [first, ..]) = self.words.get(at..) {
            write!(f, "{at:#06x}: ")?;
            let len = match Packet::decode(rest) {
                Ok((packet, len)) => {
                    writeln!(f, "{packet}")?;
                    len
                }
                Err(e) => {
                    writeln!(f, "?? {first:#010x}: {e}")?;
                    // A run that is not known in full has a length all the same.
                    Run::decode(rest).map_or(1, |run| run.len())
                }
            };
            at = at.saturating_add(len);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
