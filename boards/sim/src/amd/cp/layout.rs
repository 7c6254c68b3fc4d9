//! PM4 packets as data: which words a packet has, and which bits of them mean something.
//!
//! Fields are those of the compute micro engine in AMD's `gfx9_plus_merged_f32_mec_pm4_packets.h` (PAL), of kfdtest's
//! `pm4_pkt_struct_{ai,nv,common}.h`, and the `PACKET3_*` of Linux' `soc15d.h` (gfx9) and `nvd.h` (gfx10 and up). A bit
//! that no field has is reserved and must be 0.

use std::fmt::Write as _;

use super::Cause;
use super::chip::{Chip, Generation};

pub(super) const NOP: u32 = 0x10;
pub(super) const DISPATCH_DIRECT: u32 = 0x15;
pub(super) const PRED_EXEC: u32 = 0x23;
pub(super) const WRITE_DATA: u32 = 0x37;
pub(super) const WAIT_REG_MEM: u32 = 0x3C;
pub(super) const INDIRECT_BUFFER: u32 = 0x3F;
pub(super) const COPY_DATA: u32 = 0x40;
pub(super) const EVENT_WRITE: u32 = 0x46;
pub(super) const RELEASE_MEM: u32 = 0x49;
pub(super) const ACQUIRE_MEM: u32 = 0x58;
pub(super) const SET_SH_REG: u32 = 0x76;
pub(super) const SET_UCONFIG_REG: u32 = 0x79;

/// Most data words of one packet that are taken.
const MAX_DATA: usize = 0x3FF;
/// Most words of a packet that a report shows.
const SHOWN: usize = 16;

/// A run of bits of a packet's word. Word 0 is the header, as in the documents' `ordinal1`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
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

/// What a packet looks like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) name: &'static str,
    /// Words with the header: fewest and most.
    words: (usize, usize),
    fields: [&'static [Field]; 3],
}

const fn fixed(
    name: &'static str,
    words: usize,
    all: &'static [Field],
    own: &'static [Field],
    more: &'static [Field],
) -> Layout {
    Layout {
        name,
        words: (words, words),
        fields: [all, own, more],
    }
}

const ADDRESS32: &[Field] = &[f(3, 31, 2, "address_lo"), f(4, 31, 0, "address_hi")];
const ADDRESS64: &[Field] = &[f(3, 31, 3, "address_lo"), f(4, 31, 0, "address_hi")];

const DISPATCH: &[Field] = &[
    f(1, 31, 0, "dim_x"),
    f(2, 31, 0, "dim_y"),
    f(3, 31, 0, "dim_z"),
    f(4, 31, 0, "dispatch_initiator"),
];

const PRED: &[Field] = &[
    f(1, 13, 0, "exec_count"),
    f(1, 31, 24, "virtual_xcc_id_select"),
];

const WRITE: &[Field] = &[
    f(1, 11, 8, "dst_sel"),
    f(1, 16, 16, "addr_incr"),
    f(1, 20, 20, "wr_confirm"),
    f(1, 26, 25, "cache_policy"),
    f(2, 31, 2, "dst_mem_addr_lo"),
    f(3, 31, 0, "dst_mem_addr_hi"),
];

const WAIT: &[Field] = &[
    f(1, 2, 0, "function"),
    f(1, 5, 4, "mem_space"),
    f(1, 7, 6, "operation"),
    f(4, 31, 0, "reference"),
    f(5, 31, 0, "mask"),
    f(6, 15, 0, "poll_interval"),
    f(6, 31, 31, "optimize_ace_offload_mode"),
];
const POLICY: &[Field] = &[f(1, 26, 25, "cache_policy")];
const WAIT_MEMORY: &[Field] = &[
    f(2, 31, 2, "mem_poll_addr_lo"),
    f(3, 31, 0, "mem_poll_addr_hi"),
];
const WAIT_REGISTER: &[Field] = &[f(2, 17, 0, "reg_poll_addr")];
const WAIT_REGISTERS: &[Field] = &[
    f(2, 17, 0, "reg_write_addr1"),
    f(3, 17, 0, "reg_write_addr2"),
];

