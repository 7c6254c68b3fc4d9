//! Packets of type 4: write registers that follow each other.

use hcq_nostd::record::{Command, Operand, RecordError};

use super::header::{Header, Kind, MAX_REGISTERS, REGISTER, type4};
use super::table::REGISTERS;
use crate::malformed::Malformed;

/// A register that this driver has a name for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// Its number.
    pub address: u32,
    /// Its name in `a6xx.xml` of Linux 6.1.
    pub name: &'static str,
    /// 32-bit words: two for an address.
    pub words: u32,
    /// Name, lowest bit and width of its fields; none for one that is a number as a whole.
    pub fields: &'static [(&'static str, u8, u8)],
}

impl Register {
    /// The register that a number belongs to, and how many words it is behind the register's first.
    pub fn at(address: u32) -> Option<(&'static Self, u32)> {
        let next = REGISTERS.partition_point(|r| r.address <= address);
        let register = REGISTERS.get(next.checked_sub(1)?)?;
        let ahead = address.checked_sub(register.address)?;
        (ahead < register.words).then_some((register, ahead))
    }
}

/// Writes registers that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers<'v> {
    first: u32,
    values: &'v [u32],
}

impl<'v> Registers<'v> {
    /// Writes `values` to the registers from number `first` on.
    ///
    /// # Errors
    /// [`RecordError::Limit`] for no value, or a register whose number has more than 18 bits.
    pub const fn new(first: u32, values: &'v [u32]) -> Result<Self, RecordError> {
        let end = (first as u64).saturating_add(values.len() as u64);
        if values.is_empty() || end > REGISTER as u64 + 1 {
            return Err(RecordError::Limit {
                operand: Operand::Address,
                value: end,
                max: REGISTER as u64 + 1,
            });
        }
        Ok(Self { first, values })
    }

    /// Number of the first register.
    pub const fn first(&self) -> u32 {
        self.first
    }

    /// What is written.
    pub const fn values(&self) -> &'v [u32] {
        self.values
    }

    /// Appends the packet, or several: one for each [`MAX_REGISTERS`].
    pub fn record(&self, c: &mut Command<'_, '_>) {
        let mut register = self.first;
        for part in self.values.chunks(MAX_REGISTERS as usize) {
            // At most MAX_REGISTERS, and all numbers were found to fit.
            let count = part.len() as u32;
            c.word(type4(register, count));
            c.words(part);
            register = register.wrapping_add(count);
        }
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &'v [u32]) -> Result<Self, Malformed> {
        let word = *words
            .first()
            .ok_or(Malformed::Truncated { need: 2, have: 0 })?;
        let header = Header::parse(word)?;
        let Kind::Registers(first) = header.kind() else {
            return Err(Malformed::Header { word });
        };
        let need = header.count() as usize + 1;
        let values = words.get(1..need).ok_or(Malformed::Truncated {
            need,
            have: words.len(),
        })?;
        Self::new(first, values).map_err(|_| Malformed::Header { word })
    }
}

/// One register and its value: its name, and the names of its fields that are not zero.
fn write_one(f: &mut core::fmt::Formatter<'_>, address: u32, value: u32) -> core::fmt::Result {
    let Some((register, ahead)) = Register::at(address) else {
        return write!(f, "reg({address:#x})={value:#x}");
    };
    write!(f, "{}", register.name)?;
    if ahead != 0 {
        write!(f, "+{ahead}")?;
    }
    write!(f, "({address:#x})={value:#x}")?;
    let fields = register
        .fields
        .iter()
        .map(|&(name, shift, bits)| {
            let mask = u32::MAX.checked_shr(32 - u32::from(bits)).unwrap_or(0);
            (name, value.checked_shr(shift.into()).unwrap_or(0) & mask)
        })
        .filter(|(_, v)| *v != 0);
    let mut separator = "{";
    for (name, v) in fields {
        write!(f, "{separator}{name}={v:#x}")?;
        separator = " ";
    }
    if separator == " " {
        f.write_str("}")?;
    }
    Ok(())
}

impl core::fmt::Display for Registers<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("PKT4")?;
        for (address, value) in (self.first..).zip(self.values) {
            f.write_str(" ")?;
            write_one(f, address, *value)?;
        }
        Ok(())
    }
}
