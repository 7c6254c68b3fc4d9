//! A graph in memory, and its launches.

use super::error::{BindError, LaunchError, Memory};
use super::launch::Launch;
use super::view::{Graph, PER_DEVICE, QueueRecord};
use crate::mem::{Region, SharedWords, consume_fence};
use crate::patch::{PatchError, Patcher};
use crate::signal::{Signal, Width};
use crate::timeline::{Point, SlotValue, Submission, Timeline, WaitFor};
use crate::value::Var;
use crate::wait::{Policy, WaitError};

/// Memory of an instance, see [`Graph::bind`].
#[derive(Debug)]
pub struct InstanceMemory<'m> {
    /// One for each of [`Graph::regions`], in that order; empty ones where no bytes are needed.
    pub regions: &'m mut [Region<'m>],
    /// [`Graph::signal_slots`] of 16 bytes, which every device that takes part and the host reach.
    pub signals: SharedWords<'m>,
    /// [`Graph::state_words`].
    pub state: &'m mut [u64],
    /// One for each device.
    pub points: &'m mut [Point],
}

/// Where an instance stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    InFlight,
    /// So many queues were submitted, and then something failed.
    Stuck(u32),
}

/// A graph in memory of its own: the values of its variables, and its last launch.
///
/// Values that are set go to memory with the next launch; what is in flight is not touched. Several instances of one
/// graph are launched independently of each other, and share nothing but what their variables name.
#[derive(Debug)]
pub struct Instance<'m> {
    pub(super) graph: Graph<'m>,
    patcher: Patcher<'m>,
    pub(super) regions: &'m mut [Region<'m>],
    pub(super) signals: SharedWords<'m>,
    pub(super) points: &'m mut [Point],
    pub(super) state: State,
}

/// The devices' timelines, as a wait for a launch sees them. [`DeviceTimelines`] is one over this crate's own.
pub trait Timelines {
    /// Whether everything up to this point of a device is complete.
    ///
    /// # Errors
    /// [`WaitError`] if it can never be.
    fn is_complete(&mut self, device: u16, point: Point) -> Result<bool, WaitError>;

    /// Waits until it is; `timeout_ns` is the time without progress of that device.
    ///
    /// # Errors
    /// [`WaitError`].
    fn wait(&mut self, device: u16, point: Point, timeout_ns: u64) -> Result<(), WaitError>;
}

/// Timelines of a graph's devices, by their numbers, and one way to wait for all of them.
#[derive(Debug)]
pub struct DeviceTimelines<'a, 'm, P> {
    /// A timeline for each device.
    pub timelines: &'a mut [Timeline<'m>],
    /// How to wait.
    pub policy: &'a mut P,
}

impl<P: Policy> Timelines for DeviceTimelines<'_, '_, P> {
    #[inline]
    fn is_complete(&mut self, device: u16, point: Point) -> Result<bool, WaitError> {
        if let Some(t) = self.timelines.get_mut(usize::from(device))
            && t.is_complete(point) == Ok(true)
        {
            consume_fence();
            return Ok(true);
        }
        self.look_again(device, point)
    }

    fn wait(&mut self, device: u16, point: Point, timeout_ns: u64) -> Result<(), WaitError> {
        match self.timelines.get_mut(usize::from(device)) {
            Some(t) => t.wait(point, timeout_ns, self.policy),
            None => Err(WaitError::Timeout {
                wanted: point.raw(),
                seen: 0,
                waited_ns: 0,
            }),
        }
    }
}

impl<P: Policy> DeviceTimelines<'_, '_, P> {
    /// For a point that is not complete, and may never be.
    #[cold]
    fn look_again(&mut self, device: u16, point: Point) -> Result<bool, WaitError> {
        match self.wait(device, point, 0) {
            Ok(()) => Ok(true),
            Err(WaitError::Timeout { .. }) => Ok(false),
            Err(e @ WaitError::Fault(_)) => Err(e),
        }
    }
}

