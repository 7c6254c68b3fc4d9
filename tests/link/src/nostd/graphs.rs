//! Graphs and their images.

use super::Turns;
use crate::{keep, text};
use core::hint::black_box;
use hcq_nostd::args::Arg;
use hcq_nostd::graph::{
    self, BindError, Busy, DeviceRecord, DeviceTimelines, Encode, Entry, Graph, GraphError, Idle,
    Inconsistent, Instance, LaunchError, Memory, QueueAt, QueueMemory, QueueRecord, Recorded,
    Records, RegionNeed, Run, Scratch, Sizes, Spec, WorkRecord,
};
use hcq_nostd::image::{self, Contents, Image, LoadError, Section, Target, WriteError};
use hcq_nostd::patch::{Derived, Site};
use hcq_nostd::plan::{self, Plan};
use hcq_nostd::queue::Launch;
use hcq_nostd::record::{Command, RecordError};
use hcq_nostd::signal::Signal;

pub(crate) fn keep() {
    graphs();
    instances();
    images();
}

/// An encoder whose commands are a word each.
struct Words;

impl Encode for Words {
    type Program = u32;
    type Queue<'m> = QueueMemory<'m>;

    fn kernargs(&self, program: &u32, args: &[Arg<'_>]) -> Result<(usize, usize), RecordError> {
        Ok(black_box((*program as usize, args.len())))
    }

    fn over<'m>(
        &self,
        at: QueueAt,
        memory: QueueMemory<'m>,
    ) -> Result<QueueMemory<'m>, RecordError> {
        black_box(at);
        Ok(memory)
    }

    fn command(
        &self,
        queue: &mut QueueMemory<'_>,
        command: graph::Command<'_, '_, u32>,
    ) -> Result<(), RecordError> {
        black_box(command);
        let recorded = queue.recorder.command(|c| {
            let words: Option<&mut [u32; 2]> = Command::claim(c);
            black_box(words);
            black_box(Command::template(c, black_box(&[1, 2])));
            Ok(())
        });
        recorded.map(drop)
    }

    fn finish<'m>(&self, queue: Self::Queue<'m>) -> QueueMemory<'m> {
        queue
    }
}

