//! Interrupts and faults (`kfd_events.c`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hcq_nostd::fault::{Access, FaultKind, FaultRecord};
use hcq_uapi::kfd;

use super::call::{give_back, wait};
use super::process::{Process, Version, Vm};
use super::{Gpu, advice};
use crate::Error;
use crate::heap::lock;
use crate::seam::Errno;

/// What a GPU writes to wake a sleeping host: the value `id` to `mailbox`, then an interrupt with context `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignalEvent {
    /// The kernel's number, less than 4096.
    pub(crate) id: u32,
    /// Address of a 64-bit word in the event page.
    pub(crate) mailbox: u64,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The signal event.
    Signal,
    /// A fault was reported.
    Fault,
    /// Time was over.
    Timeout,
}

/// What a waiter has seen of the signal event. Taken before the look at memory that decides on a wait, it makes the wait
/// end at once if the event came in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen(u64);

/// Events of one GPU; destroyed when dropped.
#[derive(Debug)]
pub(crate) struct Events {
    process: Arc<Process>,
    gpu_id: u32,
    /// Signal, memory exception, hardware exception; `None` for those not created yet.
    ids: [Option<u32>; 3],
    mailbox: u64,
    age: AtomicU64,
    fault: Mutex<Option<FaultRecord>>,
}

impl Events {
    pub(super) fn new(
        process: &Arc<Process>,
        name: &str,
        vm: &Vm,
        gpu_id: u32,
    ) -> Result<Self, Error> {
        let mut events = Self {
            process: Arc::clone(process),
            gpu_id,
            ids: [None; 3],
            mailbox: 0,
            // The kernel counts from 1, and 0 asks for a wait without an age.
            age: AtomicU64::new(u64::from(process.version() >= Version::EVENT_AGE)),
            fault: Mutex::default(),
        };
        let kinds = [
            kfd::KFD_IOC_EVENT_SIGNAL,
            kfd::KFD_IOC_EVENT_MEMORY,
            kfd::KFD_IOC_EVENT_HW_EXCEPTION,
        ];
        let ids = &mut events.ids;
        for (id, kind) in ids.iter_mut().zip(kinds) {
            let event = process.create_event(name, vm, gpu_id, kind)?;
            *id = Some(event.id);
            if kind == kfd::KFD_IOC_EVENT_SIGNAL {
                events.mailbox = event.mailbox;
            }
        }
        Ok(events)
    }

    fn data(&self, index: usize) -> kfd::kfd_event_data {
        let id = self.ids.get(index).copied().flatten();
        kfd::kfd_event_data {
            event_id: id.unwrap_or_default(),
            ..Default::default()
        }
    }

    /// Keeps the first fault of this GPU; a fault of another GPU of the process wakes everybody, and is no one else's.
    fn note(&self, events: &[kfd::kfd_event_data; 2]) -> bool {
        let [memory, hardware] = events;
        let (memory, hardware) = (
            memory.data.memory_exception_data(),
            hardware.data.hw_exception_data(),
        );
        let mut fault = lock(&self.fault);
        if memory.gpu_id == self.gpu_id {
            fault.get_or_insert(memory_fault(&memory));
        }
        if hardware.gpu_id == self.gpu_id {
            fault.get_or_insert(hardware_fault(&hardware));
        }
        fault.is_some()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let (system, file) = (&**self.process.system(), self.process.file());
        for event_id in self.ids.into_iter().flatten() {
            let argument = kfd::kfd_ioctl_destroy_event_args {
                event_id,
                ..Default::default()
            };
            let _ = give_back(system, file, argument);
        }
    }
}

/// A memory exception as a record. `detail` has bit 0 for a page that is not there, 1 for a write of a page that is only
/// read, 2 for code in a page that is none, 3 for an address that is not exact, and `KFD_MEM_ERR_*` from bit 8.
fn memory_fault(data: &kfd::kfd_hsa_memory_exception_data) -> FaultRecord {
    let failure = &data.failure;
    let flags = [
        failure.NotPresent,
        failure.ReadOnly,
        failure.NoExecute,
        failure.imprecise,
    ];
    let bits = (0..)
        .zip(flags)
        .fold(0, |bits, (at, flag)| bits | u64::from(flag != 0) << at);
    let kind = match data.ErrorType {
        kfd::KFD_MEM_ERR_NO_RAS => FaultKind::Memory,
        _ => FaultKind::Hardware,
    };
    FaultRecord {
        access: match failure {
            f if f.NoExecute != 0 => Access::Execute,
            f if f.ReadOnly != 0 => Access::Write,
            _ => Access::Unknown,
        },
        detail: bits | u64::from(data.ErrorType) << 8,
        ..FaultRecord::new(kind, 0, data.va)
    }
}

/// A hardware exception as a record. `detail` has the type of reset in bits 0 to 7 (0 the whole GPU, 1 an engine), its
/// cause in bits 8 to 15 (0 a hang, 1 lost bits), and bit 16 for memory that is lost.
fn hardware_fault(data: &kfd::kfd_hsa_hw_exception_data) -> FaultRecord {
    FaultRecord {
        detail: u64::from(data.reset_type & 0xff)
            | u64::from(data.reset_cause & 0xff) << 8
            | u64::from(data.memory_lost != 0) << 16,
        ..FaultRecord::new(FaultKind::Hardware, 0, 0)
    }
}

