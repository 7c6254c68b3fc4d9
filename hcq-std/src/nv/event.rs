//! Sleeping until the driver says that something has happened (`osapi.c`, `event.c`, `event_notification.c`, `nv.c`).
//!
//! The GPU's file takes two events, both without data: interrupts of channels, which a queue raises when a submission is
//! done, and errors that stop channels. Every process with such an event hears of every channel of the GPU: who is woken looks
//! again.
//!
//! `poll` takes back what it reports, so that of several threads that wait for the file one learns of it. Therefore one thread
//! polls while the others sleep beside it, and whoever has polled wakes them. Nothing is lost: a thread that begins to poll
//! looks at its own condition first, which was made true before the interrupt that somebody else may have taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use hcq_uapi::nv;

use super::call::{self, File, Refusal};
use super::root::{Object, Root};
use crate::seam::{Errno, System};
use crate::wake::{Event, Futex};

/// Events of a GPU. Fields are dropped in their order: objects that name the file before its name.
#[derive(Debug)]
pub(super) struct Events {
    _errors: Option<Object>,
    _interrupts: Object,
    name: Name,
    /// A thread polls the file.
    is_polled: AtomicBool,
    /// Where the others sleep.
    beside: Event,
}

/// What event objects call the file, forgotten when this is dropped.
#[derive(Debug)]
struct Name {
    root: Arc<Root>,
    file: Arc<File>,
    number: u32,
}

impl Name {
    fn new(root: &Arc<Root>, file: &Arc<File>) -> Result<Self, Refusal> {
        // Any number does that no other file of the client has.
        let number = file.handle().raw().cast_unsigned();
        let mut argument = nv::nv_ioctl_alloc_os_event {
            hClient: root.client,
            fd: number,
            ..Default::default()
        };
        call::ask(&*root.system, file.handle(), &mut argument)?;
        Ok(Self {
            root: Arc::clone(root),
            file: Arc::clone(file),
            number,
        })
    }

    /// An event of a subdevice that makes the file readable, and no more.
    fn event(&self, subdevice: u32, index: u32) -> Result<Object, Refusal> {
        let mut params = nv::NV0005_ALLOC_PARAMETERS {
            hParentClient: self.root.client,
            hSrcResource: subdevice,
            hClass: nv::NV01_EVENT_OS_EVENT,
            notifyIndex: index | nv::NV01_EVENT_WITHOUT_EVENT_DATA,
            data: self.number.into(),
        };
        self.root
            .object_with(subdevice, nv::NV01_EVENT_OS_EVENT, &mut params)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let argument = nv::nv_ioctl_free_os_event {
            hClient: self.root.client,
            fd: self.number,
            ..Default::default()
        };
        let _ = call::give_back(&*self.root.system, self.file.handle(), argument);
    }
}

impl Events {
    /// Events of a subdevice, for its GPU's file. Without those of errors there are still the others.
    pub(super) fn new(root: &Arc<Root>, file: &Arc<File>, subdevice: u32) -> Result<Self, Refusal> {
        let name = Name::new(root, file)?;
        // On every chip since Turing all engines' interrupts are channels', too (`bDefaultNonstallNotify`).
        let channels = nv::NV2080_NOTIFIERS_FIFO_EVENT_MTHD | nv::NV01_EVENT_NONSTALL_INTR;
        let interrupts = name.event(subdevice, channels)?;
        Ok(Self {
            _errors: errors(&name, subdevice).ok(),
            _interrupts: interrupts,
            name,
            is_polled: AtomicBool::new(false),
            beside: Event::new(),
        })
    }

    /// Sleeps until an event, or for so long in whole milliseconds, rounded up; not at all if `is_over`. Whether there may be
    /// something to see. Any number of threads may sleep.
    pub(super) fn sleep(&self, limit: Duration, is_over: impl Fn() -> bool) -> Result<bool, Errno> {
        let system = &*self.name.root.system;
        // ORDER: pairs with the release in `Turn`: who polls next sees what was written before the last event taken.
        let taken = self.is_polled.swap(true, Ordering::Acquire);
        if taken {
            let is_free = || !self.is_polled.load(Ordering::Acquire);
            let futex = Sleep(system);
            self.beside.sleep(&futex, limit, || is_free() || is_over());
            return Ok(true);
        }
        let _turn = Turn(self);
        if is_over() {
            return Ok(true);
        }
        // `poll` counts milliseconds, and less than one is none.
        let millis = limit.as_nanos().div_ceil(1_000_000);
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        system.poll(self.name.file.handle(), Duration::from_millis(millis))
    }
}

/// Errors that stop channels: a subdevice tells of them if it is asked to, each time.
fn errors(name: &Name, subdevice: u32) -> Result<Object, Refusal> {
    let index = nv::NV2080_NOTIFIERS_RC_ERROR;
    let object = name.event(subdevice, index)?;
    let mut params = nv::NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS {
        event: index,
        action: nv::NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_REPEAT,
        ..Default::default()
    };
    let command = nv::NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION;
    name.root.control(subdevice, command, &mut params)?;
    Ok(object)
}

/// The turn to poll. When it ends, however it does, the others look, and one of them takes it.
struct Turn<'a>(&'a Events);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Self(events) = self;
        events.is_polled.store(false, Ordering::Release);
        events.beside.notify(&Sleep(&*events.name.root.system));
    }
}

/// Sleeps through the system seam.
struct Sleep<'a>(&'a dyn System);

impl Futex for Sleep<'_> {
    fn wait(&self, word: &AtomicU32, expected: u32, timeout: Duration) {
        self.0.futex_wait(word, expected, timeout);
    }

    fn wake_all(&self, word: &AtomicU32) {
        self.0.futex_wake(word, u32::MAX);
    }
}
