//! Host functions that stand in for the machine code of known programs.
//!
//! There is no interpreter of AMD's instructions here. A *stand-in* is a Rust function that does to memory what one program
//! does; it is chosen by the machine code that lies at the launch's address, and by nothing else: the code that the driver
//! uploaded, relocated and made visible to the instruction cache has to be there, byte by byte, and the registers of the launch
//! have to be those of its descriptor. Whatever comes between a program and its result stays as it is on a GPU: arguments are
//! read through the scalar cache from where the user registers point, data goes through the vector cache and the L2.
//!
//! A stand-in proves nothing about machine code; it shows that a launch reached the right program with the right data.
//!
//! ```
//! use hcq_sim::standin::StandIns;
//!
//! let mut programs = StandIns::stock();
//! # let object: &[u8] = &[];
//! let result = programs.register(object, &[("double", |group| {
//!     let (data, n) = (group.u64_at(0), group.u32_at(8));
//!     for i in group.items_below(n) {
//!         let at = data + 4 * u64::from(i);
//!         let value = group.load_u32(at)?;
//!         group.store_u32(at, value * 2)?;
//!     }
//!     Ok(())
//! })]);
//! assert!(result.is_err(), "no object");
//! ```

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::engine::Cause;
use crate::exec::{Dispatch, Executor, Kernel, ShaderMemory};

mod object;
mod stock;
mod table;

pub use object::ObjectError;
use object::{Descriptor, Program};

/// Does to memory what a program's work-group does.
pub type StandIn = fn(&mut Group<'_>) -> Result<(), Cause>;

/// Why stand-ins were not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The object cannot be used.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The object has no program of this name.
    #[error("the object has no program `{0}`")]
    NoProgram(String),
}

/// A program by its machine code.
#[derive(Clone, Debug)]
struct Known {
    target: Cow<'static, str>,
    symbol: Cow<'static, str>,
    code_bytes: u32,
    code_hash: u64,
    descriptor: Descriptor,
    run: StandIn,
}

/// Runs known programs by their stand-ins.
#[derive(Clone)]
pub struct StandIns {
    /// In order of the length of their code; later ones of a length first.
    known: Vec<Known>,
}

impl fmt::Debug for StandIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.known.iter().map(|k| (&k.target, &k.symbol));
        f.debug_list().entries(names).finish()
    }
}

impl Default for StandIns {
    fn default() -> Self {
        Self::stock()
    }
}

impl StandIns {
    /// Nothing is known.
    pub const fn new() -> Self {
        Self { known: Vec::new() }
    }

    /// The programs that this project's tests launch.
    pub fn stock() -> Self {
        let mut all = Self::new();
        for known in table::known() {
            all.add(known);
        }
        all
    }

    /// Adds stand-ins for programs of a code object (an executable, for the chip that its header names). A program that is known
    /// already is replaced.
    ///
    /// # Errors
    /// [`RegisterError`]; nothing is added then.
    pub fn register(
        &mut self,
        object: &[u8],
        programs: &[(&str, StandIn)],
    ) -> Result<(), RegisterError> {
        let object = object::read(object)?;
        let mut new = Vec::new();
        for &(symbol, run) in programs {
            let Some(program) = object.programs.iter().find(|p| p.symbol == symbol) else {
                return Err(RegisterError::NoProgram(symbol.into()));
            };
            new.push(program.known(object.target, run));
        }
        new.into_iter().for_each(|known| self.add(known));
        Ok(())
    }

    fn add(&mut self, known: Known) {
        let at = self
            .known
            .partition_point(|k| k.code_bytes < known.code_bytes);
        self.known.insert(at, known);
    }

    /// The programs whose code lies at an address.
    fn at(&self, dispatch: &Dispatch, memory: &mut dyn ShaderMemory) -> Result<Vec<&Known>, Cause> {
        // Without a first instruction there is no launch.
        memory.fetch(dispatch.program, &mut [0; 4])?;
        let mut code = Vec::new();
        let mut hash = Hash::new();
        let mut found = Vec::new();
        for known in self.known.iter().filter(|k| k.target == dispatch.target) {
            let (have, want) = (code.len(), known.code_bytes as usize);
            if want > have {
                code.resize(want, 0);
                let address = dispatch.program.wrapping_add(have as u64);
                let more = code.get_mut(have..).unwrap_or_default();
                if memory.fetch(address, more).is_err() {
                    // Nothing that long is there.
                    break;
                }
                hash.add(more);
            }
            if hash.0 == known.code_hash {
                found.push(known);
            }
        }
        Ok(found)
    }
}

impl Program {
    fn known(&self, target: &'static str, run: StandIn) -> Known {
        Known {
            target: target.into(),
            symbol: self.symbol.clone().into(),
            code_bytes: self.code.len() as u32,
            code_hash: code_hash(&self.code),
            descriptor: self.descriptor,
            run,
        }
    }
}

/// FNV-1a of 64 bits.
struct Hash(u64);

