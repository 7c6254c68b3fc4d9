//! The driver of AMD's GPUs: every public function of `hcq_amd`, the commands of its queues, and the text of packets,
//! chips and errors.

use crate::{keep, text};
use hcq_amd::chips::{Chip, Refusal, RegisterError, Registers, Target};
use hcq_amd::code_object::metadata::ArgumentList;
use hcq_amd::code_object::{
    Argument, CodeObject, KernelDescriptor, KernelMetadata, KernelSymbol, Kernels, LoadError,
};
use hcq_amd::device::{Device, DeviceError, Event, HdpClient};
use hcq_amd::dump::{Dump, Line, Lines};
use hcq_amd::hidden::HiddenKind;
use hcq_amd::malformed::Malformed;
use hcq_amd::pm4::program::ProgramError;
use hcq_amd::pm4::submit::SubmitError;
use hcq_amd::scratch::{Need, Scratch, ScratchError};
use hcq_amd::{aql, pm4, sdma};
use hcq_nostd::queue::{ComputeQueue, CopyQueue, Program, Queue};
use hcq_nostd::record::{Command, RecordError};
use hcq_nostd::ring::Ring;

/// A doorbell that the optimiser cannot see through.
type Doorbell = fn(u64);

pub(crate) fn keep() {
    chips();
    objects();
    scratch();
    pm4_packets();
    pm4_queues();
    aql_packets();
    aql_queues();
    sdma_packets();
    sdma_queues();
    dumps();
}

fn chips() {
    keep!(
        Target::new,
        Target::from_kfd,
        Chip::find,
        Chip::from_kfd,
        Chip::from_mach,
        Chip::named
    );
    keep!(Registers::new, Registers::name);
    keep!(
        Device::new,
        Device::with_bases,
        Device::with_event,
        Device::with_hdp_client
    );
    keep!(
        Device::chip,
        Device::registers,
        Device::xccs,
        Device::event,
        Device::hdp_client
    );
    keep!(Event::new, Event::mailbox, Event::id);
    keep!(HdpClient::compute, HdpClient::mask, HiddenKind::named);
    text::<Target>();
    text::<Refusal>();
    text::<RegisterError>();
    text::<DeviceError>();
}

fn objects() {
    fn next_kernel<'d>(all: &mut Kernels<'_, 'd>) -> Option<Result<KernelSymbol<'d>, LoadError>> {
        all.next()
    }
    fn next_argument<'d>(all: &mut ArgumentList<'d>) -> Option<Result<Argument<'d>, LoadError>> {
        all.next()
    }
    keep!(
        CodeObject::parse,
        CodeObject::abi,
        CodeObject::chip,
        CodeObject::is_relocatable,
        CodeObject::image,
        CodeObject::load
    );
    keep!(
        CodeObject::kernels,
        CodeObject::kernel,
        CodeObject::metadata,
        KernelSymbol::kernel,
        next_kernel
    );
    keep!(
        KernelDescriptor::parse,
        KernelDescriptor::properties,
        KernelDescriptor::kernel
    );
    keep!(
        KernelMetadata::arguments,
        KernelMetadata::layout,
        next_argument
    );
    text::<LoadError>();
}

fn scratch() {
    keep!(
        Need::new,
        Scratch::new,
        Scratch::address,
        Scratch::bytes,
        Scratch::lane_bytes,
        Scratch::parts,
        Scratch::tmpring_size
    );
    keep!(Scratch::queue_descriptor);
    text::<ScratchError>();
}

