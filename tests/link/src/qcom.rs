//! The driver of Adreno GPUs: every public function of `hcq_qcom`, the commands of its queue, and the text of packets, chips
//! and errors.

use crate::{keep, text};
use hcq_nostd::args::ArgSlot;
use hcq_nostd::queue::{ComputeQueue, Program as _, Queue};
use hcq_qcom::chips::{Chip, ChipId, Refusal};
use hcq_qcom::container::{Argument, Container, ContainerError};
use hcq_qcom::device::{Device, PrivateMemory, PrivateNeed};
use hcq_qcom::dump::{Dump, Line, Lines};
use hcq_qcom::image::{BorderColor, Format, Image, Sampler};
use hcq_qcom::ir3::{Variant, VariantError};
use hcq_qcom::kernel::{Arguments, ArgumentsError, Given, ImageSlot, Param, ProgramError};
use hcq_qcom::malformed::Malformed;
use hcq_qcom::pm4;

pub(crate) fn keep() {
    chips();
    programs();
    images();
    packets();
    queues();
    dumps();
}

fn chips() {
    keep!(Chip::max_group, Chip::find, Chip::named);
    keep!(ChipId::new, ChipId::parts);
    keep!(
        Device::new,
        Device::chip,
        Device::based_on,
        Device::scrap,
        Device::border_colors
    );
    keep!(PrivateNeed::new);
    keep!(
        PrivateMemory::new,
        PrivateMemory::address,
        PrivateMemory::bytes
    );
    text::<Chip>();
    text::<ChipId>();
    text::<Refusal>();
}

fn programs() {
    fn next_argument<'d>(container: &'d Container<'d>, n: usize) -> Option<Argument> {
        Container::arguments(container).nth(n)
    }
    fn arguments<'p>(
        params: &[(Param, u32)],
        given: Given<'p>,
        slots: &'p mut [ArgSlot],
        images: &'p mut [ImageSlot],
    ) -> Result<Arguments<'p>, ArgumentsError> {
        Arguments::new(params.iter().copied(), given, slots, images)
    }
    keep!(
        Container::parse,
        Container::kernel,
        Container::name,
        Container::code,
        Container::constant_count,
        Container::layout,
        next_argument
    );
    keep!(Variant::kernel, Variant::layout);
    keep!(arguments, Arguments::bytes, Arguments::layout);
    text::<ContainerError>();
    text::<VariantError>();
    text::<ArgumentsError>();
}

fn images() {
    keep!(Format::bytes, BorderColor::entry);
    keep!(
        Image::new,
        Image::with_pitch,
        Image::format,
        Image::width,
        Image::height
    );
    keep!(
        Image::pitch,
        Image::bytes,
        Image::texture_at,
        Image::storage_at
    );
    keep!(
        Sampler::new,
        Sampler::from_words,
        Sampler::words,
        Sampler::bytes
    );
}

fn packets() {
    use pm4::dispatch::{ExecCs, RunOpenCl, SetMarker};
    use pm4::event_write::{Event, EventWrite};
    use pm4::event_write7::{Event7, EventWrite7};
    use pm4::indirect_buffer::IndirectBuffer;
    use pm4::load_state::LoadState;
    use pm4::mem_write::MemWrite;
    use pm4::reg_to_mem::RegToMem;
    use pm4::registers::{Register, Registers};
    use pm4::sync::{Nop, WaitForIdle, WaitMemWrites};
    use pm4::wait_reg_mem::WaitRegMem;
    use pm4::{Header, Packet};

    keep!(
        Header::registers,
        Header::command,
        Header::kind,
        Header::count,
        Header::word,
        Header::parse
    );
    keep!(Packet::decode, Packet::record);
    keep!(ExecCs::record, ExecCs::decode);
    keep!(RunOpenCl::words, RunOpenCl::record, RunOpenCl::decode);
    keep!(
        SetMarker::mode,
        SetMarker::words,
        SetMarker::record,
        SetMarker::decode
    );
    keep!(Event::bits, EventWrite::record, EventWrite::decode);
    keep!(Event7::new, Event7::bits, Event7::name);
    keep!(EventWrite7::record, EventWrite7::decode);
    keep!(
        IndirectBuffer::new,
        IndirectBuffer::len,
        IndirectBuffer::is_empty,
        IndirectBuffer::record,
        IndirectBuffer::decode
    );
    keep!(LoadState::record, LoadState::decode);
    keep!(MemWrite::record, MemWrite::decode);
    keep!(RegToMem::record, RegToMem::decode);
    keep!(Register::at);
    keep!(
        Registers::new,
        Registers::first,
        Registers::values,
        Registers::record,
        Registers::decode
    );
    keep!(Nop::new, Nop::body, Nop::record, Nop::decode);
    keep!(WaitForIdle::record, WaitForIdle::decode);
    keep!(WaitMemWrites::record, WaitMemWrites::decode);
    keep!(WaitRegMem::record, WaitRegMem::decode);
    text::<Packet>();
    text::<ExecCs>();
    text::<SetMarker>();
    text::<EventWrite>();
    text::<EventWrite7>();
    text::<IndirectBuffer>();
    text::<LoadState>();
    text::<MemWrite>();
    text::<RegToMem>();
    text::<Registers>();
    text::<Nop>();
    text::<WaitRegMem>();
}

fn queues() {
    use pm4::submit::{CommandObject, SubmitError};
    use pm4::{AdrenoCompute, Program};

    keep!(
        AdrenoCompute::new,
        AdrenoCompute::over,
        AdrenoCompute::recorder,
        AdrenoCompute::words,
        AdrenoCompute::finish
    );
    keep!(
        <AdrenoCompute as Queue>::signal,
        <AdrenoCompute as Queue>::wait,
        <AdrenoCompute as Queue>::timestamp
    );
    keep!(
        <AdrenoCompute as Queue>::write,
        <AdrenoCompute as Queue>::poll_bit
    );
    keep!(
        <AdrenoCompute as ComputeQueue>::memory_barrier,
        <AdrenoCompute as ComputeQueue>::exec
    );
    keep!(
        Program::new,
        Program::based_on,
        Program::with_private_at,
        Program::kernel,
        Program::max_group,
        Program::len,
        Program::is_empty
    );
    keep!(Program::kernargs_size, Program::kernargs_align);
    keep!(
        CommandObject::new,
        CommandObject::address,
        CommandObject::bytes
    );
    text::<ProgramError>();
    text::<SubmitError>();
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
