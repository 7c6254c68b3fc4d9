//! Graphs: tasks that are planned and recorded once, and launched many times at the cost of what changed.

mod builder;
mod encode;
mod image;
mod inputs;
mod launch;
mod layout;
mod memory;
mod operands;
mod places;
mod plan;
mod replay;
mod report;
mod shared;

use std::sync::Arc;
use std::time::Duration;

use hcq_nostd::graph::{Busy, Entry};
use hcq_nostd::timeline::Point as CorePoint;

pub use builder::{GraphBuilder, Node, Touch};
pub use image::BufferRole;
pub use operands::{GraphSpan, Input, Number, Param};
pub use replay::{Replay, StoredBuffer};
pub use report::{GraphProfile, GraphStats, QueueUse, Ran};

use self::inputs::Inputs;
use self::launch::Launcher;
use self::memory::{Home, Recipe};
use self::plan::GraphPlan;
use crate::buffer::{Element, View};
use crate::inner::{Inner, nanoseconds};
use crate::program::Kernel;
use crate::{Error, Point};

/// How a graph is built.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GraphOptions {
    /// Copies of the graph in memory, which can be in flight at once. Default 1.
    pub instances: usize,
    /// Whether the time is taken before and after each task. Default no.
    pub profile: bool,
    /// Copy queues of a device to spread its copies over, by destination; 0 for as many as there are devices, at most eight,
    /// for when all devices copy to all. Default 1, or what `HCQ_NUM_SDMA` says.
    pub copy_queues: Option<u16>,
}

impl Default for GraphOptions {
    fn default() -> Self {
        Self {
            instances: 1,
            profile: false,
            copy_queues: None,
        }
    }
}

impl GraphOptions {
    /// Sets [`instances`](Self#structfield.instances).
    pub fn instances(mut self, n: usize) -> Self {
        self.instances = n;
        self
    }

    /// Sets [`profile`](Self#structfield.profile).
    pub fn profile(mut self, profile: bool) -> Self {
        self.profile = profile;
        self
    }

    /// Sets [`copy_queues`](Self#structfield.copy_queues).
    pub fn copy_queues(mut self, n: u16) -> Self {
        self.copy_queues = Some(n);
        self
    }

    fn spread(&self, devices: usize) -> Result<u16, Error> {
        let n = match self.copy_queues {
            Some(n) => n,
            None => crate::env::copy_queues()?.unwrap_or(1),
        };
        Ok(match n {
            0 => u16::try_from(devices.min(8)).unwrap_or(8),
            n => n,
        })
    }
}

/// Instances of one graph at most.
const MOST_INSTANCES: usize = 1024;

/// A graph of tasks on one or several devices, planned, recorded, and put into memory.
///
/// A launch waits for the last launch of the same instance, stores what changed, submits a queue of each engine by
/// reference, and lets them begin. The order of everything in it is the same every time.
///
/// ```
/// use hcq_std::{Device, GraphBuilder, GraphOptions};
/// let device = Device::open("cpu")?;
/// let (x, y) = (device.alloc_from(&[1u32, 2, 3])?, device.alloc::<u32>(3)?);
///
/// let mut builder = GraphBuilder::new([&device])?;
/// let from = builder.input(&x)?;
/// let last = builder.param(7u32)?;
/// builder.copy(&y, from)?;
/// builder.write(&y.view(2..3)?, last)?;
/// let mut graph = builder.build(&GraphOptions::default())?;
///
/// graph.launch()?.wait()?;
/// assert_eq!(y.to_vec()?, [1, 2, 7]);
///
/// let z = device.alloc_from(&[4u32, 5, 6])?;
/// graph.set_input(from, &z)?;
/// graph.set(last, 8)?;
/// graph.launch()?.wait()?;
/// assert_eq!(y.to_vec()?, [4, 5, 8]);
/// # Ok::<(), hcq_std::Error>(())
/// ```
///
/// # Changes
///
/// [`set`](Self::set) and [`set_input`](Self::set_input) take effect with the next launch; what is in flight is not touched. A
/// launch with a number that does not fit its place, or with inputs that share bytes although they were declared apart, is
/// refused, and so are later ones until that is put right; nothing of it has been stored.
///
/// # Order
///
/// A launch is one submission of each of its devices: it begins on a device when all that was submitted there before is
/// complete, and what is submitted there later begins when the device's part of the graph is complete. [`Run::wait`] waits for
/// all devices. Memory of one device that another one writes in the graph is complete when the whole run is.
///
/// # Several devices
///
/// Devices that see each other's memory at the same addresses (GPUs of one driver with peer-to-peer access, a GPU and
/// processors) work on it where it is. Copies between others go through the host's memory, in two steps that the plan
/// orders like any others.
///
/// # Memory
///
/// The graph keeps its buffers, kernels and inputs alive. Dropping it waits for its last launches, as long as the devices make
/// progress; a device in error does not hold it up.
pub struct Graph {
    devices: Vec<Arc<Inner>>,
    /// The devices' places in the order in which all graphs lock them.
    order: Vec<usize>,
    homes: Vec<Home>,
    /// The last launch of each instance that got stuck: recoveries of each device by then.
    stuck: Vec<Option<Vec<u64>>>,
    entries: Vec<Entry>,
    inputs: Inputs,
    next: usize,
    /// The instance launched last, if any was.
    last: Option<usize>,
    stored: usize,
    plan: GraphPlan,
    labels: Vec<String>,
    timeout: Duration,
    _kernels: Vec<Kernel>,
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph")
            .field("devices", &self.devices)
            .field("nodes", &self.labels.len())
            .field("instances", &self.homes.len())
            .finish_non_exhaustive()
    }
}