fn pm4_packets() {
    use pm4::Packet;
    use pm4::acquire_mem::{AcquireMem, Range};
    use pm4::copy_data::CopyData;
    use pm4::dispatch_direct::DispatchDirect;
    use pm4::event_write::EventWrite;
    use pm4::indirect_buffer::IndirectBuffer;
    use pm4::nop::Nop;
    use pm4::packet::PacketText;
    use pm4::pred_exec::PredExec;
    use pm4::release_mem::{Flush, ReleaseMem};
    use pm4::set_reg::SetReg;
    use pm4::wait_reg_mem::WaitRegMem;

    fn around(
        xccs: u8,
        c: &mut Command<'_, '_>,
        encode: fn(&mut Command<'_, '_>) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        PredExec::around(xccs, c, encode)
    }
    keep!(Packet::decode, Packet::record, Packet::text);
    keep!(AcquireMem::all, AcquireMem::record, AcquireMem::decode);
    keep!(Range::new, Range::base, Range::bytes);
    keep!(CopyData::record, CopyData::decode);
    keep!(DispatchDirect::record, DispatchDirect::decode);
    keep!(EventWrite::new, EventWrite::record, EventWrite::decode);
    keep!(
        IndirectBuffer::new,
        IndirectBuffer::len,
        IndirectBuffer::is_empty
    );
    keep!(IndirectBuffer::record, IndirectBuffer::decode);
    keep!(Nop::new, Nop::body, Nop::header, Nop::record, Nop::decode);
    keep!(
        PredExec::new,
        PredExec::len,
        PredExec::is_empty,
        PredExec::record,
        PredExec::decode,
        around
    );
    keep!(Flush::gfx9, Flush::gfx10, Flush::bits);
    keep!(ReleaseMem::record, ReleaseMem::decode);
    keep!(
        SetReg::new,
        SetReg::space,
        SetReg::first,
        SetReg::values,
        SetReg::record,
        SetReg::decode
    );
    keep!(WaitRegMem::record, WaitRegMem::decode);
    text::<AcquireMem>();
    text::<DispatchDirect>();
    text::<EventWrite>();
    text::<IndirectBuffer>();
    text::<Nop>();
    text::<PredExec>();
    text::<PacketText>();
}

fn pm4_queues() {
    use pm4::Pm4Compute;

    fn submit(
        ring: &mut Ring<'_>,
        words: &[u32],
        doorbell: &mut Doorbell,
    ) -> Result<u64, SubmitError> {
        pm4::submit::submit(ring, words, doorbell)
    }
    fn submit_bound(
        ring: &mut Ring<'_>,
        address: u64,
        words: usize,
        doorbell: &mut Doorbell,
    ) -> Result<u64, SubmitError> {
        pm4::submit::submit_bound(ring, address, words, doorbell)
    }
    fn submit_in_ring(
        ring: &mut Ring<'_>,
        base: u64,
        words: &[u32],
        doorbell: &mut Doorbell,
    ) -> Result<u64, SubmitError> {
        pm4::submit::submit_in_ring(ring, base, words, doorbell)
    }
    keep!(
        Pm4Compute::new,
        Pm4Compute::over,
        Pm4Compute::recorder,
        Pm4Compute::words,
        Pm4Compute::finish
    );
    keep!(
        <Pm4Compute as Queue>::signal,
        <Pm4Compute as Queue>::wait,
        <Pm4Compute as Queue>::timestamp
    );
    keep!(
        <Pm4Compute as Queue>::write,
        <Pm4Compute as Queue>::poll_bit
    );
    keep!(
        <Pm4Compute as ComputeQueue>::memory_barrier,
        <Pm4Compute as ComputeQueue>::exec
    );
    keep!(
        pm4::Program::new,
        pm4::Program::with_apertures,
        pm4::Program::based_on,
        pm4::Program::with_scratch_at,
        pm4::Program::kernel,
        pm4::Program::scratch,
        pm4::Program::len,
        pm4::Program::is_empty
    );
    keep!(
        <pm4::Program as Program>::kernargs_size,
        <pm4::Program as Program>::kernargs_align
    );
    keep!(submit, submit_bound, submit_in_ring, pm4::submit::indirect);
    text::<ProgramError>();
    text::<SubmitError>();
}

fn aql_packets() {
    use aql::Packet;
    use aql::barrier::BarrierAnd;
    use aql::dispatch::KernelDispatch;
    use aql::header::Header;
    use aql::vendor::Pm4Ib;

    keep!(Packet::decode, Packet::words);
    keep!(BarrierAnd::words, BarrierAnd::decode);
    keep!(KernelDispatch::words, KernelDispatch::decode);
    keep!(Header::ordered, Header::bits, Header::decode);
    keep!(Pm4Ib::words, Pm4Ib::record, Pm4Ib::decode, Pm4Ib::ordered);
    text::<Packet>();
    text::<BarrierAnd>();
    text::<KernelDispatch>();
    text::<Header>();
    text::<Pm4Ib>();
}

