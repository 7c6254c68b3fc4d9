//! A launch under way: its queues, and the kickoff.

use super::instance::{Entry, Instance, State};
use super::view::QueueRecord;
use crate::mem::Region;
use crate::plan::Engine;
use crate::signal::{Signal, Width};

/// A queue to submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Run {
    /// Its number in the graph.
    pub queue: u32,
    /// Its device.
    pub device: u16,
    /// Its kind.
    pub engine: Engine,
    /// Its number among those of its device and kind.
    pub index: u16,
    /// Device address of its words.
    pub address: u64,
    /// How many 32-bit words.
    pub words: u32,
    /// Device address of what is beside them.
    pub beside: u64,
    /// How many bytes.
    pub beside_bytes: u32,
}

impl QueueRecord {
    /// Queue number `queue` of an instance whose regions these are.
    #[inline]
    fn run(&self, queue: usize, words: &Region<'_>, beside: &Region<'_>) -> Run {
        let at = |region: &Region<'_>| region.device_address(0).unwrap_or(0);
        Run {
            // There are fewer than 2^16, as `check` saw.
            queue: queue as u32,
            device: self.device,
            engine: self.engine(),
            index: self.index,
            address: at(words),
            words: self.words,
            beside: at(beside),
            beside_bytes: self.beside,
        }
    }
}

/// A launch whose values are stored: submit its queues, then kick it off.
///
/// Dropped before anything was submitted it is nothing, and the instance is as before. Dropped after some queues were,
/// those wait forever: the instance is [stuck](super::LaunchError::Stuck).
#[derive(Debug)]
pub struct Launch<'i, 'm> {
    pub(super) instance: &'i mut Instance<'m>,
    pub(super) entries: &'i [Entry],
    pub(super) stored: usize,
    pub(super) next: usize,
    pub(super) submitted: u32,
}

impl<'m> Launch<'_, 'm> {
    /// Sites that were stored.
    pub const fn stored(&self) -> usize {
        self.stored
    }

    /// The queues to submit, always in the same order: by device, processors last.
    pub fn runs(&self) -> impl Iterator<Item = Run> {
        let graph = &self.instance.graph;
        let apart = graph.queues.len().saturating_add(graph.devices.len());
        let (words, beside) = (
            self.instance.regions.iter(),
            self.instance.regions.get(apart..).unwrap_or_default(),
        );
        let of = graph.queues.iter().enumerate().zip(words.zip(beside));
        let used = of.filter(|((_, q), _)| q.words > 0);
        used.map(|((queue, q), (words, beside))| q.run(queue, words, beside))
    }

    /// Has every queue submitted that was not yet: `push` makes its engine run the words, all of them or none, and does
    /// not wait for them. They begin with the kickoff. After an error it may be called again, and goes on where it failed.
    ///
    /// # Errors
    /// What `push` returns.
    #[inline]
    pub fn submit<E>(
        &mut self,
        mut push: impl FnMut(&Run, &mut Region<'_>, &mut Region<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let instance = &mut *self.instance;
        let (queues, devices) = (instance.graph.queues, instance.graph.devices);
        let parts = instance.regions.split_at_mut_checked(queues.len());
        let (words, others) = parts.unwrap_or_default();
        let beside = others.get_mut(devices.len()..).unwrap_or_default();
        while let (Some(q), Some(words), Some(beside)) = (
            queues.get(self.next),
            words.get_mut(self.next),
            beside.get_mut(self.next),
        ) {
            if q.words > 0 {
                let run = q.run(self.next, words, beside);
                // The instance's own regions stay what they were when it was bound.
                push(&run, &mut words.reborrow(), &mut beside.reborrow())?;
                self.submitted = self.submitted.saturating_add(1);
                instance.state = State::Stuck(self.submitted);
            }
            self.next = self.next.saturating_add(1);
        }
        Ok(())
    }

    /// Lets the queues begin. Each signal that is written is told to `written`, for hosts that wake engines which sleep on
    /// memory. Nothing begins while a queue was not submitted: then the instance is [stuck](super::LaunchError::Stuck).
    #[inline]
    pub fn kickoff(self, mut written: impl FnMut(Signal<'m>)) {
        let instance = self.instance;
        let complete = self.next >= instance.graph.queues.len();
        if !complete {
            return;
        }
        let first = instance.graph.counts.signals;
        for slot in first..instance.graph.resets() {
            if let Ok(signal) = Signal::at(instance.signals, slot as usize, Width::W64)
                && signal.set(1).is_ok()
            {
                written(signal);
            }
        }
        let of = instance.graph.devices.iter().zip(self.entries);
        for (to, (d, e)) in instance.points.iter_mut().zip(of) {
            if d.takes_part() {
                *to = e.point;
            }
        }
        instance.state = if self.submitted == 0 {
            State::Idle
        } else {
            State::InFlight
        };
    }
}
