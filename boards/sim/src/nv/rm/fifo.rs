//! Groups of channels, channels, and what is on them: `kernel_channel_group_api.c`, `kernel_ctxshare.c`, `kernel_channel.c`,
//! `channel_descendant.c`, `kernel_sm_debugger_session.c`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hcq_uapi::nv::*;

use super::super::channel::{
    ChannelEngine, ChannelMemory, ChannelRequest, Objects, USERD_BYTES, Userd,
};
use super::super::memory::{Memory, Place, SMALL_PAGE, SpaceId, block};
use super::super::queue::{Channel, ChannelId, Group, GroupId};
use super::super::{Nv, engine};
use super::{Kind, Making};
use crate::vm::Backing;

/// `NVOS04_FLAGS_CHANNEL_TYPE`: only physical channels, 0.
const CHANNEL_TYPE: u32 = 3;
/// Channels of a runlist: what a token has room for.
const CHANNELS: u32 = 1 << 12;
/// Bytes of a ring's entry.
const ENTRY: u64 = 8;
/// `NV_CHANNELGPFIFO_NOTIFICATION_TYPE_WORK_SUBMIT_TOKEN`: the second notifier of a channel holds its token.
const TOKEN_NOTIFIER: u64 = 1;
/// Bytes of a notifier.
pub(in crate::nv) const NOTIFIER: u64 = size_of::<NvNotification>() as u64;

impl Nv {
    /// `gpuGetRmEngineType`, as far as these GPUs have engines for channels.
    pub(super) fn engine_of(&self, kind: u32) -> Result<ChannelEngine, u32> {
        if kind == NV2080_ENGINE_TYPE_GRAPHICS {
            return Ok(ChannelEngine::Graphics);
        }
        let copy = kind.checked_sub(NV2080_ENGINE_TYPE_COPY0);
        match copy.filter(|&copy| copy < self.chip.copy_engines) {
            Some(copy) => Ok(ChannelEngine::Copy(copy)),
            None => Err(NV_ERR_INVALID_ARGUMENT),
        }
    }

    /// `kchannelGetNotifierInfo`: memory for notifiers, with room for one at least.
    fn notifier(&self, client: u32, handle: u32) -> Result<Option<Arc<Memory>>, u32> {
        if handle == 0 {
            return Ok(None);
        }
        let owner = self.clients.get(&client).ok_or(NV_ERR_INVALID_CLIENT)?;
        match &owner.object(handle)?.kind {
            Kind::Memory(memory) if memory.holds(0, NOTIFIER) => Ok(Some(Arc::clone(memory))),
            _ => Err(NV_ERR_INVALID_OBJECT),
        }
    }

    fn add_group(&mut self, group: Group) -> GroupId {
        self.next_group += 1;
        self.groups.insert(self.next_group, group);
        self.next_group
    }

    /// `kchangrpapiConstruct_IMPL`. Since Ampere an engine must be named.
    pub(super) fn make_group(&mut self, making: &Making) -> Result<(Kind, Vec<u32>), u32> {
        let params: NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS = self.params(making.params)?;
        let gpu = making.gpu.ok_or(NV_ERR_INVALID_OBJECT_PARENT)?;
        let engine = self.engine_of(params.engineType)?;
        let error = self.notifier(making.client, params.hObjectError)?;
        let mut needs = Vec::new();
        let space = if params.hVASpace != 0 {
            needs.push(params.hVASpace);
            Some(self.space_or_default(making.client, making.parent, params.hVASpace)?)
        } else {
            // A device without an address space of its own leaves it to the contexts.
            self.space_or_default(making.client, making.parent, 0).ok()
        };
        self.same_gpu(space, gpu)?;
        let group = self.add_group(Group {
            engine,
            space,
            enabled: false,
            broken: false,
            shares: None,
            own: false,
            error,
            fault: None,
            sm_error: None,
        });
        Ok((Kind::Group(group), needs))
    }

    fn same_gpu(&self, space: Option<SpaceId>, gpu: usize) -> Result<(), u32> {
        match space.and_then(|space| self.spaces.get(&space)) {
            Some(space) if space.gpu != gpu => Err(NV_ERR_INVALID_OBJECT_HANDLE),
            _ => Ok(()),
        }
    }

