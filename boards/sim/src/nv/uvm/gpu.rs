//! GPUs, their address spaces and channels join an address space and leave it: `uvm_va_space.c`, `uvm_user_channel.c`.

use hcq_uapi::nv::*;

use super::super::Nv;
use super::super::channel::ChannelEngine;
use super::super::memory::{HUGE_PAGE, SpaceId};
use super::super::queue::ChannelId;
use super::super::rm::Kind;
use super::{Member, Range, Use, last_of};
use crate::machine::FileId;

/// Bytes of what the context of a group on the graphics engine needs. Real sizes depend on the GPU; this is one of them.
const CONTEXT: u64 = HUGE_PAGE;

impl Nv {
    /// The GPU of a name.
    pub(super) fn by_uuid(&self, uuid: &nv_uuid) -> Option<usize> {
        self.gpus.iter().position(|gpu| gpu.gid == uuid.uuid)
    }

    /// `uvm_va_space_get_gpu_by_uuid`: a GPU that has joined.
    pub(super) fn member(&mut self, file: FileId, uuid: &nv_uuid) -> Result<usize, u32> {
        let gpu = self.by_uuid(uuid);
        let uvm = self.uvm(file)?;
        gpu.filter(|gpu| uvm.members.contains_key(gpu))
            .ok_or(NV_ERR_INVALID_DEVICE)
    }

    /// `uvm_va_space_get_gpu_by_uuid_with_gpu_va_space`: and that has an address space.
    pub(super) fn mapping_member(
        &mut self,
        file: FileId,
        uuid: &nv_uuid,
    ) -> Result<(usize, SpaceId), u32> {
        let gpu = self.member(file, uuid)?;
        let member = self.uvm(file)?.members.get(&gpu);
        let space = member.and_then(|member| member.space);
        Ok((gpu, space.ok_or(NV_ERR_INVALID_DEVICE)?))
    }

