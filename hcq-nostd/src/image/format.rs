//! The bytes of an image.

use crate::graph::{ALIGN, Counts, DeviceRecord, QueueRecord, WorkRecord};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"HCQG");
pub(super) const VERSION: u16 = 2;

/// A part of an image, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Section {
    /// What each device has to be.
    Targets,
    /// Devices.
    Devices,
    /// Queues.
    Queues,
    /// Works.
    Works,
    /// Edges.
    Edges,
    /// The caller's variables.
    Variables,
    /// Code objects.
    Codes,
    /// Memory that the graph needs besides its own.
    Buffers,
    /// Names of nodes.
    Nodes,
    /// Words of all queues.
    Words,
    /// Argument blocks, and what is beside queues.
    Blocks,
    /// The patch table.
    Table,
    /// Code objects' bytes, and buffers' contents.
    Bytes,
    /// Names.
    Texts,
}

/// Number of sections.
pub(super) const SECTIONS: usize = 14;

impl Section {
    pub(super) const ALL: [Self; SECTIONS] = [
        Self::Targets,
        Self::Devices,
        Self::Queues,
        Self::Works,
        Self::Edges,
        Self::Variables,
        Self::Codes,
        Self::Buffers,
        Self::Nodes,
        Self::Words,
        Self::Blocks,
        Self::Table,
        Self::Bytes,
        Self::Texts,
    ];

    /// Bytes of an entry.
    pub(super) const fn entry(self) -> usize {
        match self {
            Self::Targets => size_of::<TargetRecord>(),
            Self::Devices => size_of::<DeviceRecord>(),
            Self::Queues => size_of::<QueueRecord>(),
            Self::Works => size_of::<WorkRecord>(),
            Self::Edges | Self::Words => 4,
            Self::Variables => size_of::<VariableRecord>(),
            Self::Codes => size_of::<CodeRecord>(),
            Self::Buffers => size_of::<BufferRecord>(),
            Self::Nodes => size_of::<Range>(),
            Self::Blocks | Self::Bytes | Self::Texts => 1,
            Self::Table => 8,
        }
    }
}

impl core::fmt::Display for Section {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Targets => "targets",
            Self::Devices => "devices",
            Self::Queues => "queues",
            Self::Works => "works",
            Self::Edges => "edges",
            Self::Variables => "variables",
            Self::Codes => "code objects",
            Self::Buffers => "buffers",
            Self::Nodes => "nodes",
            Self::Words => "words",
            Self::Blocks => "blocks",
            Self::Table => "patch table",
            Self::Bytes => "bytes",
            Self::Texts => "texts",
        })
    }
}

/// Where a section is: byte offset and number of entries.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Place {
    pub(super) at: u64,
    pub(super) count: u64,
}

impl Place {
    /// Bytes of a section.
    pub(super) fn bytes(&self, section: Section) -> Option<u64> {
        self.count.checked_mul(section.entry() as u64)
    }

    /// Where the next section begins.
    pub(super) fn next(&self, section: Section) -> Option<u64> {
        let end = self.at.checked_add(self.bytes(section)?)?;
        end.checked_next_multiple_of(ALIGN as u64)
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Header {
    pub(super) magic: u32,
    pub(super) version: u16,
    pub(super) reserved: u16,
    pub(super) bytes: u64,
    /// Of all that follows it.
    pub(super) crc: u32,
    pub(super) reserved_too: u32,
    pub(super) counts: Counts,
    pub(super) sections: [Place; SECTIONS],
}

/// Bytes that the checksum does not cover: all of them are checked one by one.
pub(super) const UNCHECKED: usize = 20;

/// Bytes of a section from `at` on.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Range {
    pub(super) at: u32,
    pub(super) len: u32,
}

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct TargetRecord {
    pub(super) kind: Range,
    pub(super) chip: Range,
    pub(super) abi: u32,
    pub(super) reserved: u32,
}

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct VariableRecord {
    pub(super) name: Range,
    pub(super) kind: u16,
    /// Bytes of a number, or which of several numbers.
    pub(super) bytes: u16,
    pub(super) of: u32,
    pub(super) queue: u16,
    pub(super) reserved: u16,
}

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct CodeRecord {
    pub(super) name: Range,
    pub(super) bytes: Range,
    pub(super) device: u16,
    pub(super) reserved: u16,
    pub(super) align: u32,
    pub(super) sha256: [u8; 32],
}

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct BufferRecord {
    pub(super) name: Range,
    pub(super) contents: Range,
    pub(super) bytes: u64,
    pub(super) align: u32,
    pub(super) device: u16,
    pub(super) role: u16,
}

const _: () = assert!(
    size_of::<Header>() == 24 + 32 + 16 * SECTIONS
        && core::mem::offset_of!(Header, reserved_too) == UNCHECKED
        && size_of::<TargetRecord>() == 24
        && size_of::<VariableRecord>() == 20
        && size_of::<CodeRecord>() == 56
        && size_of::<BufferRecord>() == 32
);

const CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);

/// The checksum of an image's bytes: CRC-32 (ISO-HDLC, as in zip) of all bytes from the 20th on.
pub(super) fn checksum(image: &[u8]) -> u32 {
    CRC.checksum(image.get(UNCHECKED..).unwrap_or_default())
}
