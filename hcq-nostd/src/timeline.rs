//! The timeline: a device's signal of all its work.
//!
//! Every submission gets the next [`Point`]; when the device signals it, this submission and all before it are complete.
//! Points are 64-bit counts that never wrap. Engines compare 32 or 64 bits, so the count is split: `span` points make an
//! *epoch*, values within an epoch run from 1 to `span`, and epochs take turns with two signal slots, the timeline and
//! its shadow.
//!
//! # Roll-over
//!
//! The slot of epoch `e + 1` is the one that epoch `e - 1` used. It is set back to zero *by the device*, in the
//! submission halfway through epoch `e` ([`Submission::reset`]), after everything else of that submission on whatever
//! queues it has. The host is never drained. Why nobody is harmed:
//!
//! - *Commands of this device.* A wait is resolved when its submission is made. From the halfway submission on no wait
//!   names epoch `e - 1`; all earlier submissions, and so their waits, are complete when the reset runs.
//! - *Commands of other devices* may still wait. Each device that was given a wait ([`Timeline::note_reader`]) in this
//!   slot's time is in [`Submission::readers`]; the reset waits for the newest point of each. That cannot deadlock: they
//!   were submitted earlier, and wait for nothing that is submitted later.
//! - *The host* reads slots to find out what is complete. At most a quarter of a span is in flight, so when the halfway
//!   submission is made it knows a complete point of epoch `e` already and no longer looks at the other slot; and
//!   when the first submission of epoch `e + 1` is made, it knows a complete point after the reset, so that it never sees
//!   what epoch `e - 1` left.
//! - *The next epoch* finds its slot at zero for the same reason: no wait in it passes early.
//!
//! A wait is resolved to nothing if its point is known to be complete ([`WaitFor`]), which every point is that is a
//! quarter of a span behind the latest one. A graph left idle over any number of roll-overs neither hangs nor passes
//! early.
//!
//! # One at a time
//!
//! Between the first resolution of a submission's waits and its [`commit`](Timeline::commit), no other submission of this
//! timeline may be committed, and no other device may resolve a wait for it: hold one lock for the three. A device that
//! waits for another one holds the other's lock from [`Timeline::wait_for`] and [`Timeline::note_reader`] until its own
//! commit, and so must whoever waits for the readers of a reset.
//!
//! # In flight
//!
//! At most a quarter of a span may be in flight; [`Timeline::submit`] refuses more. With 2^31 points that is more than
//! any ring holds.

use crate::fault::{FaultKind, FaultRecord};
use crate::mem::consume_fence;
use crate::queue::SignalAt;
use crate::signal::{Signal, Width};
use crate::wait::{Policy, WaitError};

/// A submission's place in its device's order, from 1 on. Zero stands for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Point(u64);

impl Point {
    /// Before all work; always complete.
    pub const ZERO: Self = Self(0);

    /// The point with this count.
    pub const fn from_raw(n: u64) -> Self {
        Self(n)
    }

    /// The count.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

/// Which of the two slots, and the value in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SlotValue {
    /// 0 or 1: even epochs use slot 0.
    pub slot: usize,
    /// The device's value, at least 1.
    pub value: u64,
}

/// What to wait for so that a point is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum WaitFor {
    /// It is complete; record no wait.
    Nothing,
    /// Record a wait on this slot.
    Slot(SlotValue),
}

/// What a submission must contain. Record its waits and work, then the reset if there is one, then the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Submission {
    /// Its point.
    pub point: Point,
    /// Wait for this before the signal, so that the timeline never steps over work: the point before this one.
    pub previous: WaitFor,
    /// Set this slot's value to zero before the signal, after the wait for `previous`.
    pub reset: Option<usize>,
    /// With a reset: bit `n` is set for peer `n` that has waited on this timeline since the last one. Record a wait on
    /// the newest point of each before the reset.
    pub readers: u64,
    /// Signal this when all is done.
    pub signal: SlotValue,
}

