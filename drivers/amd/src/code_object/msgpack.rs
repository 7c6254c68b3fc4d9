//! MessagePack, as far as metadata need it: no recursion, and nothing is copied.

use messagepack_core::Format;
use messagepack_core::decode::{DecodeBorrowed, NbyteReader};
use messagepack_core::io::{IoRead, Reference, SliceReader};

use super::LoadError;

const MALFORMED: LoadError = LoadError::Metadata;

/// Reads values one after the other.
pub(super) struct Reader<'d>(SliceReader<'d>);

impl<'d> Reader<'d> {
    pub(super) fn new(bytes: &'d [u8]) -> Self {
        Self(SliceReader::new(bytes))
    }

    fn format(&mut self) -> Result<Format, LoadError> {
        Format::decode_borrowed(&mut self.0).map_err(|_| MALFORMED)
    }

    fn length<const BYTES: usize>(&mut self) -> Result<usize, LoadError> {
        let read = match BYTES {
            1 => NbyteReader::<1>::read(&mut self.0),
            2 => NbyteReader::<2>::read(&mut self.0),
            _ => NbyteReader::<4>::read(&mut self.0),
        };
        read.map_err(|_| MALFORMED)
    }

    fn bytes(&mut self, len: usize) -> Result<&'d [u8], LoadError> {
        match self.0.read_slice(len) {
            Ok(Reference::Borrowed(bytes)) => Ok(bytes),
            _ => Err(MALFORMED),
        }
    }

    /// Number of entries of the map that starts here.
    pub(super) fn map(&mut self) -> Result<usize, LoadError> {
        match self.format()? {
            Format::FixMap(n) => Ok(n.into()),
            Format::Map16 => self.length::<2>(),
            Format::Map32 => self.length::<4>(),
            _ => Err(MALFORMED),
        }
    }

    /// Number of values of the array that starts here.
    pub(super) fn array(&mut self) -> Result<usize, LoadError> {
        match self.format()? {
            Format::FixArray(n) => Ok(n.into()),
            Format::Array16 => self.length::<2>(),
            Format::Array32 => self.length::<4>(),
            _ => Err(MALFORMED),
        }
    }

    pub(super) fn str(&mut self) -> Result<&'d str, LoadError> {
        let format = self.format()?;
        <&str>::decode_borrowed_with_format(format, &mut self.0).map_err(|_| MALFORMED)
    }

    pub(super) fn uint(&mut self) -> Result<u64, LoadError> {
        match self.format()? {
            Format::PositiveFixInt(n) => Ok(n.into()),
            Format::Uint8 => Ok(self.length::<1>()? as u64),
            Format::Uint16 => Ok(self.length::<2>()? as u64),
            Format::Uint32 => Ok(self.length::<4>()? as u64),
            wide => u64::decode_borrowed_with_format(wide, &mut self.0).map_err(|_| MALFORMED),
        }
    }

    pub(super) fn bool(&mut self) -> Result<bool, LoadError> {
        let format = self.format()?;
        bool::decode_borrowed_with_format(format, &mut self.0).map_err(|_| MALFORMED)
    }

    /// Skips one value, however deep, and returns its bytes.
    pub(super) fn skip(&mut self) -> Result<&'d [u8], LoadError> {
        let before = self.0.rest();
        let mut pending = 1usize;
        while let Some(left) = pending.checked_sub(1) {
            let (values, bytes) = match self.format()? {
                Format::FixMap(n) => (2 * usize::from(n), 0),
                Format::Map16 => (self.length::<2>()?.saturating_mul(2), 0),
                Format::Map32 => (self.length::<4>()?.saturating_mul(2), 0),
                Format::FixArray(n) => (n.into(), 0),
                Format::Array16 => (self.length::<2>()?, 0),
                Format::Array32 => (self.length::<4>()?, 0),
                Format::FixStr(n) => (0, n.into()),
                Format::Str8 | Format::Bin8 => (0, self.length::<1>()?),
                Format::Str16 | Format::Bin16 => (0, self.length::<2>()?),
                Format::Str32 | Format::Bin32 => (0, self.length::<4>()?),
                // Extensions have a type in front of their data.
                Format::Ext8 => (0, self.length::<1>()?.saturating_add(1)),
                Format::Ext16 => (0, self.length::<2>()?.saturating_add(1)),
                Format::Ext32 => (0, self.length::<4>()?.saturating_add(1)),
                Format::FixExt1 => (0, 2),
                Format::FixExt2 => (0, 3),
                Format::FixExt4 => (0, 5),
                Format::FixExt8 => (0, 9),
                Format::FixExt16 => (0, 17),
                Format::Uint8 | Format::Int8 => (0, 1),
                Format::Uint16 | Format::Int16 => (0, 2),
                Format::Uint32 | Format::Int32 | Format::Float32 => (0, 4),
                Format::Uint64 | Format::Int64 | Format::Float64 => (0, 8),
                Format::PositiveFixInt(_)
                | Format::NegativeFixInt(_)
                | Format::Nil
                | Format::False
                | Format::True => (0, 0),
                Format::NeverUsed => return Err(MALFORMED),
            };
            self.bytes(bytes)?;
            // Each value has a byte of its own, so a count that the bytes cannot hold ends soon.
            pending = left.saturating_add(values);
        }
        let used = before.len().saturating_sub(self.0.rest().len());
        before.get(..used).ok_or(MALFORMED)
    }

    /// Calls `entry` for each key of the map that starts here; it reads or skips the value.
    pub(super) fn each(
        &mut self,
        mut entry: impl FnMut(&'d str, &mut Self) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        for _ in 0..self.map()? {
            let key = self.str()?;
            entry(key, self)?;
        }
        Ok(())
    }
}
