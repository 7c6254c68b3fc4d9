//! Submitting to the CPU device's ring by hand, with an engine that is always done: the host's half alone.

use hcq_cpu::control::Control;
use hcq_cpu::queue::Compute;
use hcq_cpu::{PACKET_BYTES, PACKET_WORDS};
use hcq_nostd::mem::{Region, SharedWords};
use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{Queue, SignalAt};
use hcq_nostd::ring::Ring;
use hcq_nostd::timeline::{Timeline, WaitFor};

/// A ring whose packets count as consumed at once.
pub struct Host<'m> {
    ring: Ring<'m>,
    control: Control<'m>,
    words: [u32; 4 * PACKET_WORDS],
}

impl<'m> Host<'m> {
    /// Over the caller's memory; `control` has [`Control::WORDS`].
    pub fn new(ring: &'m mut [u64], control: &'m mut [u64]) -> Self {
        let control = SharedWords::new(Region::from_words(control, 0)).expect("aligned");
        Self {
            ring: Ring::new(Region::from_words(ring, 0), PACKET_BYTES).expect("whole packets"),
            control: Control::new(control).expect("enough words"),
            words: [0; 4 * PACKET_WORDS],
        }
    }

    /// Copies recorded packets into the ring and publishes them.
    #[inline(never)]
    pub fn unbound(&mut self, words: &[u32]) {
        let put = self.ring.put();
        self.ring.consumed(put).expect("published");
        let packets = (words.len() / PACKET_WORDS) as u64;
        let mut hole = self.ring.reserve(packets).expect("an empty ring");
        hole.fill(0, words).expect("room for all");
        hole.publish(&mut self.control);
    }

    /// Launches a bound queue: INDIRECT, the wait and the signal of the timeline; up to the doorbell.
    #[inline(never)]
    pub fn bound(&mut self, timeline: &mut Timeline<'_>, address: u64, packets: u32) -> u64 {
        let submission = timeline.submit().expect("room in the timeline");
        let mut q = Compute::new(&mut self.words, PatchList::none());
        q.indirect(address.into(), packets).expect("room");
        if let WaitFor::Slot(previous) = submission.previous {
            q.wait(timeline.operand(previous.slot), previous.value.into())
                .expect("room");
        }
        let operand: SignalAt = timeline.operand(submission.signal.slot);
        q.signal(operand, submission.signal.value.into())
            .expect("room");
        let words = q.words().len();
        let put = self.ring.put();
        self.ring.consumed(put).expect("published");
        let mut hole = self
            .ring
            .reserve((words / PACKET_WORDS) as u64)
            .expect("an empty ring");
        hole.fill(0, &self.words[..words]).expect("room for all");
        hole.publish(&mut self.control)
    }
}
