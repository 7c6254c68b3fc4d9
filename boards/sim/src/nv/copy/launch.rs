//! What `LAUNCH_DMA` asks for.

use super::super::semaphore::{Reduction, Release};
use super::methods::offset;
use super::{Cause, Registers};

fn refuse<T>(text: String) -> Result<T, Cause> {
    Err(Cause::Launch(text))
}

/// How a launch stands to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// It moves nothing, and waits for nothing.
    Nothing,
    /// It may begin before those before it have ended.
    Pipelined,
    /// It begins when all before it have ended.
    AfterAll,
}

/// Where a component of the destination comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Component {
    Source(u8),
    Constant(u32),
    NoWrite,
}

/// Elements of another shape in the destination than in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remap {
    components: [Component; 4],
    /// Bytes of a component.
    size: usize,
    sources: usize,
    destinations: usize,
}

impl Remap {
    /// Bytes of an element in the source.
    pub(super) fn source_bytes(&self) -> u64 {
        (self.size * self.sources) as u64
    }

    /// Bytes of an element in the destination.
    pub(super) fn destination_bytes(&self) -> u64 {
        (self.size * self.destinations) as u64
    }

    /// Whether the source is read at all.
    pub(super) fn reads(&self) -> bool {
        self.used().any(|c| matches!(c, Component::Source(_)))
    }

    /// Whether what is in the destination has to be kept in part.
    pub(super) fn keeps(&self) -> bool {
        self.used().any(|c| matches!(c, Component::NoWrite))
    }

    fn used(&self) -> impl Iterator<Item = &Component> {
        self.components.iter().take(self.destinations)
    }

    /// Makes an element of the destination out of one of the source.
    pub(super) fn element(&self, source: &[u8], destination: &mut [u8]) {
        let parts = destination.chunks_mut(self.size);
        for (to, component) in parts.zip(self.used()) {
            match component {
                Component::Source(at) => {
                    let first = usize::from(*at) * self.size;
                    if let Some(from) = source.get(first..first + to.len()) {
                        to.copy_from_slice(from);
                    }
                }
                Component::Constant(value) => {
                    for (byte, from) in to.iter_mut().zip(value.to_le_bytes()) {
                        *byte = from;
                    }
                }
                Component::NoWrite => {}
            }
        }
    }
}

/// A launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    pub(super) order: Order,
    /// `FLUSH_ENABLE`: the semaphore is written after everything before it is in memory.
    pub(super) flush: bool,
    pub(super) source: u64,
    pub(super) destination: u64,
    /// Bytes from one line to the next.
    pub(super) source_pitch: u64,
    pub(super) destination_pitch: u64,
    /// Elements of a line; an element has one byte without `remap`.
    pub(super) length: u64,
    pub(super) lines: u64,
    pub(super) remap: Option<Remap>,
    pub(super) semaphore: Option<Release>,
    pub(super) interrupt: bool,
}

