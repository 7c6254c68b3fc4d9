//! The host's clocks, and the GPUs' that follow them.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of one tick of a GPU's reference clock: 100 MHz on the chips here.
const TICK_NS: u64 = 10;

fn ns(clock: ClockId) -> u64 {
    // Every Linux has these clocks; without them time stands still.
    let Ok(time) = clock_gettime(clock) else {
        return 0;
    };
    let (seconds, rest) = (u64::try_from(time.tv_sec()), u64::try_from(time.tv_nsec()));
    seconds
        .unwrap_or(0)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(rest.unwrap_or(0))
}

/// `CLOCK_MONOTONIC`, nanoseconds.
pub(crate) fn now_ns() -> u64 {
    ns(ClockId::CLOCK_MONOTONIC)
}

/// `CLOCK_MONOTONIC_RAW`, nanoseconds.
pub(crate) fn raw_ns() -> u64 {
    ns(ClockId::CLOCK_MONOTONIC_RAW)
}

/// `CLOCK_REALTIME`, microseconds.
pub(crate) fn real_us() -> u64 {
    ns(ClockId::CLOCK_REALTIME) / 1000
}

/// `CLOCK_BOOTTIME`, nanoseconds.
pub(crate) fn boot_ns() -> u64 {
    ns(ClockId::CLOCK_BOOTTIME)
}

/// `CLOCK_REALTIME`, nanoseconds.
pub(crate) fn real_ns() -> u64 {
    ns(ClockId::CLOCK_REALTIME)
}

/// The GPUs' reference clock, ticks.
pub(crate) fn gpu_ticks() -> u64 {
    raw_ns() / TICK_NS
}
