//! Bytes from anywhere become an image, or a reason why not.

use super::format::{
    BufferRecord, CodeRecord, Header, MAGIC, Place, Range, SECTIONS, Section, TargetRecord,
    UNCHECKED, VERSION, VariableRecord, checksum,
};
use super::{Buffer, Code, Role, Target, Variable, VariableKind};
use crate::graph::{ALIGN, Graph, Inconsistent};
use crate::patch::{PatchTable, TableError};
use crate::plan::Engine;
use crate::value::Var;
use core::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Why bytes are no image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum LoadError {
    /// The memory does not start at an 8-byte boundary.
    Misaligned,
    /// Fewer bytes than there must be, or more.
    Size {
        /// Bytes that there should be.
        need: u64,
        /// Bytes that there are.
        have: u64,
    },
    /// Another magic number: no image.
    Magic {
        /// What is there.
        seen: u32,
    },
    /// A version that this crate does not know.
    Version {
        /// The image's version.
        seen: u16,
    },
    /// The bytes are not those that were written.
    Checksum {
        /// What the image says.
        need: u32,
        /// What its bytes give.
        have: u32,
    },
    /// A section is not where it has to be, or has more entries than there are bytes.
    Section {
        /// Which.
        section: Section,
        /// Where it has to be.
        need: u64,
        /// Where it is.
        at: u64,
    },
    /// A section with another number of entries than it has to have.
    Count {
        /// Which.
        section: Section,
        /// How many there have to be.
        need: u64,
        /// How many there are.
        have: u64,
    },
    /// An entry that is malformed: a text or bytes that are not there or not in order, a number that means nothing.
    Entry {
        /// The section.
        section: Section,
        /// Which entry.
        index: u32,
    },
    /// The texts are not UTF-8.
    Texts {
        /// Bytes up to which they are.
        valid: usize,
    },
    /// The patch table is none.
    Table(TableError),
    /// The records are no graph.
    Graph(Inconsistent),
    /// A device is something else than the graph was recorded for; see [`Image::targets`].
    Target {
        /// The device.
        device: u16,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Misaligned => f.write_str("the image does not start at an 8-byte boundary"),
            Self::Size { need, have } => {
                write!(f, "the image should have {need} bytes and has {have}")
            }
            Self::Magic { seen } => write!(f, "not a graph image: it starts with {seen:#010x}"),
            Self::Version { seen } => write!(f, "graph image of version {seen}"),
            Self::Checksum { need, have } => {
                write!(f, "the image's checksum is {have:#010x}, not {need:#010x}")
            }
            Self::Section { section, need, at } => {
                write!(
                    f,
                    "the {section} are at {at:#x}, not at {need:#x}, or leave the image"
                )
            }
            Self::Count {
                section,
                need,
                have,
            } => write!(f, "{need} {section} needed, the image has {have}"),
            Self::Entry { section, index } => {
                write!(f, "entry {index} of the {section} is malformed")
            }
            Self::Texts { valid } => write!(f, "the names are no UTF-8 from byte {valid} on"),
            Self::Table(e) => write!(f, "{e}"),
            Self::Graph(e) => write!(f, "{e}"),
            Self::Target { device } => {
                write!(f, "device {device} is not what the graph was recorded for")
            }
        }
    }
}

impl core::error::Error for LoadError {}

/// A loaded image. Cheap to copy; it borrows the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    bytes: &'a [u8],
    graph: Graph<'a>,
    targets: &'a [TargetRecord],
    variables: &'a [VariableRecord],
    codes: &'a [CodeRecord],
    buffers: &'a [BufferRecord],
    nodes: &'a [Range],
    data: &'a [u8],
    texts: &'a str,
}

/// The sections' bytes.
struct Sections<'a> {
    bytes: &'a [u8],
    places: [Place; SECTIONS],
}

impl<'a> Sections<'a> {
    fn raw(&self, section: Section) -> Option<&'a [u8]> {
        let place = self.places.get(section as usize)?;
        let from = usize::try_from(place.at).ok()?;
        let len = usize::try_from(place.bytes(section)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }

    fn of<T: FromBytes + Immutable + KnownLayout>(
        &self,
        section: Section,
    ) -> Result<&'a [T], LoadError> {
        let place = self.places.get(section as usize).copied();
        let place = place.unwrap_or_default();
        let raw = self.raw(section);
        let typed = raw.and_then(|raw| <[T]>::ref_from_bytes(raw).ok());
        typed.ok_or(LoadError::Section {
            section,
            need: place.at,
            at: place.at,
        })
    }
}

fn entry(section: Section, index: usize) -> LoadError {
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    LoadError::Entry { section, index }
}

fn count(section: Section, need: usize, have: usize) -> Result<(), LoadError> {
    if need == have {
        return Ok(());
    }
    let (need, have) = (need as u64, have as u64);
    Err(LoadError::Count {
        section,
        need,
        have,
    })
}

/// Gives back `len` bytes at `at`.
fn range<T>(r: &Range, of: impl FnOnce(usize, usize) -> Option<T>) -> Option<T> {
    let from = usize::try_from(r.at).ok()?;
    let len = usize::try_from(r.len).ok()?;
    of(from, from.checked_add(len)?)
}

