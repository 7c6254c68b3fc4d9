//! Hardware command queues without an operating system, an allocator or a vendor.
//!
//! GPUs, copy engines and network cards are driven by words in memory: a queue of packets, a signal that says how far the
//! engine has come, a doorbell. This crate encodes queues, signals and patch tables into memory that the caller supplies.
//! It knows no vendor; drivers turn its commands into the words that their engines read. The same code runs in a Linux
//! process, in a virtual machine monitor and on a bare board.
//!
//! This page is the home of the design. A change of design is a change of this page.
//!
//! # The way of one command
//!
//! ```text
//! record             bind                  launch                          complete
//! driver encodes ->  words become      ->  patch the words whose       ->  device writes the signal,
//! words + patch      device-visible        variables changed, ring         host sees value + timestamp
//! sites into         (IB, ring, GPFIFO,    the doorbell
//! caller memory      object)
//! ```
//!
//! Data flows one way, down the layers:
//!
//! ```text
//! your program, firmware, VMM, the `hcq` command
//! hcq-std      Device, Buffer, Kernel, Queue                        std: owns files, maps, threads
//! drivers/*    words and layouts of one vendor each                 no_std: words and layouts only
//! hcq-nostd    record, value/patch, ring, signal/timeline, memory   no_std, no alloc, no globals
//! ```
//!
//! A driver never opens a file. The shell never knows an opcode. The core never knows a vendor. A simulated device never
//! shares an encoder's constant or helper: a mistake on one side cannot cancel itself out on the other.
//!
//! # Words
//!
//! | word | meaning | where |
//! |---|---|---|
//! | queue | an ordered list of commands for one engine; *compute* and *copy* queues have different commands | [`queue`] |
//! | signal | 16 bytes, 16-aligned: value u64 at 0, timestamp u64 at 8; written by devices and by hosts | [`signal`] |
//! | timeline | a device's signal of all work; the next point is the one to signal next, the one before covers everything before | [`timeline`] |
//! | variable | a number known only at launch (address, size, signal value, scalar argument, grid size) | [`value::Var`] |
//! | value | an immediate, or a variable with an affine adjustment; what every command operand accepts | [`value::Value`] |
//! | patch site | where a value lands: region, offset, store width, and the field's place inside the store | [`patch::Site`] |
//! | patch table | all sites of a queue, grouped by variable, plain bytes in caller memory | [`patch::PatchTable`] |
//! | bound queue | a queue whose words live in device-visible memory and are launched by reference | drivers |
//! | kernargs | the argument block of one kernel launch | [`args`], [`record::Block`] |
//! | plan | a graph's schedule with no vendor in it | [`plan`] |
//! | graph | a plan recorded once: bound queues, argument blocks, one patch table | [`graph`] |
//! | instance | a graph in memory of its own, launched one launch at a time | [`graph::Instance`] |
//! | graph image | a graph as one relocatable block of bytes | [`image`] |
//! | region | bytes with a CPU side and a device address | [`mem::Region`] |
//! | arena | who may use which bytes of a region, and until which timeline point | [`arena`] |
//! | fault | what went wrong on a device, as data | [`fault`] |
//!
//! # Modules, bottom up
//!
//! - [`value`]: values, fields and the one formula that all patching is.
//! - [`mem`]: volatile and atomic access, fences; the room for `unsafe`.
//! - [`patch`]: sites while recording, tables that are checked once, a patcher that stores what changed.
//! - [`record`]: commands into words, whole or not at all, and a measure of the memory they need.
//! - [`queue`]: the traits that drivers implement; [`args`]: argument blocks.
//! - [`ring`]: reserve, fill, publish. [`arena`]: plain, and fenced by the timeline.
//! - [`signal`], [`timeline`], [`wait`]: completion, without the host ever being drained. [`profile`]: when work ran.
//! - [`plan`]: from tasks and the bytes that they touch to each queue's list of waits, work and signals.
//! - [`graph`]: a plan recorded by drivers, and its launches. [`image`]: a graph as one block of bytes, loaded and replayed.
//! - [`fault`]: a device in error stays in error until somebody recovers it.
//!
//! Every size that a caller must supply can be asked for beforehand: record into no memory and the error says what was
//! needed, [`PatchList::table_words`](patch::PatchList::table_words), [`PatchTable::state_words`](patch::PatchTable::state_words),
//! `WORDS` and `BYTES` constants elsewhere.
//!
//! # What stays true
//!
//! 1. This crate and the drivers build for x86_64, aarch64, riscv64 and thumbv7em without std and without alloc.
//! 2. A launch costs time in proportion to what changed, not to what the queue or graph holds.
//! 3. Nothing in flight is overwritten: words, kernargs, signals, staging buffers. Room is checked against what the device
//!    has consumed, padding included; no room is an answer, [`WouldBlock`](ring::WouldBlock), never corruption.
//! 4. No input can cause a panic or undefined behaviour: words, tables, signatures, a device's counters.
//! 5. Every encoder is checked against bytes that did not come from this project.
//! 6. Unsafe code states its contract, is small, and runs under Miri.
//! 7. One way to do a thing. What two modules need lives in the layer below both.
//!
//! What can fail is done before state changes: a failed command leaves its queue, a failed launch its memory, as it was.
//! Checks are the same in every build.
//!
//! # Decisions
//!
//! **A patch table has two shapes of sites.** A pointer that is stored whole at an 8-byte boundary is the common case: for
//! each variable a start index and then offsets, eight bytes per pointer at most, and blocks of eight variables with one
//! site each are stored without a look at the starts. Everything else is in runs: sites of one variable, one formula and
//! one region. Values are checked when they are applied and before the first store, so that several variables can change
//! together; the memory keeps its old state until all of them fit.
//!
//! **Points, not values.** A timeline counts submissions in 64 bits and never wraps. What the engine compares is a slot
//! and a value within an epoch. The slot of the next epoch is set back by the device itself, half an epoch ahead, when
//! nothing can still wait in it; waits on points whose slot is gone are answered with a newer point that implies them.
//! See [`timeline`].
//!
//! **Graph signals start at zero.** Queues of a graph wait for each other on signals that the host sets back between an
//! instance's launches, so that none of its waits is patched. See [`graph`].
//!
//! **One launch struct.** [`queue::Launch`] carries program, arguments, argument block and grid together. Drivers put
//! what their engines want beside the arguments into the same block (a dispatch packet, a QMD), and file its sites.
//!
//! **Two rooms for `unsafe`.** [`mem`], and the launch loop's stores in `patch`, which rely on offsets that were checked
//! when the table was made. Everything else is `deny(unsafe_code)`.
//!
//! **Little-endian hosts.** Engines read little-endian words; building for a big-endian machine is refused.
//!
//! # Features
//!
//! `defmt`: `defmt::Format` for errors, faults and values. There are no default features.
#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

#[cfg(any(test, loom))]
extern crate std;

#[cfg(target_endian = "big")]
compile_error!(
    "engines read little-endian words; recording them on a big-endian machine is not supported"
);

pub mod arena;
pub mod args;
pub mod fault;
pub mod graph;
pub mod image;
pub mod mem;
pub mod patch;
pub mod plan;
pub mod profile;
pub mod queue;
pub mod record;
pub mod ring;
pub mod signal;
mod sort;
#[cfg(test)]
mod testing;
pub mod timeline;
pub mod value;
pub mod wait;
