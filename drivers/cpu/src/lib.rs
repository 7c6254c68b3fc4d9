//! The CPU as a device: 64-byte command packets in a ring, and an engine that runs them.
//!
//! This driver is the reference. What a command of [`hcq_nostd::queue`] means is what [`engine`] does with its packet;
//! every other driver is checked against the same list of behaviours.
//!
//! | module | what |
//! |---|---|
//! | [`packet`] | the packets, to words and back, and as text |
//! | [`queue`] | encoders: [`Compute`](queue::Compute) and [`Copy`](queue::Copy) queues |
//! | [`program`] | a kernel with its argument layout |
//! | [`signature`] | argument layouts from C declarations |
//! | [`abi`] | what a kernel is called with |
//! | [`control`] | a queue's put, get and fault in shared memory |
//! | [`engine`] | runs any number of queues by being polled |
//! | [`share`] | sharing the work-groups of one launch out among engines |
//!
//! The engine needs no operating system and allocates nothing: it runs in a worker thread, in a hypervisor's device
//! model, or in the main loop of a board.
//!
//! # One submission, from words to done
//!
//! ```
//! use core::ffi::c_void;
//! use core::ptr::NonNull;
//! use hcq_cpu::abi::{Group, KernelFn};
//! use hcq_cpu::control::Control;
//! use hcq_cpu::engine::{Engine, EngineQueue, Platform, Poll};
//! use hcq_cpu::program::Program;
//! use hcq_cpu::queue::Compute;
//! use hcq_cpu::PACKET_BYTES;
//! use hcq_nostd::args::Arg;
//! use hcq_nostd::fault::Access;
//! use hcq_nostd::mem::{Region, SharedWords};
//! use hcq_nostd::patch::{PatchList, RegionId};
//! use hcq_nostd::queue::{ComputeQueue, Launch, Queue};
//! use hcq_nostd::record::Block;
//! use hcq_nostd::ring::Ring;
//! use hcq_nostd::signal::{Signal, Width};
//!
//! /// Adds 1 to one element per work-group.
//! unsafe extern "C" fn increment(args: *const c_void, group: *const Group) {
//!     // SAFETY: the block holds one address.
//!     let data = unsafe { args.cast::<u64>().read() };
//!     let data = core::ptr::with_exposed_provenance_mut::<u32>(data as usize);
//!     // SAFETY: there are as many elements as groups.
//!     unsafe { *data.add((*group).group[0] as usize) += 1 }
//! }
//!
//! struct Host;
//! impl Platform for Host {
//!     fn now_ns(&mut self) -> u64 { 1 }
//!     fn translate(&mut self, address: u64, _len: u64, _access: Access) -> Option<NonNull<u8>> {
//!         NonNull::new(core::ptr::with_exposed_provenance_mut(address as usize))   // device addresses are pointers here
//!     }
//!     fn kernel(&mut self, entry: u64) -> Option<KernelFn> {
//!         (entry == 1).then_some(increment as KernelFn)
//!     }
//! }
//! /// Lends words to the device, at the address that they have here.
//! fn lend(words: &mut [u64]) -> Region<'_> {
//!     let (len, first) = (size_of_val(words), NonNull::from(words).cast::<u8>());
//!     let device = first.as_ptr().expose_provenance() as u64;
//!     // SAFETY: the words are this region's for as long as it lives.
//!     unsafe { Region::new(first, len, device) }
//! }
//!
//! let (mut data, mut kernargs) = ([10u32, 20, 30], [0u64; 1]);
//! let (mut ring, mut control, mut slot) = ([0u64; 8 * 4], [0u64; Control::WORDS], [0u128; 1]);
//! let slot: &mut [u64] = zerocopy::transmute_mut!(&mut slot);
//! let done = Signal::at(SharedWords::new(lend(slot))?, 0, Width::W64)?;
//! let control = Control::new(SharedWords::new(Region::from_words(&mut control, 0))?).expect("enough words");
//!
//! // Record: one launch over three groups, then the signal.
//! let data_address = data.as_mut_ptr().expose_provenance() as u64;
//! let mut kernargs = lend(&mut kernargs);
//! let mut words = [0u32; 32];
//! let mut q = Compute::new(&mut words, PatchList::none());
//! q.exec(Launch {
//!     program: &Program::new(1),
//!     args: &[Arg::Buffer(data_address.into())],
//!     kernargs: Block::new(&mut kernargs, RegionId(1), 0, 8)?,
//!     groups: [3u64.into(), 1u64.into(), 1u64.into()],
//!     local: [1u64.into(); 3],
//!     local_memory: 0,
//! })?
//! .signal(done.operand(), 1u64.into())?;
//!
//! // Submit: the host's half of the ring.
//! let ring = Region::from_words(&mut ring, 0);
//! // SAFETY: the host stores to entries that the engine has consumed, the engine reads those that were published.
//! let engines_ring = unsafe { Region::new(ring.as_ptr(), ring.len(), 0) };
//! let mut ring = Ring::new(ring, PACKET_BYTES)?;
//! let mut hole = ring.reserve(2)?;
//! hole.fill(0, q.words())?;
//! hole.publish(&mut |put| control.set_put(put));
//!
//! // Run.
//! let mut queues = [EngineQueue::new(engines_ring, control, 0)?];
//! let mut engine = Engine::new(&mut queues, Region::from_words(&mut [], 0));
//! // SAFETY: the addresses in the packets are of the memory above, and the kernel is sound for them.
//! assert_eq!(unsafe { engine.poll(&mut Host, 100) }, Poll::Ran(4));                // three groups and a signal
//! assert_eq!((done.value(), data), (1, [11, 21, 31]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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

#[cfg(test)]
extern crate std;

/// For property tests: as the environment says, or few cases and no files under Miri.
#[cfg(test)]
fn cases() -> proptest::test_runner::Config {
    let config = proptest::test_runner::Config::default();
    if cfg!(miri) {
        proptest::test_runner::Config {
            cases: 2,
            failure_persistence: None,
            ..config
        }
    } else {
        config
    }
}

pub mod abi;
pub mod control;
pub mod engine;
pub mod packet;
pub mod program;
pub mod queue;
#[cfg(target_has_atomic = "64")]
pub mod share;
pub mod signature;
#[cfg(target_has_atomic = "64")]
mod sync;

/// Bytes of a packet, and its alignment in a ring.
pub const PACKET_BYTES: usize = 64;
/// 32-bit words of a packet.
pub const PACKET_WORDS: usize = 16;