impl<'a> Image<'a> {
    /// Checks bytes from anywhere, once, in time proportional to their number.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(bytes: &'a [u8]) -> Result<Self, LoadError> {
        let have = bytes.len() as u64;
        let size = |need| LoadError::Size { need, have };
        if !bytes.as_ptr().addr().is_multiple_of(8) {
            return Err(LoadError::Misaligned);
        }
        let (header, _) =
            Header::ref_from_prefix(bytes).map_err(|_| size(size_of::<Header>() as u64))?;
        if header.magic != MAGIC {
            let seen = header.magic;
            return Err(LoadError::Magic { seen });
        }
        if header.version != VERSION || header.reserved != 0 {
            let seen = header.version;
            return Err(LoadError::Version { seen });
        }
        if header.bytes != have {
            return Err(size(header.bytes));
        }
        let crc = checksum(bytes);
        if header.crc != crc || header.reserved_too != 0 {
            let (need, have) = (header.crc, crc);
            return Err(LoadError::Checksum { need, have });
        }
        let mut need = (size_of::<Header>() as u64).next_multiple_of(ALIGN as u64);
        for (section, place) in Section::ALL.into_iter().zip(&header.sections) {
            let at = place.at;
            let wrong = LoadError::Section { section, need, at };
            let next = place.next(section).ok_or(wrong)?;
            if at != need || next > have {
                return Err(wrong);
            }
            need = next;
        }
        if need != have {
            return Err(size(need));
        }
        let sections = Sections {
            bytes,
            places: header.sections,
        };
        let image = Self::parts(bytes, header, &sections)?;
        image.graph.check().map_err(LoadError::Graph)?;
        image.check_counts()?;
        image.check_entries()?;
        Ok(image)
    }

    fn parts(bytes: &'a [u8], header: &Header, sections: &Sections<'a>) -> Result<Self, LoadError> {
        let texts: &[u8] = sections.of(Section::Texts)?;
        let texts = core::str::from_utf8(texts).map_err(|e| LoadError::Texts {
            valid: e.valid_up_to(),
        })?;
        let table: &[u64] = sections.of(Section::Table)?;
        let table = PatchTable::parse(table.as_bytes()).map_err(LoadError::Table)?;
        let graph = Graph {
            counts: header.counts,
            devices: sections.of(Section::Devices)?,
            queues: sections.of(Section::Queues)?,
            works: sections.of(Section::Works)?,
            edges: sections.of(Section::Edges)?,
            words: sections.of(Section::Words)?,
            blocks: sections.of(Section::Blocks)?,
            table,
        };
        Ok(Self {
            bytes,
            graph,
            targets: sections.of(Section::Targets)?,
            variables: sections.of(Section::Variables)?,
            codes: sections.of(Section::Codes)?,
            buffers: sections.of(Section::Buffers)?,
            nodes: sections.of(Section::Nodes)?,
            data: sections.of(Section::Bytes)?,
            texts,
        })
    }

    fn check_counts(&self) -> Result<(), LoadError> {
        let devices = self.graph.devices().len();
        count(Section::Targets, devices, self.targets.len())?;
        let variables = self.graph.variables() as usize;
        count(Section::Variables, variables, self.variables.len())?;
        // Works name nodes by their task.
        let tasks = self.graph.works().iter().map(|w| w.task());
        let nodes = self.nodes.len();
        match tasks.max() {
            Some(last) if last as usize >= nodes => {
                count(Section::Nodes, (last as usize).saturating_add(1), nodes)
            }
            _ => Ok(()),
        }
    }

    fn check_entries(&self) -> Result<(), LoadError> {
        let devices = self.graph.devices().len();
        for (i, t) in self.targets.iter().enumerate() {
            if t.reserved != 0 || self.target(t).is_none() {
                return Err(entry(Section::Targets, i));
            }
        }
        for (i, v) in self.variables.iter().enumerate() {
            let sound = self.variable_of(v).is_some_and(|v| match v.kind {
                VariableKind::Buffer { buffer } => (buffer as usize) < self.buffers.len(),
                VariableKind::Code { code } => (code as usize) < self.codes.len(),
                VariableKind::Private { code, queue, .. } => {
                    let queue = self.graph.queues().get(usize::from(queue));
                    let code = self.codes.get(code as usize);
                    queue.zip(code).is_some_and(|(queue, code)| {
                        queue.engine() == Engine::Compute && queue.device() == code.device
                    })
                }
                VariableKind::Own { device } => usize::from(device) < devices,
                _ => true,
            });
            if !sound {
                return Err(entry(Section::Variables, i));
            }
        }
        let mut end = 0;
        let mut in_order = |r: &Range| {
            let sound = r.at >= end;
            end = r.at.saturating_add(r.len);
            sound
        };
        for (i, c) in self.codes.iter().enumerate() {
            let sound = c.reserved == 0
                && c.align.is_power_of_two()
                && usize::from(c.device) < devices
                && in_order(&c.bytes)
                && self.code_of(c).is_some();
            if !sound {
                return Err(entry(Section::Codes, i));
            }
        }
        for (i, b) in self.buffers.iter().enumerate() {
            let sound = b.align.is_power_of_two()
                && usize::from(b.device) < devices
                && u64::from(b.contents.len) <= b.bytes
                && in_order(&b.contents)
                && self.buffer_of(b).is_some();
            if !sound {
                return Err(entry(Section::Buffers, i));
            }
        }
        for (i, n) in self.nodes.iter().enumerate() {
            self.text(n).ok_or(entry(Section::Nodes, i))?;
        }
        Ok(())
    }

    fn text(&self, r: &Range) -> Option<&'a str> {
        range(r, |from, to| self.texts.get(from..to))
    }

    fn data(&self, r: &Range) -> Option<&'a [u8]> {
        range(r, |from, to| self.data.get(from..to))
    }

    fn target(&self, t: &TargetRecord) -> Option<Target<'a>> {
        Some(Target {
            kind: self.text(&t.kind)?,
            chip: self.text(&t.chip)?,
            abi: t.abi,
        })
    }

    fn variable_of(&self, v: &VariableRecord) -> Option<Variable<'a>> {
        let kind = match (v.kind, v.bytes, v.of) {
            (5, part, code) => VariableKind::Private {
                code,
                queue: v.queue,
                part,
            },
            _ if v.queue != 0 => return None,
            (0, 0, buffer) => VariableKind::Buffer { buffer },
            (1, 0, code) => VariableKind::Code { code },
            (2, bytes @ (1 | 2 | 4 | 8), 0) => VariableKind::Scalar {
                bytes: u8::try_from(bytes).ok()?,
            },
            (3, 0, 0) => VariableKind::Count,
            (4, 0, 0) => VariableKind::Number,
            (6, 0, device) => VariableKind::Own {
                device: u16::try_from(device).ok()?,
            },
            _ => return None,
        };
        if v.reserved != 0 {
            return None;
        }
        let name = self.text(&v.name)?;
        Some(Variable { name, kind })
    }

    fn code_of(&self, c: &CodeRecord) -> Option<Code<'a>> {
        Some(Code {
            name: self.text(&c.name)?,
            device: c.device,
            align: c.align,
            bytes: self.data(&c.bytes)?,
            sha256: c.sha256,
        })
    }

    fn buffer_of(&self, b: &BufferRecord) -> Option<Buffer<'a>> {
        let role = match b.role {
            0 => Role::Input,
            1 => Role::Output,
            2 => Role::InOut,
            3 => Role::Scratch,
            4 => Role::Constant,
            _ => return None,
        };
        Some(Buffer {
            name: self.text(&b.name)?,
            device: b.device,
            role,
            bytes: b.bytes,
            align: b.align,
            contents: self.data(&b.contents)?,
        })
    }

    /// The image's bytes.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The checksum that it carries.
    pub fn checksum(&self) -> u32 {
        let crc = self.bytes.get(UNCHECKED - 4..UNCHECKED);
        let crc = crc.and_then(|c| u32::read_from_bytes(c).ok());
        crc.unwrap_or(0)
    }

    /// The graph, to be bound and launched.
    pub const fn graph(&self) -> &Graph<'a> {
        &self.graph
    }

    /// What each device has to be.
    pub fn targets(&self) -> impl Iterator<Item = Target<'a>> + '_ {
        self.targets.iter().filter_map(|t| self.target(t))
    }

    /// Compares what each device has to be with what it is. Devices that do not take part may be anything, and missing.
    ///
    /// # Errors
    /// [`LoadError::Target`].
    pub fn require(&self, have: &[Target<'_>]) -> Result<(), LoadError> {
        let devices = self.graph.devices().iter().zip(self.targets());
        for (device, (d, need)) in (0u16..).zip(devices) {
            let fits = have
                .get(usize::from(device))
                .is_some_and(|have| need.takes(have));
            if d.takes_part() && !fits {
                return Err(LoadError::Target { device });
            }
        }
        Ok(())
    }

    /// The variables to set before a launch, in the order of their numbers.
    pub fn variables(&self) -> impl Iterator<Item = Variable<'a>> + '_ {
        self.variables.iter().filter_map(|v| self.variable_of(v))
    }

    /// The first variable of this name, and its number.
    pub fn variable(&self, name: &str) -> Option<(Var, VariableKind)> {
        let mut all = (0u32..).zip(self.variables());
        let (n, v) = all.find(|(_, v)| v.name == name)?;
        Some((Var::new(n), v.kind))
    }

    /// Code objects, by number.
    pub fn codes(&self) -> impl Iterator<Item = Code<'a>> + '_ {
        self.codes.iter().filter_map(|c| self.code_of(c))
    }

    /// Memory that the graph needs besides its own, by number.
    pub fn buffers(&self) -> impl Iterator<Item = Buffer<'a>> + '_ {
        self.buffers.iter().filter_map(|b| self.buffer_of(b))
    }

    /// Number of nodes.
    pub const fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The name of a node: of a work's [task](crate::graph::WorkRecord::task).
    pub fn node(&self, node: u32) -> Option<&'a str> {
        self.text(self.nodes.get(node as usize)?)
    }
}
