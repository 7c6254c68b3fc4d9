//! The engine against memory that tests own. Device addresses are CPU addresses unless a test says otherwise.

use super::*;
use crate::abi::Group;
use crate::control::Control;
use crate::packet::{Exec, Packet};
use crate::{PACKET_BYTES, PACKET_WORDS};
use core::ffi::c_void;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use hcq_nostd::fault::FaultKind;
use hcq_nostd::mem::SharedWords;
use hcq_nostd::ring::{Ring, RingError};
use std::alloc::Layout;
use std::vec::Vec;

mod commands;
mod faults;
mod groups;
mod model;
#[cfg(target_has_atomic = "64")]
mod shared;
mod stops;

/// Zeroed 64-bit words at a 64-byte boundary, accessed by address and atomically only: engines have them meanwhile.
pub(super) struct Memory {
    first: NonNull<u64>,
    len: usize,
}

// SAFETY: every access is atomic, or the engine's.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len * 8, 64).expect("a small layout")
    }

    pub(super) fn new(len: usize) -> Self {
        assert!(len > 0);
        // SAFETY: the layout is not empty.
        let p = unsafe { std::alloc::alloc_zeroed(Self::layout(len)) };
        Self {
            first: NonNull::new(p.cast()).expect("memory"),
            len,
        }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.len);
        // SAFETY: inside, as was just seen.
        let word = unsafe { self.first.add(index) };
        // SAFETY: aligned, and accessed atomically or by engines in the order that signals give.
        unsafe { AtomicU64::from_ptr(word.as_ptr()) }
    }

    pub(super) fn get(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Acquire)
    }

    pub(super) fn set(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Release);
    }

    fn all(&self) -> Vec<u64> {
        (0..self.len).map(|i| self.get(i)).collect()
    }

    /// All bytes, with plain accesses: for tests without threads that copy parts of words.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = std::vec![0; self.len * 8];
        self.region().read(0, &mut bytes).expect("inside");
        bytes
    }

    /// Stores all bytes, with plain accesses.
    fn set_bytes(&self, bytes: &[u8]) {
        self.region().write(0, bytes).expect("inside");
    }

    /// Device address of a word.
    pub(super) fn at(&self, index: usize) -> u64 {
        assert!(index <= self.len);
        self.first.as_ptr().expose_provenance() as u64 + index as u64 * 8
    }

    fn range(&self) -> Range<u64> {
        self.at(0)..self.at(self.len)
    }

    pub(super) fn region(&self) -> Region<'_> {
        // SAFETY: the words live as long as `self`; tests keep to the order of signals and ring pointers.
        unsafe { Region::new(self.first.cast(), self.len * 8, self.at(0)) }
    }

    fn words(&self) -> SharedWords<'_> {
        SharedWords::new(self.region()).expect("aligned")
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { std::alloc::dealloc(self.first.as_ptr().cast(), Self::layout(self.len)) }
    }
}

/// A platform that knows some ranges and the kernels of this file, and notes what it is told.
#[derive(Clone, Default)]
pub(super) struct Host {
    readable: Vec<Range<u64>>,
    writable: Vec<Range<u64>>,
    /// Added to device addresses; for memory that is not at its own address.
    shift: u64,
    now: u64,
    /// The clock's step.
    tick: u64,
    written: Vec<(u64, bool)>,
    wakes: u32,
    no_kernels: bool,
}

impl Host {
    pub(super) fn over(memory: &[&Memory]) -> Self {
        let ranges: Vec<_> = memory.iter().map(|m| m.range()).collect();
        Self {
            readable: ranges.clone(),
            writable: ranges,
            tick: 1,
            ..Self::default()
        }
    }
}

impl Platform for Host {
    fn now_ns(&mut self) -> u64 {
        self.now += self.tick;
        self.now
    }

    fn translate(&mut self, address: u64, len: u64, access: Access) -> Option<NonNull<u8>> {
        let ranges = match access {
            Access::Read => &self.readable,
            Access::Write => &self.writable,
            _ => return None,
        };
        let end = address.checked_add(len)?;
        let inside = |r: &&Range<u64>| r.start <= address && end <= r.end;
        ranges.iter().find(inside)?;
        let cpu = address.wrapping_add(self.shift) as usize;
        NonNull::new(core::ptr::with_exposed_provenance_mut(cpu))
    }

    fn kernel(&mut self, entry: u64) -> Option<KernelFn> {
        if self.no_kernels {
            return None;
        }
        Some(match entry {
            COUNT => count,
            NOTE => note,
            MIX => mix,
            _ => return None,
        })
    }

    fn written(&mut self, address: u64, notify: bool) {
        self.written.push((address, notify));
    }

    fn wake_helpers(&mut self) {
        self.wakes += 1;
    }
}

/// Reads argument number `n` of a block of 64-bit words.
///
/// # Safety
/// The block has more than `n` words.
unsafe fn arg(args: *const c_void, n: usize) -> u64 {
    // SAFETY: this function's contract.
    let word = unsafe { args.cast::<u64>().add(n) };
    // SAFETY: this function's contract.
    unsafe { word.read() }
}

/// The word at a device address. Kernels access memory plainly, so that Miri sees groups that run at the same time.
fn word_at(address: u64) -> *mut u64 {
    core::ptr::with_exposed_provenance_mut(address as usize)
}