impl Launch {
    /// Reads the registers and `LAUNCH_DMA`.
    ///
    /// # Errors
    /// [`Cause::Launch`].
    pub(super) fn read(registers: &Registers, data: u32) -> Result<Self, Cause> {
        let bit = |at: u32| data >> at & 1 != 0;
        let wide = |high, low| u64::from(registers.get(low)) | u64::from(registers.get(high)) << 32;
        let order = match data & 3 {
            0 => Order::Nothing,
            1 => Order::Pipelined,
            2 => Order::AfterAll,
            other => return refuse(format!("DATA_TRANSFER_TYPE {other} is not simulated")),
        };
        if bit(12) || bit(13) {
            return refuse(
                "SRC_TYPE or DST_TYPE is PHYSICAL: the channel has no privileges".into(),
            );
        }
        // On Hopper and later COPY_TYPE and MEMORY_SCRUB_ENABLE are here too; RESERVED_ERR_CODE is the engine's own.
        let other = data & 0xF0F0_0000;
        if other != 0 {
            return refuse(format!("bits {other:#x} are not simulated"));
        }
        if order != Order::Nothing && !(bit(7) && bit(8)) {
            return refuse("a memory layout other than PITCH is not simulated".into());
        }
        let lines = if bit(9) {
            registers.get(offset::LINE_COUNT).into()
        } else {
            1
        };
        let remap = match bit(10) {
            true => Some(Self::remap(registers)?),
            false => None,
        };
        let interrupt = match data >> 5 & 3 {
            0 => false,
            2 => true,
            other => return refuse(format!("INTERRUPT_TYPE {other} is not simulated")),
        };
        Ok(Self {
            order,
            flush: bit(2),
            source: wide(offset::OFFSET_IN_UPPER, offset::OFFSET_IN_LOWER),
            destination: wide(offset::OFFSET_OUT_UPPER, offset::OFFSET_OUT_LOWER),
            source_pitch: pitch(registers.get(offset::PITCH_IN)),
            destination_pitch: pitch(registers.get(offset::PITCH_OUT)),
            length: registers.get(offset::LINE_LENGTH_IN).into(),
            lines,
            remap,
            semaphore: Self::semaphore(registers, data)?,
            interrupt,
        })
    }

    fn remap(registers: &Registers) -> Result<Remap, Cause> {
        let value = registers.get(offset::SET_REMAP_COMPONENTS);
        let count = |at: u32| (value >> at & 3) as usize + 1;
        let mut components = [Component::NoWrite; 4];
        let sources = count(20);
        for (at, component) in (0..).zip(&mut components) {
            *component = match value >> (4 * at) & 7 {
                source @ 0..=3 => Component::Source(source as u8),
                4 => Component::Constant(registers.get(offset::SET_REMAP_CONST_A)),
                5 => Component::Constant(registers.get(offset::SET_REMAP_CONST_B)),
                6 => Component::NoWrite,
                other => return refuse(format!("component {at} of the remap is {other}")),
            };
        }
        let remap = Remap {
            components,
            size: count(16),
            sources,
            destinations: count(24),
        };
        let missing = remap.used().any(|component| match component {
            Component::Source(at) => usize::from(*at) >= sources,
            Component::Constant(_) | Component::NoWrite => false,
        });
        if missing {
            return refuse(format!(
                "the remap {value:#x} takes a component that its {sources} of the source do not have"
            ));
        }
        Ok(remap)
    }

    fn semaphore(registers: &Registers, data: u32) -> Result<Option<Release>, Cause> {
        let wide_payload = data >> 27 & 1 != 0;
        let timestamp = match data >> 3 & 3 {
            0 => return Ok(None),
            1 => false,
            2 => true,
            _ => return refuse("RELEASE_CONDITIONAL_INTR_SEMAPHORE is not simulated".into()),
        };
        let reduction = if data >> 19 & 1 == 0 {
            None
        } else {
            let number = data >> 14 & 0xF;
            match Reduction::of_host(number) {
                // SEMAPHORE_REDUCTION_SIGN_SIGNED is 0.
                Some(reduction) => Some((reduction, data >> 18 & 1 == 0)),
                None => return refuse(format!("SEMAPHORE_REDUCTION {number:#x} is not simulated")),
            }
        };
        let get = |at| u64::from(registers.get(at));
        let release = Release {
            address: get(offset::SET_SEMAPHORE_A) << 32 | get(offset::SET_SEMAPHORE_B),
            payload: get(offset::SET_SEMAPHORE_PAYLOAD)
                | get(offset::SET_SEMAPHORE_PAYLOAD_UPPER) << 32,
            wide: wide_payload,
            timestamp,
            reduction,
        };
        release.check()?;
        Ok(Some(release))
    }
}

/// Pitches are signed.
fn pitch(value: u32) -> u64 {
    i64::from(value.cast_signed()).cast_unsigned()
}
