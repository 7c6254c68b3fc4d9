//! Which bytes inputs are now, and that they are apart from everything else.

use std::collections::BTreeMap;
use std::sync::Arc;

use hcq_nostd::plan::Part;
use hcq_nostd::value::Var;

use super::builder::GraphBuilder;
use super::plan::{GraphPlan, seen_by};
use crate::Error;
use crate::heap::Allocation;
use crate::inner::Inner;

/// An input's memory.
pub(super) struct Bound {
    pub(super) var: Var,
    pub(super) bytes: u64,
    alias: u32,
    pub(super) device: usize,
    /// Other devices that see it.
    others: Vec<usize>,
    /// First byte of its memory, and of the view in it.
    range: (usize, usize),
    held: Vec<Arc<Allocation>>,
    /// Not checked since it was replaced.
    is_new: bool,
}

/// What a graph touches, in the process's addresses: the same bytes have the same address there, whoever sees them.
#[derive(Default)]
pub(super) struct Apart {
    /// Ranges that share no bytes: start and end, and which input it is, if any.
    ranges: BTreeMap<usize, (usize, Option<usize>)>,
    /// Inputs that may share bytes within their alias number.
    aliasing: Vec<usize>,
}

/// The inputs of a graph.
pub(super) struct Inputs {
    pub(super) all: Vec<Bound>,
    apart: Apart,
    /// Inputs that were replaced since the last launch.
    changed: Vec<usize>,
    /// Memory of other devices that nodes touch.
    _seen: Vec<Arc<Allocation>>,
    spare: Vec<Arc<Allocation>>,
}

/// Memory as these devices see it.
fn see(
    memory: &Arc<Allocation>,
    by: &[usize],
    devices: &[Arc<Inner>],
    out: &mut Vec<Arc<Allocation>>,
) -> Result<(), Error> {
    for device in by.iter().filter_map(|&d| devices.get(d)) {
        out.push(seen_by(memory, device)?);
    }
    Ok(())
}

fn overlap(input: usize, with: Option<usize>) -> Error {
    Error::Graph {
        reason: match with {
            Some(other) => format!(
                "inputs {input} and {other} share bytes; declare both with GraphBuilder::aliasing_input, or give others"
            ),
            None => format!("input {input} shares bytes with a buffer that the graph itself names"),
        },
    }
}

impl Apart {
    /// Adds a range that is apart from all others; the one that it is not apart from, otherwise.
    fn add(&mut self, (start, end): (usize, usize), input: usize) -> Result<(), Error> {
        let before = self.ranges.range(..end).next_back();
        if let Some((_, &(other_end, with))) = before
            && other_end > start
        {
            return Err(overlap(input, with));
        }
        self.ranges.insert(start, (end, Some(input)));
        Ok(())
    }

    fn remove(&mut self, start: usize, input: usize) {
        if self.ranges.get(&start).is_some_and(|r| r.1 == Some(input)) {
            self.ranges.remove(&start);
        }
    }

    /// Bytes of fixed memory: ranges that touch become one.
    fn fixed(&mut self, mut start: usize, mut end: usize) {
        while let Some((&at, &(other, _))) = self.ranges.range(..=end).next_back() {
            if other < start {
                break;
            }
            (start, end) = (start.min(at), end.max(other));
            self.ranges.remove(&at);
        }
        self.ranges.insert(start, (end, None));
    }
}