/// A launch of a graph.
#[derive(Clone, Debug)]
pub struct Run {
    points: heapless::Vec<Point, { builder::MOST_DEVICES }>,
    instance: usize,
}

impl Run {
    /// Its points of the devices that take part.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The instance that it is a launch of.
    pub fn instance(&self) -> usize {
        self.instance
    }

    /// Whether it is complete on all devices.
    ///
    /// # Errors
    /// [`Error::Fault`], [`Error::Lost`].
    pub fn is_done(&self) -> Result<bool, Error> {
        for point in &self.points {
            if !point.is_done()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until it is complete on all devices.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Fault`], [`Error::Lost`] of the first device that has one.
    pub fn wait(&self) -> Result<(), Error> {
        self.points.iter().try_for_each(Point::wait)
    }
}

impl Graph {
    fn new(builder: GraphBuilder, options: &GraphOptions) -> Result<Self, Error> {
        if !(1..=MOST_INSTANCES).contains(&options.instances) {
            return Err(Error::Option {
                option: "instances",
                value: options.instances as u64,
                wanted: "1 to 1024",
            });
        }
        for device in &builder.devices {
            device.look()?;
        }
        let spread = options.spread(builder.devices.len())?;
        let plan = GraphPlan::new(&builder, spread, options.profile)?;
        let inputs = Inputs::new(&builder, &plan)?;
        let mut homes = Vec::new();
        {
            let recipe = Recipe::new(&builder, &plan)?;
            for _ in 0..options.instances {
                homes.push(recipe.instance()?);
            }
        }
        let mut values = builder.values.clone();
        for (input, draft) in inputs.all.iter().zip(&builder.inputs) {
            let base = builder.bases.get(draft.base as usize);
            let address = base.map_or(0, |b| b.memory.address() + draft.offset);
            if let Some(value) = values.get_mut(input.var.index() as usize) {
                *value = address;
            }
        }
        for home in &mut homes {
            let first = hcq_nostd::value::Var::new(0);
            home.instance
                .set_all(first, &values)
                .map_err(Error::Launch)?;
        }
        let mut order: Vec<usize> = (0..builder.devices.len()).collect();
        order.sort_by_key(|&d| builder.devices.get(d).map(|d| Arc::as_ptr(d).addr()));
        let labels = builder
            .drafts
            .iter()
            .map(|d| d.label().to_owned())
            .collect();
        let kernels = builder.drafts.iter().filter_map(|d| match &d.what {
            builder::What::Exec { kernel, .. } => Some(kernel.clone()),
            _ => None,
        });
        Ok(Self {
            order,
            stuck: vec![None; homes.len()],
            entries: vec![Entry::default(); builder.devices.len()],
            inputs,
            next: 0,
            last: None,
            stored: 0,
            plan,
            labels,
            timeout: builder
                .devices
                .iter()
                .map(|d| d.wait_timeout)
                .max()
                .unwrap_or_default(),
            _kernels: kernels.collect(),
            homes,
            devices: builder.devices,
        })
    }

    /// Nodes.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Instances.
    pub fn instances(&self) -> usize {
        self.homes.len()
    }

    /// Changes a number, from the next launch on.
    ///
    /// # Errors
    /// [`Error::Launch`] if it is no number of this graph; nothing has changed then.
    pub fn set<T: Number>(&mut self, param: Param<T>, value: T) -> Result<(), Error> {
        self.set_var(param.var, value.bits())
    }

    /// The number that the next launch uses, as the bits of a number of its size.
    pub fn get<T: Number>(&self, param: Param<T>) -> Option<u64> {
        self.homes.first()?.instance.get(param.var)
    }

    fn set_var(&mut self, var: hcq_nostd::value::Var, value: u64) -> Result<(), Error> {
        for home in &mut self.homes {
            home.instance.set(var, value).map_err(Error::Launch)?;
        }
        Ok(())
    }

    /// Replaces an input's memory, from the next launch on: by a view of the same length in memory of the same device.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::OtherDevice`], [`Error::Graph`] for a part of an input or one of another graph; nothing
    /// has changed then.
    pub fn set_input<T: Element>(&mut self, input: Input<T>, view: &View<T>) -> Result<(), Error> {
        let known = self.inputs.all.get(input.index);
        let Some(known) = known.filter(|k| input.is_whole(k.var, k.bytes)) else {
            return Err(Error::Graph {
                reason: "it has no such input, or this is a part of one".into(),
            });
        };
        if known.bytes != view.size_bytes() as u64 {
            return Err(Error::Length {
                what: "bytes of an input",
                need: known.bytes,
                have: view.size_bytes() as u64,
            });
        }
        let own = view.allocation().original();
        let device = self.devices.get(known.device);
        let is_own = |memory: &Arc<crate::heap::Allocation>| {
            device.is_some_and(|d| Arc::ptr_eq(&d.heap, memory.heap()))
        };
        let memory = match (is_own(own), is_own(view.allocation())) {
            (true, _) => own,
            (false, true) => view.allocation(),
            _ => return Err(Error::OtherDevice { what: "buffer" }),
        };
        let var = known.var;
        let address = memory.address() + view.offset();
        self.inputs
            .replace(input.index, memory, view.offset(), &self.devices)?;
        self.set_var(var, address)
    }

    /// Launches the next instance, which are taken in turn. Waits for its last launch, as long as the devices make progress.
    ///
    /// # Errors
    /// [`Error::Graph`] for inputs that share bytes; [`Error::Launch`] for a number that does not fit;
    /// [`Error::Timeout`], [`Error::Fault`].
    pub fn launch(&mut self) -> Result<Run, Error> {
        let timeout_ns = nanoseconds(self.timeout);
        self.launch_with(Busy::Wait { timeout_ns })
    }

    /// Launches the next instance if its last launch is complete.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]; else as for [`launch`](Self::launch).
    pub fn try_launch(&mut self) -> Result<Run, Error> {
        self.launch_with(Busy::Refuse)
    }

    fn launch_with(&mut self, busy: Busy) -> Result<Run, Error> {
        self.inputs.check()?;
        let index = self.next;
        self.free_stuck(index);
        let Some(home) = self.homes.get_mut(index) else {
            return Err(Error::Internal("a graph without an instance"));
        };
        let mut launcher = Launcher {
            devices: &self.devices,
            order: &self.order,
            entries: &mut self.entries,
            timeout: self.timeout,
        };
        launcher.settle(home, busy)?;
        let launched = match launcher.launch(home) {
            Ok(launched) => launched,
            Err(e) => {
                if home.is_stuck()
                    && let Some(slot) = self.stuck.get_mut(index)
                {
                    let recoveries = self.devices.iter().map(|d| d.recoveries());
                    *slot = Some(recoveries.collect());
                }
                return Err(e);
            }
        };
        self.stored = launched.stored;
        self.last = Some(index);
        self.next = (index + 1) % self.homes.len().max(1);
        Ok(self.run_of(index))
    }

    /// The last launch of an instance.
    fn run_of(&self, index: usize) -> Run {
        let mut points = heapless::Vec::new();
        if let Some(home) = self.homes.get(index) {
            for (n, device) in (0u16..).zip(&self.devices) {
                let point = home.instance.last(n);
                let part = home.instance.graph().devices().get(usize::from(n));
                if part.is_some_and(|d| d.takes_part()) && point != CorePoint::ZERO {
                    let _ = points.push(Point {
                        inner: Arc::clone(device),
                        point,
                    });
                }
            }
        }
        Run {
            points,
            instance: index,
        }
    }

    /// An instance whose launch failed half way can be used again when every device has dropped what it was given.
    fn free_stuck(&mut self, index: usize) {
        let (Some(Some(then)), Some(home)) = (self.stuck.get(index), self.homes.get_mut(index))
        else {
            return;
        };
        let parts = home.instance.graph().devices();
        let mut all = self.devices.iter().zip(then).zip(parts);
        if all.all(|((device, &then), part)| !part.takes_part() || device.recoveries() > then) {
            home.instance.abandon();
            if let Some(slot) = self.stuck.get_mut(index) {
                *slot = None;
            }
        }
    }

    /// Waits until nothing of the graph is in flight.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Fault`].
    pub fn wait(&mut self) -> Result<(), Error> {
        let timeout_ns = nanoseconds(self.timeout);
        let launcher = Launcher {
            devices: &self.devices,
            order: &self.order,
            entries: &mut self.entries,
            timeout: self.timeout,
        };
        for home in &mut self.homes {
            launcher.settle(home, Busy::Wait { timeout_ns })?;
        }
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // Bounded; memory that is still in use is kept by the devices' timelines.
        let _ = self.wait();
        self.homes.iter_mut().for_each(Home::leave);
    }
}