/// Why there is no submission now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TimelineError {
    /// The span is less than 4 or more than the engine's width can hold.
    Span {
        /// Its logarithm.
        log2: u32,
    },
    /// The two signals are of different widths.
    Widths,
    /// There are 64 peers at most.
    Peer {
        /// The number given.
        peer: u32,
    },
    /// A quarter of a span is in flight; wait for this point.
    TooFarAhead {
        /// The point whose completion makes room.
        wait_for: Point,
    },
    /// The device wrote a value that was never submitted.
    Impossible {
        /// The slot.
        slot: usize,
        /// The value seen.
        seen: u64,
    },
}

impl core::fmt::Display for TimelineError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Span { log2 } => write!(f, "an epoch of 2^{log2} points does not fit the engine"),
            Self::Peer { peer } => write!(
                f,
                "peer {peer} is beyond the 64 that a timeline keeps apart"
            ),
            Self::Widths => write!(f, "a timeline's two signals must be of one width"),
            Self::TooFarAhead { wait_for } => {
                write!(f, "too much in flight until point {}", wait_for.0)
            }
            Self::Impossible { slot, seen } => write!(
                f,
                "timeline slot {slot} holds {seen}, which was not submitted"
            ),
        }
    }
}

impl core::error::Error for TimelineError {}

/// A device's timeline.
///
/// ```
/// use hcq_nostd::mem::{Region, SharedWords};
/// use hcq_nostd::signal::{Signal, Width};
/// use hcq_nostd::timeline::{Point, Timeline, WaitFor};
///
/// let mut memory = [0u128; 2];
/// let words: &mut [u64] = zerocopy::transmute_mut!(&mut memory);
/// let words = SharedWords::new(Region::from_words(words, 0x1000))?;
/// let slots = [Signal::at(words, 0, Width::W32)?, Signal::at(words, 1, Width::W32)?];
/// let mut timeline = Timeline::new(slots, 31)?;
/// let first = timeline.submit()?;                 // record and submit work that ends with its signal
/// assert_eq!(timeline.latest(), first.point);
/// assert!(!timeline.is_complete(first.point)?);
/// slots[first.signal.slot].set(first.signal.value)?;          // what the device does
/// assert!(timeline.is_complete(first.point)?);
/// assert_eq!(timeline.wait_for(first.point), WaitFor::Nothing);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Timeline<'m> {
    slots: [Signal<'m>; 2],
    span_log2: u32,
    /// The last point submitted, and how it shows.
    latest: u64,
    newest: SlotValue,
    /// A point known to be complete, and so all before it.
    completed: u64,
    readers: u64,
    readers_before: u64,
}

impl<'m> Timeline<'m> {
    /// A timeline over its two slots, nothing submitted. An epoch has `2^span_log2` points; 31 for 32-bit engines, 62
    /// for 64-bit ones, less in tests.
    ///
    /// # Errors
    /// [`TimelineError::Span`], [`TimelineError::Widths`].
    pub fn new(slots: [Signal<'m>; 2], span_log2: u32) -> Result<Self, TimelineError> {
        let [a, b] = slots;
        if a.width() != b.width() {
            return Err(TimelineError::Widths);
        }
        let most = match a.width() {
            Width::W32 => 31,
            Width::W64 => 62,
        };
        if !(2..=most).contains(&span_log2) {
            return Err(TimelineError::Span { log2: span_log2 });
        }
        for s in slots {
            s.word().store(0);
        }
        Ok(Self {
            slots,
            span_log2,
            latest: 0,
            newest: SlotValue { slot: 0, value: 0 },
            completed: 0,
            readers: 0,
            readers_before: 0,
        })
    }

    /// The span that suits an engine of this width.
    pub const fn default_span_log2(width: Width) -> u32 {
        match width {
            Width::W32 => 31,
            Width::W64 => 62,
        }
    }

    const fn span(&self) -> u64 {
        1 << self.span_log2
    }

    const fn epoch(&self, point: u64) -> u64 {
        point.saturating_sub(1) >> self.span_log2
    }

    #[inline]
    const fn slot_value(&self, point: u64) -> SlotValue {
        let epoch = self.epoch(point);
        SlotValue {
            slot: (epoch & 1) as usize,
            value: (point.saturating_sub(1) & (self.span() - 1)) + 1,
        }
    }

    /// How the point after the last one will show.
    #[inline]
    const fn after_newest(&self) -> SlotValue {
        let SlotValue { slot, value } = self.newest;
        if value < self.span() {
            let value = value + 1;
            return SlotValue { slot, value };
        }
        SlotValue {
            slot: 1 - slot,
            value: 1,
        }
    }

    #[inline]
    fn slot(&self, index: usize) -> Signal<'m> {
        let [even, odd] = self.slots;
        if index == 0 { even } else { odd }
    }

