//! Events: `kfd_events.c`.

use std::collections::BTreeMap;
use std::sync::Arc;

use hcq_uapi::kfd::{
    KFD_IOC_EVENT_DEBUG_EVENT, KFD_IOC_EVENT_HW_EXCEPTION, KFD_IOC_EVENT_MEMORY,
    KFD_IOC_EVENT_SIGNAL, KFD_IOC_WAIT_RESULT_COMPLETE, KFD_IOC_WAIT_RESULT_FAIL,
    KFD_IOC_WAIT_RESULT_TIMEOUT, MmapType, kfd_event_data, kfd_hsa_hw_exception_data,
    kfd_hsa_memory_exception_data, kfd_ioctl_create_event_args, mmap_offset,
};

use super::process::lowest_free;
use crate::machine::{Block, Store, user};

/// `KFD_SIGNAL_EVENT_LIMIT`.
const SLOTS: u32 = 4096;
/// Bytes of the page of slots.
pub(crate) const PAGE_BYTES: u64 = SLOTS as u64 * 8;
/// Slots that the kernel assumes while its own page is mapped nowhere: what the oldest user mode expects.
const OLD_SLOTS: u64 = 256;
/// `KFD_FIRST_NONSIGNAL_EVENT_ID`.
const FIRST_OTHER: u32 = 0x4000_0000;
/// `UNSIGNALED_EVENT_SLOT`.
const UNSIGNALED: u64 = u64::MAX;
/// `KMALLOC_MAX_SIZE` over the size of a waiter: an array of more is out of memory.
const MAX_WAITERS: u32 = 65536;

/// What an event carries.
#[derive(Clone, Copy, Debug)]
enum Data {
    None,
    Memory(kfd_hsa_memory_exception_data),
    Hardware(kfd_hsa_hw_exception_data),
}

#[derive(Debug)]
struct Event {
    kind: u32,
    auto_reset: bool,
    signaled: bool,
    age: u64,
    data: Data,
}

/// One event of one wait.
#[derive(Debug)]
struct Wait {
    /// `None` once the event was destroyed.
    event: Option<u32>,
    activated: bool,
    /// The caller asked for the event's age.
    age: bool,
    /// On the event's list of who waits.
    queued: bool,
}

/// The page of slots.
#[derive(Debug)]
struct Page {
    block: Arc<Block>,
    /// Bytes that the process has mapped, or of its own allocation.
    mapped: u64,
    /// The process's own allocation.
    handle: u64,
}

/// The events of a process.
#[derive(Debug, Default)]
pub(crate) struct Events {
    events: BTreeMap<u32, Event>,
    page: Option<Page>,
    waiters: BTreeMap<u32, Vec<Wait>>,
    /// Something happened that a wait may end for.
    news: bool,
}

fn is_signal(kind: u32) -> bool {
    kind == KFD_IOC_EVENT_SIGNAL || kind == KFD_IOC_EVENT_DEBUG_EVENT
}

impl Events {
    /// The allocation that the process gave as its page. It may not be freed.
    pub(crate) fn page_handle(&self) -> Option<u64> {
        self.page.as_ref().map(|page| page.handle)
    }

    /// `kfd_event_page_set`.
    pub(crate) fn set_page(
        &mut self,
        block: Arc<Block>,
        bytes: u64,
        handle: u64,
    ) -> Result<(), i32> {
        if self.page.is_some() {
            return Err(libc::EBUSY);
        }
        if bytes < PAGE_BYTES {
            return Err(libc::EINVAL);
        }
        clear(&block);
        self.page = Some(Page {
            block,
            mapped: bytes,
            handle,
        });
        Ok(())
    }

    /// `kfd_event_mmap`: the block to map.
    pub(crate) fn map_page(&mut self, bytes: u64) -> Result<Arc<Block>, i32> {
        if bytes > PAGE_BYTES {
            return Err(libc::EINVAL);
        }
        let page = self.page.as_mut().ok_or(libc::EINVAL)?;
        page.mapped = bytes;
        Ok(Arc::clone(&page.block))
    }

