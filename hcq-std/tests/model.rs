//! Random work on random queues, against a plain model that does one thing after the other.

mod common;

use common::{add_kernel, exec_add, open, options};
use hcq_std::{Commands, Device, Error, View};
use proptest::prelude::*;

const WORDS: usize = 64;

/// One command, and how the recording goes on behind it.
#[derive(Clone, Debug)]
enum Step {
    Write { at: usize, value: u32 },
    WriteWide { at: usize, value: u64 },
    Upload { at: usize, values: Vec<u32> },
    Copy { to: usize, from: usize, len: usize },
    Add { at: usize, len: usize, amount: u32 },
    Submit,
    Read,
}

fn step() -> impl Strategy<Value = Step> {
    let half = WORDS / 2;
    prop_oneof![
        3 => (0..WORDS, any::<u32>()).prop_map(|(at, value)| Step::Write { at, value }),
        2 => (0..half, any::<u64>()).prop_map(|(at, value)| Step::WriteWide { at: at * 2, value }),
        2 => (0..half, prop::collection::vec(any::<u32>(), 1..half)).prop_map(|(at, values)| Step::Upload { at, values }),
        3 => (0..half, 0..half, 1..half).prop_map(move |(a, b, len)| {
            // The two halves never overlap.
            let (len, flip) = (len.min(half - a.max(b)).max(1), len % 2 == 0);
            let (to, from) = if flip { (a, half + b) } else { (half + b, a) };
            Step::Copy { to, from, len }
        }),
        3 => (0..WORDS, 1..WORDS, any::<u32>()).prop_map(|(at, len, amount)| Step::Add { at, len: len.min(WORDS - at), amount }),
        3 => Just(Step::Submit),
        1 => Just(Step::Read),
    ]
}

struct Run {
    compute: Commands,
    copy: Commands,
    /// Which of the two is recorded; the other is empty.
    on_copy: bool,
    buffer: View<u32>,
    kernel: hcq_std::Kernel,
    device: Device,
}

impl Run {
    fn submit(&mut self) -> Result<(), Error> {
        let (mine, other) = if self.on_copy {
            (&mut self.copy, &mut self.compute)
        } else {
            (&mut self.compute, &mut self.copy)
        };
        let point = mine.submit()?;
        // Whatever comes next, on either queue, comes after it.
        other.after(&point)?;
        mine.after(&point)?;
        Ok(())
    }

    /// The recording of the kind that is asked for; what the other kind holds is submitted first.
    fn on(&mut self, copy: bool) -> Result<&mut Commands, Error> {
        if self.on_copy != copy {
            self.submit()?;
            self.on_copy = copy;
        }
        Ok(if copy {
            &mut self.copy
        } else {
            &mut self.compute
        })
    }

    fn step(&mut self, step: &Step, model: &mut [u32; WORDS]) -> Result<(), Error> {
        let (buffer, base) = (self.buffer.clone(), self.buffer.address());
        match step {
            Step::Write { at, value } => {
                self.on(value % 2 == 0)?
                    .write32(base + 4 * *at as u64, *value)?;
                model[*at] = *value;
            }
            Step::WriteWide { at, value } => {
                self.on(value % 2 == 0)?
                    .write64(base + 4 * *at as u64, *value)?;
                (model[*at], model[at + 1]) = (*value as u32, (value >> 32) as u32);
            }
            Step::Upload { at, values } => {
                self.on(true)?
                    .upload(&buffer.view(*at..at + values.len())?, values)?;
                model[*at..at + values.len()].copy_from_slice(values);
            }
            Step::Copy { to, from, len } => {
                let (a, b) = (buffer.view(*to..to + len)?, buffer.view(*from..from + len)?);
                self.on(true)?.copy(&a, &b)?;
                model.copy_within(*from..from + len, *to);
            }
            Step::Add { at, len, amount } => {
                let kernel = self.kernel.clone();
                exec_add(
                    self.on(false)?,
                    &kernel,
                    &buffer.view(*at..at + len)?,
                    *amount,
                )?;
                model[*at..at + len]
                    .iter_mut()
                    .for_each(|w| *w = w.wrapping_add(*amount));
            }
            Step::Submit => self.submit()?,
            Step::Read => {
                self.submit()?;
                assert_eq!(buffer.to_vec()?, *model);
                assert_eq!(
                    self.device.timeline()?.completed,
                    self.device.timeline()?.submitted
                );
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn queues_do_what_a_plain_loop_does(
        steps in prop::collection::vec(step(), 1..120),
        span in 2u32..6,
        ring in 16usize..40,
    ) {
        let device = open(&options().timeline_span_log2(span).ring_packets(ring).arena_bytes(256));
        let buffer = device.alloc::<u32>(WORDS)?;
        let mut model = [0u32; WORDS];
        let mut run = Run {
            compute: device.compute_queue(0)?.record(),
            copy: device.copy_queue(0)?.record(),
            on_copy: false,
            buffer: buffer.view(..)?,
            kernel: add_kernel(&device),
            device: device.clone(),
        };
        for step in &steps {
            run.step(step, &mut model)?;
        }
        run.step(&Step::Read, &mut model)?;
    }
}
