//! A GPU of one channel.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::super::channel::{ChannelEngine, ChannelMemory, ChannelRequest, Objects, Userd};
use super::super::{chip, engine};
use crate::cache::Caches;
use crate::engine::{Cause, Engine, Fault, Host, Parts, Step};
use crate::exec::{Dispatch, Executor, Kernel, ShaderMemory};
use crate::machine::{Block, Store};
use crate::vm::{AddressSpace, Extent, Heap, Mtype, Need, PageFault, PageFaultReason};

const PAGE: u64 = 4096;

/// Where tests put things: all below 2^40.
pub(crate) const RING: u64 = 0x10_0000_0000;
pub(crate) const ENTRIES: u32 = 16;
pub(crate) const PUSH: u64 = 0x10_0001_0000;
pub(crate) const SIGNAL: u64 = 0x10_0002_0000;
pub(crate) const QMDS: u64 = 0x10_0003_0000;
pub(crate) const CODE: u64 = 0x10_0004_0000;
pub(crate) const BANK: u64 = 0x10_0005_0000;
pub(crate) const DATA: u64 = 0x20_0000_0000;
pub(crate) const DATA_BYTES: u64 = 0x10_0000;

/// Pages here and there.
#[derive(Default)]
pub(crate) struct Memory(BTreeMap<u64, Box<[AtomicU64]>>);

impl Memory {
    pub(crate) fn map(&mut self, address: u64, bytes: u64) {
        for page in address / PAGE..(address + bytes).div_ceil(PAGE) {
            let words = || (0..PAGE / 8).map(|_| AtomicU64::new(0)).collect();
            self.0.entry(page).or_insert_with(words);
        }
    }

    fn word(&self, address: u64) -> &AtomicU64 {
        let page = &self.0[&(address / PAGE)];
        &page[(address % PAGE / 8) as usize]
    }

    pub(crate) fn get(&self, address: u64) -> u32 {
        let word = self.word(address).load(Ordering::Relaxed);
        (word >> (8 * (address % 8))) as u32
    }

    pub(crate) fn get64(&self, address: u64) -> u64 {
        u64::from(self.get(address)) | u64::from(self.get(address + 4)) << 32
    }

    pub(crate) fn put(&self, address: u64, value: u32) {
        let shift = 8 * (address % 8);
        let word = self.word(address);
        let rest = word.load(Ordering::Relaxed) & !(u64::from(u32::MAX) << shift);
        word.store(rest | u64::from(value) << shift, Ordering::Relaxed);
    }

    pub(crate) fn put64(&self, address: u64, value: u64) {
        self.put(address, value as u32);
        self.put(address + 4, (value >> 32) as u32);
    }

    pub(crate) fn write(&self, address: u64, words: &[u32]) {
        for (at, &word) in (0..).zip(words) {
            self.put(address + 4 * at, word);
        }
    }
}

impl AddressSpace for Memory {
    fn translate(&self, address: u64, len: u64, need: Need) -> Result<Extent, PageFault> {
        let Some(page) = self.0.get(&(address / PAGE)).filter(|_| len > 0) else {
            let reason = PageFaultReason::NotPresent;
            return Err(PageFault {
                address,
                need,
                reason,
            });
        };
        let at = (address % PAGE) as usize;
        let host = page.as_ptr().cast::<u8>().cast_mut().wrapping_add(at);
        Ok(Extent {
            host: NonNull::new(host).unwrap(),
            len: len.min(PAGE - at as u64),
            heap: Heap::Local,
            mtype: Mtype::Uc,
        })
    }
}

/// What ran, in order: the launch, the group.
pub(crate) type Log = Arc<Mutex<Vec<(Dispatch, [u32; 3])>>>;

struct Programs(Log);

struct Program {
    dispatch: Dispatch,
    word: u32,
    out: u64,
    argument: u64,
    log: Log,
}

/// Programs, by the word that is their code. Their arguments are at offset 0x160 of bank 0: an address, a value.
/// Not known.
pub(crate) const UNKNOWN: u32 = 0;
/// Stores 1 + the group's linear number at its place of the address.
pub(crate) const NUMBER: u32 = 1;
/// Stores the value at the address.
pub(crate) const STORE: u32 = 2;
/// Loads the word that the value points to, and stores it at the address.
pub(crate) const COPY: u32 = 3;
/// Has 3 in the second word of its code stored at the address, as [`COPY`] does not: stores that word.
pub(crate) const SECOND: u32 = 4;

impl Executor for Programs {
    fn prepare(
        &mut self,
        dispatch: &Dispatch,
        memory: &mut dyn ShaderMemory,
    ) -> Result<Option<Box<dyn Kernel>>, Cause> {
        let mut words = [0; 8];
        memory.fetch(dispatch.program, &mut words)?;
        let word = u32::from_le_bytes(words[..4].try_into().unwrap());
        let second = u32::from_le_bytes(words[4..].try_into().unwrap());
        if word == UNKNOWN {
            return Ok(None);
        }
        let registers = dispatch.registers.nv().unwrap();
        let mut arguments = [0; 16];
        if let Some(bank) = registers.banks[0] {
            memory.load_scalar(bank.address + 0x160, &mut arguments)?;
        }
        let mut argument = u64::from_le_bytes(arguments[8..].try_into().unwrap());
        if word == SECOND {
            argument = second.into();
        }
        Ok(Some(Box::new(Program {
            dispatch: dispatch.clone(),
            word: if word == SECOND { STORE } else { word },
            out: u64::from_le_bytes(arguments[..8].try_into().unwrap()),
            argument,
            log: self.0.clone(),
        })))
    }
}

