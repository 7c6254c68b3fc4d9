//! When each task of each launch ran.

/// A task that was timed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedTask {
    /// Its name.
    pub name: String,
    /// What it runs: the kernel's name, or `copy`. Tasks alike look alike.
    pub what: String,
    /// Whether it is a copy.
    pub is_copy: bool,
    /// Index of its queue in [`Profile::queues`].
    pub queue: usize,
    /// Bytes that it moves.
    pub bytes: u64,
    /// Earlier tasks that it follows from.
    pub depends_on: Vec<usize>,
}

/// Start and end of one task in nanoseconds of the device's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// It began.
    pub start: u64,
    /// It had ended.
    pub end: u64,
}

impl Span {
    /// How long it took.
    pub fn duration(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// One launch of all tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchTimes {
    /// The host began to submit, in nanoseconds of the device's clock.
    pub submit: u64,
    /// What the host spent on submitting, in nanoseconds.
    pub host: u64,
    /// Each task, in the order of [`Profile::tasks`].
    pub spans: Vec<Span>,
}

impl LaunchTimes {
    /// From the submission to the end of the last task.
    pub fn total(&self) -> u64 {
        self.spans
            .iter()
            .map(|s| s.end)
            .max()
            .unwrap_or(self.submit)
            .saturating_sub(self.submit)
    }
}

/// All that was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The device.
    pub device: String,
    /// Names of the queues.
    pub queues: Vec<String>,
    /// The tasks.
    pub tasks: Vec<TimedTask>,
    /// The launches that are kept, in order; the last one is the last that ran.
    pub launches: Vec<LaunchTimes>,
    /// How many launches ran.
    pub launched: u64,
}

/// The median of `values`; the lower one of two. 0 if there are none.
pub fn median(mut values: Vec<u64>) -> u64 {
    let middle = values.len().saturating_sub(1) / 2;
    if values.is_empty() {
        return 0;
    }
    *values.select_nth_unstable(middle).1
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), 0);
        assert_eq!(median(vec![7]), 7);
        assert_eq!(median(vec![9, 1, 5]), 5);
        assert_eq!(median(vec![9, 1, 5, 6]), 5);
    }
}
