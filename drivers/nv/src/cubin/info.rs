//! Attributes of a file and of its kernels: `.nv.info` and `.nv.info.<kernel>`.

use super::LoadError;

/// Identifiers, `EIATTR_*`.
pub(super) mod id {
    pub(crate) const MAX_THREADS: u8 = 0x05;
    pub(crate) const PARAM_CBANK: u8 = 0x0a;
    pub(crate) const REQNTID: u8 = 0x10;
    pub(crate) const FRAME_SIZE: u8 = 0x11;
    pub(crate) const MIN_STACK_SIZE: u8 = 0x12;
    pub(crate) const KPARAM_INFO: u8 = 0x17;
    pub(crate) const CBANK_PARAM_SIZE: u8 = 0x19;
    pub(crate) const REGCOUNT: u8 = 0x2f;
    pub(crate) const KPARAM_INFO_V2: u8 = 0x45;
    pub(crate) const NUM_BARRIERS: u8 = 0x4c;
}

/// What an attribute holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents<'d> {
    /// 16 bits in place; formats 1 to 3.
    Value(u16),
    /// Bytes; format 4.
    Bytes(&'d [u8]),
}

/// An attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attribute<'d> {
    pub(super) id: u8,
    pub(super) contents: Contents<'d>,
}

impl Attribute<'_> {
    /// Word `index` of its bytes.
    pub(super) fn word(&self, index: usize) -> Option<u32> {
        let Contents::Bytes(bytes) = self.contents else {
            return None;
        };
        let at = index.checked_mul(4)?;
        let word = bytes.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*word))
    }

    /// Its three words, for sizes in three dimensions.
    pub(super) fn three(&self) -> Option<[u32; 3]> {
        Some([self.word(0)?, self.word(1)?, self.word(2)?])
    }

    /// Its value, for attributes that are one.
    pub(super) fn value(&self) -> Option<u32> {
        match self.contents {
            Contents::Value(v) => Some(v.into()),
            Contents::Bytes(_) => self.word(0),
        }
    }
}

/// The attributes of a section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes<'d> {
    rest: &'d [u8],
}

impl<'d> Attributes<'d> {
    pub(super) const fn new(section: &'d [u8]) -> Self {
        Self { rest: section }
    }

    /// The first one of this identifier.
    pub(super) fn find(self, id: u8) -> Result<Option<Attribute<'d>>, LoadError> {
        for attribute in self {
            let attribute = attribute?;
            if attribute.id == id {
                return Ok(Some(attribute));
            }
        }
        Ok(None)
    }

    /// The second word of the attribute whose first word is one of these symbols.
    pub(super) fn of_symbol(
        self,
        id: u8,
        is_one: impl Fn(u32) -> bool,
    ) -> Result<Option<u32>, LoadError> {
        for attribute in self {
            let attribute = attribute?;
            if attribute.id == id && attribute.word(0).is_some_and(&is_one) {
                return attribute.word(1).ok_or(LoadError::Info).map(Some);
            }
        }
        Ok(None)
    }
}

impl<'d> Iterator for Attributes<'d> {
    type Item = Result<Attribute<'d>, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Some((&[format, id, low, high], rest)) = self.rest.split_first_chunk::<4>() else {
            self.rest = &[];
            return Some(Err(LoadError::Info));
        };
        let value = u16::from_le_bytes([low, high]);
        let contents = match format {
            1..=3 => {
                self.rest = rest;
                Contents::Value(value)
            }
            4 => match rest.split_at_checked(value.into()) {
                Some((bytes, rest)) => {
                    self.rest = rest;
                    Contents::Bytes(bytes)
                }
                None => {
                    self.rest = &[];
                    return Some(Err(LoadError::Info));
                }
            },
            _ => {
                self.rest = &[];
                return Some(Err(LoadError::Info));
            }
        };
        Some(Ok(Attribute { id, contents }))
    }
}
