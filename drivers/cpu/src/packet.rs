//! Command packets: 64 bytes each, sixteen little-endian 32-bit words.
//!
//! Word 0 is the header: the opcode in bits 7:0 and flags in bits 15:8. Words that a packet does not use are zero, and
//! are checked to be: a packet either means something in full or is refused.
//!
//! | packet | opcode | flags | words |
//! |---|---|---|---|
//! | EXEC | 1 | | 1 bytes of group-local memory; 2-3 kernel; 4-5 argument block; 6-8 groups x, y, z; 9-11 local size x, y, z; 12 bytes of the argument block |
//! | COPY | 2 | | 2-3 destination; 4-5 source; 6-7 bytes |
//! | WRITE | 3 | 0: 64 bits | 2-3 address; 4-5 value |
//! | SIGNAL | 4 | 0: notify | 2-3 signal; 4-5 value |
//! | WAIT | 5 | | 2-3 signal; 4-5 value |
//! | POLL | 6 | | 1 mask; 2-3 address; 4 expected |
//! | TIMESTAMP | 7 | | 2-3 signal |
//! | BARRIER | 8 | | |
//! | INDIRECT | 9 | | 2-3 address of packets; 4 number of packets |
//! | NOP | 10 | | |
//!
//! Addresses are device addresses. Zeroed memory is no packet.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::PACKET_WORDS;

pub(crate) mod op {
    pub(crate) const EXEC: u32 = 1;
    pub(crate) const COPY: u32 = 2;
    pub(crate) const WRITE: u32 = 3;
    pub(crate) const SIGNAL: u32 = 4;
    pub(crate) const WAIT: u32 = 5;
    pub(crate) const POLL: u32 = 6;
    pub(crate) const TIMESTAMP: u32 = 7;
    pub(crate) const BARRIER: u32 = 8;
    pub(crate) const INDIRECT: u32 = 9;
    pub(crate) const NOP: u32 = 10;
    /// In WRITE: 64 bits. In SIGNAL: notify.
    pub(crate) const FLAG: u32 = 1 << 8;
}

/// Word indices of packet fields, for encoders and patch sites.
pub(crate) mod word {
    pub(crate) const FIRST: usize = 2;
    pub(crate) const SECOND: usize = 4;
    pub(crate) const ARGS: usize = 4;
    pub(crate) const THIRD: usize = 6;
    pub(crate) const GROUPS: usize = 6;
    pub(crate) const LOCAL: usize = 9;
    pub(crate) const COUNT: usize = 4;
}

/// The words of a packet as the engine reads them.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Raw {
    header: u32,
    extra: u32,
    first: u64,
    second: u64,
    tail: [u32; 10],
}

const _: () = assert!(size_of::<Raw>() == crate::PACKET_BYTES);

impl Raw {
    pub(crate) fn header(&self) -> u32 {
        self.header
    }
}

/// A launch. In the order of the packet's words, so that decoding it is one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(C)]
pub struct Exec {
    /// The kernel's address.
    pub kernel: u64,
    /// Address of the argument block.
    pub args: u64,
    /// Work-groups, x, y, z.
    pub groups: [u32; 3],
    /// Work-items per group, x, y, z.
    pub local: [u32; 3],
    /// Length of the argument block in bytes.
    pub args_size: u32,
    /// Bytes of group-local memory.
    pub local_memory: u32,
}

/// A packet's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Packet {
    /// Run a kernel once per work-group.
    Exec(Exec),
    /// Copy bytes between ranges that do not overlap.
    Copy {
        /// Destination address.
        destination: u64,
        /// Source address.
        source: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Store the low 32 bits of a value.
    Write32 {
        /// Where, at a 4-byte boundary.
        address: u64,
        /// What.
        value: u32,
    },
    /// Store a 64-bit value.
    Write64 {
        /// Where, at an 8-byte boundary.
        address: u64,
        /// What.
        value: u64,
    },
    /// Store a signal's value.
    Signal {
        /// The signal.
        address: u64,
        /// Its new value.
        value: u64,
        /// Wake those who sleep on it.
        notify: bool,
    },
    /// Hold the queue until a signal's value is at least this, unsigned.
    Wait {
        /// The signal.
        address: u64,
        /// The value.
        value: u64,
    },
    /// Hold the queue until `word & mask == expect`.
    Poll {
        /// The word, at a 4-byte boundary.
        address: u64,
        /// The mask.
        mask: u32,
        /// The value.
        expect: u32,
    },
    /// Store the clock in nanoseconds to a signal's timestamp.
    Timestamp {
        /// The signal.
        address: u64,
    },
    /// Order memory between this queue and everybody else.
    Barrier,
    /// Run packets that are somewhere else; they contain no such packet themselves.
    Indirect {
        /// Where, at a 64-byte boundary.
        address: u64,
        /// How many.
        count: u32,
    },
    /// Nothing.
    Nop,
}

