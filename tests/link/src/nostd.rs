//! The core: every public function of `hcq_nostd`, and the text of every error.
//!
//! A generic function is kept as an instance of it, with closures that the optimiser cannot see through.

mod graphs;

use crate::{keep, text};
use core::hint::black_box;
use hcq_nostd::arena::{ArenaError, Bump, FencedArena};
use hcq_nostd::args::{self, Arg, ArgLayout, ArgSlot, PreparedLayout};
use hcq_nostd::fault::{DeviceState, FaultCell, FaultRecord};
use hcq_nostd::mem::{self, AccessError, Region, SharedWord, SharedWords};
use hcq_nostd::patch::{
    BuildError, Derived, Formula, PatchError, PatchList, PatchTable, Patcher, Site, Store,
    SumError, TableError, Term,
};
use hcq_nostd::plan::{
    self, Access, Allocation, Capacity, Crossing, Device, Event, Explained, Hazard, Plan,
    PlanError, PlanQueue, Problem, Queues, Reason, Task, Via,
};
use hcq_nostd::profile::{
    ClockMap, Launched, ProfileSlots, QueueTimes, Span, Summary, TickRate, Times,
};
use hcq_nostd::record::{Block, Command, Operand, RecordError, Recorder};
use hcq_nostd::ring::{Doorbell, Hole, Ring, RingError, WouldBlock, arith};
use hcq_nostd::signal::{Signal, SignalError, SignalPool, Width};
use hcq_nostd::timeline::{Point, Timeline, TimelineError};
use hcq_nostd::value::{Affine, Field, Fit, Misfit, Value, Var};
use hcq_nostd::wait::{self, Policy, WaitError};

pub(crate) fn keep() {
    values();
    memory();
    patches();
    recording();
    rings();
    faults();
    arenas();
    signals();
    profiles();
    plans();
    graphs::keep();
}

fn values() {
    fn value_eval(value: Value, of: fn(Var) -> u64) -> u64 {
        Value::eval(value, of)
    }
    keep!(Var::new, Var::index, Affine::eval, Value::imm, value_eval);
    keep!(
        Fit::at_most,
        Fit::signed,
        Fit::bits,
        Fit::aligned,
        Fit::count,
        Fit::check
    );
    keep!(
        Field::new,
        Field::unit,
        Field::fit,
        Field::mask,
        Field::place
    );
    text::<Misfit>();
}

fn memory() {
    keep!(mem::publish_fence, mem::consume_fence);
    keep!(
        Region::new,
        Region::from_words,
        Region::len,
        Region::is_empty,
        Region::as_ptr,
        Region::device_address
    );
    keep!(
        Region::reborrow,
        Region::slice,
        Region::split_at,
        Region::check
    );
    keep!(
        Region::store_u8,
        Region::store_u16,
        Region::store_u32,
        Region::store_u64
    );
    keep!(
        Region::load_u8,
        Region::load_u16,
        Region::load_u32,
        Region::load_u64
    );
    keep!(
        Region::write,
        Region::write_words,
        Region::read,
        Region::fill
    );
    keep!(SharedWord::new, SharedWord::from_mut, SharedWord::as_ptr);
    keep!(SharedWord::load, SharedWord::store, SharedWord::store_low);
    keep!(
        SharedWords::new,
        SharedWords::len,
        SharedWords::is_empty,
        SharedWords::get,
        SharedWords::slice
    );
    text::<AccessError>();
}

fn patches() {
    fn formulas(
        of: Affine,
        var: Var,
        base: u32,
        field: Field,
        fit: Fit,
        store: Store,
    ) -> [Formula; 6] {
        [
            Formula::whole(of),
            Formula::whole(var),
            Formula::field(of, base, field),
            Formula::low(of, fit),
            Formula::high(of, fit),
            Formula::narrow(var, store),
        ]
    }
    fn term_new(of: Affine, field: Field) -> Term {
        Term::new(of, field)
    }
    fn term_masked(of: Affine, bits: u8, shl: u8) -> Term {
        Term::masked(of, bits, shl)
    }
    fn term_part(of: Affine, from: u8, bits: u8, shl: u8) -> Term {
        Term::part(of, from, bits, shl)
    }
    fn derived_product(a: Affine, b: Var) -> Derived {
        Derived::product(a, b)
    }
    fn region_bytes(table: &PatchTable<'_>) -> u64 {
        PatchTable::region_bytes(table).fold(0, u64::max)
    }
    keep!(Store::bytes, Store::align);
    keep!(formulas, Formula::swapped, Formula::eval, Formula::check);
    keep!(
        Site::formula,
        Site::place,
        term_new,
        term_masked,
        derived_product,
        Derived::sum,
        Derived::swapped32,
        Derived::swapped64,
        Derived::renumbered,
        term_part
    );
    keep!(
        PatchList::new,
        PatchList::none,
        PatchList::resume,
        PatchList::var,
        PatchList::clear,
        PatchList::vars,
        PatchList::used
    );
    keep!(
        PatchList::sites,
        PatchList::site,
        PatchList::derive,
        PatchList::product
    );
    keep!(PatchList::table_words, PatchList::build);
    keep!(PatchList::sum, PatchList::require);
    keep!(
        PatchTable::parse,
        PatchTable::as_bytes,
        PatchTable::vars,
        PatchTable::sites,
        region_bytes
    );
    keep!(PatchTable::is_derived, PatchTable::state_words);
    keep!(
        Patcher::new,
        Patcher::table,
        Patcher::get,
        Patcher::set,
        Patcher::set_all,
        Patcher::touch_all
    );
    keep!(Patcher::is_dirty, Patcher::apply);
    keep!(Patcher::keep_own, Patcher::set_own::<4>);
    text::<BuildError>();
    text::<SumError>();
    text::<TableError>();
    text::<PatchError>();
}

