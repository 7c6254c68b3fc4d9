//! Semaphores, as the host engine, the compute engine and the copy engine write them.
//!
//! Layout and order are those of `SEM_EXECUTE` in `dev_pbdma.ref.txt` (GA100): a semaphore of four words is a payload of 64 bits
//! (its upper half 0 if the payload has 32) and, 8 bytes on, the time in nanoseconds, which is written first.

use crate::cache::host;
use crate::engine::Cause;
use crate::vm::AddressSpace;

/// What is done to the value in memory (`NV_UDMA_SEM_EXECUTE_REDUCTION_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduction {
    Min,
    Max,
    Xor,
    And,
    Or,
    Add,
    /// Up to the payload, then 0.
    Inc,
    /// Down to 0, then the payload.
    Dec,
}

impl Reduction {
    /// By the number of the host's and the copy engine's methods (`*_IMIN` is 0).
    pub(super) fn of_host(number: u32) -> Option<Self> {
        use Reduction::{Add, And, Dec, Inc, Max, Min, Or, Xor};
        let all = [Min, Max, Xor, And, Or, Add, Inc, Dec];
        all.get(number as usize).copied()
    }

    /// By the number of the compute engine's methods and of QMDs (`*_RED_ADD` is 0).
    pub(super) fn of_compute(number: u32) -> Option<Self> {
        use Reduction::{Add, And, Dec, Inc, Max, Min, Or, Xor};
        let all = [Add, Min, Max, Inc, Dec, And, Or, Xor];
        all.get(number as usize).copied()
    }

    /// Whether the memory does this for operands of this size and sign (the table in `dev_pbdma.ref.txt`).
    pub(super) fn supported(self, wide: bool, signed: bool) -> bool {
        match self {
            Self::Inc | Self::Dec => !wide && !signed,
            Self::Add => !(wide && signed),
            Self::Min | Self::Max | Self::Xor | Self::And | Self::Or => true,
        }
    }

    fn apply(self, value: u64, payload: u64, wide: bool, signed: bool) -> u64 {
        let order = |x: u64| match (signed, wide) {
            (false, _) => x,
            // Moves the negative half below the other.
            (true, true) => x ^ 1 << 63,
            (true, false) => u64::from(x as u32 ^ 1 << 31),
        };
        match self {
            Self::Min if order(value) < order(payload) => value,
            Self::Max if order(value) > order(payload) => value,
            Self::Min | Self::Max => payload,
            Self::Xor => value ^ payload,
            Self::And => value & payload,
            Self::Or => value | payload,
            Self::Add => value.wrapping_add(payload),
            Self::Inc if value >= payload => 0,
            Self::Inc => value.wrapping_add(1),
            Self::Dec if value == 0 || value > payload => payload,
            Self::Dec => value.wrapping_sub(1),
        }
    }
}

/// A write to a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Release {
    /// GPU address.
    pub(super) address: u64,
    /// Of which the lower 32 bits count if not `wide`.
    pub(super) payload: u64,
    /// A value of 64 bits, not 32.
    pub(super) wide: bool,
    /// Four words, the time among them.
    pub(super) timestamp: bool,
    /// How the value in memory takes part, and whether it is signed.
    pub(super) reduction: Option<(Reduction, bool)>,
}

impl Release {
    /// The alignment that its size asks for.
    fn alignment(&self) -> u64 {
        match (self.timestamp, self.wide) {
            (true, _) => 16,
            (false, true) => 8,
            (false, false) => 4,
        }
    }

    /// Whether memory can do it.
    ///
    /// # Errors
    /// [`Cause::Packet`]: misaligned, or a reduction that there is not.
    pub(super) fn check(&self) -> Result<(), Cause> {
        let align = self.alignment();
        if !self.address.is_multiple_of(align) {
            return Err(Cause::Packet(format!(
                "the semaphore at {:#x} is not aligned to its {align} bytes",
                self.address
            )));
        }
        if let Some((reduction, signed)) = self.reduction
            && !reduction.supported(self.wide, signed)
        {
            let bits = if self.wide { 64 } else { 32 };
            let sign = if signed { "signed" } else { "unsigned" };
            return Err(Cause::Packet(format!(
                "memory has no {sign} reduction {reduction:?} of {bits} bits"
            )));
        }
        Ok(())
    }

    /// Writes it; `time` in nanoseconds.
    ///
    /// # Errors
    /// Those of [`check`](Self::check), and [`Cause::Memory`].
    pub(super) fn write(&self, vm: &dyn AddressSpace, time: u64) -> Result<(), Cause> {
        self.check()?;
        if self.timestamp {
            host::write(vm, self.address.wrapping_add(8), &time.to_le_bytes())?;
        }
        let payload = if self.wide {
            self.payload
        } else {
            self.payload & u64::from(u32::MAX)
        };
        if let Some((reduction, signed)) = self.reduction {
            host::update(vm, self.address, self.wide, |value| {
                reduction.apply(value, payload, self.wide, signed)
            })?;
        } else if self.wide || self.timestamp {
            host::write(vm, self.address, &payload.to_le_bytes())?;
        } else {
            host::write(vm, self.address, &(payload as u32).to_le_bytes())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_follow_the_table() {
        use Reduction::*;
        let all = [
            // value, payload, wide, signed, result
            (Min, 5, 9, false, false, 5),
            (Min, 0xFFFF_FFFF, 1, false, false, 1),
            (Min, 0xFFFF_FFFF, 1, false, true, 0xFFFF_FFFF),
            (Max, u64::MAX, 1, true, true, 1),
            (Max, u64::MAX, 1, true, false, u64::MAX),
            (Xor, 6, 3, false, false, 5),
            (And, 6, 3, false, false, 2),
            (Or, 6, 3, false, false, 7),
            (Add, 6, 3, false, false, 9),
            (Inc, 2, 3, false, false, 3),
            (Inc, 3, 3, false, false, 0),
            (Inc, 9, 3, false, false, 0),
            (Dec, 0, 3, false, false, 3),
            (Dec, 4, 3, false, false, 3),
            (Dec, 3, 3, false, false, 2),
        ];
        for (op, value, payload, wide, signed, result) in all {
            assert_eq!(
                op.apply(value, payload, wide, signed),
                result,
                "{op:?} {value:#x} {payload:#x}"
            );
        }
        assert!(!Add.supported(true, true) && Add.supported(true, false));
        assert!(!Inc.supported(true, false) && !Dec.supported(false, true));
    }

    #[test]
    fn numbers_are_those_of_the_headers() {
        assert_eq!(Reduction::of_host(5), Some(Reduction::Add));
        assert_eq!(Reduction::of_host(7), Some(Reduction::Dec));
        assert_eq!(Reduction::of_host(8), None);
        assert_eq!(Reduction::of_compute(0), Some(Reduction::Add));
        assert_eq!(Reduction::of_compute(7), Some(Reduction::Xor));
    }
}
