//! A host with flat memory, and programs that are numbers.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::cache::Caches;
use crate::engine::{Cause, Engine, Host, Parts, QueueMemory, Step};
use crate::exec::{AmdRegisters, Dispatch, Executor, Kernel, ShaderMemory};
use crate::vm::{AddressSpace, Extent, Heap, Mtype, Need, PageFault, PageFaultReason};

/// Where memory begins.
pub(super) const BASE: u64 = 0x7F00_0000_0000;
/// Bytes of it.
pub(super) const BYTES: u64 = 1 << 20;
/// Offsets of what tests put there.
pub(super) const RING: u64 = BASE;
pub(super) const RING_BYTES: u64 = 0x1000;
pub(super) const QUEUE: u64 = BASE + 0x2000;
pub(super) const READ: u64 = QUEUE + 128;
pub(super) const WRITE: u64 = QUEUE + 56;
pub(super) const BUFFER: u64 = BASE + 0x1_0000;
pub(super) const CODE: u64 = BASE + 0x2_0000;
pub(super) const DATA: u64 = BASE + 0x3_0000;
pub(super) const SIGNAL: u64 = BASE + 0x4_0000;
pub(super) const KERNARG: u64 = BASE + 0x5_0000;
/// A page of memory that caches keep: not coherent.
pub(super) const CACHED: u64 = BASE + 0x8_0000;

/// Scratch memory: addresses that are there, whose contents no program of these tests looks at.
pub(super) const SCRATCH: u64 = 0x7D00_0000_0000;
const SCRATCH_BYTES: u64 = 1 << 37;

/// Flat memory; the second half is cached by the L2.
pub(super) struct Memory(Vec<AtomicU64>);