    /// `kctxshareapiConstruct_IMPL`.
    pub(super) fn make_share(&mut self, making: &Making) -> Result<(Kind, Vec<u32>), u32> {
        let mut params: NV_CTXSHARE_ALLOCATION_PARAMETERS = self.params(making.params)?;
        let group = self.group_of(making.client, making.parent)?;
        let gpu = making.gpu.ok_or(NV_ERR_INVALID_OBJECT_PARENT)?;
        let space = self.space_or_default(making.client, making.parent, params.hVASpace)?;
        self.same_gpu(Some(space), gpu)?;
        let wanted = NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT.get(params.flags);
        params.subctxId = match wanted {
            NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_SYNC => 0,
            NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_ASYNC => 1,
            // `NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_SPECIFIED`.
            2 if params.subctxId < 64 => params.subctxId,
            _ => return Err(NV_ERR_INVALID_ARGUMENT),
        };
        self.give(making.params, &params)?;
        let needs = Some(params.hVASpace).filter(|&handle| handle != 0);
        Ok((Kind::Share { group, space }, needs.into_iter().collect()))
    }

    fn group_of(&self, client: u32, handle: u32) -> Result<GroupId, u32> {
        let owner = self.clients.get(&client).ok_or(NV_ERR_INVALID_CLIENT)?;
        match owner.object(handle)?.kind {
            Kind::Group(group) => Ok(group),
            _ => Err(NV_ERR_INVALID_OBJECT_HANDLE),
        }
    }

