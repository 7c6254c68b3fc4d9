//! What a graph tells of itself: its plan in words and as a drawing, its costs, and when its tasks ran.

use std::fmt::Write as _;

use hcq_nostd::plan::{Engine, Event, Reason};
use hcq_nostd::profile::{Launched, Span};

use super::plan::kind;
use super::{Graph, Node, Run};
use crate::{Error, QueueKind, Times};

/// A graph in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphStats {
    /// Nodes.
    pub nodes: usize,
    /// What queues do for them: a copy through the host's memory takes two.
    pub works: usize,
    /// Queues that are used.
    pub queues: usize,
    /// Waits of queues for each other.
    pub waits: usize,
    /// Signals that they wait for.
    pub signals: usize,
    /// 32-bit words of all queues of an instance.
    pub words: usize,
    /// Places in an instance's words and argument blocks that hold variables.
    pub sites: usize,
    /// Of these, those that the last launch stored.
    pub stored: usize,
    /// Bytes that copies between devices go through in the host's memory.
    pub staged_bytes: u64,
}

/// A task that has run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ran {
    /// The node.
    pub node: Node,
    /// Its name.
    pub name: String,
    /// The device's name.
    pub device: String,
    /// The queue's kind.
    pub kind: QueueKind,
    /// The queue's number among those of its kind.
    pub index: usize,
    /// When; of the clock that [`Device::now_ns`](crate::Device::now_ns) reads. `None` if its times are not there.
    pub times: Option<Times>,
    /// Those that its queue waited for before it, by their places in [`GraphProfile::ran`].
    pub waited_for: Vec<usize>,
    /// Whether it is on the critical path.
    pub is_critical: bool,
}

/// What a queue did during a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueUse {
    /// The device's name.
    pub device: String,
    /// The queue's kind.
    pub kind: QueueKind,
    /// Its number among those of its kind.
    pub index: usize,
    /// Nanoseconds in which it ran a task.
    pub busy_ns: u64,
    /// The others, of the launch's time from the first task's start to the last one's end.
    pub idle_ns: u64,
    /// The longest time without a task.
    pub longest_gap_ns: u64,
}

/// When the tasks of a launch ran.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphProfile {
    /// The tasks, in program order.
    pub ran: Vec<Ran>,
    /// From the first task's start to the last one's end.
    pub total_ns: u64,
    /// Nanoseconds in which tasks of the critical path ran.
    pub path_ns: u64,
    /// Nanoseconds between them: what waits and signals cost.
    pub wait_ns: u64,
    /// The queues that were used.
    pub queues: Vec<QueueUse>,
}

impl Graph {
    /// The graph in numbers.
    pub fn stats(&self) -> GraphStats {
        let plan = &self.plan.plan;
        let core = self.homes.first().map(|h| h.instance.graph());
        let queues = core.map_or(&[][..], |g| g.queues());
        GraphStats {
            nodes: self.labels.len(),
            works: plan.works(),
            queues: queues.iter().filter(|q| q.words() > 0).count(),
            waits: plan.explain().len(),
            signals: plan.signals() as usize,
            words: queues.iter().map(|q| q.words() as usize).sum(),
            sites: core.map_or(0, |g| g.table().sites()),
            stored: self.stored,
            staged_bytes: self.plan.stage_bytes,
        }
    }

    /// Why each wait is there, a line each: who waits for whom, and for which bytes.
    ///
    /// ```
    /// # use hcq_std::{Device, GraphBuilder, GraphOptions};
    /// let device = Device::open("cpu")?;
    /// let (x, y) = (device.alloc_from(&[1u32])?, device.alloc::<u32>(1)?);
    /// let mut builder = GraphBuilder::new([&device])?;
    /// builder.write(&x, 5u32)?;
    /// builder.copy(&y, &x)?;
    /// let graph = builder.build(&GraphOptions::default())?;
    /// assert!(graph.explain().contains("the end of cpu waits for copy: "), "{}", graph.explain());
    /// # Ok::<(), hcq_std::Error>(())
    /// ```
    pub fn explain(&self) -> String {
        let mut text = String::new();
        for wait in self.plan.plan.explain() {
            let (waiter, first) = (self.event(wait.waiter), self.event(wait.waits_for));
            let _ = writeln!(
                text,
                "{waiter} waits for {first}: {}",
                self.reason(&wait.reason)
            );
        }
        text
    }

