//! What the words of a copy engine's packets mean.
//!
//! Fields are those of `vega10_sdma_pkt_open.h` (version 4.4) and `sdma_v6_0_0_pkt_open.h` (versions 6 and 7), structures
//! `SDMA_PKT_*`. A bit that no field of the version's header covers is reserved, and has to be 0.

use std::fmt::Write as _;

/// What differs between versions.
#[derive(Debug)]
pub(super) struct Version {
    /// As reports name it.
    pub(super) name: &'static str,
    /// Bits of the byte count of a linear copy.
    pub(super) copy_count_bits: u32,
    /// Whether packets have the fields of version 6: memory types and cache policies.
    pub(super) policies: bool,
}

pub(super) static V4_4: Version = Version {
    name: "SDMA 4.4",
    copy_count_bits: 22,
    policies: false,
};
pub(super) static V6_0: Version = Version {
    name: "SDMA 6.0",
    copy_count_bits: 30,
    policies: true,
};
pub(super) static V6_1: Version = Version {
    name: "SDMA 6.1",
    ..V6_0_FIELDS
};
pub(super) static V7_0: Version = Version {
    name: "SDMA 7.0",
    ..V6_0_FIELDS
};
const V6_0_FIELDS: Version = Version {
    name: "",
    copy_count_bits: 30,
    policies: true,
};

/// How a polled value is compared with the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Func {
    Always,
    Less,
    LessEqual,
    Equal,
    NotEqual,
    GreaterEqual,
    Greater,
}

impl Func {
    pub(super) fn holds(self, value: u32, reference: u32) -> bool {
        match self {
            Self::Always => true,
            Self::Less => value < reference,
            Self::LessEqual => value <= reference,
            Self::Equal => value == reference,
            Self::NotEqual => value != reference,
            Self::GreaterEqual => value >= reference,
            Self::Greater => value > reference,
        }
    }
}

/// A packet that the engine executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    Nop,
    Copy {
        src: u64,
        dst: u64,
        bytes: u64,
    },
    Write {
        dst: u64,
        words: Vec<u32>,
    },
    Indirect {
        base: u64,
        words: u32,
    },
    Fence {
        address: u64,
        data: u32,
        /// Whether the word goes past the L2.
        uncached: bool,
    },
    Trap {
        context: u32,
    },
    Poll {
        address: u64,
        func: Func,
        value: u32,
        mask: u32,
        /// Polls after the first before the engine gives up; `None` never does.
        retries: Option<u32>,
    },
    /// A flush of the host data path, of which there is none to wait for.
    HdpFlush,
    Timestamp {
        address: u64,
    },
}

/// Operations by number (`SDMA_OP_*`), with the names of the headers.
fn op_name(op: u32) -> &'static str {
    match op {
        0 => "NOP",
        1 => "COPY",
        2 => "WRITE",
        4 => "INDIRECT",
        5 => "FENCE",
        6 => "TRAP",
        7 => "SEM",
        8 => "POLL_REGMEM",
        9 => "COND_EXE",
        10 => "ATOMIC",
        11 => "CONST_FILL",
        12 => "PTEPDE",
        13 => "TIMESTAMP",
        14 => "SRBM_WRITE",
        15 => "PRE_EXE",
        16 => "GPUVM_INV or DUMMY_TRAP",
        17 => "GCR_REQ",
        32 => "DUMMY_TRAP",
        _ => "unknown",
    }
}

/// Words of the packet that begins with `header`; `peek` gives the words after it. An engine that does not know a packet
/// does not know where the next one begins either: the length of such a packet is its header.
///
/// `None` if a word that says how long the packet is has not been written.
pub(super) fn length(header: u32, mut peek: impl FnMut(u32) -> Option<u32>) -> Option<u32> {
    Some(match header & 0xff {
        0 => 1 + (header >> 16 & 0x3fff),
        1 if header >> 8 & 0xff == 0 => 7,
        2 if header >> 8 & 0xff == 0 => 4 + (peek(3)? & 0xf_ffff) + 1,
        4 | 8 => 6,
        5 => 4,
        6 => 2,
        13 => 3,
        _ => 1,
    })
}

fn word(words: &[u32], at: usize) -> u32 {
    words.get(at).copied().unwrap_or_default()
}

fn pair(words: &[u32], at: usize) -> u64 {
    u64::from(word(words, at)) | u64::from(word(words, at + 1)) << 32
}

