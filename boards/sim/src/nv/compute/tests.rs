use super::super::qmd::tests::set;
use super::super::tests::support::*;
use super::*;

const ON: u32 = 1;
const PREFETCH_SCHEDULE: u32 = 9;
const SHARED_WINDOW: u64 = 0x7294_0000_0000;
const LOCAL_WINDOW: u64 = 0x7293_0000_0000;
static GENERATIONS: [&str; 4] = ["ampere", "ada", "hopper", "blackwell"];

/// A QMD in the making.
pub(in crate::nv) struct Qmd {
    version: &'static Version,
    pub(in crate::nv) words: Vec<u32>,
}

impl Qmd {
    /// A launch of `groups` groups of 32 items of the program at [`CODE`], with bank 0 at [`BANK`].
    pub(in crate::nv) fn new(name: &str, groups: u64) -> Self {
        let chip = super::super::chip::find(name).unwrap();
        let version = Compute::new(chip).unwrap().version;
        let mut qmd = Self {
            version,
            words: vec![0; version.words],
        };
        let old = version.major == 3;
        qmd.set("QMD_MAJOR_VERSION", version.major.into());
        qmd.set("SASS_VERSION", chip.sass_version.into());
        if !old {
            qmd.set("QMD_TYPE", 2);
        }
        qmd.set(
            if old {
                "CTA_RASTER_WIDTH"
            } else {
                "GRID_WIDTH"
            },
            groups,
        );
        qmd.set(
            if old {
                "CTA_RASTER_HEIGHT"
            } else {
                "GRID_HEIGHT"
            },
            1,
        );
        qmd.set(
            if old {
                "CTA_RASTER_DEPTH"
            } else {
                "GRID_DEPTH"
            },
            1,
        );
        qmd.set("CTA_THREAD_DIMENSION0", 32);
        qmd.set("CTA_THREAD_DIMENSION1", 1);
        qmd.set("CTA_THREAD_DIMENSION2", 1);
        qmd.set(
            if old {
                "REGISTER_COUNT_V"
            } else {
                "REGISTER_COUNT"
            },
            16,
        );
        qmd.shared(0x400);
        qmd.set("MIN_SM_CONFIG_SHARED_MEM_SIZE", 3);
        qmd.set("TARGET_SM_CONFIG_SHARED_MEM_SIZE", 9);
        qmd.set("MAX_SM_CONFIG_SHARED_MEM_SIZE", 0x1A);
        qmd.program(CODE);
        qmd.bank(0, BANK, 0x170);
        qmd
    }

    fn set(&mut self, name: &str, value: u64) {
        set(self.version, &mut self.words, name, 0, value);
    }

    fn each(&mut self, name: &str, index: u16, value: u64) {
        set(self.version, &mut self.words, name, index, value);
    }

    fn shared(&mut self, bytes: u64) {
        match self.version.major {
            5 => self.set("SHARED_MEMORY_SIZE_SHIFTED7", bytes >> 7),
            _ => self.set("SHARED_MEMORY_SIZE", bytes),
        }
    }

    pub(in crate::nv) fn program(&mut self, address: u64) {
        let (at, suffix) = match self.version.major {
            5 => (address >> 4, "_SHIFTED4"),
            _ => (address, ""),
        };
        let (low, high) = (at & 0xFFFF_FFFF, at >> 32);
        self.set(&format!("PROGRAM_ADDRESS_LOWER{suffix}"), low);
        self.set(&format!("PROGRAM_ADDRESS_UPPER{suffix}"), high);
    }

    fn local(&mut self, bytes: u64) {
        match self.version.major {
            5 => self.set("SHADER_LOCAL_MEMORY_HIGH_SIZE_SHIFTED4", bytes >> 4),
            _ => self.set("SHADER_LOCAL_MEMORY_HIGH_SIZE", bytes),
        }
    }

    pub(in crate::nv) fn bank(&mut self, index: u16, address: u64, bytes: u64) {
        let (at, suffix) = match self.version.major {
            3 => (address, ""),
            _ => (address >> 6, "_SHIFTED6"),
        };
        let (low, high) = (at & 0xFFFF_FFFF, at >> 32);
        self.each(&format!("CONSTANT_BUFFER_ADDR_LOWER{suffix}"), index, low);
        self.each(&format!("CONSTANT_BUFFER_ADDR_UPPER{suffix}"), index, high);
        self.each("CONSTANT_BUFFER_SIZE_SHIFTED4", index, bytes >> 4);
        self.each("CONSTANT_BUFFER_VALID", index, 1);
    }