    /// `kfd_event_create`.
    pub(crate) fn create(
        &mut self,
        store: &Arc<Store>,
        args: &mut kfd_ioctl_create_event_args,
    ) -> Result<(), i32> {
        args.event_page_offset = 0;
        let number = if is_signal(args.event_type) {
            let number = self.signal_slot(store)?;
            args.event_page_offset = mmap_offset(MmapType::Events, 0, 0).unwrap_or(0);
            args.event_slot_index = number;
            number
        } else {
            lowest_free(&self.events, FIRST_OTHER)
        };
        args.event_id = number;
        args.event_trigger_data = number;
        let event = Event {
            kind: args.event_type,
            auto_reset: args.auto_reset != 0,
            signaled: false,
            age: 1,
            data: Data::None,
        };
        self.events.insert(number, event);
        Ok(())
    }

    /// `create_signal_event`, `allocate_event_notification_slot`. Number 0 is nobody's: interrupts without a context carry it.
    fn signal_slot(&mut self, store: &Arc<Store>) -> Result<u32, i32> {
        let used = self.events.range(..FIRST_OTHER).count();
        let used = u64::try_from(used).unwrap_or(u64::MAX).saturating_add(1);
        if let Some(page) = &self.page
            && used >= page.mapped / 8
        {
            return Err(libc::ENOSPC);
        }
        if self.page.is_none() {
            let block = store.block(PAGE_BYTES)?;
            clear(&block);
            self.page = Some(Page {
                block,
                mapped: OLD_SLOTS * 8,
                handle: 0,
            });
        }
        let number = lowest_free(&self.events, 1);
        if let Some(page) = &self.page {
            page.block.store(u64::from(number) * 8, UNSIGNALED);
        }
        Ok(number)
    }

    /// `kfd_event_destroy`. Who waits for it is told that the wait failed.
    pub(crate) fn destroy(&mut self, number: u32) -> Result<(), i32> {
        self.events.remove(&number).ok_or(libc::EINVAL)?;
        self.news = true;
        for wait in self.waiters.values_mut().flatten() {
            if wait.event == Some(number) {
                wait.event = None;
            }
        }
        Ok(())
    }

    /// Whether something has happened that a wait may end for, since this was last asked.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// `kfd_set_event`: the host signals an event.
    pub(crate) fn set(&mut self, number: u32) -> Result<(), i32> {
        let event = self.events.get(&number).ok_or(libc::EINVAL)?;
        if event.kind != KFD_IOC_EVENT_SIGNAL {
            return Err(libc::EINVAL);
        }
        self.signal(number);
        Ok(())
    }

    /// `kfd_reset_event`.
    pub(crate) fn reset(&mut self, number: u32) -> Result<(), i32> {
        let event = self.events.get_mut(&number).ok_or(libc::EINVAL)?;
        if event.kind != KFD_IOC_EVENT_SIGNAL {
            return Err(libc::EINVAL);
        }
        event.signaled = false;
        Ok(())
    }

    /// `set_event`: an event that resets itself stays signaled only if nobody waits.
    fn signal(&mut self, number: u32) {
        let Some(event) = self.events.get_mut(&number) else {
            return;
        };
        let mut waited = false;
        for wait in self.waiters.values_mut().flatten() {
            if wait.queued && wait.event == Some(number) {
                wait.activated = true;
                waited = true;
            }
        }
        self.news = true;
        event.signaled = !event.auto_reset || !waited;
        event.age = event.age.checked_add(1).unwrap_or(2);
    }

    /// `kfd_signal_event_interrupt`: an engine's interrupt with this context. The event is the one of that number if its slot
    /// was written; otherwise every event whose slot was written.
    pub(crate) fn interrupt(&mut self, context: u32) {
        let Some(page) = &self.page else {
            return;
        };
        let block = Arc::clone(&page.block);
        let written = |number: u32| {
            let slot = block.load(u64::from(number) * 8);
            slot.is_some_and(|value| value != UNSIGNALED)
        };
        let known = |number: &u32| self.events.contains_key(number);
        let numbers: Vec<u32> = if context < SLOTS && written(context) && known(&context) {
            vec![context]
        } else {
            let signals = self.events.range(..SLOTS).map(|(&number, _)| number);
            signals.filter(|&number| written(number)).collect()
        };
        for number in numbers {
            block.store(u64::from(number) * 8, UNSIGNALED);
            self.signal(number);
        }
    }

