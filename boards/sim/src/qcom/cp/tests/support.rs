//! A host with pages of memory, and programs that are numbers.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::cache::Caches;
use crate::engine::{Cause, Host, Parts, Step};
use crate::exec::{AdrenoRegisters, Dispatch, Executor, Kernel, ShaderMemory};
use crate::qcom::chip;
use crate::qcom::seam::{CommandProcessor, Submission};
use crate::vm::{AddressSpace, Extent, Heap, Mtype, Need, PageFault, PageFaultReason};

/// What tests put there.
pub(super) const IB: u64 = 0x5_3000_0000;
pub(super) const IB2: u64 = 0x5_3001_0000;
pub(super) const CODE: u64 = 0x5_2000_0000;
pub(super) const ARGS: u64 = 0x5_1000_0000;
pub(super) const DATA: u64 = 0x5_1100_0000;
pub(super) const SIGNAL: u64 = 0x5_0010_0040;
pub(super) const SCRAP: u64 = 0x5_0000_1000;
/// A page that nobody has.
pub(super) const HOLE: u64 = 0x6_0000_0000;
/// A page that may be read only.
pub(super) const FIXED: u64 = 0x6_1000_0000;
const PAGE: u64 = 0x1000;

/// Pages, the GPU's and the host's.
#[derive(Default)]
pub(super) struct Memory(BTreeMap<u64, Vec<AtomicU64>>);

impl Memory {
    pub(super) fn map(&mut self, from: u64, bytes: u64) {
        for page in from / PAGE..(from + bytes).div_ceil(PAGE) {
            let words = || (0..PAGE / 8).map(|_| AtomicU64::new(0)).collect();
            self.0.entry(page).or_insert_with(words);
        }
    }

    fn word(&self, address: u64) -> &AtomicU64 {
        let page = self.0.get(&(address / PAGE)).expect("a page");
        &page[(address % PAGE / 8) as usize]
    }

    pub(super) fn get(&self, address: u64) -> u32 {
        (self.word(address).load(Ordering::Relaxed) >> (8 * (address % 8))) as u32
    }

    pub(super) fn get64(&self, address: u64) -> u64 {
        u64::from(self.get(address)) | u64::from(self.get(address + 4)) << 32
    }

    pub(super) fn put(&self, address: u64, value: u32) {
        let (word, shift) = (self.word(address), 8 * (address % 8));
        let rest = word.load(Ordering::Relaxed) & !(u64::from(u32::MAX) << shift);
        word.store(rest | u64::from(value) << shift, Ordering::Relaxed);
    }

    pub(super) fn words(&self, address: u64, words: &[u32]) {
        for (at, &word) in (0..).zip(words) {
            self.put(address + 4 * at, word);
        }
    }
}

impl AddressSpace for Memory {
    fn translate(&self, address: u64, len: u64, need: Need) -> Result<Extent, PageFault> {
        let fault = |reason| PageFault {
            address,
            need,
            reason,
        };
        let page = self.0.get(&(address / PAGE));
        let page = page.ok_or(fault(PageFaultReason::NotPresent))?;
        if need == Need::Write && address / PAGE == FIXED / PAGE {
            return Err(fault(PageFaultReason::ReadOnly));
        }
        let at = address % PAGE;
        let host = page.as_ptr().cast::<u8>().cast_mut();
        Ok(Extent {
            host: NonNull::new(host.wrapping_add(at as usize)).unwrap(),
            len: len.min(PAGE - at),
            heap: Heap::System,
            mtype: Mtype::Nc,
        })
    }
}

pub(super) type Log = Arc<Mutex<Vec<(Dispatch, [u32; 3])>>>;

struct Programs(Log);

struct Program {
    dispatch: Dispatch,
    word: u32,
    log: Log,
}

/// Stores 1 + the group's linear number at the address in c0.xy, plus 4 for each group before it.
pub(super) const NUMBER: u32 = 1;
/// Adds one to the word at the address in c0.xy.
pub(super) const COUNT: u32 = 2;
/// Copies the word at the address in c0.xy to the one in c0.zw.
pub(super) const COPY: u32 = 3;
/// Stores how its local memory begins to the address in c0.xy, and changes it.
pub(super) const LOCAL: u32 = 4;
/// Does nothing.
pub(super) const NOTHING: u32 = 5;

impl Executor for Programs {
    fn prepare(
        &mut self,
        dispatch: &Dispatch,
        memory: &mut dyn ShaderMemory,
    ) -> Result<Option<Box<dyn Kernel>>, Cause> {
        let mut word = [0; 4];
        memory.fetch(dispatch.program, &mut word)?;
        let word = u32::from_le_bytes(word);
        Ok((word != 0).then(|| {
            Box::new(Program {
                dispatch: dispatch.clone(),
                word,
                log: self.0.clone(),
            }) as Box<dyn Kernel>
        }))
    }
}

