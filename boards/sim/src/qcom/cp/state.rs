//! State of the shaders that is loaded: constants, instructions, samplers, descriptors (`CP_LOAD_STATE6`).
//!
//! A load is queued by the front and done when the next launch begins, in the order of the packets. What is loaded from memory is read
//! then and not before, through UCHE, so that bytes that UCHE still has of an earlier use of the same memory are what a program
//! gets. `HLSQ_INVALIDATE_CMD` drops the loads that are queued, and what was loaded before: a program that relies on it gets
//! nothing.

use super::packet::{address, bits};
use super::{Cause, Origin, Stopped};
use crate::exec::ShaderMemory;

/// Bits of `HLSQ_INVALIDATE_CMD`.
pub(super) const CS_STATE: u32 = 1 << 5;
pub(super) const CS_IBO: u32 = 1 << 6;

/// Vectors of four constants that a compute program of A6xx can have.
pub(super) const MAX_CONSTANTS: u32 = 256;
/// Bytes of a unit of instructions.
pub(super) const INSTRUCTION_UNIT: u64 = 128;

/// What is loaded: `a6xx_state_type` with `a6xx_state_block`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Constants,
    Instructions,
    Samplers,
    Textures,
    Images,
}

impl Kind {
    /// Words of a unit.
    fn words(self) -> u32 {
        match self {
            Self::Constants | Self::Samplers => 4,
            Self::Textures | Self::Images => 16,
            Self::Instructions => 32,
        }
    }

    /// Units that there are at most: what `CONSTLEN_256`, `NSAMP`, `NTEX` and `NIBO` can count.
    fn most(self) -> u32 {
        match self {
            Self::Constants => MAX_CONSTANTS,
            Self::Samplers => 31,
            Self::Textures => 255,
            Self::Images => 127,
            Self::Instructions => 1 << 28,
        }
    }

    /// Which bit of `HLSQ_INVALIDATE_CMD` drops it.
    fn bit(self) -> u32 {
        match self {
            Self::Images => CS_IBO,
            Self::Constants | Self::Instructions | Self::Samplers | Self::Textures => CS_STATE,
        }
    }
}

/// Where a load's words are.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Packet(Vec<u32>),
    Memory(u64),
}

/// What happens to the state.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Load {
        kind: Kind,
        first: u32,
        units: u32,
        source: Source,
        origin: Origin,
    },
    Forget(u32),
}

impl Change {
    /// Whether instructions are loaded.
    pub(super) fn loads_code(&self) -> bool {
        matches!(
            self,
            Self::Load {
                kind: Kind::Instructions,
                ..
            }
        )
    }
}

/// Queues what a packet says.
pub(super) fn load(words: &[u32], origin: Origin, queue: &mut Vec<Change>) -> Result<(), Cause> {
    let refuse = |text: String| Err(Cause::Packet(format!("CP_LOAD_STATE6_FRAG: {text}")));
    let (kind, block) = (bits(words, 1, 15, 14), bits(words, 1, 21, 18));
    let kind = match (block, kind) {
        // SB6_CS_TEX
        (0x5, 0) => Kind::Samplers,
        (0x5, 1) => Kind::Textures,
        // SB6_CS_SHADER
        (0xD, 0) => Kind::Instructions,
        (0xD, 1) => Kind::Constants,
        (0xD, 3) => Kind::Images,
        (0xD, 2) => return refuse("ST6_UBO is not simulated".into()),
        _ => {
            return refuse(format!(
                "STATE_BLOCK {block:#x} with STATE_TYPE {kind} is none of compute programs"
            ));
        }
    };
    let (first, units) = (bits(words, 1, 13, 0), bits(words, 1, 31, 22));
    if units == 0 {
        return refuse("NUM_UNIT is 0".into());
    }
    if first + units > kind.most() {
        return refuse(format!(
            "units {first} to {} of {kind:?}; there are {}",
            first + units - 1,
            kind.most()
        ));
    }
    let at = address(words, 2);
    let data = words.get(4..).unwrap_or_default();
    let source = match bits(words, 1, 17, 16) {
        // SS6_DIRECT
        0 => {
            if data.len() as u64 != u64::from(units) * u64::from(kind.words()) {
                return refuse(format!(
                    "{} words of data; {units} units of {kind:?} have {}",
                    data.len(),
                    u64::from(units) * u64::from(kind.words())
                ));
            }
            if kind == Kind::Instructions {
                return refuse("instructions within a packet are not simulated".into());
            }
            Source::Packet(data.to_vec())
        }
        // SS6_INDIRECT
        2 => {
            if !data.is_empty() {
                return refuse(format!("{} words behind the address", data.len()));
            }
            if !at.is_multiple_of(16) {
                return refuse(format!("{at:#x} is no multiple of 16"));
            }
            Source::Memory(at)
        }
        other => return refuse(format!("STATE_SRC {other} is not simulated")),
    };
    if kind == Kind::Instructions && first != 0 {
        return refuse("instructions that are not the program's first are not simulated".into());
    }
    queue.push(Change::Load {
        kind,
        first,
        units,
        source,
        origin,
    });
    Ok(())
}

