//! What is between a simulated GPU's engines and the simulated kernel that owns them.
//!
//! The kernel makes an [`Engine`] for each hardware queue that a process creates, and steps the engines in an order that a
//! seed decides, one [`Step`] at a time, while nothing else of the machine moves. Engines read their pointers and their
//! packets from memory, as the hardware does: what the host has not written there does not exist.
//!
//! What a queue is differs: AMD's is a ring with pointers and a doorbell of its own, [`QueueMemory`]; NVIDIA's a channel, whose
//! entries and put pointer are memory of the process and whose doorbell is one register for all; Adreno's a list of command
//! objects that the kernel was handed. Each family keeps what its engines need beside [`Host`], which is what they share.

use crate::cache::Caches;
use crate::exec::Executor;
use crate::vm::{AddressSpace, PageFault};

/// The memory of a queue of KFD's, as the create call named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueMemory {
    /// GPU address of the ring.
    pub ring: u64,
    /// Bytes of the ring, a power of two.
    pub ring_bytes: u64,
    /// GPU address of the 64-bit count that the engine has read to.
    pub read_pointer: u64,
    /// GPU address of the 64-bit count that the host has written to.
    pub write_pointer: u64,
    /// GPU address of the end-of-pipe buffer; 0 if there is none.
    pub eop: u64,
    /// Bytes of the end-of-pipe buffer.
    pub eop_bytes: u64,
    /// GPU address of the context-save area; 0 if there is none.
    pub save_area: u64,
    /// Bytes of the context-save area.
    pub save_area_bytes: u64,
    /// Of these, the control stack.
    pub control_stack_bytes: u64,
}

/// What a GPU's engines share, and the page tables of one of them.
pub struct Parts<'a> {
    /// The page tables that addresses of this queue go through.
    pub vm: &'a dyn AddressSpace,
    /// The GPU's caches.
    pub caches: &'a mut Caches,
    /// Who runs programs.
    pub executor: &'a mut dyn Executor,
}

/// What an engine may ask of the machine while it steps.
pub trait Host {
    /// The page tables that addresses of this queue go through.
    fn vm(&self) -> &dyn AddressSpace;
    /// The page tables beside what the GPU's engines share.
    fn parts(&mut self) -> Parts<'_>;
    /// The clock that the GPU's timestamps count: of AMD's the reference clock of 100 MHz, of NVIDIA's `PTIMER` in nanoseconds,
    /// of Adreno the always-on counter of 19.2 MHz.
    fn clock(&self) -> u64;
    /// An interrupt with what the packet named: of AMD's the event's number in a process's event page, of the others whatever the
    /// family's kernel knows it by.
    fn interrupt(&mut self, context: u32);
    /// What there is to do: of AMD's the last value rung on the queue's doorbell, in the units of its ring; of the others how far
    /// the kernel knows the queue to have been filled, when it was last told.
    fn doorbell(&self) -> u64;
    /// A number below `below`, from the machine's seed. `below` is at least 1.
    fn random(&mut self, below: u32) -> u32;
}

/// What a step did.
#[derive(Clone, Debug)]
pub enum Step {
    /// Nothing to do: the ring is empty.
    Idle,
    /// A packet, or a part of one, was executed.
    Progress,
    /// A packet waits for memory to change.
    Waiting,
    /// The queue has stopped for good.
    Fault(Box<Fault>),
}

/// Why a queue stopped, with what a person needs to find the mistake.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{cause}\n{packet}")]
pub struct Fault {
    /// What went wrong.
    pub cause: Cause,
    /// The packet at fault, decoded, with its address and its words.
    pub packet: String,
}

/// What went wrong.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Cause {
    /// An access outside of what is mapped.
    #[error("memory violation: {0}")]
    Memory(#[from] PageFault),
    /// Words that the engine does not take: unknown, reserved bits, fields out of range, a wrong order.
    #[error("illegal packet: {0}")]
    Packet(String),
    /// A launch that the hardware does not take, or a program that nobody can run.
    #[error("illegal launch: {0}")]
    Launch(String),
    /// A program's own mistake: an access outside of its memory, no end.
    #[error("program: {0}")]
    Program(String),
}

/// The hardware of one queue.
pub trait Engine: Send {
    /// Executes at most one packet, or a bounded part of one.
    fn step(&mut self, host: &mut dyn Host) -> Step;
}
