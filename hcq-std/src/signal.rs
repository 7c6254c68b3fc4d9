//! Signals: numbers that queues and hosts write, and wait for.
#![allow(unsafe_code, reason = "makes regions of its own memory")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hcq_nostd::mem::SharedWords;
use hcq_nostd::queue::SignalAt;
use hcq_nostd::signal::{Signal as CoreSignal, SignalError, SignalPool, SlotState};
use hcq_nostd::timeline::Point;

use crate::backend::Purpose;
use crate::heap::{Allocation, Heap, lock};
use crate::inner::Inner;
use crate::lent::Lent;
use crate::{Device, Error};

/// Signals of the first pool; each further one has twice as many, up to this many times more.
const FIRST_POOL: usize = 256;
const MOST_TIMES: usize = 256;

#[derive(Debug)]
struct Pool {
    pool: SignalPool<'static>,
    /// What the pool works in; dropped after it.
    _states: Lent<SlotState>,
    allocation: Arc<Allocation>,
}

impl Pool {
    fn new(heap: &Arc<Heap>, slots: usize) -> Result<Self, Error> {
        let allocation = heap.allocate(slots * CoreSignal::BYTES, Purpose::Signals)?;
        let mut states = Lent::new(SlotState::EMPTY, slots);
        // SAFETY: lent once; the pool is dropped before the states, by the order of the fields.
        let lent = unsafe { states.lend() };
        let words = shared_words(&allocation)?;
        let width = heap.backend().width();
        let pool = SignalPool::new(words, lent, width)
            .map_err(|_| Error::Internal("signals do not fit their memory"))?;
        Ok(Self {
            pool,
            _states: states,
            allocation,
        })
    }
}

/// An allocation as words that all sides access atomically.
pub(crate) fn shared_words(allocation: &Arc<Allocation>) -> Result<SharedWords<'static>, Error> {
    // SAFETY: whoever calls this keeps the allocation as long as the words, and makes them once, before anybody else
    // knows the memory; from then on all access is atomic.
    let region = unsafe { allocation.region() };
    SharedWords::new(region).map_err(|_| Error::Internal("signal memory is not aligned"))
}

/// A device's signals.
#[derive(Debug)]
pub(crate) struct Signals {
    pools: Mutex<Vec<Pool>>,
    heap: Arc<Heap>,
}

impl Signals {
    pub(crate) fn new(heap: &Arc<Heap>) -> Self {
        Self {
            pools: Mutex::default(),
            heap: Arc::clone(heap),
        }
    }

    pub(crate) fn alloc(self: &Arc<Self>) -> Result<Arc<SignalInner>, Error> {
        let completed = Point::from_raw(self.heap.progress().completed());
        let mut pools = lock(&self.pools);
        for pool in pools.iter_mut() {
            match pool.pool.alloc(completed) {
                Ok(signal) => {
                    return Ok(Arc::new(SignalInner {
                        signal,
                        home: Arc::clone(self),
                    }));
                }
                Err(SignalError::Exhausted { .. }) => {}
                Err(_) => return Err(Error::Internal("a signal pool is not aligned")),
            }
        }
        let slots = FIRST_POOL << pools.len().min(MOST_TIMES.ilog2() as usize);
        let mut pool = Pool::new(&self.heap, slots)?;
        let signal = pool
            .pool
            .alloc(completed)
            .map_err(|_| Error::Internal("a new signal pool is full"))?;
        pools.push(pool);
        Ok(Arc::new(SignalInner {
            signal,
            home: Arc::clone(self),
        }))
    }
}

impl Signals {
    /// The memory that a signal is in.
    fn memory_of(&self, address: u64) -> Option<Arc<Allocation>> {
        let pools = lock(&self.pools);
        let home = pools.iter().find(|p| {
            let start = p.allocation.address();
            address >= start && address - start < p.allocation.len() as u64
        });
        home.map(|p| Arc::clone(&p.allocation))
    }
}

/// A signal's slot, given back when nothing in flight uses it.
#[derive(Debug)]
pub(crate) struct SignalInner {
    pub(crate) signal: CoreSignal<'static>,
    home: Arc<Signals>,
}

impl Drop for SignalInner {
    fn drop(&mut self) {
        let last_use = Point::from_raw(self.home.heap.progress().latest());
        let address = self.signal.address();
        let mut pools = lock(&self.home.pools);
        let home = pools.iter_mut().find(|p| {
            let start = p.allocation.address();
            address >= start && address - start < p.allocation.len() as u64
        });
        if let Some(pool) = home {
            pool.pool.free(self.signal, last_use);
        }
    }
}