    /// `kchannelConstruct_IMPL`.
    pub(super) fn make_channel(&mut self, making: &Making) -> Result<(Kind, Vec<u32>), u32> {
        let mut params: NV_CHANNEL_ALLOC_PARAMS = self.params(making.params)?;
        let gpu = making.gpu.ok_or(NV_ERR_INVALID_OBJECT_PARENT)?;
        if params.flags & CHANNEL_TYPE != 0 {
            return Err(NV_ERR_NOT_SUPPORTED);
        }
        if params.hContextShare != 0 && params.hVASpace != 0 {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        if !self.chip.has_gpfifo(making.class) {
            return Err(NV_ERR_INVALID_CLASS);
        }
        check_ring(&params)?;
        let mut needs = Vec::new();
        let place = self.channel_group(making, &params, gpu, &mut needs);
        let (group, space) = place?;
        let made = self.finish_channel(making, &mut params, gpu, group, space);
        if made.is_err() && self.groups.get(&group).is_some_and(|group| group.own) {
            self.groups.remove(&group);
        }
        Ok((Kind::Channel(made?), needs))
    }

    /// The group of a new channel, and its address space. A channel without a group gets one of the kernel's.
    fn channel_group(
        &mut self,
        making: &Making,
        params: &NV_CHANNEL_ALLOC_PARAMS,
        gpu: usize,
        needs: &mut Vec<u32>,
    ) -> Result<(GroupId, SpaceId), u32> {
        let Ok(group) = self.group_of(making.client, making.parent) else {
            if params.hContextShare != 0 {
                return Err(NV_ERR_INVALID_ARGUMENT);
            }
            let engine = self.engine_of(params.engineType)?;
            let space = self.space_or_default(making.client, making.parent, params.hVASpace)?;
            self.same_gpu(Some(space), gpu)?;
            needs.extend(Some(params.hVASpace).filter(|&handle| handle != 0));
            let group = self.add_group(Group {
                engine,
                space: Some(space),
                enabled: false,
                broken: false,
                shares: Some(false),
                own: true,
                error: None,
                fault: None,
                sm_error: None,
            });
            return Ok((group, space));
        };
        if params.hVASpace != 0 {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        let state = self.groups.get(&group).ok_or(NV_ERR_INVALID_OBJECT)?;
        // An engine that is named must be the group's.
        if let Ok(engine) = self.engine_of(params.engineType)
            && engine != state.engine
        {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        let share = params.hContextShare != 0;
        if state.shares.is_some_and(|shares| shares != share) {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        let space = if share {
            let owner = self
                .clients
                .get(&making.client)
                .ok_or(NV_ERR_INVALID_CLIENT)?;
            let object = owner.object(params.hContextShare)?;
            let Kind::Share { group: of, space } = object.kind else {
                return Err(NV_ERR_INVALID_OBJECT);
            };
            if of != group || object.parent != making.parent {
                return Err(NV_ERR_INVALID_OBJECT_PARENT);
            }
            needs.push(params.hContextShare);
            space
        } else {
            state.space.ok_or(NV_ERR_INVALID_STATE)?
        };
        Ok((group, space))
    }

    fn finish_channel(
        &mut self,
        making: &Making,
        params: &mut NV_CHANNEL_ALLOC_PARAMS,
        gpu: usize,
        group: GroupId,
        space: SpaceId,
    ) -> Result<ChannelId, u32> {
        let own_error = self.notifier(making.client, params.hObjectError)?;
        let (userd, own_userd) = self.userd(making.client, gpu, params)?;
        let state = self.groups.get_mut(&group).ok_or(NV_ERR_INVALID_OBJECT)?;
        let runs_on = state.engine;
        let error = own_error.or_else(|| state.error.clone());
        let runlist = match runs_on {
            ChannelEngine::Graphics => 0,
            ChannelEngine::Copy(copy) => copy + 1,
        };
        let taken = |number: u32| {
            let token = runlist << 16 | number;
            self.channels
                .values()
                .any(|channel| channel.gpu == gpu && channel.token == token)
        };
        let number = (0..CHANNELS)
            .find(|&number| !taken(number))
            .ok_or(NV_ERR_INSUFFICIENT_RESOURCES)?;
        let objects = Objects::default();
        let request = ChannelRequest {
            chip: self.chip,
            class: making.class,
            engine: runs_on,
            channel: number,
            memory: ChannelMemory {
                gpfifo: params.gpFifoOffset,
                entries: params.gpFifoEntries,
                userd: userd.clone(),
            },
            objects: objects.clone(),
        };
        self.next_channel += 1;
        let id = self.next_channel;
        params.cid = id;
        self.give(making.params, params)?;
        let engine = engine(&request);
        if engine.is_none() {
            self.report(format!(
                "channel {id}: nobody simulates channels of class {:#x} of {}",
                making.class, self.chip.gpu
            ));
        }
        if let Some(state) = self.groups.get_mut(&group) {
            state.shares = Some(params.hContextShare != 0);
        }
        let external = self.spaces.get(&space).is_some_and(|space| space.external);
        let channel = Channel {
            gpu,
            group,
            class: making.class,
            token: runlist << 16 | number,
            space,
            userd,
            own_userd,
            objects,
            engine,
            turn: self.order.turn(0),
            bound: !external,
            stopped: false,
            put: 0,
            rings: 0,
            error,
            fault: None,
        };
        self.channels.insert(id, channel);
        Ok(id)
    }

    /// `kchannelCreateUserdMemDesc_GV100`: a channel's control words, in memory of the process's choice or RM's.
    fn userd(
        &mut self,
        client: u32,
        gpu: usize,
        params: &NV_CHANNEL_ALLOC_PARAMS,
    ) -> Result<(Userd, Option<Arc<Memory>>), u32> {
        let ([handle, ..], [offset, ..]) = (params.hUserdMemory, params.userdOffset);
        if handle == 0 {
            let (words, bytes) = block(&self.store, SMALL_PAGE, SMALL_PAGE)?;
            let memory = Memory {
                gpu,
                place: Place::Video,
                bytes,
                page: SMALL_PAGE,
                backing: Backing::Block(Arc::clone(&words)),
                read_only: false,
                physical: 0,
                charge: None,
                host_maps: Mutex::new(BTreeMap::new()),
            };
            return Ok((Userd::new(words, 0), Some(Arc::new(memory))));
        }
        let owner = self.clients.get(&client).ok_or(NV_ERR_INVALID_CLIENT)?;
        let object = owner.object(handle).map_err(|_| NV_ERR_OBJECT_NOT_FOUND)?;
        let Kind::Memory(memory) = &object.kind else {
            return Err(NV_ERR_OBJECT_NOT_FOUND);
        };
        if !offset.is_multiple_of(USERD_BYTES) || !memory.holds(offset, USERD_BYTES) {
            return Err(NV_ERR_INVALID_ADDRESS);
        }
        // What the process has lent is not read behind its back here: control words must be RM's.
        let block = memory.block().ok_or(NV_ERR_INVALID_ADDRESS)?;
        if memory.place == Place::Doorbells {
            return Err(NV_ERR_INVALID_ADDRESS);
        }
        Ok((Userd::new(Arc::clone(block), offset), None))
    }

    /// A channel goes: what it does stops.
    pub(super) fn free_channel(&mut self, id: ChannelId) {
        let Some(channel) = self.channels.remove(&id) else {
            return;
        };
        self.forget_channel(id, channel.group);
        if self
            .groups
            .get(&channel.group)
            .is_some_and(|group| group.own)
        {
            self.groups.remove(&channel.group);
        }
    }

    /// `chandesConstruct_IMPL`: an engine's class on a channel of that engine. Copies run beside graphics too.
    pub(super) fn make_engine(&mut self, making: &Making) -> Result<Kind, u32> {
        let id = self.channel_of(making.client, making.parent)?;
        let channel = self.channels.get(&id).ok_or(NV_ERR_INVALID_OBJECT_PARENT)?;
        let on = self.groups.get(&channel.group).map(|group| group.engine);
        let copy = making.class == self.chip.copy;
        let compute = making.class == self.chip.compute;
        let fits = match on {
            Some(ChannelEngine::Graphics) => copy || compute,
            Some(ChannelEngine::Copy(_)) => copy,
            None => false,
        };
        if !fits {
            return Err(NV_ERR_INVALID_CLASS);
        }
        if copy && making.params != 0 {
            let params: NVB0B5_ALLOCATION_PARAMETERS = self.params(making.params)?;
            let engine = match params.version {
                NVB0B5_ALLOCATION_PARAMETERS_VERSION_0 => params.engineType,
                NVB0B5_ALLOCATION_PARAMETERS_VERSION_1 => params
                    .engineType
                    .checked_sub(NV2080_ENGINE_TYPE_COPY0)
                    .ok_or(NV_ERR_INVALID_ARGUMENT)?,
                _ => return Err(NV_ERR_INVALID_ARGUMENT),
            };
            if engine >= self.chip.copy_engines {
                return Err(NV_ERR_INVALID_ARGUMENT);
            }
        }
        channel.objects.add(making.class);
        Ok(Kind::Engine(id))
    }

    pub(super) fn channel_of(&self, client: u32, handle: u32) -> Result<ChannelId, u32> {
        let owner = self.clients.get(&client).ok_or(NV_ERR_INVALID_CLIENT)?;
        match owner.object(handle)?.kind {
            Kind::Channel(channel) => Ok(channel),
            _ => Err(NV_ERR_INVALID_OBJECT_HANDLE),
        }
    }

    /// `ksmdbgssnConstruct_IMPL`: a debugger of a client's own compute object, or of another's of the same process.
    pub(super) fn make_debugger(
        &mut self,
        file: crate::machine::FileId,
        making: &Making,
    ) -> Result<(Kind, Vec<u32>), u32> {
        let params: NV83DE_ALLOC_PARAMETERS = self.params(making.params)?;
        if params.hDebuggerClient_Obsolete != 0 {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        let app = match params.hAppClient {
            0 => making.client,
            other => other,
        };
        let owner = self.client(file, app)?;
        let object = owner
            .object(params.hClass3dObject)
            .map_err(|_| NV_ERR_INVALID_OBJECT_PARENT)?;
        let channel = match object.kind {
            Kind::Engine(channel) if object.class == self.chip.compute => channel,
            _ => return Err(NV_ERR_INVALID_OBJECT),
        };
        if owner.gpu_of(params.hClass3dObject) != making.gpu {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        let needs = if app == making.client {
            vec![params.hClass3dObject]
        } else {
            Vec::new()
        };
        Ok((Kind::Debugger(channel), needs))
    }

    /// `kchannelIsSchedulable_IMPL`: a context in an address space of somebody else's must have been bound by them.
    fn schedulable(&self, group: GroupId) -> bool {
        let graphics = self
            .groups
            .get(&group)
            .is_some_and(|group| group.engine == ChannelEngine::Graphics);
        let mut channels = self.channels.values();
        !graphics || channels.all(|channel| channel.group != group || channel.bound)
    }

    /// `kchangrpapiCtrlCmdGpFifoSchedule_IMPL`.
    pub(super) fn schedule(&mut self, group: GroupId, enable: bool) -> Result<(), u32> {
        if !self.schedulable(group) {
            return Err(NV_ERR_INVALID_STATE);
        }
        let state = self.groups.get_mut(&group).ok_or(NV_ERR_INVALID_OBJECT)?;
        if enable && state.broken {
            return Err(NV_ERR_INVALID_STATE);
        }
        state.enabled = enable;
        Ok(())
    }

    /// `kchannelCtrlCmdGpfifoGetWorkSubmitToken_IMPL`: the token, which a notifier gets as well if there is room for one.
    pub(super) fn submit_token(&mut self, id: ChannelId) -> Result<u32, u32> {
        let channel = self.channels.get(&id).ok_or(NV_ERR_INVALID_CHANNEL)?;
        let at = TOKEN_NOTIFIER * NOTIFIER;
        if let Some(error) = &channel.error
            && error.holds(at, NOTIFIER)
        {
            error.put32(at + 8, channel.token);
        }
        Ok(channel.token)
    }
}

/// What a ring must be.
fn check_ring(params: &NV_CHANNEL_ALLOC_PARAMS) -> Result<(), u32> {
    let entries = params.gpFifoEntries;
    let bytes = u64::from(entries) * ENTRY;
    let end = params.gpFifoOffset.checked_add(bytes);
    // `NV_RAMFC_GP_BASE_HI_LIMIT2` keeps the logarithm of their number.
    let fits = entries.is_power_of_two() && end.is_some();
    if fits && params.gpFifoOffset.is_multiple_of(ENTRY) {
        Ok(())
    } else {
        Err(NV_ERR_INVALID_ARGUMENT)
    }
}
