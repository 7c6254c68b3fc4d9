//! A group of channels: what a GPU's queues are made of.
#![allow(unsafe_code, reason = "reads error notifiers")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use hcq_nv::gpfifo::ENTRY_BYTES;
use hcq_uapi::nv;

use super::advice;
use super::call::Refusal;
use super::gpu::Gpu;
use super::memory::{Bo, Notes, VideoRequest};
use super::root::{Addresses, Object, Root};
use crate::Error;
use crate::backend::QueueKind;

/// Addresses that UVM may map what a channel needs at.
const CHANNEL_ADDRESSES: u64 = 64 << 20;
/// Bytes of USERD, and its alignment.
const USERD: usize = 512;
/// Notifiers of a channel: `NV_CHANNELGPFIFO_NOTIFICATION_TYPE__SIZE_1`; the first is of errors.
const NOTIFIERS: usize = 3;

/// Why there is no channel.
#[derive(Debug)]
pub(super) enum NoChannel {
    /// All are taken. Fewer may do.
    Exhausted(Error),
    /// Anything else.
    Failed(Error),
}

impl From<NoChannel> for Error {
    fn from(e: NoChannel) -> Self {
        match e {
            NoChannel::Exhausted(e) | NoChannel::Failed(e) => e,
        }
    }
}

impl From<Error> for NoChannel {
    fn from(e: Error) -> Self {
        Self::Failed(e)
    }
}

/// What a channel is made as, each time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) kind: QueueKind,
    /// Entries of its ring, a power of two.
    pub(super) entries: usize,
}

/// A channel that UVM knows, forgotten when this is dropped.
#[derive(Debug)]
struct Registered {
    root: Arc<Root>,
    uuid: nv::nv_uuid,
    channel: u32,
    _addresses: Addresses,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let (client, channel) = (self.root.client, self.channel);
        let _ = if self.root.abi.unregister_uuid {
            self.root.uvm_back(nv::UVM_UNREGISTER_CHANNEL_PARAMS_580 {
                gpuUuid: self.uuid,
                hClient: client,
                hChannel: channel,
                rmStatus: 0,
            })
        } else {
            self.root.uvm_back(nv::UVM_UNREGISTER_CHANNEL_PARAMS {
                hClient: client,
                hChannel: channel,
                rmStatus: 0,
            })
        };
    }
}

/// A channel. Fields are dropped in their order: what hangs below something comes before it.
#[derive(Debug)]
pub(super) struct Channel {
    _registered: Registered,
    debugger: Option<Object>,
    _engine: Object,
    channel: Object,
    _share: Object,
    notes: Notes,
    ring: Bo,
    pub(super) plan: Plan,
    token: u32,
}

impl Channel {
    fn new(gpu: &Arc<Gpu>, group: u32, plan: Plan) -> Result<Self, NoChannel> {
        let root = gpu.root();
        let chip = gpu.facts().chip;
        let bytes = plan.entries * ENTRY_BYTES;
        let ring_bytes = bytes.next_multiple_of(USERD);
        let request = VideoRequest::new(ring_bytes + USERD);
        let ring = Bo::video(gpu, request.host_visible().contiguous())?;
        clear(&ring)?;
        let notes = Notes::new(gpu, NOTIFIERS * size_of::<nv::NvNotification>())?;

        let mut params = nv::NV_CTXSHARE_ALLOCATION_PARAMETERS {
            hVASpace: gpu.vaspace(),
            flags: nv::NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT
                .put(nv::NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_ASYNC),
            ..Default::default()
        };
        let share = root
            .object_with(group, nv::FERMI_CONTEXT_SHARE_A, &mut params)
            .map_err(|refusal| none(gpu, "RM_ALLOC of a context", refusal))?;

        let mut params = nv::NV_CHANNEL_ALLOC_PARAMS {
            hObjectError: notes.handle(),
            gpFifoOffset: ring.address(),
            gpFifoEntries: u32::try_from(plan.entries).unwrap_or(u32::MAX),
            hContextShare: share.handle(),
            ..Default::default()
        };
        let ([memory, ..], [offset, ..]) = (&mut params.hUserdMemory, &mut params.userdOffset);
        (*memory, *offset) = (ring.handle(), ring_bytes as u64);
        let channel = root
            .object_with(group, chip.classes.channel.into(), &mut params)
            .map_err(|refusal| none(gpu, "RM_ALLOC of a channel", refusal))?;

        let engine = match plan.kind {
            QueueKind::Compute => root.object(channel.handle(), chip.classes.compute.into()),
            QueueKind::Copy => {
                // The copy engine that shares the group's list of work.
                let mut params = nv::NVB0B5_ALLOCATION_PARAMETERS {
                    version: nv::NVB0B5_ALLOCATION_PARAMETERS_VERSION_1,
                    engineType: nv::NV2080_ENGINE_TYPE_COPY0,
                };
                root.object_with(channel.handle(), chip.classes.copy.into(), &mut params)
            }
        };
        let engine = engine.map_err(|refusal| none(gpu, "RM_ALLOC of an engine", refusal))?;

        let debugger = match plan.kind {
            QueueKind::Compute => debugger(gpu, engine.handle()),
            QueueKind::Copy => None,
        };

        let mut params = nv::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS::default();
        let command = nv::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN;
        root.control(channel.handle(), command, &mut params)
            .map_err(|refusal| gpu.failed("GPFIFO_GET_WORK_SUBMIT_TOKEN", refusal))?;
        let registered = register(gpu, channel.handle())?;
        Ok(Self {
            _registered: registered,
            debugger,
            _engine: engine,
            channel,
            _share: share,
            notes,
            ring,
            plan,
            token: params.workSubmitToken,
        })
    }

