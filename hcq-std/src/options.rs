//! How a device is opened.

use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::seam::{Linux, System};

/// How a device is opened. The defaults suit programs that run large kernels.
///
/// ```
/// use hcq_std::{Device, Options};
/// let options = Options::default().compute_queues(1).helper_threads(0);
/// let device = Device::open_with("cpu", &options)?;
/// assert_eq!(device.queue_counts(), (1, 1));
/// # Ok::<(), hcq_std::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Compute queues, 1 to 64. A GPU whose queues are taken by others has fewer, at least one;
    /// [`Device::queue_counts`](crate::Device::queue_counts) says how many.
    pub compute_queues: usize,
    /// Copy queues, 0 to 64. A GPU without free copy engines has fewer, or none.
    pub copy_queues: usize,
    /// CPU device: threads that take work-groups from queues' launches, besides one thread per queue; at most 1024.
    /// Default: processors minus one, since a queue's own thread runs groups too.
    pub helper_threads: usize,
    /// Entries of each queue's ring, 16 to 2^24. Longer recordings are launched by reference, or in parts.
    ///
    /// On GPUs an entry stands for 64 bytes of ring: a packet of AQL queues, 16 words of the others. Rings are rounded up to
    /// a power of two and to whole pages.
    pub ring_packets: usize,
    /// Bytes that each recording starts with for argument blocks and staging, 256 to 2^30.
    pub arena_bytes: usize,
    /// CPU device: most bytes of group-local memory of a launch, at most 2^30.
    pub local_memory_bytes: usize,
    /// Points of a timeline epoch, as a logarithm; `None` for the most that the engine can count. Small in tests.
    pub timeline_span_log2: Option<u32>,
    /// Milliseconds without progress after which waits give up; `None` for the environment's `HCQDEV_WAIT_TIMEOUT_MS`,
    /// or 30000.
    pub wait_timeout_ms: Option<u64>,
    /// How long idle workers and waiting hosts spin before they sleep.
    pub spin: Duration,
    /// Who answers system calls.
    pub system: Arc<dyn System>,
}

impl Default for Options {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        Self {
            compute_queues: 2,
            copy_queues: 1,
            helper_threads: processors - 1,
            ring_packets: 8192,
            arena_bytes: 256 << 10,
            local_memory_bytes: 1 << 20,
            timeline_span_log2: None,
            wait_timeout_ms: None,
            spin: Duration::from_micros(20),
            system: Arc::new(Linux),
        }
    }
}

impl Options {
    /// Sets [`compute_queues`](Self#structfield.compute_queues).
    pub fn compute_queues(mut self, n: usize) -> Self {
        self.compute_queues = n;
        self
    }

    /// Sets [`copy_queues`](Self#structfield.copy_queues).
    pub fn copy_queues(mut self, n: usize) -> Self {
        self.copy_queues = n;
        self
    }

    /// Sets [`helper_threads`](Self#structfield.helper_threads).
    pub fn helper_threads(mut self, n: usize) -> Self {
        self.helper_threads = n;
        self
    }

    /// Sets [`ring_packets`](Self#structfield.ring_packets).
    pub fn ring_packets(mut self, n: usize) -> Self {
        self.ring_packets = n;
        self
    }

    /// Sets [`arena_bytes`](Self#structfield.arena_bytes).
    pub fn arena_bytes(mut self, n: usize) -> Self {
        self.arena_bytes = n;
        self
    }

    /// Sets [`local_memory_bytes`](Self#structfield.local_memory_bytes).
    pub fn local_memory_bytes(mut self, n: usize) -> Self {
        self.local_memory_bytes = n;
        self
    }

    /// Sets [`timeline_span_log2`](Self#structfield.timeline_span_log2).
    pub fn timeline_span_log2(mut self, log2: u32) -> Self {
        self.timeline_span_log2 = Some(log2);
        self
    }

    /// Sets [`wait_timeout_ms`](Self#structfield.wait_timeout_ms).
    pub fn wait_timeout_ms(mut self, ms: u64) -> Self {
        self.wait_timeout_ms = Some(ms);
        self
    }

    /// Sets [`spin`](Self#structfield.spin).
    pub fn spin(mut self, time: Duration) -> Self {
        self.spin = time;
        self
    }

    /// Sets [`system`](Self#structfield.system).
    pub fn system(mut self, system: Arc<dyn System>) -> Self {
        self.system = system;
        self
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let limits = [
            ("compute_queues", self.compute_queues, 1..=64, "1 to 64"),
            ("copy_queues", self.copy_queues, 0..=64, "0 to 64"),
            ("helper_threads", self.helper_threads, 0..=1024, "0 to 1024"),
            (
                "ring_packets",
                self.ring_packets,
                16..=1 << 24,
                "16 to 2^24",
            ),
            (
                "arena_bytes",
                self.arena_bytes,
                256..=1 << 30,
                "256 to 2^30",
            ),
            (
                "local_memory_bytes",
                self.local_memory_bytes,
                0..=1 << 30,
                "0 to 2^30",
            ),
        ];
        for (option, value, range, wanted) in limits {
            if !range.contains(&value) {
                return Err(Error::Option {
                    option,
                    value: value as u64,
                    wanted,
                });
            }
        }
        if let Some(log2) = self.timeline_span_log2.filter(|n| !(2..=62).contains(n)) {
            return Err(Error::Option {
                option: "timeline_span_log2",
                value: log2.into(),
                wanted: "2 to 62",
            });
        }
        Ok(())
    }
}