    fn event(&self, event: Event) -> String {
        match event {
            Event::Entry { device } => format!("the entry of {}", self.device_name(device)),
            Event::Work { work } => self.work_name(work),
            Event::End { device } => format!("the end of {}", self.device_name(device)),
        }
    }

    fn reason(&self, reason: &Reason) -> String {
        match *reason {
            Reason::Bytes {
                hazard,
                allocation,
                start,
                end,
            } => format!(
                "{hazard} of bytes {start:#x}..{end:#x} of {}",
                self.base_name(allocation)
            ),
            Reason::Alias {
                hazard,
                earlier,
                later,
            } => format!(
                "{hazard} if {} shares bytes with {}",
                self.base_name(later),
                self.base_name(earlier)
            ),
            Reason::Entry { device } => {
                format!("{} must have entered the graph", self.device_name(device))
            }
            Reason::End { device } => format!(
                "all work on {} and its memory comes before its end",
                self.device_name(device)
            ),
            ref other => other.to_string(),
        }
    }

    fn base_name(&self, base: u32) -> String {
        let known = self.plan.allocations.get(base as usize);
        match known {
            Some(_) if base as usize + 1 == self.plan.allocations.len() => {
                "the memory that copies go through".into()
            }
            Some(a) if a.input => {
                let inputs = self.plan.allocations.iter().take(base as usize);
                format!("input {}", inputs.filter(|a| a.input).count())
            }
            Some(a) => format!("buffer {base} of {}", self.device_name(a.device)),
            None => format!("buffer {base}"),
        }
    }

    fn device_name(&self, device: u16) -> &str {
        let device = self.devices.get(usize::from(device));
        device.map_or("?", |d| &d.name)
    }

    /// A work's name: its node's, with the number if another node has the same.
    fn work_name(&self, work: u32) -> String {
        let work = self.plan.plan.work(work);
        let Some(work) = work else { return "?".into() };
        let label = self.labels.get(work.task as usize).map_or("?", |l| l);
        let alone = self.labels.iter().filter(|l| *l == label).count() == 1;
        if alone {
            label.to_owned()
        } else {
            format!("{label} #{}", work.task)
        }
    }

    /// The plan as a drawing in the language of Graphviz: queues, what runs on them, and who waits for whom.
    pub fn dot(&self) -> String {
        let label = |task: u32, f: &mut dyn std::fmt::Write| {
            let label = self.labels.get(task as usize).map_or("?", |l| l);
            write!(f, "{label} #{task}")
        };
        self.plan.plan.dot(label).to_string()
    }

    /// When each task of the last launch of an instance began and ended as far as is known now, for those who watch it: 0 for
    /// what has not happened. The graph was built to [profile](super::GraphOptions::profile); else there is nothing.
    pub fn so_far(&self, run: &Run) -> Vec<(Node, Times)> {
        let Some(home) = self.homes.get(run.instance) else {
            return Vec::new();
        };
        let core = home.instance.graph();
        let time = |work: &hcq_nostd::graph::WorkRecord, slot: u32| {
            let raw = home.instance.timestamp(slot).filter(|&t| t != 0)?;
            let queue = core.queues().get(work.queue() as usize)?;
            let device = self.devices.get(usize::from(queue.device()))?;
            Some(device.backend.timestamp_ns(raw).max(1))
        };
        let all = core.works().iter().filter_map(|work| {
            let (begin, end) = work.timestamps()?;
            let times = Times {
                start_ns: time(work, begin).unwrap_or(0),
                end_ns: time(work, end).unwrap_or(0),
            };
            Some((Node(work.task()), times))
        });
        all.collect()
    }

