//! Words as text: one line per packet, with freedreno's names of packets, registers and fields.
//!
//! ```
//! use hcq_qcom::chips::Generation;
//! use hcq_qcom::dump::Dump;
//!
//! let words = [0x7026_8000, 0x40ab_0001, 0x5, 0x7033_0004];
//! assert_eq!(Dump::new(Generation::A6xx, &words).to_string(), "\
//! 0x0000: CP_WAIT_FOR_IDLE
//! 0x0001: PKT4 SP_MODE_CONTROL(0xab00)=0x5{CONSTANT_DEMOTION_ENABLE=0x1 ISAMMODE=0x2}
//! 0x0003: ?? 0x70330004: 0x70330004 has a wrong parity bit
//! ");
//! ```

use crate::chips::Generation;
use crate::malformed::Malformed;
use crate::pm4::{Header, Packet};

/// Words as text. Words that are no packet have a line that starts with `??`, and what is behind them is read on. Names of
/// registers are those of A6xx: A7xx has the same registers at these numbers, or none (HLSQ_*).
#[derive(Clone, Copy, Debug)]
pub struct Dump<'w> {
    generation: Generation,
    words: &'w [u32],
}

impl<'w> Dump<'w> {
    /// These words.
    pub const fn new(generation: Generation, words: &'w [u32]) -> Self {
        Self { generation, words }
    }

    /// Packet by packet.
    pub const fn lines(&self) -> Lines<'w> {
        Lines {
            generation: self.generation,
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
    generation: Generation,
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
    content: Result<Packet<'w>, Malformed>,
}

impl Line<'_> {
    /// Why these words are no packet, if they are none.
    pub fn malformed(&self) -> Option<Malformed> {
        self.content.err()
    }
}

impl core::fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.content {
            Ok(p) => write!(f, "{p}"),
            Err(e) => {
                let first = self.words.first().copied().unwrap_or_default();
                write!(f, "?? {first:#010x}: {e}")
            }
        }
    }
}

impl<'w> Iterator for Lines<'w> {
    type Item = Line<'w>;

    fn next(&mut self) -> Option<Line<'w>> {
        let rest = self.words.get(self.at..).filter(|rest| !rest.is_empty())?;
        let (content, len) = match Packet::decode(rest, self.generation) {
            Ok((packet, len)) => (Ok(packet), len),
            Err(e) => {
                // A packet that is not known has a length all the same.
                let header = rest.first().and_then(|w| Header::parse(*w).ok());
                (Err(e), header.map_or(1, |h| h.count() as usize + 1))
            }
        };
        // A packet that is cut off ends with the words.
        let words = rest.get(..len).unwrap_or(rest);
        let at = self.at;
        self.at = at.saturating_add(words.len());
        Some(Line { at, words, content })
    }
}

#[cfg(test)]
mod tests;