/// What to do about an instance whose last launch still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Busy {
    /// Say so.
    Refuse,
    /// Wait; this long without progress of a device is too long.
    Wait {
        /// Nanoseconds.
        timeout_ns: u64,
    },
}

/// A signal's device address, and a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SlotAt {
    /// Device address.
    pub address: u64,
    /// The value to wait for, or to write. Zero to wait for is nothing to wait for.
    pub value: u64,
}

/// A launch in a device's timeline. Of devices that do not take part any will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Entry {
    /// Covers all earlier work of the device; the graph starts there when it has come.
    pub wait: SlotAt,
    /// What the device signals when its part of the graph is complete.
    pub signal: SlotAt,
    /// The point that this stands for.
    pub point: Point,
}

impl Entry {
    /// A graph as this submission of a timeline. `None` for a submission that has to set a slot back
    /// ([`Submission::reset`]): commit it with work of its own, and plan the next one for the graph.
    #[inline]
    pub fn of(timeline: &Timeline<'_>, submission: &Submission) -> Option<Self> {
        if submission.reset.is_some() {
            return None;
        }
        let at = |s: SlotValue| SlotAt {
            address: timeline.slot_address(s.slot),
            value: s.value,
        };
        let signal = at(submission.signal);
        let wait = match submission.previous {
            WaitFor::Nothing => SlotAt { value: 0, ..signal },
            WaitFor::Slot(s) => at(s),
        };
        Some(Self {
            wait,
            signal,
            point: submission.point,
        })
    }
}

impl<'g> Graph<'g> {
    /// Puts the graph into memory. Nothing of the memory may be in flight.
    ///
    /// Time in proportion to the graph's size; the first launch stores all sites.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind<'m>(&self, memory: InstanceMemory<'m>) -> Result<Instance<'m>, BindError>
    where
        'g: 'm,
    {
        let InstanceMemory {
            regions,
            signals,
            state,
            points,
        } = memory;
        let short = |what, need: usize, have: usize| match have < need {
            true => Err(BindError::Short { what, need, have }),
            false => Ok(()),
        };
        let count = self.region_count();
        short(Memory::Regions, count, regions.len())?;
        short(Memory::Signals, self.signal_slots(), signals.len() / 2)?;
        short(Memory::Points, self.devices.len(), points.len())?;
        let regions = regions.get_mut(..count).unwrap_or_default();
        for (index, (need, region)) in self.regions().zip(regions.iter()).enumerate() {
            check_region(index, &need, region)?;
        }
        if self.signal_slots() > 0 {
            let at = Signal::at(signals, 0, Width::W64)?.address();
            let need = self.counts.signals_address;
            if !self.is_relocatable() && at != need {
                return Err(BindError::Address {
                    index: count,
                    need,
                    have: at,
                });
            }
        }
        let (need, have) = (self.state_words(), state.len());
        let state = state.split_at_mut_checked(self.table.state_words());
        let (state, own_state) = state
            .filter(|_| have >= need)
            .ok_or(PatchError::StateTooSmall { need, have })?;
        let mut patcher = Patcher::new(self.table, state)?;
        self.copy_in(regions)?;
        points.fill(Point::ZERO);
        for slot in 0..self.signal_slots() {
            let s = Signal::at(signals, slot, Width::W64)?;
            s.set(0)?;
            s.clear_timestamp();
        }
        if self.is_relocatable() {
            self.set_places(&mut patcher, regions, signals)?;
        }
        let (first, count) = self.own();
        patcher.keep_places(Var::new(first), count, own_state);
        Ok(Instance {
            graph: *self,
            patcher,
            regions,
            signals,
            points,
            state: State::Idle,
        })
    }

