//! Events that make files readable: `rm_ioctl` of `osapi.c`, `event.c`, `event_notification.c`.
//!
//! What is told comes from two places. Interrupts that engines do not wait for are told to events with
//! `NV01_EVENT_NONSTALL_INTR` of any subdevice of the GPU, whoever's: those of the engine, and those of channels
//! (`NV2080_NOTIFIERS_FIFO_EVENT_MTHD`), which every engine's interrupts are (`intrServiceNotificationRecords_IMPL`). Errors that
//! stop a channel are told to subdevices that have been asked to (`krcErrorSendEventNotifications_KERNEL`).

use std::collections::VecDeque;

use hcq_uapi::nv::*;

use super::super::Nv;
use super::super::channel::{ChannelEngine, interrupt};
use super::super::queue::ChannelId;
use super::{Kind, Making, Object};
use crate::machine::{FileId, user};

/// Most events with data that a file keeps; the kernel has as many as it has memory for, and drops those beyond.
const MOST_DATA: usize = 4096;
/// Indices of subdevices that all branches have: `NV2080_NOTIFIERS_MAXCOUNT` of 535, the least.
const NOTIFIERS: u32 = 181;

/// A file that takes events: `nv_event_t`.
#[derive(Clone, Copy, Debug)]
pub(in crate::nv) struct OsEvent {
    /// The client that names it.
    client: u32,
    /// By this number, whatever it is.
    number: u32,
    file: FileId,
}

/// What a file has for who looks at it.
#[derive(Debug, Default)]
pub(in crate::nv) struct Pending {
    /// Events with data, oldest first.
    data: VecDeque<NvUnixEvent>,
    /// There was one without: `dataless_event_pending`.
    dataless: bool,
}

impl Pending {
    /// `nvidia_poll`: whoever looks has seen what has no data.
    pub(in crate::nv) fn look(&mut self) -> bool {
        std::mem::take(&mut self.dataless) || !self.data.is_empty()
    }
}

/// An event object.
#[derive(Clone, Copy, Debug)]
pub(in crate::nv) struct Event {
    /// The file, by its place in `os_events`; it may be gone.
    os: u64,
    /// The client of the object that it comes from, and that object; 0 once it is gone.
    owner: u32,
    source: u32,
    /// The index without flags.
    index: u32,
    nonstall: bool,
    dataless: bool,
}

/// `eventGetEngineTypeFromSubNotifyIndex`: indices that stand for an engine.
fn is_engine(index: u32) -> bool {
    matches!(
        index,
        // `GRAPHICS` to `CE9`, `FIFO_EVENT_MTHD`, `MSENC` to `NVENC2`, `SEC2`, `NVJPEG0` to `NVJPEG7`, `GR1` to `OFA0`.
        12..=32 | 35 | 38..=40 | 115 | 126..=133 | 146..=153
    )
}

/// Objects that events may come from: `INotifier`.
fn notifies(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Client
            | Kind::Subdevice { .. }
            | Kind::Channel(_)
            | Kind::Engine(_)
            | Kind::Debugger(_)
    )
}

impl Nv {
    /// `allocate_os_event`: the file takes events of a client, under a number of the client's choice. Neither is looked at.
    pub(super) fn alloc_os_event(
        &mut self,
        file: FileId,
        client: u32,
        number: u32,
    ) -> Result<(), u32> {
        if self.os_event(client, number).is_some() {
            return Err(NV_ERR_INSUFFICIENT_RESOURCES);
        }
        self.next_os_event += 1;
        let event = OsEvent {
            client,
            number,
            file,
        };
        self.os_events.insert(self.next_os_event, event);
        Ok(())
    }

    /// `free_os_event`. Event objects that name it stay, and tell nobody.
    pub(super) fn free_os_event(&mut self, client: u32, number: u32) -> Result<(), u32> {
        let known = self.os_event(client, number).ok_or(NV_ERR_INVALID_EVENT)?;
        self.os_events.remove(&known);
        Ok(())
    }

    fn os_event(&self, client: u32, number: u32) -> Option<u64> {
        let mut all = self.os_events.iter();
        all.find(|(_, event)| event.client == client && event.number == number)
            .map(|(&id, _)| id)
    }