impl Kernel for Program {
    fn run_group(
        &mut self,
        group: [u32; 3],
        local: &mut [u8],
        memory: &mut dyn ShaderMemory,
    ) -> Result<(), Cause> {
        let dispatch = &self.dispatch;
        self.log.lock().unwrap().push((dispatch.clone(), group));
        let constants = &dispatch.registers.adreno().unwrap().constants;
        let pointer = |at: usize| {
            let word = |at: usize| u64::from(constants.get(at).copied().unwrap_or_default());
            word(at) | word(at + 1) << 32
        };
        let load = |memory: &mut dyn ShaderMemory, at| {
            let mut word = [0; 4];
            memory.load(at, &mut word)?;
            Ok::<_, Cause>(u32::from_le_bytes(word))
        };
        let [x, y, z] = group.map(u64::from);
        let [gx, gy, _] = dispatch.groups.map(u64::from);
        let number = x + gx * (y + gy * z);
        let out = pointer(0);
        match self.word {
            NUMBER => memory.store(out + 4 * number, &(number as u32 + 1).to_le_bytes())?,
            COUNT => {
                let next = load(memory, out)? + 1;
                memory.store(out, &next.to_le_bytes())?;
            }
            COPY => {
                let word = load(memory, out)?;
                memory.store(pointer(2), &word.to_le_bytes())?;
            }
            LOCAL => {
                memory.store(out, &[local[0], local[local.len() - 1], 0, 0])?;
                local.fill(0x77);
            }
            NOTHING => {}
            other => return Err(Cause::Program(format!("what is {other}?"))),
        }
        Ok(())
    }
}

/// A machine of one ring.
pub(super) struct Rig {
    pub(super) memory: Memory,
    pub(super) caches: Caches,
    log: Log,
    executor: Box<dyn Executor>,
    pub(super) clock: u64,
    pub(super) interrupts: Vec<u32>,
    random: fastrand::Rng,
    engine: Option<Box<dyn CommandProcessor>>,
}

impl Host for Rig {
    fn vm(&self) -> &dyn AddressSpace {
        &self.memory
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts {
            vm: &self.memory,
            caches: &mut self.caches,
            executor: &mut *self.executor,
        }
    }

    fn clock(&self) -> u64 {
        self.clock
    }

    fn interrupt(&mut self, context: u32) {
        self.interrupts.push(context);
    }

    fn doorbell(&self) -> u64 {
        0
    }

    fn random(&mut self, below: u32) -> u32 {
        self.random.u32(0..below)
    }
}

impl Rig {
    pub(super) fn new(chip: &str, seed: u64) -> Self {
        let log = Log::default();
        let programs = Programs(log.clone());
        Self {
            log,
            ..Self::with(chip, seed, Box::new(programs))
        }
    }

    /// A machine whose programs are run by others.
    pub(super) fn with(chip: &str, seed: u64, executor: Box<dyn Executor>) -> Self {
        let chip = chip::find(chip).expect("a chip");
        let mut memory = Memory::default();
        for at in [IB, IB2, CODE, ARGS, DATA, SIGNAL, SCRAP, 0x5_0000_3000] {
            memory.map(at & !0xFFF, 0x4000);
        }
        memory.map(FIXED, PAGE);
        Self {
            memory,
            caches: Caches::new(1),
            log: Log::default(),
            executor,
            clock: 0x9_0000_1000,
            interrupts: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            engine: super::super::processor(chip),
        }
    }

    /// What work-groups have run, in order.
    pub(super) fn log(&self) -> Vec<(Dispatch, [u32; 3])> {
        self.log.lock().unwrap().clone()
    }

    /// What the first group that ran was given.
    pub(super) fn given(&self) -> (Dispatch, AdrenoRegisters) {
        let (dispatch, _) = self.log().first().cloned().expect("a group");
        let registers = dispatch.registers.adreno().expect("Adreno's").clone();
        (dispatch, registers)
    }

    fn engine(&mut self, act: impl FnOnce(&mut dyn CommandProcessor, &mut Self)) {
        let mut engine = self.engine.take().expect("an engine");
        act(&mut *engine, self);
        self.engine = Some(engine);
    }

    pub(super) fn reset(&mut self) {
        self.engine(|engine, _| engine.reset());
    }

    /// Hands command buffers over.
    pub(super) fn begin(&mut self, ibs: &[(u64, u64)], switched: bool) {
        let submission = Submission {
            ibs: ibs.to_vec(),
            timestamp: 1,
            context: 1,
            switched,
        };
        self.engine(|engine, _| engine.begin(submission));
    }

    /// Puts words to where the first command buffer is, and hands it over.
    pub(super) fn submit(&mut self, words: &[u32]) {
        self.memory.words(IB, words);
        self.begin(&[(IB, 4 * words.len() as u64)], false);
    }