    /// A release, into slot `index`, of one word.
    fn release(&mut self, index: u16, address: u64, payload: u64) {
        let (low, high) = (address & 0xFFFF_FFFF, address >> 32);
        if self.version.major == 3 {
            self.set(&format!("RELEASE{index}_ENABLE"), 1);
            self.set(&format!("RELEASE{index}_STRUCTURE_SIZE"), 1);
            self.set(&format!("RELEASE{index}_ADDRESS_LOWER"), low);
            self.set(&format!("RELEASE{index}_ADDRESS_UPPER"), high);
            self.set(&format!("RELEASE{index}_PAYLOAD_LOWER"), payload);
        } else {
            self.each("RELEASE_ENABLE", index, 1);
            self.each("RELEASE_STRUCTURE_SIZE", index, 1);
            self.set(&format!("RELEASE_SEMAPHORE{index}_ADDR_LOWER"), low);
            self.set(&format!("RELEASE_SEMAPHORE{index}_ADDR_UPPER"), high);
            self.set(&format!("RELEASE_SEMAPHORE{index}_PAYLOAD_LOWER"), payload);
        }
    }

    fn then(&mut self, next: u64) {
        if self.version.major == 3 {
            self.set("DEPENDENT_QMD0_ENABLE", 1);
            self.set("DEPENDENT_QMD0_ACTION", 1);
        } else {
            self.each("DEPENDENT_QMD_ENABLE", 0, 1);
            self.each("DEPENDENT_QMD_ACTION", 0, 1);
        }
        let name = match self.version.major {
            5 => "DEPENDENT_QMD_POINTER",
            _ => "DEPENDENT_QMD0_POINTER",
        };
        self.each(name, 0, next >> 8);
    }
}

/// The address of the `index`th QMD.
fn place(index: u64) -> u64 {
    QMDS + 0x200 * index
}

pub(in crate::nv) fn setup() -> Vec<u32> {
    let window =
        |method, address: u64| [inc(ON, method, 2), (address >> 32) as u32, address as u32];
    let mut words = window(0x2A0, SHARED_WINDOW).to_vec();
    words.extend(window(0x7B0, LOCAL_WINDOW));
    words
}

pub(in crate::nv) fn send(address: u64) -> [u32; 4] {
    [
        inc(ON, 0x2B4, 1),
        (address >> 8) as u32,
        inc(ON, 0x2C0, 1),
        PREFETCH_SCHEDULE,
    ]
}

/// A rig whose program 0 is `program`, with its two arguments.
fn rig(name: &str, seed: u64, program: u32, out: u64, argument: u64) -> Rig {
    let mut rig = Rig::new(name, seed);
    rig.memory.put(CODE, program);
    rig.memory.put64(BANK + 0x160, out);
    rig.memory.put64(BANK + 0x168, argument);
    rig.submit(&setup());
    rig
}

impl Rig {
    fn qmd(&mut self, index: u64, qmd: &Qmd) {
        self.memory.write(place(index), &qmd.words);
    }
}

#[test]
fn a_grid_runs_and_releases() {
    for name in GENERATIONS {
        for seed in 0..4 {
            let mut rig = rig(name, seed, NUMBER, DATA, 0);
            let mut qmd = Qmd::new(name, 100);
            qmd.release(0, SIGNAL, 7);
            qmd.release(2, SIGNAL + 16, 9);
            rig.qmd(0, &qmd);
            rig.submit(&send(place(0)));
            while rig.memory.get(SIGNAL) == 0 {
                rig.step();
            }
            // The signal comes after all groups.
            for at in 0..100 {
                assert_eq!(rig.memory.get(DATA + 4 * at), at as u32 + 1, "{name}");
            }
            rig.finish();
            assert_eq!(rig.memory.get(SIGNAL + 16), 9);
            let log = rig.log.lock().unwrap();
            assert_eq!(log.len(), 100);
            let (dispatch, _) = &log[0];
            assert_eq!(dispatch.groups, [100, 1, 1]);
            assert_eq!((dispatch.local, dispatch.wave), ([32, 1, 1], 32));
            assert_eq!((dispatch.program, dispatch.local_memory), (CODE, 0));
            let registers = dispatch.registers.nv().unwrap();
            let bank = ConstantBank {
                address: BANK,
                bytes: 0x170,
            };
            assert_eq!(registers.banks[0], Some(bank));
            assert_eq!((registers.registers, registers.barriers), (16, 0));
        }
    }
}