    /// `free_os_events`, of a file that is closed.
    pub(in crate::nv) fn free_os_events_of(&mut self, file: FileId) {
        self.os_events.retain(|_, event| event.file != file);
    }

    /// The same of a client that goes.
    pub(super) fn free_os_events_for(&mut self, client: u32) {
        self.os_events.retain(|_, event| event.client != client);
    }

    /// `get_os_event_data`.
    pub(super) fn event_data(
        &mut self,
        file: FileId,
        args: &mut NVOS41_PARAMETERS,
    ) -> Result<(), u32> {
        let open = self.files.get_mut(&file).ok_or(NV_ERR_OPERATING_SYSTEM)?;
        let event = open.pending.data.pop_front();
        let event = event.ok_or(NV_ERR_OPERATING_SYSTEM)?;
        args.MoreEvents = u32::from(!open.pending.data.is_empty());
        user::put(args.pEvent, &event).map_err(|_| NV_ERR_INVALID_ADDRESS)
    }

    /// `eventConstruct_IMPL`: of which other object, and which file it makes readable.
    pub(super) fn make_event(&mut self, making: &Making) -> Result<(Kind, Vec<u32>), u32> {
        let params: NV0005_ALLOC_PARAMETERS = self.params(making.params)?;
        let owner = match params.hParentClient {
            0 => making.client,
            client => client,
        };
        // `_serverLockDualClientWithLockInfo`.
        let of = self.clients.get(&owner);
        let of = of.ok_or(NV_ERR_INVALID_OBJECT_HANDLE)?;
        if making.class != NV01_EVENT_OS_EVENT {
            return Err(NV_ERR_INVALID_CLASS);
        }
        let source = of.object(params.hSrcResource);
        let source = source.ok().filter(|object| notifies(&object.kind));
        let source = source.ok_or(NV_ERR_INVALID_OBJECT)?;
        let is_subdevice = matches!(source.kind, Kind::Subdevice { .. });
        // `osUserHandleToKernelPtr`.
        let number = (params.data & u64::from(u32::MAX)) as u32;
        let os = self.os_event(making.client, number);
        let os = os.ok_or(NV_ERR_OBJECT_NOT_FOUND)?;
        let event = Event {
            os,
            owner,
            source: params.hSrcResource,
            index: NV0005_NOTIFY_INDEX_INDEX.get(params.notifyIndex),
            nonstall: params.notifyIndex & NV01_EVENT_NONSTALL_INTR != 0,
            dataless: params.notifyIndex & NV01_EVENT_WITHOUT_EVENT_DATA != 0,
        };
        // `registerEventNotification` looks the object up among those of the event's own client.
        if event.nonstall && !(is_subdevice && owner == making.client) {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        if event.nonstall && !is_engine(event.index) {
            return Err(NV_ERR_NOT_SUPPORTED);
        }
        Ok((Kind::Event(event), Vec::new()))
    }

    /// `notifyDestruct_IMPL`: an object goes, and events of it come from nowhere.
    pub(super) fn forget_source(&mut self, owner: u32, source: u32) {
        let objects = self
            .clients
            .values_mut()
            .flat_map(|client| client.objects.values_mut());
        for object in objects {
            if let Kind::Event(event) = &mut object.kind
                && (event.owner, event.source) == (owner, source)
            {
                event.source = 0;
            }
        }
    }

    /// `subdeviceCtrlCmdEventSetNotification_IMPL`.
    pub(super) fn set_notification(
        &mut self,
        client: u32,
        handle: u32,
        params: &NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS,
    ) -> Result<(), u32> {
        let heard = self
            .events()
            .any(|(_, _, event)| (event.owner, event.source) == (client, handle));
        let object = self.object_mut(client, handle);
        let kind = object.map(|object| &mut object.kind);
        let Some(Kind::Subdevice { told, .. }) = kind else {
            return Err(NV_ERR_NOT_SUPPORTED);
        };
        if !heard {
            return Err(NV_ERR_INVALID_STATE);
        }
        if params.event >= NOTIFIERS || params.event == NV2080_NOTIFIERS_TIMER {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        match params.action {
            NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_DISABLE => {
                told.remove(&params.event);
                Ok(())
            }
            NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_SINGLE
            | NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_REPEAT => {
                if told.contains_key(&params.event) {
                    return Err(NV_ERR_INVALID_STATE);
                }
                told.insert(params.event, params.action);
                Ok(())
            }
            _ => Err(NV_ERR_INVALID_ARGUMENT),
        }
    }

    /// All event objects: their client, their handle.
    fn events(&self) -> impl Iterator<Item = (u32, u32, Event)> {
        let of = |(&client, all): (&u32, &super::Client)| {
            let event = move |(&handle, object): (&u32, &Object)| match object.kind {
                Kind::Event(event) => Some((client, handle, event)),
                _ => None,
            };
            all.objects.iter().filter_map(event).collect::<Vec<_>>()
        };
        self.clients.iter().flat_map(of)
    }

    /// Whether an object is a subdevice of a GPU.
    fn is_subdevice(&self, client: u32, handle: u32, gpu: usize) -> bool {
        let object = self.clients.get(&client);
        let object = object.and_then(|client| client.objects.get(&handle));
        matches!(object.map(|object| &object.kind), Some(&Kind::Subdevice { gpu: of, .. }) if of == gpu)
    }

    /// A channel or its engine has raised an interrupt that nobody waits for: one of [`interrupt`].
    pub(in crate::nv) fn interrupted(&mut self, channel: ChannelId, kind: u32) {
        let Some(state) = self.channels.get(&channel) else {
            return;
        };
        let gpu = state.gpu;
        let copy = |copy: u32| NV2080_NOTIFIERS_CE0 + copy;
        let engine = match self.groups.get(&state.group).map(|group| group.engine) {
            Some(ChannelEngine::Copy(number)) => copy(number),
            _ if kind == interrupt::COPY => copy(0),
            _ => NV2080_NOTIFIERS_GRAPHICS,
        };
        let raised: Vec<(u32, Event)> = self
            .events()
            .filter(|(_, _, event)| {
                event.nonstall
                    && (event.index == engine || event.index == NV2080_NOTIFIERS_FIFO_EVENT_MTHD)
                    && self.is_subdevice(event.owner, event.source, gpu)
            })
            .map(|(_, handle, event)| (handle, event))
            .collect();
        for (handle, event) in raised {
            self.post(handle, event, 0, 0);
        }
    }

    /// `gpuNotifySubDeviceEvent_IMPL`, of an error that has stopped channels.
    pub(in crate::nv) fn notify_error(&mut self, gpu: usize, code: u32) {
        let index = NV2080_NOTIFIERS_RC_ERROR;
        let mut asked = Vec::new();
        for (&client, all) in &mut self.clients {
            for (&handle, object) in &mut all.objects {
                let Kind::Subdevice { gpu: of, told } = &mut object.kind else {
                    continue;
                };
                if *of != gpu || !told.contains_key(&index) {
                    continue;
                }
                asked.push((client, handle));
                if told.get(&index) == Some(&NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_SINGLE) {
                    told.remove(&index);
                }
            }
        }
        let told: Vec<(u32, Event)> = self
            .events()
            .filter(|(_, _, event)| {
                event.index == index && asked.contains(&(event.owner, event.source))
            })
            .map(|(_, handle, event)| (handle, event))
            .collect();
        for (handle, event) in told {
            // `info16` is the part of a GPU in parts.
            self.post(handle, event, code, 0);
        }
    }

    /// `postEvent`, `nv_post_event`.
    fn post(&mut self, handle: u32, event: Event, info32: u32, info16: u16) {
        let Some(os) = self.os_events.get(&event.os) else {
            return;
        };
        let Some(open) = self.files.get_mut(&os.file) else {
            return;
        };
        self.news = true;
        if event.dataless {
            open.pending.dataless = true;
        } else if open.pending.data.len() < MOST_DATA {
            open.pending.data.push_back(NvUnixEvent {
                hObject: handle,
                NotifyIndex: event.index,
                info32,
                info16,
                pad: 0,
            });
        }
    }
}
