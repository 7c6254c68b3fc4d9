//! Graphs as images: recorded for any place, with all that a machine needs to launch them again.

use std::collections::BTreeMap;
use std::sync::Arc;

use hcq_nostd::image::{self, Buffer, Code, Contents, Role, Target, Variable, VariableKind};
use hcq_nostd::value::{Value, Var};
use zerocopy::IntoBytes;

use super::GraphOptions;
use super::builder::{GraphBuilder, What};
use super::memory::{Recipe, argument};
use super::operands::{GraphSpan, Number, Param};
use super::plan::GraphPlan;
use crate::Error;
use crate::backend::{Prepared, Relocation};

/// The buffer through which copies cross between devices.
pub(super) const STAGE: &str = "hcq.stage";
/// Alignment of buffers: a page, as any allocation has.
const ALIGN: u32 = 4096;

/// What an image says of a buffer.
pub(super) struct Described {
    pub(super) name: String,
    pub(super) role: BufferRole,
}

/// What a buffer of a stored graph is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferRole {
    /// The graph reads it; the image holds what it holds now.
    Input,
    /// The graph writes it.
    Output,
    /// Both; the image holds what it holds now.
    InOut,
    /// What it holds before and after is of no account.
    Scratch,
    /// The graph reads what the image holds, and nobody changes it.
    Constant,
}

impl BufferRole {
    const fn core(self) -> Role {
        match self {
            Self::Input => Role::Input,
            Self::Output => Role::Output,
            Self::InOut => Role::InOut,
            Self::Scratch => Role::Scratch,
            Self::Constant => Role::Constant,
        }
    }

    pub(super) const fn of(role: Role) -> Self {
        match role {
            Role::Input => Self::Input,
            Role::Output => Self::Output,
            Role::InOut => Self::InOut,
            Role::Scratch => Self::Scratch,
            Role::Constant => Self::Constant,
        }
    }

    const fn has_contents(self) -> bool {
        !matches!(self, Self::Output | Self::Scratch)
    }
}

/// Variables of an image behind the caller's: where programs are, their private memory, what devices have for themselves.
struct Places {
    first: u32,
    all: Vec<(VariableKind, String)>,
}

impl Places {
    /// The variable of this kind and name.
    fn var(&mut self, kind: VariableKind, name: &str) -> Result<Var, Error> {
        let known = self.all.iter().position(|(k, n)| *k == kind && n == name);
        let index = known.unwrap_or(self.all.len());
        if known.is_none() {
            self.all.push((kind, name.to_owned()));
        }
        Ok(Var::new(self.first + count(index)?))
    }
}

/// A number of an image's variables, programs or queues.
fn count(n: usize) -> Result<u32, Error> {
    u32::try_from(n).map_err(|_| Error::TooLarge {
        what: "the number of a graph's variables",
        size: n as u64,
        most: u32::MAX.into(),
    })
}