/// Checks that a word has no bits but those of `defined`.
fn defined(words: &[u32], at: usize, defined: u32) -> Result<(), String> {
    match word(words, at) & !defined {
        0 => Ok(()),
        bits => Err(format!("reserved bits {bits:#010x} of dword {at} are set")),
    }
}

/// Checks that fields of the header are off.
fn off(header: u32, fields: &[(u32, &str, &str)]) -> Result<(), String> {
    match fields.iter().find(|(mask, ..)| header & mask != 0) {
        None => Ok(()),
        Some((_, name, why)) => Err(format!("field {name} is set: {why}")),
    }
}

fn aligned(address: u64, to: u64, name: &str) -> Result<u64, String> {
    if address.is_multiple_of(to) {
        Ok(address)
    } else {
        Err(format!("{name} {address:#x} is not {to}-byte aligned"))
    }
}

const ENCRYPT: (u32, &str, &str) = (1 << 16, "encrypt", "memory encryption is not simulated");
const TMZ: (u32, &str, &str) = (1 << 18, "tmz", "trusted memory is not simulated");
const NO_CPV: &str = "compression is not simulated";

impl Packet {
    /// Decodes a whole packet.
    ///
    /// # Errors
    /// What about the packet is not legal, in words.
    pub(super) fn decode(version: &Version, words: &[u32]) -> Result<Self, String> {
        let header = word(words, 0);
        let (op, sub_op) = (header & 0xff, header >> 8 & 0xff);
        let v6 = |bits: u32| if version.policies { bits } else { 0 };
        let header_is = |bits: u32| defined(words, 0, 0xffff | bits);
        if sub_op != 0 && !matches!(op, 1 | 2 | 8 | 13) {
            return Err(format!("{} has no sub-operation {sub_op}", op_name(op)));
        }
        match (op, sub_op) {
            (0, _) => {
                header_is(0x3fff << 16)?;
                Ok(Self::Nop)
            }
            (1, 0) => {
                header_is(1 << 16 | 1 << 18 | 1 << 27 | v6(1 << 19 | 1 << 25))?;
                off(
                    header,
                    &[
                        ENCRYPT,
                        TMZ,
                        (1 << 27, "broadcast", "two destinations are not simulated"),
                        (1 << 19, "cpv", NO_CPV),
                        (
                            1 << 25,
                            "backwards",
                            "copies from the end are not simulated",
                        ),
                    ],
                )?;
                defined(words, 1, (1 << version.copy_count_bits) - 1)?;
                defined(words, 2, 3 << 16 | 3 << 24 | v6(7 << 18 | 7 << 26))?;
                if word(words, 2) & (3 << 16 | 3 << 24) != 0 {
                    return Err("byte swapping is not simulated".into());
                }
                Ok(Self::Copy {
                    src: pair(words, 3),
                    dst: pair(words, 5),
                    bytes: u64::from(word(words, 1)) + 1,
                })
            }
            (2, 0) => {
                header_is(1 << 16 | 1 << 18 | v6(1 << 28))?;
                off(header, &[ENCRYPT, TMZ, (1 << 28, "cpv", NO_CPV)])?;
                defined(words, 3, 0xf_ffff | 3 << 24 | v6(7 << 26))?;
                if word(words, 3) >> 24 & 3 != 0 {
                    return Err("byte swapping is not simulated".into());
                }
                Ok(Self::Write {
                    dst: aligned(pair(words, 1), 4, "destination")?,
                    words: words.get(4..).unwrap_or_default().to_vec(),
                })
            }
            (4, _) => {
                header_is(0xf << 16 | v6(1 << 31))?;
                off(
                    header,
                    &[
                        (0xf << 16, "vmid", "a process's queue runs in its own VMID"),
                        (1 << 31, "priv", "a process's queue has no privileges"),
                    ],
                )?;
                defined(words, 3, 0xf_ffff)?;
                let base = aligned(pair(words, 1), 32, "base of the indirect buffer")?;
                match word(words, 3) {
                    0 => Err("an indirect buffer of no words".into()),
                    words => Ok(Self::Indirect { base, words }),
                }
            }
            (5, _) => {
                header_is(v6(7 << 16
                    | 1 << 19
                    | 1 << 20
                    | 1 << 22
                    | 1 << 23
                    | 7 << 24
                    | 1 << 28))?;
                off(
                    header,
                    &[
                        (1 << 23, "gpa", "a process has virtual addresses only"),
                        (1 << 28, "cpv", NO_CPV),
                    ],
                )?;
                let mtype = header >> 16 & 7;
                if mtype > 3 {
                    return Err(format!("memory type {mtype} does not exist"));
                }
                Ok(Self::Fence {
                    address: aligned(pair(words, 1), 4, "address")?,
                    data: word(words, 3),
                    uncached: !version.policies || mtype == 3,
                })
            }
            (6, _) => {
                header_is(0)?;
                defined(words, 1, 0x0fff_ffff)?;
                Ok(Self::Trap {
                    context: word(words, 1),
                })
            }
            (8, 0) => Self::decode_poll(version, words),
            (13, 2) => {
                header_is(v6(7 << 24 | 1 << 28))?;
                off(header, &[(1 << 28, "cpv", NO_CPV)])?;
                Ok(Self::Timestamp {
                    address: aligned(pair(words, 1), 8, "address")?,
                })
            }
            (op, sub_op) => Err(format!(
                "{} (operation {op}, sub-operation {sub_op}) is not a packet of {} that a process's queue executes here",
                op_name(op),
                version.name
            )),
        }
    }