    /// The ring's memory, and behind it USERD.
    pub(super) const fn ring(&self) -> &Bo {
        &self.ring
    }

    /// Bytes of the ring.
    pub(super) const fn ring_bytes(&self) -> usize {
        self.plan.entries * ENTRY_BYTES
    }

    /// Where in the ring's memory USERD is.
    pub(super) const fn userd(&self) -> usize {
        self.ring_bytes().next_multiple_of(USERD)
    }

    /// Bytes of USERD.
    pub(super) const fn userd_bytes(&self) -> usize {
        USERD
    }

    /// What the doorbell takes.
    pub(super) const fn token(&self) -> u32 {
        self.token
    }

    pub(super) const fn handle(&self) -> u32 {
        self.channel.handle()
    }

    pub(super) fn debugger(&self) -> Option<u32> {
        self.debugger.as_ref().map(Object::handle)
    }

    /// The error that the driver has noted for this channel: one of `ROBUST_CHANNEL_*`.
    pub(super) fn error(&self) -> Option<u32> {
        /// Word of `info32`, and of `info16` with `status` above it.
        const INFO: usize = 2;
        const STATUS: usize = 3;
        let word = |index: usize| {
            let start: NonNull<AtomicU32> = self.notes.cpu().cast();
            // SAFETY: the first notifier's, inside the mapping, which has whole pages.
            let at = unsafe { start.add(index) };
            // SAFETY: mapped as long as this lives; the driver writes whole words or halves of them.
            unsafe { at.as_ref() }.load(Ordering::Relaxed)
        };
        if word(STATUS) >> 16 == 0 {
            return None;
        }
        // ORDER: the driver writes the status last.
        fence(Ordering::Acquire);
        Some(word(INFO))
    }
}

/// A group with all channels of a device.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) channels: Vec<Channel>,
    object: Object,
    gpu: Arc<Gpu>,
}

impl Group {
    /// A group without channels.
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Self, Error> {
        let mut params = nv::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS {
            engineType: nv::NV2080_ENGINE_TYPE_GRAPHICS,
            hVASpace: gpu.vaspace(),
            ..Default::default()
        };
        let object = gpu
            .root()
            .object_with(gpu.device(), nv::KEPLER_CHANNEL_GROUP_A, &mut params)
            .map_err(|refusal| Error::from(none(gpu, "RM_ALLOC of a channel group", refusal)))?;
        Ok(Self {
            channels: Vec::new(),
            object,
            gpu: Arc::clone(gpu),
        })
    }

    /// One more channel.
    pub(super) fn add(&mut self, plan: Plan) -> Result<(), NoChannel> {
        let channel = Channel::new(&self.gpu, self.object.handle(), plan)?;
        self.channels.push(channel);
        Ok(())
    }

    /// Lets the channels run.
    pub(super) fn start(&self) -> Result<(), Error> {
        let mut params = nv::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS {
            bEnable: 1,
            ..Default::default()
        };
        let command = nv::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE;
        self.gpu
            .root()
            .control(self.object.handle(), command, &mut params)
            .map_err(|refusal| self.gpu.failed("GPFIFO_SCHEDULE", refusal))
    }
}

/// A channel or something of it that was refused.
fn none(gpu: &Gpu, operation: &str, refusal: Refusal) -> NoChannel {
    let hint = advice::rules(gpu.facts().rules).unwrap_or_else(|| advice::refused(refusal));
    let error = refusal.of(gpu.name(), operation, hint);
    if refusal.is_exhausted() {
        NoChannel::Exhausted(error)
    } else {
        NoChannel::Failed(error)
    }
}

/// Makes a ring and its USERD zero: a channel starts at entry 0.
fn clear(ring: &Bo) -> Result<(), Error> {
    let broken = Error::Internal("a ring that the host does not see");
    let Some(cpu) = ring.cpu() else {
        return Err(broken);
    };
    // SAFETY: just allocated and mapped with this many bytes; nobody else knows it yet (M1, M2).
    let mut region = unsafe { hcq_nostd::mem::Region::new(cpu, ring.len(), ring.address()) };
    region.fill(0, ring.len(), 0).map_err(|_| broken)
}

/// What tells of errors of programs; without it faults are known by their number only.
fn debugger(gpu: &Gpu, compute: u32) -> Option<Object> {
    let root = gpu.root();
    let mut params = nv::NV83DE_ALLOC_PARAMETERS {
        hDebuggerClient_Obsolete: 0,
        hAppClient: root.client,
        hClass3dObject: compute,
    };
    root.object_with(gpu.device(), nv::GT200_DEBUGGER, &mut params)
        .ok()
}

fn register(gpu: &Gpu, channel: u32) -> Result<Registered, Error> {
    let root = gpu.root();
    let out = Error::OutOfMemory {
        bytes: CHANNEL_ADDRESSES,
        errno: crate::seam::Errno::NOMEM,
    };
    let addresses = root
        .addresses(CHANNEL_ADDRESSES, CHANNEL_ADDRESSES)
        .ok_or(out)?;
    let mut argument = nv::UVM_REGISTER_CHANNEL_PARAMS {
        gpuUuid: gpu.uuid(),
        rmCtrlFd: root.ctl.handle().raw(),
        hClient: root.client,
        hChannel: channel,
        base: addresses.start(),
        length: addresses.len(),
        ..Default::default()
    };
    root.uvm(&mut argument)
        .map_err(|refusal| gpu.failed("UVM_REGISTER_CHANNEL", refusal))?;
    Ok(Registered {
        root: Arc::clone(root),
        uuid: gpu.uuid(),
        channel,
        _addresses: addresses,
    })
}
