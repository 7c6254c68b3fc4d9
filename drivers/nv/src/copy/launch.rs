//! LAUNCH_DMA.

use crate::malformed::Malformed;

/// DATA_TRANSFER_TYPE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Transfer {
    /// NONE: nothing is copied.
    #[default]
    None = 0,
    /// PIPELINED: may overlap with the transfer before.
    Pipelined = 1,
    /// NON_PIPELINED: after the transfer before.
    NonPipelined = 2,
}

/// SEMAPHORE_TYPE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SemaphoreType {
    /// NONE.
    #[default]
    None = 0,
    /// RELEASE_SEMAPHORE_NO_TIMESTAMP: the payload alone.
    Payload = 1,
    /// RELEASE_SEMAPHORE_WITH_TIMESTAMP: 16 bytes, the time in nanoseconds behind 8 bytes of payload.
    PayloadAndTimestamp = 2,
}

/// What a transfer does: LAUNCH_DMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LaunchDma {
    /// Whether it copies.
    pub transfer: Transfer,
    /// FLUSH_ENABLE: makes writes visible to the whole system before the semaphore is written.
    pub flush: bool,
    /// What it writes when it is complete.
    pub semaphore: SemaphoreType,
    /// SEMAPHORE_PAYLOAD_SIZE_TWO_WORD: the payload has 64 bits.
    pub payload64: bool,
    /// INTERRUPT_TYPE_NON_BLOCKING: wakes who sleeps on the channel's event.
    pub interrupt: bool,
    /// SRC_ and DST_MEMORY_LAYOUT_PITCH: both sides are plain bytes.
    pub pitch: bool,
    /// MULTI_LINE_ENABLE: LINE_COUNT lines.
    pub multi_line: bool,
}

mod field {
    pub(super) const FLUSH_ENABLE: u32 = 1 << 2;
    pub(super) const SEMAPHORE_TYPE_SHIFT: u32 = 3;
    pub(super) const INTERRUPT_NON_BLOCKING: u32 = 2 << 5;
    pub(super) const PITCH: u32 = 1 << 7 | 1 << 8;
    pub(super) const MULTI_LINE_ENABLE: u32 = 1 << 9;
    pub(super) const SEMAPHORE_PAYLOAD_SIZE_TWO_WORD: u32 = 1 << 27;
}

impl LaunchDma {
    /// A linear copy.
    pub const COPY: Self = Self {
        transfer: Transfer::NonPipelined,
        flush: false,
        semaphore: SemaphoreType::None,
        payload64: false,
        interrupt: false,
        pitch: true,
        multi_line: false,
    };

    /// A signal: value and timestamp when all transfers before are complete and visible.
    pub const SIGNAL: Self = Self {
        transfer: Transfer::None,
        flush: true,
        semaphore: SemaphoreType::PayloadAndTimestamp,
        payload64: false,
        interrupt: false,
        pitch: false,
        multi_line: false,
    };

    /// The word.
    pub const fn bits(self) -> u32 {
        const fn when(flag: bool, bits: u32) -> u32 {
            if flag { bits } else { 0 }
        }
        self.transfer as u32
            | when(self.flush, field::FLUSH_ENABLE)
            | (self.semaphore as u32) << field::SEMAPHORE_TYPE_SHIFT
            | when(self.interrupt, field::INTERRUPT_NON_BLOCKING)
            | when(self.pitch, field::PITCH)
            | when(self.multi_line, field::MULTI_LINE_ENABLE)
            | when(self.payload64, field::SEMAPHORE_PAYLOAD_SIZE_TWO_WORD)
    }

    /// What a word says.
    ///
    /// # Errors
    /// [`Malformed::Reserved`] for what this driver does not use: block-linear layouts, physical addresses, reductions.
    pub const fn decode(word: u32) -> Result<Self, Malformed> {
        let launch = Self {
            transfer: match word & 3 {
                1 => Transfer::Pipelined,
                2 => Transfer::NonPipelined,
                _ => Transfer::None,
            },
            flush: word & field::FLUSH_ENABLE != 0,
            semaphore: match word >> field::SEMAPHORE_TYPE_SHIFT & 3 {
                1 => SemaphoreType::Payload,
                2 => SemaphoreType::PayloadAndTimestamp,
                _ => SemaphoreType::None,
            },
            payload64: word & field::SEMAPHORE_PAYLOAD_SIZE_TWO_WORD != 0,
            interrupt: word & field::INTERRUPT_NON_BLOCKING != 0,
            pitch: word & field::PITCH == field::PITCH,
            multi_line: word & field::MULTI_LINE_ENABLE != 0,
        };
        // Whatever it does not say is not known.
        if launch.bits() == word {
            Ok(launch)
        } else {
            Err(Malformed::Reserved {
                word: 1,
                value: word,
            })
        }
    }
}

impl core::fmt::Display for LaunchDma {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("LAUNCH_DMA DATA_TRANSFER_TYPE=")?;
        f.write_str(match self.transfer {
            Transfer::None => "NONE",
            Transfer::Pipelined => "PIPELINED",
            Transfer::NonPipelined => "NON_PIPELINED",
        })?;
        for (flag, name) in [
            (self.flush, " FLUSH_ENABLE"),
            (self.pitch, " SRC_PITCH DST_PITCH"),
            (self.multi_line, " MULTI_LINE_ENABLE"),
            (self.interrupt, " INTERRUPT_TYPE=NON_BLOCKING"),
        ] {
            f.write_str(if flag { name } else { "" })?;
        }
        f.write_str(match self.semaphore {
            SemaphoreType::None => "",
            SemaphoreType::Payload => " SEMAPHORE_TYPE=NO_TIMESTAMP",
            SemaphoreType::PayloadAndTimestamp => " SEMAPHORE_TYPE=WITH_TIMESTAMP",
        })?;
        f.write_str(if self.payload64 {
            " SEMAPHORE_PAYLOAD_SIZE=TWO_WORD"
        } else {
            ""
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_have_known_words() {
        assert_eq!(LaunchDma::COPY.bits(), 0x182);
        assert_eq!(LaunchDma::SIGNAL.bits(), 0x14);
        let wide = LaunchDma {
            payload64: true,
            interrupt: true,
            ..LaunchDma::SIGNAL
        };
        assert_eq!(wide.bits(), 0x0800_0054);
    }

    #[test]
    fn words_are_launches_and_themselves_again_or_refused() {
        for word in (0..1 << 14).chain([1 << 14, 1 << 19, 1 << 27, 1 << 31, u32::MAX]) {
            match LaunchDma::decode(word) {
                Ok(launch) => assert_eq!(launch.bits(), word),
                Err(e) => assert_eq!(
                    e,
                    Malformed::Reserved {
                        word: 1,
                        value: word
                    }
                ),
            }
        }
        // One side block-linear; a physical source; an interrupt that blocks.
        for word in [0x82, 0x102, 0x182 | 1 << 12, 0x14 | 1 << 5] {
            assert!(LaunchDma::decode(word).is_err(), "{word:#x}");
        }
    }
}