fn recording() {
    fn one_command<'r, 'm>(
        recorder: &'r mut Recorder<'m>,
        encode: fn(&mut Command<'_, 'm>) -> Result<(), RecordError>,
    ) -> Result<&'r mut Recorder<'m>, RecordError> {
        Recorder::command(recorder, encode)
    }
    keep!(
        Recorder::new,
        Recorder::in_region,
        Recorder::resume,
        Recorder::words,
        Recorder::used,
        Recorder::list
    );
    keep!(Recorder::finish, Recorder::clear, one_command);
    keep!(
        Command::position,
        Command::list,
        Command::word,
        Command::words,
        Command::set
    );
    keep!(
        Command::field,
        Command::set_field,
        Command::pair,
        Command::set_pair,
        Command::pair_high_first
    );
    keep!(Command::formula, Command::set_formula, Command::set_value);
    keep!(
        Block::new,
        Block::len,
        Block::is_empty,
        Block::device_address,
        Block::address,
        Block::based_on,
        Block::reborrow
    );
    keep!(Block::write, Block::value, Block::whole);
    keep!(
        ArgSlot::scalar,
        ArgSlot::buffer,
        Arg::var,
        Arg::size,
        Arg::align,
        ArgLayout::write,
        PreparedLayout::new,
        PreparedLayout::layout,
        PreparedLayout::write
    );
    keep!(args::write_packed, args::packed_size);
    text::<RecordError>();
    text::<Operand>();
}

fn rings() {
    struct Bell(fn(u64));
    impl Doorbell for Bell {
        fn ring(&mut self, value: u64) {
            (self.0)(value);
        }
    }
    fn publish(hole: Hole<'_, '_>, bell: &mut Bell) -> u64 {
        Hole::publish(hole, bell)
    }
    fn push(ring: &mut Ring<'_>, n: u64, words: &[u32; 4], bell: &mut Bell) -> bool {
        Ring::push(ring, n, words, bell).is_ok()
    }
    keep!(arith::free, arith::to_end, arith::padding, arith::extend);
    keep!(
        Ring::new,
        Ring::len,
        Ring::capacity,
        Ring::is_empty,
        Ring::put,
        Ring::get,
        Ring::free,
        Ring::consumed
    );
    keep!(Ring::keep_free, Ring::reserve);
    keep!(
        Ring::reserve_in_one_piece,
        Ring::reserve_to_end,
        Ring::resume
    );
    keep!(
        Hole::first,
        Hole::len,
        Hole::is_empty,
        Hole::fill,
        Hole::fill_header,
        publish,
        push
    );
    text::<WouldBlock>();
    text::<RingError>();
}

fn faults() {
    keep!(
        FaultRecord::new,
        FaultCell::new,
        FaultCell::report,
        FaultCell::get,
        FaultCell::clear
    );
    keep!(
        DeviceState::new,
        DeviceState::check,
        DeviceState::fail,
        DeviceState::recover
    );
    text::<FaultRecord>();
}

fn arenas() {
    keep!(Bump::new, Bump::alloc, Bump::used, Bump::reset);
    keep!(
        FencedArena::new,
        FencedArena::alloc,
        FencedArena::fence,
        FencedArena::retire,
        FencedArena::rewind
    );
    keep!(FencedArena::used);
    text::<ArenaError>();
}

