//! Operands as text.

use hcq_nostd::value::Value;

/// A value as text: a number, or the variable that it is made of.
pub(crate) struct Text(pub(crate) Value);

impl core::fmt::Display for Text {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Value::Imm(v) => write!(f, "{v:#x}"),
            Value::Var(of) => {
                write!(f, "v{}", of.var.index())?;
                if of.scale != 1 {
                    write!(f, "*{:#x}", of.scale)?;
                }
                if of.add != 0 {
                    write!(f, "+{:#x}", of.add)?;
                }
                Ok(())
            }
        }
    }
}
