//! Which queue runs which task, in what order, and which signals the queues wait for.
//!
//! Tasks come in program order, each with the byte ranges that it reads and writes. Two tasks conflict if they touch
//! a common byte and at least one writes it; the earlier then has to end before the later begins (read after write,
//! write after read, write after write). Queues run their own commands in order, so an order within a queue costs
//! nothing; an order across queues is a signal that the one sends and the other waits for. A wait that the order of a
//! queue or another wait implies is left out, and so is a signal that nobody waits for.

use std::collections::HashMap;
use std::ops::Range;

/// What a task does to some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Reads them.
    Read,
    /// Writes some or all of them and may read them.
    Write,
}

/// Bytes that a task touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The allocation.
    pub buffer: usize,
    /// Bytes of it.
    pub range: Range<u64>,
    /// How.
    pub mode: Mode,
}

/// The kind of queue that a task needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    /// Runs kernels.
    Compute,
    /// Moves bytes.
    Copy,
}

/// A task to be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanTask {
    /// The kind of queue.
    pub engine: Engine,
    /// The queue of that kind, if it is not the planner's to choose.
    pub queue: Option<usize>,
    /// What it touches.
    pub accesses: Vec<Access>,
    /// How long it may take, in any unit; used only to spread independent work.
    pub cost: u64,
}

/// A queue of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId {
    /// Its kind.
    pub engine: Engine,
    /// Its number among those of its kind.
    pub index: usize,
}

/// One task's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Index into [`Plan::queues`].
    pub queue: usize,
    /// Tasks of other queues whose signals are waited for before this one starts.
    pub waits: Vec<usize>,
    /// Whether some other queue waits for this task.
    pub signals: bool,
    /// All tasks that it directly follows from, for people to look at; ordered by queue or by waits.
    pub depends_on: Vec<usize>,
}

/// The order of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The queues in use.
    pub queues: Vec<QueueId>,
    /// Each task's place, in program order. A queue runs its tasks in this order.
    pub tasks: Vec<Placed>,
}

/// A task that cannot be placed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// It asks for a queue that the device does not have.
    #[error("queue {wanted} does not exist: the device has {have}")]
    NoQueue {
        /// Index of the task.
        task: usize,
        /// The queue asked for.
        wanted: usize,
        /// Queues of that kind.
        have: usize,
    },
    /// It needs a kind of queue that the device does not have.
    #[error("the device has no {} queue", match engine { Engine::Compute => "compute", Engine::Copy => "copy" })]
    NoEngine {
        /// Index of the task.
        task: usize,
        /// The kind.
        engine: Engine,
    },
}

impl PlanError {
    /// The task that cannot be placed.
    pub fn task(&self) -> usize {
        match *self {
            Self::NoQueue { task, .. } | Self::NoEngine { task, .. } => task,
        }
    }
}

/// For each task the earlier ones that it directly follows from.
pub fn follows(tasks: &[PlanTask]) -> Vec<Vec<usize>> {
    let mut hazards = Hazards::default();
    let all = tasks.iter().enumerate();
    all.map(|(task, wanted)| hazards.add(task, &wanted.accesses))
        .collect()
}