    /// Words and blocks as they were recorded.
    fn copy_in(&self, regions: &mut [Region<'_>]) -> Result<(), BindError> {
        let (queues, devices) = (self.queues.len(), self.devices.len());
        let bytes = |at: u32, len: u32| {
            let end = at.saturating_add(len);
            let bytes = self.blocks.get(at as usize..end as usize);
            bytes.unwrap_or_default()
        };
        for (index, region) in regions.iter_mut().enumerate() {
            let queue = u32::try_from(index).unwrap_or(u32::MAX);
            let stored = if index < queues {
                region.write_words(0, self.words(queue))
            } else if let Some(d) = self.devices.get(index.saturating_sub(queues)) {
                region.write(0, bytes(d.kernargs_at, d.kernargs))
            } else {
                let q = index.saturating_sub(queues).saturating_sub(devices);
                let q = self.queues.get(q).copied().unwrap_or(QueueRecord::EMPTY);
                region.write(0, bytes(q.beside_at, q.beside))
            };
            stored.map_err(|_| BindError::Region {
                index,
                need: 0,
                have: region.len() as u64,
            })?;
        }
        Ok(())
    }

    /// The variables that say where everything is.
    fn set_places(
        &self,
        patcher: &mut Patcher<'_>,
        regions: &[Region<'_>],
        signals: SharedWords<'_>,
    ) -> Result<(), BindError> {
        let vars = self.vars();
        let signals = signals.get(0).map_or(0, |(_, address)| address);
        for (device, _) in (0u16..).zip(self.devices) {
            if let Some(var) = vars.signals(device) {
                patcher.set(var, signals)?;
            }
        }
        for (index, region) in regions.iter().enumerate() {
            if let Some(var) = vars.region(index) {
                patcher.set(var, region.device_address(0).unwrap_or(0))?;
            }
        }
        Ok(())
    }
}

fn check_region(
    index: usize,
    need: &super::RegionNeed,
    region: &Region<'_>,
) -> Result<(), BindError> {
    let have = region.len() as u64;
    let at = region.device_address(0).unwrap_or(0);
    let aligned_here = region.as_ptr().cast::<u64>().is_aligned();
    if have < need.bytes || !aligned_here || region.device_address(region.len()).is_none() {
        let need = need.bytes;
        return Err(BindError::Region { index, need, have });
    }
    if need.bytes == 0 {
        return Ok(());
    }
    if !at.is_multiple_of(need.align) {
        return Err(BindError::Misaligned {
            index,
            address: at,
            align: need.align,
        });
    }
    match need.address {
        Some(recorded) if recorded != at => Err(BindError::Address {
            index,
            need: recorded,
            have: at,
        }),
        _ => Ok(()),
    }
}

impl<'m> Instance<'m> {
    /// The graph.
    pub const fn graph(&self) -> &Graph<'m> {
        &self.graph
    }

    /// The value that the next launch uses, if the variable has one.
    pub fn get(&self, var: Var) -> Option<u64> {
        self.patcher
            .get(var)
            .filter(|_| var.index() < self.graph.variables())
    }

    /// Gives a variable its value from the next launch on: an input's address, a scalar argument, a grid size.
    ///
    /// # Errors
    /// [`LaunchError::NoSuchVariable`]; nothing has changed then.
    #[inline]
    pub fn set(&mut self, var: Var, value: u64) -> Result<(), LaunchError> {
        self.check(var.index(), 1)?;
        Ok(self.patcher.set(var, value)?)
    }

    /// Gives consecutive variables from `first` on their values; costs a comparison for those that did not change.
    ///
    /// # Errors
    /// [`LaunchError::NoSuchVariable`]; nothing has changed then.
    #[inline]
    pub fn set_all(&mut self, first: Var, values: &[u64]) -> Result<(), LaunchError> {
        self.check(first.index(), values.len())?;
        // The caller's variables are the table's, and come before those that are computed, as `check` saw.
        self.patcher.put_values(first, values);
        Ok(())
    }

    /// Gives several variables their values, all or none.
    ///
    /// # Errors
    /// [`LaunchError::NoSuchVariable`]; nothing has changed then.
    pub fn change(&mut self, values: &[(Var, u64)]) -> Result<(), LaunchError> {
        for (var, _) in values {
            self.check(var.index(), 1)?;
        }
        for (var, value) in values {
            self.patcher.set(*var, *value)?;
        }
        Ok(())
    }

    #[inline]
    fn check(&self, first: u32, n: usize) -> Result<(), LaunchError> {
        let variables = self.graph.variables();
        match (variables as usize).checked_sub(n) {
            Some(most) if first as usize <= most => Ok(()),
            _ => Err(LaunchError::NoSuchVariable {
                var: Var::new(first.max(variables)),
                variables,
            }),
        }
    }

    /// Says where a device sees the signals, if not where they are for all; for relocatable graphs.
    ///
    /// # Errors
    /// [`LaunchError::Patch`] if the graph has no such variable.
    pub fn set_signals_address(&mut self, device: u16, address: u64) -> Result<(), LaunchError> {
        let vars = self.graph.vars();
        let var = Some(vars.signals(device).unwrap_or(Var::new(u32::MAX)));
        let known = self.graph.is_relocatable() && usize::from(device) < self.graph.devices.len();
        let var = var.filter(|_| known).unwrap_or(Var::new(u32::MAX));
        Ok(self.patcher.set(var, address)?)
    }

    /// Marks all sites changed: after memory that the devices lost and found again.
    pub fn touch_all(&mut self) -> Result<(), BindError> {
        self.graph.copy_in(self.regions)?;
        self.patcher.touch_all();
        Ok(())
    }

    /// The last launch's point of a device's timeline; zero if there was none.
    pub fn last(&self, device: u16) -> Point {
        let point = self.points.get(usize::from(device));
        point.copied().unwrap_or(Point::ZERO)
    }

    /// Waits until the last launch is complete. Do so before the memory goes; a device in error ends it at once.
    ///
    /// # Errors
    /// [`LaunchError::Wait`], [`LaunchError::Stuck`].
    pub fn wait<T: Timelines>(
        &mut self,
        timelines: &mut T,
        timeout_ns: u64,
    ) -> Result<(), LaunchError> {
        self.idle(timelines, Busy::Wait { timeout_ns }).map(drop)
    }

    /// Whether the last launch is complete, or there was none.
    ///
    /// # Errors
    /// [`LaunchError::Wait`], [`LaunchError::Stuck`].
    pub fn is_idle<T: Timelines>(&mut self, timelines: &mut T) -> Result<bool, LaunchError> {
        match self.idle(timelines, Busy::Refuse) {
            Ok(_) => Ok(true),
            Err(LaunchError::Busy { .. }) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The instance with nothing of it in flight, to be launched.
    ///
    /// # Errors
    /// [`LaunchError::Busy`], [`LaunchError::Wait`], [`LaunchError::Stuck`].
    #[inline]
    pub fn idle<T: Timelines>(
        &mut self,
        timelines: &mut T,
        busy: Busy,
    ) -> Result<Idle<'_, 'm>, LaunchError> {
        if self.state != State::Idle {
            self.settle(timelines, busy)?;
        }
        Ok(Idle { instance: self })
    }

    fn settle<T: Timelines>(&mut self, timelines: &mut T, busy: Busy) -> Result<(), LaunchError> {
        if let State::Stuck(submitted) = self.state {
            return Err(LaunchError::Stuck { submitted });
        }
        let devices = self.graph.devices.iter().zip(self.points.iter());
        for (device, (d, &point)) in (0u16..).zip(devices) {
            if !d.takes_part() || point == Point::ZERO {
                continue;
            }
            match busy {
                Busy::Wait { timeout_ns } => timelines.wait(device, point, timeout_ns)?,
                Busy::Refuse if !timelines.is_complete(device, point)? => {
                    return Err(LaunchError::Busy { device, point });
                }
                Busy::Refuse => {}
            }
        }
        self.state = State::Idle;
        Ok(())
    }

    #[inline(never)]
    fn apply(&mut self) -> Result<usize, LaunchError> {
        Ok(self.patcher.apply(self.regions)?)
    }

    #[cold]
    fn too_few(&self, have: usize) -> LaunchError {
        let need = self.graph.devices.len();
        LaunchError::Entries { need, have }
    }

    /// Whether a launch failed when some of its queues had been submitted.
    pub const fn is_stuck(&self) -> bool {
        matches!(self.state, State::Stuck(_))
    }

    /// Nothing of the last launch runs any more, whatever the timelines say: the devices were recovered, and have dropped
    /// it.
    pub fn abandon(&mut self) {
        self.state = State::Idle;
    }

    /// A timestamp slot's contents, in ticks of the device that wrote it; zero if nothing was written since
    /// [`clear_timestamps`](Idle::clear_timestamps).
    pub fn timestamp(&self, slot: u32) -> Option<u64> {
        let slot = self.timestamp_signal(slot)?;
        Some(slot.timestamp())
    }

    fn timestamp_signal(&self, slot: u32) -> Option<Signal<'m>> {
        if slot >= self.graph.timestamps() {
            return None;
        }
        let index = self.graph.resets().checked_add(slot)?;
        Signal::at(self.signals, index as usize, Width::W64).ok()
    }

    /// When a work began and ended, if its plan takes times and it has run.
    pub fn times(&self, work: u32) -> Option<crate::profile::Times> {
        let (begin, end) = self.graph.works.get(work as usize)?.timestamps()?;
        let (start, end) = (self.timestamp(begin)?, self.timestamp(end)?);
        (start != 0 && end != 0).then_some(crate::profile::Times { start, end })
    }
}

/// An instance of which nothing is in flight.
#[derive(Debug)]
pub struct Idle<'i, 'm> {
    instance: &'i mut Instance<'m>,
}

impl<'i, 'm> Idle<'i, 'm> {
    /// Forgets the times of earlier launches.
    pub fn clear_timestamps(&mut self) {
        for slot in 0..self.instance.graph.timestamps() {
            if let Some(signal) = self.instance.timestamp_signal(slot) {
                signal.clear_timestamp();
            }
        }
    }

    /// Stores what changed, and sets the graph's signals back. `entries` has one for each device.
    ///
    /// Costs time in proportion to the sites of the variables that changed, plus the devices and the graph's signals,
    /// however many nodes there are.
    ///
    /// # Errors
    /// [`LaunchError::Patch`], [`LaunchError::Entries`]; the memory holds what the last launch had.
    #[inline(always)]
    pub fn patch(self, entries: &'i [Entry]) -> Result<Launch<'i, 'm>, LaunchError> {
        let instance = self.instance;
        let devices = instance.graph.devices;
        if entries.len() < devices.len() {
            return Err(instance.too_few(entries.len()));
        }
        let first = Var::new(instance.graph.counts.variables);
        instance
            .patcher
            .set_places(first, devices, entries, |d, e| {
                // In the order of `Of`; `check` saw that the table has them.
                let values: [u64; PER_DEVICE as usize] = [
                    e.wait.address,
                    e.wait.value,
                    e.signal.address,
                    e.signal.value,
                ];
                d.takes_part().then_some(values)
            });
        let stored = match instance.patcher.apply_bound(instance.regions) {
            Some(stored) => stored,
            None => instance.apply()?,
        };
        for slot in 0..instance.graph.resets() as usize {
            // A signal's value is its first word. Inside, as `bind` has seen.
            if let Some((value, _)) = instance.signals.get(2 * slot) {
                value.store(0);
            }
        }
        Ok(Launch {
            instance,
            entries,
            stored,
            next: 0,
            submitted: 0,
        })
    }
}