/// A signal: a value and a timestamp, written by queues and by the host. Clones are the same signal.
///
/// The value has 64 bits on the CPU device and 32 on AMD and Adreno GPUs, whose engines write and compare that many.
///
/// ```
/// let device = hcq_std::Device::open("cpu")?;
/// let (go, done) = (device.signal()?, device.signal()?);
/// let mut commands = device.compute_queue(0)?.record();
/// commands.wait(&go, 1u64)?.signal(&done, 7u64)?.submit()?;
/// assert_eq!(done.value(), 0);        // held until the host says so
/// go.set(1)?;
/// done.wait(7)?;
/// # Ok::<(), hcq_std::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Signal {
    pub(crate) slot: Arc<SignalInner>,
    pub(crate) inner: Arc<Inner>,
    /// Where the device has it.
    pub(crate) address: u64,
    /// The memory that it is in, for a device that it was shared with.
    pub(crate) seen: Option<Arc<Allocation>>,
}

impl Signal {
    /// The value.
    pub fn value(&self) -> u64 {
        self.slot.signal.value()
    }

    /// Sets the value from the host and wakes who waits for it. What the host stored before is visible to them.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for a value beyond the engine's width.
    pub fn set(&self, value: u64) -> Result<(), Error> {
        let most = self.slot.signal.width().mask();
        self.slot.signal.set(value).map_err(|_| Error::TooLarge {
            what: "a signal's value",
            size: value,
            most,
        })?;
        self.inner.backend.written(self.address());
        Ok(())
    }

    /// The last timestamp that a queue wrote, in nanoseconds of the clock that
    /// [`Device::now_ns`](crate::Device::now_ns) reads; 0 if none.
    pub fn timestamp(&self) -> u64 {
        match self.slot.signal.timestamp() {
            0 => 0,
            raw => self.inner.backend.timestamp_ns(raw).max(1),
        }
    }

    /// Waits until the value is at least `value`. Returns the value seen.
    ///
    /// # Errors
    /// [`Error::Timeout`] after the device's time without a change of the value; [`Error::Fault`].
    pub fn wait(&self, value: u64) -> Result<u64, Error> {
        self.wait_for(value, self.inner.wait_timeout)
    }

    /// Waits until the value is at least `value`, with a time of its own.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn wait_for(&self, value: u64, timeout: Duration) -> Result<u64, Error> {
        let mut policy = self.inner.policy(timeout);
        let result = self
            .slot
            .signal
            .wait(value, crate::inner::nanoseconds(timeout), &mut policy);
        let seen = result.map_err(|e| self.inner.wait_error("a wait for a signal", e))?;
        self.inner.backend.reached();
        Ok(seen)
    }

    /// The same signal for another device's queues to wait for and to write.
    ///
    /// Its value has as many bits as both engines compare. Its timestamp is in ticks of the device that wrote it, so read it
    /// from that device's signal.
    ///
    /// ```
    /// let (one, two) = (hcq_std::Device::open("cpu")?, hcq_std::Device::open("cpu")?);
    /// let ready = one.signal()?;
    /// let seen = ready.share(&two)?;
    /// let waiting = two.compute_queue(0)?.record().wait(&seen, 1u64)?.submit()?;
    /// one.compute_queue(0)?.record().signal(&ready, 1u64)?.submit()?;
    /// waiting.wait()?;
    /// # Ok::<(), hcq_std::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the other device has no way to this memory.
    pub fn share(&self, with: &Device) -> Result<Self, Error> {
        let inner = &with.inner;
        if Arc::ptr_eq(&self.inner, inner) {
            return Ok(self.clone());
        }
        let home = self.slot.home.memory_of(self.slot.signal.address());
        let home = home.ok_or(Error::Internal("a signal lies in no pool"))?;
        let seen = inner.heap.import(&home);
        let seen = seen.map_err(|e| inner.unreachable(&self.inner, e))?;
        Ok(Self {
            slot: Arc::clone(&self.slot),
            inner: Arc::clone(inner),
            address: seen.address() + (self.slot.signal.address() - home.address()),
            seen: Some(seen),
        })
    }

    /// Device address: the value at 0, the timestamp at 8.
    pub fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn operand(&self) -> SignalAt {
        SignalAt {
            address: self.address.into(),
            ..self.slot.signal.operand()
        }
    }
}