    /// A slot as a command's operand. Hosts sleep on timelines.
    #[inline]
    pub fn operand(&self, slot: usize) -> SignalAt {
        SignalAt {
            notify: true,
            ..self.slot(slot).operand()
        }
    }

    /// The device address of a slot.
    #[inline]
    pub(crate) fn slot_address(&self, slot: usize) -> u64 {
        self.slot(slot).address()
    }

    /// The last point submitted.
    pub const fn latest(&self) -> Point {
        Point(self.latest)
    }

    /// The point that the next submission gets.
    pub const fn next(&self) -> Point {
        Point(self.latest + 1)
    }

    /// The last point known to be complete, without looking.
    pub const fn known_completed(&self) -> Point {
        Point(self.completed)
    }

    /// Looks, and returns the last complete point.
    ///
    /// # Errors
    /// [`TimelineError::Impossible`].
    #[inline]
    pub fn completed(&mut self) -> Result<Point, TimelineError> {
        if self.completed == self.latest {
            return Ok(Point(self.completed));
        }
        // Everything is, mostly.
        let seen = self.slot(self.newest.slot).value();
        if seen == self.newest.value {
            self.completed = self.latest;
            return Ok(Point(self.completed));
        }
        self.completed_of(seen)
    }

    /// The same for what is `seen` in the slot of the newest epoch.
    #[inline(never)]
    fn completed_of(&mut self, seen: u64) -> Result<Point, TimelineError> {
        // At most a quarter of a span is in flight, so the newest complete point is in the newest epoch or the one
        // before. The newest epoch's slot was set back before a point that is known to be complete, and the other one is
        // not set back while a point of its epoch is not known to be complete.
        let newest = self.epoch(self.latest);
        let oldest = self.epoch(self.completed + 1);
        let (mut epoch, mut seen) = (newest, seen);
        if seen == 0 && newest > oldest {
            epoch = newest - 1;
            seen = self.slot((epoch & 1) as usize).value();
        }
        if seen != 0 {
            let slot = (epoch & 1) as usize;
            let point = (epoch << self.span_log2).saturating_add(seen);
            if seen > self.span() || point > self.latest {
                return Err(TimelineError::Impossible { slot, seen });
            }
            self.completed = self.completed.max(point);
        }
        Ok(Point(self.completed))
    }

    /// Looks whether a point is complete.
    ///
    /// # Errors
    /// [`TimelineError::Impossible`].
    #[inline]
    pub fn is_complete(&mut self, point: Point) -> Result<bool, TimelineError> {
        Ok(point.0 <= self.completed || self.completed()? >= point)
    }

    /// What a command must wait for so that `point` is complete when it passes. Resolve it when the command is
    /// submitted, not when it is recorded. A point that was not submitted yet counts as the latest.
    ///
    /// When the command is another device's, say so with [`note_reader`](Self::note_reader).
    #[inline]
    pub fn wait_for(&self, point: Point) -> WaitFor {
        let point = point.0.min(self.latest);
        if point <= self.completed {
            return WaitFor::Nothing;
        }
        // Less than a quarter of a span behind the latest point, so its slot is not set back before the wait passes.
        WaitFor::Slot(self.slot_value(point))
    }

    /// Takes note that device `peer` (0 to 63) records waits on this timeline; see [`Submission::readers`].
    ///
    /// # Errors
    /// [`TimelineError::Peer`]; do not record the wait then.
    pub const fn note_reader(&mut self, peer: u32) -> Result<(), TimelineError> {
        match 1u64.checked_shl(peer) {
            Some(bit) => {
                self.readers |= bit;
                Ok(())
            }
            None => Err(TimelineError::Peer { peer }),
        }
    }

