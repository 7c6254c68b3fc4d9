//! GP entries and pushbuffer instructions (`dev_pbdma.ref.txt`, `NV_PPBDMA_GP_ENTRY*`; `clc76f.h`, `NVC76F_DMA_*`).

use super::{Cause, Classes};

/// What a GP entry asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A segment of the pushbuffer: its address without the extended base, and its words.
    Segment { address: u64, words: u32 },
    /// `SET_PB_SEGMENT_EXTENDED_BASE`: bits 56:40 of the segments' addresses from here on.
    ExtendedBase(u64),
    /// Nothing.
    Nop,
}

fn refuse<T>(text: String) -> Result<T, Cause> {
    Err(Cause::Packet(text))
}

/// Reads a GP entry.
pub(super) fn entry(classes: &Classes, value: u64) -> Result<Entry, Cause> {
    let (low, high) = (value as u32, (value >> 32) as u32);
    let words = high >> 10 & 0x1F_FFFF;
    if high & 1 << 8 != 0 {
        return refuse(format!("reserved bit 40 of the GP entry {value:#018x}"));
    }
    if words == 0 {
        // A control entry. Its operand is all of the lower word; without a segment LEVEL says nothing.
        return match high & 0xFF {
            0 => Ok(Entry::Nop),
            4 if classes.wide => {
                if low & !0x01FF_FF00 != 0 {
                    return refuse(format!("reserved bits of the operand {low:#x}"));
                }
                Ok(Entry::ExtendedBase(u64::from(low >> 8) << 40))
            }
            opcode @ (2 | 3) => refuse(format!("control entry {opcode}: CRCs are not simulated")),
            opcode => refuse(format!(
                "a GP entry without words is a control entry, and {opcode:#x} is no opcode of one"
            )),
        };
    }
    if low & 2 != 0 {
        return refuse(format!("reserved bit 1 of the GP entry {value:#018x}"));
    }
    // FETCH_CONDITIONAL: no subdevice is ever masked here, so that its condition holds.
    let address = u64::from(low & !3) | u64::from(high & 0xFF) << 32;
    if address + 4 * u64::from(words) >= 1 << 40 {
        return refuse(format!(
            "{words} words from {address:#x} on reach the end of what a GP entry can name"
        ));
    }
    Ok(Entry::Segment { address, words })
}

/// Which methods the words after a header go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advance {
    /// Each to the next.
    Each,
    /// All to the same.
    Never,
    /// The first to one, all others to the next.
    Once,
}

/// A method header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    Nop,
    /// `END_PB_SEGMENT`: the rest of the segment is not looked at.
    End,
    /// Words for methods: the first method's byte offset.
    Methods {
        subchannel: u8,
        method: u16,
        count: u32,
        advance: Advance,
    },
    /// A word that is in the header.
    Immediate {
        subchannel: u8,
        method: u16,
        data: u32,
    },
}

/// Reads a method header.
pub(super) fn header(word: u32) -> Result<Header, Cause> {
    let subchannel = (word >> 13 & 7) as u8;
    // 12 bits of a count of dwords.
    let method = (word << 2 & 0x3FFC) as u16;
    let count = word >> 16 & 0x1FFF;
    let advance = match word >> 29 {
        0 if word == 0 => return Ok(Header::Nop),
        0 => {
            return refuse(match word >> 16 & 3 {
                1..=3 => {
                    format!("header {word:#010x}: masks of subdevices are not enabled on a channel")
                }
                _ => format!("header {word:#010x} has the obsolete format"),
            });
        }
        1 => Advance::Each,
        3 => Advance::Never,
        4 => {
            reserved(word)?;
            return Ok(Header::Immediate {
                subchannel,
                method,
                data: count,
            });
        }
        5 => Advance::Once,
        7 => return Ok(Header::End),
        2 => return refuse(format!("header {word:#010x} has the obsolete format")),
        _ => return refuse(format!("header {word:#010x} is of no kind")),
    };
    reserved(word)?;
    let last = match advance {
        Advance::Each => count.saturating_sub(1),
        Advance::Never => 0,
        Advance::Once => count.saturating_sub(1).min(1),
    };
    if u32::from(method) + 4 * last > 0x3FFC {
        return refuse(format!(
            "header {word:#010x}: {count} methods from {method:#x} on go past the last method, 0x3ffc"
        ));
    }
    Ok(Header::Methods {
        subchannel,
        method,
        count,
        advance,
    })
}

/// Bit 12 lies between the method and the subchannel.
fn reserved(word: u32) -> Result<(), Cause> {
    if word & 1 << 12 != 0 {
        return refuse(format!("header {word:#010x} has its reserved bit 12 set"));
    }
    Ok(())
}
