//! Layouts of pointers and 64-bit numbers, which most programs have.

use super::{Arg, ArgKind, ArgLayout};
use crate::patch::PatchList;
use crate::record::{Block, RecordError};
use crate::value::Value;

/// A layout, and whether it takes the short way: 64-bit arguments without gaps, as pointers are. What can be found out of a
/// program's layout once is found out here, and not at each launch.
///
/// ```
/// use hcq_nostd::args::{Arg, ArgLayout, ArgSlot, PreparedLayout};
/// use hcq_nostd::mem::Region;
/// use hcq_nostd::patch::{PatchList, RegionId};
/// use hcq_nostd::record::Block;
///
/// let slots = [ArgSlot::buffer(0), ArgSlot::buffer(8)];
/// let layout = PreparedLayout::new(ArgLayout { slots: &slots, size: 16, align: 8 });
/// let mut memory = [0u64; 2];
/// let mut region = Region::from_words(&mut memory, 0x1000);
/// let mut block = Block::new(&mut region, RegionId(1), 0, 16)?;
/// layout.write(&[0x8000u64, 0x9000].map(|a| Arg::Buffer(a.into())), &mut block, &mut PatchList::none())?;
/// assert_eq!(memory, [0x8000, 0x9000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PreparedLayout<'p> {
    layout: ArgLayout<'p>,
    short: bool,
    /// Byte offset of the first argument of the short way.
    first: usize,
    /// Which of them are numbers: bits, from the first one on.
    scalars: u64,
}

impl<'p> PreparedLayout<'p> {
    /// Looks at a layout once.
    pub fn new(layout: ArgLayout<'p>) -> Self {
        let first = layout.slots.first().map_or(0, |slot| slot.offset);
        let mut scalars = 0;
        let mut places = (0u32..).zip(layout.slots);
        let short = places.all(|(n, slot)| {
            let scalar = matches!(slot.kind, ArgKind::Scalar);
            let known = scalar || matches!(slot.kind, ArgKind::Buffer | ArgKind::ConstBuffer);
            let bit = 1u64.checked_shl(n);
            scalars |= bit.filter(|_| scalar).unwrap_or(0);
            let at = n.checked_mul(8).and_then(|at| first.checked_add(at));
            known && at == Some(slot.offset) && slot.size == 8 && bit.is_some()
        });
        Self {
            layout,
            short,
            first: first as usize,
            scalars,
        }
    }

    /// The layout.
    pub const fn layout(&self) -> &ArgLayout<'p> {
        &self.layout
    }

    /// Does what [`ArgLayout::write`] does.
    ///
    /// # Errors
    /// As for [`ArgLayout::write`].
    #[inline]
    pub fn write(
        &self,
        args: &[Arg<'_>],
        block: &mut Block<'_, '_>,
        list: &mut PatchList<'_>,
    ) -> Result<(), RecordError> {
        if self.short
            && args.len() == self.layout.slots.len()
            && self.layout.size as usize <= block.len()
        {
            let (mut at, mut scalars) = (self.first, self.scalars);
            let written = args.iter().all(|arg| {
                let Some(value) = known(arg, scalars & 1) else {
                    return false;
                };
                let stored = block.write(at, &value.to_le_bytes()).is_ok();
                at = at.wrapping_add(8);
                scalars >>= 1;
                stored
            });
            if written {
                return Ok(());
            }
        }
        // Variables, other sizes, and everything that is wrong.
        self.layout.write(args, block, list)
    }
}

/// A 64-bit argument, if it is known now and of its slot's kind.
#[inline]
fn known(arg: &Arg<'_>, scalar: u64) -> Option<u64> {
    match arg {
        Arg::Buffer(Value::Imm(v)) if scalar == 0 => Some(*v),
        Arg::Scalar {
            value: Value::Imm(v),
            size: 8,
        } if scalar != 0 => Some(*v),
        _ => None,
    }
}
