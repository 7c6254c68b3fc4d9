//! What a launch of NVIDIA's has to agree with, and where its arguments are.

use super::{Given, part};
use crate::engine::Cause;
use crate::exec::{ConstantBank, Dispatch, NvRegisters, ShaderMemory};

/// What a program of a cubin needs: `.nv.info` of its section, and its code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// Registers of a thread: `EIATTR_REGCOUNT`, `sh_info` of the code's section.
    pub(super) registers: u32,
    /// Barriers of a work-group.
    pub(super) barriers: u32,
    /// Bytes of shared memory that the program declares: `.nv.shared.*`.
    pub(super) shared_bytes: u32,
    /// Bytes of a thread's own memory: `EIATTR_MIN_STACK_SIZE`, `EIATTR_FRAME_SIZE`.
    pub(super) thread_bytes: u32,
    /// Where the arguments begin in constant bank 0, and their bytes: `EIATTR_PARAM_CBANK`.
    pub(super) parameters: (u32, u32),
    /// Where the program reads the sizes of its group and of the grid (in groups) in constant bank 0, three words each; `None`
    /// if it does not.
    pub(super) sizes: Option<(u32, u32)>,
    /// Constant banks that the program reads, one bit each; bank 0 is always one.
    pub(super) banks: u8,
}

/// Lanes of a warp.
const WARP: u32 = 32;

impl Needs {
    /// Bytes of bank 0 that the program may read.
    fn bank0(&self) -> u32 {
        let (at, bytes) = self.parameters;
        let sizes = self
            .sizes
            .map_or(0, |(group, grid)| group.max(grid).saturating_add(12));
        at.saturating_add(bytes).max(sizes)
    }