    fn decode_poll(version: &Version, words: &[u32]) -> Result<Self, String> {
        let header = word(words, 0);
        let v6 = if version.policies {
            7 << 20 | 1 << 24
        } else {
            0
        };
        defined(words, 0, 0xffff | 1 << 26 | 7 << 28 | 1 << 31 | v6)?;
        off(header, &[(1 << 24, "cpv", NO_CPV)])?;
        defined(words, 5, 0x0fff_ffff)?;
        let func = match header >> 28 & 7 {
            0 => Func::Always,
            1 => Func::Less,
            2 => Func::LessEqual,
            3 => Func::Equal,
            4 => Func::NotEqual,
            5 => Func::GreaterEqual,
            6 => Func::Greater,
            other => return Err(format!("comparison {other} does not exist")),
        };
        let (memory, flush) = (header >> 31 != 0, header >> 26 & 1 != 0);
        match (memory, flush) {
            (true, true) => Err("a flush of the host data path polls registers, not memory".into()),
            (false, true) => Ok(Self::HdpFlush),
            (false, false) => Err("a process's queue may not read registers".into()),
            (true, false) => Ok(Self::Poll {
                address: aligned(pair(words, 1), 4, "address")?,
                func,
                value: word(words, 3),
                mask: word(words, 4),
                retries: Some(word(words, 5) >> 16 & 0xfff).filter(|&n| n != 0xfff),
            }),
        }
    }
}

/// A packet in words: where it is, what it is, and its dwords.
pub(super) fn describe(version: &Version, address: u64, words: &[u32]) -> String {
    const SHOWN: usize = 12;
    let header = word(words, 0);
    let mut text = format!(
        "{} packet at {address:#x}: {} (operation {}, sub-operation {})",
        version.name,
        op_name(header & 0xff),
        header & 0xff,
        header >> 8 & 0xff
    );
    if let Ok(packet) = Packet::decode(version, words) {
        let _ = match packet {
            Packet::Copy { src, dst, bytes } => {
                write!(text, ", {bytes} bytes from {src:#x} to {dst:#x}")
            }
            Packet::Write { dst, words } => write!(text, ", {} words to {dst:#x}", words.len()),
            Packet::Indirect { base, words } => write!(text, ", {words} words at {base:#x}"),
            Packet::Fence { address, data, .. } => write!(text, ", {data:#x} to {address:#x}"),
            Packet::Trap { context } => write!(text, ", context {context:#x}"),
            Packet::Poll {
                address,
                func,
                value,
                mask,
                ..
            } => write!(
                text,
                ", until the word at {address:#x} & {mask:#x} is {func:?} {value:#x}"
            ),
            Packet::Timestamp { address } => write!(text, ", to {address:#x}"),
            Packet::Nop | Packet::HdpFlush => Ok(()),
        };
    }
    for (i, word) in words.iter().enumerate().take(SHOWN) {
        let _ = write!(text, "\n  [{i}] {word:#010x}");
    }
    if words.len() > SHOWN {
        let _ = write!(text, "\n  and {} more", words.len() - SHOWN);
    }
    text
}