/// Places `tasks` on a device with that many queues of each kind.
pub fn plan(
    tasks: &[PlanTask],
    compute_queues: usize,
    copy_queues: usize,
) -> Result<Plan, PlanError> {
    let count = |engine| match engine {
        Engine::Compute => compute_queues,
        Engine::Copy => copy_queues,
    };
    let mut hazards = Hazards::default();
    let mut lanes: Vec<Lane> = Vec::new();
    let mut lane_of: HashMap<QueueId, usize> = HashMap::new();
    let mut placed: Vec<Placed> = Vec::new();
    let mut facts: Vec<Facts> = Vec::new();
    for (task, wanted) in tasks.iter().enumerate() {
        let have = count(wanted.engine);
        if have == 0 {
            return Err(PlanError::NoEngine {
                task,
                engine: wanted.engine,
            });
        }
        if let Some(index) = wanted.queue.filter(|&q| q >= have) {
            return Err(PlanError::NoQueue {
                task,
                wanted: index,
                have,
            });
        }
        let depends_on = hazards.add(task, &wanted.accesses);

        let index = wanted.queue.unwrap_or_else(|| {
            let start = |index: usize| {
                let lane = lane_of
                    .get(&QueueId {
                        engine: wanted.engine,
                        index,
                    })
                    .map(|&l| (l, &lanes[l]));
                let free = lane.map_or(0, |(_, l)| l.free_at);
                let ready = depends_on.iter().map(|&d| facts[d].end).max().unwrap_or(0);
                let follows =
                    lane.is_some_and(|(_, l)| l.last.is_some_and(|t| depends_on.contains(&t)));
                // Earliest start; then the queue that needs no wait; then the lowest number.
                (free.max(ready), !follows, index)
            };
            (0..have).min_by_key(|&i| start(i)).unwrap_or(0)
        });
        let id = QueueId {
            engine: wanted.engine,
            index,
        };
        let queue = *lane_of.entry(id).or_insert_with(|| {
            lanes.push(Lane {
                id,
                ..Lane::default()
            });
            lanes.len() - 1
        });

        // What is known to have ended when the queue arrives here: position + 1 of the last such task, by queue.
        let mut known = lanes[queue].known.clone();
        known.resize(lanes.len(), 0);
        let mut needed: Vec<usize> = depends_on
            .iter()
            .copied()
            .filter(|&d| placed[d].queue != queue)
            .collect();
        // The latest first: what it implies need not be waited for.
        needed.sort_by_key(|&d| std::cmp::Reverse(d));
        let mut waits = Vec::new();
        for d in needed {
            let from = placed[d].queue;
            if known[from] > facts[d].position {
                continue;
            }
            waits.push(d);
            for (mine, theirs) in known.iter_mut().zip(&facts[d].known_after) {
                *mine = (*mine).max(*theirs);
            }
        }
        for &d in &waits {
            placed[d].signals = true;
        }
        let lane = &mut lanes[queue];
        let position = lane.tasks;
        known[queue] = position + 1;
        let begin = depends_on
            .iter()
            .map(|&d| facts[d].end)
            .max()
            .unwrap_or(0)
            .max(lane.free_at);
        let end = begin.saturating_add(wanted.cost.max(1));
        *lane = Lane {
            id,
            tasks: position + 1,
            free_at: end,
            last: Some(task),
            known: known.clone(),
        };
        facts.push(Facts {
            position,
            end,
            known_after: known,
        });
        placed.push(Placed {
            queue,
            waits,
            signals: false,
            depends_on,
        });
    }
    Ok(sorted(lanes.into_iter().map(|l| l.id).collect(), placed))
}

/// The plan with its queues in order of kind and number, whichever was used first.
fn sorted(used: Vec<QueueId>, mut tasks: Vec<Placed>) -> Plan {
    let mut queues = used.clone();
    queues.sort_unstable();
    let place = |id: &QueueId| queues.iter().position(|q| q == id).unwrap_or(0);
    let moved: Vec<usize> = used.iter().map(place).collect();
    for task in &mut tasks {
        task.queue = moved.get(task.queue).copied().unwrap_or(task.queue);
    }
    Plan { queues, tasks }
}

/// A queue while it is being filled.
#[derive(Debug, Clone)]
struct Lane {
    id: QueueId,
    tasks: usize,
    free_at: u64,
    last: Option<usize>,
    known: Vec<usize>,
}

impl Default for Lane {
    fn default() -> Self {
        let id = QueueId {
            engine: Engine::Compute,
            index: 0,
        };
        Self {
            id,
            tasks: 0,
            free_at: 0,
            last: None,
            known: Vec::new(),
        }
    }
}

/// What is known of a placed task.
struct Facts {
    position: usize,
    end: u64,
    /// Per queue, how many of its tasks have ended once this one has.
    known_after: Vec<usize>,
}

/// Accesses that later tasks can still conflict with, by buffer.
#[derive(Default)]
struct Hazards {
    live: HashMap<usize, Vec<(Range<u64>, usize, Mode)>>,
}

impl Hazards {
    /// Notes the accesses of `task` and says which earlier tasks it has to follow, in program order.
    fn add(&mut self, task: usize, accesses: &[Access]) -> Vec<usize> {
        let mut after = Vec::new();
        for access in accesses.iter().filter(|a| !a.range.is_empty()) {
            let live = self.live.entry(access.buffer).or_default();
            for (range, earlier, mode) in live.iter() {
                let conflict = *mode == Mode::Write || access.mode == Mode::Write;
                if *earlier != task && conflict && overlap(range, &access.range) {
                    after.push(*earlier);
                }
            }
        }
        for access in accesses.iter().filter(|a| !a.range.is_empty()) {
            let live = self.live.entry(access.buffer).or_default();
            if access.mode == Mode::Write {
                // Whoever conflicts with these bytes later follows this task, which follows their earlier users.
                let old = std::mem::take(live);
                for (range, earlier, mode) in old {
                    if earlier == task {
                        live.push((range, earlier, mode));
                        continue;
                    }
                    let before = range.start..range.end.min(access.range.start);
                    let behind = range.start.max(access.range.end)..range.end;
                    live.extend(
                        [before, behind]
                            .into_iter()
                            .filter(|r| !r.is_empty())
                            .map(|r| (r, earlier, mode)),
                    );
                }
            }
            live.push((access.range.clone(), task, access.mode));
        }
        after.sort_unstable();
        after.dedup();
        after
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests;
