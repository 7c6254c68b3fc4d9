//! Whether the GPU is on.

use std::time::{Duration, Instant};

/// Turns that waking takes at most.
const WAKE: u32 = 16;

/// Whether the GPU is on.
#[derive(Debug)]
pub(super) struct Power {
    awake: bool,
    /// Turns that waking takes yet.
    waking: u32,
    /// When it last did something.
    since: Instant,
    /// Somebody keeps it on.
    pub(super) kept: bool,
    /// It had nothing to do since it last looked.
    idle: bool,
}

impl Default for Power {
    fn default() -> Self {
        Self {
            awake: false,
            waking: 0,
            since: Instant::now(),
            kept: false,
            idle: true,
        }
    }
}

impl Power {
    /// There is something to do. Whether the GPU has lost what it knew: it slept, or only dozed.
    pub(super) fn begin(&mut self, idle_ms: u32, random: &mut fastrand::Rng) -> bool {
        if !self.idle {
            return false;
        }
        let limit = Duration::from_millis(idle_ms.into());
        if self.awake && !self.kept && self.since.elapsed() > limit {
            self.awake = false;
        }
        let collapsed = !self.awake || random.bool();
        if !self.awake {
            self.waking = random.u32(1..=WAKE);
        }
        self.idle = false;
        collapsed
    }

    /// A turn of waking; whether the GPU is awake.
    pub(super) fn is_awake(&mut self) -> bool {
        if let Some(left) = self.waking.checked_sub(1) {
            self.waking = left;
            return false;
        }
        self.awake = true;
        true
    }

    /// There is nothing to do.
    pub(super) fn rest(&mut self) {
        if !self.idle {
            self.idle = true;
            self.since = Instant::now();
        }
    }
}
