//! Sequences of calls whose arguments are any bytes: a small language in which an input says what lies in a process's memory
//! and what it asks the kernel.
//!
//! | byte modulo 16 | what follows | what is done |
//! |---|---|---|
//! | 0 | node, access | a node is opened |
//! | 1 | file | it is closed |
//! | 2, 3 | place, count, bytes | they are stored in memory |
//! | 4 | from, to, count | bytes of memory are copied: an answer becomes an argument |
//! | 5 | place, file | the file's number is stored |
//! | 6, 7 | file, request, place | a call, with its argument at that place |
//! | 8, 9 | file, which request, place | the same, with a request of the family's list |
//! | 10 | file, offset, pages | a mapping, where nothing is yet |
//! | 11 | which | the end of a mapping |
//! | 12 | file | whether it is readable |
//! | 13 | mapping, place, number | a word is stored in it |
//! | 14, 15 | turns | the engines move |

use crate::calls::{Input, PLAIN, PLAIN_BYTES, WINDOW};
use crate::sim::{PAGE, Span, alone, no_panic, pointer, word};
use hcq_sim::machine::Machine;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

const MOST_CALLS: usize = 300;
/// More would only fill the host's tables of mappings.
const MOST_FILES: usize = 32;
/// Places that an argument begins at; what requests can have behind it is memory, too.
const PLACES: u64 = PLAIN_BYTES - 0x8000;
/// Bytes between two mappings, and at most of one.
const MAPPED: u64 = 1 << 20;

/// The kernel interface that is asked.
pub(crate) struct Family {
    /// Machines, by the first byte.
    pub(crate) machines: &'static [&'static str],
    pub(crate) nodes: &'static [&'static str],
    pub(crate) requests: &'static [u32],
    /// Whether a call can be made: of the machine, a file, and a request whose argument lies at this address. It may change
    /// the argument. Calls that wait for what nobody will do cannot be made.
    pub(crate) may_call: fn(&Call<'_>, u32, u64) -> bool,
    /// Whether a call that the file took was done, by its request and the words of its argument.
    pub(crate) succeeded: fn(u32, &dyn Fn(u64) -> u32) -> bool,
}

/// Who calls.
pub(crate) struct Call<'p> {
    pub(crate) machine: &'p Machine,
    pub(crate) file: i32,
    /// Calls before.
    pub(crate) before: usize,
}

struct Process<'d> {
    family: Family,
    machine: Arc<Machine>,
    input: Input<'d>,
    files: Vec<i32>,
    /// Mappings: address and bytes.
    mapped: Vec<(u64, u64)>,
    next: u64,
    done: usize,
}

fn byte(address: u64) -> &'static AtomicU8 {
    // SAFETY: callers name bytes of plain memory.
    unsafe { AtomicU8::from_ptr(pointer(address).as_ptr()) }
}

/// Four bytes of plain memory.
pub(crate) fn get(address: u64) -> u32 {
    let bytes = [0, 1, 2, 3].map(|n| byte(address + n).load(Ordering::Relaxed));
    u32::from_le_bytes(bytes)
}

/// Stores four bytes in plain memory.
pub(crate) fn set(address: u64, value: u32) {
    for (n, b) in (0..).zip(value.to_le_bytes()) {
        byte(address + n).store(b, Ordering::Relaxed);
    }
}

/// Runs an input. Accepted are those of which eight calls or more succeed.
pub(crate) fn run(family: Family, data: &[u8]) -> bool {
    let mut input = Input(data);
    let first = usize::from(input.byte());
    let _alone = alone();
    let span = Span::new();
    span.plain(PLAIN, PLAIN_BYTES);
    let config = family.machines[first % family.machines.len()];
    let machine = Machine::new(config.parse().expect("a machine's name")).expect("a machine");
    let mut process = Process {
        family,
        machine: machine.clone(),
        input,
        files: Vec::new(),
        mapped: Vec::new(),
        next: WINDOW,
        done: 0,
    };
    for n in 0..MOST_CALLS {
        if process.input.0.is_empty() {
            break;
        }
        process.next(n);
    }
    let _ = (0..500).any(|_| !machine.step());
    no_panic(&machine);
    process.done >= 8
}