#[test]
fn groups_have_three_numbers() {
    let mut rig = rig("ampere", 1, NUMBER, DATA, 0);
    let mut qmd = Qmd::new("ampere", 5);
    qmd.set("CTA_RASTER_HEIGHT", 3);
    qmd.set("CTA_RASTER_DEPTH", 2);
    rig.qmd(0, &qmd);
    rig.submit(&send(place(0)));
    rig.finish();
    let mut groups: Vec<_> = rig.log.lock().unwrap().iter().map(|(_, g)| *g).collect();
    groups.sort_unstable();
    groups.dedup();
    assert_eq!(groups.len(), 30);
    assert_eq!(groups.last(), Some(&[4, 2, 1]));
    assert_eq!(rig.memory.get(DATA + 4 * 29), 30);
}

#[test]
fn a_dependent_grid_waits_for_its_parent() {
    for name in GENERATIONS {
        for seed in 0..8 {
            let mut rig = rig(name, seed, STORE, DATA, 5);
            // The second one copies what the first one stores.
            rig.memory.put(CODE + 0x100, COPY);
            rig.memory.put64(BANK + 0x1000 + 0x160, DATA + 16);
            rig.memory.put64(BANK + 0x1000 + 0x168, DATA);
            let mut first = Qmd::new(name, 3);
            first.then(place(1));
            let mut second = Qmd::new(name, 1);
            second.program(CODE + 0x100);
            second.bank(0, BANK + 0x1000, 0x170);
            second.set("INVALIDATE_SHADER_DATA_CACHE", 1);
            rig.qmd(0, &first);
            rig.qmd(1, &second);
            rig.submit(&send(place(0)));
            rig.finish();
            assert_eq!(rig.memory.get(DATA + 16), 5, "{name} {seed}");
        }
    }
}

/// Two grids, one after the other, with words in between: whether the second sees what the first stores.
fn sees(between: &[u32], seed: u64) -> bool {
    let mut rig = rig("ada", seed, STORE, DATA, 5);
    rig.memory.put(CODE + 0x100, COPY);
    rig.memory.put64(BANK + 0x1000 + 0x160, DATA + 16);
    rig.memory.put64(BANK + 0x1000 + 0x168, DATA);
    let mut second = Qmd::new("ada", 1);
    second.program(CODE + 0x100);
    second.bank(0, BANK + 0x1000, 0x170);
    rig.qmd(0, &Qmd::new("ada", 1));
    rig.qmd(1, &second);
    let mut words = send(place(0)).to_vec();
    words.extend(between);
    words.extend(send(place(1)));
    rig.submit(&words);
    rig.finish();
    rig.memory.get(DATA + 16) == 5
}

#[test]
fn grids_run_at_the_same_time() {
    let seen: Vec<bool> = (0..50).map(|seed| sees(&[], seed)).collect();
    assert!(seen.contains(&true) && seen.contains(&false));
    // Three ways to wait: by a method of the engine, by two of the host.
    let release = semaphore(SIGNAL, 1, 1 | 1 << 20);
    for wait in [&[inc(ON, 0x110, 1), 0], &[inc(0, 0x78, 1), 0], &release[..]] {
        assert!((0..50).all(|seed| sees(wait, seed)), "{wait:x?}");
    }
    // An invalidation alone does not wait, its elder sister does.
    assert!((0..50).any(|seed| !sees(&[inc(ON, 0x1698, 1), 0x1011], seed)));
    assert!((0..50).all(|seed| sees(&[inc(ON, 0x21C, 1), 0x1011], seed)));
}