    fn signal_kind(&mut self, kind: u32, data: Data) -> bool {
        let others = self.events.range_mut(FIRST_OTHER..);
        let numbers: Vec<u32> = others
            .filter(|(_, event)| event.kind == kind)
            .map(|(&number, event)| {
                event.data = data;
                number
            })
            .collect();
        for &number in &numbers {
            self.signal(number);
        }
        !numbers.is_empty()
    }

    /// `kfd_signal_vm_fault_event`. Whether the process has an event for it.
    pub(crate) fn memory_exception(&mut self, data: kfd_hsa_memory_exception_data) -> bool {
        self.signal_kind(KFD_IOC_EVENT_MEMORY, Data::Memory(data))
    }

    /// `kfd_signal_reset_event`. Whether the process has an event for it.
    pub(crate) fn hardware_exception(&mut self, data: kfd_hsa_hw_exception_data) -> bool {
        self.signal_kind(KFD_IOC_EVENT_HW_EXCEPTION, Data::Hardware(data))
    }

    /// The first half of `kfd_wait_on_events`: the number of a wait that [`result`](Self::result) looks at.
    pub(crate) fn begin(&mut self, address: u64, count: u32) -> Result<u32, i32> {
        if count > MAX_WAITERS {
            return Err(libc::ENOMEM);
        }
        let number = lowest_free(&self.waiters, 0);
        self.waiters.insert(number, Vec::new());
        for index in 0..u64::from(count) {
            if let Err(errno) = self.enter(number, address, index) {
                self.finish(number);
                return Err(errno);
            }
        }
        Ok(number)
    }

    /// `init_event_waiter`.
    fn enter(&mut self, number: u32, address: u64, index: u64) -> Result<(), i32> {
        let data: kfd_event_data = user::get(entry(address, index))?;
        let event = self.events.get_mut(&data.event_id).ok_or(libc::EINVAL)?;
        let mut activated = event.signaled;
        event.signaled = event.signaled && !event.auto_reset;
        let seen = data.data.signal_event_data().last_event_age;
        let age = event.kind == KFD_IOC_EVENT_SIGNAL && seen != 0;
        if age && event.age != seen {
            activated = true;
        }
        if let Some(waits) = self.waiters.get_mut(&number) {
            waits.push(Wait {
                event: Some(data.event_id),
                activated,
                age,
                queued: !activated,
            });
        }
        Ok(())
    }

    /// `test_event_condition`: one of `KFD_IOC_WAIT_RESULT_*`.
    pub(crate) fn result(&self, number: u32, all: bool) -> u32 {
        let waits = self.waiters.get(&number).map_or(&[][..], Vec::as_slice);
        let mut activated = 0;
        for wait in waits {
            if wait.event.is_none() {
                return KFD_IOC_WAIT_RESULT_FAIL;
            }
            if wait.activated {
                if !all {
                    return KFD_IOC_WAIT_RESULT_COMPLETE;
                }
                activated += 1;
            }
        }
        if activated == waits.len() {
            KFD_IOC_WAIT_RESULT_COMPLETE
        } else {
            KFD_IOC_WAIT_RESULT_TIMEOUT
        }
    }

    /// `copy_signaled_event_data`.
    pub(crate) fn copy(&self, number: u32, address: u64) -> Result<(), i32> {
        let waits = self.waiters.get(&number).map_or(&[][..], Vec::as_slice);
        for (index, wait) in (0u64..).zip(waits) {
            let found = wait.event.and_then(|event| self.events.get(&event));
            let event = found.ok_or(libc::EINVAL)?;
            if !wait.activated {
                continue;
            }
            let to = entry(address, index);
            match event.data {
                Data::Memory(data) => user::put(to, &data)?,
                Data::Hardware(data) => user::put(to, &data)?,
                Data::None if wait.age => user::put(to, &event.age)?,
                Data::None => {}
            }
        }
        Ok(())
    }

    /// `free_waiters`.
    pub(crate) fn finish(&mut self, number: u32) {
        self.waiters.remove(&number);
    }
}

fn entry(address: u64, index: u64) -> u64 {
    let bytes = size_of::<kfd_event_data>() as u64;
    address.saturating_add(index.saturating_mul(bytes))
}

fn clear(block: &Block) {
    for slot in 0..u64::from(SLOTS) {
        block.store(slot * 8, UNSIGNALED);
    }
}