/// Words that are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Malformed {
    /// No such opcode.
    Opcode {
        /// The header.
        header: u32,
    },
    /// Flags that the opcode does not have, or bits 31:16.
    Flags {
        /// The header.
        header: u32,
    },
    /// A word that the packet does not use is not zero.
    Reserved {
        /// Index of the word.
        word: usize,
        /// Its value.
        value: u32,
    },
    /// A 32-bit operand in a 64-bit place has high bits.
    Operand {
        /// The value.
        value: u64,
    },
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Opcode { header } => write!(f, "no packet has the header {header:#x}"),
            Self::Flags { header } => write!(f, "unknown flags in the header {header:#x}"),
            Self::Reserved { word, value } => {
                write!(f, "word {word} is reserved and holds {value:#x}")
            }
            Self::Operand { value } => write!(f, "operand {value:#x} exceeds 32 bits"),
        }
    }
}

impl core::error::Error for Malformed {}

impl Exec {
    /// The launch, if these words are one.
    #[inline]
    pub(crate) fn from_raw(raw: &Raw) -> Option<Self> {
        let [gx, gy, gz, lx, ly, lz, args_size, a, b, c] = raw.tail;
        if raw.header != op::EXEC || a | b | c != 0 {
            return None;
        }
        Some(Self {
            kernel: raw.first,
            args: raw.second,
            args_size,
            groups: [gx, gy, gz],
            local: [lx, ly, lz],
            local_memory: raw.extra,
        })
    }
}

impl Packet {
    /// The words.
    ///
    /// ```
    /// use hcq_cpu::packet::Packet;
    /// let words = Packet::Wait { address: 0x1_0000_0010, value: 5 }.encode();
    /// assert_eq!(words[..6], [5, 0, 0x10, 1, 5, 0]);
    /// assert_eq!(Packet::decode(&words), Ok(Packet::Wait { address: 0x1_0000_0010, value: 5 }));
    /// ```
    pub fn encode(&self) -> [u32; PACKET_WORDS] {
        let none = Raw {
            header: 0,
            extra: 0,
            first: 0,
            second: 0,
            tail: [0; 10],
        };
        let raw = match *self {
            Self::Exec(e) => {
                let ([gx, gy, gz], [lx, ly, lz]) = (e.groups, e.local);
                Raw {
                    header: op::EXEC,
                    extra: e.local_memory,
                    first: e.kernel,
                    second: e.args,
                    tail: [gx, gy, gz, lx, ly, lz, e.args_size, 0, 0, 0],
                }
            }
            Self::Copy {
                destination,
                source,
                bytes,
            } => {
                let [low, high]: [u32; 2] = zerocopy::transmute!(bytes);
                let tail = [low, high, 0, 0, 0, 0, 0, 0, 0, 0];
                Raw {
                    header: op::COPY,
                    first: destination,
                    second: source,
                    tail,
                    ..none
                }
            }
            Self::Write32 { address, value } => Raw {
                header: op::WRITE,
                first: address,
                second: value.into(),
                ..none
            },
            Self::Write64 { address, value } => Raw {
                header: op::WRITE | op::FLAG,
                first: address,
                second: value,
                ..none
            },
            Self::Signal {
                address,
                value,
                notify,
            } => {
                let header = if notify {
                    op::SIGNAL | op::FLAG
                } else {
                    op::SIGNAL
                };
                Raw {
                    header,
                    first: address,
                    second: value,
                    ..none
                }
            }
            Self::Wait { address, value } => Raw {
                header: op::WAIT,
                first: address,
                second: value,
                ..none
            },
            Self::Poll {
                address,
                mask,
                expect,
            } => Raw {
                header: op::POLL,
                extra: mask,
                first: address,
                second: expect.into(),
                ..none
            },
            Self::Timestamp { address } => Raw {
                header: op::TIMESTAMP,
                first: address,
                ..none
            },
            Self::Barrier => Raw {
                header: op::BARRIER,
                ..none
            },
            Self::Indirect { address, count } => Raw {
                header: op::INDIRECT,
                first: address,
                second: count.into(),
                ..none
            },
            Self::Nop => Raw {
                header: op::NOP,
                ..none
            },
        };
        zerocopy::transmute!(raw)
    }