fn aql_queues() {
    use aql::{AqlCompute, QueueDescriptor};

    fn submit(
        ring: &mut Ring<'_>,
        packets: &[u32],
        doorbell: &mut Doorbell,
    ) -> Result<u64, SubmitError> {
        aql::submit::submit(ring, packets, doorbell)
    }
    keep!(
        AqlCompute::new,
        AqlCompute::recorder,
        AqlCompute::words,
        AqlCompute::packets,
        AqlCompute::finish
    );
    keep!(
        <AqlCompute as Queue>::signal,
        <AqlCompute as Queue>::wait,
        <AqlCompute as Queue>::timestamp
    );
    keep!(
        <AqlCompute as Queue>::write,
        <AqlCompute as Queue>::poll_bit
    );
    keep!(
        <AqlCompute as ComputeQueue>::memory_barrier,
        <AqlCompute as ComputeQueue>::exec
    );
    keep!(
        aql::Program::new,
        aql::Program::with_apertures,
        aql::Program::based_on,
        aql::Program::kernel
    );
    keep!(
        <aql::Program as Program>::kernargs_size,
        <aql::Program as Program>::kernargs_align
    );
    keep!(
        QueueDescriptor::new,
        QueueDescriptor::with_apertures,
        QueueDescriptor::with_inactive_signal
    );
    keep!(submit, aql::submit::doorbell_index);
}

fn sdma_packets() {
    use sdma::copy_linear::CopyLinear;
    use sdma::fence::Fence;
    use sdma::indirect::Indirect;
    use sdma::nop::Nop;
    use sdma::poll_regmem::PollRegmem;
    use sdma::timestamp::TimestampGetGlobal;
    use sdma::trap::Trap;
    use sdma::write_linear::WriteLinear;
    use sdma::{Packet, Unsupported, Version};

    keep!(Version::new, Version::max_copy);
    keep!(Packet::decode, Packet::record);
    keep!(CopyLinear::record, CopyLinear::decode);
    keep!(Fence::record, Fence::decode);
    keep!(Indirect::new, Indirect::words, Indirect::decode);
    keep!(Nop::len, Nop::is_empty, Nop::record, Nop::decode);
    keep!(PollRegmem::record, PollRegmem::decode);
    keep!(TimestampGetGlobal::record, TimestampGetGlobal::decode);
    keep!(Trap::record, Trap::decode);
    keep!(WriteLinear::record, WriteLinear::decode);
    text::<Packet>();
    text::<CopyLinear>();
    text::<Fence>();
    text::<Indirect>();
    text::<Nop>();
    text::<PollRegmem>();
    text::<TimestampGetGlobal>();
    text::<Trap>();
    text::<WriteLinear>();
    text::<Version>();
    text::<Unsupported>();
}

fn sdma_queues() {
    use sdma::SdmaCopy;

    fn submit(
        ring: &mut Ring<'_>,
        words: &[u32],
        doorbell: &mut Doorbell,
    ) -> Result<u64, SubmitError> {
        sdma::submit::submit(ring, words, doorbell)
    }
    fn submit_bound(
        ring: &mut Ring<'_>,
        address: u64,
        words: usize,
        doorbell: &mut Doorbell,
    ) -> Result<u64, SubmitError> {
        sdma::submit::submit_bound(ring, address, words, doorbell)
    }
    keep!(
        SdmaCopy::new,
        SdmaCopy::over,
        SdmaCopy::recorder,
        SdmaCopy::words,
        SdmaCopy::finish
    );
    keep!(
        <SdmaCopy as Queue>::signal,
        <SdmaCopy as Queue>::wait,
        <SdmaCopy as Queue>::timestamp
    );
    keep!(<SdmaCopy as Queue>::write, <SdmaCopy as Queue>::poll_bit);
    keep!(<SdmaCopy as CopyQueue>::copy);
    keep!(submit, submit_bound, sdma::submit::bound_words);
}

fn dumps() {
    fn next<'w>(lines: &mut Lines<'w>) -> Option<Line<'w>> {
        lines.next()
    }
    keep!(Dump::new, Dump::lines, Line::malformed, next);
    text::<Dump>();
    text::<Line>();
    text::<Malformed>();
}
