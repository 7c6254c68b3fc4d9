//! Packets as data: headers with their parity, which words a packet has, and which bits of them mean something.
//!
//! Numbers, names and fields are those of Mesa's `adreno_pm4.xml` (`adreno_pm4_type3_packets`, and the domain of each packet), for
//! A6xx. A bit that no field has is reserved and must be 0.

use std::fmt::Write as _;

use super::{Cause, registers};

pub(super) const NOP: u32 = 0x10;
pub(super) const WAIT_MEM_WRITES: u32 = 0x12;
pub(super) const WAIT_FOR_ME: u32 = 0x13;
pub(super) const WAIT_MEM_GTE: u32 = 0x14;
pub(super) const REG_RMW: u32 = 0x21;
pub(super) const WAIT_FOR_IDLE: u32 = 0x26;
pub(super) const RUN_OPENCL: u32 = 0x31;
pub(super) const EXEC_CS: u32 = 0x33;
pub(super) const LOAD_STATE6_FRAG: u32 = 0x34;
pub(super) const WAIT_REG_MEM: u32 = 0x3C;
pub(super) const MEM_WRITE: u32 = 0x3D;
pub(super) const REG_TO_MEM: u32 = 0x3E;
pub(super) const INDIRECT_BUFFER: u32 = 0x3F;
pub(super) const INTERRUPT: u32 = 0x40;
pub(super) const EXEC_CS_INDIRECT: u32 = 0x41;
pub(super) const MEM_TO_REG: u32 = 0x42;
pub(super) const COND_EXEC: u32 = 0x44;
pub(super) const COND_WRITE5: u32 = 0x45;
pub(super) const EVENT_WRITE: u32 = 0x46;
pub(super) const REG_TO_SCRATCH: u32 = 0x4A;
pub(super) const SCRATCH_WRITE: u32 = 0x4C;
pub(super) const SCRATCH_TO_REG: u32 = 0x4D;
pub(super) const INDIRECT_BUFFER_CHAIN: u32 = 0x57;
pub(super) const CONTEXT_REG_BUNCH: u32 = 0x5C;
pub(super) const SET_MARKER: u32 = 0x65;
pub(super) const MEM_TO_MEM: u32 = 0x73;
pub(super) const MEMCPY: u32 = 0x75;

/// Most words of a packet that a report shows.
pub(super) const SHOWN: usize = 24;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// Type 4: so many registers from this one on are written.
    Registers { first: u32, count: u32 },
    /// Type 7: a command with so many words.
    Command { opcode: u32, count: u32 },
}

/// Whether a parity bit makes the number of ones odd.
fn odd(value: u32, bit: u32) -> bool {
    (value.count_ones() + bit) % 2 == 1
}

impl Header {
    /// Takes a header apart (`pkt4` and `pkt7` of `freedreno_pm4.h`).
    pub(super) fn read(word: u32) -> Result<Self, Cause> {
        let refuse = |text: String| Err(Cause::Packet(format!("header {word:#010x}: {text}")));
        let field = |high, low| bits(&[word], 0, high, low);
        match word >> 28 {
            4 => {
                let (count, first) = (field(6, 0), field(25, 8));
                if field(26, 26) != 0 {
                    return refuse("bit 26 is reserved".into());
                }
                if !odd(count, field(7, 7)) {
                    return refuse(format!("the count {count} has the wrong parity"));
                }
                if !odd(first, field(27, 27)) {
                    return refuse(format!("the register {first:#06x} has the wrong parity"));
                }
                if count == 0 {
                    return refuse("no registers".into());
                }
                Ok(Self::Registers { first, count })
            }
            7 => {
                let (count, opcode) = (field(13, 0), field(22, 16));
                if field(14, 14) | field(27, 24) != 0 {
                    return refuse("bits 14 and 27:24 are reserved".into());
                }
                if !odd(count, field(15, 15)) {
                    return refuse(format!("the count {count} has the wrong parity"));
                }
                if !odd(opcode, field(23, 23)) {
                    return refuse(format!("the opcode {opcode:#04x} has the wrong parity"));
                }
                Ok(Self::Command { opcode, count })
            }
            kind => refuse(format!(
                "there are packets of type 4 and 7, this is of {kind}"
            )),
        }
    }

