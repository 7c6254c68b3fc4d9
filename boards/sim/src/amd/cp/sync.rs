//! Cache actions and end-of-pipe events: what the bits of `ACQUIRE_MEM` and `RELEASE_MEM` ask for.
//!
//! | bits | action |
//! |---|---|
//! | gfx9 `SH_ICACHE_ACTION`, gfx11+ `GLI_INV` | instructions are forgotten |
//! | gfx9 `SH_KCACHE_ACTION`, gfx11+ `GLK_INV` | scalar data is forgotten |
//! | gfx9 `TCL1_ACTION`, gfx11 `GLV_INV` and `GL1_INV` together, gfx12 `GLV_INV` | vector data is forgotten |
//! | gfx9 `TC_WB_ACTION`, gfx11+ `GL2_WB` | the L2's stores are written to memory |
//! | gfx9 `TC_ACTION`, gfx11+ `GL2_INV` | the L2's copies are forgotten |
//!
//! On gfx11 the L0 and the L1 behind it are one here, so that one of the two bits alone, which leaves the old bytes in the
//! other cache, does nothing. `TC_NC_ACTION` limits an action to lines of non-coherent pages, which are all that may be stale or
//! have to be written for others to see; the `_VOL` bits to volatile lines, of which there are none. Metadata caches and those
//! of graphics (`CB`, `DB`, `GLM`) hold nothing. Write-backs come before invalidations.
//!
//! The caches here know no ranges: `ACQUIRE_MEM` has to name all of memory on gfx9; from gfx11 on its range counts only with
//! the `*_RANGE` fields, which have to say "all".

use super::Cause;
use super::chip::{Chip, Generation};
use super::layout::{address, bits};
use super::memory;
use crate::cache::Levels;
use crate::engine::{Host, Parts};

/// Levels to write back, then levels to invalidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheActions {
    pub(super) write_back: Levels,
    pub(super) invalidate: Levels,
}

impl CacheActions {
    pub(super) const NONE: Self = Self {
        write_back: Levels::empty(),
        invalidate: Levels::empty(),
    };

    pub(super) fn apply(self, xcc: u8, host: &mut dyn Host) -> Result<(), Cause> {
        let Parts { vm, caches, .. } = host.parts();
        if !self.write_back.is_empty() {
            caches.write_back(xcc, self.write_back, vm)?;
        }
        if !self.invalidate.is_empty() {
            caches.invalidate(xcc, self.invalidate, vm)?;
        }
        Ok(())
    }
}

fn refuse<T>(text: impl Into<String>) -> Result<T, Cause> {
    Err(Cause::Packet(text.into()))
}

/// Levels that are asked for by single bits of a word.
fn levels(words: &[u32], word: usize, of: &[(u32, Levels)]) -> Levels {
    of.iter()
        .filter(|&&(bit, _)| bits(words, word, bit, bit) != 0)
        .fold(Levels::empty(), |all, &(_, level)| all | level)
}

/// gfx11 and up: `GLV_INV` and `GL1_INV` as bits of a word.
fn vector(chip: &Chip, words: &[u32], word: usize, l0: u32, l1: u32) -> Levels {
    let set = |bit| bits(words, word, bit, bit) != 0;
    if set(l0) && (set(l1) || !chip.gl1) {
        Levels::VECTOR
    } else {
        Levels::empty()
    }
}

/// What `ACQUIRE_MEM` does.
pub(super) fn acquire(chip: &Chip, words: &[u32]) -> Result<CacheActions, Cause> {
    let size_hi = bits(words, 3, 31, 0);
    // The kernel fills the whole word, of which the hardware has 8 bits; anything else up there is a mistake.
    let all = bits(words, 2, 31, 0) == u32::MAX && matches!(size_hi, 0xFF | 0x00FF_FFFF | u32::MAX);
    if size_hi > 0xFF && !all {
        return refuse(format!(
            "ACQUIRE_MEM: coher_size_hi is {size_hi:#x}; it has 8 bits"
        ));
    }
    if chip.generation == Generation::Gfx9 {
        if !all || address(words, 4) != 0 {
            return refuse(
                "ACQUIRE_MEM: a range in units of 256 bytes that is not all of memory (0, 0xff:ffffffff) is not simulated",
            );
        }
        return Ok(CacheActions {
            write_back: levels(words, 1, &[(18, Levels::L2), (30, Levels::SCALAR)]),
            invalidate: levels(
                words,
                1,
                &[
                    (22, Levels::VECTOR),
                    (23, Levels::L2),
                    (27, Levels::SCALAR),
                    (29, Levels::INSTRUCTION),
                ],
            ),
        });
    }
    if bits(words, 7, 17, 16) == 3 {
        return refuse("ACQUIRE_MEM: seq = 3 is reserved");
    }
    let instructions = match bits(words, 7, 1, 0) {
        0 => Levels::empty(),
        1 => Levels::INSTRUCTION,
        range => {
            return refuse(format!(
                "ACQUIRE_MEM: gli_inv = {range}: ranges are not simulated"
            ));
        }
    };
    let ranged = bits(words, 7, 3, 2) | bits(words, 7, 12, 11) | bits(words, 7, 18, 18);
    if ranged != 0 {
        return refuse(
            "ACQUIRE_MEM: gl1_range, gl2_range and range_is_pa have to be 0: ranges are not simulated",
        );
    }
    if bits(words, 7, 13, 13) | bits(words, 7, 10, 10) != 0 {
        return refuse("ACQUIRE_MEM: gl2_discard and gl2_us are not simulated");
    }
    Ok(CacheActions {
        write_back: levels(words, 7, &[(6, Levels::SCALAR), (15, Levels::L2)]),
        invalidate: levels(words, 7, &[(7, Levels::SCALAR), (14, Levels::L2)])
            | instructions
            | vector(chip, words, 7, 8, 9),
    })
}

