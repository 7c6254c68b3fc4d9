//! Words as text: one line per packet, with the vendor's names.
//!
//! ```
//! use hcq_amd::chips::Chip;
//! use hcq_amd::dump::{Dump, Stream};
//!
//! let chip = Chip::named("gfx1100").ok_or("a chip of the table")?;
//! let words = [0xc000_4600, 0x0000_0407, 0xc001_7600, 0x0000_0218, 0x0002_0200, 0x1234_5678];
//! assert_eq!(Dump::new(Stream::Pm4(chip), &words).to_string(), "\
//! 0x0000: EVENT_WRITE EVENT_TYPE=CS_PARTIAL_FLUSH EVENT_INDEX=4
//! 0x0002: SET_SH_REG COMPUTE_TMPRING_SIZE(0x2e18) = 0x20200
//! 0x0005: ?? 0x12345678: 0x12345678 is no packet header
//! ");
//! # Ok::<(), &str>(())
//! ```

use crate::aql::{self, PACKET_WORDS};
use crate::chips::Chip;
use crate::malformed::Malformed;
use crate::pm4::{self, parse_header};
use crate::sdma;

/// What words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// PM4 packets, with the names of a chip.
    Pm4(&'static Chip),
    /// AQL packets.
    Aql,
    /// SDMA packets of an engine's version.
    Sdma(sdma::Version),
}

/// Words as text. Words that are no packet have a line that starts with `??`, and what is behind them is read on.
#[derive(Clone, Copy, Debug)]
pub struct Dump<'w> {
    stream: Stream,
    words: &'w [u32],
}

impl<'w> Dump<'w> {
    /// These words.
    pub const fn new(stream: Stream, words: &'w [u32]) -> Self {
        Self { stream, words }
    }
}

/// Writes what starts `rest`, and returns its number of words, at least 1.
fn packet(
    stream: Stream,
    rest: &[u32],
    f: &mut core::fmt::Formatter<'_>,
) -> Result<usize, core::fmt::Error> {
    let malformed = |e: Malformed, skip: usize, f: &mut core::fmt::Formatter<'_>| {
        let first = rest.first().copied().unwrap_or_default();
        write!(f, "?? {first:#010x}: {e}").map(|()| skip.max(1))
    };
    match stream {
        Stream::Pm4(chip) => match pm4::Packet::decode(rest) {
            Ok((packet, len)) => write!(f, "{}", packet.text(chip)).map(|()| len),
            Err(e) => {
                // A packet that is not known has a length all the same.
                let header = rest.first().and_then(|w| parse_header(*w).ok());
                malformed(e, header.map_or(1, |(_, len)| len), f)
            }
        },
        Stream::Sdma(version) => match sdma::Packet::decode(rest, version) {
            Ok((packet, len)) => write!(f, "{packet}").map(|()| len),
            Err(e) => malformed(e, 1, f),
        },
        Stream::Aql => match rest.first_chunk::<PACKET_WORDS>() {
            Some(words) => match aql::Packet::decode(words) {
                Ok(packet) => write!(f, "{packet}").map(|()| PACKET_WORDS),
                Err(e) => malformed(e, PACKET_WORDS, f),
            },
            None => {
                let (need, have) = (PACKET_WORDS, rest.len());
                malformed(Malformed::Truncated { need, have }, have, f)
            }
        },
    }
}

impl core::fmt::Display for Dump<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut at = 0usize;
        while let Some(rest @ [_, ..]) = self.words.get(at..) {
            write!(f, "{at:#06x}: ")?;
            at = at.saturating_add(packet(self.stream, rest, f)?);
            f.write_str("\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