/// Runs a launch twice, with something changed in between, and words in front of the second.
fn twice(seed: u64, program: u32, change: impl Fn(&mut Rig), between: &[u32], qmd: &Qmd) -> u32 {
    let mut rig = rig("ampere", seed, program, DATA, DATA + 0x100);
    rig.memory.put(DATA + 0x100, 1);
    rig.memory.put(CODE + 4, 1);
    rig.qmd(0, qmd);
    rig.submit(&send(place(0)));
    rig.finish();
    assert_eq!(rig.memory.get(DATA), 1);
    change(&mut rig);
    let mut words = between.to_vec();
    words.extend(send(place(0)));
    rig.submit(&words);
    rig.finish();
    rig.memory.get(DATA)
}

#[test]
fn caches_keep_data_until_they_are_told() {
    let change = |rig: &mut Rig| rig.memory.put(DATA + 0x100, 2);
    let mut qmd = Qmd::new("ampere", 1);
    let stale = |between: &[u32], qmd: &Qmd| {
        let results: Vec<u32> = (0..40)
            .map(|s| twice(s, COPY, change, between, qmd))
            .collect();
        results.contains(&1)
    };
    assert!(stale(&[], &qmd));
    // Instructions and constants do not help.
    assert!(stale(&[inc(ON, 0x1698, 1), 0x1001], &qmd));
    assert!(!stale(&[inc(ON, 0x1698, 1), 0x10], &qmd));
    qmd.set("INVALIDATE_SHADER_DATA_CACHE", 1);
    assert!(!stale(&[], &qmd));
}

#[test]
fn caches_keep_instructions_until_they_are_told() {
    let change = |rig: &mut Rig| rig.memory.put(CODE + 4, 2);
    let mut qmd = Qmd::new("ampere", 1);
    let stale = |between: &[u32], qmd: &Qmd| {
        let results: Vec<u32> = (0..40)
            .map(|s| twice(s, SECOND, change, between, qmd))
            .collect();
        results.contains(&1)
    };
    assert!(stale(&[inc(ON, 0x1698, 1), 0x1010], &qmd));
    assert!(!stale(&[inc(ON, 0x1698, 1), 0x0001], &qmd));
    qmd.set("INVALIDATE_INSTRUCTION_CACHE", 1);
    assert!(!stale(&[], &qmd));
}

#[test]
fn caches_keep_constants_until_they_are_told() {
    // The value that is stored moves from one word to another.
    let change = |rig: &mut Rig| {
        rig.memory.put(DATA + 0x200, 2);
        rig.memory.put64(BANK + 0x168, DATA + 0x200);
    };
    let mut qmd = Qmd::new("ampere", 1);
    qmd.set("INVALIDATE_SHADER_DATA_CACHE", 1);
    let stale = |between: &[u32], qmd: &Qmd| {
        let results: Vec<u32> = (0..40)
            .map(|s| twice(s, COPY, change, between, qmd))
            .collect();
        results.contains(&1)
    };
    assert!(stale(&[inc(ON, 0x1698, 1), 0x0011], &qmd));
    assert!(!stale(&[inc(ON, 0x1698, 1), 0x1000], &qmd));
    // By the bank, of the right one.
    qmd.each("CONSTANT_BUFFER_INVALIDATE", 1, 1);
    qmd.bank(1, BANK + 0x8000, 0x100);
    assert!(stale(&[], &qmd));
    qmd.each("CONSTANT_BUFFER_INVALIDATE", 0, 1);
    assert!(!stale(&[], &qmd));
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    type Change = fn(&mut Qmd);
    let cases: &[(Change, &str)] = &[
        (
            |q| q.set("CTA_THREAD_DIMENSION1", 0),
            "CTA_THREAD_DIMENSION_ZERO",
        ),
        (|q| q.set("CTA_THREAD_DIMENSION1", 33), "TOTAL_THREADS"),
        (|q| q.set("CTA_THREAD_DIMENSION2", 65), "TOTAL_THREADS"),
        (|q| q.set("SASS_VERSION", 0x75), "SASS_VERSION 0x75"),
        (|q| q.program(CODE + 8), "PROGRAM_OFFSET"),
        (|q| q.program(0), "PROGRAM_OFFSET"),
        (|q| q.set("REGISTER_COUNT_V", 0), "REGISTER_COUNT"),
        (|q| q.set("REGISTER_COUNT_V", 256), "REGISTER_COUNT"),
        (|q| q.set("BARRIER_COUNT", 17), "BARRIER_COUNT 17"),
        (|q| q.shared(101 << 10), "SHARED_MEMORY_SIZE"),
        (
            |q| q.set("TARGET_SM_CONFIG_SHARED_MEM_SIZE", 2),
            "SM_CONFIG",
        ),
        (
            |q| q.set("MAX_SM_CONFIG_SHARED_MEM_SIZE", 0x1B),
            "SM_CONFIG",
        ),
        (
            |q| {
                q.shared(40 << 10);
                q.set("MAX_SM_CONFIG_SHARED_MEM_SIZE", 9);
            },
            "SHARED_CONFIG_TOO_SMALL",
        ),
        (|q| q.bank(2, BANK, 0x1_0010), "CONSTANT_BUFFER_SIZE"),
        (|q| q.bank(2, BANK + 32, 0x100), "CONSTANT_BUFFER_SIZE"),
        (|q| q.local(0x248), "LOCAL_MEMORY_SIZE"),
        (|q| q.local(0x240), "TOTAL_TEMP_SIZE"),
        (|q| q.set("IS_QUEUE", 1), "IS_QUEUE = 0x1 is not simulated"),
        (|q| q.program(CODE + 0x200), "nobody here can run"),
        (
            |q| {
                q.set("CTA_THREAD_DIMENSION0", 1024);
                q.set("REGISTER_COUNT_V", 72);
            },
            "TOTAL_REGISTER_COUNT",
        ),
    ];
    for (change, wanted) in cases {
        let mut rig = rig("ampere", 1, NUMBER, DATA, 0);
        let mut qmd = Qmd::new("ampere", 1);
        qmd.release(0, SIGNAL, 1);
        change(&mut qmd);
        rig.qmd(0, &qmd);
        rig.submit(&send(place(0)));
        let fault = rig.fault();
        let text = fault.to_string();
        assert!(text.contains(wanted), "{wanted}: {text}");
        assert!(text.contains("CTA_RASTER_WIDTH = 0x1"), "{text}");
        assert!(matches!(fault.cause, Cause::Launch(_)), "{text}");
        assert_eq!(rig.memory.get(SIGNAL), 0);
    }
}