const INDIRECT: &[Field] = &[
    f(1, 31, 2, "ib_base_lo"),
    f(2, 15, 0, "ib_base_hi"),
    f(3, 19, 0, "ib_size"),
    f(3, 20, 20, "chain"),
    f(3, 21, 21, "offload_polling"),
    f(3, 23, 23, "valid"),
    f(3, 27, 24, "vmid"),
    f(3, 29, 28, "cache_policy"),
];

const COPY: &[Field] = &[
    f(1, 3, 0, "src_sel"),
    f(1, 11, 8, "dst_sel"),
    f(1, 14, 13, "src_cache_policy"),
    f(1, 16, 16, "count_sel"),
    f(1, 20, 20, "wr_confirm"),
    f(1, 26, 25, "dst_cache_policy"),
    f(1, 29, 29, "pq_exe_status"),
    f(5, 31, 0, "dst_addr_hi"),
];
/// By source and width: immediate, memory, clock or anything else.
const COPY_IMMEDIATE32: &[Field] = &[f(2, 31, 0, "imm_data"), f(4, 31, 2, "dst_32b_addr_lo")];
const COPY_IMMEDIATE64: &[Field] = &[
    f(2, 31, 0, "imm_data"),
    f(3, 31, 0, "src_imm_data"),
    f(4, 31, 3, "dst_64b_addr_lo"),
];
const COPY_MEMORY32: &[Field] = &[
    f(2, 31, 2, "src_32b_addr_lo"),
    f(3, 31, 0, "src_memtc_addr_hi"),
    f(4, 31, 2, "dst_32b_addr_lo"),
];
const COPY_MEMORY64: &[Field] = &[
    f(2, 31, 3, "src_64b_addr_lo"),
    f(3, 31, 0, "src_memtc_addr_hi"),
    f(4, 31, 3, "dst_64b_addr_lo"),
];
const COPY_OTHER32: &[Field] = &[f(4, 31, 2, "dst_32b_addr_lo")];
const COPY_OTHER64: &[Field] = &[f(4, 31, 3, "dst_64b_addr_lo")];
const COPY_REGISTER: &[Field] = &[f(2, 17, 0, "src_reg_offset"), f(4, 31, 2, "dst_addr_lo")];

const EVENT: &[Field] = &[
    f(1, 5, 0, "event_type"),
    f(1, 11, 8, "event_index"),
    f(1, 31, 31, "offload_enable"),
];

const RELEASE: &[Field] = &[
    f(1, 5, 0, "event_type"),
    f(1, 11, 8, "event_index"),
    f(1, 26, 25, "cache_policy"),
    f(1, 28, 28, "pq_exe_status"),
    f(2, 17, 16, "dst_sel"),
    f(2, 26, 24, "int_sel"),
    f(2, 31, 29, "data_sel"),
    f(5, 31, 0, "data_lo"),
    f(6, 31, 0, "data_hi"),
    f(7, 31, 0, "int_ctxid"),
];
const RELEASE9: &[Field] = &[
    f(1, 12, 12, "tcl1_vol_action_ena"),
    f(1, 13, 13, "tc_vol_action_ena"),
    f(1, 15, 15, "tc_wb_action_ena"),
    f(1, 16, 16, "tcl1_action_ena"),
    f(1, 17, 17, "tc_action_ena"),
    f(1, 19, 19, "tc_nc_action_ena"),
    f(1, 20, 20, "tc_wc_action_ena"),
    f(1, 21, 21, "tc_md_action_ena"),
];
const RELEASE11: &[Field] = &[
    f(1, 12, 12, "glm_wb"),
    f(1, 13, 13, "glm_inv"),
    f(1, 14, 14, "glv_inv"),
    f(1, 15, 15, "gl1_inv"),
    f(1, 16, 16, "gl2_us"),
    f(1, 18, 17, "gl2_range"),
    f(1, 19, 19, "gl2_discard"),
    f(1, 20, 20, "gl2_inv"),
    f(1, 21, 21, "gl2_wb"),
    f(1, 23, 22, "seq"),
    f(1, 24, 24, "glk_wb"),
    f(1, 30, 30, "glk_inv"),
    f(1, 31, 31, "pws_enable"),
];

