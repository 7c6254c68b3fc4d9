//! A graph and what belongs to it become an image.

use super::format::{
    BufferRecord, CodeRecord, Header, MAGIC, Place, Range, SECTIONS, Section, TargetRecord,
    VERSION, VariableRecord, checksum,
};
use super::load::{Image, LoadError};
use super::{Buffer, Code, Target, Variable, VariableKind};
use crate::graph::{ALIGN, Graph};
use core::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// What an image is made of.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// The graph.
    pub graph: &'a Graph<'a>,
    /// What each device has to be.
    pub targets: &'a [Target<'a>],
    /// The caller's variables, all of them.
    pub variables: &'a [Variable<'a>],
    /// Code objects.
    pub codes: &'a [Code<'a>],
    /// Memory that the graph needs besides its own.
    pub buffers: &'a [Buffer<'a>],
    /// Names of the nodes, in the order of the tasks.
    pub nodes: &'a [&'a str],
}

/// Why there is no image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum WriteError {
    /// The memory is too small.
    Short {
        /// 64-bit words needed.
        need: usize,
        /// 64-bit words given.
        have: usize,
    },
    /// A part has 2^32 bytes or more, or the whole is beyond the address space.
    TooLarge,
    /// What was written is nothing that can be loaded, and why.
    Refused(LoadError),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Short { need, have } => {
                write!(f, "the image needs {need} 64-bit words, {have} were given")
            }
            Self::TooLarge => f.write_str("a part of the image is too large"),
            Self::Refused(e) => write!(f, "the image could not be loaded: {e}"),
        }
    }
}

impl core::error::Error for WriteError {}

impl<'a> Contents<'a> {
    /// All texts, in the order in which records name them.
    fn texts(&self) -> impl Iterator<Item = &'a str> {
        let targets = self.targets.iter().flat_map(|t| [t.kind, t.chip]);
        let variables = self.variables.iter().map(|v| v.name);
        let codes = self.codes.iter().map(|c| c.name);
        let buffers = self.buffers.iter().map(|b| b.name);
        let nodes = self.nodes.iter().copied();
        targets
            .chain(variables)
            .chain(codes)
            .chain(buffers)
            .chain(nodes)
    }

    /// All bytes, in the order in which records name them.
    fn data(&self) -> impl Iterator<Item = &'a [u8]> {
        let codes = self.codes.iter().map(|c| c.bytes);
        codes.chain(self.buffers.iter().map(|b| b.contents))
    }

    fn count(&self, section: Section) -> Option<usize> {
        let g = self.graph;
        let sum = |n: usize, len: usize| n.checked_add(len);
        Some(match section {
            Section::Targets => self.targets.len(),
            Section::Devices => g.devices.len(),
            Section::Queues => g.queues.len(),
            Section::Works => g.works.len(),
            Section::Edges => g.edges.len(),
            Section::Variables => self.variables.len(),
            Section::Codes => self.codes.len(),
            Section::Buffers => self.buffers.len(),
            Section::Nodes => self.nodes.len(),
            Section::Words => g.words.len(),
            Section::Blocks => g.blocks.len(),
            Section::Table => g.table.as_bytes().len() / 8,
            Section::Bytes => self.data().try_fold(0, |n, d| sum(n, d.len()))?,
            Section::Texts => self.texts().try_fold(0, |n, t| sum(n, t.len()))?,
        })
    }

    /// Where the sections go, and bytes in all.
    fn places(&self) -> Option<([Place; SECTIONS], u64)> {
        let mut at = (size_of::<Header>() as u64).next_multiple_of(ALIGN as u64);
        let mut places = [Place::default(); SECTIONS];
        for (section, place) in Section::ALL.into_iter().zip(places.iter_mut()) {
            let count = u64::try_from(self.count(section)?).ok()?;
            *place = Place { at, count };
            u32::try_from(place.bytes(section)?).ok()?;
            at = place.next(section)?;
        }
        isize::try_from(at).ok()?;
        Some((places, at))
    }
}

/// 64-bit words that an image takes.
///
/// # Errors
/// [`WriteError::TooLarge`].
pub fn bytes(contents: &Contents<'_>) -> Result<usize, WriteError> {
    let (_, bytes) = contents.places().ok_or(WriteError::TooLarge)?;
    usize::try_from(bytes / 8).map_err(|_| WriteError::TooLarge)
}

/// Writes records one after the other.
struct Cursor<'o> {
    left: &'o mut [u8],
    done: usize,
}

impl Cursor<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        let left = core::mem::take(&mut self.left);
        let (mine, rest) = left.split_at_mut_checked(bytes.len())?;
        mine.copy_from_slice(bytes);
        self.left = rest;
        self.done = self.done.checked_add(bytes.len())?;
        Some(())
    }

    fn put<T: IntoBytes + Immutable + ?Sized>(&mut self, value: &T) -> Option<()> {
        self.bytes(value.as_bytes())
    }
}

