//! The C baselines of `baseline/`.

use std::time::Duration;

/// One store of the bare loop.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Site {
    /// Bytes from the base.
    pub offset: u32,
    /// Which input.
    pub slot: u32,
}

#[cfg(have_baselines)]
mod c {
    use super::Site;
    use std::ffi::c_int;

    #[repr(C)]
    pub(super) struct Queue {
        _opaque: [u8; 0],
    }

    unsafe extern "C" {
        pub(super) fn hcq_baseline_stores(
            base: *mut u8,
            sites: *const Site,
            n: usize,
            inputs: *const u64,
        );
        pub(super) fn hcq_baseline_queue_start(spin_ns: u64) -> *mut Queue;
        pub(super) fn hcq_baseline_queue_run(q: *mut Queue, n: c_int);
        pub(super) fn hcq_baseline_queue_result() -> *const [f32; 64];
        pub(super) fn hcq_baseline_queue_stop(q: *mut Queue);
    }
}

/// Whether a C compiler was there when this was built.
pub const AVAILABLE: bool = cfg!(have_baselines);

/// Stores `inputs[site.slot]` at `memory + site.offset` for each site. Does nothing without the baselines.
///
/// # Panics
/// If a site is outside the memory or the inputs.
pub fn stores(memory: &mut [u64], sites: &[Site], inputs: &[u64]) {
    let bytes = size_of_val(memory);
    assert!(
        sites
            .iter()
            .all(|s| s.offset as usize + 8 <= bytes && (s.slot as usize) < inputs.len())
    );
    stores_unchecked(memory, sites, inputs);
}

/// [`stores`] as it is measured: the sites were checked by a call of that before.
#[inline]
pub fn stores_unchecked(memory: &mut [u64], sites: &[Site], inputs: &[u64]) {
    #[cfg(have_baselines)]
    // SAFETY: every site was checked to be inside by a call of `stores` with the same slices.
    unsafe {
        c::hcq_baseline_stores(
            memory.as_mut_ptr().cast(),
            sites.as_ptr(),
            sites.len(),
            inputs.as_ptr(),
        );
    }
    #[cfg(not(have_baselines))]
    let _ = (memory, sites, inputs);
}

/// The bare command ring with one worker.
#[derive(Debug)]
pub struct Queue {
    #[cfg(have_baselines)]
    queue: std::ptr::NonNull<c::Queue>,
}

impl Queue {
    /// Starts the worker; it looks for work this long before it sleeps. `None` if it cannot be had.
    pub fn start(spin: Duration) -> Option<Self> {
        #[cfg(have_baselines)]
        {
            let spin_ns = u64::try_from(spin.as_nanos()).unwrap_or(u64::MAX);
            // SAFETY: no preconditions.
            let queue = unsafe { c::hcq_baseline_queue_start(spin_ns) };
            std::ptr::NonNull::new(queue).map(|queue| Self { queue })
        }
        #[cfg(not(have_baselines))]
        {
            let _ = spin;
            None
        }
    }

    /// Runs `n` tiny commands, at most 16,384, and waits for them.
    pub fn run(&mut self, n: u16) {
        #[cfg(have_baselines)]
        // SAFETY: the queue is alive, and `&mut` makes this the only submitter.
        unsafe {
            c::hcq_baseline_queue_run(self.queue.as_ptr(), n.min(16_384).into());
        }
        #[cfg(not(have_baselines))]
        let _ = n;
    }

    /// What the commands have stored, when none is running.
    pub fn result(&mut self) -> [f32; 64] {
        #[cfg(have_baselines)]
        {
            // SAFETY: no preconditions.
            let result = unsafe { c::hcq_baseline_queue_result() };
            // SAFETY: a static array; `run` has waited for its commands.
            unsafe { *result }
        }
        #[cfg(not(have_baselines))]
        [0.0; 64]
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        #[cfg(have_baselines)]
        // SAFETY: the queue is alive and not used again.
        unsafe {
            c::hcq_baseline_queue_stop(self.queue.as_ptr());
        }
    }
}
