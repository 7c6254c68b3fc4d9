//! The barrier-AND packet, `hsa_barrier_and_packet_t`.

use super::PACKET_WORDS;
use super::header::{Header, Kind};
use crate::malformed::{Malformed, only};
use crate::pm4::{join, split};

/// Complete when all of up to five signals are zero. Signals are `amd_signal_t` handles, zero for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BarrierAnd {
    /// Barrier bit and fences.
    pub header: Header,
    /// dep_signal.
    pub dependencies: [u64; 5],
    /// completion_signal: decremented when it is complete.
    pub completion_signal: u64,
}

impl BarrierAnd {
    /// The packet. Its type is barrier-AND whatever the header says.
    pub fn words(&self) -> [u32; PACKET_WORDS] {
        let header = Header {
            kind: Kind::BarrierAnd,
            ..self.header
        };
        let [[a, b], [c, d], [e, f], [g, h], [i, j]] = self.dependencies.map(split);
        let [low, high] = split(self.completion_signal);
        [
            header.bits(),
            0,
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            i,
            j,
            0,
            0,
            low,
            high,
        ]
    }

    /// The packet in these words.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32; PACKET_WORDS]) -> Result<Self, Malformed> {
        let &[
            first,
            reserved,
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            i,
            j,
            r2,
            r3,
            low,
            high,
        ] = words;
        let header = Header::decode(first)?;
        if header.kind != Kind::BarrierAnd {
            return Err(Malformed::Opcode {
                opcode: first & 0xff,
            });
        }
        only(0, first, 0xffff)?;
        for (word, value) in [(1, reserved), (12, r2), (13, r3)] {
            only(word, value, 0)?;
        }
        Ok(Self {
            header,
            dependencies: [join(a, b), join(c, d), join(e, f), join(g, h), join(i, j)],
            completion_signal: join(low, high),
        })
    }
}

impl core::fmt::Display for BarrierAnd {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} dep_signal=", self.header)?;
        for (i, signal) in self.dependencies.iter().enumerate() {
            write!(f, "{}{signal:#x}", if i > 0 { "," } else { "" })?;
        }
        write!(f, " completion_signal={:#x}", self.completion_signal)
    }
}