impl Inputs {
    pub(super) fn new(builder: &GraphBuilder, plan: &GraphPlan) -> Result<Self, Error> {
        let devices = &builder.devices;
        // Who touches which base, beside the one whose memory it is.
        let mut touched = vec![Vec::new(); builder.bases.len()];
        let queues: Vec<_> = plan.plan.queues().collect();
        for n in 0..plan.plan.works() {
            let work = u32::try_from(n).ok().and_then(|n| plan.plan.work(n));
            let Some(work) = work else { continue };
            let Some(queue) = queues.get(work.queue as usize) else {
                continue;
            };
            let device = usize::from(queue.device);
            let accesses = plan.accesses(work.task as usize);
            // Each half of a staged copy touches one side.
            let accesses = match work.part {
                Part::Whole => accesses,
                Part::IntoStage { .. } => accesses.get(..1).unwrap_or_default(),
                Part::OutOfStage { .. } => accesses.get(1..).unwrap_or_default(),
            };
            for access in accesses {
                let base = access.allocation as usize;
                let owner = builder.bases.get(base).map(|b| b.device);
                if let Some(by) = touched.get_mut(base)
                    && owner != Some(device)
                    && !by.contains(&device)
                {
                    by.push(device);
                }
            }
        }
        let mut seen = Vec::new();
        for (base, by) in builder.bases.iter().zip(&touched) {
            if base.input.is_none() {
                see(&base.memory, by, devices, &mut seen)?;
            }
        }
        let mut apart = Apart::default();
        for access in plan.all_accesses() {
            let base = builder.bases.get(access.allocation as usize);
            if let Some(base) = base.filter(|b| b.input.is_none()) {
                let first = base.memory.as_ptr().as_ptr().addr();
                let start = first.saturating_add(usize::try_from(access.offset).unwrap_or(0));
                let end = start.saturating_add(usize::try_from(access.len).unwrap_or(0));
                apart.fixed(start, end);
            }
        }
        let mut inputs = Self {
            all: Vec::new(),
            apart,
            changed: Vec::new(),
            _seen: seen,
            spare: Vec::new(),
        };
        for (index, draft) in builder.inputs.iter().enumerate() {
            let base = builder.bases.get(draft.base as usize);
            let base = base.ok_or(Error::Internal("an input has no memory"))?;
            inputs.all.push(Bound {
                var: draft.var,
                bytes: draft.bytes,
                alias: base.alias,
                device: base.device,
                others: touched
                    .get(draft.base as usize)
                    .cloned()
                    .unwrap_or_default(),
                range: (0, 0),
                held: Vec::new(),
                is_new: false,
            });
            if base.alias != 0 {
                inputs.apart.aliasing.push(index);
            }
            inputs.replace(index, &base.memory, draft.offset, devices)?;
        }
        Ok(inputs)
    }

    /// Replaces an input's memory: its own device's name of it, and the first byte in it.
    pub(super) fn replace(
        &mut self,
        index: usize,
        memory: &Arc<Allocation>,
        offset: u64,
        devices: &[Arc<Inner>],
    ) -> Result<(), Error> {
        let input = self.all.get_mut(index);
        let input = input.ok_or(Error::Internal("no such input"))?;
        self.spare.clear();
        self.spare.push(Arc::clone(memory));
        see(memory, &input.others, devices, &mut self.spare)?;
        let first = memory.as_ptr().as_ptr().addr();
        let start = first.saturating_add(usize::try_from(offset).unwrap_or(0));
        let end = start.saturating_add(usize::try_from(input.bytes).unwrap_or(0));
        let old = std::mem::replace(&mut input.range, (start, end));
        // What was there before is kept by the timelines until nothing in flight uses it.
        std::mem::swap(&mut input.held, &mut self.spare);
        self.spare.clear();
        if input.alias == 0 {
            self.apart.remove(old.0, index);
        }
        if !std::mem::replace(&mut input.is_new, true) {
            self.changed.push(index);
        }
        Ok(())
    }

    /// Sees that inputs that were replaced are apart from what they must be apart from. After an error the graph is not
    /// launched until they are.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        let mut at = 0;
        while let Some(&index) = self.changed.get(at) {
            at += 1;
            let Some(input) = self.all.get(index) else {
                continue;
            };
            let checked = if input.alias == 0 {
                self.check_aliasing(index, 0)
                    .and_then(|()| self.apart.add(input.range, index))
            } else {
                let before = self.apart.ranges.range(..input.range.1).next_back();
                match before {
                    Some((_, &(end, with))) if end > input.range.0 => Err(overlap(index, with)),
                    _ => self.check_aliasing(index, input.alias),
                }
            };
            if let Err(e) = checked {
                // Those before it have been added: they are looked at again as well.
                for &done in self.changed.get(..at - 1).unwrap_or_default() {
                    if let Some(input) = self.all.get(done).filter(|i| i.alias == 0) {
                        self.apart.remove(input.range.0, done);
                    }
                }
                return Err(e);
            }
        }
        for index in self.changed.drain(..) {
            if let Some(input) = self.all.get_mut(index) {
                input.is_new = false;
            }
        }
        Ok(())
    }

    /// Against inputs of other alias numbers.
    fn check_aliasing(&self, index: usize, alias: u32) -> Result<(), Error> {
        let Some(input) = self.all.get(index) else {
            return Ok(());
        };
        let (start, end) = input.range;
        for &other in &self.apart.aliasing {
            let with = self
                .all
                .get(other)
                .filter(|o| other != index && o.alias != alias);
            if with.is_some_and(|o| o.range.0 < end && start < o.range.1) {
                return Err(overlap(index, Some(other)));
            }
        }
        Ok(())
    }
}
