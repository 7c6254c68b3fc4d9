//! What a graph is made of, before it is planned.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use hcq_nostd::args::Arg as CoreArg;
use hcq_nostd::plan::{Access, Action, Engine, Mode};
use hcq_nostd::value::{Value, Var};

use super::image::Described;
use super::operands::{GraphSpan, Input, Number, Of, Param};
use super::{Graph, GraphOptions};
use crate::arg::{Arg, Grid};
use crate::backend::Prepared;
use crate::buffer::{Element, View};
use crate::heap::Allocation;
use crate::inner::Inner;
use crate::program::Kernel;
use crate::{Device, Error, QueueKind};

/// Devices of one graph at most.
pub(super) const MOST_DEVICES: usize = 32;
/// Variables of one graph at most.
const MOST_VARIABLES: usize = 1 << 20;

/// Base memory that nodes touch.
pub(super) struct Base {
    /// Whose memory it is.
    pub(super) device: usize,
    /// The memory; for an input that of its first view.
    pub(super) memory: Arc<Allocation>,
    /// An input: where it stands among the inputs.
    pub(super) input: Option<usize>,
    /// The number that it shares with what it may share bytes with; 0 for none.
    pub(super) alias: u32,
}

/// An input as it was declared.
pub(super) struct InputDraft {
    pub(super) base: u32,
    pub(super) var: Var,
    pub(super) bytes: u64,
    /// The first view's first byte in its memory.
    pub(super) offset: u64,
}

/// An argument that lives as long as its graph.
#[derive(Clone, Debug)]
pub(super) enum OwnedArg {
    Bytes { base: u32, offset: u64 },
    Scalar { value: Value, size: u8 },
    Block(Box<[u8]>),
}

pub(super) enum What {
    Exec {
        kernel: Kernel,
        /// The kernel's program for these arguments.
        program: Prepared,
        args: Vec<OwnedArg>,
        grid: Box<Grid>,
    },
    Copy,
    Write(Value),
}

/// A node.
pub(super) struct Draft {
    pub(super) action: Action,
    pub(super) accesses: Range<usize>,
    pub(super) queue: Option<u16>,
    pub(super) name: Option<String>,
    pub(super) what: What,
}

impl Draft {
    /// What people call it.
    pub(super) fn label(&self) -> &str {
        match (&self.name, &self.what) {
            (Some(name), _) => name,
            (None, What::Exec { kernel, .. }) => kernel.name(),
            (None, What::Copy) => "copy",
            (None, What::Write(_)) => "write",
        }
    }
}

/// What a kernel does with the memory that an argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// What its signature says: it reads through pointers to `const`, and may write through all others.
    AsSigned,
    /// It only reads.
    Reads,
    /// It may read and write.
    Writes,
}

/// A node of a graph, by its place in program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node(pub(super) u32);

impl Node {
    /// Its place in program order, from 0.
    pub const fn index(self) -> u32 {
        self.0
    }
}

/// Tasks of a graph in the making, in program order: what is built has the effect of running them one by one, whatever runs
/// side by side.
///
/// The builder knows which bytes each task reads and writes: those of the views that it is given. A kernel reads what it
/// takes by pointer to `const`, and may write what it takes by any other; without a signature it may write all.
///
/// See [`Graph`] for an example.
pub struct GraphBuilder {
    pub(super) devices: Vec<Arc<Inner>>,
    pub(super) bases: Vec<Base>,
    /// Bases of fixed memory, by where their owner keeps it.
    known: BTreeMap<usize, u32>,
    pub(super) inputs: Vec<InputDraft>,
    pub(super) accesses: Vec<Access>,
    pub(super) drafts: Vec<Draft>,
    /// Variables' first values; those of inputs are filled in when the graph is built.
    pub(super) values: Vec<u64>,
    /// What an image says of bases, and of numbers: their names and bytes.
    pub(super) described: BTreeMap<u32, Described>,
    pub(super) named: BTreeMap<u32, (String, u8)>,
}

impl std::fmt::Debug for GraphBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GraphBuilder")
            .field("devices", &self.devices.len())
            .field("nodes", &self.drafts.len())
            .field("variables", &self.values.len())
            .finish_non_exhaustive()
    }
}