impl Gpu {
    /// The event that wakes [`wait_since`](Self::wait_since).
    pub(crate) fn event(&self) -> SignalEvent {
        let events = self.events();
        let [id, ..] = events.ids;
        SignalEvent {
            id: id.unwrap_or_default(),
            mailbox: events.mailbox,
        }
    }

    /// What has been seen of the signal event by now.
    pub(crate) fn seen(&self) -> Seen {
        // ORDER: pairs with the release in `wait_since`: who sees the age sees what was written before that event.
        Seen(self.events().age.load(Ordering::Acquire))
    }

    /// [`wait_since`](Self::wait_since) now.
    #[cfg(test)]
    pub(crate) fn wait(&self, limit: Duration) -> Result<Woken, Error> {
        self.wait_since(self.seen(), limit)
    }

    /// Sleeps until the signal event, a fault or the end of the time, counted in whole milliseconds and rounded up; zero
    /// only looks. Any number of threads may wait.
    ///
    /// Before interface 1.14 one event wakes one waiter, and one that comes while nobody waits wakes the next; with several
    /// waiters the limit has to be short.
    pub(crate) fn wait_since(&self, seen: Seen, limit: Duration) -> Result<Woken, Error> {
        let events = self.events();
        if self.fault().is_some() {
            return Ok(Woken::Fault);
        }
        let mut signal = events.data(0);
        let age = kfd::kfd_hsa_signal_event_data {
            last_event_age: seen.0,
        };
        signal.data = age.into();
        let mut data = [signal, events.data(1), events.data(2)];
        // The longest time of 32 bits stands for no limit at all.
        let millis = limit.as_nanos().div_ceil(1_000_000);
        let millis = u32::try_from(millis).map_or(u32::MAX - 1, |n| n.min(u32::MAX - 1));
        let process = self.process();
        let result = wait(&**process.system(), process.file(), &mut data, millis)
            .map_err(|errno| self.failed("WAIT_EVENTS", errno, advice::event(errno).into()))?;
        let [signal, memory, hardware] = data;
        let now = signal.data.signal_event_data().last_event_age;
        if seen.0 != 0 {
            // ORDER: see `seen`.
            events.age.fetch_max(now, Ordering::AcqRel);
        }
        if events.note(&[memory, hardware]) {
            return Ok(Woken::Fault);
        }
        Ok(match result {
            kfd::KFD_IOC_WAIT_RESULT_COMPLETE => Woken::Signal,
            _ => Woken::Timeout,
        })
    }

    /// The first fault that a wait or a look has seen. No call is made.
    pub(crate) fn fault(&self) -> Option<FaultRecord> {
        *lock(&self.events().fault)
    }

    /// Asks the kernel for faults without sleeping; a signal that others wait for is left to them.
    pub(crate) fn look_for_fault(&self) -> Option<FaultRecord> {
        if let Some(fault) = self.fault() {
            return Some(fault);
        }
        let events = self.events();
        let mut data = [events.data(1), events.data(2)];
        let process = self.process();
        match wait(&**process.system(), process.file(), &mut data, 0) {
            Ok(_) => events.note(&data),
            // No GPU any more.
            Err(Errno::NODEV | Errno::IO) => {
                let gone = FaultRecord::new(FaultKind::Hardware, 0, 0);
                lock(&events.fault).get_or_insert(gone);
                true
            }
            Err(_) => false,
        };
        self.fault()
    }

    /// Forgets the fault, and those that came after it.
    ///
    /// After a memory exception the kernel has put all queues that the process has on this GPU aside, and new ones too
    /// (`kfd_dqm_evict_pasid`, which counts up `qpd->evicted`; nothing counts it down for a fault): nothing of this process runs
    /// there any more. So on Linux recovery is for faults that the driver itself found, and else takes a new process; whoever
    /// recovers must try a queue before it promises anything.
    ///
    /// # Why not open the interface anew
    ///
    /// Because the kernel's object is the address space's and not the file's. `kfd_release` gives back the reference of the
    /// opening and nothing else; `kfd_open` finds the same object by the address space (`kfd_create_process`, `find_process`); it
    /// goes when the address space does (the notifier's `kfd_process_notifier_release`). With it stay the evicted state, queues,
    /// memory, and the render node's file that the GPU's address space was acquired with, so that a second one is `EBUSY`
    /// (`kfd_ioctl_acquire_vm`). So it is up to interface 1.18.
    ///
    /// Interface 1.19 has `AMDKFD_IOC_CREATE_PROCESS`: a second object on a file of its own, which `kfd_release` ends with the file.
    /// Work could go on there, with an address space of its own. But all that the device has would have to be made anew in it:
    /// every allocation, with what is in it fetched by the host, since a GPU that the first object is kept off does not copy; and
    /// memory lent by the process stays with the first one. That is what a new device is, and not what
    /// [`Device::recover`](crate::Device::recover) promises: it is not done here.
    pub(crate) fn clear_fault(&self) {
        let events = self.events();
        // Each look takes what is pending; one that finds nothing ends it.
        for _ in 0..16 {
            lock(&events.fault).take();
            if self.look_for_fault().is_none() {
                return;
            }
        }
        lock(&events.fault).take();
    }
}

#[cfg(test)]
mod tests;