impl Kernel for Program {
    fn run_group(
        &mut self,
        group: [u32; 3],
        _: &mut [u8],
        memory: &mut dyn ShaderMemory,
    ) -> Result<(), Cause> {
        let mut log = self.log.lock().unwrap();
        log.push((self.dispatch.clone(), group));
        let [x, y, z] = group.map(u64::from);
        let [width, height, _] = self.dispatch.groups.map(u64::from);
        let number = x + width * (y + height * z);
        match self.word {
            NUMBER => memory.store(self.out + 4 * number, &(number as u32 + 1).to_le_bytes())?,
            STORE => memory.store(self.out, &(self.argument as u32).to_le_bytes())?,
            COPY => {
                let mut word = [0; 4];
                memory.load(self.argument, &mut word)?;
                memory.store(self.out, &word)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// A GPU of one channel.
pub(crate) struct Rig {
    pub(crate) memory: Memory,
    caches: Caches,
    programs: Programs,
    pub(crate) log: Log,
    block: Arc<Block>,
    pub(crate) put: u32,
    pub(crate) clock: u64,
    pub(crate) interrupts: u32,
    random: fastrand::Rng,
    engine: Option<Box<dyn Engine>>,
    /// Where the next pushbuffer goes.
    push: u64,
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

    fn interrupt(&mut self, _: u32) {
        self.interrupts += 1;
    }

    fn doorbell(&self) -> u64 {
        self.put.into()
    }

    fn random(&mut self, below: u32) -> u32 {
        self.random.u32(..below)
    }
}

impl Rig {
    /// A channel for compute, of a generation.
    pub(crate) fn new(name: &str, seed: u64) -> Self {
        Self::on(name, ChannelEngine::Graphics, seed)
    }

    pub(crate) fn on(name: &str, engine: ChannelEngine, seed: u64) -> Self {
        let chip = chip::find(name).unwrap();
        let classes = &[chip.compute, chip.copy];
        Self::with(name, engine, classes, seed)
    }

    pub(crate) fn with(name: &str, on: ChannelEngine, classes: &[u32], seed: u64) -> Self {
        let chip = chip::find(name).unwrap();
        let block = Store::new().unwrap().block(PAGE).unwrap();
        let objects = Objects::default();
        classes.iter().for_each(|&class| objects.add(class));
        let request = ChannelRequest {
            chip,
            class: *chip.gpfifo.last().unwrap(),
            engine: on,
            channel: 3,
            memory: ChannelMemory {
                gpfifo: RING,
                entries: ENTRIES,
                userd: Userd::new(block.clone(), 0),
            },
            objects,
        };
        let mut memory = Memory::default();
        memory.map(RING, 8 * u64::from(ENTRIES));
        memory.map(PUSH, 0x1_0000);
        memory.map(SIGNAL, PAGE);
        memory.map(QMDS, PAGE);
        memory.map(CODE, PAGE);
        memory.map(BANK, 0x1_0000);
        memory.map(DATA, DATA_BYTES);
        let log = Log::default();
        Self {
            memory,
            caches: Caches::new(2),
            programs: Programs(log.clone()),
            log,
            block,
            put: 0,
            clock: 1000,
            interrupts: 0,
            random: fastrand::Rng::with_seed(seed),
            engine: engine(&request),
            push: PUSH,
        }
    }

    /// `GPGet` as the host sees it.
    pub(crate) fn gp_get(&self) -> u32 {
        self.block.load32(0x88).unwrap()
    }

    /// Writes a GP entry, and moves `GPPut`.
    pub(crate) fn entry(&mut self, value: u64) {
        self.memory.put64(RING + 8 * u64::from(self.put), value);
        self.put = (self.put + 1) % ENTRIES;
    }

    /// Submits words of a pushbuffer.
    pub(crate) fn submit(&mut self, words: &[u32]) {
        self.memory.write(self.push, words);
        self.entry(self.push | (words.len() as u64) << 42);
        self.push += 4 * words.len() as u64;
    }

    pub(crate) fn step(&mut self) -> Step {
        self.clock += 32;
        let mut engine = self.engine.take().unwrap();
        let step = engine.step(self);
        self.engine = Some(engine);
        step
    }

    /// Runs until nothing is left to do, or the channel waits: `true` if it waits.
    pub(crate) fn run(&mut self) -> Result<bool, Box<Fault>> {
        for _ in 0..100_000 {
            match self.step() {
                Step::Progress => {}
                Step::Idle => return Ok(false),
                Step::Waiting => return Ok(true),
                Step::Fault(fault) => return Err(fault),
            }
        }
        panic!("no end");
    }

    /// Runs to the end.
    pub(crate) fn finish(&mut self) {
        match self.run() {
            Ok(waits) => assert!(!waits, "it waits"),
            Err(fault) => panic!("{fault}"),
        }
    }

    /// Runs into a fault.
    pub(crate) fn fault(&mut self) -> Box<Fault> {
        match self.run() {
            Ok(waits) => panic!("no fault; waits: {waits}"),
            Err(fault) => fault,
        }
    }
}

/// A header of incrementing methods.
pub(crate) const fn inc(subchannel: u32, method: u32, count: u32) -> u32 {
    1 << 29 | count << 16 | subchannel << 13 | method >> 2
}

/// The words that write or wait for a semaphore.
pub(crate) fn semaphore(address: u64, payload: u64, execute: u32) -> [u32; 6] {
    [
        inc(0, 0x5C, 5),
        address as u32,
        (address >> 32) as u32,
        payload as u32,
        (payload >> 32) as u32,
        execute,
    ]
}