fn signals() {
    fn word_wait(
        word: SharedWord<'_>,
        mask: u64,
        wanted: u64,
        turns: &mut Turns,
    ) -> Result<u64, WaitError> {
        wait::wait(word, mask, wanted, black_box(1), turns)
    }
    fn signal_wait(signal: &Signal<'_>, turns: &mut Turns) -> Result<u64, WaitError> {
        Signal::wait(signal, u64::MAX, black_box(1), turns)
    }
    fn timeline_wait(
        timeline: &mut Timeline<'_>,
        point: Point,
        turns: &mut Turns,
    ) -> Result<(), WaitError> {
        Timeline::wait(timeline, point, black_box(1), turns)
    }
    keep!(word_wait, signal_wait, timeline_wait);
    keep!(
        Width::mask,
        Signal::at,
        Signal::address,
        Signal::operand,
        Signal::width,
        Signal::value,
        Signal::set
    );
    keep!(Signal::timestamp, Signal::clear_timestamp, Signal::word);
    keep!(
        SignalPool::new,
        SignalPool::len,
        SignalPool::is_empty,
        SignalPool::alloc,
        SignalPool::free
    );
    keep!(Point::from_raw, Point::raw);
    keep!(
        Timeline::new,
        Timeline::default_span_log2,
        Timeline::operand,
        Timeline::latest,
        Timeline::next
    );
    keep!(
        Timeline::known_completed,
        Timeline::completed,
        Timeline::is_complete,
        Timeline::wait_for
    );
    keep!(
        Timeline::note_reader,
        Timeline::plan,
        Timeline::commit,
        Timeline::submit
    );
    text::<SignalError>();
    text::<TimelineError>();
    text::<WaitError>();
}

fn profiles() {
    type Spans = fn(u32) -> Option<Span>;
    fn summary(launched: &Launched<'_, Spans>) -> Option<Summary> {
        Launched::summary(launched)
    }
    fn path(launched: &Launched<'_, Spans>, last: u32, each: fn(u32)) {
        Launched::critical_path(launched, last).for_each(each);
    }
    fn queue(launched: &Launched<'_, Spans>, queue: u32, all: Span) -> QueueTimes {
        Launched::queue(launched, queue, all)
    }
    keep!(summary, path, queue, Span::ns);
    keep!(
        ClockMap::calibrate,
        ClockMap::host_ns,
        ClockMap::error_ns,
        ClockMap::rate,
        ClockMap::at_rate
    );
    keep!(Times::duration, TickRate::to_ns, TickRate::between);
    keep!(
        ProfileSlots::new,
        ProfileSlots::len,
        ProfileSlots::is_empty,
        ProfileSlots::operands
    );
    keep!(ProfileSlots::times, ProfileSlots::clear);
}

fn plans() {
    fn make<'s>(
        problem: &Problem<'_>,
        capacity: &Capacity,
        scratch: &'s mut [u64],
        transfer: fn(Crossing) -> Option<Via>,
    ) -> Result<Plan<'s>, PlanError> {
        plan::plan(problem, capacity, scratch, transfer)
    }
    fn queues(plan: &Plan<'_>, each: fn(PlanQueue)) {
        Plan::queues(plan).for_each(each);
    }
    fn devices(plan: &Plan<'_>, each: fn((u16, bool))) {
        Plan::devices(plan).for_each(each);
    }
    fn explain(plan: &Plan<'_>, each: fn(Explained)) {
        Plan::explain(plan).for_each(each);
    }
    keep!(
        Queues::in_order,
        Queues::in_flight,
        Device::new,
        Allocation::fixed,
        Allocation::input,
        Allocation::aliasing,
        Allocation::shared
    );
    keep!(
        Access::read,
        Access::write,
        Task::exec,
        Task::copy,
        Task::write,
        Task::on_queue
    );
    keep!(
        Problem::new,
        Problem::all_to_all,
        Problem::capacity,
        Problem::usual_capacity,
        Problem::scratch_words
    );
    keep!(make, queues, devices, explain);
    keep!(
        Plan::steps,
        Plan::works,
        Plan::work,
        Plan::signals,
        Plan::timestamps,
        Plan::is_exact,
        Plan::effort,
        Plan::why,
        Plan::lay_out
    );
    type Name = fn(u32, &mut dyn core::fmt::Write) -> core::fmt::Result;
    fn dot<'p, 's>(plan: &'p Plan<'s>, name: Name) -> plan::Dot<'p, 's, Name> {
        Plan::dot(plan, name)
    }
    keep!(dot);
    type Dot = plan::Dot<'static, 'static, Name>;
    text::<Dot>();
    text::<PlanError>();
    text::<Hazard>();
    text::<Event>();
    text::<Reason>();
    text::<Explained>();
}

/// A policy of functions that nobody knows.
pub(crate) struct Turns(fn() -> u64, fn(u32, u64), fn() -> Result<(), FaultRecord>);
impl Policy for Turns {
    fn now_ns(&mut self) -> u64 {
        (self.0)()
    }
    fn relax(&mut self, round: u32, _: SharedWord<'_>, seen: u64) {
        (self.1)(round, seen);
    }
    fn check(&mut self) -> Result<(), FaultRecord> {
        (self.2)()
    }
}