/// What an event writes at the end of the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    None,
    Low32(u32),
    All64(u64),
    Clock,
}

/// `RELEASE_MEM`, waiting for its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Release {
    actions: CacheActions,
    address: u64,
    data: Data,
    interrupt: Option<u32>,
}

/// What `RELEASE_MEM` asks for.
pub(super) fn release(chip: &Chip, words: &[u32]) -> Result<Release, Cause> {
    // VGT_EVENT_TYPE of `soc21_enum.h`: events that leave a time stamp at the end of the pipe, and CS_DONE.
    match (bits(words, 1, 5, 0), bits(words, 1, 11, 8)) {
        (0x04 | 0x14 | 0x28, 5) | (0x2F, 6) => {}
        (event, index) => {
            return refuse(format!(
                "RELEASE_MEM: event_type {event:#x} with event_index {index}: compute takes 0x14, 0x4 and 0x28 with index 5 \
                 (end of pipe), 0x2f with index 6"
            ));
        }
    }
    let policies = if chip.generation == Generation::Gfx9 {
        1
    } else {
        3
    };
    if bits(words, 1, 26, 25) > policies {
        return refuse("RELEASE_MEM: cache_policy is reserved on this chip");
    }
    if bits(words, 1, 28, 28) != 0 {
        return refuse("RELEASE_MEM: pq_exe_status is not simulated");
    }
    let actions = if chip.generation == Generation::Gfx9 {
        CacheActions {
            write_back: levels(words, 1, &[(15, Levels::L2)]),
            invalidate: levels(words, 1, &[(16, Levels::VECTOR), (17, Levels::L2)]),
        }
    } else {
        if bits(words, 1, 31, 31) != 0 {
            return refuse("RELEASE_MEM: pws_enable is for graphics");
        }
        if bits(words, 1, 23, 22) == 3 {
            return refuse("RELEASE_MEM: seq = 3 is reserved");
        }
        if bits(words, 1, 19, 16) != 0 {
            return refuse("RELEASE_MEM: gl2_us, gl2_range and gl2_discard are not simulated");
        }
        CacheActions {
            write_back: levels(words, 1, &[(21, Levels::L2), (24, Levels::SCALAR)]),
            invalidate: levels(words, 1, &[(20, Levels::L2), (30, Levels::SCALAR)])
                | vector(chip, words, 1, 14, 15),
        }
    };
    if bits(words, 2, 17, 16) != 0 {
        return refuse(
            "RELEASE_MEM: dst_sel other than 0, the memory controller, is not simulated",
        );
    }
    let data = match bits(words, 2, 31, 29) {
        0 => Data::None,
        1 => Data::Low32(bits(words, 5, 31, 0)),
        2 => Data::All64(address(words, 5)),
        3 => Data::Clock,
        other => return refuse(format!("RELEASE_MEM: data_sel {other} is not simulated")),
    };
    let interrupt = match bits(words, 2, 26, 24) {
        0 | 3 => None,
        1 if data != Data::None => {
            return refuse("RELEASE_MEM: int_sel 1, the interrupt alone, needs data_sel 0");
        }
        1 | 2 => Some(bits(words, 7, 31, 0)),
        other => return refuse(format!("RELEASE_MEM: int_sel {other} is not simulated")),
    };
    Ok(Release {
        actions,
        address: address(words, 3),
        data,
        interrupt,
    })
}

impl Release {
    /// Caches first, then the data, then the interrupt.
    pub(super) fn fire(&self, xcc: u8, host: &mut dyn Host) -> Result<(), Cause> {
        self.actions.apply(xcc, host)?;
        let clock = host.clock();
        match self.data {
            Data::None => {}
            Data::Low32(value) => memory::write_u32(host.vm(), self.address, value)?,
            Data::All64(value) => memory::write_u64(host.vm(), self.address, value)?,
            Data::Clock => memory::write_u64(host.vm(), self.address, clock)?,
        }
        if let Some(context) = self.interrupt {
            host.interrupt(context);
        }
        Ok(())
    }
}