    /// The meaning of words.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32; PACKET_WORDS]) -> Result<Self, Malformed> {
        Self::from_raw(&zerocopy::transmute!(*words))
    }

    pub(crate) fn from_raw(raw: &Raw) -> Result<Self, Malformed> {
        if let Some(exec) = Exec::from_raw(raw) {
            return Ok(Self::Exec(exec));
        }
        let header = raw.header;
        let opcode = header & 0xff;
        let flag = header & op::FLAG != 0;
        if header & !(0xff | op::FLAG) != 0 || (flag && opcode != op::WRITE && opcode != op::SIGNAL)
        {
            return Err(match opcode {
                op::EXEC..=op::NOP => Malformed::Flags { header },
                _ => Malformed::Opcode { header },
            });
        }
        let narrow = |v: u64| u32::try_from(v).map_err(|_| Malformed::Operand { value: v });
        // The number of words in use, and whether word 1 is.
        let (packet, used, extra) = match opcode {
            op::EXEC => return Err(reserved(raw, 13, true)),
            op::COPY => {
                let [low, high, ..] = raw.tail;
                let bytes = u64::from(high) << 32 | u64::from(low);
                (
                    Self::Copy {
                        destination: raw.first,
                        source: raw.second,
                        bytes,
                    },
                    8,
                    false,
                )
            }
            op::WRITE if flag => (
                Self::Write64 {
                    address: raw.first,
                    value: raw.second,
                },
                6,
                false,
            ),
            op::WRITE => (
                Self::Write32 {
                    address: raw.first,
                    value: narrow(raw.second)?,
                },
                6,
                false,
            ),
            op::SIGNAL => (
                Self::Signal {
                    address: raw.first,
                    value: raw.second,
                    notify: flag,
                },
                6,
                false,
            ),
            op::WAIT => (
                Self::Wait {
                    address: raw.first,
                    value: raw.second,
                },
                6,
                false,
            ),
            op::POLL => (
                Self::Poll {
                    address: raw.first,
                    mask: raw.extra,
                    expect: narrow(raw.second)?,
                },
                6,
                true,
            ),
            op::TIMESTAMP => (Self::Timestamp { address: raw.first }, 4, false),
            op::BARRIER => (Self::Barrier, 1, false),
            op::INDIRECT => (
                Self::Indirect {
                    address: raw.first,
                    count: narrow(raw.second)?,
                },
                6,
                false,
            ),
            op::NOP => (Self::Nop, 1, false),
            _ => return Err(Malformed::Opcode { header }),
        };
        let words: [u32; PACKET_WORDS] = zerocopy::transmute!(*raw);
        let rest = words.get(used..).unwrap_or_default();
        let unused = if used > 1 && !extra { raw.extra } else { 0 };
        if unused != 0 || rest.iter().fold(0, |all, w| all | w) != 0 {
            return Err(reserved(raw, used, extra));
        }
        Ok(packet)
    }
}

/// The first word that should be zero and is not.
#[cold]
fn reserved(raw: &Raw, used: usize, extra: bool) -> Malformed {
    let words: [u32; PACKET_WORDS] = zerocopy::transmute!(*raw);
    let is_reserved = |i: usize| i >= used || (i == 1 && !extra);
    let found = words
        .iter()
        .enumerate()
        .find(|&(i, w)| is_reserved(i) && *w != 0);
    let (word, value) = found.map_or((0, 0), |(i, w)| (i, *w));
    Malformed::Reserved { word, value }
}

impl core::fmt::Display for Packet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Exec(e) => {
                let ([gx, gy, gz], [lx, ly, lz]) = (e.groups, e.local);
                write!(
                    f,
                    "EXEC kernel={:#x} args={:#x}+{} groups={gx}x{gy}x{gz}",
                    e.kernel, e.args, e.args_size
                )?;
                write!(f, " local={lx}x{ly}x{lz} local_memory={}", e.local_memory)
            }
            Self::Copy {
                destination,
                source,
                bytes,
            } => {
                write!(
                    f,
                    "COPY destination={destination:#x} source={source:#x} bytes={bytes:#x}"
                )
            }
            Self::Write32 { address, value } => {
                write!(f, "WRITE32 address={address:#x} value={value:#x}")
            }
            Self::Write64 { address, value } => {
                write!(f, "WRITE64 address={address:#x} value={value:#x}")
            }
            Self::Signal {
                address,
                value,
                notify,
            } => {
                let notify = if notify { " notify" } else { "" };
                write!(f, "SIGNAL address={address:#x} value={value}{notify}")
            }
            Self::Wait { address, value } => write!(f, "WAIT address={address:#x} value>={value}"),
            Self::Poll {
                address,
                mask,
                expect,
            } => {
                write!(
                    f,
                    "POLL address={address:#x} mask={mask:#x} expect={expect:#x}"
                )
            }
            Self::Timestamp { address } => write!(f, "TIMESTAMP signal={address:#x}"),
            Self::Barrier => f.write_str("BARRIER"),
            Self::Indirect { address, count } => {
                write!(f, "INDIRECT address={address:#x} packets={count}")
            }
            Self::Nop => f.write_str("NOP"),
        }
    }
}

#[cfg(test)]
mod tests;