    pub(super) fn step(&mut self) -> Step {
        let mut step = Step::Idle;
        self.engine(|engine, rig| step = engine.step(rig));
        step
    }

    /// Steps until nothing is left to do, or the queue waits or has stopped.
    pub(super) fn run(&mut self) -> Step {
        for _ in 0..100_000 {
            match self.step() {
                Step::Progress => {}
                other => return other,
            }
        }
        panic!("no end");
    }

    /// Runs to the end, and writes UCHE's stores to memory as the kernel does then.
    pub(super) fn finish(&mut self) {
        match self.run() {
            Step::Idle => {}
            Step::Fault(fault) => panic!("{fault}"),
            other => panic!("{other:?}"),
        }
    }

    /// Runs to a fault; its text.
    pub(super) fn fault(&mut self) -> String {
        match self.run() {
            Step::Fault(fault) => fault.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

fn odd(value: u32) -> u32 {
    !value.count_ones() & 1
}

/// Writes registers from this one on.
pub(super) fn pkt4(register: u32, values: &[u32]) -> Vec<u32> {
    let count = values.len() as u32;
    let header = 4 << 28 | count | odd(count) << 7 | register << 8 | odd(register) << 27;
    [&[header], values].concat()
}

/// A command.
pub(super) fn pkt7(opcode: u32, body: &[u32]) -> Vec<u32> {
    let count = body.len() as u32;
    let header = 7 << 28 | count | odd(count) << 15 | opcode << 16 | odd(opcode) << 23;
    [&[header], body].concat()
}

pub(super) fn lo(value: u64) -> u32 {
    value as u32
}

pub(super) fn hi(value: u64) -> u32 {
    (value >> 32) as u32
}

/// Loads state from memory: type, block, units.
pub(super) fn load(kind: u32, block: u32, units: u32, from: u64) -> Vec<u32> {
    let word = kind << 14 | 2 << 16 | block << 18 | units << 22;
    pkt7(0x34, &[word, lo(from), hi(from)])
}

/// Constants within the packet.
pub(super) fn constants(first: u32, values: &[u32]) -> Vec<u32> {
    let word = first | 1 << 14 | 0xD << 18 | (values.len() as u32 / 4) << 22;
    pkt7(0x34, &[&[word, 0, 0], values].concat())
}

/// All registers of a launch of groups of 64 items, as `SP_CS_CTRL_REG0` and others have them.
pub(super) fn state(program: u64, groups: [u32; 3]) -> Vec<u32> {
    let [x, y, z] = groups;
    [
        pkt7(0x65, &[8]),
        pkt4(0xBB08, &[0x60]),
        pkt4(0xBB08, &[0]),
        pkt4(0xAB00, &[5]),
        pkt4(0xB309, &[2]),
        pkt4(
            0xB990,
            &[
                3 | 63 << 2,
                64 * x,
                0,
                y,
                0,
                z,
                0,
                0x00FC_FCC0,
                0xFC,
                x,
                y,
                z,
            ],
        ),
        pkt4(
            0xA9B0,
            &[
                4 << 7,
                1 | 2 << 5,
                0,
                0,
                lo(program),
                hi(program),
                0,
                0,
                0,
                0,
            ],
        ),
        load(0, 0xD, 1, program),
        // CONSTLEN of 64 vectors.
        pkt4(0xB987, &[0x100 | 16]),
        pkt4(0xA9BC, &[1]),
        pkt4(0xA9BB, &[0x100]),
    ]
    .concat()
}

/// `CP_EXEC_CS`.
pub(super) fn exec([x, y, z]: [u32; 3]) -> Vec<u32> {
    pkt7(0x33, &[0, x, y, z])
}

/// A launch of a program with two addresses as constants.
pub(super) fn launch(groups: [u32; 3], first: u64, second: u64) -> Vec<u32> {
    [
        state(CODE, groups),
        constants(0, &[lo(first), hi(first), lo(second), hi(second)]),
        exec(groups),
    ]
    .concat()
}

pub(super) fn wait_for_idle() -> Vec<u32> {
    pkt7(0x26, &[])
}

/// `CACHE_FLUSH_TS`.
pub(super) fn flush(at: u64, value: u32) -> Vec<u32> {
    pkt7(0x46, &[4, lo(at), hi(at), value])
}

/// `CACHE_INVALIDATE`.
pub(super) fn invalidate() -> Vec<u32> {
    pkt7(0x46, &[49])
}

/// `CP_MEM_WRITE` of one word.
pub(super) fn write(at: u64, value: u32) -> Vec<u32> {
    pkt7(0x3D, &[lo(at), hi(at), value])
}

/// `CP_WAIT_REG_MEM` of memory.
pub(super) fn wait(function: u32, at: u64, reference: u32, mask: u32) -> Vec<u32> {
    pkt7(
        0x3C,
        &[function | 1 << 4, lo(at), hi(at), reference, mask, 32],
    )
}