    /// `uvm_va_space_register_gpu`.
    pub(super) fn uvm_register_gpu(
        &mut self,
        file: FileId,
        args: &mut UVM_REGISTER_GPU_PARAMS,
    ) -> Result<(), u32> {
        self.uvm(file)?;
        let gpu = self
            .by_uuid(&args.gpu_uuid)
            .ok_or(NV_ERR_GPU_UUID_NOT_FOUND)?;
        if args.hSmcPartRef != 0 {
            // No GPU here is in parts.
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        let uvm = self.joinable(file)?;
        if uvm.members.contains_key(&gpu) {
            return Err(NV_ERR_INVALID_DEVICE);
        }
        uvm.members.insert(gpu, Member::default());
        (args.numaEnabled, args.numaNodeId) = (0, -1);
        Ok(())
    }

    /// `uvm_va_space_unregister_gpu`.
    pub(super) fn uvm_unregister_gpu(&mut self, file: FileId, uuid: &nv_uuid) -> Result<(), u32> {
        let gpu = self.member(file, uuid)?;
        let pairs: Vec<(usize, usize)> = self.uvm(file)?.peers.iter().copied().collect();
        for (a, b) in pairs {
            if a == gpu || b == gpu {
                self.part(file, a, b)?;
            }
        }
        let uvm = self.uvm(file)?;
        let member = uvm.members.remove(&gpu);
        uvm.mapped.retain(|&(on, _), _| on != gpu);
        if let Some(member) = member {
            self.leave(file, member);
        }
        // What the GPU has of memory that others have mapped.
        self.unmap_memory_of(file, gpu, None)
    }

    /// `uvm_va_space_register_gpu_va_space`, `nvGpuOpsDupAddressSpace`.
    pub(super) fn uvm_register_space(
        &mut self,
        file: FileId,
        args: &mut UVM_REGISTER_GPU_VASPACE_PARAMS,
    ) -> Result<(), u32> {
        let gpu = self.member(file, &args.gpuUuid)?;
        let client = self
            .clients
            .get(&args.hClient)
            .ok_or(NV_ERR_INVALID_CLIENT)?;
        let Kind::Space(id) = client.object(args.hVaSpace)?.kind else {
            return Err(NV_ERR_INVALID_OBJECT);
        };
        let space = self.spaces.get_mut(&id).ok_or(NV_ERR_INVALID_OBJECT)?;
        if space.gpu != gpu {
            return Err(NV_ERR_OTHER_DEVICE_FOUND);
        }
        if !space.external {
            return Err(NV_ERR_INVALID_FLAGS);
        }
        let member = self.joinable(file)?.members.get_mut(&gpu);
        let member = member.ok_or(NV_ERR_INVALID_DEVICE)?;
        if member.space.is_some() {
            return Err(NV_ERR_INVALID_DEVICE);
        }
        let space = self.spaces.get_mut(&id).ok_or(NV_ERR_INVALID_OBJECT)?;
        // `nvGpuOpsSetPageDirectory`: it has one already.
        if space.uvm.is_some() {
            return Err(NV_ERR_INVALID_STATE);
        }
        space.uvm = Some(file);
        if let Some(member) = self.uvm(file)?.members.get_mut(&gpu) {
            member.space = Some(id);
        }
        Ok(())
    }

    /// `uvm_va_space_unregister_gpu_va_space`.
    pub(super) fn uvm_unregister_space(&mut self, file: FileId, uuid: &nv_uuid) -> Result<(), u32> {
        let (gpu, _) = self.mapping_member(file, uuid)?;
        let uvm = self.uvm(file)?;
        uvm.mapped.retain(|&(on, _), _| on != gpu);
        let member = uvm.members.get_mut(&gpu).map(std::mem::take);
        if let Some(member) = member {
            self.leave(file, member);
        }
        Ok(())
    }

    /// A GPU's address space and channels leave: the channels stop, the pages go.
    pub(super) fn leave(&mut self, file: FileId, member: Member) {
        for channel in member.channels {
            self.release_channel(file, channel);
        }
        if let Some(id) = member.space {
            if let Some(space) = self.spaces.get_mut(&id) {
                space.uvm = None;
            }
            self.clear(id, 0, Some(u64::MAX));
            self.drop_space(id);
        }
    }

    /// `uvm_register_channel`, `nvGpuOpsVerifyChannel`: what the channel's context needs is mapped and bound.
    pub(super) fn uvm_register_channel(
        &mut self,
        file: FileId,
        args: &mut UVM_REGISTER_CHANNEL_PARAMS,
    ) -> Result<(), u32> {
        let (gpu, space) = self.mapping_member(file, &args.gpuUuid)?;
        let client = self
            .clients
            .get(&args.hClient)
            .ok_or(NV_ERR_INVALID_CLIENT)?;
        let object = client
            .object(args.hChannel)
            .map_err(|_| NV_ERR_INVALID_OBJECT_HANDLE)?;
        let Kind::Channel(id) = object.kind else {
            return Err(NV_ERR_INVALID_OBJECT_HANDLE);
        };
        let channel = self.channels.get(&id).ok_or(NV_ERR_INVALID_CHANNEL)?;
        if channel.gpu != gpu {
            return Err(NV_ERR_OTHER_DEVICE_FOUND);
        }
        if channel.space != space {
            return Err(NV_ERR_INVALID_CHANNEL);
        }
        let group = channel.group;
        let graphics = self.groups.get(&group).map(|group| group.engine);
        let uvm = self.uvm(file)?;
        let joined = |member: &Member| member.channels.contains(&id);
        if uvm.members.values().any(joined) {
            return Err(NV_ERR_INVALID_CHANNEL);
        }
        if graphics == Some(ChannelEngine::Graphics) {
            let last = last_of(args.base, args.length)?;
            let known = uvm
                .ranges
                .values_mut()
                .find_map(|range| match &mut range.what {
                    Use::Context { group: of, uses } if *of == group => Some(uses),
                    _ => None,
                });
            match known {
                Some(uses) => *uses += 1,
                None => {
                    let start = free_place(uvm, args.base, last)?;
                    let range = Range {
                        last: start + CONTEXT - 1,
                        what: Use::Context { group, uses: 1 },
                    };
                    uvm.ranges.insert(start, range);
                }
            }
        }
        if let Some(member) = uvm.members.get_mut(&gpu) {
            member.channels.insert(id);
        }
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.bound = true;
        }
        Ok(())
    }

