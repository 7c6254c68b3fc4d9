//! What a launch of Adreno's has to agree with, and where its arguments are.

use super::{Given, part};
use crate::exec::{AdrenoRegisters, Dispatch};

/// An argument's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Byte of the constant file where the program reads it.
    pub(super) constant: u32,
    /// Byte of the argument block of the same program in C, which stand-ins go by.
    pub(super) offset: u32,
    /// Bytes.
    pub(super) bytes: u32,
}

/// What a program of an OpenCL binary, or of ir3, needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// Registers of a fiber in vectors of four, full ones and half ones.
    pub(super) registers: (u32, u32),
    /// Bytes of local memory that the program declares.
    pub(super) local_bytes: u32,
    /// Bytes of a fiber's own memory.
    pub(super) fiber_bytes: u32,
    /// Bytes of the argument block of the same program in C.
    pub(super) argument_bytes: u32,
    /// The arguments that are in the constant file.
    pub(super) arguments: &'static [Place],
    /// Bytes of the constant file where the program reads the size of its group, and where the number of groups: three words
    /// each; `None` if it does not.
    pub(super) sizes: (Option<u32>, Option<u32>),
    /// Textures, samplers and images that it uses.
    pub(super) descriptors: [u32; 3],
    /// Numbers that the compiler wants in the constant file: byte and value.
    pub(super) immediates: &'static [(u32, u32)],
}

impl Needs {
    /// Bytes of the constant file that the program may read.
    fn constants(&self) -> u32 {
        let places = self
            .arguments
            .iter()
            .map(|a| a.constant.saturating_add(a.bytes));
        let sizes = [self.sizes.0, self.sizes.1].into_iter().flatten();
        let sizes = sizes.map(|at| at.saturating_add(12));
        let immediates = self.immediates.iter().map(|(at, _)| at.saturating_add(4));
        places.chain(sizes).chain(immediates).max().unwrap_or(0)
    }

    /// Whether the launch is one for this program; why not, in words.
    pub(super) fn check(
        &self,
        dispatch: &Dispatch,
        registers: &AdrenoRegisters,
    ) -> Result<(), String> {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let [textures, samplers, images] = self.descriptors;
        let constants = count(registers.constants.len()).saturating_mul(4);
        let enough = [
            ("full registers", registers.full_registers, self.registers.0),
            ("half registers", registers.half_registers, self.registers.1),
            (
                "bytes of local memory",
                dispatch.local_memory,
                self.local_bytes,
            ),
            (
                "bytes of a fiber's own memory",
                registers.fiber_bytes,
                self.fiber_bytes,
            ),
            ("bytes of constants", constants, self.constants()),
            ("textures", count(registers.textures.len()), textures),
            ("samplers", count(registers.samplers.len()), samplers),
            ("images", count(registers.images.len()), images),
        ];
        for (what, given, needed) in enough {
            if given < needed {
                return Err(format!("{given} {what}; the program needs {needed}"));
            }
        }
        for &(at, value) in self.immediates {
            let seen = registers.constants.get(at as usize / 4).copied();
            if seen != Some(value) {
                return Err(format!(
                    "the constant at byte {at} is {:#x}; the program's code relies on {value:#x}",
                    seen.unwrap_or(0)
                ));
            }
        }
        if self.fiber_bytes > 0 && registers.fiber_memory.is_none() {
            return Err("there is no memory for the fibers' own".into());
        }
        Ok(())
    }

    /// The program's arguments, and its sizes if it looks at them, from the constant file.
    pub(super) fn given(&self, dispatch: &Dispatch, registers: &AdrenoRegisters) -> Given {
        let words = registers.constants.iter();
        let file: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        let mut given = Given::new(dispatch, self.argument_bytes);
        for place in self.arguments {
            let range = |at: u32| at as usize..at.saturating_add(place.bytes) as usize;
            let from = file.get(range(place.constant));
            if let (Some(from), Some(to)) = (from, given.arguments.get_mut(range(place.offset))) {
                to.copy_from_slice(from);
            }
        }
        let three = |at: u32| [0, 4, 8].map(|d| u32::from_le_bytes(part(&file, at as usize + d)));
        let mut groups = dispatch.groups;
        if let Some(at) = self.sizes.0 {
            given.local = three(at);
        }
        if let Some(at) = self.sizes.1 {
            groups = three(at);
        }
        let product = |d: usize| {
            let of = |sizes: &[u32; 3]| sizes.get(d).copied().unwrap_or(1);
            of(&given.local).wrapping_mul(of(&groups))
        };
        given.grid = std::array::from_fn(product);
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Registers;

    fn needs() -> Needs {
        Needs {
            registers: (4, 1),
            local_bytes: 64,
            fiber_bytes: 16,
            argument_bytes: 12,
            arguments: &[
                Place {
                    constant: 16,
                    offset: 0,
                    bytes: 8,
                },
                Place {
                    constant: 32,
                    offset: 8,
                    bytes: 4,
                },
            ],
            sizes: (Some(0), None),
            descriptors: [1, 0, 0],
            immediates: &[],
        }
    }

    fn launch() -> (Dispatch, AdrenoRegisters) {
        let registers = AdrenoRegisters {
            constants: vec![8, 4, 1, 0, 0x11, 0x22, 0, 0, 0x33],
            textures: vec![[0; 16]],
            full_registers: 4,
            half_registers: 1,
            fiber_bytes: 16,
            fiber_memory: Some((0x8000, 0x1000)),
            ..AdrenoRegisters::default()
        };
        let dispatch = Dispatch {
            target: "a630",
            program: 0x1000,
            groups: [2, 3, 1],
            start: [0; 3],
            local: [32, 1, 1],
            wave: 64,
            local_memory: 64,
            scratch: None,
            xcc: (0, 1),
            registers: Registers::Adreno(registers.clone()),
        };
        (dispatch, registers)
    }

    #[test]
    fn a_launch_has_what_the_program_was_compiled_for() {
        let (dispatch, registers) = launch();
        assert_eq!(needs().check(&dispatch, &registers), Ok(()));
        type Change = fn(&mut Dispatch, &mut AdrenoRegisters);
        let cases: [(Change, &str); 7] = [
            (|_, r| r.full_registers = 3, "3 full registers"),
            (|_, r| r.half_registers = 0, "0 half registers"),
            (|d, _| d.local_memory = 0, "0 bytes of local memory"),
            (|_, r| r.fiber_bytes = 12, "12 bytes of a fiber's own"),
            (|_, r| r.fiber_memory = None, "no memory for the fibers'"),
            (
                |_, r| r.constants.truncate(8),
                "32 bytes of constants; the program needs 36",
            ),
            (|_, r| r.textures.clear(), "0 textures"),
        ];
        for (change, words) in cases {
            let (mut dispatch, mut registers) = launch();
            change(&mut dispatch, &mut registers);
            let why = needs().check(&dispatch, &registers).expect_err(words);
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn arguments_and_sizes_are_those_of_the_constant_file() {
        let (dispatch, registers) = launch();
        let given = needs().given(&dispatch, &registers);
        let words: Vec<u8> = [0x11u32, 0x22, 0x33]
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        assert_eq!(given.arguments, words);
        assert_eq!((given.local, given.grid), ([8, 4, 1], [16, 12, 1]));
    }
}