impl GraphBuilder {
    /// An empty graph of these devices. Queues run on them in this order, processors last.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more than 32 devices; [`Error::Graph`] for none, or one twice.
    pub fn new<'d>(devices: impl IntoIterator<Item = &'d Device>) -> Result<Self, Error> {
        let mut all: Vec<Arc<Inner>> = Vec::new();
        for device in devices {
            if all.iter().any(|d| Arc::ptr_eq(d, &device.inner)) {
                return Err(Error::Graph {
                    reason: format!("device {} is named twice", device.name()),
                });
            }
            all.push(Arc::clone(&device.inner));
        }
        if all.is_empty() {
            return Err(Error::Graph {
                reason: "it has no device".into(),
            });
        }
        if all.len() > MOST_DEVICES {
            return Err(Error::TooLarge {
                what: "the number of a graph's devices",
                size: all.len() as u64,
                most: MOST_DEVICES as u64,
            });
        }
        Ok(Self {
            devices: all,
            bases: Vec::new(),
            known: BTreeMap::new(),
            inputs: Vec::new(),
            accesses: Vec::new(),
            drafts: Vec::new(),
            values: Vec::new(),
            described: BTreeMap::new(),
            named: BTreeMap::new(),
        })
    }

    fn var(&mut self, value: u64) -> Result<Var, Error> {
        if self.values.len() >= MOST_VARIABLES {
            return Err(Error::TooLarge {
                what: "the number of variables",
                size: MOST_VARIABLES as u64 + 1,
                most: MOST_VARIABLES as u64,
            });
        }
        let var = Var::new(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(value);
        Ok(var)
    }

    /// A number that may be [changed](Graph::set) between launches: a scalar argument, a grid size, a number to write.
    ///
    /// # Errors
    /// [`Error::TooLarge`] after 2^20 variables.
    pub fn param<T: Number>(&mut self, value: T) -> Result<Param<T>, Error> {
        Ok(Param {
            var: self.var(value.bits())?,
            number: PhantomData,
        })
    }

    /// Memory that may be [replaced](Graph::set_input) between launches, by views of the same length in memory of the same
    /// device. It shares no bytes with anything else that the graph touches, which is checked at launches; see
    /// [`aliasing_input`](Self::aliasing_input).
    ///
    /// # Errors
    /// [`Error::OtherDevice`], [`Error::TooLarge`].
    pub fn input<T: Element>(&mut self, view: &View<T>) -> Result<Input<T>, Error> {
        self.any_input(view, 0)
    }

    /// The same, which may share bytes with other inputs of this alias number, from 1 on. Tasks that touch any two of them
    /// run one after the other, if one may write.
    ///
    /// # Errors
    /// As for [`input`](Self::input).
    pub fn aliasing_input<T: Element>(
        &mut self,
        view: &View<T>,
        alias: u16,
    ) -> Result<Input<T>, Error> {
        self.any_input(view, alias.into())
    }

    fn any_input<T: Element>(&mut self, view: &View<T>, alias: u32) -> Result<Input<T>, Error> {
        let (device, memory) = self.owner(view.allocation())?;
        let base = narrow(self.bases.len())?;
        let var = self.var(0)?;
        let index = self.inputs.len();
        self.bases.push(Base {
            device,
            memory,
            input: Some(index),
            alias,
        });
        self.inputs.push(InputDraft {
            base,
            var,
            bytes: view.size_bytes() as u64,
            offset: view.offset(),
        });
        Ok(Input {
            index,
            base,
            var,
            offset: 0,
            len: view.len(),
            element: PhantomData,
        })
    }

    /// Which of the devices a heap is.
    fn device_of(&self, memory: &Arc<Allocation>) -> Option<usize> {
        let heap = memory.heap();
        self.devices.iter().position(|d| Arc::ptr_eq(&d.heap, heap))
    }

    /// Whose memory it is, and that device's own name of it.
    fn owner(&self, memory: &Arc<Allocation>) -> Result<(usize, Arc<Allocation>), Error> {
        let own = memory.original();
        if let Some(device) = self.device_of(own) {
            return Ok((device, Arc::clone(own)));
        }
        // Memory of a device that takes no part, seen by one that does.
        match self.device_of(memory) {
            Some(device) => Ok((device, Arc::clone(memory))),
            None => Err(Error::OtherDevice { what: "buffer" }),
        }
    }

    /// The base of fixed memory.
    fn fixed(&mut self, memory: &Arc<Allocation>) -> Result<u32, Error> {
        let (device, memory) = self.owner(memory)?;
        let key = Arc::as_ptr(&memory).addr();
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let base = narrow(self.bases.len())?;
        self.known.insert(key, base);
        self.bases.push(Base {
            device,
            memory,
            input: None,
            alias: 0,
        });
        Ok(base)
    }

    fn known(&self, value: Value) -> Result<(), Error> {
        match value {
            Value::Var(of) if of.var.index() as usize >= self.values.len() => {
                let count = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
                let index = of.var.index();
                Err(Error::UnknownVariable { index, count })
            }
            _ => Ok(()),
        }
    }

    fn push(&mut self, action: Action, what: What, accesses: &[Access]) -> Result<Node, Error> {
        let node = narrow(self.drafts.len())?;
        let first = self.accesses.len();
        self.accesses.extend_from_slice(accesses);
        self.drafts.push(Draft {
            action,
            accesses: first..self.accesses.len(),
            queue: None,
            name: None,
            what,
        });
        Ok(Node(node))
    }

    /// Launches a kernel, on a compute queue of its device.
    ///
    /// # Safety
    /// As for [`Commands::exec`](crate::Commands::exec), for every launch and all that the graph's inputs and numbers may be
    /// set to. It touches the bytes of the views that it is given, and no others that another task of the graph touches.
    ///
    /// # Errors
    /// [`Error::ArgumentCount`], [`Error::Argument`], [`Error::OtherDevice`], [`Error::UnknownVariable`];
    /// [`Error::Graph`] for an address without a buffer.
    #[allow(unsafe_code, reason = "takes the caller's word for a kernel")]
    pub unsafe fn exec(
        &mut self,
        kernel: &Kernel,
        args: &[Arg<'_>],
        grid: Grid,
    ) -> Result<Node, Error> {
        // SAFETY: this function's contract.
        unsafe { self.exec_touching(kernel, args, grid, &[]) }
    }

    /// The same, where the caller says what the kernel does with its arguments, in their order; those that are not said are
    /// taken from the signature.
    ///
    /// # Safety
    /// As for [`exec`](Self::exec), with what is said here in the place of the signature.
    ///
    /// # Errors
    /// As for [`exec`](Self::exec).
    #[allow(unsafe_code, reason = "takes the caller's word for a kernel")]
    pub unsafe fn exec_touching(
        &mut self,
        kernel: &Kernel,
        args: &[Arg<'_>],
        grid: Grid,
        touches: &[Touch],
    ) -> Result<Node, Error> {
        let heap = &kernel.kernel.heap;
        let device = self.devices.iter().position(|d| Arc::ptr_eq(&d.heap, heap));
        let device = device.ok_or(Error::OtherDevice { what: "kernel" })?;
        kernel.check(args)?;
        for value in grid.groups.into_iter().chain(grid.local) {
            self.known(value)?;
        }
        let (mut owned, mut accesses) = (Vec::new(), Vec::new());
        for (index, arg) in args.iter().enumerate() {
            owned.push(match (&arg.core, arg.allocation, arg.input) {
                (CoreArg::Buffer(address), memory, input) => {
                    let (base, offset) = match (memory, input, address) {
                        (Some(memory), _, Value::Imm(address)) => {
                            let offset = address.wrapping_sub(memory.address());
                            (self.fixed(memory)?, offset)
                        }
                        (_, Some(base), Value::Var(of)) => (base, of.add),
                        _ => return Err(no_buffer(kernel, index)),
                    };
                    let infos = kernel.arguments();
                    let signed = infos.and_then(|i| i.get(index));
                    let read_only = match touches.get(index) {
                        Some(Touch::Reads) => true,
                        Some(Touch::Writes) => false,
                        Some(Touch::AsSigned) | None => signed.is_some_and(|i| i.read_only),
                    };
                    accesses.push(Access {
                        allocation: base,
                        offset,
                        len: arg.bytes,
                        mode: if read_only { Mode::Read } else { Mode::Write },
                    });
                    OwnedArg::Bytes { base, offset }
                }
                (&CoreArg::Scalar { value, size }, ..) => {
                    self.known(value)?;
                    OwnedArg::Scalar { value, size }
                }
                (CoreArg::Bytes(bytes), ..) => OwnedArg::Block((*bytes).into()),
                _ => return Err(no_buffer(kernel, index)),
            });
        }
        let action = Action::Exec {
            device: u16::try_from(device).unwrap_or(u16::MAX),
        };
        let what = What::Exec {
            kernel: kernel.clone(),
            program: kernel.program_for(args)?.into_owned(),
            args: owned,
            grid: Box::new(grid),
        };
        self.push(action, what, &accesses)
    }

    pub(super) fn span(&mut self, span: GraphSpan<'_>, mode: Mode) -> Result<Access, Error> {
        let (allocation, offset, len) = match span.0 {
            Of::Memory(span) => {
                if mode == Mode::Write && !span.allocation.is_writable() {
                    return Err(Error::ReadOnly {
                        address: span.address(),
                    });
                }
                (self.fixed(span.allocation)?, span.offset, span.bytes)
            }
            Of::Input {
                base,
                offset,
                bytes,
            } => (base, offset, bytes),
        };
        Ok(Access {
            allocation,
            offset,
            len,
            mode,
        })
    }

    /// Copies bytes between two ranges of the same length that do not overlap, on a copy queue of the source's device if it
    /// reaches the destination, of the destination's if that reaches the source, else through the host's memory.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Overlap`], [`Error::ReadOnly`], [`Error::OtherDevice`].
    pub fn copy<'d, 's>(
        &mut self,
        destination: impl Into<GraphSpan<'d>>,
        source: impl Into<GraphSpan<'s>>,
    ) -> Result<Node, Error> {
        let from = self.span(source.into(), Mode::Read)?;
        let to = self.span(destination.into(), Mode::Write)?;
        if from.len != to.len {
            return Err(Error::Length {
                what: "bytes of a copy's source",
                need: to.len,
                have: from.len,
            });
        }
        if from.allocation == to.allocation && from.offset.abs_diff(to.offset) < from.len {
            return Err(Error::Overlap {
                bytes: from.len,
                source_address: from.offset,
                destination: to.offset,
            });
        }
        self.push(Action::Copy, What::Copy, &[from, to])
    }

    /// Writes a number to 4 or 8 bytes, on a copy queue of their device, or a compute queue if it has none. A number that is
    /// known now must fit.
    ///
    /// # Errors
    /// [`Error::Length`] for other sizes; [`Error::ReadOnly`], [`Error::OtherDevice`], [`Error::UnknownVariable`].
    pub fn write<'d>(
        &mut self,
        destination: impl Into<GraphSpan<'d>>,
        value: impl Into<Value>,
    ) -> Result<Node, Error> {
        let value = value.into();
        self.known(value)?;
        let to = self.span(destination.into(), Mode::Write)?;
        if to.len != 4 && to.len != 8 {
            return Err(Error::Length {
                what: "bytes of a number to write",
                need: 8,
                have: to.len,
            });
        }
        let base = self.bases.get(to.allocation as usize);
        let device = base.map_or(0, |b| b.device);
        let counts = self.devices.get(device).map(|d| d.backend.queue_counts());
        let action = Action::Write {
            device: u16::try_from(device).unwrap_or(u16::MAX),
            // What a compute queue's own engine writes goes past caches that its kernels look into.
            engine: match counts {
                Some((_, 0)) => Engine::Compute,
                _ => Engine::Copy,
            },
        };
        self.push(action, What::Write(value), &[to])
    }

    /// Gives a node a name, for people.
    pub fn name(&mut self, node: Node, name: &str) -> &mut Self {
        if let Some(draft) = self.drafts.get_mut(node.0 as usize) {
            draft.name = Some(name.to_owned());
        }
        self
    }

    /// Puts a node on this queue of its device and kind, which is else the planner's choice.
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`].
    pub fn pin(&mut self, node: Node, index: usize) -> Result<&mut Self, Error> {
        let draft = self.drafts.get_mut(node.0 as usize);
        let Some(draft) = draft else {
            return Err(Error::Graph {
                reason: format!("there is no node {}", node.0),
            });
        };
        let (device, kind) = match draft.action {
            Action::Exec { device } => (usize::from(device), QueueKind::Compute),
            Action::Write { device, engine } => (usize::from(device), super::plan::kind(engine)),
            Action::Copy => {
                let source = self.accesses.get(draft.accesses.start);
                let base = source.and_then(|a| self.bases.get(a.allocation as usize));
                (base.map_or(0, |b| b.device), QueueKind::Copy)
            }
        };
        let counts = self.devices.get(device).map(|d| d.backend.queue_counts());
        let (compute, copy) = counts.unwrap_or((0, 0));
        let count = match kind {
            QueueKind::Compute => compute,
            QueueKind::Copy => copy,
        };
        if index >= count {
            return Err(Error::NoSuchQueue { kind, index, count });
        }
        draft.queue = u16::try_from(index).ok();
        Ok(self)
    }

    /// Nodes so far.
    pub fn len(&self) -> usize {
        self.drafts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.drafts.is_empty()
    }

    /// Plans the graph, records its queues, and puts them into memory of their devices.
    ///
    /// # Errors
    /// [`Error::Plan`] and [`Error::Graph`] for what the devices cannot do; [`Error::Record`], [`Error::OutOfMemory`],
    /// [`Error::Driver`].
    pub fn build(self, options: &GraphOptions) -> Result<Graph, Error> {
        Graph::new(self, options)
    }
}

fn no_buffer(kernel: &Kernel, index: usize) -> Error {
    Error::Graph {
        reason: format!(
            "argument {index} of kernel {} is an address without a buffer, so that nobody knows what it touches; give a \
             view or an input",
            kernel.name()
        ),
    }
}

fn narrow(n: usize) -> Result<u32, Error> {
    u32::try_from(n).map_err(|_| Error::TooLarge {
        what: "the number of a graph's parts",
        size: n as u64,
        most: u32::MAX.into(),
    })
}