const ACQUIRE: &[Field] = &[
    f(2, 31, 0, "coher_size"),
    // 8 bits of these are the field; the kernel itself writes 24 (`gfx_v9_4_3_emit_mem_sync`), so all are taken here and
    // judged with the range.
    f(3, 31, 0, "coher_size_hi"),
    f(4, 31, 0, "coher_base_lo"),
    f(5, 23, 0, "coher_base_hi"),
    f(6, 15, 0, "poll_interval"),
];
const ACQUIRE9: &[Field] = &[
    f(1, 3, 3, "tc_nc_action_ena"),
    f(1, 4, 4, "tc_wc_action_ena"),
    f(1, 5, 5, "tc_inv_metadata_action_ena"),
    f(1, 15, 15, "tcl1_vol_action_ena"),
    f(1, 18, 18, "tc_wb_action_ena"),
    f(1, 22, 22, "tcl1_action_ena"),
    f(1, 23, 23, "tc_action_ena"),
    f(1, 25, 25, "cb_action_ena"),
    f(1, 26, 26, "db_action_ena"),
    f(1, 27, 27, "sh_kcache_action_ena"),
    f(1, 28, 28, "sh_kcache_vol_action_ena"),
    f(1, 29, 29, "sh_icache_action_ena"),
    f(1, 30, 30, "sh_kcache_wb_action_ena"),
];
const ACQUIRE11: &[Field] = &[
    f(7, 1, 0, "gli_inv"),
    f(7, 3, 2, "gl1_range"),
    f(7, 4, 4, "glm_wb"),
    f(7, 5, 5, "glm_inv"),
    f(7, 6, 6, "glk_wb"),
    f(7, 7, 7, "glk_inv"),
    f(7, 8, 8, "glv_inv"),
    f(7, 9, 9, "gl1_inv"),
    f(7, 10, 10, "gl2_us"),
    f(7, 12, 11, "gl2_range"),
    f(7, 13, 13, "gl2_discard"),
    f(7, 14, 14, "gl2_inv"),
    f(7, 15, 15, "gl2_wb"),
    f(7, 17, 16, "seq"),
    f(7, 18, 18, "range_is_pa"),
];

const SET: &[Field] = &[f(1, 15, 0, "reg_offset")];

/// What the packet with this opcode looks like on a chip, given its first words. `None`: no such packet here.
pub(super) fn layout(chip: &Chip, words: &[u32]) -> Option<Layout> {
    let first = bits(words, 1, 31, 0);
    let gfx9 = chip.generation == Generation::Gfx9;
    Some(match opcode(bits(words, 0, 31, 0)) {
        DISPATCH_DIRECT => fixed("DISPATCH_DIRECT", 5, DISPATCH, &[], &[]),
        PRED_EXEC if chip.pred_exec => fixed("PRED_EXEC", 2, PRED, &[], &[]),
        WRITE_DATA => Layout {
            words: (5, 4 + MAX_DATA),
            ..fixed("WRITE_DATA", 5, WRITE, &[], &[])
        },
        WAIT_REG_MEM => {
            let own = match (first >> 4 & 3, first >> 6 & 3) {
                (0, 1) => WAIT_REGISTERS,
                (0, _) => WAIT_REGISTER,
                _ => WAIT_MEMORY,
            };
            let policy = if gfx9 { &[] } else { POLICY };
            fixed("WAIT_REG_MEM", 7, WAIT, own, policy)
        }
        INDIRECT_BUFFER => fixed("INDIRECT_BUFFER", 4, INDIRECT, &[], &[]),
        COPY_DATA => {
            let own = match (first & 0xF, first >> 16 & 1) {
                (0 | 4, _) => COPY_REGISTER,
                (5, 0) => COPY_IMMEDIATE32,
                (5, _) => COPY_IMMEDIATE64,
                (1 | 2, 0) => COPY_MEMORY32,
                (1 | 2, _) => COPY_MEMORY64,
                (_, 0) => COPY_OTHER32,
                _ => COPY_OTHER64,
            };
            fixed("COPY_DATA", 6, COPY, own, &[])
        }
        EVENT_WRITE => fixed("EVENT_WRITE", 2, EVENT, &[], &[]),
        RELEASE_MEM => {
            let own = if gfx9 { RELEASE9 } else { RELEASE11 };
            let address = match bits(words, 2, 31, 29) {
                0 | 1 => ADDRESS32,
                _ => ADDRESS64,
            };
            fixed("RELEASE_MEM", 8, RELEASE, own, address)
        }
        ACQUIRE_MEM if gfx9 => fixed("ACQUIRE_MEM", 7, ACQUIRE, ACQUIRE9, &[]),
        ACQUIRE_MEM => fixed("ACQUIRE_MEM", 8, ACQUIRE, ACQUIRE11, &[]),
        SET_SH_REG => Layout {
            words: (3, 2 + MAX_DATA),
            ..fixed("SET_SH_REG", 3, SET, &[], &[])
        },
        SET_UCONFIG_REG => Layout {
            words: (3, 2 + MAX_DATA),
            ..fixed("SET_UCONFIG_REG", 3, SET, &[], &[])
        },
        _ => return None,
    })
}