    /// Whether the launch is one for this program; why not, in words.
    pub(super) fn check(&self, dispatch: &Dispatch, registers: &NvRegisters) -> Result<(), String> {
        if dispatch.wave != WARP {
            return Err(format!("warps of {} threads", dispatch.wave));
        }
        let enough = [
            ("registers", registers.registers, self.registers),
            ("barriers", registers.barriers, self.barriers),
            (
                "bytes of shared memory",
                dispatch.local_memory,
                self.shared_bytes,
            ),
            (
                "bytes of a thread's own memory",
                registers.thread_bytes,
                self.thread_bytes,
            ),
        ];
        for (what, given, needed) in enough {
            if given < needed {
                return Err(format!("{given} {what}; the program needs {needed}"));
            }
        }
        if self.thread_bytes > 0 && registers.thread_memory.is_none() {
            return Err("the channel has no memory for the threads' own".into());
        }
        for (number, bank) in registers.banks.iter().enumerate() {
            let needed = number == 0 || self.banks >> number & 1 != 0;
            let least = if number == 0 { self.bank0() } else { 0 };
            match bank {
                None if needed => {
                    return Err(format!(
                        "constant bank {number}, which the program reads, is not valid"
                    ));
                }
                Some(bank) if bank.bytes < least => {
                    return Err(format!(
                        "constant bank {number} has {} bytes; the program reads {least}",
                        bank.bytes
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the program's arguments, and its sizes if it looks at them, through the constant cache.
    pub(super) fn given(
        &self,
        dispatch: &Dispatch,
        registers: &NvRegisters,
        memory: &mut dyn ShaderMemory,
    ) -> Result<Given, Cause> {
        let (at, bytes) = self.parameters;
        let mut given = Given::new(dispatch, bytes);
        let [Some(ConstantBank { address, .. }), ..] = registers.banks else {
            return Err(Cause::Launch("constant bank 0 is not valid".into()));
        };
        if !given.arguments.is_empty() {
            memory.load_scalar(address.wrapping_add(at.into()), &mut given.arguments)?;
        }
        if let Some((group, grid)) = self.sizes {
            let mut three = |at: u32| {
                let mut bytes = [0; 12];
                memory.load_scalar(address.wrapping_add(at.into()), &mut bytes)?;
                Ok::<_, Cause>([0, 4, 8].map(|at| u32::from_le_bytes(part(&bytes, at))))
            };
            given.local = three(group)?;
            let groups = three(grid)?;
            given.grid = std::array::from_fn(|d| {
                let of = |sizes: &[u32; 3]| sizes.get(d).copied().unwrap_or(1);
                of(&given.local).wrapping_mul(of(&groups))
            });
        }
        Ok(given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Caches;
    use crate::cache::tests::Pages;
    use crate::exec::Registers;

    const BANK: u64 = 0x7000_0000_2000;

    fn needs() -> Needs {
        Needs {
            registers: 16,
            barriers: 1,
            shared_bytes: 128,
            thread_bytes: 8,
            parameters: (0x160, 12),
            sizes: Some((0, 12)),
            banks: 1 << 3,
        }
    }

    fn launch() -> (Dispatch, NvRegisters) {
        let bank = Some(ConstantBank {
            address: BANK,
            bytes: 0x16c,
        });
        let mut registers = NvRegisters {
            registers: 16,
            barriers: 1,
            thread_bytes: 8,
            thread_memory: Some((0x8000, 0x1000)),
            ..NvRegisters::default()
        };
        registers.banks[0] = bank;
        registers.banks[3] = bank;
        let dispatch = Dispatch {
            target: "sm_86",
            program: 0x1000,
            groups: [2, 1, 1],
            start: [0; 3],
            local: [64, 1, 1],
            wave: 32,
            local_memory: 128,
            scratch: None,
            xcc: (0, 1),
            registers: Registers::Nv(registers.clone()),
        };
        (dispatch, registers)
    }

    #[test]
    fn a_launch_has_what_the_program_was_compiled_for() {
        let (good, registers) = launch();
        assert_eq!(needs().check(&good, &registers), Ok(()));
        type Change = fn(&mut Dispatch, &mut NvRegisters);
        let cases: [(Change, &str); 8] = [
            (|d, _| d.wave = 64, "warps of 64"),
            (
                |_, r| r.registers = 15,
                "15 registers; the program needs 16",
            ),
            (|_, r| r.barriers = 0, "0 barriers"),
            (|d, _| d.local_memory = 127, "127 bytes of shared memory"),
            (|_, r| r.thread_bytes = 0, "a thread's own memory"),
            (|_, r| r.thread_memory = None, "no memory for the threads'"),
            (|_, r| r.banks[3] = None, "constant bank 3"),
            (
                |_, r| r.banks[0].as_mut().expect("there").bytes = 0x168,
                "constant bank 0 has 360 bytes; the program reads 364",
            ),
        ];
        for (change, words) in cases {
            let (mut dispatch, mut registers) = launch();
            change(&mut dispatch, &mut registers);
            let why = needs().check(&dispatch, &registers).expect_err(words);
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn arguments_and_sizes_are_those_of_bank_0() {
        let vm = Pages::new(1 << 16);
        let words = |words: &[u32]| {
            words
                .iter()
                .flat_map(|w| w.to_le_bytes())
                .collect::<Vec<_>>()
        };
        vm.host_write(BANK, &words(&[32, 2, 1, 3, 1, 1]));
        vm.host_write(BANK + 0x160, &words(&[1, 2, 3]));
        let mut caches = Caches::new(1);
        let (dispatch, registers) = launch();
        let given = needs().given(&dispatch, &registers, &mut *caches.view(0, &vm));
        let given = given.expect("it is mapped");
        assert_eq!(given.arguments, words(&[1, 2, 3]));
        assert_eq!((given.local, given.grid), ([32, 2, 1], [96, 2, 1]));
        let blind = Needs {
            sizes: None,
            ..needs()
        };
        let given = blind.given(&dispatch, &registers, &mut *caches.view(0, &vm));
        let given = given.expect("it is mapped");
        assert_eq!((given.local, given.grid), ([64, 1, 1], [128, 1, 1]));
    }
}