#[test]
fn windows_have_to_be_set() {
    let mut rig = Rig::new("ampere", 1);
    rig.qmd(0, &Qmd::new("ampere", 1));
    rig.submit(&send(place(0)));
    assert!(rig.fault().to_string().contains("MEMORY_WINDOW_OVERLAP"));
}

#[test]
fn local_memory_is_that_of_the_methods() {
    for (bytes, enough) in [(0x1B_0000u32, true), (0x1A_8000, false)] {
        let mut rig = rig("ampere", 1, NUMBER, DATA, 0);
        rig.submit(&[
            inc(ON, 0x790, 2),
            0x123,
            0x4000_0000,
            inc(ON, 0x2E4, 3),
            0,
            bytes,
            0xFF,
        ]);
        let mut qmd = Qmd::new("ampere", 1);
        qmd.local(0x240);
        rig.qmd(0, &qmd);
        rig.submit(&send(place(0)));
        if enough {
            rig.finish();
            let log = rig.log.lock().unwrap();
            let (dispatch, _) = &log[0];
            let scratch = ScratchMemory {
                base: 0x123_4000_0000,
                wave_bytes: 0x4800,
                waves: 82 * 48,
            };
            assert_eq!(dispatch.scratch, Some(scratch));
            let registers = dispatch.registers.nv().unwrap();
            assert_eq!(registers.thread_bytes, 0x240);
            let all = (0x123_4000_0000, 42 * u64::from(bytes));
            assert_eq!(registers.thread_memory, Some(all));
        } else {
            assert!(rig.fault().to_string().contains("TOTAL_TEMP_SIZE"));
        }
    }
}

#[test]
fn a_grid_of_nothing_still_releases() {
    let mut rig = rig("hopper", 1, NUMBER, DATA, 0);
    let mut qmd = Qmd::new("hopper", 1);
    qmd.set("QMD_TYPE", 1);
    qmd.release(1, SIGNAL, 3);
    rig.qmd(0, &qmd);
    let mut none = Qmd::new("hopper", 0);
    none.release(0, SIGNAL + 16, 4);
    rig.qmd(1, &none);
    rig.submit(&send(place(0)));
    rig.submit(&send(place(1)));
    rig.finish();
    assert!(rig.log.lock().unwrap().is_empty());
    assert_eq!(
        (rig.memory.get(SIGNAL), rig.memory.get(SIGNAL + 16)),
        (3, 4)
    );
}