    /// Words of the packet, the header too.
    pub(super) fn length(self) -> u32 {
        match self {
            Self::Registers { count, .. } | Self::Command { count, .. } => count + 1,
        }
    }
}

/// A run of bits of a packet's word. Word 0 is the header.
#[derive(Clone, Copy, Debug)]
struct Field {
    word: usize,
    high: u32,
    low: u32,
    name: &'static str,
}

const fn f(word: usize, high: u32, low: u32, name: &'static str) -> Field {
    Field {
        word,
        high,
        low,
        name,
    }
}

const fn mask(high: u32, low: u32) -> u32 {
    (u32::MAX >> (31 - high)) & (u32::MAX << low)
}

/// Bits of a word of a packet.
pub(super) fn bits(words: &[u32], word: usize, high: u32, low: u32) -> u32 {
    let value = words.get(word).copied().unwrap_or_default();
    (value & mask(high, low)) >> low
}

/// A word of a packet.
pub(super) fn word(words: &[u32], at: usize) -> u32 {
    words.get(at).copied().unwrap_or_default()
}

/// An address in two words.
pub(super) fn address(words: &[u32], at: usize) -> u64 {
    u64::from(word(words, at)) | u64::from(word(words, at + 1)) << 32
}

/// What a command looks like.
#[derive(Clone, Copy, Debug)]
struct Layout {
    opcode: u32,
    name: &'static str,
    /// Words behind the header: fewest and most.
    counts: (u32, u32),
    fields: &'static [Field],
}

const fn l(
    opcode: u32,
    name: &'static str,
    counts: (u32, u32),
    fields: &'static [Field],
) -> Layout {
    Layout {
        opcode,
        name,
        counts,
        fields,
    }
}

const MOST: u32 = 0x3FFF;

