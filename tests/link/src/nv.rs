//! The driver of NVIDIA's GPUs: every public function of `hcq_nv`, the commands of its queues, and the text of methods,
//! QMDs and errors.

use crate::{keep, text};
use core::hint::black_box;
use hcq_nostd::queue::{ComputeQueue, CopyQueue, Program, Queue};
use hcq_nv::chips::{Chip, Shared, UnknownClass};
use hcq_nv::compute::{self, Compute};
use hcq_nv::copy::{self, Copy};
use hcq_nv::cubin::{Cubin, CubinKernel, Kernels, LoadError};
use hcq_nv::device::{Device, Windows};
use hcq_nv::dump::Dump;
use hcq_nv::gpfifo::{ChannelDoorbell, Entry, GpFifo, SubmitError};
use hcq_nv::host::Semaphore;
use hcq_nv::kernel::{Kernel, Local, NakShader};
use hcq_nv::local_memory::{LocalMemory, LocalMemoryError, Need};
use hcq_nv::malformed::Malformed;
use hcq_nv::method::{Header, HeaderError, Run};
use hcq_nv::packet::Packet;
use hcq_nv::qmd::{FieldValue, Fields, Layout, Unnamed};
use hcq_nv::setup::Setup;

/// A doorbell that the optimiser cannot see through.
type Doorbell = fn(u64);

pub(crate) fn keep() {
    chips();
    cubins();
    methods();
    qmds();
    compute_queues();
    copy_queues();
    channels();
}

fn chips() {
    keep!(
        Chip::named,
        Chip::from_compute_class,
        Chip::runs,
        Shared::max_bytes
    );
    keep!(
        Device::new,
        Device::with_windows,
        Device::with_sm_version,
        Device::chip,
        Device::windows,
        Device::sass_version,
        <Windows as Default>::default
    );
    keep!(
        Need::new,
        LocalMemory::new,
        LocalMemory::address,
        LocalMemory::tpc_bytes,
        LocalMemory::thread_bytes
    );
    keep!(Setup::compute, Setup::copy, Setup::local_memory);
    text::<UnknownClass>();
    text::<LocalMemoryError>();
}

fn cubins() {
    fn next_kernel<'d>(all: &mut Kernels<'_, 'd>) -> Option<Result<CubinKernel<'d>, LoadError>> {
        all.next()
    }
    keep!(
        Cubin::parse,
        Cubin::with_everything,
        Cubin::abi,
        Cubin::sm,
        Cubin::check,
        Cubin::image,
        Cubin::load
    );
    keep!(
        Cubin::kernels,
        Cubin::kernel,
        CubinKernel::kernel,
        CubinKernel::layout,
        next_kernel
    );
    keep!(
        Kernel::max_by_registers,
        Kernel::group_limit,
        Kernel::thread_bytes,
        Local::bytes,
        NakShader::kernel
    );
    text::<LoadError>();
}

fn methods() {
    keep!(
        Header::new,
        Header::decode,
        Header::word,
        Header::kind,
        Header::subchannel,
        Header::method,
        Header::count,
        Header::method_of,
        Header::is_host
    );
    keep!(Run::decode, Run::len, Run::is_empty, Run::record);
    keep!(Packet::decode, Packet::record, Dump::new);
    keep!(Semaphore::record, Compute::record, Copy::record);
    text::<HeaderError>();
    text::<Packet>();
    text::<Semaphore>();
    text::<Compute>();
    text::<Copy>();
    text::<Dump>();
    text::<Malformed>();
}

fn qmds() {
    fn set(fields: Fields<'_>, each: fn(FieldValue)) {
        Fields::set(fields).for_each(each);
    }
    fn all(fields: Fields<'_>, each: fn(FieldValue)) {
        Fields::all(fields).for_each(each);
    }
    fn unnamed(fields: Fields<'_>, each: fn(Unnamed)) {
        Fields::unnamed(fields).for_each(each);
    }
    keep!(
        Layout::bytes,
        Fields::new,
        Fields::get,
        Fields::nth,
        FieldValue::low
    );
    keep!(set, all, unnamed);
    text::<Fields>();
    text::<FieldValue>();
}

fn compute_queues() {
    use compute::{NvCompute, ProgramError, Qmds, SetObject, State};

    keep!(
        Qmds::new,
        Qmds::every,
        State::running,
        Qmds::based_on,
        State::next,
        State::at,
        State::active,
        State::sealed
    );
    keep!(
        NvCompute::new,
        NvCompute::over,
        NvCompute::monitored,
        NvCompute::recorder,
        NvCompute::words,
        NvCompute::state,
        NvCompute::used,
        NvCompute::finish
    );
    keep!(
        NvCompute::setup,
        NvCompute::wait_for_idle,
        NvCompute::exec_with_bank
    );
    keep!(
        <NvCompute as Queue>::signal,
        <NvCompute as Queue>::wait,
        <NvCompute as Queue>::timestamp,
        <NvCompute as Queue>::write,
        <NvCompute as Queue>::poll_bit
    );
    keep!(
        <NvCompute as ComputeQueue>::memory_barrier,
        <NvCompute as ComputeQueue>::exec
    );
    keep!(
        compute::Program::new,
        compute::Program::based_on,
        compute::Program::kernel,
        compute::Program::chip,
        compute::Program::template
    );
    keep!(
        <compute::Program as Program>::kernargs_size,
        <compute::Program as Program>::kernargs_align
    );
    text::<SetObject>();
    text::<ProgramError>();
}

fn copy_queues() {
    use copy::{LaunchDma, NvCopy};

    keep!(
        NvCopy::new,
        NvCopy::over,
        NvCopy::with_narrow_signals,
        NvCopy::signal_bits,
        NvCopy::recorder,
        NvCopy::words,
        NvCopy::finish
    );
    keep!(NvCopy::setup, NvCopy::copy_lines);
    keep!(
        <NvCopy as Queue>::signal,
        <NvCopy as Queue>::wait,
        <NvCopy as Queue>::timestamp,
        <NvCopy as Queue>::write,
        <NvCopy as Queue>::poll_bit
    );
    keep!(<NvCopy as CopyQueue>::copy);
    keep!(LaunchDma::bits, LaunchDma::decode);
    text::<LaunchDma>();
}

fn channels() {
    fn submit(
        ring: &mut GpFifo<'_>,
        address: u64,
        words: usize,
        doorbell: &mut Doorbell,
    ) -> Result<u64, SubmitError> {
        GpFifo::submit(ring, address, words, doorbell)
    }
    fn submit_entry(
        ring: &mut GpFifo<'_>,
        entry: Entry,
        doorbell: &mut Doorbell,
    ) -> Result<u64, SubmitError> {
        GpFifo::submit_entry(ring, entry, doorbell)
    }
    fn ring(bell: &mut ChannelDoorbell<'_>, put: u64) {
        hcq_nostd::ring::Doorbell::ring(black_box(bell), put);
    }
    keep!(
        Entry::new,
        Entry::address,
        Entry::words,
        Entry::bits,
        Entry::decode
    );
    keep!(
        GpFifo::new,
        GpFifo::resume,
        GpFifo::len,
        GpFifo::is_empty,
        GpFifo::put,
        GpFifo::free,
        GpFifo::consumed,
        GpFifo::read_gp_get
    );
    keep!(submit, submit_entry);
    keep!(ChannelDoorbell::new, ChannelDoorbell::gp_get, ring);
    text::<Entry>();
    text::<SubmitError>();
}
