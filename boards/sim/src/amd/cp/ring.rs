//! A queue of PM4 packets.

use super::chip::Chip;
use super::stream::{Done, Place, Stream, read_packet};
use super::{Cause, Stopped, memory};
use crate::engine::{Engine, Fault, Host, QueueMemory, Step};

/// The hardware of a PM4 queue.
pub(super) struct Pm4 {
    memory: QueueMemory,
    stream: Stream,
    /// Words that the front has taken, and that the host has written, ever.
    read: u64,
    write: u64,
    stopped: Option<Box<Fault>>,
}

impl Pm4 {
    pub(super) fn new(chip: &'static Chip, xcc: (u8, u8), memory: QueueMemory) -> Self {
        Self {
            memory,
            // One XCC runs all of a launch.
            stream: Stream::new(chip, xcc, (0, 1)),
            read: 0,
            write: 0,
            stopped: None,
        }
    }

    fn words(&self) -> u64 {
        self.memory.ring_bytes / 4
    }

    fn slot(&self, index: u64) -> u64 {
        let at = index.checked_rem(self.words()).unwrap_or_default();
        self.memory.ring.wrapping_add(4 * at)
    }

    fn refuse<T>(&self, text: String) -> Result<T, Stopped> {
        let packet = format!(
            "ring at {:#x}, {} words, read to {}",
            self.memory.ring,
            self.words(),
            self.read
        );
        Err(Stopped::new(Cause::Packet(text), packet))
    }

    /// Looks at how far the host has written.
    fn poll(&mut self, host: &mut dyn Host) -> Result<(), Stopped> {
        let rung = host.doorbell();
        if rung == self.write {
            return Ok(());
        }
        if rung < self.write {
            return self.refuse(format!(
                "doorbell goes back from {} to {rung}: it counts all words ever written",
                self.write
            ));
        }
        if rung - self.read > self.words() {
            return self.refuse(format!(
                "doorbell at {rung} is {} words ahead, more than the ring has",
                rung - self.read
            ));
        }
        // After a preemption the hardware goes by the pointer in memory, so that has to be written first.
        match memory::read_u64(host.vm(), self.memory.write_pointer) {
            Ok(written) if written < rung => self.refuse(format!(
                "doorbell rung at {rung} while the write pointer in memory is {written}"
            )),
            Ok(_) => {
                self.write = rung;
                Ok(())
            }
            Err(fault) => Err(Stopped::new(fault.into(), "write pointer".into())),
        }
    }

    fn front(&mut self, host: &mut dyn Host) -> Result<Done, Stopped> {
        self.poll(host)?;
        if self.stream.in_buffer() {
            return self.stream.step_buffer(host);
        }
        if self.read == self.write {
            return Ok(Done::Nothing);
        }
        let (read, at) = (self.read, self.slot(self.read));
        let left = u32::try_from(self.write - read).unwrap_or(u32::MAX);
        let words = read_packet(host.vm(), left, |word| self.slot(read + u64::from(word)))
            .map_err(|(cause, words)| self.stream.stopped(cause, Place::Ring, at, &words))?;
        let done = self.stream.execute(host, &words.words, at, Place::Ring)?;
        if done == Done::Packet {
            self.read += u64::from(words.length);
            memory::write_u64(host.vm(), self.memory.read_pointer, self.read)
                .map_err(|fault| Stopped::new(fault.into(), "read pointer".into()))?;
        }
        Ok(done)
    }

    fn act(&mut self, host: &mut dyn Host) -> Result<Step, Stopped> {
        let first = host.random(3);
        let mut front = Done::Nothing;
        for turn in 0..3 {
            let moved = match (first + turn) % 3 {
                0 => {
                    front = self.front(host)?;
                    front == Done::Packet
                }
                1 => self.stream.pipe.run(host)?,
                _ => self.stream.pipe.fire(host)?,
            };
            if moved {
                return Ok(Step::Progress);
            }
        }
        Ok(match front {
            Done::Waits => Step::Waiting,
            _ => Step::Idle,
        })
    }
}

impl Engine for Pm4 {
    fn step(&mut self, host: &mut dyn Host) -> Step {
        let mut stopped = self.stopped.take();
        let step = super::step(&mut stopped, || self.act(host));
        self.stopped = stopped;
        step
    }
}