/// A write to `HLSQ_INVALIDATE_CMD`.
pub(super) fn invalidate(value: u32, queue: &mut Vec<Change>) {
    let gone = value & (CS_STATE | CS_IBO);
    if gone == 0 {
        return;
    }
    queue.retain(|change| match change {
        Change::Load { kind, .. } => kind.bit() & gone == 0,
        Change::Forget(_) => true,
    });
    queue.push(Change::Forget(gone));
}

/// What was loaded.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) constants: Vec<u32>,
    /// Where the instructions are.
    pub(super) program: Option<u64>,
    pub(super) samplers: Vec<Option<[u32; 4]>>,
    pub(super) textures: Vec<Option<[u32; 16]>>,
    pub(super) images: Vec<Option<[u32; 16]>>,
}

fn read(memory: &mut dyn ShaderMemory, at: u64, words: &mut [u32]) -> Result<(), Cause> {
    let mut bytes = vec![0; 4 * words.len()];
    memory.load_scalar(at, &mut bytes)?;
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    Ok(())
}

/// Puts units of `N` words to their places.
fn place<const N: usize>(to: &mut Vec<Option<[u32; N]>>, first: u32, words: &[u32]) {
    let units = words.as_chunks::<N>().0;
    let end = first as usize + units.len();
    if to.len() < end {
        to.resize(end, None);
    }
    for (to, unit) in to.iter_mut().skip(first as usize).zip(units) {
        *to = Some(*unit);
    }
}

/// Descriptors of a program: as loaded, and from the table where they were not.
pub(super) fn descriptors<const N: usize>(
    loaded: &[Option<[u32; N]>],
    count: u32,
    table: Option<u64>,
    memory: &mut dyn ShaderMemory,
    what: &str,
) -> Result<Vec<[u32; N]>, Cause> {
    let mut all = Vec::new();
    for i in 0..count as usize {
        all.push(match (loaded.get(i), table) {
            (Some(&Some(words)), _) => words,
            (_, Some(table)) => {
                let mut words = [0; N];
                read(memory, table.wrapping_add((4 * N * i) as u64), &mut words)?;
                words
            }
            (_, None) => {
                return Err(Cause::Launch(format!(
                    "{what} {i} of {count} was not loaded, and their base address is not set"
                )));
            }
        });
    }
    Ok(all)
}

impl State {
    /// Does what was queued, in order.
    pub(super) fn apply(
        &mut self,
        changes: Vec<Change>,
        memory: &mut dyn ShaderMemory,
    ) -> Result<(), Stopped> {
        for change in changes {
            match change {
                Change::Forget(bits) => self.forget(bits),
                Change::Load {
                    kind,
                    first,
                    units,
                    source,
                    origin,
                } => self
                    .load(kind, first, units, &source, memory)
                    .map_err(|cause| Stopped::new(cause, &origin))?,
            }
        }
        Ok(())
    }

    fn forget(&mut self, bits: u32) {
        if bits & CS_STATE != 0 {
            self.constants.clear();
            self.program = None;
            self.samplers.clear();
            self.textures.clear();
        }
        if bits & CS_IBO != 0 {
            self.images.clear();
        }
    }

    fn load(
        &mut self,
        kind: Kind,
        first: u32,
        units: u32,
        source: &Source,
        memory: &mut dyn ShaderMemory,
    ) -> Result<(), Cause> {
        if let (Kind::Instructions, Source::Memory(at)) = (kind, source) {
            self.program = Some(*at);
            return Ok(());
        }
        let mut read_words = Vec::new();
        let words = match source {
            Source::Packet(words) => words,
            Source::Memory(at) => {
                read_words.resize((units * kind.words()) as usize, 0);
                read(memory, *at, &mut read_words)?;
                &read_words
            }
        };
        match kind {
            Kind::Constants => {
                let (start, end) = (4 * first as usize, 4 * (first + units) as usize);
                if self.constants.len() < end {
                    self.constants.resize(end, 0);
                }
                for (to, from) in self.constants.iter_mut().skip(start).zip(words) {
                    *to = *from;
                }
            }
            Kind::Samplers => place(&mut self.samplers, first, words),
            Kind::Textures => place(&mut self.textures, first, words),
            Kind::Images => place(&mut self.images, first, words),
            Kind::Instructions => {}
        }
        Ok(())
    }
}
