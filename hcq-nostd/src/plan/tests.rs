mod dot;
mod exec;
mod random;
mod room;
mod rules;
mod scale;

use super::*;
use std::vec;
use std::vec::Vec;

/// A problem that owns its parts.
#[derive(Clone, Debug, Default)]
pub(super) struct Scene {
    devices: Vec<Device>,
    allocations: Vec<Allocation>,
    tasks: Vec<Chore>,
    copy_queues: u16,
    timestamps: bool,
    /// Copies cross through this allocation, at an offset of 16 times the task's number modulo this.
    stage: Option<(u32, u64)>,
}

#[derive(Clone, Debug)]
struct Chore {
    action: Action,
    accesses: Vec<Access>,
    queue: Option<u16>,
    cost: u32,
}

/// A plan with its steps laid out.
#[derive(Debug)]
pub(super) struct Planned {
    queues: Vec<PlanQueue>,
    steps: Vec<Step>,
    works: Vec<Work>,
    lanes: Vec<u32>,
    why: Vec<Explained>,
    devices: Vec<(u16, bool)>,
    signals: u32,
    timestamps: u32,
    exact: bool,
    effort: u64,
}

impl Planned {
    fn of(&self, queue: usize) -> &[Step] {
        &self.steps[self.queues[queue].steps.clone()]
    }

    /// Reasons as text.
    fn reasons(&self) -> Vec<std::string::String> {
        self.why
            .iter()
            .map(std::string::ToString::to_string)
            .collect()
    }
}

impl Scene {
    fn with<R>(&self, f: impl FnOnce(&Problem<'_>) -> R) -> R {
        let tasks: Vec<Task<'_>> = self
            .tasks
            .iter()
            .map(|c| Task {
                action: c.action,
                accesses: &c.accesses,
                queue: c.queue,
                cost: c.cost,
            })
            .collect();
        f(&Problem {
            devices: &self.devices,
            allocations: &self.allocations,
            tasks: &tasks,
            copy_queues: self.copy_queues,
            timestamps: self.timestamps,
        })
    }

    fn task(&mut self, action: Action, accesses: &[Access]) -> &mut Chore {
        self.tasks.push(Chore {
            action,
            accesses: accesses.to_vec(),
            queue: None,
            cost: 1,
        });
        self.tasks.last_mut().unwrap()
    }

    fn exec(&mut self, device: u16, accesses: &[Access]) -> &mut Chore {
        self.task(Action::Exec { device }, accesses)
    }

    fn copy(&mut self, from: Access, to: Access) -> &mut Chore {
        self.task(Action::Copy, &[from, to])
    }

    fn route(&self, c: Crossing) -> Option<Via> {
        self.stage.map(|(allocation, slots)| Via::Staged {
            allocation,
            offset: u64::from(c.task) % slots * 16,
        })
    }

    fn plan(&self) -> Result<Planned, PlanError> {
        self.with(|p| self.plan_with(&p.capacity()?))
    }

    fn plan_with(&self, capacity: &Capacity) -> Result<Planned, PlanError> {
        self.with(|p| {
            // What is left in scratch by others is no plan of this one.
            let mut scratch = vec![0xa5a5_a5a5_a5a5_a5a5; p.scratch_words(capacity)?];
            let mut made = plan(p, capacity, &mut scratch, |c| self.route(c))?;
            let mut steps = vec![Step::Timestamp { slot: u32::MAX }; made.steps()];
            made.lay_out(&mut steps)?;
            let works = u32::try_from(made.works()).unwrap();
            Ok(Planned {
                queues: made.queues().collect(),
                works: (0..works).map(|w| made.work(w).unwrap()).collect(),
                lanes: made.works.iter().map(|w| w.lane).collect(),
                why: made.explain().collect(),
                devices: made.devices().collect(),
                signals: made.signals(),
                timestamps: made.timestamps(),
                exact: made.is_exact(),
                effort: made.effort(),
                steps,
            })
        })
    }
}

/// A scene of these devices and as many fixed allocations, of the device with the same number.
fn scene(devices: &[Device]) -> Scene {
    Scene {
        devices: devices.to_vec(),
        allocations: (0u16..)
            .zip(devices)
            .map(|(d, _)| Allocation::fixed(d))
            .collect(),
        copy_queues: 1,
        ..Scene::default()
    }
}