static LAYOUTS: &[Layout] = &[
    l(NOP, "CP_NOP", (0, MOST), &[]),
    l(WAIT_MEM_WRITES, "CP_WAIT_MEM_WRITES", (0, 0), &[]),
    l(WAIT_FOR_ME, "CP_WAIT_FOR_ME", (0, 0), &[]),
    l(
        WAIT_MEM_GTE,
        "CP_WAIT_MEM_GTE",
        (4, 4),
        &[
            f(2, 31, 2, "POLL_ADDR_LO"),
            f(3, 31, 0, "POLL_ADDR_HI"),
            f(4, 31, 0, "REF"),
        ],
    ),
    l(
        REG_RMW,
        "CP_REG_RMW",
        (3, 3),
        &[
            f(1, 17, 0, "DST_REG"),
            f(1, 28, 24, "ROTATE"),
            f(1, 29, 29, "SRC1_ADD"),
            f(1, 30, 30, "SRC1_IS_REG"),
            f(1, 31, 31, "SRC0_IS_REG"),
            f(2, 31, 0, "SRC0"),
            f(3, 31, 0, "SRC1"),
        ],
    ),
    l(WAIT_FOR_IDLE, "CP_WAIT_FOR_IDLE", (0, 0), &[]),
    l(RUN_OPENCL, "CP_RUN_OPENCL", (1, 1), &[]),
    l(
        EXEC_CS,
        "CP_EXEC_CS",
        (4, 4),
        &[
            f(2, 31, 0, "NGROUPS_X"),
            f(3, 31, 0, "NGROUPS_Y"),
            f(4, 31, 0, "NGROUPS_Z"),
        ],
    ),
    l(
        LOAD_STATE6_FRAG,
        "CP_LOAD_STATE6_FRAG",
        (3, MOST),
        &[
            f(1, 13, 0, "DST_OFF"),
            f(1, 15, 14, "STATE_TYPE"),
            f(1, 17, 16, "STATE_SRC"),
            f(1, 21, 18, "STATE_BLOCK"),
            f(1, 31, 22, "NUM_UNIT"),
            f(2, 31, 2, "EXT_SRC_ADDR"),
            f(3, 31, 0, "EXT_SRC_ADDR_HI"),
        ],
    ),
    l(
        WAIT_REG_MEM,
        "CP_WAIT_REG_MEM",
        (6, 6),
        &[
            f(1, 2, 0, "FUNCTION"),
            f(1, 3, 3, "SIGNED_COMPARE"),
            f(1, 5, 4, "POLL"),
            f(1, 8, 8, "WRITE_MEMORY"),
            f(2, 31, 0, "POLL_ADDR_LO"),
            f(3, 31, 0, "POLL_ADDR_HI"),
            f(4, 31, 0, "REF"),
            f(5, 31, 0, "MASK"),
            f(6, 31, 0, "DELAY_LOOP_CYCLES"),
        ],
    ),
    l(
        MEM_WRITE,
        "CP_MEM_WRITE",
        (3, MOST),
        &[f(1, 31, 2, "ADDR_LO"), f(2, 31, 0, "ADDR_HI")],
    ),
    l(
        REG_TO_MEM,
        "CP_REG_TO_MEM",
        (3, 3),
        &[
            f(1, 17, 0, "REG"),
            f(1, 29, 18, "CNT"),
            f(1, 30, 30, "64B"),
            f(1, 31, 31, "ACCUMULATE"),
            f(2, 31, 2, "DEST"),
            f(3, 31, 0, "DEST_HI"),
        ],
    ),
    l(
        INDIRECT_BUFFER,
        "CP_INDIRECT_BUFFER",
        (3, 3),
        &[
            f(1, 31, 2, "IB_BASE_LO"),
            f(2, 31, 0, "IB_BASE_HI"),
            f(3, 19, 0, "IB_SIZE"),
        ],
    ),
    l(
        INDIRECT_BUFFER_CHAIN,
        "CP_INDIRECT_BUFFER_CHAIN",
        (3, 3),
        &[
            f(1, 31, 2, "IB_BASE_LO"),
            f(2, 31, 0, "IB_BASE_HI"),
            f(3, 19, 0, "IB_SIZE"),
        ],
    ),
    l(INTERRUPT, "CP_INTERRUPT", (1, 1), &[f(1, 31, 0, "VALUE")]),
    l(
        EXEC_CS_INDIRECT,
        "CP_EXEC_CS_INDIRECT",
        (4, 4),
        &[
            f(2, 31, 2, "ADDR_LO"),
            f(3, 31, 0, "ADDR_HI"),
            f(4, 11, 2, "LOCALSIZEX"),
            f(4, 21, 12, "LOCALSIZEY"),
            f(4, 31, 22, "LOCALSIZEZ"),
        ],
    ),
    l(
        MEM_TO_REG,
        "CP_MEM_TO_REG",
        (3, 3),
        &[
            f(1, 17, 0, "REG"),
            f(1, 29, 19, "CNT"),
            f(1, 30, 30, "SHIFT_BY_2"),
            f(1, 31, 31, "UNK31"),
            f(2, 31, 2, "SRC"),
            f(3, 31, 0, "SRC_HI"),
        ],
    ),
    l(
        COND_EXEC,
        "CP_COND_EXEC",
        (6, 6),
        &[
            f(1, 31, 2, "ADDR0_LO"),
            f(2, 31, 0, "ADDR0_HI"),
            f(3, 31, 2, "ADDR1_LO"),
            f(4, 31, 0, "ADDR1_HI"),
            f(5, 31, 0, "REF"),
            f(6, 31, 0, "DWORDS"),
        ],
    ),
    l(
        COND_WRITE5,
        "CP_COND_WRITE5",
        (8, 8),
        &[
            f(1, 2, 0, "FUNCTION"),
            f(1, 3, 3, "SIGNED_COMPARE"),
            f(1, 5, 4, "POLL"),
            f(1, 8, 8, "WRITE_MEMORY"),
            f(2, 31, 0, "POLL_ADDR_LO"),
            f(3, 31, 0, "POLL_ADDR_HI"),
            f(4, 31, 0, "REF"),
            f(5, 31, 0, "MASK"),
            f(6, 31, 0, "WRITE_ADDR_LO"),
            f(7, 31, 0, "WRITE_ADDR_HI"),
            f(8, 31, 0, "WRITE_DATA"),
        ],
    ),
    l(
        EVENT_WRITE,
        "CP_EVENT_WRITE",
        (1, 4),
        &[
            f(1, 7, 0, "EVENT"),
            f(1, 30, 30, "TIMESTAMP"),
            f(1, 31, 31, "IRQ"),
            f(2, 31, 2, "ADDR_0_LO"),
            f(3, 31, 0, "ADDR_0_HI"),
            f(4, 31, 0, "VALUE"),
        ],
    ),
    l(
        REG_TO_SCRATCH,
        "CP_REG_TO_SCRATCH",
        (1, 1),
        &[
            f(1, 17, 0, "REG"),
            f(1, 22, 20, "SCRATCH"),
            f(1, 26, 24, "CNT"),
        ],
    ),
    l(
        SCRATCH_WRITE,
        "CP_SCRATCH_WRITE",
        (2, 9),
        &[f(1, 22, 20, "SCRATCH")],
    ),
    l(
        SCRATCH_TO_REG,
        "CP_SCRATCH_TO_REG",
        (1, 1),
        &[
            f(1, 17, 0, "REG"),
            f(1, 18, 18, "UNK18"),
            f(1, 22, 20, "SCRATCH"),
            f(1, 26, 24, "CNT"),
        ],
    ),
    l(CONTEXT_REG_BUNCH, "CP_CONTEXT_REG_BUNCH", (2, MOST), &[]),
    l(
        SET_MARKER,
        "CP_SET_MARKER",
        (1, 1),
        &[
            f(1, 3, 0, "MODE"),
            f(1, 4, 4, "USES_GMEM"),
            f(1, 8, 8, "MARKER_MODE"),
        ],
    ),
    l(
        MEM_TO_MEM,
        "CP_MEM_TO_MEM",
        (5, 9),
        &[
            f(1, 0, 0, "NEG_A"),
            f(1, 1, 1, "NEG_B"),
            f(1, 2, 2, "NEG_C"),
            f(1, 29, 29, "DOUBLE"),
            f(1, 30, 30, "WAIT_FOR_MEM_WRITES"),
            f(1, 31, 31, "UNK31"),
        ],
    ),
    l(
        MEMCPY,
        "CP_MEMCPY",
        (5, 5),
        &[
            f(1, 31, 0, "DWORDS"),
            f(2, 31, 2, "SRC_LO"),
            f(3, 31, 0, "SRC_HI"),
            f(4, 31, 2, "DST_LO"),
            f(5, 31, 0, "DST_HI"),
        ],
    ),
];