fn number(group: &Group) -> u64 {
    let ([x, y, z], [gx, gy, _]) = (group.group.map(u64::from), group.groups.map(u64::from));
    x + gx * (y + gy * z)
}

/// Adds 1 to the group's word. Arguments: the words.
const COUNT: u64 = 1;
unsafe extern "C" fn count(args: *const c_void, group: *const Group) {
    // SAFETY: the engine's.
    let group = unsafe { &*group };
    // SAFETY: the launch gives one argument.
    let base = unsafe { arg(args, 0) };
    // SAFETY: with a word per group.
    unsafe { *word_at(base + number(group) * 8) += 1 };
}

/// Notes what it was called with, as 8 words per group, and fills its local memory. Arguments: the words.
const NOTE: u64 = 2;
unsafe extern "C" fn note(args: *const c_void, group: *const Group) {
    // SAFETY: the engine's.
    let group = unsafe { &*group };
    // SAFETY: the launch gives one argument.
    let base = unsafe { arg(args, 0) };
    let pair = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
    let words = [
        pair(group.group[0], group.group[1]),
        pair(group.group[2], group.local_size),
        pair(group.groups[0], group.groups[1]),
        pair(group.groups[2], group.local[0]),
        pair(group.local[1], group.local[2]),
        group.local_memory.expose_provenance() as u64,
        group.reserved,
        args.expose_provenance() as u64,
    ];
    for (i, value) in (0u64..).zip(words) {
        // SAFETY: with 8 words per group.
        unsafe { *word_at(base + number(group) * 64 + i * 8) = value };
    }
    if !group.local_memory.is_null() {
        // SAFETY: all of it is this group's own.
        unsafe {
            group
                .local_memory
                .cast::<u8>()
                .write_bytes(0x5a, group.local_size as usize)
        };
    }
}

/// `to[g] = from[g] * factor + g`. Arguments: to, from, factor.
const MIX: u64 = 3;
unsafe extern "C" fn mix(args: *const c_void, group: *const Group) {
    // SAFETY: the engine's.
    let g = number(unsafe { &*group });
    // SAFETY: the launch gives three arguments.
    let [to, from, factor] = [0, 1, 2].map(|n| unsafe { arg(args, n) });
    // SAFETY: with a word per group.
    let from = unsafe { *word_at(from + g * 8) };
    // SAFETY: with a word per group.
    unsafe { *word_at(to + g * 8) = from.wrapping_mul(factor).wrapping_add(g) };
}

/// The host's side of a queue.
pub(super) struct Submit<'m> {
    ring: Ring<'m>,
    control: Control<'m>,
}

impl Submit<'_> {
    fn words(&mut self, packets: &[[u32; PACKET_WORDS]]) {
        self.ring
            .consumed(self.control.get())
            .expect("a get between the last one and put");
        let mut hole = self.ring.reserve(packets.len() as u64).expect("room");
        for (n, words) in (0u64..).zip(packets) {
            hole.fill(n, words).expect("reserved");
        }
        hole.publish(&mut self.control);
    }

    pub(super) fn push(&mut self, packets: &[Packet]) {
        let words: Vec<_> = packets.iter().map(Packet::encode).collect();
        self.words(&words);
    }

    fn get(&self) -> u64 {
        self.control.get()
    }
}

/// The memory of one queue: control block, then ring.
pub(super) fn queue_memory(packets: usize) -> Memory {
    Memory::new(Control::WORDS + packets * PACKET_BYTES / 8)
}

/// Both sides of a queue.
pub(super) fn queue(memory: &Memory, id: u16) -> (Submit<'_>, EngineQueue<'_>) {
    let control = Control::new(memory.words()).expect("enough words");
    let ring = || {
        let all = memory.region();
        let len = all.len() - Control::WORDS * 8;
        all.slice(Control::WORDS * 8, len).expect("inside")
    };
    let submit = Submit {
        ring: Ring::new(ring(), PACKET_BYTES).expect("whole packets"),
        control,
    };
    (
        submit,
        EngineQueue::new(ring(), control, id).expect("whole packets"),
    )
}

pub(super) fn no_local() -> Region<'static> {
    Region::from_words(&mut [], 0)
}

pub(super) fn poll(engine: &mut Engine<'_>, host: &mut Host, budget: u32) -> Poll {
    // SAFETY: the host knows the tests' memory only, and their kernels are sound for what tests launch.
    unsafe { engine.poll(host, budget) }
}

/// Polls until nothing runs any more.
fn settle(engine: &mut Engine<'_>, host: &mut Host) -> Poll {
    for _ in 0..10_000 {
        let outcome = poll(engine, host, 1000);
        if !matches!(outcome, Poll::Ran(_)) {
            return outcome;
        }
    }
    panic!("the engine does not come to an end");
}

pub(super) fn exec(kernel: u64, args: u64, args_size: u32, groups: [u32; 3]) -> Packet {
    Packet::Exec(Exec {
        kernel,
        args,
        args_size,
        groups,
        local: [1; 3],
        local_memory: 0,
    })
}

fn signal(address: u64, value: u64) -> Packet {
    Packet::Signal {
        address,
        value,
        notify: false,
    }
}

fn write(address: u64, value: u64) -> Packet {
    Packet::Write64 { address, value }
}
