//! Headers of packets: type, length, opcode or register, and their parity bits.

use crate::malformed::Malformed;

/// Registers that one packet of type 4 writes at most: a count of 7 bits.
pub const MAX_REGISTERS: u32 = 0x7f;
/// Body words of a packet of type 7 at most: a count of 14 bits.
pub const MAX_BODY: u32 = 0x3fff;
/// Register numbers have 18 bits.
pub(crate) const REGISTER: u32 = 0x3_ffff;
const OPCODE: u32 = 0x7f;

/// The bit that makes the number of ones odd.
const fn odd_parity(v: u32) -> u32 {
    !v.count_ones() & 1
}

/// A type 4 header; the caller has checked that count and register fit.
pub(crate) const fn type4(register: u32, count: u32) -> u32 {
    4 << 28 | count | odd_parity(count) << 7 | register << 8 | odd_parity(register) << 27
}

/// A type 7 header; the caller has checked that the count fits.
pub(crate) const fn type7(opcode: u8, count: u32) -> u32 {
    let opcode = opcode as u32;
    7 << 28 | count | odd_parity(count) << 15 | opcode << 16 | odd_parity(opcode) << 23
}

/// The header of a command of `WORDS` words, itself included.
pub(crate) const fn command<const WORDS: usize>(opcode: u8) -> u32 {
    const { assert!(WORDS >= 1 && WORDS <= MAX_BODY as usize + 1) }
    type7(opcode, WORDS as u32 - 1)
}

/// What a packet's first word says.
///
/// ```
/// use hcq_qcom::pm4::{Header, op};
/// let header = Header::command(op::EVENT_WRITE, 4).ok_or("fits")?;
/// assert_eq!(header.word(), 0x7046_0004);
/// assert_eq!(Header::parse(0x7046_0004)?, header);
/// assert!(Header::parse(0x7046_8004).is_err()); // parity
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Header {
    kind: Kind,
    count: u32,
}

/// Type 4 or type 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Kind {
    /// Type 4: writes registers from this number on.
    Registers(u32),
    /// Type 7: a command with this opcode.
    Command(u8),
}

impl Header {
    /// Type 4: writes `count` registers from `register` on. `None` if there are none or more than [`MAX_REGISTERS`], or a
    /// register's number has more than 18 bits.
    pub const fn registers(register: u32, count: u32) -> Option<Self> {
        if register > REGISTER || count == 0 || count > MAX_REGISTERS {
            return None;
        }
        let kind = Kind::Registers(register);
        Some(Self { kind, count })
    }

    /// Type 7: a command with a body of `count` words. `None` for more than [`MAX_BODY`] or an opcode of more than 7 bits.
    pub const fn command(opcode: u8, count: u32) -> Option<Self> {
        if opcode as u32 > OPCODE || count > MAX_BODY {
            return None;
        }
        let kind = Kind::Command(opcode);
        Some(Self { kind, count })
    }

    /// Type, and opcode or register.
    pub const fn kind(self) -> Kind {
        self.kind
    }

    /// Words behind it.
    pub const fn count(self) -> u32 {
        self.count
    }

    /// The word.
    pub const fn word(self) -> u32 {
        match self.kind {
            Kind::Registers(register) => type4(register, self.count),
            Kind::Command(opcode) => type7(opcode, self.count),
        }
    }

    /// What a word says.
    ///
    /// # Errors
    /// [`Malformed::Header`], [`Malformed::Parity`].
    pub const fn parse(word: u32) -> Result<Self, Malformed> {
        let header = match word >> 28 {
            4 => Self::registers(word >> 8 & REGISTER, word & MAX_REGISTERS),
            7 => Self::command((word >> 16 & OPCODE) as u8, word & MAX_BODY),
            _ => None,
        };
        let (Some(header), 4 | 7) = (header, word >> 28) else {
            return Err(Malformed::Header { word });
        };
        let (parity, unused) = match header.kind {
            Kind::Registers(_) => (1 << 7 | 1 << 27, 1 << 26),
            Kind::Command(_) => (1 << 15 | 1 << 23, 0xf << 24 | 1 << 14),
        };
        if word & unused != 0 {
            return Err(Malformed::Header { word });
        }
        if (word ^ header.word()) & parity != 0 {
            return Err(Malformed::Parity { word });
        }
        Ok(header)
    }
}

/// The words of the packet that starts here, if its opcode and length are these.
pub(crate) fn body<const WORDS: usize>(
    words: &[u32],
    wanted: u8,
) -> Result<&[u32; WORDS], Malformed> {
    let packet = any_body(words, wanted)?;
    let (need, have) = (WORDS, packet.len());
    if need != have {
        return Err(Malformed::Length { need, have });
    }
    packet.first_chunk().ok_or(Malformed::Length { need, have })
}

/// The words of the packet that starts here, header included, if its opcode is this.
pub(crate) fn any_body(words: &[u32], wanted: u8) -> Result<&[u32], Malformed> {
    let first = *words
        .first()
        .ok_or(Malformed::Truncated { need: 1, have: 0 })?;
    let header = Header::parse(first)?;
    match header.kind {
        Kind::Command(opcode) if opcode == wanted => {}
        Kind::Command(opcode) => {
            return Err(Malformed::Opcode {
                opcode: opcode.into(),
            });
        }
        Kind::Registers(_) => return Err(Malformed::Header { word: first }),
    }
    let need = header.count as usize + 1;
    words.get(..need).ok_or(Malformed::Truncated {
        need,
        have: words.len(),
    })
}