/// Hands out ranges, one behind the other.
#[derive(Default)]
struct Ranges {
    end: u32,
}

impl Ranges {
    fn next(&mut self, len: usize) -> Option<Range> {
        let (at, len) = (self.end, u32::try_from(len).ok()?);
        self.end = at.checked_add(len)?;
        Some(Range { at, len })
    }
}

/// Writes an image, and loads it again: what is returned can be loaded anywhere.
///
/// # Errors
/// [`WriteError`].
pub fn write<'o>(contents: &Contents<'_>, out: &'o mut [u64]) -> Result<Image<'o>, WriteError> {
    let (places, bytes) = contents.places().ok_or(WriteError::TooLarge)?;
    let need = usize::try_from(bytes / 8).map_err(|_| WriteError::TooLarge)?;
    let have = out.len();
    let out = out.get_mut(..need);
    let out = out.ok_or(WriteError::Short { need, have })?;
    out.fill(0);
    let out = out.as_mut_bytes();
    let mut texts = Ranges::default();
    let mut data = Ranges::default();
    for (section, place) in Section::ALL.into_iter().zip(&places) {
        let from = usize::try_from(place.at).map_err(|_| WriteError::TooLarge)?;
        let mut to = Cursor {
            left: out.get_mut(from..).unwrap_or_default(),
            done: 0,
        };
        let put = section_of(contents, section, &mut to, &mut texts, &mut data);
        let all = place.bytes(section) == u64::try_from(to.done).ok();
        put.filter(|()| all).ok_or(WriteError::TooLarge)?;
    }
    let header = Header {
        magic: MAGIC,
        version: VERSION,
        reserved: 0,
        bytes,
        crc: 0,
        reserved_too: 0,
        counts: contents.graph.counts,
        sections: places,
    };
    if let Ok((to, _)) = Header::mut_from_prefix(out) {
        *to = header;
    }
    let crc = checksum(out);
    if let Ok((to, _)) = Header::mut_from_prefix(out) {
        to.crc = crc;
    }
    Image::load(out).map_err(WriteError::Refused)
}

fn section_of(
    contents: &Contents<'_>,
    section: Section,
    to: &mut Cursor<'_>,
    texts: &mut Ranges,
    data: &mut Ranges,
) -> Option<()> {
    let g = contents.graph;
    match section {
        Section::Targets => contents.targets.iter().try_for_each(|t| {
            to.put(&TargetRecord {
                kind: texts.next(t.kind.len())?,
                chip: texts.next(t.chip.len())?,
                abi: t.abi,
                reserved: 0,
            })
        }),
        Section::Devices => to.put(g.devices),
        Section::Queues => to.put(g.queues),
        Section::Works => to.put(g.works),
        Section::Edges => to.put(g.edges),
        Section::Variables => contents.variables.iter().try_for_each(|v| {
            let (kind, bytes, of) = match v.kind {
                VariableKind::Buffer { buffer } => (0, 0, buffer),
                VariableKind::Code { code } => (1, 0, code),
                VariableKind::Scalar { bytes } => (2, bytes.into(), 0),
                VariableKind::Count => (3, 0, 0),
                VariableKind::Number => (4, 0, 0),
                VariableKind::Private { code, part, .. } => (5, part, code),
                VariableKind::Own { device } => (6, 0, device.into()),
            };
            let queue = match v.kind {
                VariableKind::Private { queue, .. } => queue,
                _ => 0,
            };
            to.put(&VariableRecord {
                name: texts.next(v.name.len())?,
                kind,
                bytes,
                of,
                queue,
                reserved: 0,
            })
        }),
        Section::Codes => contents.codes.iter().try_for_each(|c| {
            to.put(&CodeRecord {
                name: texts.next(c.name.len())?,
                bytes: data.next(c.bytes.len())?,
                device: c.device,
                reserved: 0,
                align: c.align,
                sha256: c.sha256,
            })
        }),
        Section::Buffers => contents.buffers.iter().try_for_each(|b| {
            to.put(&BufferRecord {
                name: texts.next(b.name.len())?,
                contents: data.next(b.contents.len())?,
                bytes: b.bytes,
                align: b.align,
                device: b.device,
                role: b.role as u16,
            })
        }),
        Section::Nodes => contents.nodes.iter().try_for_each(|n| {
            let name = texts.next(n.len())?;
            to.put(&name)
        }),
        Section::Words => to.put(g.words),
        Section::Blocks => to.put(g.blocks),
        Section::Table => to.bytes(g.table.as_bytes()),
        Section::Bytes => contents.data().try_for_each(|d| to.bytes(d)),
        Section::Texts => contents.texts().try_for_each(|t| to.bytes(t.as_bytes())),
    }
}