impl Hash {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// How programs are told apart: FNV-1a of 64 bits over the bytes of a function's machine code.
pub fn code_hash(code: &[u8]) -> u64 {
    let mut hash = Hash::new();
    hash.add(code);
    hash.0
}

/// `COMPUTE_PGM_RSRC1.PRIV`: drivers set it to get around trouble with context saves.
const RSRC1_PRIV: u32 = 1 << 20;
/// `COMPUTE_PGM_RSRC2.TRAP_PRESENT` is the kernel's; `LDS_SIZE` is filled in for each launch.
const RSRC2_OPEN: u32 = 1 << 6 | 0x1ff << 15;

impl Known {
    fn wave(&self) -> u32 {
        if self.descriptor.properties & Descriptor::WAVE32 != 0 {
            32
        } else {
            64
        }
    }

    /// Whether the launch is one for this program; why not, in words.
    fn check(&self, dispatch: &Dispatch) -> Result<(), String> {
        let d = &self.descriptor;
        let count = d.rsrc2 >> 1 & 0x1f;
        let same = [
            ("COMPUTE_PGM_RSRC1", dispatch.rsrc1, d.rsrc1, RSRC1_PRIV),
            ("COMPUTE_PGM_RSRC2", dispatch.rsrc2, d.rsrc2, RSRC2_OPEN),
            ("COMPUTE_PGM_RSRC3", dispatch.rsrc3, d.rsrc3, 0),
        ];
        for (name, seen, wanted, open) in same {
            if (seen ^ wanted) & !open != 0 {
                return Err(format!(
                    "{name} is {seen:#x}, its descriptor says {wanted:#x}"
                ));
            }
        }
        if dispatch.wave != self.wave() {
            return Err(format!(
                "waves of {} lanes for code of {}",
                dispatch.wave,
                self.wave()
            ));
        }
        if (dispatch.user_data.len() as u32) < count.min(d.user_registers()) {
            return Err(format!(
                "{} user registers; the program takes {}",
                dispatch.user_data.len(),
                d.user_registers()
            ));
        }
        if dispatch.local_memory < d.group_bytes {
            return Err(format!(
                "{} bytes of local memory; the program declares {}",
                dispatch.local_memory, d.group_bytes
            ));
        }
        let lanes = u64::from(d.private_bytes) * u64::from(dispatch.wave);
        match &dispatch.scratch {
            Some(scratch) if scratch.wave_bytes < lanes => Err(format!(
                "{} bytes of scratch memory a wave; the program needs {lanes}",
                scratch.wave_bytes
            )),
            None if lanes > 0 => Err(format!(
                "no scratch memory; the program needs {} bytes a lane",
                d.private_bytes
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Reads what the program reads before it knows anything: its arguments, and the dispatch packet if it asks for that.
    fn ready(&self, dispatch: &Dispatch, memory: &mut dyn ShaderMemory) -> Result<Running, Cause> {
        let d = &self.descriptor;
        let pointer = |at: u32| {
            let word = |i| dispatch.user_data.get(i as usize).copied().unwrap_or(0);
            u64::from(word(at)) | u64::from(word(at + 1)) << 32
        };
        let mut arguments = vec![0; d.kernarg_bytes as usize];
        if let Some(at) = d.kernarg_register() {
            let address = pointer(at);
            if !address.is_multiple_of(4) {
                return Err(Cause::Launch(format!(
                    "the arguments of `{}` are at {address:#x}; scalar loads ignore the last two bits",
                    self.symbol
                )));
            }
            memory.load_scalar(address, &mut arguments)?;
        }
        let packet = match d.packet_register() {
            None => None,
            Some(at) => {
                let mut bytes = [0; 24];
                memory.load_scalar(pointer(at), &mut bytes)?;
                Some(bytes)
            }
        };
        Ok(Running {
            run: self.run,
            arguments,
            packet,
            groups: dispatch.groups,
            items: dispatch.local,
            wave: dispatch.wave,
        })
    }
}

impl Executor for StandIns {
    fn prepare(
        &mut self,
        dispatch: &Dispatch,
        memory: &mut dyn ShaderMemory,
    ) -> Result<Option<Box<dyn Kernel>>, Cause> {
        let found = self.at(dispatch, memory)?;
        let mut wrong = None;
        for known in found {
            match known.check(dispatch) {
                Ok(()) => return Ok(Some(Box::new(known.ready(dispatch, memory)?))),
                // What was added last has the say.
                Err(why) => {
                    wrong.get_or_insert(format!("the code is that of `{}`: {why}", known.symbol));
                }
            }
        }
        match wrong {
            Some(why) => Err(Cause::Launch(why)),
            None => Ok(None),
        }
    }
}

/// A launch of a program that is known.
struct Running {
    run: StandIn,
    arguments: Vec<u8>,
    /// The first bytes of the dispatch packet, if the program takes its address.
    packet: Option<[u8; 24]>,
    groups: [u32; 3],
    items: [u32; 3],
    wave: u32,
}

impl Kernel for Running {
    fn run_group(
        &mut self,
        group: [u32; 3],
        local_memory: &mut [u8],
        memory: &mut dyn ShaderMemory,
    ) -> Result<(), Cause> {
        (self.run)(&mut Group {
            group,
            groups: self.groups,
            items: self.items,
            wave: self.wave,
            arguments: &self.arguments,
            packet: self.packet.as_ref(),
            local_memory,
            memory,
        })
    }
}

/// A work-group that a stand-in runs: what its program's registers and memory hold.
pub struct Group<'a> {
    /// The group's numbers.
    pub group: [u32; 3],
    /// Work-groups of the launch.
    pub groups: [u32; 3],
    /// Work-items that run. What a program takes its size to be is [`local_size`](Self::local_size).
    pub items: [u32; 3],
    /// Lanes of a wave.
    pub wave: u32,
    /// The argument block, as long as the descriptor says.
    pub arguments: &'a [u8],
    packet: Option<&'a [u8; 24]>,
    /// The group's local memory.
    pub local_memory: &'a mut [u8],
    /// Memory through the caches.
    pub memory: &'a mut dyn ShaderMemory,
}

impl fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("group", &self.group)
            .field("items", &self.items)
            .finish_non_exhaustive()
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .copied()
        .unwrap_or([0; N])
}

impl Group<'_> {
    /// The argument of 4 bytes at an offset; 0 past the end of the block.
    pub fn u32_at(&self, offset: usize) -> u32 {
        u32::from_le_bytes(part(self.arguments, offset))
    }

    /// The argument of 8 bytes at an offset; 0 past the end of the block.
    pub fn u64_at(&self, offset: usize) -> u64 {
        u64::from_le_bytes(part(self.arguments, offset))
    }

    /// The argument of type `float` at an offset; 0 past the end of the block.
    pub fn f32_at(&self, offset: usize) -> f32 {
        f32::from_bits(self.u32_at(offset))
    }

    /// Work-items of a group, as the dispatch packet says; as many as run if the program does not look there.
    pub fn local_size(&self, dimension: usize) -> u32 {
        match self.packet {
            Some(packet) => u16::from_le_bytes(part(packet, 4 + 2 * dimension)).into(),
            None => self.items.get(dimension).copied().unwrap_or(1),
        }
    }

    /// Work-items of the launch, as the dispatch packet says; as many as run if the program does not look there.
    pub fn grid_size(&self, dimension: usize) -> u32 {
        match self.packet {
            Some(packet) => u32::from_le_bytes(part(packet, 12 + 4 * dimension)),
            None => {
                let groups = self.groups.get(dimension).copied().unwrap_or(1);
                groups.wrapping_mul(self.local_size(dimension))
            }
        }
    }

    /// Numbers of this group's work-items in the launch, in dimension 0, as far as they are below `n`.
    pub fn items_below(&self, n: u32) -> Range<u32> {
        let [group, ..] = self.group;
        let [items, ..] = self.items;
        let first = group.wrapping_mul(self.local_size(0));
        first.min(n)..first.saturating_add(items).min(n)
    }

    /// Loads 4 bytes.
    ///
    /// # Errors
    /// [`Cause::Memory`].
    pub fn load_u32(&mut self, address: u64) -> Result<u32, Cause> {
        let mut bytes = [0; 4];
        self.memory.load(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Stores 4 bytes.
    ///
    /// # Errors
    /// [`Cause::Memory`].
    pub fn store_u32(&mut self, address: u64, value: u32) -> Result<(), Cause> {
        Ok(self.memory.store(address, &value.to_le_bytes())?)
    }

    /// Loads words that lie together.
    ///
    /// # Errors
    /// [`Cause::Memory`].
    pub fn load_words(&mut self, address: u64, count: usize) -> Result<Vec<u32>, Cause> {
        let mut bytes = vec![0; 4 * count];
        self.memory.load(address, &mut bytes)?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|&word| u32::from_le_bytes(word)).collect())
    }

    /// Stores words that lie together.
    ///
    /// # Errors
    /// [`Cause::Memory`].
    pub fn store_words(&mut self, address: u64, words: &[u32]) -> Result<(), Cause> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Ok(self.memory.store(address, &bytes)?)
    }

    /// Loads a word of local memory. Past its end there are zeros.
    pub fn local_load(&self, index: usize) -> u32 {
        index
            .checked_mul(4)
            .map_or(0, |at| u32::from_le_bytes(part(self.local_memory, at)))
    }

    /// Stores a word to local memory. Past its end it is lost.
    pub fn local_store(&mut self, index: usize, word: u32) {
        let to = index
            .checked_mul(4)
            .and_then(|at| self.local_memory.get_mut(at..))
            .and_then(|rest| rest.first_chunk_mut());
        if let Some(to) = to {
            *to = word.to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests;