    /// `uvm_unregister_channel`: the channel stops for good.
    pub(super) fn uvm_unregister_channel(
        &mut self,
        file: FileId,
        client: u32,
        handle: u32,
    ) -> Result<(), u32> {
        self.uvm(file)?;
        let owner = self.clients.get(&client).ok_or(NV_ERR_INVALID_CHANNEL)?;
        let object = owner.object(handle).map_err(|_| NV_ERR_INVALID_CHANNEL)?;
        let Kind::Channel(id) = object.kind else {
            return Err(NV_ERR_INVALID_CHANNEL);
        };
        let members = &mut self.uvm(file)?.members;
        let mut members = members.values_mut();
        if !members.any(|member| member.channels.remove(&id)) {
            return Err(NV_ERR_INVALID_CHANNEL);
        }
        self.release_channel(file, id);
        Ok(())
    }

    /// A channel is no more UVM's: `nvUvmInterfaceStopChannel`.
    fn release_channel(&mut self, file: FileId, id: ChannelId) {
        let Some(channel) = self.channels.get_mut(&id) else {
            return;
        };
        (channel.bound, channel.stopped) = (false, true);
        let group = channel.group;
        if let Ok(uvm) = self.uvm(file) {
            drop_context(uvm, group);
        }
    }

    /// A channel is freed while UVM knows it: its context goes with it.
    pub(in crate::nv) fn forget_channel(
        &mut self,
        id: ChannelId,
        group: super::super::queue::GroupId,
    ) {
        for open in self.files.values_mut() {
            let super::UvmFile::Space(uvm) = &mut open.uvm else {
                continue;
            };
            let mut members = uvm.members.values_mut();
            if members.any(|member| member.channels.remove(&id)) {
                drop_context(uvm, group);
            }
        }
    }

    /// `uvm_api_enable_peer_access`: both have joined, are two, and can reach each other.
    pub(super) fn uvm_enable_peers(
        &mut self,
        file: FileId,
        a: &nv_uuid,
        b: &nv_uuid,
    ) -> Result<(), u32> {
        let (a, b) = (self.member(file, a)?, self.member(file, b)?);
        if a == b {
            return Err(NV_ERR_INVALID_DEVICE);
        }
        if !self.p2p {
            return Err(NV_ERR_NOT_SUPPORTED);
        }
        let uvm = self.uvm(file)?;
        if !uvm.peers.insert((a.min(b), a.max(b))) {
            return Err(NV_ERR_INVALID_DEVICE);
        }
        Ok(())
    }

    /// `uvm_api_disable_peer_access`: mappings of each other's memory go.
    pub(super) fn uvm_disable_peers(
        &mut self,
        file: FileId,
        a: &nv_uuid,
        b: &nv_uuid,
    ) -> Result<(), u32> {
        let (a, b) = (self.member(file, a)?, self.member(file, b)?);
        if !self.uvm(file)?.peers.contains(&(a.min(b), a.max(b))) {
            return Err(NV_ERR_INVALID_DEVICE);
        }
        self.part(file, a, b)
    }

    fn part(&mut self, file: FileId, a: usize, b: usize) -> Result<(), u32> {
        self.uvm(file)?.peers.remove(&(a.min(b), a.max(b)));
        self.unmap_memory_of(file, a, Some(b))?;
        self.unmap_memory_of(file, b, Some(a))
    }
}

/// `find_va_in_range`: a free place for a context within a range.
fn free_place(uvm: &super::Uvm, base: u64, last: u64) -> Result<u64, u32> {
    let mut at = base.next_multiple_of(HUGE_PAGE);
    loop {
        let end = at.checked_add(CONTEXT - 1).ok_or(NV_ERR_INVALID_ADDRESS)?;
        if end > last {
            return Err(NV_ERR_INVALID_ADDRESS);
        }
        let taken = uvm.at(at).or_else(|| {
            let mut within = uvm.ranges.range(at..=end);
            within.next().map(|(&start, range)| (start, range))
        });
        match taken {
            None => return Ok(at),
            Some((_, range)) => {
                let next = range.last.checked_add(1);
                let next = next.and_then(|next| next.checked_next_multiple_of(HUGE_PAGE));
                at = next.ok_or(NV_ERR_INVALID_ADDRESS)?;
            }
        }
    }
}

/// One channel less needs a group's context.
fn drop_context(uvm: &mut super::Uvm, group: super::super::queue::GroupId) {
    uvm.ranges.retain(|_, range| match &mut range.what {
        Use::Context { group: of, uses } if *of == group => {
            *uses = uses.saturating_sub(1);
            *uses > 0
        }
        _ => true,
    });
}