/// The opcode of a type-3 header.
pub(super) fn opcode(header: u32) -> u32 {
    header >> 8 & 0xFF
}

/// Words of a packet with this header, itself among them, and whether its body has to be looked at. `None`: a packet type
/// that the engine does not take.
pub(super) fn length(header: u32) -> Option<(u32, bool)> {
    let count = header >> 16 & 0x3FFF;
    match header >> 30 {
        // A filler.
        2 => Some((1, false)),
        // A NOP that is its header alone (`gfx_v11_ring_insert_nop`).
        3 if opcode(header) == NOP && count == 0x3FFF => Some((1, false)),
        3 if opcode(header) == NOP => Some((count + 2, false)),
        3 => Some((count + 2, true)),
        _ => None,
    }
}

/// Bits of a packet's word; 0 if it has no such word.
pub(super) fn bits(words: &[u32], word: usize, high: u32, low: u32) -> u32 {
    (words.get(word).copied().unwrap_or_default() & mask(high, low)) >> low
}

/// An address from two words, low bits as they are.
pub(super) fn address(words: &[u32], low: usize) -> u64 {
    u64::from(bits(words, low, 31, 0)) | u64::from(bits(words, low + 1, 31, 0)) << 32
}

impl Layout {
    /// Checks a packet's header, length and reserved bits.
    pub(super) fn check(&self, words: &[u32]) -> Result<(), Cause> {
        let header = bits(words, 0, 31, 0);
        // Bit 0 predicates a packet, which is for graphics; bit 1 says that the packet is of a compute queue.
        if header & 0xFD != 0 {
            return Err(Cause::Packet(format!(
                "{}: header has reserved bits {:#x}",
                self.name,
                header & 0xFD
            )));
        }
        let (fewest, most) = self.words;
        if !(fewest..=most).contains(&words.len()) {
            return Err(Cause::Packet(format!(
                "{}: {} words, not {fewest}{}",
                self.name,
                words.len(),
                if most == fewest { "" } else { " or more" },
            )));
        }
        // A packet that takes any number of data words has at least one of them.
        let data = fewest - usize::from(fewest != most);
        for (at, &value) in words.iter().enumerate().take(data).skip(1) {
            let known = self
                .fields()
                .filter(|field| field.word == at)
                .fold(0, |all, field| all | mask(field.high, field.low));
            let reserved = value & !known;
            if reserved != 0 {
                return Err(Cause::Packet(format!(
                    "{}: word {at} is {value:#010x}: reserved bits {reserved:#010x}",
                    self.name
                )));
            }
        }
        Ok(())
    }

    fn fields(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().copied().flatten()
    }
}

/// A packet as text: where it is, its words, its fields.
pub(super) fn describe(chip: &Chip, place: &str, at: u64, words: &[u32]) -> String {
    let header = bits(words, 0, 31, 0);
    let layout = layout(chip, words).filter(|_| header >> 30 == 3);
    let mut text = match layout {
        Some(layout) => format!("{} at {at:#x}, {place}", layout.name),
        None if header >> 30 == 3 => format!("opcode {:#04x} at {at:#x}, {place}", opcode(header)),
        None => format!("type-{} header at {at:#x}, {place}", header >> 30),
    };
    // Writing to a string does not fail.
    let _ = write!(text, "\n  words:");
    for word in words.iter().take(SHOWN) {
        let _ = write!(text, " {word:08x}");
    }
    if words.len() > SHOWN {
        let _ = write!(text, " and {} more", words.len() - SHOWN);
    }
    for field in layout.iter().flat_map(Layout::fields) {
        if field.word < words.len() {
            let value = bits(words, field.word, field.high, field.low);
            let _ = write!(text, "\n  {} = {value:#x}", field.name);
        }
    }
    text
}