impl GraphBuilder {
    /// Says what the memory of a buffer or an input is called and what it is for, for [`image`](Self::image). Memory of which
    /// nothing is said is [`InOut`](BufferRole::InOut) under a name of its own.
    ///
    /// # Errors
    /// [`Error::OtherDevice`].
    pub fn describe<'s>(
        &mut self,
        memory: impl Into<GraphSpan<'s>>,
        name: &str,
        role: BufferRole,
    ) -> Result<&mut Self, Error> {
        let base = self.base_of(memory.into())?;
        self.described.insert(
            base,
            Described {
                name: name.to_owned(),
                role,
            },
        );
        Ok(self)
    }

    /// Gives a number a name, for [`image`](Self::image): by it [`Replay::set`](super::Replay::set) finds it.
    pub fn name_param<T: Number>(&mut self, param: Param<T>, name: &str) -> &mut Self {
        let bytes = u8::try_from(size_of::<T>()).unwrap_or(8);
        self.named
            .insert(param.var.index(), (name.to_owned(), bytes));
        self
    }

    /// Plans and records the graph for any place, and writes it as an image, with its programs and what its buffers hold now.
    /// [`Replay`](super::Replay) runs it, in another process or on another machine with the same kinds of devices.
    ///
    /// ```
    /// use hcq_std::{BufferRole, Device, GraphBuilder, GraphOptions, Replay};
    /// let device = Device::open("cpu")?;
    /// let (x, y) = (device.alloc_from(&[1u32, 2, 3])?, device.alloc::<u32>(3)?);
    /// let mut builder = GraphBuilder::new([&device])?;
    /// builder.copy(&y, &x)?;
    /// builder.describe(&x, "x", BufferRole::Input)?.describe(&y, "y", BufferRole::Output)?;
    /// let image = builder.image(&GraphOptions::default())?;
    ///
    /// // SAFETY: its programs and its graph are this program's own.
    /// let mut replay = unsafe { Replay::from_bytes(&image, &[Device::open("cpu")?]) }?;
    /// replay.launch()?.wait()?;
    /// assert_eq!(replay.buffer::<u32>("y")?.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), hcq_std::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`build`](Self::build); [`Error::Program`] for kernels that cannot be stored, [`Error::Image`].
    pub fn image(self, options: &GraphOptions) -> Result<Vec<u8>, Error> {
        for device in &self.devices {
            device.look()?;
        }
        let spread = options.spread(self.devices.len())?;
        let plan = GraphPlan::new(&self, spread, options.profile)?;
        // Behind the builder's own variables come the bases', the stage's, and the programs'.
        let own = count(self.values.len())?;
        let bases: Vec<Var> = (0..=count(self.bases.len())?)
            .map(|n| Var::new(own + n))
            .collect();
        let addresses: Vec<Value> = bases.iter().map(|&b| b.into()).collect();
        let mut places = Places {
            first: own + count(bases.len())?,
            all: Vec::new(),
        };
        let mut of_devices = Vec::new();
        for (device, inner) in (0u16..).zip(&self.devices) {
            let own = inner.backend.own_address();
            let kind = VariableKind::Own { device };
            of_devices.push(own.map(|_| places.var(kind, "")).transpose()?);
        }
        let mut codes: Vec<(String, u16, Vec<u8>)> = Vec::new();
        let mut keys: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        let mut programs: Vec<Option<Prepared>> = Vec::new();
        let queues = plan.queues_of(self.drafts.len());
        for (draft, queue) in self.drafts.iter().zip(queues) {
            let What::Exec {
                kernel,
                program,
                args,
                ..
            } = &draft.what
            else {
                programs.push(None);
                continue;
            };
            let heap = &kernel.kernel.heap;
            let device = self.devices.iter().position(|d| Arc::ptr_eq(&d.heap, heap));
            let device = device.ok_or(Error::OtherDevice { what: "kernel" })?;
            let stored = kernel.stored()?;
            let key = (device, stored.key);
            let code = match keys.get(&key) {
                Some(code) => *code,
                None => {
                    let code = count(codes.len())?;
                    let device = u16::try_from(device).unwrap_or(u16::MAX);
                    codes.push((stored.name.clone(), device, stored.bytes.into_owned()));
                    keys.insert(key, code);
                    code
                }
            };
            // Shared objects are entered by symbol; code objects lie somewhere as a whole.
            let name = if stored.by_name { kernel.name() } else { "" };
            let var = places.var(VariableKind::Code { code }, name)?;
            let backend = &self
                .devices
                .get(device)
                .ok_or(Error::Internal("no device"))?
                .backend;
            let own = &kernel.kernel.program;
            let mut private = Vec::new();
            for part in backend.private_parts(own) {
                let queue = queue.ok_or(Error::Internal("a kernel has no queue"))?;
                let kind = VariableKind::Private { code, queue, part };
                private.push(places.var(kind, kernel.name())?);
            }
            let args: Vec<_> = args.iter().map(|a| argument(&addresses, a)).collect();
            let program = backend.relocatable(
                own,
                Relocation {
                    code: var,
                    private: &private,
                    own: of_devices.get(device).copied().flatten(),
                    launched: program,
                    args: &args,
                },
            )?;
            programs.push(Some(program.ok_or_else(|| Error::Program {
                what: format!("kernel {}", kernel.name()),
                reason: "this device has no programs that can be stored".into(),
            })?));
        }
        let variables = places.first + count(places.all.len())?;
        let recipe = Recipe::anywhere(&self, &plan, &bases, &programs, (variables, of_devices))?;
        recipe.recorded(|graph| self.write_image(&plan, graph, (own, &bases), &codes, &places.all))
    }

    fn write_image(
        &self,
        plan: &GraphPlan,
        graph: &hcq_nostd::graph::Graph<'_>,
        (own, bases): (u32, &[Var]),
        codes: &[(String, u16, Vec<u8>)],
        placed: &[(VariableKind, String)],
    ) -> Result<Vec<u8>, Error> {
        let kinds: Vec<_> = self.devices.iter().map(|d| d.backend.target()).collect();
        let targets: Vec<Target<'_>> = kinds
            .iter()
            .map(|(kind, chip, abi)| Target {
                kind,
                chip,
                abi: *abi,
            })
            .collect();
        // Buffers: one for each base, and the stage.
        let mut names = Vec::new();
        let mut contents: Vec<Vec<u8>> = Vec::new();
        let mut shapes = Vec::new();
        for (n, base) in (0u32..).zip(&self.bases) {
            let (name, role) = match self.described.get(&n) {
                Some(d) => (d.name.clone(), d.role),
                None => (format!("buffer.{n}"), BufferRole::InOut),
            };
            let input = base.input.and_then(|i| self.inputs.get(i));
            let (offset, bytes) = match input {
                Some(input) => (input.offset, input.bytes),
                None => (0, base.memory.len() as u64),
            };
            contents.push(if role.has_contents() {
                self.contents(base, offset, bytes)?
            } else {
                Vec::new()
            });
            names.push(name);
            shapes.push((base.device, role.core(), bytes));
        }
        if plan.stage_bytes > 0 {
            names.push(STAGE.to_owned());
            contents.push(Vec::new());
            shapes.push((0, Role::Scratch, plan.stage_bytes));
        }
        let parts = shapes.iter().zip(names.iter().zip(&contents));
        let buffers: Vec<Buffer<'_>> = parts
            .map(|(&(device, role, bytes), (name, contents))| Buffer {
                name,
                device: u16::try_from(device).unwrap_or(u16::MAX),
                role,
                bytes,
                align: ALIGN,
                contents,
            })
            .collect();
        let stored: Vec<Code<'_>> = codes
            .iter()
            .map(|(name, device, bytes)| Code {
                name,
                device: *device,
                align: ALIGN,
                bytes,
                sha256: sha256(bytes),
            })
            .collect();
        let mut variables: Vec<Variable<'_>> = Vec::new();
        for n in 0..own {
            let input = self.inputs.iter().find(|i| i.var.index() == n);
            variables.push(match (input, self.named.get(&n)) {
                (Some(input), _) => Variable {
                    name: names.get(input.base as usize).map_or("", |n| n),
                    kind: VariableKind::Buffer { buffer: input.base },
                },
                (None, Some((name, bytes))) => Variable {
                    name,
                    kind: VariableKind::Scalar { bytes: *bytes },
                },
                (None, None) => {
                    return Err(Error::Graph {
                        reason: format!(
                            "number {n} has no name, by which it could be set; see GraphBuilder::name_param"
                        ),
                    });
                }
            });
        }
        let fallback = u32::try_from(buffers.len().saturating_sub(1)).unwrap_or(0);
        for (n, _) in (0u32..).zip(bases) {
            // Without a stage its variable is used by nothing; it names any buffer.
            let buffer = n.min(fallback);
            variables.push(if buffers.is_empty() {
                Variable {
                    name: "hcq.none",
                    kind: VariableKind::Number,
                }
            } else {
                Variable {
                    name: names.get(buffer as usize).map_or("", |n| n),
                    kind: VariableKind::Buffer { buffer },
                }
            });
        }
        let placed = placed
            .iter()
            .map(|(kind, name)| Variable { name, kind: *kind });
        variables.extend(placed);
        let nodes: Vec<&str> = self.drafts.iter().map(|d| d.label()).collect();
        let contents = Contents {
            graph,
            targets: &targets,
            variables: &variables,
            codes: &stored,
            buffers: &buffers,
            nodes: &nodes,
        };
        let words = image::bytes(&contents).map_err(Error::Image)?;
        let mut out = vec![0u64; words];
        image::write(&contents, &mut out).map_err(Error::Image)?;
        Ok(out.as_bytes().to_vec())
    }

    /// What memory holds when its device is idle.
    fn contents(
        &self,
        base: &super::builder::Base,
        offset: u64,
        bytes: u64,
    ) -> Result<Vec<u8>, Error> {
        let device = self.devices.get(base.device);
        let device = device.ok_or(Error::Internal("a buffer has no device"))?;
        let range = usize::try_from(offset)
            .ok()
            .zip(usize::try_from(bytes).ok());
        let (offset, bytes) = range.ok_or(Error::Internal("a buffer beyond all memory"))?;
        crate::buffer::bytes_of(device, &base.memory, offset, bytes)
    }

    /// The base that a span is in.
    fn base_of(&mut self, span: GraphSpan<'_>) -> Result<u32, Error> {
        Ok(self.span(span, hcq_nostd::plan::Mode::Read)?.allocation)
    }
}

/// The SHA-256 that an image's code objects carry.
fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).into()
}