impl Memory {
    fn new() -> Self {
        Self((0..BYTES / 8).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn get(&self, address: u64) -> u32 {
        let at = address - BASE;
        let word = self.0[(at / 8) as usize].load(Ordering::Relaxed);
        (word >> (8 * (at % 8))) as u32
    }

    pub(super) fn get64(&self, address: u64) -> u64 {
        u64::from(self.get(address)) | u64::from(self.get(address + 4)) << 32
    }

    pub(super) fn put(&self, address: u64, value: u32) {
        let at = address - BASE;
        let word = &self.0[(at / 8) as usize];
        let shift = 8 * (at % 8);
        let rest = word.load(Ordering::Relaxed) & !(u64::from(u32::MAX) << shift);
        word.store(rest | u64::from(value) << shift, Ordering::Relaxed);
    }

    pub(super) fn put64(&self, address: u64, value: u64) {
        self.put(address, value as u32);
        self.put(address + 4, (value >> 32) as u32);
    }
}

impl AddressSpace for Memory {
    fn translate(&self, address: u64, len: u64, need: Need) -> Result<Extent, PageFault> {
        let at = match address.wrapping_sub(SCRATCH) {
            // All of its pages are one.
            at if at < SCRATCH_BYTES => BYTES - 0x1000 + at % 0x1000,
            _ => address.wrapping_sub(BASE),
        };
        if at >= BYTES || len == 0 {
            let reason = PageFaultReason::NotPresent;
            return Err(PageFault {
                address,
                need,
                reason,
            });
        }
        let host = self
            .0
            .as_ptr()
            .cast::<u8>()
            .cast_mut()
            .wrapping_add(at as usize);
        Ok(Extent {
            host: NonNull::new(host).unwrap(),
            // No run is longer than a page, as on a machine.
            len: len.min(0x1000 - at % 0x1000),
            heap: Heap::Local,
            mtype: if address < CACHED {
                Mtype::Uc
            } else {
                Mtype::Rw
            },
        })
    }
}

/// The registers of a launch.
pub(super) fn amd(dispatch: &Dispatch) -> &AmdRegisters {
    dispatch.registers.amd().expect("a launch of AMD's")
}

/// What happened, in order.
pub(super) type Log = Arc<Mutex<Vec<(Dispatch, [u32; 3])>>>;

struct Programs {
    log: Log,
}

struct Program {
    dispatch: Dispatch,
    word: u32,
    log: Log,
}

/// A program that is not known.
pub(super) const UNKNOWN: u32 = 0;
/// Stores 1 + the group's linear number at the address in the first two user registers, plus 4 for each group before it.
pub(super) const NUMBER: u32 = 1;
/// Adds one to the word at the address in the first two user registers.
pub(super) const COUNT: u32 = 2;
/// As [`NUMBER`], of groups that local memory says are not the first on this XCC.
pub(super) const LOCAL: u32 = 3;
/// Copies the word at the address in the first two user registers to the one in the next two.
pub(super) const COPY: u32 = 4;

impl Executor for Programs {
    fn prepare(
        &mut self,
        dispatch: &Dispatch,
        memory: &mut dyn ShaderMemory,
    ) -> Result<Option<Box<dyn Kernel>>, Cause> {
        let mut word = [0; 4];
        memory.fetch(dispatch.program, &mut word)?;
        let word = u32::from_le_bytes(word);
        Ok((word != UNKNOWN).then(|| {
            Box::new(Program {
                dispatch: dispatch.clone(),
                word,
                log: self.log.clone(),
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
        let pointer = |at: usize| {
            let word = |at| u64::from(amd(dispatch).user_data.get(at).copied().unwrap_or_default());
            word(at) | word(at + 1) << 32
        };
        let [x, y, z] = group.map(u64::from);
        let [gx, gy, _] = dispatch.groups.map(u64::from);
        let number = x + gx * (y + gy * z);
        let out = pointer(0);
        match self.word {
            NUMBER => memory.store(out + 4 * number, &(number as u32 + 1).to_le_bytes())?,
            COUNT => {
                let mut word = [0; 4];
                memory.load(out, &mut word)?;
                let next = u32::from_le_bytes(word) + 1;
                memory.store(out, &next.to_le_bytes())?;
            }
            LOCAL => {
                let seen = local.first() == Some(&0x77);
                local.fill(0x77);
                memory.store(out + 4 * number, &(1 + u32::from(seen)).to_le_bytes())?;
            }
            COPY => {
                let mut word = [0; 4];
                memory.load(out, &mut word)?;
                memory.store(pointer(2), &word)?;
            }
            other => return Err(Cause::Program(format!("what is {other}?"))),
        }
        Ok(())
    }
}

/// A machine of one queue.
pub(super) struct Rig {
    pub(super) memory: Memory,
    caches: Caches,
    programs: Programs,
    pub(super) doorbell: u64,
    pub(super) clock: u64,
    pub(super) interrupts: Vec<u32>,
    random: fastrand::Rng,
    pub(super) engine: Option<Box<dyn Engine>>,
    written: u64,
    /// Bytes that count as one in the ring.
    unit: u64,
}

impl Host for Rig {
    fn vm(&self) -> &dyn AddressSpace {
        &self.memory
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts {
            vm: &self.memory,
            caches: &mut self.caches,
            executor: &mut self.programs,
        }
    }

    fn clock(&self) -> u64 {
        self.clock
    }

    fn interrupt(&mut self, context: u32) {
        self.interrupts.push(context);
    }

    fn doorbell(&self) -> u64 {
        self.doorbell
    }

    fn random(&mut self, below: u32) -> u32 {
        self.random.u32(0..below)
    }
}

pub(super) fn queue_memory() -> QueueMemory {
    QueueMemory {
        ring: RING,
        ring_bytes: RING_BYTES,
        read_pointer: READ,
        write_pointer: WRITE,
        eop: 0,
        eop_bytes: 0,
        save_area: 0,
        save_area_bytes: 0,
        control_stack_bytes: 0,
    }
}

impl Rig {
    fn new(xccs: u8, seed: u64, engine: Option<Box<dyn Engine>>, unit: u64) -> Self {
        Self {
            memory: Memory::new(),
            caches: Caches::new(xccs),
            programs: Programs {
                log: Log::default(),
            },
            doorbell: 0,
            clock: 1000,
            interrupts: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            engine,
            written: 0,
            unit,
        }
    }

    pub(super) fn pm4(target: &str, xccs: u8, seed: u64) -> Self {
        let engine = super::super::pm4(target, xccs, queue_memory());
        Self::new(xccs, seed, engine, 4)
    }

    pub(super) fn aql(target: &str, xccs: u8, seed: u64) -> Self {
        let engine = super::super::aql(target, xccs, queue_memory());
        let rig = Self::new(xccs, seed, engine, 64);
        rig.memory.put(READ + 8, 128);
        for slot in 0..RING_BYTES / 64 {
            rig.memory.put(RING + 64 * slot, 1);
        }
        rig
    }

    /// What work-groups have run, in order.
    pub(super) fn log(&self) -> Vec<(Dispatch, [u32; 3])> {
        self.programs.log.lock().unwrap().clone()
    }

    /// Writes words behind what is in the ring, without telling.
    pub(super) fn push(&mut self, words: &[u32]) {
        let dwords = self.unit / 4;
        for (at, &word) in (0..).zip(words) {
            let at = (self.written * dwords + at) % (RING_BYTES / 4);
            self.memory.put(RING + 4 * at, word);
        }
        self.written += words.len() as u64 / dwords;
    }

    /// Tells of what was written.
    pub(super) fn ring(&mut self) {
        self.memory.put64(WRITE, self.written);
        self.doorbell = if self.unit == 64 {
            self.written.wrapping_sub(1)
        } else {
            self.written
        };
    }

    pub(super) fn submit(&mut self, words: &[u32]) {
        self.push(words);
        self.ring();
    }

    /// Words in memory.
    pub(super) fn words(&self, address: u64, words: &[u32]) {
        for (at, &word) in (0..).zip(words) {
            self.memory.put(address + 4 * at, word);
        }
    }

    pub(super) fn step(&mut self) -> Step {
        let mut engine = self.engine.take().unwrap();
        let step = engine.step(self);
        self.engine = Some(engine);
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

    /// Runs to the end of the queue.
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

/// A type-3 packet.
pub(super) fn packet(opcode: u32, body: &[u32]) -> Vec<u32> {
    let mut words = vec![3 << 30 | (body.len() as u32 - 1) << 16 | opcode << 8];
    words.extend(body);
    words
}

pub(super) fn lo(value: u64) -> u32 {
    value as u32
}

pub(super) fn hi(value: u64) -> u32 {
    (value >> 32) as u32
}

/// `SET_SH_REG` of registers from this address on.
pub(super) fn set_sh(register: u32, values: &[u32]) -> Vec<u32> {
    let mut body = vec![register - 0x2C00];
    body.extend(values);
    packet(0x76, &body)
}

/// All registers of a launch of groups of 64 work-items, with two user registers.
pub(super) fn state(program: u64, out: u64) -> Vec<u32> {
    [
        set_sh(0x2E0C, &[lo(program >> 8), hi(program >> 8)]),
        // FLOAT_MODE 0xC0, and 2 << 1 user registers with TGID_X_EN.
        set_sh(0x2E12, &[0xC0 << 12, 4 << 1 | 1 << 7]),
        set_sh(0x2E40, &[lo(out), hi(out)]),
        set_sh(0x2E04, &[0, 0, 0, 64, 1, 1]),
    ]
    .concat()
}

/// `DISPATCH_DIRECT` with COMPUTE_SHADER_EN and FORCE_START_AT_000.
pub(super) fn dispatch(groups: [u32; 3]) -> Vec<u32> {
    packet(0x15, &[groups[0], groups[1], groups[2], 5])
}

/// `EVENT_WRITE` with CS_PARTIAL_FLUSH.
pub(super) fn flush() -> Vec<u32> {
    packet(0x46, &[7 | 4 << 8])
}

/// `RELEASE_MEM` at the end of the pipe that writes 32 bits, with these further bits in its first word.
pub(super) fn release(bits: u32, address: u64, value: u32) -> Vec<u32> {
    let body = [
        0x14 | 5 << 8 | bits,
        1 << 29,
        lo(address),
        hi(address),
        value,
        0,
        0,
    ];
    packet(0x49, &body)
}

/// `WRITE_DATA` of one word to memory.
pub(super) fn write_data(address: u64, value: u32) -> Vec<u32> {
    packet(0x37, &[5 << 8 | 1 << 20, lo(address), hi(address), value])
}

/// `INDIRECT_BUFFER`.
pub(super) fn indirect(address: u64, words: u32) -> Vec<u32> {
    packet(0x3F, &[lo(address), hi(address), words | 1 << 23])
}

/// `WAIT_REG_MEM` of memory.
pub(super) fn wait(function: u32, address: u64, reference: u32, mask: u32) -> Vec<u32> {
    let body = [
        function | 1 << 4,
        lo(address),
        hi(address),
        reference,
        mask,
        4,
    ];
    packet(0x3C, &body)
}
