//! AQL packets as fields (`hsa.h`, `hsa_ext_amd.h`).

use std::fmt::Write as _;

use super::Cause;
use crate::amd::cp::chip::Chip;
use crate::amd::cp::layout::{self, address, bits};

/// `HSA_PACKET_TYPE_INVALID`: a slot that is not written yet.
pub(super) const INVALID: u32 = 1;
/// `HSA_FENCE_SCOPE_AGENT`.
pub(super) const AGENT: u32 = 1;
/// `HSA_FENCE_SCOPE_SYSTEM`.
pub(super) const SYSTEM: u32 = 2;

/// A packet, but for what only a kernel dispatch has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) kind: Kind,
    pub(super) barrier: bool,
    /// Scopes of the fences.
    pub(super) acquire: u32,
    pub(super) release: u32,
    /// `completion_signal`.
    pub(super) signal: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `hsa_kernel_dispatch_packet_t`.
    Kernel,
    /// `hsa_barrier_and_packet_t`, with its signals.
    And([u64; 5]),
    /// `hsa_barrier_or_packet_t`, with its signals.
    Or([u64; 5]),
    /// `hsa_amd_barrier_value_packet_t`.
    Value {
        signal: u64,
        value: u64,
        mask: u64,
        condition: u32,
    },
    /// A vendor packet with an `INDIRECT_BUFFER` packet in it (`AqlQueue::ExecutePM4`).
    Buffer([u32; 4]),
}

/// Names of the reserved words of each type: word, bits that have to be 0.
const KERNEL: &[(usize, u32)] = &[
    (0, 0xFFFC_0000),
    (2, 0xFFFF_0000),
    (12, u32::MAX),
    (13, u32::MAX),
];
const BARRIER: &[(usize, u32)] = &[
    (0, 0xFFFF_0000),
    (1, u32::MAX),
    (12, u32::MAX),
    (13, u32::MAX),
];
const VALUE: &[(usize, u32)] = &[
    (0, 0xFF00_0000),
    (1, u32::MAX),
    (9, u32::MAX),
    (10, u32::MAX),
    (11, u32::MAX),
    (12, u32::MAX),
    (13, u32::MAX),
];
const BUFFER: &[(usize, u32)] = &[
    (0, 0xFF00_0000),
    (6, u32::MAX),
    (7, u32::MAX),
    (8, u32::MAX),
    (9, u32::MAX),
    (10, u32::MAX),
    (11, u32::MAX),
    (12, u32::MAX),
    (13, u32::MAX),
];

/// Words of the slot that follow the indirect buffer's packet, as `dw_cnt_remain` counts them.
const REMAIN: u32 = 10;

fn refuse<T>(text: String) -> Result<T, Cause> {
    Err(Cause::Packet(text))
}

fn reserved(words: &[u32; 16], of: &[(usize, u32)]) -> Result<(), Cause> {
    for &(word, mask) in of {
        let extra = bits(words, word, 31, 0) & mask;
        if extra != 0 {
            return refuse(format!("word {word} has reserved bits {extra:#010x}"));
        }
    }
    Ok(())
}

impl Packet {
    /// Reads a packet whose header is valid.
    pub(super) fn read(words: &[u32; 16]) -> Result<Self, Cause> {
        let header = bits(words, 0, 15, 0);
        if header >> 13 != 0 {
            return refuse(format!("header {header:#06x} has reserved bits"));
        }
        let (acquire, release) = (header >> 9 & 3, header >> 11 & 3);
        if acquire == 3 || release == 3 {
            return refuse(format!("header {header:#06x}: fence scope 3 is reserved"));
        }
        let signals = || [2, 4, 6, 8, 10].map(|word| address(words, word));
        let kind = match header & 0xFF {
            0 => match bits(words, 0, 23, 16) {
                1 => {
                    reserved(words, BUFFER)?;
                    let remain = bits(words, 5, 31, 0);
                    if remain != REMAIN {
                        return refuse(format!("dw_cnt_remain is {remain}, not {REMAIN}"));
                    }
                    Kind::Buffer([1, 2, 3, 4].map(|word| bits(words, word, 31, 0)))
                }
                2 => {
                    reserved(words, VALUE)?;
                    let condition = bits(words, 8, 31, 0);
                    if condition > 3 {
                        return refuse(format!("cond is {condition}"));
                    }
                    Kind::Value {
                        signal: address(words, 2),
                        value: address(words, 4),
                        mask: address(words, 6),
                        condition,
                    }
                }
                format => return refuse(format!("vendor packet of AMD format {format}")),
            },
            2 => {
                reserved(words, KERNEL)?;
                Kind::Kernel
            }
            3 => {
                reserved(words, BARRIER)?;
                Kind::And(signals())
            }
            5 => {
                reserved(words, BARRIER)?;
                Kind::Or(signals())
            }
            other => return refuse(format!("packets of type {other} are none of this queue")),
        };
        Ok(Self {
            kind,
            barrier: header >> 8 & 1 != 0,
            acquire,
            release,
            signal: address(words, 14),
        })
    }
}

/// A packet as text.
pub(super) fn describe(chip: &Chip, index: u64, at: u64, words: &[u32; 16]) -> String {
    let header = bits(words, 0, 15, 0);
    let name = match (header & 0xFF, bits(words, 0, 23, 16)) {
        (0, 1) => "vendor packet, PM4 buffer",
        (0, 2) => "vendor packet, barrier value",
        (0, _) => "vendor packet",
        (2, _) => "kernel dispatch",
        (3, _) => "barrier-AND",
        (5, _) => "barrier-OR",
        _ => "AQL packet",
    };
    let mut text = format!("{name} {index} at {at:#x}\n  words:");
    // Writing to a string does not fail.
    for word in words {
        let _ = write!(text, " {word:08x}");
    }
    let mut field = |name: &str, value: u64| {
        let _ = write!(text, "\n  {name} = {value:#x}");
    };
    field("type", u64::from(header & 0xFF));
    field("barrier", u64::from(header >> 8 & 1));
    field("scacquire_fence_scope", u64::from(header >> 9 & 3));
    field("screlease_fence_scope", u64::from(header >> 11 & 3));
    let narrow = |word, high, low| u64::from(bits(words, word, high, low));
    match header & 0xFF {
        2 => {
            field("setup.dimensions", narrow(0, 17, 16));
            field("workgroup_size_x", narrow(1, 15, 0));
            field("workgroup_size_y", narrow(1, 31, 16));
            field("workgroup_size_z", narrow(2, 15, 0));
            field("grid_size_x", narrow(3, 31, 0));
            field("grid_size_y", narrow(4, 31, 0));
            field("grid_size_z", narrow(5, 31, 0));
            field("private_segment_size", narrow(6, 31, 0));
            field("group_segment_size", narrow(7, 31, 0));
            field("kernel_object", address(words, 8));
            field("kernarg_address", address(words, 10));
        }
        3 | 5 => {
            for signal in 0..5 {
                field(
                    &format!("dep_signal[{signal}]"),
                    address(words, 2 + 2 * signal),
                );
            }
        }
        _ => {}
    }
    field("completion_signal", address(words, 14));
    if header & 0xFF == 0 && bits(words, 0, 23, 16) == 1 {
        let call = [1, 2, 3, 4].map(|word| bits(words, word, 31, 0));
        let inner = layout::describe(chip, "in the packet", at.wrapping_add(4), &call);
        let _ = write!(text, "\n  {}", inner.replace('\n', "\n  "));
    }
    text
}
