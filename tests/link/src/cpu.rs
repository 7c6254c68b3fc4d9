//! The CPU driver: every public function of `hcq_cpu`, the commands of its queues, and the text of every error.

use core::ptr::NonNull;

use crate::{keep, text};
use hcq_cpu::abi::KernelFn;
use hcq_cpu::control::Control;
use hcq_cpu::engine::{Engine, EngineQueue, LocalMemoryTooSmall, Platform, Poll};
use hcq_cpu::packet::{Malformed, Packet};
use hcq_cpu::program::Program;
use hcq_cpu::queue::{Compute, Copies, Copy, CpuQueue, RunsKernels};
#[cfg(target_has_atomic = "64")]
use hcq_cpu::share::{Job, Share};
use hcq_cpu::signature::{self, Argument, Arguments, ScalarType, SignatureError};
use hcq_nostd::fault::Access;
use hcq_nostd::queue::{ComputeQueue, CopyQueue, Queue};
use hcq_nostd::ring::Doorbell;

pub(crate) fn keep() {
    packets();
    queues();
    engines();
    signatures();
}

fn packets() {
    keep!(Packet::encode, Packet::decode);
    text::<Malformed>();
    text::<Packet>();
}

fn queues() {
    keep!(
        CpuQueue::<RunsKernels>::new,
        CpuQueue::<RunsKernels>::over,
        CpuQueue::<RunsKernels>::recorder
    );
    keep!(
        CpuQueue::<RunsKernels>::words,
        CpuQueue::<RunsKernels>::finish,
        CpuQueue::<RunsKernels>::indirect
    );
    keep!(CpuQueue::<Copies>::new, CpuQueue::<Copies>::indirect);
    keep!(
        <Compute as Queue>::signal,
        <Compute as Queue>::wait,
        <Compute as Queue>::timestamp
    );
    keep!(<Compute as Queue>::write, <Compute as Queue>::poll_bit);
    keep!(
        <Compute as ComputeQueue>::memory_barrier,
        <Compute as ComputeQueue>::exec
    );
    keep!(
        <Copy as Queue>::signal,
        <Copy as Queue>::wait,
        <Copy as CopyQueue>::copy
    );
    keep!(
        Program::new,
        Program::with_layout,
        Program::with_local_memory,
        Program::entered_at,
        Program::entry_variable,
        Program::entry,
        Program::local_memory
    );
    keep!(
        Program::kernargs_for,
        <Program as hcq_nostd::queue::Program>::kernargs_size
    );
    keep!(<Program as hcq_nostd::queue::Program>::kernargs_align);
}

/// A platform that the optimiser cannot see through.
struct Machine {
    now_ns: fn() -> u64,
    translate: fn(u64, u64, Access) -> Option<NonNull<u8>>,
    kernel: fn(u64) -> Option<KernelFn>,
}

impl Platform for Machine {
    fn now_ns(&mut self) -> u64 {
        (self.now_ns)()
    }

    fn translate(&mut self, address: u64, len: u64, access: Access) -> Option<NonNull<u8>> {
        (self.translate)(address, len, access)
    }

    fn kernel(&mut self, entry: u64) -> Option<KernelFn> {
        (self.kernel)(entry)
    }
}

fn engines() {
    fn poll(engine: &mut Engine<'_>, machine: &mut Machine, budget: u32) -> Poll {
        // SAFETY: this function is linked and never called.
        unsafe { Engine::poll(engine, machine, budget) }
    }
    keep!(
        Control::new,
        Control::in_region,
        Control::put,
        Control::set_put,
        Control::get,
        Control::fault
    );
    keep!(<Control as Doorbell>::ring);
    keep!(
        EngineQueue::new,
        EngineQueue::control,
        EngineQueue::is_stopped,
        EngineQueue::reset
    );
    keep!(
        Engine::new,
        Engine::with_copy_step,
        Engine::queues,
        Engine::has_work,
        poll
    );
    #[cfg(target_has_atomic = "64")]
    keep!(
        Engine::with_share,
        Job::new,
        Share::new,
        Share::local_memory,
        Share::len,
        Share::is_empty
    );
    #[cfg(target_has_atomic = "64")]
    keep!(Share::has_work);
    text::<LocalMemoryTooSmall>();
}

fn signatures() {
    fn next<'t>(all: &mut Arguments<'t>) -> Option<Result<Argument<'t>, SignatureError>> {
        all.next()
    }
    keep!(
        ScalarType::size,
        ScalarType::name,
        signature::parse,
        signature::arguments,
        next
    );
    text::<SignatureError>();
}