fn graphs() {
    fn measured(
        spec: &Spec<'_, u32>,
        plan: &Plan<'_>,
        steps: &[plan::Step],
        records: &mut Records<'_>,
        scratch: &mut Scratch<'_>,
    ) -> Result<Sizes, GraphError> {
        graph::measure(spec, plan, steps, &Words, records, scratch)
    }
    fn recorded<'g, 's>(
        spec: &Spec<'_, u32>,
        plan: &Plan<'_>,
        steps: &[plan::Step],
        records: Records<'g>,
        memory: (&'g mut [u32], &'g mut [u64]),
        scratch: (&'s mut [Site], &'s mut [Derived]),
    ) -> Result<Recorded<'g, 's>, GraphError> {
        graph::record(spec, plan, steps, &Words, records, memory, scratch)
    }
    fn launch_of<'a, 'm>(launch: Launch<'a, 'm, u8>, program: &'a u32) -> Launch<'a, 'm, u32> {
        Launch::of(launch, program)
    }
    fn command_of<'a, 'm>(
        command: graph::Command<'a, 'm, u8>,
        of: fn(&'a u8) -> Option<&'a u32>,
    ) -> Result<graph::Command<'a, 'm, u32>, RecordError> {
        graph::Command::of(command, of)
    }
    fn compute(
        queue: &mut hcq_cpu::queue::Compute<'_>,
        command: graph::Command<'_, '_, hcq_cpu::program::Program<'_>>,
    ) -> Result<(), RecordError> {
        graph::compute(queue, command)
    }
    fn copy(
        queue: &mut hcq_cpu::queue::Copy<'_>,
        command: graph::Command<'_, '_, u32>,
    ) -> Result<(), RecordError> {
        graph::copy(queue, command)
    }
    keep!(measured, recorded, launch_of, command_of, compute, copy);
    keep!(
        QueueMemory::list,
        Recorded::used,
        Recorded::table_words,
        Recorded::build
    );
    keep!(
        DeviceRecord::group,
        DeviceRecord::takes_part,
        DeviceRecord::is_processor,
        DeviceRecord::kernargs_bytes,
        DeviceRecord::kernargs_align
    );
    keep!(
        QueueRecord::device,
        QueueRecord::engine,
        QueueRecord::index,
        QueueRecord::words,
        QueueRecord::beside_bytes
    );
    keep!(
        WorkRecord::new,
        WorkRecord::waiting,
        WorkRecord::task,
        WorkRecord::queue,
        WorkRecord::timestamps,
        WorkRecord::waits_for
    );
    fn regions(graph: &Graph<'_>, each: fn(RegionNeed)) {
        Graph::regions(graph).for_each(each);
    }
    keep!(
        regions,
        Graph::variables,
        Graph::devices,
        Graph::queues,
        Graph::works,
        Graph::edges,
        Graph::words,
        Graph::table,
        Graph::is_relocatable
    );
    keep!(
        Graph::timestamps,
        Graph::resets,
        Graph::signal_slots,
        Graph::state_words,
        Graph::region_count,
        Graph::bind
    );
    text::<GraphError>();
    text::<BindError>();
    text::<Memory>();
    text::<Inconsistent>();
}

fn instances() {
    type Lines<'a, 'm> = DeviceTimelines<'a, 'm, Turns>;
    fn wait(instance: &mut Instance<'_>, lines: &mut Lines<'_, '_>) -> Result<(), LaunchError> {
        Instance::wait(instance, lines, black_box(1))
    }
    fn is_idle(
        instance: &mut Instance<'_>,
        lines: &mut Lines<'_, '_>,
    ) -> Result<bool, LaunchError> {
        Instance::is_idle(instance, lines)
    }
    fn idle<'i, 'm>(
        instance: &'i mut Instance<'m>,
        lines: &mut Lines<'_, '_>,
        busy: Busy,
    ) -> Result<Idle<'i, 'm>, LaunchError> {
        Instance::idle(instance, lines, busy)
    }
    fn runs(launch: &graph::Launch<'_, '_>, each: fn(Run)) {
        graph::Launch::runs(launch).for_each(each);
    }
    fn submit(
        launch: &mut graph::Launch<'_, '_>,
        each: fn(&Run, usize, usize) -> Result<(), u32>,
    ) -> Result<(), u32> {
        graph::Launch::submit(launch, |run, words, beside| {
            each(run, words.len(), beside.len())
        })
    }
    fn kickoff<'m>(launch: graph::Launch<'_, 'm>, written: fn(Signal<'m>)) {
        graph::Launch::kickoff(launch, written);
    }
    keep!(
        wait,
        is_idle,
        idle,
        runs,
        submit,
        kickoff,
        graph::Launch::stored
    );
    keep!(Entry::of, Idle::clear_timestamps, Idle::patch);
    keep!(
        Instance::graph,
        Instance::get,
        Instance::set,
        Instance::set_all,
        Instance::change,
        Instance::set_signals_address,
        Instance::touch_all,
        Instance::is_stuck
    );
    keep!(
        Instance::last,
        Instance::abandon,
        Instance::timestamp,
        Instance::times
    );
    text::<LaunchError>();
}

fn images() {
    fn each<T>(items: impl Iterator<Item = T>) {
        items.for_each(|item| {
            black_box(item);
        });
    }
    fn lists(image: &Image<'_>) {
        each(Image::targets(image));
        each(Image::variables(image));
        each(Image::codes(image));
        each(Image::buffers(image));
    }
    fn write<'o>(contents: &Contents<'_>, out: &'o mut [u64]) -> Result<Image<'o>, WriteError> {
        image::write(contents, out)
    }
    keep!(lists, write, image::bytes, Target::takes);
    keep!(
        Image::load,
        Image::as_bytes,
        Image::checksum,
        Image::graph,
        Image::require,
        Image::variable,
        Image::nodes,
        Image::node
    );
    text::<LoadError>();
    text::<WriteError>();
    text::<Section>();
}