    /// When the tasks of a launch ran, if the graph was built to [profile](super::GraphOptions::profile).
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if it is not complete; [`Error::Graph`] if the graph takes no times, or the instance was
    /// launched again since.
    pub fn profile(&self, run: &Run) -> Result<GraphProfile, Error> {
        let refused = |reason: &str| Error::Graph {
            reason: reason.into(),
        };
        let home = self.homes.get(run.instance);
        let home = home.ok_or_else(|| refused("it has no such instance"))?;
        let core = home.instance.graph();
        if core.timestamps() == 0 {
            return Err(refused(
                "it takes no times; build it with GraphOptions::profile",
            ));
        }
        let now = self.run_of(run.instance);
        let same = now.points.len() == run.points.len()
            && now
                .points
                .iter()
                .zip(&run.points)
                .all(|(a, b)| a.point == b.point && std::sync::Arc::ptr_eq(&a.inner, &b.inner));
        if !same {
            return Err(refused("the instance was launched again since"));
        }
        if !run.is_done()? {
            return Err(Error::WouldBlock {
                what: "the graph's launch",
            });
        }
        let spans: Vec<Option<Span>> = (0u32..)
            .zip(core.works())
            .map(|(n, work)| {
                let times = home.instance.times(n)?;
                let queue = core.queues().get(work.queue() as usize)?;
                let device = self.devices.get(usize::from(queue.device()))?;
                Some(Span {
                    start_ns: device.backend.timestamp_ns(times.start),
                    end_ns: device.backend.timestamp_ns(times.end),
                })
            })
            .collect();
        let launched = Launched {
            works: core.works(),
            edges: core.edges(),
            span: |work: u32| spans.get(work as usize).copied().flatten(),
        };
        let summary = launched.summary();
        let path: Vec<u32> = summary
            .map(|s| launched.critical_path(s.last).collect())
            .unwrap_or_default();
        let ran = self.ran(core, &spans, &path);
        let mut queues = Vec::new();
        if let Some(summary) = summary {
            for (n, queue) in (0u32..).zip(core.queues()) {
                if queue.words() == 0 {
                    continue;
                }
                let times = launched.queue(n, summary.all);
                queues.push(QueueUse {
                    device: self.device_name(queue.device()).to_owned(),
                    kind: kind(queue.engine()),
                    index: usize::from(queue.index()),
                    busy_ns: times.busy_ns,
                    idle_ns: times.idle_ns,
                    longest_gap_ns: times.longest_gap_ns,
                });
            }
        }
        Ok(GraphProfile {
            ran,
            total_ns: summary.map_or(0, |s| s.all.ns()),
            path_ns: summary.map_or(0, |s| s.path_ns),
            wait_ns: summary.map_or(0, |s| s.wait_ns),
            queues,
        })
    }

    /// The tasks as they are planned, without times: on which queue each runs, and which it waits for.
    pub fn planned(&self) -> Vec<Ran> {
        match self.homes.first() {
            Some(home) => self.ran(home.instance.graph(), &[], &[]),
            None => Vec::new(),
        }
    }

    fn ran(
        &self,
        core: &hcq_nostd::graph::Graph<'_>,
        spans: &[Option<Span>],
        path: &[u32],
    ) -> Vec<Ran> {
        let mut ran = Vec::new();
        for (n, work) in (0u32..).zip(core.works()) {
            let queue = core.queues().get(work.queue() as usize);
            let (device, engine, index) = queue.map_or((0, Engine::Compute, 0), |q| {
                (q.device(), q.engine(), q.index())
            });
            let span = spans.get(n as usize).copied().flatten();
            ran.push(Ran {
                node: Node(work.task()),
                name: self.work_name(n),
                device: self.device_name(device).to_owned(),
                kind: kind(engine),
                index: usize::from(index),
                times: span.map(|s| Times {
                    start_ns: s.start_ns,
                    end_ns: s.end_ns,
                }),
                waited_for: work
                    .waits_for(core.edges())
                    .iter()
                    .map(|&w| w as usize)
                    .collect(),
                is_critical: path.contains(&n),
            });
        }
        ran
    }
}