#[test]
fn a_program_outside_of_its_memory_is_a_fault() {
    let mut rig = rig("blackwell", 1, STORE, 0x9000, 1);
    rig.qmd(0, &Qmd::new("blackwell", 1));
    rig.submit(&send(place(0)));
    let fault = rig.fault();
    assert!(matches!(&fault.cause, Cause::Memory(page) if page.address == 0x9000));
    assert!(fault.to_string().contains("GRID_WIDTH = 0x1"), "{fault}");
    // So is a QMD that is not there.
    let mut rig = self::rig("blackwell", 1, STORE, DATA, 1);
    rig.submit(&send(0xA000));
    assert!(matches!(rig.fault().cause, Cause::Memory(page) if page.address == 0xA000));
}

#[test]
fn many_grids_wait_for_room() {
    let mut rig = rig("ampere", 3, NUMBER, DATA, 0);
    let mut qmd = Qmd::new("ampere", 1);
    qmd.release(0, SIGNAL, 1);
    qmd.set("RELEASE0_REDUCTION_ENABLE", 1);
    rig.qmd(0, &qmd);
    let words: Vec<u32> = (0..100).flat_map(|_| send(place(0))).collect();
    rig.submit(&words);
    rig.finish();
    assert_eq!(rig.memory.get(SIGNAL), 100);
}

#[test]
fn grids_that_multiply_are_stopped() {
    let mut rig = rig("hopper", 3, NUMBER, DATA, 0);
    let mut qmd = Qmd::new("hopper", 1);
    qmd.then(place(0));
    qmd.each("DEPENDENT_QMD_ENABLE", 1, 1);
    qmd.each("DEPENDENT_QMD_ACTION", 1, 1);
    qmd.set("DEPENDENT_QMD1_POINTER", place(0) >> 8);
    rig.qmd(0, &qmd);
    rig.submit(&send(place(0)));
    assert!(rig.fault().to_string().contains("more than 128 grids"));
}

#[test]
fn report_semaphores() {
    let mut rig = rig("ampere", 3, NUMBER, DATA, 0);
    rig.memory.put64(SIGNAL, u64::MAX);
    let to = |a: u64| [(a >> 32) as u32, a as u32];
    let [high, low] = to(SIGNAL);
    rig.submit(&[inc(ON, 0x1B00, 4), high, low, 5, 1 << 28]);
    rig.submit(&[inc(ON, 0x1B00, 4), high, low + 16, 6, 1 << 20]);
    rig.submit(&[inc(ON, 0x158, 5), 7, 8, low + 32, high, 1 << 12]);
    rig.finish();
    assert_eq!(rig.memory.get64(SIGNAL), 0xFFFF_FFFF_0000_0005);
    assert_eq!(rig.memory.get64(SIGNAL + 16), 6);
    assert!(rig.memory.get64(SIGNAL + 24) >= 1000);
    assert_eq!(rig.memory.get64(SIGNAL + 32), 8 << 32 | 7);
    assert_eq!(rig.interrupts, 1);
}

#[test]
fn methods_and_their_bits_are_those_of_the_class() {
    let cases: &[(&str, [u32; 2], bool)] = &[
        ("ampere", [0x790, 0x2_0000], false),
        ("ampere", [0x790, 0x1_FFFF], true),
        ("hopper", [0x790, 0x1FF_FFFF], true),
        ("ampere", [0x1698, 2], false),
        ("ampere", [0x7AC, 1], false),
        ("hopper", [0x7AC, 1], true),
        ("ampere", [0x290, 1], true),
        ("blackwell", [0x290, 1], false),
        ("blackwell", [0x1458, 1], true),
        ("ada", [0x2C0, 6], false),
        ("ada", [0x2C0, 0], true),
        ("ada", [0x140, 0xFFFF_FFFF], true),
    ];
    for &(name, [method, data], fine) in cases {
        let mut rig = Rig::new(name, 1);
        rig.submit(&[inc(ON, method, 1), data]);
        assert_eq!(rig.run().is_ok(), fine, "{name} {method:#x} {data:#x}");
    }
}
