//! Descriptors read back, field by field.

use super::{Layout, Row};
use crate::malformed::Malformed;

/// A field of a descriptor and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldValue {
    /// The field.
    pub row: &'static Row,
    /// Which one, of a field that is there several times.
    pub index: u8,
    /// Its bits.
    pub value: u32,
}

impl FieldValue {
    /// Its lowest bit.
    pub const fn low(&self) -> usize {
        self.row.low as usize + self.index as usize * self.row.stride as usize
    }
}

impl core::fmt::Display for FieldValue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.row.count {
            1 => write!(f, "{}={:#x}", self.row.name, self.value),
            _ => write!(f, "{}[{}]={:#x}", self.row.name, self.index, self.value),
        }
    }
}

/// A descriptor's words with the names of their fields.
///
/// ```
/// use hcq_nv::qmd::{Fields, V3_0};
/// let mut words = [0u32; 64];
/// (words[12], words[18]) = (7, 0x30);
/// assert_eq!(Fields::new(&V3_0, &words)?.to_string(), "CTA_RASTER_WIDTH=0x7 QMD_MAJOR_VERSION=0x3");
/// # Ok::<(), hcq_nv::malformed::Malformed>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fields<'w> {
    layout: &'static Layout,
    words: &'w [u32],
}

/// Bits of a word that no field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unnamed {
    /// Index of the word.
    pub word: usize,
    /// The bits, in place.
    pub bits: u32,
}

impl<'w> Fields<'w> {
    /// The words of a descriptor of this version; more are left alone.
    ///
    /// # Errors
    /// [`Malformed::Truncated`].
    pub fn new(layout: &'static Layout, words: &'w [u32]) -> Result<Self, Malformed> {
        let (need, have) = (layout.words, words.len());
        let words = words
            .get(..need)
            .ok_or(Malformed::Truncated { need, have })?;
        Ok(Self { layout, words })
    }

    /// Every field that is not zero, by lowest bit.
    pub fn set(self) -> impl Iterator<Item = FieldValue> + 'w {
        self.all().filter(|f| f.value != 0)
    }

    /// Every field.
    pub fn all(self) -> impl Iterator<Item = FieldValue> + 'w {
        let each = |row: &'static Row| (0..row.count).map(move |index| (row, index));
        self.layout.rows.iter().flat_map(each).map(move |at| {
            let (row, index) = at;
            let mut field = FieldValue {
                row,
                index,
                value: 0,
            };
            field.value = self.bits(field.low(), row.width);
            field
        })
    }

    /// The field of this name; its first one if there are several.
    pub fn get(self, name: &str) -> Option<u32> {
        self.nth(name, 0)
    }

    /// Field `index` of this name.
    pub fn nth(self, name: &str, index: u8) -> Option<u32> {
        let row = self.layout.rows.iter().find(|row| row.name == name)?;
        let low = usize::from(row.low) + usize::from(index) * usize::from(row.stride);
        (index < row.count).then(|| self.bits(low, row.width))
    }

    /// Words with bits that no field of the table has.
    pub fn unnamed(self) -> impl Iterator<Item = Unnamed> + 'w {
        self.words.iter().enumerate().filter_map(move |(word, v)| {
            let of_word = self.all().filter(|f| f.low() / 32 == word);
            let named = of_word.fold(0, |all, f| all | mask(f.row.width) << (f.low() % 32));
            let bits = v & !named;
            (bits != 0).then_some(Unnamed { word, bits })
        })
    }

    /// `width` bits from bit `low` on; no field crosses a word.
    fn bits(self, low: usize, width: u8) -> u32 {
        let word = self.words.get(low / 32).copied().unwrap_or_default();
        word >> (low % 32) & mask(width)
    }
}

/// `width` ones, at most 32.
const fn mask(width: u8) -> u32 {
    match 1u32.checked_shl(width as u32) {
        Some(above) => above - 1,
        None => u32::MAX,
    }
}

/// One line, with the fields that are not zero.
impl core::fmt::Display for Fields<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut space = "";
        for field in self.set() {
            write!(f, "{space}{field}")?;
            space = " ";
        }
        for Unnamed { word, bits } in self.unnamed() {
            write!(f, "{space}??[{word}]={bits:#x}")?;
            space = " ";
        }
        Ok(())
    }
}
