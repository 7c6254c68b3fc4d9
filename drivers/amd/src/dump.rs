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

    /// Packet by packet.
    pub const fn lines(&self) -> Lines<'w> {
        Lines {
            stream: self.stream,
            words: self.words,
            at: 0,
        }
    }
}

impl core::fmt::Display for Dump<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for line in self.lines() {
            writeln!(f, "{:#06x}: {line}", line.at)?;
        }
        Ok(())
    }
}

/// The lines of a [`Dump`]: every word is in exactly one.
#[derive(Clone, Debug)]
pub struct Lines<'w> {
    stream: Stream,
    words: &'w [u32],
    at: usize,
}

/// A packet, or words that are none. Its text is the packet's, without its place.
#[derive(Clone, Copy, Debug)]
pub struct Line<'w> {
    /// Its place: words before it.
    pub at: usize,
    /// Its words, at least one.
    pub words: &'w [u32],
    content: Content<'w>,
}

#[derive(Clone, Copy, Debug)]
enum Content<'w> {
    Pm4(pm4::PacketText<'w>),
    Aql(aql::Packet),
    Sdma(sdma::Packet),
    Malformed(Malformed),
}

impl Line<'_> {
    /// Why these words are no packet, if they are none.
    pub const fn malformed(&self) -> Option<Malformed> {
        match self.content {
            Content::Malformed(e) => Some(e),
            _ => None,
        }
    }
}

impl core::fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.content {
            Content::Pm4(p) => write!(f, "{p}"),
            Content::Aql(p) => write!(f, "{p}"),
            Content::Sdma(p) => write!(f, "{p}"),
            Content::Malformed(e) => {
                let first = self.words.first().copied().unwrap_or_default();
                write!(f, "?? {first:#010x}: {e}")
            }
        }
    }
}

/// What starts `rest`, and its number of words.
fn packet(stream: Stream, rest: &[u32]) -> (Content<'_>, usize) {
    match stream {
        Stream::Pm4(chip) => match pm4::Packet::decode(rest) {
            Ok((packet, len)) => (Content::Pm4(packet.text(chip)), len),
            Err(e) => {
                // A packet that is not known has a length all the same.
                let header = rest.first().and_then(|w| parse_header(*w).ok());
                (Content::Malformed(e), header.map_or(1, |(_, len)| len))
            }
        },
        Stream::Sdma(version) => match sdma::Packet::decode(rest, version) {
            Ok((packet, len)) => (Content::Sdma(packet), len),
            Err(e) => (Content::Malformed(e), 1),
        },
        Stream::Aql => match rest.first_chunk::<PACKET_WORDS>() {
            Some(words) => {
                let packet = aql::Packet::decode(words);
                (
                    packet.map_or_else(Content::Malformed, Content::Aql),
                    PACKET_WORDS,
                )
            }
            None => {
                let (need, have) = (PACKET_WORDS, rest.len());
                (
                    Content::Malformed(Malformed::Truncated { need, have }),
                    have,
                )
            }
        },
    }
}

impl<'w> Iterator for Lines<'w> {
    type Item = Line<'w>;

    fn next(&mut self) -> Option<Line<'w>> {
        let rest = self.words.get(self.at..).filter(|rest| !rest.is_empty())?;
        let (content, len) = packet(self.stream, rest);
        // A packet that is cut off ends with the words; none is empty.
        let words = rest.get(..len.max(1)).unwrap_or(rest);
        let at = self.at;
        self.at = at.saturating_add(words.len());
        Some(Line { at, words, content })
    }
}

#[cfg(test)]
mod tests;
