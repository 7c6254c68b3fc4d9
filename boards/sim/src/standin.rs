//! Host functions that stand in for the machine code of known programs.
//!
//! There is no interpreter of GPUs' instructions here. A *stand-in* is a Rust function that does to memory what one program
//! does; it is chosen by the machine code that lies at the launch's address, and by nothing else: the code that the driver
//! uploaded, relocated and made visible to the instruction cache has to be there, byte by byte, and the registers of the launch
//! have to be those that the program was compiled for. Whatever comes between a program and its result stays as it is on a GPU:
//! arguments come from where the launch has them (AMD: through the scalar cache from where the user registers point; NVIDIA:
//! through the constant cache from bank 0; Adreno: from the constant file), data goes through the caches. One function serves
//! every vendor's build of a program: a [`Group`] has the arguments as C lays them out.
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

use crate::engine::Cause;
use crate::exec::{Dispatch, Executor, Kernel, Registers, ShaderMemory};

mod adreno;
mod amd;
mod cubin;
mod group;
mod nv;
mod object;
mod sampler;
mod stock;
mod table;
mod texel;

pub use group::Group;
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
    needs: Needs,
    run: StandIn,
}

/// What a launch of a program has to agree with, and where its arguments are.
#[derive(Clone, Copy, Debug)]
enum Needs {
    Amd(Descriptor),
    Nv(nv::Needs),
    Adreno(adreno::Needs),
}

/// What a program finds out about its launch.
#[derive(Debug)]
struct Given {
    arguments: Vec<u8>,
    /// Work-items of a group, as the program sees it.
    local: [u32; 3],
    /// Work-items of the launch, as the program sees it.
    grid: [u32; 3],
}

impl Given {
    /// So many bytes of arguments, zeros yet, and sizes as they are.
    fn new(dispatch: &Dispatch, arguments: u32) -> Self {
        let [x, y, z] = dispatch.local;
        let [groups_x, groups_y, groups_z] = dispatch.groups;
        Self {
            arguments: vec![0; arguments as usize],
            local: dispatch.local,
            grid: [
                groups_x.wrapping_mul(x),
                groups_y.wrapping_mul(y),
                groups_z.wrapping_mul(z),
            ],
        }
    }
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

    /// Adds stand-ins for programs of a code object (an executable of AMD's or a cubin, for the chip that its header names). A
    /// program that is known already is replaced.
    ///
    /// # Errors
    /// [`RegisterError`]; nothing is added then.
    pub fn register(
        &mut self,
        object: &[u8],
        programs: &[(&str, StandIn)],
    ) -> Result<(), RegisterError> {
        let all: Vec<Known> = if cubin::is_cubin(object) {
            let cubin = cubin::read(object)?;
            let known = |program: &cubin::Program| program.known(cubin.target);
            cubin.programs.iter().map(known).collect()
        } else {
            let object = object::read(object)?;
            let known = |program: &Program| program.known(object.target);
            object.programs.iter().map(known).collect()
        };
        let mut new = Vec::new();
        for &(symbol, run) in programs {
            let Some(known) = all.iter().find(|known| known.symbol == symbol) else {
                return Err(RegisterError::NoProgram(symbol.into()));
            };
            new.push(Known {
                run,
                ..known.clone()
            });
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

/// What a program does whose stand-in is still to be chosen.
fn nothing(_: &mut Group<'_>) -> Result<(), Cause> {
    Ok(())
}

impl Program {
    fn known(&self, target: &'static str) -> Known {
        Known {
            target: target.into(),
            symbol: self.symbol.clone().into(),
            code_bytes: self.code.len() as u32,
            code_hash: code_hash(&self.code),
            needs: Needs::Amd(self.descriptor),
            run: nothing,
        }
    }
}

impl cubin::Program {
    fn known(&self, target: &'static str) -> Known {
        Known {
            target: target.into(),
            symbol: self.symbol.clone().into(),
            code_bytes: self.code.len() as u32,
            code_hash: code_hash(&self.code),
            needs: Needs::Nv(self.needs),
            run: nothing,
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

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .copied()
        .unwrap_or([0; N])
}

impl Known {
    /// Whether the launch is one for this program; why not, in words.
    fn check(&self, dispatch: &Dispatch) -> Result<(), String> {
        match (&self.needs, &dispatch.registers) {
            (Needs::Amd(needs), Registers::Amd(registers)) => needs.check(dispatch, registers),
            (Needs::Nv(needs), Registers::Nv(registers)) => needs.check(dispatch, registers),
            (Needs::Adreno(needs), Registers::Adreno(registers)) => {
                needs.check(dispatch, registers)
            }
            _ => Err("the launch is one of another vendor's GPU".into()),
        }
    }

    /// Reads what the program reads before it knows anything.
    fn ready(&self, dispatch: &Dispatch, memory: &mut dyn ShaderMemory) -> Result<Running, Cause> {
        let given = match (&self.needs, &dispatch.registers) {
            (Needs::Amd(needs), Registers::Amd(registers)) => {
                needs.given(&self.symbol, dispatch, registers, memory)?
            }
            (Needs::Nv(needs), Registers::Nv(registers)) => {
                needs.given(dispatch, registers, memory)?
            }
            (Needs::Adreno(needs), Registers::Adreno(registers)) => {
                needs.given(dispatch, registers)
            }
            _ => Given::new(dispatch, 0),
        };
        Ok(Running {
            run: self.run,
            given,
            dispatch: dispatch.clone(),
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
    given: Given,
    dispatch: Dispatch,
}

impl Kernel for Running {
    fn run_group(
        &mut self,
        group: [u32; 3],
        local_memory: &mut [u8],
        memory: &mut dyn ShaderMemory,
    ) -> Result<(), Cause> {
        let dispatch = &self.dispatch;
        (self.run)(&mut Group {
            group,
            groups: dispatch.groups,
            items: dispatch.local,
            wave: dispatch.wave,
            arguments: &self.given.arguments,
            registers: &dispatch.registers,
            local: self.given.local,
            grid: self.given.grid,
            local_memory,
            memory,
        })
    }
}

#[cfg(test)]
mod tests;