    /// What the next submission would contain; nothing changes until [`commit`](Self::commit).
    ///
    /// # Errors
    /// [`TimelineError::TooFarAhead`], [`TimelineError::Impossible`].
    #[inline]
    pub fn plan(&mut self) -> Result<Submission, TimelineError> {
        if self.latest - self.completed >= self.span() / 4 {
            self.find_room()?;
        }
        let signal = self.after_newest();
        let resets = signal.value == self.span() / 2;
        Ok(Submission {
            point: self.next(),
            previous: match self.completed == self.latest {
                true => WaitFor::Nothing,
                false => WaitFor::Slot(self.newest),
            },
            reset: resets.then_some(1 - signal.slot),
            readers: if resets {
                self.readers | self.readers_before
            } else {
                0
            },
            signal,
        })
    }

    /// Looks for points that are complete where a quarter of a span may be in flight.
    #[cold]
    fn find_room(&mut self) -> Result<(), TimelineError> {
        let quarter = self.span() / 4;
        self.completed()?;
        if self.latest - self.completed < quarter {
            return Ok(());
        }
        let wait_for = Point(self.latest - quarter + 1);
        Err(TimelineError::TooFarAhead { wait_for })
    }

    /// The planned submission is on its way. A plan that is not the last one's, or was committed before, is nothing.
    #[inline]
    pub fn commit(&mut self, submission: &Submission) {
        if submission.point != self.next() {
            return;
        }
        self.newest = self.after_newest();
        self.latest = submission.point.0;
        if submission.reset.is_some() {
            // Readers of this epoch may still wait in it at the next reset.
            self.readers_before = self.readers;
            self.readers = 0;
        }
    }

    /// Plans and commits in one.
    ///
    /// # Errors
    /// As for [`plan`](Self::plan).
    #[inline]
    pub fn submit(&mut self) -> Result<Submission, TimelineError> {
        let submission = self.plan()?;
        self.commit(&submission);
        Ok(submission)
    }

    /// Waits on this side until a point is complete; a point that was not submitted counts as the latest.
    /// `timeout_ns` is the time without progress of the timeline.
    ///
    /// # Errors
    /// [`WaitError`]; the numbers of a timeout are points. A slot with a value that was never submitted is reported as a
    /// hardware fault at the slot's address, the value as its detail.
    pub fn wait(
        &mut self,
        point: Point,
        timeout_ns: u64,
        policy: &mut impl Policy,
    ) -> Result<(), WaitError> {
        let point = point.min(self.latest());
        let mut since = None;
        let mut round = 0u32;
        loop {
            let before = self.completed;
            let completed = self.completed().map_err(|e| self.impossible(e))?;
            if completed >= point {
                consume_fence();
                return Ok(());
            }
            policy.check().map_err(WaitError::Fault)?;
            let now = policy.now_ns();
            if completed.0 != before {
                since = Some(now);
            }
            let waited_ns = now.saturating_sub(*since.get_or_insert(now));
            if waited_ns >= timeout_ns {
                return Err(WaitError::Timeout {
                    wanted: point.0,
                    seen: completed.0,
                    waited_ns,
                });
            }
            // The slot in which the next progress shows, and what it held at the look: a change since then must end the
            // nap of a policy that sleeps on the word.
            let next = self.slot_value(self.completed + 1);
            policy.relax(round, self.slot(next.slot).word(), next.value - 1);
            round = round.saturating_add(1);
        }
    }

    #[cold]
    fn impossible(&self, error: TimelineError) -> WaitError {
        let (slot, seen) = match error {
            TimelineError::Impossible { slot, seen } => (slot, seen),
            _ => (0, 0),
        };
        let mut fault = FaultRecord::new(FaultKind::Hardware, 0, self.slot(slot).address());
        fault.detail = seen;
        fault.last_signalled = self.completed;
        fault.first_not_signalled = self.completed + 1;
        WaitError::Fault(fault)
    }
}

#[cfg(test)]
mod tests;