impl Process<'_> {
    fn file(&mut self) -> i32 {
        match usize::from(self.input.byte()) {
            255 => -1,
            n => {
                let number = n % self.files.len().max(1);
                self.files.get(number).copied().unwrap_or(5)
            }
        }
    }

    fn place(&mut self) -> u64 {
        let number = u16::from_le_bytes([self.input.byte(), self.input.byte()]);
        PLAIN + u64::from(number) % PLACES
    }

    fn next(&mut self, before: usize) {
        match self.input.byte() % 16 {
            0 => {
                let node = usize::from(self.input.byte()) % self.family.nodes.len();
                let write = self.input.byte() != 255;
                if self.files.len() < MOST_FILES
                    && let Ok(file) = self.machine.open(Path::new(self.family.nodes[node]), write)
                {
                    self.files.push(file);
                }
            }
            1 => {
                let file = self.file();
                self.machine.close(file);
            }
            2 | 3 => {
                let (place, count) = (self.place(), self.input.byte());
                for n in 0..count {
                    byte(place + u64::from(n)).store(self.input.byte(), Ordering::Relaxed);
                }
            }
            4 => {
                let (from, to, count) = (self.place(), self.place(), self.input.byte());
                for n in (0..count).map(u64::from) {
                    let value = byte(from + n).load(Ordering::Relaxed);
                    byte(to + n).store(value, Ordering::Relaxed);
                }
            }
            5 => {
                let place = self.place();
                let file = self.file();
                set(place, file as u32);
            }
            6 | 7 => {
                let (file, request, place) = (self.file(), self.input.number(), self.place());
                self.call(before, file, request, place);
            }
            8 | 9 => {
                let file = self.file();
                let which = usize::from(self.input.byte()) % self.family.requests.len();
                let (request, place) = (self.family.requests[which], self.place());
                self.call(before, file, request, place);
            }
            10 => self.mmap(),
            11 => {
                let n = usize::from(self.input.byte());
                if !self.mapped.is_empty() {
                    let (at, bytes) = self.mapped.swap_remove(n % self.mapped.len());
                    // SAFETY: it is not in the list any more.
                    let done = unsafe { self.machine.munmap(pointer(at), bytes as usize) };
                    assert_eq!(done, Ok(()));
                }
            }
            12 => {
                let file = self.file();
                let _ = self.machine.poll(file, Duration::ZERO);
            }
            13 => {
                let n = usize::from(self.input.byte());
                let (place, value) = (self.place() - PLAIN, self.input.number());
                if let Some((at, bytes)) = self.mapped.get(n % self.mapped.len().max(1)) {
                    let at = at + ((place % bytes) & !7);
                    word(at).store(value.into(), Ordering::Release);
                }
            }
            _ => {
                let most = usize::from(self.input.byte());
                let _ = (0..most).any(|_| !self.machine.step());
                no_panic(&self.machine);
            }
        }
    }

    fn call(&mut self, before: usize, file: i32, request: u32, place: u64) {
        let machine = &*self.machine;
        let call = Call {
            machine,
            file,
            before,
        };
        if !(self.family.may_call)(&call, request, place) {
            return;
        }
        // SAFETY: behind every place there is as much memory as a request's argument can have; addresses in it are looked at
        // by the machine.
        let done = unsafe { machine.ioctl(file, request.into(), pointer(place).as_ptr().cast()) };
        assert!(done.is_ok_and(|n| n >= 0) || done.is_err_and(|e| e > 0));
        let done = done.is_ok() && (self.family.succeeded)(request, &|at| get(place + at));
        self.done += usize::from(done);
    }

    fn mmap(&mut self) {
        let (file, offset) = (self.file(), u64::from(self.input.small()) * PAGE);
        let bytes = (u64::from(self.input.byte()) * PAGE).min(MAPPED);
        let at = self.next;
        self.next += MAPPED;
        // SAFETY: a part of the span that nothing uses.
        let seen = unsafe {
            self.machine
                .mmap(Some(pointer(at)), bytes as usize, true, true, file, offset)
        };
        if seen.is_ok() {
            self.done += 1;
            self.mapped.push((at, bytes));
        }
    }
}

/// An input, written.
pub(crate) struct Script(Vec<u8>);

impl Script {
    pub(crate) fn new(machine: u8) -> Self {
        Self(vec![machine])
    }

    /// The address of a place.
    pub(crate) fn address(place: u16) -> u64 {
        PLAIN + u64::from(place)
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        self.0
    }

    /// Seeds that are no sound scripts, by name: a call where nothing is open, and numbers that are `step` apart.
    pub(crate) fn unsound(request: u32, step: u8) -> [(&'static str, Vec<u8>); 2] {
        let mut nothing = Self::new(0);
        nothing.call(0, request, 0x200);
        let numbers = (0u8..80).map(|n| n.wrapping_mul(step) | 1).collect();
        [
            ("bad-nothing-open", nothing.bytes()),
            ("bad-numbers", numbers),
        ]
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn open(&mut self, node: u8) {
        self.add(&[0, node, 0]);
    }

    pub(crate) fn put(&mut self, place: u16, bytes: &[u8]) {
        for (at, bytes) in (place..).step_by(128).zip(bytes.chunks(128)) {
            self.add(&[2]);
            self.add(&at.to_le_bytes());
            self.add(&[bytes.len() as u8]);
            self.add(bytes);
        }
    }

    pub(crate) fn copy(&mut self, from: u16, to: u16, count: u8) {
        self.add(&[4]);
        self.add(&from.to_le_bytes());
        self.add(&to.to_le_bytes());
        self.add(&[count]);
    }

    /// Stores a file's number.
    pub(crate) fn file(&mut self, place: u16, file: u8) {
        self.add(&[5]);
        self.add(&place.to_le_bytes());
        self.add(&[file]);
    }

    pub(crate) fn call(&mut self, file: u8, request: u32, place: u16) {
        self.add(&[6, file]);
        self.add(&request.to_le_bytes());
        self.add(&place.to_le_bytes());
    }

    pub(crate) fn mmap(&mut self, file: u8, offset_pages: u8, pages: u8) {
        self.add(&[10, file, offset_pages, pages]);
    }

    /// The same with an offset that a byte does not hold.
    pub(crate) fn mmap_at(&mut self, file: u8, offset_pages: u32, pages: u8) {
        self.add(&[10, file, 255]);
        self.add(&offset_pages.to_le_bytes());
        self.add(&[pages]);
    }

    pub(crate) fn store(&mut self, mapping: u8, place: u16, value: u32) {
        self.add(&[13, mapping]);
        self.add(&place.to_le_bytes());
        self.add(&value.to_le_bytes());
    }

    pub(crate) fn step(&mut self, turns: u8) {
        self.add(&[14, turns]);
    }
}