/// Packets that there are and that are not taken here: drawing, blitting, and what a kernel alone may use.
static OTHERS: &[(u32, &str)] = &[
    (0x11, "CP_RECORD_PFP_TIMESTAMP"),
    (0x19, "CP_DRAW_PRED_ENABLE_GLOBAL"),
    (0x1A, "CP_DRAW_PRED_ENABLE_LOCAL"),
    (0x1D, "CP_SKIP_IB2_ENABLE_GLOBAL"),
    (0x22, "CP_DRAW_INDX"),
    (0x23, "CP_SKIP_IB2_ENABLE_LOCAL"),
    (0x24, "CP_DRAW_AUTO"),
    (0x28, "CP_DRAW_INDIRECT"),
    (0x29, "CP_DRAW_INDX_INDIRECT"),
    (0x2A, "CP_DRAW_INDIRECT_MULTI"),
    (0x2C, "CP_BLIT"),
    (0x2E, "CP_SET_BIN_DATA5_OFFSET"),
    (0x2F, "CP_SET_BIN_DATA5"),
    (0x32, "CP_LOAD_STATE6_GEOM"),
    (0x35, "CP_SET_SUBDRAW_SIZE"),
    (0x36, "CP_LOAD_STATE6"),
    (0x38, "CP_DRAW_INDX_OFFSET"),
    (0x39, "CP_REG_TEST"),
    (0x43, "CP_SET_DRAW_STATE"),
    (0x47, "CP_COND_REG_EXEC"),
    (0x48, "CP_ME_INIT"),
    (0x4E, "CP_DRAW_PRED_SET"),
    (0x50, "CP_START_BIN"),
    (0x51, "CP_END_BIN"),
    (0x52, "CP_WAIT_REG_EQ"),
    (0x53, "CP_SMMU_TABLE_UPDATE"),
    (0x54, "CP_CONTEXT_SWITCH"),
    (0x55, "CP_SET_AMBLE"),
    (0x56, "CP_SET_PSEUDO_REG"),
    (0x5F, "CP_SET_PROTECTED_MODE"),
    (0x62, "CP_WHERE_AM_I"),
    (0x63, "CP_SET_MODE"),
    (0x64, "CP_SET_VISIBILITY_OVERRIDE"),
    (0x66, "CP_SET_SECURE_MODE"),
    (0x6B, "CP_CONTEXT_SWITCH_YIELD"),
    (0x6C, "CP_PREEMPT_DISABLE"),
    (0x6D, "CP_REG_WRITE"),
    (0x70, "CP_WAIT_TWO_REGS"),
    (0x71, "CP_TEST_TWO_MEMS"),
    (0x72, "CP_REG_TO_MEM_OFFSET_REG"),
    (0x74, "CP_REG_TO_MEM_OFFSET_MEM"),
    (0x78, "CP_REG_WR_NO_CTXT"),
];

fn layout(opcode: u32) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|layout| layout.opcode == opcode)
}

/// Checks a command's length and its reserved bits. Its name.
pub(super) fn check(opcode: u32, words: &[u32]) -> Result<&'static str, Cause> {
    let Some(layout) = layout(opcode) else {
        let name = OTHERS.iter().find(|(other, _)| *other == opcode);
        return Err(Cause::Packet(match name {
            Some((_, name)) => {
                format!("{name} is not taken here: it is for graphics, or a kernel's")
            }
            None => format!("opcode {opcode:#04x} is none that A6xx has"),
        }));
    };
    let name = layout.name;
    let (fewest, most) = layout.counts;
    let count = words.len().saturating_sub(1);
    if count < fewest as usize || count > most as usize {
        return Err(Cause::Packet(if fewest == most {
            format!("{name}: {count} words behind the header; there have to be {fewest}")
        } else {
            format!("{name}: {count} words behind the header; there are {fewest} to {most}")
        }));
    }
    // What follows the described words is data; these are described one and all.
    let described = layout.fields.iter().map(|field| field.word).max();
    let described = match opcode {
        NOP | CONTEXT_REG_BUNCH => 0,
        RUN_OPENCL => 1,
        _ => described.unwrap_or(0),
    };
    for (at, &value) in words.iter().enumerate().take(described + 1).skip(1) {
        let known = layout
            .fields
            .iter()
            .filter(|field| field.word == at)
            .fold(0, |all, field| all | mask(field.high, field.low));
        let reserved = value & !known;
        if reserved != 0 {
            return Err(Cause::Packet(format!(
                "{name}: word {at} is {value:#010x}: reserved bits {reserved:#010x}"
            )));
        }
    }
    Ok(name)
}

/// A packet as text: where it is, its words, its fields.
pub(super) fn describe(level: usize, at: u64, words: &[u32]) -> String {
    let header = Header::read(word(words, 0)).ok();
    let found = match header {
        Some(Header::Command { opcode, .. }) => layout(opcode),
        Some(Header::Registers { .. }) | None => None,
    };
    let mut text = match (header, found) {
        (_, Some(layout)) => layout.name.to_string(),
        (Some(Header::Command { opcode, .. }), None) => {
            match OTHERS.iter().find(|(other, _)| *other == opcode) {
                Some((_, name)) => (*name).to_string(),
                None => format!("opcode {opcode:#04x}"),
            }
        }
        (Some(Header::Registers { count, .. }), _) => format!("write of {count} registers"),
        (None, _) => "no packet".to_string(),
    };
    // Writing to a string does not fail.
    let _ = write!(text, " at {at:#x}, in an IB of level {level}\n  words:");
    for word in words.iter().take(SHOWN) {
        let _ = write!(text, " {word:08x}");
    }
    if words.len() > SHOWN {
        let _ = write!(text, " and {} more", words.len() - SHOWN);
    }
    for field in found.iter().flat_map(|layout| layout.fields) {
        if field.word < words.len() {
            let value = bits(words, field.word, field.high, field.low);
            // Low words of addresses are shown as they are.
            let shift = if field.high == 31 && field.low == 2 {
                2
            } else {
                0
            };
            let _ = write!(text, "\n  {} = {:#x}", field.name, value << shift);
        }
    }
    if let Some(Header::Registers { first, .. }) = header {
        let values = words.iter().skip(1).take(SHOWN);
        for (address, value) in (first..).zip(values) {
            let _ = write!(text, "\n  {} = {value:#x}", registers::name(address));
        }
    }
    text
}
